"""Apps that are pages behind a login: signed in once in a window, then used from that profile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import async_playwright
from support.browser import display, running_chromium
from support.harness import PATIENCE, accept, environment, hosted, run, text
from support.pages.members import Members, members

from abp_bridge.apps.browser.chromium import find_chromium
from abp_bridge.settings import read_settings

Json = Any


@pytest.fixture
def site() -> Iterator[Members]:
    with members() as running:
        yield running


def sign_in(site: Members, profile: Path, folder: Path) -> Json:
    """What `login` says, in whose window somebody signs in and closes it: the page does both."""
    site.profile = profile
    chrome = folder / "chrome"
    program = find_chromium(read_settings())
    allowed = "--blink-settings=allowScriptsToCloseWindows=true"
    chrome.write_text(f'#!/bin/sh\nexec {program} {allowed} "$@"\n')
    chrome.chmod(0o700)
    words = ["login", site.here, "--profile", str(profile), "--json"]
    with display() as shown:
        ended = subprocess.run(
            [sys.executable, "-m", "abp_bridge", *words],
            env=environment(DISPLAY=shown.name, ABP_CHROME=str(chrome)),
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert "then close it" in ended.stderr
    return json.loads(ended.stdout)


@dataclass(frozen=True)
class Member:
    """Who has signed in at `site`, as `login` told, which `profile` keeps."""

    site: Members
    profile: Path
    told: Json


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    folder = tmp_path_factory.mktemp("member")
    profile = folder / "profile"
    with members() as site:
        yield Member(site, profile, sign_in(site, profile, folder))


@pytest.mark.process
@pytest.mark.browser
async def test_profile_of_login_is_signed_in_for_the_app(member: Member) -> None:
    site, profile, told = member.site, member.profile, member.told
    assert told["serve"] == [
        *("abp-bridge", "serve", "--app", site.here),
        *("--profile", str(profile)),
    ]
    assert (profile.stat().st_mode & 0o777, site.signed_in) == (0o700, 1)
    assert told["kept"]
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
            assert f"{site.here} was not opened" in refused
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
def test_folder_that_is_not_our_profile_is_not_changed(what: str, tmp_path: Path) -> None:
    why, make = WRONG[what]
    folder = tmp_path / "profile"
    make(folder)
    before = [*tmp_path.rglob("*"), folder.stat().st_mode]
    ended = run("serve", "--app", "http://127.0.0.1:9", "--profile", str(folder))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert why in ended.stderr
    assert [*tmp_path.rglob("*"), folder.stat().st_mode] == before


@pytest.mark.process
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


def test_an_address_that_is_none_is_named_before_a_display_is_looked_for(tmp_path: Path) -> None:
    ended = run("login", "app.example")
    assert ended.returncode == 1
    assert "'app.example' is no web address" in ended.stderr
    assert "display" not in ended.stderr


# --- a browser that runs already ------------------------------------------------------------------


def chromium(folder: Path, *pages: str) -> AbstractContextManager[str]:
    """A running Chromium of somebody's, with these pages open: where it is driven."""
    return running_chromium(folder, "--headless", *pages)


def tabs(url: str) -> list[Json]:
    with urlopen(f"{url}/json/list", timeout=PATIENCE) as listed:
        return [each for each in json.load(listed) if each["type"] == "page"]


async def until(running: str, reached: Callable[[list[Json]], object]) -> None:
    """Look at its tabs until they are as wanted."""
    with anyio.fail_after(PATIENCE):
        while not reached(await anyio.to_thread.run_sync(tabs, running)):
            pass


def titled(*titles: str) -> Callable[[list[Json]], bool]:
    return lambda there: [each["title"] for each in there] == [*titles]


OURS = """() => [Object.getOwnPropertyNames(window).filter((name) => name.startsWith('__abp')),
  String(window.print), String(console.error)].join()"""


