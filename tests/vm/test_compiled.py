"""Compiled functions do what bytecode does: values, effects, errors and the notes in them. See docs/execution-modes.md."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.optimize.pipeline import get_pipeline
from relax.runtime import NDArray, register_func
from relax.runtime.string_tensor import StringTensor
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.vm.compilable import compilable_functions
from relax.vm.compiled import compile_functions
from support import MODES, PLAIN_LOOPS, numbers, plain_machine


def outcome(main, args):
    """What a call gives: its value, or its error with the notes."""
    try:
        return plain(main(*args))
    except Exception as error:  # noqa: BLE001
        return type(error), str(error), "\n".join(getattr(error, "__notes__", []))


def plain(value):
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, NDArray):
        return str(value.dtype), value.shape, value.numpy().tobytes()
    return repr(value) if isinstance(value, StringTensor) else value


calls: list[object] = []


@register_func("test.compiled.note", override=True)
def note(x, label):
    calls.append((label, x.shape))
    return x


@register_func("test.compiled.fail", override=True)
def fail(x):
    raise KeyError(f"no key for shape {x.shape}")


@register_func("test.compiled.fill", override=True)
def fill(a, x):
    a[:] = x
    calls.append(a.shape)


@register_func("test.compiled.rows", override=True)
def rows(x):
    return np.asfortranarray(x.numpy()[::2])


@register_func("test.compiled.parts", override=True)
def parts(x):
    return x.numpy()[:1], [x.numpy().T, 3, None]


# ------------------------------------------------------------------------------- both modes agree

PROGRAMS = {
    "tensors": """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
    return R.nn.relu(R.matmul(x, w))
""",
    "sizes": """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("2 * n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    z = R.reshape(R.concat((x, y), axis=0), R.shape([3 * n * m]))
    return z, R.shape_of(z), R.shape([n, m, n + m])
""",
    "a choice": """
@R.function(pure=False)
def main(b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
    n = T.int64()
    if b:
        y = R.add(x, R.const(1.0, "float32"))
        z = R.multiply(y, y)
    else:
        z = R.call_packed("test.compiled.note", x, "else", sinfo_args=R.Tensor((n,), "float32"))
    return R.subtract(z, x)
""",
    "tuples": """
@R.function
def main(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Shape(["n"]), R.Prim("int64")))):
    x = p[0]
    q = p[1]
    return (q, x, (p, q[0], q[1]))
""",
    "scalars": """
@R.function
def main(a: R.Prim(value="k"), x: R.Tensor(("k + 1",), "float32"), f: R.Prim("float32"), b: R.Prim("bool")):
    k = T.int64()
    return R.prim_value(k * 2), f, b, R.full(R.shape([k]), R.const(2.0, "float32"), "float32")
""",
    "calls": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    y = cls.twice(x)
    _ = cls.check(y)
    return cls.twice(y)

@R.function
def twice(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    return R.add(x, x)

@R.function(pure=False)
def check(x: R.Tensor(("n",), "float32")) -> R.Tensor((3,), "float32"):
    n = T.int64()
    return R.match_cast(x, R.Tensor((3,), "float32"))
""",
    "a packed function fails": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    y = cls.inner(R.add(x, x))
    return R.add(y, y)

