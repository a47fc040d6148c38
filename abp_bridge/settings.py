"""What a person can set, as one table: flags first, then `ABP_*` in the environment, then the
defaults.

The options of the commands, the reader of the environment, the table in docs/settings.md and what a
replay may set are made from it. Read once, at the start; nothing here opens or starts anything.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from abp_bridge.core.near_names import MISSPELT, nearest
from abp_bridge.errors import AbpBridgeError
from abp_bridge.log import LEVELS
from abp_bridge.protocols.mcp.versions import ERAS

logger = logging.getLogger(__name__)

Value = TypeVar("Value")
# What a fixture may give for a setting: a plain word, a file or files in its folder, any text, or a
# stand-in. What has no such kind is refused.
Replayable = Literal["plain", "file", "files", "text", "app", "model", "terminal", "port", "page"]

BRIDGE = ("serve", "acp")
PROXIED = (*BRIDGE, "mcp")
ASKING = (*PROXIED, "ask")
TRYING = (*BRIDGE, "try")  # what a bridge that `try` spawns may be told too
ALL = (*ASKING, "try", "check", "demo", "inbox", "login", "matrix", "replay", "trace")
LONGEST = 86_400.0  # seconds, a day: the longest time that can be set
_CONFIRM_WORDS = ("destructive", "all")  # of --confirm, beside the names of capabilities
# Read by others than this table: by the relay of the ACP proxy, by the reference bridge only, by
# whoever asks a model at an address, and by the inbox and whom it finds.
_ELSEWHERE = ("ABP_RELAY_TOKEN", "ABP_DOWNLOAD_TIMEOUT", "ABP_MODEL_KEY", "ABP_RUNTIME_DIR")


class SettingsError(AbpBridgeError):
    """A setting that cannot be used; the message says which and what would be right."""


# --- readers: the text of a value -> the value; ValueError says what would be right ---------------


def read_port(text: str) -> int:
    """A port of this machine. Raises ValueError."""
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise ValueError("it must be a port, from 0 (any that is free) to 65535")
    return int(text)


_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def read_duration(text: str, unit: Literal["ms", "s"], *, positive: bool = False) -> float:
    """A time: `30s`, `500ms`, `2min`, `1h`, or a bare number of `unit`.

    Returns:
        Seconds.

    Raises:
        ValueError: It is no time, longer than a day, or none where it must be `positive`.
    """
    name = {"ms": "milliseconds", "s": "seconds"}[unit]
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(ms|s|min|h|)\s*", text)
    try:
        seconds = float(found[1]) * _UNITS[found[2] or unit] if found else None
    except ValueError:
        seconds = None
    if seconds is None:
        raise ValueError(f"it must be a number of {name}, or have a unit: 500ms, 30s, 2min")
    if positive and seconds == 0:
        raise ValueError("it must be more than 0")
    if not 0 <= seconds <= LONGEST:
        raise ValueError(f"it must be from 0 to {LONGEST / _UNITS[unit]:.0f} {name} (a day)")
    return seconds


def _read_listen(text: str) -> int:
    """The port of an address of this machine's. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if host not in ("127.0.0.1", "localhost"):
        raise ValueError(
            "it must be 127.0.0.1:PORT or localhost:PORT: who reaches it answers in your place, so"
            " it is served to this machine only. Elsewhere it takes a tunnel, such as ssh -L"
        )
    return read_port(port)


def _read_choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"it must be {', '.join(choices[:-1])} or {choices[-1]}")
        return text

    return read


def _read_url(text: str) -> str:
    """An address over HTTP. Raises ValueError."""
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in ("http", "https") or rest[:1] in ("", "/"):
        raise ValueError("it must be an address such as https://mcp.example/mcp")
    return text


def _read_browser_url(text: str) -> str:
    """The address at which a browser of this machine is driven. Raises ValueError."""
    found = re.fullmatch(r"http://(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})/?", text.strip())
    if found is None or not 0 < int(found[2]) <= 65_535:
        raise ValueError(
            "it must be http://127.0.0.1:PORT, a browser on this machine: who reaches that port can"
            " do all that the browser can, and nothing on the way there is encrypted. Elsewhere it"
            " takes a tunnel, such as ssh -L"
        )
    return f"http://{found[1]}:{int(found[2])}"


