"""Observe a connection: a listener gets each line that passes. Nothing is changed or delayed."""

from __future__ import annotations

from collections.abc import Callable

from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, WrappedReader
from abp_bridge.jsonrpc.protocol import MAX_LINE

# (line, size): a line without its end and how long it was; None for the end of the stream
LineListener = Callable[[bytes | None, int], None]
# What a connection's two streams go through before they are used.
Tap = Callable[[ByteReader, ByteWriter], tuple[ByteReader, ByteWriter]]


def unobserved_stream(source: ByteReader, sink: ByteWriter) -> tuple[ByteReader, ByteWriter]:
    """The tap of a connection that nobody listens to."""
    return source, sink


def observe_stream(
    source: ByteReader, sink: ByteWriter, read: LineListener, written: LineListener
) -> tuple[ByteReader, ByteWriter]:
    """Wrap both streams: `read` gets incoming lines, `written` outgoing ones."""
    return _Source(source, _Lines(read)), _Sink(sink, _Lines(written))


class _Lines:
    """Cuts what passes into lines."""

    def __init__(self, hear: LineListener) -> None:
        self._hear = hear
        self._begun: list[bytes] = []
        self._size = 0
        self._ended = False

    def pass_by(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            self._hear(b"".join(self._begun), self._size)
            self._begun, self._size = [], 0
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if self._size < MAX_LINE:
            self._begun.append(part[: MAX_LINE - self._size])
        self._size += len(part)

    def end_line(self) -> None:
        if not self._ended:
            self._ended = True
            if self._size:
                self._hear(b"".join(self._begun), self._size)
            self._hear(None, 0)


class _Source(WrappedReader):
    def __init__(self, source: ByteReader, lines: _Lines) -> None:
        super().__init__(source)
        self._lines = lines

    def _overhear(self, data: bytes) -> None:
        if data:
            self._lines.pass_by(data)
        else:
            self._lines.end_line()


class _Sink(ByteWriter):
    def __init__(self, sink: ByteWriter, lines: _Lines) -> None:
        self._sink = sink
        self._lines = lines

    def write_nowait(self, data: bytes | memoryview) -> int:
        written = self._sink.write_nowait(data)
        if written:
            self._lines.pass_by(bytes(data[:written]))
        return written

    async def writable(self) -> None:
        await self._sink.writable()

    def close(self) -> None:
        self._lines.end_line()
        self._sink.close()
