"""quantize: convolutions and products of float32 in int8."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relax import IRModule, relay
from relax.relay.quantize import calibrate

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((8, 3, 3, 3)).astype("float32")
DENSE = RNG.standard_normal((5, 8)).astype("float32")
NETWORK = """
def @main(%x: Tensor[(2, 3, 8, 8), float32], %w: Tensor[(8, 3, 3, 3), float32], %v: Tensor[(5, 8), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1]));
  %1 = mean(%0, axis=[2, 3]);
  nn.dense(%1, %v)
}
"""
PARAMS = {"w": WEIGHT, "v": DENSE}
X = RNG.standard_normal((2, 3, 8, 8)).astype("float32")


def quantized(text=NETWORK, params=PARAMS, dataset=({"x": X},), **settings):
    options = {"calibrate_mode": "percentile", "weight_scale": "max", "skip_conv_layers": (), **settings}
    with relay.quantize.qconfig(**options):
        return relay.quantize.quantize(relay.fromtext(text), params, dataset)


def run(mod, *args, kind="debug"):
    return relay.create_executor(kind, mod, target="llvm").evaluate()(*args).numpy()


def exact():
    return run(relay.fromtext(NETWORK), X, WEIGHT, DENSE)


def test_the_program():
    text = quantized(
        """
def @main(%x: Tensor[(4, 8), float32], %v: Tensor[(5, 8), float32]) {
  (nn.dense(%x, %v), nn.relu(%x))
}""",
        {"v": np.full((5, 8), 2, "float32")},
        None,
        calibrate_mode="global_scale",
        global_scale=127.0,
        skip_dense_layer=False,
    )
    expected = relay.fromtext(
        """
def @main(%x: Tensor[(4, 8), float32]) {
  %0 = cast(clip(round(%x * 1f), a_min=-127, a_max=127), dtype="int8");
  (cast(nn.dense(%0, %w, out_dtype="int32"), dtype="float32") * 0.015748031f, nn.relu(%x))
}""".replace("%w", 'cast(full(127f, shape=[5, 8], dtype="float32"), dtype="int8")')
    )
    assert_equal = relay.assert_alpha_equal
    assert_equal(text, relay.transform.FoldConstant()(relay.transform.InferType()(expected)))


@pytest.mark.parametrize("kind", ["debug", "vm"])
@pytest.mark.parametrize("mode", ["percentile", "kl_divergence"])
def test_results_are_close(mode, kind):
    mod = quantized(calibrate_mode=mode, skip_dense_layer=False)
    assert str(mod).count('dtype="int8"') == 2
    assert str(mod).count('out_dtype="int32"') == 2
    assert abs(run(mod, X, kind=kind) - exact()).max() < 0.03 * abs(exact()).max()


def test_a_simulation_rounds_as_the_program_of_integers():
    integers = quantized(skip_dense_layer=False)
    simulated = quantized(skip_dense_layer=False, do_simulation=True)
    assert "int8" not in str(simulated)
    np.testing.assert_allclose(run(simulated, X), run(integers, X), rtol=1e-4, atol=1e-4)
    assert abs(run(simulated, X) - exact()).max() > 1e-4


def test_what_is_beyond_the_range_is_clipped():
    mod = quantized(calibrate_mode="global_scale", global_scale=0.5, weight_scale="power2")
    mean = relay.fromtext(NETWORK)
    clipped = run(mean, np.clip(X, -0.5, 0.5), WEIGHT, DENSE)
    assert abs(run(mod, X) - clipped).max() < 0.05 * abs(clipped).max()


def test_fewer_bits_are_less_exact():
    errors = [abs(run(quantized(nbit_input=bits, nbit_weight=bits), X) - exact()).max() for bits in (8, 6, 4)]
    assert errors == sorted(errors)
    assert errors[0] < errors[2] / 4


def test_calls_that_stay():
    assert "int8" not in str(quantized(skip_conv_layers=(0,)))
    assert str(quantized()).count('out_dtype="int32"') == 1  # the dense layer is skipped
    assert "int8" not in str(quantized(params={"v": DENSE}, dataset=({"x": X, "w": WEIGHT},)))  # a weight not known
    branch = """
