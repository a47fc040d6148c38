"""`abp-bridge matrix`: the capability matrix for people, as Markdown and as JSON, printed from the
tables of `core.matrix` and `core.notification_matrix`.

With a host's name, as that host's profile has it; with a folder of fixtures, each cell with the
recording that proves it.
"""

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
from abp_bridge.core.notification_matrix import HINTS, NOTIFICATION_MATRIX
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import HOST, ORDER, TRAITS, Surface
from abp_bridge.core.words import SIMILAR, nearest
from abp_bridge.protocols.pairs import QUESTIONS, find_pair
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
HEAD = """\
# Capability matrix

What becomes of each shape of question on each surface. The tables of questions are printed from
the one that the bridge routes by (`make docs`), and each cell leads to the recorded conversation
that proves it: see it with `abp-bridge trace FILE`, play it with `abp-bridge replay FILE`
([how](fixtures.md)). The table after them says what stands beside questions, in words of its own.
The last one is computed from both ends: what each asking side can ask in its own words, and what
becomes of that wherever it may be asked.

*Native*: the surface has a form for it. *Downgraded*: it is asked all the same, and how is said.
*Out of band*: on a page of the bridge's own, which neither host nor model sees. *Default*: the
app's own, for a preference that nobody gives. *Refused*: not asked here, and the next surface is
tried; a question that no surface asks is answered `NOT_SUPPORTED` with these reasons, and never
with an answer that nobody gave.

Some hosts show less than they declare: `abp-bridge matrix --host acpx` is the matrix as that host
has it, and `fixtures/hosts/` holds conversations with hosts as they show themselves on the wire.
"""

WITHOUT = "no elicitation"  # the column of an MCP host that has declared none


