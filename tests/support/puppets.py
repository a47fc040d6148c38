"""Apps that say what a test has them say: programs that carry their pipes to the test, and programs
that play a script (`apps/scripted.py`).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from support.paths import APPS
from support.peer import PATIENCE, read_lines

Json = Any

PUPPET = """
import contextlib, socket, sys, threading

def up():
    with contextlib.suppress(OSError):  # the test has left
        while data := sys.stdin.buffer.read1(65536):
            line.sendall(data)
        line.shutdown(socket.SHUT_RDWR)

with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    threading.Thread(target=up, daemon=True).start()
    while data := line.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
"""


class App:
    """An app whose every line is the test's: `next` is what the bridge told it, `send` what it
    says. `write` takes bytes as they are.
    """

    def __init__(
        self,
        lines: AsyncIterable[bytes | str],
        write: Callable[[Any], Awaitable[None]],
        aclose: Callable[[], Awaitable[None]],
    ) -> None:
        self._lines = lines
        self.write = write
        self.aclose = aclose

    async def next(self, method: str | None = None) -> Json:
        """The next message from the bridge, or the next with this method or type; None when there
        will be no more.
        """
        with anyio.fail_after(PATIENCE):
            async for line in self._lines:
                message = json.loads(line)
                if method in (None, message.get("method"), message.get("type")):
                    return message
        return None

    async def send(self, **message: Json) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def open(self, *capabilities: str, id: str = "puppet") -> None:
        """Answer `initialize` and the listing that follows it."""
        asked = await self.next("initialize")
        await self.send(
            id=asked["id"],
            result={"sessionId": "s", "app": {"id": id, "name": id}, "capabilities": []},
        )
        asked = await self.next("capabilities/list")
        await self.send(id=asked["id"], result=list(capabilities))


class Puppets:
    """The apps of one test: `target` is what --app is given."""

    def __init__(self, listener: Any, target: str) -> None:
        self.target = target
        self.apps: list[App] = []
        self._listener = listener

    async def app(self) -> App:
        """The next that was started."""
        with anyio.fail_after(PATIENCE):
            stream = await self._listener.accept()
        self.apps.append(App(read_lines(stream), stream.send, stream.aclose))
        return self.apps[-1]


@asynccontextmanager
async def puppets(folder: Path) -> AsyncIterator[Puppets]:
    code, socket = folder / "puppet.py", folder / "s"
    code.write_text(PUPPET)
    async with await anyio.create_unix_listener(socket) as listener:
        made = Puppets(listener, f"stdio:{shlex.join([sys.executable, str(code), str(socket)])}")
        try:
            yield made
        finally:
            for app in made.apps:
                await app.aclose()


def scripted(script: Path) -> str:
    """An app that plays `script`: what --app is given."""
    return f"stdio:{shlex.join([sys.executable, str(APPS / 'scripted.py'), str(script)])}"


def trip(folder: Path, steps: Json) -> str:
    """An app with one capability, `plan`, and the steps of its calls, in which `{folder}` stands
    for this folder: what --app is given.
    """
    plan = {"name": "plan", "description": "Plan a trip", "steps": steps}
    script = {"app": {"id": "trip", "name": "Trip planner"}, "capabilities": [plan]}
    path = folder / "steps.json"
    path.write_text(json.dumps(script).replace("{folder}", str(folder)))
    return scripted(path)
