"""What a person can set: flags first, then `ABP_*` in the environment, then the defaults. Read once, at the start."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass


class SettingsError(Exception):
    """A setting that cannot be used; the message says which and what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds. In the environment the reference bridge's names are in milliseconds, as it has them."""

    apps: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # private addresses that the person named
    output_dir: str | None = None
    headless: bool = True
    chrome: str | None = None
    chrome_sandbox: bool = True
    browser_timeout: float = 30.0
    call_timeout: float = 60.0
    question_timeout: float = 600.0
    mcp_modern: bool = True  # whether MCP hosts that look for 2026-07-28 find it
    acp_draft: bool = False  # whether ACP clients that ask for version 2 get it
    park_timeout: float = 600.0
    patience: float | None = None  # of the host, where its user changed that
    person_floor: float = 0.15  # an answer faster than this is not a person's


def read_settings(environ: Mapping[str, str] = os.environ, **flags: object) -> Settings:
    """Settings from `environ`, overruled by the `flags` that are not None. Raises SettingsError."""
    found: dict[str, object] = {}
    for name, (variable, read) in _VARIABLES.items():
        if variable in environ:
            try:
                found[name] = read(environ[variable])
            except ValueError as problem:
                raise SettingsError(f"{variable}={environ[variable]!r} cannot be used: {problem}") from None
    found.update({name: value for name, value in flags.items() if value is not None})
    settings = Settings(**found)  # type: ignore[arg-type]
    for target in settings.apps:
        if target not in ("demo", "demo:page") and not target.lower().startswith(("http://", "https://", "stdio:")):
            hint = f" Did you mean https://{target}?" if "." in target and "/" not in target and ":" not in target else ""
            raise SettingsError(f"--app {target!r} is no app: it must be https://..., http://..., stdio:COMMAND, demo or demo:page.{hint}")
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host:
            raise SettingsError(f"--allow {host!r} is no host: it must be a name or an address, with a port if only that is allowed (localhost:3000)")
    return settings


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("it must be a number of milliseconds") from None
    if not 0 <= value <= 86_400_000:
        raise ValueError("it must be between 0 and 86400000 milliseconds (a day)")
    return value / 1000


def _yes_or_no(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.strip().lower() not in known:
        raise ValueError("it must be true or false")
    return known[text.strip().lower()]


_VARIABLES: dict[str, tuple[str, Callable[[str], object]]] = {
    "output_dir": ("ABP_OUTPUT_DIR", str),
    "headless": ("ABP_HEADLESS", _yes_or_no),
    "chrome": ("ABP_CHROME", str),
    "chrome_sandbox": ("ABP_CHROME_SANDBOX", _yes_or_no),
    "browser_timeout": ("ABP_BROWSER_TIMEOUT", _milliseconds),
    "call_timeout": ("ABP_CALL_TIMEOUT", _milliseconds),
    "question_timeout": ("ABP_QUESTION_TIMEOUT", _milliseconds),
    "mcp_modern": ("ABP_MCP_MODERN", _yes_or_no),
    "acp_draft": ("ABP_ACP_DRAFT", _yes_or_no),
    "park_timeout": ("ABP_PARK_TIMEOUT", _milliseconds),
    "patience": ("ABP_HOST_PATIENCE", _milliseconds),
    "person_floor": ("ABP_PERSON_FLOOR", _milliseconds),
}
