"""The error that a request is refused with, and the response to an internal error."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import AbpBridgeError, describe_bug
from abp_bridge.jsonrpc.protocol import INTERNAL_ERROR, Id

if TYPE_CHECKING:
    from abp_bridge.jsonrpc.connection import JsonRpcConnection


logger = logging.getLogger(__name__)


class RpcError(AbpBridgeError):
    """A request is answered with this JSON-RPC error; `data` is left out if None."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def respond_internal_error(connection: JsonRpcConnection, id: Id | None, where: str) -> None:
    """Log the current exception and answer the request with an internal error.

    Args:
        id: The request's id; None if no response is expected.
        where: The request's method.
    """
    problem = sys.exception()
    logger.error("request %.100r (%.100r) failed", id, where, exc_info=problem)
    if problem is not None and id is not None and connection.is_open(id):
        connection.respond_error(id, INTERNAL_ERROR, describe_bug(problem))
