"""Questions in the chat of an ACP client without forms: the turn ends with the question, the next
prompt is the answer, and what is no answer is told apart from one by its structure.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from support.acp_harness import Client, Failed, Handler, client, never, selected
from support.puppets import puppets, scripted

Json = Any


def asking(method: str, **params: Json) -> str:
    request = {"method": f"elicitation/{method}", "params": params}
    return f"/demo_ask {json.dumps({'request': request})}"


def typed(prompt: str, **schema: Json) -> str:
    return asking("input", prompt=prompt, schema=schema)


TEXT = typed("Who travels?", type="string")


@dataclass
class Chat:
    """A person in a chat: says something, and reads what the agent says in that turn."""

    call: Callable[..., Any]
    client: Client
    session: str

    def say(self, *blocks: Json | str) -> str:
        return str(self.call(self.asay, *blocks))

    async def asay(self, *blocks: Json | str) -> str:
        before = len(self.client.wire.lines)
        prompt = [
            {"type": "text", "text": each} if isinstance(each, str) else each for each in blocks
        ]
        given = {"sessionId": self.session, "prompt": prompt}
        response = await self.client.exchange("session/prompt", given)
        assert response["result"] == {"stopReason": "end_turn"}
        told = [
            m["params"]["update"]
            for _, m in self.client.wire.lines[before:]
            if "update" in m.get("params", {})
        ]
        return "".join(
            each["content"]["text"]
            for each in told
            if each["sessionUpdate"] == "agent_message_chunk"
        )

    def answer(self, *blocks: Json | str) -> Json:
        """The ABP response that the app got, which ends the turn."""
        return json.loads(self.say(*blocks).partition("\n\n")[0])


@asynccontextmanager
async def chatting(*arguments: str, handler: Handler = never, **more: Any) -> AsyncIterator[Chat]:
    async with client(*(arguments or ("--app", "demo")), handler=handler, **more) as opened:
        await opened.initialize()

        def nobody(*given: Any) -> Any:
            raise AssertionError

        yield Chat(nobody, opened, await opened.new())


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    """One bridge for many tests, with a client that shows nothing but permissions."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(chatting()) as opened:
        opened.call = portal.call
        yield opened


# --- what is an answer ----------------------------------------------------------------------------

