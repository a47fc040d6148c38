"""The turns of one ACP session: its person is asked inside of them only, and what is asked ends
with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from abp_bridge.core.outcome import Outcome
from abp_bridge.jsonrpc.protocol import Id
from abp_bridge.session.surface import HostDisconnectedError, SurfaceUnsupportedError

OUTSIDE = "no prompt is running, and clients do not answer questions outside of one"


class Turns:
    """Told when prompts begin, are cancelled and end."""

    def __init__(self) -> None:
        self._prompts: set[Id] = set()
        self._cancelled: HostDisconnectedError | None = None
        self._asking: dict[
            anyio.CancelScope, HostDisconnectedError | None
        ] = {}  # each question, and what ended it
        self._shown = 0  # of them, that the client shows now
        self._changed: anyio.Event | None = None  # either of these two, which somebody waits for
        self._interrupted = anyio.Event()
        self._resumed = anyio.Event()
        self._resumed.set()

    def begin(self, prompt: Id) -> None:
        """A prompt runs: the person can be asked."""
        self._prompts.add(prompt)
        self.resume()

    @property
    def is_interrupted(self) -> bool:
        """Whether the client takes the turn for ended, which goes on with its next prompt."""
        return not self._resumed.is_set()

    def interrupt(self) -> None:
        """The turn ends for the client, with a question that its next prompt answers. What is asked
        meanwhile waits until then.
        """
        if not self.is_interrupted:
            self._resumed = anyio.Event()
            self._interrupted.set()

    def resume(self) -> None:
        """The client has prompted again, and the turn goes on."""
        self._cancelled = None
        if self.is_interrupted:
            self._resumed.set()
            self._interrupted = anyio.Event()

    async def wait_interrupted(self) -> None:
        """Wait until the turn ends for the client, and is to go on."""
        await self._interrupted.wait()

    async def wait_quiet(self) -> None:
        """Wait until the turn runs, and nothing is shown in it that its end would take away."""
        while self._shown or self.is_interrupted:
            await (self._wait_change() if self._shown else self._resumed.wait())

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
                await self._wait_change()

    async def _wait_change(self) -> None:
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()

    def _tell_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _dismiss(self, why: HostDisconnectedError) -> None:
        for scope, ended in self._asking.items():
            self._asking[scope] = ended or why
            scope.cancel()

    @asynccontextmanager
    async def asking(self, *, in_chat: bool = False) -> AsyncIterator[None]:
        """Ask in this block, while a turn lasts; `in_chat`, where the question itself ends the turn
        for the client.

        Raises SurfaceUnsupportedError outside of a turn, HostDisconnectedError when it ends first.
        """
        if not self._prompts:
            raise SurfaceUnsupportedError(OUTSIDE, lasting=False)
        if self._cancelled is not None:
            raise self._cancelled
        scope = anyio.CancelScope()
        self._asking[scope] = None
        try:
            with scope:
                if in_chat:
                    yield
                    return
                if self.is_interrupted:
                    await self._resumed.wait()
                self._count_shown(1)
                try:
                    yield
                    return
                finally:
                    self._count_shown(-1)
            ended = self._asking[scope]
        finally:
            del self._asking[scope]
            self._tell_change()
        assert ended is not None, "only a dismissal cancels this scope"
        raise ended

    def _count_shown(self, more: int) -> None:
        self._shown += more
        self._tell_change()
