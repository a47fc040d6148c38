"""The user or a policy, and what either really answered.

A question is known by the number in its text. The user reads it in a form, on buttons, on a page or
by labels; a policy reads nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = Any

NUMBER = re.compile(r"No\.(\d+)\b")
DONE = {"accept": "accepted", "decline": "declined", "dismiss": "cancelled", "ignore": "cancelled"}
IN_TIME = 598.0  # seconds: a person's 600, without the ways there and back
APART = 1.0  # seconds that a person's times differ by: a timer's would not


@dataclass
class Asked:
    """One question of an app."""

    number: int
    request: Json  # `{method, params}` as the app sent it
    wish: str  # what the person does: accept, decline, dismiss, or ignore
    data: Json  # what they accept it with, as ABP has it
    said: list[tuple[str, str, Json]] = field(default_factory=list)  # (who, outcome, data)
    is_left_behind: bool = False  # the app does not wait for the answer: the call may end before it
    withdrawn: bool = False  # its app crashed: nobody is there to take an answer
    began: float = 0.0  # when it was asked, in seconds of the loop's clock
    brought: float | None = None  # when its host brought it

    @property
    def is_late(self) -> bool:
        return self.brought is not None and self.brought - self.began > IN_TIME

    @property
    def value(self) -> Json:
        return next(iter(self.data.values()))

    def as_data(self, value: Json) -> Json:
        return dict.fromkeys(self.data, value)


class Person:
    """Decides by `rng`; `ignores` is how likely a question is never looked at."""

    who = "person"

    def __init__(self, rng: Random, ignores: float) -> None:
        self._rng = rng
        self._ignores = ignores
        self._last = deque([0.0], maxlen=4)  # seconds
        self.asked: dict[int, Asked] = {}

    def expect(self, request: Json, data: Json) -> Asked:
        wish = self._rng.choices(
            ["accept", "decline", "dismiss", "ignore"], [0.7, 0.1, 0.1, self._ignores]
        )[0]
        number = len(self.asked) + 1
        params = {word: self._name(value, number) for word, value in request["params"].items()}
        data = {word: self._name(value, number) for word, value in data.items()}
        asked = self.asked[number] = Asked(number, {**request, "params": params}, wish, data)
        asked.began = asyncio.get_running_loop().time()
        return asked

    def _name(self, value: Json, number: int) -> Json:
        """No two questions have one answer: what is swapped shows."""
        if isinstance(value, list):
            return [self._name(each, number) for each in value]
        if isinstance(value, dict):
            return {word: self._name(each, number) for word, each in value.items()}
        return value.replace("#", f"No.{number}") if isinstance(value, str) else value

    def recognise(self, words: str) -> Asked:
        found = NUMBER.search(words)
        assert found is not None, f"which question is this: {words}"
        return self.asked[int(found[1])]

    async def wait(self, asked: Asked) -> None:
        """From seeing a question to the answer: nobody is faster than they read."""
        delay = self._last[-1]
        while min(abs(delay - each) for each in self._last) < APART:
            delay = 2 + self._rng.uniform(0, 8) + min(self._rng.lognormvariate(1, 1), 90.0)
        self._last.append(delay)
        await asyncio.sleep(delay)
        if asked.wish == "ignore":
            await asyncio.Event().wait() if self._rng.random() < 0.5 else await asyncio.sleep(9_000)

    def say(self, asked: Asked, data: Json = None, left: str = "") -> str:
        outcome = left or self._leave(asked) if data is None else "accepted"
        asked.said.append((self.who, outcome, data))
        return outcome

    def _leave(self, asked: Asked) -> str:
        return DONE[asked.wish]

    def fill(self, asked: Asked, schema: Json) -> Json:
        """A form's content, the same data as its fields have it; None to leave it."""
        if asked.wish != "accept":
            return None
        self.say(asked, asked.data)
        return {
            name: _as_field(part, asked.data.get(name))
            for name, part in schema["properties"].items()
        }

    def press(self, asked: Asked, options: Sequence[Mapping[str, str]]) -> str | None:
        """The id of the button: the answer's own, or the way to it; None to dismiss."""
        if asked.wish in ("dismiss", "ignore"):
            self.say(asked)
            return None
        if isinstance(asked.value, bool):
            pressed = _of_kind(options, asked.value and asked.wish == "accept")
            self.say(asked, asked.as_data(pressed["kind"] == "allow_once"))
            return pressed["optionId"]
        if asked.wish == "decline":
            if any(each["kind"] == "reject_once" for each in options):
                self.say(asked)
                return _of_kind(options, False)["optionId"]
        else:
            ways = (asked.value, f"Keep: {asked.value}")
            named = [each for each in options if each["name"].startswith(ways)]
            if named:
                self.say(asked, asked.data)
                return named[0]["optionId"]
        return next(each["optionId"] for each in options if each["name"].startswith("More"))

    def choose(self, asked: Asked, labels: Sequence[str]) -> str | None:
        """One of the labels, or what is typed in their place; None to reject it."""
        if asked.wish != "accept":
            self.say(asked, left="declined")
            return None
        self.say(asked, asked.data)
        if isinstance(asked.value, bool):
            return next(each for each in labels if each.startswith("No") is not asked.value)
        return str(asked.value)

    async def wait_to_type(self, asked: Asked) -> None:
        await self.wait(asked)

    def type_reply(self, asked: Asked) -> str:
        """A message: the answer itself, or a way to give none."""
        if asked.wish != "accept":
            outcome = self.say(asked)
            ways = ["/decline", "no answer"] if outcome == "declined" else ["/cancel"]
            return self._rng.choice(ways)
        self.say(asked, asked.data)
        if isinstance(asked.value, bool):
            return "yes" if asked.value else "no"
        return self._rng.choice(["", "/answer "]) + str(asked.value)


