"""The hosts of fixtures: what each protocol has them say, with a bridge that records."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from support.abp_agent import EnvelopePeer
from support.pages.server import web
from support.paths import APPS, ROOT
from support.puppets import trip

from .beside import BESIDE
from .cases import Case
from .model import Model
from .person import LINK, Filled

Json = Any

META = "io.modelcontextprotocol/"
UNKNOWN: Json = {"code": -32601, "message": "Method not found"}
GLANCE = 0.02  # seconds between two looks at what is recorded


class Bridge(EnvelopePeer):
    """A recording bridge on its pipes, as the host of `case` sees it; what it works on is in
    `folder`.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.trace = folder / "trace.jsonl"
        self.session = ""  # of ACP
        for name, text in case.files.items():
            (folder / name).write_text(text)
        self.beside = BESIDE[case.beside](case, str(folder))
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LANG", "ABP_TOOL_CACHE")
            if name in os.environ
        }
        (programs := folder / "programs").mkdir()
        self._ends = ExitStack()
        model = Model(case.model, programs, self._ends)
        kept["PATH"] = f"{programs}:{kept['PATH']}"
        self.speaks_envelopes = case.protocol == "envelope"
        app = trip(folder, case.steps)
        if case.app[:1] == ("page",):
            app = f"{self._ends.enter_context(web()).here}/{case.app[1]}"
            kept["ABP_CHROME_SANDBOX"] = "0"  # for who makes them in a container
        elif case.app:
            scheme, program, *arguments = case.app
            app = f"{scheme}:{shlex.join([sys.executable, str(APPS / program), *arguments])}"
        role = ["serve", "--app", app]
        self.model = model.stands
        if model.word:
            role += ["--sampling", model.word]
        behind: tuple[str, ...] = ()
        if case.protocol == "proxy":
            role, behind = ["acp", *role[1:]], ("acp_agent.py", "--plain")
        if case.server:
            role, behind = ["mcp"], case.server
        if behind:
            behind = ("--", sys.executable, str(APPS / behind[0]), *behind[1:])
        super().__init__(
            [
                *(sys.executable, "-m", "abp_bridge", *role, "--record", str(self.trace)),
                *map(self.beside.placed, case.arguments),
                *behind,
            ],
            env={**kept, "PYTHONPATH": str(ROOT), "ABP_PERSON_FLOOR": "0", **case.env}
            | self.beside.env
            | dict(model.environment),
            cwd=folder,
            log=folder / "host.log",
        )

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self.beside.close()
        self._ends.close()

    def play(self) -> str:
        """The whole conversation: what was recorded."""
        with self:
            PROTOCOLS[self.case.protocol](self, self.case)
            assert self.end() == 0
        return self.trace.read_text()

    def ask(self, method: str, params: Json) -> Json:
        """What came of a request; what is asked meanwhile is answered as the case has it.

        None for a request that was given up.
        """
        id = self.begin(method, params)
        while (message := self.read()).get("id") != id or "method" in message:
            if "id" not in message or "method" not in message:
                continue
            if self.case.mute:
                self._send({"id": message["id"], "error": dict(UNKNOWN)})
                continue
            given = self.case.person(message["method"], message["params"])
            if given is None and self.case.cancels and not self._give_up(id):
                return None
            self._answer(message["id"], given)
        return message

    def until_app_is_through(self) -> None:
        """Wait until the app has ended its call, which says that everybody has heard."""
        until = time.monotonic() + self.patience
        while not any(map(_is_end_of_call, self.trace.read_text().split("\n")[:-1])):
            assert time.monotonic() < until, "the app's call does not end"
            time.sleep(GLANCE)

    def look(self, params: Json) -> None:
        """A host that looks what there is, and reads the first resource, if there is one."""
        for method in ("tools/list", "resources/list") if self.case.lists else ():
            for resource in self.ask(method, params)["result"].get("resources", [])[:1]:
                self.ask("resources/read", {**params, "uri": resource["uri"]})

    def _answer(self, id: Json, given: Any) -> None:
        result = given.result if isinstance(given, Filled) else given
        if result is not None:
            self.reply(id, result)
        if isinstance(given, Filled):
            given.fill_in()

    def _give_up(self, id: int) -> bool:
        """Whether the request is answered all the same."""
        if self.session:
            self.send("session/cancel", {"sessionId": self.session})
        else:
            self.cancel_request(id)
        return bool(self.session)

    def cancel_request(self, id: int) -> None:
        why = {"reason": "the person pressed stop"}
        if self.case.protocol == "abp":
            self.send("capabilities/cancel", {"callId": "c1", **why})
        else:
            self.send("notifications/cancelled", {"requestId": id, **why})


def _is_end_of_call(line: str) -> bool:
    entry = json.loads(line)
    if entry.get("way") != "app->bridge":
        return False
    result = entry.get("message", {}).get("result")
    return "closed" in entry or (isinstance(result, dict) and "success" in result)


# --- protocols ------------------------------------------------------------------------------------


