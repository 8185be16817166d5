"""Arguments of every kind for parameters of every kind: each way to run a program takes the same, and says the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm_ffi import Shape

import relax
from relax.runtime.executable import ExecutableError
from relax.runtime.system_linker import find_linker
from relax.script import from_source
from support import PLAIN_LOOPS, plain_machine

ANNOTATIONS = {
    "any_tensor": "R.Tensor",
    "any_rank": 'R.Tensor(dtype="float32")',
    "any_dtype": "R.Tensor(ndim=2)",
    "square": 'R.Tensor(("n", "n"), "float32")',
    "three": 'R.Tensor((3, "n"), "float32")',
    "computed": 'R.Tensor(("n", "n * 2 - 1"), "float32")',
    "condition": 'R.Tensor((), "bool")',
    "any_shape": "R.Shape",
    "shape": 'R.Shape(["n", 3])',
    "empty_shape": "R.Shape([])",
    "boolean": 'R.Prim("bool")',
    **{dtype: f'R.Prim("{dtype}")' for dtype in ("int8", "uint8", "int32", "uint32", "int64", "float32", "bfloat16")},
    "constant": "R.Prim(value=3)",
    "size": 'R.Tuple(R.Prim(value="n"), R.Tensor(("n",), "float32"))',
    "number": 'R.Tuple(R.Prim(value="n"), R.Prim(value="n + 1"))',
    **{
        f"two_{dtype}": f'R.Tuple(R.Prim("{dtype}", value="q"), R.Prim("{dtype}", value="q"))'
        for dtype in ("bool", "uint8", "float32")
    },
    "true": 'R.Prim("bool", value=True)',
    "half": 'R.Prim("float32", value=0.5)',
    "unit": "R.Tuple()",
    "pair": 'R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Shape(["n"]), R.Prim("int8")))',
}  # fmt: skip
HEAD = "from relax.script import ir as I, relax as R, tir as T\n\n@I.ir_module\nclass Program:\n"
PROGRAM = HEAD + "".join(
    f"    @R.function\n    def {name}(x: {annotation}) -> R.Object:\n        return R.prim_value(1)\n"
    for name, annotation in ANNOTATIONS.items()
)


def array(*shape, dtype="float32"):
    return np.ones(shape, dtype)


NUMBERS = [
    0, 1, 3, -1, 4, 127, 128, -128, -129, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**48, 2**62, -(2**63),
    True, False, 0.0, 3.0, 2.5, float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
VALUES = [
    *NUMBERS, None, "text", (), (1,), (1, 2), (3, 4),
    array(), array(2), array(2, 2), array(0, 0), array(1, 1), array(3, 5), array(2, 3), array(2, 4), array(2, 2, 2),
    array(2, 2, dtype="float64"), array(2, dtype="int8"), array(dtype="bool"), array(1, dtype="bool"),
    Shape(()), Shape((3,)), Shape((2, 3)), Shape((3, 2)), Shape((0, 3)), Shape((2, 3, 4)),
    *((n, array(2)) for n in (2, 3, -1, 2**62, 2.0, True)), (array(2), 2), (True, True), (True, False), (7, 7), (7, 8),
    (0.5, 0.5), (0.5, 2.0), (float("nan"), float("nan")), (float("nan"), 0.5), (float("inf"), -float("inf")), 0.5,
    (array(2), (Shape((2,)), 7)), (array(2), (Shape((3,)), 7)), (array(2), (Shape((2,)), 200)),
    (array(2), (7, 7)), (array(2), 7), (array(2), (Shape((2,)), 7), 7),
]  # fmt: skip


MACHINE_ONLY = [b"bytes", (array(0), (Shape((0,)), 7))]
"""Values of which a library says less: it knows no classes of Python, and copies no tensors in tuples."""
MODULE = from_source(PROGRAM)


def argument(value):
    """A value as a program without relax passes it."""
    if isinstance(value, np.ndarray):
        return tvm_ffi.from_dlpack(value)
    return tuple(map(argument, value)) if type(value) is tuple else value


def outcome(function, value):
    """The result, or the kind of error and its message."""
    try:
        return function(value)
    except Exception as error:  # noqa: BLE001 (it is what is compared)
        return type(error), str(error)


@pytest.fixture(scope="module")
def executable():
    return relax.build(MODULE, PLAIN_LOOPS)


@pytest.fixture(scope="module")
def expected():
    """What the interpreter says of each value, by function; the program is checked once."""
    functions = relax.interpreter.Interpreter(MODULE)
    return {name: [outcome(functions[name], value) for value in [*VALUES, *MACHINE_ONLY]] for name in ANNOTATIONS}


def test_all_functions_are_compiled(executable):
    assert set(executable.compiled_functions) == set(ANNOTATIONS)


@pytest.mark.parametrize("way", ["compiled", "bytecode", "library"])
def test_values_fit_or_are_refused_as_the_language_says(executable, expected, way, tmp_path):
    if way == "library":
        try:
            find_linker()
        except ExecutableError as error:
            pytest.skip(f"exporting is not tested: {error}")
        executable.export_library(tmp_path / "program.so")
        library = tvm_ffi.load_module(str(tmp_path / "program.so"))
        functions = {name: lambda x, name=name: library[name](argument(x)) for name in ANNOTATIONS}
    else:
        built = executable if way == "compiled" else relax.build(MODULE, PLAIN_LOOPS, exec_mode=way)
        functions = relax.VirtualMachine(built, relax.cpu())
    for name, results in expected.items():
        assert {type(result) for result in results} == {int, tuple}, f"{name}: nothing fits, or all does"
        for value, result in zip([*VALUES, *MACHINE_ONLY], results, strict=True):
            less = any(value is other for other in MACHINE_ONLY)
            # A machine makes shapes of tuples; a library does not.
            if way != "library" or not (less or (name.endswith("shape") and type(value) is tuple)):
                assert outcome(functions[name], value) == result, (name, value)


@pytest.mark.parametrize("mode", ["interpreter", "bytecode", "compiled"])
def test_a_number_of_an_annotation_has_its_dtype(mode):
    """0.1 is not the same number in float32."""
    program = from_source(
        HEAD
        + """
    @R.function
    def main(a: R.Prim("float32")) -> R.Prim("float32", value=T.float32(0.1)):
        b = R.match_cast(a, R.Prim("float32", value=T.float32(0.1)))
        return b
