"""Who answers what a host is asked: on a form, by buttons, and on the bridge's own page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.conformance.user_drivers import fill_in
from abp_bridge.protocols.abp import decode_question

Json = Any

# A question answers: a result for the host to give, what is filled in on the page, or None for
# never.
Person = Callable[[str, Json], Any]

ENTRY = re.compile(r"^Entry (\d+) \(", re.MULTILINE)
LINK = re.compile(r"http://127\.0\.0\.1:\d+/open/[\w-]+")


@dataclass(frozen=True)
class Asked:
    """A question, and a person's answer to it: as content of a form, as buttons, as controls of the
    page, as keys and as labels.

    Where `reads` must stand on the page, its controls are sent as they stand then.
    """

    request: Json
    form: Mapping[str, Json] = field(default_factory=dict)
    buttons: Sequence[str] = ()
    page: Sequence[Json] = ()
    press: str = "send"
    keys: Sequence[str] = ()
    labels: Sequence[Sequence[str]] = ()
    reads: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def rounds(self) -> Sequence[Json]:
        """The labels of each reply: there is one for each entry of a list."""
        by_entry = any(isinstance(each, list) for label in self.labels for each in label)
        return self.labels if by_entry else [self.labels]

    @property
    def words(self) -> str:
        """What the person reads."""
        said = self.request["params"]
        return str(said.get("prompt") or said.get("message") or said.get("task"))

    @property
    def choices(self) -> list[tuple[Json, str]]:
        """The values that there are to choose from, and their labels."""
        question = decode_question(self.request, id="", origin="")
        return [(each.value, each.label) for part in question.fields for each in part.choices]


@dataclass(frozen=True)
class Filled:
    """What the host answers, None for nothing, and what the person does on the page then."""

    result: Json
    url: str
    values: Sequence[Json]
    press: str = "send"

    def fill_in(self) -> None:
        fill_in(self.url, self.values, self.press)


# An ABP agent's: a question that was dismissed, and one that was declined.
DECLINED: Json = {"success": False, "cancelled": True, "error": {"code": "USER_CANCELLED"}}
DISMISSED: Json = {**DECLINED, "metadata": {"outcome": "cancelled"}}


def never(method: str, params: Json) -> None:
    """Nobody answers."""


def always(answer: Json) -> Person:
    """The same answer to everything: a result, or the kind of a button."""
    return lambda method, params: (
        _pressed(params, kind=answer) if isinstance(answer, str) else answer
    )


def declines(method: str, params: Json) -> Json:
    if method == "session/request_permission":
        return _pressed(params, name="Skip")
    return DECLINED if is_abp(method) else {"action": "decline"}


def is_abp(method: str) -> bool:
    """Whether an agent of ABP's is asked."""
    return method.startswith(("elicitation/", "sampling/")) and method not in (
        "elicitation/create",
        "sampling/createMessage",
    )


def forbids(method: str, params: Json) -> Json:
    """No leave is given."""
    if method == "session/request_permission":
        return _pressed(params, name="Do not allow")
    if is_abp(method):
        return {"success": True, "data": {"confirmed": False}}
    return {"action": "accept", "content": {"confirmed": False}}


def person(*asked: Asked) -> Person:
    """One for each question, who know it by its words."""
    people = [(each.words, _person(each)) for each in asked]

    def answer(method: str, params: Json) -> Any:
        about = json.dumps(params, ensure_ascii=False)
        for words, one in people:
            if words in about or len(people) == 1:
                return one(method, params)
        raise AssertionError(about)

    return answer


def _person(asked: Asked) -> Person:
    left = list(asked.buttons)

    def answer(method: str, params: Json) -> Any:
        if method == "sampling/createMessage":
            content = {"type": "text", "text": "Have a good journey!"}
            return {"role": "assistant", "content": content, "model": "a-model"}
        if is_abp(method):
            return {"success": True, "data": _data(asked, method, params)}
        if (link := LINK.search(json.dumps(params))) is not None:
            by_url = params.get("mode") == "url"  # else whoever is pointed there goes there
            result = {"action": "accept"} if by_url else None
            return Filled(result, link[0], asked.page, asked.press)
        if method == "session/request_permission":
            return _button(asked, left, params)
        if method == "told":
            return dict(asked.form)
        properties = params["requestedSchema"]["properties"]
        if (entry := ENTRY.search(params["message"])) is not None:
            (rows,) = asked.form.values()
            entered: Json = {**rows[int(entry[1]) - 1], "another": int(entry[1]) < len(rows)}
            filled = {name: value for name, value in entered.items() if name in properties}
            return {"action": "accept", "content": filled}
        return {"action": "accept", "content": _fitting(asked, properties)}

    return answer


def _data(asked: Asked, method: str, params: Json) -> Json:
    """What an agent of ABP's answers, in the method's own shape."""
    match method:
        case "sampling/create":
            return {"result": "Have a good journey!"}
        case "elicitation/confirm":
            return {"confirmed": True}
        case "elicitation/select":
            return {"selected": next(iter(asked.form.values()))}
        case "elicitation/resource":
            return asked.page[0]
    if "properties" not in params["schema"]:
        return {"value": asked.form["value"]}
    properties = params["schema"]["properties"].items()
    nested = [name for name, part in properties if part.get("type") == "object"]
    return {"value": {**asked.form, **{name: json.loads(asked.form[name]) for name in nested}}}


def _button(asked: Asked, left: list[str], params: Json) -> Json:
    """The next of the buttons that are `left`, or what leads to it."""
    shown = {option["name"].lstrip("☐☑ "): option["name"] for option in params["options"]}
    if len(shown) <= 2 and left and left[0] not in shown:  # a yes or no about one of the options
        about = params["toolCall"]["title"].rpartition("— ")[2].lstrip("☐☑ ")
        wanted = about.startswith(tuple(asked.buttons))
        return _pressed(params, kind="allow_once" if wanted else "reject_once")
    found = next((name for name in shown if name.startswith(left[0])), None)
    if found is not None:
        del left[0]
    return _pressed(params, name=shown[found or "More …"])


def _pressed(params: Json, **wanted: str) -> Json:
    """The first button that has this `name` or `kind`."""
    ((word, value),) = wanted.items()
    option = next(each["optionId"] for each in params["options"] if each[word] == value)
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _fitting(asked: Asked, properties: Json) -> Json:
    """What is filled in: the content, or a yes for each option that is a field of its own."""
    content = {name: value for name, value in asked.form.items() if name in properties}
    if content:
        return content
    (chosen,) = asked.form.values()
    labels = [label for value, label in asked.choices if value in chosen]
    return {name: part.get("title") in labels for name, part in properties.items()}
