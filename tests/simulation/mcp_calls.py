"""Many calls through `abp-bridge mcp` at once, in any pair of revisions, with faults by seed.

The tool `act` asks its user once or twice and does its deed if each answer is yes. The host
answers, and also forges, repeats and delays answers, cancels calls, and dies; servers die and are
started again. `Session.problems` has what must not happen.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import anyio

from .joined import joined, run_virtual
from .wires import Peer, Pipe, Weather

Json = Any

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
PAIRS = [(host, server) for host in (STATEFUL, STATELESS) for server in (STATEFUL, STATELESS)]
PREFIX = "io.modelcontextprotocol/"
FORM: Json = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
SHOWN: Json = {"elicitation": {"form": {}}}
YES: Json = {"action": "accept", "content": {"yes": True}}
ALLOW: Json = {"action": "accept", "content": {"confirmed": "Allow"}}
NO: list[Json] = [
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept", "content": {"yes": False}},
]
LONGEST = 3_000.0  # virtual seconds of one session
ENDING = 2.0  # virtual seconds in which the bridge ends after its host: then hosts kill it


@dataclass
class Question:
    """One question of a server.

    Attributes:
        answers: What its server got.
        is_allowed: What the user decided when they were asked, however often.
        is_lost: Whether the server died before it could get an answer.
    """

    number: int
    word: str
    answers: list[Json] = field(default_factory=list)
    is_allowed: bool | None = None
    is_lost: bool = False
    arrives: float = 0.0  # seconds of the loop's clock, at the latest

    @property
    def text(self) -> str:
        return f"May {self.word} go on with {self.number}?"


@dataclass
class Session:
    """What one session came to."""

    pair: tuple[str, str]
    seed: int
    calls: int
    host_dies: bool = False
    confirms: bool = False  # `--confirm all`
    latency: float = 0.0  # seconds
    questions: list[Question] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)  # by the word of a call
    approved: dict[str, bool] = field(default_factory=dict)
    deeds: Counter[str] = field(default_factory=Counter)
    spoilt: set[str] = field(default_factory=set)  # words of calls that a fault met
    responses: dict[str, list[Json]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Note what must not have happened."""
        for question in self.questions:
            answers = len(question.answers)
            must_end = self.pair[1] == STATEFUL and not question.is_lost
            if answers > 1 or (answers == 0 and must_end):
                self.problems.append(f"question {question.number} has {answers} answers")
        for word, times in self.runs.items():
            if times > (self.approved.get(word, False) if self.confirms else 1):
                self.problems.append(f"{word} ran {times} times")
        for word in {*self.runs, *self.responses}:
            self._judge_call(word)

    def _judge_call(self, word: str) -> None:
        asked = [each.is_allowed for each in self.questions if each.word == word]
        if self.deeds[word] > all(asked):
            self.problems.append(f"{word} was done {self.deeds[word]} times: {asked}")
        got = self.responses.get(word, [])
        if self.host_dies or word in self.spoilt:
            if len(got) > 1:
                self.problems.append(f"{word} ended {len(got)} times")
            return
        if len(got) != 1:
            self.problems.append(f"{word} ended {len(got)} times")
        # A stateful server does not say for which call it asks: another's end may end the question.
        is_sure = self.pair != (STATELESS, STATEFUL) or not {"cancelled", "never back"} & {
            *self.faults
        }
        is_approved = self.approved.get(word, False) or not self.confirms
        if is_sure and self.deeds[word] != (is_approved and all(asked)):
            self.problems.append(f"{word} was done {self.deeds[word]} times: {asked}, {got}")


