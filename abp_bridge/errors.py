"""What the errors of this package have in common, and the two ways a protocol can be broken: by us,
or by the other side.

Every exception that a caller may catch derives from `AbpBridgeError`; those of one room live there.
"""

from __future__ import annotations


class AbpBridgeError(Exception):
    """An error of this package. Its message says what was wrong, in words a person can act on."""


class LocalProtocolError(AbpBridgeError):
    """We were about to break a rule of a protocol. Always a bug of ours."""


class RemoteProtocolError(AbpBridgeError):
    """The other side broke a rule; nothing else is raised by decoding what came from outside.

    Attributes:
        code: The ABP error code that describes it.
    """

    def __init__(self, message: str, code: str = "INVALID_PARAMS") -> None:
        super().__init__(message)
        self.code = code


def only_cause(problem: BaseException) -> BaseException:
    """What is in a group of one exception, as task groups raise it; else `problem` itself."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def describe_bug(problem: BaseException) -> str:
    """The sentence for whoever meets a bug of ours: of several, the first. The log has the rest."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"abp-bridge has a bug: {type(problem).__name__}. Please report it."
