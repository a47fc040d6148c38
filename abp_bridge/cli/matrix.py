"""`abp-bridge matrix`: print the table of `core.matrix`, for a host, with proofs from fixtures."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from abp_bridge.cli.runtime import complain
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.core.matrix import (
    MATRIX,
    NOBODY,
    Cell,
    QuestionShape,
    Support,
    SurfaceVariant,
    find_cell,
    since,
)
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import HOST, ORDER, Surface
from abp_bridge.core.words import SIMILAR, nearest
from abp_bridge.session.profiles import PROFILES, Profile
from abp_bridge.settings import SET_UP_BY, SURFACES, TABLE

if TYPE_CHECKING:
    import argparse


# What a fixture can prove: (surface, version, shape or hint), (protocol, "", event), or (`_HOST`,
# protocol, shape) for what a host does in its own way.
Key = tuple[str, str, str]
Group = TypeVar("Group")

HELP = "what becomes of each shape of question on each surface"
DESCRIPTION = "Prints the table that the bridge routes by."
TITLE = """\
# Capability matrix

What becomes of each shape of question on each surface."""
TREATMENTS = """
*Native*: the surface has a form for it. *Downgraded*: it is asked all the same, and how is said.
*Out of band*: on a page of the bridge's own, which neither host nor model sees. *Default*: the
app's own, for a preference that nobody gives. *Refused*: not asked here, and the next surface is
tried; a question that no surface asks is answered `NOT_SUPPORTED` with these reasons, and never
with an answer that nobody gave.
"""

WITHOUT = "no elicitation"  # the column of an MCP host that has declared none


_HOST = "host"


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """A `row` under a `column` (a surface or protocol), with its proof, if any.

    Attributes:
        title: The heading of its table in Markdown, if not the column's family.
        since: The first version of the protocol that has it.
        own: The host's profile changes it.
        fixture: The file that proves it.
    """

    column: str
    version: str
    row: str
    cell: Cell
    title: str = ""
    since: str = ""
    own: bool = False
    fixture: str = ""

    @property
    def words(self) -> str:
        cell = self.cell
        return f"{cell.support.value}: {cell.how}" if cell.how else cell.support.value

    @property
    def heading(self) -> str:
        return f"{self.column} {self.version}".strip()

    @property
    def key(self) -> Key:
        """What proves it: what is a host's own way, only a conversation with that host."""
        if self.own:
            return _HOST, self.column.partition("-")[0], self.row
        return self.column, self.version, self.row


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """Add whose matrix, how it is printed, and what proves it."""
    parser.add_argument(
        "--format",
        dest="style",
        choices=tuple(_STYLES),
        default="table",
        help="for people, for docs, for programs",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        help="as this host has it, by its profile: zed, acpx, goose-cli, codex-mcp-client ...",
    )
    parser.add_argument(
        "--fixture",
        dest="fixtures",
        metavar="FOLDER",
        nargs="?",
        const="fixtures",
        help="name the fixture that proves each cell (in ./fixtures)",
    )


def run_matrix(options: argparse.Namespace) -> int:
    """Print the matrix. Returns the exit code."""
    style, host, fixtures = options.style, options.host, options.fixtures
    names = [""] if host is None else _find_hosts(host, one=style != "table")
    if not names:
        titles = {each.name.lower(): name for name, each in PROFILES.items()}
        near = nearest(str(host).lower(), [*PROFILES, *titles], SIMILAR)
        meant = f" Is {titles.get(near, near)} meant?" if near else ""
        known = ", ".join(f"{name} ({profile.name})" for name, profile in PROFILES.items())
        return complain(
            f"no profile is known of {label(host, 60)!r}.{meant} There are {known}. Others go by"
            " the whole matrix: abp-bridge matrix",
            "matrix",
        )
    for name in names:
        try:
            proofs = {} if fixtures is None else read_proofs(fixtures, name)
        except OSError as problem:
            words = f"{fixtures} cannot be read: {problem.strerror}"
            return complain(f"{words}. Name their folder: --fixture FOLDER", "matrix")
        if fixtures is not None and not proofs:
            return complain(f"there is no fixture in {fixtures} that proves a cell", "matrix")
        profile = PROFILES.get(name)
        cells = [replace(cell, fixture=proofs.get(cell.key, "")) for cell in list_cells(profile)]
        for line in _STYLES[style](cells, ", ".join(_profile_words(profile))):
            sys.stdout.write(line + "\n")
    return 0


