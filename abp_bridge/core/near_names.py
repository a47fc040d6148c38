"""Which of the names that there are may be meant by one that is none."""

from __future__ import annotations

from collections.abc import Sequence

SIMILAR = 0.5  # of difflib's ratio: `pdf.export` is meant by `export_pdf`
MAX_LOOKED_AT = 1_000  # names; each costs as much as its letters


def nearest_first(wanted: str, names: Sequence[str]) -> list[str]:
    """`names`, those first that `wanted` may stand for."""
    from difflib import get_close_matches

    simple = {_simple(name): name for name in reversed(names[:MAX_LOOKED_AT])}
    near = get_close_matches(_simple(wanted[:200]), simple, 3, SIMILAR)
    first = [simple[each] for each in near]
    return [*first, *(name for name in names if name not in first)]


def _simple(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".").removeprefix("abp.")
