"""An editor's session behind the proxy: it can be asked while a prompt of its own runs, and what is asked ends with the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from abp_bridge.core.event import Observer, unobserved
from abp_bridge.core.matrix import Column, Surface
from abp_bridge.core.notice import Notice
from abp_bridge.core.question import Outcome, Question
from abp_bridge.hosts.acp.surfaces import Surfaces
from abp_bridge.hosts.contract import Host, Reply, SurfaceRefused
from abp_bridge.wire.jsonrpc import Id

Json = Any


class EditorSession:
    """One session. `prompted`, `cancelled` and `answered` tell it what passes between the editor and the agent."""

    def __init__(self, surfaces: Surfaces) -> None:
        self._surfaces = surfaces
        self._prompts: set[Id] = set()
        self._cancelled = False
        self._asking: set[anyio.CancelScope] = set()
        self._quiet = anyio.Event()

    @property
    def id(self) -> str:
        """Empty until the agent has said it."""
        return self._surfaces.session

    @id.setter
    def id(self, known: str) -> None:
        self._surfaces.session = known

    # --- what passes by ---

    def prompted(self, prompt: Id) -> None:
        self._prompts.add(prompt)
        self._cancelled = False

    def cancelled(self) -> None:
        """The editor cancelled the turn: what is asked is taken down, and nothing more is asked in it."""
        self._cancelled = True
        self._dismiss()

    async def answered(self, prompt: Id) -> None:
        """The agent ended a prompt. Returns when nothing is asked any more, if it was the last: its response must come after."""
        self._prompts.discard(prompt)
        if not self._prompts:
            self._dismiss()
            while self._asking:
                self._quiet = anyio.Event()
                await self._quiet.wait()

    def _dismiss(self) -> None:
        for scope in self._asking:
            scope.cancel()

    # --- asking ---

    @property
    def name(self) -> str:
        return self._surfaces.name

    def columns(self, call: str | None = None) -> Sequence[Column]:
        return self._surfaces.columns

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        """See `Host.ask`. Each question is on a card of its own: which tool call it belongs to, only the agent knows."""
        if not self._prompts:
            raise SurfaceRefused("no prompt is running, and clients do not answer questions outside of one", lasting=False)
        if self._cancelled:
            return Reply(Outcome.CANCELLED)
        scope = anyio.CancelScope()
        self._asking.add(scope)
        reply = Reply(Outcome.CANCELLED)
        try:
            with scope:
                reply = await self._surfaces.ask(question, column, problem, observe)
        finally:
            self._asking.discard(scope)
            self._quiet.set()
        return reply


class Between:
    """Asks the editor and tells the agent: the host of the apps' bridge, and, without an agent to tell, of the agent's own questions."""

    def __init__(self, editor: EditorSession, agent: Host | None = None) -> None:
        self._editor = editor
        self._agent = agent

    @property
    def name(self) -> str:
        return self._editor.name if self._agent is None else f"{self._editor.name}, with the agent {self._agent.name}"

    def columns(self, call: str | None = None) -> Sequence[Column]:
        """The editor's surfaces for its person; the agent's model, where it lends it."""
        models = [] if self._agent is None else [column for column in self._agent.columns(call) if column.surface is Surface.MCP_SAMPLING]
        return [*self._editor.columns(), *models]

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        if column.surface is Surface.MCP_SAMPLING and self._agent is not None:
            return await self._agent.ask(question, column, problem, observe)
        return await self._editor.ask(question, column, problem, observe)

    def told(self, app: str, origin: str, notice: Notice) -> None:
        if self._agent is not None:
            self._agent.told(app, origin, notice)

    def capabilities_changed(self) -> None:
        if self._agent is not None:
            self._agent.capabilities_changed()

    def resources_changed(self) -> None:
        if self._agent is not None:
            self._agent.resources_changed()