NUMBER = typed("How far?", type="number", minimum=0)
YES = asking("confirm", message="Book it?")
ANSWERS: dict[str, tuple[str, str, Json]] = {
    "text, as it stands": (TEXT, " Ann  Bell\n2nd ", " Ann  Bell\n2nd "),
    "text after a command, as it stands": (TEXT, "/answer /etc/hosts", "/etc/hosts"),
    "text that would be a refusal": (TEXT, "/answer no answer", "no answer"),
    "text with nothing in it": (TEXT, "/answer", ""),
    "text that is no command of ours": (TEXT, "cancel", "cancel"),
    "a number": (NUMBER, " 812.5 ", 812.5),
    "a date": (typed("When?", type="string", format="date"), "2027-01-31", "2027-01-31"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_next_prompt_is_the_answer(chat: Chat, case: str) -> None:
    asked, prompt, value = ANSWERS[case]
    assert "Your next message is the answer" in chat.say(asked)
    response = chat.answer(prompt)
    assert response["data"] == {"value": value}
    route = response["metadata"]["route"]
    assert route == "acp-chat (as the next prompt)"


def test_chat_question_names_the_app_the_limits_and_the_way_out(chat: Chat) -> None:
    said = chat.say(
        typed("Where is it sent?", type="string", format="email", default="a@b.example")
    )
    assert said.startswith("demo asks: Where is it sent?\n\nAn e-mail address.\n\n")
    assert "Proposed by who asks: a@b.example" in said
    assert all(words in said for words in ("`/decline`", "“no answer”", "`/cancel`", "`/answer`"))
    assert "/skip" not in said
    chat.say("/cancel")


# --- what is none ---------------------------------------------------------------------------------

LINK = {"type": "resource_link", "uri": "file:///tmp/a.txt", "name": "a.txt"}
NO_ANSWERS: dict[str, tuple[str, tuple[Json, ...], str]] = {
    "a number in words": (NUMBER, ("far",), "a number"),
    "a number that is too small": (NUMBER, ("-1",), "at least 0"),
    "text that is too short": (typed("Who?", type="string", minLength=2), ("A",), "at least 2"),
    "nothing": (TEXT, (" \n",), "nothing in it"),
    "text with a link": (TEXT, ("see ", LINK), "text alone"),
    "a link after a command": (TEXT, ("/answer ", LINK), "text alone"),
    "leaving out what is needed": (TEXT, ("/skip",), "cannot be left empty"),
}


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_invalid_chat_answer_is_asked_again_with_the_reason(chat: Chat, case: str) -> None:
    asked, prompt, words = NO_ANSWERS[case]
    chat.say(asked)
    for _ in range(2):
        said = chat.say(*prompt)
        assert said.startswith("That is no answer: ")
        assert words in said
    assert chat.answer("/cancel")["metadata"]["outcome"] == "cancelled"


def test_question_ends_after_repeated_invalid_chat_answers(chat: Chat) -> None:
    said = chat.say(NUMBER)
    for _ in range(10):
        said = chat.say("far")
    assert json.loads(said)["error"]["code"] != "USER_CANCELLED"
    assert json.loads(said)["success"] is False


def test_command_is_not_taken_as_an_answer(chat: Chat) -> None:
    chat.say(TEXT)
    assert json.loads(chat.say("/status").strip("`json\n"))["questions"]["open"]
    for other in ("/demo_echo {}", "/etc/hosts", "/"):
        assert "A question is open" in chat.say(other)
    assert chat.answer("Ann")["data"] == {"value": "Ann"}


def test_commands_of_a_question_end_with_it(chat: Chat) -> None:
    def commands() -> set[str]:
        listed = chat.client.wire.updates("available_commands_update")[-1]
        return {each["name"] for each in listed["availableCommands"]}

    words = {"answer", "skip", "decline", "cancel"}
    assert not words & commands()
    chat.say(TEXT)
    assert words <= commands()
    chat.say("Ann")
    assert not words & commands()


def test_buttons_come_before_the_chat(chat: Chat) -> None:
    chat.client.handler = lambda method, params: selected(params["options"][0]["optionId"])
    response = chat.answer(YES)
    assert response["metadata"]["route"] == "acp-permission (as options)"
    chat.client.handler = never


def test_secret_is_never_asked_in_the_chat(chat: Chat) -> None:
    response = chat.answer(typed("Your password?", type="string", writeOnly=True))
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert (
        "acp-chat: a chat passes through the host: secrets never do" in response["error"]["message"]
    )


def test_client_without_buttons_is_asked_in_the_chat_except_for_consent(chat: Chat) -> None:
    chat.client.handler = lambda method, params: Failed(-32601)
    assert "Yes or no." in chat.say(YES)
    assert "That is no answer" in chat.say("perhaps")
    assert chat.answer("yes")["data"] == {"confirmed": True}
    chosen = asking("select", prompt="Which?", options=["a", "b"], multiple=True)
    assert "Several go with commas" in chat.say(chosen)
    assert chat.answer("a, b")["data"] == {"selected": ["a", "b"]}
    refused = chat.answer(asking("confirm", message="Delete it?", destructive=True))
    assert "consent is given on a card" in refused["error"]["message"]
    chat.client.handler = never


# --- one turn in several prompts ------------------------------------------------------------------


async def test_two_questions_at_once_are_asked_one_after_the_other() -> None:
    request = {
        "method": "elicitation/input",
        "params": {"prompt": "One?", "schema": {"type": "string"}},
    }
    other = {
        "method": "elicitation/input",
        "params": {"prompt": "Two?", "schema": {"type": "string"}},
    }
    button = {"method": "elicitation/confirm", "params": {"message": "Three?"}}
    shown: list[str] = []

    def answer(method: str, params: Json) -> Json:
        shown.append(params["toolCall"]["title"])
        return selected(params["options"][0]["optionId"])

    async with chatting(handler=answer) as chat:
        said = await chat.asay(
            f"/demo_ask_all {json.dumps({'requests': [request, other, button]})}"
        )
        assert ("One?" in said, "Two?" in said) == (True, False)
        assert "Two?" in await chat.asay("1")
        responses = json.loads((await chat.asay("2")).partition("\n\n")[0])
    assert [each["data"] for each in responses] == [
        {"value": "1"},
        {"value": "2"},
        {"confirmed": True},
    ]
    assert len(shown) == 1


@pytest.mark.slow
async def test_chat_answer_to_an_ended_question_is_ignored(tmp_path: Path) -> None:
    async with puppets(tmp_path) as made, chatting("--app", made.target) as chat:
        turn = await chat.client.start(chat.session, "/work")
        app = await made.app()
        await app.open("work")
        call = await app.next("capabilities/call")
        given = {"prompt": "Who?", "schema": {"type": "string"}}
        await app.send(id="q", method="elicitation/input", params=given)
        assert (await chat.client.response(turn))["result"] == {"stopReason": "end_turn"}
        await app.send(id=call["id"], result={"success": True, "data": "done without"})
        answer = await app.next()
        assert answer["result"]["error"]["code"] == "CANCELLED"
        await chat.client.until(lambda message: "completed" in json.dumps(message))
        await chat.client.until(lambda message: "no longer open" in json.dumps(message))
        said = await chat.asay("Ann")
    assert said.startswith("*No question is open any more: what you wrote was not taken")
    assert said.endswith("done without")
    told = chat.client.wire.updates("agent_message_chunk")
    assert "*This question is no longer open.*\n\n" in [each["content"]["text"] for each in told]


@pytest.mark.parametrize("again", [False, True], ids=["it ends", "cancelled again"])
@pytest.mark.slow
async def test_card_of_a_call_cancelled_between_prompts_ends_in_the_next(
    tmp_path: Path, again: bool
) -> None:
    async with puppets(tmp_path) as made, chatting("--app", made.target) as chat:
        person, session = chat.client, {"sessionId": chat.session}
        turn = await person.start(chat.session, "/work")
        app = await made.app()
        await app.open("work")
        await app.next("capabilities/call")
        given = {"prompt": "Who?", "schema": {"type": "string"}}
        await app.send(id="q", method="elicitation/input", params=given)
        assert (await person.response(turn))["result"] == {"stopReason": "end_turn"}
        await person.notify("session/cancel", session)
        turn = await person.start(chat.session, "Ann")
        await person.until(lambda message: "not taken as an answer" in json.dumps(message))
        cancel = await app.next("capabilities/cancel")
        if again:
            await person.notify("session/cancel", session)
        else:
            await app.send(id=cancel["id"], result={})
        await person.response(turn)
        [card] = person.wire.updates("tool_call")
        [ended] = person.wire.updates("tool_call_update")
        assert (ended["toolCallId"], ended["status"]) == (card["toolCallId"], "failed")
        assert (await chat.asay("/status")).startswith("```json"), "of that call nothing is said"
        assert person.wire.updates("tool_call_update") == [ended]


async def test_question_outside_a_call_is_not_asked_in_the_chat(tmp_path: Path) -> None:
    """The turn ends with its command, and the next prompt would answer nothing."""
    script = {
        "app": {"id": "early"},
        "capabilities": [{"name": "early.said", "steps": [{"answered": "early"}]}],
        "early": [{"id": "early", "method": "elicitation/input", "params": {"prompt": "Where?"}}],
    }
    path = tmp_path / "app.json"
    path.write_text(json.dumps(script))
    async with chatting("--app", scripted(path)) as chat:
        words = await chat.asay("/connect")
        assert "Connected early" in words
        assert "Your next message" not in words
        answer = json.loads((await chat.asay("/early_said")).partition("\n\n")[0])
        assert answer["error"]["code"] == "NOT_SUPPORTED"
        assert "no call runs" in answer["error"]["message"]


async def test_client_that_may_exit_is_asked_in_its_second_prompt() -> None:
    async with client("--app", "demo") as opened:
        await opened.initialize(name="acpx")
        session = await opened.new()
        _, words = await opened.prompt(session, TEXT)
        assert "NOT_SUPPORTED" in words
        assert "\n- acpx sessions new, then acpx prompt: " in words
        assert "y or n" not in words, "free text goes by no button"
        _, words = await opened.prompt(session, TEXT)
        assert words.startswith("demo asks: Who travels?")
        lost = {"sessionId": "of another process", "cwd": "/", "mcpServers": []}
        assert (await opened.exchange("session/resume", lost))["error"]["code"] == -32002
        _, words = await opened.prompt(await opened.new(), TEXT)
        assert words.startswith("demo asks: Who travels?")


async def test_chat_that_is_switched_off_is_no_setup_hint() -> None:
    async with client("--app", "demo", env={"ABP_ACP_CHAT": "false"}) as opened:
        await opened.initialize(name="acpx")
        _, words = await opened.prompt(await opened.new(), TEXT)
    assert "NOT_SUPPORTED" in words
    assert "acpx prompt" not in words
