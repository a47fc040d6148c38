"""Progress for the host while the user is asked, so that its tool timeout starts again.

The server's own reports pass. Progress must rise, so ours adds `_EPSILON` to the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_number, as_object
from abp_bridge.core.ledger import Progress
from abp_bridge.jsonrpc.protocol import Id, is_id

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.answer import Answer
    from abp_bridge.core.question import Question
    from abp_bridge.mcp.connection import McpConnection
    from abp_bridge.session.context import AskContext
    from abp_bridge.session.surface import ElicitorApi

INTERVAL = 15.0  # seconds between reports: hosts give up after 30 at the soonest
_EPSILON = 1e-9  # that ours adds, relative: the server's own next value is higher
_PROGRESS = "notifications/progress"
_WAITS = "abp-bridge: waiting for the answer of who is asked"


@dataclass(slots=True)
class _Reported:
    """The last progress of a call, and its `progressToken`."""

    token: Id
    progress: Progress


class KeepaliveElicitor:
    """An elicitor that reports progress to the host every `interval` seconds while it asks."""

    def __init__(
        self,
        elicitor: ElicitorApi,
        host: McpConnection,
        tasks: TaskGroup,
        interval: float = INTERVAL,
    ) -> None:
        self._elicitor = elicitor
        self._host = host
        self._tasks = tasks
        self._interval = interval
        self._calls: dict[Id, _Reported] = {}

    @property
    def is_on(self) -> bool:
        """Whether an open call wants progress."""
        return bool(self._calls)

    def begin(self, id: Id, params: JsonObject) -> None:
        """Note a call's progress token, if it has one."""
        token = as_object(params.get("_meta")).get("progressToken")
        if is_id(token):
            self._calls.setdefault(id, _Reported(token, Progress(None, 0, status=_WAITS)))

    def learn(self, params: JsonObject) -> None:
        """Continue from a report of the server."""
        token, value = params.get("progressToken"), as_number(params.get("progress"))
        for call in self._calls.values():
            if call.token == token and value is not None and value > call.progress.value:
                total = as_number(params.get("total"))
                call.progress = replace(call.progress, value=value, total=total)

    def forget_call(self, id: Id) -> None:
        self._calls.pop(id, None)

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        """Ask, and return how it was answered (`ElicitorApi.resolve`)."""
        if not self.is_on:
            return await self._elicitor.resolve(question, context)
        for call in self._concerned(context.calls):  # of what was asked before, no word stays
            call.progress = replace(call.progress, status=_WAITS)
        asking = anyio.CancelScope()
        self._tasks.start_soon(self._report, frozenset(context.calls), asking)
        try:
            return await self._elicitor.resolve(question, context)
        finally:
            asking.cancel()

    def on_model_progress(self, calls: Sequence[str], words: str) -> None:
        """Note how far a model is that answers for `calls`, for the next report."""
        for call in self._concerned(calls):
            call.progress = replace(call.progress, status=f"abp-bridge: {words}")

    def _concerned(self, calls: Collection[str]) -> list[_Reported]:
        return [each for id, each in self._calls.items() if str(id) in calls]

    async def _report(self, calls: frozenset[str], asking: anyio.CancelScope) -> None:
        from abp_bridge.protocols.mcp.results import encode_progress  # once needed

        with asking:
            while True:
                await anyio.sleep(self._interval)
                for call in self._concerned(calls):
                    value = call.progress.value
                    call.progress = replace(
                        call.progress, value=value + _EPSILON * max(1, abs(value))
                    )
                    params = encode_progress(call.token, call.progress, self._host.client.version)
                    self._host.rpc.notify(_PROGRESS, params, key=("progress", call.token))
