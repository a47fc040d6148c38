"""The person at a terminal: a `Question` shown and asked, by arrow keys where the terminal can,
line by line where it cannot.

It never answers by itself: keys pressed before a question was on the screen are thrown away, and a
default counts only when the person presses Enter on it. `device` is where; `interactive` and
`plain` prompt; `rendering` makes what stays on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.json_value import Json, to_text
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.question import (
    MISSING,
    Choice,
    Field,
    FieldType,
    Kind,
    Outcome,
    Question,
    is_default,
    validate_answer,
)
from abp_bridge.core.schema import json_equal
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.terminal.device import Device, StdioTerminal, TtyDevice
from abp_bridge.surfaces.terminal.files import FileInputError, load
from abp_bridge.surfaces.terminal.interactive import InteractivePrompts
from abp_bridge.surfaces.terminal.plain import LinePrompts
from abp_bridge.surfaces.terminal.prompts import Check, PromptExit, Prompts
from abp_bridge.surfaces.terminal.rendering import (
    answer_line,
    heading,
    paragraph,
    style_for,
    titled,
)

MANY_INTERRUPTS = 2  # Ctrl-C without an answer between them, after which a command ends
COLUMN = SurfaceVariant(Surface.TERMINAL)

_DECLINE = "Decline to answer"
_LEAVE_OUT = "Leave this out"


class Terminal:
    """One person at one terminal, asked one question after the other. Implements `InputProvider`.

    Without a `device` it is this process's own stdin and stdout. A `device` is opened with the
    first question.
    """

    def __init__(self, device: str | None = None) -> None:
        self.interrupts = 0  # Ctrl-C since the last answer
        self._device: Device = StdioTerminal() if device is None else TtyDevice(device)
        self._style = style_for(self._device.moves)
        self._prompts: Prompts = (
            InteractivePrompts(self._device, self._on_interrupt, self._on_hangup)
            if self._device.moves
            else LinePrompts(self._device)
        )
        self._turn = anyio.Lock()
        self._asking: anyio.CancelScope | None = None

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The terminal, whatever is open (`InputProvider.variants`)."""
        return [COLUMN]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant = COLUMN,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask until it is answered, declined or cancelled.

        Cancelling takes it down.

        Returns:
            The answer; its content is as given: keys of choices, numbers as typed.

        Raises:
            SurfaceUnsupportedError: It is a model's question, or the terminal cannot be used.
        """
        if question.kind is Kind.SAMPLING:
            raise SurfaceUnsupportedError("a terminal asks the person, not a model", lasting=True)
        async with self._turn:
            self._device.open()
            self._write(heading(question, self._style, self._device.columns))
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
                return self._ended(Outcome.CANCELLED)
            except PromptExit as ended:
                return self._ended(ended.outcome)
            except anyio.get_cancelled_exc_class():
                self._write(self._style("dim", "  (withdrawn)"))
                raise
            finally:
                self._asking = None

    @property
    def is_open(self) -> bool:
        """Whether something can be said there."""
        return self._device.is_open

    def say(self, words: str) -> None:
        """Print lines now: above the open prompt, if there is one."""
        self._prompts.above(lambda: self._write(words))

    def interrupt(self) -> bool:
        """SIGINT came: it cancels the open question, as Ctrl-C in a prompt does.

        False when nothing is asked.
        """
        if self._asking is None:
            return False
        self._on_interrupt()
        self._asking.cancel()
        return True

    def _on_interrupt(self) -> None:
        self.interrupts += 1

    def _on_hangup(self) -> None:
        """The terminal went while it was asked on.

        Raises SurfaceUnsupportedError where the question can go elsewhere.
        """
        self._device.lost()
        self.interrupts += MANY_INTERRUPTS

    def _ended(self, outcome: Outcome) -> SurfaceResponse:
        if outcome is Outcome.DECLINED:
            self.interrupts = 0
        self._write(self._style("warn", f"  {outcome.value}"))
        return SurfaceResponse(outcome)

    async def _fill(self, question: Question) -> dict[str, Json]:
        if not question.fields:
            options = [Choice(0, "", "Accept"), Choice(1, "", _DECLINE)]
            if await self._prompts.pick("", options, None) == 1:
                raise PromptExit(Outcome.DECLINED)
            return {}
        content: dict[str, Json] = {}
        for field in question.fields:
            if field.description:
                self._write_paragraph(field.description, "dim")
            value, kept = await self._fill_one(question, field)
            if kept is not MISSING:
                content[field.name] = value
            self._write(answer_line(question, field, kept, self._style, self._device.columns))
        return content

    async def _fill_one(self, question: Question, field: Field) -> tuple[Json, Json]:
        """The value as given, and as it was read; the latter is MISSING when the field was left
        out.
        """
        alone = replace(question, fields=(field,))

        def check(given: Json) -> str:
            return "; ".join(
                problem.removeprefix(f"{field.name} ")
                for problem in validate_answer(alone, {field.name: given})[1]
            )

        while True:
            given = await self._prompt(question, field, check)
            if given is MISSING:
                return MISSING, MISSING
            problem = check(given)
            if not problem:
                return given, validate_answer(alone, {field.name: given})[0].get(
                    field.name, MISSING
                )
            self._write_paragraph(problem, "bad")

    async def _prompt(self, question: Question, field: Field, check: Check) -> Json:
        if field.type is FieldType.BOOLEAN:
            # What cannot be undone, or gives something away, has its safe answer first.
            yes_no = (_NO, _YES) if question.destructive or question.consents else (_YES, _NO)
            return await self._pick(question, field, yes_no)
        if field.type is FieldType.CHOICE:
            return await self._pick(question, field, field.choices)
        if field.type is FieldType.CHOICES:
            chosen = field.default if isinstance(field.default, list) else []
            marked = {
                index
                for index, choice in enumerate(field.choices)
                if any(json_equal(choice.value, each) for each in chosen)
            }
            picked = await self._prompts.mark(
                titled(question, field),
                field.choices,
                marked,
                lambda indexes: check([field.choices[index].key for index in indexes]),
            )
            return [field.choices[index].key for index in picked]
        hint = "" if field.required else "Enter alone leaves it out"
        if field.type is FieldType.FILE:
            return await self._load(titled(question, field), field, hint)
        return await self._prompts.line(
            titled(question, field), _typed(field), check, hint=hint, secret=field.secret
        )

    async def _load(self, title: str, field: Field, hint: str) -> Json:
        """A file of the person's, by the name they give it."""
        typed = problem = ""
        while True:
            typed = await self._prompts.path(title, typed, field.accept, hint=hint, problem=problem)
            if not typed.strip() and not field.required:
                return MISSING
            try:
                return await load(typed, field.accept)
            except FileInputError as why:
                problem = str(why)

    async def _pick(self, question: Question, field: Field, choices: Sequence[Choice]) -> Json:
        start = next(
            (index for index, choice in enumerate(choices) if is_default(field, choice)),
            None,
        )
        options = [
            replace(choice, label=f"{choice.label} (default)") if index == start else choice
            for index, choice in enumerate(choices)
        ]
        extra = [_DECLINE] if field.required else [_LEAVE_OUT, _DECLINE]
        picked = await self._prompts.pick(
            titled(question, field),
            [*options, *(Choice(None, "", words) for words in extra)],
            start,
        )
        if picked < len(choices):
            return choices[picked].value if field.type is FieldType.BOOLEAN else choices[picked].key
        if extra[picked - len(choices)] is _DECLINE:
            raise PromptExit(Outcome.DECLINED)
        return MISSING

    def _write_paragraph(self, words: str, style: str) -> None:
        self._write(paragraph(words, style, self._style, self._device.columns))

    def _write(self, words: str) -> None:
        self._device.write(words + "\n")


_YES, _NO = Choice(True, "true", "Yes"), Choice(False, "false", "No")


def _typed(field: Field) -> str:
    """The default as a person would type it. A secret is never shown in advance."""
    if field.default is MISSING or field.default is None or field.secret:
        return ""
    return to_text(field.default)
