"""A model that is given everything it can read: results, logs, stderr, traces, the words of an app.
It cannot open, answer or guess a question's page; no more can somebody else on this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from support.browser import LINK, Browser
from support.harness import PATIENCE, Hosted, hosted, text
from support.paths import ROOT
from support.programs import Programs
from support.terminal import Tty

from abp_bridge.surfaces.notify import CODE_LIMIT
from abp_bridge.surfaces.page.browser import MAX_CODES

Json = Any

QUESTION = "Your favourite town?"
ASKED: Json = {
    "method": "elicitation/input",
    "params": {"prompt": QUESTION, "schema": {"type": "string", "title": "Town"}},
}
PASSWORD: Json = {"method": "elicitation/input", "params": {"prompt": "Your password?"}}
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/code/[\w-]+")
PAGE = ("--app", "demo", "--page", "--ask-on", "page")


async def request(path: str, **posted: str) -> tuple[int, str]:
    """What a program without cookies gets there: (the status, the page)."""
    browser = Browser()

    def send() -> tuple[int, str]:
        try:
            browser.open(path)
            if posted:
                browser.post(**posted)
        except HTTPError as refused:
            return refused.code, refused.read().decode()
        except URLError:  # the page ended while this was sent
            return 0, ""
        return 200, browser.page

    return await anyio.to_thread.run_sync(send)


async def address_of(host: Hosted, asked: Json = ASKED) -> str:
    """Have it asked: the address that the model is told."""
    said = text(await host.call("demo.ask", request=asked))
    found = ADDRESS.findall(said)
    assert found, said
    return str(found[0])


async def wait_again(host: Hosted) -> str:
    """Come back to the newest call, as it said: what it says now."""
    said = json.dumps(host.wire.lines)
    call = re.findall(r'abp_wait with [^"]*"call[^"]*": [^"]*"([\w-]+)', said)[-1]
    return text(await host.client.call_tool("abp_wait", {"call": call}))


async def outcome_of(host: Hosted) -> Json:
    return json.loads(await wait_again(host))


@pytest.mark.slow
async def test_nothing_that_a_model_can_read_opens_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Log and trace in files, stderr, the results and the status: an address, and no token, and the
    code only where the person looks.
    """
    files = ["--log-level", "debug", "--log-file", str(tmp_path / "log")]
    files += ["--record", str(tmp_path / "trace")]
    with Tty() as terminal:
        async with hosted(*PAGE, *files, "--tty", terminal.name) as host:
            address = await address_of(host)
            shown = terminal.until(r"code \S+\s")
            readable = json.dumps([host.wire.lines, await host.status()])
            (link,), code = LINK.findall(shown), shown.split("code ")[-1].split()[0]
            status, page = await request(address)
            assert status == 200
            assert QUESTION not in page
            await request(link)
        readable += (
            "".join(each.read_text() for each in tmp_path.iterdir()) + capfd.readouterr().err
        )
    token = link.rpartition("/")[2]
    for secret in (token, code, code.replace("-", ""), "/open/"):
        assert secret not in readable
    assert urlsplit(link).path not in page


@pytest.mark.slow
async def test_guesses_are_bounded_and_the_question_goes_on_down_the_ladder() -> None:
    """A model that guesses ends the page, and is asked itself, where that is allowed."""
    with Tty() as terminal:
        options = ["--tty", terminal.name, "--ask-via-model", "--ask-on", "page,model-relay"]
        async with hosted("--app", "demo", "--page", *options) as host:
            address = await address_of(host)
            code = terminal.code()
            for left in range(MAX_CODES - 1, 0, -1):
                status, page = await request(address, code="BBBB-BBBB")
                assert (status, f"try {left} more" in page) == (403, True)
            await request(address, code="BBBB-BBBB")
            assert QUESTION not in (await request(address, code=code))[1], "the right one, too late"
            told = await wait_again(host)
            assert "call abp_answer" in told
            assert QUESTION in told


@pytest.mark.slow
async def test_a_secret_that_is_guessed_at_is_refused_with_the_count() -> None:
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host, PASSWORD)
            terminal.code()
            for _ in range(MAX_CODES):
                await request(address, code="BBBB-BBBB")
            response = await outcome_of(host)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert f"a wrong code was given {MAX_CODES} times" in response["error"]["message"]


@pytest.mark.slow
async def test_what_is_no_code_at_all_is_a_guess_too() -> None:
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host, PASSWORD)
            for given in ("", "x" * 1000, "%00", "0", "é"):
                await request(address, code=given)
            assert "5 times" in (await outcome_of(host))["error"]["message"]


