"""The walks of ARCHITECTURE.md and docs/walks.md go where the bridge goes, in that order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from support.harness import RawHost, run
from support.mcp_proxy import FORM, proxied
from support.pages.server import web
from support.paths import ROOT
from support.puppets import trip

FIRST = (ROOT / "ARCHITECTURE.md").read_text().partition("\n## Walks")[2].partition("\n## ")[0]
PAPER = FIRST + (ROOT / "docs/walks.md").read_text()
TRACED = (sys.executable, str(Path(__file__).parent / "traced_bridge.py"))


def steps(walk: str) -> list[tuple[str, str]]:
    """The files and names of a walk: of its first paragraph, with a list that follows."""
    return re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", re.split(r"\n\n(?!1\.)", walk)[0])


def named(title: str) -> list[tuple[str, str]]:
    """The steps of the walk with that title."""
    (walk,) = PAPER.split(f"\n**{title}**")[1:]
    return steps(walk)


WALKS = {
    fixture: steps(walk)
    for walk in PAPER.split("\n**")
    for fixture in re.findall(r"`(fixtures/\S+)`", walk)
}


@pytest.mark.parametrize("fixture", WALKS)
def test_a_walk_goes_where_the_bridge_goes(fixture: str, tmp_path: Path) -> None:
    written = tmp_path / "entered"
    bridge = shlex.join((*TRACED, str(written)))
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
    traced = (*TRACED, str(written), "mcp")
    with proxied(
        tmp_path, "--page", "off", command=traced, capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call("okta")
        host.reply(host.asked()["id"], {"action": "decline"})
        assert host.text(call) == "cancelled"
        host.end()
    follow(named("A server's question"), written)


def test_a_form_of_a_page_goes_where_its_walk_says(tmp_path: Path) -> None:
    written = tmp_path / "entered"
    traced = (*TRACED, str(written), "serve")
    env = {"ABP_CHROME_SANDBOX": "0"}
    given = {"name": "Eve", "guests": 4, "room": "out", "quiet": True}
    with (
        web() as site,
        RawHost("--app", f"{site.here}/tools.html", command=traced, env=env) as host,
    ):
        host.initialize(elicitation=FORM)
        call = host.begin_call("abp_call", capability="book_table", params={"name": "Ann"})
        asked = host.until(lambda message: message.get("method") == "elicitation/create")
        host.reply(asked["id"], {"action": "accept", "content": given})
        assert '"name": "Eve"' in host.text(call)
        host.end()
    follow(named("A form of a page that waits"), written)


def test_a_host_that_declines_by_itself_goes_where_its_walk_says(tmp_path: Path) -> None:
    written = tmp_path / "entered"
    traced = (*TRACED, str(written), "serve")
    env = {"ABP_PERSON_FLOOR": "60000", "BROWSER": "/bin/false"}
    ask = {"method": "elicitation/confirm", "params": {"message": "Go on?"}}
    app = trip(tmp_path, [{"ask": ask, "aloud": True}])
    with RawHost("--app", app, "--page", "open", command=traced, env=env) as host:
        host.initialize(elicitation=FORM)
        call = host.begin_call("abp_call", capability="plan")
        for _ in ("the question", "the link to its page, as no browser can be opened"):
            asked = host.until(lambda message: message.get("method") == "elicitation/create")
            host.reply(asked["id"], {"action": "decline"})
        assert "host-policy" in host.text(call)
        host.end()
    follow(named("A host that declines by itself"), written)


def test_the_walks_are_found() -> None:
    assert len(WALKS) == 12
    assert min(len(walk) for walk in WALKS.values()) >= 5
