"""Structural equality, hash, and the first difference."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from relax.ir import (
    GlobalVar,
    Node,
    Source,
    Span,
    VDevice,
    assert_structural_equal,
    binder,
    child,
    exact_digest,
    first_difference,
    nameless_digest,
    node,
    program_digest,
    structural_equal,
    structural_hash,
)
from relax.prim import Add, FloatImm, IntImm, Let, SizeVar, Var


@node
class Lambda(Node):
    """Parameters and a body."""

    params: tuple[Node, ...] = binder(converter=tuple)
    body: Node = child()
    attrs: dict = child(default_factory=dict)


def same(a, b, **options):
    """Equal, and then equally hashed."""
    equal = structural_equal(a, b, **options)
    assert structural_equal(b, a, **options) is equal
    if equal:
        assert structural_hash(a, **options) == structural_hash(b, **options)
    return equal


def test_bound_variables_are_matched_by_position():
    x, y, z = (Var(name, "int32") for name in "xyz")
    assert same(Lambda([x, y], x - y), Lambda([y, z], y - z))
    assert not same(Lambda([x, y], x - y), Lambda([x, y], y - x))
    assert same(Lambda([x], Lambda([y], x + y)), Lambda([y], Lambda([x], y + x)))
    assert not same(Lambda([x], Lambda([y], x + y)), Lambda([x], Lambda([y], y + x)))


def test_names_and_spans_do_not_count():
    span = Span(Source("f.py", ""), 1, 1, 1, 1)
    assert same(Lambda([a := Var("a")], a), Lambda([b := Var("b")], b))
    assert same(IntImm("int32", 1), IntImm("int32", 1, span=span))


def test_the_dtype_of_a_variable_counts():
    a, b = Var("a", "int32"), Var("a", "int64")
    assert not same(Lambda([a], a), Lambda([b], b))


def test_free_variables_are_identities_unless_mapped():
    x, y = Var("x"), Var("y")
    assert same(x + 1, x + 1)
    assert not same(x + 1, y + 1)
    assert same(x + 1, y + 1, map_free_vars=True)
    assert same(x + x, y + y, map_free_vars=True)
    assert not same(x + x, x + y, map_free_vars=True)
    assert not same(x + y, x + x, map_free_vars=True)


def test_a_variable_used_twice_is_one_variable():
    x, y = Var("x"), Var("y")
    assert not same(Lambda([x, y], x + y), Lambda([x, y], x + x))


def test_a_let_binds():
    x, y = Var("x"), Var("y")
    assert same(Let(x, IntImm("int32", 1), x + x), Let(y, IntImm("int32", 1), y + y))


def test_floats_are_compared_by_their_bits():
    nan, zero = float("nan"), 0.0
    assert same(FloatImm("float32", nan), FloatImm("float32", nan))
    assert same(FloatImm("float32", zero), FloatImm("float32", zero))
    assert not same(FloatImm("float32", zero), FloatImm("float32", -zero))


def test_numbers_of_different_kinds_differ():
    x = IntImm("int32", 1)
    for a, b in ((1, True), (1, 1.0), (0, None), (1, "1")):
        assert not same(Lambda([], x, {"a": a}), Lambda([], x, {"a": b}))


def test_arrays():
    x = IntImm("int32", 1)

    def holding(array):
        return Lambda([], x, {"a": array})

    assert same(holding(np.arange(4)), holding(np.arange(4)))
    assert same(holding(np.array([np.nan, -0.0])), holding(np.array([np.nan, -0.0])))
    assert not same(holding(np.array([0.0])), holding(np.array([-0.0])))
    assert not same(holding(np.zeros(4)), holding(np.zeros((2, 2))))
    assert not same(holding(np.zeros(4, "int8")), holding(np.zeros(4, "uint8")))
    assert not same(holding(np.zeros(1)), holding(0.0))
    assert same(holding(np.zeros((0, 3))), holding(np.zeros((0, 3))))
    assert same(holding(np.arange(6).reshape(2, 3).T), holding(np.ascontiguousarray(np.arange(6).reshape(2, 3).T)))


def test_tables_are_compared_by_key():
    x = IntImm("int32", 1)
    assert same(Lambda([], x, {"a": 1, "b": 2}), Lambda([], x, {"b": 2, "a": 1}))
    assert not same(Lambda([], x, {"a": 1}), Lambda([], x, {"a": 1, "b": 2}))
    assert same(Lambda([], x, {GlobalVar("f"): x}), Lambda([], x, {GlobalVar("f"): x}))
    assert not same(Lambda([], x, {GlobalVar("f"): x}), Lambda([], x, {GlobalVar("g"): x}))


def test_classes_and_lengths_count():
    x = Var("x")
    assert not same(x + 1, x - 1)
    assert not same(Lambda([x], x), x)
    assert not same((x,), (x, x))
    assert not same((x, x), (x,))
    assert same((x, [x]), [x, (x,)])  # a list is a tuple that was not converted


def test_a_program_digest_counts_spans_and_refuses_what_it_does_not_know():
    def digest(value):
        return program_digest(value, lambda array: array.tobytes())

    here, there = (Span(Source("a.py", ""), line, 1, line, 2) for line in (1, 2))
    one = [IntImm("int32", 1, span=span) for span in (here, there, here)]
    assert digest(one[0]) == digest(one[2]) != digest(one[1])
    assert digest({"w": np.zeros(3)}) != digest({"w": np.zeros((3, 1))}) != digest({"w": np.ones((3, 1))})
    with pytest.raises(TypeError, match="a slice has no digest"):
        digest({"of": slice(1)})


def test_a_nameless_digest_counts_names_by_their_order():
    a, b, n, size = Var("a"), Var("b"), Var("n"), SizeVar("n")
    (first, names), (second, others) = nameless_digest(Add(a, b)), nameless_digest(Add(n, Var("m")))
    assert first == second
    assert (names, others) == (("a", "b"), ("n", "m"))
    assert nameless_digest(Add(a, Var("a")))[0] != first  # two variables of one name
    assert nameless_digest(Add(a, a))[0] != first
    assert nameless_digest(n)[0] != nameless_digest(size)[0]


def test_an_exact_digest_counts_all_but_spans():
    span = Span(Source("f.py", ""), 1, 1, 1, 1)
    a, b, size = Var("a"), Var("b"), SizeVar("a")
    digests = [exact_digest(Lambda([v], Add(v, IntImm("int32", 1)))) for v in (a, b, size)]
    assert len({*digests}) == 3
    placed = Lambda([Var("a")], IntImm("int32", 1, span=span), span=span)
    assert exact_digest(placed) == exact_digest(Lambda([Var("a")], IntImm("int32", 1)))
    assert exact_digest(Add(a, b)) == exact_digest(Add(Var("a"), Var("b"))) != exact_digest(Add(a, a))


@pytest.mark.parametrize(
    "make, path, lhs, rhs",
    [
        (lambda x: (x + 1, x + 2), ".b.value", "1", "2"),
        (lambda x: (x + 1, x - 1), "<root>", "Add", "Sub"),
        (lambda x: (Lambda([x], x, {"k": 1}), Lambda([x], x, {"k": 2})), ".attrs['k']", "1", "2"),
        (lambda x: (Lambda([x], x, {"k": 1}), Lambda([x], x)), ".attrs['k']", "1", "<nothing>"),
        (lambda x: (Lambda([x], x), Lambda([], x)), ".params[0]", "Var", "<nothing>"),
        (lambda x: ((x, (x, x)), (x, (x, 1))), "[1][1]", "Var", "1"),
    ],
)
def test_the_first_difference_is_a_path(make, path, lhs, rhs):
    difference = first_difference(*make(Var("x")))
    assert (difference.path or "<root>") == path
    for side, expected in ((difference.lhs, lhs), (difference.rhs, rhs)):
        assert expected in (str(side), type(side).__name__)
    assert f"at {path}:" in str(difference)


def test_equal_things_have_no_difference():
    x = Var("x")
    assert first_difference(Lambda([x], x), Lambda([x], x)) is None
    assert_structural_equal(Lambda([x], x), Lambda([x], x))


def test_the_assertion_shows_both_programs_and_the_path():
    x = Var("x")
    with pytest.raises(ValueError, match=r"StructuralEqual check failed, at \.b\.value:") as caught:
        assert_structural_equal(x + 1, x + 2)
    text = str(caught.value)
    assert "lhs: 1" in text
    assert "rhs: 2" in text
    assert "--- lhs ---" in text
    assert "--- rhs ---" in text


def test_hashes_tell_apart():
    x, y = Var("x"), Var("y")
    programs = [
        x + y, x - y, Lambda([x], x), Lambda([x, y], x), Lambda([x, y], y), Lambda([], IntImm("int32", 1)),
        Lambda([], IntImm("int64", 1)), Lambda([], IntImm("int32", 1), {"a": 1}), Lambda([], IntImm("int32", 1), {"a": "1"}),
        Lambda([], IntImm("int32", 1), {"a": (1, (2,))}), Lambda([], IntImm("int32", 1), {"a": ((1, 2),)}), VDevice("llvm"),
    ]  # fmt: skip
    assert len({structural_hash(program) for program in programs}) == len(programs)


def test_hashes_are_the_same_in_every_process():
    """A process of its own hashes Python's strings with another seed."""
    program = (
        "from relax.prim import *; from relax.ir import structural_hash; x = Var('x', 'int64');"
        "print(structural_hash(Let(x, const(3, 'int64'), x * 2 + x // 3)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    x = Var("x", "int64")
    assert int(other.stdout) == structural_hash(Let(x, IntImm("int64", 3), x * 2 + x // 3))


def test_deep_trees():
    x = Var("x")
    left = right = x
    for _ in range(1500):
        left, right = Add(left, x), Add(right, x)
    assert same(left, right)


def test_what_a_function_binds_means_nothing_outside():
    """Passes may leave one shape variable in two functions; read back from text, each has its own."""
    from relax.script import from_source

    text = """
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return x
    @R.function
    def g(y: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        return y
"""
    mod = from_source(text)
    n = mod["f"].params[0].struct_info.shape.values[0]
    other = mod["g"].params[0].struct_info.shape.values[0]
    from relax.derive.substitution import substitute

    shared = mod.with_function("g", substitute(mod["g"], {other: n}))
    assert shared["g"].params[0].struct_info.shape.values[0].same_as(n)
    assert structural_equal(shared, mod)
    assert structural_equal(mod, shared)
    assert structural_hash(shared) == structural_hash(mod)
    square = from_source(text.replace('("n", "m")', '("n", "n")'))
    assert not structural_equal(square, mod)
