"""Where an address leads, as browsers read it (WHATWG URL, host parsing); what is said of it."""

from __future__ import annotations

import pytest

from abp_bridge.core.web_address import describe_oddities, host_of

PLAIN = {
    "https://e.example/x?s=1": "e.example",
    "http://127.0.0.1:8080/": "127.0.0.1",
    "http://[::1]:8080/": "::1",
    "https://a_b.example": "a_b.example",
}
ODD = {
    "https://bank%2eexample/": "bank.example",
    "https://b%61nk.example/": "bank.example",
    "http://2130706433/": "127.0.0.1",
    "http://0x7f.1/": "127.0.0.1",
    "http://0x7f.0X0.0.1": "127.0.0.1",
    "http://0177.0.0.01/": "127.0.0.1",
    "http://0x/": "0.0.0.0",
    "https://bank.example./": "bank.example",
    "http://[0:0::1]/": "::1",
    "https://%62%C3%BCcher.example/": "xn--bcher-kva.example",
}
REFUSED = r"""
javascript:alert(1) file:///etc/passwd ftp://e.example/
https://bank.example@evil.example/ https://evil.example\.bank.example/
https://evil.example%2f.bank.example/
https://evil.example%00/ https://a..example/ https:///x
https:x http://1.2.3.4.5/ http://256.1.1.1/
http://4294967296/ http://0x7g.1/ http://1.09/
http://[::g]/ http://[::1/ http://e.example:99999/
http://[::1]:0/ https://%FF.example/ https://%C2%AD.example/
"""


@pytest.mark.parametrize(("url", "host"), [*PLAIN.items(), *ODD.items()])
def test_host_of_an_address_is_what_a_browser_reads(url: str, host: str) -> None:
    assert host_of(url) == host
    assert (host in describe_oddities(url)) is (url in ODD)


@pytest.mark.parametrize("url", REFUSED.split())
def test_misleading_or_invalid_address_is_refused(url: str) -> None:
    assert host_of(url) is None


def test_letters_that_look_like_others_are_said() -> None:
    said = describe_oddities("https://xn--pple-43d.com/")
    assert said == (
        "xn--pple-43d.com stands for '\u0430pple.com': its letters may look like others."
    )
    assert "xn--99999" in describe_oddities("https://xn--99999/")
