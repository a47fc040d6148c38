"""What all apps that are programs share: connecting, ending, and `elicitation/create`, which is the
same in MCP and ACP.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio
import anyio.lowlevel

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import AppFile, CallResult, failed
from abp_bridge.core.json_value import JsonObject, as_text, map_texts
from abp_bridge.core.ledger import Notice, NoticeKind
from abp_bridge.core.question import Question
from abp_bridge.core.redact.command import hide
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError, install_command
from abp_bridge.jsonrpc.connection import (
    ByteReader,
    ByteWriter,
    ConnectionClosedError,
    RemoteError,
    WrappedReader,
)
from abp_bridge.jsonrpc.subprocess import Child
from abp_bridge.jsonrpc.tap import Tap
from abp_bridge.session.app import END_LIMIT, AppError, AppListener, only_error
from abp_bridge.session.context import AskContext
from abp_bridge.settings.values import find_interpreter

logger = logging.getLogger(__name__)

START_LIMIT = 60.0  # seconds for the handshake: npx and uvx fetch a program first
LIST_LIMIT = 10.0  # seconds for an app to list all that it offers
MAX_KEPT = 4_000  # bytes of what it wrote first, for an error
MAX_OPEN = 100  # questions of one program at once: each holds a task and a card

CANCEL: JsonObject = {"action": "cancel"}


class Pipes(Protocol):
    """The pipes of a program, or what behaves like them."""

    @property
    def stdout(self) -> ByteReader: ...

    @property
    def stdin(self) -> ByteWriter: ...


FindPipes = Callable[[], Pipes | None]


@dataclass(slots=True)
class _Open:
    """An open question, and its `elicitationId` if it is a link."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    link: str = ""
    is_completed: bool = False  # the program says that the user was at its address


class FirstWords(WrappedReader):
    """A reader that keeps the first output of a program."""

    def __init__(self, reader: ByteReader) -> None:
        super().__init__(reader)
        self._first = b""

    @property
    def text(self) -> str:
        """The output; longer than what is shown, so that no secret is cut before it is hidden."""
        return self._first.decode(errors="replace")

    def _overhear(self, data: bytes) -> None:
        self._first += data[: MAX_KEPT - len(self._first)]


