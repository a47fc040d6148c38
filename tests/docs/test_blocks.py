"""Every fenced block of the docs is run, or read as what it says it is."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
import yaml
from support import harness
from support.http_server import Reply, Request, serving
from support.paths import APPS, ROOT
from support.terminal import Pane

PAPERS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/*.md")])
SELECT = ROOT / "fixtures/mcp-form/2025-11-25/select-many.jsonl"
Json = Any
LIMIT = 120.0  # seconds, for a program that is run

# What others bring, and is only read here.
OTHERS = (
    *("python3", "~/.abp/bin/pip", "chromium", "claude", "jq", "./deploy", "./program", "git"),
    *("npx", "uv", "uvx", "pipx"),
)
# Commands of ours that end by themselves and change nothing are run as they stand.
RUN = ("matrix", "trace fixtures/")


@dataclass(frozen=True)
class Block:
    paper: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.paper.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    for paper in PAPERS:
        language, since, held = None, 0, list[str]()
        for number, line in enumerate(paper.read_text().splitlines(), 1):
            fence = re.match(r"\s*```(\w*)$", line)
            if fence is None:
                held.append(line)
            elif language is None:
                language, since, held = fence[1], number, []
            else:
                yield Block(paper, since, language, "\n".join(held) + "\n")
                language = None
        assert language is None, f"{paper}: the block of line {since} does not end"


def run(*command: str, **env: str) -> str:
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
        cwd=ROOT,
        env={**os.environ, **env},
    )
    return ended.stdout


def bridge(*arguments: str) -> str:
    """What a command of ours prints."""
    env = {"COLUMNS": "160", "ABP_CHROME_SANDBOX": "0"}
    return harness.run(*arguments, cwd=ROOT, env=env).stdout


# --- shell ----------------------------------------------------------------------------------------


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, without what shells add."""
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        command: list[str] = []
        for word in [*words, ";"]:
            if re.fullmatch(r"[|&;]+", word):
                if command:
                    yield command
                command = []
            elif word not in ("if", "then", "fi"):
                command.append(word)


def check_shell(block: Block) -> None:
    for program, *words in commands(block.text):
        arguments = words[: words.index(">")] if ">" in words else words
        if program == "abp-bridge":
            check_ours(arguments)
        elif program == "make":
            targets = [word for word in arguments if "=" not in word]
            for target in targets:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                    target
                )
        else:
            assert program in OTHERS, f"{block}: {program}"
            if "abp-bridge" in arguments:  # a host's command, which is told ours
                check_ours(arguments[arguments.index("abp-bridge") + 1 :])


def check_ours(arguments: list[str]) -> None:
    from abp_bridge.cli.main import make_parser

    make_parser().parse_args(arguments)  # raises SystemExit for what is not understood
    for word in arguments:
        if word.startswith(("fixtures/", "docs/")):
            assert (ROOT / word).exists(), word
    if shlex.join(arguments).startswith(RUN) and "--bridge" not in arguments:
        assert bridge(*arguments)


# --- what is printed ------------------------------------------------------------------------------


def check_output(block: Block) -> None:
    """What stands there is what is printed, but for numbers; `...` stands for any lines."""
    if block.paper.name == "ARCHITECTURE.md":
        return  # a drawing: test_architecture.py holds it
    printed = printed_by(block)[0]()
    place = 0
    for part in block.text.split("\n...\n"):
        found = normal(printed).find(normal(part).strip(), place)
        assert found >= 0, f"{block} is not what is printed:\n{printed}"
        place = found + len(normal(part).strip())


def printed_by(block: Block) -> tuple[Callable[[], str], str]:
    (row,) = [row for start, row in PRINTED.items() if block.text.startswith(start)]
    return row


def normal(text: str) -> str:
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?", "#", text.replace(" ms", " s")))


def three() -> str:
    """A bridge that cuts lists to three options, found by a replay."""
    broken = f"{sys.executable} {APPS / 'broken.py'} three"
    return bridge("replay", str(SELECT.relative_to(ROOT)), "--bridge", broken)


