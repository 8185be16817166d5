"""Wrong, and unusual, use from outside: arguments of every kind, arrays of every layout, corrupted files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from pitfall_helpers import arrays, f32, machine

import relax
from relax.script import ir as I
from relax.script import relax as R
from support import PLAIN_LOOPS


@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", "m"), "float32"),
        y: R.Tensor(("m",), "float32"),
        s: R.Shape(["n"]),
        p: R.Prim("int64"),
        t: R.Tuple(R.Tensor((), "int64"), R.Object),
    ) -> R.Tuple(R.Tensor(("n", "m"), "float32"), R.Prim("int64"), R.Tensor((), "int64"), R.Object):
        z = R.add(x, y)
        return (z, p, t[0], t[1])

    @R.function
    def plain(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        return R.add(x, x)

    @R.function
    def integers(x: R.Tensor(("n",), "int32")) -> R.Tensor(("n",), "int32"):
        return R.add(x, x)

    @R.function
    def give(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        return x

    @R.function
    def apply(
        f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"), True), x: R.Tensor((2,), "float32")
    ) -> R.Tensor((2,), "float32"):
        return f(x)


@pytest.fixture(scope="module")
def vm():
    return machine(Module)


def good():
    return [np.ones((2, 3), "float32"), f32(1, 2, 3), (2,), 7, (np.array(5), "text")]


def test_good_arguments(vm):
    z, p, t, o = vm["main"](*good())
    assert z.numpy().tolist() == [[2, 3, 4]] * 2
    assert (p, t.item(), o) == (7, 5, "text")
    args = good()
    args[2:] = [relax.ShapeTuple((2,)), np.int64(7), [np.int64(5), None]]
    assert arrays(vm["main"](*args))[1:] == (7, 5, None)


BAD = {
    "no tensor": (0, "text", TypeError, "main: parameter x: expected a tensor, found the string 'text'"),
    "None": (0, None, TypeError, "main: parameter x: expected a tensor, found the null object"),
    "a number": (0, 3.5, TypeError, "main: parameter x: expected a tensor, found the float 3.5"),
    "a list": (0, [[1.0, 2.0]], TypeError, "main: parameter x: expected a tensor, found a tuple of 1"),
    "a dict": (0, {}, TypeError, "main: parameter x: expected a tensor, found an object of type dict"),
    "a type": (0, float, TypeError, "main: parameter x: expected a tensor"),
    "a function": (0, len, TypeError, "main: parameter x: expected a tensor, found a packed function"),
    "rank": (0, f32(1), ValueError, "main: parameter x: expected rank 2, found rank 1"),
    "rank 0": (1, np.float32(1), ValueError, "main: parameter y: expected rank 1, found rank 0"),
    "dtype": (0, np.ones((2, 3)), TypeError, "main: parameter x: expected dtype float32, found float64"),
    "complex": (0, np.ones((2, 3), "complex64"), TypeError, "main: parameter x: .*complex64"),
    "object": (0, np.full((2, 3), None), TypeError, "main: parameter x: .*object"),
    "strings": (0, np.full((2, 3), "a"), TypeError, "main: parameter x: "),
    "dates": (0, np.zeros((2, 3), "datetime64[s]"), TypeError, "main: parameter x: "),
    "records": (0, np.zeros((2, 3), [("a", "f4")]), TypeError, "main: parameter x: "),
    "long double": (0, np.zeros((2, 3), "longdouble"), TypeError, "main: parameter x: "),
    "m differs": (1, f32(1), ValueError, "main: parameter y: dimension 0 is 1, expected m = 3"),
    "n differs": (2, (9,), ValueError, r"main: parameter s: dimension 0 is 9, expected n = 2"),
    "shape rank": (2, (2, 3), ValueError, "main: parameter s: expected a shape of 1 dimensions, found 2"),
    "shape kind": (2, "x", TypeError, "main: parameter s: expected a shape"),
    "shape of floats": (2, (2.5,), TypeError, "main: parameter s: expected a shape"),
    "shape too big": (2, (2**70,), (OverflowError, ValueError, TypeError), "main: parameter s: "),
    "prim kind": (3, 1.5, TypeError, "main: parameter p: expected an int64 value, found the float 1.5"),
    "prim bool": (3, True, TypeError, "main: parameter p: expected an int64 value, found the bool True"),
    "prim too big": (3, 2**63, TypeError, "main: parameter p: expected an int64 value"),
    "prim far too big": (3, 2**700, TypeError, "main: parameter p: expected an int64 value"),
    "prim array": (3, np.array(3), TypeError, "main: parameter p: expected an int64 value, found a tensor"),
    "tuple kind": (4, np.array(5), TypeError, "main: parameter t: expected a tuple of 2, found a tensor"),
    "tuple length": (4, (np.array(5),), ValueError, "main: parameter t: expected a tuple of 2, found a tuple of 1"),
    "tuple field": (4, (f32(5), 1), (TypeError, ValueError), r"main: parameter t.*0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(vm, name):
    index, value, kind, message = BAD[name]
    args = good()
    args[index] = value
    with pytest.raises(kind, match=message):
        vm["main"](*args)
    assert vm["main"](*good())[1] == 7  # the machine is as it was


def test_wrong_counts_and_names(vm):
    with pytest.raises(TypeError, match="main: expected 5 arguments.*found 4"):
        vm["main"](*good()[:4])
    with pytest.raises(TypeError, match="main: expected 5 arguments.*found 6"):
        vm["main"](*good(), 1)
    with pytest.raises(TypeError, match="main: parameter z is not known"):
        vm["main"](*good(), z=1)
    with pytest.raises(AttributeError, match="'nothing' does not exist; the entry points are: main, plain"):
        vm["nothing"]
    x, y, s, p, t = good()
    assert vm["main"](x, y, p=p, t=t, s=s)[1] == 7


def base():
    return np.arange(24, dtype="float32").reshape(4, 6)


LAYOUTS = {
    "fortran": lambda: np.asfortranarray(base()),
    "transposed": lambda: base().T,
    "columns": lambda: base()[:, ::2],
    "reversed": lambda: base()[::-1, ::-1],
    "offset": lambda: base()[1:, :],
    "inner": lambda: base()[1:3, 2:5],
    "broadcast": lambda: np.broadcast_to(f32(1, 2, 3), (4, 3)),
    "misaligned": lambda: np.frombuffer(b"\0" + base().tobytes(), "u1")[1:].view("float32").reshape(4, 6),
    "big endian": lambda: base().astype(">f4"),
    "field": lambda: np.zeros((2, 3), [("a", "u1"), ("b", "f4")])["b"],
    "empty": lambda: base()[:0],
    "empty strided": lambda: base()[:, 6:][::2],
    "subclass": lambda: base().view(np.matrix),
    "masked": lambda: np.ma.masked_array(base()),
    "memmap": lambda: base().view(np.memmap),
}


def read_only(array):
    array.flags.writeable = False
    return array


LAYOUTS["read-only"] = lambda: read_only(base())


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(vm, name):
    value = LAYOUTS[name]()
    before = np.array(value)
    for call in (vm["plain"], lambda v: vm["plain"](relax.nd.array(v)), lambda v: vm["plain"](relax.nd.from_dlpack(v))):
        np.testing.assert_array_equal(call(value).numpy(), 2 * before)
    assert (np.array(value) == before).all()


def test_a_read_only_array_is_never_written_to():
    @I.ir_module
    class Mutating:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            _ = R.call_packed("pitfall.increment", x, sinfo_args=R.Tuple())
            return x

    vm = machine(Mutating)
    x = read_only(f32(1, 2))
    assert vm["main"](x).numpy().tolist() == [2, 3]
    assert x.tolist() == [1, 2]


class Torchlike:
    """What PyTorch's tensors are to others: a DLPack producer that wants its gradient dropped first."""

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad, self.detached = array, requires_grad, False

    def detach(self):
        return Torchlike(self.array)

    def __dlpack__(self, **kwargs):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldTorchlike(Torchlike):
    """One of before DLPack 1.0, whose method knows nothing but a stream."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Broken(Torchlike):
    def __dlpack__(self, **kwargs):
        raise RuntimeError("this tensor was freed")


@pytest.mark.parametrize("kind", [Torchlike, OldTorchlike])
@pytest.mark.parametrize("layout", ["fortran", "columns", "offset", "inner", "empty", "broadcast", "reversed"])
def test_dlpack_producers(vm, kind, layout):
    value = LAYOUTS[layout]()
    if not value.flags.writeable:
        value = np.lib.stride_tricks.as_strided(f32(1, 2, 3), (4, 3), (0, 4))
    np.testing.assert_array_equal(vm["plain"](kind(value)).numpy(), 2 * value)
    np.testing.assert_array_equal(vm["plain"](kind(value, True) if kind is Torchlike else kind(value)), 2 * value)


def test_dlpack_producers_share_memory(vm):
    x = np.ones((2, 2), "float32")
    result = vm["give"](Torchlike(x))
    x[:] = 3
    assert result.numpy().tolist() == [[3, 3], [3, 3]]
    assert np.from_dlpack(result).ctypes.data == x.ctypes.data


def test_dlpack_producers_that_fail(vm):
    with pytest.raises((RuntimeError, TypeError, ValueError), match="this tensor was freed"):
        vm["plain"](Broken(base()))


def test_results_outlive_everything():
    result = machine(Module)["plain"](base())
    view = np.from_dlpack(result)
    del result
    import gc

    gc.collect()
    junk = [np.full((4, 6), 9, "float32") for _ in range(100)]
    np.testing.assert_array_equal(view, 2 * base())
    del junk


def test_functions_as_arguments(vm):
    with pytest.raises(TypeError, match="apply: parameter f: expected a Relax function, found a packed function"):
        vm["apply"](lambda x: x, f32(1, 2))
    with pytest.raises(TypeError, match="apply: parameter f: the function integers does not fit"):
        vm["apply"](vm["integers"], f32(1, 2))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "module.relax"
    relax.build(Module, PLAIN_LOOPS).save(path)
    return path.read_bytes()


def load(tmp_path, content):
    path = tmp_path / "broken.relax"
    path.write_bytes(content)
    return relax.load_executable(path)


def test_truncated_files(saved, tmp_path):
    for size in [*range(0, 200, 7), *range(200, len(saved), max(1, len(saved) // 60)), len(saved) - 1]:
        with pytest.raises(relax.runtime.ExecutableError):
            load(tmp_path, saved[:size])
    with pytest.raises(relax.runtime.ExecutableError):
        load(tmp_path, saved + b"\0")


def test_changed_files(saved, tmp_path):
    rng = np.random.default_rng(0)
    for position in [*range(64), *rng.integers(0, len(saved), 100)]:
        content = bytearray(saved)
        content[position] ^= 1 << int(rng.integers(8))
        with pytest.raises(relax.runtime.ExecutableError):
            load(tmp_path, bytes(content))


def test_foreign_files(tmp_path, saved):
    for content in (b"", b"\x7fELF" + bytes(100), b"PK\3\4" + bytes(100), bytes(4096), struct.pack("<Q", 2**63) * 8):
        with pytest.raises(relax.runtime.ExecutableError):
            load(tmp_path, content)
    with pytest.raises((relax.runtime.ExecutableError, OSError)):
        relax.load_executable(tmp_path / "missing.relax")
    with pytest.raises((relax.runtime.ExecutableError, OSError)):
        relax.load_executable(tmp_path)
    assert relax.VirtualMachine(load(tmp_path, saved))["plain"](base()).shape == (4, 6)


def test_wrong_use_of_build():
    with pytest.raises(TypeError, match="expected an IRModule, found str"):
        relax.build("main")
    with pytest.raises(relax.ir.DiagnosticError, match="no pipeline 'fast'"):
        relax.build(Module, pipeline="fast")
    with pytest.raises(ValueError, match="no function has a parameter 'w'"):
        relax.build(Module, params={"w": f32(1)})
    with pytest.raises((ValueError, relax.ir.DiagnosticError)):
        relax.build(Module, "no such target")
    with pytest.raises((TypeError, ValueError, relax.ir.DiagnosticError), match="x"):
        relax.build(Module, params={"x": "text"})
    with pytest.raises((TypeError, ValueError, relax.ir.DiagnosticError), match="x"):
        relax.build(Module, params={"x": f32(1, 2)})
    with pytest.raises(TypeError, match="Executable"):
        relax.VirtualMachine(Module)