OFF = "off"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _read_budget(text: str) -> str:
    """A budget. Raises ValueError."""
    from abp_bridge.core.model_budget import parse_budget

    parse_budget(text)
    return text


def _read_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("it must be true or false")
    return word in _TRUE


def _read_tool_cache(text: str) -> str | None:
    """A folder, `OFF`, or None for the usual one. Raises ValueError."""
    word = text.strip().lower()
    if word in (*_TRUE, *_FALSE):
        return None if word in _TRUE else OFF
    if not text.strip():
        raise ValueError("it must be a folder, or off")
    return text


def _read_list(separators: str) -> Callable[[str], tuple[str, ...]]:
    return lambda text: tuple(
        part.strip() for part in re.split(f"[{re.escape(separators)}]", text) if part.strip()
    )


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table: how a field of `Settings` is given, and what it is for.

    Attributes:
        help: What it does, as `--help` and docs/settings.md say it.
        variable: Its name in the environment.
        flag: The option that gives it, in those of the `commands`.
        read: The text of a value -> the value. Raises ValueError.
        metavar: What follows the flag, in the help; nothing does where there is a `const`.
        choices: The words that may follow the flag.
        const: What the flag without a value stands for.
        repeated: The flag may come again; each adds to a tuple.
        duration: It is a time: seconds in `Settings` and after a flag, milliseconds in the
            environment, unless a unit is given.
        zero: No time at all makes sense for it.
        separator: What stands between several values in the environment.
        shown: Its default in words, where the value itself says little.
        group: The heading of the flag in the help.
        private: It says where things lie on this machine, or who may come in, and nothing of how
            a session goes: no recording has it.
        replayable: What a fixture may give for it; None where it may not give it.
    """

    help: str
    variable: str = ""
    flag: str = ""
    commands: tuple[str, ...] = BRIDGE
    read: Callable[[str], object] = str
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    const: object = None
    repeated: bool = False
    duration: bool = False
    zero: bool = False
    separator: str = ""
    shown: str = ""
    group: str = ""
    private: bool = False
    replayable: Replayable | None = None

    @property
    def takes_value(self) -> bool:
        """Whether something may follow the flag."""
        return self.const is None or self.choices is not None

    def parse(self, text: str, unit: Literal["ms", "s"]) -> object:
        """The value that `text` stands for; a bare time is in `unit`: seconds after a flag. None at
        all makes no sense but for `zero`. Raises ValueError.
        """
        if self.duration:
            return read_duration(text, unit, positive=not self.zero)
        return self.read(text)

    def format(self, value: object) -> str:
        """`value` as its variable has it."""
        if self.duration and isinstance(value, float):
            return f"{value * 1000:.12g}"
        if isinstance(value, tuple):
            return self.separator.join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)


def _setting(default: Value, **row: Any) -> Value:
    field: Any = dataclasses.field(default=default, metadata={"setting": Setting(**row)})
    return field  # type: ignore[no-any-return]


def _duration(default: float, variable: str, help: str, **row: Any) -> float:
    kind = {"duration": True, "replayable": "plain", **row}
    return _setting(default, variable=variable, help=help, **kind)


def _switch(default: bool, variable: str, help: str, **row: Any) -> bool:
    return _setting(default, variable=variable, read=_read_bool, help=help, **row)


_WHO = "who is asked, besides the host"
_LOG = "what is logged"
_SERVER = "the server"
_LISTEN = "ABP agents that are no program"
_PAGES = ("off", "link", "open")


@dataclass(frozen=True, slots=True)
class Settings:
    """What was set. Times are in seconds; a tuple is empty and a text None where nothing was set.

    What each field is for, its row in the table says: `TABLE[name].help`.
    """

    apps: tuple[str, ...] = _setting(
        (),
        flag="--app",
        metavar="TARGET",
        repeated=True,
        replayable="app",
        help="an app to offer; opened when first used. May be repeated",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        flag="--allow",
        metavar="HOST",
        repeated=True,
        help="a private host on which the model may connect apps. May be repeated",
    )
    frames: tuple[str, ...] = _setting(
        (),
        variable="ABP_FRAMES",
        flag="--frames",
        metavar="ORIGIN",
        read=_read_list(" "),
        separator=" ",
        repeated=True,
        commands=(*TRYING, "check"),
        private=True,
        help=(
            "an origin whose frames offer their WebMCP tools too, in pages that let them. May be"
            " repeated"
        ),
    )
    output_dir: str | None = _setting(
        None,
        variable="ABP_OUTPUT_DIR",
        flag="--output-dir",
        commands=TRYING,
        metavar="DIR",
        shown="a temporary folder that goes when the session ends",
        private=True,
        replayable="file",
        help="keep the files of results here",
    )
    tool_cache: str | None = _setting(
        None,
        variable="ABP_TOOL_CACHE",
        read=_read_tool_cache,
        shown="`abp-bridge` in the folder for your caches",
        private=True,
        help=(
            "keep here what each `--app` offers, for hosts that list tools only once: the next"
            " session has them in its first list. `off`: nowhere"
        ),
    )
    headless: bool = _switch(
        True,
        "ABP_HEADLESS",
        "show the browser (`ABP_HEADLESS=false`)",
        flag="--headful",
        commands=TRYING,
        const=False,
        replayable="plain",
    )
    chrome: str | None = _setting(
        None,
        variable="ABP_CHROME",
        shown="found by itself",
        private=True,
        help="the browser to use",
    )
    chrome_sandbox: bool = _switch(
        True,
        "ABP_CHROME_SANDBOX",
        "`false` where Chromium cannot have one, as root in a container",
        private=True,
    )
    profile: str | None = _setting(
        None,
        variable="ABP_PROFILE",
        flag="--profile",
        commands=(*TRYING, "check", "login"),
        metavar="DIR",
        shown="an empty one each time",
        private=True,
        help=(
            "the folder in which the browser of your apps keeps where it is signed in; 'abp-bridge"
            " login' has you sign in there"
        ),
    )
    browser_url: str | None = _setting(
        None,
        variable="ABP_BROWSER_URL",
        flag="--browser-url",
        commands=(*TRYING, "check"),
        read=_read_browser_url,
        metavar="URL",
        shown="a browser of the bridge's own",
        private=True,
        help=(
            "use your apps in a tab of a Chromium that runs with `--remote-debugging-port`, at"
            " `http://127.0.0.1:9222`; you are asked before it is connected"
        ),
    )
    browser_timeout: float = _duration(
        30.0, "ABP_BROWSER_TIMEOUT", "for starting the browser, and opening the page"
    )
    call_timeout: float = _duration(
        60.0,
        "ABP_CALL_TIMEOUT",
        "for a call, without the time a person takes; each report of progress begins it anew, up to"
        " ten times as long in all",
    )
    question_timeout: float = _duration(
        600.0,
        "ABP_QUESTION_TIMEOUT",
        "your time for an answer, where who asks names none",
        flag="--timeout",
        commands=("ask", "mcp"),
        metavar="TIME",
    )
    mcp_modern: bool = _switch(
        True,
        "ABP_MCP_MODERN",
        "`false`: MCP hosts that look for 2026-07-28 find the handshake instead",
        replayable="plain",
    )
    acp_draft: bool = _switch(
        False,
        "ABP_ACP_DRAFT",
        "`true`: an ACP client that asks `serve` for version 2, a draft, gets it",
        replayable="plain",
    )
    acp_chat: bool = _switch(
        True,
        "ABP_ACP_CHAT",
        "`false`: nothing is asked in the chat of an ACP client that has no forms",
        replayable="plain",
    )
    park_timeout: float = _duration(
        600.0,
        "ABP_PARK_TIMEOUT",
        "how long a call is kept for a host to come back to",
        flag="--park-timeout",
        commands=PROXIED,
        metavar="TIME",
    )
    host_tool_timeout: float | None = _setting(
        None,
        variable="ABP_HOST_PATIENCE",
        duration=True,
        shown="by the host's name, else 60000",
        replayable="plain",
        help="when the host gives a tool up, where you changed that",
    )
    min_human_latency: float = _duration(
        0.4,
        "ABP_PERSON_FLOOR",
        "what a person needs to read anything at all: a host that answers faster, or faster than a"
        " longer text can be read, answered by itself; 0 to believe every host",
        flag="--person-floor",
        commands=PROXIED,
        metavar="TIME",
        zero=True,
    )
    page: str = _setting(
        "off",
        variable="ABP_PAGE",
        flag="--page",
        read=_read_choice(*_PAGES),
        choices=_PAGES,
        const="link",
        commands=PROXIED,
        group=_WHO,
        replayable="page",
        help=(
            "what the host cannot show goes to a page of the bridge's own: 'link' has the host"
            " show its address, 'open' opens your browser, as `mcp` does unless it is 'off'"
        ),
    )
    page_port: int = _setting(
        0,
        variable="ABP_PAGE_PORT",
        flag="--page-port",
        commands=(*ASKING, "try"),
        read=read_port,
        metavar="PORT",
        shown="any that is free",
        group=_WHO,
        private=True,
        help="the port of that page, where it has to be forwarded: over SSH, from a container",
    )
    notify: bool = _switch(
        False,
        "ABP_NOTIFY",
        "when you are asked, show a notification on the desktop, and ring the terminal's bell",
        flag="--notify",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
    )
    notify_urls: tuple[str, ...] = _setting(
        (),
        variable="ABP_NOTIFY_URL",
        flag="--notify-url",
        metavar="URL",
        read=_read_list(" "),
        separator=" ",
        repeated=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="send a notification there too, as apprise has it: ntfy://TOPIC ... May be repeated",
    )
    notify_text: bool = _switch(
        False,
        "ABP_NOTIFY_TEXT",
        "have notifications say what is asked, and not only who asks",
        flag="--notify-text",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
    )
    tty: str | None = _setting(
        None,
        variable="ABP_TTY",
        flag="--tty",
        commands=ASKING,
        metavar="DEVICE",
        group=_WHO,
        replayable="terminal",
        help="ask at this terminal too, for example /dev/pts/3 ('tty', typed there, names it)",
    )
    answers: str | None = _setting(
        None,
        variable="ABP_ANSWERS",
        flag="--answers",
        commands=ASKING,
        metavar="FILE",
        group=_WHO,
        replayable="file",
        help="answer from a JSON file first, for tests and CI",
    )
    questions_api: int | None = _setting(
        None,
        variable="ABP_QUESTIONS_API",
        flag="--questions-api",
        read=read_port,
        metavar="PORT",
        commands=PROXIED,
        group=_WHO,
        replayable="port",
        help="programs written for OpenCode's questions may list and answer them here",
    )
    questions_password: str | None = _setting(
        None,
        variable="ABP_QUESTIONS_PASSWORD",
        private=True,
        replayable="text",
        help="whoever has it can list and answer questions there",
    )
    confirm: tuple[str, ...] = _setting(
        (),
        variable="ABP_CONFIRM",
        flag="--confirm",
        metavar="destructive|all|NAME",
        read=_read_list(", "),
        separator=",",
        repeated=True,
        commands=(*PROXIED, "try"),
        group=_WHO,
        replayable="plain",
        help=(
            "ask a person before a capability, or a server's tool, is called: before those that"
            " are called destructive, all, or one by its name. May be repeated"
        ),
    )
    ask_model: bool = _switch(
        False,
        "ABP_ASK_MODEL",
        "where nothing else can ask, have the model ask its user and pass the answer on",
        flag="--ask-model",
        const=True,
        group=_WHO,
        replayable="plain",
    )
    model: str | None = _setting(
        None,
        variable="ABP_MODEL",
        flag="--model",
        commands=(*ASKING, "try"),
        metavar="MODEL",
        group=_WHO,
        replayable="model",
        help=(
            "a model of yours that answers what is asked of a model (sampling) where the host has"
            " none: `cli:claude`, `acp:COMMAND`, `openai:NAME` ... 'abp-bridge agents' lists them."
            " You approve what it is sent"
        ),
    )
    model_budget: str | None = _setting(
        None,
        variable="ABP_MODEL_BUDGET",
        flag="--model-budget",
        commands=(*ASKING, "try"),
        metavar="AMOUNT",
        group=_WHO,
        replayable="plain",
        read=_read_budget,
        help="what its answers may cost in a session: 2USD or 2, 100000tokens",
    )
    ask_on: tuple[str, ...] = _setting(
        (),
        variable="ABP_ASK_ON",
        flag="--ask-on",
        read=_read_list(", "),
        separator=",",
        metavar="NAMES",
        commands=PROXIED,
        group=_WHO,
        shown="all that are set up, in this order",
        replayable="plain",
        help=(
            "ask on these only, in this order: mock,host,terminal,questions-api,page,agent,model as"
            " far as they are set up"
        ),
    )
    roots: tuple[str, ...] = _setting(
        (),
        variable="ABP_ROOTS",
        flag="--root",
        commands=(*ASKING, "try"),
        metavar="DIR",
        read=_read_list(os.pathsep),
        separator=os.pathsep,
        repeated=True,
        group=_WHO,
        replayable="files",
        help="files in here may be read by who asks, each with your consent. May be repeated",
    )
    without_person: bool = _switch(
        False,
        "ABP_WITHOUT_PERSON",
        "run the server also where nobody can be asked: each of its questions is answered 'cancel'",
        flag="--without-person",
        const=True,
        commands=("mcp",),
        group=_WHO,
        replayable="plain",
    )
    audit: str | None = _setting(
        None,
        variable="ABP_AUDIT",
        flag="--audit",
        commands=PROXIED,
        metavar="FILE",
        private=True,
        help="add a line of JSON for each question: who answered, how and when, and no answer",
    )
    era: str | None = _setting(
        None,
        variable="ABP_MCP_ERA",
        flag="--era",
        commands=("mcp",),
        read=_read_choice(*ERAS),
        choices=ERAS,
        shown="what the server speaks",
        group=_SERVER,
        replayable="plain",
        help=(
            "speak only this to the server: `legacy` (MCP up to 2025-11-25, with a handshake) or"
            " `modern` (2026-07-28). Else its command is tried with `legacy` first, in which more"
            " servers ask, and its address with `modern`"
        ),
    )
    server_url: str | None = _setting(
        None,
        variable="ABP_MCP_URL",
        flag="--url",
        read=_read_url,
        commands=("mcp",),
        metavar="URL",
        group=_SERVER,
        private=True,
        help="the server's address, where it is spoken to over Streamable HTTP",
    )
    server_token: str | None = _setting(
        None,
        variable="ABP_MCP_TOKEN",
        private=True,
        help="sent to the server at `--url` with each request, as a bearer token",
    )
    listen: int | None = _setting(
        None,
        flag="--listen",
        commands=("serve",),
        read=_read_listen,
        metavar="HOST:PORT",
        group=_LISTEN,
        private=True,
        help=(
            "serve ABP agents here too, as a page and over a WebSocket, at 127.0.0.1 and any port"
            " (0: one that is free); the address is written to stderr"
        ),
    )
    listen_origins: tuple[str, ...] = _setting(
        (),
        flag="--listen-origin",
        commands=("serve",),
        repeated=True,
        metavar="ORIGIN",
        group=_LISTEN,
        private=True,
        help="a site whose pages may connect there, and show that page in theirs. May be repeated",
    )
    record: str | None = _setting(
        None,
        variable="ABP_RECORD",
        flag="--record",
        commands=(*PROXIED, "try"),
        metavar="FILE",
        private=True,
        replayable="file",
        help=(
            "write down what is said on both sides, without secrets; see it with"
            " 'abp-bridge trace FILE'"
        ),
    )
    log_level: str = _setting(
        "warning",
        variable="ABP_LOG_LEVEL",
        flag="--log-level",
        commands=ALL,
        read=_read_choice(*LEVELS),
        choices=LEVELS,
        group=_LOG,
        private=True,
        help="what is less is not written; `debug` has the way of each question, not its words",
    )
    log_file: str | None = _setting(
        None,
        variable="ABP_LOG_FILE",
        flag="--log-file",
        commands=ALL,
        metavar="FILE",
        group=_LOG,
        private=True,
        help="write the log here too; no answer is ever in it",
    )

    @property
    def set_up(self) -> Collection[str]:
        """The surfaces beside the host's own that the person set up."""
        usual = Settings()
        return [
            surface
            for surface, name in _SURFACES.items()
            if getattr(self, name) != getattr(usual, name)
        ]


