"""The page of a server's question behind `abp-bridge mcp`, under a host that cannot be asked: what
it shows, and what each button makes of the deed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.harness import PATIENCE
from support.mcp_proxy import Proxied, proxied
from support.paths import PYTHON
from support.programs import Programs

from abp_bridge.conformance.user_drivers import FormBrowser, origin_of

Json = Any


@pytest.fixture
def env(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    programs.run_here(monkeypatch)
    return programs.environment(BROWSER=programs.add("browser"))


def visit(programs: Programs) -> tuple[FormBrowser, Any]:
    """The browser that the question opened, and its page."""
    until = time.monotonic() + PATIENCE
    while not (runs := programs.runs()):
        assert time.monotonic() < until, "no browser was opened"
    browser = FormBrowser(origin_of(runs[0][1]), PATIENCE)
    page = browser.visit(runs[0][1])
    assert f"{PYTHON} mcp_server.py read deeds asks" in page.words
    return browser, page


def given(host: Proxied) -> Json:
    """The only answer that the server got: a person's, on the page."""
    (answer,) = [each["result"] for each in host.to_server() if "action" in each.get("result", {})]
    about = answer.pop("_meta")["abp"]
    assert (about["answeredBy"], about["route"][:4]) == ("person", "page")
    return answer


@pytest.mark.slow
def test_form_that_is_too_large_leaves_the_question_open(
    env: dict[str, str], programs: Programs, tmp_path: Path
) -> None:
    with proxied(tmp_path, env=env) as host:
        call = host.begin_call("fastmcp")
        browser, page = visit(programs)
        with pytest.raises(ValueError, match=r"HTTP 413: .*Not taken"):
            browser.submit(page, [*page.fields(["Ada"], "Send"), ("more", "x" * 2**20)])
        browser.submit(page, page.fields(["Ada"], "Send"))
        host.response(call)
        assert host.deeds == ["Ada"]


BUTTONS: dict[str, tuple[str, str, list[str], Json]] = {
    "mongodb, yes": ("**Drop** the database `test`?", "Yes, do it", [], {"confirmation": "Yes"}),
    "mongodb, no": ("**Drop** the database `test`?", "No", [], None),
    "okta, yes": ("Deactivate the user?", "Deactivate", [], {"confirm": True}),
    "azure, yes": ("Read the secret?", "Read", [], {"decision": "accept"}),
    "azure, cancel": ("Read the secret?", "Do not answer", [], None),
    "fastmcp, a name": ("Name?", "Send", ["Ada"], {"value": "Ada"}),
    "supabase, yes": ("Run `drop table t`?", "Run", [], {}),
}


# What a server does with a no is not the page's: tests/proxies/mcp has each of them.
@pytest.mark.parametrize(("words", "button", "values", "content"), BUTTONS.values(), ids=BUTTONS)
@pytest.mark.slow
def test_button_on_the_page_decides(
    words: str,
    button: str,
    values: list[str],
    content: Json,
    env: dict[str, str],
    programs: Programs,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    server = request.node.callspec.id.partition(",")[0]
    with proxied(tmp_path, env=env) as host:
        call = host.begin_call(server)
        browser, page = visit(programs)
        assert words in page.words
        page = browser.submit(page, page.fields(values, button))
        said = host.text(call)
        assert page.action is None, "no form is left"
        refused = "cancel" if button == "Do not answer" else "decline"
        accepted = content is not None
        answer = {"action": "accept", "content": content} if accepted else {"action": refused}
        assert given(host) == answer
        assert (len(host.deeds), said.startswith("done")) == (int(accepted), accepted)