@R.function(pure=False)
def inner(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    return R.call_packed("test.compiled.fail", x, sinfo_args=R.Tensor((n,), "float32"))
""",
    "results of packed functions": """
@R.function(pure=False)
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    k = T.int64()
    r = R.call_packed("test.compiled.rows", x, sinfo_args=R.Object)
    y = R.match_cast(r, R.Tensor((k, m), "float32"))
    z = R.call_packed("test.compiled.parts", x, sinfo_args=R.Object)
    return R.add(y, y), z
""",
    "data-dependent shapes": """
@R.function
def main(x: R.Tensor(("n",), "int64")):
    y = R.unique(x)
    m = T.int64()
    z = R.match_cast(y, R.Tensor((m,), "int64"))
    return R.add(z, z), R.shape([m])
""",
    "negative size": """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    return R.full(R.shape([n - 3]), R.const(2.0, "float32"), "float32")
""",
    "too much memory": """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    return R.full(R.shape([n * 1000000000, 1000000000]), R.const(2.0, "float32"), "float32")
""",
    "planned memory": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32"), offset: R.Prim(value="k")):
    n, k = T.int64(), T.int64()
    s = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
    a = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([n]), "float32")
    _ = R.call_packed("test.compiled.fill", a, x, sinfo_args=R.Tuple())
    b = R.memory.alloc_tensor(s, R.prim_value(k), R.shape([n, 1]), "float32")
    _ = R.call_packed("test.compiled.fill", b, R.reshape(x, R.shape([n, 1])), sinfo_args=R.Tuple())
    return R.add(a, a), b
""",
    "sequences and strings": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32"), s: R.Object, t: R.Object):
    a = R.call_packed("relax.run.sequence", x, x, s, sinfo_args=R.Object)
    b = R.call_packed("relax.run.sequence_insert", a, x, R.null_value(), sinfo_args=R.Object)
    u = R.call_packed("relax.run.strings_unsqueeze", s, R.shape([0]), sinfo_args=R.Object)
    return b, u, t
""",
    "assertion": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32"), b: R.Tensor((), "bool")):
    _ = R.assert_op(b, R.prim_value(3), format="b is not so: {}")
    return x
""",
    "closures": """
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    @R.function(pure=False)
    def inner(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        return cls.check(R.add(x, y))
    return inner(x)

@R.function(pure=False)
def check(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    y = R.match_cast(x, R.Tensor((3,), "float32"))
    return R.match_cast(y, R.Tensor((n,), "float32"))
""",
    "recursion": """
@R.function
def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
    return cls.sum(x)

@R.function
def sum(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
    b = R.less(x, R.const(1, "int64"))
    if b:
        y = R.const(0, "int64")
    else:
        z = cls.sum(R.subtract(x, R.const(1, "int64")))
        y = R.add(x, z)
    return y
""",
}

