"""The table of settings: each field of `Settings` with its flag, variable, reader and help.

Command options, the environment reader, docs/settings.md, shell completion and the replayable
settings all come from this table.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from abp_bridge.log import LEVELS
from abp_bridge.protocols.mcp.client import ERAS
from abp_bridge.settings.values import (
    check_confirm,
    check_folder,
    check_origin,
    check_private_host,
    find_target_problem,
    read_bool,
    read_browser_url,
    read_choice,
    read_duration,
    read_list,
    read_listen,
    read_port,
    read_tool_cache,
    read_url,
)

# What a fixture may give for a setting: a plain word, a file or files in its folder, any text, or a
# stand-in. What has no such kind is refused.
Replayable = Literal["plain", "file", "files", "text", "app", "model", "terminal", "port", "page"]

BRIDGE = ("serve", "acp")
PROXIED = (*BRIDGE, "mcp")
ASKING = (*PROXIED, "ask")
TRYING = (*BRIDGE, "try")  # what a bridge that `try` spawns may be told too
ALL = (
    *(*ASKING, "try", "check", "demo", "install", "uninstall", "doctor", "inbox", "login"),
    *("agents", "matrix", "replay", "trace"),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: how a field of `Settings` is given, and what it is for.

    Attributes:
        read: Returns the value of a text. Raises ValueError.
        const: The value of the flag alone.
        duration: Seconds in `Settings` and after a flag, milliseconds in the environment.
        shown: The default as text, if the value says little.
        private: Not recorded, as it names local places or allowed origins.
        replayable: The values a fixture may give; None if it may not.
        check: Returns what is wrong with one value, or "".
        needs, excludes: Another field that must (not) be set too, and the error's words.
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
    path: bool = False
    shown: str = ""
    group: str = ""
    private: bool = False
    replayable: Replayable | None = None
    check: Callable[[str], str] | None = None
    needs: tuple[str, str] | None = None
    excludes: tuple[str, str] | None = None

    @property
    def takes_value(self) -> bool:
        return self.const is None or self.choices is not None

    def parse(self, text: str, unit: Literal["ms", "s"]) -> object:
        """Return the value of `text`; a bare time is in `unit`. Raises ValueError."""
        if self.duration:
            return read_duration(text, unit, positive=not self.zero)
        return self.read(text)

    def format(self, value: object) -> str:
        if self.duration and isinstance(value, float):
            return f"{value * 1000:.12g}"
        if isinstance(value, tuple):
            return self.separator.join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)


def setting(default: T, **row: Any) -> T:
    """Return a field of `Settings` with this default and the row `Setting(**row)`."""
    if isinstance(default, bool):
        row = {"read": read_bool, **row}
    elif isinstance(default, float):
        row = {"duration": True, **row}
    field: Any = dataclasses.field(default=default, metadata={"row": Setting(**row)})
    return field  # type: ignore[no-any-return]  # dataclass makes the value of it


_LISTEN = "ABP agents that are no program"
_LOG = "what is logged"
_PAGES = ("off", "link", "open")
_SERVER = "the server"
_WHO = "who is asked, besides the host"


@dataclass(frozen=True, slots=True)
class Settings:
    """What was set. Times are in seconds; an unset tuple is empty, and an unset text None."""

    apps: tuple[str, ...] = setting(
        (),
        flag="--app",
        metavar="TARGET",
        repeated=True,
        replayable="app",
        help="an app to offer; opened when first used. May be repeated",
        check=find_target_problem,
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        flag="--allow",
        metavar="HOST",
        repeated=True,
        help="a host whose pages a model may open without asking you, private ones too."
        " May be repeated",
        check=check_private_host,
    )
    output_dir: str | None = setting(
        None,
        variable="ABP_OUTPUT_DIR",
        flag="--output-dir",
        path=True,
        commands=TRYING,
        metavar="DIR",
        shown="a temporary folder that goes when the session ends",
        private=True,
        replayable="file",
        help="keep the files of results here",
    )
    tool_cache: str | None = setting(
        None,
        variable="ABP_TOOL_CACHE",
        path=True,
        read=read_tool_cache,
        shown="`abp-bridge` in the folder for your caches",
        private=True,
        help=(
            "keep here what each `--app` offers, for hosts that list tools only once: the next"
            " session has them in its first list. `off`: nowhere"
        ),
    )
    headless: bool = setting(
        True,
        variable="ABP_HEADLESS",
        flag="--headful",
        commands=(*TRYING, "check"),
        const=False,
        replayable="plain",
        help="show the browser (`ABP_HEADLESS=false`)",
    )
    chrome: str | None = setting(
        None,
        variable="ABP_CHROME",
        path=True,
        shown="found by itself",
        private=True,
        help="the browser to use",
    )
    chrome_sandbox: bool = setting(
        True,
        variable="ABP_CHROME_SANDBOX",
        private=True,
        help="`false` where Chromium cannot have one, as root in a container",
    )
    profile: str | None = setting(
        None,
        variable="ABP_PROFILE",
        flag="--profile",
        path=True,
        commands=(*TRYING, "check", "login"),
        metavar="DIR",
        shown="an empty one each time; `login` has one among your data",
        private=True,
        help=(
            "the folder in which the browser of your apps keeps where it is signed in; 'abp-bridge"
            " login' has you sign in there"
        ),
        excludes=("browser_url", "and --browser-url are two browsers: leave one of them out"),
    )
    browser_url: str | None = setting(
        None,
        variable="ABP_BROWSER_URL",
        flag="--browser-url",
        commands=(*TRYING, "check"),
        read=read_browser_url,
        metavar="URL",
        shown="a browser of the bridge's own",
        private=True,
        help=(
            "use your apps in a tab of a Chromium that runs with `--remote-debugging-port`, at"
            " `http://127.0.0.1:9222`; you are asked before it is connected"
        ),
    )
    browser_timeout: float = setting(
        30.0,
        variable="ABP_BROWSER_TIMEOUT",
        help="for starting the browser, and opening the page",
        replayable="plain",
    )
    call_timeout: float = setting(
        60.0,
        variable="ABP_CALL_TIMEOUT",
        help=(
            "for a call, without the time a person takes; each report of progress begins it anew,"
            " up to ten times as long in all"
        ),
        replayable="plain",
    )
    question_timeout: float = setting(
        600.0,
        variable="ABP_QUESTION_TIMEOUT",
        flag="--timeout",
        commands=("ask", "mcp"),
        metavar="TIME",
        help="your time for an answer, where who asks names none",
        replayable="plain",
    )
    mcp_modern: bool = setting(
        True,
        variable="ABP_MCP_MODERN",
        replayable="plain",
        help="`false`: MCP hosts that look for 2026-07-28 find the handshake instead",
    )
    acp_chat: bool = setting(
        True,
        variable="ABP_ACP_CHAT",
        replayable="plain",
        help="`false`: nothing is asked in the chat of an ACP client that has no forms",
    )
    park_timeout: float = setting(
        600.0,
        variable="ABP_PARK_TIMEOUT",
        flag="--park-timeout",
        commands=PROXIED,
        metavar="TIME",
        help="how long a call is kept for a host to come back to",
        replayable="plain",
    )
    host_tool_timeout: float | None = setting(
        None,
        variable="ABP_HOST_PATIENCE",
        duration=True,
        shown="by the host's name, else 60000",
        replayable="plain",
        help="when the host gives a tool up, where you changed that",
    )
    min_human_latency: float = setting(
        0.4,
        variable="ABP_PERSON_FLOOR",
        flag="--person-floor",
        commands=PROXIED,
        metavar="TIME",
        zero=True,
        help=(
            "what a person needs to read anything at all: a host that answers faster, or faster"
            " than a longer text can be read, answered by itself; 0 to believe every host"
        ),
        replayable="plain",
    )
    page: str = setting(
        "off",
        variable="ABP_PAGE",
        flag="--page",
        read=read_choice(*_PAGES),
        choices=_PAGES,
        const="link",
        shown="off; of `mcp`: open",
        commands=PROXIED,
        group=_WHO,
        replayable="page",
        help=(
            "what the host cannot show goes to a page of the bridge's own: 'link' has the host"
            " show its address, 'open' opens your browser"
        ),
    )
    page_port: int = setting(
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
    notify: bool = setting(
        False,
        variable="ABP_NOTIFY",
        flag="--notify",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="when you are asked, show a notification on the desktop, and ring the terminal's bell",
    )
    notify_urls: tuple[str, ...] = setting(
        (),
        variable="ABP_NOTIFY_URL",
        flag="--notify-url",
        metavar="URL",
        read=read_list(" "),
        separator=" ",
        repeated=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="send a notification there too, as apprise has it: ntfy://TOPIC ... May be repeated",
    )
    notify_text: bool = setting(
        False,
        variable="ABP_NOTIFY_TEXT",
        flag="--notify-text",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="have notifications say what is asked, and not only who asks",
    )
    tty: str | None = setting(
        None,
        variable="ABP_TTY",
        flag="--tty",
        path=True,
        commands=ASKING,
        metavar="DEVICE",
        group=_WHO,
        replayable="terminal",
        help="ask at this terminal too, for example /dev/pts/3 ('tty', typed there, names it)",
    )
    answers: str | None = setting(
        None,
        variable="ABP_ANSWERS",
        flag="--answers",
        path=True,
        commands=ASKING,
        metavar="FILE",
        group=_WHO,
        replayable="file",
        help="answer from a JSON file first, for tests and CI",
    )
    questions_api: int | None = setting(
        None,
        variable="ABP_QUESTIONS_API",
        flag="--questions-api",
        read=read_port,
        metavar="PORT",
        commands=PROXIED,
        group=_WHO,
        replayable="port",
        help="programs written for OpenCode's questions may list and answer them here",
        needs=(
            "questions_password",
            "needs a password in ABP_QUESTIONS_PASSWORD: whoever has it can answer for you",
        ),
    )
    questions_password: str | None = setting(
        None,
        variable="ABP_QUESTIONS_PASSWORD",
        private=True,
        replayable="text",
        help="whoever has it can list and answer questions there",
    )
    confirm: tuple[str, ...] = setting(
        (),
        variable="ABP_CONFIRM",
        flag="--confirm",
        metavar="destructive|all|NAME",
        read=read_list(", "),
        separator=",",
        repeated=True,
        commands=(*PROXIED, "try"),
        group=_WHO,
        replayable="plain",
        help=(
            "ask a person before a capability, or a server's tool, is called: before those that"
            " are called destructive, all, or one by its name. May be repeated"
        ),
        check=check_confirm,
    )
    ask_via_model: bool = setting(
        False,
        variable="ABP_ASK_VIA_MODEL",
        flag="--ask-via-model",
        const=True,
        group=_WHO,
        replayable="plain",
        help="where nothing else can ask, have the model ask its user and pass the answer on",
    )
    sampling: str | None = setting(
        None,
        variable="ABP_SAMPLING",
        flag="--sampling",
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
    ask_on: tuple[str, ...] = setting(
        (),
        variable="ABP_ASK_ON",
        flag="--ask-on",
        read=read_list(", "),
        separator=",",
        metavar="NAMES",
        commands=PROXIED,
        group=_WHO,
        shown="all that are set up, in this order",
        replayable="plain",
        help=(
            "ask on these only, in this order, as far as they are set up; with commas between:"
            " mock, host, terminal, questions-api, page, sampling, model-relay"
        ),
    )
    roots: tuple[str, ...] = setting(
        (),
        variable="ABP_ROOTS",
        flag="--root",
        path=True,
        commands=(*ASKING, "try", "check"),
        metavar="DIR",
        read=read_list(os.pathsep),
        separator=os.pathsep,
        repeated=True,
        group=_WHO,
        replayable="files",
        help="files in here may be read by who asks, each with your consent. May be repeated",
        check=check_folder,
    )
    without_person: bool = setting(
        False,
        variable="ABP_WITHOUT_PERSON",
        flag="--without-person",
        const=True,
        commands=("mcp",),
        group=_WHO,
        replayable="plain",
        help=(
            "run the server also where nobody can be asked: each of its questions is answered"
            " 'cancel'"
        ),
    )
    audit: str | None = setting(
        None,
        variable="ABP_AUDIT",
        flag="--audit",
        path=True,
        commands=PROXIED,
        metavar="FILE",
        private=True,
        help="add a line of JSON for each question: who answered, how and when, and no answer",
    )
    era: str | None = setting(
        None,
        variable="ABP_MCP_ERA",
        flag="--era",
        commands=("mcp",),
        read=read_choice(*ERAS),
        choices=ERAS,
        shown="what the server speaks",
        group=_SERVER,
        replayable="plain",
        help=(
            "speak only this to the server: `legacy` (MCP up to 2025-11-25, with a handshake) or"
            " `modern` (2026-07-28). Else a command is tried in the kind that its host speaks"
            " first, and an address with `modern`"
        ),
    )
    server_url: str | None = setting(
        None,
        variable="ABP_MCP_URL",
        flag="--url",
        read=read_url,
        commands=("mcp",),
        metavar="URL",
        group=_SERVER,
        private=True,
        help="the server's address, where it is spoken to over Streamable HTTP",
    )
    server_token: str | None = setting(
        None,
        variable="ABP_MCP_TOKEN",
        private=True,
        help="sent to the server at `--url` with each request, as a bearer token",
    )
    listen: int | None = setting(
        None,
        flag="--listen",
        commands=("serve",),
        read=read_listen,
        metavar="HOST:PORT",
        group=_LISTEN,
        private=True,
        help=(
            "serve ABP agents here too, as a page and over a WebSocket, at 127.0.0.1 and any port"
            " (0: one that is free); the address is written to stderr"
        ),
    )
    listen_origins: tuple[str, ...] = setting(
        (),
        flag="--listen-origin",
        commands=("serve",),
        repeated=True,
        metavar="ORIGIN",
        group=_LISTEN,
        private=True,
        help="a site whose pages may connect there, and show that page in theirs. May be repeated",
        check=check_origin,
        needs=("listen", "says who may connect to --listen: give that too"),
    )
    record: str | None = setting(
        None,
        variable="ABP_RECORD",
        flag="--record",
        path=True,
        commands=(*PROXIED, "try"),
        metavar="FILE",
        private=True,
        replayable="file",
        help=(
            "write down what is said on both sides, without secrets; see it with"
            " 'abp-bridge trace FILE'"
        ),
        excludes=(
            "listen",
            "writes down one conversation, and --listen has many: leave one of them out",
        ),
    )
    log_level: str = setting(
        "warning",
        variable="ABP_LOG_LEVEL",
        flag="--log-level",
        commands=ALL,
        read=read_choice(*LEVELS),
        choices=LEVELS,
        group=_LOG,
        private=True,
        help="what is less is not written; `debug` has the way of each question, not its words",
    )
    log_file: str | None = setting(
        None,
        variable="ABP_LOG_FILE",
        flag="--log-file",
        path=True,
        commands=ALL,
        metavar="FILE",
        group=_LOG,
        private=True,
        help="write the log here too; no answer is ever in it",
    )

    @property
    def set_up(self) -> Collection[str]:
        """The surfaces beside the host's own that the user set up."""
        usual = Settings()
        return [
            surface
            for surface, name in SURFACES.items()
            if getattr(self, name) != getattr(usual, name)
        ]


