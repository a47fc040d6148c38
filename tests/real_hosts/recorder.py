"""Become a program, beside a process that copies and records its stdin, stdout and stderr.

    python recorder.py PREFIX COMMAND ARG...

The caller has the program itself as its child. The recording process is nobody's child, so hosts do
not end it. PREFIX-PID.jsonl gets a line for each message (`time`, `from`, `message`), for each line
of stderr, and for each end (`closed`). The imports are few, as they take time from the program.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

START = time.monotonic()


class Record:
    """The file, written a line at a time from three threads."""

    def __init__(self, path: str) -> None:
        import threading

        self._file = open(path, "wb", buffering=0)  # noqa: SIM115
        self._lock = threading.Lock()

    def add(self, members: bytes) -> None:
        with self._lock:
            self._file.write(b'{"time": %.4f, %s}\n' % (time.monotonic() - START, members))

    def copy(self, who: bytes, source: BinaryIO, sink: BinaryIO) -> None:
        """Copy until either end is gone, then close both."""
        try:
            while line := source.readline():
                self.add(b'"from": "%s", "message": %s' % (who, line.rstrip(b"\r\n") or b"null"))
                sink.write(line)
            self.add(b'"closed": "%s"' % who)
            sink.close()
        except BrokenPipeError:
            source.close()

    def note(self, source: BinaryIO) -> None:
        import json

        while line := source.readline():
            self.add(b'"stderr": ' + json.dumps(line.decode(errors="replace").rstrip()).encode())


def main() -> None:
    prefix, *command = sys.argv[1:]
    name = f"{prefix}-{os.getpid()}.jsonl"
    (stdin, inward), (outward, stdout), (complaints, stderr) = os.pipe(), os.pipe(), os.pipe()
    if between := os.fork():
        os.waitpid(between, 0)
        for mine, standard in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(mine, standard)
        os.execvp(command[0], command)  # the pipes themselves are closed on exec
    os.setsid()
    if os.fork():
        os._exit(0)
    import threading

    for other in (stdin, stdout, stderr):
        os.close(other)
    record = Record(name)
    reading, answering = (os.fdopen(fd, "rb") for fd in (0, outward))
    asking, writing = (os.fdopen(fd, "wb", buffering=0) for fd in (inward, 1))
    threads = [
        threading.Thread(target=record.copy, args=(b"program", answering, writing)),
        threading.Thread(target=record.note, args=(os.fdopen(complaints, "rb"),)),
    ]
    threading.Thread(target=record.copy, args=(b"host", reading, asking), daemon=True).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)


if __name__ == "__main__":
    main()
