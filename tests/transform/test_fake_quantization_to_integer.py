"""FakeQuantizationToInteger: products of dequantised data and weights become products of integers."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import IRModule
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import FakeQuantizationToInteger
from support import PLAIN_LOOPS


def test_a_product(check):
    """Zero points leave the sum: (q - 3)(W - z) = q (W - z) - 3 Σ(W - z)."""

    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor(("n", 2), "uint8")):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "uint8"))
                w = R.dequantize(
                    R.const([[3, -100, 0], [-1, 27, 5]], "int8"), R.const([0.5, 1.0, 2.0]), R.const([0, 0, 1], "int8")
                )  # fmt: skip
                gv = R.matmul(x, w)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor(("n", 2), "uint8")):
            with R.dataflow():
                lv = R.matmul(q, R.const([[3, -100, -1], [-1, 27, 4]], "int8"), out_dtype="int32")
                lv1 = R.subtract(lv, R.const([[6, -219, 9]], "int32"))
                lv2 = R.astype(lv1, "float32")
                gv = R.multiply(lv2, R.const([[0.25, 0.5, 1.0]]))
                R.output(gv)
            return gv

    check(FakeQuantizationToInteger(), Before, Expected)


def test_a_convolution_with_padding(check):
    """What is padded stands for 0, which is the zero point."""

    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((1, 1, "h", 4), "uint8")):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "uint8"))
                w = R.dequantize(R.const([[[[1, 2, -3]]], [[[4, 5, 6]]]], "int8"), R.const(0.25), R.const(0, "int8"))
                gv = R.nn.conv2d(x, w, padding=(0, 1, 0, 1))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor((1, 1, "h", 4), "uint8")):
            with R.dataflow():
                lv = R.nn.pad(q, (0, 0, 0, 0, 0, 0, 1, 1), pad_value=3)
                lv1 = R.nn.conv2d(
                    lv, R.const([[[[1, 2, -3]]], [[[4, 5, 6]]]], "int8"), padding=(0, 0, 0, 0), out_dtype="int32"
                )
                lv2 = R.subtract(lv1, R.const([[[[0]], [[45]]]], "int32"))
                lv3 = R.astype(lv2, "float32")
                gv = R.multiply(lv3, R.const(0.125))
                R.output(gv)
            return gv

    check(FakeQuantizationToInteger(), Before, Expected)


def test_what_is_moved_between(check):
    """Data are reshaped as integers, weights transposed; a zero point of 0 leaves nothing to subtract."""

    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor(("n", 2, 1), "int8")):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(0, "int8"))
                flat = R.reshape(x, (-1, 2))
                w = R.dequantize(
                    R.const([[3, -100], [-1, 27]], "int8"), R.const([0.5, 1.0]), R.const(0, "int8"), axis=0
                )
                t = R.permute_dims(w)
                gv = R.matmul(flat, t)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor(("n", 2, 1), "int8")):
            with R.dataflow():
                lv = R.reshape(q, (-1, 2))
                lv1 = R.matmul(lv, R.const([[3, -1], [-100, 27]], "int8"), out_dtype="int32")
                lv2 = R.astype(lv1, "float32")
                gv = R.multiply(lv2, R.const([[0.25, 0.5]]))
                R.output(gv)
            return gv

    after = FakeQuantizationToInteger()(Before)
    relax.ir.assert_structural_equal(relax.transform.DeadCodeElimination()(after), Expected)
    assert FakeQuantizationToInteger()(after) is after


def table(mode: str) -> str:
    """Rows of a quantised table, as floats."""
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(i: R.Tensor(("n", 2), "int64")):
        with R.dataflow():
            x = R.dequantize(R.const([[3, 200], [1, 27], [255, 0]], "uint8"), R.const(0.3), R.const(7, "uint8"))
            gv = R.take(x, i, axis=0, mode="{mode}")
            R.output(gv)
        return gv
"""


