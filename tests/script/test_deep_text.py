"""Programs nested deeper than Python's parser takes (200 brackets, 100 indents): what is printed parses back."""

from __future__ import annotations

import ast
import random
import threading

import pytest

from relax import tir
from relax.ir import DiagnosticError, assert_structural_equal
from relax.prim import expr as prim
from relax.script import from_source
from relax.script.parser.core.deep import LIMIT, parse_deep

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")

HEAD = '@R.function\ndef main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):\n'
LOOPS = '@T.prim_func\ndef main(A: T.Buffer((8,), "int64"), n: T.int64):\n'


def branches(depth, head, condition, statement):
    lines = [" " * (4 + i) + f"if {condition}:" for i in range(depth)]
    lines.append(" " * (4 + depth) + statement)
    for i in reversed(range(depth)):
        lines += [" " * (4 + i) + "else:", " " * (5 + i) + statement]
    return head + "\n".join(lines) + "\n"


def nested(depth, opening, inner, closing):
    return opening * depth + inner + closing * depth


PROGRAMS = {
    "branches of Relax": lambda d: branches(d, HEAD, "c", "y = x") + "    return y\n",
    "branches of TIR": lambda d: branches(d, LOOPS, "n > 0", "A[0] = T.int64(1)"),
    "loops": lambda d: LOOPS + "".join(" " * (4 + i) + f"for i{i} in range(2):\n" for i in range(d))
    + " " * (4 + d) + "A[0] = T.int64(1)\n",
    "sums": lambda d: f"{LOOPS}    A[0] = {nested(d, 'n - (', 'n', ')')}\n",
    "calls": lambda d: f"{LOOPS}    A[0] = {nested(d, 'T.max(n, ', 'n', ')')}\n",
    "indices": lambda d: f"{LOOPS}    A[0] = {nested(d, 'A[', '0', ']')}\n",
    "operators": lambda d: f"{HEAD}    return {nested(d, 'R.exp(', 'x', ')')}\n",
    "tuples": lambda d: f"{HEAD}    return {nested(d, '(x, ', 'x', ')')}\n",
    "annotations": lambda d: f"@R.function\ndef main(x: {nested(d, 'R.Tuple(', 'R.Object', ')')}):\n    return x\n",
    "dimensions": lambda d: "@R.function\ndef main(x: R.Tensor(('n', '"
    + nested(d, "T.max(2, ", "n", ")") + "'))):\n    return x\n",
    "attributes": lambda d: HEAD + "    R.func_attr(" + nested(d, "{'a': ", "1", "}") + ")\n    return x\n",
}  # fmt: skip


@pytest.mark.parametrize("depth", [99, 150, 260])
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_parses_back(name, depth):
    made = from_source(PROGRAMS[name](depth))
    assert_structural_equal(from_source(made.script(show_meta=True)), made)


def test_a_program_made_otherwise_parses_back():
    """No text was there first: 300 conditions around an expression of 300 parentheses."""
    a = tir.decl_buffer((8,), "int64", name="A")
    n, value = prim.Var("n", "int64"), prim.Var("m", "int64")
    total = value
    for _ in range(300):
        total = prim.Sub(n, total)
    body = tir.BufferStore(a, total, (prim.IntImm("int64", 0),))
    for i in range(300):
        body = tir.IfThenElse(prim.LT(n, prim.IntImm("int64", i)), body, None)
    handle = prim.Var("a", "handle")
    func = tir.PrimFunc([handle, n, value], body, buffer_map={handle: a})
    text = func.script()
    assert "<broken" not in text
    assert_structural_equal(from_source(text), func)


@pytest.mark.parametrize("name", PROGRAMS)
def test_beyond_the_limit_the_message_says_so(name):
    with pytest.raises(DiagnosticError) as caught:
        from_source(PROGRAMS[name](LIMIT + 5))
    (found,) = caught.value.diagnostics
    assert found.code == "E1001"
    assert f"nested more than {LIMIT} levels deep" in found.message
    assert found.span.line in (2, 3, LIMIT + 3, LIMIT + 4)
    assert len(found.render()) < 4000


