"""Operators on operands of unknown rank, dtype or kind: kernels are compiled when the program first meets operands."""

from __future__ import annotations

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

WEAKENED = {"dims": _without_dims, "all": _without_all, "kind": _without_kind}

CASES = {}
for _case in all_cases():
    is_lowered = Op.get(_case.op).get_attr("FLegalize") is not None
    if is_lowered and not _case.raises and not _case.op.startswith("relax.inspect."):  # those return scalars
        CASES.setdefault(_case.op, _case)

SOME = [
    "relax.add", "relax.exp", "relax.reshape", "relax.squeeze", "relax.concat", "relax.split", "relax.matmul", "relax.sum",
    "relax.take", "relax.strided_slice", "relax.nn.softmax", "relax.nn.conv2d", "relax.nn.layer_norm", "relax.topk",
    "relax.where", "relax.astype", "relax.broadcast_to", "relax.nn.attention", "relax.image.resize2d", "relax.permute_dims",
    "relax.vision.all_class_non_max_suppression", "relax.nonzero",
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
