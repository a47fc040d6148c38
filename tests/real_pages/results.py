"""What each program did where a tool needs the user: `results.json`, for docs/webmcp.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).with_name("results.json")

# What a page does -> the words of its row.
CASES = {
    "form": "a form waits for its person",
    "declined": "and they do not want it",
    "nobody": "and they do not answer",
    "dialog": "a function opens `confirm()`",
    "consequential": "a function is `consequentialHint`",
    "password": "a form has a password",
    "pin": "a function's parameter is `writeOnly`",
}


@dataclass(frozen=True, slots=True)
class Program:
    """The column of a program: its version, when it was seen, and what was seen in each case."""

    name: str
    package: str
    version: str
    date: str
    seen: dict[str, str]


def read(file: Path = FILE) -> dict[str, Program]:
    said = json.loads(file.read_text(encoding="utf-8"))
    return {key: Program(**row) for key, row in said.items()}


def note(key: str, program: Program, file: Path = FILE) -> None:
    rows = {**read(file), key: program}
    ordered = {
        each: {**asdict(row), "seen": {case: row.seen[case] for case in CASES if case in row.seen}}
        for each, row in sorted(rows.items())
    }
    text = json.dumps(ordered, ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def table(programs: Mapping[str, Program]) -> Iterator[str]:
    names = [f"{each.name} {each.version}" for each in programs.values()]
    yield f"| the page | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for case, words in CASES.items():
        cells = (each.seen.get(case, "-").replace("|", "/") for each in programs.values())
        yield f"| {words} | {' | '.join(cells)} |"
    yield ""
    seen = "; ".join(f"`{each.package}` on {each.date}" for each in programs.values())
    yield f"Seen: {seen}."
