"""The loop that knows when what it reads may have come."""

from __future__ import annotations

import os

from abp_bridge.rpc.arrival import WatchfulLoop


def test_who_is_busy_hears_of_what_comes_in_every_other_turn() -> None:
    loop = WatchfulLoop()
    reading, writing = os.pipe()
    turns: list[str] = []

    def spin() -> None:
        turns.append("")
        if len(turns) == 10:
            os.write(writing, b"!")
        if "came" in turns or len(turns) == 20:
            loop.stop()
        else:
            loop.call_soon(spin)

    loop.add_reader(reading, lambda: turns.append("came"))
    loop.call_soon(spin)
    loop.run_forever()
    loop.remove_reader(reading)
    loop.close()
    os.close(reading)
    os.close(writing)
    assert "came" in turns[10:13]
