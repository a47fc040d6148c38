"""What real hosts do that their capabilities do not say, by the host's name or its declarations.

Only the columns of the matrix are built from it. Measured with Codex 0.169, Goose 1.52, Claude
Code 2.1, Copilot CLI 1.0, Gemini CLI 0.61, Qwen Code 0.24 and acpx 0.19; unknown hosts get the
careful row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from abp_bridge.core.json_value import JsonObject, JsonValue, as_text, json_equal
from abp_bridge.core.matrix import MATRIX, SurfaceVariant, can_ask
from abp_bridge.core.question import Question
from abp_bridge.core.surface import BESIDE, WAYS, Advice, Options, Surface, Way


@dataclass(frozen=True, slots=True)
class HostWay(Way):
    """What a user can do in a host to be asked, and which surfaces that enables."""

    surfaces: tuple[Surface, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What one host really does.

    Attributes:
        name: Its common name.
        plain: Its forms show only text, yes or no, and one of several choices.
        buttons: How many options of an ACP permission it shows with labels; 2 means allow or deny.
        loopback: It opens addresses on this machine.
        tool_timeout: Seconds after which it gives a tool up.
        paused_while_asking: That clock stops while the user is asked.
        titles: Its forms show the titles of properties.
        interactive: It shows questions to a user (True), answers by itself (False), or unknown.
        may_dismiss_unattended: Without a user it may dismiss a question after any time: its
            `cancel` proves nothing.
        lists_once: It lists tools only once.
        joins_texts: Its model reads the texts of a result without separators.
        reads_structured: Its model reads structured content instead of texts.
        may_leave: It may send one prompt and leave.
        waits_for_page: It shows the link to a page until the page has its answer.
        has_model: It has a model, which can talk to the user.
        ways: What its user can do in it to be asked.
        options: What its user can set up beside it.
        shows: Its declared surfaces, for documentation only.
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
    lists_once: bool = False
    joins_texts: bool = False
    reads_structured: bool = False
    may_leave: bool = False
    waits_for_page: bool = False
    has_model: bool = True
    ways: tuple[HostWay, ...] = ()
    options: Options = field(default_factory=lambda: BESIDE)
    shows: tuple[str, ...] = ("acp-permission", "acp-chat")

    def advise(self, question: Question, off: Collection[Surface] = ()) -> Advice:
        """Return how `question` can reach the user, without the surfaces that are `off`."""
        return Advice(tuple(self._find_ways(question, off)), self.options)

    def _find_ways(self, question: Question, off: Collection[Surface]) -> Iterator[str]:
        for way in self.ways:
            opened = [self._variant(surface) for surface in way.surfaces if surface not in off]
            if can_ask(question, opened):
                yield str(way)

    def _variant(self, surface: Surface) -> SurfaceVariant:
        """A surface as this host shows it."""
        newest = max(version for known, version in MATRIX if known is surface)
        return SurfaceVariant(
            surface,
            newest,
            plain=self.plain and surface is Surface.MCP_FORM,
            buttons=self.buttons,
            loopback=self.loopback or surface is not Surface.MCP_URL,
        )


_FORMS = (Surface.MCP_FORM, Surface.MCP_URL)

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
        lists_once=True,
        reads_structured=True,
        ways=(
            HostWay(
                "codex in a terminal",
                "it shows what is asked, which codex exec declines by itself",
                _FORMS,
            ),
            HostWay(
                'env_vars = ["DISPLAY", "WAYLAND_DISPLAY"] of this server in config.toml, and'
                " --page open",
                "Codex passes neither on, and without them no browser is found",
                (Surface.PAGE,),
            ),
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
        ways=(
            HostWay(
                "goose session",
                "it shows forms, where goose run ends with an error",
                (Surface.MCP_FORM,),
            ),
        ),
        shows=("mcp-form", "mcp-sampling"),
    ),
    "claude-code": Profile(
        "Claude Code",
        reads_structured=True,
        ways=(
            HostWay(
                "claude in a terminal",
                "it shows what is asked, which claude -p dismisses by itself",
                _FORMS,
            ),
        ),
        shows=("mcp-form", "mcp-url"),
    ),
    # Its headless mode starts a terminal's form, which fails: 26 ms to 1 s, by how busy the machine
    # is. Who is shown a link accepts it at once, in either mode.
    "fast-agent-mcp": Profile(
        "fast-agent",
        may_dismiss_unattended=True,
        ways=(
            HostWay(
                "fast-agent in a terminal",
                "it shows forms there, and dismisses them elsewhere",
                _FORMS,
            ),
        ),
        shows=("mcp-form", "mcp-url"),
    ),
    # Its terminal shows every field, and any address; its model reads `}}Nobody` where a result has
    # two texts.
    "copilot-cli": Profile(
        "Copilot CLI",
        tool_timeout=180.0,
        joins_texts=True,
        ways=(
            HostWay(
                "copilot in a terminal",
                "it shows what is asked, which copilot -p declines by itself",
                _FORMS,
            ),
        ),
        shows=("mcp-form", "mcp-url", "mcp-sampling"),
    ),
    # They ask nobody anything. Qwen's limit is one of silence.
    "gemini-cli-mcp-client": Profile("Gemini CLI", tool_timeout=600.0, shows=()),
    "qwen-cli-mcp-client": Profile("Qwen Code", tool_timeout=300.0, lists_once=True, shows=()),
    # As ACP clients: acpx asks y or n (a program on its runtime may declare forms), and its exec
    # sends one prompt, where its prompt resumes a session first; Goose shows buttons of its own and
    # answers by kind, OpenHands takes the first option there is.
    "acpx": Profile(
        "acpx",
        buttons=2,
        may_leave=True,
        ways=(
            HostWay(
                "acpx in a terminal, without --approve-all and --deny-all",
                "it asks y or n",
                (Surface.ACP_PERMISSION,),
            ),
            HostWay(
                "acpx sessions new, then acpx prompt",
                "you are asked in that session, and your next acpx prompt is the answer, where acpx"
                " exec leaves with the question",
                (Surface.ACP_CHAT,),
            ),
        ),
    ),
    "goose": Profile("Goose as an ACP client", plain=True, buttons=2),
    "openhands": Profile("OpenHands", buttons=2, interactive=False, shows=("acp-permission",)),
    "zed": Profile("Zed", shows=("acp-form", "acp-url", "acp-permission")),
    "toad": Profile("Toad"),
    # The bridge's own commands that are a host: their person gives options to them.
    "abp-bridge-try": replace(
        CAREFUL,
        name="abp-bridge try",
        waits_for_page=True,
        has_model=False,
        options={
            Surface.PAGE: Way(
                "--on page where a browser can be opened",
                "you are asked on a page of the bridge's own",
            ),
            Surface.TERMINAL: Way("abp-bridge try in a terminal", "you are asked there"),
            Surface.SAMPLING: WAYS[Surface.SAMPLING],
        },
        shows=("mcp-form", "mcp-url"),
    ),
    "abp-bridge-demo": replace(
        CAREFUL,
        name="abp-bridge demo",
        has_model=False,
        options={Surface.TERMINAL: Way("abp-bridge demo in a terminal", "you are asked there")},
        shows=("mcp-form", "mcp-url", "mcp-sampling"),
    ),
}

# By how a name begins that ends with the server's, as the person called that.
_BEGINNINGS = {"qwen-cli-mcp-client-": PROFILES["qwen-cli-mcp-client"]}

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
    """Return the row for a host, else the careful row.

    Args:
        name: Its `clientInfo.name`.
        declared: Its capabilities, which identify a host without a name.
    """
    if known := as_text(name).strip().lower():
        begun = (row for start, row in _BEGINNINGS.items() if known.startswith(start))
        return PROFILES.get(known) or next(begun, CAREFUL)
    return next((row for given, row in UNNAMED if json_equal(declared, given)), CAREFUL)
