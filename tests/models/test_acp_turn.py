"""An ACP agent as a model: its mode, how it is gone on with, and one turn of it."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.models import acp
from abp_bridge.models.acp import Mode, ModelTurn
from abp_bridge.models.agent import AgentError, AgentResponse, Chunk, Cost, ToolsNeededError
from abp_bridge.protocols.acp import agent

Json = Any

WHOLE = {"stopReason": "end_turn"}


def chunk(words: str, id: str = "", what: str = "agent_message_chunk") -> Json:
    named = {"messageId": id} if id else {}
    return {"sessionUpdate": what, "content": {"type": "text", "text": words}, **named}


def call(id: str = "t", what: str = "tool_call", **more: Json) -> Json:
    return {"sessionUpdate": what, "toolCallId": id, **more}


def play(*updates: Json, turn: ModelTurn | None = None) -> list[Chunk]:
    turn = turn or ModelTurn(tools=True)
    return [told for update in updates for told in turn.apply_update(update)]


def answer(*updates: Json, tools: bool = True, result: Json = WHOLE) -> AgentResponse:
    turn = ModelTurn(tools=tools)
    play(*updates, turn=turn)
    return turn.finish(result)


# --- its sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has", "method"),
    [
        ({}, ""),
        ({"loadSession": True}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"sessionCapabilities": {"resume": None}}, ""),
    ],
)
def test_what_replays_nothing_comes_first(has: Json, method: str) -> None:
    assert acp.decode_resume({"agentCapabilities": has}) == method


def test_images_are_taken_where_that_is_said() -> None:
    said = {"agentCapabilities": {"promptCapabilities": {"image": True}}}
    assert (acp.takes_images(said), acp.takes_images({})) == (True, False)


def option(*values: str, category: str = "mode", current: str = "") -> Json:
    listed = [{"value": each, "name": each} for each in values]
    return {"id": "o", "category": category, "currentValue": current, "options": listed}


def modes(*ids: str, current: str = "") -> Json:
    return {"modes": {"currentModeId": current, "availableModes": [{"id": each} for each in ids]}}


GROUPED = {
    "category": "mode",
    "id": "o",
    "options": [{"group": "g", "options": [{"value": "ask"}]}],
}


@pytest.mark.parametrize(
    ("opened", "mode"),
    [
        ({}, None),
        (modes("default", "acceptEdits", "plan", "auto"), Mode("default")),
        (modes("build", "plan"), Mode("plan")),
        (modes("agent", "read_only", "Default"), Mode("read_only")),
        ({"configOptions": [option("build", "plan")]}, Mode("plan", "o")),
        ({"configOptions": [option("plan", category="x")], **modes("ask")}, Mode("ask")),
        ({"configOptions": [GROUPED]}, Mode("ask", "o")),
    ],
)
def test_the_mode_that_asks_is_found_by_its_id(opened: Json, mode: Mode | None) -> None:
    assert acp.decode_mode(opened) == mode


def test_its_model_is_an_option() -> None:
    assert acp.decode_model({"configOptions": [option(category="model", current="m-1")]}) == "m-1"
    assert acp.decode_model({}) == ""


# --- what it says ---------------------------------------------------------------------------------


def test_chunks_are_joined_by_their_ids_and_the_last_message_is_the_answer() -> None:
    response = answer(
        chunk("Warning!"), chunk("Let me", "1"), chunk(" see.", "1"), call(), chunk("Two.", "2")
    )
    assert response.content == "Two."
    assert response.metadata == {"earlierMessages": ["Warning!", "Let me see."]}


def test_a_tool_call_ends_a_message_without_an_id_and_a_thought_does_not() -> None:
    thought = chunk("hm", what="agent_thought_chunk")
    response = answer(chunk("Let me"), chunk(""), call(), chunk("Tw"), thought, chunk("o."))
    assert response.content == "Two."
    assert response.metadata == {"earlierMessages": ["Let me"]}
    assert answer().content is None


def test_each_update_is_a_chunk() -> None:
    told = play(
        chunk("a"),
        chunk("b", what="agent_thought_chunk"),
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}},
        {"sessionUpdate": "agent_message_chunk", "content": "odd"},
        {"sessionUpdate": "notice", "title": "Disk", "description": "is full"},
        {"sessionUpdate": "plan", "entries": []},
        {},
        call(title="Look", rawInput={}),
        call(what="tool_call_update", name="Read", rawInput={"path": "x"}),
        call(what="tool_call_update", status="completed"),
    )
    assert [(each.kind, each.text) for each in told] == [
        ("text", "a"),
        ("thought", "b"),
        ("image", ""),
        ("unknown", ""),
        ("notice", "Disk: is full"),
        ("plan", ""),
        ("unknown", ""),
        ("tool_start", "Look"),
        ("tool_call_update", ""),
        ("tool_end", ""),
    ]


def test_a_call_has_what_is_known_of_it_in_the_end() -> None:
    more = call(what="tool_call_update", rawInput={"path": "x"})
    [found] = answer(call(title="Look", rawInput={}), more, call(status="failed")).tool_calls
    assert (found.name, found.arguments) == ("Look", {"path": "x"})


# --- tools that it may not use --------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_tool_that_was_used_without_asking_is_a_failure(status: str) -> None:
    with pytest.raises(ToolsNeededError, match="may use none: rm") as problem:
        answer(
            call(title="rm", kind="read"),
            call(what="tool_call_update", status=status),
            call("u", status=status, title="another"),
            tools=False,
        )
    assert problem.value.code == "FAILED"


def test_one_that_was_refused_or_does_nothing_is_none() -> None:
    turn = ModelTurn(tools=False)
    turn.refuse({"toolCall": {"toolCallId": "t"}})
    play(
        call(title="rm"),
        call(status="failed"),
        call("u", kind="think", status="completed"),
        turn=turn,
    )
    assert turn.finish(WHOLE).stop_reason == "end_turn"


def test_what_is_refused_without_end_is_refused_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acp, "MAX_PARTS", 0)
    assert ModelTurn(tools=False).refuse({}) == agent.CANCELLED


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["allow_once", "reject_always", "reject_once"], "2"),
        (["allow_once", "reject_always"], None),
        ([], None),
    ],
)
def test_a_refusal_is_an_option_that_lasts_no_longer(kinds: list[str], chosen: str | None) -> None:
    options = [{"optionId": str(place), "kind": kind} for place, kind in enumerate(kinds)]
    outcome = {"outcome": "selected", "optionId": chosen}
    expected = agent.CANCELLED if chosen is None else {"outcome": outcome}
    assert agent.encode_refusal({"options": [*options, {"kind": "reject_once"}]}) == expected


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("max_tokens", "TRUNCATED"),
        ("refusal", "REFUSED"),
        ("cancelled", "CANCELLED"),
        (None, "PROTOCOL"),
    ],
)
def test_what_is_no_end_of_a_turn_is_no_answer(reason: Json, code: str) -> None:
    with pytest.raises(AgentError) as problem:
        answer(chunk("so far"), result={"stopReason": reason})
    assert problem.value.code == code


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([chunk("12345"), chunk("6")], "more than 5 characters"),
        ([call(str(number)) for number in range(3)], "more than 2 tools"),
        ([chunk(each, each) for each in "abc"], "more than 2 messages"),
    ],
)
def test_a_turn_without_an_end_is_cut(
    updates: list[Json], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp, "MAX_ANSWER", 5)
    monkeypatch.setattr(acp, "MAX_PARTS", 2)
    turn = ModelTurn(tools=True)
    play(*updates, turn=turn)
    assert turn.failure is not None
    with pytest.raises(AgentError, match=words) as problem:
        turn.finish(WHOLE)
    assert problem.value.code == "TRUNCATED"


def test_an_error_says_what_it_says() -> None:
    plain = acp.decode_failure(-32603, "", None, "")
    assert (plain.code, str(plain)) == ("FAILED", "it gave no reason (-32603)")
    assert str(acp.decode_failure(-1, "bad", {"why": 1}, "")) == 'bad (-1): {"why": 1}'
    assert acp.decode_failure(-32000, "x", None, "Sign in").code == "AUTH_REQUIRED"


NO_TOKENS = {**WHOLE, "usage": None}


def context(used: int) -> Json:
    return {"sessionUpdate": "usage_update", "used": used, "size": 9}


@pytest.mark.parametrize(
    ("updates", "result"),
    [
        ([chunk("Warning"), chunk("Too many requests")], NO_TOKENS),
        ([context(0), chunk("Too many requests", "1"), context(0)], WHOLE),
    ],
)
def test_an_error_that_is_told_as_an_answer_is_none(updates: list[Json], result: Json) -> None:
    with pytest.raises(AgentError, match=r"no model has answered; .*Too many") as problem:
        answer(*updates, result=result)
    assert problem.value.code == "FAILED"


@pytest.mark.parametrize(
    ("updates", "result"),
    [
        ([chunk("Two.", "1")], NO_TOKENS),
        ([chunk("Two.")], WHOLE),
        ([chunk("Two."), context(5)], WHOLE),
        ([chunk("Two."), context(0)], {**WHOLE, "usage": {"inputTokens": 1}}),
    ],
)
def test_agents_need_not_count(updates: list[Json], result: Json) -> None:
    assert answer(*updates, result=result).content == "Two."


# --- what it took ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "into"),
    [
        ({"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}, 5),
        ({"inputTokens": 5, "outputTokens": 3, "totalTokens": 12, "cachedReadTokens": 4}, 9),
        ({"outputTokens": 3}, None),
    ],
)
def test_tokens_are_of_the_turn_with_those_of_caches(tokens: Json, into: int | None) -> None:
    usage = answer(result={**WHOLE, "usage": tokens}).usage
    assert usage is not None
    assert (usage.scope, usage.input, usage.output) == ("turn", into, 3)


def test_its_cost_is_of_the_session_so_far() -> None:
    def cost(**told: Json) -> Json:
        return {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": told or None}

    usage = answer(
        cost(amount=0.25, currency="USD"),
        cost(),
        cost(amount=1),
        cost(amount=-1, currency="USD"),
        cost(amount=1, currency="\x1b[2J"),
    ).usage
    assert usage is not None
    assert usage.cost == Cost(0.25, "USD", "session")
    assert answer(cost()).usage is None


def codex(status: str) -> Json:
    about = {"codex": {"threadStatus": {"type": status}}}
    return {"sessionUpdate": "session_info_update", "_meta": about}


def test_codex_in_error_has_not_answered_whatever_its_stop_reason() -> None:
    """It ends such a turn well: an answer that was cut by its limit of tokens, for one."""
    why = chunk("Incomplete response returned, reason: max_output_tokens\n\n")
    said = [codex("active"), chunk("Hello.", "m"), codex("systemError")]
    for updates, words in (([*said, why], "reason: max_output_tokens"), (said, "and not why")):
        with pytest.raises(AgentError, match=words) as problem:
            answer(*updates)
        assert problem.value.code == "FAILED"
    assert answer(*said, codex("active"), chunk(" Yes.", "m")).content == "Hello. Yes."
