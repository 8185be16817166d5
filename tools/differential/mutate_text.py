"""Mutations of the text of a program, for the parser: a typing error answered with a diagnostic that points into the text.

Some of them leave a valid program (a deleted line may not have been needed); `breaks` marks those that cannot.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

from .choices import Choices
from .mutate_tree import pick

MutateText = Callable[[str, Choices], "str | None"]


@dataclass(frozen=True)
class TextMutation:
    """A way to break a text. `codes` are those the parser may answer with, all if empty; `breaks`: it must complain."""

    name: str
    apply: MutateText
    doc: str
    breaks: bool
    codes: frozenset[str]

    def __repr__(self) -> str:
        return f"<{self.name}>"


TABLE: list[TextMutation] = []


def declare(*codes: str, breaks: bool = True, table: list[TextMutation] = TABLE) -> Callable[[MutateText], MutateText]:
    """The decorator of a mutation of text."""

    def add(function: MutateText) -> MutateText:
        doc = (function.__doc__ or "").strip().splitlines()[0]
        table.append(TextMutation(function.__name__, function, doc, breaks, frozenset(codes)))
        return function

    return add


# ------------------------------------------------------------------------------------------- tokens


def tokens(text: str) -> list[tokenize.TokenInfo]:
    """The tokens that stand for something: no layout, no comments. Empty if the text has no tokens."""
    layout = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
    try:
        return [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in layout]
    except (tokenize.TokenError, SyntaxError):
        return []


def splice(text: str, token: tokenize.TokenInfo, new: str) -> str:
    """The text with a token replaced."""
    lines = text.splitlines(keepends=True)
    (first, start), (last, end) = token.start, token.end
    head = "".join(lines[: first - 1]) + lines[first - 1][:start]
    return head + new + lines[last - 1][end:] + "".join(lines[last:])


def lines_like(text: str, pattern: str) -> list[int]:
    """The numbers of the lines that a pattern matches."""
    return [i for i, line in enumerate(text.splitlines()) if re.search(pattern, line)]


def with_line(text: str, number: int, *new: str) -> str:
    """The text with a line replaced by others."""
    lines = text.splitlines()
    return "\n".join([*lines[:number], *new, *lines[number + 1 :]]) + "\n"


@declare(breaks=False)
def delete_token(text: str, choices: Choices) -> str | None:
    """Delete a name, a number, an operator or a string."""
    token = pick(choices, tokens(text))
    return None if token is None else splice(text, token, "")


@declare(breaks=False)
def repeat_token(text: str, choices: Choices) -> str | None:
    """Write a token twice."""
    token = pick(choices, tokens(text))
    return None if token is None else splice(text, token, f"{token.string} {token.string}")


@declare(breaks=False)
def swap_tokens(text: str, choices: Choices) -> str | None:
    """Put a token where another stands."""
    found = tokens(text)
    token, other = pick(choices, found), pick(choices, found)
    return None if token is None or other is None else splice(text, token, other.string)


@declare(breaks=False)
def delete_line(text: str, choices: Choices) -> str | None:
    """Delete a line."""
    number = pick(choices, lines_like(text, r"\S"))
    return None if number is None else with_line(text, number)


@declare(breaks=False)
def repeat_line(text: str, choices: Choices) -> str | None:
    """Write a line twice."""
    number = pick(choices, lines_like(text, r"\S"))
    return None if number is None else with_line(text, number, *[text.splitlines()[number]] * 2)


@declare(breaks=False)
def swap_lines(text: str, choices: Choices) -> str | None:
    """Exchange a line with the next one."""
    lines = text.splitlines()
    if len(lines) < 2:
        return None
    i = choices.integer(0, len(lines) - 2)
    return with_line(with_line(text, i, lines[i + 1]), i + 1, lines[i])


@declare(breaks=False)
def shift_line(text: str, choices: Choices) -> str | None:
    """Indent a line by more, or less, than it was."""
    number = pick(choices, lines_like(text, r"^ *\S"))
    if number is None:
        return None
    line = text.splitlines()[number]
    less = line[2:] if line.startswith("    ") else line
    return with_line(text, number, choices.pick(["  " + line, "    " + line, less, "\t" + line]))


@declare(breaks=False)
def cut_off(text: str, choices: Choices) -> str | None:
    """End the text in its middle."""
    return text[: choices.integer(0, max(0, len(text) - 1))]


# ------------------------------------------------------------------------------------------- names


def _uses(text: str) -> list[tokenize.TokenInfo]:
    """Names of variables that are read: not attributes, not keywords of calls, not what is bound.

    Annotations of functions are left out: there a name nobody defines is a new shape variable.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and not _is_prim_func(f)]
    signatures = [part for f in functions for part in (f.args, f.returns) if part is not None]
    inside = {id(n) for part in signatures for n in ast.walk(part)}
    nodes = [n for f in functions for s in f.body for n in ast.walk(s) if id(n) not in inside]
    found = [n for n in nodes if isinstance(n, ast.Name)]
    read = [n for n in found if isinstance(n.ctx, ast.Load) and n.id not in ("R", "T", "I", "cls")]
    places = {(n.lineno, len(_line(text, n.lineno).encode()[: n.col_offset].decode())) for n in read}
    return [t for t in tokens(text) if t.start in places and t.type == tokenize.NAME]


