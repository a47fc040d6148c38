"""Progress to the host while a person is asked for one of its calls: a host gives a tool so many
seconds, a person takes longer, and each report begins that time anew where the host allows it.

What the server itself reports passes as it came; ours is the last of that and `_EPSILON` more, as
progress has to rise.
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
    from abp_bridge.session.proxy_elicitor import ElicitorApi

INTERVAL = 15.0  # seconds between reports: hosts give up after 30 at the soonest
_EPSILON = 1e-9  # that ours adds, relative: the server's own next value is higher
_PROGRESS = "notifications/progress"
_WAITS = "abp-bridge: waiting for the answer of who is asked"


@dataclass(slots=True)
class _Reported:
    """What the host heard last for a call: its `progressToken`, and how far the call is."""

    token: Id
    progress: Progress


class KeepaliveElicitor:
    """An elicitor that tells the host, while it asks, that the calls concerned still run.

    Args:
        elicitor: Who asks.
        host: Who is told.
        tasks: Where that happens; it must outlive the questions.
        interval: Seconds until a report: who answers sooner is not heard of.
    """

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
        """Whether an open call wants to hear of progress."""
        return bool(self._calls)

    def begin(self, id: Id, params: JsonObject) -> None:
        """The host makes a call with these parameters, and may want progress."""
        token = as_object(params.get("_meta")).get("progressToken")
        if is_id(token):
            self._calls.setdefault(id, _Reported(token, Progress(None, 0, status=_WAITS)))

    def learn(self, params: JsonObject) -> None:
        """The server reports progress, which passes: ours goes on from there."""
        token, value = params.get("progressToken"), as_number(params.get("progress"))
        for call in self._calls.values():
            if call.token == token and value is not None and value > call.progress.value:
                total = as_number(params.get("total"))
                call.progress = replace(call.progress, value=value, total=total)

    def end(self, id: Id) -> None:
        """The call has its result, or nobody wants it."""
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
        """A model that answers for `calls` is so far: what the next report says."""
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
