"""Prompts by numbers and lines, for a terminal whose cursor cannot be moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Choice
from abp_bridge.core.sanitize import label
from abp_bridge.surfaces.terminal.device import CTRL_C, Device, forget_keys, read_line
from abp_bridge.surfaces.terminal.prompts import Check, MarksCheck, PromptExit, hint_line
from abp_bridge.surfaces.terminal.rendering import choice_description, wrapped

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
        given = await self._read(prompt, secret=secret) or default
        while problem := check(given):
            self._put(f"  {problem}\n")
            given = await self._read(prompt, secret=secret) or default
        return given

    async def path(
        self, title: str, default: str, accept: Sequence[str], *, hint: str, problem: str
    ) -> str:
        """Return a file's name or nothing; `problem` is what was wrong with the previous one."""
        if problem:
            self._put("\n".join(wrapped(problem, columns=self._device.columns)) + "\n")
        else:
            self._hint("a file's name", hint)
        return await self._read(f"  {title}: ")

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        """Return the index of one option; `start` is the default's."""
        default = "" if start is None else str(start + 1)
        self._list(options)
        words = "y or n" if any(_words(each) for each in options) else ""
        self._hint(words, _TAKE if default else "")
        prompt = f"  Number{f' [{default}]' if default else ''}: "
        while len(picked := _pick(await self._read(prompt) or default, options)) != 1:
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
            typed = await self._read(prompt) or default
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

    async def _read(self, prompt: str, *, secret: bool = False) -> str:
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
        self._device.write(words)


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