@pytest.mark.parametrize("mode", ["fast", "clip", "wrap"])
def test_rows_of_a_table_are_taken_as_bytes(mode):
    before = from_source(table(mode))
    after = relax.transform.DeadCodeElimination()(FakeQuantizationToInteger()(before))
    lines = after.script().splitlines()
    taken, dequantized = (
        next(n for n, line in enumerate(lines) if f"R.{op}(" in line) for op in ("take", "dequantize")
    )
    assert taken < dequantized
    machines = [relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu()) for mod in (after, before)]
    expected = ((np.array([[3, 200], [1, 27], [255, 0]]) - 7).astype("float32") * np.float32(0.3)).astype("float32")
    for n in (0, 1, 5):
        indices = np.arange(2 * n).reshape(n, 2) % 3
        for machine in machines:
            actual = machine["main"](relax.nd.array(indices)).numpy()
            np.testing.assert_array_equal(actual, expected[indices])


def test_rows_that_may_be_nan_are_taken_as_floats():
    before = from_source(table("nan"))
    assert FakeQuantizationToInteger()(before) is before


PRODUCT = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("n", 2), "uint8"), s: R.Tensor((), "float32")):
        with R.dataflow():
            x = R.dequantize(q, SCALE, R.const(3, "uint8"))
            w = R.dequantize(WEIGHTS)
            gv = R.matmul(x, w)
            R.output(gv)
        return gv
"""
PLAIN = 'R.const([[3, -100], [-1, 27]], "int8"), R.const(0.5), R.const(0, "int8")'


@pytest.mark.parametrize(
    ("scale", "weights"),
    [
        pytest.param("s", PLAIN, id="a scale that is known when the program runs"),
        pytest.param("R.const([0.5, 0.25])", PLAIN, id="data with a scale for each term"),
        pytest.param("R.const(float('inf'))", PLAIN, id="no finite scale"),
        pytest.param("R.const(1e-30)", PLAIN.replace("0.5", "1e-15"), id="digits of the scale would be lost"),
        pytest.param("R.const(1e20)", PLAIN.replace("0.5", "1e15"), id="results might be too large"),
        pytest.param("R.const(0.5)", PLAIN.replace("0.5", "[0.5, 1.0]") + ", axis=0", id="weights with a scale for each term"),
        pytest.param("R.const(0.5)", PLAIN.replace('0, "int8"', '100, "int8"'), id="weights that int8 does not hold"),
        pytest.param("R.const(0.5)", PLAIN.replace('"int8"', '"int32"', 1), id="wide weights"),
    ],
)  # fmt: skip
def test_declines(check, scale, weights):
    check(FakeQuantizationToInteger(), from_source(PRODUCT.replace("SCALE", scale).replace("WEIGHTS", weights)))


def product(terms: int) -> IRModule:
    """A row of `terms` bytes times as many 127s."""
    bb = relax.BlockBuilder()
    q = relax.Var("q", R.Tensor((1, terms), "uint8"))
    with bb.function("main", [q]):
        with bb.dataflow():
            x = bb.emit(R.dequantize(q, R.const(0.5), R.const(0, "uint8")))
            w = bb.emit(R.dequantize(R.const(np.full((terms, 1), 127, "int8")), R.const(0.5), R.const(0, "int8")))
            y = bb.emit_output(R.matmul(x, w))
        bb.emit_func_output(y)
    return bb.get()


@pytest.mark.parametrize("zero", ["R.const(0.5)", 'R.const(-1, "int32")', 'R.const(1000, "int32")'])
def test_zero_points_that_are_no_bytes_of_the_data_stay(check, zero):
    text = PRODUCT.replace("SCALE", "R.const(0.5)").replace("WEIGHTS", PLAIN)
    check(FakeQuantizationToInteger(), from_source(text.replace('R.const(3, "uint8")', zero)))


def test_sums_that_int32_might_not_hold_stay(check):
    most = (2**31 - 1) // (255 * 127)
    check(FakeQuantizationToInteger(), product(most + 1))
    assert "int32" in FakeQuantizationToInteger()(product(most)).script()


FACTORS = (np.float32([0.1, 0.7]) * np.float32(0.3)).astype("float32")
DEPTHWISE = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("n", 2, "h", 5), "uint8")):
        with R.dataflow():
            x = R.dequantize(q, R.const(0.3), R.const(ZERO, "uint8"))
            w = R.dequantize(
                R.const([[[[1, -2, 127]]], [[[4, 5, -128]]]], "int8"), R.const([0.1, 0.7]), R.const(0, "int8"), axis=0
            )
            y = R.nn.conv2d(x, w, groups=2, padding=(0, 1, 0, 1))
            z = R.add(y, R.dequantize(R.const([[[BIAS]], [[-700]]], "int32"), R.const(SCALES), R.const(0, "int32"), axis=0))
            gv = R.quantize(z, R.const(4.7), R.const(7, "uint8"), out_dtype="uint8")
            R.output(gv)
        return gv
"""


