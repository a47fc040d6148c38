"""What `abp-bridge doctor` sees of a host (`HostFacts`) and says of it (`Finding`, `Verdict`)."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, walk
from abp_bridge.core.sanitize import label
from abp_bridge.setup.entries import Server
from abp_bridge.setup.hosts import FileScope, Scope, SetupHost, Shape


class Verdict(enum.Enum):
    """What is said of one thing; the value is what programs read."""

    WORKS = "works"
    UNSUPPORTED = "unsupported"
    REFUSED = "advertised but refused by policy"
    UNANSWERED = "advertised and unanswered"
    POLICY = "answered by a policy"
    FAILS = "fails"
    WARNING = "warning"
    NOTE = "note"
    NOT_TRIED = "not tried"

    @property
    def fails(self) -> bool:
        return self in _FAILING

    @property
    def word(self) -> str:
        return _WORDS.get(self, self.value)


_FAILING = (Verdict.UNSUPPORTED, Verdict.REFUSED, Verdict.UNANSWERED, Verdict.FAILS)
_WORDS = {
    Verdict.REFUSED: "refused",
    Verdict.UNANSWERED: "unanswered",
    Verdict.POLICY: "by policy",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: What was checked, in a word or two; for a trap its name.
        cure: The next step as a sentence, or "".
    """

    check: str
    verdict: Verdict
    says: str
    cure: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The findings about `machine`, a host, or an app's target."""

    name: str
    title: str
    findings: tuple[Finding, ...]

    @property
    def fails(self) -> bool:
        return any(each.verdict.fails for each in self.findings)


# What a word of ours ends with, whatever starts it: a script, a module, uvx.
_OURS = ("abp-bridge", "abp-bridge.exe", "abp_bridge")


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A configuration file that was looked for.

    Attributes:
        value: Its content; None if missing or not understood.
        problem: Why it is not understood.
        obstacle: Why `install` cannot change it, though a host may read it.
    """

    scope: FileScope
    path: str
    value: JsonValue = None
    problem: str = ""
    obstacle: str = ""
    exists: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """Our server, or an agent, in one of the files.

    Attributes:
        scope: That of its file; `local` is the user's for one folder.
        program: Its command's path by the host's PATH, if found.
        elsewhere: Its command's path by this terminal's PATH, if found.
        shares_name: Another entry of this host has the same name.
        folder: The only folder it is for; "" for all.
    """

    scope: Scope
    file: str
    server: Server
    shape: Shape
    agent: bool = False
    program: str | None = None
    elsewhere: str | None = None
    shares_name: bool = False
    folder: str = ""

    @property
    def shown(self) -> str:
        return f'"{label(self.name)}"' + (f" of {self.place}" if self.shares_name else "")

    @property
    def place(self) -> str:
        return f"{self.file} (for {label(self.folder, 200)} alone)" if self.folder else self.file

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def members(self) -> JsonObject:
        return as_object(self.server.entry)

    @property
    def env(self) -> Mapping[str, str]:
        return {} if self.server.launch is None else self.server.launch.env

    @property
    def words(self) -> tuple[str, ...]:
        return () if self.server.launch is None else self.server.launch.words

    @property
    def own(self) -> tuple[str, ...]:
        """Our own arguments, without the command behind `--`."""
        own = self.server.own
        if own is None:
            words = self.words
            end = words.index("--") if "--" in words else len(words)
            places = [place for place, word in enumerate(words[:end]) if is_our_word(word)]
            own = words[places[-1] + 1 :] if places else ()
        return own[: own.index("--")] if "--" in own else own

    @property
    def apps(self) -> list[str]:
        words = [*self.own, ""]
        named = [after for word, after in pairwise(words) if word == "--app"]
        joined = [word[len("--app=") :] for word in words if word.startswith("--app=")]
        return [each for each in (*named, *joined) if each]

    @property
    def unusable(self) -> list[str]:
        """What of it no program can be started with: each in words, without what it says."""
        command, *args = self.words or ("",)
        texts = {
            "a name": [self.name],
            "a command": [command],
            "an argument": args,
            "a cwd": [as_text(self.members.get("cwd"))],
            **{f"a value of {label(name)}": [name, each] for name, each in self.env.items()},
        }
        found = [
            f"{what} with {problem}"
            for what, words in texts.items()
            if (problem := _find_no_text(words))
        ]
        if any(not name or "=" in name for name in self.env):
            found.append("a variable whose name is empty or has a = in it")
        return found

    def has_option(self, *options: str) -> bool:
        return any(word.partition("=")[0] in options for word in self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What was seen of one host's configuration.

    Attributes:
        entries: Our entries in its files.
        names: All servers in its files.
        beside: Its other files by name, if understood.
        unread: Files with our entry that this host does not read, and why.
        folders: The project's folder and those above it, innermost first.
        root: The worktree's top folder, or the project's folder.
        repository: The same, but the main worktree's.
    """

    host: SetupHost
    files: Sequence[SeenFile] = ()
    entries: Sequence[Entry] = ()
    names: Collection[str] = ()
    beside: Mapping[str, JsonValue] = field(default_factory=dict)
    unread: Sequence[tuple[str, str]] = ()
    folders: Sequence[str] = ()
    root: str = ""
    repository: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return self.folders[0] if self.folders else ""

    def file(self, scope: FileScope) -> SeenFile | None:
        return next((each for each in self.files if each.scope == scope), None)

    def values(self) -> Iterator[tuple[SeenFile, JsonObject]]:
        for each in self.files:
            if each.value is not None:
                yield each, as_object(each.value)


def _find_no_text(words: Iterable[str]) -> str:
    """What no system's texts can hold, as a file's can in an escape; empty where there is none."""
    for letter in "".join(words):
        if letter == "\0":
            return "a NUL character in it"
        if "\ud800" <= letter <= "\udfff":
            return "half a character in it"
    return ""


def is_our_word(word: str) -> bool:
    """Whether a word of a command line is what starts us."""
    return PurePath(word.replace("\\", "/")).name.lower() in _OURS


def mentions_us(value: JsonValue) -> bool:
    """Whether an entry starts us, in whatever shape it is written down."""
    entry = as_object(value)
    inside = as_object(entry.get("transport")) or entry
    said = [inside.get(name) for name in ("command", "cmd", "args")]
    texts = [each for member in said for each in walk(member) if isinstance(each, str)]
    return any(is_our_word(text.split()[0]) for text in texts if text.strip())
