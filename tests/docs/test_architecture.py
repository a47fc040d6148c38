"""What ARCHITECTURE.md names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.paths import ROOT

PAPER = (ROOT / "ARCHITECTURE.md").read_text()
PRODUCT = ROOT / "abp_bridge"
CITED = sorted(set(re.findall(r"`([\w/]+\.(?:py|js))`(?:\s+`([\w.]+)`)?", PAPER)))


def defined(file: Path) -> set[str]:
    names: set[str] = set()
    tree = ast.parse(file.read_text())
    for each in tree.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(each.name)
        if isinstance(each, ast.ClassDef):
            methods = (part for part in each.body if hasattr(part, "name"))
            names |= {f"{each.name}.{getattr(part, 'name', '')}" for part in methods}
        if isinstance(each, (ast.Assign, ast.AnnAssign)):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names |= {part.id for part in targets if isinstance(part, ast.Name)}
    return names


@pytest.mark.parametrize(("file", "name"), CITED)
def test_what_is_cited_is_there(file: str, name: str) -> None:
    assert (PRODUCT / file).is_file(), file
    assert not name or name in defined(PRODUCT / file), f"{file} has no {name}"


def test_every_room_is_drawn() -> None:
    rooms = [each.parent.name for each in PRODUCT.glob("*/__init__.py")]
    drawn = PAPER.partition("```text")[2].partition("```")[0]
    assert [room for room in rooms if f"{room}/" not in drawn] == []
