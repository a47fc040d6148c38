"""A file of any format: what is asked of it is done, or nothing is."""

from __future__ import annotations

import pytest

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.document import FORMATS, Document
from abp_bridge.setup.formats.text import (
    FormatError,
    LimitError,
    Path,
    equal,
    find_value,
    merge,
    without,
)


class Careless:
    """A format that loses what stands beside."""

    def read_value(self, text: str) -> JsonValue:
        return FORMATS["json"].read_value(text)

    written = read_value

    def insert(self, text: str, path: Path, value: JsonValue) -> str:
        return '{"abp": 1}'

    replace = insert

    def check(self, text: str, path: Path) -> None:
        """Everything is clear."""

    def cut(self, text: str, path: Path) -> str:
        return "{}"


def test_edit_that_would_change_other_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "careless", Careless())
    document = Document(b'{"a": 1, "abp": 2}', "careless")
    with pytest.raises(FormatError, match="without changing others"):
        document.insert(("abp",), 1)
    with pytest.raises(FormatError, match="without changing others"):
        document.replace(("abp",), 1)
    with pytest.raises(FormatError, match="without changing others"):
        document.cut(("abp",))
    assert document.content == b'{"a": 1, "abp": 2}'
    other = Document(b"{}", "careless")
    with pytest.raises(FormatError, match="without changing others"):
        other.insert(("abp",), 5)


@pytest.mark.parametrize("format", FORMATS)
def test_file_that_is_not_utf_8_is_refused(format: str) -> None:
    with pytest.raises(FormatError, match="line 2: this is no UTF-8") as found:
        Document(b"\n\xff", format)
    assert found.value.line == 2


@pytest.mark.parametrize(
    ("format", "inside", "outside"),
    [
        ("json", '{"a": [1, 2, 3]}', '{"a": [1, 2, 3, 4]}'),
        ("toml", "a.b = [1, 2]  # . , = [\nc = '[[[['\n", "a.b = [1, 2, 3, 4]\n"),
        ("yaml", "a: [1, 2]\n", "a: [1, 2, 3]\n"),
    ],
)
def test_no_more_values_are_read_than_a_second_allows(
    format: str, inside: str, outside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"json": "jsonc.MAX_VALUES", "toml": "toml.MAX_VALUES", "yaml": "yaml.MAX_YAML_VALUES"}
    monkeypatch.setattr(f"abp_bridge.setup.formats.{limits[format]}", 5)
    Document(inside.encode(), format)
    with pytest.raises(LimitError, match="it has more than 5 values"):
        Document(outside.encode(), format)


@pytest.mark.parametrize(
    ("format", "clear", "unclear", "said"),
    [
        ("json", "", '{"a": {}, "a": {}}', 'the file has "a" twice'),
        ("json", '{"a": {}}', '{"a": []}', '"a" is no object'),
        ("toml", "[a]\n", "[[a]]\n", "a is no table"),
        ("yaml", "", "a: {}\na: {}\n", 'the file has "a" twice'),
        ("yaml", "b: &x {}\na: *x\n", "a: []\n", '"a" is no mapping'),
        ("yaml", "a: {abp: {}}\n", "a: {abp: 1, abp: 2}\n", '"a" has "abp" twice'),
    ],
)
def test_ambiguous_place_in_a_file_is_refused(
    format: str, clear: str, unclear: str, said: str
) -> None:
    Document(clear.encode(), format).check(("a", "abp"))
    with pytest.raises(FormatError, match=said):
        Document(unclear.encode(), format).check(("a", "abp"))


def test_half_of_a_pair_is_escaped_or_refused() -> None:
    path = ("servers", "abp")
    entry = {"command": "half of a pair: \ud800"}
    for format in ("json", "yaml"):
        document = Document(b"{}" if format == "json" else b"", format)
        document.insert(path, entry)
        assert b"\\ud800" in document.content
    toml = Document(b"a = 1\n", "toml")
    with pytest.raises(FormatError, match="what is to be written is no text"):
        toml.insert(path, entry)
    assert toml.content == b"a = 1\n"


def test_values_are_equal_in_kind_too() -> None:
    same = {"a": [1, float("nan"), None], "b": ("number", "1e400")}
    assert equal(same, {"b": ("number", "1e400"), "a": [1, float("nan"), None]})
    for one, other in (
        (1, True),
        (1, 1.0),
        ({"a": 1}, {"b": 1}),
        ([1], [1, 2]),
        (float("nan"), 1.5),
        ("a", "b"),
    ):
        assert not equal(one, other)


def test_members_are_found_left_out_and_joined() -> None:
    assert find_value({"a": {"b": 1}}, ("a", "b")) == 1
    assert find_value({"a": 5}, ("a", "b")) is None
    assert without({"a": {"b": 1, "c": 2}}, ("a", "b")) == {"a": {"c": 2}}
    assert without({"a": 5}, ("a", "b")) == {"a": 5}
    assert merge({"a": {"b": 1}, "c": 2}, {"a": {"b": 5, "d": 3}, "e": 4}) == {
        "a": {"b": 1, "d": 3},
        "c": 2,
        "e": 4,
    }
    assert merge(1, {"a": 2}) == 1
