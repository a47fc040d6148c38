"""The bridge, writing down each function of the product that it enters: `FILE QUALIFIED.NAME` a
line, into the file that is its first argument.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import abp_bridge
from abp_bridge.cli.main import main

ROOT = str(Path(abp_bridge.__file__).parent) + "/"


def run() -> None:
    with open(sys.argv.pop(1), "w") as written:

        def on_event(frame: FrameType, event: str, _: object) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(ROOT):
                written.write(f"{code.co_filename.removeprefix(ROOT)} {code.co_qualname}\n")

        sys.setprofile(on_event)
        try:
            main()
        finally:
            sys.setprofile(None)


if __name__ == "__main__":
    run()
