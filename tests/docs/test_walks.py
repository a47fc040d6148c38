"""The walks of ARCHITECTURE.md go where the bridge goes, in that order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.harness import run
from support.mcp_proxy import FORM, proxied
from support.paths import ROOT

PAPER = (ROOT / "ARCHITECTURE.md").read_text()
WALKS = {
    fixture: re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", re.split(r"\n\n(?!1\.)", walk)[0])
    for walk in re.split(r"\n\*\*", PAPER.partition("\n## Walks")[2].partition("\n## ")[0])
    for fixture in re.findall(r"`(fixtures/\S+)`", walk)
}


@pytest.mark.parametrize("fixture", WALKS)
def test_a_walk_goes_where_the_bridge_goes(fixture: str, tmp_path: Path) -> None:
    written = tmp_path / "entered"
    bridge = f"{sys.executable} {Path(__file__).parent / 'traced_bridge.py'} {written}"
    played = run("replay", str(ROOT / fixture), "--bridge", bridge)
    assert played.returncode == 0, played.stdout
    follow(WALKS[fixture], written)


def follow(walk: list[tuple[str, str]], written: Path) -> None:
    """Each step of a walk is entered after those before it."""
    entered = iter(written.read_text().splitlines())
    for file, name in walk:
        step = f"{file} {name}"
        if name[0].isupper() and "." not in name:
            continue  # a class: nobody enters it
        assert step in entered, f"{step} is not entered, or not after what stands before it"


def test_a_servers_question_goes_where_its_walk_says(tmp_path: Path) -> None:
    written = tmp_path / "entered"
    traced = (sys.executable, str(Path(__file__).parent / "traced_bridge.py"), str(written), "mcp")
    with proxied(
        tmp_path, "--page", "off", command=traced, capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call("okta")
        host.reply(host.asked()["id"], {"action": "decline"})
        assert host.text(call) == "cancelled"
        host.end()
    (walk,) = re.findall(r"\n\*\*A server's question(.*?)\n\n", PAPER, re.DOTALL)
    follow(re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", walk), written)


def test_the_walks_are_found() -> None:
    assert len(WALKS) == 11
    assert min(len(walk) for walk in WALKS.values()) >= 5
