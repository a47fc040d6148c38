"""The same behaviours in each host of `rows.py`, written to `results.json` for docs/hosts.md.

`make hosts ARGS='behaviours -k codex-exec'` runs one host and updates its row.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from real_servers.servers import Person as AtTheBrowser
from support.browser import type_on_the_page
from support.paths import DOCS
from support.puppets import scripted

from abp_bridge import VERSION
from abp_bridge.core.surface import WAYS
from abp_bridge.session.profiles import profile

from . import results, rows, rows_more
from .hosts import PACKAGES, calling, first_json
from .results import CANNOT, DOWNGRADED, REFUSED, WORKS, HostResult, Seen
from .rows import Row, Setting, Shown
from .stage import Stage

Json = Any

KEY = "planted-key-91c2"
_ROWS = {**rows.ROWS, **rows_more.ROWS}
_HOSTS = list(dict.fromkeys(row.package for row in _ROWS.values()))
# Those of one host stand together.
ROWS = dict(sorted(_ROWS.items(), key=lambda item: _HOSTS.index(item[1].package)))
APP = Path(__file__).with_name("trip.json")
TOOL_TIMEOUT = 4.0  # seconds, less than the app's search takes
BOOK = {"city": "Lisbon", "nights": 3}
BOOKED = "Booked: Lisbon, 3 nights."
QUESTION = "Book Lisbon?"
# A capability whose question nobody can be asked: its words, and a way that is always one.
UNASKED = {
    "trip.sign_in": ("The key of your account?", "--page open"),
    "trip.confirm": (QUESTION, "--page open"),
    "trip.describe": ("Describe Lisbon.", "--sampling MODEL"),
}


# --- one row in a scene ---------------------------------------------------------------------------


class Scene:
    """One host, for one behaviour: turns of it, its person, and what came of them."""

    def __init__(self, row: Row, stage: Stage) -> None:
        self.row = row
        self.stage = stage
        self.shown: list[Shown] = []
        stage.offer(scripted(APP))

    def play(
        self,
        script: str,
        *answers: str,
        page: str = "",
        tool_timeout: float | None = None,
        **env: str,
    ) -> None:
        """Play one turn. The user answers in the host or, where it shows nothing, on the page."""
        left = list(answers)

        def in_the_host(shown: Shown) -> None:
            self.shown.append(shown)
            _answer(shown, left.pop(0))

        if self.row.shows or not answers:
            page_env = {"ABP_PAGE": page} if page else {}
            setting = Setting({**page_env, **env}, tool_timeout)
            self.row.play(self.stage, setting, script, in_the_host)
        else:
            self._play_with_browser(script, left, Setting(env, tool_timeout))
        assert not left, f"nobody was asked for {left}"

    def _play_with_browser(self, script: str, left: list[str], setting: Setting) -> None:
        person = AtTheBrowser(self.stage.folder)
        env = {**setting.env, **person.environment, "ABP_PAGE": "open"}

        def at_the_browser() -> None:
            while left:
                words, answer = person.look(), left[0]
                self.shown.append(
                    Shown("the bridge's page, which opened", words, lambda word: None)
                )
                typed = {"field-0": KEY, "action": "send"} if answer == "key" else {}
                (self.stage.folder / "links").unlink()
                person.press(**(typed or {"action": answer}))
                left.pop(0)

        with ThreadPoolExecutor(1) as pool:
            acting = pool.submit(at_the_browser)
            self.row.play(self.stage, Setting(env, setting.tool_timeout), script, self._never)
            acting.result()

    def _never(self, shown: Shown) -> None:
        raise AssertionError(f"a host that shows nothing showed {shown.words}")

    # --- what came of it ---

    @property
    def heard(self) -> list[str]:
        """What the model read of its tools, or what the user read where there is no model."""
        if not self.row.has_model:
            return self.stage.said
        return self.stage.model.requests[-1].heard

    def response(self) -> Json:
        results = self.stage.results()  # none where the bridge stands before an agent
        text = results[-1]["content"][0]["text"] if results else self.heard[-1]
        value = _first_json(text)
        as_it_is = self.is_heard(text.partition("\n")[0])
        assert as_it_is or value in map(_first_json, self.heard), "the model did not read it"
        return value

    @property
    def reader(self) -> str:
        return "model" if self.row.has_model else "person"

    def is_heard(self, text: str) -> bool:
        return any(each in said for said in self.heard for each in (text, json.dumps(text)[1:-1]))

    def how(self) -> str:
        return ", then ".join(dict.fromkeys(each.how for each in self.shown)) or "nothing"

    def outcome(self, response: Json) -> str:
        route = response["metadata"].get("route", "")
        return WORKS if self.row.shows and not route.startswith("page") else DOWNGRADED


def _first_json(text: str) -> Json:
    with contextlib.suppress(ValueError):
        return first_json(text)
    return None


def _answer(shown: Shown, answer: str) -> None:
    if answer != "key":
        shown.press(answer)
        return
    if shown.opens_first:
        shown.press("done")
    type_on_the_page(shown.words, KEY)
    if not shown.opens_first:
        shown.press("done")


# --- what the hosts do, each the same -------------------------------------------------------------


def connect(scene: Scene) -> Seen:
    """The model connects the app, and reads what it can do."""
    scene.play(calling("abp_connect"))
    first, heard = scene.stage.model.requests[0], scene.heard[-1]
    assert first.offers("abp_connect"), "the model's first request was without the bridge's tools"
    for name in ("trip.book", "trip.confirm", "trip.sign_in", "trip.search"):
        assert name in heard, heard
    last = scene.stage.model.requests[-1]
    gained = "had the app's tools at once" if last.offers("trip_book") else "has `abp_call` for it"
    return Seen(
        WORKS, f"the first request had the bridge's tools; once connected, the model {gained}"
    )


def parameters(scene: Scene) -> Seen:
    """A capability's parameters reach the model by each of three ways, before it sends them."""
    wrong = calling("abp_call", capability="trip.book", params={"town": "Lisbon"})
    right = calling("abp_call", capability="trip.book", params=BOOK)
    scene.play("\n".join([calling("abp_connect"), wrong, right]))
    first, by_connect, by_error = scene.stage.model.requests[0], *scene.heard[:2]
    assert not first.offers("trip_book"), "a first session cannot know the app's tools"
    for heard in (by_connect, by_error):
        assert all(name in heard for name in BOOK), heard
    assert BOOKED in scene.heard[2], scene.heard[2]
    before = len(scene.stage.model.requests)
    scene.play(calling("trip_book", **BOOK))
    first, *_, last = scene.stage.model.requests[before:]
    known = last.find("trip_book")
    ways = "`abp_connect`'s text and an error's had them"
    if not first.offers("trip_book") or known is None or not set(BOOK) <= (known.takes or set()):
        return Seen(DOWNGRADED, f"{ways}; the next session's first list had no tool of the app's")
    assert BOOKED in scene.heard[-1], scene.heard[-1]
    return Seen(
        WORKS, f"{ways}; in the next session `trip_book` was listed at once and connected its app"
    )


