"""One bridge on its stdin and stdout, shared by any number of HTTP exchanges: what belongs to whom.

Every request gets an id and a progress token of the pipe's own on the way in, as two clients may
choose the same ones; on the way out their own come back. What the bridge says without naming a
request goes to the youngest call in flight, as HTTP wants it, or to whoever listens for the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import Process, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

Json = Any
Message = dict[str, Json]

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
GOODBYE = 3.0  # seconds for the bridge to end after its stdin; then SIGTERM, then SIGKILL
FIRST_ID = 1_000_000  # no request of the bridge's own has such an id
_UNASKED = (
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)


class Exchange:
    """A request in flight.

    `messages` are what the bridge says on its account, the response last; it ends early when the
    bridge does.
    """

    def __init__(self, request: Message) -> None:
        self.request = request
        self.sink, self.messages = anyio.create_memory_object_stream[Message](math.inf)

    @property
    def token(self) -> Json:
        return meta(self.request).get("progressToken")


class Pipe:
    """A bridge started with `command`.

    Both directions are written to the file `record`, and what it says on stderr beside it.

    `complaints` are what it did that a bridge must not do, known when `run` has returned.
    """

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], record: Path
    ) -> None:
        self.name = name
        self._command = command
        self._env = env
        self._record = record
        self._ids = count(FIRST_ID)
        self._exchanges: dict[Json, Exchange] = {}  # by the pipe's ids, the oldest first
        self._cancelled: set[Json] = (
            set()
        )  # what the bridge says of these may have crossed with our word
        self._outgoing, self._queue = anyio.create_memory_object_stream[Message](math.inf)
        self._end = anyio.Event()
        self.over = False
        self.rest: MemoryObjectSendStream[Message] | None = None  # for what belongs to no exchange
        self.complaints: list[str] = []

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """From the start of the process to its end, which is `close`'s or its own."""
        with (
            open(self._record, "w", buffering=1) as record,
            open(self._record.with_suffix(".stderr"), "wb") as stderr,
        ):
            process = await anyio.open_process(
                self._command, stderr=stderr, env=self._env, start_new_session=True
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, process, record)
                tasks.start_soon(self._read, process, record)
                task_status.started()
                try:
                    await self._end.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._goodbye(process)
                    tasks.cancel_scope.cancel()
        self._account(process)

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
        self.tell(sent)
        if self.over:
            exchange.sink.close()
        return exchange

    def tell(self, message: Message) -> None:
        """Send a notification, or the answer to a request of the bridge's."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._outgoing.send_nowait(message)

    def cancel(self, exchange: Exchange) -> None:
        """Nobody waits for it any more: the bridge is told, and what it still says is dropped."""
        exchange.sink.close()
        for id in [id for id, each in self._exchanges.items() if each is exchange]:
            del self._exchanges[id]
            self._cancelled.add(id)
            self.tell(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id, "reason": "the client left"},
                }
            )

    def cancel_request(self, id: Json) -> None:
        """The client cancels its own request `id`."""
        for exchange in [each for each in self._exchanges.values() if each.request["id"] == id]:
            self.cancel(exchange)

    # --- from the bridge ---

    def _take(self, message: Message) -> None:
        if "method" in message:
            self._deliver(*self._addressed(message))
        elif (exchange := self._exchanges.pop(message.get("id"), None)) is not None:
            self._deliver(
                exchange.sink, {**_restored(message, exchange), "id": exchange.request["id"]}
            )
            exchange.sink.close()
        elif message.get("id") not in self._cancelled:
            self.complaints.append(
                f"answered what nobody asks, or twice: {json.dumps(message)[:200]}"
            )

    def _addressed(
        self, message: Message
    ) -> tuple[MemoryObjectSendStream[Message] | None, Message]:
        """Who is to hear it, with the names it is known by there."""
        params = message["params"] if isinstance(message.get("params"), Mapping) else {}
        for named in (
            meta(message).get(SUBSCRIPTION),
            params.get("progressToken"),
            params.get("requestId"),
        ):
            if isinstance(named, int) and named >= FIRST_ID:
                return self._named(named, message)
        wanted = "subscriptions/listen" if message["method"] in _UNASKED else "tools/call"
        youngest = next(
            (
                each
                for each in reversed(self._exchanges.values())
                if each.request["method"] == wanted
            ),
            None,
        )
        return (self.rest if youngest is None else youngest.sink), message

    def _named(
        self, id: int, message: Message
    ) -> tuple[MemoryObjectSendStream[Message] | None, Message]:
        exchange = self._exchanges.get(id)
        if exchange is not None:
            return exchange.sink, _restored(message, exchange)
        if id not in self._cancelled:
            self.complaints.append(
                f"told of a request after its answer: {json.dumps(message)[:200]}"
            )
        return None, message

    def _deliver(self, sink: MemoryObjectSendStream[Message] | None, message: Message) -> None:
        if sink is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.WouldBlock):
                sink.send_nowait(message)

    # --- the process ---

    async def _read(self, process: Process, record: IO[str]) -> None:
        assert process.stdout is not None
        rest = b""
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                record.write(f"< {line.decode(errors='replace')}\n")
                try:
                    message = json.loads(line)
                except ValueError:
                    self.complaints.append(f"wrote a line that is no JSON: {line[:200]!r}")
                else:
                    self._take(message)
        self._end.set()

    async def _write(self, process: Process, record: IO[str]) -> None:
        assert process.stdin is not None
        async for message in self._queue:
            line = json.dumps(message, ensure_ascii=False)
            record.write(f"> {line}\n")
            try:
                await process.stdin.send(line.encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _goodbye(self, process: Process) -> None:
        """Close its stdin and wait, then less gently."""
        self.over = True
        for exchange in self._exchanges.values():
            exchange.sink.close()
        if self.rest is not None:
            self.rest.close()
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        for less_gently in (process.terminate, process.kill):
            with anyio.move_on_after(GOODBYE):
                await process.wait()
                return
            self.complaints.append(f"was still there {GOODBYE:g} s after it was to end")
            with suppress(ProcessLookupError):
                less_gently()
        await process.wait()

    def _account(self, process: Process) -> None:
        """What a bridge must not leave behind."""
        said = self._record.with_suffix(".stderr").read_text(errors="replace").strip()
        if process.returncode:
            self.complaints.append(f"ended with {process.returncode}")
        if said:
            self.complaints.append(f"said on stderr: {said[:2_000]}")


def meta(message: Message) -> Mapping[str, Json]:
    """`_meta` of a message's params, empty when there is none."""
    params = message.get("params")
    found = params.get("_meta") if isinstance(params, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def cancelled(message: Message) -> Json:
    """The request that a `notifications/cancelled` is about."""
    params = message.get("params")
    return params.get("requestId") if isinstance(params, Mapping) else None


def _restored(message: Message, exchange: Exchange) -> Message:
    """`message` with the names that the exchange's client gave."""
    for part in ("params", "result"):
        body = message.get(part)
        if not isinstance(body, Mapping):
            continue
        own = {"progressToken": exchange.token, "requestId": exchange.request["id"]}
        body = {
            **body,
            **{word: value for word, value in own.items() if word in body and part == "params"},
        }
        if isinstance(body.get("_meta"), Mapping) and SUBSCRIPTION in body["_meta"]:
            body["_meta"] = {**body["_meta"], SUBSCRIPTION: exchange.request["id"]}
        message = {**message, part: body}
    return message
