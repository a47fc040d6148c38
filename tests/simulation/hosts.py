"""Hosts of each protocol, in which the person sits: they call the app, show what is asked, and
bring back what the person says.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from support import acp_harness, harness

from .page import Page
from .person import DONE, Asked, Person
from .wires import Peer, Pipe

Json = Any

PATIENCE = 300.0  # seconds that a modern host gives its person for one round
SETTLING = 5.0  # seconds until what the end of a call brings with it has happened
QUIET = 60.0  # seconds without a message, after which none comes
LINK = re.compile(r"http://page/[\w-]+")
PREFIX = "io.modelcontextprotocol/"


@dataclass
class Habits:
    """What goes wrong with a host, each as how likely it is."""

    cancels: float = 0.0  # it gives a call up
    doubles: float = 0.0  # it answers again, with something else
    nonsense: float = 0.0  # it answers what is no answer
    leaves: float = 0.0  # it is gone in the middle


class Host:
    """What all hosts share: calls one after another or at once, and the person's answers."""

    referee: ClassVar[type[harness.Wire | acp_harness.Wire]]  # holds what the bridge says

    def __init__(
        self, rng: Random, person: Person, page: Page, habits: Habits, reader: Pipe, writer: Pipe
    ) -> None:
        self._rng = rng
        self._person = person
        self._page = page
        self._habits = habits
        self.peer = Peer(reader, writer, self._on_message)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cards: dict[Json, asyncio.Task[None]] = {}
        self.together = rng.choice([1, 1, 2, 3])  # calls at once
        self.is_clear = True  # every call of a result is over
        self.results: list[Json | None] = []
        self.on_idle: Callable[[], None] = lambda: None  # no call of this host's runs now
        self.status = ""

    async def play(self, calls: int) -> None:
        """Everything this host does, to its end."""
        if self._rng.random() < self._habits.leaves:
            self._begin(self._leave())
        await self._open()
        while calls > 0 and not self.peer.gone:
            many = min(self.together, calls)
            calls -= many
            results = await asyncio.gather(*(self._call() for _ in range(many)))
            self.results += results
            self.is_clear &= "input_required" not in json.dumps(results)
            if not self.peer.gone and self.is_clear:
                await asyncio.sleep(SETTLING)
                self.on_idle()
        await self._close()

    async def _leave(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, 100))
        self.peer.hang_up()

    async def _open(self) -> None:
        raise NotImplementedError

    async def _call(self) -> Json:
        raise NotImplementedError

    async def _close(self) -> None:
        self.peer.hang_up()

    def _on_message(self, message: Json) -> None:
        if "id" in message:
            self._cards[message["id"]] = self._begin(self._show(message))
        elif message["method"] in ("notifications/cancelled", "$/cancel_request"):
            card = self._cards.pop(message["params"]["requestId"], None)
            if card is not None and self._rng.random() < 0.7:  # else it is answered all the same
                card.cancel()

    async def _show(self, request: Json) -> None:
        """Have the person answer one request of the bridge's."""
        reply = await self._reply(request["method"], request["params"])
        self.peer.send({"id": request["id"], "result": reply})
        if self._rng.random() < self._habits.doubles:
            self.peer.send({"id": request["id"], "result": {"action": "accept", "content": {}}})

    async def _reply(self, method: str, params: Json) -> Json:
        words = params.get("message") or params.get("toolCall", {}).get("title", "")
        asked = self._person.recognise(words)
        await asyncio.sleep(self._person.delay())
        if asked.wish == "ignore":
            await asyncio.Event().wait() if self._rng.random() < 0.5 else await asyncio.sleep(9_000)
        if self._rng.random() < self._habits.nonsense:
            return self._rng.choice([{}, {"action": "maybe"}, {"action": "accept"}, {"outcome": 1}])
        return self._decide(asked, method, params)

    def _decide(self, asked: Asked, method: str, params: Json) -> Json:
        if method == "session/request_permission":
            option = self._press(asked, params)
            return {
                "outcome": {"outcome": "selected", "optionId": option}
                if option is not None
                else {"outcome": "cancelled"}
            }
        if params["mode"] == "url":
            self._page.visit(params["url"])
            return {"action": "accept"}
        if asked.wish == "accept":
            return {"action": "accept", "content": self._fill(asked, params["requestedSchema"])}
        how = "cancel" if asked.wish in ("dismiss", "ignore") else asked.wish
        asked.said.add(DONE.get(asked.wish, "cancelled"))
        return {"action": how}

    def _press(self, asked: Asked, params: Json) -> str | None:
        if (link := LINK.search(json.dumps(params))) is not None:  # a card that shows the way
            self._page.visit(link[0])
            done = next(each for each in params["options"] if each["kind"] == "allow_once")
            return str(done["optionId"])
        pressed: str | None = self._person.press(asked, params["options"])
        return pressed

    def _fill(self, asked: Asked, schema: Json) -> Json:
        asked.accept()
        return self._person.fill(asked, schema)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """No task of this host's is left."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class LegacyHost(Host):
    """MCP up to 2025-11-25."""

    version = "2025-11-25"
    referee = harness.Wire

    async def _open(self) -> None:
        params = {
            "protocolVersion": self.version,
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "simulated", "version": "1"},
        }
        if await self.peer.request("initialize", params) is not None:
            self.peer.send({"method": "notifications/initialized"})
            await self.peer.request("logging/setLevel", {"level": "debug"})

    async def _call(self) -> Json:
        tool, arguments = "abp_call", {"capability": "work"}
        while True:
            id = self.peer.next_id()
            params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p{id}"}}
            if self._rng.random() < self._habits.cancels:
                self._begin(self._give_up(id))
            response = await self.peer.request("tools/call", params, id=id)
            text = json.dumps(response)
            if response is None or '{\\"call\\": ' not in text:
                return response
            tool = "abp_wait"
            arguments = {"call": text.split('{\\"call\\": \\"')[1].split("\\")[0]}

    async def _give_up(self, id: int) -> None:
        await asyncio.sleep(self._rng.uniform(0, 30))
        if id not in self.peer.answered:
            self.peer.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            await asyncio.sleep(SETTLING)
            if id in self.peer.answered:  # the two crossed: the call may go on
                self.is_clear = False
            self.peer.expect_nothing(id)

    async def _close(self) -> None:
        heard = -1
        while heard < len(self.peer.lines):  # what was told is still on its way
            heard = len(self.peer.lines)
            await asyncio.sleep(QUIET)
        response = await self.peer.request("tools/call", {"name": "abp_status", "arguments": {}})
        if response is not None:
            self.status = response["result"]["content"][0]["text"]
        await super()._close()


class ModernHost(Host):
    """MCP 2026-07-28."""

    referee = harness.Wire

    async def _open(self) -> None:
        pass

    def _params(self, **more: Json) -> Json:
        meta = {
            f"{PREFIX}protocolVersion": "2026-07-28",
            f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
            "progressToken": "p",
        }
        return {"_meta": meta, "name": "abp_call", "arguments": {"capability": "work"}, **more}

    async def _call(self) -> Json:
        more: Json = {}
        while True:
            response = await self.peer.request("tools/call", self._params(**more))
            result = (response or {}).get("result") or {}
            if result.get("resultType") != "input_required":
                if '{\\"call\\": ' not in json.dumps(response):
                    return response
                call = json.dumps(response).split('{\\"call\\": \\"')[1].split("\\")[0]
                more = {"name": "abp_wait", "arguments": {"call": call}}
                continue
            replies = {
                key: self._begin(self._reply(each["method"], each["params"]))
                for key, each in result["inputRequests"].items()
            }
            await asyncio.wait(replies.values(), timeout=PATIENCE)
            answers = {key: each.result() for key, each in replies.items() if each.done()}
            if not answers:  # the person is not there: nobody comes back
                return response
            more = {
                **{key: more[key] for key in ("name", "arguments") if key in more},
                "requestState": result["requestState"],
                "inputResponses": answers,
            }


class AcpClient(Host):
    """ACP, with permissions or with forms of its own."""

    referee = acp_harness.Wire
    capabilities: ClassVar[Json] = {}

    async def _open(self) -> None:
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities}
        await self.peer.request("initialize", params)
        response = await self.peer.request("session/new", {"cwd": "/", "mcpServers": []})
        if response is not None:
            self._session = response["result"]["sessionId"]

    async def play(self, calls: int) -> None:
        self._lock = asyncio.Lock()
        await super().play(calls)

    async def _call(self) -> Json:
        async with self._lock:  # one turn at a time
            if self.peer.gone:
                return None
            if self._rng.random() < self._habits.cancels:
                self._begin(self._give_up())
            prompt = [{"type": "text", "text": "/work"}]
            params = {"sessionId": self._session, "prompt": prompt}
            return await self.peer.request("session/prompt", params)

    async def _give_up(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, 30))
        self.peer.send({"method": "session/cancel", "params": {"sessionId": self._session}})
        for card in self._cards.values():
            card.cancel()


class AcpFormClient(AcpClient):
    capabilities: ClassVar[Json] = {"elicitation": {"form": {}, "url": {}}}


HOSTS: list[Callable[..., Host]] = [LegacyHost, ModernHost, AcpClient, AcpFormClient]
