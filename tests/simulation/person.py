"""What the person wants with each question, and everything they really said: the measure of what
apps are given.

A question is known by its number, which stands in its words. What it is asked as, in a form, on
buttons or on a page, the person reads as a person does: by labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = Any

NUMBER = re.compile(r"No\.(\d+)\b")
DONE = {"accept": "accepted", "decline": "declined", "dismiss": "cancelled"}


@dataclass
class Asked:
    """One question of an app's.

    Attributes:
        request: `{method, params}` as the app sent it.
        wish: What the person does: accept, decline, dismiss, or ignore.
        data: What they accept it with, as ABP has it.
        given: Each data that they really gave, by whatever way.
        said: Each outcome that they really said.
        call: The call it was asked in.
        is_left_behind: The app does not wait for the answer: the call may end before it.
        withdrawn: Its app crashed: nobody is there to take an answer.
    """

    number: int
    request: Json
    wish: str
    data: Json
    given: list[Json] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    call: str = ""
    is_left_behind: bool = False
    withdrawn: bool = False

    def accept(self) -> Json:
        self.given.append(self.data)
        self.said.add("accepted")
        return self.data

    def leave(self, how: str) -> None:
        self.said.add(DONE[how])


class Person:
    """Decides by `rng`; `ignores` is how likely a question is never looked at."""

    def __init__(self, rng: Random, ignores: float) -> None:
        self._rng = rng
        self._ignores = ignores
        self.asked: dict[int, Asked] = {}

    def expect(self, request: Json, data: Json, call: str) -> Asked:
        """An app is about to ask this."""
        wish = self._rng.choices(
            ["accept", "decline", "dismiss", "ignore"], [0.7, 0.1, 0.1, self._ignores]
        )[0]
        number = len(self.asked) + 1
        params = {word: self._name(value, number) for word, value in request["params"].items()}
        data = {word: self._name(value, number) for word, value in data.items()}
        asked = Asked(number, {**request, "params": params}, wish, data, call=call)
        self.asked[number] = asked
        return asked

    def _name(self, value: Json, number: int) -> Json:
        """No two questions have one answer: what is swapped shows."""
        if isinstance(value, list):
            return [self._name(each, number) for each in value]
        return value.replace("#", f"No.{number}") if isinstance(value, str) else value

    def recognise(self, words: str) -> Asked:
        found = NUMBER.search(words)
        assert found is not None, f"which question is this: {words}"
        return self.asked[int(found[1])]

    def delay(self) -> float:
        """Seconds from seeing a question to the answer: nobody is faster than they read."""
        return min(2 + self._rng.lognormvariate(2, 1), 100.0)

    def fill(self, asked: Asked, schema: Json) -> Json:
        """The form's content: the same data, as its fields have it."""
        return {
            name: _as_field(part, asked.data, name) for name, part in schema["properties"].items()
        }

    def press(self, asked: Asked, options: Sequence[Mapping[str, str]]) -> str | None:
        """The id of the button: the answer's own, or the way to it; None to dismiss."""
        if asked.wish == "dismiss":
            asked.leave("dismiss")
            return None
        value = next(iter(asked.data.values()))
        if isinstance(value, bool):
            kind = "allow_once" if value and asked.wish == "accept" else "reject_once"
            pressed = next(each for each in options if each["kind"] == kind)
            asked.given.append({"confirmed": kind == "allow_once"})
            return str(pressed["optionId"])
        if asked.wish == "decline":
            skip = next((each for each in options if each["kind"] == "reject_once"), None)
            if skip is not None:
                asked.leave("decline")
                return skip["optionId"]
        else:
            named = next((each for each in options if each["name"].startswith(value)), None)
            if named is not None:
                asked.accept()
                return named["optionId"]
        more = next(each for each in options if each["name"].startswith("More"))
        return more["optionId"]


def _as_field(part: Json, data: Json, name: str) -> Json:
    value = data.get(name)
    choices = [each["const"] for each in part.get("oneOf", ())] or part.get("enum")
    if isinstance(value, bool) and choices:  # a destructive confirm: the safe answer is first
        return choices[int(value)]
    return value