def _is_prim_func(function: ast.FunctionDef) -> bool:
    """Whether a function is TIR's, where a buffer's dimensions may be new variables."""
    return any("prim_func" in ast.dump(decorator) for decorator in function.decorator_list)


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1]


@declare("E1002")
def undefined_name(text: str, choices: Choices) -> str | None:
    """Use a name that nothing defines."""
    token = pick(choices, _uses(text))
    return None if token is None else splice(text, token, "undefined_name")


@declare("E1003")
def unknown_operator(text: str, choices: Choices) -> str | None:
    """Misspell the name of an operator."""
    found = list(re.finditer(r"\bR\.(add|exp|negative|multiply|abs|sum|reshape|match_cast)\(", text))
    match = pick(choices, found)
    return None if match is None else text[: match.end() - 1] + "e" + text[match.end() - 1 :]


@declare("E1005", "E1004", "E3105")
def unknown_dtype(text: str, choices: Choices) -> str | None:
    """Misspell a dtype."""
    found = list(re.finditer(r'"(float32|int64|bool|float16|int32)"', text))
    match = pick(choices, found)
    return None if match is None else text[: match.end() - 1] + "k" + text[match.end() - 1 :]


# ------------------------------------------------------------------------------------------- definitions


@declare("E1008")
def duplicate_function(text: str, choices: Choices) -> str | None:
    """Define two functions of one name in a module."""
    numbers = lines_like(text, r"^class \w+:")
    number = pick(choices, numbers)
    names = re.findall(r"^    def (\w+)\(", text, re.MULTILINE)
    if number is None or not names:
        return None
    line = text.splitlines()[number]
    again = ["    @R.function", f"    def {choices.pick(names)}(x: R.Object) -> R.Object:", "        return x", ""]
    return with_line(text, number, line, *again)


@declare("E1008")
def wrong_decorator_argument(text: str, choices: Choices) -> str | None:
    """Give a decorator an option it does not have."""
    number = pick(choices, lines_like(text, r"^    @R\.function"))
    if number is None:
        return None
    option = choices.pick(["puer=True", "privat=False", "check=1"])
    return with_line(text, number, f"    @R.function({option})")


@declare("E1008", "E1005")
def no_decorator(text: str, choices: Choices) -> str | None:
    """Leave out the decorator of a function."""
    number = pick(choices, lines_like(text, r"^ *@[RT]\.(function|prim_func)"))
    return None if number is None else with_line(text, number)


@declare("E1001", "E1008")
def duplicate_parameter(text: str, choices: Choices) -> str | None:
    """Give a function two parameters of one name."""
    number = pick(choices, lines_like(text, r"^ *def \w+\(\w+: R\."))
    if number is None:
        return None
    line = text.splitlines()[number]
    name = re.search(r"\((\w+):", line)
    assert name is not None
    return with_line(text, number, line.replace("(", f"({name.group(1)}: R.Object, ", 1))


@declare("E1009")
def parameter_without_annotation(text: str, choices: Choices) -> str | None:
    """Leave out the annotation of a parameter."""
    number = pick(choices, lines_like(text, r"^ *def \w+\(\w*: R\.|^ *def \w+\(\)"))
    if number is None:
        return None
    line = text.splitlines()[number]
    comma = "" if re.match(r" *def \w+\(\)", line) else ", "
    return with_line(text, number, line.replace("(", f"(bare{comma}", 1))


@declare("E1009", "E1005", "E1001", "E1004", "E1003", "E2020", "E3101", "E3110")
def bad_annotation(text: str, choices: Choices) -> str | None:
    """Annotate with something that is no struct info."""
    match = pick(choices, list(re.finditer(r"R\.Tensor\(([^()]*|\([^()]*\)[^()]*)\)", text)))
    if match is None:
        return None
    wrong = choices.pick(['R.Tensor((1.5,), "float32")', "3", 'R.Tensor(ndim="two")', "R.Tensr", 'R.Prim("tensor")'])
    return text[: match.start()] + wrong + text[match.end() :]


@declare("E1001", "E1010")
def no_return(text: str, choices: Choices) -> str | None:
    """Leave out the return of a function."""
    number = pick(choices, lines_like(text, r"^ +return "))
    if number is None:
        return None
    line = text.splitlines()[number]
    return with_line(text, number, line[: line.index("return")] + "pass")


@declare("E1001")
def foreign_statement(text: str, choices: Choices) -> str | None:
    """Write a statement that the language does not have."""
    number = pick(choices, lines_like(text, r"^        +return "))
    if number is None:
        return None
    line = text.splitlines()[number]
    indent = line[: len(line) - len(line.lstrip())]
    wrong = choices.pick(["while True: pass", "del x", "import os", "raise 3", "x[0] = 1", "global q", "y = yield"])
    return with_line(text, number, indent + wrong, line)


__all__ = ["TABLE", "TextMutation", "tokens"]
