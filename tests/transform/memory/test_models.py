"""Whole models: one plan serves every size, and needs little more than the largest set of tensors alive at once."""

from __future__ import annotations

import random

import pytest
from models import bert, gpt2, resnet

import relax
from relax.analysis import memory_plan
from relax.frontend.onnx import from_onnx
from relax.optimize.pipeline import FUSE, GRAPH, LOWER, as_pass

MODELS = {
    "bert": (bert, {**bert.SMALL, "width": 256, "positions": 64}),
    "gpt2": (gpt2, {**gpt2.SMALL, "width": 256}),
    "resnet": (resnet, resnet.SMALL),
}
SIZES = (1, 2, 3, 8, 17, 64, 100, 333, 1000)
FUSED = (*GRAPH, LOWER[0], *FUSE, *LOWER[1:])


@pytest.mark.parametrize(
    "name", [name if name == "bert" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_storages_are_as_small_as_can_be(name):
    """At most 1.1 times the lower bound, for 40 choices of sizes; images have at least 16 points in each direction."""
    module, options = MODELS[name]
    mod = as_pass(FUSED, "fused")(from_onnx(module.model(**options)))
    chance = random.Random(3)
    for _ in range(40):
        sizes = {dim: chance.choice(SIZES) for dim in module.DIMENSIONS}
        sizes.update({dim: max(sizes[dim], 16) for dim in ("height", "width") if dim in sizes})
        plan = memory_plan(mod, "main", sizes)
        assert len(plan.storages) == 1
        (storage,) = plan.storages
        assert storage.nbytes <= 1.1 * plan.alive_in(storage), sizes
        for tensor in plan.tensors:
            assert tensor.storage is None or tensor.offset + tensor.nbytes <= storage.nbytes


def test_outputs_have_memory_of_their_own():
    mod = as_pass(FUSED, "fused")(from_onnx(gpt2.model(**MODELS["gpt2"][1])))
    plan = memory_plan(mod, "main", {"batch": 1, "seq": 2, "past": 3})
    outputs = [tensor.name for tensor in plan.tensors if tensor.escapes]
    assert len(outputs) >= 5  # logits, and keys and values of two layers
    assert [tensor.name for tensor in plan.tensors if tensor.storage is None] == outputs
    assert isinstance(mod["main"], relax.Function)
