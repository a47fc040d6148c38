"""The two ways a protocol can be broken: by us, or by the other side.

Nothing else is raised by decoding what came from outside.
"""

from __future__ import annotations


class LocalProtocolError(Exception):
    """We were about to break a rule of a protocol. Always a bug of ours."""


class RemoteProtocolError(Exception):
    """The other side broke a rule.

    `code` is the ABP error code that describes it; `str(error)` says what was wrong in words a
    person can act on.
    """

    def __init__(self, message: str, code: str = "INVALID_PARAMS") -> None:
        super().__init__(message)
        self.code = code
