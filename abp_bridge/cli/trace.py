"""`abp-bridge trace`: draw a trace or a fixture."""

from __future__ import annotations

import shutil
from codecs import getincrementaldecoder
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.cli.options import argument_type, read_count
from abp_bridge.cli.runtime import complain, print_json, print_text
from abp_bridge.conformance.format import Recording, TraceError, lines, parse_recordings

if TYPE_CHECKING:
    import argparse


MISSING = "name a trace or a fixture: abp-bridge trace session.jsonl"
HELP = "draw a trace or a fixture as a sequence"
DESCRIPTION = "Draws who said what to whom."


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add what is drawn, and how."""
    option = parser.add_argument
    option("path", metavar="FILE", help="a trace of 'serve --record', or a fixture")
    option(
        "--width",
        metavar="COLUMNS",
        type=argument_type(read_count),
        help="how wide to draw (default: as wide as the terminal)",
    )
    option("--full", action="store_true", help="all that is said, however long")
    option("--json", action="store_true", help="one JSON object a line instead of a drawing")


def run_trace(options: argparse.Namespace) -> int:
    """Draw a file. Returns the exit code."""
    from abp_bridge.conformance.sequence_diagram import draw

    try:
        found = load(options.path)
    except TraceError as problem:
        return complain(place(options.path, problem), "trace")
    width = options.width or shutil.get_terminal_size((110, 24)).columns
    for recording in found:
        if options.json:
            print_json("".join(lines(recording)))
        else:
            drawn = draw(recording, width, full=options.full)
            print_text("".join(f"{line}\n" for line in drawn))
    return 0


def load(path: str) -> list[Recording]:
    """Return the recordings of a file.

    Raises:
        TraceError: It cannot be read, or is neither a trace nor a fixture.
    """
    try:
        return parse_recordings(_decode(Path(path).read_bytes()))
    except OSError as problem:
        raise TraceError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path} is no text") from None


def _decode(data: bytes) -> str:
    """Decode UTF-8 whose last character may be cut off."""
    decoder = getincrementaldecoder("utf-8")()
    text = decoder.decode(data)
    cut, _ = decoder.getstate()
    return f"{text}\ufffd" if cut else text


def place(path: str, problem: TraceError) -> str:
    """What is wrong with a file, with the line that it is about, if it is about one."""
    return f"{path}:{problem.line}: {problem}" if problem.line else str(problem)
