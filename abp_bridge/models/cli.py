"""Agents by their command lines: one process a turn, in its own process group.

The prompt goes to stdin, as other users of the machine can read arguments.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence

import anyio

from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.memory_pipe import write_all
from abp_bridge.jsonrpc.subprocess import Child, child_environment, spawn
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.agent import Availability, OnChunk, StartOptions
from abp_bridge.models.cli_turn import CliDialect, CliTurn
from abp_bridge.models.local import LocalAgent
from abp_bridge.models.session import Session
from abp_bridge.models.turn import (
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    images_of,
)

VERSION_LIMIT = 10.0  # seconds for `--version`: the slowest takes two, on a cold disk more
END_LIMIT = 5.0  # seconds to be gone after its last word: it saves its session


class CliAgent(LocalAgent):
    """An agent that is run by its command line, once a turn.

    Args:
        dialect: Its command line.
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
        tap: Observes its pipes.
    """

    def __init__(self, dialect: CliDialect, folder: str, tap: Tap = unobserved_stream) -> None:
        super().__init__(dialect.title, folder)
        self._dialect = dialect
        self._tap = tap

    async def available(self) -> Availability:
        """Find its program on the PATH and ask for its version."""
        program, title = self._dialect.program, self._dialect.title
        if shutil.which(program) is None:
            return Availability(f"there is no program {program} on the PATH: install {title}")
        try:
            with anyio.fail_after(VERSION_LIMIT):
                ran = await anyio.run_process([program, "--version"], check=False)
        except TimeoutError:
            return Availability(f"{program} --version took more than {VERSION_LIMIT:g} s")
        except OSError as problem:
            return Availability(f"{program} cannot be started: {problem}")
        version = label(ran.stdout.decode(errors="replace").strip().split("\n")[0], 80)
        if ran.returncode:
            return Availability(f"{program} --version ended with the exit code {ran.returncode}")
        return Availability(version=version)

    async def start(self, options: StartOptions) -> str:
        """Begin a session; no process runs yet."""
        self._dialect.command(options.session_id, resumes=False, tools=options.cli_config.tools)
        return await super().start(options)

    async def _turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        if images_of(messages):
            words = f"{self.title} takes no images by its command line"
            raise AgentError(AgentErrorCode.NO_IMAGES, words)
        config = session.options.cli_config
        command = self._dialect.command(session.id, resumes=resumes, tools=config.tools)
        turn = CliTurn(self._dialect, session.id, resumes=resumes)
        try:
            env = {**child_environment(), **config.environment}
            async with spawn(command, env=env, cwd=session.folder) as child:
                await self._talk(child, self.format_messages(messages), turn, on_chunk)
        except OSError as problem:
            words = f"{self._dialect.program} cannot be started: {problem}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None
        response = turn.end(child.process.returncode or 0, "\n".join(child.last_words))
        session.id = turn.session
        return response

    async def _talk(self, child: Child, prompt: bytes, turn: CliTurn, on_chunk: OnChunk) -> None:
        """Send the prompt and read the output until the process ends or its time is over."""
        async with anyio.create_task_group() as tasks:
            source, sink = self._tap(child.stdout, child.stdin)
            tasks.start_soon(_prompt, sink, prompt)
            await _read(source, turn, on_chunk)
            if turn.failure is None:
                with anyio.move_on_after(END_LIMIT):
                    await child.process.wait()
                    await child.heard.wait()
            tasks.cancel_scope.cancel()


async def _read(source: ByteReader, turn: CliTurn, on_chunk: OnChunk) -> None:
    """Read its output. After the last line stop soon: programs that it started may keep stdout
    open.
    """
    with anyio.CancelScope() as reading:
        while turn.failure is None and (data := await source.receive()):
            for chunk in turn.feed(data):
                on_chunk(chunk)
            if turn.is_complete:
                reading.deadline = min(reading.deadline, anyio.current_time() + END_LIMIT)


async def _prompt(sink: ByteWriter, prompt: bytes) -> None:
    with (
        contextlib.suppress(OSError),
        contextlib.closing(sink),
    ):  # it has ended: its reader says how
        await write_all(sink, prompt)
