"""YAML: a member in blocks and out again, everything else to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError

ENTRY: JsonValue = {"cmd": "/x/abp", "args": ["serve", "--app"], "envs": {"A": "1"}, "on": True}
PATH = ("extensions", "abp")

ROUND = {
    "as Goose writes it": "A: b\nextensions:\n  a:\n    args:\n    - -y\n    on: yes\nC: off\n",
    "four spaces": "extensions:\n    a:\n        b: 1\n    # below\n",
    "no end": "extensions:\n  a: 1",
    "no end, CRLF": "x: 1\r\nextensions:\r\n  a: 1",
    "CRLF and a mark": "\ufeffextensions:\r\n  a: 1\r\n",
    "tail comments": "extensions: # all\n  a: # one\n    b: 1 # two\n# end\n",
    "words of 1.1": "extensions:\n  a: {enabled: yes, n: 0o7, d: 2020-01-01, e: 1e3, x: ~}\n",
    "texts in blocks": "extensions:\n  a: |\n    x\n\n    y\n\nz: >-\n  b\n",
    "keep": "extensions:\n  a: |+\n    x\n\n\nz: 1\n",
    "quotes": "extensions:\n  'a: b': \"c\\n\n    d\"\nz: 1\n",
    "anchors elsewhere": "a: &x\n  b: 1\nc: *x\nextensions:\n  d: {<<: *x}\n",
    "a document's marks": "---\nextensions:\n  a: 1\n...\n",
    "tags": "extensions:\n  a: !!str 5\nb: !x {}\n",
    "an empty value at the end": "extensions:\n  a:\n",
    "lists": "extensions:\n  a:\n  - b\n  - c:\n    - d\n",
}


@pytest.mark.parametrize("name", ROUND)
def test_a_member_comes_and_goes(name: str) -> None:
    before = ROUND[name].encode()
    document = Document(before, "yaml")
    document.insert(PATH, ENTRY)
    assert document.find(PATH) == ENTRY
    document.cut(PATH)
    assert document.content == before


LINES = 'abp:\n    cmd: /x/abp\n    args:\n    - serve\n    - "--app"\n    envs:\n      A: "1"\n'
LINES += '    "on": true\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"extensions:\n  {LINES}"),
        ("# mine\n", f"# mine\nextensions:\n  {LINES}"),
        ("a: 1\n", f"a: 1\nextensions:\n  {LINES}"),
        ("extensions: {}\nb: 1\n", f"extensions:\n  {LINES}b: 1\n"),
        ("extensions: {} # none\nb: 1\n", f"extensions: # none\n  {LINES}b: 1\n"),
        ("extensions:\nb: 1\n", f"extensions:\n  {LINES}b: 1\n"),
        ("extensions: null\n", f"extensions:\n  {LINES}"),
        ("{}\n", f"extensions:\n  {LINES}"),
        ("extensions: # note\n  {}\nb: 1\n", f"extensions: # note\n  {LINES}b: 1\n"),
        ("extensions: # note\r\n  # two\r\n  null\r\n", f"extensions: # note\n  # two\n  {LINES}"),
        ("extensions: # note\n  {} # tail\n", f"extensions: # note\n  {LINES} # tail\n"),
        ("extensions: { # in\n  }\nb: 1\n", f"extensions:  # in\n  {LINES}b: 1\n"),
        ("{ # in\n }\n", f" # in\nextensions:\n  {LINES}"),
        ("extensions:\n  abp:\n", f"extensions:\n  {LINES}"),
        ("extensions:\n  abp: null # mine\nb: 1\n", f"extensions:\n  {LINES}b: 1\n"),
    ],
)
def test_mappings_on_the_way_are_made(before: str, after: str) -> None:
    document = Document(before.encode(), "yaml")
    document.insert(PATH, ENTRY)
    said = document.content.decode().replace("\r\n", "\n").replace("abp: # mine", "abp:")
    assert said.rstrip() == after.rstrip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{a: ~, b: 1}", '{a: {"x": [1]}, b: 1}'),
        ("{a: , b: 1}", '{a: {"x": [1]} , b: 1}'),
        ("{b: 1, a:}", '{b: 1, a: {"x": [1]}}'),
        ("{a: {}, b: 1}", '{a: {"x": [1]}, b: 1}'),
        ("{a: {y: 1}, b: 1}", '{a: {"x": [1]}, b: 1}'),
    ],
)
def test_within_brackets_a_member_stays_in_its_line(before: str, after: str) -> None:
    document = Document(f"s: {before}\n".encode(), "yaml")
    document.replace(("s", "a"), {"x": [1]})
    assert document.content.decode() == f"s: {after}\n"


def test_mapping_that_loses_its_last_member_stays_a_mapping() -> None:
    document = Document(b"a: 1\nextensions: # all\n  abp: 1\nb: 2\n", "yaml")
    document.cut(PATH)
    assert document.content == b"a: 1\nextensions: {} # all\nb: 2\n"
    document.cut(("extensions",))
    assert document.content == b"a: 1\nb: 2\n"
    for end in ("\n", "\r\n"):
        document = Document(f"a: 1{end}extensions:{end}  abp: 1".encode(), "yaml")
        document.cut(PATH)
        assert document.content.decode() == f"a: 1{end}extensions: {{}}"


def test_members_are_changed_and_added() -> None:
    text = "extensions:\n  abp: # mine\n    cmd: x # path\n    args:\n    - a # b\n    on: yes\n"
    document = Document(text.encode(), "yaml")
    document.set(PATH, {"cmd": "y: z", "args": ["b"], "timeout": 900})
    document.fill(PATH, {"cmd": "no", "envs": {}, "list": []})
    assert document.content.decode() == (
        'extensions:\n  abp: # mine\n    cmd: "y: z" # path\n    args:\n    - b # b\n    on: yes\n'
        "    timeout: 900\n    envs: {}\n    list: []\n"
    )
    document.set((*PATH, "envs"), {"A": "b"})
    document.set((*PATH, "cmd"), {"a": None})
    assert document.find(PATH) == {
        "cmd": {"a": None},
        "args": ["b"],
        "on": "yes",
        "timeout": 900,
        "envs": {"A": "b"},
        "list": [],
    }


def test_values_are_read_as_yaml_1_2_has_them() -> None:
    text = "a: yes\nb: TRUE\nc: ~\nd:\ne: -12\nf: 1.5e3\ng: '1'\nh: &x [1]\ni: *x\nj: *y\n"
    values = Document(text.replace("j: *y\n", "").encode(), "yaml").value
    assert values == {
        "a": "yes",
        "b": True,
        "c": None,
        "d": None,
        "e": -12,
        "f": 1500.0,
        "g": "1",
        "h": [1],
        "i": [1],
    }
    assert Document(b"", "yaml").value == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x {}\nextensions: *x\n", 'line 2: "extensions" is shared by an anchor'),
        ("extensions: &x\n  a: 1\n", "is shared by an anchor"),
        ("extensions: {a: 1}\n", 'line 1: "extensions" is written in one line'),
        ("{a: 1}\n", "the file is written in one line"),
        ("extensions: 5\n", '"extensions" is no mapping'),
        ("extensions: [a]\n", '"extensions" is no mapping'),
        ("- a\n", "the file is no mapping"),
        ("words\n", "the file is no mapping"),
        ("extensions:\n  a: 1\n  a: 2\n", '"extensions" has "a" twice'),
    ],
)
def test_insert_into_a_value_that_cannot_hold_it_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        Document(text.encode(), "yaml").insert(PATH, ENTRY)


# Twenty short lines, each of ten times the one before.
BILLIONS = "a0: &a0 x\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\n", r"line 2: this is no YAML: .*expected"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("a: \x00\n", "this is no YAML: "),
        ("[" * 101 + "]" * 101, "too deeply"),
        ("#" * (2**20 + 1), "more than 1,048,576 characters"),
        (BILLIONS, "stand for too much"),
    ],
)
def test_invalid_yaml_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        Document(text.encode(), "yaml")


def test_member_that_shares_its_line_is_not_cut() -> None:
    with pytest.raises(FormatError, match="shares its line"):
        Document(b"extensions: {abp: 1, b: 2}\n", "yaml").cut(PATH)
    for text in (b"", b"a: 1\n", b"extensions: {}\n"):
        with pytest.raises(FormatError, match=r'there is no "extensions\.abp"'):
            Document(text, "yaml").cut(PATH)


SCALARS = st.sampled_from(
    [
        "yes",
        "1",
        "'a b'",
        '"x\\ty"',
        "~",
        "|\n{0}  t\n",
        "[a, {{b: 1}}]",
        "plain # no",
        "''",
        "2.50",
    ]
)


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.sampled_from("abcde"), SCALARS), unique_by=lambda row: row[0]),
    st.lists(st.tuples(st.sampled_from("xyz"), SCALARS), unique_by=lambda row: row[0], min_size=1),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_any_file_is_restored_to_the_byte(
    around: list[tuple[str, str]], inside: list[tuple[str, str]], indent: int, first: bool
) -> None:
    blank = " " * indent
    others = [f"{name}: {value.format('')}" for name, value in around]
    ours = ["extensions:", *(f"{blank}{name}: {each.format(blank)}" for name, each in inside)]
    text = "\n".join([*ours, *others] if first else [*others, *ours]) + "\n"
    document = Document(text.encode(), "yaml")
    document.insert(PATH, ENTRY)
    document.cut(PATH)
    assert document.content == text.encode()
