"""The sampling surface: nothing is sent, or passed on, without the user's yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from support.agents import PNG
from support.harness import PATIENCE

from abp_bridge.core.answer import Answer
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.models import surface as agent_surface
from abp_bridge.models.agent import (
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentProtocol,
    AgentResponse,
    Chunk,
    ChunkKind,
    Cost,
    Image,
    ModelSettings,
    OnChunk,
    StartOptions,
    Usage,
)
from abp_bridge.models.request import MAX_SENT
from abp_bridge.models.surface import AT_ONCE, MAX_OPEN, AgentSurface
from abp_bridge.models.targets import make_agent
from abp_bridge.protocols.mcp.sampling import SAMPLED, decode_sampling
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import (
    HostTimeoutError,
    OnModelProgress,
    SurfaceFailedError,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

Json = Any

AGENT = SurfaceVariant(Surface.SAMPLING)
CALLED = AskContext(calls=("c",))
BLUE = AgentResponse("It is blue.", usage=Usage("turn", 3, 4, Cost(0.5, "USD")), model="m-1")
UNSUPPORTED = Answer(Outcome.UNSUPPORTED, AnsweredBy.NOBODY, reason="nobody is here")


class Model:
    """An agent that answers with what it is given, and notes what it was sent."""

    transport_type = "llm"

    def __init__(self, answer: AgentResponse | AgentError = BLUE) -> None:
        self.answer = answer
        self.obstacle = ""
        self.sent: list[Sequence[AgentMessage]] = []
        self.settings: list[ModelSettings] = []
        self.timeouts: list[float] = []
        self.open: set[str] = set()
        self.most = 0
        self.done = anyio.Event()
        self.done.set()

    def find_obstacle(self, *, images: bool = False) -> str:
        return self.obstacle

    async def start(self, options: StartOptions) -> str:
        assert not options.cli_config.tools
        id = f"s-{len(self.sent)}"
        self.open.add(id)
        self.most = max(self.most, len(self.open))
        return id

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk,
        settings: ModelSettings,
        timeout_ms: int,
    ) -> AgentResponse:
        self.sent.append(messages)
        self.settings.append(settings)
        self.timeouts.append(timeout_ms / 1_000)
        on_chunk(Chunk(ChunkKind.THOUGHT, "Hm"))
        on_chunk(Chunk(ChunkKind.TEXT, "It is"))
        await self.done.wait()
        if isinstance(self.answer, AgentError):
            raise self.answer
        return self.answer

    async def stop(self, session: str) -> None:
        self.open.discard(session)

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        return None if response.usage is None else response.usage.cost


class Person:
    """Whoever is asked: answers one after the other, the last one for ever."""

    def __init__(self, *answers: str | Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []
        self.contexts: list[AskContext] = []

    async def __call__(self, question: Question, context: AskContext) -> Answer:
        self.asked.append(question)
        self.contexts.append(context)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Answer):
            return answer
        return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {question.fields[0].name: answer})


def surface(
    model: Model,
    person: Person,
    on_progress: OnModelProgress = lambda calls, words: None,
    **more: Json,
) -> AgentSurface:
    def make(name: str, folder: str) -> AgentProtocol:
        assert name == "cli:claude"
        return model  # type: ignore[return-value]

    made = AgentSurface("cli:claude", make, **{"limit": PATIENCE, **more})
    made.attach(person, on_progress)
    return made


def task(origin: str = "app", words: str = "What colour?") -> Question:
    request: Json = {"task": words}
    return Question("q", Kind.SAMPLING, words, (), origin, request=request)


def of_a_server() -> Question:
    said: Json = {"role": "user", "content": {"type": "text", "text": "What colour?"}}
    return decode_sampling({"messages": [said], "maxTokens": 9}, id="q", origin="server")


async def ask(
    model: Model, person: Person, question: Question | None = None, context: AskContext = CALLED
) -> SurfaceResponse:
    return await surface(model, person).prompt(question or task(), context, AGENT)


async def test_what_is_approved_is_sent_and_its_answer_goes_back() -> None:
    model, person = Model(), Person("send")
    response = await ask(model, person)
    assert (response.outcome, response.content) == (Outcome.ACCEPTED, {"result": "It is blue."})
    assert response.metadata == {
        "model": "m-1",
        "usage": {"input": 3, "output": 4},
        "cost": {"amount": 0.5, "unit": "USD"},
    }
    [(system, said)], [asked] = model.sent, person.asked
    assert said.content == "What colour?"
    assert system.content in asked.message
    assert "> What colour?" in asked.message
    assert person.contexts[0].calls == ("c",)
    assert not model.open


@pytest.mark.parametrize(
    ("answer", "by"),
    [
        ("refuse", AnsweredBy.PERSON),
        (Answer(Outcome.DECLINED, AnsweredBy.PERSON), AnsweredBy.PERSON),
        (Answer(Outcome.CANCELLED, AnsweredBy.PERSON), AnsweredBy.PERSON),
        (Answer(Outcome.DECLINED, AnsweredBy.SCRIPT), AnsweredBy.SCRIPT),
    ],
)
async def test_a_no_sends_nothing(answer: str | Answer, by: AnsweredBy) -> None:
    model = Model()
    response = await ask(model, Person(answer))
    assert response.outcome is Outcome.DECLINED
    assert response.verdict is not None
    assert response.verdict.answered_by is by
    assert not model.sent


@pytest.mark.parametrize(
    "answer",
    [
        UNSUPPORTED,
        Answer(Outcome.ACCEPTED, AnsweredBy.HOST_POLICY, {"decision": "send"}),
        Answer(Outcome.ACCEPTED, AnsweredBy.UNKNOWN, {"decision": "send-all"}),
        Answer(Outcome.DECLINED, AnsweredBy.HOST_POLICY),
        Answer(Outcome.INVALID, AnsweredBy.PERSON),
    ],
)
async def test_yes_that_is_not_a_users_sends_nothing(answer: Answer) -> None:
    model = Model()
    with pytest.raises(SurfaceUnsupportedError, match="no person approved"):
        await ask(model, Person(answer))
    assert not model.sent


async def test_who_says_nothing_in_time_lets_the_question_time_out() -> None:
    late = Answer(Outcome.TIMED_OUT, AnsweredBy.NOBODY, reason="nobody answered within 1 s")
    with pytest.raises(HostTimeoutError, match="nobody answered within 1 s"):
        await ask(Model(), Person(late))


async def test_an_app_may_be_approved_once_for_all_and_others_not_with_it() -> None:
    model, person = Model(), Person("send-all", "refuse")
    asking = surface(model, person)
    for _ in range(3):
        assert (await asking.prompt(task("app one"), CALLED, AGENT)).outcome is Outcome.ACCEPTED
    assert len(person.asked) == 1
    assert (await asking.prompt(task("app two"), CALLED, AGENT)).outcome is Outcome.DECLINED
    assert len({each.id for each in person.asked}) == 2


async def test_apps_of_one_name_are_approved_one_by_one() -> None:
    """The same program in two folders is called the same."""
    asking = surface(Model(), Person("send-all", "refuse"))
    first, second = (replace(CALLED, connection=each) for each in "12")
    question = task("python app.py")
    for _ in range(2):
        assert (await asking.prompt(question, first, AGENT)).outcome is Outcome.ACCEPTED
    assert (await asking.prompt(question, second, AGENT)).outcome is Outcome.DECLINED


async def test_approving_all_of_an_app_takes_its_other_open_questions_down() -> None:
    asked: list[str] = []
    all_asked = anyio.Event()

    async def person(question: Question, context: AskContext) -> Answer:
        asked.append(question.origin)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()
        if question.id.endswith("-1"):
            return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"decision": "send-all"})
        if question.origin == "app two":
            return Answer(Outcome.DECLINED, AnsweredBy.PERSON)
        await anyio.sleep_forever()
        raise AssertionError

    asking = surface(Model(), person)  # type: ignore[arg-type]
    outcomes: list[tuple[str, Outcome]] = []

    async def ask_for(origin: str) -> None:
        outcomes.append((origin, (await asking.prompt(task(origin), CALLED, AGENT)).outcome))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for origin in ("app one", "app one", "app two"):
                tasks.start_soon(ask_for, origin)
    assert sorted(outcomes) == [
        ("app one", Outcome.ACCEPTED),
        ("app one", Outcome.ACCEPTED),
        ("app two", Outcome.DECLINED),
    ]


async def test_who_asks_again_and_again_after_a_no_has_no_more_asked() -> None:
    """Of its person; a yes before that begins the count anew, and another app has its own."""
    model, person = Model(), Person("refuse", "refuse", "send", "refuse")
    asking = surface(model, person)
    for _ in range(6):
        await asking.prompt(task(), CALLED, AGENT)
    for _ in range(20):
        with pytest.raises(SurfaceUnsupportedError, match="did not let the last 3 requests"):
            await asking.prompt(task(), CALLED, AGENT)
    assert (len(person.asked), len(model.sent)) == (6, 1)
    assert (await asking.prompt(task("another"), CALLED, AGENT)).outcome is Outcome.DECLINED
    written = surface(model, Person(Answer(Outcome.DECLINED, AnsweredBy.SCRIPT)))
    for _ in range(5):
        assert (await written.prompt(task(), CALLED, AGENT)).outcome is Outcome.DECLINED


async def test_an_app_that_asks_many_times_at_once_is_shown_a_few_times() -> None:
    asked: list[Question] = []
    answering = anyio.Event()
    ended: list[str] = []

    async def person(question: Question, context: AskContext) -> Answer:
        asked.append(question)
        await answering.wait()
        return Answer(Outcome.DECLINED, AnsweredBy.PERSON)

    asking = surface(Model(), person)  # type: ignore[arg-type]

    async def ask_once() -> None:
        try:
            ended.append((await asking.prompt(task(), CALLED, AGENT)).outcome.value)
        except SurfaceUnsupportedError:
            ended.append("left alone")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask_once)
            await until(lambda: len(asked) == MAX_OPEN)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert len(asked) == MAX_OPEN
            answering.set()
    assert sorted(ended) == ["declined"] * MAX_OPEN + ["left alone"] * (50 - MAX_OPEN)


async def test_an_answer_is_seen_first_and_passed_on() -> None:
    person = Person("review", "pass")
    response = await ask(Model(), person)
    assert response.content == {"result": "It is blue."}
    assert "edited" not in response.metadata
    assert "> It is blue." in person.asked[1].message


async def test_an_answer_that_is_kept_back_goes_nowhere() -> None:
    response = await ask(Model(), Person("review", "keep"))
    assert (response.outcome, response.content) == (Outcome.DECLINED, {})


async def test_an_answer_may_be_changed_and_that_is_said() -> None:
    response = await ask(Model(), Person("review", "edit", "It is red."), of_a_server())
    whole = response.content[SAMPLED]
    assert isinstance(whole, dict)
    assert whole["content"] == {"type": "text", "text": "It is red."}
    assert response.metadata["edited"] is True


async def test_where_nothing_can_be_typed_an_answer_is_passed_on_or_kept() -> None:
    person = Person("review", "edit", UNSUPPORTED, "pass")
    assert (await ask(Model(), person)).content == {"result": "It is blue."}
    choices = [[each.value for each in asked.fields[0].choices] for asked in person.asked]
    assert choices == [
        ["refuse", "send", "review", "send-all"],
        ["keep", "pass", "edit"],
        [],
        ["keep", "pass"],
    ]


@pytest.mark.parametrize("decisions", [("review", "pass"), ("send",)])
async def test_hidden_characters_of_an_answer_are_removed_and_counted(
    decisions: tuple[str, ...],
) -> None:
    """Who gets it may print it, and a terminal would be repainted."""
    hidden = AgentResponse("  It is\u200b \u202eblue.\x1b[2J\x9b2K\r\n\t\u05d0\u200d\ue000\n")
    response = await ask(Model(hidden), Person(*decisions))
    assert response.content == {"result": "  It is blue.[2J2K\n\t\u05d0\u200d\ufffd\n"}
    assert response.metadata["hiddenCharacters"] == 5
    assert "edited" not in response.metadata, "nobody changed it"
    plain = await ask(Model(), Person(*decisions))
    assert "hiddenCharacters" not in plain.metadata
    with pytest.raises(SurfaceFailedError, match="without text"):
        await ask(Model(AgentResponse("\u200b\x1b")), Person(*decisions))


async def test_half_a_character_of_an_answer_stands_as_a_mark() -> None:
    """A strict server could not read the message that holds it, and would wait for ever."""
    response = await ask(Model(AgentResponse("It is \ud83d blue.")), Person("send"))
    assert response.content == {"result": "It is \ufffd blue."}


@pytest.mark.parametrize(
    ("code", "error", "lasting"),
    [
        (AgentErrorCode.NOT_AVAILABLE, SurfaceUnsupportedError, True),
        (AgentErrorCode.AUTH_REQUIRED, SurfaceUnsupportedError, True),
        (AgentErrorCode.REFUSED, SurfaceUnsupportedError, False),
        (AgentErrorCode.TRUNCATED, SurfaceFailedError, False),
        (AgentErrorCode.AGENT_DIED, SurfaceFailedError, False),
        (AgentErrorCode.NETWORK, SurfaceFailedError, False),
    ],
)
async def test_a_turn_without_an_answer_says_why(
    code: AgentErrorCode, error: type[Exception], lasting: bool
) -> None:
    """And what may go well another time is told apart from what will not."""
    model = Model(AgentError(code, "it is so"))
    with pytest.raises(error, match=rf"\({code}\): it is so") as raised:
        await ask(model, Person("send"))
    assert getattr(raised.value, "lasting", False) is lasting
    assert not model.open


async def test_who_asks_reads_no_key_in_what_an_agent_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse")
    said = AgentError(AgentErrorCode.AUTH_REQUIRED, "the key correct-horse is wrong")
    with pytest.raises(SurfaceUnsupportedError, match="the key \u2026 is wrong"):
        await ask(Model(said), Person("send"))


async def test_a_model_that_is_asked_too_often_says_when_it_may_be_again() -> None:
    busy = AgentError(AgentErrorCode.RATE_LIMITED, "slow down", retry_after=7.0)
    with pytest.raises(SurfaceFailedError, match=r"slow down .again after 7 s."):
        await ask(Model(busy), Person("send"))


async def test_a_turn_that_takes_too_long_times_out() -> None:
    with pytest.raises(HostTimeoutError, match="too long"):
        await ask(Model(AgentError(AgentErrorCode.TIMEOUT, "too long")), Person("send"))


async def test_half_an_answer_is_a_servers_alone_and_marked() -> None:
    """MCP has a word for it (`stopReason: maxTokens`), ABP has none."""
    half = AgentResponse("It is", stop_reason="length", usage=BLUE.usage)
    cut = AgentError(AgentErrorCode.TRUNCATED, "it was cut off", partial=half)
    whole = (await ask(Model(cut), Person("send"), of_a_server())).content[SAMPLED]
    assert isinstance(whole, dict)
    assert whole["stopReason"] == "maxTokens"
    with pytest.raises(SurfaceFailedError, match="TRUNCATED"):
        await ask(Model(cut), Person("send"))


@pytest.mark.parametrize("text", [None, "", " \n", "x" * (MAX_SENT + 1)])
@pytest.mark.parametrize("cut", [False, True])
async def test_what_cannot_be_shown_is_no_answer(text: str | None, cut: bool) -> None:
    answer: AgentResponse | AgentError = AgentResponse(text)
    if cut:
        answer = AgentError(AgentErrorCode.TRUNCATED, "cut", partial=AgentResponse(text))
    with pytest.raises(SurfaceFailedError, match=r"without text|more than 50,000|TRUNCATED"):
        await ask(Model(answer), Person("send"), of_a_server())


async def test_invalid_sampling_is_refused_before_the_user_is_asked() -> None:
    person = Person("send")
    with pytest.raises(RemoteProtocolError, match="at most"):
        await ask(Model(), person, task(words="x " * 30_000))
    assert not person.asked


async def test_a_model_that_cannot_be_had_is_said_before_anybody_asks_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model()
    model.obstacle = "it is not here"
    asking = surface(model, Person("send"))
    await asking.warn_if_unavailable()
    assert asking.place == "cli:claude: it is not here"
    assert "cli:claude cannot be asked: it is not here" in caplog.text


async def test_who_waits_hears_how_far_it_is() -> None:
    heard: list[tuple[Sequence[str], str]] = []

    def on_progress(calls: Sequence[str], words: str) -> None:
        heard.append((calls, words))

    model = Model()
    model.done = anyio.Event()
    asking = surface(model, Person("send"), on_progress=on_progress, interval=0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asking.prompt, task(), CALLED, AGENT)
        await until(lambda: heard)
        model.done.set()
    assert heard[-1] == (("c",), "cli:claude has written 5 characters")
    heard.clear()
    await surface(Model(), Person("send"), on_progress=on_progress).prompt(task(), CALLED, AGENT)
    assert not heard


async def until(what: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE):
        while not what():
            await anyio.lowlevel.checkpoint()


async def test_who_takes_a_question_back_ends_the_turn() -> None:
    model = Model()
    model.done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, model, Person("send"))
        await until(lambda: model.sent)
        tasks.cancel_scope.cancel()
    assert not model.open


async def test_an_app_that_asks_in_a_loop_has_a_few_turns_at_once() -> None:
    model, asking = Model(), None
    model.done = anyio.Event()
    asking = surface(model, Person("send-all"))
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(asking.prompt, task(), CALLED, AGENT)
        await until(lambda: len(model.sent) == AT_ONCE)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        model.done.set()
    assert (len(model.sent), model.most) == (5, AT_ONCE)


async def test_an_image_is_named_to_the_person_and_sent() -> None:
    model, person = Model(), Person("send")
    image: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}
    said: Json = [{"role": "user", "content": image}]
    asked = decode_sampling({"messages": said}, id="q", origin="server")
    await ask(model, person, asked)
    assert "> [PNG image, 17 bytes]" in person.asked[0].message
    assert model.sent == [(AgentMessage("user", "", (Image(PNG, "image/png", 17),)),)]
    asking = AgentSurface("cli:claude", make_agent, limit=PATIENCE)
    with pytest.raises(SurfaceUnsupportedError, match="a command line takes no images"):
        await asking.prompt(asked, CALLED, AGENT)
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("cli:claude", "no program claude"),
        ("acp:nothere --acp", "no program nothere"),
        ("openai:gpt-5", "set OPENAI_API_KEY"),
        ("http://127.0.0.1:9/v1#m", ""),
    ],
)
def test_what_is_missing_is_seen_at_once(
    model: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = make_agent(model, "").find_obstacle()
    assert missing in found
    assert bool(found) == bool(missing)


async def test_an_agent_that_does_not_stop_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(Model):
        async def stop(self, session: str) -> None:
            await anyio.sleep_forever()

    monkeypatch.setattr(agent_surface, "STOP_LIMIT", 0.01)
    with anyio.fail_after(PATIENCE):
        response = await surface(Stuck(), Person("send")).prompt(task(), CALLED, AGENT)
    assert "It is blue." in str(response)
