"""What a digest of an answer says, and to whom."""

from abp_bridge.core.answer import DIGEST_KEY_LENGTH, answer_digest

KEY = bytes(DIGEST_KEY_LENGTH)


def test_the_same_answer_has_the_same_digest_in_whatever_order_and_no_other_has() -> None:
    assert answer_digest(KEY, {"a": 1, "b": "é"}) == answer_digest(KEY, {"b": "é", "a": 1})
    assert answer_digest(KEY, {"a": True}) != answer_digest(KEY, {"a": False})


def test_without_the_key_nobody_can_make_it() -> None:
    made = answer_digest(KEY, {"confirmed": True})
    assert made.startswith("hmac-sha256:")
    assert made != answer_digest(b"1" * DIGEST_KEY_LENGTH, {"confirmed": True})
