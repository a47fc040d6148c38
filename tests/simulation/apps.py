"""An app that asks and tells while it is called, and remembers how each question ended."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.subprocess import GRACE

from .person import Asked, Person
from .wires import Peer, Pipe, ReadEnd, Weather

Json = Any

CONTENT = b"a picture " * 50
FILE = base64.b64encode(CONTENT).decode()
CLASSES = ["first of #", "second of #", "third of #"]
CITIES = [f"city {each} of #" for each in "ABCDEFGHIJKL"]
QUESTIONS: list[tuple[str, Json, Json]] = [
    ("elicitation/input", {"prompt": "# What name?"}, {"value": "a name for #"}),
    ("elicitation/confirm", {"message": "# Go on?"}, {"confirmed": True}),
    ("elicitation/confirm", {"message": "# Go on there?"}, {"confirmed": False}),
    ("elicitation/confirm", {"message": "# Delete it?", "destructive": True}, {"confirmed": True}),
    (
        "elicitation/select",
        {"prompt": "# Which class?", "options": CLASSES},
        {"selected": CLASSES[1]},
    ),
    ("elicitation/select", {"prompt": "# Which?", "options": CITIES}, {"selected": CITIES[7]}),
    (
        "elicitation/input",
        {"prompt": "# What key?", "schema": {"type": "string", "format": "password"}},
        {"value": "hunter-#"},
    ),
    ("elicitation/preference", {"prompt": "# Colour?", "default": "red"}, {"value": "blue #"}),
]

TYPED = [each for each in QUESTIONS if each[0].endswith(("input", "preference"))]


class Child:
    """What `spawn` gives, without a process."""

    ending = "signal 9"

    def __init__(self, reader: ByteReader, writer: ByteWriter) -> None:
        self.stdout = reader
        self.stdin = writer
        self.heard = anyio.Event()
        self.process = self

    async def wait(self) -> int:
        await self.heard.wait()
        return -9


@asynccontextmanager
async def connected(
    rng: Random, weather: Weather, on_message: Callable[[Json], None]
) -> AsyncIterator[tuple[Child, Peer]]:
    up, down = Pipe(rng, weather), Pipe(rng, weather)
    child = Child(ReadEnd(up), down)
    peer = Peer(down, up, on_message)
    running = asyncio.get_running_loop().create_task(peer.run())
    running.add_done_callback(lambda done: child.heard.set())
    try:
        yield child, peer
    finally:
        down.close()
        with anyio.move_on_after(GRACE, shield=True):  # to hear what it was told last
            await child.heard.wait()
        peer.hang_up()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(running, return_exceptions=True)


class App:
    """An app that asks and notifies while it is called, and may crash at each step."""

    def __init__(
        self, rng: Random, weather: Weather, person: Person, burst: int, crashes: float
    ) -> None:
        self._rng = rng
        self._weather = weather
        self._person = person
        self._burst = burst
        self.crashes = crashes
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[Json, Asked] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.peer: Peer | None = None
        self.ended: list[tuple[Asked, list[Json]]] = []  # of apps that ran before
        self.may_omit_call = (
            False  # one call at a time runs to its end: whose a question is, is clear
        )
        self.begun: set[str] = set()  # the words that calls came with
        self.questions = QUESTIONS
        self.is_destructive = rng.random() < 0.5
        self.told = 0
        self.steps = 0
        self.crashed = 0

    @property
    def is_prompt(self) -> bool:
        weather = self._weather
        return weather.latency <= 0.02 and not weather.stalls and weather.capacity > 10_000

    @asynccontextmanager
    async def spawn(self, command: Json, *, env: Json = None) -> AsyncIterator[Child]:
        try:
            async with connected(self._rng, self._weather, self._on_message) as (child, peer):
                self.peer = peer
                yield child
        finally:
            for task in [*self._calls.values(), *self._tasks]:
                task.cancel()
            self._settle(peer)
            self.steps += peer.steps
            with anyio.CancelScope(shield=True):
                await asyncio.gather(*self._calls.values(), return_exceptions=True)
            self._calls.clear()

    def _settle(self, peer: Peer) -> None:
        for id, asked in self._asked.items():
            self.ended.append((asked, peer.answered.get(id, [])))
        self._asked.clear()

    def _on_message(self, message: Json) -> None:
        assert self.peer is not None
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            return
        offered = {"name": "work", "description": "Work", "destructive": self.is_destructive}
        result: Json = {}
        if method == "initialize":
            app = {"id": "sim", "name": "Simulated"}
            result = {"sessionId": "1", "app": app, "capabilities": [offered]}
        elif method == "capabilities/list":
            result = [offered]
        elif method == "capabilities/call":
            call = params["options"]["callId"]
            self.begun.add(params["params"].get("for", ""))
            work = self._work(self.peer, message["id"], call)
            self._calls[call] = asyncio.get_running_loop().create_task(work)
            return
        elif method == "capabilities/cancel" and params["callId"] in self._calls:
            self._calls[params["callId"]].cancel()
        elif method == "shutdown":
            for each in [*self._calls.values(), *self._tasks]:
                each.cancel()
        self.peer.send({"id": message["id"], "result": result})

    async def _work(self, peer: Peer, id: Json, call: str) -> None:
        answers: list[Json] = []
        for _ in range(self._rng.randint(1, 4)):
            step = self._rng.random()
            if self._rng.random() < self.crashes:
                self.crashed += 1
                peer.write(b'{"jsonrpc": "2.0", "id": 7, "meth')
                await asyncio.sleep(0.001)
                peer.hang_up()
                for asked in self._asked.values():
                    asked.withdrawn = True
                return
            if step < 0.2:
                self._tell(peer, call, self._rng.randint(1, self._burst))
            elif step < 0.3:
                await asyncio.sleep(self._rng.choice([0.0, 0.01, 1.0]))
            else:
                many = self._rng.choice([1, 1, 1, 2, 3])
                waits = self._rng.random() < 0.95
                asking = [self._ask(peer, call, waits) for _ in range(many)]
                if not waits:
                    self._spawn(*asking)
                else:
                    answers += await asyncio.gather(*asking)
        data: Json = {"answers": len(answers)}
        if self._rng.random() < 0.3:
            data["file"] = {"content": FILE, "encoding": "base64", "mimeType": "image/png"}
        peer.send({"id": id, "result": {"success": True, "data": data}})

    def _spawn(self, *work: Any) -> None:
        for each in work:
            task = asyncio.get_running_loop().create_task(each)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, peer: Peer, call: str, waits: bool) -> Json:
        method, params, data = self._rng.choice(self.questions)
        if self._rng.random() < 0.3:
            params = {**params, "timeout": self._rng.choice([500, 20_000, 200_000])}
        asked = self._person.expect({"method": method, "params": params}, data)
        omits = waits and self.may_omit_call and self._rng.random() < 0.5
        named = {} if omits else {"operationId": call}
        id = peer.next_id() + 1_000_000
        self._asked[id] = asked
        asked.is_left_behind, asked.withdrawn = not waits, peer.gone
        return await peer.request(method, {**asked.request["params"], **named}, id=id)

    def _tell(self, peer: Peer, call: str, count: int) -> None:
        for _ in range(count):
            self.told += 1
            if self._rng.random() < 0.5:
                data: Json = {"note": f"notice-{self.told}"}
                peer.send({"method": "notifications/note", "params": data})
            else:
                data = {"field": f"f{self.told % 3}", "newValue": f"notice-{self.told}"}
                peer.send({"method": "notifications/state/changed", "params": data})