class Server:
    """One process of a server; a stateless one knows by `state` what it asked."""

    def __init__(
        self, session: Session, rng: Random, pipes: tuple[Pipe, Pipe], states: dict[str, Question]
    ) -> None:
        self._session, self._rng = session, rng
        self._is_stateful = session.pair[1] == STATEFUL
        self._states = states
        self.peer = Peer(*pipes, self._on_message)
        self._input = pipes[0]
        self._work: dict[Json, asyncio.Task[None]] = {}
        self._open: list[Question] = []
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.peer.run()
        for question in self._open:  # what came after the end of its input was asked of no one
            question.is_lost |= question.arrives > self._input.closed_at
        for each in self._work.values():
            each.cancel()

    def die(self) -> None:
        """End at once, with whatever was begun."""
        for question in self._open:
            question.is_lost = True
        for each in self._work.values():
            each.cancel()
        self.peer.hang_up()

    def _on_message(self, message: Json) -> None:
        method, params, id = message["method"], message.get("params") or {}, message.get("id")
        if method == "notifications/cancelled":
            if (work := self._work.pop(params["requestId"], None)) is not None:
                work.cancel()
        elif id is None:
            return
        elif method == "tools/call":
            call = self._call if self._is_stateful else self._call_stateless
            self._work[id] = asyncio.create_task(call(id, params))
        else:
            self._reply(id, self._results(params).get(method))

    def _results(self, params: Json) -> Json:
        info = {"name": "simulated", "version": "1"}
        tools = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        if self._is_stateful:
            hello = {"capabilities": {"tools": {}}, "serverInfo": info}
            version = params.get("protocolVersion")
            return {"initialize": {"protocolVersion": version, **hello}, "tools/list": tools}
        kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        kept["_meta"] = {f"{PREFIX}serverInfo": info}
        hello = {"supportedVersions": [STATELESS], "capabilities": {"tools": {}}}
        return {"server/discover": {**hello, **kept}, "tools/list": {**tools, **kept}}

    def _reply(self, id: Json, result: Json) -> None:
        refused = {"error": {"code": -32601, "message": "no such method"}}
        self.peer.send({"id": id, **(refused if result is None else {"result": result})})

    def _ask(self, word: str) -> Question:
        question = Question(len(self._session.questions), word)
        question.arrives = asyncio.get_running_loop().time() + self._session.latency
        self._session.questions.append(question)
        self._open.append(question)
        return question

    def _finish(self, id: Json, word: str, *, done: bool) -> None:
        self._session.deeds[word] += done
        text = [{"type": "text", "text": f"{word}: {done}"}]
        more = {} if self._is_stateful else {"resultType": "complete"}
        self._reply(id, {"content": text, "isError": False, **more})

    async def _call(self, id: Json, params: Json) -> None:
        word = params["arguments"]["word"]
        self._session.runs[word] += 1
        for _ in range(params["arguments"]["questions"]):
            await asyncio.sleep(self._rng.uniform(0, 0.3))
            question = self._ask(word)
            asked = f"q-{question.number}"
            self.peer.answered[asked] = question.answers
            body = {"message": question.text, "requestedSchema": FORM}
            answer = await self.peer.request("elicitation/create", body, id=asked)
            if not _is_yes((answer or {}).get("result")):
                self._finish(id, word, done=False)
                return
        self._finish(id, word, done=True)

    async def _call_stateless(self, id: Json, params: Json) -> None:
        word, rounds = params["arguments"]["word"], params["arguments"]["questions"]
        await asyncio.sleep(self._rng.uniform(0, 0.3))
        state = params.get("requestState")
        if state is None:
            self._session.runs[word] += 1
            asked_before = 0
        else:
            question = self._states[state]
            given = params.get("inputResponses", {})
            question.answers += [given[key] for key in given if key == "k"]
            if set(given) - {"k"}:
                self._session.problems.append(f"an answer to no question reached {word}")
            if not _is_yes(given.get("k")):
                self._finish(id, word, done=False)
                return
            asked_before = int(state.split("+")[1])
        if asked_before == rounds:
            self._finish(id, word, done=True)
            return
        state = f"{word}+{asked_before + 1}"
        self._states[state] = question = self._ask(word)
        body = {"mode": "form", "message": question.text, "requestedSchema": FORM}
        request = {"k": {"method": "elicitation/create", "params": body}}
        asked = {"inputRequests": request, "requestState": state}
        self._reply(id, {"resultType": "input_required", **asked})

    async def end(self) -> None:
        await asyncio.gather(self._task, *self._work.values(), return_exceptions=True)
        await self.peer.end()


def _is_yes(answer: Json) -> bool:
    return isinstance(answer, dict) and answer.get("content") == {"yes": True}


