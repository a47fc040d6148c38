"""Lines between two sides: each passes byte for byte, in order, however the stream comes; one that
is changed is changed in one place.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.acp_proxy import Narrow
from support.harness import PATIENCE

from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol

Json = Any


@given(st.lists(st.binary(min_size=1, max_size=12).map(lambda data: data.replace(b"x", b"\n"))))
def test_however_a_stream_comes_its_lines_are_the_same(chunks: list[bytes]) -> None:
    cutter = byte_edit.Cutter(longest=10)
    blocks = [block for chunk in chunks for block in cutter.cut(chunk)]
    rest = cutter.rest()
    assert b"".join(block for block, _ in blocks) + rest == b"".join(chunks)
    for block, whole in blocks:
        assert block
        assert block.endswith(b"\n") or not whole
    assert b"\n" not in rest
    assert len(rest) <= 10


async def test_two_writers_never_mix_their_lines() -> None:
    """The sink takes a few bytes at a time, and only one of them may wait for it; whoever began a
    line ends it.
    """
    outlet = SharedWriter(sink := Narrow())
    ours = InjectedConnection(JsonRpcProtocol(), outlet, on_message=lambda message: None)

    async def theirs() -> None:
        for number in range(200):
            ours.connection.notify("ours", {"number": number})
            await outlet.forward(b'{"theirs":%d' % number)
            await anyio.lowlevel.checkpoint()
            await outlet.forward(b"}\n")
            await anyio.lowlevel.checkpoint()
        ours.close()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.connection.run)
            tasks.start_soon(theirs)
    written = [json.loads(line) for line in bytes(sink.written).splitlines()]
    assert [line["theirs"] for line in written if "theirs" in line] == list(range(200))
    assert [line["params"]["number"] for line in written if "method" in line] == list(range(200))


GRAFTS = [
    ('{"params":{}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"a":1}}', '{"params":{"a":1,"c":{"e":{"f":{}}}}}'),
    (
        '{ "params" : { "c" : { } , "n" : 12345678901234567890123 } }',
        '{ "params" : { "c" : { "e":{"f":{}}} , "n" : 12345678901234567890123 } }',
    ),
    ('{"params":{"c":null}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"c":{"e":{}}}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"c":{"e":{"url":{}}}}}', '{"params":{"c":{"e":{"url":{},"f":{}}}}}'),
    ('{"params":{"c":{"e":{"f":null}}}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    (
        '{"params":{"c":{"e":1},"c":{"e":{}}},"x":{"c":{}}}',
        '{"params":{"c":{"e":1},"c":{"e":{"f":{}}}},"x":{"c":{}}}',
    ),
    ('{"params":{"c":{"\\u0065":{}}}}', '{"params":{"c":{"\\u0065":{"f":{}}}}}'),
    (
        '\ufeff{"x":"\\"}{","params":{"c":{}}}\r\n',
        '\ufeff{"x":"\\"}{","params":{"c":{"e":{"f":{}}}}}\r\n',
    ),
    ('{"params":[]}', '{"params":[]}'),
    ('{"params":{"c":"none"}}', '{"params":{"c":"none"}}'),
]


@pytest.mark.parametrize(("line", "grafted"), GRAFTS)
def test_a_member_is_put_where_it_belongs_and_nothing_else_changes(line: str, grafted: str) -> None:
    assert byte_edit.put_member(line.encode(), ("params", "c", "e", "f"), {}) == grafted.encode()


ADDITIONS = [
    ('{"params":{"s":[]}}', '{"params":{"s":["new"]}}'),
    ('{"params":{"s":[ ]}}', '{"params":{"s":[ "new"]}}'),
    ('{"params":{"s":[1.0, {"a":1,"a":2}]}}', '{"params":{"s":[1.0, {"a":1,"a":2},"new"]}}'),
    ('{"params":{"cwd":"/"}}', '{"params":{"cwd":"/","s":["new"]}}'),
    ('{"params":{"s":null}}', '{"params":{"s":["new"]}}'),
    ('{"params":{"s":{}}}', '{"params":{"s":{}}}'),
]


@pytest.mark.parametrize(("line", "added"), ADDITIONS)
def test_an_item_is_added_at_the_end_of_a_list(line: str, added: str) -> None:
    assert byte_edit.append_item(line.encode(), ("params", "s"), "new") == added.encode()


@pytest.mark.parametrize(
    ("line", "left", "stood"),
    [
        ('{"r":{"x":[ ],"s": {"n":1.50} , "y":2}}', '{"r":{"x":[ ] , "y":2}}', '{"n":1.50}'),
        ('{"r":{"s":1,"y":2}}', '{"r":{"y":2}}', "1"),
        ('{"r":{ "s":1 }}', '{"r":{ }}', "1"),
        ('{"r":{"s":1,"y":2,"s":3}}', '{"r":{"y":2}}', "3"),
        ('{"r":{"y":1,"z":2,"y":3,"s":4}}', '{"r":{"y":1,"z":2,"y":3}}', "4"),
        ('{"r":{"y":2}}', '{"r":{"y":2}}', ""),
        ('{"r":[]}', '{"r":[]}', ""),
    ],
)
def test_a_member_is_cut_out_and_every_other_byte_stays(line: str, left: str, stood: str) -> None:
    assert byte_edit.cut_member(line.encode(), ("r", "s")) == (left.encode(), stood)


def test_a_member_is_put_into_items_of_a_list() -> None:
    line = b'{"r": [ {"a" :1.0}, [{}], {"a":{"b":[]}} ,4]}'
    first, third = line.replace(b":1.0}", b':1.0,"c":0}'), b'{"b":[],"c":0}'
    assert byte_edit.put_in_items(line, ("r",), {0, 1, 3}, ("c",), 0) == first
    assert byte_edit.put_in_items(line, ("r",), {2}, ("a", "c"), 0) == line.replace(
        b'{"b":[]}', third
    )
    for other in (b'{"r": {"0": {}}}', b'{"r": [ ]}', b"{}"):
        assert byte_edit.put_in_items(other, ("r",), {0}, ("c",), 0) == other
