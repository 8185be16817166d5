"""What inference cannot decide about sizes, the kernel checks when it runs; wrong sizes never give numbers."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te
from relax.expr import ShapeExpr, Tuple, Var
from relax.op import infer_call, operator_of
from relax.op.operator import public_function
from relax.prim import Var as PrimVar
from relax.prim import mark_nonnegative
from relax.prim.intrin import min as minimum
from relax.struct_info import TensorStructInfo
from relax.tir.interpret import interpret
from support import PLAIN_LOOPS


def size(name: str) -> PrimVar:
    var = PrimVar(name, "int64")
    mark_nonnegative(var)
    return var


n, m, k, p = size("n"), size("m"), size("k"), size("p")


def tensor(name: str, *dims) -> Var:
    return Var(name, TensorStructInfo(dims, "float32"))


def run(call, *arrays, sizes=None, out_shape):
    """The call's kernel on arrays; `sizes` are those of shape variables that no array has."""
    inputs = []

    def value(arg):
        if isinstance(arg, Var):
            inputs.append(te.placeholder(arg.struct_info.dims, "float32", arg.name_hint))
            return inputs[-1]
        if isinstance(arg, Tuple):
            return [value(item) for item in arg.fields]
        return list(arg.values) if isinstance(arg, ShapeExpr) else arg.value

    result = operator_of(call).checked_formula(call, [value(arg) for arg in call.args])
    func = te.create_prim_func([*inputs, result])
    out = np.full(out_shape, -9, "float32")
    scalars = [sizes[param] for param in func.params if param not in func.buffer_map]
    interpret(func, *arrays, *scalars, out)
    return out


def ones(*shape) -> np.ndarray:
    return np.ones(shape, "float32")


def add(a, b):
    return public_function("relax.add")(a, b)


@pytest.mark.parametrize("a, b", [((3,), (3,)), ((1,), (3,)), ((3,), (1,)), ((0,), (1,)), ((1,), (0,)), ((1,), (1,))])
def test_sizes_of_unknown_relation_broadcast(a, b):
    """n and m may be equal, or either may be 1; the shape of the result is chosen when the kernel runs."""
    call = add(tensor("x", n), tensor("y", m))
    assert infer_call(call).dims is None
    assert infer_call(call).ndim == 1
    expected = ones(*a) + ones(*b)
    np.testing.assert_array_equal(run(call, ones(*a), ones(*b), out_shape=expected.shape), expected)


def test_sizes_that_do_not_broadcast():
    call = add(tensor("x", n), tensor("y", m))
    with pytest.raises(AssertionError, match=r"the shapes cannot be broadcast: n and m \(n = 2, m = 3\)$"):
        run(call, ones(2), ones(3), out_shape=(3,))


def test_a_size_beside_a_constant():
    """Beside 3, n is 3 or 1: the result's size is known."""
    call = add(tensor("x", 3), tensor("y", n))
    assert infer_call(call).dims[0].value == 3
    for count in (1, 3):
        np.testing.assert_array_equal(run(call, ones(3), ones(count), out_shape=(3,)), ones(3) * 2)
    for count in (0, 2, 5):
        message = rf"the shapes cannot be broadcast: 3 and n \(n = {count}\)$"
        with pytest.raises(AssertionError, match=message):
            run(call, ones(3), ones(count), out_shape=(3,))


def test_a_size_that_the_other_is_cut_from():
    """n beside min(n, 4) is the result's size; the kernel checks that they are equal where they differ."""
    call = add(tensor("x", n), tensor("y", minimum(n, 4)))
    assert infer_call(call).dims[0] is n
    for count in (0, 1, 3, 4):
        result = run(call, ones(count), ones(count), out_shape=(count,))
        np.testing.assert_array_equal(result, ones(count) * 2)
    with pytest.raises(AssertionError, match="the shapes cannot be broadcast: n and"):
        run(call, ones(5), ones(4), out_shape=(5,))


def test_matmul():
    call = public_function("relax.matmul")(tensor("x", 2, n), tensor("y", m, 4))
    assert [d.value for d in infer_call(call).dims] == [2, 4]
    np.testing.assert_array_equal(run(call, ones(2, 3), ones(3, 4), out_shape=(2, 4)), ones(2, 4) * 3)
    for inner in (2, 4):
        with pytest.raises(AssertionError, match="the reduced dimensions differ: n and m"):
            run(call, ones(2, 3), ones(inner, 4), out_shape=(2, 4))


def test_reshape():
    call = public_function("relax.reshape")(tensor("x", n, m), (k, 2))
    np.testing.assert_array_equal(run(call, ones(3, 4), sizes={k: 6}, out_shape=(6, 2)), ones(6, 2))
    with pytest.raises(AssertionError, match="the numbers of elements differ"):
        run(call, ones(3, 4), sizes={k: 7}, out_shape=(7, 2))


