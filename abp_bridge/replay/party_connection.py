"""One connection of a party of a replay with the bridge. It carries bytes."""

from __future__ import annotations

from abp_bridge.rpc.streams import StreamReader, StreamWriter


class PartyConnection:
    """What an app, an agent, a host or a server that was launched says to the bridge."""

    def __init__(self, sink: StreamWriter, source: StreamReader | None = None) -> None:
        """With a `source` both are ours, and close together."""
        self._sink = sink
        self._source = source

    async def receive(self) -> bytes:
        """What the bridge says next, where it says it here; empty at the end."""
        return b"" if self._source is None else await self._source.receive()

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises OSError when nobody reads it any more."""
        left = memoryview(data)
        while left:
            await self._sink.writable()
            left = left[self._sink.write_nowait(left) :]

    def close(self) -> None:
        """Nothing more is said. Idempotent."""
        self._sink.close()
        if self._source is not None:
            self._source.close()
