"""What a model of the person's is sent for a sampling question, and what becomes of its answer."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models.agent import AgentMessage, AgentResponse, Cost, Image, ModelSettings, Usage
from abp_bridge.models.request import decode_request, describe_response, encode_response
from abp_bridge.protocols import abp
from abp_bridge.protocols.mcp.elicitation import encode_sampling
from abp_bridge.protocols.mcp.sampling import decode_sampling, encode_refused, encode_sampled

Json = Any

HELLO: Json = {"role": "user", "content": {"type": "text", "text": "Hello"}}


def server_asks(**params: Json) -> Question:
    return decode_sampling({"messages": [HELLO], "maxTokens": 9, **params}, id="q", origin="s")


def test_an_apps_task_is_sent_with_its_context() -> None:
    asked: Json = {
        "method": "sampling/create",
        "params": {"task": "Sum it up", "context": {"a": 1}},
    }
    request = decode_request(abp.decode_question(asked, id="q", origin="app"))
    system, user = request.messages
    assert system.role == "system"
    assert "app" in system.content
    assert user.content.startswith("Sum it up")
    assert '"a"' in user.content
    assert (request.settings, request.ignored) == (ModelSettings(), ())  # the app set none
    assert request.words == f"system: {system.content}\n\n{user.content}"


def test_a_long_task_is_sent_whole() -> None:
    asked: Json = {"method": "sampling/create", "params": {"task": f"{'word ' * 9_000}end"}}
    request = decode_request(abp.decode_question(asked, id="q", origin="app"))
    assert request.messages[-1].content == asked["params"]["task"]


def test_what_a_server_asks_as_a_task_is_asked_as_it_stands() -> None:
    """MCP has it answered so by who declares no tasks; an app's task is another thing."""
    question = server_asks(task={"ttl": 60_000}, systemPrompt="Be terse")
    assert decode_request(question).messages[0] == AgentMessage("system", "Be terse")
    content = encode_response(question, AgentResponse("Blue"), "Blue", "m-1")
    assert encode_sampled(Answer(Outcome.ACCEPTED, AnsweredBy.MODEL, content))["model"] == "m-1"


def test_a_servers_conversation_is_sent_as_it_is_shown() -> None:
    said = [
        HELLO,
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": {"type": "text", "text": "Bl\u200bue\x1b[2J?"}},
    ]
    request = decode_request(
        server_asks(
            messages=said,
            systemPrompt="Be terse",
            temperature=0.5,
            stopSequences=["END", "\n"],
            modelPreferences={"hints": []},
            includeContext="none",
        )
    )
    assert request.messages == (
        AgentMessage("system", "Be terse"),
        AgentMessage("user", "Hello"),
        AgentMessage("assistant", "Hi"),
        AgentMessage("user", "Blue[2J?"),
    )
    assert request.settings == ModelSettings(9, 0.5, ("END", "\n"))
    assert request.ignored == ("modelPreferences", "includeContext")
    assert request.words == (
        "system: Be terse\n\nHello\n\nassistant: Hi\n\nBlue[2J?\n\nstopSequences: 'END', '\\n'"
    )


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(1_000)).decode()
IMAGE: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO: Json = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
LARGE: Json = {**IMAGE, "data": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3 * 2**20)).decode()}


def test_images_go_along_and_are_named_to_the_person() -> None:
    said = [
        {"role": "user", "content": IMAGE},
        {"role": "user", "content": [IMAGE, HELLO["content"]]},
    ]
    question = server_asks(messages=said)
    request = decode_request(question)
    image = Image(PNG, "image/png", 1_008)
    assert request.messages == (
        AgentMessage("user", "", (image,)),
        AgentMessage("user", "Hello", (image,)),
    )
    shown = "[PNG image, 1,008 bytes]"
    assert request.words == f"{shown}\n\n{shown}\nHello"
    assert encode_sampling(question)["messages"] == said  # a host's model gets them as they came


