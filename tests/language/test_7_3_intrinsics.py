"""Section 7.3: the intrinsics: calls of PrimFuncs, packed functions and closures; shapes, null, printing, checks."""

from __future__ import annotations

import numpy as np
import pytest
from programs import floats, module, ones, packed, refused, truth

import relax

ADD = """@T.prim_func
    def add(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            C[i] = A[i] + B[i]
"""


def program(*members):
    return "@I.ir_module\nclass M:\n    " + "\n    ".join(members)


@packed("language.intrinsics.double_dps")
def _double_dps(source, target):
    target.copyfrom(source.numpy() * 2)


@packed("language.intrinsics.split_dps")
def _split_dps(source, low, high):
    low.copyfrom(np.floor(source.numpy()))
    high.copyfrom(np.ceil(source.numpy()))


@packed("language.intrinsics.wrong")
def _wrong(*_):
    return relax.nd.array(np.zeros(7, "int8"))


@packed("language.intrinsics.increment")
def _increment(tensor):
    tensor.copyfrom(tensor.numpy() + 1)
    return tensor


@packed("language.intrinsics.pair")
def _pair(x):
    return (x, relax.ShapeTuple([len(x.shape)]))


@packed("language.intrinsics.type_name")
def _type_name(value):
    return type(value).__name__


# ------------------------------------------------------------------------------------------- call_tir


@pytest.mark.parametrize("size", [0, 1, 3])
def test_call_tir(run, size):
    """call_tir allocates the outputs and calls the PrimFunc with inputs, then outputs; one out_sinfo returns that
    tensor."""
    text = program(
        ADD,
        """@R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        z = R.call_tir(M.add, (x, y), out_sinfo=R.Tensor((n,), "float32"))
        return z
""",
    )
    assert run(text, "main", ones(size), ones(size)).numpy().tolist() == [2] * size


def test_call_tir_of_several_outputs(run):
    """call_tir with several out_sinfos returns a tuple."""
    text = program(
        """@T.prim_func
    def both(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "int32")):
        for i in range(2):
            B[i] = A[i] * A[i]
            C[i] = T.Cast("int32", A[i])
""",
        """@R.function
    def main(x: R.Tensor((2,), "float32")):
        z = R.call_tir(M.both, (x,), out_sinfo=[R.Tensor((2,), "float32"), R.Tensor((2,), "int32")])
        return z
""",
    )
    squares, cut = run(text, "main", floats(1.5, 2))
    assert (squares.numpy().tolist(), cut.numpy().tolist()) == ([2.25, 4], [1, 2])


def test_call_tir_with_integers(run):
    """call_tir passes the integers of tir_vars between inputs and outputs."""
    text = program(
        """@T.prim_func
    def scale(A: T.Buffer((2,), "float32"), k: T.int64, m: T.int64, B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] * T.Cast("float32", k - m)
""",
        """@R.function
    def main(x: R.Tensor((2,), "float32"), s: R.Shape(["k"])) -> R.Tensor((2,), "float32"):
        k = T.int64()
        z = R.call_tir(M.scale, (x,), R.Tensor((2,), "float32"), tir_vars=R.shape([k * 10, k]))
        return z
""",
    )
    for k in (0, 1, 3):
        assert run(text, "main", floats(1, 2), (k,)).numpy().tolist() == [9 * k, 18 * k]


@pytest.mark.parametrize("kind", ["T.serial", "T.unroll", "T.vectorized"])
def test_iterations_of_a_vectorised_loop_run_in_order(run, kind):
    """The iterations of a serial, unrolled or vectorised loop run in order."""
    text = program(
        f"""@T.prim_func
    def chained(A: T.Buffer((6,), "int32"), I: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
        for i in range(6):
            B[i] = A[i]
        for i in {kind}(6):
            B[I[i]] = B[I[i]] * 2 + B[i]
""",
        """@R.function
    def main(x: R.Tensor((6,), "int32"), i: R.Tensor((6,), "int32")) -> R.Tensor((6,), "int32"):
        z = R.call_tir(M.chained, (x, i), R.Tensor((6,), "int32"))
        return z
""",
    )
    values, indices = np.array([3, 1, 4, 1, 5, 9], "int32"), np.array([1, 1, 1, 5, 5, 2], "int32")
    expected = values.copy()
    for i, k in enumerate(indices):
        expected[k] = expected[k] * 2 + expected[i]
    assert run(text, "main", values, indices).numpy().tolist() == expected.tolist()


