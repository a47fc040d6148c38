"""Progress for the host while the user is asked, so that its tool timeout starts again.

The server's own reports pass. Progress must rise, so ours adds `_EPSILON` to the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from abp_bridge.jsonrpc.protocol import is_id
from abp_bridge.mcp.proxy.calls import WAITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question
    from abp_bridge.mcp.connection import McpConnection
    from abp_bridge.mcp.proxy.calls import Calls
    from abp_bridge.session.context import AskContext
    from abp_bridge.session.surface import ElicitorApi, OnModelProgress

INTERVAL = 15.0  # seconds between reports: hosts give up after 30 at the soonest
_EPSILON = 1e-9  # that ours adds, relative: the server's own next value is higher


class KeepaliveElicitor:
    """An elicitor that reports progress to the host every `interval` seconds while it asks.

    Args:
        make: Makes the elicitor, at the first question; gets who hears how far a model is.
    """

    def __init__(
        self,
        make: Callable[[OnModelProgress], ElicitorApi],
        host: McpConnection,
        calls: Calls,
        interval: float = INTERVAL,
    ) -> None:
        self._make = make
        self._made: ElicitorApi | None = None
        self._host = host
        self._calls = calls
        self._interval = interval

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Ask, and return how it was answered (`ElicitorApi.resolve`)."""
        self._made = self._made or self._make(self.on_model_progress)
        self._say(context.calls, WAITS)  # of what was asked before, no word stays
        asking = anyio.CancelScope()
        self._host.tasks.start_soon(self._report, context.calls, asking)
        try:
            return await self._made.resolve(question, context)
        finally:
            asking.cancel()

    def on_model_progress(self, calls: Sequence[str], words: str) -> None:
        """Note how far a model is that answers for `calls`, for the next report."""
        self._say(calls, f"abp-bridge: {words}")

    def _say(self, calls: Sequence[str], words: str) -> None:
        for id in calls:
            if (call := self._calls.open.get(id)) is not None:
                call.progress = replace(call.progress, status=words)

    async def _report(self, calls: Sequence[str], asking: anyio.CancelScope) -> None:
        from abp_bridge.protocols.mcp.results import encode_progress  # once needed

        with asking:
            while True:
                await anyio.sleep(self._interval)
                for call in filter(None, map(self._calls.open.get, calls)):
                    token = None if call.request is None else call.request.token
                    if not is_id(token):
                        continue
                    value = call.progress.value + _EPSILON * max(1, abs(call.progress.value))
                    call.progress = replace(call.progress, value=value)
                    params = encode_progress(token, call.progress, self._host.client.version)
                    key = ("progress", token)
                    self._host.rpc.notify("notifications/progress", params, key=key)
