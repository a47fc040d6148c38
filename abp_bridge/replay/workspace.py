"""What a bridge is started in to play a fixture: a folder of its own with the fixture's files,
stand-ins where its apps and its agent go, and an environment that has no settings but the
fixture's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from abp_bridge.replay import stand_in
from abp_bridge.replay.fixture import program
from abp_bridge.replay.policy import FOLDER, PORT, STANDS, TERMINAL, parties
from abp_bridge.replay.script import ReplayMismatchError
from abp_bridge.trace.format import Recording

_KEPT = ("ABP_CHROME", "ABP_CHROME_SANDBOX")  # where the browser is says nothing of the bridge


@contextmanager
def as_mismatch(what: str, more: str = "") -> Iterator[None]:
    """What the system refuses is a difference that says what was to be done."""
    try:
        yield
    except OSError as problem:
        raise ReplayMismatchError(f"{what}: {problem}{more}") from None


class Workspace:
    """The folder and the stand-ins of one fixture.

    `terminal` and `port` are what stands for `{tty}` and `{port}`.
    """

    def __init__(self, fixture: Recording, terminal: str, port: str) -> None:
        self._head = fixture.head
        self.parties = parties(fixture)
        with as_mismatch("there is no place for temporary files"):
            self._around = tempfile.mkdtemp(prefix="abp-replay-")
        self.folder = os.path.join(self._around, "here")
        self.socket = os.path.join(self._around, "s")
        self._stands = {FOLDER: self.folder, TERMINAL: terminal, PORT: port}
        with as_mismatch(f"the fixture's files cannot be laid out in {self._around}"):
            os.mkdir(self.folder)
            for name, text in self._head.files.items():
                Path(self.folder, name).write_text(text, encoding="utf-8", newline="")
            self._stands |= {f"{{{party}}}": self._stand_in(party) for party in self.parties}

    def close(self) -> None:
        shutil.rmtree(self._around, ignore_errors=True)

    def command(self, bridge: Sequence[str]) -> list[str]:
        """The whole command: a bridge that is told where its app is gets no other arguments."""
        more = () if any(STANDS.search(word) for word in bridge) else self._head.run
        return [self._placed(word, shlex.quote) for word in (*bridge, *more)]

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        kept = {
            name: value
            for name, value in environ.items()
            if not name.startswith("ABP_") or name in _KEPT
        }
        kept["PYTHONSAFEPATH"] = "1"  # of the fixture's files none is a module
        return kept | {name: self._placed(value, str) for name, value in self._head.env.items()}

    @property
    def places(self) -> dict[str, str]:
        """Paths of this machine, and what is said for them."""
        return {
            self.folder: "[folder]",
            os.path.expanduser("~"): "~",
            tempfile.gettempdir(): "[tmp]",
        }

    @property
    def known(self) -> dict[str, str]:
        return {"[folder]": self.folder, "[tmp]": tempfile.gettempdir(), "[python]": sys.prefix}

    def _placed(self, word: str, quoted: Callable[[str], str]) -> str:
        """A word with what stands for its words in braces; inside of a command it is quoted."""
        if word in self._stands:
            return self._stands[word]
        return re.sub(
            STANDS,
            lambda found: quoted(self._stands[found[0]]) if found[0] in self._stands else found[0],
            word,
        )

    def _stand_in(self, party: str) -> str:
        path = Path(self._around, "stand-ins", program(party))
        path.parent.mkdir(exist_ok=True)
        words = [sys.executable, "-IS", str(stand_in.__file__), self.socket, party]
        path.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        path.chmod(0o700)
        return str(path)
