"""`abp-bridge doctor`: what works between this machine, its hosts and an app, and what to fix."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.runtime import complain, print_text, run_until_signal
from abp_bridge.core.json_value import Json, JsonObject, as_number, as_object, as_text
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label, reveal
from abp_bridge.core.words import count_of
from abp_bridge.errors import AbpBridgeError
from abp_bridge.session.app import AppError
from abp_bridge.settings import SettingsError, read_settings
from abp_bridge.settings.values import find_target_problem, is_extension
from abp_bridge.setup.doctor.finding import Entry, Finding, HostFacts, Section, Verdict
from abp_bridge.setup.doctor.gather import find_hosts, gather
from abp_bridge.setup.doctor.machine import environment, look_at_machine, try_browser
from abp_bridge.setup.doctor.questions import findings, reach_all, what_can_be_asked
from abp_bridge.setup.doctor.start import ask_host, is_missing, leave_alone, try_start
from abp_bridge.setup.doctor.traps import judge
from abp_bridge.setup.entries import Machine
from abp_bridge.setup.file import SetupError
from abp_bridge.setup.hosts import HOSTS, NAME, OTHER_NAME, SetupHost, nearest_host
from abp_bridge.surfaces.terminal.rendering import Style, hanging_lines, style_for

if TYPE_CHECKING:
    import argparse

    from anyio.abc import TaskGroup


HELP = "what works between this machine, your hosts and an app, and what to do"
USAGE = "abp-bridge doctor [OPTION]... [HOST | TARGET]"
DESCRIPTION = """\
Looks at this machine and at each host that has a configuration here: what goes wrong in that
without a word, whether the host can start our server, and what its person can be asked.

  abp-bridge doctor                          this machine, and all hosts that are set up here
  abp-bridge doctor codex                    one host; 'abp-bridge install --list' has their names
  abp-bridge doctor http://localhost:3000    an app: whether it is reached, and what each host does
        with its questions
  abp-bridge doctor --json | jq '.sections[].findings[] | select(.cure != "")'

Our server is started as the host starts it (its command, arguments and variables, and no more of
the environment than that host passes on), greeted as the host greets it, and ended. Where the host
has a command that says whether servers work (claude mcp list, qwen mcp list ...), that is run too.
What the files of the project in this folder name is started
only with --project: look at them first. --files starts nothing. Nothing is written by us, and no
capability of an app is called.