def notes() -> str:
    """The notes' server without the bridge and behind it, where somebody says no on the page."""
    with TemporaryDirectory() as folder:
        browser = Path(folder) / "browser"
        browser.write_text(f'#!/bin/sh\nexec {sys.executable} -m support.browser "$1"\n')
        browser.chmod(0o700)
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"BROWSER": str(browser), "PYTHONPATH": str(APPS.parents[1]), "PATH": paths}
        host, server = "docs/examples/host_that_cannot_ask.py", "docs/examples/notes_server.py"
        printed = ""
        for command in (f"python3 {server}", f"abp-bridge mcp -- python3 {server}"):
            printed += f"$ python3 {host} notes.db {command}\n"
            called = [sys.executable, host, f"{folder}/notes.db", *command.split()]
            printed += run(*called, **env) + "\n"
    return printed


def block_of(paper: str, language: str, number: int = 0) -> str:
    """The text of a paper's block, by its language and how many of them stand before it."""
    found = [each for each in blocks() if each.paper.name == paper and each.language == language]
    return found[number].text


@contextmanager
def page() -> Iterator[str]:
    """The address of the page that docs/a-web-page.md has, served."""
    manifest = block_of("a-web-page.md", "json"), "application/json"
    with served(
        {"/": (block_of("a-web-page.md", "html"), "text/html"), "/abp.json": manifest}
    ) as at:
        yield at


@contextmanager
def form() -> Iterator[str]:
    """The address of the form that docs/webmcp.md has, served."""
    with served({"/form.html": (block_of("webmcp.md", "html"), "text/html")}) as address:
        yield f"{address}/form.html"