@pytest.mark.parametrize("zero", [0, 9])
@pytest.mark.parametrize("bias", [50, 2**24])
def test_depthwise_convolutions_add_up_integers_as_floats(zero, bias):
    """float32 has all sums, so that they are those of integers; with a bias that is too large, biases are floats."""
    text = DEPTHWISE.replace("ZERO", str(zero)).replace("BIAS", str(bias)).replace("SCALES", str(FACTORS.tolist()))
    module = from_source(text)
    script = relax.transform.DeadCodeElimination()(FakeQuantizationToInteger()(module)).script()
    assert ("R.subtract(" in script) == bool(zero)
    assert "R.dequantize" not in script
    assert 'out_dtype="int32"' not in script
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    weights, rng = np.array([[1, -2, 127], [4, 5, -128]]), np.random.default_rng(8)
    for n, h in [(1, 1), (0, 3), (2, 0), (3, 17)]:
        q = rng.integers(0, 256, (n, 2, h, 5)).astype("uint8")
        padded = np.pad(q.astype("int64") - zero, ((0, 0), (0, 0), (0, 0), (1, 1)))
        sums = sum(padded[..., i : i + 5] * weights[:, i].reshape(2, 1, 1) for i in range(3))
        factors = (FACTORS / np.float32(4.7)).reshape(2, 1, 1)
        biases = np.array([bias, -700]).reshape(2, 1, 1)
        scaled = (sums + biases).astype("float32") * factors
        if bias > 50:
            floats = (biases.astype("float32") * FACTORS.reshape(2, 1, 1)) / np.float32(4.7)
            scaled = sums.astype("float32") * factors + floats
        np.testing.assert_array_equal(machine["main"](q).numpy(), np.clip(np.rint(scaled) + 7, 0, 255))


def pooled(attributes: str, scale: float = 0.3, again: float = 0.3) -> str:
    """The greatest numbers of windows of quantised data, quantised again."""
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("n", 2, "h", 5), "uint8")):
        with R.dataflow():
            x = R.dequantize(q, R.const({scale}), R.const(7, "uint8"))
            y = R.nn.max_pool2d(x, {attributes})
            gv = R.quantize(y, R.const({again}), R.const(7, "uint8"), out_dtype="uint8")
            R.output(gv)
        return gv
