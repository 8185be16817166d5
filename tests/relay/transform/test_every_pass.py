"""Every pass on programs of functions of every kind: well-formed results of the same values."""

from __future__ import annotations

import pytest
from pass_checks import PROGRAMS, assert_same_values, module, run

from relax.relay import transform
from relax.relay.transform import (
    AlterOpLayout,
    BackwardFoldScaleAxis,
    CanonicalizeCast,
    CanonicalizeOps,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    ConvertLayout,
    DeadCodeElimination,
    DefuseOps,
    DynamicToStatic,
    EliminateCommonSubexpr,
    EtaExpand,
    FastMath,
    FoldConstant,
    ForwardFoldScaleAxis,
    FuseOps,
    Inline,
    LambdaLift,
    PartialEvaluate,
    RemoveUnusedFunctions,
    SimplifyExpr,
    SimplifyInference,
    ToANormalForm,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
    ToMixedPrecision,
)

PASSES = [
    RemoveUnusedFunctions(),
    ToANormalForm(), ToGraphNormalForm(), ToBasicBlockNormalForm(), DeadCodeElimination(inline_once=True),
    FoldConstant(), EliminateCommonSubexpr(), Inline(), EtaExpand(True, True), LambdaLift(),
    SimplifyInference(), SimplifyExpr(), CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul(),
    CanonicalizeOps(), CanonicalizeCast(), FastMath(), FuseOps(), DefuseOps(), DynamicToStatic(),
    ConvertLayout({"nn.conv2d": ["NHWC"]}), AlterOpLayout(), ForwardFoldScaleAxis(), BackwardFoldScaleAxis(),
    ToMixedPrecision(), PartialEvaluate(),
]  # fmt: skip


@pytest.mark.parametrize("name", ["closures", "references", "lists"])
def test_one_after_the_other(name):
    text, argument = PROGRAMS[name]
    mod = module(text)
    changed = mod
    for step in PASSES:
        changed = run(step, changed)
    assert_same_values(mod, changed, [argument])


def test_the_list_has_every_pass():
    tried = {step.info.name.removeprefix("relay.") for step in PASSES}
    others = {"InferType", "ToCPS", "Defunctionalization"}  # they take other programs, or make them
    factories = {name for name in transform.__all__ if name[0].isupper() and callable(getattr(transform, name))}
    assert factories - tried - others == {"Effect", "Effects", "MixedTypeConversionCategory"}
