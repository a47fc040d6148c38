"""What keeps the product easy to follow stays as it is: `make size` prints the counts."""

from __future__ import annotations

from pathlib import Path

from .size import PRODUCT, measure


def test_size_finds_each_kind(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "topic.py").write_text(
        '"""A topic."""\n\nMAX_LINE = 10  # bytes\n\n\nclass Reader(Protocol):\n'
        '    """Reads."""\n\n    def _read(self) -> None: ...\n\n\nvalue = ContextVar("value")\n'
    )
    found = measure(tmp_path)["room"]
    assert (found.files, found.lines, found.code, found.functions) == (1, 12, 4, 1)
    assert (found.limits, found.protocols, found.context_vars) == (1, 1, 1)
    assert (found.short_files, found.names["read"]) == (1, 1)


def test_no_state_is_hidden_in_a_context_variable() -> None:
    assert [path for path in PRODUCT.rglob("*.py") if "ContextVar(" in path.read_text()] == []
