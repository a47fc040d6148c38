"""One bridge on its stdin and stdout, shared by any number of HTTP exchanges: what belongs to whom.

Every request gets an id and a progress token of the pipe's own on the way in, as two clients may
choose the same ones; on the way out their own come back. What the bridge says without naming a
request goes to the youngest call in flight, as HTTP wants it, or to whoever listens for the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process, TaskStatus
from support.peer import read_lines

Json = Any
Message = dict[str, Json]
Messages = asyncio.Queue[Message | None]

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
END = 3.0  # seconds for the bridge to end after its stdin; then SIGTERM, then SIGKILL
FIRST_ID = 1_000_000  # no request of the bridge's own has such an id
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_UNASKED = (
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)


class Exchange:
    """A request in flight.

    `messages` are what the bridge says on its account, the response and None last; None comes
    early when the bridge ends.
    """

    def __init__(self, request: Message) -> None:
        self.request = request
        self.token = meta(request).get("progressToken")
        self.messages: Messages = asyncio.Queue()


class Pipe:
    """A bridge started with `command`.

    Both directions are written to the file `record`, and what it says on stderr beside it.
    `complaints` are what it did that a bridge must not do, known when `run` has returned.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], record: Path) -> None:
        self._command = command
        self._env = env
        self._record = record
        self._ids = count(FIRST_ID)
        self._exchanges: dict[Json, Exchange] = {}  # by the pipe's ids, the oldest first
        # What the bridge says of these may have crossed with our word.
        self._cancelled: set[Json] = set()
        self._outgoing: asyncio.Queue[Message] = asyncio.Queue()
        self._end = anyio.Event()
        self.over = False
        self.rest: Messages | None = None  # for what belongs to no exchange
        self.complaints: list[str] = []

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """From the start of the process to its end, which is `close`'s or its own."""
        stderr = self._record.with_suffix(".stderr")
        with self._record.open("w", buffering=1) as self._log, stderr.open("wb") as sink:
            process = await anyio.open_process(
                self._command, stderr=sink, env=self._env, start_new_session=True
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, process)
                tasks.start_soon(self._read, process)
                task_status.started()
                try:
                    await self._end.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._await_end(process)
                    tasks.cancel_scope.cancel()
        if process.returncode:
            self.complaints.append(f"ended with {process.returncode}")
        if said := stderr.read_text(errors="replace").strip():
            self.complaints.append(f"said on stderr: {said[:2_000]}")

    def close(self) -> None:
        """Ask for the end; `run` returns when it has come."""
        self._end.set()

    def ask(self, request: Message) -> Exchange:
        """Send a request; what comes of it is in the exchange."""
        exchange = Exchange(request)
        id = next(self._ids)
        self._exchanges[id] = exchange
        sent = {**request, "id": id}
        if exchange.token is not None:
            sent["params"] = {**request["params"], "_meta": {**meta(request), "progressToken": id}}
        self.send(sent)
        if self.over:
            exchange.messages.put_nowait(None)
        return exchange

    def send(self, message: Message) -> None:
        """Send a notification, or the answer to a request of the bridge's."""
        self._outgoing.put_nowait(message)

    def cancel(self, exchange: Exchange) -> None:
        """Nobody waits for it any more: the bridge hears so, and what it still says is dropped."""
        exchange.messages.put_nowait(None)
        for id in [id for id, each in self._exchanges.items() if each is exchange]:
            del self._exchanges[id]
            self._cancelled.add(id)
            params = {"requestId": id, "reason": "the client left"}
            self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def cancel_request(self, id: Json) -> None:
        """The client cancels its own request `id`."""
        for exchange in [each for each in self._exchanges.values() if each.request["id"] == id]:
            self.cancel(exchange)

    # --- from the bridge ---

    def _take(self, message: Message) -> None:
        id = message.get("id")
        if "method" in message:
            self._deliver(*self._addressed(message))
        elif (exchange := self._exchanges.pop(id, None)) is not None:
            response = {**_restored(message, exchange), "id": exchange.request["id"]}
            self._deliver(exchange.messages, response)
            exchange.messages.put_nowait(None)
        elif id not in self._cancelled:
            self._complain("answered what nobody asks, or twice", message)

    def _addressed(self, message: Message) -> tuple[Messages | None, Message]:
        """Who is to hear it, with the names it is known by there."""
        params = message["params"] if isinstance(message.get("params"), Mapping) else {}
        marks = (meta(message).get(SUBSCRIPTION), params.get("progressToken"))
        for id in (*marks, params.get("requestId")):
            if isinstance(id, int) and id >= FIRST_ID:
                if (exchange := self._exchanges.get(id)) is not None:
                    return exchange.messages, _restored(message, exchange)
                if id not in self._cancelled:
                    self._complain("spoke of a request after its answer", message)
                return None, message
        wanted = "subscriptions/listen" if message["method"] in _UNASKED else "tools/call"
        for exchange in reversed(self._exchanges.values()):
            if exchange.request["method"] == wanted:
                return exchange.messages, message
        return self.rest, message

    def _deliver(self, messages: Messages | None, message: Message) -> None:
        if messages is not None:
            messages.put_nowait(message)

    def _complain(self, problem: str, message: Json) -> None:
        self.complaints.append(f"{problem}: {str(message)[:200]}")

    # --- the process ---

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in read_lines(process.stdout):
            self._log.write(f"< {line.decode(errors='replace')}\n")
            try:
                message = json.loads(line)
            except ValueError:
                self._complain("wrote a line that is no JSON", line)
            else:
                self._take(message)
        self._end.set()

    async def _write(self, process: Process) -> None:
        assert process.stdin is not None
        while message := await self._outgoing.get():
            line = json.dumps(message, ensure_ascii=False)
            self._log.write(f"> {line}\n")
            try:
                await process.stdin.send(line.encode() + b"\n")
            except GONE:
                return

    async def _await_end(self, process: Process) -> None:
        """Close its stdin and wait, then less gently."""
        self.over = True
        for each in (self.rest, *(exchange.messages for exchange in self._exchanges.values())):
            if each is not None:
                each.put_nowait(None)
        assert process.stdin is not None
        with suppress(*GONE):
            await process.stdin.aclose()
        for less_gently in (process.terminate, process.kill):
            with anyio.move_on_after(END):
                await process.wait()
                return
            self.complaints.append(f"was still there {END:g} s after it was to end")
            with suppress(ProcessLookupError):
                less_gently()
        await process.wait()


def meta(message: Message) -> Mapping[str, Json]:
    """`_meta` of a message's params, empty when there is none."""
    params = message.get("params")
    found = params.get("_meta") if isinstance(params, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _restored(message: Message, exchange: Exchange) -> Message:
    """`message` with the names that the exchange's client gave."""
    own = {"progressToken": exchange.token, "requestId": exchange.request["id"]}
    for part in ("params", "result"):
        if isinstance(body := message.get(part), Mapping):
            names = {word: own[word] for word in own if word in body and part == "params"}
            about = body.get("_meta")
            if isinstance(about, Mapping) and SUBSCRIPTION in about:
                names["_meta"] = {**about, SUBSCRIPTION: exchange.request["id"]}
            message = {**message, part: {**body, **names}}
    return message
