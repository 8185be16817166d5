"""BlockProduct: products of activations in blocks of bytes and weights of few bits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from applied import DOTS, X86, Applied, whole

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.op.blocks import QuantizedExpertMatmul, QuantizedMatmul
from relax.schedules import schedule
from relax.schedules.cpu import BlockProduct
from relax.schedules.cpu.products.block_product import BlockParameters, packed_for
from relax.topi.blocks import RULE, quantized_expert_matmul, quantized_matmul
from relax.topi.packed_blocks import PackedBlocks
from weights_in_blocks import NAMES, format_named, rows

TARGETS = {
    "vpdpbusd": DOTS,
    "vpmaddubsw": f"{X86} -mcpu=x86-64-v3",
    "sdot": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "no instruction": f"{X86} -mcpu=x86-64",
}


def product(name, shape, columns, blocks, packed=None, behind=None):
    """The product of activations (shape, depth), and what is made of each sum."""
    held = format_named(name)
    x = te.placeholder((*shape, blocks * held.elements), "int8", "x")
    scales = te.placeholder((*shape, blocks), "float32", "scales")
    if packed is None:
        weights = te.placeholder((columns, blocks * held.bytes), "uint8", "weights")
        result = quantized_matmul(x, scales, weights, name)
    else:
        weights = te.placeholder((packed.panels(columns), blocks * packed.unit), "int32", "weights")
        result = quantized_matmul(x, scales, weights, name, packed.lanes, packed.signed, columns)
    made = result if behind is None else te.compute(result.shape, lambda *i: behind(result(*i)), "made")
    return te.create_prim_func([x, scales, weights, made])


def operands(name, shape, columns, blocks, seed=0):
    """Activations, their scales and weights, whose sums are exact."""
    x = whole(*shape, blocks * format_named(name).elements, dtype="int8", seed=seed)
    scales = np.random.default_rng(seed).choice(np.array([0.25, 1, 4], "float32"), (*shape, blocks))
    return x, scales, rows(name, (columns,), blocks, seed)


def check(name, shape, columns, blocks, target="llvm", parameters=None):
    """The rule's function computes the product: in the interpreter, or compiled for this machine."""
    rule = BlockProduct() if parameters is None else BlockProduct().at(parameters)
    x, scales, weights = operands(name, shape, columns, blocks)
    expected = QuantizedMatmul(name).reference(x, scales, weights)
    Applied(rule, product(name, shape, columns, blocks), target, [2]).computes(expected, x, scales, weights)


@pytest.mark.parametrize("rows_of_x", [1, 2, 11])
@pytest.mark.parametrize("name", NAMES)
def test_formats_on_this_machine(name, rows_of_x):
    check(name, (rows_of_x,), 37, 2)


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q6_k", "q5_1", "int4_g64_zero"])
def test_machines(machine, name):
    """1 row is read as a stream, 9 rows are tiles; 19 columns are no whole vectors."""
    for count in (1, 9):
        check(name, (count,), 19, 1, TARGETS[machine])


@pytest.mark.parametrize("count", [0, *range(3, 10), 31, 32, 33, 95, 96, 97])
def test_rows_of_activations(count):
    check("q4_1", (count,), 50, 2)


@pytest.mark.parametrize("columns", [1, 15, 16, 47, 48, 49, 130])
def test_columns(columns):
    for count in (1, 10):
        check("q4_0", (count,), columns, 3)
        check("q4_k", (count,), columns, 1)


def test_a_row_and_matrices_of_activations():
    check("q8_0", (), 40, 2)
    check("q8_0", (2, 3), 40, 2)
    check("q8_0", (3, 4, 5), 40, 2)