@pytest.mark.browser
async def test_tab_of_a_running_browser_is_used_when_the_user_allows_it(
    site: Members, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answering(yes: bool) -> Callable[[Json], Json]:
        def answer(params: Json) -> Json:
            asked.append(params.message)
            return accept(confirmed=yes)(params)

        return answer

    with chromium(tmp_path, f"{site.here}/sign-in-page?stay") as running:
        await until(running, titled("Members"))
        (tab,) = tabs(running)
        words = ["--app", site.here, "--browser-url", running]
        async with hosted(*words, answer=answering(False)) as bridge:
            refused = text(await bridge.client.call_tool("abp_connect", {}))
            assert refused.endswith("running browser: the user did not allow that.")
        async with hosted(*words) as bridge:  # whose host can ask nobody
            refused = text(await bridge.client.call_tool("abp_connect", {}))
            assert "not connected in the running browser" in refused
        assert site.shown == 1
        for shown in ('"Members"', site.here, running):
            assert shown in asked[0]

        async with hosted(*words, answer=answering(True)) as bridge:
            assert "Ada" in text(await bridge.call("whoami"))
            assert len(asked) == 2
        whole = [(tab["id"], tab["url"])]
        await until(  # anew for us, and anew without us
            running,
            lambda now: site.shown == 3 and [(each["id"], each["url"]) for each in now] == whole,
        )
        async with async_playwright() as driver:
            browser = await driver.chromium.connect_over_cdp(running, no_defaults=True)
            (page,) = [each for each in browser.contexts[0].pages if each.url == tab["url"]]
            left = await page.evaluate(OURS)
            await browser.close()
        assert left.startswith(",")
        assert left.count("[native code]") == 2


@pytest.mark.browser
async def test_a_running_browser_without_a_tab_of_the_app_gets_one_that_is_closed(
    site: Members, tmp_path: Path
) -> None:
    with chromium(tmp_path, "data:text/html,<title>mine</title>") as running:
        await until(running, titled("mine"))
        words = ["--app", f"{site.here}/?open", "--browser-url", running]
        async with hosted(*words, answer=accept(confirmed=True)) as bridge:
            assert "nobody" in text(await bridge.call("whoami"))
        await until(running, titled("mine"))


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:9222", "http://browser.example:9222", "https://127.0.0.1:1", "9222"]
)
def test_browser_on_another_machine_is_refused(url: str) -> None:
    ended = run("serve", "--app", "https://app.example", "--browser-url", url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "it must be http://127.0.0.1:PORT, a browser on this machine" in ended.stderr


def test_a_profile_and_a_running_browser_are_two(tmp_path: Path) -> None:
    words = ["--profile", str(tmp_path / "p"), "--browser-url", "http://127.0.0.1:9222"]
    ended = run("serve", "--app", "https://app.example", *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "are two browsers: leave one of them out" in ended.stderr


# --- extensions -----------------------------------------------------------------------------------

EXTENSION = """
const app = { id: 'clip', name: 'Clip', version: '1.0.0' };
const capabilities = [{ name: 'name', description: 'What it is called', available: true }];
window.abp = {
  initialize: async () => ({ sessionId: 's', protocolVersion: '0.1', app, capabilities }),
  shutdown: async () => {},
  listCapabilities: async () => capabilities,
  call: async () => {
    const request = { method: 'elicitation/confirm', params: { message: 'Clip it?' } };
    const { data } = await window.__abp_elicitation(request);
    return { success: true, data: `${chrome.runtime.getManifest().name} ${data.confirmed}` };
  },
};
"""


@pytest.mark.browser
async def test_an_extension_in_a_folder_is_an_app(tmp_path: Path) -> None:
    folder = tmp_path / "my-extension"
    folder.mkdir()
    worker = {"background": {"service_worker": "worker.js"}}
    manifest = {"manifest_version": 3, "name": "Clipper", "version": "1", **worker}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "worker.js").write_text("")
    (folder / "abp-app.html").write_text('<title>Clip</title><script src="app.js"></script>')
    (folder / "app.js").write_text(EXTENSION)
    asked = []

    def person(params: Json) -> Json:
        asked.append(params.message)
        return accept(confirmed=True)(params)

    async with hosted("--app", str(folder), answer=person) as bridge:
        assert "Clipper true" in text(await bridge.call("name"))
        assert asked == ["extension my-extension asks: Clip it?"]
    async with hosted() as bridge:  # a model cannot name one, nor learn that it is there
        named = await bridge.client.call_tool("abp_connect", {"target": str(folder)})
        assert "is no app that can be connected" in text(named)
