"""The id of a response from its first or last bytes: what is found there is what reading finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.json_strategies import json_values as values

from abp_bridge.jsonrpc import byte_edit

Json = Any

ids = some.one_of(some.integers(-(10**17), 10**17), some.text(max_size=40))


@given(ids, values, some.sampled_from(["result", "error"]), some.booleans(), some.booleans())
def test_response_id_found_is_the_id_of_the_line(
    id: Json, value: Json, word: str, first: bool, ascii: bool
) -> None:
    stamp = {"jsonrpc": "2.0", "id": id}
    message = {**stamp, word: value} if first else {word: value, **stamp}
    line = json.dumps(message, ensure_ascii=ascii).encode(errors="surrogatepass") + b"\n"
    assert byte_edit.find_response_id(line) in (id, None)
    if isinstance(id, int):
        assert byte_edit.find_response_id(line) == id


@given(ids, values, some.booleans())
def test_request_has_no_response_id(id: Json, value: Json, first: bool) -> None:
    stamp = {"jsonrpc": "2.0", "id": id}
    message = {"method": "x", "params": value}
    message = {**stamp, **message} if first else {**message, **stamp}
    assert byte_edit.find_response_id(json.dumps(message).encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"result":{"x":"\\",\\"jsonrpc\\":\\"2.0\\",\\"id\\":5}"}}',
        b'{"result":{"jsonrpc":"2.0","id":5}}',
        b'{"result":{"a":1,"jsonrpc":"2.0","id":5} }',
        b'{"jsonrpc":"2.0","id":007,"result":{}}',
        b'{"jsonrpc":"2.0","id":5.0,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":12345678901234567890123,"result":{}}',
        b'{"jsonrpc":"2.0","id":"\\u0035","result":{}}',
        b'[{"jsonrpc":"2.0","id":5,"result":{}}]',
        b"",
    ],
)
def test_uncertain_response_id_is_not_found(line: bytes) -> None:
    assert byte_edit.find_response_id(line) is None


@pytest.mark.parametrize(
    ("begin", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x":"aa', 5),
        (b' { "id" : "a b" , "method" : "x" , "params" : [', "a b"),
        (b'{"id":5,"result":{"method":1,', None),
        (b'{"method":"x","params":{"id":5,', None),
        (b'{"method":"a","id":007,"params":{', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x","params":{', None),
        (b'{"id":5,"id":6,"method":"x","params":{', 6),
        (b"x" * 2_000, None),
        (b"", None),
    ],
)
def test_a_requests_id_is_seen_in_its_first_members(begin: bytes, id: object) -> None:
    assert byte_edit.find_request_id(begin) == id
