"""Sizes of calls: those of a legal call as fresh shape variables, and 0 along each axis.

    R.add(x, y)   x: R.Tensor((2, 3)), y: R.Tensor((1, 3))   →   x: R.Tensor((s1, s2)), y: R.Tensor((s3, s4))

With fresh variables, which the arguments bind, a call computes what it computes with the sizes written as numbers, or is
rejected when it is built: it never fails when it runs. An operator whose result has its operand's shape has it at size 0
of each axis too, in the interpreter and compiled, with static and with dynamic dimensions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from op_harness import Sizes, all_cases, assert_close, reference, variant

import relax
from relax.block_builder import BlockBuilder
from relax.expr import ShapeExpr, Tuple, Var
from relax.ir import DiagnosticError, Op
from relax.prim import IntImm
from relax.prim import Var as PrimVar
from relax.struct_info import ShapeStructInfo, TensorStructInfo
from support import module, plain_machine, values

CASES: dict[str, list] = {}
for _case in all_cases():
    if not _case.raises:
        CASES.setdefault(_case.op, []).append(_case)

SOME = [
    "relax.add", "relax.where", "relax.reshape", "relax.squeeze", "relax.concat", "relax.split", "relax.matmul", "relax.sum",
    "relax.take", "relax.strided_slice", "relax.einsum", "relax.broadcast_to", "relax.quantize", "relax.dequantize",
    "relax.nn.conv2d", "relax.nn.layer_norm", "relax.nn.attention", "relax.image.resize2d", "relax.scatter_elements",
]  # fmt: skip


def outputs(value):
    """The arrays in a result."""
    return [a for v in value for a in outputs(v)] if isinstance(value, tuple) else [np.asarray(values(value))]


# ------------------------------------------------------------------------------------- fresh variables


class Fresh:
    """A call whose arguments have a new shape variable for each size, with the parameters and values that bind them."""

    def __init__(self, made):
        self.arrays = iter(made.arrays)
        self.params, self.values = [], []
        self.call = made.call.replace(args=[self.argument(arg) for arg in made.call.args])

    def argument(self, arg):
        if isinstance(arg, Tuple):
            return Tuple([self.argument(field) for field in arg.fields])
        if isinstance(arg, Var) and isinstance(arg.struct_info_, TensorStructInfo):
            info = TensorStructInfo(self.sizes(arg.struct_info_.ndim), arg.struct_info_.dtype)
            return self.parameter(arg.name_hint, info, next(self.arrays))
        if isinstance(arg, ShapeExpr) and arg.values and all(isinstance(size, IntImm) for size in arg.values):
            sizes = self.sizes(len(arg.values))
            numbers = tuple(size.value for size in arg.values if isinstance(size, IntImm))
            self.parameter(f"shape{len(self.params)}", ShapeStructInfo(sizes), numbers)
            return ShapeExpr(sizes)
        return arg

    def sizes(self, count):
        return [PrimVar(f"s{len(self.params)}_{axis}", "int64") for axis in range(count)]

    def parameter(self, name, info, value):
        self.params.append(Var(name, info))
        self.values.append(value)
        return self.params[-1]


def program(params, call):
    """The module whose `main` is a call."""
    builder = BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(call))
    return builder.get()


def check_fresh(case):
    made = variant(case, False)
    fresh = Fresh(made)
    try:
        machine = plain_machine(program(fresh.params, fresh.call))
    except DiagnosticError:
        return
    found = outputs(machine["main"](*fresh.values))
    for one, wanted in zip(found, reference(case, made.operator), strict=True):
        assert_close(one, np.asarray(wanted, one.dtype), case.tolerance, case.tails)


def check_all_fresh(cases):
    for case in cases:
        try:
            check_fresh(case)
        except Exception as error:
            raise AssertionError(f"{case}: {error}") from error


@pytest.mark.parametrize("name", SOME)
def test_some_fresh_sizes(name):
    """A few cases, spread over the table."""
    check_all_fresh(CASES[name][:: max(1, len(CASES[name]) // 3)])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fresh_sizes(name):
    check_all_fresh(CASES[name])


def test_squeeze_of_dynamic_dimensions():
    """Without axes, the rank of the result is known when the program runs."""
    mod = module('@R.function\ndef main(x: R.Tensor(("a", 1, "b"), "float32")):\n    return R.squeeze(x)')
    assert mod["main"].ret_struct_info.ndim == -1
    machine = plain_machine(mod)
    for shape in ((2, 1, 3), (1, 1, 3), (2, 1, 1), (0, 1, 1), (1, 1, 1)):
        x = np.ones(shape, "float32")
        assert values(machine["main"](x)).shape == np.squeeze(x).shape
        assert values(relax.interpret(mod, "main", x)).shape == np.squeeze(x).shape


def test_squeeze_of_known_dimensions():
    """The sizes that are 1 or not for certain decide."""
    mod = module(
        '@R.function\ndef main(x: R.Tensor(("a + 2", 1), "float32"), n: R.Shape(["a"])):\n    return R.squeeze(x)'
    )
    assert mod["main"].ret_struct_info.ndim == 1


@pytest.mark.parametrize("count", [1, 4])
def test_quantize_by_one_scale_or_one_for_each_index(count):
    mod = module("""
        @R.function
        def main(x: R.Tensor((3, "n"), "float32"), scale: R.Tensor(("s",), "float32"), zero: R.Tensor(("z",), "int8")):
            return R.quantize(x, scale, zero, axis=1)
    """)
    x, scale, zero = np.full((3, 4), 6, "float32"), np.full(count, 2, "float32"), np.ones(1, "int8")
    np.testing.assert_array_equal(values(plain_machine(mod)["main"](x, scale, zero)), np.full((3, 4), 4, "int8"))
    with pytest.raises(AssertionError, match="scale must have as many elements as dimension 1 of data"):
        plain_machine(mod)["main"](x, np.ones(3, "float32"), zero)


# ---------------------------------------------------------------------------------------------- size 0


def kept_shape(case):
    """The shape of the first operand if each result has it, else None."""
    first = next((value for value in case.operands if isinstance(value, np.ndarray)), None)
    if first is None or 0 in first.shape:
        return None
    results = reference(case, variant(case, False).operator)
    return first.shape if all(np.shape(result) == first.shape for result in results) else None


def without(case, size):
    """A case whose operands have size 0 where they had another one."""

    def cut(value):
        if isinstance(value, np.ndarray):
            return np.zeros(tuple(0 if d == size else d for d in value.shape), value.dtype)
        if isinstance(value, Sizes):
            return Sizes(tuple(0 if d == size else d for d in value.values))
        return [cut(item) for item in value] if isinstance(value, list) else value

    return replace(case, operands=[cut(value) for value in case.operands])


COMPUTED = [name for name in CASES if Op.get(name).get_attr("operator_class").compute is not None]

INDEXED = ("relax.scatter_elements", "relax.scatter_nd", "relax.index_put", "relax.slice_scatter")
"""Operators whose indices or source depend on the size of an axis: an empty one has no index."""

KEEPING = [
    "relax.add", "relax.where", "relax.clip", "relax.cumsum", "relax.sort", "relax.flip", "relax.nn.softmax",
    "relax.nn.layer_norm", "relax.nn.group_norm", "relax.nn.batch_norm", "relax.quantize", "relax.reverse_sequence",
]  # fmt: skip


def check_empty(case):
    shape = kept_shape(case)
    for size in {d for d in shape if d != 1}:
        empty = without(case, size)
        wanted = tuple(0 if d == size else d for d in shape)
        static, dynamic = variant(empty, False), variant(case, True)
        for call in (static.call, dynamic.call):
            params = [leaf for arg in call.args for leaf in leaves(arg)]
            mod = program(params, call)
            for run in (plain_machine(mod)["main"], lambda *args, mod=mod: relax.interpret(mod, "main", *args)):
                assert [one.shape for one in outputs(run(*static.arrays))] == [wanted] * len(
                    outputs(run(*static.arrays))
                )


def leaves(arg):
    """The variables in an argument."""
    fields = arg.fields if isinstance(arg, Tuple) else (arg,)
    return [field for field in fields if isinstance(field, Var)]


def check_all_empty(cases):
    """Check one case of each rank among those whose result has its operand's shape."""
    ranks = set()
    for case in cases:
        shape = kept_shape(case)
        if shape is None or len(shape) in ranks:
            continue
        ranks.add(len(shape))
        try:
            check_empty(case)
        except Exception as error:
            raise AssertionError(f"{case}: {error}") from error


@pytest.mark.parametrize("name", KEEPING)
def test_some_empty_axes(name):
    check_all_empty(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(COMPUTED) - set(INDEXED)))
def test_empty_axes(name):
    check_all_empty(CASES[name])