@pytest.mark.slow
async def test_who_only_knows_the_port_finds_nothing_and_costs_the_person_nothing() -> None:
    """Somebody else on this machine sees that there is a server."""
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            address = await address_of(host)
            site, id = address.split("/code/")
            code = terminal.code()
            for path in ("", "code", "code/", "code/BBBB", f"open/{id}", f"open/{code}", f"q/{id}"):
                for posted in ({}, {"code": code}):
                    status, page = await request(f"{site}/{path}", **posted)
                    assert status in (403, 404, 405)
                    assert QUESTION not in page
            person = Browser()
            await anyio.to_thread.run_sync(person.open, address)
            await anyio.to_thread.run_sync(lambda: person.post(code=code.lower().replace("-", " ")))
            assert QUESTION in person.page
            status, page = await request(address, code=code)
            assert (status, "This link was used" in page) == (403, True)
            await anyio.to_thread.run_sync(lambda: person.send(**{"field-0": "Turku"}))
            assert (await outcome_of(host))["data"] == {"value": "Turku"}


# --- the code in a notification -------------------------------------------------------------------

NOTIFIED = (*PAGE, "--notify")
CODE = re.compile(r"The code of its page: (\S+)$")


async def code_of(programs: Programs) -> str:
    """The code that the desktop was given to show."""
    with anyio.fail_after(PATIENCE):
        while True:
            for run in programs.runs():
                if shown := CODE.search(run[-1]):
                    return shown[1]
            await anyio.lowlevel.checkpoint()


