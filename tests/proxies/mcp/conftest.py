"""Tests that join a host and a server in memory run on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
from support.mcp_pair import VIRTUAL


@pytest.fixture
def anyio_backend() -> Any:
    return VIRTUAL
