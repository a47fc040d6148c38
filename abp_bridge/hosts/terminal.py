"""The person at this terminal: a `Question` shown and asked, by arrow keys where the terminal can, line by line where it cannot.

It never answers by itself: keys pressed before a question was on the screen are thrown away, and a default counts only when the person presses
Enter on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio

from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Outcome, Question, review
from abp_bridge.core.schema import Json, same
from abp_bridge.core.text import label
from abp_bridge.hosts.contract import Reply, SurfaceRefused

if TYPE_CHECKING:
    import questionary
    from prompt_toolkit.key_binding import KeyPressEvent
    from questionary.prompts.common import InquirerControl

SEARCH_FROM = 11
WIDEST = 100
MANY_INTERRUPTS = 2

_STYLES = {"who": "1;36", "strong": "1", "dim": "2", "good": "32", "bad": "31", "warn": "33", "bar": "36"}
_DECLINE = "Decline to answer"
_LEAVE_OUT = "Leave this out"

Check = Callable[[Json], str]  # what is wrong with an answer, in words; empty when nothing is


@dataclass(frozen=True, slots=True)
class Ink:
    """Styles for a stream: modest colour on a terminal, none for a pipe, a dumb terminal, or a person who set NO_COLOR."""

    colour: bool

    def __call__(self, style: str, words: str) -> str:
        return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if self.colour and words else words


def can_move() -> bool:
    """Whether stdout is a terminal on which the cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def ink() -> Ink:
    """The ink for stdout."""
    return Ink(can_move() and not os.environ.get("NO_COLOR"))


def width() -> int:
    """The terminal's columns."""
    return shutil.get_terminal_size().columns


def wrapped(words: str, indent: str = "  ", hanging: str | None = None) -> list[str]:
    """`words` as lines that fit this terminal and can be read; nothing is cut."""
    lines: list[str] = []
    for line in words.splitlines() or [""]:
        after = indent if hanging is None else hanging
        lines += textwrap.wrap(line, max(20, min(WIDEST, width())), initial_indent=indent, subsequent_indent=after, break_on_hyphens=False) or [""]
    return lines


def heading(question: Question, paint: Ink) -> str:
    """Who asks, then what, as both stay on the screen."""
    whom = " asks a model" if question.kind is Kind.SAMPLING else " asks"
    lines = ["", paint("who", f"● {question.origin}") + whom]
    lines += [paint("strong", line) for line in wrapped(question.message)]
    if question.destructive:
        lines += [paint("warn", line) for line in wrapped("This cannot be undone, the app says.")]
    return "\n".join(lines)


def shown(field: Field, value: Json) -> str:
    """A reviewed value in the words it was chosen by; a secret as dots."""
    if field.secret:
        return "••••••"
    if field.type is FieldType.BOOLEAN:
        return "yes" if value else "no"
    if field.type is FieldType.CHOICE:
        return _labelled(field, value)
    if field.type is FieldType.CHOICES and isinstance(value, list):
        return ", ".join(_labelled(field, each) for each in value) or "none of them"
    return label(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 1_000) or "(nothing)"


def answered(question: Question, field: Field, value: Json, paint: Ink) -> str:
    """One filled-in field, as it stays on the screen. `MISSING` was left out."""
    words = "(left out)" if value is MISSING else shown(field, value)
    head = f"  {titled(question, field)}: "
    name, *rest = wrapped(head.lstrip() + words, hanging="    ")
    return "\n".join([paint("dim", head) + name.removeprefix(head), *rest] if name.startswith(head) else [name, *rest])


def titled(question: Question, field: Field) -> str:
    """What a field is called; the only field of a question needs no name of its own."""
    return field.title or (label(field.name) if len(question.fields) > 1 else "Answer")


def _labelled(field: Field, value: Json) -> str:
    return next((choice.label for choice in field.choices if same(choice.value, value)), label(value))


