"""ABP sessions, capabilities and results, as apps send them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from abp_bridge.core.capability import CallResult, Capability, CapabilityList, Failure
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import (
    call_params,
    decode_app_info,
    decode_capabilities,
    decode_result,
    initialize_params,
    merge_capabilities,
)
from abp_bridge.protocols.abp.calls import MAX_CAPABILITIES, MAX_NAMED

Json = Any

APP = {"id": "shop", "name": "The shop", "version": "2"}


def test_initialize_params() -> None:
    assert initialize_params("1.2.3") == {
        "agent": {"name": "abp-bridge", "version": "1.2.3"},  # X14
        "protocolVersion": "0.1",
        "features": {"notifications": True, "progress": True, "elicitation": True},
    }


def test_call_params_have_the_call_id_as_progress_token() -> None:
    assert call_params("export.pdf", {"page": 1}, "call-7") == {
        "capability": "export.pdf",
        "params": {"page": 1},
        "options": {"callId": "call-7", "progressToken": "call-7"},
    }


# --- initialize ---


def test_decode_app_info() -> None:
    opened = decode_app_info(
        {"sessionId": "s1", "protocolVersion": "0.1", "app": APP, "capabilities": [{"name": "a"}]}
    )
    assert (opened.id, opened.name, opened.session, opened.version) == (
        "shop",
        "The shop",
        "s1",
        "0.1",
    )
    assert (opened.capabilities, opened.warnings) == ((Capability("a"),), ())


def test_app_info_has_instructions_and_warnings() -> None:
    said: Json = {"instructions": "Ask\u202e first.", "warnings": ["no\nprinter", 5]}
    opened = decode_app_info({"app": {**APP, **said}, "protocolVersion": "7"})
    assert opened.instructions == "Ask first."
    assert opened.warnings[1:] == ("no printer",)


INTRODUCTIONS: dict[str, tuple[Json, tuple[str, str, str]]] = {
    "wrapped": ({"success": True, "data": {"app": APP}}, ("shop", "The shop", "0.1")),
    "no app": ({}, ("app", "an unnamed app", "0.1")),
    "X16 version 1.0": ({"protocolVersion": "1.0"}, ("app", "an unnamed app", "1.0")),
    "a name that repaints": ({"app": {"name": "Sh\u202eop\n"}}, ("Shop", "Shop", "0.1")),
}


@pytest.mark.parametrize(("raw", "expected"), INTRODUCTIONS.values(), ids=INTRODUCTIONS)
def test_app_info_with_missing_members(raw: Json, expected: tuple[str, str, str]) -> None:
    opened = decode_app_info(raw)
    assert (opened.id, opened.name, opened.version) == expected
    assert opened.warnings == ()


WARNINGS: dict[str, tuple[Json, str]] = {
    "capabilities that are no list": (
        {"capabilities": {"run": {}}},
        'its capabilities are {"run": {}}, and no list',
    ),
    "X16 a version to come": (
        {"protocolVersion": "2.0"},
        "the app speaks ABP 2.0; this bridge knows 0.x and 1.x",
    ),
    "capabilities without a name": (
        {"capabilities": [{"name": "a"}, {"description": "b"}, 5]},
        "capabilities without a name cannot be called: number 2, number 3",
    ),
    "far too many": (
        {"capabilities": [f"c{number}" for number in range(MAX_CAPABILITIES + MAX_NAMED + 7)]},
        "capabilities beyond the first 1000 cannot be called: 'c1000', 'c1001', 'c1002'",
    ),
    "a long name": (
        {"capabilities": ["a", "b" * 121]},
        f"capabilities with a name of more than 120 characters cannot be called: '{'b' * 60}",
    ),
    "a name that would repaint the line": (
        {"capabilities": ["a", "b\x1b[2J"]},
        "capabilities with a name that cannot be shown as it is cannot be called: 'b[2J'",
    ),
}


def test_warning_counts_capabilities_beyond_the_named() -> None:
    (warning,) = decode_app_info(WARNINGS["far too many"][0]).warnings
    assert warning.endswith(f"'c{MAX_CAPABILITIES + MAX_NAMED - 1}' and 7 more")


@pytest.mark.parametrize(("raw", "words"), WARNINGS.values(), ids=WARNINGS)
def test_app_info_warns(raw: Json, words: str) -> None:
    warning, *_ = decode_app_info(raw).warnings
    assert warning.startswith(words)


REFUSALS: dict[str, tuple[Json, str, str]] = {
    "nothing": (
        None,
        "SESSION_INVALID",
        "initialize() answered null, where ABP has an object with sessionId and app",
    ),
    "success as text": (
        {"success": "true", "app": APP},
        "SESSION_INVALID",
        'initialize() answered {"success": "true", "app": ',
    ),
    "nothing, wrapped": (
        {"success": True},
        "SESSION_INVALID",
        'initialize() answered {"success": true}, where',
    ),
    "a refusal": (
        {"success": False, "error": {"code": "PERMISSION_DENIED", "message": "Log in first."}},
        "PERMISSION_DENIED",
        "the app refused: PERMISSION_DENIED: Log in first.",
    ),
}


@pytest.mark.parametrize(("raw", "code", "words"), REFUSALS.values(), ids=REFUSALS)
def test_app_that_does_not_open_is_an_error(raw: Json, code: str, words: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_app_info(raw)
    assert caught.value.code == code
    assert words in str(caught.value)


# --- capabilities ---

LISTS: dict[str, tuple[Json, Sequence[str]]] = {
    "bare": ([{"name": "a"}, {"name": "b"}], ["a", "b"]),
    "X12 wrapped": ({"success": True, "data": [{"name": "a"}]}, ["a"]),
    "X12 nothing": (None, []),
    "X13 names only": (["a", "b"], ["a", "b"]),
    "without names": ([{}, {"name": ""}, {"name": 5}, None, 7], []),
    "the same twice": ([{"name": "a"}, {"name": "a"}], ["a"]),
}


@pytest.mark.parametrize(("raw", "names"), LISTS.values(), ids=LISTS)
def test_decode_capabilities(raw: Json, names: Sequence[str]) -> None:
    assert [each.name for each in decode_capabilities(raw)] == names


def test_decode_capability_with_all_members() -> None:
    raw: Json = {
        "name": "a",
        "description": "Does\u202e it",
        "inputSchema": {"type": "object"},
        "available": False,
        "experimental": True,
        "title": "A\u202e",
        "outputSchema": {"type": "integer"},
    }
    whole = Capability(
        "a",
        "Does it",
        {"type": "object"},
        available=False,
        experimental=True,
        title="A",
        output_schema={"type": "integer"},
    )
    assert decode_capabilities([raw]) == (whole,)
    assert merge_capabilities([whole], [Capability("a", experimental=True, available=False)]) == (
        whole,
    )


CAPABILITIES: dict[str, tuple[Json, Capability]] = {
    "destructive, as a question says it": (
        {"destructive": True},
        Capability("a", destructive=True),
    ),
    "consequential, as WebMCP says it": (
        {"annotations": {"consequentialHint": True}},
        Capability("a", destructive=True),
    ),
    "not read-only is destructive, as in MCP": (
        {"annotations": {"readOnlyHint": False}},
        Capability("a", destructive=True, hints={"readOnlyHint": False}),
    ),
    "read-only": (
        {"annotations": {"readOnlyHint": True}},
        Capability("a", harmless=True, hints={"readOnlyHint": True}),
    ),
    "destructive, and not": (
        {"destructive": True, "annotations": {"readOnlyHint": True}},
        Capability("a", destructive=True, hints={"readOnlyHint": True}),
    ),
    "what it requires, and what else there is": (
        {
            "requirements": [
                {"type": "permission", "description": "A\u202eB", "met": False, "x": 1},
                "signed in",
                5,
            ],
            "alternatives": ["b", 5, "c"],
        },
        Capability(
            "a",
            requirements=(
                {"type": "permission", "description": "AB", "met": False},
                {"description": "signed in"},
            ),
            alternatives=("b", "c"),
        ),
    ),
}


@pytest.mark.parametrize(("members", "capability"), CAPABILITIES.values(), ids=CAPABILITIES)
def test_decode_capability(members: Json, capability: Capability) -> None:
    assert decode_capabilities([{"name": "a", **members}]) == (capability,)


def test_refused_capability_list_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="the app refused: NOT_SUPPORTED"):
        decode_capabilities({"success": False, "error": {"code": "NOT_SUPPORTED"}})


A = Capability("a", "From the manifest", {"type": "object"})
MERGED: dict[str, tuple[Sequence[Sequence[Capability]], Sequence[Capability]]] = {
    "X13 the richest description, the newest availability": (
        [[A], [Capability("a", available=False)]],
        [Capability("a", "From the manifest", {"type": "object"}, available=False)],
    ),
    "X12 an empty list wipes nothing": ([[A], []], [A]),
    "a list that names any names them all": (
        [[A, Capability("b")], [Capability("c")]],
        [Capability("c")],
    ),
    "a list that failed leaves only what is called harmless so": (
        [
            [A, Capability("b", harmless=True), Capability("c", destructive=True)],
            CapabilityList.failure("why"),
        ],
        [
            replace(A, destructive=True, presumed=True),
            Capability("b", harmless=True),
            Capability("c", destructive=True),
        ],
    ),
    "what was presumed, until it is listed": (
        [[A], CapabilityList.failure("why"), [A, Capability("b")]],
        [A, Capability("b")],
    ),
}


@pytest.mark.parametrize(("sources", "merged"), MERGED.values(), ids=MERGED)
def test_merge_capabilities(
    sources: Sequence[Sequence[Capability]], merged: Sequence[Capability]
) -> None:
    assert list(merge_capabilities(*sources)) == merged


# --- results ---

NO_SUCCESS = (
    "the app's answer had no 'success' member; it is passed on as it came. It should be"
    " {success: true, data}"
)
RESULTS: dict[str, tuple[Json, CallResult]] = {
    "data": (
        {"success": True, "data": {"a": 1}, "metadata": {"duration": 5}},
        CallResult({"a": 1}, metadata={"duration": 5}),
    ),
    "X27 undefined": (
        None,
        CallResult(
            failure=Failure(
                "INTERNAL_ERROR",
                "the app returned nothing (undefined or null): it must return"
                " {success: true, data}",
            )
        ),
    ),
    "success as text": (
        {"success": "yes", "n": 1},
        CallResult(
            {"success": "yes", "n": 1},
            Failure("INTERNAL_ERROR", 'the app said success: "yes", which must be true or false'),
        ),
    ),
    "an error alone": (
        {"error": {"code": "OUT_OF_PAPER", "message": "Load paper"}},
        CallResult(
            {"error": {"code": "OUT_OF_PAPER", "message": "Load paper"}},
            Failure("OUT_OF_PAPER", "Load paper"),
        ),
    ),
    "no ABP answer": ({"n": 1}, CallResult({"n": 1}, metadata={"note": NO_SUCCESS})),
    "X8 cancelled, without an error": (
        {"success": False, "cancelled": True},
        CallResult(failure=Failure("CANCELLED", "The call was cancelled."), cancelled=True),
    ),
    "X8 code CANCELLED": (
        {"success": False, "error": {"code": "CANCELLED", "message": "Stopped."}},
        CallResult(failure=Failure("CANCELLED", "Stopped."), cancelled=True),
    ),
    "failed without a reason": (
        {"success": False},
        CallResult(failure=Failure("OPERATION_FAILED", "The app gave no reason.")),
    ),
    "failed in a word": (
        {"success": False, "error": "No font"},
        CallResult(failure=Failure("OPERATION_FAILED", "No font")),
    ),
    "an error in full": (
        {
            "success": False,
            "error": {
                "code": "X",
                "message": "m",
                "details": {"d": 1},
                "retryable": True,
                "retryAfter": 1500,
                "alternatives": ["b", 5],
            },
        },
        CallResult(failure=Failure("X", "m", True, 1.5, {"d": 1}, ("b",))),
    ),
    "a known code that says it is not retryable": (
        {"success": False, "error": {"code": "TIMEOUT", "message": "m", "retryable": False}},
        CallResult(failure=Failure("TIMEOUT", "m")),
    ),
}


@pytest.mark.parametrize(("raw", "result"), RESULTS.values(), ids=RESULTS)
def test_decode_result(raw: Json, result: CallResult) -> None:
    assert decode_result(raw) == result


@pytest.mark.parametrize("after", [0, True, "1000"], ids=lambda after: str(after)[:8])
def test_invalid_retry_after_is_ignored(after: Json) -> None:
    failure = decode_result(
        {
            "success": False,
            "error": {"code": "RATE_LIMITED", "retryAfter": after, "alternatives": "b"},
        }
    ).failure
    assert failure is not None
    assert (failure.retryable, failure.retry_after, failure.alternatives) == (True, None, ())


def test_merged_capability_stays_destructive() -> None:
    (wipe,) = merge_capabilities([Capability("wipe", destructive=True)], [Capability("wipe")])
    assert wipe.destructive


def test_alternatives_beyond_a_limit_are_counted() -> None:
    error = {"code": "X", "alternatives": [f"n{number}" for number in range(1_003)]}
    failure = decode_result({"success": False, "error": error}).failure
    assert failure is not None
    assert failure.alternatives[-2:] == ("n999", "and 3 more")
