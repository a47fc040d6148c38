"""The tables of docs/hosts.md: every host has been seen to do everything, and a run of some changes
their rows alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real_hosts import results
from real_hosts.results import BEHAVIOURS, OUTCOMES, Seen

HOSTS = results.read()


@pytest.mark.parametrize("key", HOSTS)
def test_each_host_was_seen_in_each_behaviour(key: str) -> None:
    seen = HOSTS[key].seen
    assert list(seen) == list(BEHAVIOURS)
    assert {each.outcome for each in seen.values()} <= set(OUTCOMES)


def test_every_host_is_a_row_and_every_row_has_its_columns() -> None:
    head, _, *rows = results.hosts_table(HOSTS)
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [
        host.name for host in HOSTS.values()
    ]
    assert {row.count(" | ") for row in (head, *rows)} == {len(BEHAVIOURS)}


def test_a_run_of_one_host_changes_its_row_alone(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results.write(HOSTS, list(HOSTS), file)
    assert file.read_bytes() == results.FILE.read_bytes()
    (key, row), *others = HOSTS.items()
    changed = replace(row, seen={**row.seen, "long": Seen("cannot", "not today")})
    results.write({key: changed, **dict(others)}, list(HOSTS), file)
    after = results.read(file)
    assert list(after.items()) == [(key, changed), *others]
    assert "| a long call | cannot | not today |" in results.section(after, row.section)
