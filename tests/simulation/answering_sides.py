"""Where a question is answered: in a host, by an ABP agent, or on what the user set up."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import anyio

from abp_bridge.cli import compose
from abp_bridge.cli.serve import Hosts
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.surface import Surface
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.terminal import surface as terminal

from .hosts import LINK, AcpClient, Habits, Host, LegacyHost, ModernHost
from .page import PASSWORD, Page, Program
from .person import Asked, Person
from .wires import Pipe, ReadEnd, Weather

Json = Any

CTRL_C, CTRL_D = b"\x03", b""
WISHES = {"accepted": "accept", "declined": "decline", "cancelled": "dismiss"}
FORM: Json = {"elicitation": {"form": {}}}
URL: Json = {"elicitation": {"url": {}}}
NOTHING: Json = {}
LATE = 700.0  # seconds after which nobody waits for an answer any more


class Calm(Random):
    """Draws the least of everything."""

    def random(self) -> float:
        return 0.0


class Sitter(Person):
    """The user, who is asked once and does what `outcome` says."""

    def __init__(self, outcome: str, meant: Json, file: str) -> None:
        super().__init__(Calm(), 0.0)
        self._outcome = outcome
        self._file = file
        self.asked_one = Asked(1, {}, WISHES.get(outcome, "accept"), meant)
        self.shown: list[str] = []  # what they saw, as often as they were shown something
        self.taken_down = False  # whether it was taken away from them
        self.leave: Callable[[], None] = lambda: None  # how the place where they sit goes away
        self.withdraw: Callable[[], None] = lambda: None  # how who asks takes it back
        self._left = list(meant.values())

    def recognise(self, words: str) -> Asked:
        self.shown.append(words)
        return self.asked_one

    async def wait(self, asked: Asked) -> None:
        try:
            await asyncio.sleep(7.0)
            if self._outcome in WISHES or LINK.search(self.shown[-1]) is not None:
                return  # they go where a link leads
            {"left": self.leave, "withdrawn": self.withdraw}.get(self._outcome, lambda: None)()
            await asyncio.sleep(LATE)  # and then, where it is still there, they accept it
        except asyncio.CancelledError:
            self.taken_down = True
            raise

    def press(self, asked: Asked, options: Sequence[Json]) -> str | None:
        """Press one option after another, then Done. Dismiss where no button declines."""
        ways_out = ("reject_once", "reject_always")
        is_full = all(each["kind"] not in ways_out for each in options)
        if asked.wish == "decline" and is_full and "More …" not in {o["name"] for o in options}:
            self.say(asked, left="cancelled")
            return None
        if asked.wish == "accept" and len(asked.data) > 1:
            return self._press_next(asked, options)
        if asked.wish != "accept" or not isinstance(asked.value, list):
            return super().press(asked, options)
        labels = {each["name"].lstrip("☐☑ "): each["optionId"] for each in options}
        ways = [name for name in labels if name in asked.value and name in self._toggles(asked)]
        ways += [name for name in labels if name.startswith("Done") and not self._toggles(asked)]
        way = [*ways, "More …"][0]
        self._toggles(asked)[:] = [each for each in self._toggles(asked) if each != way]
        if way.startswith("Done"):
            self.say(asked, asked.data)
        return str(labels[way])

    def _press_next(self, asked: Asked, options: Sequence[Json]) -> str:
        """Of several fields the next, or what leads to it; in the end that it is sent."""
        named = {each["name"].removeprefix("Keep: "): each["optionId"] for each in options}
        wanted = self._left[0] if self._left else "Send"
        if wanted not in named:
            return str(named["More …"])
        if not self._left:
            self.say(asked, asked.data)
        del self._left[:1]
        return str(named[wanted])

    def _toggles(self, asked: Asked) -> list[str]:
        if self._left and isinstance(self._left[0], list):
            self._left = list(self._left[0])
        return self._left

    def choose(self, asked: Asked, labels: Sequence[str]) -> Json:
        """The label, or labels, of the next field; None to reject all."""
        if asked.wish != "accept":
            return super().choose(asked, labels)
        value = self._left.pop(0)
        if not self._left:
            self.say(asked, asked.data)
        if isinstance(value, bool):
            return next(each for each in labels if each.startswith("No") is not value)
        return value if isinstance(value, (str, list)) else json.dumps(value)

    def type(self, asked: Asked, labels: Sequence[str]) -> bytes:
        """A line for the next field: y or n, or the numbers of labels, where there are some."""
        if asked.wish != "accept":
            self.say(asked)
            return CTRL_D if asked.wish == "decline" else CTRL_C
        value = self._left.pop(0)
        data = asked.data
        if isinstance(value, dict) and "mimeType" in value:
            data = asked.as_data({**value, "filename": os.path.basename(self._file)})
            value = self._file
        if not self._left:
            self.say(asked, data)
        if isinstance(value, bool):  # whatever its two options are called
            return b"y\n" if value else b"n\n"
        if labels:
            wanted = value if isinstance(value, list) else [value]
            numbers = [n for n, each in enumerate(labels, 1) if each.split(" (")[0] in wanted]
            return ",".join(map(str, numbers)).encode() + b"\n"
        return (value if isinstance(value, str) else json.dumps(value)).encode() + b"\n"


# --- hosts that show something --------------------------------------------------------------------


class FormHost(LegacyHost):
    name = "claude-code"
    capabilities = FORM


class UrlHost(FormHost):
    capabilities = URL


class ModernFormHost(ModernHost):
    name = "claude-code"
    capabilities = FORM
    patience = 2 * LATE


class AcpForms(AcpClient):
    name = "zed"
    capabilities = FORM


class AcpUrls(AcpForms):
    capabilities = URL


class AcpButtons(AcpForms):
    capabilities = NOTHING


class MuteHost(FormHost):
    """One that shows nothing: its person sits elsewhere."""

    capabilities = NOTHING


class ModelHost(MuteHost):
    """One whose model asks its person, and brings the answer."""

    async def _call(self) -> Json:
        given = {"capability": self.capability, "params": self.prepare()}
        response = await self._tool("abp_call", given)
        while response is not None:
            text = response["result"]["content"][0]["text"]
            if (asked := re.search(r'"question": "([\w-]+)"', text)) is not None:
                given = {"question": asked[1], **await self._bring(text)}
                response = await self._tool("abp_answer", given)
                text = response["result"]["content"][0]["text"] if response else ""
            if (call := re.search(r'"call": "([\w-]+)"', text)) is None:
                break
            response = await self._tool("abp_wait", {"call": call[1]})
        return response

    async def _tool(self, name: str, arguments: Json) -> Json:
        return await self.peer.request("tools/call", {"name": name, "arguments": arguments})

    async def _bring(self, text: str) -> Json:
        asked = self._sitter.recognise(text)
        await self._begin(self._sitter.wait(asked))
        if asked.wish == "accept":
            self._sitter.say(asked, asked.data)
            return {"content": asked.data}
        return {"action": {"declined": "decline", "cancelled": "cancel"}[self._sitter.say(asked)]}


class AbpAgent(Host):
    """An ABP agent, which answers in ABP's words."""

    name = "claude-code"
    asked_by: Json = None  # the method that it was asked by, and the parameters

    async def _open(self) -> None:
        about = {"agent": {"name": self.name, "version": "1"}, "features": {"elicitation": True}}
        await self.peer.request("initialize", {"protocolVersion": "0.1", **about})

    async def _call(self) -> Json:
        given = {"capability": self.capability, "params": self.prepare(), "options": {}}
        return await self.peer.request("capabilities/call", given)

    async def _reply(self, method: str, params: Json) -> Json:
        self.asked_by = method, params
        asked = self._sitter.recognise(json.dumps(params, ensure_ascii=False))
        await self._sitter.wait(asked)
        if asked.wish == "accept":
            self._sitter.say(asked, asked.data)
            return {"success": True, "data": self._data(method, params, asked)}
        if self._sitter.say(asked) == "cancelled":
            return {"success": False, "cancelled": True}
        return {"success": False, "error": {"code": "USER_CANCELLED", "message": "No."}}

    def _data(self, method: str, params: Json, asked: Asked) -> Json:
        [member] = {"confirm": ["confirmed"], "select": ["selected"], "create": ["result"]}.get(
            method.rpartition("/")[2], ["value"]
        )
        if method == "elicitation/resource":
            return asked.value
        is_form = "properties" in params.get("schema", {})
        return {member: asked.data if is_form else asked.value}


