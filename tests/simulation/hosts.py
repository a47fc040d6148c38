"""Hosts of each protocol: they call the app, show questions, and bring back the answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from support import acp_harness, harness

from .page import Page
from .person import Asked, Person
from .wires import Peer, Pipe

Json = Any

PATIENCE = 300.0  # seconds that a modern host gives its person for one round
SETTLING = 5.0  # seconds until what the end of a call brings with it has happened
QUIET = 60.0  # seconds without a message, after which none comes
LINK = re.compile(r"http://page/[\w-]+")
CANCELLED = -32800
WITHDRAWN = ("notifications/cancelled", "$/cancel_request", "notifications/elicitation/withdrawn")
ERRORS = {"policy": [-32601, -32603], "person": [-32601, -32603, CANCELLED]}
ACTIONS = {"declined": "decline", "cancelled": "cancel"}
CALL = re.compile(r"abp:(?!ask-|operation-)")  # its card, among those of questions and operations
TYPED = "Your next message is the answer"
FORMS: Json = {"elicitation": {"form": {}, "url": {}}}
PREFIX = "io.modelcontextprotocol/"


@dataclass
class Habits:
    """What goes wrong with a host, each as how likely it is; and how often it did, in `faults`."""

    cancels: float = 0.0  # it gives a call up
    doubles: float = 0.0  # it answers again, with something else
    nonsense: float = 0.0  # it answers what is no answer
    errors: float = 0.0  # it answers with an error
    leaves: float = 0.0  # it is gone in the middle
    faults: Counter[str] = field(default_factory=Counter, compare=False)

    def strikes(self, rng: Random, habit: str) -> bool:
        if strikes := rng.random() < getattr(self, habit):
            self.faults[habit] += 1
        return bool(strikes)


class Host:
    """What all hosts share: calls one after another or at once, and the answers of the user."""

    referee: ClassVar[type[harness.Wire | acp_harness.Wire]]  # holds what the bridge says
    is_proxied: ClassVar[bool] = False
    has_server: ClassVar[bool] = False  # behind `abp-bridge mcp`
    has_chat: ClassVar[bool] = False  # the person can be asked what the next prompt answers
    hears_logs: ClassVar[bool] = True  # of a server
    name: ClassVar[str] = ""  # as it calls itself, where it does

    def __init__(
        self, rng: Random, sitter: Person, page: Page, habits: Habits, reader: Pipe, writer: Pipe
    ) -> None:
        self._rng = rng
        self._sitter = sitter
        self._page = page
        self._habits = habits
        self.peer = Peer(reader, writer, self._on_message)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cards: dict[Json, asyncio.Task[None]] = {}
        self.together = rng.choice([1, 1, 2, 3])  # calls at once
        self.is_clear = True  # every call of a result is over
        self.results: list[Json | None] = []
        self.on_idle: Callable[[], None] = lambda: None  # no call of this host's runs now
        self.prepare: Callable[[], Json] = dict  # the parameters of the next call
        self.status = ""
        self.capability = "work"

    async def play(self, calls: int) -> None:
        """Everything this host does, to its end."""
        if self._habits.strikes(self._rng, "leaves"):
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
        elif message["method"] in WITHDRAWN:
            card = self._cards.pop(message["params"]["requestId"], None)
            if card is not None and self._rng.random() < 0.7:  # else it is answered all the same
                card.cancel()

    async def _show(self, request: Json) -> None:
        params = request["params"]
        reply = {"result": await self._reply(request["method"], params)}
        if self._habits.strikes(self._rng, "errors"):
            code = self._rng.choice(ERRORS[self._sitter.who])
            reply = {"error": {"code": code, "message": "no"}}
            if code == CANCELLED:
                self._sitter.say(self._sitter.recognise(json.dumps(params)), left="cancelled")
        self.peer.send({"id": request["id"], **reply})
        if self._habits.strikes(self._rng, "doubles"):
            self.peer.send({"id": request["id"], "result": {"action": "accept", "content": {}}})

    async def _reply(self, method: str, params: Json) -> Json:
        asked = self._sitter.recognise(json.dumps(params))
        await self._sitter.wait(asked)
        if self._habits.strikes(self._rng, "nonsense"):
            return self._rng.choice([{}, {"action": "maybe"}, {"action": "accept"}, {"outcome": 1}])
        if method == "session/request_permission":
            option = self._press(asked, params)
            known = {"outcome": "selected", "optionId": option}
            return {"outcome": known if option is not None else {"outcome": "cancelled"}}
        if params["mode"] == "url":
            return {"action": self._follow(asked, params["url"])}
        content = self._sitter.fill(asked, params["requestedSchema"])
        if content is not None:
            return {"action": "accept", "content": content}
        return {"action": ACTIONS[self._sitter.say(asked)]}

    def _press(self, asked: Asked, params: Json) -> str | None:
        if (link := LINK.search(json.dumps(params))) is not None:  # a card that shows the way
            self._visit(link[0])
            done = next(each for each in params["options"] if each["kind"] == "allow_once")
            return str(done["optionId"])
        return self._sitter.press(asked, params["options"])

    def _follow(self, asked: Asked, url: str) -> str:
        if LINK.match(url) is not None:  # what they do there is said there
            self._visit(url)
            return "accept"
        outcome = self._sitter.say(asked, asked.data if asked.wish == "accept" else None)
        return ACTIONS.get(outcome, "accept")

    def _visit(self, url: str) -> None:
        if self._sitter.who == "person":  # a policy says that it is done, and goes nowhere
            self._page.visit(url)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.peer.end()


class LegacyHost(Host):
    version = "2025-11-25"
    referee = harness.Wire
    capabilities: ClassVar[Json] = FORMS

    async def _open(self) -> None:
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": self.name or "simulated", "version": "1"},
        }
        if await self.peer.request("initialize", params) is not None:
            self.peer.send({"method": "notifications/initialized"})
            await self.peer.request("logging/setLevel", {"level": "debug"})

    async def _call(self) -> Json:
        tool = "abp_call"
        arguments: Json = {"capability": self.capability, "params": self.prepare()}
        while True:
            id = self.peer.next_id()
            params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p{id}"}}
            if self._habits.strikes(self._rng, "cancels"):
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
    referee = harness.Wire
    capabilities: ClassVar[Json] = FORMS
    patience: ClassVar[float] = PATIENCE
    tool = "abp_call"

    async def _open(self) -> None:
        pass

    def _arguments(self) -> Json:
        return {"capability": self.capability, "params": self.prepare()}

    def _params(self, **more: Json) -> Json:
        meta = {
            f"{PREFIX}protocolVersion": "2026-07-28",
            f"{PREFIX}clientCapabilities": self.capabilities,
            "progressToken": "p",
        }
        if self.name:
            meta[f"{PREFIX}clientInfo"] = {"name": self.name, "version": "1"}
        return {"_meta": meta, **more}

    async def _call(self) -> Json:
        more: Json = {"name": self.tool, "arguments": self._arguments()}
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
            await asyncio.wait(replies.values(), timeout=self.patience)
            answers = {key: each.result() for key, each in replies.items() if each.done()}
            if not answers:  # the person is not there: nobody comes back
                return response
            self._note_brought(result["inputRequests"][key]["params"] for key in answers)
            more = {
                **{key: more[key] for key in ("name", "arguments")},
                "requestState": result["requestState"],
                "inputResponses": answers,
            }

    def _note_brought(self, questions: Iterable[Json]) -> None:
        for each in questions:
            if each["mode"] == "form":
                asked = self._sitter.recognise(json.dumps(each))
                asked.brought = asked.brought or asyncio.get_running_loop().time()


class AcpClient(Host):
    """ACP, with permissions or with forms of its own."""

    referee = acp_harness.Wire
    capabilities: ClassVar[Json] = {}
    second_thoughts: ClassVar[float] = 30.0  # seconds after which a turn is given up, at most

    def __init__(self, *host: Any) -> None:
        super().__init__(*host)
        self._lock = asyncio.Lock()

    async def _open(self) -> None:
        params: Json = {"protocolVersion": 1, "clientCapabilities": self.capabilities}
        if self.name:
            params["clientInfo"] = {"name": self.name, "version": "1"}
        await self.peer.request("initialize", params)
        response = await self.peer.request("session/new", {"cwd": "/", "mcpServers": []})
        if response is not None:
            self._session = response["result"]["sessionId"]

    async def _call(self) -> Json:
        async with self._lock:  # one turn at a time
            if self.peer.gone:
                return None
            if self._habits.strikes(self._rng, "cancels"):
                self._begin(self._give_up())
            command = self.capability.replace(".", "_")
            return await self._converse(_text(f"/{command} {json.dumps(self.prepare())}"))

    async def _converse(self, prompt: Json) -> Json:
        params = {"sessionId": self._session, "prompt": prompt}
        return await self.peer.request("session/prompt", params)

    async def _give_up(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, self.second_thoughts))
        self.peer.send({"method": "session/cancel", "params": {"sessionId": self._session}})
        for card in self._cards.values():
            card.cancel()


def _text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}]


class AcpFormClient(AcpClient):
    capabilities = FORMS


class AcpChatClient(AcpClient):
    """ACP without forms: the user types answers as the next prompt, now and then something else."""

    has_chat = True
    second_thoughts = 90.0  # also between two prompts

    def __init__(self, *host: Any) -> None:
        super().__init__(*host)
        self._is_asked = False  # in the chat: there are commands to answer with
        self._asked: Asked | None = None
        self._calls: set[str] = set()  # that run, by their cards
        self._news = asyncio.Event()

    def _on_message(self, message: Json) -> None:
        if message["method"] != "session/update":
            super()._on_message(message)
            return
        update = message["params"]["update"]
        kind, card = update["sessionUpdate"], update.get("toolCallId", "")
        if kind == "available_commands_update":
            self._is_asked = any(each["name"] == "decline" for each in update["availableCommands"])
        elif kind == "agent_message_chunk" and TYPED in update["content"]["text"]:
            self._asked = self._sitter.recognise(update["content"]["text"])
        elif kind == "tool_call" and CALL.match(card):
            self._calls.add(card)
        elif kind == "tool_call_update" and update.get("status") in ("completed", "failed"):
            self._calls.discard(card)
        self._news.set()

    async def _converse(self, prompt: Json) -> Json:
        while True:
            response = await super()._converse(prompt)
            if self._calls and not self.peer.gone:
                prompt = await self._type()
            if self.peer.gone or not self._calls:  # it may have ended meanwhile
                return response

    async def _type(self) -> Json:
        """What is typed next."""
        if not self._is_asked:  # no longer: the call goes on with the next prompt
            await asyncio.sleep(SETTLING)
            return _text(self._rng.choice(["What now?", "/status"]))
        if self._rng.random() < 0.15:
            return _text(self._rng.choice(["/status", "/nothing"]))
        if self._habits.strikes(self._rng, "nonsense"):
            image = {"type": "image", "mimeType": "image/png", "data": ""}
            return self._rng.choice([[], [image], _text(" ")])
        assert self._asked is not None, "what is asked was said before"
        asked = self._asked
        reading = self._begin(self._sitter.wait_to_type(asked))
        reading.add_done_callback(lambda done: self._news.set())
        ends = asked.wish != "ignore" and self._rng.random() < 0.3  # whatever becomes of it
        while not reading.done() and self._calls and not self.peer.gone:
            if not (self._is_asked or ends):
                break
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(QUIET):
                    await self._news.wait()
        typed = self._sitter.type_reply(asked) if reading.done() else "I was too late"
        reading.cancel()
        return _text(typed)


class ProxiedClient(AcpClient):
    """ACP, with an agent behind `abp-bridge acp` instead of the bridge itself."""

    is_proxied = True


class ProxiedFormClient(ProxiedClient):
    capabilities = FORMS


class Agent(Host):
    """The agent of a proxied client: it calls the app as an MCP host, and asks itself."""

    def __init__(
        self, *host: Any, person: Person, connect: Callable[[str], tuple[Pipe, Pipe]]
    ) -> None:
        super().__init__(*host)
        self._person = person
        self._connect = connect
        self.own: list[tuple[Asked, Json]] = []
        self.server = LegacyHost(*host)  # until it is launched
        self._launched = asyncio.Event()

    def _on_message(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        result: Json = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentInfo": {"name": "agent", "version": "1"}}
        elif method == "session/new":
            result = {"sessionId": "sim"}
            self._begin(self._launch(params["mcpServers"][-1]["env"][0]["value"]))
        elif method == "session/prompt":
            self._cards["turn"] = self._begin(self._turn(message["id"], params))
            return
        elif method == "session/cancel" and "turn" in self._cards:
            self._cards["turn"].cancel()
        if "id" in message:
            self.peer.send({"id": message["id"], "result": result})

    async def _launch(self, token: str) -> None:
        pipes = self._connect(token)
        server = LegacyHost(self._rng, self._person, self._page, self._habits, *pipes)
        server.__dict__["capabilities"] = {}
        self._begin(server.peer.run())
        await server._open()
        self.server = server
        self._launched.set()

    async def _turn(self, id: Json, params: Json) -> None:
        stop = "cancelled"
        try:
            if self._rng.random() < 0.5:
                await self._ask(params["sessionId"])
            await self._launched.wait()
            said = json.loads(params["prompt"][0]["text"].partition(" ")[2])
            self.server.prepare = lambda: said
            await self.server._call()
            stop = "end_turn"
        except asyncio.CancelledError:
            last = {"requestId": self.server.peer.next_id() - 1}
            self.server.peer.send({"method": "notifications/cancelled", "params": last})
            raise
        finally:
            self.peer.send({"id": id, "result": {"stopReason": stop}})

    async def _ask(self, session: str) -> None:
        classes = {"type": "string", "enum": ["one of #", "another of #"]}
        params = {"message": "# Which of mine?", "classes": classes["enum"]}
        asked = self._person.expect({"method": "own", "params": params}, {"value": "another of #"})
        wanted = asked.request["params"]
        schema = {
            "type": "object",
            "properties": {"value": {"type": "string", "enum": wanted["classes"]}},
            "required": ["value"],
        }
        question = {"mode": "form", "message": wanted["message"], "requestedSchema": schema}
        asking = self.peer.request("elicitation/create", {"sessionId": session, **question})
        with contextlib.suppress(TimeoutError):
            self.own.append((asked, await asyncio.wait_for(asking, PATIENCE)))


HOSTS: list[type[Host]] = [
    *(LegacyHost, LegacyHost, ModernHost, AcpClient),
    *(AcpFormClient, ProxiedClient, ProxiedFormClient),
]
