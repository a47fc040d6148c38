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
        """A message of the suite, as the bridge expects it."""
        params = message.get("params")
        if not isinstance(params, dict):
            return message
        params = {**params, **_renamed(params, "uri", RESOURCES)}
        if message.get("method") == "tools/call":
            ours, answers = QUESTIONS.get(_tool(message)), params.get("inputResponses")
            theirs = self._questions.get(str(params.get("requestState")))
            if theirs and isinstance(answers, dict):
                renamed = {theirs if key == ours else key: each for key, each in answers.items()}
                params["inputResponses"] = renamed
            params |= _renamed(params, "name", TOOLS)
        return {**message, "params": params}

    def outward(self, message: Message, request: Message | None = None) -> Message:
        """A message of the bridge, as the suite expects it; `request` is what it answers."""
        if isinstance(params := message.get("params"), dict):
            return {**message, "params": {**params, **_renamed(params, "uri", _RESOURCES_BACK)}}
        if not isinstance(result := message.get("result"), dict):
            return message
        result = dict(result)
        for word, key, table in _LISTS:
            if word in result:
                result[word] = [{**each, **_renamed(each, key, table)} for each in result[word]]
        ours, asked = QUESTIONS.get(_tool(request or {})), result.get("inputRequests") or {}
        if ours is not None and len(asked) == 1:
            ((self._questions[str(result.get("requestState"))], question),) = asked.items()
            result["inputRequests"] = {ours: question}
        return {**message, "result": result}


_LISTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("tools", "name", _TOOLS_BACK),
    ("resources", "uri", _RESOURCES_BACK),
    ("contents", "uri", _RESOURCES_BACK),
)


def _renamed(part: Message, key: str, table: Mapping[str, str]) -> Message:
    name = part.get(key)
    return {key: table[name]} if isinstance(name, str) and name in table else {}


def _tool(request: Message) -> str:
    params = request.get("params")
    return str(params.get("name")) if isinstance(params, dict) else ""
