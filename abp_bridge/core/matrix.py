"""The capability matrix: which surface can ask which question, and how.

The router reads it, and the docs are printed from it. A column is a surface and its protocol
version. A missing cell is a refusal.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from abp_bridge.core.menu import as_kept, obstacle
from abp_bridge.core.options import MAX_RANGE, whole_numbers
from abp_bridge.core.question import Field, FieldType, Kind, Permission, Question
from abp_bridge.core.surface import TRAITS, Options, Surface

FEW = 4  # options; with more, a select is another shape of question


class QuestionShape(enum.Enum):
    """What a question looks like to a surface; the value is its row's heading."""

    TEXT = "text"
    FORMATTED_TEXT = "formatted text"
    NUMBER = "number"
    RANGE = f"integer, up to {MAX_RANGE} values"
    BOOLEAN = "boolean"
    CONFIRM = "confirm"
    CONFIRM_DESTRUCTIVE = "destructive confirm"
    SELECT_FEW = f"select, up to {FEW}"
    SELECT_MANY = f"select, more than {FEW}"
    MULTI_SELECT = "multi-select"
    FIELDS = "several fields"
    LIST = "list of flat objects"
    NESTED = "nested JSON"
    SECRET = "secret"  # noqa: S105
    FILE = "file"
    FILE_CONSENT = "consent to read a named file"
    SAMPLING = "sampling"


