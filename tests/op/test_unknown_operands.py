"""Operators on operands of unknown rank, dtype or kind: kernels are compiled when the program first meets operands."""

from __future__ import annotations

import numpy as np
import pytest
from op_harness import (
    _weakened,
    _without_all,
    _without_dims,
    _without_kind,
    all_cases,
    assert_close,
    reference,
    variant,
)

import relax
from relax import BlockBuilder
from relax.expr import Tuple, Var
from relax.ir import Op
from relax.script import from_source
from support import run

WEAKENED = {"dims": _without_dims, "all": _without_all, "kind": _without_kind}

CASES = {}
for _case in all_cases():
    is_lowered = Op.get(_case.op).get_attr("operator_class").has_lowering()
    if is_lowered and not _case.raises and not _case.op.startswith("relax.inspect."):  # those return scalars
        CASES.setdefault(_case.op, _case)

SOME = [
    "relax.add", "relax.exp", "relax.reshape", "relax.squeeze", "relax.concat", "relax.split", "relax.matmul", "relax.sum",
    "relax.take", "relax.strided_slice", "relax.nn.softmax", "relax.nn.conv2d", "relax.nn.layer_norm", "relax.topk",
    "relax.where", "relax.astype", "relax.broadcast_to", "relax.nn.attention", "relax.image.resize2d", "relax.permute_dims",
    "relax.vision.all_class_non_max_suppression",
]  # fmt: skip


def leaves(arg):
    """The variables in an argument."""
    return (
        [v for f in arg.fields for v in leaves(f)] if isinstance(arg, Tuple) else [arg] if isinstance(arg, Var) else []
    )


def outputs(value):
    """The arrays in a result."""
    return [a for v in value for a in outputs(v)] if isinstance(value, tuple) else [value.numpy()]


def check(name, weaken):
    """A call of which less and less is known gives what the operator's reference gives."""
    case = CASES[name]
    static = variant(case, False)
    args = [_weakened(arg, WEAKENED[weaken]) for arg in static.call.args]
    params = [var for arg in args for var in leaves(arg)]
    builder = BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(static.call.replace(args=args)))
    program = relax.VirtualMachine(relax.build(builder.get()))
    result = outputs(program["main"](*static.arrays))
    for found, wanted in zip(result, reference(case, static.operator), strict=True):
        assert_close(found, wanted, case.tolerance, case.tails)


@pytest.mark.parametrize("weaken", WEAKENED)
@pytest.mark.parametrize("name", SOME)
def test_some(name, weaken):
    check(name, weaken)


@pytest.mark.slow
@pytest.mark.parametrize("weaken", WEAKENED)
@pytest.mark.parametrize("name", sorted(CASES.keys() - set(SOME)))
def test_all(name, weaken):
    check(name, weaken)


WHAT_UPSTREAM_REJECTS = [
    ("R.full(3, R.const(2, 'int32'))", [2, 2, 2]),
    ("R.full((2,), R.prim_value(3), 'float32')", [3, 3]),
    ("R.full(R.shape([2]), scalar, 'float32')", [4, 4]),
    ("R.full_like(x, scalar)", [4, 4]),
    ("R.full(sizes, scalar)", [[4, 4]]),
    ("R.ones(sizes, 'float32')", [[1, 1]]),
    ("R.grad.start_checkpoint(R.const([1.0, 2.0]))", [1, 2]),
    ("R.grad.start_checkpoint(R.add(x, x))", [2, 2]),
    ("R.grad.end_checkpoint(R.add(x, x))", [2, 2]),
]


@pytest.mark.parametrize("call, expected", WHAT_UPSTREAM_REJECTS, ids=str)
def test_shapes_and_scalars_of_unknown_kind(call, expected):
    """Shapes and fill values that may be right when the program runs, and checkpoints of any expression."""
    module = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), scalar: R.Tensor, sizes: R.Object):
        y = {call}
        return y
""")
    args = np.ones(2, "float32"), np.array(4, "float32"), relax.ShapeTuple([1, 2])
    assert run(module, *args).tolist() == expected
    assert relax.interpret(module, "main", *args).numpy().tolist() == expected
    if "scalar" in call:
        wrong = args[0], np.ones(1, "float32"), args[2]
        for call_it in (lambda: run(module, *wrong), lambda: relax.interpret(module, "main", *wrong)):
            with pytest.raises(AssertionError, match="fill_value must be a scalar, found 1 dimensions"):
                call_it()