@pytest.mark.parametrize("name", ["q4_1", "q3_k"])
def test_rows_that_are_not_known(name):
    m = te.var("m", "int64")
    func, target = product(name, (m,), 70, 2), resolve("llvm")
    packed = BlockProduct().pack(func, target, [2])
    kernel = build_module(packed.func)["main"]
    for count in (*range(14), 64, 96, 97, 129):
        x, scales, weights = operands(name, (count,), 70, 2)
        result = np.full((count, 70), 77, "float32")
        kernel(x, scales, packed.packings[2](weights), result)
        np.testing.assert_array_equal(result, QuantizedMatmul(name).reference(x, scales, weights))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "llvm") for name in ["q4_1", "q8_0", "q2_k", "q4_k", "q6_k", "iq4_xs", "tq2_0", "int4_g64_zero"]),
        *((name, TARGETS[key]) for name in ("q4_1", "q4_k") for key in ("vpmaddubsw", "no instruction")),
    ],
)
def test_a_row_has_the_same_bits_in_any_number_of_rows(name, target):
    held, rng = format_named(name), np.random.default_rng(3)
    blocks = 6 if held.elements < 256 else 3
    packed = BlockProduct().pack(product(name, (te.var("m", "int64"),), 53, blocks), resolve(target), [2])
    kernel = build_module(packed.func)["main"]
    x = rng.integers(-127, 128, (135, blocks * held.elements)).astype("int8")
    scales = rng.uniform(0.001, 0.1, (135, blocks)).astype("float32")
    weights = packed.packings[2](rng.integers(0, 60, (53, blocks * held.bytes)).astype("uint8"))

    def fed(*counts):
        parts = []
        for end, count in zip(np.cumsum(counts), counts, strict=True):
            parts.append(np.empty((count, 53), "float32"))
            kernel(x[end - count : end], scales[end - count : end], weights, parts[-1])
        return np.concatenate(parts).tobytes()

    whole = fed(135)
    for counts in ([1] * 135, [2, 3, 4, 5, 6, 7, 8, 100], [9, 31, 95], [33, 102], [96, 39], [97, 38]):
        assert fed(*counts) == whole


@pytest.mark.parametrize("name", ["q4_1", "q4_k"])
def test_several_rows_prefetch_the_next_panel(name):
    def script(few):
        rule = BlockProduct().at(BlockParameters(few=few))
        return rule.pack(product(name, (8,), 37, 2), resolve(DOTS), [2]).func.script()

    assert re.search(r"T\.prefetch\(weights_packed\[task \+ 1, ", script(8))
    assert "T.prefetch" not in script(2)


@pytest.mark.parametrize("tile", [(1, 1), (2, 4), (6, 2)])
def test_tiles_and_few_rows_of_the_space(tile):
    check("q5_0", (25,), 70, 2, parameters=BlockParameters(tile=tile, few=2))
    check("q2_k", (13,), 70, 1, parameters=BlockParameters(tile=tile, few=1))


@pytest.mark.parametrize("count", [1, 12])
def test_floats_that_are_not_finite(count):
    x, scales, weights = operands("q4_1", (count,), 40, 2)
    weights[3, :2] = np.array([np.inf], "float16").view("uint8")
    weights[5, 2:4] = np.array([np.nan], "float16").view("uint8")
    scales[0, 1] = np.nan
    expected = QuantizedMatmul("q4_1").reference(x, scales, weights)
    assert np.isnan(expected[0]).all()
    assert count == 1 or np.isnan(expected[1:]).any(axis=0).nonzero()[0].tolist() in ([3, 5], [5])
    Applied(BlockProduct(), product("q4_1", (count,), 40, 2), "llvm", [2]).computes(expected, x, scales, weights)


