"""abp-bridge: questions of Agentic Browser Protocol apps, and the user's answers.

These names are for programs that embed the bridge (docs/embedding.md), imported on first use.
"""

TYPE_CHECKING = False  # checkers take it for True; `typing` itself is not loaded

if TYPE_CHECKING:
    from abp_bridge.apps.targets import make_app
    from abp_bridge.core.answer import Answer
    from abp_bridge.core.matrix import SurfaceVariant
    from abp_bridge.core.outcome import AnsweredBy, Outcome
    from abp_bridge.core.question import Question
    from abp_bridge.core.surface import Surface
    from abp_bridge.errors import AbpBridgeError, LocalProtocolError, RemoteProtocolError
    from abp_bridge.session.app import App, AppError
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.context import (
        AttemptEvent,
        ChoiceEvent,
        InputRequestEvent,
        InputResolvedEvent,
        NoticeEvent,
        ProgressEvent,
        SessionEvent,
        StepEvent,
    )
    from abp_bridge.session.host import Host, SessionError
    from abp_bridge.session.surface import (
        InputProvider,
        SurfaceResponse,
        SurfaceUnsupportedError,
    )
    from abp_bridge.settings import Settings, SettingsError

VERSION = "0.1.0"

# module -> the names that are taken from it
_NAMES = {
    "apps.targets": ("make_app",),
    "session.bridge": ("Bridge",),
    "session.context": (
        "AttemptEvent",
        "ChoiceEvent",
        "InputRequestEvent",
        "InputResolvedEvent",
        "NoticeEvent",
        "ProgressEvent",
        "SessionEvent",
        "StepEvent",
    ),
    "core.matrix": ("Surface", "SurfaceVariant"),
    "core.answer": ("Answer",),
    "core.outcome": ("AnsweredBy", "Outcome"),
    "core.question": ("Question",),
    "errors": ("AbpBridgeError", "LocalProtocolError", "RemoteProtocolError"),
    "session.app": ("App", "AppError"),
    "session.host": ("Host", "SessionError"),
    "session.surface": ("InputProvider", "SurfaceResponse", "SurfaceUnsupportedError"),
    "settings": ("Settings", "SettingsError"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "VERSION",
    "AbpBridgeError",
    "Answer",
    "AnsweredBy",
    "App",
    "AppError",
    "AttemptEvent",
    "Bridge",
    "ChoiceEvent",
    "Host",
    "InputProvider",
    "InputRequestEvent",
    "InputResolvedEvent",
    "LocalProtocolError",
    "NoticeEvent",
    "Outcome",
    "ProgressEvent",
    "Question",
    "RemoteProtocolError",
    "SessionError",
    "SessionEvent",
    "Settings",
    "SettingsError",
    "StepEvent",
    "Surface",
    "SurfaceResponse",
    "SurfaceUnsupportedError",
    "SurfaceVariant",
    "make_app",
]


if not TYPE_CHECKING:  # else a checker takes any name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
