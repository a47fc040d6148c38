"""What an answer has to be, in a line of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from abp_bridge.core.options import field_limits
from abp_bridge.core.question import Field, FieldType

Json = Any

LIMITS: dict[str, tuple[FieldType, Mapping[str, Json], str]] = {
    "any text": (FieldType.TEXT, {"type": "string"}, ""),
    "a length": (FieldType.TEXT, {"minLength": 2}, "At least 2 characters"),
    "a format": (FieldType.TEXT, {"format": "email"}, "An e-mail address"),
    "a format that nobody checks": (FieldType.TEXT, {"format": "colour"}, ""),
    "a number": (FieldType.INTEGER, {"maximum": 3}, "A whole number, at most 3"),
    "some of several": (FieldType.CHOICES, {"minItems": 1}, "Choose at least 1"),
    "any of several": (FieldType.CHOICES, {}, ""),
    "one of several": (FieldType.CHOICE, {"minLength": 1}, ""),
    "an object": (FieldType.JSON, {"type": "object"}, 'JSON that fits {"type": "object"}'),
}


@pytest.mark.parametrize("case", LIMITS)
def test_what_fits_is_said(case: str) -> None:
    kind, schema, words = LIMITS[case]
    assert field_limits(Field("a", kind, schema)) == words
