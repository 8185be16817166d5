"""DequantizeInProducts: products and recurrent layers dequantise quantised weights, and no tensor of floats is made."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.codegen import resolve
from relax.optimize import PackConstants
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.script import relax as R
from relax.tir import Block, BufferLoad, PrimFunc
from relax.transform import DequantizeInProducts, LegalizeOps
from support import PLAIN_LOOPS, agree, machine, nodes, parse, same
from support import numbers as random

K, N = 1024, 300
"""Sizes of weights that are more than FoldConstant computes."""


def program(numbers, scale, zero, axis, moves=(), rows="m", dtype="float32"):
    """A product of x by weights that are dequantised, and then moved by functions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, K), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = (relax.const(np.asarray(part)) for part in (numbers, scale, zero))
            weights = builder.emit(op.dequantize(*parts, axis=axis, out_dtype=dtype))
            for move in moves:
                weights = builder.emit(move(weights))
            result = builder.emit_output(op.matmul(x, weights))
        builder.emit_func_output(result)
    return builder.get()


def constants(mod):
    """The dtypes and shapes of constants of more than one element."""
    found = []

    def visit(node):
        if isinstance(node, relax.Constant) and node.data.size > 1:
            found.append((str(node.data.dtype), tuple(node.data.shape)))

    relax.ir.walk(mod["main"], visit)
    return sorted(found)


def agrees(mod, weights, target=PLAIN_LOOPS):
    """True if the program computes products by these weights, as a sum of floats does."""
    main = relax.VirtualMachine(relax.build(mod, target), relax.cpu())["main"]
    for rows in (0, 1, 2, 13):
        x = np.random.default_rng(rows).standard_normal((rows, K)).astype("float32")
        error = np.abs(main(x).numpy() - x.astype("float64") @ weights.astype("float64"))
        bound = np.abs(x).astype("float64") @ np.abs(weights).astype("float64") * K * 2.0**-24
        assert (error <= bound).all()


def numbers(shape, low, high, dtype):
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def test_one_scale():
    q, scale, zero = numbers((K, N), 0, 256, "uint8"), np.float32(0.0123), np.uint8(128)
    mod = DequantizeInProducts()(program(q, scale, zero, 0))
    assert constants(mod) == [("float32", (1, N)), ("int8", (K, N))]
    assert DequantizeInProducts()(mod) is mod
    agrees(mod, (q.astype("float32") - 128) * scale, "llvm")


def test_a_scale_for_each_column():
    q = numbers((K, N), -128, 128, "int8")
    scales = np.random.default_rng(1).random(N).astype("float32")
    mod = DequantizeInProducts()(program(q, scales, np.zeros(N, "int8"), 1))
    assert constants(mod) == [("float32", (1, N)), ("int8", (K, N))]
    agrees(mod, q.astype("float32") * scales)


