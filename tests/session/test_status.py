"""What a model may read of a session in `abp_status`."""

from __future__ import annotations

import json

from abp_bridge.core.answer import Answer
from abp_bridge.core.ledger import Ledger
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.models.request import make_review
from abp_bridge.session.elicitor import describe_questions


def test_an_answer_that_its_person_keeps_back_stands_in_no_list() -> None:
    asked = Question("q", Kind.SAMPLING, "task", (), "app")
    ledger = Ledger()
    ledger.add(make_review("r", asked, "cli:claude", "It is blue.", editable=True), 0.0)
    opened = describe_questions(ledger, lambda id: 60.0)
    kept = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"decision": "keep"})
    ledger.show("r", "page")
    ledger.settle("r", kept)
    for each in (opened, describe_questions(ledger, lambda id: 60.0)):
        assert "cli:claude answered. May this go to app?" in json.dumps(each)
        assert "blue" not in json.dumps(each)
