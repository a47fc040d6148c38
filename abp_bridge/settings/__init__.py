"""Read the settings once at the start: flags, then `ABP_*` variables, then the table's defaults."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import AbpBridgeError
from abp_bridge.settings.table import (
    REMOVED,
    SET_UP_BY,
    SURFACES,
    TABLE,
    Setting,
    Settings,
    describe_removed,
)
from abp_bridge.settings.values import quote

__all__ = [
    "REMOVED",
    "SET_UP_BY",
    "SURFACES",
    "TABLE",
    "Setting",
    "Settings",
    "SettingsError",
    "describe_removed",
    "misspelt",
    "read_settings",
    "read_values",
    "to_environment",
    "usual_settings",
    "variables_of_others",
    "warn_of_misspelt",
]

logger = logging.getLogger(__name__)

# Variables that are read elsewhere: by the relay of the ACP proxy, the reference bridge, the models
# at an address, and the inbox.
_ELSEWHERE = (
    *("ABP_RELAY_TOKEN", "ABP_DOWNLOAD_TIMEOUT", "ABP_MODEL_KEY"),
    *("ABP_RUNTIME_DIR", "ABP_STATE_DIR"),
)


class SettingsError(AbpBridgeError):
    """A setting that cannot be used; the message says which and what would be right."""


def read_settings(
    environ: Mapping[str, str] = os.environ, usual: Settings | None = None, **flags: object
) -> Settings:
    """Return the settings: `flags` that are not None, then `environ`, then `usual`.

    Raises:
        SettingsError: A value is invalid.
    """
    for name, value in environ.items():
        if value and (removed := describe_removed(name)):
            raise SettingsError(removed)
    settings = dataclasses.replace(usual or Settings(), **read_values(environ, flags))
    for problem in _find_problems(settings):
        raise SettingsError(problem)
    return settings


def read_values(
    environ: Mapping[str, str], flags: Mapping[str, object], only: Iterable[str] = TABLE
) -> dict[str, Any]:
    """Return the values given for the fields in `only`, not checked against each other."""
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
    if not (text := environ.get(row.variable, "")):  # hosts set some that the user left empty
        return None
    try:
        return row.parse(text, "ms")
    except ValueError as problem:
        given = "" if row.private else f"={quote(text)}"
        raise SettingsError(f"{row.variable}{given} cannot be used: {problem}") from None


def _find_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the settings, alone or beside each other."""
    usual = Settings()
    for name, row in TABLE.items():
        value = getattr(settings, name)
        if value == getattr(usual, name):
            continue
        if row.check is not None:
            yield from (f"{row.flag} {problem}" for problem in map(row.check, value) if problem)
        if row.needs is not None and getattr(settings, row.needs[0]) in (None, ""):
            yield f"{row.flag} {row.needs[1]}"
        if row.excludes is not None and getattr(settings, row.excludes[0]) is not None:
            yield f"{row.flag} {row.excludes[1]}"
    if settings.ask_on:
        yield from _find_order_problems(settings)


def _find_order_problems(settings: Settings) -> Iterator[str]:
    from abp_bridge.core.surface import ORDER, missing_surface

    missing = missing_surface(settings.ask_on, settings.set_up)
    if missing is not None and missing not in SET_UP_BY:
        near = nearest(missing, ORDER)
        meant = f" (is {near} meant?)" if near else ""
        yield f"--ask-on: {quote(missing)} is no surface{meant}; there are {', '.join(ORDER)}"
    elif missing is not None:
        yield f"--ask-on: {missing} is not set up: give {SET_UP_BY[missing]} too"


def variables_of_others(command: str) -> tuple[str, ...]:
    """Return the variables whose options this command does not have: it ignores them."""
    rows = (row for row in TABLE.values() if row.flag and command not in row.commands)
    return tuple(row.variable for row in rows if row.variable)


def misspelt(environ: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield names that look like misspelt settings: (name, the variable or option meant)."""
    known = [each.variable for each in TABLE.values() if each.variable]
    by_flag = {
        f"ABP_{row.flag[2:].upper().replace('-', '_')}": row.variable or row.flag
        for row in TABLE.values()
        if row.flag
    }
    strange = [
        name
        for name in environ
        if name.upper().startswith("ABP") and name not in (*known, *_ELSEWHERE, *REMOVED)
    ]
    for name in strange:
        if meant := nearest(name.upper(), [*known, *by_flag], MISSPELT):
            yield name, by_flag.get(meant, meant)


def warn_of_misspelt(environ: Iterable[str]) -> None:
    """Log each name in the environment that looks like a misspelt setting; never a value."""
    for name, meant in misspelt(environ):
        logger.warning("%s in the environment is no setting: is %s meant?", name, meant)


def usual_settings(command: str) -> Settings:
    """Return the defaults of a command: `mcp` opens its page, so that one word is enough."""
    return Settings(page="open") if command == "mcp" else Settings()


def to_environment(settings: Settings, usual: Settings | None = None) -> dict[str, str]:
    """Return the settings that differ from `usual` as variables, without private ones."""
    usual = usual or Settings()
    return {
        row.variable: row.format(value)
        for name, row in TABLE.items()
        if row.variable and not row.private
        if (value := getattr(settings, name)) != getattr(usual, name)
    }
