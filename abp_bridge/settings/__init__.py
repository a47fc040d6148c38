"""What a person can set: flags first, then `ABP_*` in the environment, then the defaults. The table
of it is made of those in the modules here, by what they are about.

The options of the commands, the reader of the environment, the table in docs/settings.md and what a
replay may set are made from it. Read once, at the start; nothing here opens or starts anything.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from abp_bridge.core.near_names import MISSPELT, nearest
from abp_bridge.errors import AbpBridgeError
from abp_bridge.settings import apps, asking, logs, session
from abp_bridge.settings.checks import CHECKS
from abp_bridge.settings.readers import quote
from abp_bridge.settings.row import Setting

logger = logging.getLogger(__name__)

# Read by others than this table: by the relay of the ACP proxy, by the reference bridge only, by
# whoever asks a model at an address, and by the inbox and whom it finds.
_ELSEWHERE = (
    *("ABP_RELAY_TOKEN", "ABP_DOWNLOAD_TIMEOUT", "ABP_MODEL_KEY"),
    *("ABP_RUNTIME_DIR", "ABP_STATE_DIR"),
)


class SettingsError(AbpBridgeError):
    """A setting that cannot be used; the message says which and what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was set. Times are in seconds; a tuple is empty and a text None where nothing was set.

    What each field is for, its row in the table says: `TABLE[name].help`.
    """

    apps: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    output_dir: str | None = None
    tool_cache: str | None = None
    headless: bool = True
    chrome: str | None = None
    chrome_sandbox: bool = True
    profile: str | None = None
    browser_url: str | None = None
    browser_timeout: float = 30.0
    call_timeout: float = 60.0
    question_timeout: float = 600.0
    mcp_modern: bool = True
    acp_chat: bool = True
    park_timeout: float = 600.0
    host_tool_timeout: float | None = None
    min_human_latency: float = 0.4
    page: str = "off"
    page_port: int = 0
    notify: bool = False
    notify_urls: tuple[str, ...] = ()
    notify_text: bool = False
    tty: str | None = None
    answers: str | None = None
    questions_api: int | None = None
    questions_password: str | None = None
    confirm: tuple[str, ...] = ()
    ask_via_model: bool = False
    sampling: str | None = None
    sampling_budget: str | None = None
    ask_on: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    without_person: bool = False
    audit: str | None = None
    era: str | None = None
    server_url: str | None = None
    server_token: str | None = None
    listen: int | None = None
    listen_origins: tuple[str, ...] = ()
    record: str | None = None
    log_level: str = "warning"
    log_file: str | None = None

    @property
    def set_up(self) -> Collection[str]:
        """The surfaces beside the host's own that the person set up."""
        usual = Settings()
        return [
            surface
            for surface, name in asking.SURFACES.items()
            if getattr(self, name) != getattr(usual, name)
        ]


_ROWS = {**apps.ROWS, **asking.ROWS, **session.ROWS, **logs.ROWS}
# The rows by the names of their fields.
TABLE: Mapping[str, Setting] = MappingProxyType(
    {each.name: _ROWS[each.name] for each in dataclasses.fields(Settings)}
)


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
    settings = dataclasses.replace(usual or Settings(), **read_values(environ, flags))
    for check in CHECKS:
        for problem in check(settings):
            raise SettingsError(problem)
    return settings


def read_values(
    environ: Mapping[str, str], flags: Mapping[str, object], only: Iterable[str] = TABLE
) -> dict[str, Any]:
    """The values that are given, of the fields that `only` names, unchecked beside each other.

    Raises:
        SettingsError: A variable cannot be read.
    """
    found: dict[str, Any] = {}
    for name in only:
        row = TABLE[name]
        given: Any = flags.get(name)
        if given is None:
            given = _read_variable(environ, row)
        if given is not None:
            found[name] = _expand_home(given) if row.path else given
    return found


def _expand_home(paths: str | Iterable[str]) -> str | tuple[str, ...]:
    if isinstance(paths, str):
        return os.path.expanduser(paths)
    return tuple(map(os.path.expanduser, paths))


def _read_variable(environ: Mapping[str, str], row: Setting) -> Any:
    if not (text := environ.get(row.variable, "")):  # hosts give one so that was not filled in
        return None
    try:
        return row.parse(text, "ms")
    except ValueError as problem:
        given = "" if row.private else f"={quote(text)}"
        raise SettingsError(f"{row.variable}{given} cannot be used: {problem}") from None


def variables_of_others(command: str) -> tuple[str, ...]:
    """The variables whose options this command does not have: what they say is not for it."""
    rows = (row for row in TABLE.values() if row.flag and command not in row.commands)
    return tuple(row.variable for row in rows if row.variable)


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