# The rows by the names of their fields.
TABLE: Mapping[str, Setting] = MappingProxyType(
    {each.name: each.metadata["setting"] for each in dataclasses.fields(Settings)}
)
# surface that is not the host's -> the field that sets it up
_SURFACES = {
    "mock": "answers",
    "terminal": "tty",
    "questions-api": "questions_api",
    "page": "page",
    "agent": "model",
    "model": "ask_model",
}
# What sets up such a surface, as a person gives it.
SET_UP_BY: Mapping[str, str] = {
    surface: f"{TABLE[name].flag} {TABLE[name].metavar or ''}".strip()
    for surface, name in _SURFACES.items()
}


# --- reading --------------------------------------------------------------------------------------


def read_settings(
    environ: Mapping[str, str] = os.environ, usual: Settings | None = None, **flags: object
) -> Settings:
    """Settings from `environ`, overruled by the `flags` that are not None.

    Args:
        environ: The environment.
        usual: What holds where nothing is given, where that is not the defaults.
        flags: Values by the names of the fields of `Settings`.

    Raises:
        SettingsError: One cannot be used.
    """
    found: dict[str, Any] = read_values(environ, **flags)  # type: ignore[arg-type]
    settings = dataclasses.replace(usual or Settings(), **found)
    for check in _CHECKS:
        for problem in check(settings):
            raise SettingsError(problem)
    return settings