@pytest.mark.parametrize(("zeros", "dtype"), [([8], "int4"), ([0, 15], "uint4")])
def test_a_scale_for_each_group(zeros, dtype):
    """Four bits are enough where the differences fit them, or the numbers, which are then beside their zero points."""
    group, count = 32, N * K // 32
    q = numbers((count, group), 0, 16, "uint8")
    scales = np.random.default_rng(1).random(count).astype("float32")
    points = np.resize(np.array(zeros, "uint8"), count)
    moves = (lambda w: op.reshape(w, [N, K]), op.permute_dims)
    mod = DequantizeInProducts()(program(q, scales, points, 0, moves))
    points_of_groups = [("int32", (K // group, N))] if dtype == "uint4" else []
    assert constants(mod) == [("float32", (K // group, N)), *points_of_groups, (dtype, (K, N))]
    weights = (q.astype("float32") - points[:, None]) * scales[:, None]
    agrees(mod, np.reshape(weights, (N, K)).T, "llvm")


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_numbers_that_do_not_fit_int8_keep_their_zero_points(dtype):
    q, scales = numbers((K, N), 0, 256, dtype), np.random.default_rng(1).random(N).astype("float32")
    points = np.resize(np.array([0, 3, 255], dtype), N)
    mod = DequantizeInProducts()(program(q, scales, points, 1))
    assert constants(mod) == sorted([("float32", (1, N)), ("int32", (1, N)), (dtype, (K, N))])
    assert DequantizeInProducts()(mod) is mod
    agrees(mod, (q.astype("float32") - points) * scales)


def test_scales_of_1_are_left_out():
    q = numbers((K, N), -128, 128, "int8")
    mod = DequantizeInProducts()(program(q, np.float32(1), np.int8(0), 0))
    assert constants(mod) == [("int8", (K, N))]
    agrees(mod, q.astype("float32"))


def test_constants_that_are_added_to_weights():
    q, rng = numbers((K, N), 0, 16, "uint8"), np.random.default_rng(1)
    scales, minima = (rng.standard_normal(N).astype("float32") for _ in range(2))
    mod = program(q, scales, np.uint8(8), 1, (lambda w: op.add(w, relax.const(minima)),))
    mod = DequantizeInProducts()(mod)
    assert constants(mod) == [("float32", (1, N)), ("float32", (1, N)), ("int4", (K, N))]
    agrees(mod, (q.astype("float32") - 8) * scales + minima)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1, 0.0173])
def test_weights_in_narrow_floats_are_rounded(dtype, scale):
    """Bit for bit: rows of the product by a unit matrix."""
    q, narrow = numbers((K, N), -128, 128, "int8"), relax.DataType(dtype).numpy()
    scales = np.float32(np.asarray(scale).astype(narrow))
    mod = program(q, scales, np.int8(0), 1, dtype=dtype)
    assert ("int8", (K, N)) in constants(DequantizeInProducts()(mod))
    main = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"]
    for rows in (1, 20):
        result = main(np.eye(K, dtype="float32")[:rows].astype(narrow)).numpy()
        np.testing.assert_array_equal(result, (q * scales).astype(narrow)[:rows])


def test_weights_are_those_that_dequantize_makes():
    """Bit for bit: rows of the product by a unit matrix."""
    q = numbers((K, N), -128, 128, "int8")
    scales = np.random.default_rng(1).random(N).astype("float32")
    mod = program(q, scales, np.zeros(N, "int8"), 1)
    main = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"]
    for rows in (1, 20):
        result = main(np.eye(K, dtype="float32")[:rows]).numpy()
        np.testing.assert_array_equal(result, (q.astype("float32") * scales)[:rows])


@pytest.mark.parametrize(
    "mod",
    [
        program(numbers((K, 8), -128, 128, "int8"), np.float32(0.5), np.int8(0), 0),
        program(numbers((K, N), -70000, 70000, "int32"), np.float32(0.5), np.int32(0), 0),
        program(numbers((K, N), -128, 128, "int8"), np.float32(0.5), np.int8(0), 0, dtype="float64"),
    ],
    ids=["few", "int32", "float64"],
)
def test_others_stay(mod):
    assert DequantizeInProducts()(mod) is mod


def test_the_kernel_does_not_change_with_legalization():
    mod = DequantizeInProducts()(program(numbers((K, N), -8, 8, "int8"), np.float32(0.5), np.int8(0), 0))
    assert "dequantize" not in LegalizeOps()(mod).script()


# ----------------------------------------------------------------------------------------- recurrent layers


@pytest.fixture(autouse=True)
def small_layers(monkeypatch):
    """Layers of any size: tests use small ones."""
    monkeypatch.setattr("relax.transform.dequantize_in_products.FEW_BYTES", 0)


INPUTS, HIDDEN = 33, 70
"""Sizes with remainder loops."""

LAYER = """
@R.function
def main(x: R.Tensor(("s", "b", IN), "float32"), h: R.Tensor((D, "b", HID), "float32")):
    with R.dataflow():
        w = R.dequantize(R.const(W), R.const(SW), R.const(ZW), axis=AXIS)
        r = R.dequantize(R.const(Q), R.const(SR), R.const(ZR), axis=AXIS)
        y = R.nn.CALL
        R.output(y)
    return y
"""

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def layer(kind="lstm", dtype="int8", zero=0, axis=1, options="", inputs=INPUTS, hidden=HIDDEN, text=LAYER):
    """A recurrent layer by dequantised constants, with a scale for each index along `axis` or one for all (None)."""
    directions = 2 if "bidirectional" in options else 1
    shapes = [(directions, GATES[kind] * hidden, size) for size in (inputs, hidden)]
    counts = [() if axis is None else (shape[axis],) for shape in shapes]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    w, r = (random(*shape, dtype=dtype, low=low, high=high, seed=i) for i, shape in enumerate(shapes))
    scales = [random(*count, low=0.128 / high, high=0.384 / high, seed=i) for i, count in enumerate(counts)]
    zeros = [np.asarray(zero + random(*count, dtype="int8", low=0, high=3), dtype) for count in counts]
    zeros = zeros if zero else [np.zeros(count, dtype) for count in counts]
    call = f"{kind}(x, w, r, None, None, h{options})"
    text = text.replace("HID", str(hidden)).replace("IN", str(inputs)).replace("CALL", call)
    names = {"W": w, "Q": r, "SW": scales[0], "SR": scales[1], "ZW": zeros[0], "ZR": zeros[1], "D": directions}
    return parse(text.replace("AXIS", str(-1 if axis is None else axis)), **names)


def tensors(executable):
    """The tensors among an executable's constants."""
    return [np.from_dlpack(constant) for constant in executable.constants if hasattr(constant, "__dlpack__")]


def states(mod, steps, batch):
    """An input and the initial state of a layer."""
    *_, inputs = mod["main"].params[0].struct_info.dims
    directions, _, hidden = mod["main"].params[1].struct_info.dims
    return random(steps, batch, int(inputs)), random(int(directions), batch, int(hidden), seed=1)


@pytest.mark.parametrize(
    ("kind", "dtype", "zero", "axis", "options", "narrow"),
    [
        ("lstm", "int8", 0, None, "", ["int8", "int8"]),
        ("lstm", "int8", 0, 1, ", direction='bidirectional'", ["int8", "int8"]),
        ("lstm", "uint8", 120, None, ", direction='bidirectional'", ["uint8", "uint8"]),
        ("lstm", "uint8", 120, 1, ", direction='reverse', input_forget=True", ["uint8", "uint8"]),
        ("gru", "int8", 3, 0, ", direction='bidirectional', linear_before_reset=True", ["int8", "int8"]),
        ("gru", "int8", 0, 1, "", ["int8", "int8"]),
        ("gru", "uint8", 7, 2, "", ["uint8", "uint8"]),
        ("rnn", "int16", 9, 1, ", direction='bidirectional'", ["int16", "int16"]),
    ],
)
def test_recurrent_layers_read_integers(kind, dtype, zero, axis, options, narrow):
    """For all steps at once and in each step, whatever has a scale: a direction, a row of gates, a unit, or nothing."""
    mod = layer(kind, dtype, zero, axis, options)
    changed = DequantizeInProducts()(mod)
    assert [name for name, shape in constants(changed) if len(shape) == 2 and shape[0] in (INPUTS, HIDDEN)][
        -2:
    ] == narrow
    assert "R.dequantize" not in changed.script()
    assert DequantizeInProducts()(changed) is changed
    vm = machine(mod, PLAIN_LOOPS)
    for steps, batch in ((0, 2), (1, 1), (5, 0), (4, 3), (4, 9)):
        args = states(mod, steps, batch)
        same(vm["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dequantised", [False, True])
def test_a_layer_is_computed_the_same_however_it_is_run(dequantised):
    mod = layer("rnn", "uint8", 120, options=", direction='bidirectional'", inputs=3, hidden=4)
    mod = DequantizeInProducts()(mod) if dequantised else mod
    agree(mod, *states(mod, 3, 5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 120)])
def test_all_other_operands(dtype, zero):
    """The batch first, sequences with lengths of their own, biases and peepholes."""
    text = LAYER.replace('("s", "b", IN)', '("b", "s", IN)').replace(
        '(D, "b", HID), "float32")',
        """(b, D, HID), "float32"),
    lengths: R.Tensor(("b",), "int32"), bias: R.Tensor((D, 8 * HID), "float32"), p: R.Tensor((D, 3 * HID), "float32")""",
    )
    call = "lstm(x, w, r, bias, lengths, h, None, p, layout=1, direction='bidirectional')"
    text = text.replace("(b, D", '("b", D').replace("CALL", call)
    mod = layer(dtype=dtype, zero=zero, options=", direction='bidirectional'", text=text)
    assert "R.dequantize" not in DequantizeInProducts()(mod).script()
    vm = machine(mod, PLAIN_LOOPS)
    for lengths in ((), (3,), (0, 4, 2, 1, 4)):
        batch = len(lengths)
        shapes = (batch, 4, INPUTS), (batch, 2, HIDDEN), (2, 8 * HIDDEN), (2, 3 * HIDDEN)
        x, h, bias, p = (random(*shape, seed=i) for i, shape in enumerate(shapes))
        args = x, h, np.array(lengths, "int32"), bias, p
        same(vm["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2, 300, 8), (9, 300, 8), (4, 512, 80)])
def test_many_inputs_are_dequantised_in_blocks(sizes):
    """The last block and the last rows are smaller than the others."""
    batch, inputs, hidden = sizes
    mod = layer("gru", "uint8", 120, None, inputs=inputs, hidden=hidden)
    text = LAYER.replace('"s", "b"', f"9, {batch}").replace('D, "b"', f"D, {batch}")
    static = layer("gru", "uint8", 120, None, inputs=inputs, hidden=hidden, text=text)
    args = random(9, batch, inputs), random(1, batch, hidden, seed=1)
    expected = relax.interpret(mod, "main", *args)
    same(machine(mod)["main"](*args), expected, rtol=1e-4, atol=1e-5)
    same(machine(static)["main"](*args), expected, rtol=1e-4, atol=1e-5)


def test_layers_above_each_other():
    text = LAYER.replace("R.output(y)", "z = R.nn.lstm(R.squeeze(y[0], axis=[1]), r, r); R.output(z)")
    mod = layer(dtype="uint8", zero=120, text=text.replace("return y", "return z").replace("; ", "\n        "))
    assert "R.dequantize" not in DequantizeInProducts()(mod).script()
    vm = machine(mod, PLAIN_LOOPS)
    for steps, batch in ((1, 1), (3, 9)):
        args = states(mod, steps, batch)
        same(vm["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


def test_products_by_the_same_weights_share_them():
    text = LAYER.replace("R.output(y)", "z = R.nn.lstm(x, w, r, None, None, y[1]); R.output(z)")
    mod = layer(text=text.replace("; ", "\n        ").replace("return y", "return z"))
    held = tensors(relax.build(mod, "llvm"))
    assert sorted(array.nbytes for array in held if array.dtype == "int8") == [INPUTS * 288, HIDDEN * 280]


def test_one_narrow_operand():
    text = LAYER.replace("r = R.dequantize(R.const(Q), R.const(SR), R.const(ZR), axis=AXIS)", "r = R.const(Q)")
    for text_of_one, dtypes in ((text, ["int8", "float32"]), (text.replace("w, r, N", "r, w, N"), ["float32", "int8"])):
        mod = layer(text=text_of_one.replace("R.const(Q)", 'R.const(Q / 512, "float32")'), inputs=HIDDEN)
        changed = DequantizeInProducts()(mod)
        assert sorted(name for name, shape in constants(changed) if len(shape) > 1 and shape[-2] > 1) == sorted(dtypes)
        args = states(mod, 3, 5)
        same(machine(mod, PLAIN_LOOPS)["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


def test_weights_of_four_bits():
    text = LAYER.replace('("s", "b", IN)', "(2, 1, IN)").replace('(D, "b", HID)', "(D, 1, HID)")
    text = text.replace("R.const(W)", "R.const(W // 16)").replace("R.const(Q)", "R.const(Q // 16)")
    for sizes in ((4, 5), (INPUTS, HIDDEN)):
        mod = layer("gru", text=text, inputs=sizes[0], hidden=sizes[1])
        assert ("int4", (sizes[0], 3 * sizes[1])) in constants(DequantizeInProducts()(mod))
        args = random(2, 1, sizes[0]), random(1, 1, sizes[1], seed=1)
        same(machine(mod, PLAIN_LOOPS)["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


def test_integers_that_are_moved_before_they_are_dequantised():
    text = LAYER.replace("R.const(W)", "R.permute_dims(R.const(W), [0, 2, 1])")
    mod = layer("rnn", text=text, inputs=HIDDEN, options=", direction='bidirectional'")
    assert "R.dequantize" not in DequantizeInProducts()(mod).script()
    args = states(mod, 3, 2)
    same(machine(mod, PLAIN_LOOPS)["main"](*args), relax.interpret(mod, "main", *args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 120)])
def test_both_products_load_vectors_of_bytes(dtype, zero):
    mod = relax.get_pipeline()(layer(dtype=dtype, zero=zero, inputs=64, hidden=64))
    target = resolve("llvm -mcpu=haswell")
    packed = PackConstants(*RULES, target=target)(mod)
    (func,) = [schedule(func, target, RULES) for func in packed.functions.values() if isinstance(func, PrimFunc)]
    vectors = [load for load in nodes(func.body, BufferLoad) if load.buffer.dtype == dtype and load.dtype.lanes == 8]
    assert len({load.buffer.data for load in vectors}) == 2
    assert not [buffer for block in nodes(func.body, Block) for buffer in block.alloc_buffers if buffer.dtype == dtype]


def test_the_product_of_the_inputs_has_parameters_for_each_column():
    """One for all columns would be gathered, by a quotient of the column."""
    mod = layer("gru", "uint8", 120, None, ", direction='bidirectional'", inputs=64, hidden=64)
    parameters = [shape for dtype, shape in constants(DequantizeInProducts()(mod)) if dtype == "int32"]
    assert sorted(parameters) == [(1, 2), (1, 2 * 3 * 64)]


def test_few_weights_become_floats(monkeypatch):
    """Those of 256 KiB as floats: 64 units by 256 rows have a quarter."""
    monkeypatch.undo()
    mod = layer(inputs=64, hidden=64)
    assert DequantizeInProducts()(mod) is mod
    held = {array.dtype.name for array in tensors(relax.build(mod, "llvm"))}
    assert held == {"float32"}


def test_the_executable_has_bytes():
    """A quarter of the floats' bytes, and a scale for each row of gates."""
    held = tensors(relax.build(layer(inputs=256, hidden=256), "llvm"))
    sizes = [(array.dtype.name, array.nbytes) for array in held]
    assert sorted(sizes) == [("float32", 4096)] * 2 + [("int8", 256 * 1024)] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("axis=AXIS)", 'axis=AXIS, out_dtype="float16")').replace('"float32"', '"float16"'),
        lambda text: text.replace("R.const(W)", 'R.astype(R.const(W), "int8")').replace(
            "R.const(Q)", "R.abs(R.const(Q))"
        ),
        lambda text: text.replace('x: R.Tensor(("s", "b", IN), "float32")', 'x: R.Tensor("float32", ndim=3)'),
    ],
    ids=["float16", "integers that are computed", "data of unknown shape"],
)
def test_other_layers_stay(change):
    mod = layer(text=change(LAYER))
    assert DequantizeInProducts()(mod) is mod


def test_integers_of_more_than_16_bits_stay():
    mod = layer(dtype="int32", zero=1)
    assert DequantizeInProducts()(mod) is mod


def test_states_of_another_batch_are_rejected_at_run_time():
    mod = layer(text=LAYER.replace('h: R.Tensor((D, "b", HID)', 'h: R.Tensor((D, "m", HID)'))
    vm = machine(mod, PLAIN_LOOPS)
    with pytest.raises(AssertionError, match=r"dimension 1 of initial_h must be b: m and b \(m = 2, b = 3\)"):
        vm["main"](random(2, 3, INPUTS), random(1, 2, HIDDEN))