POLICIES = {  # what each does, and its least and most seconds for it
    "an instant yes": ("yes", 0.0, 0.0),
    "an instant no": ("decline", 0.0, 0.0),
    "the first option": ("first", 0.5, 20.0),
    "the default": ("default", 0.5, 20.0),
    "a steady yes": ("yes", 0.2, 0.2),
    "headless": ("dismiss", 0.05, 0.39),
}


class Policy(Person):
    """What answers where nobody sits, each time the same; it knows `person`'s questions."""

    who = "policy"

    def __init__(self, person: Person, rng: Random, name: str) -> None:
        self.does, *self._seconds = POLICIES[name]
        self._rng = rng
        self.asked = person.asked

    async def wait(self, asked: Asked) -> None:
        await asyncio.sleep(self._rng.uniform(*self._seconds))

    def _leave(self, asked: Asked) -> str:
        return DONE.get(self.does, "declined")

    def fill(self, asked: Asked, schema: Json) -> Json:
        if self.does in DONE:
            return None
        content = {name: self._pick(part) for name, part in schema["properties"].items()}
        content = {name: value for name, value in content.items() if value is not None}
        if isinstance(asked.value, bool):  # a plain "go on?" has no fields
            yes = [_as_field(part, True) for part in schema["properties"].values()]
            self.say(asked, asked.as_data(list(content.values()) == yes))
        else:
            several = len(asked.data) > 1
            self.say(asked, content if several else content and asked.as_data(*content.values()))
        return content

    def _pick(self, part: Json) -> Json:
        if self.does == "default":
            return part.get("default")
        if part["type"] == "boolean":
            return True
        choices = _choices(part) or [part.get("default", ""), "words"]
        return choices[-1 if self.does == "yes" else 0]

    def press(self, asked: Asked, options: Sequence[Mapping[str, str]]) -> str | None:
        if self.does == "dismiss":
            self.say(asked)
            return None
        pressed = options[0] if self.does in ("first", "default") else None
        pressed = pressed or _of_kind(options, self.does == "yes")
        is_yes = pressed["kind"] == "allow_once"
        if isinstance(asked.value, bool):
            self.say(asked, asked.as_data(is_yes))
        elif not pressed["name"].startswith("More"):
            self.say(asked, asked.as_data(pressed["name"]) if is_yes else None)
        return pressed["optionId"]

    def choose(self, asked: Asked, labels: Sequence[str]) -> str | None:
        if self.does in DONE:
            self.say(asked, left="declined")
            return None
        label = (labels or ["", "words"])[-1 if self.does == "yes" else 0]
        is_yes = not label.startswith("No")
        self.say(asked, asked.as_data(is_yes if isinstance(asked.value, bool) else label))
        return label

    async def wait_to_type(self, asked: Asked) -> None:
        if self.does in ("first", "default"):
            await asyncio.Event().wait()
        await self.wait(asked)

    def type_reply(self, asked: Asked) -> str:
        if self.does in DONE:
            return "/decline" if self.say(asked) == "declined" else "/cancel"
        is_yes_or_no = isinstance(asked.value, bool)
        self.say(asked, asked.as_data(True if is_yes_or_no else "words"))
        return "yes" if is_yes_or_no else "words"


def _choices(part: Json) -> list[Json]:
    return [each["const"] for each in part.get("oneOf", ())] or part.get("enum", [])


def _as_field(part: Json, value: Json) -> Json:
    choices = _choices(part)
    if isinstance(value, dict):  # a form has no objects in it
        return json.dumps(value)
    # A destructive confirm has words, the safe answer first.
    return choices[int(value)] if isinstance(value, bool) and choices else value


def _of_kind(options: Sequence[Mapping[str, str]], is_yes: bool) -> Mapping[str, str]:
    kind = "allow_once" if is_yes else "reject_once"
    return next((each for each in options if each["kind"] == kind), options[0])