def @main(%x: Tensor[(2, 3, 8, 8), float32], %c: bool, %w: Tensor[(8, 3, 3, 3), float32]) {
  if (%c) { nn.conv2d(%x, %w) } else { nn.conv2d(%x, %w) + 1f }
}"""
    assert "int8" not in str(quantized(branch, {"w": WEIGHT}, ({"x": X, "c": np.bool_(1)},)))


def test_an_operand_of_two_calls_is_quantized_once():
    text = """
def @main(%x: Tensor[(2, 3, 8, 8), float32], %w: Tensor[(8, 3, 3, 3), float32]) {
  nn.conv2d(%x, %w) + nn.conv2d(%x, %w, dilation=[1, 1])
}"""
    mod = quantized(text, {"w": WEIGHT})
    assert (str(mod).count('dtype="int8"'), str(mod).count("nn.conv2d")) == (1, 2)


def test_batch_norm_is_folded_before():
    text = """
def @main(%x: Tensor[(2, 3, 8, 8), float32], %w: Tensor[(8, 3, 3, 3), float32], %g: Tensor[(8), float32],
          %b: Tensor[(8), float32], %m: Tensor[(8), float32], %s: Tensor[(8), float32]) {
  nn.batch_norm(nn.conv2d(%x, %w), %g, %b, %m, %s).0
}"""
    scales = {name: RNG.random(8).astype("float32") + 0.5 for name in "gbms"}
    mod = quantized(text, {"w": WEIGHT, **scales})
    expected = run(relay.fromtext(text), X, WEIGHT, *scales.values())
    assert abs(run(mod, X) - expected).max() < 0.03 * abs(expected).max()


def test_an_operand_of_zeros_and_one_that_is_not_finite():
    zeros = quantized(dataset=({"x": np.zeros_like(X)},))
    assert (run(zeros, np.zeros_like(X)) == 0).all()
    wild = X.copy()
    wild[0, 0, 0, :2] = np.inf, np.nan
    mod = quantized(dataset=({"x": wild},))
    assert abs(run(mod, X) - exact()).max() < 0.03 * abs(exact()).max()


@pytest.mark.parametrize("find", [calibrate.threshold_by_kl, calibrate.threshold_by_percentile])
def test_thresholds(find):
    """Of a normal distribution, and one lonely element far out."""
    values = np.append(RNG.standard_normal(200_000), 100.0).astype("float32")
    (histogram,) = calibrate.histograms(lambda: [[values]], 1)
    assert histogram.largest == 100.0
    assert 2.0 < find(histogram) < 9.0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"nbit_input": 16}, "nbit_input is a number of bits from 2 to 8; found 16"),
        ({"dtype_input": "uint8"}, "dtype_input is \"int8\"; found 'uint8'"),
        ({"calibrate_mode": "min"}, "calibrate_mode is one of global_scale, kl_divergence, percentile; found 'min'"),
        ({"weight_scale": "max2"}, "weight_scale is one of power2, max; found 'max2'"),
        ({"global_scale": 0.0}, "global_scale is a positive number; found 0.0"),
    ],
)
def test_settings_that_have_no_meaning(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape('qconfig: ' + message)}$"):
        relay.quantize.qconfig(**settings)


def test_settings_are_in_force_inside():
    assert relay.quantize.current_qconfig().global_scale == 8.0
    with relay.quantize.qconfig(global_scale=2.0) as outer:
        with relay.quantize.qconfig(global_scale=3.0):
            assert relay.quantize.current_qconfig().global_scale == 3.0
        assert relay.quantize.current_qconfig() is outer
    assert relay.quantize.current_qconfig() == relay.quantize.QConfig()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dataset": None}, 'quantize: calibrate_mode "percentile" needs a dataset'),
        ({"dataset": ()}, "quantize: the dataset has no batch"),
        ({"dataset": ({"y": X},)}, "quantize: a batch of the dataset has no x"),
        ({"params": {"q": X}}, "quantize: main has no parameter named 'q'"),
    ],
)
def test_arguments_that_are_missing(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantized(**options)


def test_a_function_is_a_module():
    function = relay.fromtext(NETWORK)["main"]
    with relay.quantize.qconfig(skip_conv_layers=()):
        mod = relay.quantize.quantize(function, PARAMS)
    assert isinstance(mod, IRModule)
    assert "int8" in str(mod)
