"""JSON-RPC without I/O: any bytes become events, and a request gets at most one response."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.json_strategies import few, garbled, json_values

from abp_bridge.errors import LocalProtocolError
from abp_bridge.jsonrpc.protocol import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_BATCH,
    MAX_DEPTH,
    PARSE_ERROR,
    IncomingMessage,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    Response,
    RpcError,
    UnmatchedResponse,
    dump,
)

Json = Any


def line(**message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def written(data: bytes) -> Json:
    """Parse a line that was written: valid UTF-8 and JSON."""
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    message = json.loads(data.decode(), parse_constant=pytest.fail)
    assert message.pop("jsonrpc") == "2.0"
    return message


# --- what we write ---


def test_messages_on_the_wire() -> None:
    peer = JsonRpcProtocol()
    id, data = peer.request("tools/call", {"name": "é"})
    assert written(data) == {"id": "abp-1", "method": "tools/call", "params": {"name": "é"}}
    assert id == "abp-1"
    assert peer.waiting == 1
    assert written(peer.notify("done")) == {"method": "done"}
    assert written(peer.notify("done", {})) == {"method": "done", "params": {}}
    peer.receive(line(id=1, method="a") + line(id=2, method="b") + line(id=3, method="c"))
    assert written(peer.respond(1, None)) == {"id": 1, "result": None}
    assert written(peer.respond_error(2, INVALID_PARAMS, "no")) == {
        "id": 2,
        "error": {"code": INVALID_PARAMS, "message": "no"},
    }
    assert written(peer.respond_error(3, -1, "no", {"why": 1})) == {
        "id": 3,
        "error": {"code": -1, "message": "no", "data": {"why": 1}},
    }


@few
@example("\ud800")
@given(json_values)
def test_any_value_can_be_written(value: Json) -> None:
    assert written(dump({"jsonrpc": "2.0", "value": value})) == {"value": value}


@pytest.mark.parametrize(
    "answer",
    [
        lambda peer: peer.respond(1, {}),
        lambda peer: peer.respond_error(1, 0, ""),
        lambda peer: peer.discard_request(1),
    ],
    ids=["respond", "respond_error", "discard_request"],
)
def test_received_request_is_answered_once(answer: Callable[[JsonRpcProtocol], object]) -> None:
    peer = JsonRpcProtocol()
    with pytest.raises(LocalProtocolError, match="request 1 does not wait for an answer"):
        answer(peer)
    peer.receive(line(id=1, method="a"))
    assert peer.is_open(1)
    answer(peer)
    assert not peer.is_open(1)
    with pytest.raises(LocalProtocolError):
        answer(peer)


@pytest.mark.parametrize("id", [None, 2], ids=repr)
def test_unknown_id_is_not_open(id: Json) -> None:
    peer = JsonRpcProtocol()
    peer.receive(line(id=1, method="a"))
    assert not peer.is_open(id)


# --- what we read ---

READ: dict[str, tuple[bytes, list[IncomingMessage]]] = {
    "a request": (line(id=7, method="a", params={"b": 1}), [Request(7, "a", {"b": 1})]),
    "params in order": (line(id=7, method="a", params=[1]), [Request(7, "a", [1])]),
    "a notification": (line(method="a", params={}), [Notification("a", {})]),
    "id 0": (line(id=0, method="a"), [Request(0, "a", None)]),
    "an id with a fraction": (line(id=1.5, method="a"), [Request(1.5, "a", None)]),
    "a huge id": (line(id=10**100, method="a"), [Request(10**100, "a", None)]),
    "an answer to nothing": (line(id=7, result=1), [UnmatchedResponse(7)]),
    "an error without an id": (line(id=None, error={"code": 1}), [UnmatchedResponse(None)]),
    "empty lines": (b"\n\r\n  \n", []),
    "a line with a carriage return": (
        line(method="a").replace(b"\n", b"\r\n"),
        [Notification("a", None)],
    ),
    "two in one piece": (
        line(method="a") + line(method="b"),
        [Notification("a", None), Notification("b", None)],
    ),
    "a byte order mark": (b"\xef\xbb\xbf" + line(method="a"), [Notification("a", None)]),
    "a lone surrogate": (b'{"jsonrpc":"2.0","method":"\\ud800"}\n', [Notification("\ud800", None)]),
    "half a line": (b'{"jsonrpc":"2.0",', []),
}


@pytest.mark.parametrize(("data", "events"), READ.values(), ids=READ)
def test_receive(data: bytes, events: list[IncomingMessage]) -> None:
    assert JsonRpcProtocol().receive(data) == events


REJECTED: dict[str, tuple[bytes, Json, str]] = {
    # what arrived: the id of the error, its message
    "no JSON": (b"hello\n", None, "Parse error: Expecting value: line 1 column 1 (char 0)"),
    "bytes that are not UTF-8": (
        b'{"a":"\xff"}\n',
        None,
        "Parse error: 'utf-8' codec can't decode byte 0xff in position 6: invalid start byte",
    ),
    "NaN": (
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":[NaN]}\n',
        1,
        "Parse error: NaN is not JSON",
    ),
    "a number out of range": (
        b'{"jsonrpc":"2.0","id":1e999,"method":"a"}\n',
        None,
        "Parse error: the number 1e999 is out of range",
    ),
    "100,000 brackets": (b"[" * 100_000 + b"\n", None, "Parse error: it is nested too deeply"),
    "a batch": (
        b'[{"jsonrpc":"2.0","id":1,"method":"a"}]\n',
        None,
        "Batches are not supported: send one message a line",
    ),
    "a number": (b"5\n", None, "A message must be a JSON object"),
    "no version": (b'{"id":7,"method":"a"}\n', 7, 'Not JSON-RPC: "jsonrpc" must be "2.0"'),
    "an answer without a version": (
        b'{"id":7,"result":1}\n',
        None,
        'Not JSON-RPC: "jsonrpc" must be "2.0"',
    ),
    "an invalid method": (line(id=7, method=5), 7, "The method must be a string"),
    "invalid params": (
        line(id=7, method="a", params="b"),
        7,
        "The params must be an object or an array",
    ),
    "an id of null": (line(id=None, method="a"), None, "The id must be a string or a number"),
    "an id of true": (line(id=True, method="a"), None, "The id must be a string or a number"),
    "nothing to do": (line(id=7), 7, "A message needs a method, a result or an error"),
    "too deep": (
        line(id=7, method="a", params=json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)),
        7,
        f"The message is nested more than {MAX_DEPTH} levels deep",
    ),
}


@pytest.mark.parametrize(("data", "id", "reason"), REJECTED.values(), ids=REJECTED)
def test_invalid_line_gets_an_error(data: bytes, id: Json, reason: str) -> None:
    peer = JsonRpcProtocol()
    (event,) = peer.receive(data)
    assert isinstance(event, InvalidMessage)
    assert event.reason == reason
    code = PARSE_ERROR if reason.startswith("Parse error") else INVALID_REQUEST
    assert written(event.reply) == {"id": id, "error": {"code": code, "message": reason}}
    assert peer.receive(line(method="still here")) == [Notification("still here", None)]


def test_number_of_5000_digits_is_a_parse_error() -> None:
    (event,) = JsonRpcProtocol().receive(
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":[' + b"7" * 5_000 + b"]}\n"
    )
    assert isinstance(event, InvalidMessage)
    assert written(event.reply)["error"]["code"] == PARSE_ERROR


def test_request_with_an_id_in_use_is_refused() -> None:
    peer = JsonRpcProtocol()
    peer.receive(line(id=7, method="a"))
    (event,) = peer.receive(line(id=7.0, method="b"))
    assert isinstance(event, InvalidMessage)
    assert written(event.reply) == {
        "id": None,
        "error": {
            "code": INVALID_REQUEST,
            "message": "The id 7.0 is in use by a request that is not answered yet",
        },
    }
    (event,) = peer.receive(line(id=7, method=5))
    assert isinstance(event, InvalidMessage)
    assert written(event.reply)["id"] is None, (
        "an error for 7 would be taken for the answer to the first"
    )
    peer.respond(7, {})
    assert peer.receive(line(id=7, method="b")) == [Request(7, "b", None)]


# --- answers to us ---

ANSWERS: dict[str, tuple[Mapping[str, Json], Json, Json]] = {
    "a result": ({"result": {"a": 1}}, {"a": 1}, None),
    "a result of null": ({"result": None}, None, None),
    "an error": ({"error": {"code": -1, "message": "no"}}, None, {"code": -1, "message": "no"}),
    "an error beside a result of null": (
        {"result": None, "error": {"code": -1}},
        None,
        {"code": -1},
    ),
    "an error that is a word": ({"error": "no"}, None, {"code": -32603, "message": "no"}),
}


@pytest.mark.parametrize(("members", "result", "error"), ANSWERS.values(), ids=ANSWERS)
def test_sent_request_is_answered_once(
    members: Mapping[str, Json], result: Json, error: Json
) -> None:
    peer = JsonRpcProtocol("x-")
    id, _ = peer.request("a", {})
    assert peer.receive(line(id=id, **members)) == [Response("x-1", result, error)]
    assert peer.waiting == 0
    assert peer.receive(line(id=id, **members)) == [UnmatchedResponse("x-1")]


def test_request_has_the_given_id_unless_it_is_open() -> None:
    peer = JsonRpcProtocol("x-")
    assert [peer.request("a", {}, id=7)[0] for _ in range(2)] == [7, "x-1"]


def test_too_deep_answer_is_an_error() -> None:
    peer = JsonRpcProtocol(max_depth=4)
    id, _ = peer.request("a", {})
    deep: Json = [[[[]]]]
    (event,) = peer.receive(line(id=id, result=deep))
    assert event == Response(
        id,
        None,
        {"code": INVALID_REQUEST, "message": "The message is nested more than 4 levels deep"},
    )
    assert peer.waiting == 0
    (event,) = peer.receive(line(id=id, result=deep))
    assert isinstance(event, InvalidMessage), "nobody waits for it any more"


def test_answer_to_a_forgotten_request_is_unmatched() -> None:
    peer = JsonRpcProtocol()
    id, _ = peer.request("a", {})
    peer.forget(id)
    peer.forget("never")
    assert peer.receive(line(id=id, result=1)) == [UnmatchedResponse(id)]


def test_ids_of_both_directions_are_separate() -> None:
    peer = JsonRpcProtocol("")
    id, _ = peer.request("a", {})
    assert id == "1"
    assert peer.receive(line(id="1", method="b")) == [Request("1", "b", None)]
    assert peer.receive(line(id="1", result=5)) == [Response("1", 5, None)]
    assert written(peer.respond("1", 6)) == {"id": "1", "result": 6}


def test_inward_and_outward_translations() -> None:
    def inward(message: dict[str, Json]) -> dict[str, Json]:
        return {"jsonrpc": "2.0", "method": message["type"]}

    def outward(message: dict[str, Json]) -> dict[str, Json]:
        return {"type": message["method"]}

    peer = JsonRpcProtocol(inward=inward, outward=outward)
    assert peer.receive(b'{"type":"hello"}\n') == [Notification("hello", None)]
    assert json.loads(peer.notify("bye")) == {"type": "bye"}


# --- lines that are too long ---

TINY = 64
OVER = b'"' + b"x" * TINY + b'"'

TOO_LONG: dict[str, tuple[bytes, Json]] = {
    "an id at the front": (b'{"jsonrpc":"2.0","id":7,"method":' + OVER, 7),
    "an id that comes late": (b"{" + b" " * TINY + b'"id":7,"method":' + OVER, 7),
    "an id behind": (b'{"jsonrpc":"2.0","method":' + OVER + b',"id":7}', 7),
    "an id with leading zeros": (b'{"id":007,"method":' + OVER, None),
    "an id that is not UTF-8": (b'{"id":"\xff","method":' + OVER, None),
    "an id in an answer": (b'{"id":7,"result":' + OVER, None),
    "garbage": (b"\x00" * 200, None),
    "an id in use": (b'{"id":1,"method":' + OVER, None),
}


@pytest.mark.parametrize("step", [7, 1_000], ids=lambda step: f"in steps of {step}")
@pytest.mark.parametrize(("data", "id"), TOO_LONG.values(), ids=TOO_LONG)
def test_too_long_line_is_refused_and_the_next_is_read(data: bytes, id: Json, step: int) -> None:
    peer = JsonRpcProtocol(max_line=TINY)
    peer.receive(line(id=1, method="a"))
    data += b"\n" + line(method="next")
    events = [
        event
        for start in range(0, len(data), step)
        for event in peer.receive(data[start : start + step])
    ]
    rejected, after = events
    assert isinstance(rejected, InvalidMessage)
    assert written(rejected.reply) == {
        "id": id,
        "error": {"code": INVALID_REQUEST, "message": f"The message is longer than {TINY} bytes"},
    }
    assert after == Notification("next", None)


LOST_ANSWERS: dict[str, tuple[bytes, str]] = {
    "too long": (b'{"jsonrpc":"2.0","id":"abp-1","result":' + OVER + b"}", "is longer than"),
    "too long, its id behind": (
        b'{"result":{"id":5,"a":[' + OVER + b'],"id":5} , "id" : "abp-1" }',
        "is longer than",
    ),
    "no JSON": (b'{"jsonrpc":"2.0","id":"abp-1","result":NaN}', "NaN is not JSON"),
    "cut off": (b'{"jsonrpc":"2.0","id":"abp-1","result":[', "Parse error"),
    "nothing in it": (b'{"jsonrpc":"2.0","id":"abp-1"}', "needs a method, a result or an error"),
}


@pytest.mark.parametrize(("data", "words"), LOST_ANSWERS.values(), ids=LOST_ANSWERS)
def test_unreadable_answer_is_an_error_of_its_request(data: bytes, words: str) -> None:
    peer = JsonRpcProtocol(max_line=TINY)
    id, _ = peer.request("a", {})
    (response,) = peer.receive(data + b"\n")
    assert isinstance(response, Response)
    assert (response.id, response.result) == (id, None)
    assert response.error is not None
    assert words in str(response.error["message"])
    assert peer.waiting == 0


def test_unreadable_translated_answer_is_an_error_of_its_request() -> None:
    peer = JsonRpcProtocol(inward=lambda message: {"id": message["id"], "result": None})
    peer.request("a", {})
    assert [type(each) for each in peer.receive(b"Welcome!\n")] == [InvalidMessage]
    (response,) = peer.receive(b'{"type":"result","id":"abp-1","payload":NaN}\n')
    assert isinstance(response, Response)


def test_revealed_text_is_escaped_and_restored() -> None:
    peer = JsonRpcProtocol(revealed=True)
    id, sent = peer.request("ask", {"options": ["a\u202eb", "\ud800", "é"]})
    assert written(sent)["params"] == {"options": [r"a\u202eb", "\ufffd", "é"]}
    assert peer.receive(line(id=id, result={"picked": r"a\u202eb"})) == [
        Response(id, {"picked": "a\u202eb"}, None)
    ]
    peer.receive(line(id="\u200b", method="a"))
    assert written(peer.respond("\u200b", "\u200b")) == {"id": "\u200b", "result": r"\u200b"}


def test_line_of_the_maximum_length_is_read() -> None:
    data = line(method="x" * (TINY - len(line(method="")) + 1))
    assert len(data) == TINY + 1
    assert [type(event) for event in JsonRpcProtocol(max_line=TINY).receive(data)] == [Notification]
    assert [type(event) for event in JsonRpcProtocol(max_line=TINY - 1).receive(data)] == [
        InvalidMessage
    ]


def test_endless_line_is_not_kept() -> None:
    peer, piece = JsonRpcProtocol(max_line=TINY), b"x" * 100_000
    tracemalloc.start()
    for _ in range(100):
        assert peer.receive(piece) == []
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < len(piece)
    assert [type(event) for event in peer.receive(b"\n")] == [InvalidMessage]


# --- any bytes, cut anywhere ---

WORDS = ("jsonrpc", "id", "method", "params", "result", "error")
VALUES: Sequence[Json] = (
    "2.0",
    1,
    0,
    -1,
    1.5,
    "1",
    "abp-1",
    True,
    None,
    [],
    {},
    "a",
    {"code": 1, "message": "m"},
)
messages = st.fixed_dictionaries(
    {}, optional={word: st.sampled_from(VALUES) | garbled(WORDS, VALUES) for word in WORDS}
)
lines = st.one_of(
    messages.map(lambda message: json.dumps({"jsonrpc": "2.0", **message}).encode()),
    messages.map(lambda message: json.dumps(message).encode()),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"",
            b" ",
            b"\r",
            b"[" * 300,
            b'{"a":NaN}',
            b'{"a":1e999}',
            b'"\xff"',
            *(data for data, _ in TOO_LONG.values()),
        ]
    ),
)
streams = st.lists(lines, max_size=8).map(b"\n".join) | st.binary(max_size=200)


def _events(data: bytes, cuts: list[int], max_line: int) -> list[IncomingMessage]:
    peer = JsonRpcProtocol(max_line=max_line, max_depth=6)
    peer.request("a", {})
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [event for start, end in pairwise(places) for event in peer.receive(data[start:end])]


@settings(max_examples=40)
@given(streams, st.lists(st.integers(0, 2_000), max_size=12), st.sampled_from([10, 70, 10_000]))
def test_bytes_cut_anywhere_give_the_same_events(
    data: bytes, cuts: list[int], max_line: int
) -> None:
    whole = _events(data, [], max_line)
    assert _events(data, cuts, max_line) == whole
    assert _events(data, list(range(len(data))), max_line) == whole
    for event in whole:
        if isinstance(event, InvalidMessage):
            reply = written(event.reply)
            assert reply.keys() == {"id", "error"}
            assert reply["id"] is None or (
                isinstance(reply["id"], (str, int, float)) and not isinstance(reply["id"], bool)
            )
            assert JsonRpcProtocol().receive(event.reply) == [UnmatchedResponse(reply["id"])], (
                "two bridges do not answer each other's errors for ever"
            )


# --- batches ---

PARTS: dict[str, Json] = {
    "request": {"jsonrpc": "2.0", "method": "ask"},
    "notification": {"jsonrpc": "2.0", "method": "told"},
    "answer": {"jsonrpc": "2.0", "id": "abp-9", "result": 1},
    "nonsense": 7,
}


@few
@given(st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=8), st.data())
def test_batch_gets_one_response_line(kinds: list[str], data: st.DataObject) -> None:
    peer = JsonRpcProtocol()
    peer.batches = True
    parts = [
        {**PARTS[kind], "id": n} if kind == "request" else PARTS[kind]
        for n, kind in enumerate(kinds)
    ]
    events = peer.receive(json.dumps(parts).encode() + b"\n")
    lines = [event.reply for event in events if isinstance(event, InvalidMessage)]
    asked = [event.id for event in events if isinstance(event, Request)]
    answered = []
    for id in data.draw(st.permutations(asked)):
        how = data.draw(st.sampled_from(["result", "error", "nothing"]))
        answered += [id] if how != "nothing" else []
        if how == "result":
            lines.append(peer.respond(id, id))
        elif how == "error":
            lines.append(peer.respond_error(id, -1, "no"))
        else:
            lines.append(peer.discard_request(id))
        assert not peer.is_open(id)
    assert len(events) == len(kinds)
    errors = kinds.count("nonsense")
    replies = [json.loads(each) for each in lines if each]
    assert len(replies) == bool(answered or errors)
    if replies:
        ids = [each["id"] for each in replies[0]]
        assert sorted(map(str, ids)) == sorted([*map(str, answered), *["None"] * errors])


@pytest.mark.parametrize("size", [0, MAX_BATCH + 1])
def test_empty_or_too_large_batch_is_one_error(size: int) -> None:
    peer = JsonRpcProtocol()
    peer.batches = True
    [event] = peer.receive(json.dumps([7] * size).encode() + b"\n")
    assert isinstance(event, InvalidMessage)
    assert written(event.reply)["error"]["message"] == f"A batch has 1 to {MAX_BATCH} messages"


def test_rpc_error_has_code_message_and_data() -> None:
    problem = RpcError(INVALID_PARAMS, "no such tool", {"name": "x"})
    assert (problem.code, str(problem), problem.data) == (-32602, "no such tool", {"name": "x"})