# --- surfaces of the person's own -----------------------------------------------------------------


class Follower(Program):
    """A program at the questions API that shows all fields, one after the other."""

    async def _answer(self, id: str, infos: Any) -> None:
        asked = self.sitter.recognise(json.dumps(infos, ensure_ascii=False))
        await self.sitter.wait(asked)
        chosen: list[Json] = []
        for each in infos:
            label: Json = self.sitter.choose(asked, [offer["label"] for offer in each["options"]])
            if label is None:
                break
            chosen.append(label if isinstance(label, list) else [label])
        del self._tasks[id]
        answered = len(chosen) == len(infos)
        how, body = ("reply", {"answers": chosen}) if answered else ("reject", None)
        await self._request("POST", f"/question/{id}/{how}", body)

    def leave(self) -> None:
        self.end()


class Keyboard:
    """A terminal without a cursor. Each line is a packet, an empty one is Ctrl-D."""

    moves, encoding, columns, is_open = False, "utf-8", 80, True

    def __init__(self, sitter: Sitter) -> None:
        self._sitter = sitter
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self.fd = self._ours.fileno()
        self._drawn = ""
        self._typing: asyncio.Task[None] | None = None

    def open(self) -> None: ...

    def close_lost(self) -> None:
        raise SurfaceUnsupportedError("the terminal has gone", lasting=True)

    def keys(self) -> AbstractContextManager[None]:
        return nullcontext()

    def lines(self, *, secret: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def print(self, words: str) -> None:
        self._drawn += words
        if words.endswith(": "):
            drawn, self._drawn = self._drawn, ""
            self._typing = asyncio.get_running_loop().create_task(self._type(drawn))
        elif "(withdrawn)" in words and self._typing is not None:
            self._typing.cancel()

    async def _type(self, drawn: str) -> None:
        asked = self._sitter.recognise(drawn)
        await self._sitter.wait(asked)
        labels = re.findall(r"^\s*\d+\) ([^:\n]*)", drawn, re.MULTILINE)
        os.write(self._theirs.fileno(), self._sitter.type(asked, labels))

    def leave(self) -> None:
        self._theirs.close()

    async def end(self) -> None:
        if self._typing is not None:
            self._typing.cancel()
            await asyncio.gather(self._typing, return_exceptions=True)
        self._ours.close()
        self._theirs.close()


async def _at_once(read: Callable[..., Json], *given: Json, **how: Json) -> Json:
    """Read a file, without a thread that a virtual clock would not wait for."""
    return read(*given)


# --- the table ------------------------------------------------------------------------------------


class Place:
    """All that the bridge meets on the answering side of one session."""

    def __init__(self, side: Side, sitter: Sitter) -> None:
        self.sitter = sitter
        self.to_host, self.from_host = (Pipe(Calm(), Weather()) for _ in range(2))
        is_program = side.variant.surface is Surface.QUESTIONS_API
        self.program = Follower(sitter) if is_program else None
        self.page = Page(sitter, self.program)
        pipes = self.to_host, self.from_host
        self.host: Any = side.host(Calm(), sitter, self.page, Habits(), *pipes)
        self.keyboard: Keyboard | None = None
        self._side = side
        sitter.leave = self.host.peer.hang_up

    @contextmanager
    def set_up(self) -> Iterator[None]:
        surface = self._side.variant.surface
        if surface is Surface.TERMINAL:
            keyboard = self.keyboard = Keyboard(self.sitter)
            self.sitter.leave = keyboard.leave
            compose.terminal.cache_clear()
            with (
                patch.object(terminal, "TtyDevice", lambda path: keyboard),
                patch.object(anyio.to_thread, "run_sync", _at_once),
            ):
                yield
            compose.terminal.cache_clear()
            return
        if surface is Surface.PAGE:
            self.sitter.leave = self.page.leave
        elif self.program is not None:
            self.sitter.leave = self.program.leave
        yield

    async def attend(self, hosts: Hosts) -> None:
        await hosts.attend(ReadEnd(self.from_host), self.to_host)

    async def end(self) -> None:
        await self.host.end()
        if self.program is not None:
            await asyncio.gather(*self.program.end(), return_exceptions=True)
        if self.keyboard is not None:
            await self.keyboard.end()


@dataclass(frozen=True)
class Side:
    """One answering side: the host, the surface that is asked on, and what the person set up."""

    host: type[Host]
    variant: SurfaceVariant
    settings: Json = field(default_factory=dict)
    dismisses: bool = True  # it has a word for that
    takes_down: bool = True  # it hears of a question that is not open any more


def _own(surface: Surface, **settings: Json) -> Side:
    return Side(MuteHost, SurfaceVariant(surface), {"ask_on": (surface.value,), **settings})


SIDES: dict[str, Side] = {
    "MCP form, legacy": Side(FormHost, SurfaceVariant(Surface.MCP_FORM, "2025-11-25")),
    "MCP form, modern": Side(
        ModernFormHost, SurfaceVariant(Surface.MCP_FORM, "2026-07-28"), takes_down=False
    ),
    "MCP url": Side(UrlHost, SurfaceVariant(Surface.MCP_URL)),
    "ACP form": Side(AcpForms, SurfaceVariant(Surface.ACP_FORM)),
    "ACP url": Side(AcpUrls, SurfaceVariant(Surface.ACP_URL)),
    "ACP permission": Side(AcpButtons, SurfaceVariant(Surface.ACP_PERMISSION)),
    "ABP agent": Side(AbpAgent, SurfaceVariant(Surface.ABP)),
    "our page": _own(Surface.PAGE, page="open"),
    "a terminal": _own(Surface.TERMINAL, tty="/dev/simulated"),
    "the questions API": Side(
        MuteHost,
        SurfaceVariant(Surface.QUESTIONS_API),
        {"ask_on": ("questions-api",), "questions_api": 0, "questions_password": PASSWORD},
        dismisses=False,
    ),
    "a model": Side(
        ModelHost,
        SurfaceVariant(Surface.MODEL_RELAY),
        {"ask_on": ("model-relay",), "ask_via_model": True},
        takes_down=False,
    ),
}