WIDE: Json = {"type": "text", "text": f"Sum it up{' ' * 200_000}, but not this"}
UNSEEN: Json = {"type": "text", "text": f"Sum it up{chr(0x200B) * 900_000}, but not this"}


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"messages": [{"role": "user", "content": AUDIO}]}, "says, and this is audio"),
        ({"messages": [{"role": "assistant", "content": IMAGE}, HELLO]}, "in what the user says"),
        ({"messages": [{"role": "user", "content": {**IMAGE, "data": "é"}}]}, "one of png, jpeg"),
        ({"messages": [{"role": "user", "content": {**IMAGE, "mimeType": 7}}]}, "one of png"),
        (
            {"messages": [{"role": "user", "content": {**IMAGE, "data": "A" * 2**23}}]},
            "at most 5 MiB each",
        ),
        ({"messages": [{"role": "user", "content": [LARGE] * 3}]}, "8 MiB in all"),
        ({"messages": [{"role": "tool", "content": HELLO["content"]}]}, "sent text"),
        ({"messages": [{**HELLO, "role": "assistant"}]}, "last message"),
        ({"messages": [{"role": "user", "content": {"type": "text", "text": "\u200b"}}]}, "words"),
        ({"tools": [{"name": "t"}]}, "call tools"),
        ({"toolChoice": {"mode": "none"}}, "call tools"),
        ({"maxTokens": 0}, "maxTokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"stopSequences": "END"}, "stopSequences"),
        ({"stopSequences": ["x" * 50_000]}, "50,000 characters"),
        ({"stopSequences": ["E\u200bND"]}, "stopSequences"),
        ({"systemPrompt": ["Be terse"]}, "sent text"),
        ({"messages": [{"role": "user", "content": {"type": "text", "text": 7}}]}, "sent text"),
        ({"messages": [{"role": "user", "content": WIDE}]}, "at most 50,000 characters"),
        ({"messages": [{"role": "user", "content": UNSEEN}]}, "at most 50,000 characters"),
        ({"systemPrompt": "x" * 50_001}, "at most 50,000 characters"),
    ],
)
def test_what_cannot_be_sent_is_refused(params: Json, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        decode_request(server_asks(**params))


@pytest.mark.parametrize(
    ("stopped", "told"),
    [
        ("end_turn", {"stopReason": "endTurn"}),
        (None, {}),  # nobody knows
        ("length", {"stopReason": "maxTokens"}),
        ("stop_sequence", {"stopReason": "stopSequence"}),
    ],
)
def test_a_server_gets_the_answer_in_its_own_shape(stopped: str | None, told: Json) -> None:
    question = server_asks()
    response = AgentResponse("Blue", stop_reason=stopped, model="m-1")
    content = encode_response(question, response, "Red", "cli:claude")
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.MODEL, content, metadata={"edited": True})
    result = encode_sampled(answer)
    types.CreateMessageResult.model_validate(result)
    assert result == {
        "role": "assistant",
        "content": {"type": "text", "text": "Red"},
        "model": "m-1",
        **told,
        "_meta": {"abp-bridge/model": {"edited": True}},
    }


def test_an_app_gets_the_words() -> None:
    question = Question("q", Kind.SAMPLING, "t", (), "app", request={"task": "t"})
    assert encode_response(question, AgentResponse("Blue"), "Blue", "m") == {"result": "Blue"}


def test_what_is_told_of_an_answer() -> None:
    plain = describe_response(AgentResponse("x"), "cli:claude", ())
    assert plain == {"model": "cli:claude"}
    usage = Usage("turn", 3, 4, Cost(0.1, "USD"))
    full = AgentResponse("x", usage=usage, model="m-1", ignored=("temperature",))
    assert describe_response(full, "cli:claude", ("maxTokens",)) == {
        "model": "m-1",
        "usage": {"input": 3, "output": 4},
        "cost": {"amount": 0.1, "unit": "USD"},
        "ignored": ["maxTokens", "temperature"],
    }


def test_a_refusal_is_a_line_of_bounded_length() -> None:
    assert encode_refused("no model answered:\nbusy") == {
        "code": -1,
        "message": "no model answered: busy",
    }
    assert len(encode_refused("x" * 9_000)["message"]) < 1_100  # type: ignore[arg-type]
