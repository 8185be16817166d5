"""Nests: element-wise nests, reductions, chains of them, and transposes, against the functions they were made from."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from applied import Applied

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.runtime import num_threads, set_num_threads
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Nests
from support import PLAIN_LOOPS, same


def placeholder(*shape, dtype="float32", name="X"):
    return te.placeholder(shape, dtype, name)


def func_of(output, *inputs):
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    return te.create_prim_func([*inputs, *outputs])


def sizes(*names):
    return tuple(te.var(name, "int64") for name in names)


@lru_cache(maxsize=4)
def runs_of(func, target):
    """The function as it is written, compiled; and as the rule arranges it, interpreted and compiled."""
    plain = build_module(func, PLAIN_LOOPS)["main"]
    return plain, Applied(Nests(), func, target), Applied(Nests(), func)


def check(func, target, *inputs, outputs, tolerance=1e-5):
    """The rule's result, interpreted and compiled on one and two threads, computes what the function does."""
    expected, *others = ([np.full(shape, 77, dtype) for shape, dtype in outputs] for _ in range(3))
    for run, results in zip(runs_of(func, target), (expected, *others), strict=True):
        run(*inputs, *results)
        same(results, expected, tolerance, tolerance)


def numbers(*shape, dtype="float32"):
    generator = np.random.default_rng(1)
    if "int" in dtype:
        return generator.integers(-50, 50, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------ element by element


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 2049])
def test_one_axis(target, n):
    (size,) = sizes("n")
    x = placeholder(size)
    func = func_of(te.compute((size,), lambda i: te.exp(x[i]) + x[i], "Y"), x)
    check(func, target, numbers(n), outputs=[((n,), "float32")])


@pytest.mark.parametrize(("n", "m", "k"), [(2, 3, 100), (1, 1, 1), (0, 2, 5), (3, 0, 5), (5, 7, 0), (1, 2, 2100)])
def test_broadcast(target, n, m, k):
    a, b, c = sizes("n", "m", "k")
    x, y, z = placeholder(a, b, c), placeholder(c, name="B"), placeholder(a, 1, c, name="Z")
    func = func_of(te.compute((a, b, c), lambda i, j, l: x[i, j, l] * y[l] + z[i, 0, l], "Y"), x, y, z)
    check(func, target, numbers(n, m, k), numbers(k), numbers(n, 1, k), outputs=[((n, m, k), "float32")])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int64", "uint8"])
def test_dtypes(target, dtype):
    x, y = placeholder(33, 40, dtype=dtype), placeholder(40, dtype=dtype, name="B")
    func = func_of(topi.maximum(topi.add(x, y), x), x, y)
    numpy = "float32" if dtype == "bfloat16" else dtype
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        numpy = ml_dtypes.bfloat16
    given = [np.arange(33 * 40).reshape(33, 40) % 90, np.arange(40)]
    check(func, target, *(g.astype(numpy) for g in given), outputs=[((33, 40), numpy)])


def test_axes_that_are_neighbours_everywhere_are_one(target):
    a, b = sizes("n", "m")
    x = placeholder(a, b, 100)
    script = schedule(func_of(te.compute((a, b, 100), lambda *i: x(*i) + 1, "Y"), x), target, [Nests()]).script()
    assert "X_1[strip * 2048 + i2]" in script
    assert script.count("T.parallel") == 1


def test_axes_of_too_many_elements_stay(target):
    """A tensor of so many elements is refused where it is allocated, not where loops are arranged."""
    func = func_of(te.compute((1 << 40, 1 << 30), lambda i, j: te.const(1.0, "float32")))
    script = schedule(func, target, [Nests()]).script()
    assert "compute[i, strip" in script


def test_axes_of_a_buffer_with_an_element_for_all_stay(target):
    """X as one axis has no place for the element that every other one is added to."""
    n, m = sizes("n", "m")
    x = placeholder(n, m)
    func = func_of(te.compute((n, m), lambda i, j: x[i, j] + x[0, 0], "Y"), x)
    for shape in ((0, 5), (1, 1), (40, 50)):
        check(func, target, numbers(*shape), outputs=[(shape, "float32")])