def test_the_limit_is_no_danger_in_a_thread():
    """A thread has a smaller stack."""
    failures = []

    def parse():
        for name in ("tuples", "operators", "branches of TIR"):
            try:
                from_source(PROGRAMS[name](LIMIT - 10))
            except DiagnosticError:
                pass
            except RecursionError as problem:
                failures.append(problem)

    thread = threading.Thread(target=parse)
    thread.start()
    thread.join()
    assert failures == []


# ------------------------------------------------------------------------- the tree is Python's own


def expression(choose, depth):
    """A random expression over all brackets, strings and line breaks."""
    if depth == 0:
        return choose.choice(["x", "1", "'([{'", '"""a)\n]"""', "é", "r'\\('", "f'{x}'"])
    inner = expression(choose, depth - 1)
    forms = ["({})", "f({})", "x[{}]", "[{}]", "{{{}}}", "({},)", "f(a, k={})", "x[1:{}, 2]", "(\n{})", "f( # ) [\n{}\n)",
             "{{1: {}}}", "g(x)({})", "(not ({}))", "(x if ({}) else 'ü')", "[y for y in ({})]", "'s'[{}]", "(lambda: ({}))",
             "f(*({}))", "x.a[0][{}]", "(\\\n{})", "f(  {}, 'ß')", "[*({}), \"'\"]"]  # fmt: skip
    return choose.choice(forms).format(inner)


def block(choose, depth, indent=""):
    if depth == 0:
        return f"{indent}x = {expression(choose, choose.randrange(12))}\n"
    step = choose.choice(["  ", "    ", "\t", " "])
    inner = block(choose, depth - 1, indent + step)
    more = f"{indent}{step}y = 1\n" if choose.random() < 0.3 else ""
    head = choose.choice(["if a:", "for i in a:", "while (a,\n b):", "with f(  # (\n) as g:", "def f(a: (1)):", "class A:",
                          "if a:  # [", "try:"])  # fmt: skip
    tail = f"{indent}except E:\n{indent}{step}pass\n" if head == "try:" else ""
    empty = choose.choice(["", "\n", "   \n", f"{' ' * 3}# comment (\n"])
    return f"{indent}{head}\n{more}{empty}{inner}{empty}{tail}"


@pytest.mark.parametrize("seed", range(60))
def test_the_tree_is_the_one_python_makes(seed, monkeypatch):
    """With a small step, texts that Python takes too are cut in the same way."""
    monkeypatch.setattr("relax.script.parser.core.deep._STEP", 2 + seed % 5)
    choose = random.Random(seed)
    for _ in range(10):
        text = f"x = {expression(choose, choose.randrange(30))}\n" + block(choose, choose.randrange(25)) + "z = 1\n"
        expected = ast.parse(text)
        found = parse_deep(text)
        assert ast.dump(found) == ast.dump(expected), text
        places = [[(n.lineno, n.col_offset) for n in ast.walk(t) if isinstance(n, ast.expr)] for t in (found, expected)]
        assert places[0] == places[1], text


@pytest.mark.parametrize("seed", range(40))
def test_what_python_refuses_is_refused(seed, monkeypatch):
    monkeypatch.setattr("relax.script.parser.core.deep._STEP", 3)
    choose = random.Random(seed)
    for _ in range(20):
        text = f"x = {expression(choose, 12)}\n" + block(choose, 9)
        at = choose.randrange(len(text))
        text = text[:at] + choose.choice(["", "(", ")", "]", "\n", "'", "    ", "_", "if", ":"]) + text[at + 1 :]
        try:
            expected = ast.dump(ast.parse(text))
        except SyntaxError:
            with pytest.raises(SyntaxError):
                parse_deep(text)
            continue
        try:
            assert ast.dump(parse_deep(text)) == expected
        except SyntaxError:
            assert "'" in text or '"' in text  # such as a name that has become the prefix of a string
