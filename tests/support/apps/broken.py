"""The bridge with a fault, for tests of the replay: `broken.py FAULT ARGUMENT...`.

Towards the host: drop (an option), twice (calls are answered twice), three (options at most), mute
(no questions), hoarse (a line that is not JSON), early (a result before its progress), flood (one
notification forever), endless (a line), more (at the terminal), eager (an answer before its call),
crash (exit code 70), tools (one less), page (one option less on the question page).

Towards the app: double (a second answer), same-id (all requests), invent (a yes), orphan (it is
left running), killed, spare (started twice), again (two shutdowns).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Json = Any
_TABLE: Json = json.loads(Path(__file__).with_name("broken.json").read_text())
TOWARDS_THE_APP, YES, RESULT = (_TABLE[name] for name in ("towards_the_app", "yes", "result"))
CUT_PAGE = """
import sys
import abp_bridge.surfaces.page.controls as controls
whole = controls._options
controls._options = lambda asked, values, words: [
    option
    for option in whole(asked, values, words)
    if option.label != "first"
]
from abp_bridge.cli.main import entry
sys.exit(entry())
"""
LISTS = ("enum", "oneOf", "anyOf", "options")


def cut(value: Json, by: Callable[[list[Json]], list[Json]]) -> Json:
    if isinstance(value, dict):
        return {
            name: by(each) if name in LISTS and isinstance(each, list) else cut(each, by)
            for name, each in value.items()
        }
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
        if self.name == "tools" and "tools" in message.get("result", {}):
            del message["result"]["tools"][0]
        if self.name == "mute" and asks:
            return
        if self.name == "eager" and message.get("id") == 2 and not asks:
            return
        if self.name == "early" and message.get("method") == "notifications/progress":
            self.kept.append(line)
            return
        yield json.dumps(message).encode() + b"\n"
        if "method" not in message:
            yield from self.kept
            self.kept.clear()
        if self.name == "eager" and "protocolVersion" in message.get("result", {}):
            yield json.dumps(RESULT).encode() + b"\n"
        if self.name == "twice" and "content" in message.get("result", {}):
            yield line
        if self.name == "hoarse" and asks:
            yield b"Traceback (most recent call last):\n"


class Between:
    def __init__(self, name: str, command: list[str]) -> None:
        self._name = name
        self._command = command
        self._app = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=name == "orphan",
        )
        self._id: Json = None
        self._answer = b""

    def run(self) -> None:
        assert self._app.stdin is not None
        threading.Thread(target=self._up, daemon=True).start()
        for line in sys.stdin.buffer:
            for each in self._down(line):
                self._app.stdin.write(each)
            self._app.stdin.flush()
        if self._name == "orphan":  # somebody holds its stdin open
            subprocess.Popen(
                ["sleep", "6"],
                pass_fds=[self._app.stdin.fileno()],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
            )
            os._exit(0)
        self._app.stdin.close()
        self._app.wait()

    def _down(self, line: bytes) -> Iterator[bytes]:
        message = json.loads(line)
        if "method" not in message:
            if self._name == "invent":
                return
            self._answer = line
        if message.get("method") == "shutdown":
            yield {"double": self._answer, "again": line}.get(self._name, b"")
        if self._name == "same-id" and "method" in message and "id" in message:
            self._id = message["id"]
            line = json.dumps({**message, "id": "1"}).encode() + b"\n"
        yield line

    def _up(self) -> None:
        assert self._app.stdout is not None
        for line in self._app.stdout:
            message = json.loads(line)
            if self._name == "same-id" and "method" not in message:
                line = json.dumps({**message, "id": self._id}).encode() + b"\n"  # noqa: PLW2901
            if self._name == "invent" and message.get("method") == "elicitation/confirm":
                assert self._app.stdin is not None
                self._app.stdin.write(
                    json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": YES}).encode()
                    + b"\n"
                )
                self._app.stdin.flush()
                continue
            if self._name == "spare":  # the first runs, and nothing goes on until the second does
                subprocess.run(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False
                )
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            if self._name == "killed" and "capabilities" in message.get("result", {}):
                self._app.kill()


def stood_between(fault: str, word: str, folder: str) -> str:
    kind, _, command = word.partition(":")
    if kind != "stdio" or fault not in TOWARDS_THE_APP:
        return word
    program = os.path.join(folder, os.path.basename(shlex.split(command)[0]))
    with open(program, "w") as file:
        file.write(
            f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(__file__)} --between"
            f" {fault} {command}\n"
        )
    os.chmod(program, 0o700)
    return f"stdio:{program}"


def said_without_end(fault: str) -> None:
    piece = (
        b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n'
        if fault == "flood"
        else b"x"
    )
    while True:
        sys.stdout.buffer.write(1_000 * piece)


def main() -> None:
    fault, arguments = Fault(sys.argv[1]), sys.argv[2:]
    if fault.name == "--between":
        Between(arguments[0], arguments[1:]).run()
        return
    if fault.name in ("flood", "endless"):
        said_without_end(fault.name)
    with tempfile.TemporaryDirectory() as folder:
        words = [stood_between(fault.name, word, folder) for word in arguments]
        start = ["-c", CUT_PAGE] if fault.name == "page" else ["-m", "abp_bridge"]
        bridge = subprocess.Popen([sys.executable, *start, *words], stdout=subprocess.PIPE)
        assert bridge.stdout is not None
        for line in bridge.stdout:
            for each in fault.passed(line):
                sys.stdout.buffer.write(each)
            sys.stdout.buffer.flush()
        code = bridge.wait()
    if fault.name == "more":
        with open(arguments[arguments.index("--tty") + 1], "w") as terminal:
            terminal.write("One thing more\n")
    if fault.name == "crash":
        code = 70
    sys.exit(code)


if __name__ == "__main__":
    main()