Exit code: 1 where something has to be done, else 0; 2 where there is no such host or app.
"""


def add_doctor_options(parser: argparse.ArgumentParser) -> None:
    """Add what is looked at, and how it is told."""
    option = parser.add_argument
    option(
        "what",
        nargs="?",
        metavar="HOST | TARGET",
        help="a host, or an app; without it this machine and all hosts that are set up here",
    )
    option("--files", action="store_true", help="only read files: start nothing")
    option("--project", action="store_true", help="also start what this project's files name")
    option("--ask", action="store_true", help="ask you one question as well, where a bridge would")
    option("--json", action="store_true", help="one JSON object instead of words")


def run_doctor(options: argparse.Namespace) -> int:
    """Look, and say what was seen. Returns the exit code."""
    what = options.what
    host = HOSTS.get(what.lower()) if what else None
    if what and host is None and (wrong := _describe_wrong(what)):
        return complain(wrong, "doctor")
    has_processes = os.name == "posix"  # what starts and ends programs needs process groups
    if options.ask and not has_processes:
        return complain("--ask is for Linux and macOS; on Windows, inside WSL", "doctor")

    try:
        machine = Machine()
    except SetupError as problem:
        return complain(problem, "doctor")

    target = what if host is None else None

    async def look(tasks: TaskGroup | None = None) -> int:
        wanted = Examination(
            machine,
            host,
            target,
            starts=has_processes and not options.files,
            asks=options.ask,
            project=options.project,
        )
        return await wanted.run(tasks, as_json=options.json)

    return anyio.run(run_until_signal, look) if has_processes else anyio.run(look)


def _describe_wrong(what: str) -> str:
    """Why a word is neither a host nor an app; empty where it is an app."""
    problem = find_target_problem(what)
    near = nearest_host(what) if problem else ""
    if near:
        return f"{what!r} is no host that is known here: is {near!r} meant?"
    if problem and not any(mark in what for mark in ":/. "):
        return f"{what!r} is no host that is known here: there are {', '.join(HOSTS)}"
    return problem


@dataclass(frozen=True, slots=True)
class Examination:
    """What a run of `doctor` checks.

    Attributes:
        host: Check this host only.
        target: Check an app, and what each host does with its questions.
        starts: Start programs, not just read files.
        asks: Ask the user one question at the end.
        project: Start what the project's files name, too.
    """

    machine: Machine
    host: SetupHost | None = None
    target: str | None = None
    starts: bool = True
    asks: bool = False
    project: bool = False

    async def run(self, tasks: TaskGroup | None, *, as_json: bool) -> int:
        """Print all sections, as text or one JSON object, and return the exit code."""
        paint = style_for()
        sections = []
        async for section in self._sections(tasks):
            sections.append(section)
            if not as_json:
                print_text("\n".join(lines(section, paint)) + "\n\n")
        failed = any(each.fails for each in sections)
        if as_json:
            told = {"passed": not failed, "sections": [members(each) for each in sections]}
            print_text(json.dumps(told) + "\n")
        else:
            print_text(summary(sections) + "\n")
        return 1 if failed else 0

    async def _sections(self, tasks: TaskGroup | None) -> AsyncIterator[Section]:
        machine = self.machine
        if self.host is None and self.target is None:
            yield await self._machine()
        if self.target is not None:
            section = await _look_at_app(self.target)
            yield section
            if section.fails:
                return
        for host in [self.host] if self.host is not None else find_hosts(machine):
            facts = gather(host, machine)
            found = self._asked(facts) if self.target else await self._host(facts, machine)
            yield Section(host.name, host.title, tuple(found))
        if self.asks and tasks is not None:
            yield await _ask_question(tasks)

    async def _machine(self) -> Section:
        findings = list(look_at_machine())
        if self.starts:
            with progress("starting the browser"):
                findings.append(await try_browser())
        return Section("machine", "This machine", tuple(findings))

    async def _host(self, facts: HostFacts, machine: Machine) -> list[Finding]:
        host = facts.host
        missing = is_missing(host, machine)
        first = f"install {host.title} first, then " if missing and host.add else ""
        found = [*_entries(facts, first, named=self.host is not None), *judge(facts)]
        if facts.entries and missing:
            words = f"There is no {host.program} on the PATH of this terminal."
            cure = f"Where {host.title} is not here yet, install it first."
            found.append(Finding("program", Verdict.NOTE, words, cure))
        if self.starts:
            for entry in facts.entries:
                if not self._is_trusted(entry):
                    found.append(leave_alone(host, entry))
                    continue
                with progress(f"starting {label(entry.name)} as {host.title} does"):
                    found.append(await try_start(host, entry, machine))
            with progress(f"running {' '.join(host.verify[:3])}"):
                found += await ask_host(facts, machine, project=self.project)
        found += await self._apps(facts)
        if self.host is not None:
            found += [finding async for finding in self._browser(facts)]
        return found + self._asked(facts) if facts.entries else found

    def _asked(self, facts: HostFacts) -> list[Finding]:
        from abp_bridge.surfaces.page.browser import can_open

        machine = self.machine
        given = [
            environment(facts.host, each, machine.environ, machine.platform)
            for each in facts.entries
            if not _asks_without_browser(each)
        ]
        return what_can_be_asked(facts, opens=all(map(can_open, given)))

    def _starts(self, entry: Entry) -> bool:
        return self.starts and self._is_trusted(entry) and not entry.unusable

    def _is_trusted(self, entry: Entry) -> bool:
        return entry.scope != "project" or self.project

    def _path(self, host: SetupHost, entry: Entry) -> str:
        env = environment(host, entry, self.machine.environ, self.machine.platform)
        return env.get("PATH", os.defpath)

    async def _apps(self, facts: HostFacts) -> list[Finding]:
        apps = dict.fromkeys(app for entry in facts.entries for app in entry.apps)
        # Two entries that name one app have it started in as many environments: the first counts.
        paths = {
            app: self._path(facts.host, entry)
            for entry in reversed(facts.entries)
            if self._starts(entry)
            for app in entry.apps
        }
        with progress(f"looking for the apps of {facts.host.title}"):
            problems = await reach_all(paths)
        return findings(apps, problems, each=self.host is not None)

    async def _browser(self, facts: HostFacts) -> AsyncIterator[Finding]:
        for entry in facts.entries:
            own = entry.has_option("--browser-url") or "ABP_BROWSER_URL" in entry.env
            if self._starts(entry) and any(map(_needs_browser, entry.apps)) and not own:
                with progress("starting the browser"):
                    yield await try_browser({**self.machine.environ, **entry.env})
                return


def _needs_browser(app: str) -> bool:
    return app.lower().startswith(("http:", "https:")) or app == "demo:page" or is_extension(app)


def _asks_without_browser(entry: Entry) -> bool:
    """Whether the page's link is shown, or another terminal is asked."""
    link = "link" in (*entry.own, entry.env.get("ABP_PAGE"))
    return link or entry.has_option("--tty") or "ABP_TTY" in entry.env


