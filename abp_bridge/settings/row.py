"""What one row of the tables of settings says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from abp_bridge.settings.readers import read_duration

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
        path: It names a file or a folder, in which `~` is a home, as in a shell: hosts start the
            bridge without one.
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
    path: bool = False
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
