"""Why a host's configuration stays as it is."""

from __future__ import annotations

from abp_bridge.errors import AbpBridgeError


class SetupError(AbpBridgeError):
    """A host's configuration stays as it is; the message says why, and what to do."""
