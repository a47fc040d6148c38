"""Whether a text is what a line of a fixture has for it, and what stands in it where the line has
names. Pure.

Nothing is tried and taken back. Where in the text one may be after each piece of the pattern is
known as a set of places, the bits of one number. So the time grows with the text and with the words
in the pattern, whatever they are: no fixture and no bridge can hang a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from abp_bridge.replay.placeholders import ANY, CUT, EITHER, NUMBER, PLACES, Known, over

Places = int  # a set of places in a text: bit n is the place before its character n

_DIGIT, _SIGN, _POINT, _POWER, _MINUS = "0123456789", "+-", ".", "eE", "-"
_NOT_OF_A_NAME = '"\\'  # nor is white space


def fit(pattern: Sequence[str], text: str, known: Known) -> dict[str, str] | None:
    """What `text` has for the names that are not known; None when it does not fit.

    `pattern` is as `words.parts` has it.

    `[any]` and names are as short as they can be, from the left. A name that stands twice is what
    it is where it stands first.
    """
    reader = _Reader(text, known)
    here: Places = 1
    if not reader.ends(here, pattern):
        return None
    for place, piece in enumerate(pattern):
        if place % 2 and reader.unknown(piece):
            rest = pattern[place + 1 :]
            begin = _first(here, lambda some, rest=rest: reader.ends(reader.name(some), rest))  # type: ignore[misc]
            here = _first(reader.name(begin), lambda some, rest=rest: reader.ends(some, rest))  # type: ignore[misc]
            reader.learned[piece] = text[begin.bit_length() - 1 : here.bit_length() - 1]
        else:
            here = reader.step(here, piece, is_word=bool(place % 2))
        if not here:
            return None
    return reader.learned if here & reader.end else None


class _Reader:
    """One text, and the sets of places in it."""

    def __init__(self, text: str, known: Known) -> None:
        self.learned: dict[str, str] = {}
        self.end: Places = 1 << len(text)
        self._text = text
        self._known = over(self.learned, known)
        self._where: dict[str, Places] = {}  # by the name of a kind of characters
        self._found: dict[str, Places] = {}  # by letters, where they begin

    def unknown(self, word: str) -> bool:
        return (
            word not in (ANY, NUMBER, *PLACES)
            and not word.startswith((CUT, EITHER))
            and word not in self._known
        )

    def ends(self, here: Places, pattern: Sequence[str]) -> bool:
        """Whether the whole text is read when all of `pattern` is, from one of these places."""
        for place, piece in enumerate(pattern):
            if not here:
                return False
            here = self.step(here, piece, is_word=bool(place % 2))
        return bool(here & self.end)

    def step(self, here: Places, piece: str, *, is_word: bool) -> Places:
        """Where one may be after a piece."""
        if not is_word or piece in PLACES:
            return self._letters(here, piece)
        if piece == ANY or piece.startswith(CUT):
            return self._anything(here)
        if piece == NUMBER:
            return self._number(here)
        if piece.startswith(EITHER):
            found = 0
            for each in piece[len(EITHER) : -1].split("|"):
                found |= self._letters(here, each)
            return found
        return (
            self._letters(here, str(self._known[piece]))
            if piece in self._known
            else self.name(here)
        )

    def name(self, here: Places) -> Places:
        return self._more(
            here,
            self._of("name", lambda letter: not letter.isspace() and letter not in _NOT_OF_A_NAME),
        )

    def _letters(self, here: Places, letters: str) -> Places:
        if not letters or not here:
            return here
        if not here & (here - 1):
            return (
                here << len(letters) if self._text.startswith(letters, here.bit_length() - 1) else 0
            )
        if letters not in self._found:
            found, place = bytearray(b"0" * (len(self._text) + 1)), self._text.find(letters)
            while place >= 0:
                found[-1 - place] = ord("1")
                place = self._text.find(letters, place + 1)
            self._found[letters] = int(found, 2)
        return (self._found[letters] & here) << len(letters)

    def _anything(self, here: Places) -> Places:
        return (2 * self.end - 1) ^ ((here & -here) - 1) if here else 0

    def _number(self, here: Places) -> Places:
        digit = self._any_of(_DIGIT)
        whole = self._more(here | self._one(here, _MINUS), digit)
        exact = whole | self._more(self._one(whole, _POINT), digit)
        power = self._one(exact, _POWER)
        return exact | self._more(power | self._one(power, _SIGN), digit)

    def _one(self, here: Places, letters: str) -> Places:
        return (here & self._any_of(letters)) << 1

    def _more(self, here: Places, among: Places) -> Places:
        """After one or more of the characters at `among`: adding carries a place through a run of
        them.
        """
        first = (here & among) << 1
        return (((first & among) + among) ^ among) | first

    def _any_of(self, letters: str) -> Places:
        return self._of(letters, lambda letter: letter in letters)

    def _of(self, name: str, is_one: Callable[[str], bool]) -> Places:
        if name not in self._where:
            self._where[name] = int(
                "".join("1" if is_one(letter) else "0" for letter in reversed(self._text)) or "0", 2
            )
        return self._where[name]


def _first(places: Places, works: Callable[[Places], bool]) -> Places:
    """The first of these places that works, found by halves; 0 when none does."""
    if not works(places):
        return 0
    low, high = (places & -places).bit_length() - 1, places.bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        part = places & ((1 << middle) - (1 << low))
        low, high = (low, middle) if part and works(part) else (middle, high)
    return 1 << low
