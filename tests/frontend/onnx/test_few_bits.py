"""Weights of 2, 4 or 8 bits with a scale for each block, compared with ONNX Runtime and with exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from models.graph import Graph

import relax
from relax.frontend.onnx import from_onnx
from relax.frontend.onnx.operators import blocks

MS = "com.microsoft"


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers (…, n) in the bytes of the last dimension, the first of a byte in its low bits."""
    each = 8 // bits
    whole = np.zeros((*numbers.shape[:-1], -(-numbers.shape[-1] // each) * each), np.uint8)
    whole[..., : numbers.shape[-1]] = numbers
    split = whole.reshape(*numbers.shape[:-1], -1, each)
    return np.bitwise_or.reduce(split << np.arange(0, 8, bits, dtype=np.uint8), axis=-1)


def built(mod: relax.IRModule) -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())


def of_onnxruntime(model: onnx.ModelProto, **inputs: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


# ------------------------------------------------------------------------------------- MatMulNBits


@dataclass
class Case:
    """A product by random weights: the model, and the weights as float64 (depth, columns)."""

    model: onnx.ModelProto
    weights: np.ndarray
    depth: int

    def data(self, rows: int, dtype: str = "float32") -> np.ndarray:
        return np.random.default_rng(rows).standard_normal((rows, self.depth)).astype(dtype)


def case(
    bits: int, block: int, depth: int, columns: int = 7, level: int = 0, zeros: str = "", dtype: str = "float32",
    order: np.ndarray | None = None, bias: bool = False,
) -> Case:  # fmt: skip
    """`zeros`: "" for none, "packed", "floats" or "whole" for floats that are integers."""
    rng = np.random.default_rng(bits + block + depth)
    count = -(-depth // block)
    numbers = rng.integers(0, 1 << bits, (columns, count, block))
    scales = (rng.standard_normal((columns, count)) / (1 << bits)).astype(dtype)
    g = Graph("bits")
    x = g.input("x", dtype, "m", depth)
    parts = [g.parameter(packed(numbers, bits)), g.parameter(scales)]
    points: np.ndarray = np.full((columns, count), 1 << (bits - 1))
    if zeros:
        points = rng.integers(0, 1 << bits, (columns, count))
        if zeros == "floats":
            points = (rng.random((columns, count)) * ((1 << bits) - 1)).astype(dtype)
        parts.append(g.parameter(packed(points, bits) if zeros == "packed" else points.astype(dtype)))
    else:
        parts.append(None)
    own = np.arange(depth) // block if order is None else order
    parts.append(None if order is None else g.parameter(order.astype("int32")))
    added = rng.standard_normal(columns).astype(dtype)
    parts.append(g.parameter(added) if bias else None)
    y = g.MatMulNBits(
        x, *parts, domain=MS, K=depth, N=columns, bits=bits, block_size=block, accuracy_level=level
    )  # fmt: skip
    flat = numbers.reshape(columns, -1)[:, :depth]
    weights = (flat - points[:, own].astype("float64")) * scales[:, own].astype("float64")
    return Case(g.model(y=(y, dtype, "m", columns)), weights.T, depth)


@pytest.mark.parametrize("zeros", ["", "packed", "floats", "whole"])
@pytest.mark.parametrize(("block", "depth"), [(16, 48), (16, 40), (32, 96), (128, 200), (256, 256)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_of_floats(bits, block, depth, zeros):
    """Level 0: the sums of float32 products; the last block need not be whole."""
    held = case(bits, block, depth, zeros=zeros)
    vm = built(from_onnx(held.model))
    for rows in (1, 3):
        x = held.data(rows)
        found = vm["main"](relax.nd.array(x)).numpy()
        np.testing.assert_allclose(found, x.astype("float64") @ held.weights, 1e-4, 1e-4)
        if bits != 8 or zeros in ("", "packed"):  # others are rejected by ONNX Runtime
            np.testing.assert_allclose(found, of_onnxruntime(held.model, x=x), 1e-4, 1e-4)


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize(("block", "depth"), [(32, 96), (32, 80), (64, 128), (256, 300)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_level_4_rounds_activations_to_bytes(bits, block, depth, zeros):
    """Each activation is within half a step of its block: its greatest magnitude / 254."""
    held = case(bits, block, depth, level=4, zeros=zeros, bias=True)
    mod = from_onnx(held.model)
    assert "R.nn.quantized_matmul(" in mod.script()
    vm, exact = built(mod), case(bits, block, depth, zeros=zeros)
    np.testing.assert_array_equal(exact.weights, held.weights)
    bias = of_onnxruntime(held.model, x=np.zeros((1, depth), "float32"))
    for rows in (1, 3):
        x = held.data(rows)
        whole = np.zeros((rows, -(-depth // block) * block), "float32")
        whole[:, :depth] = np.abs(x)
        steps = whole.reshape(rows, -1, block).max(-1).repeat(block, axis=1)[:, :depth] / 254
        bound = steps.astype("float64") @ np.abs(held.weights)
        found = vm["main"](relax.nd.array(x)).numpy()
        error = np.abs(found - (x.astype("float64") @ held.weights + bias))
        assert (error <= bound * (1 + 1e-3) + 1e-4).all()
        assert (error > 1e-5).any()  # they are rounded
        other = np.abs(found - of_onnxruntime(held.model, x=x))
        # ONNX Runtime 1.32 rounds otherwise for weights of 2 bits in blocks of 256, within the same bound.
        assert (other <= (2 * bound + 1e-4 if (bits, block) == (2, 256) else 1e-4)).all()


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", ["", "packed"])
def test_products_of_float16(level, zeros):
    held = case(4, 32, 96, level=level, zeros=zeros, dtype="float16")
    mod = from_onnx(held.model)
    assert ("int4_g32_zero_float16" if zeros else "int4_g32_float16") in mod.script()
    x = held.data(3, "float16")
    found = built(mod)["main"](relax.nd.array(x)).numpy()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, of_onnxruntime(held.model, x=x), 1e-3, 1e-3)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("depth", [96, 80])
def test_columns_in_another_order(depth, zeros, level):
    """`g_idx` has the block of each column. ONNX Runtime 1.32 reads other zero points with it than it says."""
    order = np.random.default_rng(0).permutation(np.arange(depth) // 32)
    held = case(4, 32, depth, level=level, zeros=zeros, order=order)
    mod = from_onnx(held.model)
    assert "int4_g32" in mod.script()
    x = held.data(3)
    found = built(mod)["main"](relax.nd.array(x)).numpy()
    tolerance = 1e-4 if level == 0 else 0.1
    np.testing.assert_allclose(found, x.astype("float64") @ held.weights, tolerance, tolerance)
    if not zeros:
        np.testing.assert_allclose(found, of_onnxruntime(held.model, x=x), tolerance, tolerance)


def test_blocks_in_their_order_need_no_gather():
    held = case(4, 32, 96, order=np.arange(96) // 32)
    assert "R.take(" not in from_onnx(held.model).script()


@pytest.mark.parametrize("bits", [4, 8])
def test_constants_have_as_many_bytes_as_the_model(bits):
    """Nothing is expanded when a model is imported: blocks hold scales, numbers and zero points."""
    columns, depth, block = 64, 1024, 32
    for level in (0, 4):
        mod = from_onnx(case(bits, block, depth, columns, level, "packed").model)
        sizes: list[int] = []

        def visit(node: relax.RelaxExpr, sizes: list[int] = sizes) -> None:
            if isinstance(node, relax.Constant):
                sizes.append(node.data.numpy().nbytes)

        relax.analysis.post_order_visit(mod["main"], visit)
        assert sum(sizes) == columns * depth // block * (block * bits // 8 + 4 + 1)


@pytest.mark.parametrize(
    ("bits", "block", "zeros", "dtype"),
    [
        (4, 32, "", "int4"),
        (4, 32, "packed", "uint4"),
        (8, 32, "", "int8"),
        (4, 16, "packed", "uint4"),
        (2, 32, "", "int4"),
    ],
)
@pytest.mark.parametrize("depth", [1024, 1000])
def test_many_weights_stay_narrow(bits, block, zeros, dtype, depth):
    held = case(bits, block, depth, 300, zeros=zeros)
    mod = from_onnx(held.model)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    for rows in (1, 3, 20):
        x = held.data(rows)
        found = vm["main"](relax.nd.array(x)).numpy()
        np.testing.assert_allclose(found, x.astype("float64") @ held.weights, 1e-3, 1e-3)
    narrow = relax.transform.DequantizeInProducts()(mod).script(show_meta=True)
    assert f'"{dtype}"' in narrow
    assert "R.matmul(" not in narrow


@pytest.mark.parametrize("zeros", ["", "packed"])
def test_rows_are_arranged_some_at_a_time(monkeypatch, zeros):
    """The memory that an import takes meanwhile is bounded: here, two rows of seven."""
    held = case(4, 32, 96, zeros=zeros)
    whole = from_onnx(held.model)
    monkeypatch.setattr(blocks, "AT_ONCE", 200)
    relax.ir.assert_structural_equal(from_onnx(held.model), whole)


def test_a_projection_that_is_left_out():
    g = Graph("bits")
    x = g.input("x", "float32", "m", 64)
    empty, none = np.zeros((8, 0, 16), np.uint8), np.zeros((8, 0), np.float32)
    bias = np.arange(8, dtype="float32")
    y = g.MatMulNBits(
        x, g.parameter(empty), g.parameter(none), None, None, g.parameter(bias), domain=MS, K=64, N=8, bits=4,
        block_size=32,
    )  # fmt: skip
    model = g.model(y=(y, "float32", "m", 8))
    found = built(from_onnx(model))["main"](relax.nd.array(np.ones((2, 64), "float32"))).numpy()
    np.testing.assert_array_equal(found, np.broadcast_to(bias, (2, 8)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 3}, "weights of other than 2, 4 or 8 bits, or prepacked for a device is not supported"),
        ({"weight_prepacked": 1}, "prepacked for a device is not supported"),
        ({"N": 6}, "B must hold 288 bytes, found 336 elements of uint8"),
        ({"scales": np.zeros((7, 2), "float32")}, "scales must hold 21 numbers, found 14"),
        ({"zeros": np.zeros((7, 1), "uint8")}, "zero_points holds 7 bytes for 7 rows of 3 blocks"),
        ({"zeros": np.zeros((7, 2), "float32")}, "zero_points must hold 21 numbers, found 14"),
        ({"order": np.zeros(95, "int32")}, "g_idx must hold 96 integers, found 95 of int32"),
        ({"order": np.arange(96, dtype="int32")}, "g_idx must name blocks from 0 to 2, found 0 to 95"),
        ({"order": np.zeros(96, "int32")}, "g_idx with more than 32 columns in a block is not supported"),
    ],
)
def test_products_that_are_rejected(change, message):
    g = Graph("bits")
    x = g.input("x", "float32", "m", 96)
    inputs = {
        "numbers": np.zeros((7, 3, 16), np.uint8), "scales": np.ones((7, 3), np.float32), "zeros": None, "order": None,
    }  # fmt: skip
    attributes = {"K": 96, "N": 7, "bits": 4, "block_size": 32}
    for key, value in change.items():
        (inputs if key in inputs else attributes)[key] = value
    parts = [None if value is None else g.parameter(value) for value in inputs.values()]
    y = g.MatMulNBits(x, *parts, domain=MS, **attributes)
    with pytest.raises(relax.DiagnosticError) as raised:
        from_onnx(g.model(y=(y, "float32", "m", 7)))
    assert message in str(raised.value)


# ------------------------------------------------------------------------------------- GatherBlockQuantized


@dataclass
class Table:
    """A quantised table: the model that gathers from it, and its numbers as the dtype of the scales."""

    model: onnx.ModelProto
    values: np.ndarray


def table(
    dtype: str, bits: int, block: int, shape: tuple[int, ...], axes: tuple[int, int], zeros: bool, out: str = "float32"
) -> Table:
    """`axes`: the axis of the gather, and that of the blocks."""
    rng = np.random.default_rng(block + bits)
    along, blocked = axes
    least, most = {"uint8": (0, 1 << bits), "uint4": (0, 16), "int4": (-8, 8)}[dtype]
    sizes = [-(-size // block) if axis == blocked else size for axis, size in enumerate(shape)]
    numbers = rng.integers(least, most, shape)
    scales = rng.standard_normal(sizes).astype(out)
    points = rng.integers(least, most, sizes) if zeros else np.full(sizes, 1 << (bits - 1) if dtype == "uint8" else 0)

    def stored(array: np.ndarray) -> np.ndarray:
        return packed(array, bits) if dtype == "uint8" else array.astype(relax.DataType(dtype).numpy())

    g = Graph("table")
    indices = g.input("i", "int64", "a", "b")
    parts = [g.parameter(scales), g.parameter(stored(points)) if zeros else None]
    y = g.GatherBlockQuantized(
        g.parameter(stored(numbers)), indices, *parts, domain=MS, bits=bits, block_size=block, gather_axis=along,
        quantize_axis=blocked,
    )  # fmt: skip

    def spread(array: np.ndarray) -> np.ndarray:
        return array.repeat(block, blocked).take(np.arange(shape[blocked]), blocked)

    values = ((numbers - spread(points)).astype("float32") * spread(scales).astype("float32")).astype(out)
    names = [f"d{axis}" for axis in range(len(shape) - 1)]
    result = [*names[:along], "a", "b", *names[along:]]
    return Table(g.model(y=(y, out, *result)), values)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("dtype", "bits", "block", "shape", "axes", "out"),
    [
        ("uint8", 4, 32, (10, 64), (0, 1), "float32"),
        ("uint8", 4, 32, (10, 96), (0, -1), "float16"),
        ("uint8", 2, 32, (10, 64), (0, 1), "float32"),
        ("uint8", 8, 64, (10, 64), (0, 1), "float32"),
        ("int4", 4, 32, (10, 64), (0, 1), "float32"),
        ("uint4", 4, 32, (10, 64), (0, 1), "float16"),
        ("uint8", 4, 16, (10, 48), (0, 1), "float32"),  # no block format has these: of 16, of other axes
        ("uint8", 8, 16, (10, 32), (0, 1), "float16"),
        ("uint8", 4, 32, (10, 72), (0, 1), "float32"),
        ("int4", 4, 16, (64, 10), (1, 0), "float32"),
        ("uint4", 4, 16, (5, 64, 10), (2, 1), "float32"),
    ],
)
def test_rows_of_tables(dtype, bits, block, shape, axes, out, zeros):
    """Rows are gathered as they are stored, and dequantised exactly; an index out of range gives zeros."""
    along, blocked = axes[0], axes[1] % len(shape)
    held = table(dtype, bits, block, shape, (along, blocked), zeros, out)
    mod = from_onnx(held.model)
    is_format = block % 32 == 0 and shape[blocked] % block == 0
    assert ("R.nn.quantized_take(" in mod.script()) == is_format
    vm, size = built(mod), shape[along]
    for indices in (np.array([[0, -1, 2], [1, -size, size - 1]]), np.array([[size, -size - 1]]), np.zeros((0, 2), int)):
        found = vm["main"](relax.nd.array(indices)).numpy()
        inside = (indices >= -size) & (indices < size)
        expected = held.values.take(np.where(inside, indices, 0), along)
        mask = inside.reshape([1] * along + list(inside.shape) + [1] * (len(shape) - 1 - along))
        np.testing.assert_array_equal(found, np.where(mask, expected, 0))
        np.testing.assert_array_equal(found, of_onnxruntime(held.model, i=indices))
        assert found.dtype == out


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_table_that_is_the_weights_of_a_product_too(tmp_path, level, in_file):
    """Language models share them: the look-up reads them by Reshape. They are one constant, also if a file has them."""
    rng, (rows, depth) = np.random.default_rng(0), (600, 4096)
    g = Graph("tied")
    indices = g.input("i", "int64", "n")
    numbers = g.parameter(rng.integers(0, 256, (rows, depth // 32, 16), dtype=np.uint8))
    scales = g.parameter(rng.random((rows, depth // 32)).astype("float32"))
    table = g.Reshape(numbers, np.array([rows, depth // 2]))
    x = g.GatherBlockQuantized(table, indices, scales, domain=MS, bits=4, block_size=32)
    y = g.MatMulNBits(x, numbers, scales, domain=MS, K=depth, N=rows, bits=4, block_size=32, accuracy_level=level)
    model = g.model(y=(y, "float32", "n", rows))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=in_file, location="weights", size_threshold=1024)
    mod = from_onnx(path)
    found: list[relax.Constant] = []

    def visit(node: relax.RelaxExpr) -> None:
        if isinstance(node, relax.Constant) and str(node.dtype) == "uint8":
            found.append(node)

    relax.analysis.post_order_visit(relax.transform.DeadCodeElimination()(mod)["main"], visit)
    assert len({id(node) for node in found}) == 1
    ids = np.array([3, 599, -1])
    result = built(mod)["main"](relax.nd.array(ids)).numpy()
    expected = ort.InferenceSession(str(path)).run(None, {"i": ids})[0]
    np.testing.assert_allclose(result, expected, 1e-3, 1e-3 * np.abs(expected).max())


def test_zero_points_of_another_dtype_are_rejected():
    g = Graph("table")
    indices = g.input("i", "int64", "a")
    parts = [g.parameter(np.ones((4, 1), dtype)) for dtype in ("float32", "float32")]
    y = g.GatherBlockQuantized(g.parameter(np.zeros((4, 16), "uint8")), indices, *parts, domain=MS, block_size=32)
    with pytest.raises(relax.DiagnosticError) as raised:
        from_onnx(g.model(y=(y, "float32", "a", "n")))
    assert "zero_points must be of uint8 as the data, found float32" in str(raised.value)


@pytest.mark.parametrize(
    ("dtype", "shape", "attributes", "message"),
    [
        ("uint8", (4, 16), {"bits": 3}, "bits must be 2, 4 or 8, found 3"),
        ("uint8", (4, 16), {"gather_axis": 1, "quantize_axis": 0}, "and be 0 for data of uint8"),
        ("int4", (4, 32), {"quantize_axis": 0}, "gather_axis 0 must differ from quantize_axis 0"),
        ("float8_e4m3fn", (4, 32), {}, "GatherBlockQuantized of float8_e4m3fn (of uint8, int4 and uint4 is)"),
    ],
)
def test_tables_that_are_rejected(dtype, shape, attributes, message):
    g = Graph("table")
    indices = g.input("i", "int64", "a")
    data = np.zeros(shape, relax.DataType(dtype).numpy())
    y = g.GatherBlockQuantized(
        g.parameter(data), indices, g.parameter(np.ones((4, 1), "float32")), domain=MS, block_size=32, **attributes
    )
    with pytest.raises(relax.DiagnosticError) as raised:
        from_onnx(g.model(y=(y, "float32", "a", "n")))
    assert message in str(raised.value)
