"""Prompts at a terminal: by arrow keys with questionary, or by numbers and lines.

questionary's prompts are erased when done, so only the answer stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from abp_bridge.core import file
from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Choice
from abp_bridge.core.sanitize import label
from abp_bridge.surfaces.terminal.device import CTRL_C, Device, forget_keys, read_line
from abp_bridge.surfaces.terminal.rendering import choice_description, wrapped

if TYPE_CHECKING:
    import questionary
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyPressEvent
    from questionary.prompts.common import InquirerControl

    _Ask = Callable[..., questionary.Question]

# what is wrong with an answer, in words; empty when nothing is
Check = Callable[[JsonValue], str]
MarksCheck = Callable[[Sequence[int]], str]  # of options by their indexes


class PromptExit(Exception):  # noqa: N818 - a way out of a prompt, no error
    """The user declines or cancels."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


def hint_line(*ways: str, cancel: str) -> str:
    """Return the hint of a prompt: its `ways` to answer, and how to cancel."""
    return " · ".join(way for way in (*ways, "Ctrl-D declines", f"{cancel} cancels") if way)


SEARCH_FROM = 11  # options, from which on letters search them: more than a glance takes in


class InteractivePrompts:
    """Prompts on a `device` whose cursor can be moved.

    Each raises PromptExit when the user declines or cancels. `on_interrupt` is called at Ctrl-C,
    `on_hangup` when the terminal is gone.
    """

    def __init__(
        self, device: Device, on_interrupt: Callable[[], None], on_hangup: Callable[[], None]
    ) -> None:
        self._device = device
        self._on_interrupt = on_interrupt
        self._on_hangup = on_hangup
        self._app: Application[Any] | None = None
        self._pending: set[Any] = set()

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        """Return one line that passes `check`."""
        import questionary

        ask = questionary.password if secret else questionary.text
        hints = hint_line("Enter answers", hint, cancel="Esc")
        typed = await self._type(ask, title, default, hints)
        while problem := check(typed):
            typed = await self._type(ask, title, "" if secret else typed, hints, problem)
        return typed

    async def path(
        self, title: str, default: str, accept: Sequence[str], *, hint: str, problem: str
    ) -> str:
        """Return a file's name or nothing; `problem` is what was wrong with `default`."""
        import questionary
        from questionary.prompts.path import GreatUXPathCompleter

        def offers(path: str) -> bool:
            # What has no dot may be a folder; to look would wait for the disk.
            return "." not in path.rpartition("/")[2] or file.admits(accept, file.guess_type(path))

        ask = partial(
            questionary.text,
            completer=GreatUXPathCompleter(file_filter=offers if accept else None, expanduser=True),
            complete_while_typing=False,
            complete_in_thread=True,
        )
        hints = hint_line("a file's name", "Tab completes it", "Enter answers", hint, cancel="Esc")
        return await self._type(ask, title, default, hints, problem)

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        """Return the index of one option; the pointer begins at `start`."""
        import questionary

        picked, _ = await self._choose(
            questionary.select, title, options, "Enter chooses", start=start or 0
        )
        return int(picked)

    async def mark(
        self, title: str, options: Sequence[Choice], marked: set[int], check: MarksCheck
    ) -> list[int]:
        """Return the indexes of any number of options that pass `check`."""
        import questionary

        ways = "Space marks", "Enter is done"
        ask = partial(self._choose, questionary.checkbox, title, options, *ways)
        picked, start = await ask(marked=marked)
        while problem := check(picked):
            picked, start = await ask(start=start, marked=picked, problem=problem)
        return list(picked)

    def above(self, write: Callable[[], None]) -> None:
        """Write lines above the open prompt, if there is one."""
        from prompt_toolkit.application import run_in_terminal

        context = self._app.context if self._app is not None else None
        if context is None:
            write()
            return
        # Whoever tells is not the one who asks: the open prompt is known only where it runs.
        writing = context.copy().run(lambda: asyncio.ensure_future(run_in_terminal(write)))
        self._pending.add(writing)
        writing.add_done_callback(self._pending.discard)

    async def _choose(
        self,
        ask: _Ask,
        title: str,
        options: Sequence[Choice],
        *ways: str,
        start: int = 0,
        marked: Collection[int] = (),
        problem: str = "",
    ) -> tuple[Any, int]:
        """Return what was picked, and the pointer's position for another try.

        `ways` are hints beside moving and searching.
        """
        import questionary

        search = len(options) >= SEARCH_FROM
        hints = hint_line("↑ ↓ move", "letters search" if search else "", *ways, cancel="Esc")
        choices = [
            questionary.Choice(
                choice.label,
                value=index,
                checked=index in marked,
                description=choice_description(choice) or None,
            )
            for index, choice in enumerate(options)
        ]
        with self._device.keys():
            prompt = ask(
                self._lead(hints, problem),
                choices=choices,
                qmark="",
                instruction=self._lines(title)[1:],
                style=_style(problem),
                use_jk_keys=False,
                use_search_filter=search,
            )
            control = _control(prompt)
            control.pointed_at = start
            picked = await self._run_prompt(prompt, searching=control if search else None)
            return picked, 0 if search else control.pointed_at

    async def _type(
        self, ask: _Ask, title: str, default: str, hints: str, problem: str = ""
    ) -> str:
        with self._device.keys():
            prompt = ask(
                self._lead(hints, problem),
                default=default,
                qmark="",
                instruction=self._lines(f"{title}:")[2:],
                style=_style(problem),
            )
            return str(await self._run_prompt(prompt))

    def _lead(self, hint: str, problem: str) -> str:
        """Return the hint and the problem as lines above the prompt: questionary's "message"."""
        return self._lines(f"{problem}\n{hint}" if problem else hint)[1:] + "\n"

    def _lines(self, words: str) -> str:
        """Return `words` indented and wrapped; questionary writes the first blanks."""
        return "\n".join(wrapped(words, columns=self._device.columns))

    async def _run_prompt(
        self, prompt: questionary.Question, searching: InquirerControl | None = None
    ) -> Any:
        from prompt_toolkit.filters import to_filter
        from prompt_toolkit.input.typeahead import clear_typeahead
        from prompt_toolkit.key_binding import merge_key_bindings
        from prompt_toolkit.renderer import CPR_Support

        app = prompt.application
        # A terminal that is asked where its cursor is may answer when the prompt has gone: then
        # that stands in the shell's line.
        app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED
        app.erase_when_done = True
        app.ttimeoutlen = 0.1  # Esc alone is Esc after this many seconds
        app.timeoutlen = 0.1
        for window in app.layout.find_all_windows():
            window.wrap_lines = to_filter(True)
        theirs, ours = app.key_bindings, _bindings(searching, self._on_interrupt)
        app.key_bindings = merge_key_bindings([theirs, ours]) if theirs else ours
        clear_typeahead(app.input)
        forget_keys(self._device.fd)
        try:
            self._app = app
            result = await app.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            self._on_hangup()
            result = Outcome.CANCELLED
        finally:
            self._app = None
        if isinstance(result, Outcome):
            raise PromptExit(result)
        return result


