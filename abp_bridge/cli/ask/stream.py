"""`abp-bridge ask -`: requests on stdin, each answered on stdout. It is ABP on a pipe, in either of
its bindings; who answers is not known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from abp_bridge.apps.abp import MAX_LINE, Binding
from abp_bridge.apps.elicitation import handle_elicitation
from abp_bridge.cli.ask.person import Person
from abp_bridge.core.sanitize import label
from abp_bridge.log import print_message
from abp_bridge.protocols import abp
from abp_bridge.rpc.connection import ByteReader, JsonRpcConnection
from abp_bridge.rpc.protocol import (
    METHOD_NOT_FOUND,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.rpc.streams import StreamWriter

_EXAMPLE = (
    'A question is one line: {"jsonrpc": "2.0", "id": 1, "method": "elicitation/confirm", "params":'
    ' {"message": "Go on?"}}'
)


class Stream:
    """A program's requests, put to one person.

    Args:
        person: Who answers.
        origin: Who asks, as it is shown.
        reader: Where the requests come from.
        writer: Where the responses go.
    """

    def __init__(
        self, person: Person, origin: str, reader: ByteReader, writer: StreamWriter
    ) -> None:
        self._person = person
        self._origin = origin
        self._writer = writer
        self._open = 0  # requests that have no answer yet
        self._is_lost = False  # whether a line was no request
        self._answered = anyio.Event()
        binding = Binding()
        self._connection = JsonRpcConnection(
            JsonRpcProtocol(max_line=MAX_LINE, inward=binding.inward, outward=binding.outward),
            _LastingReader(reader, self._wait_answered),
            writer,
            on_message=self._on_message,
            on_protocol_error=self._on_protocol_error,
        )

    async def run(self) -> int:
        """Answer until stdin has ended and everything is answered, or nobody reads stdout any more.

        Returns:
            The exit code: 0, or 1 where somebody may still wait for an answer: also to a line that
            was no request.
        """
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._watch_writer)
            await self._connection.run()
            self._tasks.cancel_scope.cancel()
            return 1 if self._open or self._is_lost else 0
        return 1  # nobody reads

    async def _watch_writer(self) -> None:
        await self._writer.wait_closed()
        self._tasks.cancel_scope.cancel()

    def _on_message(self, message: Request | Notification) -> None:
        asks = message.method.startswith(("elicitation/", "sampling/"))
        if isinstance(message, Request) and asks:
            self._open += 1
            self._tasks.start_soon(self._answer, message)
        elif isinstance(message, Request):
            words = f"abp-bridge ask has no method {message.method[:80]!r}"
            self._connection.respond_error(message.id, METHOD_NOT_FOUND, words)
        elif asks:
            self._is_lost = True
            print_message(
                f"{label(message.method, 80)} came without an id, so that nothing can answer it"
            )
        elif message.method == abp.PROGRESS:
            if (progress := abp.decode_progress(message.params)) is not None:
                self._person.on_progress(progress)
        else:
            self._person.on_notice(
                abp.decode_notice({"event": message.method, "data": message.params})
            )

    def _on_protocol_error(self, error: UnmatchedResponse | InvalidMessage) -> None:
        self._is_lost = True
        if isinstance(error, InvalidMessage):
            print_message(f"a line was not understood: {label(error.reason)}. {_EXAMPLE}")
        else:
            print_message(f"a line answers what nobody asked. {_EXAMPLE}")

    async def _answer(self, request: Request) -> None:
        response = await handle_elicitation(
            {"method": request.method, "params": request.params}, self._person, self._origin
        )
        self._connection.respond(request.id, response)
        self._open -= 1
        self._answered.set()

    async def _wait_answered(self) -> None:
        """Returns when no question is open, and all answers are out."""
        while self._open:
            self._answered = anyio.Event()
            await self._answered.wait()
        await self._connection.sent()
        await self._person.wait_for_page()


class _LastingReader(ByteReader):
    """A reader that ends only when `wait_answered` returns: who has asked may close its end and
    wait. The last line may lack its end.
    """

    def __init__(self, reader: ByteReader, wait_answered: Callable[[], Awaitable[None]]) -> None:
        self._reader = reader
        self._wait_answered = wait_answered
        self._last = b"\n"

    async def receive(self) -> bytes:
        if data := await self._reader.receive():
            self._last = data
            return data
        if not self._last.endswith(b"\n"):
            self._last = b"\n"
            return self._last
        await self._wait_answered()
        return b""

    def close(self) -> None:
        self._reader.close()
