"""Virtual devices (sections 1, 6, 7.1 and 7.3): listed, written, propagated, checked; and where tensors are at run time.

The devices are several of the host's. Programs run in both modes; what a packed function is given, and what a
program returns, shows where a tensor is.
"""

from __future__ import annotations

import textwrap
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from programs import packed

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError, IRModule, VDevice, assert_structural_equal, structural_equal, structural_hash
from relax.ir.transform import PassContext, VerifyInstrument
from relax.runtime import NDArray
from relax.script import from_source

CPU = [relax.cpu(i) for i in range(3)]
LIST = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1), I.vdevice("llvm", 2)]})'


def parse(text: str, listed: str = LIST) -> IRModule:
    body = textwrap.indent(f"{listed}\n{textwrap.dedent(text)}", "    ")
    made = from_source(f"@I.ir_module\nclass M:\n{body}", name="program.py")
    assert isinstance(made, IRModule)
    return made


def refused(text: str, listed: str = LIST) -> str:
    with pytest.raises(DiagnosticError) as failure:
        parse(text, listed)
    return str(failure.value)


def build(mod: IRModule) -> relax.Executable:
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        return relax.build(mod, "llvm -opt-level=1")


def compiled(mod: IRModule, *args):
    return relax.VirtualMachine(build(mod))["main"](*args)


def reloaded(mod: IRModule, *args):
    ex = relax.Executable.from_bytes(build(mod).to_bytes())
    return relax.VirtualMachine(ex, CPU)["main"](*args)


def interpreted(mod: IRModule, *args):
    return relax.interpret(mod, "main", *args)


def realized(mod: IRModule, *args):
    return relax.interpret(relax.transform.RealizeVDevice()(mod), "main", *args)


@pytest.fixture(params=[interpreted, realized, compiled, reloaded], ids=lambda mode: mode.__name__)
def run(request):
    """`run(module, *args)`: the result of main. The program says nothing that is left to be checked."""

    def call(mod: IRModule | str, *args):
        mod = parse(mod) if isinstance(mod, str) else mod
        with warnings.catch_warnings():
            warnings.simplefilter("error", relax.ir.RelaxWarning)
            return request.param(mod, *args)

    return call


def array(values, device: int = 0, dtype: str = "float32") -> NDArray:
    return relax.nd.array(np.array(values, dtype), CPU[device])


def on(value: NDArray) -> int:
    assert value.device.type == "cpu"
    return value.device.index


SEEN: list[int] = []


@packed("language.devices.see")
def _see(*tensors):
    """Notes where the tensors are, and returns the first."""
    SEEN.extend(on(tensor) for tensor in tensors)
    return tensors[0]


@packed("language.devices.see_dps")
def _see_dps(*tensors):
    """Notes where the tensors are, and copies the first to the last."""
    SEEN.extend(on(tensor) for tensor in tensors)
    tensors[-1].copyfrom(tensors[0])


@packed("language.devices.host")
def _host(tensor):
    """A tensor that has nothing to do with devices."""
    return tensor.numpy() + 1


@pytest.fixture(autouse=True)
def _forget():
    SEEN.clear()


SIZES = [0, 1, 3]

# --------------------------------------------------------------------------------------- lists and text


def test_devices_are_listed_and_named_by_kind_and_number():
    listed = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("cuda", 3), I.vdevice("llvm -mcpu=x", 7, "shared")]})'
    mod = parse(
        """
        @R.function
        def main(
            a: R.Tensor((2,), "float32", "llvm"),
            b: R.Tensor((2,), "float32", "llvm:1"),
            c: R.Tensor((2,), "float32", "llvm:1:shared"),
            d: R.Tensor((2,), "float32", vdevice="cuda:0"),
            e: R.Tensor((2,), "float32", "vdevice:1"),
            f: R.Tensor((2,), "float32", vdevice=I.vdevice("cuda", 3)),
            g: R.Tensor((2,), "float32"),
        ):
            h = R.to_vdevice(g, "vdevice:2")
            i = R.hint_on_device(g, dst_vdevice="cuda:0")
            return (h, i)
        """,
        listed,
    )
    host, cuda, shared = VDevice("llvm", 0), VDevice("cuda", 3), VDevice("llvm -mcpu=x", 7, "shared")
    main = mod["main"]
    expected = [host, shared, shared, cuda, cuda, cuda, None]
    for param, device in zip(main.params, expected, strict=True):
        found = param.struct_info.vdevice
        assert found is None if device is None else structural_equal(found, device)
    infos = [binding.var.struct_info.vdevice for binding in main.body.blocks[0].bindings]
    assert structural_equal(infos[0], shared)
    assert structural_equal(infos[1], cuda)
    text = mod.script()
    assert 'b: R.Tensor((2,), dtype="float32", vdevice="llvm:1")' in text
    assert 'f: R.Tensor((2,), dtype="float32", vdevice="cuda:0")' in text
    assert 'R.to_vdevice(g, dst_vdevice="llvm:1")' in text
    assert_structural_equal(from_source(text, name="again.py"), mod)


