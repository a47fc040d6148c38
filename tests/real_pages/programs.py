"""chrome-devtools-mcp, playwright-mcp and the bridge, each on one page with WebMCP tools."""

from __future__ import annotations

import json
import re
import subprocess
import time
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from support import npm
from support.browser import Browser
from support.harness import SERVE, environment
from support.peer import RpcPeer

from abp_bridge.apps.browser.chromium import find_chromium
from abp_bridge.settings import read_settings

Json = Any

PACKAGES = npm.read_packages(Path(__file__).with_name("packages.json"))
START_LIMIT = 90.0  # seconds for a program, and its browser, to start
ANSWER_LIMIT = 30.0  # seconds for a call that may never be answered
OTHER_LIMIT = 10.0  # seconds for another call meanwhile
PATIENCE = 10.0  # seconds that the host waits for the bridge, as it is told
FLAG = "--enable-features=WebMCP"
ASKS = "elicitation/create"


class Program(RpcPeer):
    """A program on one page, and the person at its host."""

    patience = START_LIMIT
    name: ClassVar[str]

    def __init__(self, page: str, folder: Path) -> None:
        env = environment(CI="1", ABP_HOST_PATIENCE=f"{PATIENCE * 1000:g}")
        super().__init__(self.command(page, folder), env=env, cwd=folder)
        self.page = page
        self.asked: list[Json] = []
        self.yes: dict[str, Json] | None = {}  # what the person changes; None for a no
        self.secret = ""
        self.answers = True

    def __exit__(self, *problem: object) -> None:
        with suppress(subprocess.TimeoutExpired):  # it takes its browser with it
            self.end()
        super().__exit__(*problem)

    @abstractmethod
    def command(self, page: str, folder: Path) -> list[str]:
        """What starts it."""

    @abstractmethod
    def open(self) -> None:
        """Have it show the page."""

    @abstractmethod
    def parameters(self, tool: str) -> str:
        """What a model is told that a tool takes."""

    @abstractmethod
    def begin_page_call(self, tool: str, given: Json) -> int:
        """Have a tool of the page called: the id of the request."""

    def greet(self) -> None:
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self.result("initialize", hello)
        self.send("notifications/initialized")
        self.open()

    def begin_tool(self, tool: str, **given: Json) -> int:
        return self.begin("tools/call", {"name": tool, "arguments": given})

    def call_tool(self, tool: str, **given: Json) -> str:
        words = self.await_words(self.begin_tool(tool, **given), START_LIMIT)
        assert words is not None, f"{tool} was not answered"
        return words

    def await_words(self, id: int, limit: float) -> str | None:
        """What the model reads of a call within `limit` seconds, or None."""
        until = time.monotonic() + limit
        waiting = list(self._passed)
        self._passed.clear()
        while True:
            try:
                message = waiting.pop(0) if waiting else self.read(max(0, until - time.monotonic()))
            except AssertionError:  # it says nothing
                return None
            if message.get("method") == ASKS:
                self._on_question(message)
            elif message.get("id") == id and "method" not in message:
                result = message.get("result", message)
                return "\n".join(each.get("text", "") for each in result.get("content", [result]))

    def _on_question(self, message: Json) -> None:
        asked = message["params"]
        self.asked.append(asked)
        if not self.answers:
            return None
        if self.yes is None:
            return self.reply(message["id"], {"action": "decline"})
        if asked.get("mode") == "url":
            self._type_secret(asked["url"])
            return self.reply(message["id"], {"action": "accept"})
        named = asked["requestedSchema"]["properties"]
        shown = {name: part["default"] for name, part in named.items() if "default" in part}
        content = {**shown, **{key: each for key, each in self.yes.items() if key in named}}
        return self.reply(message["id"], {"action": "accept", "content": content})

    def _type_secret(self, link: str) -> None:
        browser = Browser()
        page = browser.open(link)
        inputs = re.findall(r'<input id="(field-\d+)"[^>]*value="([^"]*)"', page)
        (field,) = re.findall(r'type="password" id="(field-\d+)"', page)
        browser.send(**{**dict(inputs), field: self.secret})
        if "Thank you" not in browser.page:
            browser.send()
        assert "Thank you" in browser.page


class ChromeDevTools(Program):
    """chrome-devtools-mcp: two tools for all of a page's."""

    name = "chrome-devtools-mcp"

    def command(self, page: str, folder: Path) -> list[str]:
        package = PACKAGES[self.name]
        program = npm.program(package, npm.CACHE / self.name)
        chromium = find_chromium(read_settings())
        options = ["--headless", "--isolated", "--categoryExperimentalWebmcp"]
        browser = ["--executablePath", str(chromium)]
        return [str(program), *options, *browser, f"--chromeArg={FLAG}", "--chromeArg=--no-sandbox"]

    def open(self) -> None:
        assert "book_table" in self.call_tool("navigate_page", pageId=1, url=self.page)

    def parameters(self, tool: str) -> str:
        listed = self.call_tool("list_webmcp_tools", pageId=1)
        line: str
        (line,) = re.findall(rf'^name="{tool}".*$', listed, re.MULTILINE)
        return line

    def begin_page_call(self, tool: str, given: Json) -> int:
        words = {"pageId": 1, "toolName": tool, "input": json.dumps(given)}
        return self.begin_tool("execute_webmcp_tool", **words)


class Playwright(Program):
    """playwright-mcp: a tool for each of a page's."""

    name = "playwright-mcp"

    def command(self, page: str, folder: Path) -> list[str]:
        package = PACKAGES[self.name]
        program = npm.program(package, npm.CACHE / self.name)
        launch = {
            "executablePath": str(find_chromium(read_settings())),
            "headless": True,
            "chromiumSandbox": False,
            "args": [FLAG],
        }
        browser = {"browserName": "chromium", "isolated": True, "launchOptions": launch}
        file = folder / "playwright.json"
        file.write_text(json.dumps({"browser": browser}))
        return [str(program), "--config", str(file)]

    def open(self) -> None:
        assert "webmcp tools" in self.call_tool("browser_navigate", url=self.page)

    def parameters(self, tool: str) -> str:
        listed = self.result("tools/list")["tools"]
        (found,) = (each for each in listed if each["name"] == f"webmcp_{tool}")
        return json.dumps(found)

    def begin_page_call(self, tool: str, given: Json) -> int:
        return self.begin_tool(f"webmcp_{tool}", **given)


class Bridge(Program):
    name = "abp-bridge"

    def command(self, page: str, folder: Path) -> list[str]:
        return [*SERVE, "--app", page]

    def open(self) -> None:
        assert "book_table" in self.call_tool("abp_connect")

    def parameters(self, tool: str) -> str:
        listed = self.result("tools/list")["tools"]
        (found,) = (each for each in listed if each["name"] == f"abp_{tool}")
        return json.dumps(found)

    def begin_page_call(self, tool: str, given: Json) -> int:
        return self.begin_tool("abp_call", capability=tool, params=given)


PROGRAMS: tuple[type[Program], ...] = (Bridge, ChromeDevTools, Playwright)
