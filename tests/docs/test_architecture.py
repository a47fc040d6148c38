"""ARCHITECTURE.md names what exists, and its paths are the ones that the bridge takes."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.harness import run
from support.mcp_proxy import FORM, proxied
from support.paths import ROOT

PAPER = (ROOT / "ARCHITECTURE.md").read_text()
PRODUCT = ROOT / "abp_bridge"
CITED = sorted(set(re.findall(r"`([\w/]+\.(?:py|js|json))`(?:\s+`([\w.]+)`)?", PAPER)))
TRACED = (sys.executable, str(Path(__file__).parent / "traced_bridge.py"))


def path_named(title: str) -> list[str]:
    """Return the steps of a path: the first `FILE` `QUALIFIED.NAME` of each numbered item."""
    text = PAPER.partition(f"\n**{title}.**")[2]
    steps = re.search(r"\n\n((?:\d+\. .*\n(?:   .*\n)*)+)", text)
    assert steps is not None, title
    items = re.split(r"^\d+\. ", steps[1], flags=re.MULTILINE)[1:]
    found = [re.search(r"`([\w/]+\.py)`\s+`([\w.]+)`", item) for item in items]
    return [f"{step[1]} {step[2]}" for step in found if step is not None]


QUESTIONS = {
    "A question to a host form": "fixtures/mcp-form/2025-11-25/select-many.jsonl",
    "A question to the page": "fixtures/page/typed.jsonl",
    "A question to an ACP permission": "fixtures/acp-permission/select-many.jsonl",
}
PATHS = QUESTIONS | {
    "A tool call": "fixtures/mcp/2025-11-25/tools-and-resources.jsonl",
    "A notification": "fixtures/mcp/2025-11-25/capabilities-changed.jsonl",
}


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
            parts = [part for target in targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names


@pytest.mark.parametrize(("file", "name"), CITED)
def test_architecture_names_what_exists(file: str, name: str) -> None:
    assert (PRODUCT / file).is_file(), file
    assert not name or name in defined(PRODUCT / file), f"{file} has no {name}"


def test_architecture_draws_every_room() -> None:
    rooms = [each.parent.name for each in PRODUCT.glob("*/__init__.py")]
    drawn = PAPER.partition("```text")[2].partition("```")[0]
    assert [room for room in rooms if f"{room}/" not in drawn] == []


def test_architecture_has_at_most_1500_words() -> None:
    assert len(PAPER.split()) <= 1500


@pytest.mark.parametrize("title", QUESTIONS)
def test_path_of_a_question_is_short(title: str) -> None:
    names = [step.rpartition(".")[2].lstrip("_") for step in path_named(title)]
    assert len(names) <= 8
    assert len(set(names)) == len(names)


@pytest.mark.process
@pytest.mark.parametrize("title", PATHS)
def test_path_is_taken_in_its_order(title: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    bridge = shlex.join((*TRACED, str(log)))
    played = run("replay", str(ROOT / PATHS[title]), "--bridge", bridge)
    assert played.returncode == 0, played.stdout
    steps, lines = path_named(title), log.read_text().splitlines()
    check_order(steps, lines)
    if title in QUESTIONS:  # no function is left out
        calls = {tuple(line.split("\t")) for line in lines}
        assert [pair for pair in pairwise(steps) if pair[::-1] not in calls] == []


@pytest.mark.process
def test_path_of_a_proxied_message_is_taken_in_its_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    traced = (*TRACED, str(log), "mcp")
    with proxied(
        tmp_path, "--page", "off", command=traced, capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call("okta")
        host.reply(host.asked()["id"], {"action": "decline"})
        assert host.text(call) == "cancelled"
        host.end()
    check_order(path_named("A proxied message"), log.read_text().splitlines())


def check_order(steps: list[str], log: list[str]) -> None:
    entered = iter(line.partition("\t")[0] for line in log)
    for step in steps:
        assert step in entered, f"{step} is not entered, or not after the step before it"