def test_a_condition_reads_elements_once(target):
    x = placeholder(64, 64)
    func = func_of(te.compute((64, 64), lambda i, j: te.if_then_else(x[i, j] < 0, te.exp(x[i, j]), x[i, j]), "Y"), x)
    script = schedule(func, target, [Nests()]).script()
    assert script.count("X[") + script.count("X_1[") == 1
    check(func, target, numbers(64, 64), outputs=[((64, 64), "float32")])


def test_indices_out_of_range_are_errors(target):
    x, at = placeholder(50, 64), placeholder(30, dtype="int64", name="I")
    func = func_of(topi.take(x, at, axis=0), x, at)
    check(func, target, numbers(50, 64), np.arange(30) - 10, outputs=[((30, 64), "float32")])
    with pytest.raises(IndexError):
        Applied(Nests(), func)(numbers(50, 64), np.full(30, 50), np.zeros((30, 64), "float32"))


def test_padding_and_concatenation(target):
    x, y = placeholder(20, 40), placeholder(20, 30, name="Z")
    func = func_of(topi.concatenate((x, y), axis=1), x, y)
    check(func, target, numbers(20, 40), numbers(20, 30), outputs=[((20, 70), "float32")])
    padded = func_of(topi.nn.pad(x, (1, 2), (3, 4), 7.0), x)
    check(padded, target, numbers(20, 40), outputs=[((24, 46), "float32")])


# ------------------------------------------------------------------------------------------ transposes


def concatenation(lengths, *, axis=0, other=()):
    """A concatenation of tensors of these lengths, and the tensors."""
    shapes = [(*other[:axis], length, *other[axis:]) for length in lengths]
    tensors = [placeholder(*shape, name=f"X{i}") for i, shape in enumerate(shapes)]
    return topi.concatenate(tensors, axis), tensors, shapes


def loops_of(func):
    """The loops outside of all others."""
    found = []
    tir.pre_order_visit(func.body, lambda node: not isinstance(node, tir.For) or bool(found.append(node)))
    return found


@pytest.mark.parametrize(
    ("lengths", "axis", "other"),
    [
        ([2] * 20, 0, ()),
        ([0, 1, 3] * 9, 0, ()),  # parts of no elements, and of one
        ([1100, 2] * 10, 0, ()),
        ([1, 2] * 9, 0, (5,)),
        ([8] * 17, 1, (3, 4)),
        ([300] * 17, 0, (9,)),
    ],
)
def test_a_concatenation_of_many_is_a_nest_for_each(target, lengths, axis, other):
    made, tensors, shapes = concatenation(lengths, axis=axis, other=other)
    func = func_of(made, *tensors)
    arranged = schedule(func, target, [Nests()])
    assert len(loops_of(arranged)) >= sum(length > 1 for length in lengths)
    assert "if_then_else" not in arranged.script()
    arrays = [numbers(*shape) for shape in shapes]
    shape = tuple(int(size.value) for size in made.shape)
    check(func, target, *arrays, outputs=[(shape, "float32")], tolerance=0)


def test_a_concatenation_of_many_inside_of_a_formula(target):
    """Each part has the formula; NaN and infinities come through."""
    _, tensors, shapes = concatenation([3] * 18)
    bias = placeholder(54, name="bias")

    def read(i):
        value = tensors[-1](i - 51)
        for k in range(16, -1, -1):
            value = tir.if_then_else(i < 3 * (k + 1), tensors[k](i - 3 * k), value)
        return value * value + bias(i)

    func = func_of(te.compute((54,), read), *tensors, bias)
    arranged = schedule(func, target, [Nests()])
    assert len(loops_of(arranged)) == 18
    arrays = [numbers(*shape) for shape in shapes]
    arrays[4][1], arrays[5][2] = np.nan, -np.inf
    check(func, target, *arrays, numbers(54), outputs=[((54,), "float32")], tolerance=1e-6)


@pytest.mark.parametrize(
    ("lengths", "axis", "other"),
    [([2] * 16, 0, ()), ([1] * 32, 1, (2000,))],  # few; narrow columns
)
def test_concatenations_in_one_nest(target, lengths, axis, other):
    made, tensors, _ = concatenation(lengths, axis=axis, other=other)
    assert "if_then_else" in schedule(func_of(made, *tensors), target, [Nests()]).script()


