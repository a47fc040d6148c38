"""Silent traps in hosts' configurations, as a table of condition, effect and fix.

A row without a `find` cannot be seen in a file: it is reported once, as a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from abp_bridge.setup.doctor import signs
from abp_bridge.setup.doctor.finding import Finding, HostFacts, Verdict
from abp_bridge.setup.hosts import HOSTS

Find = Callable[[HostFacts], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Trap:
    """A row of the table.

    Attributes:
        hosts: The hosts that have it; empty for all.
        find: Yields a sentence for each occurrence.
    """

    name: str
    hosts: tuple[str, ...]
    verdict: Verdict
    says: str
    cure: str
    find: Find | None = None


def judge(facts: HostFacts) -> list[Finding]:
    """What of the table holds for a host, the notes last."""
    found, notes = [], []
    for trap in TRAPS:
        if trap.hosts and facts.host.name not in trap.hosts:
            continue
        if trap.find is not None:
            cure = trap.cure.replace("HOST", facts.host.name)
            found += [Finding(trap.name, trap.verdict, each, cure) for each in trap.find(facts)]
        elif facts.entries:
            notes.append(Finding(trap.name, trap.verdict, trap.says, trap.cure))
    return found + notes


_FAILS, _WARNING, _NOTE = Verdict.FAILS, Verdict.WARNING, Verdict.NOTE
_AGAIN = (
    "'abp-bridge install HOST --name NAME' writes it as this host has it; of a project with"
    " --project, of a server behind us with -- and its command."
)
_FIND = (
    "'abp-bridge install HOST --name NAME' writes down where it is now; of a project with"
    " --project, of a server behind us with --wrap NAME, of an agent with --agent and its command."
)

TRAPS: tuple[Trap, ...] = (
    Trap(
        "file",
        (),
        _FAILS,
        "The host cannot read its file, and starts nothing that is in it.",
        "Mend what is named: strict JSON has no comments and no comma before a bracket.",
        signs.not_understood,
    ),
    Trap(
        "left alone",
        (),
        _FAILS,
        "Its file cannot be read here, has more than is read of one, or no place for our entry.",
        "Mend that, then 'abp-bridge install HOST'; or put in by hand what 'abp-bridge install HOST"
        " --print' shows.",
        signs.left_alone,
    ),
    Trap(
        "another file",
        (),
        _FAILS,
        "Our server is in a file that this host does not read here.",
        "Install it again, 'abp-bridge install HOST': that finds the file which is read.",
        signs.unread_files,
    ),
    Trap(
        "key",
        (),
        _FAILS,
        "Our server is under a key of another host's.",
        "Move it there, or install it again: 'abp-bridge install HOST'.",
        signs.wrong_key,
    ),
    Trap(
        "member",
        (),
        _FAILS,
        "The command is written down as another host has it.",
        _AGAIN,
        signs.wrong_member,
    ),
    Trap(
        "text",
        (),
        _FAILS,
        "The entry has a text that no program can be started with: the host may lose all of it.",
        "Take that out of the file, or write it as it is meant.",
        signs.unusable,
    ),
    Trap(
        "type",
        ("zed", "goose", "opencode", "kilo"),
        _FAILS,
        "A member is missing without which this host takes the entry for none.",
        _AGAIN,
        signs.wrong_type,
    ),
    Trap(
        "switched off",
        (),
        _FAILS,
        "The entry is there, and switched off.",
        "Switch it on in the file, or in the host.",
        signs.switched_off,
    ),
    Trap(
        "command",
        (),
        _FAILS,
        "The command is gone, as when its environment has moved.",
        _FIND,
        signs.no_program,
    ),
    Trap(
        "PATH",
        (),
        _FAILS,
        "A command without its folder is found in a terminal, and not by a host that a desktop"
        " starts.",
        "Write its whole path. " + _FIND,
        signs.not_on_path,
    ),
    Trap(
        "relative path",
        (),
        _WARNING,
        "A path that does not begin at the root is another one in each folder.",
        "Write its whole path. " + _FIND,
        signs.no_absolute_path,
    ),
    Trap(
        "~",
        (),
        _FAILS,
        "No host puts your folder in for ~.",
        "Write the whole path.",
        signs.home_sign,
    ),
    Trap(
        "variables",
        (*signs.EXPANDS,),
        _FAILS,
        "A variable is written as another host has it, and stays as it is written.",
        "Write the value.",
        signs.variables,
    ),
    Trap(
        "copies",
        (),
        _WARNING,
        "The same server is there under two names, and a model sees each tool twice.",
        "Take one out: 'abp-bridge uninstall HOST --name NAME'.",
        signs.copies,
    ),
    Trap(
        "two scopes",
        (),
        _WARNING,
        "One name stands twice, in two files or for all folders and for this one: one counts.",
        "Take one out: 'abp-bridge uninstall HOST', with --project for the project's.",
        signs.two_scopes,
    ),
    Trap(
        "withheld tools",
        tuple(name for name in HOSTS if name in {*signs.TOOLS, *signs.KEPT_BACK}),
        _WARNING,
        "The entry lets some tools through, or keeps some back, and a model does not see the"
        " others: those of an app that comes later, or those by which a long call goes on.",
        "Take the list out of the entry.",
        signs.withheld_tools,
    ),
    Trap(
        "name",
        (*signs.NAMES,),
        _FAILS,
        "The host takes no such name.",
        "Letters, digits, - and _ are taken everywhere: 'abp-bridge install HOST --name NAME'.",
        signs.wrong_name,
    ),
    Trap(
        "call limit",
        tuple(name for name in HOSTS if name != "codex"),
        _WARNING,
        "The host's limit for a call runs while you think.",
        "Set the entry's timeout to 15 minutes: 'abp-bridge install HOST' does for a new entry.",
        signs.short_clock,
    ),
    Trap(
        "unit",
        (),
        _FAILS,
        "A limit is given in another unit than the host's.",
        "Write it in that unit.",
        signs.wrong_unit,
    ),
    Trap(
        "nobody asked",
        (),
        Verdict.UNSUPPORTED,
        "The host shows its person nothing that a server asks, and nobody else is asked.",
        "Add '--page open' to its arguments: a page of the bridge's own opens for each question.",
        signs.nobody_asked,
    ),
    Trap(
        "answers file",
        (),
        Verdict.POLICY,
        "A file answers, and no person.",
        "Take --answers and ABP_ANSWERS out, if a person is to be asked.",
        signs.answers_file,
    ),
    Trap(
        "silent agent",
        (),
        Verdict.UNANSWERED,
        "The agent behind us says that servers may ask, and answers none of them.",
        "Put another agent behind us.",
        signs.silent_agent,
    ),
    Trap(
        "settings",
        (),
        _WARNING,
        "A setting in the entry's environment is misspelt, and passed over.",
        "docs/settings.md has them all.",
        signs.misspelt_settings,
    ),
    Trap(
        "removed setting",
        (),
        _FAILS,
        "The bridge does not start with a setting or a model that was removed.",
        "Take it out.",
        signs.removed_settings,
    ),
    Trap(
        "uvx",
        (),
        _WARNING,
        "What is fetched at the start comes too late for hosts that wait a second.",
        "Install it for good, from its folder ('uv tool install .'), then 'abp-bridge install HOST"
        " --name NAME'.",
        signs.started_by_uvx,
    ),
    Trap(
        "misspelt key",
        ("codex",),
        _FAILS,
        "Codex passes a misspelt key over without a word.",
        "Write it as Codex has it.",
        signs.codex_misspelt,
    ),
    Trap(
        "wrong value",
        ("codex",),
        _FAILS,
        "Codex does not start with a value of the wrong kind.",
        "Mend it: until then Codex does not start at all.",
        signs.codex_wrong_value,
    ),
    Trap(
        "never asks",
        ("codex",),
        Verdict.REFUSED,
        'With approval_policy = "never" Codex declines every question by itself.',
        'Set approval_policy = "on-request", or have the page asked: ABP_PAGE=open in env.',
        signs.codex_never,
    ),
    Trap(
        "granular policy",
        ("codex",),
        Verdict.REFUSED,
        "A granular policy without mcp_elicitations = true declines every question.",
        "Set mcp_elicitations = true in it.",
        signs.codex_granular,
    ),
    Trap(
        "untrusted project",
        ("codex",),
        _FAILS,
        "A project's .codex/config.toml is read only where that project is trusted.",
        "Start codex in that folder, and trust it; or install it for you: without --project.",
        signs.codex_untrusted,
    ),
    Trap(
        "not required",
        ("codex",),
        _WARNING,
        "Codex asks its model without our tools, where they come after a second.",
        "Set required = true in the entry.",
        signs.codex_not_required,
    ),
    Trap(
        "display",
        ("codex",),
        _WARNING,
        "Codex passes HOME, LANG, PATH, SHELL and TERM on, and nothing by which a browser is"
        " found.",
        'Add env_vars = ["DISPLAY", "WAYLAND_DISPLAY"] to the entry.',
        signs.codex_display,
    ),
    Trap(
        "approval",
        ("claude",),
        _FAILS,
        "A server of .mcp.json is not started before you approve it.",
        "Start claude in this folder, and approve it (/mcp shows it).",
        signs.claude_pending,
    ),
    Trap(
        "rejected",
        ("claude",),
        _FAILS,
        "A server of .mcp.json that you rejected once stays off.",
        "Take it out of disabledMcpjsonServers, or 'claude mcp reset-project-choices'.",
        signs.claude_rejected,
    ),
    Trap(
        "settings.json",
        ("claude",),
        _FAILS,
        "Claude Code reads no servers from its settings.json.",
        "Move them to ~/.claude.json: 'claude mcp add-json --scope user NAME ENTRY'.",
        signs.claude_settings,
    ),
    Trap(
        "disabled here",
        ("claude",),
        _FAILS,
        "A server that you switched off in this folder by /mcp stays off in it.",
        "Switch it on again there: start claude in this folder, and /mcp.",
        signs.claude_disabled,
    ),
    Trap(
        "disabled here",
        ("gemini",),
        _FAILS,
        "A server that you switched off by /mcp stays off, whatever the settings say.",
        "Switch it on again: start gemini, and /mcp enable NAME.",
        signs.gemini_disabled,
    ),
    Trap(
        "elicitation mode",
        ("fast-agent",),
        Verdict.REFUSED,
        "With the mode auto-cancel or none of an entry's elicitation fast-agent asks nobody.",
        "Set elicitation.mode: forms, or take it out.",
        signs.fast_agent_never,
    ),
    Trap(
        "folder not trusted",
        ("gemini", "qwen"),
        _WARNING,
        "In a folder that is not trusted the host starts no server, your own neither.",
        "Start it in this folder, and trust that when it asks.",
        signs.gemini_untrusted_folder,
    ),
    Trap(
        "folder distrusted",
        ("gemini", "qwen"),
        _FAILS,
        "In a folder that you told it not to trust it starts no server.",
        "Change it in trustedFolders.json, or by /permissions in the host.",
        signs.gemini_distrusted_folder,
    ),
    Trap(
        "allowed servers",
        ("gemini", "qwen"),
        _FAILS,
        "mcp.allowed and mcp.excluded of the settings say which servers are started.",
        "Add its name to mcp.allowed, or take it out of mcp.excluded.",
        signs.gemini_not_allowed,
    ),
    Trap(
        "headless",
        ("codex",),
        _NOTE,
        "codex exec declines every question by itself; codex in a terminal shows it.",
        "",
    ),
    Trap(
        "headless",
        ("goose",),
        _NOTE,
        "goose run ends at the first question; goose session shows it.",
        "",
    ),
    Trap(
        "headless",
        ("claude",),
        _NOTE,
        "claude -p dismisses every question by itself; claude in a terminal shows it.",
        "",
    ),
    Trap(
        "headless",
        ("fast-agent",),
        _NOTE,
        "fast-agent dismisses every question by itself where it runs without a terminal.",
        "",
    ),
    Trap(
        "registered",
        ("cursor",),
        _NOTE,
        "Cursor 3 registers a new server switched off, and keeps that in no file of yours; its home"
        " window for projects loads none of a project.",
        "Switch it on under Customize > MCPs.",
    ),
    Trap(
        "trust",
        ("vscode",),
        _NOTE,
        "VS Code starts a server only once you have trusted it, and keeps that to itself; another"
        " profile has a file of its own.",
        "Start it there (MCP: List Servers), and trust it.",
    ),
    Trap(
        "restart",
        ("claude-desktop",),
        _NOTE,
        "Claude Desktop reads its file when it starts, and gives a call a minute in older builds,"
        " four in newer ones.",
        "Quit it wholly, and start it again.",
    ),
    Trap(
        "tools",
        ("windsurf",),
        _NOTE,
        "Windsurf takes 100 tools in all, and in an enterprise none before MCP is switched on.",
        "Press refresh in its list of MCP servers.",
    ),
    Trap(
        "WSL",
        ("jetbrains",),
        _NOTE,
        "JetBrains starts no agents under WSL.",
        "",
    ),
)