"""


def test_the_greatest_numbers_are_those_of_the_integers():
    module = from_source(pooled("pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)"))
    after = relax.transform.DeadCodeElimination()(FakeQuantizationToInteger()(module))
    assert "quantize" not in after.script()
    assert FakeQuantizationToInteger()(after) is after
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    rng = np.random.default_rng(3)
    for n, h in [(1, 1), (2, 4), (0, 3), (1, 0), (1, 9)]:
        q = rng.integers(0, 256, (n, 2, h, 5), "uint8")
        np.testing.assert_array_equal(machine["main"](q).numpy(), relax.interpret(module, "main", q).numpy())


@pytest.mark.parametrize(
    ("attributes", "scale", "again"),
    [
        ("pool_size=(2, 2), padding=(1, 1, 1, 1)", 0.3, 0.3),  # windows without data, if there are no rows
        ("pool_size=(2, 2), strides=(2, 2), dilation=(2, 1), padding=(1, 0, 0, 0)", 0.3, 0.3),
        ("pool_size=(3, 3), strides=(2, 2), ceil_mode=True", 0.3, 0.3),
        ("pool_size=(2, 2)", -0.3, -0.3),
    ],
)
def test_the_greatest_floats_are_computed(attributes, scale, again):
    after = FakeQuantizationToInteger()(from_source(pooled(attributes, scale, again)))
    assert after.script().index("dequantize") < after.script().index("max_pool2d")


def test_another_scale_quantises_again():
    """Of the integers that are known to come back nothing is computed; one that does not is enough to compute all."""
    script = relax.transform.DeadCodeElimination()(
        FakeQuantizationToInteger()(from_source(pooled("pool_size=(1, 1)", 0.3, 0.3015)))
    ).script()
    assert "R.quantize" in script
    assert script.index("max_pool2d") < script.index("R.dequantize")


QUANTISED = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3, "h", 5), "float32")):
        with R.dataflow():
            q = R.quantize(x, R.const(0.0625), R.const(ZERO, "uint8"), out_dtype="uint8")
            d = R.dequantize(q, R.const(0.0625), R.const(ZERO, "uint8"))
            w = R.dequantize(R.const(WEIGHTS, "int8"), R.const([0.5, 0.25]), R.const([0, 3], "int8"), axis=0)
            y = R.nn.conv2d(d, w, strides=(2, 1), padding=(1, 2, 1, 0))
            z = R.nn.relu(R.add(y, R.const([[[0.75]], [[-2.5]]])))
            p = R.quantize(z, R.const(4.0), R.const(7, "uint8"), out_dtype="uint8")
            R.output(y, p)
        return (y, p)
"""


@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_programs_give_what_they_gave(zero, mode):
    """Scales are powers of two, so that the floats are exact as well: every bit is as before."""
    weights = np.random.default_rng(1).integers(-100, 101, (2, 3, 3, 3))
    module = from_source(QUANTISED.replace("ZERO", str(zero)).replace("WEIGHTS", str(weights.tolist())))
    assert 'out_dtype="int32"' in FakeQuantizationToInteger()(module).script()
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    rng = np.random.default_rng(2)
    for n, h in [(1, 4), (2, 1), (0, 3), (3, 8)]:
        x = (rng.standard_normal((n, 3, h, 5)) * 6).astype("float32")
        x.reshape(-1)[:3] = [np.nan, np.inf, -np.inf][: x.size]
        found, expected = machine["main"](x), relax.interpret(module, "main", x)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


REQUANTISED = """
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor(("n", 2), "uint8")):
        with R.dataflow():
            x = R.dequantize(q, R.const(0.3), R.const(3, "uint8"))
            w = R.dequantize(R.const([[3, -100], [-1, 27]], "int8"), R.const([0.1, 0.7]), R.const(0, "int8"))
            y = R.matmul(x, w)
            b = BIAS
            z = R.add(y, b)
            gv = R.quantize(z, R.const(SCALE), R.const(7, "uint8"), out_dtype="uint8")
            R.output(gv)
        return gv
"""
BIAS = (
    f"R.reshape(R.dequantize(R.const([50, -700], 'int32'), R.const({FACTORS.tolist()}), R.const(0, 'int32')), (1, 2))"
)


def bytes_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, 2)).astype("uint8")


def totals(q: np.ndarray) -> np.ndarray:
    return (q.astype("int64") - 3) @ np.array([[3, -100], [-1, 27]])


