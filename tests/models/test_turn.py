"""One turn of an agent: what is asked of its model."""

from __future__ import annotations

import pytest

from abp_bridge.models.agent import NO_SETTINGS, ModelSettings


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        (NO_SETTINGS, ()),
        (ModelSettings(max_tokens=5), ("maxTokens",)),
        (ModelSettings(temperature=0.0), ("temperature",)),
        (ModelSettings(1, 0.5, ("end",)), ("maxTokens", "temperature", "stopSequences")),
    ],
)
def test_what_was_asked_of_a_model_is_named(settings: ModelSettings, given: tuple[str]) -> None:
    assert settings.given == given
