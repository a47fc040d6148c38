"""The surfaces: what each is, and in which order a session asks."""

from __future__ import annotations

from abp_bridge.core.surface import ORDER, TRAITS, Surface, missing_surface, order_of


def test_every_surface_has_traits_and_a_place_in_the_order() -> None:
    assert set(TRAITS) == set(Surface)
    beside = {each.value for each, traits in TRAITS.items() if not traits.since}
    assert beside <= set(ORDER)


def test_default_surface_order() -> None:
    assert order_of([]) == (
        "mock",
        "host",
        "terminal",
        "questions-api",
        "page",
        "sampling",
        "model-relay",
    )


def test_users_surface_order_is_the_whole_order() -> None:
    assert order_of(["page", "host", "page"]) == ("page", "host")


def test_surface_order_with_an_unknown_surface() -> None:
    assert missing_surface(["page", "host"], ["terminal", "page"]) is None
    assert missing_surface(["host", "telepathy", "page"], ["terminal"]) == "telepathy"
