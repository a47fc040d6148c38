"""Which words speak of a secret: in what is asked, and in the names of what holds one."""

from __future__ import annotations

import pytest

from abp_bridge.core.redact.names import (
    asks_for_secret,
    declared_secret,
    gist,
    holds_secret,
    is_secret,
)
from abp_bridge.core.schema import Schema

HOLDING = """
password userPassword PGPASSWORD dbpassword pass passkey passKey bearer mfa mnemonic pat puk jwt
connectionString connection_string SENTRY_DSN database_url security_answer login[password]
user:password password_confirmation GITHUB_TOKEN oauth_token slackBotToken X-Vault-Token
PRIVATE-TOKEN tokenValue accessToken accessTokens token apiKey X-Api-Key API_KEY master_key
consumerKey Ocp-Apim-Subscription-Key apiKeys OPENAI_KEY pin pin_code pinCode card_number
recovery_code verificationCode seed_phrase iban otp credentials Authorization Set-Cookie cookie
client_secret
"""
OTHERS = """
progressToken nextPageToken max_tokens maxTokens input_tokens tokens tokenizer designToken
totalTokens thoughtTokens maxToken nextSyncToken compass passenger keyboard primaryKey key type
password_hint repo_url path bearing mfa_enabled pinned spin secretary
"""


@pytest.mark.parametrize("name", HOLDING.split())
def test_a_name_of_a_secret_is_known(name: str) -> None:
    assert holds_secret(name)


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u202e"])
def test_invisible_characters_hide_no_secret(unseen: str) -> None:
    assert holds_secret(f"pass{unseen}word")
    assert holds_secret(f"password{unseen * 300}")
    assert asks_for_secret(f"Your pass{unseen}word?")


@pytest.mark.parametrize("name", [*OTHERS.split(), ""])
def test_another_name_is_not_taken_for_one(name: str) -> None:
    assert not holds_secret(name)


@pytest.mark.parametrize(
    "words",
    [
        "Your password?",
        "Enter the API key",
        "Your GitHub token",
        "PIN:",
        "Never share your password with others. Your password?",
        "(Do not tell anybody) Your PIN",
        "Enter the code from your authenticator app",
        "What is the 2FA code?",
        "The code from your work e-mail?",
        "Do not use an old one, enter the new password",
        "Please do not include spaces and type your API key",
        "Never share this with anyone - enter your PIN",
    ],
)
def test_wording_that_asks_for_a_secret(words: str) -> None:
    assert asks_for_secret(words)


@pytest.mark.parametrize(
    "words",
    [
        "Which design token?",
        "How many tokens, at most?",
        "Max tokens?",
        "Spin the wheel?",
        "Your favorite integer (do not give us your phone number, pin, or other sensitive info)",
        "A comment. Never share passwords!",
        "A trip to Pinsk",
    ],
)
def test_wording_that_asks_for_something_else(words: str) -> None:
    assert not asks_for_secret(words)


# What people call their password first, and a code that works once, in their language.
LANGUAGES = {
    "English": "pw|userPw|db_pass|smtpPass|otpCode|sms_code|login-code|2faCode",
    "German": "Passwort|benutzerPasswort|Kennwort|Ihr Einmalcode?|SMS-TAN|API-Schlüssel|"
    "den privaten Schlüssel",
    "French": "mot de passe|Votre mot de passe ?|mdp|code à usage unique",
    "Spanish": "contraseña|contrasena|CONTRASEÑA|Clave de API",
    "Portuguese": "senha|palavra-passe|código de uso único|Chave de API",
    "Italian": "parola d'ordine|codice di verifica|La chiave API",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_a_language_for_secrets(language: str) -> None:
    words = LANGUAGES[language].split("|")
    assert [each for each in words if not asks_for_secret(each) and not holds_secret(each)] == []
    assert holds_secret(words[0])
    assert holds_secret(f"user_{words[0]}")


NO_SECRETS = (
    "Your postcode?|Country code|Error code|The code of the project|dress_code|Tan or blue?|"
    "The code from our repository|Das geheimnisvolle Haus|Welcher Schlüssel passt?|boarding pass|"
    "Discount code from the newsletter e-mail|The season pass?|palabra clave|Scrivi una parola|"
    "Welche Sprache?|Ihre Anschrift|お名前"
)


@pytest.mark.parametrize("words", NO_SECRETS.split("|"))
def test_other_words_of_a_language(words: str) -> None:
    assert not asks_for_secret(words)
    assert not holds_secret(words)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"format": "password"}, True),
        ({"writeOnly": True, "sensitive": False}, True),
        ({"sensitive": True}, True),
        ({"sensitive": False}, False),
        ({"type": "string"}, None),
        ({"sensitive": "yes"}, None),
    ],
)
def test_a_schema_says_whether_it_is_one(schema: Schema, said: bool | None) -> None:
    assert declared_secret(schema) is said


def test_apps_declaration_overrides_the_name_of_a_field() -> None:
    public: list[Schema] = [{"sensitive": False}]
    assert is_secret("db_pass", {}, (), "", typed=True)
    assert not is_secret("db_pass", {}, public, "Your password?", typed=True)
    assert is_secret("x", {}, (), "Your password?", typed=True)
    assert is_secret("x", {}, [{"sensitive": True}, *public], "", typed=False)
    assert not is_secret("password", {}, (), "Your password?", typed=False), "it is only chosen"
    inner: Schema = {"type": "object", "properties": {"pw": {"type": "string"}}}
    assert is_secret("login", inner, (), "", typed=True)
    assert is_secret("login", {"items": {"writeOnly": True}}, public, "", typed=True)


def test_requester_that_may_not_see_a_secret_cannot_declare_it_public() -> None:
    public: Schema = {"sensitive": False}

    def guess(name: str, typed: bool = True, *around: Schema) -> bool:
        return is_secret(name, public, around, "", typed=typed, overrules=False)

    assert guess("db_pass")
    assert not guess("size")
    assert not guess("db_pass", False), "it is only chosen"
    assert is_secret("x", {"sensitive": True}, (), "", typed=False, overrules=False)


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Sign in", "Code"),
        ("Enter the verification", "Code"),
        ("Your API", "Key"),
        ("Please type the code", "We sent you"),
        ("Your password?", "It"),
    ],
)
@pytest.mark.parametrize("before", ["", "We need this to go on. " * 20], ids=["short", "long"])
def test_a_prompt_and_a_title_ask_for_a_secret_together(
    before: str, prompt: str, title: str
) -> None:
    assert is_secret("it", {"title": title}, (), gist(before + prompt), typed=True)
    assert not is_secret("it", {"title": title}, (), gist(before), typed=True)


def test_gist_is_short_and_has_the_secret_of_the_middle() -> None:
    long = "Please read on. " * 1_000
    assert len(gist(long)) <= 200
    assert asks_for_secret(gist(f"{long}Your password? {long}"))
    assert not asks_for_secret(gist(f"{long}Never share your password. {long}"))


def test_a_prompt_of_lines_asks_for_a_secret_with_a_title_or_a_description() -> None:
    lines = gist("Eingabe\n" * 60 + "verification")
    for word in ("title", "description"):
        assert is_secret("it", {word: "Code"}, (), lines, typed=True)
    assert is_secret("max", {}, (), "Token?", typed=True)
