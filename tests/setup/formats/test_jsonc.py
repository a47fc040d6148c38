"""JSON with comments: one member in and out, everything else to the byte."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.jsonc import Jsonc
from abp_bridge.setup.formats.text import FormatError, find_value, without

ENTRY: JsonValue = {"command": "/x/abp-bridge", "args": ["serve"], "env": {}}
PATH = ("mcpServers", "abp")

# What comes back to the byte by the text alone: its objects on the way are there already.
ROUND = {
    "empty": '{"mcpServers": {}}',
    "one line": '{ "mcpServers": { "a": 1 } }',
    "lines": '{\n    "mcpServers": {\n        "a": {"b": 1}\n    }\n}\n',
    "tabs and CRLF": '{\r\n\t"mcpServers": {\r\n\t\t"a": 1\r\n\t}\r\n}',
    "CRLF and a comment": '{\r\n  "mcpServers": {\r\n    "a": 1 // tail\r\n  }\r\n}',
    "trailing commas": '{\n  "mcpServers": {\n    "a": 1,\n  },\n}',
    "tail comment": '{\n  "mcpServers": {\n    "a": 1 // tail\n  } // t2\n}',
    "comment below": '{\n  "mcpServers": {\n    "a": 1\n    // "b": 2\n  }\n}',
    "comment alone": '{\n  "mcpServers": { // none\n  }\n}',
    "block comment alone": '{"mcpServers": { /* none */ }}',
    "closed on the line": '{\n  "mcpServers": {\n    "a": 1 }}',
    "numbers": '{"z": [1e400, 12345678901234567890, -0.0, 1.0], "mcpServers": {"a": 1}}',
    "escapes": '{"\\u0061\\"": "\\ud83d\\ude00 \\/", "mcpServers": {"a": null, "b": true}}',
}


@pytest.mark.parametrize("name", ROUND)
def test_a_member_comes_and_goes(name: str) -> None:
    before = ROUND[name].encode()
    document = Document(before, "jsonc")
    document.insert(PATH, ENTRY)
    assert document.find(PATH) == ENTRY
    document.cut(PATH)
    assert document.content == before


def test_a_mark_of_utf_8_stays() -> None:
    document = Document(b'\xef\xbb\xbf{"mcpServers": {"a": 1}}', "json")
    document.insert(PATH, 1)
    assert document.content == b'\xef\xbb\xbf{"mcpServers": {"a": 1, "abp": 1}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "mcpServers": {\n    "abp": 1\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "mcpServers": {\n    "abp": 1\n  }\n}\n'),
        ("\r\n", '\r\n{\r\n  "mcpServers": {\r\n    "abp": 1\r\n  }\r\n}\r\n'),
        ("{}", '{\n  "mcpServers": {\n    "abp": 1\n  }\n}'),
        ('{\n    "a": 1\n}', '{\n    "a": 1,\n    "mcpServers": {\n        "abp": 1\n    }\n}'),
        ('{"a": 1}', '{"a": 1, "mcpServers": {"abp": 1}}'),
    ],
)
def test_objects_on_the_way_are_made(before: str, after: str) -> None:
    assert Jsonc().insert(before, PATH, 1) == after


def test_a_long_list_has_an_item_a_line() -> None:
    words: JsonValue = ["a long argument"] * 8
    made = Jsonc().insert("{}", ("args",), words)
    assert made.count("\n") == 11
    assert json.loads(made) == {"args": words}


def test_members_are_changed_in_place() -> None:
    document = Document(b'{\n  "a": {"b": 1, "c": [2]}, // mine\n  "d": 1.0\n}', "jsonc")
    document.set(("a",), {"b": 2, "e": 3})
    document.set(("d",), 1.0)
    assert document.content == b'{\n  "a": {"b": 2, "c": [2], "e": 3}, // mine\n  "d": 1.0\n}'
    document.set(("d",), {"x": 1})
    assert document.content.endswith(b'"d": {\n    "x": 1\n  }\n}')
    document.fill(("d",), {"x": 5, "y": 6})
    document.fill(("a",), 7)
    assert document.value == {"a": {"b": 2, "c": [2], "e": 3}, "d": {"x": 1, "y": 6}}


def test_an_empty_object_and_a_null_are_filled_and_comments_stay() -> None:
    document = Document(b'{\n  "a": { // none\n  },\n  "b": null, // mine\n  "c": {}\n}', "jsonc")
    document.set(("a",), {"x": 1, "y": 2})
    document.set(("b",), None)
    document.set(("b",), {"x": 1})
    document.fill(("c",), {"x": 1})
    assert document.content == (
        b'{\n  "a": { // none\n    "x": 1,\n    "y": 2\n  },\n  "b": {\n    "x": 1\n  }, // mine\n'
        b'  "c": {\n    "x": 1\n  }\n}'
    )


@pytest.mark.parametrize(
    ("text", "without_b"),
    [
        ('{"a": 1, "b": 2, "c": 3}', '{"a": 1, "c": 3}'),
        ('{"b": 2, "c": 3}', '{"c": 3}'),
        ('{"b": 2}', "{}"),
        ('{\n  "b": 2, // two\n  "c": 3\n}', '{\n  // two\n  "c": 3\n}'),
        ('{\n  "a": 1, // one\n  "b": 2 }', '{\n  "a": 1 // one\n  }'),
        ('{\n  "a": 1,\n  "b": 2, "c": 3\n}', '{\n  "a": 1,\n  "c": 3\n}'),
        ('{ // one\n  "b": 2\n}', "{ // one\n}"),
    ],
)
def test_member_is_cut_without_harm_to_others(text: str, without_b: str) -> None:
    document = Document(text.encode(), "jsonc")
    document.cut(("b",))
    assert document.content.decode() == without_b


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ('{"mcpServers": [1]}', PATH, '"mcpServers" is no object'),
        ("[]", PATH, "the file is no object"),
        ('{"a": 1,\n"mcpServers": {"b": 1, "b": 2}}', PATH, 'line 2: "mcpServers" has "b" twice'),
    ],
)
def test_insert_into_a_value_that_cannot_hold_it_is_refused(
    text: str, path: tuple[str, ...], said: str
) -> None:
    with pytest.raises(FormatError, match=said):
        Jsonc().insert(text, path, 1)


@pytest.mark.parametrize("text", ["", "{}", '{"mcpServers": {"b": 1}}'])
def test_missing_member_is_neither_changed_nor_cut(text: str) -> None:
    with pytest.raises(FormatError, match=r'there is no "mcpServers\.abp"'):
        Jsonc().replace(text, PATH, 1)
    with pytest.raises(FormatError, match=r'there is no "mcpServers\.abp"'):
        Jsonc().cut(text, PATH)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: the name of a member"),
        ('{"a" 1}', "a colon is missing"),
        ('{"a": 1 "b": 2}', "a comma is missing"),
        ('{"a": [1 2]}', "a comma is missing"),
        ('{"a": "\n"}', "not ended"),
        ("{}\n{}", "line 2: something follows"),
        ('{"a": [1,]}', "a comma before a closing bracket"),
        ("// x\n{}", "a comment"),
        ("[" * 101 + "]" * 101, "too deeply"),
        ('{"a": /* x', "this is no JSON"),
    ],
)
def test_json_that_the_host_does_not_understand_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        Document(text.encode(), "json")


def test_a_dialect_has_comments_and_no_trailing_comma() -> None:
    assert Document(b"{} // x", "commented").value == {}
    with pytest.raises(FormatError, match="a comma before"):
        Document(b'{"a": 1,}', "commented")


def test_long_number_is_read_whole() -> None:
    digits = "1" * 400
    assert Jsonc().read_value(f'{{"a": {digits}, "b": 1.5}}') == {"a": int(digits), "b": 1.5}


# --- any document ---------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + '"\\é\U0001f600 /*', max_size=6)
BLANKS = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", " /* } */ ", " // {\n", "\n// x\n  "])
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)


def text_in(data: st.DataObject, depth: int = 0, *, is_object: bool = True) -> str:
    """An object as people may write it, in which the last member may be `mcpServers`."""

    def blank() -> str:
        return data.draw(BLANKS)

    drawn: list[str] = data.draw(st.lists(NAMES, max_size=3, unique=True))
    names = drawn if is_object else [""] * len(drawn)
    rows = []
    for name in names:
        value = json.dumps(data.draw(PLAIN))
        kind = data.draw(st.sampled_from(["plain", "object", "list"]))
        if depth < 2 and kind != "plain":
            value = text_in(data, depth + 1, is_object=kind == "object")
        written = f"{json.dumps(name, ensure_ascii=False)}{blank()}:{blank()}" if is_object else ""
        rows.append(f"{blank()}{written}{value}{blank()}")
    if depth == 0 and data.draw(st.booleans()):
        rows.append(f'{blank()}"mcpServers":{blank()}{text_in(data, 1)}{blank()}')
    trailing = "," + blank() if bool(rows) and data.draw(st.booleans()) else ""
    opening, closing = "{}" if is_object else "[]"
    inside = ",".join(rows) + trailing or blank()
    made = f"{opening}{inside}{closing}"
    return made if depth else f"{blank()}{made}{blank()}"


@settings(max_examples=40)
@given(st.data())
def test_any_file_is_restored_to_the_byte(data: st.DataObject) -> None:
    text = text_in(data)
    document = Document(text.encode(), "jsonc")
    before = document.value
    document.insert(PATH, ENTRY)
    assert document.find(PATH) == ENTRY
    assert without(document.value, PATH) == {"mcpServers": {}, **_as_dict(before)}
    document.cut(PATH)
    assert without(document.value, PATH[:1]) == without(before, PATH[:1])
    if find_value(before, PATH[:1]):
        assert document.content == text.encode()


def _as_dict(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value
