"""Operators that libraries take which read ONNX: of every sample call, they compute what the reference does."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from op_harness import all_cases, assert_close, reference, variant

import relax
from relax import BlockBuilder, ShapeStructInfo
from relax.backend import partition
from relax.expr import Tuple, Var

LIBRARIES = ("onnxruntime", "openvino")

DIFFERENT = {
    "onnxruntime": {
        r"quantize": "nan|inf|Mismatch at index: .14",  # NaN, which QuantizeLinear leaves open
        r"nn.conv.d_transpose": "Computed output dimension is <= 0",
        r"nn.layer_norm": "must be at least 1, got 0|Size of X.shape",
        r"take": "while running (Gather|Mod)",  # of nothing, out of range
        r"vision.col2im": "must be a positive multiple",
    },
    "openvino": {},
}
"""Calls whose results differ, or that are refused, by their text, with what is said."""


def leaves(arg):
    """The variables in an argument."""
    if isinstance(arg, Tuple):
        return [variable for field in arg.fields for variable in leaves(field)]
    return [arg] if isinstance(arg, Var) else []


def program(made):
    """A module that makes a call; a shape is a further parameter that binds symbolic sizes."""
    params = [variable for arg in made.call.args for variable in leaves(arg)]
    sizes = [Var("sizes", ShapeStructInfo(list(made.env)))] if made.env else []
    builder = BlockBuilder()
    with builder.function("main", [*params, *sizes]):
        with builder.dataflow():
            result = builder.emit_output(made.call)
        builder.emit_func_output(result)
    return builder.get(), [relax.ShapeTuple(made.env.values())] if made.env else []


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value]


def problem(library, case, symbolic):
    """What is wrong with a call that a library takes: "" if nothing, None if it does not take it."""
    made = variant(case, symbolic)
    mod, sizes = program(made)
    split = partition(mod, library)
    if split is mod:
        return None
    try:
        found = flat(relax.interpret(split, "main", *made.arrays, *sizes))
    except (RuntimeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
    for result, wanted in zip(found, reference(case, made.operator), strict=True):
        array = result.numpy()
        if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
            return f"{array.dtype}{array.shape}, expected {wanted.dtype}{wanted.shape}"
        try:
            assert_close(array, wanted, case.tolerance, False)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
    return ""


def without_nan(value):
    """An operand with ones in the places of NaN, which OpenVINO does not hand on."""
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.where(np.isnan(value), value.dtype.type(1), value)
    return value


CASES: dict[str, list] = {}
for _case in all_cases():
    if not _case.raises:
        CASES.setdefault(_case.op, []).append(_case)


def check(library, op, cases):
    """Calls, with numbers and with symbolic sizes, agree or are explained."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            given = replace(case, operands=without_nan(case.operands)) if library == "openvino" else case
            for symbolic in (False, True):
                found = problem(library, given, symbolic)
                explained = any(
                    re.match(p, str(case)) and re.search(says, found or "") for p, says in DIFFERENT[library].items()
                )
                assert not found or explained, f"{case}{' (symbolic)' * symbolic}: {found}"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("op", sorted(CASES))
def test_first_call(op, library):
    check(library, op, CASES[op][:1])


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("op", sorted(CASES))
def test_all_calls(op, library):
    check(library, op, CASES[op][1:])
