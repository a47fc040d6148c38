"""What agents say, as bytes: cut anywhere, malformed, without an end, or without bounds."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_strategies import json_values

from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models import streams
from abp_bridge.models.streams import (
    EOF,
    PARTIAL,
    ApiStream,
    EventStream,
    LineStream,
    StreamParser,
    StreamPart,
)
from abp_bridge.protocols import json_lines

MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=3), max_size=4)


def read(parser: StreamParser, *pieces: bytes) -> list[StreamPart]:
    found = [part for piece in pieces for part in parser.feed(piece)]
    return [*found, *parser.end()]


def messages(found: list[StreamPart]) -> list[object]:
    return [part.message for part in found if part.kind == "message"]


def kinds(found: list[StreamPart]) -> list[str]:
    return [part.kind for part in found]


@given(MESSAGES, st.sampled_from(["\n", "\r\n"]), st.data())
def test_lines_and_events_are_read_however_they_are_split(
    said: list[object], end: str, data: st.DataObject
) -> None:
    texts = [json.dumps(each) for each in said]
    lines = "".join(f"{text}{end}" for text in texts).encode()
    events = "".join(f"event: x{end}data: {text}{end}{end}" for text in texts).encode()
    for parser, whole in ((LineStream(), lines), (ApiStream(), events)):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
        places = [0, *cuts, len(whole)]
        pieces = [whole[begin:end] for begin, end in pairwise(places)]
        found = read(parser, *pieces)
        assert messages(found) == said
        assert set(kinds(found)) <= {"message", "partial", "eof"}
        assert found[-1] == EOF


def test_an_error_of_an_api_is_one_text() -> None:
    body = json.dumps({"error": {"message": "slow down"}}).encode()
    for pieces in ([body], [b" \n", body[:5], body[5:]], [b"\xef\xbb\xbf" + body]):
        found = read(ApiStream(), *pieces)
        assert messages(found) == [{"error": {"message": "slow down"}}]
        assert found[-1] == EOF
    assert kinds(read(ApiStream(), b'{"error": ')) == ["partial", "error", "eof"]
    assert kinds(read(ApiStream(), b"[1]")) == ["partial", "error", "eof"]
    assert kinds(read(ApiStream(), b"  ")) == ["eof"]


def test_an_event_says_what_its_data_say_together() -> None:
    stream = EventStream()
    said = [*stream.feed(b': hello\r\nid: 1\nretry: 5\ndata:{"a":\ndata: 1}\n\nevent: none\n\n')]
    assert said == [b'{"a":\n1}']
    assert stream.is_whole
    assert not [*stream.feed(b"data")]
    assert not stream.is_whole


def test_what_is_no_message_is_an_error_and_ends_nothing() -> None:
    found = read(LineStream(), b'banner\n{"a": 1}\n[2]\n\n{"b": 2}')
    assert kinds(found) == ["error", "message", "error", "partial", "message", "eof"]
    events = b'data: nonsense\n\ndata: 7\n\ndata: {"a": 1}\n\ndata: [DONE]\n\n'
    assert kinds(read(ApiStream(), events)) == ["error", "error", "message", "eof", "eof"]
    assert kinds(read(ApiStream(), b"data: {")) == ["partial", "error", "eof"]
    assert kinds(read(LineStream(), b"{")) == ["partial", "error", "eof"]
    assert LineStream().feed(b"{") == [PARTIAL]


def test_what_has_no_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 10)
    monkeypatch.setattr(streams, "MAX_LINE", 10)
    for parser in (LineStream(), ApiStream()):
        assert parser.feed(b"data: 12345678")[0].error.endswith("more than 10 bytes")
    assert ApiStream().feed(b'{"a": 12345678')[0].error == "a text of more than 10 bytes"
    with pytest.raises(RemoteProtocolError, match="an event of more than 10 bytes"):
        [*EventStream().feed(b"data: 1\nid: 234")]