def question(scene: Scene) -> Seen:
    """An app's yes or no is shown, and the person's yes is the app's."""
    scene.play(calling("abp_call", capability="trip.confirm"), "yes")
    response = scene.response()
    assert QUESTION in scene.shown[-1].words, scene.shown[-1].words
    assert (response["success"], response["data"]) == (True, {"confirmed": True})
    asked = f"{scene.how()}{_drawn(scene.shown[-1])}"
    return Seen(
        scene.outcome(response), f"{asked}; the app and the {scene.reader} got {_told(response)}"
    )


def _drawn(shown: Shown) -> str:
    *_, drawn = shown.words.rpartition("asks:")
    lines = [" ".join(line.replace("─", " ").split()) for line in drawn.splitlines()]
    return "" if "<html" in shown.words else f": “{' / '.join(filter(None, lines))}”"


def decline(scene: Scene) -> Seen:
    """The person does not want to answer, which is no answer."""
    scene.play(calling("abp_call", capability="trip.confirm"), "decline")
    response = scene.response()
    assert response.get("data") != {"confirmed": True}
    assert response["metadata"]["answeredBy"] not in ("host-policy", "nobody")
    return Seen(
        scene.outcome(response),
        f"{scene.how()}; the app and the {scene.reader} got {_told(response)}",
    )


