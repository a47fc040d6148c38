"""How a session goes: its times, its protocols, the server behind it, who may connect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from abp_bridge.protocols.mcp.versions import ERAS
from abp_bridge.settings.readers import read_bool, read_choice, read_listen, read_url
from abp_bridge.settings.row import PROXIED, Setting

_SERVER = "the server"
_LISTEN = "ABP agents that are no program"
_switch = partial(Setting, read=read_bool)
_duration = partial(Setting, duration=True, replayable="plain")

ROWS: Mapping[str, Setting] = {
    "call_timeout": _duration(
        variable="ABP_CALL_TIMEOUT",
        help=(
            "for a call, without the time a person takes; each report of progress begins it anew,"
            " up to ten times as long in all"
        ),
    ),
    "question_timeout": _duration(
        variable="ABP_QUESTION_TIMEOUT",
        flag="--timeout",
        commands=("ask", "mcp"),
        metavar="TIME",
        help="your time for an answer, where who asks names none",
    ),
    "mcp_modern": _switch(
        variable="ABP_MCP_MODERN",
        replayable="plain",
        help="`false`: MCP hosts that look for 2026-07-28 find the handshake instead",
    ),
    "acp_chat": _switch(
        variable="ABP_ACP_CHAT",
        replayable="plain",
        help="`false`: nothing is asked in the chat of an ACP client that has no forms",
    ),
    "park_timeout": _duration(
        variable="ABP_PARK_TIMEOUT",
        flag="--park-timeout",
        commands=PROXIED,
        metavar="TIME",
        help="how long a call is kept for a host to come back to",
    ),
    "host_tool_timeout": Setting(
        variable="ABP_HOST_PATIENCE",
        duration=True,
        shown="by the host's name, else 60000",
        replayable="plain",
        help="when the host gives a tool up, where you changed that",
    ),
    "min_human_latency": _duration(
        variable="ABP_PERSON_FLOOR",
        flag="--person-floor",
        commands=PROXIED,
        metavar="TIME",
        zero=True,
        help=(
            "what a person needs to read anything at all: a host that answers faster, or faster"
            " than a longer text can be read, answered by itself; 0 to believe every host"
        ),
    ),
    "era": Setting(
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
            " `modern` (2026-07-28). Else its command is tried with `legacy` first, in which more"
            " servers ask, and its address with `modern`"
        ),
    ),
    "server_url": Setting(
        variable="ABP_MCP_URL",
        flag="--url",
        read=read_url,
        commands=("mcp",),
        metavar="URL",
        group=_SERVER,
        private=True,
        help="the server's address, where it is spoken to over Streamable HTTP",
    ),
    "server_token": Setting(
        variable="ABP_MCP_TOKEN",
        private=True,
        help="sent to the server at `--url` with each request, as a bearer token",
    ),
    "listen": Setting(
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
    ),
    "listen_origins": Setting(
        flag="--listen-origin",
        commands=("serve",),
        repeated=True,
        metavar="ORIGIN",
        group=_LISTEN,
        private=True,
        help="a site whose pages may connect there, and show that page in theirs. May be repeated",
    ),
}
