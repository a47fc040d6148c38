"""What a person can set: flags first, then `ABP_*` in the environment, then the defaults.

Read once, at the start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass


class SettingsError(Exception):
    """A setting that cannot be used; the message says which and what would be right."""


# What sets up a surface that is not the host's, by its name.
SET_UP_BY: Mapping[str, str] = {
    "mock": "--answers FILE",
    "terminal": "--tty DEVICE",
    "questions-api": "--questions-api PORT",
    "page": "--page",
    "model": "--ask-model",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds.

    In the environment the reference bridge's names are in milliseconds, as it has them.
    """

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
    host_tool_timeout: float | None = None  # of the host, where its user changed that
    min_human_latency: float = 0.15  # an answer faster than this is not a person's
    ask_on: tuple[
        str, ...
    ] = ()  # the surfaces to ask on, in this order; nothing means the usual ones
    tty: str | None = None  # a terminal that the person sits at
    # whether questions may go to the bridge's own page without the host's url mode: "link" points
    # there, "open" opens it
    page: str = "off"
    answers: str | None = None  # a file of answers
    questions_api: int | None = None  # the port that clients of the questions API connect to
    questions_password: str | None = None
    ask_model: bool = False
    roots: tuple[str, ...] = ()  # folders whose files may be read, each with the person's consent
    record: str | None = None  # a file to write down in what is said

    @property
    def set_up(self) -> Collection[str]:
        """The surfaces beside the host's own that the person set up."""
        found = {
            "mock": self.answers is not None,
            "terminal": self.tty is not None,
            "questions-api": self.questions_api is not None,
            "page": self.page != "off",
            "model": self.ask_model,
        }
        return [name for name, there in found.items() if there]


def read_settings(environ: Mapping[str, str] = os.environ, **flags: object) -> Settings:
    """Settings from `environ`, overruled by the `flags` that are not None. Raises SettingsError."""
    found: dict[str, object] = {}
    for name, (variable, read) in _VARIABLES.items():
        if variable in environ:
            try:
                found[name] = read(environ[variable])
            except ValueError as problem:
                raise SettingsError(
                    f"{variable}={environ[variable]!r} cannot be used: {problem}"
                ) from None
    found.update({name: value for name, value in flags.items() if value is not None})
    settings = Settings(**found)  # type: ignore[arg-type]
    for target in settings.apps:
        if target not in ("demo", "demo:page") and not target.lower().startswith(
            ("http://", "https://", "stdio:")
        ):
            hint = (
                f" Did you mean https://{target}?"
                if "." in target and "/" not in target and ":" not in target
                else ""
            )
            raise SettingsError(
                f"--app {target!r} is no app: it must be https://..., http://..., stdio:COMMAND,"
                f" demo or demo:page.{hint}"
            )
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host:
            raise SettingsError(
                f"--allow {host!r} is no host: it must be a name or an address, with a port if only"
                " that is allowed (localhost:3000)"
            )
    for root in settings.roots:
        if not os.path.isdir(root):
            raise SettingsError(
                f"--root {root!r} is no folder: it must be one whose files apps may be given"
            )
    if settings.questions_api is not None and not settings.questions_password:
        raise SettingsError(
            "--questions-api needs a password in ABP_QUESTIONS_PASSWORD: whoever has it can answer"
            " for you"
        )
    _check_order(settings)
    return settings


def _check_order(settings: Settings) -> None:
    if not settings.ask_on:
        return
    from abp_bridge.core.matrix import ORDER, missing_surface

    missing = missing_surface(settings.ask_on, settings.set_up)
    if missing is None:
        return
    if missing not in SET_UP_BY:
        raise SettingsError(f"--ask-on: {missing!r} is no surface; there are {', '.join(ORDER)}")
    raise SettingsError(f"--ask-on: {missing} is not set up: give {SET_UP_BY[missing]} too")


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("it must be a number of milliseconds") from None
    if not 0 <= value <= 86_400_000:
        raise ValueError("it must be between 0 and 86400000 milliseconds (a day)")
    return value / 1000


def read_port(text: str) -> int:
    """A port of this machine. Raises ValueError."""
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise ValueError("it must be a port, from 0 (any that is free) to 65535")
    return int(text)


def _page(text: str) -> str:
    if text not in ("off", "link", "open"):
        raise ValueError("it must be off, link or open")
    return text


def _listed(separator: str) -> Callable[[str], tuple[str, ...]]:
    return lambda text: tuple(part.strip() for part in text.split(separator) if part.strip())


def _yes_or_no(text: str) -> bool:
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
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
    "host_tool_timeout": ("ABP_HOST_PATIENCE", _milliseconds),
    "min_human_latency": ("ABP_PERSON_FLOOR", _milliseconds),
    "ask_on": ("ABP_ASK_ON", _listed(",")),
    "tty": ("ABP_TTY", str),
    "page": ("ABP_PAGE", _page),
    "answers": ("ABP_ANSWERS", str),
    "questions_api": ("ABP_QUESTIONS_API", read_port),
    "questions_password": ("ABP_QUESTIONS_PASSWORD", str),
    "ask_model": ("ABP_ASK_MODEL", _yes_or_no),
    "roots": ("ABP_ROOTS", _listed(os.pathsep)),
    "record": ("ABP_RECORD", str),
}

# What says where things lie on this machine, or who may come in, says nothing of how a session
# goes.
_PRIVATE = ("output_dir", "chrome", "chrome_sandbox", "questions_password", "record")


def to_environment(settings: Settings) -> dict[str, str]:
    """Settings that are not the defaults, as environment variables: what somebody else needs to
    have a session go the same way.
    """
    usual = Settings()
    found: dict[str, str] = {}
    for name, (variable, read) in _VARIABLES.items():
        value = getattr(settings, name)
        if value == getattr(usual, name) or name in _PRIVATE:
            continue
        if isinstance(value, tuple):
            found[variable] = (os.pathsep if name == "roots" else ",").join(value)
        elif read is _milliseconds:
            found[variable] = f"{value * 1000:g}"
        else:
            found[variable] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
