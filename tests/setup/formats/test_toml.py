"""TOML: a table at the end and out again, a key in a table, everything else to the byte."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, without

ENTRY: JsonValue = {"command": "/x/abp", "args": ["serve"], "env": {"A": "b"}, "timeout": 1.5}
PATH = ("mcp_servers", "abp")
TABLE = '[mcp_servers.abp]\ncommand = "/x/abp"\nargs = ["serve"]\nenv = { A = "b" }\ntimeout = 1.5'

ROUND = {
    "nothing": "",
    "a line end": "\n",
    "keys": 'model = "x"\n',
    "no end": 'model = "x"',
    "no end, CRLF": 'a = 1\r\nmodel = "x"',
    "blank lines": 'model = "x"\n\n\n',
    "comment at the end": 'model = "x"\n# the end',
    "dotted keys": 'mcp_servers.a.command = "x"\nmodel = "y"\n',
    "other servers": '[mcp_servers.a] # mine\ncommand = "x"\n  [mcp_servers.a.env]\n  "B" = 1\n',
    "container": "[mcp_servers]\n",
    "arrays of tables": '[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = "[x]"\n',
    "lists": 'a = [\n  "]", # ]\n  \'x\', [1, 2],\n] # tail\nb = {c = "}", d = [1]}\n',
    "strings": 'a = """\n[x]\n# y "" \\""" """\nb = \'\'\'\n[z]\'\'\'\n"c = d".\'e\' = "f = [g"\n',
    "odd indents": "   a   =   1   \n\t[t]\n\tb=2021-01-01T00:00:00Z#c\n",
    "values": "a = nan\nb = -inf\nc = 0x1F\nd = 1_000\ne = +1.0\n",
    "mark and CRLF": "\ufeffa = 1\r\n\r\n[t]\r\nb = 2\r\n",
}


@pytest.mark.parametrize("name", ROUND)
def test_a_table_comes_and_goes(name: str) -> None:
    before = ROUND[name].encode()
    document = Document(before, "toml")
    document.insert(PATH, ENTRY)
    after = document.content.decode()
    assert after.replace("\r\n", "\n").strip("\n\ufeff").endswith(TABLE)
    assert after.endswith("\n") == (ROUND[name].endswith("\n") or not before)
    document.cut(PATH)
    assert document.content == before


def test_cut_keeps_what_comes_after() -> None:
    before = "a = 1\n\n[mcp_servers.abp]\nb = 2\n# of ours\n\n[mcp_servers.abp.tools.x]\nc = 3\n"
    document = Document(f"{before}\n# next\n[projects.z]\nd = 4\n".encode(), "toml")
    document.cut(PATH)
    assert document.content == b"a = 1\n# of ours\n\n\n# next\n[projects.z]\nd = 4\n"
    dotted = Document(b'mcp_servers.abp.command = "x"\nmodel = "y"\n', "toml")
    dotted.cut(PATH)
    assert dotted.content == b'model = "y"\n'


def test_keys_are_changed_and_added() -> None:
    text = '[mcp_servers.abp] # mine\ncommand = "x" # path\nenv = {A = "b"}\n# later\n\n[z]\na = 1'
    document = Document(text.encode(), "toml")
    document.set(PATH, {"command": "y", "required": True})
    document.fill(PATH, {"command": "z", "args": ['a\x7f"', 1]})
    assert document.content.decode() == (
        '[mcp_servers.abp] # mine\ncommand = "y" # path\nenv = {A = "b"}\nrequired = true\n'
        'args = ["a\\u007f\\"", 1]\n# later\n\n[z]\na = 1'
    )
    document.set(("z", "a"), {})
    document.set(("z", "b"), 2)
    assert document.content.endswith(b"[z]\na = {}\nb = 2")
    table = Document(b'[mcp_servers.abp]\na = 1\n[mcp_servers.abp.env]\nB = "c"\n', "toml")
    table.set((*PATH, "env"), {"B": "d", "E": "f"})
    assert table.content.endswith(b'[mcp_servers.abp.env]\nB = "d"\nE = "f"\n')


def test_a_table_of_ours_in_one_line_is_written_anew() -> None:
    document = Document(b'[mcp_servers.abp]\nenv = {A="b"} # mine\nx = 1\n', "toml")
    document.set((*PATH, "env"), {"A": "c", "D": "e"})
    assert document.content.endswith(b'env = { A = "c", D = "e" } # mine\nx = 1\n')
    with pytest.raises(FormatError, match="x is written in one line"):
        document.insert((*PATH, "x", "y"), 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\nmcp_servers = {}\n", "line 2: mcp_servers is written in one line"),
        ("[mcp_servers]\nabp = {}\n", r"mcp_servers\.abp is written in one line"),
        ("mcp_servers = 5\n", "mcp_servers is written in one line"),
        ("[[mcp_servers]]\na = 1\n", "mcp_servers is no table"),
    ],
)
def test_insert_into_a_value_that_cannot_hold_it_is_refused(text: str, said: str) -> None:
    path = (*PATH, "x") if "abp" in text else PATH
    with pytest.raises(FormatError, match=said):
        Document(text.encode(), "toml").insert(path, {})


def test_what_shares_a_line_with_others_is_neither_changed_nor_cut() -> None:
    document = Document(b'mcp_servers.abp.command = "x"\n', "toml")
    with pytest.raises(FormatError, match=r"there is no table \[mcp_servers\.abp\]"):
        document.insert((*PATH, "required"), True)
    with pytest.raises(FormatError, match="is not written as a key with its value"):
        document.replace(PATH, {"command": "y"})
    with pytest.raises(FormatError, match="take it out by hand"):
        Document(b"mcp_servers = {abp = {}}\n", "toml").cut(PATH)
    with pytest.raises(FormatError, match=r"there is no mcp_servers\.abp"):
        Document(b"a = 1\n", "toml").cut(PATH)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1\na = 2\n", "this is no TOML: Cannot overwrite a value"),
        ("a = " + '"\\' * 10_000, "this is no TOML"),
        ("a = " + "[" * 101 + "]" * 101, "nested too deeply"),
        ("b = 1\na" + ".a" * 50_000 + " = 1\n", "line 2: it is nested too deeply"),
    ],
    ids=["a key twice", "a text without an end", "deep", "a name of many parts"],
)
def test_invalid_or_deep_toml_is_refused(text: str, said: str) -> None:
    Document(b"a = " + b"[" * 60 + b"]" * 60, "toml")
    Document(b"a" + b".a" * 99 + b" = 1\nb" + b".a" * 99 + b" = 1\n", "toml")
    with pytest.raises(FormatError, match=said):
        Document(text.encode(), "toml")


VALUES = st.sampled_from(
    ["1", '"[x]"', "'#'", '["a", # ]\n "b"]', '"""\n[y]\n"""', "{z = 1}", "nan", "'''\n'''"]
)
NAMES = st.text("abc", min_size=1, max_size=2)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3)), max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_file_is_restored_to_the_byte(
    tables: list[tuple[str, dict[str, str]]], end: str, ended: bool
) -> None:
    lines = ["# mine"]
    for number, (name, keys) in enumerate(tables):
        lines += ["", f"[t.{name}{number}] # {name}"]
        lines += [f"  {key} = {value} # {key}" for key, value in keys.items()]
    text = "\n".join(lines).replace("\n", end) + (end if ended else "")
    tomllib.loads(text)
    document = Document(text.encode(), "toml")
    document.insert(PATH, ENTRY)
    assert without(document.value, PATH[:1]).__repr__() == repr(tomllib.loads(text))
    document.cut(PATH)
    assert document.content == text.encode()
