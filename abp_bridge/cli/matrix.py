"""`abp-bridge matrix`: the capability matrix for people, as Markdown and as JSON, printed from the
tables of `core.matrix` and `core.telling`.

With a host's name, as that host's profile has it; with a folder of fixtures, each cell with the
recording that proves it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abp_bridge.cli.runtime import add_setting_options, complain
from abp_bridge.core.matrix import (
    HOST,
    MATRIX,
    NOBODY,
    ORDER,
    SINCE,
    QuestionShape,
    Route,
    Support,
    Surface,
    SurfaceVariant,
    route,
    since,
)
from abp_bridge.core.notification_matrix import HINTS, NOTIFICATION_MATRIX, PROTOCOLS
from abp_bridge.hosts.profiles import PROFILES, Profile

if TYPE_CHECKING:
    import argparse

    from abp_bridge.cli.runtime import Subparsers

Json = Any
Key = tuple[str, str, str]  # (surface, version, shape or hint), or (protocol, "", event)

HEAD = """\
# Capability matrix

What becomes of each shape of question on each surface. The tables of questions are printed from
the one that the bridge routes by (`make docs`), and each cell leads to the recorded conversation
that proves it: see it with `abp-bridge trace FILE`, play it with `abp-bridge replay FILE`
([how](fixtures.md)). The last table says what stands beside questions, in words of its own.

*Native*: the surface has a form for it. *Downgraded*: it is asked all the same, and how is said.
*Out of band*: on a page of the bridge's own, which neither host nor model sees. *Default*: the
app's own, for a preference that nobody gives. *Refused*: not asked here, and the next surface is
tried; a question that no surface asks is answered `NOT_SUPPORTED` with these reasons, and never
with an answer that nobody gave.

Some hosts show less than they declare: `abp-bridge matrix --host acpx` is the matrix as that host
has it, and `fixtures/hosts/` holds conversations with hosts as they show themselves on the wire.
"""

WITHOUT = "no elicitation"  # the column of an MCP host that has declared none


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a `row` (a shape, a hint or an event) under a `column`, with its proof where there
    is one. `since` is a version of the protocol.
    """

    column: str
    version: str
    row: str
    route: Route
    since: str = ""
    fixture: str = ""

    @property
    def words(self) -> str:
        route = self.route
        return f"{route.support.value}: {route.how}" if route.how else route.support.value

    @property
    def heading(self) -> str:
        return f"{self.column} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Matrix:
    """All cells: of `questions`, of the `hints` that stand with them, and of what is `told` beside
    them.
    """

    questions: Sequence[Cell]
    hints: Sequence[Cell]
    told: Sequence[Cell]
    host: str = ""  # whose it is, and what is to be known of it


def add_parser(commands: Subparsers) -> None:
    """Add `matrix`."""
    parser = commands.add_parser(
        "matrix",
        help="what becomes of each shape of question on each surface",
        description="Prints the table that the bridge routes by.",
    )
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
    add_setting_options(parser, "matrix")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the matrix. Returns the exit code."""
    style, host, fixtures = options.style, options.host, options.fixtures
    names = [""] if host is None else _hosts(host, one=style != "table")
    if not names:
        known = ", ".join(f"{name} ({profile.name})" for name, profile in PROFILES.items())
        return complain(
            f"no profile is known of {host!r}; there are {known}. Others go by the whole matrix",
            "matrix",
        )
    for name in names:
        try:
            proofs = {} if fixtures is None else _proofs(fixtures, name)
        except OSError as problem:
            words = f"{fixtures} cannot be read: {problem.strerror}"
            return complain(f"{words}. Name their folder: --fixture FOLDER", "matrix")
        if fixtures is not None and not proofs:
            return complain(f"there is no fixture in {fixtures} that proves a cell", "matrix")
        for line in _STYLES[style](_matrix(name, proofs)):
            sys.stdout.write(line + "\n")
    return 0


def _matrix(name: str, proofs: Mapping[Key, str]) -> Matrix:
    profile = PROFILES.get(name)
    questions, hints, told = (
        [replace(cell, fixture=_proof(cell, proofs)) for cell in cells]
        for cells in (_questions(profile), _hints(profile), _told(profile))
    )
    return Matrix(
        questions,
        hints,
        told,
        "" if profile is None else f"{profile.name}: {', '.join(_about(profile))}",
    )


def _hosts(name: str, *, one: bool) -> list[str]:
    """The profiles that somebody means: by name, by title, or by how they begin; `one` alone where
    there is room for no more.
    """
    wanted = re.sub(r"[^a-z0-9]+", "-", name.strip().lower())
    titled = [
        each
        for each, profile in PROFILES.items()
        if wanted == profile.name.lower().replace(" ", "-")
    ]
    begun = [each for each in PROFILES if each == wanted or each.startswith(f"{wanted}-")]
    found = titled or begun
    return [wanted] if one and wanted in found else found[:1] if one else found


def _questions(profile: Profile | None) -> Iterator[Cell]:
    """All cells of questions, column by column; with a profile, of the surfaces that such a host
    can have.
    """
    for surface, version in _columns(profile):
        column = SurfaceVariant(surface, version)
        if profile is not None:
            column = replace(
                column,
                plain=profile.plain,
                buttons=profile.buttons,
                loopback=profile.loopback or surface is not Surface.MCP_URL,
            )
        for shape in QuestionShape:
            yield Cell(
                surface.value,
                version,
                shape.value,
                route(shape, column),
                since(surface, version, shape),
            )
    for shape in QuestionShape if profile is None else ():
        yield Cell(WITHOUT, "", shape.value, Route(Support.REFUSED, NOBODY))


def _hints(profile: Profile | None) -> Iterator[Cell]:
    for surface, version in _columns(profile):
        for hint, way in HINTS.get((surface, version), {}).items():
            yield Cell(surface.value, version, hint.value, way, SINCE.get(surface, ""))


def _told(profile: Profile | None) -> Iterator[Cell]:
    """What is told in each protocol; with a profile, in those that such a host speaks."""
    families = {
        "ACP" if name.startswith("acp") else "MCP"
        for name in (("acp", "mcp") if profile is None else profile.shows)
    }
    for protocol in PROTOCOLS if families else ():
        if protocol.partition(" ")[0] not in families:
            continue
        for event, way in NOTIFICATION_MATRIX[protocol].items():
            yield Cell(protocol, "", event.value, way, protocol)


def _columns(profile: Profile | None) -> Iterator[tuple[Surface, str]]:
    """All of them; with a profile, what such a host shows, and what is the person's own."""
    for surface, version in MATRIX:
        if profile is None or surface in _OWN or surface.value in profile.shows:
            yield surface, version


