"""Demos in a folder of the user, and the calls of `demos.json` that are made on them."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from abp_bridge.apps.browser.chromium import find_chromium
from abp_bridge.settings import read_settings

Json = Any

HERE = Path(__file__).parent
KNOWN: dict[str, list[Json]] = json.loads((HERE / "demos.json").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Demo:
    """A folder with a page, or an extension; `reason` is why it is not run, if it is not."""

    name: str
    folder: Path
    extension: bool = False
    reason: str = ""

    @property
    def steps(self) -> list[Step]:
        return [Step(**each) for each in KNOWN.get(self.name, [])]


@dataclass(frozen=True, slots=True)
class Step:
    """A call, or a page that cannot be connected."""

    call: str  # the capability; empty where `result` says why none can be connected
    given: Json = field(default_factory=dict)  # with `$NAME` for what was kept
    asks: Sequence[Json] = ()  # words of each question, and `accept` with changes or `decline`
    result: str = ""  # A pattern of the result
    keep: Json = field(default_factory=dict)  # of the result: name -> its place
    again: bool = False  # call again until the result matches
    page: str = ""  # the page below the demo's folder


def find_demos(folder: Path) -> list[Demo]:
    """Those in `folder`: it is one, or its folders are, or those of `demos` in it."""
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}")
    if (own := _read(folder)).reason == "":
        return [own]
    inner = folder / "demos" if (folder / "demos").is_dir() else folder
    return [_read(each) for each in sorted(inner.iterdir()) if each.is_dir()]


def _read(folder: Path) -> Demo:
    folder = folder.resolve()
    if (folder / "package.json").exists():
        return Demo(folder.name, folder, reason="it has to be built (package.json)")
    if (manifest := folder / "manifest.json").exists():
        said = json.loads(manifest.read_text(encoding="utf-8"))
        if "manifest_version" in said and (folder / "abp-app.html").exists():
            return Demo(said.get("short_name", folder.name), folder, extension=True)
    if (folder / "index.html").exists():
        return Demo(folder.name, folder)
    return Demo(folder.name, folder, reason="it has no index.html, and is no extension with a page")


class _Files(SimpleHTTPRequestHandler):
    """The files of a folder, without a word, their texts as UTF-8."""

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        kind = super().guess_type(path)
        return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path, secured: Path | None = None) -> Iterator[str]:
    """Serve this folder; as https with a key in the folder `secured`, if one is given."""
    handler = partial(_Files, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if secured is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*_certificate(secured))
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http{'s' if secured else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    named = ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *named]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


def trusting_chromium(folder: Path) -> Path:
    program = folder / "chromium"
    found = find_chromium(read_settings())
    program.write_text(f'#!/bin/sh\nexec {found} --ignore-certificate-errors "$@"\n')
    program.chmod(0o700)
    return program
