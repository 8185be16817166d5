"""QuantizeWeights: constant weights of products and look-ups rounded to block formats."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import transform
from relax.script import from_source
from relax.topi.block_formats import FORMATS
from relax.transform.quantize_rows import quantize_rows
from weights_in_blocks import NAMES, format_named

RNG = np.random.default_rng(11)
WEIGHTS = RNG.standard_normal((256, 96)).astype("float32")
TABLE = RNG.standard_normal((20, 256)).astype("float32")

SOURCE = """
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @R.function
    def main(ids: R.Tensor(("n",), "int64"), table: R.Tensor((20, 256), "float32"), w: R.Tensor((256, 96), "float32"),
             v: R.Tensor((96, 256), "float32")):
        with R.dataflow():
            x = R.take(table, ids, axis=0)
            y = R.matmul(x, w)
            z = R.matmul(x, R.permute_dims(v))
            out = R.add(y, z)
            R.output(out)
        return out
"""


def module():
    """Look-ups and two products, one of weights that are transposed."""
    constants = {"table": TABLE, "w": WEIGHTS, "v": np.ascontiguousarray(WEIGHTS.T)}
    return transform.BindParams("main", constants)(from_source(SOURCE))


def operators(mod):
    """The names of the operators of main, in order."""
    return [binding.value.op.name for block in mod["main"].body.blocks for binding in block.bindings
            if isinstance(binding.value, relax.Call)]  # fmt: skip


def compiled(mod, mode="compiled"):
    """The program as a function of the ids."""
    main = relax.VirtualMachine(relax.build(mod, exec_mode=mode), relax.cpu())["main"]
    return lambda ids: main(ids).numpy()


@pytest.mark.parametrize("name", ["q4_0", "q4_k", "q6_k", "int8_g64_zero"])
def test_weights_are_rounded_and_results_are_those_of_the_rounded_weights(name):
    held = format_named(name)
    new = transform.QuantizeWeights(format=name)(module())
    assert relax.analysis.well_formed(new)
    assert "relax.dequantize_blocks" in operators(new)
    table, weights = held.decode(quantize_rows(TABLE, name)), held.decode(quantize_rows(WEIGHTS.T, name)).T
    run = compiled(new)
    for count in (0, 1, 7):
        ids = np.arange(count, dtype="int64") * 5 % 20
        expected = 2 * (table[ids].astype("float64") @ weights)
        np.testing.assert_allclose(run(ids), expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(relax.interpret(new, "main", ids).numpy(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["q4_0", "q5_k", "q8_0"])
def test_activations_are_rounded_where_asked(name):
    new = relax.quantize_weights(module(), name, activations="int8", embeddings=False)
    assert operators(new) == [
        "relax.take", "relax.nn.dynamic_quantize", "relax.nn.quantized_matmul", "relax.nn.dynamic_quantize",
        "relax.nn.quantized_matmul", "relax.add",
    ]  # fmt: skip
    weights = format_named(name).decode(quantize_rows(WEIGHTS.T, name)).T
    run = compiled(new)
    for count in (0, 1, 3, 20):
        ids = np.arange(count, dtype="int64")
        expected = 2 * (TABLE[ids].astype("float64") @ weights)
        found = run(ids)
        assert not count or np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()) < 0.01
        np.testing.assert_allclose(found, relax.interpret(new, "main", ids).numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_execution_modes(mode):
    new = relax.quantize_weights(module(), "q4_1", activations="int8")
    run, default = compiled(new, mode), compiled(new)
    for count in (0, 1, 5):
        ids = np.arange(count, dtype="int64")
        np.testing.assert_array_equal(run(ids), default(ids))


def test_a_second_run_changes_nothing_more():
    for activations in ("float32", "int8"):
        new = transform.QuantizeWeights(activations=activations)(module())
        again = transform.QuantizeWeights(activations=activations)(new)
        assert relax.ir.structural_equal(new, again)


def test_weights_that_stay():
    stays = transform.BindParams("main", {"table": TABLE})(from_source(SOURCE))
    assert operators(transform.QuantizeWeights(embeddings=False)(stays)) == operators(stays)
    assert operators(transform.QuantizeWeights(format="int8_g160")(module())) == operators(module())
    few = transform.BindParams("main", {"w": WEIGHTS[:, :12].copy()})(from_source(SOURCE.replace("96", "12")))
    assert operators(transform.QuantizeWeights()(few)) == operators(few)


def test_mappings_of_arrays():
    given = {"w": np.ascontiguousarray(WEIGHTS.T), "bias": np.ones(96, "float32"), "odd": np.ones((4, 33), "float32"),
             "ids": np.ones((2, 32), "int64")}  # fmt: skip
    found = relax.quantize_weights(given, "q4_k")
    assert {name: (array.shape, str(array.dtype)) for name, array in found.items()} == {
        "w": ((96, 144), "uint8"), "bias": ((96,), "float32"), "odd": ((4, 33), "float32"), "ids": ((2, 32), "int64"),
    }  # fmt: skip


def test_names_that_no_format_has():
    with pytest.raises(ValueError, match="q9 is no block format; there are q4_0, q4_1"):
        relax.quantize_weights(module(), "q9")
    with pytest.raises(ValueError, match="activations must be float32 or int8, found int4"):
        transform.QuantizeWeights(activations="int4")(module())
    with pytest.raises(ValueError, match="rows of 40 numbers have no whole blocks of 32, as q4_0 has"):
        quantize_rows(np.zeros((2, 40), "float32"), "q4_0")
    with pytest.raises(ValueError, match="the weights have numbers that are not finite"):
        quantize_rows(np.full((2, 32), np.inf, "float32"), "q4_0")


ERRORS = {
    "q4_0": 0.085, "q4_1": 0.075, "q5_0": 0.043, "q5_1": 0.038, "q8_0": 0.0055, "q2_k": 0.30, "q3_k": 0.155,
    "q4_k": 0.078, "q5_k": 0.040, "q6_k": 0.020, "iq4_nl": 0.078, "iq4_xs": 0.080, "mxfp4": 0.12, "tq2_0": 0.45,
    "int4_g32": 0.085, "int4_g64_zero": 0.095, "int8_g32_float16": 0.0055, "int8_g32_zero": 0.0055,
}  # fmt: skip
"""Greatest root of the mean squared error of normal weights, relative to theirs."""


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_formats(name):
    weights = np.random.default_rng(1).standard_normal((64, 512)).astype("float32")
    found = format_named(name).decode(quantize_rows(weights, name))
    assert np.sqrt(np.square(found - weights).mean() / np.square(weights).mean()) < ERRORS[name]


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_one_value_and_of_extremes(name):
    held = format_named(name)
    for value in (0.0, 1.0, -2.0, 1e-20, 1e30):
        weights = np.full((1, held.elements), value, "float32")
        found = held.decode(quantize_rows(weights, name))
        assert np.isfinite(found).all()
        if abs(value) in (0, 1, 2):
            np.testing.assert_allclose(found, weights, rtol=0.26, atol=1e-7)


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_rounded_weights_changes_little(name):
    weights = np.random.default_rng(2).standard_normal((8, 256)).astype("float32")
    once = format_named(name).decode(quantize_rows(weights, name))
    twice = format_named(name).decode(quantize_rows(once, name))
    assert np.square(twice - once).mean() <= 0.25 * np.square(once - weights).mean() + 1e-9
