"""1,000 calls through `abp-bridge mcp` with faults by seed; `make soak` plays more."""

from __future__ import annotations

from collections import Counter

import pytest

from .mcp_calls import PAIRS, play

SEEDS = 10  # of 25 calls, for each pair


@pytest.mark.parametrize("pair", PAIRS)
def test_calls_end_once_and_only_as_their_user_said(pair: tuple[str, str]) -> None:
    sessions = [play(pair, seed) for seed in range(SEEDS)]
    assert [(each.seed, each.problems) for each in sessions if each.problems] == []
    faults: Counter[str] = sum((each.faults for each in sessions), Counter())
    assert {"cancelled", "forged", "answered twice"} <= {*faults}
    assert sum(each.deeds.total() for each in sessions) > SEEDS