_OWN = {Surface(name) for name in ORDER if name != HOST}


def _about(profile: Profile) -> Iterator[str]:
    """What a profile says beside its cells."""
    yield f"shows {', '.join(profile.shows)}"
    if "mcp-form" in profile.shows:
        yield (
            f"waits {profile.tool_timeout:g} s for a"
            f" tool{', without the time of a person' if profile.paused_while_asking else ''}"
        )
    if profile.plain:
        yield "forms show text, yes or no, and one of several only"
    if profile.buttons <= 2:
        yield "buttons are yes and no only: options are asked one by one"
    if not profile.loopback:
        yield "opens no address of this machine"


def _proof(cell: Cell, proofs: Mapping[Key, str]) -> str:
    """A cell that a host's profile changes is proven by a conversation with that host only."""
    try:
        usual = (
            route(QuestionShape(cell.row), SurfaceVariant(Surface(cell.column), cell.version))
            == cell.route
        )
    except ValueError:
        usual = True
    own = (
        proofs.get((_HOST, cell.column.partition("-")[0], cell.row), "")
        if cell.column in _SHOWN_BY_HOSTS
        else ""
    )
    return proofs.get((cell.column, cell.version, cell.row), "") if usual else own


_HOST = "host"
_SHOWN_BY_HOSTS = tuple(surface.value for surface in SINCE)