def secret(scene: Scene) -> Seen:
    """A secret is typed on the bridge's page: neither host nor model has it."""
    scene.play(calling("abp_call", capability="trip.sign_in"), "key", page="link")
    response = scene.response()
    assert response["data"] == hashlib.sha256(KEY.encode()).hexdigest()
    assert not scene.is_heard(KEY)
    assert all(KEY not in json.dumps(line) for line in _lines(scene)), "the host has seen it"
    by = response["metadata"]["answeredBy"]
    is_linked = "-url" in response["metadata"]["route"]
    return Seen(
        WORKS if is_linked else DOWNGRADED,
        f"{scene.how()}; typed on the bridge's page; the app got it (by {by}), host and model did"
        " not",
    )


def nobody(scene: Scene) -> Seen:
    """Nobody can be asked: the model reads what was asked, whom we tried, and every way."""
    asked, way = UNASKED[scene.row.unasked]
    scene.play(calling("abp_call", capability=scene.row.unasked))
    response = scene.response()
    assert not response["success"]
    assert response["metadata"]["answeredBy"] in ("nobody", "host-policy"), response
    for words in (f'asked: "{asked}', way):
        assert scene.is_heard(words), scene.heard[-1]
    heard = scene.heard[-1].replace("\\n", "\n")  # which hosts may wrap in JSON
    tried = re.findall(r"tried: (.*)", re.sub(r" in [\d.]+ ms", "", heard))
    assert tried, heard
    ways = profile(_client(scene).get("name")).ways
    own = [each for each in ways if scene.is_heard(str(each))]
    every = scene.row.unasked == "trip.confirm"  # a yes or no goes each of them, a secret not
    assert not every or own == list(ways), scene.heard[-1]
    there = [each.give for each in WAYS.values() if scene.is_heard(str(each))]
    there += [each.give for each in own]
    told = f"`{response['error']['code']}` by {response['metadata']['answeredBy']}"
    ways_read = ", ".join(map(_code, there))
    read = f"the {scene.reader} read “tried: {'; '.join(tried)}” and the ways {ways_read}"
    return Seen(REFUSED, f"“{asked}”: {told}; {read}")


def _code(words: str) -> str:
    return f"`{words}`"


def long(scene: Scene) -> Seen:
    """A call that takes longer than the host waits ends with `abp_wait`."""
    limit = TOOL_TIMEOUT if scene.row.clock else None
    scene.play(
        calling("abp_call", capability="trip.search") + "\n" + calling("abp_wait", call="$call"),
        tool_timeout=limit,
        ABP_HOST_PATIENCE=f"{TOOL_TIMEOUT:g}s",
    )
    goes_on, ended = scene.heard[-2:]
    assert "is still running" in goes_on, goes_on
    assert "abp_wait" in goes_on, goes_on
    assert "Found: nine hotels." in ended, ended
    by = f"{scene.row.clock} at {limit:g} s" if limit else "its own clock as it is"
    return Seen(
        WORKS, f"{by}: the first result said that the call goes on, `abp_wait` brought its end"
    )


def server(scene: Scene) -> Seen:
    """A server behind `abp-bridge mcp` asks before it deletes: a no keeps the notes."""
    notes = scene.stage.folder / "notes.db"
    connection = sqlite3.connect(notes)
    with connection:
        connection.execute("create table notes (text)")
        connection.executemany("insert into notes values (?)", [["a"], ["b"], ["c"]])
    example = DOCS / "examples" / "notes_server.py"
    scene.stage.stand_before([sys.executable, example, notes])
    kept, heard = [], []
    for answer in ("decline", "yes"):
        scene.play(calling("delete_notes"), answer)
        heard.append(scene.heard[-1])
        kept += connection.execute("select count(*) from notes").fetchone()
    assert all("Delete all 3 notes?" in shown.words for shown in scene.shown)
    assert "nothing was deleted" in heard[0], heard[0]
    assert "3 notes were deleted" in heard[1], heard[1]
    assert kept == [3, 0]
    outcome = WORKS if scene.row.shows else DOWNGRADED
    return Seen(
        outcome, f"{scene.how()}; declined, 3 of 3 notes were kept; with a yes they were gone"
    )


