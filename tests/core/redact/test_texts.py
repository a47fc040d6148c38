"""Texts that are known, and found however they are spelled."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core.redact.texts import SECRET, KnownTexts

Spell = Callable[[str], str]


def without(secret: str, text: str) -> str:
    known = KnownTexts()
    known.add_text(secret, SECRET)
    return known.present_in([text]).replace(text)


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def unescaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def for_html(text: str) -> str:
    """As encoders write JSON that goes into a page."""
    return "".join(f"\\u{ord(char):04x}" if char in "<>&'+/" else char for char in unescaped(text))


def base64_after(before: str) -> Spell:
    """In the middle of something that is in Base64 as a whole, as in HTTP Basic."""
    return lambda text: base64.b64encode(
        f"{before}{text}:more".encode(errors="surrogatepass")
    ).decode()


def base64_url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode(errors="surrogatepass")).decode().rstrip("=")


def as_btoa(text: str) -> str:
    """Of what it cannot take, a page makes UTF-8 first."""
    try:
        return base64.b64encode(text.encode("latin-1")).decode()
    except UnicodeEncodeError:
        return base64.b64encode(text.encode(errors="surrogatepass")).decode()


def percent(text: str) -> str:
    return quote(text, safe="-_.!~*'()", errors="replace")  # as browsers do


SPELLINGS: dict[str, Spell] = {
    "as it is": str,
    "JSON": escaped,
    "JSON, letters as they are": unescaped,
    "JSON in JSON": lambda text: escaped(escaped(text)),
    "JSON in JSON in JSON": lambda text: escaped(escaped(unescaped(text))),
    "JSON for a page": for_html,
    "JSON of PHP": lambda text: escaped(text).replace("/", "\\/"),
    "an address": percent,
    "an address, in small letters": lambda text: (
        quote(text, safe="", errors="replace").replace("%2F", "%2f").replace("%3A", "%3a")
    ),
    "an address in an address": lambda text: percent(percent(text)),
    "a form": lambda text: quote_plus(text, errors="replace"),
    "an address in JSON": lambda text: for_html(quote_plus(text, errors="replace")),
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
}
ENCODINGS: dict[str, Spell] = {
    "Base64": lambda text: base64.b64encode(text.encode(errors="surrogatepass")).decode(),
    "Base64, as a page's btoa() has it": as_btoa,
    "Base64, URL-safe and bare": base64_url,
    "Base64 after one letter": base64_after("x"),
    "Base64 after two": base64_after("ab"),
    "Base64 after three": base64_after("abc"),
    "Base64 in JSON of PHP": lambda text: base64_after("ann:")(text).replace("/", "\\/"),
}
PLANTED = (
    'tr0ub4dor "&" 3',
    "correct horse/battery?",
    "päss wörd+<1>",
    "C:\\keys\\new",
    "line one!\nline two!",
    "-----x-----",
    "😀 smile 😀",
    "271828182",
)


@pytest.mark.parametrize("spelling", [*SPELLINGS, *ENCODINGS])
@pytest.mark.parametrize("secret", PLANTED)
def test_a_secret_is_found_however_it_is_spelled(secret: str, spelling: str) -> None:
    spelled = (SPELLINGS | ENCODINGS)[spelling](secret)
    found = without(secret, f"before ({spelled}) after")
    assert "[secret]" in found
    for part in (spelled, secret):
        assert part not in found
    if spelling in SPELLINGS:
        assert found.replace("\\[", "[") == "before ([secret]) after"


@given(
    st.text(
        st.characters(exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"),
        min_size=4,
        max_size=40,
    ),
    st.sampled_from(sorted(SPELLINGS)),
    st.sampled_from(sorted(SPELLINGS)),
)
def test_no_mixture_of_spellings_hides_a_secret(secret: str, one: str, other: str) -> None:
    if "address" in one + other or "form" in one + other:  # which have no half characters
        secret = secret.encode(errors="replace").decode()
    found = without(secret, f"({SPELLINGS[one](secret)})({SPELLINGS[other](secret)})")
    assert re.sub(r"\\+\[", "[", found) == "([secret])([secret])"


@given(st.binary(min_size=6, max_size=60), st.binary(max_size=5), st.binary(max_size=5))
def test_no_place_in_base64_hides_a_secret(data: bytes, before: bytes, after: bytes) -> None:
    secret = data.hex()
    coded = base64.b64encode(before + secret.encode() + after).decode()
    found = without(secret, f"it is {coded}.")
    assert "[secret]" in found
    left = found.removeprefix("it is ").removesuffix(".").replace("[secret]", "")
    assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 4


def test_a_long_secret_is_found_in_pieces() -> None:
    key = "\n".join(
        f"{place:02}" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
        for place in range(30)
    )
    for spelled in (
        key,
        escaped(key),
        key.replace("\n", "\r\n"),
        key.replace("\n", ""),
        key.splitlines()[17],
    ):
        assert "MIIEvQ" not in without(key, f"({spelled})")
    whole = "".join(f"{place:03}x" for place in range(500))
    assert without(whole, f"({whole})") == "([secret])"


@pytest.mark.parametrize("unit", ["Ab3dE9", "a", "ab" * 70])
def test_a_long_secret_that_repeats_itself_is_found_to_its_end(unit: str) -> None:
    secret = unit * 420
    assert without(secret, f"rejected {secret}.") == f"rejected {SECRET}."


def test_short_text_and_number_are_found() -> None:
    assert without("42", r"it is 42, not 1421 or abp-142x: PIN\n42") == (
        r"it is [secret], not 1421 or abp-142x: PIN\n[secret]"
    )
    assert without("4711 0815 42", "card 4711081542") == "card [secret]"


def test_overlapping_secrets_are_replaced_as_one() -> None:
    known = KnownTexts()
    for text, instead in (("abcdef", "[link]"), ("defghi", SECRET), ("ghijkl", "[link]")):
        known.add_piece(text, instead, alone=False)
    assert known.replace("(abcdefghijkl)") == "([secret])"
    assert known.replace("(abcdef)") == "([link])"


def test_only_secrets_that_are_present_are_looked_for() -> None:
    known = KnownTexts()
    assert known.present_in(["anything"]).replace("anything") == "anything"
    known.add_text("hunter2", SECRET)
    known.add_text("hunter3", SECRET)
    found = known.present_in(["x", "hunter3"])
    assert found.replace("hunter2 hunter3") == "hunter2 [secret]"


def test_secrets_with_brackets_are_found_apart() -> None:
    known = KnownTexts()
    known.add_text("{hunter2}", SECRET)
    known.add_text("hunter three", SECRET)
    assert known.with_brackets().replace("{hunter2} hunter three") == "[secret] hunter three"


def test_a_last_backslash_goes_with_what_it_belongs_to() -> None:
    for spell in (str, escaped, for_html):
        assert without("C:\\hunter2\\", f"({spell('C:' + chr(92) + 'hunter2' + chr(92))})") == (
            "([secret])"
        )
