"""The surfaces: what each is, and in which order a session asks."""

from __future__ import annotations

from abp_bridge.core.surface import ORDER, TRAITS, Surface, missing_surface, order_of


def test_every_surface_has_its_traits_and_what_is_set_up_beside_a_host_its_place() -> None:
    assert set(TRAITS) == set(Surface)
    beside = {each.value for each, traits in TRAITS.items() if not traits.since}
    assert beside <= set(ORDER)


def test_without_a_word_of_the_person_the_usual_order_holds() -> None:
    assert order_of([]) == (
        "mock",
        "host",
        "terminal",
        "questions-api",
        "page",
        "sampling",
        "model-relay",
    )


def test_the_persons_own_order_is_the_whole_order() -> None:
    assert order_of(["page", "host", "page"]) == ("page", "host")


def test_an_order_names_only_what_is_there() -> None:
    assert missing_surface(["page", "host"], ["terminal", "page"]) is None
    assert missing_surface(["host", "telepathy", "page"], ["terminal"]) == "telepathy"
