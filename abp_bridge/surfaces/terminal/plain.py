"""Prompts by numbers and lines, for a terminal whose cursor cannot be moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import anyio

from abp_bridge.core.question import Choice, Outcome
from abp_bridge.core.sanitize import label
from abp_bridge.surfaces.terminal.device import CTRL_C, Device, forget_keys, read_line
from abp_bridge.surfaces.terminal.prompts import Check, PromptExit, hinted
from abp_bridge.surfaces.terminal.rendering import described, wrapped

LONGEST_LINE = 4_096  # bytes: a line of so many, with its end, may have been longer

_TAKE = "Enter takes what stands in [ ]"


class LinePrompts:
    """Implements `Prompts`."""

    def __init__(self, device: Device) -> None:
        self._device = device

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        self._put(f"  ({hinted(_TAKE if default else '', hint, cancel='Ctrl-C')})\n")
        while True:
            typed = await self._read(
                f"  {title}{f' [{label(default)}]' if default else ''}: ", secret=secret
            )
            given = typed or default
            problem = check(given)
            if not problem:
                return given
            self._put(f"  {problem}\n")

    async def path(
        self, title: str, default: str, accept: Sequence[str], *, hint: str, problem: str
    ) -> str:
        if problem:
            self._put("\n".join(wrapped(problem, columns=self._device.columns)) + "\n")
        else:
            hints = hinted("a file's name", hint, cancel="Ctrl-C")
            self._put(f"  ({hints})\n")
        return await self._read(f"  {title}: ")

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        self._list(options)
        self._put(f"  ({hinted(_TAKE if start is not None else '', cancel='Ctrl-C')})\n")
        while True:
            typed = await self._read(f"  Number{'' if start is None else f' [{start + 1}]'}: ")
            if not typed and start is not None:
                return start
            if (picked := _numbers(typed, len(options))) and len(picked) == 1:
                return picked[0]
            self._put(f"  must be one number from 1 to {len(options)}\n")

    async def mark(
        self, title: str, options: Sequence[Choice], marked: set[int], check: Check
    ) -> list[int]:
        self._list(options)
        default = ",".join(str(index + 1) for index in sorted(marked))
        taken = _TAKE if default else ""
        self._put(
            f"  ({hinted('numbers with commas', '0 for none of them', taken, cancel='Ctrl-C')})\n"
        )
        while True:
            typed = await self._read(f"  {title}{f' [{default}]' if default else ''}: ") or default
            picked = [] if typed.strip() == "0" else _numbers(typed, len(options))
            problem = (
                f"must be numbers from 1 to {len(options)}, with commas"
                if picked is None
                else check(picked)
            )
            if picked is not None and not problem:
                return picked
            self._put(f"  {problem}\n")

    def above(self, write: Callable[[], None]) -> None:
        write()

    def _list(self, options: Sequence[Choice]) -> None:
        for index, choice in enumerate(options, 1):
            description = f": {described(choice)}" if choice.description else ""
            lines = wrapped(
                f"{index}) {choice.label}{description}",
                hanging="     ",
                columns=self._device.columns,
            )
            self._put("\n".join(lines) + "\n")

    async def _read(self, prompt: str, *, secret: bool = False) -> str:
        """A line that surely is whole: of a longer one the terminal itself would have kept only the
        beginning.
        """
        while len(data := await self._read_once(prompt, secret=secret)) >= LONGEST_LINE:
            self._put(
                f"  that is more than this terminal takes in one line ({LONGEST_LINE - 2}"
                " characters): give less, or answer elsewhere\n"
            )
        return data.decode(self._device.encoding, errors="replace").rstrip("\r\n")

    async def _read_once(self, prompt: str, *, secret: bool) -> bytes:
        """The terminal edits a line and gives it whole, so that reading never waits once there is
        something to read.
        """
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
            self._device.lost()
            self._end(Outcome.CANCELLED)
        if not data:
            self._end(Outcome.DECLINED)
        if data.endswith(CTRL_C):
            self._end(Outcome.CANCELLED)
        return data

    def _end(self, outcome: Outcome) -> NoReturn:
        self._put("\n")
        raise PromptExit(outcome)

    def _put(self, words: str) -> None:
        self._device.write(words)


def _numbers(typed: str, most: int) -> list[int] | None:
    """`1, 3` -> indexes, or None when that is not what it says."""
    try:
        indexes = [int(part) - 1 for part in typed.split(",")]
    except ValueError:
        return None
    return indexes if all(0 <= index < most for index in indexes) else None