_HOST = "host"
# What the row of a cell is -> the member of the JSON that has those cells.
_KINDS = {"shape": "questions", "hint": "hints", "event": "told", "pair": "pairs"}


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One cell: a `row` under a `column`, which is a surface or a protocol, with its proof where
    there is one.

    Attributes:
        kind: What the row is: a "shape" of questions, a "hint" that stands with one, an "event"
            beside them, or a "pair": a question as somebody asks it.
        since: The version of the protocol that has it first.
        own: The host's profile makes it what it is.
        fixture: The file that proves it.
    """

    kind: str
    column: str
    version: str
    row: str
    cell: Cell
    since: str = ""
    own: bool = False
    fixture: str = ""

    @property
    def words(self) -> str:
        """What stands in the cell."""
        cell = self.cell
        return f"{cell.support.value}: {cell.how}" if cell.how else cell.support.value

    @property
    def heading(self) -> str:
        """What stands above its column."""
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
            proofs = {} if fixtures is None else _read_proofs(fixtures, name)
        except OSError as problem:
            words = f"{fixtures} cannot be read: {problem.strerror}"
            return complain(f"{words}. Name their folder: --fixture FOLDER", "matrix")
        if fixtures is not None and not proofs:
            return complain(f"there is no fixture in {fixtures} that proves a cell", "matrix")
        profile = PROFILES.get(name)
        cells = [replace(cell, fixture=proofs.get(cell.key, "")) for cell in _cells(profile)]
        for line in _STYLES[style](cells, ", ".join(_describe(profile))):
            sys.stdout.write(line + "\n")
    return 0


def _find_hosts(name: str, *, one: bool) -> list[str]:
    """The profiles that somebody means: by title, else by name or by how that begins; `one` alone
    where there is room for no more.
    """
    wanted = re.sub(r"[^a-z0-9]+", "-", name.strip().lower())
    found = [
        each
        for each, profile in PROFILES.items()
        if wanted == profile.name.lower().replace(" ", "-")
    ] or [each for each in PROFILES if each == wanted or each.startswith(f"{wanted}-")]
    return sorted(found, key=lambda each: each != wanted)[:1] if one else found


# --- the cells ------------------------------------------------------------------------------------


def _cells(profile: Profile | None) -> Iterator[PrintedCell]:
    """All cells, column by column; with a profile, of the surfaces that such a host can have and of
    the protocols that it speaks.
    """
    columns = [
        (surface, version)
        for surface, version in MATRIX
        if profile is None or surface in _OWN or surface.value in profile.shows
    ]
    for column in columns:
        yield from _questions(*column, profile)
    if profile is None:
        for shape in QuestionShape:
            yield PrintedCell("shape", WITHOUT, "", shape.value, Cell(Support.REFUSED, NOBODY))
    for surface, version in columns:
        for hint, way in HINTS.get((surface, version), {}).items():
            yield PrintedCell(
                "hint", surface.value, version, hint.value, way, TRAITS[surface].since
            )
    for protocol, ways in NOTIFICATION_MATRIX.items():
        family = protocol.partition(" ")[0].lower()
        if profile is None or any(name.startswith(family) for name in profile.shows):
            for event, way in ways.items():
                yield PrintedCell("event", protocol, "", event.value, way)
    for (who, what), ask in QUESTIONS.items() if profile is None else ():
        for surface, version in columns:
            way = find_pair(ask(), SurfaceVariant(surface, version))
            yield PrintedCell("pair", surface.value, version, f"{who}: {what}", way)


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
        yield PrintedCell("shape", surface.value, version, shape.value, way, first, own)


def _describe(profile: Profile | None) -> Iterator[str]:
    """Whose matrix it is, and what a profile says beside its cells."""
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


def _read_proofs(folder: str, host: str) -> dict[Key, str]:
    """What the heads of the fixtures in a folder say that they prove, also of one `host`.

    What is no fixture is passed over. Raises OSError.
    """
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
    """The cell that a fixture says it proves; where it is about the `host`, what that does with a
    shape, in the protocol that it speaks there.
    """
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
    """The cells that are the same `by` something, in the order in which they come."""
    groups: dict[Group, list[PrintedCell]] = {}
    for cell in cells:
        groups.setdefault(by(cell), []).append(cell)
    return groups


_TITLES = {
    "hint": "With a question",
    "event": "Beside questions, by the host's protocol",
    "pair": "By who asks",
}


def _table(cells: Sequence[PrintedCell], host: str) -> Iterator[str]:
    """For a terminal: each row with its columns, those together that do the same."""
    if host:
        yield from textwrap.wrap(host, 100, subsequent_indent="  ")
        yield ""
    yield from _ways()
    for kind, of_kind in _group(cells, lambda cell: cell.kind).items():
        if kind in _TITLES:
            yield f"{_TITLES[kind]}:\n"
        for row, in_row in _group(of_kind, lambda cell: cell.row).items():
            yield row
            for alike in _group(in_row, lambda cell: cell.cell).values():
                yield from _table_lines(alike)
            yield ""


def _ways() -> Iterator[str]:
    """The surfaces that are no host's, and what sets each up."""
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

_TITLED = {"event": "Beside questions", "pair": "By pairs: who asks, and where"}
_FAMILIES = {"mcp": "MCP hosts", WITHOUT: "MCP hosts", "acp": "ACP clients", "abp": "ABP agents"}


def _family(cell: PrintedCell) -> str:
    if cell.kind in _TITLED:
        return _TITLED[cell.kind]
    return _FAMILIES.get(cell.column.partition("-")[0], "Surfaces of the person's own")


def _markdown(cells: Sequence[PrintedCell], host: str) -> Iterator[str]:
    """For docs: a table for each family of surfaces, and why what is refused is refused."""
    yield from HEAD.splitlines()
    if host:
        yield f"\nThis is the matrix as one host has it. {host}."
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
    """For programs: a list of objects for each kind of cell."""
    kinds = _group(cells, lambda cell: cell.kind)
    members = {_KINDS[kind]: [_members(cell) for cell in each] for kind, each in kinds.items()}
    yield json.dumps(({"host": host} if host else {}) | members, ensure_ascii=False, indent=1)


def _members(cell: PrintedCell) -> dict[str, str]:
    column = (
        {"protocol": cell.column}
        if cell.kind == "event"
        else {"surface": cell.column, "version": cell.version}
    )
    way = {cell.kind: cell.row, "treatment": cell.cell.support.value, "how": cell.cell.how}
    known = {"fixture": cell.fixture, "since": cell.since}
    return column | way | {name: value for name, value in known.items() if value}


_STYLES = {"table": _table, "markdown": _markdown, "json": _json}