class Program:
    """One connected program.

    Args:
        origin: The command or address, as the user sees it.
        what: "app", "server" or "agent".

    Attributes:
        listener: Gets its events; None before and after the app is open.
        secrets: Parts of the command or address that must not be quoted.
        ended: Set at the end of its output.
    """

    def __init__(self, origin: str, what: str) -> None:
        self.origin = origin
        self.listener: AppListener | None = None
        self.secrets: Sequence[str] = ()
        self.ended = anyio.Event()
        self._what = what
        self._gone = anyio.Event()  # and the listener knows
        self._ending = "its connection closed"
        self._first_words: FirstWords | None = None
        self._questions: list[_Open] = []

    # --- from the beginning to the end ---

    @asynccontextmanager
    async def report_to(self, listener: AppListener) -> AsyncIterator[None]:
        """Connect `listener` while the block runs, which starts the program.

        Raises:
            AppError: It cannot be started.
        """
        self.listener = listener
        try:
            async with only_error(AppError, OSError):
                yield
        except OSError as problem:
            scheme, _, command = self.origin.partition(":")
            interpreter = find_interpreter(command)
            cure = "Check the command."
            if interpreter:
                cure = f"Put {interpreter} before it, as in '{scheme}:{interpreter} FILE'."
            raise AppError(
                f"{self.origin} cannot be started: {self.quote(problem)}. {cure}"
            ) from None
        finally:
            self.listener = None

    @asynccontextmanager
    async def greeting(
        self, find_pipes: FindPipes, protocol: str, limit: float
    ) -> AsyncIterator[anyio.CancelScope]:
        """Bound the handshake in the block, and explain its failure.

        Args:
            find_pipes: Finds the program's pipes.
            protocol: The protocol's name, for errors.
            limit: Seconds.

        Raises:
            AppError: It does not answer, or refuses.
        """
        try:
            with anyio.fail_after(limit) as clock:
                yield clock
        except TimeoutError:
            raise AppError(
                f"{self.origin} did not answer within {limit:g} s{self._wrote}. Does it speak"
                f" {protocol}?"
            ) from None
        except ConnectionClosedError:
            await self._wait_for_end(find_pipes())
            raise AppError(
                f"{self.origin} ended before it was connected ({self._ending}){self._wrote}"
            ) from None
        except RemoteError as problem:
            raise AppError(
                f"{self.origin} refused to be connected: {self.quote(problem)}"
            ) from None
        except RemoteProtocolError as problem:
            raise AppError(f"{self.origin}: {self.quote(problem)}", problem.code) from None

    def overhear(self, source: ByteReader) -> ByteReader:
        """Keep the first output of the program, for errors."""
        self._first_words = FirstWords(source)
        return self._first_words

    @property
    def _wrote(self) -> str:
        """The program's first output, to append to an error."""
        words = self._first_words.text if self._first_words is not None else ""
        said = label(self.quote(words), 200)
        return f"; it wrote {said!r}" if said else ""

    def quote(self, words: object) -> str:
        """Return `words` without secrets."""
        return hide(str(words), self.secrets)

    def clean(self, result: CallResult) -> CallResult:
        """Hide secrets in a failure."""
        failure = result.failure
        if failure is None or not self.secrets:
            return result
        message, details = self.quote(failure.message), map_texts(failure.details, self.quote)
        return replace(result, failure=replace(failure, message=message, details=details))

    async def watch(self, find_pipes: FindPipes) -> None:
        """Wait for the end of the program, and tell the listener how it ended."""
        await self.ended.wait()
        pipes = find_pipes()
        await self._wait_for_end(pipes)
        process = "'s process" if isinstance(pipes, Child) else ""
        self.disconnect(f"the {self._what}{process} ended ({self._ending})")

    def disconnect(self, reason: str) -> None:
        """Tell the listener that the program is disconnected."""
        if self.listener is not None:
            self.listener.on_disconnect(reason)
        self._gone.set()

    async def _wait_for_end(self, pipes: Pipes | None) -> None:
        if isinstance(pipes, Child):
            with anyio.move_on_after(END_LIMIT):
                await pipes.process.wait()
                await pipes.heard.wait()
        self._ending = self.quote(getattr(pipes, "ending", self._ending))

    async def end_call(self) -> CallResult:
        """Return the result of a call that the program's end interrupted."""
        with anyio.move_on_after(2 * END_LIMIT):
            await self._gone.wait()  # who hears of the end first finds the listener told
        words = f"{self.origin} ended during the call ({self._ending})"
        return failed("DISCONNECTED", words, retryable=True)

    # --- what it tells ---

    def tell(self, notice: Notice) -> None:
        if self.listener is not None:
            self.listener.on_notice(notice)

    def tell_error(self, code: str, words: str) -> None:
        data = {"code": code, "message": words}
        self.tell(Notice(NoticeKind.ERROR, "notifications/error", data))

    def on_malformed(self, reason: str) -> None:
        """Report an invalid line of the program."""
        words = f"a line of the {self._what}'s was dropped: {reason}"
        self.tell_error("TRANSPORT_ERROR", words)

    # --- what it asks ---

    async def elicit(
        self, params: JsonObject, calls: Sequence[str], *, destructive: bool
    ) -> JsonObject:
        """Ask the user an `elicitation/create`, and return its result, never an error.

        Args:
            params: The request's parameters.
            calls: The host's calls that it may belong to.
            destructive: Whether to presume a destructive effect.
        """
        from abp_bridge.protocols.mcp.server_elicitation import decode_question, encode_answer

        def decode(id: str) -> Question:
            return decode_question(params, id=id, origin=self.origin, destructive=destructive)

        link = as_text(params.get("elicitationId")) if params.get("mode") == "url" else ""
        return await self.put_question(decode, encode_answer, CANCEL, calls=calls, link=link)

    async def put_question(
        self,
        decode: Callable[[str], Question],
        encode: Callable[[Question, Answer], JsonObject],
        nobody: JsonObject,
        *,
        calls: Sequence[str],
        link: str = "",
    ) -> JsonObject:
        """Ask the user, and return the program's result.

        Args:
            decode: Makes the question from an id, or raises RemoteProtocolError.
            encode: Makes the result from the answer.
            nobody: The result without an answer: programs take an error for consent.
            calls: The host's calls that it may belong to.
            link: The `elicitationId` of a URL question.
        """
        if self.listener is None:
            self._refuse("the session ended")
            return nobody
        if len(self._questions) >= MAX_OPEN:
            self._refuse(f"{MAX_OPEN} of its questions are open")
            return nobody
        asked = _Open(link=link)
        self._questions.append(asked)
        result = nobody
        try:
            question = decode(self.listener.new_question_id())
            with asked.scope:
                answer = await self.listener.elicit(question, AskContext(calls=tuple(calls)))
                result = encode(question, answer)
                self._note(answer)
        except RemoteProtocolError as problem:
            self._refuse(str(problem))
        except Exception:  # whatever it is: who asks gets its cancel all the same
            logger.exception("a question of %s is cancelled: asking it failed", self.origin)
        finally:
            self._questions.remove(asked)
        if asked.is_completed:
            from abp_bridge.protocols.mcp.server_elicitation import encode_completed

            return encode_completed()
        return result

    def withdraw(self) -> None:
        """Cancel its questions."""
        for question in self._questions:
            question.scope.cancel()

    def complete(self, link: str) -> None:
        """The program says that the user has been at the address with the id `link`."""
        for question in self._questions:
            if question.link == link:
                question.is_completed = True
                question.scope.cancel()

    def _refuse(self, problem: str) -> None:
        logger.warning("a question of %s is cancelled: %s", self.origin, problem)
        self._tell_nobody(problem)

    def _note(self, answer: Answer) -> None:
        """Report that no user answered, which the caller could not tell from a user's cancel."""
        if answer.unanswered:
            self._tell_nobody(answer.reason or answer.outcome.value)

    def _tell_nobody(self, reason: str) -> None:
        words = (
            f"this {self._what} asked its user something, nobody answered, and was told 'cancel'"
        )
        self.tell_error("ELICITATION_FAILED", f"{words}: {label(reason, 1_000)}")


