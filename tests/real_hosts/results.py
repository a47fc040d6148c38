"""What each behaviour came to in each host: `results.json`, printed into docs/hosts.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("results.json")

# What a host is asked to do -> the words above its column.
BEHAVIOURS = {
    "connect": "connect an app",
    "parameters": "a call with parameters",
    "question": "a question",
    "decline": "a no",
    "secret": "a secret",
    "nobody": "nobody to ask",
    "long": "a long call",
    "server": "`abp-bridge mcp`",
}
WORKS, DOWNGRADED, REFUSED, CANNOT = "works", "downgraded", "refused", "cannot"
# What became of it -> what that means.
OUTCOMES = {
    WORKS: "by the host itself",
    DOWNGRADED: "it reaches the person, or the model, another way than the host's own",
    REFUSED: "the app, or the server, is told that it was not done, and the model why: as it should"
    " be, where nobody can be asked",
    CANNOT: "not to be had in this host",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one behaviour: one of `OUTCOMES`, and in a sentence what a run saw."""

    outcome: str
    words: str


@dataclass(frozen=True, slots=True)
class HostResult:
    """A row: the section of the page, the host, the bridge, the date, and what was seen."""

    section: str
    name: str
    package: str
    version: str
    speaks: str
    bridge: str
    date: str
    seen: dict[str, Seen]


def read(file: Path = FILE) -> dict[str, HostResult]:
    return {key: _decode(row) for key, row in json.loads(file.read_text(encoding="utf-8")).items()}


def _decode(row: Any) -> HostResult:
    seen = {behaviour: Seen(**each) for behaviour, each in row["seen"].items()}
    return HostResult(**{**row, "seen": seen})


def write(results: dict[str, HostResult], order: list[str], file: Path = FILE) -> None:
    rows = {}
    for key in sorted(results, key=lambda key: order.index(key) if key in order else len(order)):
        row = asdict(results[key])
        row["seen"] = {each: row["seen"][each] for each in BEHAVIOURS if each in row["seen"]}
        rows[key] = row
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def outcomes_table() -> Iterator[str]:
    yield "| word | what became of it |"
    yield "|---|---|"
    for outcome, meaning in OUTCOMES.items():
        yield f"| {outcome} | {meaning} |"


def hosts_table(rows: Mapping[str, HostResult]) -> Iterator[str]:
    yield f"| host | {' | '.join(BEHAVIOURS.values())} |"
    yield f"|---|{'---|' * len(BEHAVIOURS)}"
    for row in rows.values():
        cells = (row.seen[each].outcome if each in row.seen else "-" for each in BEHAVIOURS)
        yield f"| {row.name} | {' | '.join(cells)} |"


def section(rows: Mapping[str, HostResult], name: str) -> Iterator[str]:
    for row in rows.values():
        if row.section == name:
            yield from _host(row)


def _host(row: HostResult) -> Iterator[str]:
    yield ""
    yield (
        f"**{row.name}**: `{row.package}` {row.version}, which calls itself {row.speaks}; seen on"
        f" {row.date} with abp-bridge {row.bridge}."
    )
    yield ""
    yield "| | | what was seen |"
    yield "|---|---|---|"
    for behaviour, seen in row.seen.items():
        yield f"| {BEHAVIOURS[behaviour]} | {seen.outcome} | {seen.words.replace('|', '/')} |"
    yield ""