"""
    )
    if mode == "interpreter":
        main = relax.interpreter.Interpreter(program)["main"]
    else:
        main = plain_machine(program, mode)["main"]
    assert main(0.1) == float(np.float32(0.1))
    with pytest.raises(ValueError, match="^main: match_cast of a: the value is 0.2"):
        main(0.2)


@pytest.mark.parametrize("mode", ["interpreter", "bytecode", "compiled"])
def test_a_number_of_an_annotation_may_be_one_that_only_uint64_has(mode):
    value = 2**63 + 5
    program = from_source(
        HEAD
        + f"""
    @R.function
    def main(a: R.Prim("uint64", value=T.uint64({value}))) -> R.Object:
        return R.prim_value(1)
"""
    )
    if mode == "interpreter":
        main = relax.interpreter.Interpreter(program)["main"]
    else:
        main = plain_machine(program, mode)["main"]
    assert main(value) == 1
    for other in (5, 2**63 + 4):
        with pytest.raises(ValueError, match=rf"^main: parameter a: the value is {other}, expected {value}(\n|$)"):
            main(other)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize("way", ["compiled", "bytecode", "library"])
def test_a_slot_of_uint64_is_shown_as_one(way, tmp_path):
    """A program lowered by hand: no other has a uint64 in a compiled function."""
    program = from_source(
        HEAD
        + """
    @R.function(pure=False)
    def main(a: R.Object, b: R.Object):
        h = R.call_packed("vm.builtin.alloc_shape_heap", 1, R.str("uint64: u bound by a"), sinfo_args=R.Object)
        _ = R.call_packed(
            "vm.builtin.match", a, h, R.str("scalar"), 0, R.dtype("int64"), 1, 1, 0, R.str("a"), sinfo_args=R.Tuple()
        )
        _ = R.call_packed(
            "vm.builtin.match", b, h, R.str("scalar"), 0, R.dtype("int64"), 1, 3, 0, R.str("b"), sinfo_args=R.Tuple()
        )
        return b
"""
    )
    built = relax.build(program, PLAIN_LOOPS, exec_mode="bytecode" if way == "bytecode" else "compiled")
    assert built.compiled_functions == ([] if way == "bytecode" else ["main"])
    if way == "library":
        try:
            find_linker()
        except ExecutableError as error:
            pytest.skip(f"exporting is not tested: {error}")
        built.export_library(tmp_path / "program.so")
        main = tvm_ffi.load_module(str(tmp_path / "program.so"))["main"]
    else:
        main = relax.VirtualMachine(built, relax.cpu())["main"]
    assert main(-1, -1) == -1
    with pytest.raises(ValueError, match="b: the value is 3, expected u = 18446744073709551615 .u was bound by a."):
        main(-1, 3)