@contextmanager
def served(files: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """The address where these are: the text and type of each, by its path."""

    def answer(request: Request) -> Reply:
        text, kind = files.get(request.parts.path, ("", ""))
        return Reply(text.encode(), kind) if text else Reply(status=404)

    with serving(answer) as address:
        yield address


def try_page() -> str:
    with page() as address, TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        answers.write_text(block_of("a-web-page.md", "json", 1))
        printed = bridge("try", address, "greet", "times=2", "--answers", str(answers))
    return f"$ abp-bridge try {address} greet times=2 --answers answers.json\n{printed}"


def try_form() -> str:
    """The form, called as a model calls it, at a terminal: what stands there at the end."""
    with form() as address:
        ours = [sys.executable, "-m", "abp_bridge", "try", address, "book_table", "name=Ada"]
        env = {"ABP_CHROME_SANDBOX": "0", "TERM": "screen-256color"}
        script = f"{shlex.join(ours)}; cat"
        with Pane(["sh", "-c", script], env, columns=120, rows=60) as pane:
            pane.until("Name: Ada")
            pane.press("Enter")
            pane.until("Guests: 2")
            pane.press("BSpace", "4", "Enter")
            shown = pane.until("1 question: 1 accepted.")
    shown = shown.replace(address.removesuffix("/form.html"), "http://localhost:8000")
    return f"$ abp-bridge try http://localhost:8000/form.html book_table name=Ada\n{shown}"


def try_server() -> str:
    with TemporaryDirectory() as folder:
        server, answers = Path(folder) / "invoices.py", Path(folder) / "answers.json"
        server.write_text(block_of("an-mcp-server.md", "python"))
        answers.write_text(block_of("an-mcp-server.md", "json"))
        target = f"mcp:{sys.executable} {server}"
        called = ["delete_invoice", "number=2026-014", "--answers", str(answers)]
        printed = bridge("try", target, *called)
    command = "delete_invoice number=2026-014 --answers answers.json"
    told = printed.replace(f"mcp:{Path(sys.executable).name}", "mcp:python3")
    return f"$ abp-bridge try 'mcp:python3 invoices.py' {command}\n{told}"


SERVED = {"a-web-page.md": page, "webmcp.md": form}
# how a block begins -> what prints it, and what that needs
PRINTED: dict[str, tuple[Callable[[], str], str]] = {
    "$ abp-bridge try http://127.0.0.1": (try_page, "browser"),
    "$ abp-bridge try http://localhost": (try_form, "terminal"),
    "$ abp-bridge try 'mcp:": (try_server, "process"),
    "$ python3 docs/examples/host_that_cannot_ask.py": (notes, "process"),
    "A real bridge (abp-bridge serve)": (lambda: bridge("demo"), "network"),
    "FAIL  fixtures/": (three, "process"),
}


# --- the others -----------------------------------------------------------------------------------


def check_json(block: Block) -> None:
    """One value, or one a line."""
    try:
        check_launched(json.loads(block.text))
    except ValueError:
        for line in block.text.splitlines():
            json.loads(line.lstrip("→← ").replace("{...}", "{}"))


def check_python(block: Block) -> None:
    if "def test_" not in block.text:
        run(sys.executable, "-c", block.text)
        return
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    for name in [each for each in names if each.startswith("test_")]:
        anyio.run(names[name])


def check_html(block: Block) -> None:
    """The page keeps every rule that `abp-bridge check` has, also those that are no demand."""
    with SERVED[block.paper.name]() as address:
        told = json.loads(bridge("check", address, "--json"))
    broken = [each for each in told["checks"] if each["problems"]]
    assert not broken


def check_toml(block: Block) -> None:
    assert check_launched(tomllib.loads(block.text))


def check_yaml(block: Block) -> None:
    assert check_launched(yaml.safe_load(block.text))


def check_launched(configuration: Json) -> list[list[str]]:
    """What a host's configuration has it launch of ours: the arguments, which we understand."""
    found = list(launched(configuration))
    for arguments in found:
        check_ours(arguments)
    return found


def launched(value: Json) -> Iterator[list[str]]:
    for each in value.values() if isinstance(value, dict) else ():
        yield from launched(each)
    if isinstance(value, dict) and (command := value.get("command", value.get("cmd"))):
        words = [command, *value.get("args", ())] if isinstance(command, str) else command
        if Path(words[0]).name == "abp-bridge":
            yield words[1:]


CHECKS: dict[str, Callable[[Block], None]] = {
    "sh": check_shell,
    "text": check_output,
    "json": check_json,
    "python": check_python,
    "toml": check_toml,
    "html": check_html,
    "yaml": check_yaml,
}


def marks(block: Block) -> list[pytest.MarkDecorator]:
    """What the check of a block needs."""
    needs = {"python": "process", "html": "browser"}.get(block.language, "")
    if block.language == "text" and block.paper.name != "ARCHITECTURE.md":
        needs = printed_by(block)[1]
    return [getattr(pytest.mark, needs)] if needs else []


BLOCKS = [pytest.param(block, marks=marks(block), id=str(block)) for block in blocks()]


@pytest.mark.parametrize("block", BLOCKS)
def test_block_is_what_it_says(block: Block) -> None:
    assert block.language in CHECKS, f"{block} names no language that is checked here"
    CHECKS[block.language](block)


def test_links_between_pages_lead_somewhere() -> None:
    for paper in PAPERS:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", paper.read_text()):
            assert (paper.parent / target).exists(), f"{paper.name}: {target}"


def anchors(paper: Path) -> set[str]:
    """The anchors of a paper's headings, as code-hosting pages make them."""
    titles = re.findall(r"^#+ (.+)$", paper.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", title)) for title in titles)
    return {each.lower().replace(" ", "-") for each in plain}


def test_links_lead_to_headings() -> None:
    for paper in PAPERS:
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", paper.read_text()
        ):
            found = anchors(paper.parent / target if target else paper)
            assert anchor in found, f"{paper.name}: {target}#{anchor}"


def test_every_page_is_listed() -> None:
    listed = (ROOT / "docs/README.md").read_text()
    pages = (each.name for each in ROOT.glob("docs/*.md") if each.name != "README.md")
    assert [page for page in pages if f"]({page})" not in listed] == []


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 200
    prose = [line for line in lines if not line.startswith(("|", "!", "{", "$", "python3"))]
    assert max(map(len, prose)) <= 110