def test_reshape_that_is_proved_needs_no_check():
    call = public_function("relax.reshape")(tensor("x", n, m, 2), (n, m * 2))
    result = operator_of(call).checked_formula(call, [te.placeholder((n, m, 2)), [n, m * 2]])
    assert "requires" not in result.op.attrs


def test_squeeze():
    call = public_function("relax.squeeze")(tensor("x", n, 3), axis=0)
    np.testing.assert_array_equal(run(call, ones(1, 3), out_shape=(3,)), ones(3))
    for count in (0, 2):
        with pytest.raises(AssertionError, match="dimension 0 of x must have size 1: n and 1"):
            run(call, ones(count, 3), out_shape=(3,))


def test_broadcast_to():
    call = public_function("relax.broadcast_to")(tensor("x", n), (2, m))
    np.testing.assert_array_equal(run(call, ones(1), sizes={m: 3}, out_shape=(2, 3)), ones(2, 3))
    np.testing.assert_array_equal(run(call, ones(3), sizes={m: 3}, out_shape=(2, 3)), ones(2, 3))
    with pytest.raises(AssertionError, match="dimension 0 of x is n, which does not broadcast to m"):
        run(call, ones(2), sizes={m: 3}, out_shape=(2, 3))


def test_concat():
    call = public_function("relax.concat")([tensor("x", n, m), tensor("y", k, p)])
    np.testing.assert_array_equal(run(call, ones(1, 3), ones(2, 3), out_shape=(3, 3)), ones(3, 3))
    with pytest.raises(AssertionError, match="dimension 1 of tensors\\[1\\] is p, and of tensors\\[0\\] m"):
        run(call, ones(1, 3), ones(2, 2), out_shape=(3, 3))


def test_where():
    condition = Var("c", TensorStructInfo((n,), "bool"))
    call = public_function("relax.where")(condition, tensor("x", m), tensor("y", k))
    values = [te.placeholder((n,), "bool"), te.placeholder((m,)), te.placeholder((k,))]
    result = operator_of(call).checked_formula(call, values)
    assert [message for _, message in result.op.attrs["requires"]] == [
        "the shapes cannot be broadcast: n and m",
        "the shapes cannot be broadcast: n and k",
        "the shapes cannot be broadcast: m and k",
    ]


def requirements(call) -> list[str]:
    """What the kernel of a call asserts."""
    values = [te.placeholder(arg.struct_info.dims, arg.struct_info.dtype) for arg in call.args]
    result = operator_of(call).checked_formula(call, values)
    first = result[0] if isinstance(result, (list, tuple)) else result
    return [message for _, message in first.op.attrs.get("requires", ())]


def test_networks():
    conv2d, layer_norm = public_function("relax.nn.conv2d"), public_function("relax.nn.layer_norm")
    attention = public_function("relax.nn.attention")
    assert requirements(conv2d(tensor("x", 1, n, 8, 8), tensor("w", 4, m, 3, 3))) == [
        "the channels of data and weight differ: n and m"
    ]
    assert requirements(conv2d(tensor("x", 1, n, 8, 8), tensor("w", 4, n, 3, 3))) == []
    assert requirements(layer_norm(tensor("x", 2, n), tensor("g", m), tensor("b", n))) != []
    assert requirements(attention(*(tensor(name, 1, n, 2, 8) for name in "qkv"))) == []
    assert requirements(attention(tensor("q", 1, n, 2, 8), tensor("k", 1, m, 2, 8), tensor("v", 1, k, 2, 8))) != []
    biased = attention(*(tensor(name, 1, n, 2, 8) for name in "qkv"), tensor("bias", p, 1, n, n))
    assert requirements(biased) == ["dimension 0 of bias is p, which does not broadcast to 1"]


@pytest.mark.parametrize("sizes", [('("n",)', '("m",)'), ("ndim=1", "ndim=1")])
def test_sizes_are_shown_wherever_it_runs(sizes):
    """Also where they have no names in the program."""
    first, second = (f'R.Tensor({size}, dtype="float32")' for size in sizes)
    text = f"@R.function\ndef main(x: {first}, y: {second}):\n    z = R.add(x, y)\n    return z\n"
    module = relax.IRModule.from_expr(relax.script.from_source(text))
    with pytest.raises(
        AssertionError, match=r"^main: add: the shapes cannot be broadcast: \w+ and \w+ \(\w+ = 2, \w+ = 3\)"
    ):
        relax.VirtualMachine(relax.build(module, PLAIN_LOOPS))["main"](ones(2), ones(3))
    with pytest.raises(AssertionError, match="last dimension 2, x2: last dimension 3"):
        relax.interpret(module, "main", ones(2), ones(3))


def test_a_condition_on_data_shows_no_sizes():
    func = relax.script.from_source(
        "@T.prim_func\ndef f(A: T.Buffer((2,), 'int64'), n: T.int64):\n    assert A[0] < n, 'the data'\n"
    )
    for call in (lambda *args: interpret(func, *args), relax.codegen.build_module(func)["f"]):
        with pytest.raises(AssertionError, match="the data$"):
            call(np.array([5, 5]), 3)
