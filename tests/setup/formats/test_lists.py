"""A list changed in place, in each format: what stays keeps its comments, and comes back to the
byte where what was put before it goes again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, difference

PATH = ("s", "db", "args")
OURS = ["mcp", "--", "npx"]

# format, before, the words in it, with ours before them
WRAPPED: dict[str, tuple[str, str, list[JsonValue], str]] = {
    "one line": ("json", '["-y", "m"]', ["-y", "m"], '["mcp", "--", "npx", "-y", "m"]'),
    "no blanks": ("json", '["-y","m"]', ["-y", "m"], '["mcp", "--", "npx", "-y","m"]'),
    "lines": (
        "jsonc",
        '[ // of the db\n  // "--readOnly", // ticket, 12\n  "-y", // yes\n  "m",\n]',
        ["-y", "m"],
        '[ // of the db\n  "mcp",\n  "--",\n  "npx",\n  // "--readOnly", // ticket, 12\n'
        '  "-y", // yes\n  "m",\n]',
    ),
    "CRLF": (
        "jsonc",
        '[\r\n  // x, y\r\n  "m" // z\r\n]',
        ["m"],
        '[\r\n  "mcp",\r\n  "--",\r\n  "npx",\r\n  // x, y\r\n  "m" // z\r\n]',
    ),
    "a comment before": ("jsonc", '[/* a */ "m"]', ["m"], '[/* a */ "mcp", "--", "npx", "m"]'),
    "a comment alone": ("jsonc", "[ // a\n]", [], '["mcp", "--", "npx" // a\n]'),
    "a comment at once": ("toml", "[# a\n]", [], '["mcp", "--", "npx"# a\n]'),
    "toml": (
        "toml",
        '[\n  # "--readOnly", # ticket 12\n  \'a,b\', # "x", y\n  """m""", [1, "]"], 1, {z = 2},'
        "\n]",
        ["a,b", "m", [1, "]"], 1, {"z": 2}],
        '[\n  "mcp",\n  "--",\n  "npx",\n  # "--readOnly", # ticket 12\n  \'a,b\', # "x", y\n'
        '  """m""", [1, "]"], 1, {z = 2},\n]',
    ),
    "toml, one line": ("toml", '["m"] # x', ["m"], '["mcp", "--", "npx", "m"] # x'),
    "yaml": (
        "yaml",
        "\n# top\n- -y # yes\n# - --readOnly\n- m",
        ["-y", "m"],
        '\n- mcp\n- "--"\n- npx\n# top\n- -y # yes\n# - --readOnly\n- m',
    ),
    "yaml in brackets": (
        "yaml",
        " [ # top\n  -y, # yes\n  m ]",
        ["-y", "m"],
        ' [ # top\n  mcp,\n  "--",\n  npx,\n  -y, # yes\n  m ]',
    ),
    "yaml with a tag": ("yaml", " !!seq [m]", ["m"], ' !!seq [mcp, "--", npx, m]'),
}
WHOLE = {
    "json": '{{"s": {{"db": {{"args": {}}}}}}}',
    "jsonc": '{{"s": {{"db": {{"args": {}}}}}}}',
    "toml": "[s.db]\nargs = {}\n",
    "yaml": "s:\n  db:\n    args:{}\n",
}


def document_of(format: str, text: str) -> Document:
    if format == "yaml":
        text = text.replace("\n", "\n    ")
    return Document(WHOLE[format].format(text).encode(), format)


@pytest.mark.parametrize("name", WRAPPED)
def test_words_go_before_a_list_and_out_again(name: str) -> None:
    format, text, words, wrapped = WRAPPED[name]
    before = document_of(format, text)
    document = document_of(format, text)
    document.set(PATH, [*OURS, *words])
    assert document.content == document_of(format, wrapped).content
    document.set(PATH, words)
    assert document.content == before.content


@pytest.mark.parametrize(
    ("format", "text", "new", "after"),
    [
        ("json", '["a"]', ["a", "b"], '["a", "b"]'),
        ("json", '["a", "b"]', ["a"], '["a"]'),
        ("json", '["a"]', [], "[]"),
        ("json", '["a", "b"]', ["a", "c"], '["a", "c"]'),
        ("json", '["a", "b"]', ["c"], '["c"]'),
        ("json", '["a", "b", "c"]', ["a", "c"], '["a", "c"]'),
        ("json", '["a", "b",\n"c"]', ["a", "c"], '["a", \n"c"]'),
        ("json", '[\n  "a"\n]', ["a", "b"], '[\n  "a",\n  "b"\n]'),
        ("json", '[\n  "a",\n  "b"\n]', ["a"], '[\n  "a"\n]'),
        ("json", '[\n  "a",\n  "b"]', ["a"], '[\n  "a"\n  ]'),
        ("jsonc", '["a",]', ["a", "b"], '["a", "b",]'),
        ("jsonc", '["a", "b",]', ["a"], '["a",]'),
        ("jsonc", '[\n  "a" // x\n]', ["a", "b"], '[\n  "a", // x\n  "b"\n]'),
        ("jsonc", '[\n  "a", // x\n  "b"\n]', ["a"], '[\n  "a" // x\n]'),
        ("jsonc", '[\n  "a", // x\n]', ["a", "b"], '[\n  "a", // x\n  "b",\n]'),
        ("jsonc", '["a", /* x */ "b"]', [], "[ /* x */ ]"),
        ("jsonc", '["a" /* x */, /* y */ "b", "c"]', ["c"], '[/* x *//* y */ "c"]'),
        ("jsonc", '[\n  "a", // x\n  "b",\n  "c"\n]', ["c"], '[\n  // x\n  "c"\n]'),
        ("toml", '["a", "b"]', ["x", 1, "b"], '["x", 1, "b"]'),
        ("toml", "[\n  'a', # x\n]", ["b"], '[\n  "b", # x\n]'),
        ("toml", '["a"]', ["b"], '["b"]'),
        ("yaml", "\n- a", ["a", "b"], "\n- a\n- b"),
        ("yaml", "\n- a # x\n# y", ["a", "b"], "\n- a # x\n- b\n# y"),
        ("yaml", "\n- a\n- b # x", ["a"], "\n- a\n# x"),
        ("yaml", " # y\n- a\n# x\n- b", [], " [] # y\n# x"),
        ("yaml", "\n- a\n- b\n- c", ["x", "c"], "\n- x\n- c"),
        ("yaml", " [a]", [], " []"),
    ],
)
def test_only_items_that_differ_change(
    format: str, text: str, new: Sequence[JsonValue], after: str
) -> None:
    document = document_of(format, text)
    document.set(PATH, list(new))
    assert document.content == document_of(format, after).content


def test_last_yaml_item_is_cut_with_the_line_end_before_it() -> None:
    document = Document(b"args:\n- a\n- b\n- c", "yaml")
    document.set(("args",), ["a"])
    assert document.content == b"args:\n- a"
    document.set(("args",), ["a", "d"])
    assert document.content == b"args:\n- a\n- d"


def test_a_list_that_others_share_or_that_begins_in_a_line_is_refused() -> None:
    for text, said in (
        ("args: &x [a]\nb: *x\n", "shared by an anchor"),
        ("? args\n: - a\n  - b\n", "line 2: .args. is a list that begins within a line"),
    ):
        with pytest.raises(FormatError, match=said):
            Document(text.encode(), "yaml").set(("args",), ["z", "a", "b"])
    document = Document(b"b: &x [a]\nargs: *x\n", "yaml")
    document.set(("args",), ["c"])
    assert document.content == b"b: &x [a]\nargs:\n- c\n"


def test_difference_keeps_the_end_of_a_list_first() -> None:
    assert difference(["a"], ["a", "b", "a"]) == (0, 0, ["a", "b"])
    assert difference(["a", "b", "a"], ["a"]) == (0, 2, [])
    assert difference(["a", 1], ["a", True]) == (1, 2, [True])
    assert difference([], []) == (0, 0, [])
