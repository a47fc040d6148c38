"""Traps of fast-agent. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from abp_bridge.core.json_value import as_object
from abp_bridge.setup.doctor.facts import HostFacts

_SILENT = {
    "auto-cancel": "it dismisses every question itself",
    "none": "it does not say that it can be asked",
}


def never(facts: HostFacts) -> Iterator[str]:
    """Modes by which nobody is asked."""
    for entry in facts.entries:
        mode = as_object(entry.members.get("elicitation")).get("mode")
        if isinstance(mode, str) and (then := _SILENT.get(mode)):
            yield f"{entry.shown} has elicitation.mode: {mode}, with which {then}."