def _entries(facts: HostFacts, first: str, *, named: bool) -> Iterator[Finding]:
    """Yield where our entries are, or how to add one unless a trap must be fixed first."""
    for entry in facts.entries:
        what = "agent" if entry.agent else "server"
        words = f'The {what} "{entry.name}" of {entry.place} is abp-bridge.'
        yield Finding("entry", Verdict.WORKS, words)
    if not facts.entries and not any(each.problem or each.obstacle for each in facts.files):
        verdict = Verdict.FAILS if named else Verdict.NOTE
        files = " and ".join(each.path for each in facts.files)
        cure = f"{first}abp-bridge install {facts.host.name}{_other_name(facts)}"
        yield Finding("entry", verdict, f"abp-bridge is not in {files}.", cure)


def _other_name(facts: HostFacts) -> str:
    return f" --name {OTHER_NAME}" if NAME in facts.names else ""


async def _look_at_app(target: str) -> Section:
    """Connect an app, see what it offers, and leave it; none of its capabilities is called."""
    from abp_bridge.cli.check_app import gather_facts
    from abp_bridge.cli.check_rules import Status, check_all

    shown = show_target(target)
    try:
        with progress(f"connecting {shown}"):
            facts = await gather_facts(target, read_settings())
    except (AppError, SettingsError) as problem:
        why = Finding("app", Verdict.FAILS, str(problem), "Do what it says.")
        return Section(shown, shown, (why,))
    found = [
        Finding(each.rule.name, Verdict.FAILS, problem, each.cure)
        for each in check_all(facts)
        for problem in each.problems
        if each.status is Status.FAILED
    ]
    if not found:
        offered = count_of(len(facts.capabilities), "capability", "capabilities")
        found = [Finding("app", Verdict.WORKS, f"It is reached, and offers {offered}.")]
    return Section(shown, shown, tuple(found))


REQUEST: JsonObject = {
    "method": "elicitation/confirm",
    "params": {"message": "abp-bridge doctor asks: can you see this?"},
}
_ORIGIN = "this command"


