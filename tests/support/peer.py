"""JSON-RPC on the pipes of a program, one message a line."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from support import in_process

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream

Json = Any

PATIENCE: float = in_process.PATIENCE  # seconds until what is waited for will not come


@dataclass
class Wire:
    """Each message of a connection as ("bridge" or "host", the message)."""

    lines: list[tuple[str, Json]] = field(default_factory=list)

    def sent(self, method: str | None = None) -> list[Json]:
        """What the bridge wrote; with a method, the params of those messages."""
        messages = self._by("bridge", method)
        return messages if method is None else [message.get("params") for message in messages]

    def received(self, method: str | None = None) -> list[Json]:
        """What the host wrote, all or with this method."""
        return self._by("host", method)

    def _by(self, writer: str, method: str | None) -> list[Json]:
        messages = [message for who, message in self.lines if who == writer]
        return [each for each in messages if method in (None, each.get("method"))]


class RpcPeer:
    """The other end of a program's pipes. `log` gets what passed; stderr is beside it."""

    stamp: ClassVar[Mapping[str, Json]] = {"jsonrpc": "2.0"}
    patience = PATIENCE

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        log: Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._log = open(log or os.devnull, "wb", buffering=0)  # noqa: SIM115
        self._buffer = b""
        self._passed: list[Json] = []  # what came while something else was waited for
        self._ids = count(1)
        how = {"cwd": cwd, "start_new_session": start_new_session}
        self.process: Any = in_process.start(command, env, **how)
        if self.process is not None:
            return
        stderr = None if log is None else open(log.with_suffix(".stderr"), "wb")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=start_new_session,
            )
        finally:
            if stderr is not None:
                stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(self.patience)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            assert stream is not None
            stream.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self._log.write(b"> " + data)
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, params: Json = None, **more: Json) -> None:
        """Send a notification or, with an `id`, a request."""
        body = {} if params is None else {"params": params}
        self._send({**more, "method": method, **body})

    def reply(self, id: Json, result: Json) -> None:
        self._send({"id": id, "result": result})

    def begin(self, method: str, params: Json = None) -> int:
        """Ask, and do not wait: the id of the request."""
        id = next(self._ids)
        self.send(method, params, id=id)
        return id

    def response(self, id: Json) -> Json:
        """The whole response to the request `id`."""
        return self.until(lambda message: message.get("id") == id and "method" not in message)

    def request(self, method: str, params: Json = None) -> Json:
        """Ask, and return the whole response."""
        return self.response(self.begin(method, params))

    def result(self, method: str, params: Json = None) -> Json:
        response = self.request(method, params)
        assert "result" in response, response
        return response["result"]

    def read(self, limit: float | None = None) -> Json:
        """The next message that comes, within `limit` seconds."""
        assert self.process.stdout is not None
        until = time.monotonic() + (self.patience if limit is None else limit)
        while b"\n" not in self._buffer:
            left = max(0.0, until - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            assert ready, "the program said nothing"
            data = os.read(self.process.stdout.fileno(), 2**16)
            assert data, "the program closed its stdout"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        self._log.write(b"< " + line + b"\n")
        return json.loads(line)

    def until(self, wanted: Callable[[Json], bool]) -> Json:
        """The first message that is `wanted`; others stay for who waits for them."""
        for place, message in enumerate(self._passed):
            if wanted(message):
                return self._passed.pop(place)
        until = time.monotonic() + self.patience
        while not wanted(message := self.read(until - time.monotonic())):
            self._passed.append(message)
        return message

    def notified(self, method: str) -> Json:
        """The params of the next notification with this method."""
        return self.until(lambda message: message.get("method") == method)["params"]

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code: int = self.process.wait(self.patience)
        return code

    def _send(self, message: Mapping[str, Json]) -> None:
        self.write(json.dumps({**self.stamp, **message}).encode() + b"\n")


async def read_lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    """The lines of what a program says, for tests that do several things at once."""
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