class Host:
    """A host that makes calls, and answers what it is asked for them as its user decides."""

    def __init__(self, session: Session, rng: Random, pipes: tuple[Pipe, Pipe]) -> None:
        self._session, self._rng = session, rng
        self._is_stateful = session.pair[0] == STATEFUL
        self.peer = Peer(*pipes, self._on_message)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def params(self, **more: Json) -> Json:
        if self._is_stateful:
            return more
        meta = {
            f"{PREFIX}protocolVersion": STATELESS,
            f"{PREFIX}clientCapabilities": SHOWN,
            f"{PREFIX}clientInfo": {"name": "host", "version": "1"},
        }
        return {**more, "_meta": meta}

    async def play(self) -> None:
        """Shake hands, and make all calls."""
        if self._is_stateful:
            hello = {"capabilities": SHOWN, "clientInfo": {"name": "host", "version": "1"}}
            await self.peer.request("initialize", {"protocolVersion": STATEFUL, **hello})
            self.peer.send({"method": "notifications/initialized"})
        calls = [asyncio.create_task(self._call(f"w{n}")) for n in range(self._session.calls)]
        self._tasks |= {*calls}
        await asyncio.gather(*calls)

    async def _call(self, word: str) -> None:
        rng, session = self._rng, self._session
        await asyncio.sleep(rng.uniform(0, 20))
        got = session.responses.setdefault(word, [])
        arguments = {"word": word, "questions": rng.choice([1, 1, 2])}
        more: Json = {}
        cancels_in = rng.uniform(0, 8) if rng.random() < 0.25 else None
        while True:
            id = self.peer.next_id()
            if cancels_in is not None:
                self.begin(self._cancel(id, word, cancels_in))
            message = await self.peer.request(
                "tools/call", self.params(name="act", arguments=arguments, **more), id=id
            )
            if message is None:  # the bridge is gone, or the call was cancelled
                return
            result = message.get("result", {})
            if result.get("resultType") != "input_required":
                if "error" in message:
                    session.spoilt.add(word)
                got.append(message)
                return
            more = await self._answer_round(word, arguments, result)
            if not more:
                return

    async def _cancel(self, id: int, word: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not self.peer.answered.get(id) and not self.peer.gone:
            self._session.spoilt.add(word)
            self._session.faults["cancelled"] += 1
            self.peer.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            self.peer.expect_nothing(id)

    def _decide(self, message: str) -> Json:
        """What the user answers, each time they are asked the same."""
        questions = self._session.questions
        question = next((each for each in questions if each.text in message), None)
        if question is None:
            word = re.findall(r"\bw\d+\b", message)[-1]
            is_approved = self._session.approved.setdefault(word, self._rng.random() < 0.8)
            return ALLOW if is_approved else self._rng.choice(NO[:2])
        if question.is_allowed is None:
            question.is_allowed = self._rng.random() < 0.7
        return YES if question.is_allowed else self._rng.choice(NO)

    # --- a stateful host ---

    def _on_message(self, message: Json) -> None:
        if message["method"] == "elicitation/create":
            self.begin(self._answer(message["id"], message["params"]["message"]))

    async def _answer(self, id: Json, said: str) -> None:
        rng, faults = self._rng, self._session.faults
        if rng.random() < 0.3:
            faults["forged"] += 1
            for forged in (f"q-{len(self._session.questions)}", "q-1", "abp-9999", 1):
                self.peer.send({"id": forged, "result": YES})
        await asyncio.sleep(rng.choice([rng.uniform(0, 4), rng.uniform(0, 4), 12.0]))
        self.peer.send({"id": id, "result": self._decide(said)})
        if rng.random() < 0.3:
            faults["answered twice"] += 1
            await asyncio.sleep(rng.choice([0, 0.01, 2]))
            self.peer.send({"id": id, "result": YES})

    # --- a stateless one ---

    async def _answer_round(self, word: str, arguments: Json, result: Json) -> Json:
        """Return what the next request has more; nothing if the host never comes back."""
        rng, faults = self._rng, self._session.faults
        if rng.random() < 0.05:
            faults["never back"] += 1
            self._session.spoilt.add(word)
            return {}
        state = result["requestState"]
        forged = dict.fromkeys((*result["inputRequests"], "k", "q99"), YES)
        if rng.random() < 0.3:
            faults["forged"] += 1
            for other in (f"{state[:-4]}AAAA", f"{word}+1", "w1+1"):
                more = {"requestState": other, "inputResponses": forged}
                lies = self.params(name="act", arguments=arguments, **more)
                self.peer.send({"id": self.peer.next_id(), "method": "tools/call", "params": lies})
            lies = {**arguments, "word": f"not {word}"}
            more = {"requestState": state, "inputResponses": forged}
            params = self.params(name="act", arguments=lies, **more)
            self.peer.send({"id": self.peer.next_id(), "method": "tools/call", "params": params})
        await asyncio.sleep(rng.choice([rng.uniform(0, 4), rng.uniform(0, 4), 12.0]))
        answers = {
            key: self._decide(each["params"]["message"])
            for key, each in result["inputRequests"].items()
        }
        more = {"requestState": state, "inputResponses": answers}
        if rng.random() < 0.3:
            faults["answered twice"] += 1
            self.begin(self._repeat(arguments, state, [*answers]))
        return more

    async def _repeat(self, arguments: Json, state: str, keys: list[str]) -> None:
        await asyncio.sleep(self._rng.choice([0.001, 0.1, 2]))
        more = {"requestState": state, "inputResponses": dict.fromkeys(keys, YES)}
        params = self.params(name="act", arguments=arguments, **more)
        self.peer.send({"id": self.peer.next_id(), "method": "tools/call", "params": params})

    async def end(self) -> None:
        for each in [*self._tasks]:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.peer.end()


class _Bugs(logging.Handler):
    """Notes what the bridge logs as a bug of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._problems.append(f"the bridge logs a bug: {record.getMessage()}")


def play(pair: tuple[str, str], seed: int, calls: int = 25) -> Session:
    """Play a session of this pair (host, server) and seed, and judge it."""
    session = Session(pair, seed, calls)
    logger = logging.getLogger("abp_bridge")
    logger.addHandler(bugs := _Bugs(session.problems))
    try:
        run_virtual(lambda: _play(session))
    finally:
        logger.removeHandler(bugs)
    session.judge()
    return session


async def _play(session: Session) -> None:
    rng = Random(f"{session.pair} {session.seed}")
    weather = Weather(latency=rng.choice([0, 0.02, 0.2]), torn=rng.random() < 0.5)
    session.latency = weather.latency
    session.confirms = rng.random() < 0.3
    session.host_dies = rng.random() < 0.4
    servers: list[Server] = []
    states: dict[str, Question] = {}  # of all processes of a stateless server

    def start(to_server: Pipe, from_server: Pipe) -> None:
        servers.append(Server(session, rng, (to_server, from_server), states))

    async def kill_servers() -> None:
        for _ in count():
            await asyncio.sleep(rng.uniform(5, 30))
            if servers and not servers[-1].peer.gone:
                session.faults["server died"] += 1
                servers[-1].die()

    killing = asyncio.create_task(kill_servers()) if rng.random() < 0.5 else None
    confirm = ("all",) if session.confirms else ()
    async with joined(start, rng=rng, weather=weather, confirm=confirm) as (
        to_host,
        from_host,
        ended,
    ):
        host = Host(session, rng, (to_host, from_host))
        reading = asyncio.create_task(host.peer.run())
        with anyio.move_on_after(rng.uniform(0, 25) if session.host_dies else LONGEST) as life:
            await host.play()
        if life.cancelled_caught:
            session.faults["host died" if session.host_dies else "stuck"] += 1
            if not session.host_dies:
                session.problems.append("calls are left over")
        if killing is not None:  # what it cut off is not the host's end
            killing.cancel()
        host.peer.hang_up()
        left = asyncio.get_running_loop().time()
        await ended.wait()
        if asyncio.get_running_loop().time() - left > ENDING:
            session.problems.append("the bridge takes too long to end")
    for each in servers:
        await each.end()
    await host.end()
    with suppress(asyncio.CancelledError):
        await reading
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    session.problems += [f"a task is left: {each.get_coro()}" for each in tasks]
