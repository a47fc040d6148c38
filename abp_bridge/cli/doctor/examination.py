"""One run of `abp-bridge doctor`: what is looked at, in which order, and told as it is known."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abp_bridge.cli.doctor.view import lines, members, progress, summary
from abp_bridge.cli.output import print_text
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.settings.targets import is_extension
from abp_bridge.setup.doctor.finding import Entry, Finding, HostFacts, Section, Verdict
from abp_bridge.setup.doctor.gather import find_hosts, gather
from abp_bridge.setup.doctor.machine import environment, look_at_machine, try_browser
from abp_bridge.setup.doctor.questions import findings, reach_all, what_can_be_asked
from abp_bridge.setup.doctor.start import ask_host, is_missing, leave_alone, try_start
from abp_bridge.setup.doctor.traps import judge
from abp_bridge.setup.hosts import NAME, OTHER_NAME, SetupHost
from abp_bridge.setup.locate import Machine
from abp_bridge.surfaces.terminal.rendering import style_for

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


@dataclass(frozen=True, slots=True)
class Examination:
    """What a run of `doctor` is to look at.

    Attributes:
        machine: Where it is looked.
        host: This one alone.
        target: An app, and what each host does with its questions; without both, this machine and
            all hosts that have a configuration here.
        starts: Programs are started; else files are read.
        asks: The person is asked one question at the end.
        project: What the project's files name is started too.
    """

    machine: Machine
    host: SetupHost | None = None
    target: str | None = None
    starts: bool = True
    asks: bool = False
    project: bool = False

    async def run(self, tasks: TaskGroup | None, *, as_json: bool) -> int:
        """Look at all that is wanted, and print each section.

        Args:
            tasks: Where the page of the question lives; None where nobody is asked.
            as_json: One object, at the end.

        Returns:
            The exit code.
        """
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
            yield await _ask(tasks)

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
        """What its person can be asked, by the environments in which it starts us."""
        from abp_bridge.surfaces.page.browser import can_open

        machine = self.machine
        given = [
            environment(facts.host, each, machine.environ, machine.platform)
            for each in facts.entries
            if not _asks_without_browser(each)
        ]
        return what_can_be_asked(facts, opens=all(map(can_open, given)))

    def _starts(self, entry: Entry) -> bool:
        """Whether what the entry names may be started, and its addresses opened."""
        return self.starts and self._is_trusted(entry) and not entry.unusable

    def _is_trusted(self, entry: Entry) -> bool:
        """Whether it is the person's own, or they said that the project's is started too."""
        return entry.scope != "project" or self.project

    def _path(self, host: SetupHost, entry: Entry) -> str:
        """Where the bridge of that entry looks for programs."""
        env = environment(host, entry, self.machine.environ, self.machine.platform)
        return env.get("PATH", os.defpath)

    async def _apps(self, facts: HostFacts) -> list[Finding]:
        """Its apps, which are not connected."""
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
        """The browser for those of its apps that are pages."""
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
    """Where our entries are; else how to get one, and what comes `first`. Where a file has to be
    mended before, the trap says so.
    """
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
    """The option for `install`, where a server of another's has the name of ours."""
    return f" --name {OTHER_NAME}" if NAME in facts.names else ""


async def _look_at_app(target: str) -> Section:
    from abp_bridge.cli.doctor.app import look_at_app

    with progress(f"connecting {show_target(target)}"):
        return await look_at_app(target)


async def _ask(tasks: TaskGroup) -> Section:
    from abp_bridge.cli.doctor.ask import ask

    return await ask(tasks)
