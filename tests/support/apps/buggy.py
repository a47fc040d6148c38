"""The bridge with a bug: `python buggy.py MODULE:FUNCTION ARGUMENT...`, where that function raises.

The module is named below `abp_bridge`; the function may be `Class.method`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

KEY = "planted-key-5be1"  # in the message of the exception


def plant(place: str) -> Callable[[], None]:
    """Have the function at `place` raise; return what repairs it."""
    module, _, path = place.partition(":")
    *owners, last = path.split(".")
    owner = importlib.import_module(f"abp_bridge.{module}")
    for each in owners:
        owner = getattr(owner, each)
    whole = vars(owner)[last]

    def bug(*_: object, **__: object) -> None:
        raise ValueError(KEY)

    setattr(owner, last, bug)
    return lambda: setattr(owner, last, whole)


if __name__ == "__main__":
    plant(sys.argv.pop(1))  # before others import it by its name

    from abp_bridge.cli.main import entry

    entry()