def test_results_of_call_tir_are_fresh(run):
    """call_tir allocates: its result shares no memory with its arguments."""
    text = program(
        ADD,
        """@R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")):
        y = R.call_tir(M.add, (x, x), R.Tensor((1,), "float32"))
        R.call_packed("language.intrinsics.increment", y)
        return (x, y)
""",
    )
    assert [t.numpy().tolist() for t in run(text, "main", floats(1))] == [[1], [3]]


@pytest.mark.parametrize("outs", ['R.Tensor("float32", ndim=1)', "R.Tensor((2,))", "R.Object", "R.Shape([2])"])
def test_outputs_are_concrete(outs):
    """call_tir's output struct infos are concrete tensors: shape and dtype known."""
    text = program(
        ADD,
        f"""@R.function
    def main(x: R.Tensor((2,), "float32")):
        z = R.call_tir(M.add, (x, x), {outs})
        return z
""",
    )
    with pytest.raises(relax.DiagnosticError, match="E3110"):
        module(text)


def test_call_tir_is_pure(run):
    """call_tir and call_dps_packed are pure: they stand in dataflow blocks."""
    text = program(
        ADD,
        """@R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = R.call_tir(M.add, (x, x), R.Tensor((2,), "float32"))
            z = R.call_dps_packed("language.intrinsics.double_dps", (y,), R.Tensor((2,), "float32"))
            R.output(z)
        return z
""",
    )
    assert run(text, "main", floats(1, 2)).numpy().tolist() == [4, 8]


def test_what_is_proved_not_to_fit():
    """★ call_tir: arguments or results that are proved not to fit are a compile error."""
    text = program(
        ADD,
        """@R.function
    def main(x: R.Tensor((2,), "float32")):
        z = R.call_tir(M.add, (x, x), R.Tensor((3,), "float32"))
        return z
""",
    )
    with pytest.raises(relax.DiagnosticError, match="E3111.*dimension 0: expected 2, found 3"):
        module(text)


TWICE = """@T.prim_func
    def twice(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n * 2,), "float32")
        for i in range(n * 2):
            B[i] = A[i // 2]
"""


def test_a_result_that_does_not_fit(run):
    """★ call_tir: a result that does not fit is an error, told before the kernel writes anything."""
    text = program(
        TWICE,
        """@R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])) -> R.Tensor(("m",), "float32"):
        m = T.int64()
        y = R.call_tir(M.twice, (x,), out_sinfo=R.Tensor((m,), "float32"))
        return y
""",
    )
    assert run(text, "main", floats(1, 2), (4,)).numpy().tolist() == [1, 1, 2, 2]
    assert run(text, "main", ones(0), (0,)).shape == (0,)
    with pytest.raises(ValueError, match=r"twice: .*dimension 0.* 3.*expected (n \* 2|2 \* n) = 4"):
        run(text, "main", ones(2), (3,))


# ------------------------------------------------------------------------------------- call_tir_inplace

INCREMENT = """@T.prim_func
    def increment(A: T.Buffer((2,), "float32")):
        for i in range(2):
            A[i] = A[i] + T.float32(1)
"""


def test_call_tir_inplace(run):
    """call_tir_inplace: outputs with an index ≥ 0 reuse that argument."""
    text = program(
        INCREMENT,
        """@R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.add(x, x)
        z = R.call_tir_inplace(M.increment, (y,), [0], R.Tensor((2,), "float32"))
        return z
""",
    )
    x = floats(1, 2)
    assert run(text, "main", x).numpy().tolist() == [3, 5]
    assert x.tolist() == [1, 2]


def test_call_tir_inplace_is_the_argument(run):
    """call_tir_inplace: the result is the argument's memory."""
    text = program(
        INCREMENT,
        """@R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        z = R.call_tir_inplace(M.increment, (x,), [0], R.Tensor((2,), "float32"))
        return z
""",
    )
    x = floats(1, 2)
    result = run(text, "main", x)
    assert result.data_ptr() == x.ctypes.data
    assert x.tolist() == [2, 3]