x3, x5 = numbers(3), numbers(5)
ARGUMENTS = {
    "tensors": [
        (numbers(2, 4), numbers(4, 3)), (numbers(0, 4), numbers(4, 1)), (numbers(2, 5), numbers(4, 3)),
        (numbers(2, 4).astype("float64"), numbers(4, 3)), (numbers(2), numbers(4, 3)), (3, None),
        (numbers(4, 2).T, numbers(8, 3)[::2]), (numbers(2, 4),),
    ],
    "sizes": [(numbers(2, 3), numbers(4, 3)), (numbers(0, 3), numbers(0, 3)), (numbers(2, 3), numbers(3, 3))],
    "a choice": [(np.array(True), x3), (np.array(False), x3), (np.array([True]), x3), (True, x3), (1, x3)],
    "tuples": [
        ((x3, ((3,), 7)),), ((x3, ((4,), 7)),), ((x3, (3, 7)),), ((x3,),), (x3,), ((x3, ((3,), 7.5)),),
        ((x3, ((3, 3), 7)),), ([x3, [[3], 7]],),
    ],
    "scalars": [
        (2, x3, 0.1, True), (3, x3, 0.1, True), (-1, numbers(0), 0.5, False), (2.0, x3, 1.0, True),
        (2, x3, 1, True), (2, x3, 1.5, 1), (np.int64(2), x3, np.float32(0.1), np.bool_(False)),
    ],
    "calls": [(x3,), (x5,), (numbers(0),)],
    "a packed function fails": [(x3,), (numbers(0),)],
    "results of packed functions": [(numbers(4, 3),), (numbers(1, 1),), (numbers(0, 2),)],
    "data-dependent shapes": [(np.array([3, 1, 3]),), (np.array([], "int64"),)],
    "negative size": [(x5,), (x3,), (numbers(2),)],
    "too much memory": [(x3,), (numbers(0),)],
    "planned memory": [(numbers(8), 32), (numbers(8), 0), (numbers(8), 36), (numbers(8), -4), (numbers(0), 64), (numbers(20), 0)],
    "sequences and strings": [(x3, np.array(["a", "b"], object), [1, [2, (3,)]]), (x3, x3, "text")],
    "assertion": [(x3, np.array(True)), (x3, np.array(False))],
    "closures": [(x3,), (x5,)],
    "recursion": [(np.array(5),), (np.array(0),), (np.array(300),)],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_modes_agree(name):
    text = "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass Program:\n"
    text += "".join(f"    {line}\n" for line in PROGRAMS[name].strip().splitlines())
    mains = {mode: plain_machine(from_source(text), mode)["main"] for mode in MODES}
    for args in ARGUMENTS[name]:
        found = {}
        for mode, main in mains.items():
            calls.clear()
            found[mode] = outcome(main, args), calls.copy()
        assert found["compiled"] == found["bytecode"]


# -------------------------------------------------------------------------------- what is compiled


@I.ir_module
class Mixed:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = cls.with_closure(R.add(x, x))
        return R.multiply(y, y)

    @R.function(pure=False)
    def with_closure(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()

        @R.function(pure=False)
        def inner(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return cls.checked(R.add(x, y))

        return inner(x)

    @R.function(pure=False)
    def checked(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((3,), "float32"))
        return R.match_cast(y, R.Tensor((n,), "float32"))


def test_functions_of_first_order_are_compiled():
    mod = get_pipeline("default")(Mixed)
    assert compilable_functions(mod) == ["main", "checked", "with_closure_inner"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
def test_modes_mix():
    vm = plain_machine(Mixed)
    assert vm.executable.compiled_functions == ["main", "checked", "with_closure_inner"]
    assert "# compiled: main, checked, with_closure_inner\n" in vm.executable.as_text()
    np.testing.assert_allclose(vm["main"](x3).numpy(), (4 * x3) ** 2, rtol=1e-6)
    with pytest.raises(ValueError, match=r"^checked: match_cast of x: dimension 0 is 5, expected 3") as info:
        vm["main"](x5)
    notes = "\n".join(info.value.__notes__).splitlines()
    assert [line.split()[3] for line in notes] == ["checked", "with_closure", "main"]


def test_a_function_becomes_one_prim_func():
    @I.ir_module
    class Program:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return R.add(x, x)

    function = dict(compile_functions(relax.ExecBuilder(), get_pipeline("default")(Program)).made)["__vmtir__main"]
    script = function.script()
    # The check of x asks the builtin for its error if it does not hold; a size is loaded where it is used.
    for line in (
        'heap = T.allocate((1,), "int64")',
        "T.anylist_keep_apart(r, 1, 1)",
        'if not T.cell_fits("tensor", T.anylist_getitem(r, 0), T.address_of(heap[T.int64(0)]), T.int64(0), T.int64(1), '
        '"float32", T.int64(1), T.int64(1), T.int64(0)):',
        'T.cell_alloc(T.anylist_getitem(r, 3), T.anylist_getitem(c, 14), T.anylist_getitem(c, 2), "float32", heap[T',
        'T.kernel_call("add", T.cell_data(T.anylist_getitem(r, 0)), T.cell_data(T.anylist_getitem(r, 0)),',
        "T.anylist_setitem(r, 1, T.anylist_getitem(r, 3))",
    ):
        assert line in script
    assert from_source(script).script() == script


# ------------------------------------------------------------------------------ calling and keeping


@I.ir_module
class Twice:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 3), "float32"), f: R.Object) -> R.Object:
        n = T.int64()
        y = R.add(x, x)
        z = R.call_packed("test.compiled.call", f, y, sinfo_args=R.Object)
        return (y, z)


@register_func("test.compiled.call", override=True)
def call(f, x):
    return f(x) if callable(f) else f


def test_a_saved_executable_is_compiled_still(tmp_path):
    relax.build(Mixed, PLAIN_LOOPS, exec_mode="compiled").save(tmp_path / "mixed.rlx")
    executable = relax.load_executable(tmp_path / "mixed.rlx")
    assert executable.to_bytes() == (tmp_path / "mixed.rlx").read_bytes()
    vm = relax.VirtualMachine(executable, relax.cpu())
    np.testing.assert_allclose(vm["main"](x3).numpy(), (4 * x3) ** 2, rtol=1e-6)


def test_strings_come_back_as_strings():
    @I.ir_module
    class Program:
        @R.function
        def main(x: R.Object) -> R.Object:
            return x

    text = "a string that does not fit into a cell"
    for mode in MODES:
        main = plain_machine(Program, mode)["main"]
        for value in (text, text.encode(), (text, "b")):
            assert main(value) == value
        assert (type(main(text)), type(main(text.encode())), type(main((text,))[0])) == (str, bytes, str)
        assert type(main(np.dtype("int8"))) is tvm_ffi.dtype


def test_an_entry_point_speaks_the_c_abi():
    main = plain_machine(Twice).get_function("main")
    x = tvm_ffi.from_dlpack(numbers(6, 3))
    y, z = main(x, None)
    np.testing.assert_array_equal(np.from_dlpack(y), 2 * numbers(6, 3))
    assert z is None
    every_other, _ = main(tvm_ffi.from_dlpack(numbers(6, 3)[::2]), None)  # made compact on the way in
    np.testing.assert_array_equal(np.from_dlpack(every_other), 2 * numbers(6, 3)[::2])
    with pytest.raises(TypeError, match=r"^main: expected 2 arguments \(x, f\), found 1$"):
        main(x)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
def test_an_error_nobody_asked_about_leaves_no_trace():
    vm = plain_machine(Mixed)
    for _ in range(2):
        with pytest.raises(ValueError, match="dimension 0 is 5"):
            vm.get_function("main")(tvm_ffi.from_dlpack(numbers(5)))
    with pytest.raises(ValueError, match="dimension 0 is 5") as info:
        vm["main"](x5)
    assert "\n".join(info.value.__notes__).count("in Relax function main") == 1


def test_code_without_its_program_refuses():
    library = relax.build(Twice, PLAIN_LOOPS, exec_mode="compiled").library()
    with pytest.raises(ValueError, match="main: is part of a program"):
        tvm_ffi.Function.__from_extern_c__(library.address("__tvm_ffi___vmtir__main"))(None, None)


def test_a_function_calls_itself_through_a_packed_function():
    main = plain_machine(Twice)["main"]
    depth = []

    def again(x):
        depth.append(x.numpy()[0, 0])
        return main(x, again)[0] if len(depth) < 5 else x

    _, z = main(np.ones((2, 3), "float32"), again)
    assert depth == [2, 4, 8, 16, 32]
    np.testing.assert_array_equal(z.numpy(), np.full((2, 3), 4, "float32"))


def test_pythons_own_exceptions_pass_through():
    class Own(Exception):
        pass

    error = Own("mine")

    @relax.register_func("test.compiled.own", override=True)
    def own():
        raise error

    main = plain_machine(Twice)["main"]

    def fails(x):
        raise Own("inside")

    with pytest.raises(RuntimeError, match="inside"):  # as in bytecode: a packed function's error has a kind, no class
        main(x3.reshape(1, 3), fails)


def test_eight_threads_call_one_machine():
    main = plain_machine(Mixed)["main"]
    wrong = []

    def work(seed):
        x = np.full(3, seed, "float32")
        for _ in range(50):
            if not (main(x).numpy() == (4 * x) ** 2).all():
                wrong.append(seed)
            try:
                main(np.ones(5, "float32"))
            except ValueError as error:
                if not str(error).startswith("checked: match_cast of x"):
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ------------------------------------------------------------------------------------------ memory


def test_everything_is_released_after_results_and_errors():
    main = plain_machine(Twice)["main"]
    array = numbers(2, 3)
    seen: list[weakref.ref[object]] = []

    def watch(y):
        seen.append(weakref.ref(y.numpy()))
        raise ValueError("stop")

    def count():
        gc.collect()
        return sys.getrefcount(array)

    before = count()
    result = main(array, array)
    assert count() > before  # z is the array
    del result
    assert count() == before
    for _ in range(3):
        with pytest.raises(ValueError, match="stop"):
            main(array, watch)
    assert count() == before


def test_a_tensor_outlives_its_machine():
    vm = plain_machine(Mixed)
    gone = weakref.ref(vm)
    y = vm["main"](x3)
    main = vm.get_function("main")
    del vm
    gc.collect()
    assert gone() is None
    np.testing.assert_allclose(y.numpy(), (4 * x3) ** 2, rtol=1e-6)
    with pytest.raises(RuntimeError, match="the machine of a compiled function is gone"):
        main(tvm_ffi.from_dlpack(x3.copy()))


def test_registers_are_few_and_emptied():
    chain = "".join(f"        x{i + 1} = R.add(x{i}, x{i})\n" for i in range(40))
    mod = from_source(f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Chain:
    @R.function
    def main(x0: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
{chain}        return x40
""")
    lowered = get_pipeline("default")(mod)
    function = dict(compile_functions(relax.ExecBuilder(), lowered).made)["__vmtir__main"]
    assert function.attrs["relax.registers"] <= 5
    np.testing.assert_array_equal(plain_machine(mod)["main"](np.ones(2, "float32")).numpy(), [2.0**40] * 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_tuple_that_others_have_twice_is_made_once(mode):
    """Pairs of pairs, 40 deep: 2**40 paths to the one tensor."""
    pairs = "".join(f"        t{i + 1} = (t{i}, t{i})\n" for i in range(40))
    mod = from_source(f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Pairs:
    @R.function
    def main(t0: R.Tensor(("n",), "float32")):
{pairs}        return t40
""")
    result = plain_machine(mod, mode)["main"](x3)
    for _ in range(39):
        left, result = result
        assert left is result
    result, _ = result
    np.testing.assert_array_equal(result.numpy(), x3)


def test_calls_that_are_looked_at_are_bytecode():
    vm = plain_machine(Mixed)
    names: list[str] = []
    vm.set_instrument(lambda func, name, before, ret, *args: names.append(name) if before else None)
    vm["main"](x3)
    seen = [name for name in names if not name.startswith("vm.builtin.")]
    assert seen == ["add", "with_closure", "with_closure_inner", "add", "checked", "multiply"]
    vm.set_instrument(None)
    names.clear()
    vm["main"](x3)
    assert names == []


@pytest.mark.parametrize("mode", MODES)
def test_functions_of_one_batch_keep_their_results_and_errors_apart(mode):
    """Forty small functions are compiled together, each with constants and messages of its own."""
    functions = "".join(
        f"""
    @R.function
    def f{i}(x: R.Tensor(("n", {i + 1}), "float32")) -> R.Tensor(("n", {i + 1}), "float32"):
        return R.add(x, R.const({i}.0))
"""
        for i in range(40)
    )
    mod = from_source(
        f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Many:{functions}
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        return Many.f7(Many.f7(x))
"""
    )
    vm = plain_machine(mod, mode)
    for n in (0, 1, 3):
        for i in range(40):
            x = np.full((n, i + 1), 0.5, "float32")
            x[:1, 0] = np.inf
            np.testing.assert_array_equal(vm[f"f{i}"](x).numpy(), x + np.float32(i))
        np.testing.assert_array_equal(vm["main"](np.ones((n, 8), "float32")).numpy(), np.full((n, 8), 15, "float32"))
    for i in (0, 17, 39):
        kind, message, _ = outcome(vm[f"f{i}"], [np.zeros((2, i + 2), "float32")])
        assert issubclass(kind, ValueError)
        assert f"f{i}: parameter x" in message


@register_func("test.compiled.run_both", override=True)
def run_both(kernels, x):
    """Call two kernels, one after the other."""
    first, second = (relax.nd.array(np.zeros_like(x.numpy())) for _ in range(2))
    kernels[0](x, first)
    kernels[1](first, second)
    return second


KERNELS = """
@I.ir_module
class Kernels:
    @T.prim_func(private=True)
    def double(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
        for i in range(3):
            with T.block("double"):
                v = T.axis.spatial(3, i)
                y[v] = x[v] * T.float32(2)

    @T.prim_func(private=True)
    def next(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
        for i in range(3):
            with T.block("next"):
                v = T.axis.spatial(3, i)
                y[v] = x[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Kernels
        y = R.call_pure_packed(
            "test.compiled.run_both", (cls.double, cls.next), x, sinfo_args=R.Tensor((3,), "float32")
        )
        return y

    @R.function
    def pair(x: R.Tensor((3,), "float32")):
        cls = Kernels
        kernels = (cls.double, cls.next)
        return kernels
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_packed_function_gets_kernels(mode):
    """A tuple of kernels is passed on by compiled code; a function that returns one stays bytecode."""
    executable = relax.build(from_source(KERNELS), PLAIN_LOOPS, exec_mode=mode)
    assert executable.program.compiled == (("main",) if mode == "compiled" else ())
    main = relax.VirtualMachine(executable, relax.cpu())["main"]
    np.testing.assert_array_equal(main(np.arange(3, dtype="float32")).numpy(), [1, 3, 5])