@pytest.mark.parametrize("relu", [False, True])
def test_products_that_are_quantised_again_are_multiplied_once(relu):
    """Biases are integers times the factor, so they are added as integers; the factor is that over the new scale."""
    text = REQUANTISED.replace("BIAS", BIAS).replace("SCALE", "4.7")
    module = from_source(text.replace("R.add(y, b)", "R.nn.relu(R.add(y, b))") if relu else text)
    script = relax.transform.DeadCodeElimination()(FakeQuantizationToInteger()(module)).script()
    assert script.count("R.add(") == 1
    assert "R.dequantize" not in script
    assert "R.subtract" not in script
    assert FakeQuantizationToInteger()(FakeQuantizationToInteger()(module)).script().count("R.add(") == 1
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    for n in (0, 1, 7, 1000):
        q = bytes_of(n)
        sums = (totals(q) + np.array([50, -700])).astype("float32") * (FACTORS / np.float32(4.7))
        expected = np.clip(np.rint(np.maximum(sums, 0) if relu else sums) + 7, 0, 255)
        np.testing.assert_array_equal(machine["main"](q).numpy(), expected)


@pytest.mark.parametrize("bias", ["R.const([0.31, -7.77])", "R.const(0.123)", f"R.const([1e9, {FACTORS[1]}])"])
def test_biases_that_are_no_integers_times_the_factor_are_divided(bias):
    module = from_source(REQUANTISED.replace("BIAS", bias).replace("SCALE", "4.7"))
    assert "R.const(1.0, " in FakeQuantizationToInteger()(module).script()
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    q, number = bytes_of(1000), np.asarray(eval(bias.removeprefix("R.const")), "float32")
    sums = totals(q).astype("float32") * (FACTORS / np.float32(4.7)) + number / np.float32(4.7)
    np.testing.assert_array_equal(machine["main"](q).numpy(), np.clip(np.rint(sums) + 7, 0, 255))


@pytest.mark.parametrize(
    ("bias", "scale", "old", "new"),
    [
        (BIAS, "4.7", "R.output(gv)\n        return gv", "R.output(gv, y)\n        return gv, y"),
        (BIAS, "4.7", "R.output(gv)\n        return gv", "R.output(gv, z)\n        return gv, z"),
        (BIAS, "[4.7, 0.1]", "", ""),
        (BIAS, "float('inf')", "", ""),
        (BIAS, "-4.7", "", ""),
        (BIAS, "1e-39", "", ""),
        ("R.const([[1.0, 2.0], [3.0, 4.0]])", "4.7", '("n", 2)', "(2, 2)"),
        ("R.const([[[0.0]], [[0.0]]])", "4.7", "", ""),
        ("y", "4.7", "", ""),
    ],
)
def test_what_is_quantised_as_a_float(bias, scale, old, new):
    """Floats that something else reads, scales that are not single or not usable, biases of other shapes."""
    text = REQUANTISED.replace("BIAS", bias).replace("SCALE", scale)
    after = FakeQuantizationToInteger()(from_source(text.replace(old, new)))
    assert 'out_dtype="int32"' in after.script()
    assert "R.const(1.0, " not in after.script()


@pytest.mark.parametrize(
    "call",
    [
        'R.nn.conv2d(x, w, kernel_layout="OIHW2o", out_layout="NCHW2c")',
        'R.nn.max_pool2d(x, (1, 1), out_layout="NCHW2c")',  # its third channel fills a part: 0, not the zero point
    ],
)
def test_packed_layouts_stay_floats(check, call):
    mod = from_source(f"""
from relax.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main(q: R.Tensor((1, 3, 4, 4), "uint8")):
        with R.dataflow():
            x = R.dequantize(q, R.const(0.5), R.const(3, "uint8"))
            w = R.dequantize(R.const(WEIGHTS), R.const(0.25), R.const(0, "int8"))
            gv = {call}
            R.output(gv)
        return gv
""", {"WEIGHTS": np.ones((1, 3, 1, 1, 2), "int8")})  # fmt: skip
    check(FakeQuantizationToInteger(), mod)
