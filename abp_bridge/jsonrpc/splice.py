"""The byte pump between two sides: every line goes on byte for byte, in order, and no faster than
its reader reads. Which lines are looked at, and what becomes of them, its `LineFilter` says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from abp_bridge.jsonrpc import byte_edit

if TYPE_CHECKING:
    from abp_bridge.jsonrpc.connection import ByteReader
    from abp_bridge.jsonrpc.multiplex import SharedWriter


logger = logging.getLogger(__name__)

# What some readers end a line at, and JSON does not: Python's text files at a bare CR, Node's
# readline at U+2028 too, `str.splitlines` at all of them. The last three may stand in strings.
_BREAKS = (b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e")  # a byte is found at once
_ALL_BREAKS = (*_BREAKS, b"\xc2\x85", b"\xe2\x80")
_BREAK = re.compile(rb"\r(?!\n)|[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")
_SPELLED = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}


def _log_too_long(begin: bytes) -> None:
    logger.error("a line is not passed on: it is too long to be looked at")


@dataclass(frozen=True, slots=True)
class LineFilter:
    """What the proxy has to do with the lines of one side.

    Attributes:
        is_relevant: Whether one of these lines may need to be read: decided from their bytes, and
            asked again for each line of a block.
        rewrite: A relevant line -> what goes on in its place; nothing if that is empty.
        passes_unread: Whether a line passes that cannot be looked at: one that is too long, or that
            `rewrite` failed at.
        on_too_long: Gets the first bytes of a line that does not pass, as it is too long.
    """

    is_relevant: Callable[[bytes], bool]
    rewrite: Callable[[bytes], Awaitable[bytes]]
    passes_unread: bool = True
    on_too_long: Callable[[bytes], object] = _log_too_long


async def _do_nothing() -> None: ...


async def splice(
    source: ByteReader,
    target: SharedWriter,
    lines: LineFilter,
    on_end: Callable[[], Awaitable[None]] = _do_nothing,
) -> None:
    """Carry what `source` says to `target`, until it ends.

    Args:
        source: One side's output.
        target: The other side's input.
        lines: What happens to them. Without a relevant line, whole blocks pass as they came.
        on_end: Runs at the end, before what is left of a last line passes.

    Raises:
        OSError: Nobody reads `target` any more.
    """
    cutter = byte_edit.Cutter()
    is_dropping = False  # in the middle of a line that is too long
    while data := await source.receive():
        for cut, whole in cutter.cut(data):
            block = keep_lines(cut)
            if whole and lines.is_relevant(block):
                await _forward_lines(block, target, lines)
            elif whole or lines.passes_unread:
                await target.forward(block)
            else:
                if not is_dropping:
                    lines.on_too_long(block)
                is_dropping = not block.endswith(b"\n")
    await on_end()
    rest = keep_lines(cutter.rest())
    if lines.is_relevant(rest):
        await _forward_rewritten(rest, target, lines)
    elif rest:
        await target.forward(rest)


def keep_lines(block: bytes) -> bytes:
    """The block with no other ends of lines than those that it has for us: a line that is one
    message here is one for who gets it. Nothing else changes, and no value does.
    """
    for each in _BREAKS if block.isascii() else _ALL_BREAKS:
        if each in block:
            return _BREAK.sub(lambda found: _SPELLED.get(found[0], b" "), block)
    return block


async def _forward_lines(block: bytes, target: SharedWriter, lines: LineFilter) -> None:
    if block.find(b"\n") == len(block) - 1:  # one line, as mostly
        await _forward_rewritten(block, target, lines)
        return
    # A line is judged only when those before it have been handled: they may change what matters.
    each_line = (line + b"\n" for line in block.split(b"\n")[:-1])
    for is_relevant, group in groupby(each_line, lines.is_relevant):
        if not is_relevant:
            await target.forward(b"".join(group))
            continue
        for line in group:
            await _forward_rewritten(line, target, lines)


async def _forward_rewritten(line: bytes, target: SharedWriter, lines: LineFilter) -> None:
    try:
        line = await lines.rewrite(line)
    except Exception:  # whatever it is, the line is not ours to keep, but where it must be read
        passes = lines.passes_unread
        words = "passes as it is" if passes else "is not passed on"
        logger.exception("a line %s: looking at it failed", words)
        line = line if passes else b""
    if line:
        await target.forward(line)
