"""The turns of one ACP session: its person is asked inside of them only, and what is asked ends
with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from abp_bridge.core.question import Outcome
from abp_bridge.interfaces.surface import HostDisconnectedError, SurfaceUnsupportedError
from abp_bridge.rpc.protocol import Id

T = TypeVar("T")

OUTSIDE = "no prompt is running, and clients do not answer questions outside of one"


class Turns:
    """Told when prompts begin, are cancelled and end."""

    def __init__(self) -> None:
        self._prompts: set[Id] = set()
        self._cancelled: HostDisconnectedError | None = None
        self._asking: dict[
            anyio.CancelScope, HostDisconnectedError | None
        ] = {}  # each question, and what ended it
        self._quiet = anyio.Event()

    def begin(self, prompt: Id) -> None:
        """A prompt runs: the person can be asked."""
        self._prompts.add(prompt)
        self._cancelled = None

    def cancel(self, reason: str = "the user cancelled the turn") -> None:
        """What is asked is taken down, and nothing more is asked until the next prompt."""
        self._cancelled = HostDisconnectedError(reason, Outcome.CANCELLED)
        self._dismiss(self._cancelled)

    async def end(self, prompt: Id, reason: str) -> None:
        """A prompt is over.

        Returns when nothing is asked any more, if it was the last: its response must come after.
        """
        self._prompts.discard(prompt)
        if not self._prompts:
            self._dismiss(HostDisconnectedError(reason))
            while self._asking:
                self._quiet = anyio.Event()
                await self._quiet.wait()

    def _dismiss(self, why: HostDisconnectedError) -> None:
        for scope, ended in self._asking.items():
            self._asking[scope] = ended or why
            scope.cancel()

    async def within(self, asked: Callable[[], Awaitable[T]]) -> T:
        """Ask, while a turn lasts.

        Raises SurfaceUnsupportedError outside of one, HostDisconnectedError when it ends first, and
        what `asked` raises.
        """
        if not self._prompts:
            raise SurfaceUnsupportedError(OUTSIDE, lasting=False)
        if self._cancelled is not None:
            raise self._cancelled
        scope = anyio.CancelScope()
        self._asking[scope] = None
        try:
            with scope:
                return await asked()
            ended = self._asking[scope]
        finally:
            del self._asking[scope]
            self._quiet.set()
        assert ended is not None, "only a dismissal cancels this scope"
        raise ended
