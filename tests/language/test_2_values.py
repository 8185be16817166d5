"""Section 2: what programs compute with."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from programs import floats, machine, ones, packed

import relax
from relax.runtime import register_func


@packed("language.values.increment")
def _increment(tensor):
    tensor.copyfrom(tensor.numpy() + 1)


@packed("language.values.same")
def _same(value):
    return value


@packed("language.values.apply")
def _apply(function, value):
    return function(value)


class Thing:
    """A value of the host's, which no program knows anything of."""


IDENTITY = """
@R.function
def main(x: R.Object) -> R.Object:
    return x
"""

PASS_ON = """
@R.function(pure=False)
def main(x: R.Object) -> R.Object:
    y = R.call_packed("language.values.same", x)
    t = (y, x)
    z = t[0]
    return z
"""


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (1, 0, 2, 1, 3)])
def test_tensors_of_any_rank(run, shape):
    """Tensors have any rank, 0 included, and any size."""
    program = "@R.function\ndef main(x: R.Tensor) -> R.Tensor:\n    return x\n"
    result = run(program, "main", ones(*shape))
    assert result.shape == shape


def test_tensors_are_mutable(run):
    """Tensors are mutable: what changes one is seen by all who hold it."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
        y = x
        R.call_packed("language.values.increment", y)
        z = R.add(x, x)
        return (x, z)
    """
    x = floats(1, 2)
    seen, doubled = run(program, "main", x)
    assert x.tolist() == seen.numpy().tolist() == [2, 3]
    assert doubled.numpy().tolist() == [4, 6]


def test_tuples(run):
    """Tuples are immutable, of any length, nested or not; () is unit."""
    program = """
    @R.function
    def main(x: R.Tuple(R.Prim("int64"), R.Tuple(), R.Tuple(R.Prim("int64")))):
        return ((), x[0], (x[2], x[1]))
    """
    result = run(program, "main", (1, (), (2,)))
    assert result == ((), 1, ((2,), ()))
    assert isinstance(result, tuple)


def test_closures_capture_by_reference(run):
    """Closures capture Relax variables by reference: a tensor changed later is changed for the closure."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        @R.function
        def get() -> R.Tensor((1,), "float32"):
            y = R.add(x, x)
            return y

        R.call_packed("language.values.increment", x)
        z = get()
        return z
    """
    assert run(program, "main", floats(3)).numpy().tolist() == [8]