class Support(enum.Enum):
    """How well a surface can ask a question; the value is the word in the printed matrix."""

    NATIVE = "native"
    DOWNGRADED = "downgraded"
    OUT_OF_BAND = "out of band"
    DEFAULT = "default"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `how` says in a few words what a downgrade does, or why a refusal refuses."""

    support: Support
    how: str = ""

    @property
    def asks(self) -> bool:
        """Whether a question is asked here at all."""
        return self.support is not Support.REFUSED


@dataclass(frozen=True, slots=True)
class SurfaceVariant:
    """A surface as one host offers it, from the host's profile.

    `plain` forms show only text, yes/no and single choice; `buttons` is how many it shows;
    `loopback`
    is whether it opens local addresses. `interactive` is whether the user sees questions, None if
    unknown; with `may_dismiss_unattended` it may also dismiss them by itself. Without `titles` a
    form
    shows names and descriptions only.
    """

    surface: Surface
    version: str = ""
    plain: bool = False
    buttons: int = 4
    loopback: bool = True
    interactive: bool | None = field(default=None, compare=False)
    may_dismiss_unattended: bool = field(default=False, compare=False)
    titles: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A surface to ask on, and how.

    `left_out` are the fields left empty there; `kept` those that keep their default.
    """

    variant: SurfaceVariant
    cell: Cell
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The surface and what it does, as `Answer.route` and the status have it."""
        how = f" ({self.cell.how})" if self.cell.how else ""
        return self.variant.surface.value + how


NATIVE = Cell(Support.NATIVE)


def downgrade(how: str) -> Cell:
    """The cell of what is asked all the same: `how`."""
    return Cell(Support.DOWNGRADED, how)


def refusal(why: str) -> Cell:
    """The cell of what is not asked: `why`."""
    return Cell(Support.REFUSED, why)


_SAFE_FIRST = downgrade("as options, the safe one first")
_ENTRIES = downgrade("one entry after the other")  # by `entries.walk`
_ONLY_SAMPLING = refusal("this surface asks a model, not the person")
_OUT_OF_BAND = Cell(Support.OUT_OF_BAND, "on a page of the bridge's own")
_OWN_ADDRESS = Cell(Support.NATIVE, "the address itself")
_NO_PROOF = refusal("a model cannot confirm what cannot be undone")
_NO_LOOPBACK = refusal("this host opens no addresses on this machine")
_PAGE: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, _OUT_OF_BAND)
_PAGE |= {QuestionShape.SAMPLING: refusal("a page asks the person, not a model")}

_FORM_2025_11_25: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, NATIVE) | {
    QuestionShape.CONFIRM_DESTRUCTIVE: _SAFE_FIRST,
    QuestionShape.LIST: _ENTRIES,
    QuestionShape.NESTED: downgrade("as JSON text"),
    QuestionShape.SECRET: refusal("a form passes through the host and the model: secrets never do"),
    QuestionShape.FILE: refusal("MCP forms carry no files"),
    QuestionShape.FILE_CONSENT: _SAFE_FIRST,
    QuestionShape.SAMPLING: refusal("a form asks the person, not a model"),
}

_FORM_2025_06_18: dict[QuestionShape, Cell] = _FORM_2025_11_25 | {
    QuestionShape.MULTI_SELECT: downgrade("a yes or no per option"),
}

_NO_TEXT = refusal("buttons carry no free text")
_PAGES = downgrade("by pages")

_PERMISSION: dict[QuestionShape, Cell] = {
    QuestionShape.TEXT: _NO_TEXT,
    QuestionShape.FORMATTED_TEXT: _NO_TEXT,
    QuestionShape.NUMBER: refusal("buttons carry no number of any size"),
    QuestionShape.RANGE: downgrade("as options"),
    QuestionShape.BOOLEAN: downgrade("as options"),
    QuestionShape.CONFIRM: downgrade("as options"),
    QuestionShape.CONFIRM_DESTRUCTIVE: _SAFE_FIRST,
    QuestionShape.SELECT_FEW: downgrade("as options"),
    QuestionShape.SELECT_MANY: _PAGES,
    QuestionShape.MULTI_SELECT: downgrade("as toggles"),
    QuestionShape.FIELDS: downgrade("one field after the other"),
    QuestionShape.LIST: _ENTRIES,
    QuestionShape.NESTED: refusal("buttons carry no nested data"),
    QuestionShape.SECRET: refusal("a permission passes through the host: secrets never do"),
    QuestionShape.FILE: refusal("buttons carry no files"),
    QuestionShape.FILE_CONSENT: _SAFE_FIRST,
    QuestionShape.SAMPLING: refusal("buttons ask the person, not a model"),
}

_NEXT_PROMPT = downgrade("as the next prompt")
_ON_A_CARD = refusal("consent is given on a card, not in a chat")
_CHAT: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, _NEXT_PROMPT) | {
    QuestionShape.CONFIRM_DESTRUCTIVE: _ON_A_CARD,
    QuestionShape.FIELDS: downgrade("a prompt for each field"),
    QuestionShape.LIST: _ENTRIES,
    QuestionShape.NESTED: downgrade("as JSON in the next prompt"),
    QuestionShape.SECRET: refusal("a chat passes through the host: secrets never do"),
    QuestionShape.FILE: refusal("a prompt carries no files that an app can be given"),
    QuestionShape.FILE_CONSENT: _ON_A_CARD,
    QuestionShape.SAMPLING: refusal("a chat asks the person, not a model"),
}

_ABP: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, NATIVE) | {
    QuestionShape.SECRET: refusal("what goes to an ABP agent a model may read: secrets never do"),
    QuestionShape.FILE_CONSENT: downgrade("as a confirm"),
}

_TERMINAL: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, NATIVE) | {
    QuestionShape.NESTED: downgrade("as JSON text"),
    QuestionShape.FILE: downgrade("as a path"),
    QuestionShape.SAMPLING: refusal("a terminal asks the person, not a model"),
}

_TYPED = downgrade("as typed text")
_QUESTIONS_API: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, NATIVE) | {
    QuestionShape.FORMATTED_TEXT: _TYPED,
    QuestionShape.NUMBER: _TYPED,
    QuestionShape.RANGE: _TYPED,
    QuestionShape.LIST: _ENTRIES,
    QuestionShape.NESTED: downgrade("as JSON text"),
    QuestionShape.BOOLEAN: downgrade("as options"),
    QuestionShape.CONFIRM: downgrade("as options"),
    QuestionShape.CONFIRM_DESTRUCTIVE: _SAFE_FIRST,
    QuestionShape.FILE_CONSENT: _SAFE_FIRST,
    QuestionShape.SECRET: refusal(
        "the questions API is another program's: secrets never pass through it"
    ),
    QuestionShape.FILE: refusal("the questions API carries no files"),
    QuestionShape.SAMPLING: refusal("the questions API asks the person, not a model"),
}

_MODEL_RELAY: dict[QuestionShape, Cell] = dict.fromkeys(
    QuestionShape, downgrade("in the model's words")
) | {
    QuestionShape.CONFIRM_DESTRUCTIVE: _NO_PROOF,
    QuestionShape.SECRET: refusal("secrets never pass through the model"),
    QuestionShape.FILE: refusal("a model gives no files of the person's"),
    QuestionShape.FILE_CONSENT: refusal("a model cannot consent for the person"),
    QuestionShape.SAMPLING: refusal("this asks the person through the model"),
}

_SAMPLING: dict[QuestionShape, Cell] = dict.fromkeys(QuestionShape, _ONLY_SAMPLING) | {
    QuestionShape.SAMPLING: NATIVE
}

MATRIX: dict[tuple[Surface, str], dict[QuestionShape, Cell]] = {
    (Surface.MCP_FORM, "2025-06-18"): _FORM_2025_06_18,
    (Surface.MCP_FORM, "2025-11-25"): _FORM_2025_11_25,
    (Surface.MCP_FORM, "2026-07-28"): _FORM_2025_11_25,
    (Surface.MCP_URL, ""): _PAGE,
    (Surface.ACP_FORM, ""): _FORM_2025_11_25
    | {QuestionShape.FILE: refusal("ACP forms carry no files")},
    (Surface.ACP_URL, ""): _PAGE,
    (Surface.ACP_PERMISSION, ""): _PERMISSION,
    (Surface.ACP_CHAT, ""): _CHAT,
    (Surface.ABP, ""): _ABP,
    (Surface.TERMINAL, ""): _TERMINAL,
    (Surface.PAGE, ""): _PAGE,
    (Surface.QUESTIONS_API, ""): _QUESTIONS_API,
    (Surface.MOCK, ""): dict.fromkeys(QuestionShape, NATIVE),
    (Surface.MODEL_RELAY, ""): _MODEL_RELAY,
    (Surface.MCP_SAMPLING, ""): _SAMPLING,
    (Surface.SAMPLING, ""): _SAMPLING,
}

# A host without any surface: an MCP host that declares no elicitation, where the person has set up
# nothing beside it.
NOBODY = "the host offers no way to ask its user"

# What a plain column does instead, where that differs.
PLAIN: dict[QuestionShape, Cell] = {
    QuestionShape.NUMBER: downgrade("as text"),
    QuestionShape.RANGE: downgrade("as text"),
    QuestionShape.MULTI_SELECT: downgrade("a yes or no per option"),
}


# What a host does instead that has two buttons, where that differs.
_ONE_BY_ONE = downgrade("yes or no to one option after the other")
TWO_BUTTONS: dict[QuestionShape, Cell] = dict.fromkeys(
    (
        QuestionShape.RANGE,
        QuestionShape.SELECT_FEW,
        QuestionShape.SELECT_MANY,
        QuestionShape.MULTI_SELECT,
    ),
    _ONE_BY_ONE,
)


def shape(question: Question) -> QuestionShape:
    """The row a question stands in. A secret is a secret whatever else it is."""
    if question.secret:
        return QuestionShape.SECRET
    if question.consents:  # approval of a call is asked as consent to read a file is
        return QuestionShape.FILE_CONSENT
    if question.kind in _BY_KIND:
        return _BY_KIND[question.kind]
    if question.kind is Kind.CONFIRM:
        return QuestionShape.CONFIRM_DESTRUCTIVE if question.destructive else QuestionShape.CONFIRM
    return _field_shape(question.fields[0]) if len(question.fields) == 1 else QuestionShape.FIELDS


def _field_shape(field: Field) -> QuestionShape:
    if field.type is FieldType.CHOICE:
        return QuestionShape.SELECT_FEW if len(field.choices) <= FEW else QuestionShape.SELECT_MANY
    if field.type is FieldType.TEXT and ("format" in field.schema or "pattern" in field.schema):
        return QuestionShape.FORMATTED_TEXT
    if whole_numbers(field) is not None:
        return QuestionShape.RANGE
    return _BY_FIELD[field.type]


_BY_KIND = {Kind.RESOURCE: QuestionShape.FILE, Kind.SAMPLING: QuestionShape.SAMPLING}

_BY_FIELD = {
    FieldType.TEXT: QuestionShape.TEXT,
    FieldType.NUMBER: QuestionShape.NUMBER,
    FieldType.INTEGER: QuestionShape.NUMBER,
    FieldType.BOOLEAN: QuestionShape.BOOLEAN,
    FieldType.CHOICES: QuestionShape.MULTI_SELECT,
    FieldType.LIST: QuestionShape.LIST,
    FieldType.FILE: QuestionShape.FILE,
    FieldType.JSON: QuestionShape.NESTED,
}


def find_cell(asked: QuestionShape, variant: SurfaceVariant) -> Cell:
    """The cell for a shape and a variant; a pair that is not in the matrix is refused."""
    column = MATRIX.get((variant.surface, variant.version), {})
    cell = column.get(asked) or refusal(
        f"{variant.surface.value} {variant.version} is not known here"
    )
    if not variant.loopback:
        return _NO_LOOPBACK
    if variant.plain and variant.surface is Surface.MCP_FORM and cell.asks:
        return PLAIN.get(asked, cell)
    if variant.buttons == 2 and TRAITS[variant.surface].has_buttons:
        return TWO_BUTTONS.get(asked, cell)
    return cell


def asks_by_entries(question: Question, variant: SurfaceVariant) -> bool:
    """Whether a list in `question` is asked entry by entry there."""
    lists = any(each.columns for each in question.fields)
    return lists and find_cell(QuestionShape.LIST, variant) is _ENTRIES


def since(surface: Surface, version: str, asked: QuestionShape) -> str:
    """Return the first version of the host's protocol with this cell; empty for other surfaces."""
    first = TRAITS[surface].since
    if not first or not version:
        return first
    versions = sorted((each for known, each in MATRIX if known is surface), reverse=True)
    same = [each for each in versions if each <= version]
    cells = [MATRIX[surface, each][asked] for each in same]
    kept = next((place for place, cell in enumerate(cells) if cell != cells[0]), len(cells))
    return f"{first.partition(' ')[0]} {same[kept - 1]}"