def _style(problem: str) -> questionary.Style:
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

    return next(
        window.content
        for window in prompt.application.layout.find_all_windows()
        if isinstance(window.content, InquirerControl)
    )


def _bindings(searching: InquirerControl | None, on_interrupt: Callable[[], None]) -> Any:
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    @bindings.add(Keys.ControlC, eager=True)
    def interrupt(event: KeyPressEvent) -> None:
        on_interrupt()
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
            """Ignore Enter: questionary shows all options when none matches."""

        @bindings.add(Keys.Any)
        def search(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                searching.search_filter = (searching.search_filter or "") + event.data
                searching.pointed_at = 0

    return bindings


MAX_LINE = 4_096  # bytes: a line of so many, with its end, may have been longer

_TAKE = "Enter takes what stands in [ ]"


class LinePrompts:
    """Prompts on `device`. Each raises PromptExit when the user declines or cancels."""

    def __init__(self, device: Device) -> None:
        self._device = device

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        """Return one line that passes `check`."""
        self._hint(_TAKE if default else "", hint)
        prompt = f"  {title}{f' [{label(default)}]' if default else ''}: "
        given = await self._read_line(prompt, secret=secret) or default
        while problem := check(given):
            self._put(f"  {problem}\n")
            given = await self._read_line(prompt, secret=secret) or default
        return given

    async def path(
        self, title: str, default: str, accept: Sequence[str], *, hint: str, problem: str
    ) -> str:
        """Return a file's name or nothing; `problem` is what was wrong with the previous one."""
        if problem:
            self._put("\n".join(wrapped(problem, columns=self._device.columns)) + "\n")
        else:
            self._hint("a file's name", hint)
        return await self._read_line(f"  {title}: ")

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        """Return the index of one option; `start` is the default's."""
        default = "" if start is None else str(start + 1)
        self._list(options)
        words = "y or n" if any(_words(each) for each in options) else ""
        self._hint(words, _TAKE if default else "")
        prompt = f"  Number{f' [{default}]' if default else ''}: "
        while len(picked := _pick(await self._read_line(prompt) or default, options)) != 1:
            wanted = f"must be one number from 1 to {len(options)}"
            self._put(f"  {f'{wanted}, or {words}' if words else wanted}\n")
        return picked[0]

    async def mark(
        self, title: str, options: Sequence[Choice], marked: set[int], check: MarksCheck
    ) -> list[int]:
        """Return the indexes of any number of options that pass `check`."""
        default = ",".join(str(index + 1) for index in sorted(marked))
        wanted = f"must be numbers from 1 to {len(options)}, with commas"
        self._list(options)
        self._hint("numbers with commas", "0 for none of them", _TAKE if default else "")
        prompt = f"  {title}{f' [{default}]' if default else ''}: "
        while True:
            typed = await self._read_line(prompt) or default
            picked = _numbers(typed, len(options))
            problem = check(picked) if picked or typed.strip() == "0" else wanted
            if not problem:
                return picked
            self._put(f"  {problem}\n")

    def above(self, write: Callable[[], None]) -> None:
        """Write lines now: no prompt can be damaged."""
        write()

    def _hint(self, *ways: str) -> None:
        hint = f"({hint_line(*ways, cancel='Ctrl-C')})"
        self._put("\n".join(wrapped(hint, columns=self._device.columns)) + "\n")

    def _list(self, options: Sequence[Choice]) -> None:
        for index, choice in enumerate(options, 1):
            description = f": {choice_description(choice)}" if choice.description else ""
            lines = wrapped(
                f"{index}) {choice.label}{description}",
                hanging="     ",
                columns=self._device.columns,
            )
            self._put("\n".join(lines) + "\n")

    async def _read_line(self, prompt: str, *, secret: bool = False) -> str:
        """Read a whole line: a terminal truncates a longer one."""
        while len(data := await self._read_once(prompt, secret=secret)) >= MAX_LINE:
            self._put(
                f"  that is more than this terminal takes in one line ({MAX_LINE - 2}"
                " characters): give less, or answer elsewhere\n"
            )
        return data.decode(self._device.encoding, errors="replace").rstrip("\r\n")

    async def _read_once(self, prompt: str, *, secret: bool) -> bytes:
        """Read a line that the terminal edits."""
        with self._device.lines(secret=secret):
            forget_keys(self._device.fd)
            self._put(prompt)
            try:
                data = await read_line(self._device)
            except anyio.get_cancelled_exc_class():
                self._put("\n")
                raise
        if secret:
            self._put("\n")
        if data is None:
            self._device.close_lost()
        if data and (data.endswith(b"\n") or len(data) >= MAX_LINE):
            return data
        self._put("\n")
        # without a line end it is Ctrl-D, behind what was typed too
        is_left = data is None or data.endswith(CTRL_C)
        raise PromptExit(Outcome.CANCELLED if is_left else Outcome.DECLINED)

    def _put(self, words: str) -> None:
        self._device.print(words)


def _pick(typed: str, options: Sequence[Choice]) -> list[int]:
    """Return the index of the option with that number, or with that word for yes and no."""
    word = typed.strip().casefold()
    named = [index for index, each in enumerate(options) if word in _words(each)]
    return named or _numbers(typed, len(options))


def _words(choice: Choice) -> Sequence[str]:
    return ("y", "yes") if choice.value is True else ("n", "no") if choice.value is False else ()


def _numbers(typed: str, most: int) -> list[int]:
    """Return the indexes in `1, 3`; empty if it is anything else."""
    try:
        indexes = [int(part) - 1 for part in typed.split(",")]
    except ValueError:
        return []
    return indexes if all(0 <= index < most for index in indexes) else []