def test_closures_capture_shape_variables(run):
    """★ Closures capture shape variables."""
    program = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        n, m = T.int64(), T.int64()

        @R.function
        def turned() -> R.Tensor((m, n), "float32"):
            z = R.zeros((m, n), "float32")
            return z

        y = turned()
        return y
    """
    for shape in ((0, 1), (1, 0), (2, 3)):
        assert run(program, "main", ones(*shape)).shape == shape[::-1]


CLOSURES = """
@I.ir_module
class M:
    @R.function
    def make(x: R.Tensor(("n",), "float32")) -> R.Object:
        n = T.int64()

        @R.function(pure={pure})
        def f(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            z = R.add(x, y)
            return z

        return f

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Object:
        f = M.make(x)
        g = R.match_cast(f, R.Callable((R.Tensor((2,), "{parameter}"),), R.Tensor(({result},), "float32"), True))
        return g
"""


def test_closures_carry_their_struct_info(run):
    """★ Closures carry run-time struct info of parameters and result, captured sizes filled in."""
    program = CLOSURES.format(pure=True, parameter="float32", result=2)
    f = run(program, "main", floats(1, 2))
    assert f(floats(3, 4)).numpy().tolist() == [4, 6]
    with pytest.raises(TypeError, match="main: .*does not fit"):
        run(program, "main", floats(1, 2, 3))
    with pytest.raises(TypeError, match="main: .*does not fit.*result"):
        run(CLOSURES.format(pure=True, parameter="float32", result=3), "main", floats(1, 2))
    with pytest.raises(TypeError, match="main: .*does not fit.*parameter 0.*int32"):
        run(CLOSURES.format(pure=True, parameter="int32", result=2), "main", floats(1, 2))


def test_closures_carry_their_purity(run):
    """★ Closures carry their purity."""
    with pytest.raises(TypeError, match="main: .*does not fit.*pure"):
        run(CLOSURES.format(pure=False, parameter="float32", result=2), "main", floats(1, 2))


def test_shape_values(run):
    """Shape values are immutable tuples of integers."""
    program = """
    @R.function
    def main(s: R.Shape(["n", "m"])) -> R.Shape(["m * 2", "n"]):
        n, m = T.int64(), T.int64()
        t = R.shape([m * 2, n])
        return t
    """
    result = run(program, "main", (3, 0))
    assert result == (0, 3)
    assert isinstance(result, relax.ShapeTuple)
    assert isinstance(result, tuple)


NOT_A_SIZE = "a shape cannot have a (negative dimension|dimension of 2\\*\\*48 or more), as in "


@pytest.mark.parametrize("size", [-1, -(2**63), 2**48, 2**63 - 1])
def test_shapes_from_outside_have_sizes(run, size):
    """A dimension is at least 0 and less than 2^48: of shapes and tensors from outside."""
    matched = """
    @R.function
    def main(s: R.Shape(["n"])) -> R.Prim("int64"):
        n = T.int64()
        return R.prim_value(n)
    """
    shape = relax.ShapeTuple([size])
    for given in (shape, (size,)):
        with pytest.raises(ValueError, match=f"^main: parameter s: {NOT_A_SIZE}"):
            run(matched, "main", given)
    for given in (shape, (1, [shape])):
        with pytest.raises(ValueError, match=f"^main: parameter x: {NOT_A_SIZE}"):
            run(IDENTITY, "main", given)
    register_func("language.values.shape", lambda: shape, override=True)
    returned = """
    @R.function(pure=False)
    def main() -> R.Object:
        s = R.call_packed("language.values.shape")
        return s
    """
    with pytest.raises(ValueError, match=f"^main: the result of a packed function: {NOT_A_SIZE}"):
        run(returned, "main")
    if size > 0:
        with pytest.raises(ValueError, match=f"^main: parameter x: {NOT_A_SIZE}"):
            run(IDENTITY, "main", np.zeros((size, 0), "int8"))


@pytest.mark.parametrize("size", [-1, -(2**63), 2**48, 2**63 - 1])
def test_shapes_are_made_of_sizes(run, size):
    """A dimension is at least 0 and less than 2^48: of shapes and tensors that are made."""
    read = """
    @R.function
    def main(i: R.Tensor((1,), "int64"), x: R.Tensor((8,), "float32")):
        n = T.int64()
        t = R.match_cast(R.tensor_to_shape(i), R.Shape([n]))
        return R.strided_slice(x, [0], [n], [8])
    """
    with pytest.raises(ValueError, match=f"^main: tensor_to_shape: {NOT_A_SIZE}"):
        run(read, "main", np.array([size]), ones(8))
    passed = """
    @I.ir_module
    class Module:
        @R.function(private=True)
        def f(s: R.Shape(["n"]), x: R.Tensor((8,), "float32")):
            n = T.int64()
            return R.strided_slice(x, [0], [n], [8])

        @R.function
        def main(p: R.Prim("int64", value="k"), x: R.Tensor((8,), "float32")):
            k = T.int64()
            return Module.f(R.shape([k]), x)
    """
    assert run(passed, "main", 5, ones(8)).shape == (3,)
    with pytest.raises(ValueError, match=f"^main: {NOT_A_SIZE}"):
        run(passed, "main", size, ones(8))
    made = """
    @R.function
    def main(p: R.Prim("int64", value="k")):
        k = T.int64()
        return R.zeros((k, 0), "int8")
    """
    with pytest.raises(ValueError, match=f"^main: {NOT_A_SIZE}"):
        run(made, "main", size)
    integers = """
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def f(k: T.int64, a: T.Buffer((1,), "int64")):
            a[0] = k

        @R.function
        def main(p: R.Prim("int64", value="k")):
            k = T.int64()
            return R.call_tir(Module.f, (), R.Tensor((1,), "int64"), tir_vars=R.shape([k]))
    """
    assert run(integers, "main", 5).numpy().tolist() == [5]
    with pytest.raises(ValueError, match=f"^main: {NOT_A_SIZE}"):
        run(integers, "main", size)


@pytest.mark.parametrize("text, value", [("[-1, 3]", "(-1, 3)"), ("[n, n - 5]", "(3, -2)")])
def test_a_negative_dimension_is_an_error_though_nobody_uses_it(run, text, value):
    """A dimension is at least 0 and less than 2^48: of shapes and tensors that are made."""
    program = f"""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        s = R.shape({text})
        return x
    """
    with pytest.raises(ValueError, match="negative") as caught:
        run(program, "main", ones(3))
    message = f"main: a shape cannot have a negative dimension, as in {value}"
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.parametrize("size", [-1, 2**48])
def test_a_scalar_that_is_a_dimension_elsewhere_is_a_size(run, size):
    """A scalar that binds a variable which is a dimension elsewhere is a size; others may be negative."""
    program = """
    @R.function
    def main(p: R.Prim("int64", value="n"), x: R.Tensor((8,), "float32"), y: R.Object):
        n = T.int64()
        z = R.strided_slice(x, [0], [n], [8])
        w = R.match_cast(y, R.Tensor((n,), "float32"))
        return z
    """
    assert run(program, "main", 5, ones(8), ones(5)).shape == (3,)
    with pytest.raises(ValueError, match="expected a size") as caught:
        run(program, "main", size, ones(8), ones(5))
    expected = f"the value is {size}, expected a size, at least 0 and less than 2**48"
    assert str(caught.value).splitlines()[0] == f"main: parameter p: {expected}"
    cast = """
    @R.function
    def main(q: R.Prim("int64"), x: R.Object):
        n = T.int64()
        p = R.match_cast(q, R.Prim("int64", value=n))
        w = R.match_cast(x, R.Tensor((n,), "float32"))
        return R.prim_value(n - 9)
    """
    assert run(cast, "main", 5, ones(5)) == -4
    with pytest.raises(ValueError, match="expected a size") as caught:
        run(cast, "main", size, ones(5))
    assert str(caught.value).splitlines()[0] == f"main: match_cast of q: {expected}"


def test_sizes_that_leave_64_bits(run):
    """Arithmetic of sizes that leaves 64 bits is an error, and what is said of the dimensions before is said first."""
    program = """
    @R.function
    def main(x: R.Tensor(("n", 0), "int8"), y: R.Tensor((3, "n * n"), "int8")):
        n = T.int64()
        return R.shape([n])
    """
    x = np.zeros((2**32, 0), "int8")
    with pytest.raises(OverflowError) as caught:
        run(program, "main", x, np.zeros((3, 0), "int8"))
    assert str(caught.value).splitlines()[0] == "main: a size does not fit into 64 bits: n * n"
    with pytest.raises(ValueError, match="^main: parameter y: dimension 0 is 2, expected 3"):
        run(program, "main", x, np.zeros((2, 0), "int8"))


@pytest.mark.parametrize("size", ["n * n", "n * n * 0", "n * n - n * n", "n * n // n", "T.min(n * n, 3)"])
@pytest.mark.parametrize("used", ["x", "u"])
def test_sizes_that_leave_64_bits_on_the_way(run, size, used):
    """What leaves 64 bits is an error whether or not the rest of the expression, or anybody, asks for its value."""
    program = f"""
    @R.function
    def main(x: R.Shape(["n"])):
        n = T.int64()
        u = R.prim_value({size})
        return {used}
    """
    with pytest.raises(OverflowError) as caught:
        run(program, "main", relax.ShapeTuple([2**47]))
    assert str(caught.value).splitlines()[0] == "main: a size does not fit into 64 bits: n * n"
    small = run(program, "main", relax.ShapeTuple([3]))
    expected = {"n * n": 9, "n * n // n": 3, "T.min(n * n, 3)": 3}.get(size, 0)
    assert tuple(small) == (3,) if used == "x" else small == expected


def test_sizes_that_leave_64_bits_by_a_cast(run):
    """What stands for the size, written in its place, may be known to cancel; computing it is an error all the same."""
    program = """
    @R.function
    def main(x: R.Shape(["n", "m"])):
        n, m, k = T.int64(), T.int64(), T.int64()
        size = R.match_cast(R.prim_value(n * m * 1000000007), R.Prim("int64", value=k))
        u = R.prim_value(k * k - k * k)
        return x
    """
    with pytest.raises(OverflowError, match=r"main: a size does not fit into 64 bits"):
        run(program, "main", relax.ShapeTuple([2, 2]))
    assert tuple(run(program, "main", relax.ShapeTuple([1, 2]))) == (1, 2)


def test_packed_functions_are_values(run):
    """Packed functions are values: bound to variables, passed, returned, called."""
    program = """
    @R.function(pure=False)
    def main(x: R.Object) -> R.Tuple(R.Object, R.Object):
        f = R.ExternFunc("language.values.same")
        y = R.call_packed("language.values.apply", f, x)
        return (f, y)
    """
    same, y = run(program, "main", 7)
    assert y == 7
    assert same("text") == "text"


def test_prim_funcs_are_first_class(run):
    """PrimFuncs are first class: bound to variables, called, passed to packed functions, returned."""
    program = """
    @I.ir_module
    class M:
        @T.prim_func
        def triple(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                B[i] = A[i] * T.float32(3)

        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Object):
            f = M.triple
            y = R.add(x, x)
            f(x, y)
            return (y, f)
    """
    y, f = run(program, "main", floats(1, 2))
    assert y.numpy().tolist() == [3, 6]
    z = relax.nd.empty((2,))
    f(y, z)
    assert z.numpy().tolist() == [9, 18]


def test_prim_values(run):
    """Prim values are immutable scalars: integers, floats, bools."""
    program = """
    @R.function
    def main(i: R.Prim("int64"), f: R.Prim("float32"), b: R.Prim("bool")):
        return (b, f, i)
    """
    assert run(program, "main", -3, 0.5, True) == (True, 0.5, -3)


@pytest.mark.parametrize("value", ["text", "", None, 2.5], ids=repr)
def test_opaque_values(run, value):
    """Strings, dtypes, the null object and whatever packed functions return are passed around faithfully."""
    for program in (IDENTITY, PASS_ON):
        assert run(program, "main", value) == value


def test_objects_of_the_host_stay_the_same(run):
    """Strings, dtypes, the null object and whatever packed functions return are passed around faithfully."""
    thing = Thing()
    for program in (IDENTITY, PASS_ON):
        assert run(program, "main", thing) is thing


def test_results_are_dlpack_tensors(run):
    """At run time tensors are DLPack tensors: NumPy reads them without a copy."""
    x = ones(3)
    result = run(IDENTITY, "main", x)
    assert np.from_dlpack(result).ctypes.data == x.ctypes.data


def test_packed_functions_of_the_process_are_found(run):
    """Values are objects of the tvm-ffi ABI: any packed function in the process takes and returns them."""
    seen = []

    def look(tensor, shape, text, number, pair):
        seen.append((type(tensor), tuple(shape), str(text), number, len(pair)))
        return tensor

    tvm_ffi.register_global_func("language.values.ffi", look, override=True)
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.call_packed(
            "language.values.ffi", x, R.shape([n, 2]), R.str("t"), R.prim_value(n), (x, x),
            sinfo_args=R.Tensor((n,), "float32"),
        )
        return y
    """
    assert run(program, "main", floats(1, 2, 3)).numpy().tolist() == [1, 2, 3]
    assert seen == [(tvm_ffi.Tensor, (3, 2), "t", 3, 2)]


def test_compiled_functions_are_packed_functions():
    """A function of a machine, given to a packed function, is called by it like any other."""
    vm = machine("""
    @I.ir_module
    class M:
        @R.function
        def double(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            y = R.add(x, x)
            return y

        @R.function(pure=False)
        def main(f: R.Object, x: R.Tensor((1,), "float32")) -> R.Object:
            y = R.call_packed("language.values.apply", f, x)
            return y
    """)
    assert vm["main"](vm["double"], floats(4)).numpy().tolist() == [8]
