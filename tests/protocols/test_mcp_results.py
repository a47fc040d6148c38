"""Tools, results, progress and logs in MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from abp_bridge.core.capability import CallResult, Capability, Failure, SavedFile
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.surface import UnaskedQuestion
from abp_bridge.protocols.mcp.client import LOG_LEVELS, V2025_03_26
from abp_bridge.protocols.mcp.results import (
    encode_log,
    encode_progress,
    encode_result,
    encode_text,
    separate_texts,
)
from abp_bridge.protocols.mcp.tools import encode_tool, tool_name

Json = Any

NAMES: dict[str, tuple[str, Sequence[str], str]] = {
    "dots": ("export.pdf", (), "abp_export_pdf"),
    "taken": ("export.pdf", ("abp_export_pdf",), "abp_export_pdf_2"),
    "long and taken": ("x" * 100, ("abp_" + "x" * 60,), "abp_" + "x" * 58 + "_2"),
}


@pytest.mark.parametrize(("capability", "taken", "name"), NAMES.values(), ids=NAMES)
def test_tool_name(capability: str, taken: Sequence[str], name: str) -> None:
    assert tool_name(capability, taken) == name


TOOLS: dict[str, tuple[Capability, str, Json]] = {
    "in full": (
        Capability(
            "a.b",
            "Does it.",
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        ),
        "Does it. (Capability a.b of the app https://app.example.)",
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    ),
    "with warnings": (
        Capability(
            "a",
            "Does it.",
            deprecated="Use b.",
            experimental=True,
            available=False,
            requirements=(
                {"type": "permission", "description": "Clipboard", "met": False},
                {"description": "signed in", "met": True},
                {"type": "state", "resolution": "open a file"},
                {"met": False, "resolution": "wait"},
            ),
            alternatives=("b", "c"),
        ),
        (
            "Does it. (Capability a of the app https://app.example.) Deprecated: Use b."
            " Alternatives: b, c. Experimental. The app says that it is not available now."
            " Requires permission: Clipboard (not met); signed in (met); state (open a file);"
            " something (not met, wait)."
        ),
        {"type": "object", "properties": {}},
    ),
    "keywords that providers refuse are described": (
        Capability(
            "a",
            "Does it.",
            {"type": "object", "oneOf": [{"required": ["é"]}], "additionalProperties": False},
        ),
        (
            "Does it. (Capability a of the app https://app.example.) The arguments must also fit"
            ' {"oneOf": [{"required": ["é"]}]}.'
        ),
        {"type": "object", "properties": {}, "additionalProperties": False},
    ),
    "invalid keywords are left out": (
        Capability(
            "a\u202e",
            "Does it.",
            {
                "$schema": 5,
                "type": "array",
                "properties": {"n": 5, "m": True, "o": {}},
                "required": "n",
            },
        ),
        "Does it. (Capability a of the app https://app.example.)",
        {"type": "object", "properties": {"n": {}, "m": True, "o": {}}},
    ),
}


@pytest.mark.parametrize(("capability", "description", "schema"), TOOLS.values(), ids=TOOLS)
def test_encode_tool(capability: Capability, description: str, schema: Json) -> None:
    before = dict(capability.input_schema)
    made = encode_tool("abp_a", capability, "https://app.example", V2025_03_26)
    assert made == {"name": "abp_a", "description": description, "inputSchema": schema}
    assert capability.input_schema == before


RESULTS: dict[str, tuple[CallResult, str, bool]] = {
    "text": (CallResult("Hello"), "Hello", False),
    "JSON": (CallResult({"a": "é"}), '{"a": "é"}', False),
    "with a note": (
        CallResult(1, metadata={"note": "it had no 'success' member"}),
        "1\nNote: it had no 'success' member.",
        False,
    ),
    "a failure with all there is": (
        CallResult(
            [1], Failure("X", "No.", details={"d": 1}, alternatives=("b", "c"), retryable=True)
        ),
        'X: No. (retryable)\nDetails: {"d": 1}\nThe app suggests instead: b, c\nData: [1]',
        True,
    ),
}


@pytest.mark.parametrize(("result", "said", "error"), RESULTS.values(), ids=RESULTS)
def test_encode_result(result: CallResult, said: str, error: bool) -> None:
    assert encode_result(result) == {"content": [{"type": "text", "text": said}], "isError": error}
    assert encode_text(said, error=error) == encode_result(result)


def test_result_has_the_summary_and_saved_files() -> None:
    file = SavedFile("abp://shop/results/a.pdf", "/tmp/a.pdf", "a.pdf", "application/pdf", 5)
    assert encode_result(CallResult("Done"), summary=["started a", "completed a"], files=[file])[
        "content"
    ] == [
        {"type": "text", "text": "Done"},
        {
            "type": "resource_link",
            "uri": "abp://shop/results/a.pdf",
            "name": "a.pdf",
            "mimeType": "application/pdf",
            "size": 5,
            "description": "Saved to /tmp/a.pdf",
        },
        {"type": "text", "text": "While it ran, the app told:\n- started a\n- completed a"},
    ]


SHOWN: dict[str, tuple[str, Json]] = {
    "a picture": ("image/png", {"type": "image", "data": "YQ==", "mimeType": "image/png"}),
    "a sound": ("audio/wav", {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}),
    "words": (
        "Text/Plain; charset=utf-8",
        {
            "type": "resource",
            "resource": {"uri": "abp://a/results/f", "mimeType": "text/plain", "text": "a"},
        },
    ),
}


@pytest.mark.parametrize(("kind", "block"), SHOWN.values(), ids=SHOWN)
def test_small_file_is_shown_beside_its_link(kind: str, block: Json) -> None:
    file = SavedFile("abp://a/results/f", "/tmp/f", "f", kind, 1, b"a")
    _, shown, link = encode_result(CallResult("Done"), files=[file])["content"]
    assert (shown, link["type"]) == (block, "resource_link")


@pytest.mark.parametrize(
    "kind",
    [
        "application/pdf",
        "text/plain; charset=no-such",
        "text/plain; charset=utf-16",
    ],
)
def test_file_that_models_cannot_read_is_only_linked(kind: str) -> None:
    file = SavedFile("abp://a/results/f", "/tmp/f", "f", kind, 1, b"a")
    assert [
        block["type"] for block in encode_result(CallResult("Done"), files=[file])["content"]
    ] == ["text", "resource_link"]


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("2024-11-05", ["resource", "text"]),
        ("2025-03-26", ["audio", "text"]),
        ("2025-06-18", ["audio", "resource_link"]),
    ],
)
def test_content_blocks_by_revision(version: str, kinds: Json) -> None:
    file = SavedFile("abp://a/results/f", "/tmp/f", "f", "audio/wav", 1, b"a")
    _, shown, link = encode_result(CallResult("Done"), files=[file], version=version)["content"]
    assert [shown["type"], link["type"]] == kinds
    assert "YQ==" in str(shown)
    assert all(each in str(link) for each in (file.uri, file.path, file.mime_type))
    words = encode_progress("t", Progress("op", 1.0, status="Sorting"), version)
    assert ("message" in words) is (version != "2024-11-05")


PROGRESS: dict[str, tuple[Progress, Mapping[str, Json]]] = {
    "a step": (Progress("op", 2.0, 5.0), {"progress": 2, "total": 5}),
    "a fraction": (
        Progress("op", 0.25, 1.0, "Sorting"),
        {"progress": 0.25, "total": 1, "message": "Sorting"},
    ),
    "no total": (Progress("op", 17.0), {"progress": 17}),
}


@pytest.mark.parametrize(("progress", "params"), PROGRESS.values(), ids=PROGRESS)
def test_encode_progress(progress: Progress, params: Mapping[str, Json]) -> None:
    sent = encode_progress("t1", progress)
    assert sent == {"progressToken": "t1", **params}
    assert [type(value) for value in sent.values()] == [
        str,
        *(type(value) for value in params.values()),
    ]


LOGS: dict[str, tuple[Notice, str]] = {
    "an error": (Notice(NoticeKind.ERROR, "notifications/error", {"field": "a"}), "error"),
    "a warning of a page's console": (
        Notice(NoticeKind.CONSOLE, "notifications/page/console", {"level": "warning"}),
        "warning",
    ),
}


@pytest.mark.parametrize(("notice", "level"), LOGS.values(), ids=LOGS)
def test_encode_log(notice: Notice, level: str) -> None:
    assert encode_log(notice, "https://app.example") == {
        "level": level,
        "logger": "https://app.example",
        "data": {"event": notice.name, "data": notice.data},
    }
    assert level in LOG_LEVELS


@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28"])
def test_unsaved_file_is_embedded(version: str) -> None:
    file = SavedFile("abp://a/results/f", "", "f", "application/pdf", 2, b"hi")
    _, embedded, link = encode_result(CallResult(1), files=[file], version=version)["content"]
    resource = {"uri": "abp://a/results/f", "mimeType": "application/pdf", "blob": "aGk="}
    assert embedded == {"type": "resource", "resource": resource}
    assert "Not saved: only this session has it" in (link.get("text") or link["description"])


def test_result_ends_with_unasked_questions() -> None:
    unasked = [UnaskedQuestion("Delete it?", "crm", ["page: it is off"], ["--page"])]
    last = encode_result(CallResult("done"), unasked=unasked)["content"][-1]["text"]
    for words in ('crm asked: "Delete it?"', "tried: page: it is off", "- --page"):
        assert words in last


def test_separate_texts() -> None:
    first, image, last = ({"type": "text", "text": "{}"}, {"type": "image"}, {"text": "Nobody"})
    separated = separate_texts({"content": [first, image, last], "isError": False})
    assert separated["content"] == [{"type": "text", "text": "{}\n"}, image, last]
    assert separated["isError"] is False
    asked = {"resultType": "input_required"}
    assert separate_texts(asked) == asked
