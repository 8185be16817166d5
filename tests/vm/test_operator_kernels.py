"""Operators on operands of unknown rank or dtype, whose kernels are chosen at run time."""

from __future__ import annotations

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.ir import DiagnosticError
from relax.runtime import Executable, operators
from relax.script import from_source
from relax.transform import LegalizeOps, PassContext
from support import numbers, same

MODES = ["compiled", "bytecode"]


def parse(params, *body, result="y"):
    """A function of parameters, as a module."""
    lines = "\n".join(f"        {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}):\n{lines}\n        return {result}\n"
    )


def check(mod, *args):
    """Compiled in both modes, saved and loaded, a program gives what the interpreter gives."""
    expected = relax.interpret(mod, "main", *args)
    for mode in MODES:
        executable = relax.build(mod, exec_mode=mode)
        for program in (executable, Executable.from_bytes(executable.to_bytes())):
            same(relax.VirtualMachine(program)["main"](*args), expected)


@pytest.mark.parametrize("info", ["R.Tensor", 'R.Tensor("float32")', "R.Tensor(ndim=2)", "R.Object"])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1)])
def test_less_and_less_is_known(info, shape):
    mod = parse(f"a: {info}, b: {info}", "x = R.add(a, b)", "y = R.abs(x)")
    check(mod, numbers(*shape), numbers(1, 3))


def test_one_program_takes_operands_of_all_ranks_and_dtypes():
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.multiply(a, b)")
    run = relax.VirtualMachine(relax.build(mod))["main"]
    for dtype in ("float64", "int8", "float16"):
        for left, right in [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((0,), (1,))]:
            a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype, seed=1)
            np.testing.assert_array_equal(run(a, b).numpy(), a * b)


def test_special_values():
    a = np.array([np.nan, np.inf, -np.inf, -0.0], "float32")
    check(parse("a: R.Tensor", "y = R.maximum(a, R.const(0.0))"), a)


def test_sizes_and_shape_variables():
    mod = parse(
        'a: R.Tensor, s: R.Shape(["n", "m"])', "n = T.int64()", "m = T.int64()", "y = R.reshape(a, R.shape([m, n]))"
    )
    for n, m in [(2, 3), (1, 6), (6, 1)]:
        check(mod, numbers(6), relax.ShapeTuple([n, m]))


@pytest.mark.parametrize(
    "call",
    ["R.zeros(s, 'int64')", "R.ones(s, 'float32')", "R.full(s, R.const(2.0))", "R.broadcast_to(R.const(1.0), s)",
     "R.reshape(a, s)"],
)  # fmt: skip
def test_a_shape_of_unknown_rank(call):
    mod = parse("a: R.Tensor", "s = R.shape_of(a)", f"y = {call}")
    for shape in [(), (0,), (2, 3)]:
        check(mod, numbers(*shape))


def test_the_rank_of_a_result_that_sizes_decide():
    """`squeeze` drops the sizes that are 1: operands of one rank give results of several."""
    mod = parse("a: R.Tensor", "y = R.squeeze(a)")
    for shape in [(2, 3), (1, 3), (2, 1), (1, 1), (1, 0)]:
        check(mod, numbers(*shape))


