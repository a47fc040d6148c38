"""Who is asked besides the host, where, and by what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from abp_bridge.settings.readers import read_bool, read_budget, read_choice, read_list, read_port
from abp_bridge.settings.row import ASKING, PROXIED, Setting

_WHO = "who is asked, besides the host"
_PAGES = ("off", "link", "open")
_switch = partial(Setting, read=read_bool)

ROWS: Mapping[str, Setting] = {
    "page": Setting(
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
    ),
    "page_port": Setting(
        variable="ABP_PAGE_PORT",
        flag="--page-port",
        commands=(*ASKING, "try"),
        read=read_port,
        metavar="PORT",
        shown="any that is free",
        group=_WHO,
        private=True,
        help="the port of that page, where it has to be forwarded: over SSH, from a container",
    ),
    "notify": _switch(
        variable="ABP_NOTIFY",
        flag="--notify",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="when you are asked, show a notification on the desktop, and ring the terminal's bell",
    ),
    "notify_urls": Setting(
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
    ),
    "notify_text": _switch(
        variable="ABP_NOTIFY_TEXT",
        flag="--notify-text",
        const=True,
        commands=PROXIED,
        group=_WHO,
        private=True,
        help="have notifications say what is asked, and not only who asks",
    ),
    "tty": Setting(
        variable="ABP_TTY",
        flag="--tty",
        path=True,
        commands=ASKING,
        metavar="DEVICE",
        group=_WHO,
        replayable="terminal",
        help="ask at this terminal too, for example /dev/pts/3 ('tty', typed there, names it)",
    ),
    "answers": Setting(
        variable="ABP_ANSWERS",
        flag="--answers",
        path=True,
        commands=ASKING,
        metavar="FILE",
        group=_WHO,
        replayable="file",
        help="answer from a JSON file first, for tests and CI",
    ),
    "questions_api": Setting(
        variable="ABP_QUESTIONS_API",
        flag="--questions-api",
        read=read_port,
        metavar="PORT",
        commands=PROXIED,
        group=_WHO,
        replayable="port",
        help="programs written for OpenCode's questions may list and answer them here",
    ),
    "questions_password": Setting(
        variable="ABP_QUESTIONS_PASSWORD",
        private=True,
        replayable="text",
        help="whoever has it can list and answer questions there",
    ),
    "confirm": Setting(
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
    ),
    "ask_via_model": _switch(
        variable="ABP_ASK_VIA_MODEL",
        flag="--ask-via-model",
        const=True,
        group=_WHO,
        replayable="plain",
        help="where nothing else can ask, have the model ask its user and pass the answer on",
    ),
    "sampling": Setting(
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
    ),
    "sampling_budget": Setting(
        variable="ABP_SAMPLING_BUDGET",
        flag="--sampling-budget",
        commands=(*ASKING, "try"),
        metavar="AMOUNT",
        group=_WHO,
        replayable="plain",
        read=read_budget,
        help="what its answers may cost in a session: 2USD or 2, 100000tokens",
    ),
    "ask_on": Setting(
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
    ),
    "roots": Setting(
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
    ),
    "without_person": _switch(
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
    ),
}
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


# What sets up such a surface, as a person gives it.
SET_UP_BY: Mapping[str, str] = {
    surface: _as_given(ROWS[name]) for surface, name in SURFACES.items()
}
