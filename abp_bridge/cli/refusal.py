"""Answer a host's requests with the reason why the command cannot run.

Most hosts show no stderr.
"""

from __future__ import annotations

import time

import anyio

from abp_bridge.core.json_value import JsonValue
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter, JsonRpcConnection
from abp_bridge.jsonrpc.protocol import INTERNAL_ERROR, JsonRpcProtocol, Notification, Request

FIRST_WORDS = 10.0  # seconds for a host to begin with what cannot run: most need one


def translate_first(
    protocol: JsonRpcProtocol, message: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """Translate a host's first message, and set a translator if it is an envelope."""
    if "jsonrpc" in message or message.get("type") != "initialize":
        return message
    from abp_bridge.protocols.abp.envelope import AgentEnvelope

    envelope = AgentEnvelope(time.time)
    protocol.inward, protocol.outward = envelope.inward, envelope.outward
    return envelope.inward(message)


async def refuse(source: ByteReader, sink: ByteWriter, words: str) -> None:
    """Answer requests with `words` up to the session's first one, or for `FIRST_WORDS` seconds.

    After `server/discover` an MCP host tries `initialize` next.
    """
    done = anyio.Event()
    protocol = JsonRpcProtocol(inward=lambda message: translate_first(protocol, message))

    def on_message(message: Request | Notification) -> None:
        if isinstance(message, Request):
            connection.respond_error(message.id, INTERNAL_ERROR, words)
            if message.method == "initialize":
                done.set()

    connection = JsonRpcConnection(protocol, source, sink, on_message=on_message)

    async def run() -> None:
        await connection.run()
        done.set()

    with anyio.move_on_after(FIRST_WORDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await done.wait()
            await connection.sent()
            tasks.cancel_scope.cancel()


def refuse_host(words: str) -> None:
    """`refuse` whoever launched this process, on its own stdin and stdout."""
    from abp_bridge.jsonrpc.loop import OPTIONS
    from abp_bridge.jsonrpc.streams import take_over_stdio

    anyio.run(refuse, *take_over_stdio(), words, backend_options=OPTIONS)
