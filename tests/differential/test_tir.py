"""Random PrimFuncs against exact numbers, and the evaluator of exact numbers itself. `make fuzz` runs the same for longer."""

from __future__ import annotations

import numpy as np
import pytest

from differential import tir_properties, tir_reducer
from differential.properties import Failure
from differential.reducer import ready_test, reduce
from differential.tir_numbers import Undefined, converted
from differential.tir_oracle import Oracle
from differential.tir_programs import FEATURES, tir_program

HEAD = "@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({}):\n"


def program(parameters, *lines):
    return HEAD.format(parameters) + "".join(f"        {line}\n" for line in lines)


def value(expression, dtype):
    """What the oracle makes of an expression."""
    text = program("p: T.handle", f'A = T.match_buffer(p, (1,), "{dtype}")', f"A[T.int64(0)] = {expression}")
    (found,) = Oracle(text).run([np.zeros(1, dtype)])
    return found[0].item()


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_functions(first):
    programs = [tir_program(f"tests:{seed}") for seed in range(first, first + 8)]
    calls = tir_properties.compiled_together([p.text for p in programs])
    assert None not in calls
    for p, call in zip(programs, calls, strict=True):
        tir_properties.tir_agrees(p.text, p.cases, call=call)


def test_most_programs_have_a_meaning_and_some_fail():
    found = [tir_properties.expected(p.text, p.cases) for p in map(tir_program, range(60))]
    outcomes = [outcome for cases in found for _, outcome in cases]
    errors = sum(isinstance(outcome, type) for outcome in outcomes)
    assert len(outcomes) > 150
    assert 10 < errors < 90


def test_every_statement_occurs():
    found = set()
    for seed in range(400):
        found |= set(tir_program(seed).features)
    assert set(FEATURES) <= found
    assert tir_program("7").text == tir_program("7").text


@pytest.mark.parametrize(
    "expression, dtype, expected",
    [
        ("T.int8(127) + T.int8(1)", "int8", -128),
        ("T.int8(-7) // T.int8(2)", "int8", -4),
        ("T.int8(-7) % T.int8(2)", "int8", 1),
        ("T.truncdiv(T.int8(-7), T.int8(2))", "int8", -3),
        ("T.truncmod(T.int8(-7), T.int8(2))", "int8", -1),
        ("T.int64(-9223372036854775808) // T.int64(-1)", "int64", -(2**63)),
        ("T.int8(1) << T.int8(8)", "int8", 0),
        ("T.int8(-1) >> T.int8(-1)", "int8", -1),
        ("T.uint8(128) >> T.uint8(7)", "uint8", 1),
        ("T.bitwise_not(T.uint16(1))", "uint16", 65534),
        ("T.popcount(T.int8(-1))", "int8", 8),
        ("T.abs(T.int8(-128))", "int8", -128),
        ('T.Cast("int8", T.float32(300.0))', "int8", 127),
        ('T.Cast("uint8", T.int64(-1))', "uint8", 255),
        ('T.Cast("bool", T.float32(0.5))', "bool", True),
        ('T.Cast("float32", T.int64(18014399583223809))', "float32", float(2**54 + 2**31)),
        ("T.bfloat16(1.0) / T.bfloat16(3.0)", "bfloat16", 0.333984375),
        ("T.float16(60000.0) * T.float16(2.0)", "float16", float("inf")),
        ("T.nearbyint(T.float32(2.5))", "float32", 2.0),
        ('T.reinterpret("int32", T.float32(1.0))', "int32", 0x3F800000),
        ("T.Select(T.float32('nan') < T.float32(0.0), T.int32(1), T.int32(2))", "int32", 2),
    ],
)
def test_the_oracle_knows_machine_arithmetic(expression, dtype, expected):
    assert value(expression, dtype) == expected


def test_the_oracle_rounds_once():
    assert converted(1 + 2**-8 + 2**-30, "float64", "bfloat16") == 1 + 2**-7
    assert converted(2**54 + 2**30 + 1, "int64", "float32") == 2**54 + 2**31


@pytest.mark.parametrize(
    "line, error",
    [
        ("A[T.int64(1)] = T.int32(1)", IndexError),
        ("A[T.uint64(9223372036854775808)] = T.int32(1)", IndexError),
        ("A[T.int64(0)] = T.int32(1) // A[T.int64(0)]", ZeroDivisionError),
        ("A[T.int64(0)] = T.int32(1) // T.min(T.max(A[T.int64(0)], T.int32(0)), T.int32(3))", ZeroDivisionError),
        ('assert A[T.int64(0)] > T.int32(3), "small"', AssertionError),
    ],
)
def test_the_oracle_knows_errors(line, error):
    with pytest.raises(error):
        Oracle(program("p: T.handle", 'A = T.match_buffer(p, (1,), "int32")', line)).run([np.zeros(1, "int32")])