@pytest.mark.parametrize("count", [1, 9])
def test_what_is_made_of_sums_is_part_of_the_store(count):
    func = product("q4_0", (count,), 40, 2, behind=lambda total: te.max(total * 0.5 + 1, 0))
    applied = Applied(BlockProduct(), func, "llvm", [2])
    assert "product = T.alloc_buffer" not in applied.func.script()
    x, scales, weights = operands("q4_0", (count,), 40, 2)
    expected = np.maximum(QuantizedMatmul("q4_0").reference(x, scales, weights) * 0.5 + 1, 0).astype("float32")
    applied.computes(expected, x, scales, weights)


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q6_k"])
def test_packed_weights_are_read_as_they_are(name):
    target = resolve("llvm")
    packed = packed_for(name, target)
    func = product(name, (3,), 40, 1, packed)
    x, scales, weights = operands(name, (3,), 40, 1)
    expected = QuantizedMatmul(name).reference(x, scales, weights)
    Applied(BlockProduct(), func).computes(expected, x, scales, packed.pack(weights))
    np.testing.assert_array_equal(tir_result(func, x, scales, packed.pack(weights), expected.shape), expected)


def tir_result(func, *args):
    """What the formula itself computes, which the rule replaces."""
    *given, shape = args
    result = np.zeros(shape, "float32")
    tir.interpret(func, *given, result)
    return result


def of_experts(name, rows_of_x, experts, columns, blocks, packed, dtype="int32", behind=None):
    """The product of rows of activations and the weights of the experts that an argument names."""
    held = format_named(name)
    x = te.placeholder((rows_of_x, blocks * held.elements), "int8", "x")
    scales = te.placeholder((rows_of_x, blocks), "float32", "scales")
    weights = te.placeholder((experts, packed.panels(columns), blocks * packed.unit), "int32", "weights")
    chosen = te.placeholder((rows_of_x,), dtype, "experts")
    order = packed.lanes, packed.signed, columns
    result = quantized_expert_matmul(x, scales, weights, chosen, name, *order)
    made = result if behind is None else te.compute(result.shape, lambda *i: behind(result(*i)), "made")
    return te.create_prim_func([x, scales, weights, chosen, made])


def expert_operands(name, chosen, experts, columns, blocks, packed):
    """Arguments of a product with experts, and what it computes."""
    x, scales, _ = operands(name, (len(chosen),), columns, blocks)
    weights = rows(name, (experts, columns), blocks)
    expected = QuantizedExpertMatmul(name).reference(x, scales, weights, np.array(chosen))
    return expected, x, scales, np.stack([packed.pack(matrix) for matrix in weights])


CHOSEN = {
    "one row": [3],
    "sorted": [0] * 3 + [1] + [3] * 20,
    "one of each": [0, 1, 2, 3],
    "not sorted": [2, 0, 2, 2, 1, 1, 0],
    "none": [],
}