@pytest.mark.parametrize(("n", "m"), [(0, 40), (40, 0), (1, 1), (15, 17), (64, 65), (66, 31)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_transpose(target, n, m, dtype):
    a, b = sizes("n", "m")
    x = placeholder(a, b, dtype=dtype)
    func = func_of(topi.transpose(x), x)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    check(func, target, numbers(n, m, dtype=dtype), outputs=[((m, n), dtype)])


def test_change_of_layout(target):
    x = placeholder(2, 20, 9, 7)
    func = func_of(topi.transpose(x, [0, 2, 3, 1]), x)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    check(func, target, numbers(2, 20, 9, 7), outputs=[((2, 9, 7, 20), "float32")])


# ------------------------------------------------------------------------------------------ interleaved lines


def interleaving(n, m, dtype="float32"):
    """Pixels of four images in turn, and what is computed of them, as behind a transposed convolution."""
    x, b = placeholder(n, 2, 2, n, m, dtype=dtype), placeholder(n, dtype=dtype, name="B")
    y = te.compute((n, n * 2, m * 2), lambda c, i, j: x[c, i % 2, j % 2, i // 2, j // 2] * b[c] + b[c] * 3, "out")
    return func_of(y, x, b)


@pytest.mark.parametrize(("n", "m"), [(0, 9), (3, 0), (1, 1), (2, 7), (2, 15), (1, 16), (3, 17), (2, 33), (1, 2500)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_interleaved_lines(target, n, m, dtype):
    func = interleaving(*sizes("n", "m"), dtype)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    given = [numbers(n, 2, 2, n, m, dtype=dtype), numbers(n, dtype=dtype)]
    check(func, target, *given, outputs=[((n, 2 * n, 2 * m), dtype)])


def test_interleaved_lines_of_known_size(target):
    func = interleaving(3, 70)
    assert "T.Shuffle" in schedule(func, target, [Nests()]).script()
    given = numbers(3, 2, 2, 3, 70)
    given[0, 0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    check(func, target, given, numbers(3), outputs=[((3, 6, 140), "float32")])


def test_other_divided_lines_are_not_interleaved(target):
    m = te.var("m", "int64")
    x = placeholder(8, 5, m)
    others = {
        "thirds": te.compute((8, m * 3), lambda i, j: x[i, j % 3, j // 3], "out"),
        "odd lengths": te.compute((8, m), lambda i, j: x[i, j % 2, j // 2], "out"),
        "the other way": te.compute((8, m * 2), lambda i, j: x[i, 0, m - 1 - j // 2], "out"),
        "short lines": te.compute((m, 30), lambda i, j: x[j // 2 // 2, j % 2, i], "out"),
    }
    for reason, out in others.items():
        arranged = schedule(func_of(out, x), target, [Nests()]).script()
        assert "T.Shuffle" not in arranged, reason


# ------------------------------------------------------------------------------------------ reductions

REDUCTIONS = [topi.sum, topi.max, topi.prod]
SHAPES = [(0, 3, 5), (3, 0, 5), (4, 5, 0), (1, 1, 1), (3, 5, 65), (2, 2, 150)]


@pytest.mark.parametrize("axis", [(0,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda f: f.__name__)
def test_reductions_over_every_axis(target, reduction, axis):
    a, b, c = sizes("n", "m", "k")
    x = placeholder(a, b, c)
    func = func_of(reduction(x, axis=axis), x)
    for shape in SHAPES:
        data = numbers(*shape)
        result = tuple(size for d, size in enumerate(shape) if d not in axis)
        check(func, target, data, outputs=[(result, "float32")], tolerance=1e-4)


def test_axes_of_no_buffer_stay_apart(target):
    """No buffer bounds how many iterations they have together: 2^32 for each would be 0 in 64 bits."""
    n, s = *sizes("n"), placeholder(name="s")
    i, j = (te.reduce_axis((0, n), name) for name in "ij")
    c = te.compute((1,), lambda _: te.sum(te.exp(s()), axis=[i, j]), "C")
    func = func_of(c, s, placeholder(n))
    assert "n * n" not in schedule(func, target, RULES).script()
    for size in (0, 1, 7, 70):
        check(func, target, numbers(), numbers(size), outputs=[((1,), "float32")], tolerance=1e-4)


@pytest.mark.parametrize("reduction", [*REDUCTIONS, topi.min, topi.argmin], ids=lambda f: f.__name__)
def test_no_rows_of_unknown_length(target, reduction):
    """Nothing is divided by the number of rows."""
    (n,) = sizes("n")
    x = placeholder(0, n, dtype="int64")
    func = func_of(reduction(x, axis=1), x)
    build = build_module(schedule(func, resolve("llvm"), RULES))["main"]
    for length in (0, 1, 40000):
        given = np.zeros((0, length), "int64"), np.zeros(0, "int64")
        tir.interpret(schedule(func, target, RULES), *given)
        build(*given)


@pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 5), (1, 1, 1), (2, 512, 33), (3, 7, 600), (2, 0, 40)])
def test_sums_of_what_is_computed_run_along_memory(target, n, m, k):
    """The mean of squares over a middle axis: vectors along the last one, and no storage for the squares."""
    a, b, c = sizes("n", "m", "k")
    x = placeholder(a, b, c)
    squares = te.compute((a, b, c), lambda i, j, l: x[i, j, l] * x[i, j, l], "squares")
    over = te.reduce_axis((0, b), "over")
    sums = te.compute((a, c), lambda i, l: te.sum(squares[i, over, l], axis=over), "sums")
    func = func_of(te.compute((a, c), lambda i, l: te.max(sums[i, l] * 0.5, 0.0), "Y"), x)
    script = schedule(func, target, [Nests()]).script()
    assert "squares = T.alloc" not in script
    assert "T.vectorized" in script
    check(func, target, numbers(n, m, k), outputs=[((n, k), "float32")])


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int64"])
def test_dtypes_of_reductions(target, dtype):
    x = placeholder(30, 70, dtype=dtype)
    for reduction in (topi.sum, topi.max):
        output = reduction(x, axis=1)
        given, outputs = numbers(30, 70, dtype=dtype), [((30,), str(output.dtype))]
        check(func_of(output, x), target, given, outputs=outputs, tolerance=1e-2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduction", [topi.argmax, topi.argmin], ids=lambda f: f.__name__)
def test_first_of_equals_and_first_nan(target, reduction, axis):
    data = np.random.default_rng(0).integers(0, 5, (60, 50)).astype("float32")
    data[3, 20] = data[7, 2] = data[7, 40] = data[30, 2] = np.nan
    x = placeholder(60, 50)
    func = func_of(reduction(x, axis=axis), x)
    for machine in (target, "llvm"):
        Applied(Nests(), func, machine).computes(getattr(np, reduction.__name__)(data, axis=axis), data)


@pytest.mark.parametrize("reduction", [topi.max, topi.min], ids=lambda f: f.__name__)
def test_nan_comes_through(target, reduction):
    data = numbers(40, 70)
    data[3, 69] = data[5, 0] = np.nan
    data[7, 33], data[8, 33] = np.inf, -np.inf
    x = placeholder(40, 70)
    func = func_of(reduction(x, axis=1), x)
    Applied(Nests(), func).computes(getattr(np, reduction.__name__)(data, axis=1), data)


def test_few_rows_are_reduced_in_parts(target):
    x = placeholder(3, 200_000)
    func = func_of(topi.sum(x, axis=1), x)
    arranged = schedule(func, target, [Nests()])
    assert "sum_parts" in arranged.script()
    data = numbers(3, 200_000)
    results = []
    compiled = build_module(schedule(func, resolve("llvm"), [Nests()]))["main"]
    threads = num_threads()
    try:
        for count in (1, 2):
            set_num_threads(count)
            results.append(np.zeros(3, "float32"))
            compiled(data, results[-1])
    finally:
        set_num_threads(threads)
    np.testing.assert_array_equal(*results)  # the same bits
    np.testing.assert_allclose(results[0], data.astype("float64").sum(axis=1), 1e-4, 1e-3)


def test_products_of_floats_keep_their_order(target):
    x = placeholder(40, 70)
    script = schedule(func_of(topi.prod(x, axis=1), x), target, [Nests()]).script()
    assert "lanes" not in script
    assert "lanes" in schedule(func_of(topi.sum(x, axis=1), x), target, [Nests()]).script()


# ------------------------------------------------------------------------------------------ chains of rows


def norms(x, g, b):
    return {
        "softmax": topi.nn.softmax(x, axis=-1),
        "log_softmax": topi.nn.log_softmax(x, axis=-1),
        "softmax 0": topi.nn.softmax(x, axis=0),
        "log_softmax 0": topi.nn.log_softmax(x, axis=0),
        "layer_norm": topi.nn.layer_norm(x, g, b, axes=[-1]),
        "rms_norm": topi.nn.rms_norm(x, g, axes=[-1]),
    }


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmax 0", "log_softmax 0", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_chains(target, name, dtype):
    a, b = sizes("n", "m")
    x, g, z = (
        placeholder(a, b, dtype=dtype),
        placeholder(b, dtype=dtype, name="G"),
        placeholder(b, dtype=dtype, name="Z"),
    )
    func = func_of(
        norms(x, g, z)[name], *((x, g, z) if name == "layer_norm" else (x, g) if name == "rms_norm" else (x,))
    )
    for n, m in [(0, 5), (1, 1), (3, 16), (5, 65), (2, 150)]:
        inputs = [numbers(n, m, dtype=dtype), numbers(m, dtype=dtype), numbers(m, dtype=dtype)][: len(func.params) - 1]
        check(func, target, *inputs, outputs=[((n, m), dtype)], tolerance=1e-2 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [2, 3, 17, 100])
def test_few_elements_much_greater_than_the_others(target, length, axis):
    """The others show in the logarithm of one that is alone; of two, each is a half."""
    x = placeholder(*sizes("n", "m"))
    func = func_of(topi.nn.log_softmax(x, axis), x)
    runs = Applied(Nests(), func), Applied(Nests(), func, target)
    for place in {0, 1, length // 2, length - 1}:
        rows = np.zeros((2, length), "float32")
        rows[:, place] = 30
        rows[1, (place + 1) % length] = 30
        given = rows if axis else np.ascontiguousarray(rows.T)
        for run in runs:
            found = run(given, np.full(given.shape, 77, "float32"))
            alone, one_of_two = found[:, place] if axis else found[place]
            np.testing.assert_allclose(alone, -(length - 1) * np.exp(-30.0), rtol=1e-6)
            np.testing.assert_allclose(one_of_two, -np.log(2.0), rtol=1e-7)


def test_softmax_is_one_loop_over_rows(target):
    x = placeholder(64, 100)
    script = schedule(func_of(topi.nn.softmax(x), x), target, [Nests()]).script()
    assert script.count("T.parallel") == 1
    assert script.count("T.exp") == 2  # of whole vectors, and of the last one with a mask
    assert "softmax_exp" not in script


def test_infinities_in_softmax(target):
    data = numbers(20, 60)
    data[2, 5], data[3], data[4, 7], data[5, 59] = -np.inf, -np.inf, np.inf, np.nan
    x = placeholder(20, 60)
    func = func_of(topi.nn.softmax(x), x)
    check(func, target, data, outputs=[((20, 60), "float32")])


def test_a_formula_of_a_user_is_treated_alike(target):
    x = placeholder(40, 90)
    k = te.reduce_axis((0, 90), "k")
    total = te.compute((40,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "total")
    func = func_of(te.compute((40, 90), lambda i, j: x[i, j] / total[i], "Y"), x)
    assert schedule(func, target, [Nests()]).script().count("T.parallel") == 1
    check(func, target, numbers(40, 90), outputs=[((40, 90), "float32")])


def test_what_is_left_by_another_rule_is_arranged(target):
    x, w = placeholder(64, 64), placeholder(64, 128, name="W")
    product = topi.matmul(x, w)
    func = func_of(te.compute((64, 128), lambda *i: te.tanh(product(*i)), "Y"), x, w)
    script = schedule(func, target, RULES).script()
    assert "panel" in script
    assert 'T.block("Y")' not in script


@pytest.mark.parametrize(
    "func",
    [
        func_of(topi.nn.relu(x := placeholder(8, 8)), x),  # small
        func_of(topi.nn.relu(x := placeholder(64, 64)), x).without_attr("tir.noalias"),
        func_of(topi.cumsum(x := placeholder(64, 64), axis=1), x),
    ],
    ids=["small", "may overlap", "scan"],
)
def test_others_are_left_alone(target, func):
    assert schedule(func, target, [Nests()]) is func