class Terminal:
    """One person at one terminal, asked one question after the other."""

    def __init__(self) -> None:
        self.interrupts = 0  # Ctrl-C since the last answer
        self._ink = ink()
        self._prompts: _Prompts = _Keys(self._interrupted) if can_move() else _Lines()
        self._turn = anyio.Lock()
        self._asking: anyio.CancelScope | None = None

    async def ask(self, question: Question) -> Reply:
        """Ask until it is answered, declined or cancelled. The content is as given: keys of choices, numbers as typed.

        Cancelling takes it down. Raises SurfaceRefused for what is no form.
        """
        if question.kind in (Kind.RESOURCE, Kind.SAMPLING):
            raise SurfaceRefused("this terminal asks the person for forms, not for files, nor a model", lasting=True)
        async with self._turn:
            self._write(heading(question, self._ink))
            try:
                with anyio.CancelScope() as self._asking:
                    content = await self._fill(question)
                    while problems := review(question, content)[1]:
                        self._write(self._ink("bad", f"  {'; '.join(problems)}"))
                        content = await self._fill(question)
                    self.interrupts = 0
                    return Reply(Outcome.ACCEPTED, content)
                return self._ended(Outcome.CANCELLED)
            except _Ended as ended:
                return self._ended(ended.outcome)
            except anyio.get_cancelled_exc_class():
                self._write(self._ink("dim", "  (withdrawn)"))
                raise
            finally:
                self._asking = None

    def say(self, words: str) -> None:
        """Print lines now: above the open prompt, if there is one."""
        self._prompts.above(lambda: self._write(words))

    def interrupt(self) -> bool:
        """SIGINT came: it cancels the open question, as Ctrl-C in a prompt does. False when nothing is asked."""
        if self._asking is None:
            return False
        self._interrupted()
        self._asking.cancel()
        return True

    def _interrupted(self) -> None:
        self.interrupts += 1

    def _ended(self, outcome: Outcome) -> Reply:
        if outcome is Outcome.DECLINED:
            self.interrupts = 0
        self._write(self._ink("warn", f"  {outcome.value}"))
        return Reply(outcome)

    async def _fill(self, question: Question) -> dict[str, Json]:
        if not question.fields:
            if await self._prompts.pick("", [Choice(0, "", "Accept"), Choice(1, "", _DECLINE)], None) == 1:
                raise _Ended(Outcome.DECLINED)
            return {}
        content: dict[str, Json] = {}
        for field in question.fields:
            if field.description:
                self._write("\n".join(self._ink("dim", line) for line in wrapped(field.description)))
            value, kept = await self._fill_one(question, field)
            if kept is not MISSING:
                content[field.name] = value
            self._write(answered(question, field, kept, self._ink))
        return content

    async def _fill_one(self, question: Question, field: Field) -> tuple[Json, Json]:
        """The value as given, and as it was read; the latter is MISSING when the field was left out."""
        alone = replace(question, fields=(field,))

        def check(given: Json) -> str:
            return "; ".join(problem.removeprefix(f"{field.name} ") for problem in review(alone, {field.name: given})[1])

        while True:
            given = await self._prompt(question, field, check)
            if given is MISSING:
                return MISSING, MISSING
            problem = check(given)
            if not problem:
                return given, review(alone, {field.name: given})[0].get(field.name, MISSING)
            self._write(self._ink("bad", f"  {problem}"))

    async def _prompt(self, question: Question, field: Field, check: Check) -> Json:
        if field.type is FieldType.BOOLEAN:
            # What cannot be undone has its safe answer first.
            yes_no = (_NO, _YES) if question.destructive else (_YES, _NO)
            return await self._pick(question, field, yes_no)
        if field.type is FieldType.CHOICE:
            return await self._pick(question, field, field.choices)
        if field.type is FieldType.CHOICES:
            chosen = field.default if isinstance(field.default, list) else []
            marked = {index for index, choice in enumerate(field.choices) if any(same(choice.value, each) for each in chosen)}
            picked = await self._prompts.mark(
                titled(question, field), field.choices, marked, lambda indexes: check([field.choices[index].key for index in indexes])
            )
            return [field.choices[index].key for index in picked]
        hint = "" if field.required else "Enter alone leaves it out"
        return await self._prompts.line(titled(question, field), _typed(field), check, hint=hint, secret=field.secret)

    async def _pick(self, question: Question, field: Field, choices: Sequence[Choice]) -> Json:
        start = next((index for index, choice in enumerate(choices) if same(choice.value, field.default)), None)
        options = [replace(choice, label=f"{choice.label} (default)") if index == start else choice for index, choice in enumerate(choices)]
        extra = [_DECLINE] if field.required else [_LEAVE_OUT, _DECLINE]
        picked = await self._prompts.pick(titled(question, field), [*options, *(Choice(None, "", words) for words in extra)], start)
        if picked < len(choices):
            return choices[picked].value if field.type is FieldType.BOOLEAN else choices[picked].key
        if extra[picked - len(choices)] is _DECLINE:
            raise _Ended(Outcome.DECLINED)
        return MISSING

    def _write(self, words: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone sends SIGHUP too
            sys.stdout.write(words + "\n")
            sys.stdout.flush()


_YES, _NO = Choice(True, "true", "Yes"), Choice(False, "false", "No")


def _typed(field: Field) -> str:
    """The default as a person would type it. A secret is never shown in advance."""
    if field.default is MISSING or field.default is None or field.secret:
        return ""
    return field.default if isinstance(field.default, str) else json.dumps(field.default, ensure_ascii=False)


class _Ended(Exception):
    """The person wants no answer given."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class _Prompts(Protocol):
    """One way of prompting. Everything here raises _Ended when the person declines or cancels."""

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str: ...

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        """The index of one option."""

    async def mark(self, title: str, options: Sequence[Choice], marked: set[int], check: Check) -> list[int]:
        """The indexes of any number of options."""

    def above(self, write: Callable[[], None]) -> None: ...


def _hint(*ways: str, cancel: str) -> str:
    return " · ".join(way for way in (*ways, "Ctrl-D declines", f"{cancel} cancels") if way)


# --- with arrow keys ------------------------------------------------------------------------------------------------------------------------


class _Keys:
    """questionary's prompts, which are erased when done: what stays on the screen is the answer."""

    def __init__(self, interrupted: Callable[[], None]) -> None:
        self._interrupted = interrupted
        self._pending: set[Any] = set()

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        import questionary

        ask = questionary.password if secret else questionary.text
        problem = ""
        while True:
            prompt = ask(
                _lead(_hint("Enter answers", hint, cancel="Esc"), problem),
                default=default,
                qmark="",
                instruction=f"{title}:",
                style=_style(problem),
            )
            typed = str(await self._run(prompt))
            problem = check(typed)
            if not problem:
                return typed
            default = "" if secret else typed

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        import questionary

        search = len(options) >= SEARCH_FROM
        prompt = questionary.select(
            _lead(_hint("↑ ↓ move", "letters search" if search else "", "Enter chooses", cancel="Esc")),
            choices=[questionary.Choice(choice.label, value=index, description=_described(choice)) for index, choice in enumerate(options)],
            qmark="",
            instruction=f" {title}",
            style=_style(),
            use_jk_keys=False,
            use_search_filter=search,
        )
        control = _control(prompt)
        control.pointed_at = start or 0
        return int(await self._run(prompt, searching=control if search else None))

    async def mark(self, title: str, options: Sequence[Choice], marked: set[int], check: Check) -> list[int]:
        import questionary

        search = len(options) >= SEARCH_FROM
        problem, pointed = "", 0
        while True:
            prompt = questionary.checkbox(
                _lead(_hint("↑ ↓ move", "letters search" if search else "", "Space marks", "Enter is done", cancel="Esc"), problem),
                choices=[
                    questionary.Choice(choice.label, value=index, checked=index in marked, description=_described(choice))
                    for index, choice in enumerate(options)
                ],
                qmark="",
                instruction=f" {title}",
                style=_style(problem),
                use_jk_keys=False,
                use_search_filter=search,
            )
            control = _control(prompt)
            control.pointed_at = pointed
            picked = list(await self._run(prompt, searching=control if search else None))
            problem = check(picked)
            if not problem:
                return picked
            marked, pointed = set(picked), 0 if search else control.pointed_at

    def above(self, write: Callable[[], None]) -> None:
        from prompt_toolkit.application import get_app_or_none, run_in_terminal

        if get_app_or_none() is None:
            write()
            return
        writing = asyncio.ensure_future(run_in_terminal(write))
        self._pending.add(writing)
        writing.add_done_callback(self._pending.discard)

    async def _run(self, prompt: questionary.Question, searching: InquirerControl | None = None) -> Any:
        from prompt_toolkit.filters import to_filter
        from prompt_toolkit.input.typeahead import clear_typeahead
        from prompt_toolkit.key_binding import merge_key_bindings

        app = prompt.application
        app.erase_when_done = True
        app.ttimeoutlen = 0.1  # Esc alone is Esc after this many seconds
        app.timeoutlen = 0.1
        for window in app.layout.find_all_windows():
            window.wrap_lines = to_filter(True)
        ours = _bindings(searching, self._interrupted)
        app.key_bindings = ours if app.key_bindings is None else merge_key_bindings([app.key_bindings, ours])
        clear_typeahead(app.input)
        _forget_keys()
        try:
            result = await app.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:  # the terminal is gone
            for _ in range(MANY_INTERRUPTS):
                self._interrupted()
            result = Outcome.CANCELLED
        if isinstance(result, Outcome):
            raise _Ended(result)
        return result


def _lead(hint: str, problem: str = "") -> str:
    """The hint on a line of its own above the prompt: questionary puts what it calls the message first, then the instruction.

    What was wrong with the answer before stands there too, next to where it is put right.
    """
    return f" {problem}\n  {hint}\n" if problem else f" {hint}\n"


def _described(choice: Choice) -> str | None:
    return label(choice.description, 1_000) or None


def _style(problem: str = "") -> questionary.Style:
    import questionary

    return questionary.Style(
        [
            ("question", "fg:ansired" if problem else "fg:ansibrightblack"),
            ("instruction", "bold"),
            ("answer", ""),
            ("pointer", "fg:ansicyan bold"),
            ("highlighted", "fg:ansicyan bold"),
            ("selected", "fg:ansicyan noreverse"),
        ]
    )


def _control(prompt: questionary.Question) -> InquirerControl:
    from questionary.prompts.common import InquirerControl

    return next(window.content for window in prompt.application.layout.find_all_windows() if isinstance(window.content, InquirerControl))


def _bindings(searching: InquirerControl | None, interrupted: Callable[[], None]) -> Any:
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    @bindings.add(Keys.ControlC, eager=True)
    def interrupt(event: KeyPressEvent) -> None:
        interrupted()
        event.app.exit(result=Outcome.CANCELLED)

    @bindings.add(Keys.Escape)
    def cancel(event: KeyPressEvent) -> None:
        event.app.exit(result=Outcome.CANCELLED)

    @bindings.add(Keys.ControlD, eager=True)
    def decline(event: KeyPressEvent) -> None:
        event.app.exit(result=Outcome.DECLINED)

    if searching is not None:

        def finds_nothing() -> bool:
            offered = searching.filtered_choices  # it notes what it found
            return bool(offered and searching.search_filter) and not searching.found_in_search

        @bindings.add(Keys.ControlM, eager=True, filter=Condition(finds_nothing))
        def nothing_found(event: KeyPressEvent) -> None:
            """questionary shows all options when none matches: Enter would choose one that nobody looked for."""

        @bindings.add(Keys.Any)
        def search(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                searching.search_filter = (searching.search_filter or "") + event.data
                searching.pointed_at = 0

    return bindings


def _forget_keys() -> None:
    """Throw away what was typed before the question was there."""
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


# --- line by line ---------------------------------------------------------------------------------------------------------------------------


class _Lines:
    """Numbers and lines, for a terminal whose cursor cannot be moved."""

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        self._put(f"  ({_hint('Enter takes what stands in [ ]' if default else '', hint, cancel='Ctrl-C')})\n")
        while True:
            typed = await self._read(f"  {title}{f' [{label(default)}]' if default else ''}: ", secret=secret)
            given = typed or default
            problem = check(given)
            if not problem:
                return given
            self._put(f"  {problem}\n")

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        self._list(options)
        self._put(f"  ({_hint('Enter takes what stands in [ ]' if start is not None else '', cancel='Ctrl-C')})\n")
        while True:
            typed = await self._read(f"  Number{'' if start is None else f' [{start + 1}]'}: ")
            if not typed and start is not None:
                return start
            if (picked := _numbers(typed, len(options))) and len(picked) == 1:
                return picked[0]
            self._put(f"  must be one number from 1 to {len(options)}\n")

    async def mark(self, title: str, options: Sequence[Choice], marked: set[int], check: Check) -> list[int]:
        self._list(options)
        default = ",".join(str(index + 1) for index in sorted(marked))
        self._put(f"  ({_hint('numbers with commas', '0 for none of them', 'Enter takes what stands in [ ]' if default else '', cancel='Ctrl-C')})\n")
        while True:
            typed = await self._read(f"  {title}{f' [{default}]' if default else ''}: ") or default
            picked = [] if typed.strip() == "0" else _numbers(typed, len(options))
            problem = f"must be numbers from 1 to {len(options)}, with commas" if picked is None else check(picked)
            if picked is not None and not problem:
                return picked
            self._put(f"  {problem}\n")

    def above(self, write: Callable[[], None]) -> None:
        write()

    def _list(self, options: Sequence[Choice]) -> None:
        for index, choice in enumerate(options, 1):
            description = f": {label(choice.description, 1_000)}" if choice.description else ""
            self._put("\n".join(wrapped(f"{index}) {choice.label}{description}", hanging="     ")) + "\n")

    async def _read(self, prompt: str, *, secret: bool = False) -> str:
        """A line. The terminal edits it and gives it whole, so that reading never waits once there is something to read."""
        fd = sys.stdin.fileno()
        with _unseen(fd) if secret else contextlib.nullcontext():
            _forget_keys()
            self._put(prompt)
            try:
                await anyio.wait_readable(fd)
                data = os.read(fd, 65_536)
            except OSError:
                self._end(Outcome.CANCELLED)
            except anyio.get_cancelled_exc_class():
                self._put("\n")
                raise
        if secret:
            self._put("\n")
        if not data:
            self._end(Outcome.DECLINED)
        return data.decode(sys.stdin.encoding, errors="replace").rstrip("\r\n")

    def _end(self, outcome: Outcome) -> NoReturn:
        self._put("\n")
        raise _Ended(outcome)

    def _put(self, words: str) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.write(words)
            sys.stdout.flush()


def _numbers(typed: str, most: int) -> list[int] | None:
    """`1, 3` -> indexes, or None when that is not what it says."""
    try:
        indexes = [int(part) - 1 for part in typed.split(",")]
    except ValueError:
        return None
    return indexes if all(0 <= index < most for index in indexes) else None


@contextlib.contextmanager
def _unseen(fd: int) -> Iterator[None]:
    import termios

    before = termios.tcgetattr(fd)
    hidden = list(before)
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
