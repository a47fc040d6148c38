"""What a digest of an answer says, and to whom."""

from abp_bridge.core.answer_digest import KEY_LENGTH, digest

KEY = bytes(KEY_LENGTH)


def test_the_same_answer_has_the_same_digest_in_whatever_order_and_no_other_has() -> None:
    assert digest(KEY, {"a": 1, "b": "é"}) == digest(KEY, {"b": "é", "a": 1})
    assert digest(KEY, {"a": True}) != digest(KEY, {"a": False})


def test_without_the_key_nobody_can_make_it() -> None:
    made = digest(KEY, {"confirmed": True})
    assert made.startswith("hmac-sha256:")
    assert made != digest(b"1" * KEY_LENGTH, {"confirmed": True})