def test_call_tir_inplace_allocates_for_minus_one(run):
    """call_tir_inplace: -1 allocates a fresh output, which the PrimFunc takes after its inputs."""
    text = program(
        """@T.prim_func
    def step(A: T.Buffer((2,), "float32"), old: T.Buffer((2,), "float32")):
        for i in range(2):
            old[i] = A[i]
            A[i] = A[i] * T.float32(10)
""",
        """@R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        z = R.call_tir_inplace(M.step, (y,), [0, -1], [R.Tensor((2,), "float32"), R.Tensor((2,), "float32")])
        return z
""",
    )
    new, old = run(text, "main", floats(1, 2))
    assert (new.numpy().tolist(), old.numpy().tolist()) == ([20, 40], [2, 4])


USES = {
    "itself": "w = R.add(y, z)",
    "under another name": "w = R.add(alias, z)",
    "in a tuple": "w = (z, y)",
    "through a match_cast": 'w = R.match_cast(y, R.Tensor((2,), "float32"))',
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_argument_is_not_used_again(use):
    """call_tir_inplace: the caller promises not to use the argument again, which is checked."""
    text = program(
        INCREMENT,
        f"""@R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        alias = y
        z = R.call_tir_inplace(M.increment, (y,), [0], R.Tensor((2,), "float32"))
        {use}
        return w
""",
    )
    found = refused(text)
    assert {code for code, _ in found} == {"E4006"}
    assert all("reused in place" in message for _, message in found)


# ------------------------------------------------------------------------------------------------ packed


def test_call_dps_packed(run):
    """call_dps_packed: the same convention for a packed function."""
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        one = R.call_dps_packed("language.intrinsics.double_dps", (x,), R.Tensor((n,), "float32"))
        two = R.call_dps_packed(
            "language.intrinsics.split_dps", (x,), [R.Tensor((n,), "float32"), R.Tensor((n,), "float32")]
        )
        return (one, two)
    """
    for values in ([], [1.5], [0.5, 2]):
        one, (low, high) = run(text, "main", floats(*values))
        assert one.numpy().tolist() == [v * 2 for v in values]
        assert low.numpy().tolist() == np.floor(values).tolist()
        assert high.numpy().tolist() == np.ceil(values).tolist()


def test_call_packed(run):
    """call_packed: an ordinary extern call of any arguments, impure."""
    text = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")):
        y = R.call_packed("language.intrinsics.increment", x, sinfo_args=R.Tensor((1,), "float32"))
        z = R.call_packed("language.intrinsics.pair", y, sinfo_args=[R.Tensor((1,), "float32"), R.Shape(ndim=1)])
        return z
    """
    tensor, shape = run(text, "main", floats(1))
    assert (tensor.numpy().tolist(), shape) == ([2], (1,))


@pytest.mark.parametrize("annotation", ["", ": R.Tensor(ndim=1)", ": R.Tensor", ": R.Object"])
def test_results_of_packed_calls_are_checked(run, annotation):
    """call_packed, call_pure_packed: what comes back is held to the sinfo_args, though an annotation says less."""
    for call, header in (("call_packed", "(pure=False)"), ("call_pure_packed", "")):
        text = f"""
@R.function{header}
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    y{annotation} = R.{call}("language.intrinsics.wrong", x, sinfo_args=R.Tensor((n,), "float32"))
    return y
"""
        with pytest.raises(TypeError, match="main: .*language.intrinsics.wrong.*expected dtype float32, found int8"):
            run(text, "main", ones(2))


def test_call_pure_packed(run):
    """call_pure_packed: the caller vouches for purity, so it stands in pure functions and dataflow blocks."""
    text = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Object:
        with R.dataflow():
            y = R.call_pure_packed("language.intrinsics.type_name", x)
            R.output(y)
        return y
    """
    assert run(text, "main", floats(1)) == "NDArray"


def test_call_inplace_packed(run):
    """call_inplace_packed: the caller vouches for purity, and names what is mutated."""
    text = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        y = R.add(x, x)
        z = R.call_inplace_packed(
            "language.intrinsics.increment", y, inplace_indices=[0], sinfo_args=R.Tensor((1,), "float32")
        )
        return {}
    """
    assert run(text.format("z"), "main", floats(1)).numpy().tolist() == [3]
    assert [code for code, _ in refused(text.format("y"))] == ["E4006"]


# ---------------------------------------------------------------------------------------------- closures

CLOSURES = """
@I.ir_module
class M:
    @R.function(private=True)
    def add3(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        w = R.add(x, R.multiply(y, z))
        return w

    @R.function
    def make(y: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")) -> R.Object:
        f = R.make_closure(M.add3, (y, z))
        return f

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        f = R.make_closure(M.add3, (y, y))
        r = R.invoke_pure_closure(f, (x,), sinfo_args=R.Tensor((n,), "float32"))
        return r

    @R.function(pure=False)
    def impure(f: R.Object, x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        r = R.invoke_closure(f, (x,), sinfo_args=R.Tensor((n,), "float32"))
        return r
"""


def test_make_closure(run):
    """make_closure gives a function whose last parameters are given."""
    f = run(CLOSURES, "make", floats(1, 2), floats(10, 10))
    assert f(floats(5, 5)).numpy().tolist() == [15, 25]
    with pytest.raises(ValueError, match="add3: parameter"):
        f(floats(5))


def test_invoke_pure_closure(run):
    """invoke_pure_closure calls a closure that has no effect."""
    for size in (0, 1, 2):
        assert run(CLOSURES, "main", ones(size), ones(size)).numpy().tolist() == [2] * size


def test_invoke_closure(run):
    """invoke_closure calls a closure, or any function, which may have effects."""
    f = run(CLOSURES, "make", floats(1, 2), floats(10, 10))
    assert run(CLOSURES, "impure", f, floats(5, 5)).numpy().tolist() == [15, 25]
    assert run(CLOSURES, "impure", lambda x: x, floats(5, 5)).numpy().tolist() == [5, 5]


# ------------------------------------------------------------------------------------------ shapes, null


def test_shapes_and_tensors(run):
    """shape_of, tensor_to_shape, shape_to_tensor."""
    text = """
    @R.function
    def main(x: R.Tensor, t: R.Tensor(("r",), "int64")):
        a = R.shape_of(x)
        b = R.tensor_to_shape(t)
        c = R.shape_to_tensor(a)
        return (a, b, c)
    """
    for shape in ((), (0,), (1, 3)):
        a, b, c = run(text, "main", ones(*shape), np.array([4, 5]))
        assert (a, b) == (shape, (4, 5))
        assert (c.dtype, c.numpy().tolist()) == ("int64", list(shape))


def test_a_shape_computed_from_a_tensor(run):
    """tensor_to_shape: a shape computed at run time is given names by a match_cast."""
    text = """
    @R.function
    def main(t: R.Tensor((2,), "int64")) -> R.Tensor(ndim=2, dtype="float32"):
        n, m = T.int64(), T.int64()
        s = R.tensor_to_shape(t)
        u = R.match_cast(s, R.Shape([n, m]))
        z = R.zeros((m, n), "float32")
        return z
    """
    for n, m in ((0, 1), (2, 3)):
        assert run(text, "main", np.array([n, m])).shape == (m, n)


def test_null_value(run):
    """null_value() is the null object."""
    text = "@R.function\ndef main() -> R.Object:\n    x = R.null_value()\n    return x\n"
    assert run(text, "main") is None


# --------------------------------------------------------------------------------------- printing, checks


def test_print(run, capsys):
    """print(*values, format) prints values through a format string, or one after the other; impure."""
    text = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), o: R.Object):
        n = T.int64()
        R.print(x, R.prim_value(n), o, format="x is {}, n is {}, o is {}")
        R.print(R.str("plain"), R.shape([n, 2]))
        R.print()
        return ()
    """
    run(text, "main", floats(1, 2), "text")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "x is [1. 2.], n is 2, o is text"
    assert lines[1].split()[0] == "plain"
    assert len(lines) == 3


def test_assert_op(run):
    """assert_op(cond, *values, format) raises an error made of the format, unless the condition holds; impure."""
    text = """
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Object) -> R.Object:
        R.assert_op(c, x, format="x was {}")
        return x
    """
    assert run(text, "main", truth(True), 3) == 3
    with pytest.raises(AssertionError, match="Assertion Failed: x was 3"):
        run(text, "main", truth(False), 3)


# ------------------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize("intrinsic", ["to_vdevice", "hint_on_device"])
def test_devices(run, intrinsic):
    """to_vdevice, hint_on_device: the tensor on (or to be on) another virtual device."""
    text = f"""
@I.ir_module
class M:
    I.module_global_infos({{"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]}})

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.{intrinsic}(x, "llvm:0")
        z = R.add(y, y)
        return z
"""
    assert run(text, "main", floats(1, 2)).numpy().tolist() == [2, 4]