def _told(response: Json) -> str:
    by, outcome = response["metadata"]["answeredBy"], response["metadata"].get("outcome")
    if response["success"]:
        return f"`{json.dumps(response['data'])}` by {by}"
    return f"`{response['error']['code']}` ({outcome}) by {by}"


def _lines(scene: Scene) -> Iterator[Json]:
    for kind in ("mcp", "acp", "proxy", "server"):
        for record in scene.stage.records(kind):
            yield from (message for _, message in record.lines)


def _client(scene: Scene) -> Json:
    for message in _lines(scene):
        params = message.get("params") or {}
        meta = params.get("_meta") or {}
        if found := params.get("clientInfo") or meta.get(f"{META}clientInfo"):
            return found
    return {}


META = "io.modelcontextprotocol/"
PLAYS: dict[str, Callable[[Scene], Seen]] = {
    each.__name__: each
    for each in (connect, parameters, question, decline, secret, nobody, long, server)
}


# --- where the person calls the app, and no model does --------------------------------------------


def connect_by_command(scene: Scene) -> Seen:
    scene.play(calling("abp_connect"))
    for name in ("trip_book", "trip_confirm", "trip_sign_in", "trip_search"):
        assert f"/{name}" in scene.heard[-1], scene.heard[-1]
    return Seen(WORKS, "`/connect` named the app's commands, and what each does")


def parameters_by_command(scene: Scene) -> Seen:
    scene.play(calling("abp_call", capability="trip.book", params={"town": "Lisbon"}))
    assert all(name in scene.heard[-1] for name in BOOK), scene.heard[-1]
    scene.play(calling("abp_call", capability="trip.book", params=BOOK))
    assert BOOKED in scene.heard[-1], scene.heard[-1]
    return Seen(WORKS, "as JSON after `/trip_book`; an error named those that were missing")


def long_by_command(scene: Scene) -> Seen:
    scene.play(calling("abp_call", capability="trip.search"), ABP_HOST_PATIENCE="4s")
    assert "Found: nine hotels." in scene.heard[-1], scene.heard[-1]
    return Seen(WORKS, "its turn lasted as long as the call, and ended with its result")


BY_COMMAND = {
    "connect": connect_by_command,
    "parameters": parameters_by_command,
    "long": long_by_command,
}


# --- the table ------------------------------------------------------------------------------------


def _speaks(scene: Scene) -> str:
    versions: Sequence[str | int] = [
        message["result"]["protocolVersion"]
        for message in _lines(scene)
        if "protocolVersion" in (message.get("result") or {})
    ] or ["2026-07-28"]
    client = _client(scene)
    protocol = "ACP" if isinstance(versions[0], int) else "MCP"
    return f"{client.get('name')} {client.get('version')}, {protocol} {versions[0]}"


def _save(key: str, row: Row, behaviour: str, seen: Seen, speaks: str | None) -> None:
    found = results.read()
    package = PACKAGES[row.package]
    before = found.get(key)
    found[key] = HostResult(
        row.package,
        row.name,
        package.name,
        package.version,
        speaks or (before.speaks if before else ""),
        VERSION,
        datetime.now(UTC).date().isoformat(),
        {**(before.seen if before else {}), behaviour: seen},
    )
    results.write(found, list(ROWS))


@pytest.fixture
def host(key: str) -> str:
    return ROWS[key].package


@pytest.mark.parametrize("behaviour", PLAYS)
@pytest.mark.parametrize("key", ROWS)
def test_a_host(key: str, behaviour: str, request: pytest.FixtureRequest) -> None:
    row = ROWS[key]
    if (instead := row.instead.get(behaviour)) is not None and instead.outcome == CANNOT:
        _save(key, row, behaviour, instead, None)
        return
    scene = Scene(row, request.getfixturevalue("stage"))
    seen = ({} if row.has_model else BY_COMMAND).get(behaviour, PLAYS[behaviour])(scene)
    _save(key, row, behaviour, seen, _speaks(scene) if behaviour == "connect" else None)
