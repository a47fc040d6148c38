"""Count the product's Python, room by room: `python -m tests.docs.size` (`make size`).

Code lines leave out blank lines, comments and docstrings. A limit is a number that a module names
`MAX_...` or `..._LIMIT`. Function names are counted without leading underscores.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "abp_bridge"
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(slots=True)
class Size:
    files: int = 0
    lines: int = 0
    code: int = 0
    functions: int = 0
    short_files: int = 0  # under 60 lines; an `__init__.py` does not count
    protocols: int = 0
    limits: int = 0
    context_vars: int = 0
    names: Counter[str] = field(default_factory=Counter)


def measure(product: Path = PRODUCT) -> dict[str, Size]:
    """Return the size of each room and of `total`."""
    rooms: dict[str, Size] = defaultdict(Size)
    for path in sorted(product.rglob("*.py")):
        parts = path.relative_to(product).parts
        for room in (parts[0] if len(parts) > 1 else "(root)", "total"):
            _add(rooms[room], path)
    return rooms


def _add(size: Size, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    size.files += 1
    size.lines += lines
    size.short_files += lines < 60 and path.name != "__init__.py"
    size.code += len(_code_lines(text) - _docstring_lines(tree))
    size.context_vars += text.count("ContextVar(")
    size.limits += sum(1 for _ in _limits(tree))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                size.functions += 1
                size.names[name.lstrip("_")] += not name.startswith("__")
            case ast.ClassDef(bases=bases):
                size.protocols += any("Protocol" in ast.unparse(base) for base in bases)


def _code_lines(text: str) -> set[int]:
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NOT_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())) as text, *_])
            ):
                lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def _limits(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                if "MAX_" in name or "_LIMIT" in name:
                    yield name


def main() -> None:
    rooms = measure(Path(sys.argv[1]) if sys.argv[1:] else PRODUCT)
    total = rooms["total"]
    print(f"{'room':14}{'files':>7}{'lines':>9}{'code':>9}{'functions':>11}{'under 60':>10}")
    for room, size in sorted(rooms.items(), key=lambda each: (each[0] == "total", -each[1].lines)):
        print(
            f"{room:14}{size.files:7}{size.lines:9,}{size.code:9,}{size.functions:11,}"
            f"{size.short_files:10}"
        )
    common = ", ".join(f"{name} {count}" for name, count in total.names.most_common(8))
    print(f"Protocol classes {total.protocols}, limits {total.limits}, ", end="")
    print(f"ContextVars {total.context_vars}, most common function names: {common}")


if __name__ == "__main__":
    main()