def test_text_and_object_are_the_same_device():
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32", {0})):\n    y = R.to_vdevice(x, {0})\n    return y'
    a, b = parse(text.format('"llvm:1"')), parse(text.format('I.vdevice("llvm", 1)'))
    assert_structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    c = parse(text.format('"llvm:2"'))
    assert not structural_equal(a, c)
    other = parse(text.format('"llvm:1"'), LIST.replace('"llvm", 1', '"llvm", 1, "shared"'))
    assert not structural_equal(a, other)


def test_a_module_may_be_printed_that_names_a_device_it_does_not_list():
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32", I.vdevice("llvm", 9))):\n    return x'
    mod = parse(text)
    assert 'vdevice=I.vdevice("llvm", 9, "global")' in mod.script()
    assert_structural_equal(from_source(mod.script(show_meta=True), name="again.py"), mod)


def test_outside_of_a_module_text_is_read_as_it_is():
    made = from_source(
        '@R.function\ndef main(x: R.Tensor((2,), "float32", "llvm:5")):\n    y = R.to_vdevice(x, "llvm:6:shared")\n    return y',
        name="program.py",
    )
    assert structural_equal(made.params[0].struct_info.vdevice, VDevice("llvm", 5))
    assert structural_equal(made.body.blocks[0].bindings[0].var.struct_info.vdevice, VDevice("llvm", 6, "shared"))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("llvm:3", 'the module has no virtual device \'llvm:3\'; it lists "llvm:0", "llvm:1", "llvm:2"'),
        ("cuda:0", "the module has no virtual device 'cuda:0'; it lists"),
        ("vdevice:3", "the module has no virtual device 'vdevice:3'"),
        ("llvm:1:shared", "the memory scope of virtual device 'llvm:1:shared' is 'global'"),
        ("llvm:one", "vdevice 'llvm:one' is not of the form target:index or target:index:scope"),
    ],
)
def test_a_device_that_is_not_listed(device, message):
    text = f'@R.function\ndef main(x: R.Tensor((2,), "float32", "{device}")):\n    return x'
    found = refused(text)
    assert message in found
    assert "--> program.py:5:17" in found
    call = f'@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    y = R.to_vdevice(x, "{device}")\n    return y'
    found = refused(call)
    assert message in found
    assert "--> program.py:6:13" in found


def test_a_module_that_lists_none():
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32", "llvm:0")):\n    return x'
    assert "the module has no virtual device 'llvm:0'; it lists no virtual device" in refused(text, "")


def test_a_stray_device_is_found_when_the_program_is_compiled():
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32", I.vdevice("llvm", 9))):\n    return x'
    for listed in (LIST, ""):
        with pytest.raises(DiagnosticError, match="E3107.*the module does not list the virtual device llvm:9"):
            relax.build(parse(text, listed))


def test_devices_nothing_runs_on_are_refused():
    listed = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("cuda", 0)]})'
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32", "llvm")):\n    y = R.exp(R.to_vdevice(x, "cuda"))\n    return y'
    with pytest.raises(DiagnosticError) as failure:
        relax.build(parse(text, listed))
    assert "error[E4104]: there is no code generator for cuda, the target of virtual device 1" in str(failure.value)
    assert "--> program.py:6:13" in str(failure.value)
    unused = text.replace('"cuda"', '"llvm"')
    assert compiled(parse(unused, listed), array([0, 0])).numpy().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("code", "signature", "line"),
    [
        ("E3007", '-> R.Tensor((2,), "float32", "llvm:1")', "y = R.exp(x)"),
        ("E3006", "", 'y: R.Tensor((2,), "float32", "llvm:1") = R.exp(x)'),
        ("E3001", '-> R.Tensor((2,), "float32", "llvm:1")', "y = M.other(x)"),
    ],
)
def test_a_value_that_is_known_to_be_elsewhere(code, signature, line):
    found = refused(f"""
        @R.function
        def other(x: R.Tensor((2,), "float32", "llvm:1")) -> R.Tensor((2,), "float32", "llvm:1"):
            return x

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:0")) {signature}:
            {line}
            return y
        """)
    assert f"error[{code}]" in found
    assert "vdevice: expected llvm:1, found llvm:0" in found
    assert "= help: move it there with R.to_vdevice" in found


