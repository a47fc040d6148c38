"""The bridge with a fault: what it says passes through here. `broken.py FAULT ARGUMENT...`. For tests of the replay.

Faults: drop (one option of a list is missing), twice (calls are answered twice), three (lists are cut to three options), mute (questions get lost),
hoarse (something that is no JSON), early (the result comes before the progress).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

Json = Any
LISTS = ("enum", "oneOf", "anyOf", "options")


def cut(value: Json, by: Callable[[list[Json]], list[Json]]) -> Json:
    if isinstance(value, dict):
        return {name: by(each) if name in LISTS and isinstance(each, list) else cut(each, by) for name, each in value.items()}
    return [cut(each, by) for each in value] if isinstance(value, list) else value


class Fault:
    def __init__(self, name: str) -> None:
        self.name = name
        self.kept: list[bytes] = []

    def passed(self, line: bytes) -> Iterator[bytes]:
        message = json.loads(line)
        asks = "method" in message and "id" in message
        if self.name == "drop":
            message = cut(message, lambda options: options[:-1])
        if self.name == "three":
            message = cut(message, lambda options: options[:3])
        if self.name == "mute" and asks:
            return
        if self.name == "early" and message.get("method") == "notifications/progress":
            self.kept.append(line)
            return
        yield json.dumps(message).encode() + b"\n"
        if "method" not in message:
            yield from self.kept
            self.kept.clear()
        if self.name == "twice" and "content" in message.get("result", {}):
            yield line
        if self.name == "hoarse" and asks:
            yield b"Traceback (most recent call last):\n"


def main() -> None:
    fault = Fault(sys.argv[1])
    bridge = subprocess.Popen([sys.executable, "-m", "abp_bridge", *sys.argv[2:]], stdout=subprocess.PIPE)
    assert bridge.stdout is not None
    for line in bridge.stdout:
        for each in fault.passed(line):
            sys.stdout.buffer.write(each)
        sys.stdout.buffer.flush()
    sys.exit(bridge.wait())


if __name__ == "__main__":
    main()
