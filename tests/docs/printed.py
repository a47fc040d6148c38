"""Tables of docs that are printed from the code, between two comments that name them, and the page
of the matrix: `python -m tests.docs.printed` prints them there anew, `--check` only says whether
they differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from abp_bridge.cli.main import COMMANDS
from abp_bridge.core.outcome import SAID_NO, Outcome
from abp_bridge.core.surface import BESIDE, WAYS
from abp_bridge.session import result_store
from abp_bridge.session.app import DOWNLOAD_LIMIT, MAX_DOWNLOAD
from abp_bridge.session.profiles import PROFILES
from abp_bridge.settings import TABLE, Settings
from abp_bridge.setup.doctor.traps import TRAPS
from abp_bridge.setup.hosts import HOSTS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # as pytest has it

from real_hosts import results  # noqa: E402
from real_pages import results as peers  # noqa: E402
from support import capabilities  # noqa: E402

MEASURED = results.read()
CAPABILITIES = "docs/capabilities.md"


# What is limited of results, by how much, and what becomes of more.
LIMITS: tuple[tuple[str, str, str], ...] = (
    ("a result as text", f"{result_store.INLINE_LIMIT:,} characters", "it goes whole to a file"),
    (
        "files shown with a result (pictures, sounds, texts)",
        f"{result_store.SHOWN_LIMIT // 1024} KiB",
        "the others are linked only",
    ),
    (
        "files in one result",
        f"{result_store.MAX_TAKEN}",
        "it goes whole to one file, and nothing of it is fetched",
    ),
    (
        "a file that `resources/read` gives",
        f"{result_store.READ_LIMIT // 2**20} MiB",
        "the error names the file's path",
    ),
    (
        "all files of a session",
        f"{result_store.SESSION_LIMIT // 2**20} MiB",
        "the oldest are removed, and the result that took their room names them",
    ),
    (
        "a file that is fetched or downloaded",
        f"{MAX_DOWNLOAD // 2**20} MiB",
        "it is given up, and the result says so",
    ),
    (
        "files of a result that are fetched (`downloadUrl`)",
        f"{DOWNLOAD_LIMIT:g} s each, {result_store.FETCH_LIMIT:g} s together",
        "their addresses are passed on, with the reason",
    ),
)


def settings_table() -> Iterable[str]:
    """Every setting."""
    yield "| variable | option | default | |"
    yield "|---|---|---|---|"
    usual = Settings()
    for name, row in TABLE.items():
        value = getattr(usual, name)
        default = row.shown or ("none" if value in (None, ()) else f"`{row.format(value)}`")
        unit = ", in ms" if row.duration else ""
        others = [each for each in COMMANDS if each not in row.commands]
        few = len(others) < len(row.commands)
        whose = f"all but {', '.join(others)}" if few else ", ".join(row.commands)
        option = f"{code(row.flag)} of {whose}" if row.flag else ""
        cells = (code(row.variable), option, f"{default}{unit}", row.help)
        yield f"| {' | '.join(cells)} |"


def code(words: str) -> str:
    return f"`{words}`" if words else ""


def limits_table() -> Iterable[str]:
    """`LIMITS` as a table."""
    yield "| what | at most | and then |"
    yield "|---|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in LIMITS)


def doctor_table() -> Iterable[str]:
    """Every trap that `abp-bridge doctor` knows."""
    yield "| trap | hosts | verdict | what goes wrong | what to do |"
    yield "|---|---|---|---|---|"
    for trap in TRAPS:
        others = [name for name in HOSTS if name not in trap.hosts]
        whom = ", ".join(trap.hosts) or "all"
        if len(others) < len(trap.hosts):
            whom = f"all but {', '.join(others)}"
        cells = (trap.name, whom, trap.verdict.value, trap.says, trap.cure)
        yield "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def ways_table() -> Iterable[str]:
    """Every way to have a person asked: an option of the bridge's, or a setting of a host's."""
    yield "| where | what you do | what happens |"
    yield "|---|---|---|"
    for way in WAYS.values():
        yield f"| any host | `{way.give}` | {way.then} |"
    for row in PROFILES.values():
        beside = () if row.options is BESIDE else row.options.values()
        for own in (*row.ways, *beside):
            yield f"| {row.name} | {own.give} | {own.then} |"


def outcomes_table() -> Iterable[str]:
    """What each protocol and surface reports of each outcome."""
    heads = "outcome,ABP error,cancelled,retryable,preference,MCP action,ACP card,exit"
    yield f"| {heads.replace(',', ' | ')} |"
    yield "|---|---|---|---|---|---|---|---|"
    rows = {code(each.value): each.row for each in Outcome}
    rows["`accepted`, a no to a consent"] = SAID_NO
    for name, row in rows.items():
        cells = (
            name,
            code(row.code),
            "yes" if row.cancelled else "",
            "yes" if row.retryable else "",
            "its default" if row.has_default else "",
            code(row.action.value),
            row.card,
            str(row.exit_code),
        )
        yield f"| {' | '.join(cells)} |"


def hosts_table() -> Iterable[str]:
    """Every host that `abp-bridge install` knows."""
    yield "| HOST | what it is | file | `--project` | then | its own check |"
    yield "|---|---|---|---|---|---|"
    for row in HOSTS.values():
        user = next((row.user[each] for each in ("*", "linux") if each in row.user), None)
        file = "" if user is None else f"`{user.folders[-1]}/{user.names[0]}`"
        project = "" if row.project is None else f"{row.project.folders[0]}/{row.project.names[0]}"
        project = project and f"`{project.removeprefix('./')}`"
        verify = f"`{' '.join(row.verify).format(name='abp')}`" if row.verify else ""
        verify += " (begins a session with your model)" if row.verify_reach == "model" else ""
        yield f"| `{row.name}` | {row.title} | {file} | {project} | {row.then} | {verify} |"


def moved_files_table() -> Iterable[str]:
    """Where the files of hosts are elsewhere than the table of hosts has them."""
    yield "| host | where |"
    yield "|---|---|"
    for row in HOSTS.values():
        places = [
            f"{f'{SYSTEMS[system]}: ' if system != '*' else ''}`{folder}/{files.names[0]}`"
            for system, files in row.user.items()
            for folder in files.folders
            if system != "*" or folder != files.folders[-1]
        ]
        if places:
            yield f"| {row.title} | {', '.join(places)} |"


def traps_table() -> Iterable[str]:
    """What goes wrong without a word."""
    yield "| host | good to know |"
    yield "|---|---|"
    for row in HOSTS.values():
        if row.traps:
            yield f"| {row.title} | {' '.join(row.traps)} |"


SYSTEMS = {"darwin": "macOS", "win32": "Windows"}
# (file, name of the table): what prints its lines
TABLES: dict[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("docs/settings.md", "settings"): settings_table,
    ("docs/results.md", "results"): limits_table,
    ("docs/abp.md", "outcomes"): outcomes_table,
    ("docs/asking.md", "ways"): ways_table,
    ("docs/doctor.md", "doctor"): doctor_table,
    ("docs/install.md", "hosts"): hosts_table,
    ("docs/install.md", "moved"): moved_files_table,
    ("docs/install.md", "traps"): traps_table,
    ("docs/webmcp.md", "peers"): partial(peers.table, peers.read()),
    ("docs/hosts.md", "outcomes"): results.outcomes_table,
    ("docs/hosts.md", "hosts"): partial(results.hosts_table, MEASURED),
    **{
        ("docs/hosts.md", name): partial(results.section, MEASURED, name)
        for name in dict.fromkeys(row.section for row in MEASURED.values())
    },
}


def printed(text: str, name: str, lines: Iterable[str]) -> str:
    """`text` with these lines between the comments of the table `name`."""
    begin, end = f"<!-- printed: {name} -->", "<!-- /printed -->"
    pattern = re.compile(rf"{begin}\n.*?{end}", re.DOTALL)
    assert pattern.search(text), f"there is no {begin}"
    table = "\n".join((begin, *lines, end))
    return pattern.sub(lambda found: table, text, count=1)


def main(arguments: list[str]) -> int:
    """Print all tables, or check them. Returns the exit code."""
    stale = 0
    for file, name in [*TABLES, (CAPABILITIES, "capabilities")]:
        before = (ROOT / file).read_text(encoding="utf-8")
        whole = file == CAPABILITIES
        after = capabilities.page() if whole else printed(before, name, TABLES[file, name]())
        if "--check" in arguments and after != before:
            stale = 1
            print(f"{file}: the table of {name} is not what the code says: make docs")
        elif after != before:
            (ROOT / file).write_text(after, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