def usable(variant: SurfaceVariant) -> bool:
    """Whether anything at all can be asked there."""
    return any(find_cell(each, variant).asks for each in QuestionShape)


def question_cell(question: Question, variant: SurfaceVariant) -> Cell:
    """Return a question's cell: the worst of its fields."""
    asked = shape(question)
    if question.link.startswith("https:"):  # it is not on this machine
        variant = replace(variant, loopback=True)
    whole = find_cell(asked, variant)
    if whole.asks and question.link and variant.surface is Surface.MCP_URL:
        return _OWN_ADDRESS
    needs_proof = question.destructive or question.permits
    if whole.asks and needs_proof and variant.surface is Surface.MODEL_RELAY:
        return _NO_PROOF  # whatever its fields are: the answer would not count
    if variant.surface is Surface.ACP_CHAT and whole.asks:
        if question.permits:
            return _ON_A_CARD
        if not question.fields:
            return refusal("there is nothing to type")
    has_buttons = TRAITS[variant.surface].has_buttons
    if has_buttons and whole.asks and (reason := obstacle(question)):
        return refusal(reason)
    if asked is not QuestionShape.FIELDS:
        return whole
    cells = [whole, *(find_cell(_field_shape(field), variant) for field in question.fields)]
    hardest = max(cells, key=lambda cell: _HARDNESS.index(cell.support))
    hows = dict.fromkeys(cell.how for cell in cells if cell.support is hardest.support)
    return Cell(hardest.support, ", ".join(hows))