def test_tuples_in_branches():
    mod = parse(
        "a: R.Tensor, c: R.Tensor((), 'bool')",
        "if c:",
        "    t = R.split(a, 2, axis=-1)",
        "    z = R.concat(t, axis=0)",
        "else:",
        "    z = R.negative(a)",
        "y = R.add(z, z)",
    )
    for condition in (True, False):
        check(mod, numbers(2, 1, 4), np.array(condition))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (numbers(2), numbers(2, dtype="float64"), "x1 and x2 must have one dtype, found float32 and float64"),
        (numbers(2, 3), numbers(2), "the shapes cannot be broadcast"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_operands_that_do_not_fit(a, b, message, mode):
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")
    for run in (
        relax.VirtualMachine(relax.build(mod, exec_mode=mode))["main"],
        lambda *x: relax.interpret(mod, "main", *x),
    ):
        with pytest.raises(AssertionError, match=message):
            run(a, b)


def test_kernels_are_compiled_once(monkeypatch):
    mod = parse("a: R.Tensor, b: R.Tensor", "x = R.add(a, b)", "y = R.add(x, b)")
    run = relax.VirtualMachine(relax.build(mod))["main"]
    monkeypatch.setattr(operators, "_kernels", {})
    for size in (3, 4, 0):
        run(numbers(size), numbers(size))
    assert len(operators._kernels) == 1


@pytest.fixture
def misses(monkeypatch):
    """Keys of the calls that machine code did not find a kernel for."""
    keys = []
    key_of = operators._key
    monkeypatch.setattr(operators, "_key", lambda *args: keys.append(key_of(*args)) or keys[-1])
    return keys


def test_machine_code_chooses_kernels_that_were_met(misses):
    run = relax.VirtualMachine(relax.build(parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")))["main"]
    shapes = [((), ()), ((3,), ()), ((2, 3), (3,)), ((0,), (1,)), ((1, 2, 3), (1, 1, 1))]
    operands = [
        (numbers(*left, dtype=dtype), numbers(*right, dtype=dtype))
        for dtype in ("float32", "int32", "float64")
        for left, right in shapes
    ]
    for _ in range(3):
        for a, b in operands:
            np.testing.assert_array_equal(run(a, b).numpy(), a + b)
    assert len(misses) == len(set(misses)) == len(operands)


def test_machine_code_chooses_by_scalars_shapes_and_the_call(misses):
    mod = parse(
        'a: R.Tensor, p: R.Prim("float32"), s: R.Shape',
        "x = R.add(a, p)", "z = R.multiply(x, p)", "w = R.reshape(z, s)", "y = R.negative(w)",
    )  # fmt: skip
    run = relax.VirtualMachine(relax.build(mod))["main"]
    for sizes in [(6,), (2, 3), (6,), (3, 2), (1, 6)]:
        a = numbers(6)
        same(run(a, 1.5, relax.ShapeTuple(sizes)), relax.interpret(mod, "main", a, 1.5, relax.ShapeTuple(sizes)))
    names = [key[0].rpartition("global_symbol")[2].split(chr(34))[2] for key in misses]
    assert names == ["add", "multiply", "negative", "negative"]


def test_kernels_for_some_sizes_or_tuples_are_chosen_by_the_runtime(misses):
    run = relax.VirtualMachine(relax.build(parse("a: R.Tensor", "y = R.squeeze(a)")))["main"]
    for shape in [(2, 3), (1, 3), (2, 3)]:
        assert run(numbers(*shape)).numpy().shape == np.squeeze(numbers(*shape)).shape
    mod = parse("a: R.Tensor, n: R.Object", "y = R.concat(n, axis=0)")
    run = relax.VirtualMachine(relax.build(mod))["main"]
    for count in (1, 2, 1):
        assert run(numbers(2), (numbers(3),) * count).numpy().shape == (3 * count,)
    assert len(misses) == 6


@pytest.mark.parametrize("mode", MODES)
def test_an_error_is_the_same_each_time(mode):
    run = relax.VirtualMachine(relax.build(parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)"), exec_mode=mode))[
        "main"
    ]
    errors = []
    for _ in range(3):
        with pytest.raises(AssertionError, match="the shapes cannot be broadcast") as caught:
            run(numbers(2, 3), numbers(4, 2))
        errors.append((str(caught.value), caught.value.__notes__))
    assert errors[0] == errors[1]


def test_threads_share_the_kernels_of_a_program(misses):
    run = relax.VirtualMachine(relax.build(parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")))["main"]
    shapes = [(2,) * rank for rank in range(6)]

    def work(turn):
        for i in range(60):
            a = numbers(*shapes[(i + turn) % len(shapes)])
            np.testing.assert_array_equal(run(a, a).numpy(), a + a)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    met = len(misses)
    work(0)
    assert len(misses) == met


def references(function):
    """Number of references to a function of tvm-ffi."""
    return ctypes.c_int32.from_address(function.__chandle__()).value


def test_a_program_that_is_gone_holds_no_kernels(monkeypatch):
    monkeypatch.setattr(operators, "_kernels", {})
    run = relax.VirtualMachine(relax.build(parse("a: R.Tensor", "y = R.exp(a)")))["main"]
    run(numbers(3))
    (kernel,) = operators._kernels.values()
    held = references(kernel.native)
    run(numbers(4))
    assert references(kernel.native) == held
    del run
    gc.collect()
    assert references(kernel.native) == held - 1


def test_kernels_compiled_beforehand(monkeypatch):
    """They are part of the saved program. What happens without the compiler is tested in tests/runtime/test_alone.py."""
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")
    with PassContext(config={"relax.LegalizeOps.combinations": [("float32", 1), ("float32", 2), ("int8", 1)]}):
        data = relax.build(mod).to_bytes()
    compiled = []
    monkeypatch.setattr(operators, "_kernels", {})
    monkeypatch.setattr(operators, "_compiled", lambda spec, args: compiled.append(spec))
    run = relax.VirtualMachine(Executable.from_bytes(data))["main"]
    for left, right, dtype in [((2, 3), (3,), "float32"), ((5,), (5,), "int8")]:
        a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
        np.testing.assert_array_equal(run(a, b).numpy(), a + b)
    assert compiled == []


@pytest.mark.parametrize(("dtype", "value"), [("float32", 2.5), ("int32", 2)])
def test_a_scalar_has_the_dtype_that_is_declared(dtype, value):
    """A Python number does not tell it."""
    mod = parse(f'a: R.Tensor, p: R.Prim("{dtype}")', "y = R.add(a, p)")
    check(mod, numbers(2, 3).astype(dtype), value)


def test_one_tensor_is_both_operands():
    check(parse("a: R.Tensor", "x = R.reshape(a, R.shape([6]))", "y = R.multiply(x, x)"), numbers(2, 3))


@pytest.mark.parametrize(
    "call",
    [
        "R.squeeze(a)", "R.flatten(a)", "R.expand_dims(a, 0)", "R.permute_dims(a, [0, 1])", "R.broadcast_to(a, (2, 3))",
        'R.astype(a, "float32")', "R.multiply(a, R.prim_value(T.float32(1)))", "R.clip(a, -1e30, 1e30)", "R.tile(a, [1, 1])",
        "R.strided_slice(a, axes=[0], begin=[0], end=[2])", "R.concat((a,), axis=0)", "R.split(a, 1, axis=0)", "R.nn.pad(a, [0, 0, 0, 0])",
        "R.repeat(a, 1)", "R.nn.dropout(a, 0.0)", "R.flip(a, [])", "R.sum(a, axis=[])",
    ],
)  # fmt: skip
def test_a_result_shares_no_memory_with_an_operand(call, monkeypatch):
    """Passes rely on it: `relax.run.operator` returns something fresh."""
    results = []
    run_kernel = operators.Kernel.__call__

    def observed(kernel, args):
        results.append((args, run_kernel(kernel, args)))
        return results[-1][1]

    monkeypatch.setattr(operators, "_kernels", {})
    monkeypatch.setattr(operators.Kernel, "__call__", observed)
    relax.VirtualMachine(relax.build(parse("a: R.Tensor", f"y = {call}")))["main"](numbers(2, 3))
    for args, result in results:
        operands = {arg.data_ptr() for arg in args if hasattr(arg, "data_ptr")}
        parts = list(result) if isinstance(result, tuple | tvm_ffi.Array) else [result]
        assert operands.isdisjoint(part.data_ptr() for part in parts)
    assert results or "flatten" in call or "expand_dims" in call


def test_a_result_may_be_changed_in_place():
    mod = parse(
        "a: R.Tensor", "x = R.add(a, R.const(1.0))",
        'y = R.call_inplace_packed("test.operator_kernels.double", x, inplace_indices=0, sinfo_args=R.Tensor)',
    )  # fmt: skip
    a = numbers(2, 3)
    expected = 2 * (a + 1)
    same(relax.VirtualMachine(relax.build(mod))["main"](a), expected)
    same(relax.interpret(mod, "main", a), expected)


@relax.register_func("test.operator_kernels.double", override=True)
def double(tensor):
    tensor.copyfrom(2 * tensor.numpy())
    return tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("call", "arg", "message"),
    [
        ("R.exp(a)", relax.ShapeTuple([1, 2]), r"exp: x must be a tensor, found the shape \(1, 2\)"),
        ("R.concat(a, axis=0)", numbers(2), "concat: tensors must be a tuple, found a tensor"),
    ],
)
def test_operands_of_another_kind(call, arg, message, mode):
    mod = parse("a: R.Object", f"y = {call}")
    for run in (
        relax.VirtualMachine(relax.build(mod, exec_mode=mode))["main"],
        lambda x: relax.interpret(mod, "main", x),
    ):
        with pytest.raises(TypeError, match=message):
            run(arg)


def test_programs_that_differ_in_the_kernels_they_bring(monkeypatch):
    mod = parse("a: R.Tensor", "y = R.negative(a)")
    programs = []
    for dtype in ("float32", "float64"):
        with PassContext(config={"relax.LegalizeOps.combinations": [(dtype, 1)]}):
            programs.append(relax.build(mod).to_bytes())
    compiled = []
    monkeypatch.setattr(operators, "_kernels", {})
    monkeypatch.setattr(operators, "_compiled", lambda spec, args: compiled.append(spec))
    for data, dtype in zip(programs, ("float32", "float64"), strict=True):
        a = numbers(3).astype(dtype)
        np.testing.assert_array_equal(relax.VirtualMachine(Executable.from_bytes(data))["main"](a).numpy(), -a)
    assert compiled == []


@pytest.mark.parametrize(
    ("combinations", "message"),
    [
        ([("float32", 1, 2)], "too many values to unpack"),
        ([("float31", 1)], "float31"),
        ([("float32", -1)], "the rank -1 is negative"),
        ([("float32", "1")], "cannot be interpreted as an integer"),
        (7, "not iterable"),
        ([("float32", rank) for rank in range(17)], "2 operands of the dtypes and ranks given have 289 combinations"),
    ],
)
def test_combinations_that_are_none_or_too_many(combinations, message):
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")
    with PassContext(config={"relax.LegalizeOps.combinations": combinations}), pytest.raises(DiagnosticError) as caught:
        relax.build(mod)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E4017"
    assert message in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 6


@pytest.mark.parametrize("spec", ["", "[]", '{"format":2,"root":3,"nodes":[]}'])
def test_a_file_whose_calls_somebody_else_wrote(spec):
    with pytest.raises(ValueError, match="not a saved relax program|not the call of an operator"):
        operators.run_operator(spec, None)


def test_the_pass():
    mod = LegalizeOps()(parse("a: R.Tensor", "y = R.exp(a)"))
    text = mod.script()
    assert 'R.call_pure_packed("relax.run.operator"' in text
    assert "sinfo_args=(R.Tensor,)" in text


def test_dispatch_can_be_excluded():
    with (
        PassContext(config={"relax.LegalizeOps.dispatch": False}),
        pytest.raises(DiagnosticError, match="too little is known of its operands: R.Tensor"),
    ):
        LegalizeOps()(parse("a: R.Tensor", "y = R.exp(a)"))