class TestExperts:
    @pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
    @pytest.mark.parametrize("name", ["q4_0", "q8_0", "q6_k"])
    def test_rows_of_experts(self, name, chosen):
        packed = packed_for(name, resolve("llvm"))
        applied = Applied(BlockProduct(), of_experts(name, len(chosen), 4, 40, 1, packed))
        expected, *args = expert_operands(name, chosen, 4, 40, 1, packed)
        applied.computes(expected, *args, np.array(chosen, "int32"))

    @pytest.mark.parametrize("machine", TARGETS)
    def test_machines(self, machine):
        packed = packed_for("q5_1", resolve(TARGETS[machine]))
        applied = Applied(BlockProduct(), of_experts("q5_1", 6, 2, 19, 1, packed), TARGETS[machine])
        expected, *args = expert_operands("q5_1", [1, 1, 1, 1, 1, 0], 2, 19, 1, packed)
        applied.computes(expected, *args, np.array([1, 1, 1, 1, 1, 0], "int32"))

    @pytest.mark.parametrize("name", ["q4_1", "q3_k"])
    def test_rows_that_are_not_known(self, name):
        packed = packed_for(name, resolve("llvm"))
        applied = Applied(BlockProduct(), of_experts(name, te.var("m", "int64"), 3, 70, 1, packed, "int64"))
        for count in (0, 1, 2, 9, 70):
            chosen = np.sort(np.random.default_rng(count).integers(0, 3, count))
            expected, *args = expert_operands(name, chosen, 3, 70, 1, packed)
            applied.computes(expected, *args, chosen)

    def test_what_is_made_of_sums_is_part_of_the_store(self):
        packed = packed_for("q4_0", resolve("llvm"))
        func = of_experts("q4_0", 3, 2, 40, 2, packed, behind=lambda total: te.max(total, 0))
        applied = Applied(BlockProduct(), func)
        assert "product = T.alloc_buffer" not in applied.func.script()
        expected, *args = expert_operands("q4_0", [0, 1, 1], 2, 40, 2, packed)
        applied.computes(np.maximum(expected, 0), *args, np.array([0, 1, 1], "int32"))

    @pytest.mark.parametrize("expert", [2, -1, 2**62, -(2**62)])
    def test_an_expert_that_there_is_not(self, expert):
        packed = packed_for("q4_0", resolve("llvm"))
        applied = Applied(BlockProduct(), of_experts("q4_0", 3, 2, 40, 2, packed, "int64"))
        _, *args = expert_operands("q4_0", [0, 1, 1], 2, 40, 2, packed)
        with pytest.raises(IndexError, match=f"weights: index {expert} is out of bounds for dimension 0"):
            applied(*args, np.array([0, 1, expert]), np.zeros((3, 40), "float32"))

    def test_rows_as_files_have_them_are_refused(self, target):
        x, scales = te.placeholder((2, 32), "int8", "x"), te.placeholder((2, 1), "float32", "scales")
        weights, chosen = te.placeholder((4, 40, 18), "uint8", "w"), te.placeholder((2,), "int32", "e")
        func = te.create_prim_func([x, scales, weights, chosen, quantized_expert_matmul(
            x, scales, weights, chosen, "q4_0")])  # fmt: skip
        assert str(BlockProduct().pack(func, target, [2])) == "the weights of experts are rows as files have them"


def test_order_of_the_weights_follows_the_machine():
    def order(name, target):
        return packed_for(name, resolve(target))

    assert order("q8_0", DOTS) == PackedBlocks("q8_0", 16)
    assert order("q8_0", TARGETS["sdot"]) == PackedBlocks("q8_0", 4, signed=True)
    assert order("q4_0", TARGETS["vpmaddubsw"]) == PackedBlocks("q4_0", 8)


def test_what_the_rule_refuses(target):
    def reason(func, constants=()):
        rule = BlockProduct()
        return str(rule.pack(func, target, constants) if constants else rule.apply(func, target, False))

    func = product("q4_0", (2,), 40, 2)
    assert reason(func) == "the weights are rows as files have them, and not constant"
    assert reason(func, [0]) == "the weights are not constant"
    wide = product("q4_0", (2,), 40, 2, PackedBlocks("q4_0", 32))
    assert reason(wide) == "the weights are packed for vectors of 1024 bits"
    x, w = te.placeholder((2, 32), "int8", "x"), te.placeholder((4, 18), "uint8", "w")
    e = te.reduce_axis((0, 18), "e")
    sums = te.compute(
        (2, 4), lambda i, j: te.sum(x[i, e].astype("int32") * w[j, e].astype("int32"), axis=e), "sums",
        attrs={RULE: "q4_0 0 0"},
    )  # fmt: skip
    claimed = te.create_prim_func([x, w, te.compute((2, 4), lambda i, j: sums[i, j].astype("float32"))])
    assert reason(claimed, [1]) == "the nests differ from the formula of a product of blocks"
    a, b = (te.placeholder((4, 4), "float32", name) for name in "AB")
    k = te.reduce_axis((0, 4), "k")
    other = te.create_prim_func([a, b, te.compute((4, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))])
    assert reason(other) == "no nest sums products of blocks"
    assert schedule(other, target, [BlockProduct()]) is other
