"""Names of tools, resources and questions: of the suite, and of the bridge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = Any
Message = dict[str, Json]

SCRIPT = Path(__file__).with_name("app.json")  # the suite's fixture tools, as an app

_CAPABILITIES = [each["name"] for each in json.loads(SCRIPT.read_text())["capabilities"]]
TOOLS = {name: f"abp_{name}" for name in (*_CAPABILITIES, "test_extra")}

RESOURCES = {
    "test://static-text": "abp://conformance/state/static-text",
    "test://static-binary": "abp://conformance/results/static-binary.png",
    "test://template/123/data": "abp://conformance/state/123",
    "test://watched-resource": "abp://conformance/state/watched-resource",
}

# A tool's only question, by the name that the suite answers it under.
QUESTIONS = {"test_input_required_result_elicitation": "user_name"}

_TOOLS_BACK = {theirs: ours for ours, theirs in TOOLS.items()}
_RESOURCES_BACK = {theirs: ours for ours, theirs in RESOURCES.items()}


class Names:
    """Renames messages of one bridge; remembers what it called a question."""

    def __init__(self) -> None:
        self._questions: dict[str, str] = {}  # by requestState

    def inward(self, message: Message) -> Message:
        params = message.get("params")
        if not isinstance(params, Mapping):
            return message
        params = {**params, **_renamed(params, "uri", RESOURCES)}
        if message.get("method") == "tools/call":
            params |= {
                **self._answers(params, QUESTIONS.get(_tool(message))),
                **_renamed(params, "name", TOOLS),
            }
        return {**message, "params": params}

    def _answers(self, params: Mapping[str, Json], ours: str | None) -> dict[str, Json]:
        state, responses = params.get("requestState"), params.get("inputResponses")
        if (
            ours is None
            or not isinstance(state, str)
            or state not in self._questions
            or not isinstance(responses, Mapping)
        ):
            return {}
        return {
            "inputResponses": {
                self._questions[state] if key == ours else key: value
                for key, value in responses.items()
            }
        }

    def outward(self, message: Message, request: Message | None = None) -> Message:
        """A message of the bridge, as the suite expects it; `request` is what it answers."""
        if isinstance(params := message.get("params"), Mapping):
            return {**message, "params": {**params, **_renamed(params, "uri", _RESOURCES_BACK)}}
        if not isinstance(result := message.get("result"), Mapping):
            return message
        listed = {
            word: [{**each, **_renamed(each, key, table)} for each in result[word]]
            for word, key, table in _LISTS
            if word in result
        }
        return {**message, "result": {**result, **listed, **self._asked(result, request)}}

    def _asked(self, result: Mapping[str, Json], request: Message | None) -> dict[str, Json]:
        ours, asked, state = (
            QUESTIONS.get(_tool(request)),
            result.get("inputRequests"),
            result.get("requestState"),
        )
        if (
            ours is None
            or not isinstance(asked, Mapping)
            or len(asked) != 1
            or not isinstance(state, str)
        ):
            return {}
        ((self._questions[state], question),) = asked.items()
        return {"inputRequests": {ours: question}}


_LISTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("tools", "name", _TOOLS_BACK),
    ("resources", "uri", _RESOURCES_BACK),
    ("contents", "uri", _RESOURCES_BACK),
)


def _renamed(part: Mapping[str, Json], key: str, table: Mapping[str, str]) -> dict[str, Json]:
    name = part.get(key)
    return {key: table[name]} if isinstance(name, str) and name in table else {}


def _tool(request: Message | None) -> str:
    params = None if request is None else request.get("params")
    name = params.get("name") if isinstance(params, Mapping) else None
    return name if isinstance(name, str) else ""
