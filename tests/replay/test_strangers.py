"""What a fixture that is a stranger's cannot reach: servers of this machine that are not the
bridge's page, and the inbox and history of who plays it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.harness import run
from support.http_server import Reply, Request, serving
from support.paths import FIXTURES

from abp_bridge.conformance.user_drivers import fill_in
from abp_bridge.surfaces.inbox import history, pairing

Json = Any

CHOSEN = FIXTURES / "page" / "chosen.jsonl"
FORM = b'<form method=post><input name="what"><button name=press value=send>Send</button></form>'


@pytest.mark.process
@pytest.mark.parametrize("opened", ["{origin}/take", "[link 9]"], ids=["its own", "one it showed"])
def test_link_of_a_fixture_leads_only_to_the_bridge(opened: str, tmp_path: Path) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return Reply(FORM, "text/html")

    with serving(answer) as origin:
        prompt = f"See {origin}/take there"
        shown = "See [link 9] there" if opened == "[link 9]" else prompt
        text = CHOSEN.read_text()
        lines = [json.loads(line) for line in text.replace("A window seat?", prompt).splitlines()]
        place = next(number for number, line in enumerate(lines) if "open" in line)
        question = lines[place - 1]["message"]["params"]
        question["message"] = question["message"].replace(prompt, shown)
        lines[place] |= {"open": opened.format(origin=origin), "reads": []}
        fixture = tmp_path / "stranger.jsonl"
        fixture.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        played = run("replay", str(fixture))
    assert "is no page of this bridge's" in played.stdout, played.stdout
    assert (played.returncode, asked) == (1, [])


@pytest.mark.network
@pytest.mark.parametrize("leads", ["by a redirect", "by its form"])
def test_page_of_a_fixture_leads_to_no_other_server(leads: str) -> None:
    asked: list[Request] = []

    def take(request: Request) -> Reply:
        asked.append(request)
        return Reply(FORM, "text/html")

    with serving(take) as elsewhere:
        form = FORM.replace(b"<form", f'<form action="{elsewhere}/take"'.encode())
        redirect = Reply(status=302, headers={"Location": f"{elsewhere}/take"})
        reply = redirect if leads == "by a redirect" else Reply(form, "text/html")
        with serving(lambda _: reply) as origin, pytest.raises(ValueError, match="it leads away"):
            fill_in(f"{origin}/", ["a secret"], "send")
    assert asked == []


@pytest.mark.process
def test_replay_changes_no_inbox_or_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    pairing.save(pairing.Pairing())
    played = run("replay", str(CHOSEN))
    assert played.returncode == 0, played.stdout
    assert (history.read(), list(runtime.iterdir())) == ((), [])