def processes(host: Hosted) -> list[Path]:
    """The bridge and all that come of it, as the kernel shows them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    assert host.pipes.process is not None
    found = [host.pipes.process.pid]
    for each in found:
        found += children.get(each, [])
    return [Path(f"/proc/{each}") for each in found]


def read_all(files: Iterable[Path]) -> str:
    """What is in these files, as far as they can be read."""
    texts = []
    for file in files:
        with contextlib.suppress(OSError):
            texts.append(file.read_text(errors="replace") if file.is_file() else "")
    return "\n".join(texts)


def arguments(host: Hosted) -> list[str]:
    """Those of the bridge, and of each process that comes of it."""
    return [read_all([each / "cmdline"]) for each in processes(host)]


async def read_everything(host: Hosted) -> str:
    """Every message, the status, and the environment and arguments of all processes, but for what
    `notify-send` is given.
    """
    environments = read_all(each / "environ" for each in processes(host))
    others = [each for each in arguments(host) if "notify-send" not in each]
    messages = json.dumps([host.wire.lines, await host.status()])
    return "\n".join([messages, environments, *others])


def spied(programs: Programs, home: Path) -> AbstractAsyncContextManager[Hosted]:
    """A bridge that shows its codes on the desktop, and writes all that it writes into `home`."""
    home.mkdir()
    files = ["--log-level", "debug", "--log-file", str(home / "log")]
    files += ["--record", str(home / "trace"), "--output-dir", str(home / "results")]
    env = programs.environment(HOME=str(home), TMPDIR=str(home), XDG_RUNTIME_DIR=str(home))
    return hosted(*NOTIFIED, *files, env=env)


def assert_no_way_in(readable: str, code: str) -> None:
    assert LINK.search(readable) is None
    assert code not in readable
    assert code.replace("-", "") not in readable


@pytest.mark.process
async def test_a_hostile_host_does_not_find_the_code_of_a_notification(
    programs: Programs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """While `notify-send` runs, only its arguments have it; and it is killed after a while."""
    programs.add("notify-send", hangs=True)
    home = tmp_path / "home"
    async with spied(programs, home) as host:
        await address_of(host)
        code = await code_of(programs)
        assert [each for each in arguments(host) if code in each], "as the documents say"
        readable = await read_everything(host)
        with anyio.fail_after(PATIENCE):
            while code in "".join(arguments(host)):
                await anyio.lowlevel.checkpoint()
        words = (await outcome_of(host))["error"]["message"]
        assert "no desktop took the notification of its code" in words
        readable += await read_everything(host) + read_all(home.rglob("*"))
    readable += read_all(home.rglob("*")) + capfd.readouterr().err
    assert "code, which a notification shows them" in readable
    assert_no_way_in(readable, code)


@pytest.mark.parametrize("document", ["SECURITY.md", "docs/page.md"])
def test_for_how_long_a_code_can_be_read_is_said(document: str) -> None:
    words = " ".join((ROOT / document).read_text().split())
    assert f"in the arguments of `notify-send`, for {CODE_LIMIT:g} seconds at most" in words


@pytest.mark.process
async def test_nothing_that_a_hostile_host_tries_opens_the_page(
    programs: Programs, tmp_path: Path
) -> None:
    programs.add("notify-send")
    async with spied(programs, tmp_path / "home") as host:
        address = await address_of(host)
        code = await code_of(programs)
        site, id = address.split("/code/")
        for path in (f"open/{id}", f"go/{id}", f"q/{id}", "go/", "", "events"):
            status, page = await request(f"{site}/{path}")
            assert (status in (403, 404), QUESTION in page) == (True, False)
        for words in set(re.findall(r"[\w-]{8,}", await read_everything(host))):
            assert (await request(f"{site}/open/{words}"))[0] == 403
        status, page = await request(address, code="BBBB-BBBB")
        assert (status, f"try {MAX_CODES - 1} more" in page) == (403, True)
        assert (await request(address, action="send", **{"field-0": "Evil"}))[0] == 403
        person = Browser()
        await anyio.to_thread.run_sync(person.open, address)
        await anyio.to_thread.run_sync(lambda: person.post(code=code))
        assert QUESTION in person.page
        assert (await request(address, code=code))[0] == 403, "it works once"
        await anyio.to_thread.run_sync(lambda: person.send(**{"field-0": "Turku"}))
        assert (await outcome_of(host))["data"] == {"value": "Turku"}
        readable = await read_everything(host)
    assert_no_way_in(readable + read_all((tmp_path / "home").rglob("*")), code)


@pytest.mark.process
async def test_a_notification_that_hangs_holds_no_question_up(programs: Programs) -> None:
    programs.add("notify-send", hangs=True)
    async with hosted(*NOTIFIED, env=programs.environment()) as host:
        address = await address_of(host)
        code = await code_of(programs)
        assert programs.hanging
        person = Browser()
        await anyio.to_thread.run_sync(person.open, address)
        await anyio.to_thread.run_sync(lambda: person.post(code=code))
        await anyio.to_thread.run_sync(lambda: person.send(**{"field-0": "Turku"}))
        assert (await outcome_of(host))["data"] == {"value": "Turku"}
    assert not programs.hanging, "it ends with the bridge"


@pytest.mark.process
async def test_a_notification_that_nobody_saw_after_all_ends_its_page(programs: Programs) -> None:
    programs.add("notify-send", 1, hangs=True)
    async with hosted(*NOTIFIED, env=programs.environment()) as host:
        address = await address_of(host)
        await code_of(programs)
        with anyio.fail_after(PATIENCE):
            while programs.hanging:
                programs.release()
                await anyio.lowlevel.checkpoint()
        response = await outcome_of(host)
        assert "no desktop took the notification of its code" in response["error"]["message"]
        assert "no longer open here" in (await request(address))[1]


@pytest.mark.slow
async def test_without_a_desktop_no_model_is_told_of_a_code(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.run_here(monkeypatch)
    async with hosted(*NOTIFIED, env={"PATH": str(programs.folder)}) as host:
        response = await host.ask(ASKED["method"], **ASKED["params"])
        assert "its model is given no link to the page" in response["error"]["message"]
        assert ADDRESS.search(json.dumps(host.wire.lines)) is None


@pytest.mark.slow
async def test_who_guesses_while_the_person_has_it_open_takes_nothing_from_them() -> None:
    with Tty() as terminal:
        async with hosted(*PAGE, "--tty", terminal.name) as host:
            person, shown = Browser(), await address_of(host)
            await anyio.to_thread.run_sync(person.open, shown)
            await anyio.to_thread.run_sync(lambda: person.post(code=terminal.code()))
            other = await address_of(host, PASSWORD)
            code = terminal.code()
            await anyio.to_thread.run_sync(person.open, urljoin(person.url, "../"))
            (path,) = re.findall(r'href="([^"]+)"[^>]*>[^\n]*password', person.page)
            await anyio.to_thread.run_sync(person.open, urljoin(person.url, path))
            for _ in range(MAX_CODES):
                await request(other, code="BBBB-BBBB")
            status, page = await request(other, code=code)
            assert (status, "This link was used" in page) == (403, True)
            await anyio.to_thread.run_sync(lambda: person.send(**{"field-0": "1234"}))
            assert (await outcome_of(host))["data"] == {"value": "1234"}