# The rows by the names of their fields.
TABLE: Mapping[str, Setting] = MappingProxyType(
    {each.name: each.metadata["row"] for each in dataclasses.fields(Settings)}
)
# surface that is not the host's -> the field that sets it up
SURFACES = {
    "mock": "answers",
    "terminal": "tty",
    "questions-api": "questions_api",
    "page": "page",
    "sampling": "sampling",
    "model-relay": "ask_via_model",
}


def _as_given(row: Setting) -> str:
    few = "" if "mcp" in row.commands else f" (of {', '.join(row.commands)})"
    return f"{row.flag} {row.metavar or ''}".strip() + few


# surface that is not the host's -> what the user gives to set it up
SET_UP_BY: Mapping[str, str] = {
    surface: _as_given(TABLE[name]) for surface, name in SURFACES.items()
}

# Flags, variables and values that were removed -> what replaces them.
REMOVED: Mapping[str, str] = {
    "--frames": "Open the page of the other origin as an app: --app URL",
    "ABP_FRAMES": "Open the page of the other origin as an app: --app URL",
    "--sampling-budget": "You approve each request before a model gets it",
    "ABP_SAMPLING_BUDGET": "You approve each request before a model gets it",
    "ABP_ACP_DRAFT": "The bridge speaks version 1 of ACP, as all clients do",
    "cli:gemini": "Use the agent over ACP: acp:'gemini --acp'",
    "cli:goose": "Use the agent over ACP: acp:'goose acp'",
    "cli:opencode": "Use the agent over ACP: acp:'opencode acp'",
    "cli:qwen": "Use the agent over ACP: acp:'qwen --acp'",
}


def describe_removed(name: str) -> str:
    """Return two lines, that `name` was removed and what replaces it; "" for any other name."""
    return f"{name} was removed.\n{REMOVED[name]}." if name in REMOVED else ""