def _legacy(bridge: Bridge, case: Case) -> None:
    opened = {"protocolVersion": case.version, "capabilities": case.capabilities}
    bridge.ask("initialize", {**opened, "clientInfo": dict(case.client)})
    bridge.send("notifications/initialized")
    bridge.look({})
    if case.beside == "program":  # it listens before anything is asked
        bridge.ask("tools/call", {"name": "abp_connect", "arguments": {}})
    bridge.beside.begin()
    # How far a model is, is said now and then: loading an API's library takes what it takes.
    meta: Json = {} if "api" in case.model else {"_meta": {"progressToken": "p1"}}
    message = bridge.ask("tools/call", {**case.call, **meta})
    if message is None:
        bridge.until_app_is_through()
    bridge.look({})
    while message is not None and (more := _passed_on(case, message)) is not None:
        message = bridge.ask("tools/call", more)


def _passed_on(case: Case, message: Json) -> Json:
    """What a model does with what the result of a call has it do: asks its user, or sends them to
    the page. None for a result that is one.
    """
    content = message.get("result", {}).get("content", "")
    words = json.dumps(content, ensure_ascii=False).replace('\\"', '"')
    if (question := re.search(r'abp_answer with {"question": "([^"]+)"', words)) is not None:
        given = case.person("told", {"words": words})
        return {"name": "abp_answer", "arguments": {"question": question[1], "content": given}}
    if LINK.search(words) is None:
        return None
    case.person("told", {"words": words}).fill_in()
    call = re.search(r'{"call": "([^"]+)"}', words)
    assert call is not None, words
    return {"name": "abp_wait", "arguments": {"call": call[1]}}


def _modern(bridge: Bridge, case: Case) -> None:
    about: Json = {
        f"{META}protocolVersion": case.version,
        f"{META}clientCapabilities": case.capabilities,
        f"{META}logLevel": "info",
        "progressToken": "p1",
    }
    if case.client["name"] != "fixture":
        about[f"{META}clientInfo"] = dict(case.client)
    meta: Json = {"_meta": about}
    more: Json = {}
    if case.listens:
        wanted = {"toolsListChanged": True, "resourcesListChanged": True}
        listening = {**meta, "notifications": wanted}
        bridge.send("subscriptions/listen", listening, id="changes")
        bridge.read()
    bridge.look(meta)
    while True:
        result = bridge.ask("tools/call", {**meta, **case.call, **more}).get("result", {})
        if result.get("resultType") != "input_required":
            break
        more = {"requestState": result["requestState"]}
        if case.cancels:
            bridge.cancel_request(bridge.begin("tools/call", {**meta, **case.call, **more}))
            bridge.until_app_is_through()
            return
        answers = _answers(case, result["inputRequests"])
        if answers is not None:
            more["inputResponses"] = answers
        else:  # nobody answers: the host comes back when it is too late
            while case.listens and bridge.read().get("method") != CHANGED:
                pass
            bridge.until_app_is_through()
    bridge.look(meta)


CHANGED = "notifications/tools/list_changed"


def _answers(case: Case, asked: Json) -> Json:
    """The responses to a result that asks, {} from who only was on the page; None from nobody."""
    answers: Json = {}
    given = [(key, case.person(each["method"], each["params"])) for key, each in asked.items()]
    for key, each in given:
        result = each.result if isinstance(each, Filled) else each
        if result is not None:
            answers[key] = result
    for _, each in given:
        if isinstance(each, Filled):
            each.fill_in()
    return answers or None


def _acp(bridge: Bridge, case: Case) -> None:
    _open(bridge, case)
    for words in ("/connect", case.prompt, *case.typed):
        _prompt(bridge, words)


def _proxied(bridge: Bridge, case: Case) -> None:
    _open(bridge, case)
    _prompt(bridge, json.dumps(case.agent))


def _open(bridge: Bridge, case: Case) -> None:
    client = {"clientInfo": dict(case.client), "clientCapabilities": case.capabilities}
    bridge.ask("initialize", {"protocolVersion": 1, **client})
    opened = bridge.ask("session/new", {"cwd": "/", "mcpServers": []})
    bridge.session = opened["result"]["sessionId"]


def _prompt(bridge: Bridge, words: str) -> None:
    prompt = [{"type": "text", "text": words}]
    bridge.ask("session/prompt", {"sessionId": bridge.session, "prompt": prompt})


def _abp(bridge: Bridge, case: Case) -> None:
    agent = {"agent": dict(case.client), "protocolVersion": case.version}
    bridge.ask("initialize", {**agent, "features": case.capabilities})
    bridge.beside.begin()
    called = {"capability": "plan", "params": {}, "options": {"callId": "c1"}}
    if bridge.ask("capabilities/call", called) is None:
        bridge.until_app_is_through()
    bridge.ask("shutdown", {"reason": "done"})


PROTOCOLS: dict[str, Callable[[Bridge, Case], None]] = {
    "mcp": _legacy,
    "modern": _modern,
    "acp": _acp,
    "abp": _abp,
    "envelope": _abp,
    "proxy": _proxied,
}
