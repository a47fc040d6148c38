"""Messages that msgspec reads and writes are those that `json` reads and writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abp_bridge.core.json_value import MAX_VALUES, JsonValue, json_equal, parse_json
from abp_bridge.jsonrpc import protocol

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.fixture(scope="module", autouse=True)
def fast() -> Iterator[None]:
    before = dict(vars(protocol._Codec))
    protocol.load_fast_codec()
    yield
    for name in ("decode", "encode", "problems"):
        setattr(protocol._Codec, name, before[name])


@given(VALUES)
@example({"a": "\u2028\u2029\x85 \ud800", "b": 10**40})
def test_codec_message_comes_back_as_it_was_sent(value: JsonValue) -> None:
    line = protocol.dump(value)
    assert json_equal(protocol.parse(line), value)
    assert json_equal(parse_json(line), value)
    assert len(line.decode().splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1e999}',
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":' + b"1" * 5_000 + b"}",
        b'{"a":1}'.decode().encode("utf-16"),
        b"[" * 3_000 + b"]" * 3_000,
        b'{"a":"\n"}',
        b"[" + b"1," * MAX_VALUES + b"1]",
        b"{} {}",
    ],
    ids=str,
)
def test_codec_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        protocol.parse(line)


def test_codec_of_duplicate_members_the_last_counts() -> None:
    assert (
        protocol.parse(b'{"a":1,"b":2,"a":3}')
        == {"a": 3, "b": 2}
        == parse_json(b'{"a":1,"b":2,"a":3}')
    )


def test_codec_value_nested_too_deeply_is_not_sent() -> None:
    value: JsonValue = 1
    for _ in range(5_000):
        value = [value]
    with pytest.raises(ValueError, match="too deeply"):
        protocol.dump(value)