def _find_hosts(name: str, *, one: bool) -> list[str]:
    """Return the profiles by title, name or prefix; `one` rejects more."""
    wanted = re.sub(r"[^a-z0-9]+", "-", name.strip().lower())
    found = [
        each
        for each, profile in PROFILES.items()
        if wanted == profile.name.lower().replace(" ", "-")
    ] or [each for each in PROFILES if each == wanted or each.startswith(f"{wanted}-")]
    return sorted(found, key=lambda each: each != wanted)[:1] if one else found


# --- the cells ------------------------------------------------------------------------------------


def list_cells(profile: Profile | None = None) -> Iterator[PrintedCell]:
    """Yield the cells, column by column; with a profile, of the surfaces that such a host has."""
    for surface, version in MATRIX:
        if profile is None or surface in _OWN or surface.value in profile.shows:
            yield from _questions(surface, version, profile)
    if profile is None:
        for shape in QuestionShape:
            yield PrintedCell(WITHOUT, "", shape.value, Cell(Support.REFUSED, NOBODY))


_OWN = {Surface(name) for name in ORDER if name != HOST}  # the person's own


def _questions(surface: Surface, version: str, profile: Profile | None) -> Iterator[PrintedCell]:
    variant = usual = SurfaceVariant(surface, version)
    if profile is not None:
        loopback = profile.loopback or surface is not Surface.MCP_URL
        variant = replace(usual, plain=profile.plain, buttons=profile.buttons, loopback=loopback)
    for shape in QuestionShape:
        way = find_cell(shape, variant)
        first = since(surface, version, shape)
        own = way != find_cell(shape, usual)
        yield PrintedCell(surface.value, version, shape.value, way, since=first, own=own)


def _profile_words(profile: Profile | None) -> Iterator[str]:
    if profile is None:
        return
    yield f"{profile.name}: shows {', '.join(profile.shows) or 'nothing of its own'}"
    if not profile.shows or "mcp-form" in profile.shows:  # an MCP host either way
        without = ", without the time of a person" if profile.paused_while_asking else ""
        yield f"waits {profile.tool_timeout:g} s for a tool{without}"
    if profile.plain:
        yield "forms show text, yes or no, and one of several only"
    if profile.buttons <= 2:
        yield "buttons are yes and no only: options are asked one by one"
    if not profile.loopback:
        yield "opens no address of this machine"


# --- what proves them -----------------------------------------------------------------------------


