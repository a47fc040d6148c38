"""docs/capabilities.md, printed by `python -m tests.docs.printed`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from abp_bridge.cli.matrix import (
    TITLE,
    TREATMENTS,
    PrintedCell,
    list_cells,
    read_proofs,
    write_tables,
)
from abp_bridge.core.matrix import MATRIX, SurfaceVariant
from abp_bridge.core.surface import TRAITS
from support.notification_matrix import HINTS, NOTIFICATION_MATRIX
from support.pairs import QUESTIONS, find_pair

ROOT = Path(__file__).parents[2]

HEAD = f"""\
{TITLE} The tables of questions are printed from
the one that the bridge routes by (`make docs`), and each cell leads to the recorded conversation
that proves it: see it with `abp-bridge trace FILE`, play it with `abp-bridge replay FILE`
([how](fixtures.md)). The table after them says what stands beside questions, in words of its own.
The last one is computed from both ends: what each asking side can ask in its own words, and what
becomes of that wherever it may be asked.
{TREATMENTS}
Some hosts show less than they declare: `abp-bridge matrix --host acpx` is the matrix as that host
has it, and `fixtures/hosts/` holds conversations with hosts as they show themselves on the wire.
"""


def page() -> str:
    proofs = {
        key: str(Path(path).relative_to(ROOT))
        for key, path in read_proofs(str(ROOT / "fixtures")).items()
    }
    cells = [replace(each, fixture=proofs.get(each.key, "")) for each in _cells()]
    return "\n".join([*HEAD.splitlines(), *write_tables(cells), ""])


def _cells() -> Iterator[PrintedCell]:
    yield from list_cells()
    for surface, version in MATRIX:
        for hint, way in HINTS.get((surface, version), {}).items():
            since = TRAITS[surface].since
            yield PrintedCell(surface.value, version, hint.value, way, since=since)
    for protocol, ways in NOTIFICATION_MATRIX.items():
        for event, way in ways.items():
            yield PrintedCell(protocol, "", event.value, way, "Beside questions")
    for (who, what), ask in QUESTIONS.items():
        for surface, version in MATRIX:
            way = find_pair(ask(), SurfaceVariant(surface, version))
            row, title = f"{who}: {what}", "By pairs: who asks, and where"
            yield PrintedCell(surface.value, version, row, way, title)
