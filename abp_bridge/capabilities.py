"""`abp-bridge matrix`: the capability matrix for people, as Markdown and as JSON, printed from the table that the code routes by.

With a host's name, as that host's profile has it; with a folder of fixtures, each cell with the recording that proves it.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abp_bridge.core.matrix import MATRIX, Column, Route, Shape, Surface, Treatment, route
from abp_bridge.hosts.profiles import PROFILES, Profile

Json = Any
Proofs = Mapping[tuple[str, str, str], str]  # (surface, version, shape) -> the path of a fixture

HEAD = """\
# Capability matrix

What becomes of each shape of question on each surface. This page is printed from the table that the bridge routes by (`make docs`), and each
cell leads to the recorded conversation that proves it, where there is one yet: see it with `abp-bridge trace FILE`, play it with
`abp-bridge replay FILE` ([how](fixtures.md)).

*Native*: the surface has a form for it. *Downgraded*: it is asked all the same, and how is said. *Out of band*: on a page of the bridge's own,
which neither host nor model sees. *Refused*: not asked here, and the next surface is tried; a question that no surface asks is answered
`NOT_SUPPORTED` with these reasons, and never with an answer that nobody gave.

Some hosts show less than they declare: `abp-bridge matrix --host acpx` is the matrix as that host has it, and `fixtures/hosts/` holds conversations
with hosts as they show themselves on the wire.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, with its proof where there is one."""

    column: Column
    shape: Shape
    route: Route
    fixture: str = ""

    @property
    def words(self) -> str:
        route = self.route
        return f"{route.treatment.value}: {route.how}" if route.how else route.treatment.value


def run(*, style: str, host: str | None, fixtures: str | None) -> int:
    """Returns the exit code."""
    profile = None if host is None else PROFILES.get(host.lower())
    if host is not None and profile is None:
        sys.stderr.write(f"abp-bridge matrix: no profile is known of {host!r}; there are {', '.join(PROFILES)}. Others go by the whole matrix\n")
        return 2
    try:
        proofs = {} if fixtures is None else _proofs(fixtures)
    except OSError as problem:
        sys.stderr.write(f"abp-bridge matrix: {fixtures} cannot be read: {problem.strerror}\n")
        return 2
    if profile is not None and style == "table":
        sys.stdout.write(f"{profile.name}: {', '.join(_about(profile))}\n\n")
    cells = [replace(cell, fixture=proofs.get(_key(cell), "")) for cell in _cells(profile)]
    for line in _STYLES[style](cells):
        sys.stdout.write(line + "\n")
    return 0


def _cells(profile: Profile | None) -> Iterator[Cell]:
    """All cells, column by column; with a profile, of the surfaces that such a host can have."""
    for surface, version in MATRIX:
        if profile is not None and surface is Surface.MCP_URL and not profile.loopback:
            continue
        column = Column(surface, version)
        if profile is not None:
            column = replace(column, plain=profile.plain, buttons=profile.buttons)
        for shape in Shape:
            yield Cell(column, shape, route(shape, column))


def _about(profile: Profile) -> Iterator[str]:
    """What a profile says beside its cells."""
    yield f"waits {profile.patience:g} s for a tool{', without the time of a person' if profile.stops else ''}"
    if profile.plain:
        yield "forms show text, yes or no, and one of several only"
    if profile.buttons <= 2:
        yield "buttons are yes and no only: options are asked one by one"
    if not profile.loopback:
        yield "opens no address of this machine"


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.column.surface.value, cell.column.version, cell.shape.value


def _proofs(folder: str) -> dict[tuple[str, str, str], str]:
    """What the heads of the fixtures in a folder say that they prove. What is no fixture is passed over. Raises OSError."""
    found: dict[tuple[str, str, str], str] = {}
    os.listdir(folder)
    for path in sorted(Path(folder).rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            try:
                proves = json.loads(file.readline()).get("proves", [])
            except (ValueError, AttributeError):
                continue
        for each in proves if isinstance(proves, list) else [proves]:
            if isinstance(each, dict) and "surface" in each and "shape" in each:
                found.setdefault((str(each.get("surface")), str(each.get("version", "")), str(each["shape"])), str(path))
    return found


def _table(cells: list[Cell]) -> Iterator[str]:
    """For a terminal: each shape with its surfaces, those together that do the same."""
    for shape in Shape:
        yield shape.value
        ways: dict[Route, list[Cell]] = {}
        for cell in cells:
            if cell.shape is shape:
                ways.setdefault(cell.route, []).append(cell)
        for way, found in ways.items():
            surfaces: dict[str, list[str]] = {}
            for cell in found:
                surfaces.setdefault(cell.column.surface.value, []).append(cell.column.version)
            names = ", ".join(" ".join([name, *filter(None, versions)]) for name, versions in surfaces.items())
            mark = {Treatment.REFUSED: "-"}.get(way.treatment, "+")
            yield from textwrap.wrap(f"{mark} {names}: {found[0].words}", 100, initial_indent="  ", subsequent_indent="      ")
            yield from (f"      {cell.fixture}" for cell in found if cell.fixture)
        yield ""


def _markdown(cells: list[Cell]) -> Iterator[str]:
    """For docs: a table for each family of surfaces, and why what is refused is refused."""
    yield from HEAD.splitlines()
    for title, surfaces in _FAMILIES.items():
        columns = list(dict.fromkeys(cell.column for cell in cells if cell.column.surface in surfaces))
        if not columns:
            continue
        reasons: dict[str, int] = {}
        yield f"\n## {title}\n"
        yield f"| | {' | '.join(f'{each.surface.value} {each.version}'.strip() for each in columns)} |"
        yield "|---" * (len(columns) + 1) + "|"
        for shape in Shape:
            row = {cell.column: cell for cell in cells if cell.shape is shape}
            yield f"| {shape.value} | {' | '.join(_linked(row[column], reasons) for column in columns)} |"
        if reasons:
            yield "\nRefused:\n"
            yield from (f"{number}. {why}" for why, number in reasons.items())


def _linked(cell: Cell, reasons: dict[str, int]) -> str:
    words = cell.words
    if not cell.route.asks:
        words = f"refused ({reasons.setdefault(cell.route.how, len(reasons) + 1)})"
    return f"[{words}](../{cell.fixture})" if cell.fixture else words


_FAMILIES = {
    "MCP hosts": (Surface.MCP_FORM, Surface.MCP_URL, Surface.MCP_SAMPLING),
    "ACP clients": (Surface.ACP_FORM, Surface.ACP_URL, Surface.ACP_PERMISSION),
    "Surfaces of the person's own": (Surface.TERMINAL, Surface.PAGE, Surface.QUESTIONS_API, Surface.MOCK, Surface.MODEL),
}


def _json(cells: list[Cell]) -> Iterator[str]:
    found: list[Json] = [
        {
            "surface": cell.column.surface.value,
            "version": cell.column.version,
            "shape": cell.shape.value,
            "treatment": cell.route.treatment.value,
            "how": cell.route.how,
            **({"fixture": cell.fixture} if cell.fixture else {}),
        }
        for cell in cells
    ]
    yield json.dumps(found, ensure_ascii=False, indent=1)


_STYLES = {"table": _table, "markdown": _markdown, "json": _json}
