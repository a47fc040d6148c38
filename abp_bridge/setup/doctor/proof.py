"""A host's own word on our server: its command that lists or checks servers, run with a bound."""

from __future__ import annotations

import os
import re
import shutil

import anyio

from abp_bridge.core.sanitize import label
from abp_bridge.rpc.subprocess import child_environment, spawn
from abp_bridge.setup.doctor.facts import HostFacts
from abp_bridge.setup.doctor.finding import Finding, Verdict
from abp_bridge.setup.hosts import SetupHost
from abp_bridge.setup.locate import Machine

CHECK = "host's own"
LIMIT = 60.0  # seconds: some start every server that they have
_MAX_OUTPUT = 2**20  # bytes of what it says that are read; the rest is let go
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_GOOD = re.compile(r"✓|✔|\bconnected\b|\bok\b|\bready\b", re.IGNORECASE)
_BAD = re.compile(
    r"✗|✘|\bfail|\berror|disconnected|not connected|pending|disabled|needs|suppressed|untrusted",
    re.IGNORECASE,
)


def is_missing(host: SetupHost, machine: Machine) -> bool:
    """Whether the host has a program, and it is not on this terminal's PATH."""
    if not host.program:
        return False
    return shutil.which(host.program, path=machine.environ.get("PATH", os.defpath)) is None


async def ask_host(facts: HostFacts, machine: Machine, *, project: bool) -> list[Finding]:
    """What the host says of each server of ours; nothing where it has no such command here. One
    that starts servers is run beside a project's file only where `project` says so: some start
    those too, unasked.
    """
    host, theirs = facts.host, facts.file("project")
    if host.verify_reach == "model" and facts.entries:
        told = f"'{' '.join(host.verify)}' begins a session with your model: it is yours to run."
        return [Finding(CHECK, Verdict.NOT_TRIED, told)]
    if not host.verify or any(each.problem for each in facts.files):
        return []  # some hosts leave a copy of what they cannot read
    program = shutil.which(host.verify[0], path=machine.environ.get("PATH"))
    if program is None:
        return []
    if host.verify_reach == "server" and theirs is not None and theirs.exists and not project:
        told = f"'{' '.join(host.verify)}' may start what {theirs.path} names: --project runs it."
        return [Finding(CHECK, Verdict.NOT_TRIED, told)]
    names = sorted({each.name for each in facts.entries if not (each.agent or each.unusable)})
    found = []
    done: dict[tuple[str, ...], tuple[int | None, str]] = {}
    for name in names:
        words = tuple(each.replace("{name}", name) for each in host.verify[1:])
        if words not in done:
            done[words] = await _run([program, *words], machine)
        found.append(judge(host, name, " ".join([host.verify[0], *words]), *done[words]))
    return found


async def _run(command: list[str], machine: Machine) -> tuple[int | None, str]:
    """Its exit code, None where it did not end, and what it said."""
    said = bytearray()

    def hear(data: bytes) -> None:
        said.extend(data[: max(0, _MAX_OUTPUT - len(said))])

    try:
        with anyio.fail_after(LIMIT):
            async with spawn(
                command,
                env=child_environment(machine.environ),
                cwd=str(machine.folder),
                overhear=hear,
            ) as child:
                child.stdin.close()
                while data := await child.stdout.receive():
                    hear(data)
                code = await child.process.wait()
    except TimeoutError:
        return None, ""
    except OSError as problem:
        return 1, str(problem)
    return code, _ESCAPES.sub("", said.decode(errors="replace"))


def judge(host: SetupHost, name: str, shown: str, code: int | None, said: str) -> Finding:
    """What its words mean for one server."""
    cure = f"See what '{shown}' says."
    if code is None:
        return Finding(CHECK, Verdict.NOT_TRIED, f"'{shown}' did not end within {LIMIT:g} s.")
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    lines = [each for each in said.splitlines() if named.search(each)]
    if code:
        last = next((each for each in reversed(said.splitlines()) if each.strip()), "")
        words = f"'{shown}' failed: {label(last, 200).rstrip('.')}."
        verdict = Verdict.FAILS if lines else Verdict.WARNING  # of something else
        return Finding(CHECK, verdict, words, cure)
    if not lines:
        return Finding(CHECK, Verdict.FAILS, f"'{shown}' does not name \"{name}\".", cure)
    if host.verify_reach == "entry":
        return Finding(CHECK, Verdict.WORKS, f"'{shown}' reads the entry (and starts nothing).")
    word = next((each for each in lines if _BAD.search(each) or _GOOD.search(each)), lines[0])
    # before the dash it has the command, in which secrets may stand
    quoted = f"'{shown}' says of \"{name}\": {label(word.rpartition(' - ')[2], 200)}"
    if _BAD.search(word):
        return Finding(CHECK, Verdict.FAILS, quoted, cure)
    return Finding(CHECK, Verdict.WORKS if _GOOD.search(word) else Verdict.NOTE, quoted)