def read_proofs(folder: str, host: str = "") -> dict[Key, str]:
    """Return what a folder's fixtures say that they prove, also for one `host`."""
    found: dict[Key, str] = {}
    os.listdir(folder)
    for path in sorted(Path(folder).rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            try:
                head = as_object(json.loads(file.readline()))
            except ValueError:
                continue
        proves = head.get("proves", [])
        for each in proves if isinstance(proves, list) else [proves]:
            if (key := _read_key(as_object(each), host, head)) is not None:
                found.setdefault(key, str(path))
    return found


def _read_key(proof: JsonObject, host: str, head: JsonObject) -> Key | None:
    """Return the cell that a fixture proves, if any."""
    if "event" in proof:
        return str(proof.get("protocol", "")), "", str(proof["event"])
    row = proof.get("shape", proof.get("hint"))
    if row is not None and "surface" in proof:
        return str(proof["surface"]), str(proof.get("version", "")), str(row)
    name, protocol = (str(each.get("host", "")).partition(" ")[0] for each in (proof, head))
    if "shape" in proof and name and f"{host}-".startswith(f"{name}-"):
        return _HOST, protocol, str(proof["shape"])
    return None


# --- as text --------------------------------------------------------------------------------------


def _group(
    cells: Iterable[PrintedCell], by: Callable[[PrintedCell], Group]
) -> dict[Group, list[PrintedCell]]:
    groups: dict[Group, list[PrintedCell]] = {}
    for cell in cells:
        groups.setdefault(by(cell), []).append(cell)
    return groups


def _table(cells: Sequence[PrintedCell], host: str) -> Iterator[str]:
    if host:
        yield from textwrap.wrap(host, 100, subsequent_indent="  ")
        yield ""
    yield from _ways()
    for row, in_row in _group(cells, lambda cell: cell.row).items():
        yield row
        for alike in _group(in_row, lambda cell: cell.cell).values():
            yield from _table_lines(alike)
        yield ""


def _ways() -> Iterator[str]:
    yield "Where you have set them up:"
    room = max(map(len, SURFACES))
    for surface, name in SURFACES.items():
        words = f"{surface:<{room}}  {SET_UP_BY[surface]}: {TABLE[name].help}"
        further = " " * (4 + room)
        yield from textwrap.wrap(words, 100, initial_indent="  ", subsequent_indent=further)
    yield ""


def _table_lines(cells: Sequence[PrintedCell]) -> Iterator[str]:
    columns = _group(cells, lambda cell: cell.column)
    names = ", ".join(
        " ".join(filter(None, [name, *(cell.version for cell in each)]))
        for name, each in columns.items()
    )
    mark = "+" if cells[0].cell.asks else "-"
    yield from textwrap.wrap(
        f"{mark} {names}: {cells[0].words}", 100, initial_indent="  ", subsequent_indent="      "
    )
    yield from (
        f"      {fixture}" for fixture in _group(cells, lambda cell: cell.fixture) if fixture
    )


# --- as Markdown ----------------------------------------------------------------------------------

_FAMILIES = {"mcp": "MCP hosts", WITHOUT: "MCP hosts", "acp": "ACP clients", "abp": "ABP agents"}


def _family(cell: PrintedCell) -> str:
    return cell.title or _FAMILIES.get(
        cell.column.partition("-")[0], "Surfaces of the person's own"
    )


def _markdown(cells: Sequence[PrintedCell], host: str) -> Iterator[str]:
    yield from (TITLE + "\n" + TREATMENTS).splitlines()
    if host:
        yield f"\nThis is the matrix as one host has it. {host}."
    yield from write_tables(cells)


def write_tables(cells: Sequence[PrintedCell]) -> Iterator[str]:
    """Yield a table for each family of surfaces, with why what is refused is refused."""
    for title, in_table in _group(cells, _family).items():
        yield f"\n## {title}\n"
        yield from _markdown_table(in_table)


def _markdown_table(cells: Sequence[PrintedCell]) -> Iterator[str]:
    columns = _group(cells, lambda cell: cell.heading)
    reasons: dict[str, int] = {}
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    if any(cell.since for cell in cells):
        yield f"| *since* | {' | '.join(column[0].since for column in columns.values())} |"
    for row, in_row in _group(cells, lambda cell: cell.row).items():
        there = {cell.heading: _markdown_cell(cell, reasons) for cell in in_row}
        yield f"| {row} | {' | '.join(there.get(heading, '') for heading in columns)} |"
    if reasons:
        yield "\nRefused:\n"
        yield from (f"{number}. {why}" for why, number in reasons.items())


def _markdown_cell(cell: PrintedCell, reasons: dict[str, int]) -> str:
    words = cell.words
    if not cell.cell.asks:
        words = f"refused ({reasons.setdefault(cell.cell.how, len(reasons) + 1)})"
    return f"[{words}](../{cell.fixture})" if cell.fixture else words


# --- as JSON --------------------------------------------------------------------------------------


def _json(cells: Sequence[PrintedCell], host: str) -> Iterator[str]:
    questions = {"questions": [_members(cell) for cell in cells]}
    yield json.dumps(({"host": host} if host else {}) | questions, ensure_ascii=False, indent=1)


def _members(cell: PrintedCell) -> dict[str, str]:
    column = {"surface": cell.column, "version": cell.version, "shape": cell.row}
    way = {"treatment": cell.cell.support.value, "how": cell.cell.how}
    known = {"fixture": cell.fixture, "since": cell.since}
    return column | way | {name: value for name, value in known.items() if value}


_STYLES = {"table": _table, "markdown": _markdown, "json": _json}