# -------------------------------------------------------------------------------------- to_vdevice, hints


@pytest.mark.parametrize("n", SIZES)
def test_to_vdevice_copies_to_another_device(run, n):
    x = array(range(n), 0)
    y = run(
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:0")):
            y = R.to_vdevice(x, "llvm:2")
            return y
        """,
        x,
    )
    assert on(y) == 2
    assert y.numpy().tolist() == list(range(n))
    if n:
        y[0] = 9
        assert x.numpy()[0] == 0


def test_to_vdevice_is_the_tensor_itself_where_it_is(run):
    x = array([1, 2], 1)
    y = run(
        """
        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            y = R.to_vdevice(x, "llvm:1")
            return y
        """,
        x,
    )
    y[0] = 9
    assert x.numpy().tolist() == [9, 2]


def test_what_is_reused_in_place_is_the_tensor_itself_where_it_is():
    text = """
        @T.prim_func(private=True)
        def bump(x: T.Buffer((2,), "float32")):
            for i in range(2):
                x[i] = x[i] + T.float32(1)

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            y = R.exp(x)
            z = R.to_vdevice(y, "llvm:{0}")
            w = R.call_tir_inplace(M.bump, (z,), [0], out_sinfo=R.Tensor((2,), "float32"))
            return (y, w)
        """
    y, w = compiled(parse(text.format(0)), array([0, 0], 1))
    assert (y.numpy().tolist(), w.numpy().tolist()) == ([1, 1], [2, 2])
    with pytest.raises(DiagnosticError, match="E4006.*y is used after it was reused in place"):
        relax.build(parse(text.format(1)))


def test_a_tensor_of_unknown_place_is_moved_from_wherever_it_is(run):
    text = """
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.to_vdevice(x, "llvm:1")
            return y
        """
    for device in range(3):
        assert on(run(text, array([1, 2], device))) == 1


@pytest.mark.parametrize("n", SIZES)
def test_hints(run, n):
    text = """
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32", "llvm:1")):
            with R.dataflow():
                h = R.hint_on_device(x, "llvm:0")
                a = R.exp(h)
                b = R.hint_on_device(a, "llvm:1")
                c = R.add(b, y)
                R.output(a, c)
            return (a, c)
        """
    a, c = run(text, array([0] * n, 0), array(range(n), 1))
    assert (on(a), on(c)) == (0, 1)
    np.testing.assert_array_equal(c.numpy(), np.arange(n) + 1)
    with pytest.raises(ValueError, match="^main: parameter x: expected a tensor on cpu:0, found one on cpu:1"):
        run(text, array([0] * n, 1), array(range(n), 1))


# ------------------------------------------------------------------------------------------------ checks


def test_parameters_are_checked(run):
    text = """
        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:1"), t: R.Tuple(R.Tensor((1,), "float32"), R.Tensor((1,), "float32", "llvm:2"))):
            return x
        """
    one = array([1])
    assert on(run(text, array([1, 2], 1), (one, array([1], 2)))) == 1
    with pytest.raises(ValueError, match="^main: parameter x: expected a tensor on cpu:1, found one on cpu:0"):
        run(text, np.ones(2, "float32"), (one, array([1], 2)))
    with pytest.raises(ValueError, match=r"^main: parameter t\[1\]: expected a tensor on cpu:2, found one on cpu:0"):
        run(text, array([1, 2], 1), (one, one))


def test_a_result_is_needed_where_it_is_declared(run):
    text = """
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32", "llvm:1"):
            y = R.exp(x)
            z = R.negative(y)
            return z
        """
    assert on(run(text, array([0.0], 1))) == 1
    with pytest.raises(ValueError, match="^main: parameter x: expected a tensor on cpu:1, found one on cpu:0"):
        run(text, array([0.0], 0))


def test_match_cast_checks_the_device(run):
    text = """
        @R.function
        def main(x: R.Object, y: R.Tensor((1,), "float32", "llvm:1")):
            z = R.match_cast(x, R.Tensor((1,), "float32", "llvm:1"))
            w = R.add(z, y)
            return w
        """
    one = array([1], 1)
    assert on(run(text, one, one)) == 1
    with pytest.raises(ValueError, match="^main: match_cast of x: expected a tensor on cpu:1, found one on cpu:2"):
        run(text, array([1], 2), one)


def test_match_casts_in_two_branches(run):
    text = """
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
            n = T.int64()
            if c:
                y = R.match_cast(x, R.Tensor((n,), "float32", "llvm:0"))
            else:
                y = R.match_cast(x, R.Tensor((n,), "float32", "llvm:1"))
            return y
        """
    for device in (0, 1):
        for cond in (False, True):
            args = np.array(cond), array([1.0], device)
            if cond == (device == 0):
                assert on(run(text, *args)) == device
            else:
                with pytest.raises(
                    ValueError, match=f"expected a tensor on cpu:{1 - device}, found one on cpu:{device}"
                ):
                    run(text, *args)


def test_results_of_packed_functions_are_checked(run):
    text = """
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            y = R.call_packed("language.devices.{0}", x, sinfo_args=(R.Tensor((2,), "float32", "llvm:1"),))
            z = R.exp(y)
            return z
        """
    assert on(run(text.format("see"), array([0, 0], 1))) == 1
    assert SEEN == [1]
    with pytest.raises(
        ValueError, match="main: the result of language.devices.host: expected a tensor on cpu:1, found one on cpu:0"
    ):
        run(text.format("host"), array([0, 0], 1))


def test_closures_are_compared_with_their_devices(run):
    text = """
        @R.function
        def apply(f: R.Object, x: R.Tensor((2,), "float32", "llvm:{1}")) -> R.Tensor((2,), "float32", "llvm:{1}"):
            g = R.match_cast(f, R.Callable((R.Tensor((2,), "float32", "llvm:{1}"),), R.Tensor((2,), "float32", "llvm:{1}"), True))
            return g(x)

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:{1}")):
            @R.function
            def f(a: R.Tensor((2,), "float32", "llvm:{0}")) -> R.Tensor((2,), "float32", "llvm:{0}"):
                return R.exp(a)

            y = M.apply(f, x)
            return y
        """
    assert on(run(text.format(2, 2), array([0, 0], 2))) == 2
    with pytest.raises(TypeError, match='parameter 0 is R.Tensor.*device="cpu:1".*expected R.Tensor.*device="cpu:2"'):
        run(text.format(1, 2), array([0, 0], 2))


# ------------------------------------------------------------------------------------- where fresh tensors are


TWICE = """
@T.prim_func(private=True)
def twice(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for i in range(n):
        Y[i] = X[i] * T.float32(2)
"""


@pytest.mark.parametrize("n", SIZES)
def test_outputs_of_call_tir(run, n):
    text = TWICE + textwrap.dedent("""
        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:1")):
            n = T.int64()
            y = R.call_tir(M.twice, (x,), out_sinfo=R.Tensor((n,), "float32"))
            return y
        """)
    y = run(text, array(range(n), 1))
    assert on(y) == 1
    assert y.numpy().tolist() == [2 * i for i in range(n)]


def test_outputs_of_packed_functions(run):
    text = """
        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:1"), z: R.Tensor((2,), "float32", "llvm:2")):
            a = R.call_dps_packed("language.devices.see_dps", (x,), out_sinfo=R.Tensor((2,), "float32"))
            b = R.call_dps_packed("language.devices.see_dps", (x, z), out_sinfo=R.Tensor((2,), "float32", "llvm:2"))
            return (a, b)
        """
    a, b = run(text, array([1, 2], 1), array([1, 2], 2))
    assert (on(a), on(b)) == (1, 2)
    assert SEEN == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("n", SIZES)
def test_sizes_that_depend_on_data(run, n):
    text = """
        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:1")):
            u = R.unique(x, sorted=True, return_index=True, return_inverse=False, return_counts=False)
            v = u[0]
            w = R.nonzero(x)
            r = R.exp(v)
            return (r, u, w)
        """
    r, (u, index), w = run(text, array([0] * n, 1))
    assert [on(part) for part in (r, u, index, w)] == [1, 1, 1, 1]
    assert r.numpy().tolist() == [1] * min(n, 1)
    assert index.numpy().tolist() == [0] * min(n, 1)


def test_views_are_where_their_tensors_are(run):
    text = """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32", "llvm:2")):
            with R.dataflow():
                y = R.reshape(x, (-1,))
                R.output(y)
            return y
        """
    y = run(text, array(np.zeros((3, 4)), 2))
    assert on(y) == 2
    assert y.shape == (12,)


def test_constants_and_what_is_made_from_nothing(run):
    text = """
        @R.function(private=True, pure=False)
        def see(x: R.Tensor((2,), "float32", "llvm:1"), y: R.Tensor((2,), "float32", "llvm:2")) -> R.Tensor((2,), "float32", "llvm:1"):
            z = R.call_packed("language.devices.see", x, y, sinfo_args=(R.Tensor((2,), "float32", "llvm:1"),))
            return z

        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            o = R.ones(R.shape([2]), "float32")
            y = M.see(R.const([1.0, 2.0], "float32"), o)
            z = R.add(y, R.const([10.0, 20.0], "float32"))
            w = R.add(z, x)
            return (w, R.const(5, "int64"))
        """
    x = array([0, 1], 1)
    mod = parse(text)
    for _ in range(2):
        w, five = run(mod, x)
        assert on(w) == 1
        assert w.numpy().tolist() == [11, 23]
        assert (five.item(), on(five)) == (5, 0)
    assert SEEN == [1, 2, 1, 2]


def test_branches_on_two_devices(run):
    text = """
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32", "llvm:0"), y: R.Tensor(("n",), "float32", "llvm:1")):
            if c:
                z = R.exp(x)
            else:
                z = R.exp(y)
            w = R.to_vdevice(z, "llvm:2")
            return (z, w)
        """
    for cond, device in ((True, 0), (False, 1)):
        z, w = run(text, np.array(cond), array([0.0], 0), array([0.0], 1))
        assert (on(z), on(w)) == (device, 2)


def test_functions_closures_and_recursion(run):
    text = """
        @R.function(private=True)
        def count(x: R.Tensor(("n",), "float32"), times: R.Tensor((), "int64", "llvm:0")) -> R.Tensor(("n",), "float32"):
            c = R.greater(times, R.const(0, "int64"))
            if c:
                less = R.subtract(times, R.const(1, "int64"))
                y = M.count(R.add(x, x), less)
            else:
                y = x
            return y

        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:1"), times: R.Tensor((), "int64")):
            n = T.int64()

            @R.function
            def f(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                b = R.add(a, x)
                return b

            y = M.count(x, times)
            z = f(y)
            return (z, f(x))
        """
    for n in SIZES:
        z, w = run(text, array([1] * n, 1), array(3, 0, "int64"))
        assert (on(z), on(w)) == (1, 1)
        assert z.numpy().tolist() == [9] * n
        assert w.numpy().tolist() == [2] * n


def test_in_place(run):
    text = """
        @T.prim_func(private=True)
        def bump(x: T.Buffer((2,), "float32")):
            for i in range(2):
                x[i] = x[i] + T.float32(1)

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            y = R.exp(x)
            z = R.call_tir_inplace(M.bump, (y,), [0], out_sinfo=R.Tensor((2,), "float32"))
            return z
        """
    z = run(text, array([0, 0], 1))
    assert on(z) == 1
    assert z.numpy().tolist() == [2, 2]


@pytest.mark.parametrize(
    "storage",
    [
        'R.memory.alloc_storage(R.shape([8]), 1, "global", "uint8")',
        'R.vm.alloc_storage(R.shape([8]), 1, "uint8", "global")',
    ],
)
def test_storages(run, storage):
    space = storage.split(".")[1]
    text = f"""
        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm:1")):
            s = {storage}
            t = R.{space}.alloc_tensor(s, 0, R.shape([2]), "float32")
            return t
        """
    assert on(run(text, array([0, 0], 1))) == 1


def test_programs_that_are_lowered_already():
    text = """
        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:2"), y: R.Tensor((2,), "float32")):
            z = R.exp(x)
            w = R.add(y, y)
            u = R.unique(x, sorted=True, return_index=True, return_inverse=False, return_counts=False)
            return (z, w, u)
        """
    passes = relax.transform
    mod = parse(text)
    steps = [passes.RealizeVDevice(), passes.LegalizeOps(), passes.RemovePurityChecking(), passes.CallTIRRewrite()]
    for step in steps:
        mod = step(mod)
        for mode in (interpreted, compiled):
            z, w, (u, index) = mode(mod, array([0, 0], 2), array([1, 1]))
            assert [on(part) for part in (z, w, u, index)] == [2, 0, 2, 2]
            assert z.numpy().tolist() == [1, 1]


def test_the_first_device_of_the_list_is_where_tensors_are_of_which_nothing_is_said(run):
    listed = LIST.replace("[", '[I.vdevice("llvm", 2), ', 1)
    text = '@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    y = R.exp(x)\n    u = R.nonzero(x)\n    return (y, u)'
    y, u = run(parse(text, listed), array([0, 0]))
    assert on(y) == on(u) != 1


# ---------------------------------------------------------------------------------------------- the machine


ADD = """
    @R.function
    def main(x: R.Tensor(("n",), "float32", "llvm:0"), y: R.Tensor(("n",), "float32", "llvm:1")):
        a = R.exp(R.to_vdevice(x, "llvm:1"))
        b = R.add(a, y)
        return b
    """


def test_devices_are_given_by_the_number_of_the_virtual_device():
    ex = build(parse(ADD))
    assert ex.devices == ["cpu:0", "cpu:1", "cpu:2"]
    x = [array([0.0], i) for i in range(3)]
    assert on(relax.VirtualMachine(ex)["main"](x[0], x[1])) == 1
    assert on(relax.VirtualMachine(ex, [CPU[2], CPU[0]])["main"](x[2], x[0])) == 0
    one = relax.VirtualMachine(ex, [CPU[1], CPU[1]])
    assert on(one["main"](x[1], x[1])) == 1
    with pytest.raises(ValueError, match="^main: parameter x: expected a tensor on cpu:1, found one on cpu:0"):
        one["main"](x[0], x[1])


def test_a_machine_with_too_few_devices():
    with pytest.raises(ValueError, match=r"virtual device 1 \(cpu:1\), and the machine is given 1 device \(cpu:0\)"):
        relax.VirtualMachine(build(parse(ADD)), relax.cpu())


def test_programs_without_devices_run_on_any():
    mod = parse('@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    y = R.exp(x)\n    return y', "")
    ex = build(mod)
    assert on(relax.VirtualMachine(ex, relax.cpu())["main"](array([0.0]))) == 0
    assert on(relax.VirtualMachine(ex, relax.cpu(1))["main"](array([0.0]))) == 1


def test_operators_by_api():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with bb.function("main", [x]):
        y = bb.emit(relax.op.to_vdevice(x, relax.cpu(1)))
        bb.emit_func_output(y)
    mod = bb.get().replace(global_infos={"vdevice": [VDevice("llvm", 0), VDevice("llvm", 1)]})
    assert on(interpreted(mod, array([1, 2]))) == on(compiled(mod, array([1, 2]))) == 1


# ----------------------------------------------------------------------------------------------- any program


@st.composite
def chains(draw):
    """A straight-line program over vectors, with hints and copies here and there; the text, and where arguments are."""
    lines: list[str] = []
    names = ["x", "y"]
    for i in range(draw(st.integers(1, 8))):
        a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        device = draw(st.integers(0, 2))
        move = "{0}({1}, 'llvm:{2}')"
        values = [
            f"R.negative({a})",
            f"R.add({a}, R.const(1, 'float32'))",
            move.format("R.hint_on_device", a, device),
            move.format("R.to_vdevice", a, device),
            f"R.add({move.format('R.to_vdevice', a, device)}, {move.format('R.to_vdevice', b, device)})",
        ]
        lines.append(f"v{i} = {draw(st.sampled_from(values))}")
        names.append(f"v{i}")
    result = draw(st.sampled_from(names))
    body = "\n".join([*lines, f"return ({result}, {names[-1]})"])
    text = '@R.function\ndef main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32", "llvm:1")):\n'
    return text + textwrap.indent(body, "    ")


@settings(max_examples=25)
@given(chains(), st.sampled_from(SIZES))
def test_any_chain_gives_what_it_gives_without_devices(text, n):
    mod = parse(text)
    realized_mod = relax.transform.RealizeVDevice()(mod)
    assert relax.transform.RealizeVDevice()(realized_mod) is realized_mod
    assert_well_formed(realized_mod)
    assert_structural_equal(from_source(realized_mod.script(show_meta=True), name="again.py"), realized_mod)
    x_info = realized_mod["main"].params[0].struct_info.vdevice
    x = np.linspace(-1, 1, n).astype("float32")
    args = array(x, 0 if x_info is None else x_info.vdevice_id), array(x, 1)
    results = [mode(mod, *args) for mode in (interpreted, realized, compiled)]
    for other in results[1:]:
        assert [on(a) for a in results[0]] == [on(b) for b in other]
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
