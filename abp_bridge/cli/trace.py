"""`abp-bridge trace`: draws a trace or a fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abp_bridge.cli.runtime import add_setting_options, argument_type, read_count

if TYPE_CHECKING:
    import argparse

    from abp_bridge.cli.runtime import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `trace`."""
    parser = commands.add_parser(
        "trace",
        help="draw a trace or a fixture as a sequence",
        description="Draws who said what to whom.",
    )
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
    add_setting_options(parser, "trace")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw a file. Returns the exit code."""
    from abp_bridge.cli.replay import show

    return show(options.path, as_json=options.json, width=options.width, full=options.full)