def _proofs(folder: str, host: str) -> dict[Key, str]:
    """What the heads of the fixtures in a folder say that they prove, also of one `host`.

    What is no fixture is passed over. Raises OSError.
    """
    found: dict[Key, str] = {}
    os.listdir(folder)
    for path in sorted(Path(folder).rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            try:
                head = json.loads(file.readline())
                proves, protocol = (
                    head.get("proves", []),
                    str(head.get("host", "")).partition(" ")[0],
                )
            except (ValueError, AttributeError):
                continue
        for each in proves if isinstance(proves, list) else [proves]:
            if isinstance(each, dict) and (key := _proven(each, host, protocol)) is not None:
                found.setdefault(key, str(path))
    return found


def _proven(proof: Mapping[str, Json], host: str, protocol: str) -> Key | None:
    """The cell that a fixture says it proves; where it is about a host, which speaks this protocol
    in it, what that host does with a shape.
    """
    if host and "host" in proof and "surface" not in proof and "shape" in proof:
        said = str(proof["host"]).partition(" ")[0]
        return (
            (_HOST, protocol, str(proof["shape"]))
            if host == said or host.startswith(f"{said}-")
            else None
        )
    if "event" in proof:
        return str(proof.get("protocol", "")), "", str(proof["event"])
    row = proof.get("shape", proof.get("hint"))
    return (
        None
        if row is None or "surface" not in proof
        else (str(proof["surface"]), str(proof.get("version", "")), str(row))
    )


def _table(matrix: Matrix) -> Iterator[str]:
    """For a terminal: each row with its columns, those together that do the same."""
    if matrix.host:
        yield from textwrap.wrap(matrix.host, 100, subsequent_indent="  ")
        yield (
            f"({', '.join(sorted(surface.value for surface in _OWN))}: where the person has set"
            " them up)\n"
        )
    for title, cells in (
        ("", matrix.questions),
        ("With a question", matrix.hints),
        ("Beside questions, by the host's protocol", matrix.told),
    ):
        if title:
            yield f"{title}:\n"
        for row in dict.fromkeys(cell.row for cell in cells):
            yield row
            ways: dict[Route, list[Cell]] = {}
            for cell in cells:
                if cell.row == row:
                    ways.setdefault(cell.route, []).append(cell)
            yield from (line for way, found in ways.items() for line in _together(way, found))
            yield ""


def _together(way: Route, cells: Sequence[Cell]) -> Iterator[str]:
    versions: dict[str, list[str]] = {}
    for cell in cells:
        versions.setdefault(cell.column, []).append(cell.version)
    names = ", ".join(" ".join([name, *filter(None, each)]) for name, each in versions.items())
    mark = "+" if way.asks else "-"
    yield from textwrap.wrap(
        f"{mark} {names}: {cells[0].words}", 100, initial_indent="  ", subsequent_indent="      "
    )
    yield from (
        f"      {fixture}" for fixture in dict.fromkeys(cell.fixture for cell in cells) if fixture
    )


def _markdown(matrix: Matrix) -> Iterator[str]:
    """For docs: a table for each family of surfaces, and why what is refused is refused."""
    yield from HEAD.splitlines()
    if matrix.host:
        yield f"\nThis is the matrix as one host has it. {matrix.host}."
    for title, columns in _FAMILIES.items():
        cells = [cell for cell in (*matrix.questions, *matrix.hints) if cell.column in columns]
        if cells:
            yield from _grid(title, cells)
    yield from _grid("Beside questions", matrix.told)


def _grid(title: str, cells: Sequence[Cell]) -> Iterator[str]:
    headings = list(dict.fromkeys(cell.heading for cell in cells))
    reasons: dict[str, int] = {}
    yield f"\n## {title}\n"
    yield f"| | {' | '.join(headings)} |"
    yield "|---" * (len(headings) + 1) + "|"
    if any(cell.since not in ("", cell.column) for cell in cells):
        first = {cell.heading: cell.since for cell in reversed(cells)}
        yield f"| *since* | {' | '.join(first[heading] for heading in headings)} |"
    for row in dict.fromkeys(cell.row for cell in cells):
        there = {cell.heading: cell for cell in cells if cell.row == row}
        yield (
            f"| {row} |"
            " "
            + " | ".join(
                _linked(there[each], reasons) if each in there else "" for each in headings
            )
            + " |"
        )
    if reasons:
        yield "\nRefused:\n"
        yield from (f"{number}. {why}" for why, number in reasons.items())


def _linked(cell: Cell, reasons: dict[str, int]) -> str:
    words = cell.words
    if not cell.route.asks:
        words = f"refused ({reasons.setdefault(cell.route.how, len(reasons) + 1)})"
    return f"[{words}](../{cell.fixture})" if cell.fixture else words


def _named(*surfaces: Surface) -> Sequence[str]:
    return [surface.value for surface in surfaces]


_FAMILIES = {
    "MCP hosts": [*_named(Surface.MCP_FORM, Surface.MCP_URL, Surface.MCP_SAMPLING), WITHOUT],
    "ACP clients": _named(Surface.ACP_FORM, Surface.ACP_URL, Surface.ACP_PERMISSION),
    "Surfaces of the person's own": _named(
        Surface.TERMINAL, Surface.PAGE, Surface.QUESTIONS_API, Surface.MOCK, Surface.MODEL
    ),
}


def _json(matrix: Matrix) -> Iterator[str]:
    members: dict[str, Json] = {"host": matrix.host} if matrix.host else {}
    members |= {
        "questions": [_spelled(cell, "shape") for cell in matrix.questions],
        "hints": [_spelled(cell, "hint") for cell in matrix.hints],
        "told": [
            {"protocol": cell.column, "event": cell.row, **_way(cell)} for cell in matrix.told
        ],
    }
    yield json.dumps(members, ensure_ascii=False, indent=1)


def _spelled(cell: Cell, row: str) -> dict[str, Json]:
    known = {"since": cell.since} if cell.since else {}
    return {"surface": cell.column, "version": cell.version, row: cell.row, **_way(cell), **known}


def _way(cell: Cell) -> dict[str, Json]:
    proof = {"fixture": cell.fixture} if cell.fixture else {}
    return {"treatment": cell.route.support.value, "how": cell.route.how, **proof}


_STYLES = {"table": _table, "markdown": _markdown, "json": _json}
