"""What settings cannot be, alone or beside each other, with what would be right."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from abp_bridge.core.near_names import MISSPELT, nearest
from abp_bridge.settings.asking import SET_UP_BY
from abp_bridge.settings.readers import quote
from abp_bridge.settings.targets import find_target_problem

if TYPE_CHECKING:
    from abp_bridge.settings import Settings

_CONFIRM_WORDS = ("destructive", "all")  # of --confirm, beside the names of capabilities
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d+)?")


def _check_apps(settings: Settings) -> Iterator[str]:
    for problem in filter(None, map(find_target_problem, settings.apps)):
        yield f"--app {problem}"


def _check_hosts(settings: Settings) -> Iterator[str]:
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host:
            yield (
                f"--allow {quote(host)} is no host: it must be a name or an address, with a port"
                " if only that is allowed (localhost:3000)"
            )


def _check_frames(settings: Settings) -> Iterator[str]:
    for origin in settings.frames:
        if not (origin.startswith("http") and _ORIGIN.fullmatch(origin)):
            yield (
                f"--frames {quote(origin)} is no origin: it must be as browsers write it, such as"
                " https://pay.example"
            )


def _check_confirm(settings: Settings) -> Iterator[str]:
    """A word that is misspelt would have nobody asked."""
    for name in settings.confirm:
        if name in _CONFIRM_WORDS:
            continue
        if not re.fullmatch(r"[^\s,;]+", name):
            yield (
                f"--confirm {name!r} is no name: it must be destructive, all or one capability's;"
                " give it again for another"
            )
        if meant := nearest(name.lower(), _CONFIRM_WORDS, MISSPELT):
            yield (
                f"--confirm {name!r}: is {meant} meant? A capability of that name is given by its"
                f" tool's, abp_{name}"
            )


def _check_roots(settings: Settings) -> Iterator[str]:
    for root in settings.roots:
        if not os.path.isdir(root):
            yield f"--root {root!r} is no folder: it must be one whose files apps may be given"


def _check_password(settings: Settings) -> Iterator[str]:
    if settings.questions_api is not None and not settings.questions_password:
        yield (
            "--questions-api needs a password in ABP_QUESTIONS_PASSWORD: whoever has it can answer"
            " for you"
        )


def _check_order(settings: Settings) -> Iterator[str]:
    if not settings.ask_on:
        return
    from abp_bridge.core.surface import ORDER, missing_surface

    missing = missing_surface(settings.ask_on, settings.set_up)
    if missing is not None and missing not in SET_UP_BY:
        near = nearest(missing, ORDER)
        meant = f" (is {near} meant?)" if near else ""
        yield f"--ask-on: {quote(missing)} is no surface{meant}; there are {', '.join(ORDER)}"
    elif missing is not None:
        yield f"--ask-on: {missing} is not set up: give {SET_UP_BY[missing]} too"


def _check_listen(settings: Settings) -> Iterator[str]:
    for origin in settings.listen_origins:
        if not _ORIGIN.fullmatch(origin):
            yield (
                f"--listen-origin {quote(origin)} is no origin: it must be as browsers write it,"
                " such as https://agent.example or http://localhost:3000"
            )
    if settings.listen_origins and settings.listen is None:
        yield "--listen-origin says who may connect to --listen: give that too"
    if settings.record is not None and settings.listen is not None:
        yield "--record writes down one conversation, and --listen has many: leave one of them out"


def _check_budget(settings: Settings) -> Iterator[str]:
    if settings.sampling_budget is not None and settings.sampling is None:
        yield "--sampling-budget is for --sampling: give that too"


def _check_browser(settings: Settings) -> Iterator[str]:
    if settings.profile is not None and settings.browser_url is not None:
        yield "--profile and --browser-url are two browsers: leave one of them out"


CHECKS = (
    _check_browser,
    _check_budget,
    _check_apps,
    _check_hosts,
    _check_frames,
    _check_confirm,
    _check_roots,
    _check_password,
    _check_order,
    _check_listen,
)
