"""One page in three programs, where its tools need the user; noted in `results.json`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest
from support.pages.server import web

from . import results
from .programs import (
    ANSWER_LIMIT,
    OTHER_LIMIT,
    PACKAGES,
    PATIENCE,
    PROGRAMS,
    Bridge,
    Playwright,
    Program,
)

SECRET = "open-sesame"
NOBODY = "nobody is asked"


@pytest.fixture
def page() -> Iterator[str]:
    with web() as site:
        yield f"{site.here}/tools.html"


def form(program: Program) -> str:
    program.yes = {"guests": 4}
    call = program.begin_page_call("book_table", {"name": "Ada"})
    words = program.await_words(call, ANSWER_LIMIT)
    if program.asked:
        assert words is not None
        assert '"guests": "4"' in words
        assert '"guests": "2"' not in words
        return f"{_shown(program)}, filled in; what they changed is what was sent"
    assert words is None, words
    waits = f"{NOBODY}; no answer in {ANSWER_LIMIT:g} s"
    other = program.await_words(program.begin_page_call("add", {"a": 1, "b": 2}), OTHER_LIMIT)
    if other is None:
        return f"{waits}, nor to any later call of another tool ({OTHER_LIMIT:g} s)"
    waits = f"{waits}; other tools are answered"
    if isinstance(program, Playwright):
        shown = program.call_tool("browser_snapshot")
        (ref,) = re.findall(r'button "Book now"[^\n]*\[ref=(\w+)\]', shown)
        program.begin_tool("browser_click", element="Book now", target=ref, ref=ref)
        sent = program.await_words(call, OTHER_LIMIT)
        if sent is not None and '"sent"' in sent:
            return f"{waits}; the model's own `browser_click` on the button sends it"
    return waits


def nobody(program: Program) -> str:
    """A form that waits, whose person does not answer."""
    program.answers = False
    began = time.monotonic()
    call = program.begin_page_call("book_table", {"name": "Ada"})
    words = program.await_words(call, ANSWER_LIMIT)
    if words is None:
        return f"no answer in {ANSWER_LIMIT:g} s"
    assert "abp_wait" in words
    took = time.monotonic() - began
    return (
        f"of a host that waits {PATIENCE:g} s the call comes back after {took:.0f} s: it is still"
        " open, `abp_wait` brings its end, and nothing is sent"
    )


def declined(program: Program) -> str:
    program.yes = None
    words = program.await_words(program.begin_page_call("book_table", {}), ANSWER_LIMIT)
    if not program.asked:
        return "there is no question to say no to"
    assert words is not None
    assert words.startswith("USER_CANCELLED: Nothing was sent")
    return "nothing is sent; the model reads that the person said no"


def dialog(program: Program) -> str:
    program.yes = {"confirmed": "Yes"}
    words = program.await_words(program.begin_page_call("ask", {}), ANSWER_LIMIT)
    if words is None:
        other = program.await_words(program.begin_page_call("add", {"a": 1}), OTHER_LIMIT)
        later = "answered" if other else f"not answered either ({OTHER_LIMIT:g} s)"
        return f"{NOBODY}; no answer in {ANSWER_LIMIT:g} s; a later call is {later}"
    if program.asked:
        assert '"sure"' in words
        return f"{_shown(program)}; the page has their answer"
    assert "browser_handle_dialog" in words, words
    program.call_tool("browser_handle_dialog", accept=True)
    return f"{NOBODY}; the model is told of it, and answers it by `browser_handle_dialog`"


def consequential(program: Program) -> str:
    marked = "CONSEQUENTIAL" in program.parameters("wipe")
    program.yes = None
    words = program.await_words(program.begin_page_call("wipe", {}), ANSWER_LIMIT)
    assert words is not None
    if program.asked:
        assert "was not called" in words
        return f"{_shown(program)} before it is called; after a no it is not"
    assert '"wiped": true' in words
    told = "its description tells the model to ask" if marked else "the model reads the hint"
    return f"called at once, {NOBODY}; {told}"


def password(program: Program) -> str:
    given = '"secret"' in program.parameters("sign_in")
    program.secret = SECRET
    params = {"user": "ann", **({"secret": SECRET} if given else {})}
    words = program.await_words(program.begin_page_call("sign_in", params), ANSWER_LIMIT)
    if program.asked:
        return _kept(program, given, words)
    assert given
    assert words is None, words
    return "a parameter: the model gives it. Then as the form that waits"


def pin(program: Program) -> str:
    given = '"pin"' in program.parameters("login")
    program.secret = SECRET
    params = {"user": "ann", **({"pin": SECRET} if given else {})}
    words = program.await_words(program.begin_page_call("login", params), ANSWER_LIMIT)
    if program.asked:
        return _kept(program, given, words)
    assert given
    assert words is not None
    assert SECRET in words
    return f"a parameter: the model gives it, {NOBODY}, and the model reads it in the result"


def _kept(program: Program, given: bool, words: str | None) -> str:
    assert not given
    assert words is not None
    assert "[secret]" in words
    assert SECRET not in words
    assert [each.get("mode") for each in program.asked] == ["url"]
    return "no parameter: the person types it on the bridge's page, and the model has `[secret]`"


def _shown(program: Program) -> str:
    (asked,) = program.asked
    assert asked.get("mode", "form") == "form"
    return "the person is asked, by the host's own form"


CASES = {
    "form": form,
    "declined": declined,
    "nobody": nobody,
    "dialog": dialog,
    "consequential": consequential,
    "password": password,
    "pin": pin,
}


@pytest.mark.parametrize("kind", PROGRAMS, ids=[each.name for each in PROGRAMS])
def test_tool_that_needs_the_user(kind: type[Program], page: str, tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    for case, look in CASES.items():
        folder = tmp_path / case
        folder.mkdir()
        with kind(page, folder) as program:
            program.greet()
            seen[case] = look(program)
    assert list(seen) == list(results.CASES)
    package = PACKAGES.get(kind.name)
    found = version("abp-bridge") if package is None else package.version
    name = kind.name if package is None else package.name
    today = datetime.now(UTC).date().isoformat()
    results.note(kind.name, results.Program(kind.name, name, found, today, seen))
    assert (kind is Bridge) == ("asked" in seen["form"] and NOBODY not in seen["form"])
