"""Apps that are pages behind a login: signed in once in a window, then used from that profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.harness import PATIENCE, environment, hosted, run, text
from support.pages.members import Members, members

from abp_bridge.apps.browser.chromium import find_chromium
from abp_bridge.settings import read_settings

Json = Any

pytestmark = pytest.mark.anyio


@pytest.fixture
def site() -> Iterator[Members]:
    with members() as running:
        yield running


@contextmanager
def display() -> Iterator[str]:
    """A display that nobody sees, as $DISPLAY names it."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        try:
            with open(reading) as said:
                yield f":{said.readline().strip()}"
        finally:
            server.terminate()


def sign_in(site: Members, profile: Path, folder: Path, *more: str) -> Json:
    """What `login` says, in whose window somebody signs in and closes it: the page does both."""
    chrome = folder / "chrome"
    program = find_chromium(read_settings())
    allowed = "--blink-settings=allowScriptsToCloseWindows=true"
    chrome.write_text(f'#!/bin/sh\nexec {program} {allowed} "$@"\n')
    chrome.chmod(0o700)
    words = ["login", site.here, "--profile", str(profile), "--json", *more]
    with display() as shown:
        ended = subprocess.run(
            [sys.executable, "-m", "abp_bridge", *words],
            env=environment(DISPLAY=shown, ABP_CHROME=str(chrome)),
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert "then close it" in ended.stderr
    return json.loads(ended.stdout)


async def test_who_signed_in_once_is_signed_in_for_the_app(site: Members, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    told = sign_in(site, profile, tmp_path)
    assert told["serve"] == [
        *("abp-bridge", "serve", "--app", site.here),
        *("--profile", str(profile)),
    ]
    assert (profile.stat().st_mode & 0o777, site.signed_in) == (0o700, 1)
    async with hosted(*told["serve"][2:]) as bridge:
        assert "Ada" in text(await bridge.call("whoami"))
        # another one, as a second session of the same host starts it
        async with hosted(*told["serve"][2:]) as other:
            refused = text(await other.client.call_tool("abp_connect", {}))
            assert f"The profile {profile} is in use by process" in refused
            assert "--profile FOLDER" in refused
            # what a model names is signed in nowhere
            named = {"target": f"{site.here}/?"}
            refused = text(await other.client.call_tool("abp_connect", named))
            assert "private network" in refused
    assert site.signed_in == 1


WRONG: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a file": ("no folder", lambda folder: folder.write_text("x")),
    "a browser's own": ("profile of another browser", lambda folder: _fill(folder, "Local State")),
    "other files": ("holds other files", lambda folder: _fill(folder, "thesis.tex")),
}


def _fill(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).write_text("{}")


@pytest.mark.parametrize("what", WRONG)
def test_a_folder_that_is_no_profile_of_ours_is_left_alone(what: str, tmp_path: Path) -> None:
    why, make = WRONG[what]
    folder = tmp_path / "profile"
    make(folder)
    before = [*tmp_path.rglob("*"), folder.stat().st_mode]
    ended = run("serve", "--app", "http://127.0.0.1:9", "--profile", str(folder))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert why in ended.stderr
    assert [*tmp_path.rglob("*"), folder.stat().st_mode] == before


def test_without_a_display_login_says_what_to_do(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "abp_bridge", "login", "https://app.example"],
        env=environment(HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 1
    assert "there is no display" in ended.stderr
    assert "--browser-url" in ended.stderr
    assert list(tmp_path.iterdir()) == []
