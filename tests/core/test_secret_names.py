"""Which words speak of a secret: in what is asked, and in the names of what holds one."""

from __future__ import annotations

import pytest

from abp_bridge.core.secret_names import asks_for_secret, holds_secret

HOLDING = (
    *(
        "password",
        "userPassword",
        "PGPASSWORD",
        "dbpassword",
        "pass",
        "passkey",
        "login[password]",
        "user:password",
        "password_confirmation",
    ),
    *(
        "GITHUB_TOKEN",
        "oauth_token",
        "slackBotToken",
        "X-Vault-Token",
        "PRIVATE-TOKEN",
        "tokenValue",
        "accessToken",
        "accessTokens",
        "token",
        "jwt",
    ),
    *(
        "apiKey",
        "X-Api-Key",
        "API_KEY",
        "master_key",
        "consumerKey",
        "Ocp-Apim-Subscription-Key",
        "apiKeys",
        "OPENAI_KEY",
    ),
    *(
        "pin",
        "pin_code",
        "pinCode",
        "card_number",
        "recovery_code",
        "verificationCode",
        "seed_phrase",
        "iban",
        "otp",
    ),
    *("credentials", "Authorization", "Set-Cookie", "cookie", "client_secret"),
)
OTHERS = (
    *(
        "progressToken",
        "nextPageToken",
        "max_tokens",
        "maxTokens",
        "input_tokens",
        "tokens",
        "tokenizer",
        "designToken",
        "totalTokens",
        "thoughtTokens",
        "maxToken",
        "nextSyncToken",
    ),
    *(
        "compass",
        "passenger",
        "keyboard",
        "primaryKey",
        "key",
        "type",
        "password_hint",
        "pinned",
        "spin",
        "secretary",
        "",
    ),
)


@pytest.mark.parametrize("name", HOLDING)
def test_a_name_of_a_secret_is_known(name: str) -> None:
    assert holds_secret(name)


@pytest.mark.parametrize("name", OTHERS)
def test_another_name_is_not_taken_for_one(name: str) -> None:
    assert not holds_secret(name)


@pytest.mark.parametrize(
    "words",
    [
        "Your password?",
        "Enter the API key",
        "userPin",
        "recovery_code",
        "Your GitHub token",
        "PIN:",
    ],
)
def test_who_is_asked_for_a_secret_is_told(words: str) -> None:
    assert asks_for_secret(words)


@pytest.mark.parametrize(
    "words",
    [
        "Which design token?",
        "How many tokens, at most?",
        "Max tokens?",
        "Spin the wheel?",
        "A trip to Pinsk",
    ],
)
def test_who_is_asked_for_something_else_is_not(words: str) -> None:
    assert not asks_for_secret(words)
