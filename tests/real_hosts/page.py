"""The printed parts of docs/hosts.md: the table of all hosts, and what was seen in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .results import BEHAVIOURS, OUTCOMES, HostResult


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
