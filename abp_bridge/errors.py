"""The base class of all errors a caller may catch, and the two protocol errors."""

from __future__ import annotations


class AbpBridgeError(Exception):
    """An error of this package. Its message says what was wrong, in words a person can act on."""


class LocalProtocolError(AbpBridgeError):
    """We were about to break a rule of a protocol. Always a bug of ours."""


class RemoteProtocolError(AbpBridgeError):
    """The other side broke a rule; `code` is the ABP error code."""

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
