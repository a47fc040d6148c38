"""Run the bridge and log each function of the product that it enters.

The first argument is the log. A line has the function and its nearest caller in the product, each
as `FILE QUALIFIED.NAME`, separated by a tab.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import abp_bridge
from abp_bridge.cli.main import main

ROOT = str(Path(abp_bridge.__file__).parent) + "/"


def name(frame: FrameType | None) -> str:
    while frame is not None and not frame.f_code.co_filename.startswith(ROOT):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename.removeprefix(ROOT)} {frame.f_code.co_qualname}"


def run() -> None:
    with open(sys.argv.pop(1), "w") as log:

        def on_event(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(ROOT):
                log.write(f"{name(frame)}\t{name(frame.f_back)}\n")

        sys.setprofile(on_event)
        try:
            main()
        finally:
            sys.setprofile(None)


if __name__ == "__main__":
    run()