@pytest.mark.parametrize(
    "lines",
    [
        ('C = T.alloc_buffer((1,), "float32")', "A[T.int64(0)] = C[T.int64(0)]"),
        ("for i in T.parallel(T.int64(0), T.int64(2)):", '    A[T.int64(0)] = T.Cast("float32", i)'),
        ("A[T.int64(0)] = T.max(T.float32(0.0), T.float32(-0.0))",),
        ("A[T.int64(0)] = A[T.int64(0)] + A[T.int64(0)] * A[T.int64(0)]",),
        ("while A[T.int64(0)] < T.float32(1.0):", "    A[T.int64(0)] = T.float32(0.0)"),
        ("A[T.int64(0)] = T.int32(1)",),
        (
            "for i in T.serial(T.int64(0), T.int64(1)):",
            '    A[i + T.int64(1)] = T.Cast("float32", T.int64(1) // i)',  # which of the two faults is not said
        ),
    ],
)
def test_what_is_left_open_has_no_outcome(lines):
    text = program("p: T.handle", 'A = T.match_buffer(p, (1,), "float32")', *lines)
    with pytest.raises(Undefined):
        Oracle(text).run([np.zeros(1, "float32")])
    assert tir_properties.expected(text, [[np.zeros(1, "float32")]]) == []


def test_a_reduction_over_nothing_starts():
    text = program(
        "p: T.handle, q: T.handle",
        "n = T.int64()",
        'A = T.match_buffer(p, (n,), "int32")',
        'B = T.match_buffer(q, (), "int32")',
        "for i in T.grid(n):",
        '    with T.block("b"):',
        '        vi = T.axis.remap("R", [i])',
        "        with T.init():",
        "            B[()] = T.int32(7)",
        "        B[()] = B[()] + A[vi]",
    )
    for values, expected in (((), 7), ((1, 2), 10)):
        case = [np.array(values, "int32"), np.array(0, "int32")]
        assert Oracle(text).run(case)[1] == expected
        tir_properties.tir_agrees(text, [case])


def wrong(a, b):
    """A compiled function that is wrong in one way for each length."""
    if len(a) == 1:
        b[0] += 1
    elif len(a) == 2:
        raise IndexError("no")
    elif len(a) == 3:
        np.lib.stride_tricks.as_strided(a, (4,))[3] = 0


@pytest.mark.parametrize(
    "length, kind", [(1, "compiles: values"), (2, "compiles: no error IndexError"), (3, "compiles writes outside")]
)
def test_what_is_wrong_is_seen(length, kind):
    text = program(
        "p: T.handle, q: T.handle",
        "n = T.int64()",
        'A = T.match_buffer(p, (n,), "int32")',
        'B = T.match_buffer(q, (1,), "int32")',
    )
    case = [np.zeros(length, "int32"), np.zeros(1, "int32")]
    with pytest.raises(Failure) as failure:
        tir_properties.tir_agrees(text, [case], parts=["compiles"], call=wrong)
    assert failure.value.kind == kind


def test_a_failing_function_becomes_small():
    """Of a long function stays what the failure needs: here, a product."""
    p = next(p for p in map(tir_program, range(100)) if "*" in p.text.split("func_attr")[-1].split(":\n")[-1])

    def fails(text, cases):
        return "a product" if tir_properties.expected(text, cases) and "*" in text else None

    text, cases = reduce(p.text, p.cases, fails, 20, tir_reducer.CANDIDATES)
    assert len(text) < len(p.text)
    assert len(cases) == 1
    assert "tir_properties.tir_agrees(" in ready_test("tir_agrees", text, cases, True)


@pytest.mark.parametrize(
    "loop",
    [
        "T.unroll(T.uint8(255), T.uint8(255) + T.uint8(2))",
        "T.unroll(T.int8(127), T.int8(127) + T.int8(2))",
        "T.unroll(A[T.int64(0)], A[T.int64(0)] + T.int8(2))",
        "T.serial(T.int8(127), T.int8(127) + T.int8(2))",
        "T.serial(T.uint8(255), T.uint8(1))",
    ],
)
@pytest.mark.parametrize("body", ["    A[T.int64(1)] = A[T.int64(1)] + T.int8(1)", "    pass"])
def test_loops_that_leave_their_dtype_fail_and_print(loop, body):
    text = program("p: T.handle", 'A = T.match_buffer(p, (2,), "int8")', f"for i in {loop}:", body)
    case = [np.array([127, 0], "int8")]
    ((_, outcome),) = tir_properties.expected(text, [case])
    assert outcome is OverflowError
    tir_properties.tir_agrees(text, [case])


def test_a_loop_around_nothing_is_lowered():
    text = program(
        "p: T.handle",
        'T.func_attr({"tir.noalias": True})',
        "n = T.int64()",
        'A = T.match_buffer(p, (n,), "int8")',
        "for i in T.serial(T.int64(0), n):",
        "    for j in T.serial(T.int64(0), n):",
        "        pass",
    )
    tir_properties.tir_agrees(text, [[np.zeros(2, "int8")]])
