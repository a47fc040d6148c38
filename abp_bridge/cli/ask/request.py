"""What `abp-bridge ask` is to ask: a method and its params as words or JSON, or a file, read as one
ABP request. Whether the params make a question is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abp_bridge.core.json_value import parse_json
from abp_bridge.core.question import Kind
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.abp.members import find_misspelt, known_members

MAX_REQUEST = 16 * 2**20  # bytes of a file: it may hold a long list of options, and no more

# What may be left off a method's name, and what the words after it are: the message, and what else
# its params need most.
_METHODS = (
    {kind.value.removeprefix("elicitation/"): kind for kind in Kind}
    | {kind.value: kind for kind in Kind}
    | {"sampling": Kind.SAMPLING}
)
# What people call them besides.
_SYNONYMS = {
    **dict.fromkeys(("choose", "choice", "choices", "pick", "options"), "select"),
    **dict.fromkeys(("text", "prompt", "ask", "form", "question"), "input"),
    **dict.fromkeys(("yesno", "approve", "consent", "boolean"), "confirm"),
    **dict.fromkeys(("file", "photo", "upload", "document"), "resource"),
    **dict.fromkeys(("model", "sample", "create"), "sampling"),
}
# What a person reads; of these one is enough.
_SAYING = ("prompt", "message", "question", "title", "task", "schema", "uri", "type")
_EXAMPLES = {
    Kind.INPUT: '"Your name?"',
    Kind.PREFERENCE: '"Which colour?" blue',
    Kind.CONFIRM: '"Go on?"',
    Kind.SELECT: '"Which season?" spring autumn',
    Kind.RESOURCE: "\"A photo, please\" 'image/*'",
    Kind.SAMPLING: '"Sum this up"',
}
_SECOND = {Kind.SELECT: "options", Kind.PREFERENCE: "default", Kind.RESOURCE: "type"}


class UsageError(AbpBridgeError):
    """A command line that means nothing; the message says what would."""


def read_request(what: str, more: Sequence[str]) -> dict[str, Any]:
    """METHOD and its params (a JSON object, or words), or a FILE with a request -> the request.

    Raises UsageError.
    """
    kind = _METHODS.get(what)
    if kind is None and what.lstrip().startswith("{"):
        raise UsageError(
            f"the method comes first, as in: abp-bridge ask input '{label(what, 200)}'"
        )
    if kind is None and not more:
        return _read_file(what)
    if kind is None:
        raise UsageError(
            f"{what!r} is no method of ABP{_meant(what)}; there are"
            f" {', '.join(each.value for each in Kind)}, or their last word"
        )
    if more and more[0].lstrip().startswith("{"):
        if len(more) > 1:
            raise UsageError("after the params as JSON nothing else is expected")
        params = _parsed(more[0], "the params")
        _check_params(kind, params)
    else:
        params = _worded(kind, more)
    if not any(params.get(name) for name in _SAYING):
        strange = [name for name in params if name not in known_members(kind)]
        raise UsageError(
            f"{what} says nothing to whoever is asked"
            f"{f', and {strange[0]!r} is nothing' if strange else ''}: give the message too,"
            f" abp-bridge ask {what} {_EXAMPLES[kind]}"
        )
    return {"method": kind.value, "params": params}


def _check_params(kind: Kind, params: dict[str, Any]) -> None:
    """A misspelt name would be nothing; and a question may be another without it."""
    for problem in find_misspelt(kind, params):
        raise UsageError(problem)


def _worded(kind: Kind, words: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = (
        {"task" if kind is Kind.SAMPLING else "message": words[0]} if words else {}
    )
    if kind is Kind.SELECT:
        return params | {"options": list(words[1:])}
    if len(words) > 2 or (len(words) == 2 and kind not in _SECOND):
        raise UsageError(
            f"{kind.value} takes fewer words: is the message in quotes? All params can be given as"
            " JSON"
        )
    return params | ({_SECOND[kind]: words[1]} if len(words) == 2 else {})


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_REQUEST + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        known = ", ".join(name for name in _METHODS if "/" not in name)
        raise UsageError(
            f"{path!r} is neither a method ({known}) nor a file that can be read:"
            f" {why}{_meant(path)}"
        ) from None
    if len(data) > MAX_REQUEST:
        raise UsageError(f"{path} is larger than {MAX_REQUEST} bytes")
    request = _parsed(data, path)
    if not isinstance(request.get("method"), str):
        raise UsageError(
            f'{path} holds no request: it must be {{"method": "elicitation/confirm", "params":'
            ' {"message": "Go on?"}}'
        )
    if (kind := _METHODS.get(request["method"])) is None:
        return request
    if isinstance(params := request.get("params"), dict):
        _check_params(kind, params)
    return {**request, "method": kind.value}


def _meant(what: str) -> str:
    word = what.lower().rpartition("/")[2]
    near = _SYNONYMS.get(word) or nearest(what, _METHODS, MISSPELT)
    return f" (is {near} meant?)" if near else ""


def _parsed(data: str | bytes, what: str) -> dict[str, Any]:
    try:
        parsed = parse_json(data)
    except ValueError as problem:
        raise UsageError(f"{what}: not JSON: {label(problem)}") from None
    if not isinstance(parsed, dict):
        raise UsageError(f"{what}: must be a JSON object")
    return parsed