class ProgramApp:
    """The base of apps on a program's pipes (`App`).

    Args:
        origin: The command or address, as the user sees it.
        what: "app", "server" or "agent".
        tap: Observes the pipes.
    """

    renders = False
    allowed_hosts: Sequence[str] = ()  # private ones, from which its results may be fetched

    def __init__(self, origin: str, what: str, tap: Tap) -> None:
        self.origin = origin
        self._tap = tap
        self._program = Program(origin, what)
        self._tasks: anyio.abc.TaskGroup | None = None

    async def wait_idle(self) -> None:
        """Let the loop read what the process has written (`App.wait_idle`)."""
        await anyio.lowlevel.checkpoint()

    async def download(self, url: str, auth: JsonObject) -> AppFile:
        """Fetch over HTTP, from public hosts and those that the user allowed (`App.download`)."""
        try:
            from abp_bridge.apps.browser.fetch import download
        except ModuleNotFoundError:
            words = f"Fetching files needs what comes with: {install_command('browser')}"
            raise AppError(words, "NOT_SUPPORTED") from None
        return await download(url, auth, self.allowed_hosts)

    def hide_secrets(self, secrets: Sequence[str]) -> None:
        """Never quote these parts of the command or address."""
        self._program.secrets = secrets

    async def render_pdf(self) -> bytes:
        """Raise AppError: a program has no page."""
        raise AppError(f"{self.origin} has no page to render", "NOT_SUPPORTED")

    def on_malformed(self, reason: str, line: bytes = b"") -> None:
        self._program.on_malformed(reason)

    def on_end(self) -> None:
        self._program.ended.set()
