"""What real hosts do that the capability exchange does not say: a table keyed by the name a host
gives itself, and for those that give none by what they declare.

Only the columns of the matrix are built from it. Measured with Codex 0.169, Goose 1.52 and Claude
Code 2.1; unknown hosts get the careful row.
"""

from __future__ import annotations

from dataclasses import dataclass

from abp_bridge.core.json_value import JsonObject, JsonValue, as_text
from abp_bridge.core.schema import json_equal


@dataclass(frozen=True, slots=True)
class Profile:
    """What one host really does.

    Attributes:
        name: What people call it.
        plain: Its forms show only text, yes or no, and one of several choices.
        buttons: How many options of an ACP permission it shows with their labels; 2 means allow
            or deny, without any.
        loopback: It opens addresses on this machine.
        tool_timeout: After how many seconds it gives a tool up.
        paused_while_asking: That clock stands still while its person is asked.
        titles: Its forms show the titles of properties; else only their names and descriptions.
        interactive: It shows its person what it is asked (True), answers by itself (False), or
            nobody knows.
        may_dismiss_unattended: Where nobody sits at it, it dismisses a question by itself, and may
            take as long as a person: its `cancel` is no proof of one.
        ways: What its person can do in it to be asked, in words for them.
        shows: Its surfaces as it declares them, for people who look it up; a session goes by what
            is declared in it.
    """

    name: str
    plain: bool = False
    buttons: int = 4
    loopback: bool = True
    tool_timeout: float = 60.0
    paused_while_asking: bool = False
    titles: bool = True
    interactive: bool | None = True
    may_dismiss_unattended: bool = False
    ways: tuple[str, ...] = ()
    shows: tuple[str, ...] = ("acp-permission", "acp-chat")


CAREFUL = Profile("an unknown host", interactive=None)

PROFILES: dict[str, Profile] = {
    # Its terminal shows a form with a number or a multi-select as a bare approval, and answers it
    # `accept {}`; it opens https addresses only.
    "codex-mcp-client": Profile(
        "Codex",
        plain=True,
        loopback=False,
        tool_timeout=300.0,
        paused_while_asking=True,
        ways=(
            "codex in a terminal: it shows what is asked, which codex exec declines by itself",
            'env_vars = ["DISPLAY", "WAYLAND_DISPLAY"] of this server in config.toml, and --page'
            " open: Codex passes neither on, and without them no browser is found",
        ),
        shows=("mcp-form", "mcp-url"),
    ),
    # Its terminal has a bare text line for everything but yes or no and one choice; a list comes
    # back as text.
    "goose-cli": Profile(
        "Goose as an MCP host",
        plain=True,
        titles=False,
        tool_timeout=300.0,
        ways=("goose session: it shows forms, where goose run ends with an error",),
        shows=("mcp-form", "mcp-sampling"),
    ),
    "claude-code": Profile(
        "Claude Code",
        ways=("claude in a terminal: it shows what is asked, which claude -p dismisses by itself",),
        shows=("mcp-form", "mcp-url"),
    ),
    # Its headless mode starts a terminal's form, which fails: 26 ms to 1 s, by how busy the machine
    # is. Who is shown a link accepts it at once, in either mode.
    "fast-agent-mcp": Profile(
        "fast-agent",
        may_dismiss_unattended=True,
        ways=("fast-agent in a terminal: it shows forms there, and dismisses them elsewhere",),
        shows=("mcp-form", "mcp-url"),
    ),
    # As ACP clients: acpx asks y or n (a program on its runtime may declare forms), Goose shows
    # buttons of its own and answers by kind, OpenHands takes the first option there is.
    "acpx": Profile(
        "acpx",
        buttons=2,
        ways=("acpx in a terminal, without --approve-all and --deny-all: it asks y or n",),
    ),
    "goose": Profile("Goose as an ACP client", plain=True, buttons=2),
    "openhands": Profile("OpenHands", buttons=2, interactive=False, shows=("acp-permission",)),
    "zed": Profile("Zed", shows=("acp-form", "acp-url", "acp-permission")),
    "toad": Profile("Toad"),
}


# Hosts that give no name, by all that they declare: what nobody else was seen to declare.
UNNAMED: tuple[tuple[JsonObject, Profile], ...] = (
    (
        {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "auth": {"terminal": False},
        },
        PROFILES["goose"],
    ),
)


def profile(name: JsonValue, declared: JsonValue = None) -> Profile:
    """The row for a host.

    Args:
        name: Its `clientInfo.name`, as it came.
        declared: Its capabilities, as they came: they tell which host it is that gives no name.

    Returns:
        The careful row for a host that neither tells.
    """
    if known := as_text(name).strip():
        return PROFILES.get(known.lower(), CAREFUL)
    return next((row for given, row in UNNAMED if json_equal(declared, given)), CAREFUL)
