"""What docs/security.md says is tried, is tried by a test that is there."""

from __future__ import annotations

import re

import pytest
from support.paths import ROOT

PAPER = (ROOT / "docs/security.md").read_text()
TRIED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAPER)))


@pytest.mark.parametrize(("file", "name"), TRIED)
def test_each_threat_is_tried(file: str, name: str) -> None:
    source = (ROOT / file).read_text()
    assert re.search(rf"^(?:async )?def {name or 'test_'}", source, re.MULTILINE), f"{file} {name}"


def test_no_threat_is_without_a_test() -> None:
    threats = PAPER.partition("## What is tried")[2].partition("\n## ")[0]
    rows = [line for line in threats.splitlines() if line.startswith("| ")][2:]
    assert [row for row in rows if "`tests/" not in row and not row.startswith("| **")] == []


def test_the_page_for_reports_names_it() -> None:
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text()
