"""Which of the names that there are may be meant by one that is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Of difflib's ratio, by what is done with a name that is this near:
MISSPELT = 0.8  # it is taken for a misspelt one
OFFERED = 0.6  # a person is asked whether it is meant
SIMILAR = 0.5  # it stands before the others: `pdf.export` for `export_pdf`
MAX_LOOKED_AT = 1_000  # names; each costs as much as its letters
MAX_LETTERS = 200  # of what was written: a name is shorter


def nearest(wanted: str, names: Iterable[str], ratio: float = OFFERED) -> str:
    """The one of `names` that `wanted` is nearest to; empty where none is as near as `ratio`."""
    from difflib import get_close_matches

    return "".join(get_close_matches(wanted[:MAX_LETTERS], names, 1, ratio))


def nearest_first(wanted: str, names: Sequence[str]) -> list[str]:
    """`names`, those first that `wanted` may stand for."""
    from difflib import get_close_matches

    simple = {_simple(name): name for name in reversed(names[:MAX_LOOKED_AT])}
    near = get_close_matches(_simple(wanted[:MAX_LETTERS]), simple, 3, SIMILAR)
    first = [simple[each] for each in near]
    return [*first, *(name for name in names if name not in first)]


def _simple(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".").removeprefix("abp.")
