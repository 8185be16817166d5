"""Sizes at the machine's own level: builtins, arrays, saved constants, calls from packed functions."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.runtime import nd
from relax.runtime.builtin_table import BUILTINS
from relax.runtime.heap import ShapeHeap
from relax.runtime.limits import DIMENSION_LIMIT
from relax.runtime.sizes import check_dimensions, is_size, shape_value
from relax.script import relax as R
from support import PLAIN_LOOPS

NEGATIVE = "a shape cannot have a negative dimension, as in "
GREAT = r"a shape cannot have a dimension of 2\*\*48 or more, as in "
NO_SIZES = (-1, -(2**63), 2**48, 2**63 - 1)


def builtin(name):
    return BUILTINS[f"vm.builtin.{name}"].function


def test_sizes():
    assert [n for n in (-1, 0, 1, 2**48 - 1, 2**48) if is_size(n)] == [0, 1, 2**48 - 1]
    check_dimensions(())
    check_dimensions((0, DIMENSION_LIMIT - 1))
    assert shape_value([2, 0]) == (2, 0)
    with pytest.raises(ValueError, match=f"^{NEGATIVE}\\(2, -1\\)$"):
        shape_value([2, -1])
    with pytest.raises(ValueError, match=f"^{GREAT}\\(0, {2**70}\\)$"):
        shape_value([0, 2**70])


@pytest.mark.parametrize("size", NO_SIZES)
def test_builtins_make_and_match_sizes_only(size):
    heap = ShapeHeap(2, ("n bound by x, dimension 0",))
    shape = tvm_ffi.Shape((size,))  # which the machine lets nobody bring in
    with pytest.raises(ValueError, match="expected a size") as caught:
        builtin("match_shape")(shape, heap, 1, 1, 0, "main: match_cast of s")
    expected = "expected a size, at least 0 and less than 2**48"
    assert str(caught.value) == f"main: match_cast of s: dimension 0 is {size}, {expected}"
    with pytest.raises(ValueError, match="expected a size") as caught:
        builtin("match_prim_value")(size, heap, 4, 0, "main: parameter p")
    assert str(caught.value) == f"main: parameter p: the value is {size}, {expected}"
    builtin("match_prim_value")(size, heap, 1, 0, "main: parameter p")  # a scalar that is no size
    with pytest.raises(ValueError, match=f"^({NEGATIVE}|{GREAT})"):
        builtin("make_shape")(heap, 2, 0, 3, 1, 0)
    for call in (
        lambda: builtin("alloc_tensor")(shape, "int8"),
        lambda: builtin("alloc_storage")(shape, "int8"),
        lambda: builtin("alloc_tensor_in")(nd.empty((8,), "uint8").tensor, 0, (size, size), "int8"),
        lambda: builtin("tensor_to_shape")(nd.array(np.array([size])).tensor),
    ):
        with pytest.raises(ValueError, match=f"({NEGATIVE}|{GREAT})"):
            call()
    with pytest.raises(ValueError, match="cannot become"):
        builtin("reshape")(nd.empty((0,)).tensor, (size, 0))
    with pytest.raises(ValueError, match="cannot be seen as"):
        nd.empty((0,)).view((size, 0))


def test_products_of_sizes_are_exact():
    """Their elements, bytes and strides are not counted in 64 bits that wrap around."""
    nothing = nd.empty((0,))
    with pytest.raises(ValueError, match="cannot be seen as"):
        nothing.view((2**32, 2**32))
    with pytest.raises(ValueError, match="cannot become"):
        builtin("reshape")(nothing.tensor, (2**32, 2**32))
    for shape in ((0, 2**40, 2**40), (2**40, 2**40, 0), (2**30, 0, 2**31)):
        for call in (
            lambda shape=shape: nd.empty(shape),
            lambda shape=shape: nothing.view(shape),
            lambda shape=shape: builtin("reshape")(nothing.tensor, shape),
            lambda shape=shape: builtin("alloc_tensor_in")(nothing.tensor, 0, shape, "float32"),
        ):
            with pytest.raises(MemoryError, match="has strides of more than 64 bits"):
                call()
    assert builtin("reshape")(nothing.tensor, (2**30, 0, 2**30)).shape == (2**30, 0, 2**30)
    with pytest.raises(MemoryError, match="needs"):
        builtin("alloc_storage")((2**40, 2**30), "float32")


@pytest.mark.parametrize("size", NO_SIZES)
def test_a_saved_shape_has_sizes(size):
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=0):
        with pytest.raises(ValueError, match=f"^({NEGATIVE}|{GREAT})"):
            ib.emit_ret(relax.ShapeTuple([size]))
        ib.emit_ret(relax.ShapeTuple([7]))
    executable = ib.get()
    executable.constants[0] = relax.ShapeTuple([size])
    with pytest.raises(relax.runtime.ExecutableError, match=f"section CNST is malformed .*({NEGATIVE}|{GREAT})"):
        relax.Executable.from_bytes(executable.to_bytes())


def test_a_packed_function_that_calls_back_passes_sizes():
    @R.function
    def main(s: R.Object) -> R.Object:
        return s

    mod = relax.IRModule.from_expr(main)
    for machine in (relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS)), relax.interpreter.Interpreter(mod)):
        function = machine["main"].__tvm_ffi_object__()
        assert function(tvm_ffi.Shape((2, 3))) == (2, 3)
        with pytest.raises(ValueError, match=f"main: parameter s: {NEGATIVE}"):
            function(tvm_ffi.Shape((-2, 3)))
        with pytest.raises(TypeError, match="main: expected 1 argument"):
            function(1, 2)
