"""Every limit of the product, printed with its unit and reason: `python -m tests.docs.limits`, a
room after the other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PRODUCT = Path(__file__).parents[2] / "abp_bridge"
# What a protocol gives a number to (ABP the redirects), and how a command exits, is none of ours.
NO_LIMIT = re.compile(
    r"_?(VERSION|FORMAT|CONNECT|SIZE_AT|MAX_REDIRECTS|FAILED|NOT_DONE|NO_PROGRAM|INTERRUPTED)"
)


class Limit(NamedTuple):
    """A number that a module names, and what stands beside it, or above."""

    file: str
    name: str
    value: str
    why: str


def find_limits() -> Iterator[Limit]:
    """The limits of all modules, in order."""
    for file in sorted(PRODUCT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for each in ast.parse(text).body:
            match each:
                case ast.Assign(targets=[ast.Name(name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            if name.lstrip("_").isupper() and is_limit(value) and not NO_LIMIT.fullmatch(name):
                spelled = ast.unparse(value)
                why = comment(lines, each.lineno - 1)
                yield Limit(str(file.relative_to(PRODUCT)), name, spelled, why)


def is_limit(value: ast.expr) -> bool:
    """Whether it is a number, or made of numbers; the codes of errors are negative."""
    match value:
        case ast.Constant(int() | float() as number):
            return not isinstance(number, bool)
        case ast.BinOp(left, _, right):
            return is_limit(left) and is_limit(right)
    return False


def comment(lines: list[str], line: int) -> str:
    """What is said of the statement in that line: behind it, else in the lines above."""
    if beside := lines[line].partition("  # ")[2]:
        return beside
    above: list[str] = []
    while (line := line - 1) >= 0 and lines[line].startswith("# "):
        above.insert(0, lines[line].removeprefix("# "))
    return " ".join(above)


def main() -> None:
    """Print them."""
    file = ""
    for limit in find_limits():
        if limit.file != file:
            file = limit.file
            print(f"\n{file}")
        print(f"  {limit.name} = {limit.value}: {limit.why}")


if __name__ == "__main__":
    main()
