"""Ask the user at a terminal: with arrow keys if it can move its cursor, otherwise by lines.

Keys pressed before a question appears are discarded, and a default needs Enter.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from dataclasses import replace

import anyio
import anyio.to_thread

from abp_bridge.core import file
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonValue, to_text
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.menu import walk
from abp_bridge.core.options import (
    ACCEPT,
    DECLINE,
    LEAVE_OUT,
    YES_NO,
    field_limits,
    is_default,
    mark_default,
    yes_or_no,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Missing, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import Surface
from abp_bridge.errors import AbpBridgeError
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.terminal import rendering
from abp_bridge.surfaces.terminal.device import Device, StdioTerminal, TtyDevice, alone_at
from abp_bridge.surfaces.terminal.prompts import (
    Check,
    InteractivePrompts,
    LinePrompts,
    PromptExit,
)

MANY_INTERRUPTS = 2  # Ctrl-C without an answer between them, after which a command ends
COLUMN = SurfaceVariant(Surface.TERMINAL)

_NUMBERED = (FieldType.BOOLEAN, FieldType.CHOICE)
_ACCEPT, _DECLINE, _LEAVE_OUT = (Choice(None, "", words) for words in (ACCEPT, DECLINE, LEAVE_OUT))


class Terminal:
    """One terminal that asks one question after the other (`InputProvider`).

    Without a `device` it uses stdin and stdout.
    """

    def __init__(self, device: str | None = None) -> None:
        self.interrupts = 0  # Ctrl-C since the last answer
        self._device: Device = StdioTerminal() if device is None else TtyDevice(device)
        self._style = rendering.style_for(self._device.moves, lambda: self._device.columns)
        self._prompts = (
            InteractivePrompts(self._device, self._on_interrupt, self._on_hangup)
            if self._device.moves
            else LinePrompts(self._device)
        )
        self._turn = anyio.Lock()
        self._asking: anyio.CancelScope | None = None

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [COLUMN]

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant = COLUMN,
        problem: str = "",
    ) -> SurfaceResponse:
        """Ask until the user answers, declines or cancels; cancelling this withdraws the question.

        Returns:
            The answer as given: keys of choices, numbers as typed.

        Raises:
            SurfaceUnsupportedError: It is a model's question, or the terminal cannot be used.
        """
        if question.kind is Kind.SAMPLING:
            raise SurfaceUnsupportedError("a terminal asks the person, not a model", lasting=True)
        async with self._turn:
            self._device.open()
            async with alone_at(self._device.fd):
                return await self._fill_until_valid(question, problem)

    async def _fill_until_valid(self, question: Question, problem: str) -> SurfaceResponse:
        self._print(rendering.heading(question.in_full(), self._style))
        if problem:
            self._write_paragraph(problem, "bad")
        try:
            with anyio.CancelScope() as self._asking:
                content = await self._fill(question)
                while problems := validate_answer(question, content)[1]:
                    self._write_paragraph("; ".join(problems), "bad")
                    content = await self._fill(question)
                self.interrupts = 0
                return SurfaceResponse(Outcome.ACCEPTED, content)
            return self._report_end(Outcome.CANCELLED)
        except PromptExit as ended:
            return self._report_end(ended.outcome)
        except anyio.get_cancelled_exc_class():
            self._print(self._style("dim", "  (withdrawn)"))
            raise
        finally:
            self._asking = None

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return self._device.is_open

    def say(self, words: str) -> None:
        """Print lines above the open prompt, if there is one."""
        self._prompts.above(lambda: self._print(words))

    def show(self, words: str) -> bool:
        """Open the terminal and print a line; False if it cannot be opened."""
        try:
            self._device.open()
        except SurfaceUnsupportedError:
            return False
        self.say(f"· {words}")
        return True

    def interrupt(self) -> bool:
        """Cancel the open question at SIGINT; False if there is none."""
        if self._asking is None:
            return False
        self._on_interrupt()
        self._asking.cancel()
        return True

    def _on_interrupt(self) -> None:
        self.interrupts += 1

    def _on_hangup(self) -> None:
        """Note that the terminal is gone; raise SurfaceUnsupportedError if it was named."""
        self._device.close_lost()
        self.interrupts += MANY_INTERRUPTS

    def _report_end(self, outcome: Outcome) -> SurfaceResponse:
        if outcome is Outcome.DECLINED:
            self.interrupts = 0
        self._print(self._style("warn", f"  {outcome.value}"))
        return SurfaceResponse(outcome)

    async def _fill(self, question: Question) -> dict[str, JsonValue]:
        if not question.fields:
            if await self._prompts.pick("", [_ACCEPT, _DECLINE], None) == 1:
                raise PromptExit(Outcome.DECLINED)
            return {}
        walked = walk(question)
        asked = next(walked)
        while True:
            if asked.note != question.note:  # which entry it is, of which list
                about = asked.message.removeprefix(question.message).strip()
                for words in filter(None, (about, asked.note.removeprefix(question.note).strip())):
                    self._write_paragraph(words, "strong")
            try:
                asked = walked.send(
                    await self._fill_fields(asked, counted=asked.note == question.note)
                )
            except StopIteration as end:
                content: dict[str, JsonValue] = end.value
                return content

    async def _fill_fields(self, question: Question, *, counted: bool) -> dict[str, JsonValue]:
        """Ask for each field; show its number if `counted`."""
        content: dict[str, JsonValue] = {}
        for number, field in enumerate(question.fields, 1):
            if counted and len(question.fields) > 1:
                self._write_paragraph(f"{number} of {len(question.fields)}", "dim")
            title = rendering.unsaid_title(question, field)
            if title and field.type in _NUMBERED and not self._device.moves:
                self._write_paragraph(title, "strong")  # the prompt asks for a number only
            for words in filter(None, (field.description, field_limits(field))):
                self._write_paragraph(words, "dim")
            given = await self._fill_one(question, field)
            read = MISSING if given is MISSING else _validate(question, field, given)[0]
            if given is not MISSING and read is not MISSING:
                content[field.name] = given
            self._print(rendering.answer_line(question, field, read, self._style))
        return content

    async def _fill_one(self, question: Question, field: Field) -> JsonValue | Missing:
        """Return the value as given; MISSING if it was left out."""

        def check(given: JsonValue) -> str:
            return _validate(question, field, given)[1]

        given = await self._prompt(question, field, check)
        while given is not MISSING and (problem := check(given)):
            self._write_paragraph(problem, "bad")
            given = await self._prompt(question, field, check)
        return given

    async def _prompt(self, question: Question, field: Field, check: Check) -> JsonValue | Missing:
        title = rendering.field_title(question, field)
        default = _default_text(field)
        hint = "" if field.required or default else "Enter alone leaves it out"
        if field.type is FieldType.BOOLEAN:
            return await self._pick(title, field, _yes_or_no(question))
        if field.type is FieldType.CHOICE:
            return await self._pick(title, field, field.choices)
        if field.type is FieldType.CHOICES:
            keys = [choice.key for choice in field.choices]
            picked = await self._prompts.mark(
                title,
                field.choices,
                {index for index, each in enumerate(field.choices) if is_default(field, each)},
                lambda indexes: check([keys[index] for index in indexes]),
            )
            return [keys[index] for index in picked]
        if field.type is FieldType.FILE:
            return await self._load(title, field, hint)
        return await self._prompts.line(title, default, check, hint=hint, secret=field.secret)

    async def _load(self, title: str, field: Field, hint: str) -> JsonValue | Missing:
        typed = problem = ""
        while True:
            typed = await self._prompts.path(title, typed, field.accept, hint=hint, problem=problem)
            if not typed.strip() and not field.required:
                return MISSING
            try:
                return await load(typed, field.accept)
            except FileInputError as why:
                problem = str(why)

    async def _pick(
        self, title: str, field: Field, choices: Sequence[Choice]
    ) -> JsonValue | Missing:
        options = list(choices)
        start = next((index for index, each in enumerate(options) if is_default(field, each)), None)
        if start is not None:
            options[start] = replace(options[start], label=mark_default(field, options[start]))
        options += [_DECLINE] if field.required else [_LEAVE_OUT, _DECLINE]
        if start is None and field.type is FieldType.BOOLEAN and not field.required:
            start = options.index(_LEAVE_OUT)  # no yes is proposed that nobody gave
        picked = options[await self._prompts.pick(title, options, start)]
        if picked is _DECLINE:
            raise PromptExit(Outcome.DECLINED)
        if picked is _LEAVE_OUT:
            return MISSING
        return picked.value if field.type is FieldType.BOOLEAN else picked.key

    def _write_paragraph(self, words: str, style: str) -> None:
        self._print(rendering.paragraph(words, style, self._style))

    def _print(self, words: str) -> None:
        self._device.print(words + "\n")


def _yes_or_no(question: Question) -> Sequence[Choice]:
    """Return the safe answer first if the other is destructive or gives something away."""
    if question.kind is Kind.CONFIRM or question.consents:
        return yes_or_no(question)
    return YES_NO[::-1] if question.destructive else YES_NO


def _validate(
    question: Question, field: Field, given: JsonValue
) -> tuple[JsonValue | Missing, str]:
    """Return the value of one field (MISSING for none) and its problems."""
    alone = replace(question, fields=(field,))
    answer, problems = validate_answer(alone, {field.name: given})
    words = "; ".join(problem.removeprefix(f"{field.name} ") for problem in problems)
    return answer.get(field.name, MISSING), words


def _default_text(field: Field) -> str:
    """Return the default as typed text; empty for a secret."""
    if field.default is MISSING or field.default is None or field.secret:
        return ""
    return to_text(field.default)


READ_LIMIT = 10.0  # seconds: a network drive may never answer


class FileInputError(AbpBridgeError):
    """The named file cannot be used; the message says why."""


async def load(typed: str, accept: tuple[str, ...]) -> dict[str, str]:
    """Return the file `typed` as an app gets it (`file.SCHEMA`).

    Args:
        typed: Its name, as typed or dropped into the terminal.
        accept: The permitted media types; empty for any.

    Raises:
        FileInputError: It cannot be used.
    """
    with anyio.move_on_after(READ_LIMIT):
        return file.encode(
            await anyio.to_thread.run_sync(_read_file, typed, accept, abandon_on_cancel=True)
        )
    raise FileInputError(f"it could not be read within {READ_LIMIT:g} s")


def _read_file(typed: str, accept: tuple[str, ...]) -> file.File:
    path = _path(typed)
    name = label(os.path.basename(path) or path or "nothing")
    try:
        with open(path, "rb", opener=_open_nonblocking) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise FileInputError(f"{name} is no file")
            mime_type = file.guess_type(path)
            if not file.admits(accept, mime_type):
                raise FileInputError(f"{name} is {mime_type}; it must be {' or '.join(accept)}")
            content = opened.read(file.MAX_SIZE + 1)
    except IsADirectoryError:
        raise FileInputError(f"{name} is a folder; give a file in it") from None
    except FileNotFoundError:
        raise FileInputError(
            f"there is no file {name} there" if path.strip() else "give the name of a file"
        ) from None
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise FileInputError(f"{name} cannot be read: {why}") from None
    if len(content) > file.MAX_SIZE:
        raise FileInputError(f"{name} is too large: at most {file.MAX_SIZE} bytes can be given")
    return file.File(content, mime_type, os.path.basename(path))


def _open_nonblocking(path: str, flags: int) -> int:
    """Open without waiting for a pipe's writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _path(typed: str) -> str:
    """Return a path as typed, or unquoted: a terminal quotes a file that is dropped there."""
    path = os.path.expanduser(typed.strip())
    if path and not os.path.lexists(path):
        try:
            words = shlex.split(typed)
        except ValueError:
            return path
        if len(words) == 1 and os.path.lexists(unquoted := os.path.expanduser(words[0])):
            return unquoted
    return path
