"""A browser without a window (`Browser`), a Chromium to drive, and an X display with a mouse.

As a program (for `BROWSER`) it opens an address and answers no. XTEST presses count as the user's.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.to_thread
import mcp_types as types

from abp_bridge.conformance.user_drivers import FormFields, PageBrowser, encode_form
from abp_bridge.core.file import File
from abp_bridge.settings import read_settings
from support.peer import PATIENCE

PASSWORD = "hunter2"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/open/[\w-]+")


class Browser(PageBrowser):
    """A browser without a window; `page` is the last page that it loaded."""

    def __init__(self) -> None:
        super().__init__(timeout=PATIENCE)
        self.page = ""

    def open(self, url: str) -> str:
        self.page = unescape(self.load(url).decode())
        return self.page

    def listen(self) -> None:
        """Follow what is open, as a page with scripts does, until `close`."""
        home = urljoin(self.url, "../events")
        self._stream = self.opener.open(home, timeout=PATIENCE)
        self._stream.readline()

    def close(self) -> None:
        self._stream.close()

    def send(self, **filled: str) -> None:
        self.post(guard=self._guard(), **{"action": "send", **filled})

    def post(self, **fields: str) -> None:
        self._post(list(fields.items()), multipart=False)

    def give(self, name: str, mime_type: str, content: bytes) -> None:
        file = File(content, mime_type, name)
        fields: FormFields = [("guard", self._guard()), ("action", "send"), ("field-0", file)]
        self._post(fields, multipart=True)

    def _guard(self) -> str:
        found = re.search(r'name="guard" value="([^"]+)"', self.page)
        assert found is not None, self.page
        return found[1]

    def _post(self, fields: FormFields, *, multipart: bool) -> None:
        self.page = unescape(
            self.load(self.url, *encode_form(fields, multipart=multipart)).decode()
        )


def type_on_the_page(words: str, key: str) -> None:
    """Follow the link in `words`, and send `key` as the answer."""
    found = LINK.search(words)
    assert found is not None, words
    browser = Browser()
    browser.open(found[0])
    browser.send(**{"field-0": key})
    assert "Thank you" in browser.page


async def give_password(params: types.ElicitRequestParams) -> types.ElicitResult:
    """What a person does with the link that their host shows them: `PASSWORD` is in the form."""
    assert isinstance(params, types.ElicitRequestURLParams)
    browser = Browser()
    await anyio.to_thread.run_sync(browser.open, params.url)
    await anyio.to_thread.run_sync(lambda: browser.send(**{"field-0": PASSWORD}))
    return types.ElicitResult(action="accept")


@contextmanager
def running_chromium(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """It runs with these options and pages, and a profile in `folder`: where it is driven."""
    lean = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"  # half of a start
    from abp_bridge.apps.browser.chromium import find_chromium

    options = ["--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={folder}", lean]
    command = [str(find_chromium(read_settings())), *options, *words]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as browser:
        assert browser.stderr is not None
        said = next(line for line in browser.stderr if "DevTools listening on" in line)
        drain = threading.Thread(target=browser.stderr.read)
        drain.start()
        try:
            yield f"http://127.0.0.1:{urlsplit(said.split()[-1]).port}"
        finally:
            browser.terminate()
            drain.join()


_QUERY, _FOCUS, _FAKE = 98, 43, 2
_PRESS, _RELEASE, _MOVE = 4, 5, 6


@dataclass(frozen=True)
class Display:
    """A running X server: `name` as $DISPLAY has it, and the file that holds its picture."""

    name: str
    picture: Path

    def colour(self, x: int, y: int) -> str:
        """What is drawn there, as `#rrggbb`."""
        held = self.picture.read_bytes()
        header = struct.unpack(">25I", held[:100])
        size, depth, row, colours = header[0], header[11], header[12], header[19]
        at = size + colours * 12 + y * row + x * (depth // 8)
        blue, green, red = held[at : at + 3]
        return f"#{red:02x}{green:02x}{blue:02x}"

    async def until(self, colour: str, x: int = 300, y: int = 300) -> None:
        """Look there, where no pointer is, until it is drawn so."""
        with anyio.fail_after(PATIENCE):
            while await anyio.to_thread.run_sync(self.colour, x, y) != colour:
                pass

    def press(self, x: int = 500, y: int = 500) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(PATIENCE)
            server.connect(f"/tmp/.X11-unix/X{self.name.removeprefix(':')}")
            server.sendall(b"l\0" + struct.pack("<HHHHH", 11, 0, 0, 0, 0))
            ok, _, _, _, rest = struct.unpack("<BBHHH", _read(server, 8))
            assert ok == 1, "the display lets nobody in"
            _read(server, rest * 4)
            server.sendall(struct.pack("<BBHHH", _QUERY, 0, 4, 5, 0) + b"XTEST\0\0\0")
            extension = _read(server, 32)[9]
            for kind, button in ((_MOVE, 0), (_PRESS, 1), (_RELEASE, 1)):
                event = struct.pack("<BBHIIQhh", kind, button, 0, 0, 0, 0, x, y)
                server.sendall(struct.pack("<BBH", extension, _FAKE, 9) + event + bytes(8))
            server.sendall(struct.pack("<BBH", _FOCUS, 0, 1))  # it answers when all that is done
            _read(server, 32)


def _read(server: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = server.recv(size - len(read))
        assert more, "the display is gone"
        read += more
    return read


@contextmanager
def display(size: str = "1000x800") -> Iterator[Display]:
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        shown = ["-displayfd", str(writing), "-screen", "0", f"{size}x24", "-fbdir", folder]
        command = ["Xvfb", *shown, "-nolisten", "tcp"]
        with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
            os.close(writing)
            try:
                with open(reading) as said:
                    number = said.readline().strip()
                yield Display(f":{number}", Path(folder, "Xvfb_screen0"))
            finally:
                server.terminate()


if __name__ == "__main__":
    visitor = Browser()
    visitor.open(sys.argv[1])
    visitor.send(action="no")
