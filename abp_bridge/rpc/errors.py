"""What a request of the other side is refused with: one error for every host, and one answer for a
bug of ours. Which code fits which refusal is for the hosts to say.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonValue
from abp_bridge.errors import AbpBridgeError, describe_bug
from abp_bridge.rpc.protocol import INTERNAL_ERROR, Id

if TYPE_CHECKING:
    from abp_bridge.rpc.connection import JsonRpcConnection


logger = logging.getLogger(__name__)


class RpcError(AbpBridgeError):
    """A request that gets a JSON-RPC error.

    Args:
        code: The error's code, a whole number.
        message: One sentence for whoever reads the error.
        data: More about it for a program; None leaves it out.
    """

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def respond_internal_error(connection: JsonRpcConnection, id: Id | None, where: str) -> None:
    """Answer a request that met a bug of ours, and say so in the log; the connection goes on.

    To be called while the exception is handled. A request that has its answer gets no other.

    Args:
        connection: Where the request came from.
        id: The request's id; None when nobody waits for an answer.
        where: What was asked for: the request's method, in any length.
    """
    problem = sys.exception()
    logger.error("request %.100r (%.100r) failed", id, where, exc_info=problem)
    if problem is not None and id is not None and connection.is_open(id):
        connection.respond_error(id, INTERNAL_ERROR, describe_bug(problem))
