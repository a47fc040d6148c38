"""No number of the product stands alone: each has its unit, or its reason."""

from __future__ import annotations

import pytest

from .limits import find_limits


@pytest.mark.slow
def test_every_limit_says_its_unit_or_why() -> None:
    limits = list(find_limits())
    assert limits
    assert [f"{each.file}: {each.name}" for each in limits if not each.why] == []