async def _ask_question(tasks: TaskGroup) -> Section:
    """Ask the user where `abp-bridge ask` would, and wait for the answer."""
    from abp_bridge.apps.elicitation import handle_elicitation
    from abp_bridge.cli.ask import OF_HOSTS, User, choose_surfaces

    environ = {name: os.environ[name] for name in os.environ if name not in OF_HOSTS}
    try:
        settings = read_settings(environ)
        user = User(choose_surfaces(settings, None), _ORIGIN, tasks)
        response = await handle_elicitation(dict(REQUEST), user, _ORIGIN)
        await user.wait_for_page()
    except AbpBridgeError as problem:
        finding = Finding("asked", Verdict.FAILS, str(problem), "Do what it says.")
    else:
        finding = judge_answer(response)
    return Section("question", "A question to you", (finding,))


def judge_answer(response: JsonObject) -> Finding:
    """Return what an answer, as apps get it, says of who was asked."""
    told = as_object(response.get("metadata"))
    by, outcome, route = (as_text(told.get(each)) for each in ("answeredBy", "outcome", "route"))
    seconds = (as_number(told.get("latencyMs")) or 0.0) / 1000
    where = f" ({label(route)})" if route else ""
    if by == AnsweredBy.PERSON.value:
        words = f"You were asked, and answered after {seconds:.1f} s{where}."
        return Finding("asked", Verdict.WORKS, words, seconds=seconds)
    if outcome == Outcome.TIMED_OUT.value:
        words = f"You were asked, and no answer came{where}."
        return Finding("asked", Verdict.UNANSWERED, words, "docs/asking.md says where it asks.")
    if by != AnsweredBy.NOBODY.value:
        words = f"Not you answered, but {label(by)}{where}."
        return Finding(
            "asked", Verdict.POLICY, words, "Take ABP_ANSWERS out, and what else answers."
        )
    why = as_text(as_object(response.get("error")).get("message")) or "Nobody was asked."
    cure = "Run it at a terminal, or name one: --tty DEVICE of abp-bridge ask."
    return Finding("asked", Verdict.UNSUPPORTED, label(why, 600), cure)


COLUMN = 13  # characters of a verdict
_STYLES = {
    Verdict.WORKS: "good",
    Verdict.WARNING: "warn",
    Verdict.POLICY: "warn",
    Verdict.NOTE: "dim",
    Verdict.NOT_TRIED: "dim",
}


def lines(section: Section, paint: Style) -> Iterator[str]:
    """A section as lines for people."""
    yield paint("strong", section.title)
    for each in section.findings:
        verdict = each.verdict
        shown = verdict.word.upper() if verdict.fails else verdict.word
        style = "bad" if verdict.fails else _STYLES[verdict]
        yield from hanging_lines(paint(style, shown.ljust(COLUMN)), _shown(each.says), COLUMN)
        if each.cure:
            yield from hanging_lines(" " * COLUMN, f"Next: {_shown(each.cure)}", COLUMN)


def _shown(words: str) -> str:
    """On one line, and without what would repaint a terminal: it may be from a stranger's file."""
    return reveal(words.replace("\n", " "))


def summary(sections: Sequence[Section]) -> str:
    """How many lines have which verdict."""
    counts = Counter(finding.verdict for each in sections for finding in each.findings)
    counted = [f"{counts[each]} {each.word}" for each in Verdict if counts[each]]
    return f"{', '.join(counted) or 'No host has a configuration here'}."


def members(section: Section) -> dict[str, Json]:
    """A section as JSON for programs."""
    findings: list[Json] = [
        {
            "check": each.check,
            "verdict": each.verdict.value,
            "failed": each.verdict.fails,
            "says": each.says,
            "cure": each.cure,
            **({} if each.seconds is None else {"seconds": round(each.seconds, 3)}),
        }
        for each in section.findings
    ]
    return {"name": section.name, "title": section.title, "findings": findings}


@contextmanager
def progress(words: str) -> Iterator[None]:
    """What takes long is said on a terminal's stderr, while it does."""
    if not os.isatty(2):
        yield
        return
    sys.stderr.write(f"\r\x1b[2K{words} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