def read_values(
    environ: Mapping[str, str], only: Iterable[str] = TABLE, **flags: object
) -> dict[str, object]:
    """The values that are given, of the fields that `only` names, unchecked beside each other.

    Raises:
        SettingsError: A variable cannot be read.
    """
    found: dict[str, object] = {}
    for name in only:
        if flags.get(name) is not None:
            found[name] = flags[name]
        elif (variable := TABLE[name].variable) in environ:
            try:
                found[name] = TABLE[name].parse(environ[variable], "ms")
            except ValueError as problem:
                given = "" if TABLE[name].private else f"={_quoted(environ[variable])}"
                words = f"{variable}{given} cannot be used: {problem}"
                raise SettingsError(words) from None
    return found


def misspelt(environ: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names that are no settings, but nearly: (the name, the setting that is meant: a variable,
    or an option that has none).
    """
    known = [each.variable for each in TABLE.values() if each.variable]
    by_flag = {
        f"ABP_{row.flag[2:].upper().replace('-', '_')}": row.variable or row.flag
        for row in TABLE.values()
        if row.flag
    }
    strange = [
        name
        for name in environ
        if name.upper().startswith("ABP") and name not in (*known, *_ELSEWHERE)
    ]
    for name in strange:
        if meant := nearest(name.upper(), [*known, *by_flag], MISSPELT):
            yield name, by_flag.get(meant, meant)


def warn_of_misspelt(environ: Iterable[str]) -> None:
    """Log each name in the environment that looks like a misspelt setting; never a value."""
    for name, meant in misspelt(environ):
        logger.warning("%s in the environment is no setting: is %s meant?", name, meant)


def usual_settings(command: str) -> Settings:
    """What holds where nothing is given: `mcp` opens its page, so that one word is enough."""
    return Settings(page="open") if command == "mcp" else Settings()


def to_environment(settings: Settings, usual: Settings | None = None) -> dict[str, str]:
    """Settings that are not the `usual` ones, as environment variables: what somebody else needs to
    have a session go the same way.
    """
    usual = usual or Settings()
    return {
        row.variable: row.format(value)
        for name, row in TABLE.items()
        if row.variable and not row.private
        if (value := getattr(settings, name)) != getattr(usual, name)
    }


# What the name of an app begins with, by its kind, and how that is said to people.
TARGETS: Mapping[str, str] = {
    "https://": "https://...",
    "http://": "http://...",
    "ws://": "ws://...",
    "wss://": "wss://...",
    "stdio:": "stdio:COMMAND",
    "mcp:": "mcp:COMMAND",
    "mcp+https://": "mcp+https://...",
    "mcp+http://": "mcp+http://...",
    "acp:": "acp:COMMAND",
}
BUILT_IN = ("demo", "demo:page")
TARGET_FORMS = ", ".join([*TARGETS.values(), " or ".join(BUILT_IN)])
_PROGRAM = re.compile(r"(?!\w+://)([./~].*|.*[\s/].*|.*\.(py|js|mjs|ts|sh)|[^.:]+)")
_HOST = re.compile(
    r"(localhost|\[[0-9a-fA-F:.]+\]|(?!\S*\.(py|js|mjs|ts|sh)$)[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?"
)


def _quoted(text: str) -> str:
    """What was given, as an error quotes it."""
    from abp_bridge.core.command_line import show_unknown

    return repr(show_unknown(text))


def suggest_target(target: str) -> str:
    """What may be meant by the name of an app that is none; empty where nobody can guess."""
    by_scheme = {start.partition(":")[0]: start for start in TARGETS}
    scheme, colon, rest = target.partition(":")
    if near := nearest(target.lower(), BUILT_IN):
        return near
    if near := nearest(scheme.lower(), by_scheme if colon else ()):
        start = by_scheme[near]
        return start + (rest.lstrip("/") if start.endswith("/") else rest)
    if host := _HOST.fullmatch(target):
        return f"{'http' if is_nearby(host[1].strip('[]')) else 'https'}://{target}"
    commands = [start for start in TARGETS if start.endswith(":")]
    return " or ".join(f"{start}{target}" for start in commands if _PROGRAM.fullmatch(target))


def is_nearby(host: str) -> bool:
    """Whether a host is this machine or in a private network, as far as its name says: where few
    have a certificate, and nobody signs in.
    """
    import ipaddress

    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host.rpartition(".")[2].lower() in ("localhost", "local")


_PAGE_FILE = re.compile(r"(?i)(file:.*|(?!\w+://).*\.x?html?)")


def _describe_serving(path: str) -> str:
    """How the file of a page is served, and what it is called then."""
    import shlex
    from urllib.parse import quote, unquote, urlsplit

    if path.lower().startswith("file:"):
        path = unquote(urlsplit(path).path)
    folder, name = os.path.split(path)
    command = "python3 -m http.server 3000 --bind 127.0.0.1"
    command += f" --directory {shlex.quote(folder)}" if folder else ""
    page = "" if name.lower() in ("index.html", "index.htm") else f"/{quote(name)}"
    return (
        f"a page is connected where it is served, so serve its folder ({command}) and name"
        f" http://127.0.0.1:3000{page}"
    )


def describe_wrong_target(target: str) -> str:
    """What `target`, the name of no app, has to be, and what may be meant."""
    from abp_bridge.core.command_line import clean_target

    name = clean_target(target[:200])
    host = _HOST.fullmatch(name)
    is_served = host is not None and host.end(1) < len(name)  # it has a port or a path
    if name.isprintable() and not is_served and _PAGE_FILE.fullmatch(name):
        return _describe_serving(name)
    meant = suggest_target(name) if target.isprintable() else ""
    return f"it must be {TARGET_FORMS}.{meant and f' Did you mean {meant}?'}"


def split_command(target: str) -> list[str]:
    """The words of the command in `SCHEME:COMMAND`. Raises ValueError where there is none."""
    import shlex

    scheme, _, command = target.partition(":")
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise ValueError(f"this cannot be read as a command: {problem}") from None
    if not words:
        raise ValueError(f"{scheme}: needs a command, as in --app '{scheme}:python my_app.py'")
    return words


def is_extension(target: str) -> bool:
    """Whether `target` is the folder of a Chrome extension."""
    folder = os.path.expanduser(target)
    return bool(folder) and os.path.isfile(os.path.join(folder, "manifest.json"))


def find_target_problem(target: str) -> str:
    """Why `target` can name no app, with what would be right; empty where it can."""
    if target in BUILT_IN or is_extension(target):
        return ""
    if not target.lower().startswith(tuple(TARGETS)):
        return f"{_quoted(target)} is no app: {describe_wrong_target(target)}"
    if f"{target.partition(':')[0].lower()}:" in TARGETS:
        try:
            split_command(target)
        except ValueError as problem:
            from abp_bridge.core.command_line import show_target

            return f"{show_target(target)!r}: {problem}"
    return ""


def _check_apps(settings: Settings) -> Iterator[str]:
    for problem in filter(None, map(find_target_problem, settings.apps)):
        yield f"--app {problem}"


def _check_hosts(settings: Settings) -> Iterator[str]:
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host:
            yield (
                f"--allow {_quoted(host)} is no host: it must be a name or an address, with a port"
                " if only that is allowed (localhost:3000)"
            )


def _check_frames(settings: Settings) -> Iterator[str]:
    for origin in settings.frames:
        if not (origin.startswith("http") and _ORIGIN.fullmatch(origin)):
            yield (
                f"--frames {_quoted(origin)} is no origin: it must be as browsers write it, such as"
                " https://pay.example"
            )


def _check_confirm(settings: Settings) -> Iterator[str]:
    """A word that is misspelt would have nobody asked."""
    for name in settings.confirm:
        if name in _CONFIRM_WORDS:
            continue
        if not re.fullmatch(r"[^\s,;]+", name):
            yield (
                f"--confirm {name!r} is no name: it must be destructive, all or one capability's;"
                " give it again for another"
            )
        if meant := nearest(name.lower(), _CONFIRM_WORDS, MISSPELT):
            yield (
                f"--confirm {name!r}: is {meant} meant? A capability of that name is given by its"
                f" tool's, abp_{name}"
            )


def _check_roots(settings: Settings) -> Iterator[str]:
    for root in settings.roots:
        if not os.path.isdir(root):
            yield f"--root {root!r} is no folder: it must be one whose files apps may be given"


def _check_password(settings: Settings) -> Iterator[str]:
    if settings.questions_api is not None and not settings.questions_password:
        yield (
            "--questions-api needs a password in ABP_QUESTIONS_PASSWORD: whoever has it can answer"
            " for you"
        )


def _check_order(settings: Settings) -> Iterator[str]:
    if not settings.ask_on:
        return
    from abp_bridge.core.matrix import ORDER, missing_surface

    missing = missing_surface(settings.ask_on, settings.set_up)
    if missing is not None and missing not in SET_UP_BY:
        yield f"--ask-on: {_quoted(missing)} is no surface; there are {', '.join(ORDER)}"
    elif missing is not None:
        yield f"--ask-on: {missing} is not set up: give {SET_UP_BY[missing]} too"


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d+)?")


def _check_listen(settings: Settings) -> Iterator[str]:
    for origin in settings.listen_origins:
        if not _ORIGIN.fullmatch(origin):
            yield (
                f"--listen-origin {_quoted(origin)} is no origin: it must be as browsers write it,"
                " such as https://agent.example or http://localhost:3000"
            )
    if settings.listen_origins and settings.listen is None:
        yield "--listen-origin says who may connect to --listen: give that too"
    if settings.record is not None and settings.listen is not None:
        yield "--record writes down one conversation, and --listen has many: leave one of them out"


def _check_budget(settings: Settings) -> Iterator[str]:
    if settings.model_budget is not None and settings.model is None:
        yield "--model-budget is for --model: give that too"


def _check_browser(settings: Settings) -> Iterator[str]:
    if settings.profile is not None and settings.browser_url is not None:
        yield "--profile and --browser-url are two browsers: leave one of them out"


_CHECKS = (
    _check_browser,
    _check_budget,
    _check_apps,
    _check_hosts,
    _check_frames,
    _check_confirm,
    _check_roots,
    _check_password,
    _check_order,
    _check_listen,
)


# --- for docs/settings.md -------------------------------------------------------------------------


def markdown_table() -> Iterator[str]:
    """The lines of the table of settings, as docs/settings.md has it."""
    yield "| variable | option | default | |"
    yield "|---|---|---|---|"
    usual = Settings()
    for name, row in TABLE.items():
        value = getattr(usual, name)
        default = row.shown or ("none" if value in (None, ()) else f"`{row.format(value)}`")
        unit = ", in ms" if row.duration else ""
        yield f"| {_code(row.variable)} | {_code(row.flag)} | {default}{unit} | {row.help} |"


def _code(words: str) -> str:
    return f"`{words}`" if words else ""