_HARDNESS = list(Support)


def candidate_attempts(question: Question, variants: Sequence[SurfaceVariant]) -> Iterator[Attempt]:
    """Yield where `question` can be asked, best first.

    Surfaces that can ask all of it come before those that leave fields empty.
    """
    refused: list[SurfaceVariant] = []
    for variant in variants:
        cell = question_cell(question, variant)
        if cell.asks:
            yield Attempt(variant, cell)
        else:
            refused.append(variant)
    for each in refused:
        if (found := _part(question, each)) is not None:
            yield found


def can_ask(question: Question, variants: Sequence[SurfaceVariant]) -> bool:
    """Whether `question` can be asked on any of these."""
    return next(candidate_attempts(question, variants), None) is not None


def _part(question: Question, variant: SurfaceVariant) -> Attempt | None:
    """Return how to ask `question` without fields the surface lacks, or None.

    These keep their default or stay empty.
    """
    left_out, kept = list[str](), list[str]()
    for each in question.fields:
        if _asks(question, each, variant):
            continue
        if _can_keep(question, each, variant):
            kept.append(each.name)
        elif not each.required:
            left_out.append(each.name)
    if question.link or not (kept or left_out) or len(left_out) == len(question.fields):
        return None
    rest = Attempt(variant, NATIVE, tuple(left_out), tuple(kept))
    cell = question_cell(narrow(question, rest), variant)
    if kept and cell.asks:
        cell = replace(cell, how=f"{cell.how}, {_KEPT}")
    return replace(rest, cell=cell) if cell.asks else None


