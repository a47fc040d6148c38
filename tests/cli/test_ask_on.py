"""`--ask-on`: what is said of a surface that nobody can be asked by."""

from __future__ import annotations

import re

import pytest

from abp_bridge.settings import SettingsError, read_settings


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "telepathy",
            "'telepathy' is no surface; there are mock, host, terminal, questions-api, page,"
            " sampling, model-relay",
        ),
        ("mock", "mock is not set up: give --answers FILE too"),
        ("terminal", "terminal is not set up: give --tty DEVICE too"),
        ("questions-api", "questions-api is not set up: give --questions-api PORT too"),
        ("page", "page is not set up: give --page too"),
        ("model-relay", "model-relay is not set up: give --ask-via-model (of serve, acp) too"),
    ],
)
def test_an_order_names_only_what_is_set_up(name: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"--ask-on: {why}")):
        read_settings({}, ask_on=("host", name))
