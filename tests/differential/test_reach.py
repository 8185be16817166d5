"""The reach of the random programs: every public pass, construct and operator has its turn, or a reason not to."""

from __future__ import annotations

import relax
from differential import properties
from differential.generator import all_features, random_program
from differential.sample_steps import samples
from fuzz import OPERATORS_OF_THE_MACHINE
from relax.ir import Op


def test_every_public_pass_is_tried():
    known = {*properties.GRAPH_PASSES, *properties.LOWERING}
    elsewhere = {"BindParams", "BindSymbolicVars", "UpdateVDevice", "VMBuiltinLower", "VMShapeLower"}
    elsewhere.add("LowerRuntimeBuiltin")  # TVM's name for VMBuiltinLower
    elsewhere |= {"FuseOpsByPattern", "DecomposeOpsForTraining"}  # which need patterns, and change what is computed
    elsewhere |= {"FastMathTransform", "QuantizeWeights", "ToMixedPrecision"}  # results are rounded otherwise
    elsewhere.add("Gradient")  # adds a function, of a loss
    # which need kernels, or a code generator, of somebody else
    elsewhere |= {"AlterOpImpl", "RunCodegen", "SplitCallTIRByPattern"}
    elsewhere |= {"BundleModelParams", "LiftTransformParams", "UpdateParamStructInfo"}  # main takes something else
    elsewhere |= {"LazyGetInput", "LazySetOutput", "LazyTransformParams"}
    for name in relax.transform.__all__:
        made = getattr(relax.transform, name)
        if isinstance(made, type) or not name[0].isupper():
            continue  # what passes are made of
        assert name in known | elsewhere, f"{name} belongs in properties.GRAPH_PASSES"


def test_every_construct_occurs():
    found = set()
    for seed in range(1500):
        found |= set(random_program(seed).features)
    assert all_features() <= found
    named = {name: Op.get(name).get_attr("operator_class") for name in Op.list_op_names()}
    own = [name for name, cls in named.items() if cls is not None and cls.__module__.startswith("relax.")]
    operators = {f"R.{name.removeprefix('relax.')}" for name in own if name.startswith("relax.")}
    assert len(operators) > 200  # those that other tests declare aside
    sampled = {f"R.{name.removeprefix('relax.')}" for name in samples()}
    assert operators - found - sampled - OPERATORS_OF_THE_MACHINE == set()