_KEPT = "what is proposed can only be kept"


def _asks(question: Question, field: Field, variant: SurfaceVariant) -> bool:
    return question_cell(replace(question, fields=(field,)), variant).asks


def _can_keep(question: Question, field: Field, variant: SurfaceVariant) -> bool:
    """Whether keeping the default is an answer; not for a preference or a model's answer."""
    is_idle = question.kind is Kind.PREFERENCE or question.permits is Permission.SAMPLING
    kept = None if is_idle else as_kept(field)
    return kept is not None and _asks(question, kept, variant)


def narrow(question: Question, attempt: Attempt) -> Question:
    """What of `question` is asked there, with a remark on what is not."""
    if not (attempt.left_out or attempt.kept):
        return question
    out = [each for each in question.fields if each.name in attempt.left_out]
    kept = [each for each in question.fields if each.name in attempt.kept]
    fields = tuple(
        (as_kept(each) if each in kept else None) or each
        for each in question.fields
        if each not in out
    )
    by_buttons = TRAITS[attempt.variant.surface].has_buttons
    why = "Here there are only buttons" if by_buttons else "Not all of it can be asked here"
    said = [why, *_named("What stays empty", out), *_named("What can only be kept", kept)]
    if question.wrapped and kept:  # its only field has no name of its own
        said = [why, "What is proposed can only be kept"]
    return replace(question, fields=fields).with_note(f"({'. '.join(said)})")


def _named(words: str, fields: Sequence[Field]) -> list[str]:
    titles = ", ".join(dict.fromkeys(each.label for each in fields))
    return [f"{words}: {titles}"] if fields else []


def refusals(question: Question, variants: Iterable[SurfaceVariant]) -> list[str]:
    """Each of the surfaces that cannot ask `question`, nor a part of it, with its reason."""
    return [
        f"{variant.surface.value}: {question_cell(question, variant).how}"
        for variant in variants
        if not can_ask(question, [variant])
    ]


def find_ways(question: Question, there: Collection[Surface], options: Options) -> Options:
    """Those of `options` by which `question` would be asked; what is `there` already is none."""
    return {
        surface: way
        for surface, way in options.items()
        if surface not in there and can_ask(question, [SurfaceVariant(surface)])
    }
