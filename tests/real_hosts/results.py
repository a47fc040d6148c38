"""What each behaviour came to in each host: `results.json`, printed into docs/hosts.md."""

from __future__ import annotations

import json
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
