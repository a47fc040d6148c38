"""Who can be asked in one session: its host, and what the person set up beside it.

Resolved once, when the session begins. It may be nobody: then no question can be asked.

The order is the person's (`--ask-on`), else what is written down first, then the host, then the
surfaces that are the person's own, and a model last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.question import Question
from abp_bridge.core.surface import HOST, ORDER, Advice, Surface
from abp_bridge.session.surface import (
    Advising,
    InputProvider,
    Locatable,
    Startable,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

Own = Mapping[Surface, InputProvider]

_RELAY = Surface.MODEL_RELAY.value


def advise(provider: InputProvider, question: Question) -> Advice:
    """What `provider` knows of how `question` comes to a person, else what is true of any host."""
    return provider.advise(question) if isinstance(provider, Advising) else Advice()


class Providers:
    """Implements `InputProvider` with all of them.

    `own` are those beside `host`, which alone can ask through its model.
    """

    def __init__(
        self, host: InputProvider, own: Own | None = None, order: Sequence[str] = ORDER
    ) -> None:
        self._host = host
        self._own = {surface.value: provider for surface, provider in (own or {}).items()}
        self._order = order
        self._started: dict[str, str] = {}

    async def start(self) -> None:
        """An app is there that may ask: whoever has to be found by others before that, is."""
        for name, provider in self._own.items():
            if name in self._order and isinstance(provider, Startable):
                try:
                    self._started[name] = await provider.start()
                except (
                    SurfaceUnsupportedError
                ) as problem:  # said again to the app whose question cannot be asked there
                    self._started[name] = f"not there: {problem}"

    @property
    def places(self) -> Mapping[str, str]:
        """Where others find a surface, or why they do not, by the name it was set up by."""
        return self._started | {
            name: provider.place
            for name, provider in self._own.items()
            if isinstance(provider, Locatable) and provider.place
        }

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces that a question of one of `calls` can be asked on, best first."""
        return [variant for _, variant in self.variants_by_owner(calls)]

    def variants_by_owner(self, calls: Sequence[str] = ()) -> list[tuple[str, SurfaceVariant]]:
        """The surfaces, best first, each with whose it is: the host's, or the name it was set up
        by.
        """
        hosts = self._host.variants(calls)
        found: list[tuple[str, SurfaceVariant]] = []
        for name in self._order:
            if name == HOST:
                found += [
                    (HOST, variant)
                    for variant in hosts
                    if variant.surface is not Surface.MODEL_RELAY
                ]
            elif name == _RELAY:
                found += [
                    (name, variant) for variant in hosts if variant.surface is Surface.MODEL_RELAY
                ]
            elif (provider := self._own.get(name)) is not None:
                found += [(name, variant) for variant in provider.variants(calls)]
        return found

    def advise(self, question: Question) -> Advice:
        """What the host knows of it (`Advising.advise`)."""
        return advise(self._host, question)

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask by whoever has the surface (`InputProvider.ask`)."""
        provider = self._own.get(variant.surface.value, self._host)
        return await provider.ask(question, variant, problem, observe)
