"""The lowering passes and the bytecode generator, each on small functions: what goes in, what comes out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relax.ir import DiagnosticError, assert_structural_equal
from relax.runtime import VirtualMachine, register_func
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import Sequential
from relax.transform.vm_builtin_lower import VMBuiltinLower
from relax.transform.vm_shape_lower import VMShapeLower
from relax.vm import build

register_func("test.lower.touch", lambda *args: None, override=True)
register_func("test.lower.make", lambda *args: args, override=True)


def text_of(function):
    return re.sub(r'I\.GlobalVar\("(\w+)"\)', r"cls.\1", function.script())


# ------------------------------------------------------------------------------- VMBuiltinLower


def test_operators_become_builtins():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 4), "float32"), t: R.Tuple(R.Tensor((2,), "float32"))) -> R.Object:
            n = T.int64()
            alloc = R.builtin.alloc_tensor(R.shape([n, 4]), "float32", 0)
            storage = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
            cut = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
            s = R.shape_of(x)
            st = R.shape_to_tensor(s)
            ts = R.tensor_to_shape(st)
            view = R.reshape(x, (4, n))
            nothing = R.null_value()
            p = R.call_pure_packed("test.lower.make", x, sinfo_args=R.Object)
            i = R.call_inplace_packed("test.lower.make", cut, inplace_indices=[0], sinfo_args=R.Tensor((4,), "float32"))
            f = R.make_closure(Before.inner, (x,))
            r = R.invoke_closure(f, t, sinfo_args=R.Object)
            _ = R.print(x, r, format="{} {}")
            _1 = R.memory.kill_tensor(cut)
            return r

        @R.function(private=True)
        def inner(y: R.Tensor((2,), "float32"), x: R.Tensor(("n", 4), "float32")) -> R.Object:
            return y

    after = VMBuiltinLower()(Before)
    text = text_of(after["main"])
    calls = re.findall(r"= R\.call_packed\((.*?)(?:, sinfo_args.*)?\)$", text, re.MULTILINE)
    assert calls == [
        '"vm.builtin.alloc_tensor", R.shape([n, 4]), R.dtype("float32")',
        '"vm.builtin.alloc_storage", R.prim_value(64), R.dtype("uint8")',
        '"vm.builtin.alloc_tensor_in", storage, R.prim_value(0), R.shape([4]), R.dtype("float32")',
        '"vm.builtin.shape_of", x',
        '"relax.run.shape_to_tensor", s',
        '"relax.run.tensor_to_shape", st',
        '"vm.builtin.reshape", x, R.shape([4, n])',
        '"vm.builtin.null_value"',
        '"test.lower.make", x',
        '"test.lower.make", cut',
        '"vm.builtin.make_closure", cls.inner, x',
        '"vm.builtin.invoke_closure", f, field',
        '"relax.run.print", R.str("{} {}"), x, r',
    ]
    assert "kill_tensor" not in text
    assert_structural_equal(VMBuiltinLower()(after), after)


def test_operators_left_over_are_reported_together():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            y = R.exp(x)
            return R.add(y, y)

    with pytest.raises(DiagnosticError) as caught:
        VMBuiltinLower()(Before)
    messages = [d.message for d in caught.value.diagnostics]
    assert messages == [
        "exp: nothing says how to compute this operator here",
        "add: nothing says how to compute this operator here",
    ]
    assert all(d.span is not None for d in caught.value.diagnostics)
    first = caught.value.diagnostics[0]
    assert first.notes == ('x: R.Tensor((n,), "float32")',)
    assert first.hint == "run LegalizeOps and CallTIRRewrite before, as the default pipeline does"


def test_an_operator_left_over_because_too_little_is_known():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(dtype="float32")) -> R.Tensor(dtype="float32"):
            return R.exp(x)

    with pytest.raises(DiagnosticError) as caught:
        VMBuiltinLower()(Before)
    assert caught.value.diagnostics[0].hint == "match_cast the argument: its rank is not known here"


def test_call_tir_must_have_been_rewritten():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.call_dps_packed("test.lower.touch", (x,), R.Tensor((4,), "float32"))

    with pytest.raises(DiagnosticError, match="run CallTIRRewrite before VMBuiltinLower"):
        VMBuiltinLower()(Before)


# --------------------------------------------------------------------------------- VMShapeLower


def calls_in(mod):
    """The calls in a lowered function, their constants without the words around them."""
    text = text_of(VMShapeLower()(mod)["main"])
    found = re.findall(
        r"= (?:R\.call_packed\(\"(?:vm\.builtin\.)?(.*?)(?:, sinfo_args.*)?\)|(cls\.\w+\(.*\)))$", text, re.M
    )
    plain = [re.sub(r"R\.(?:prim_value|dtype|str)\((.*?)\)", r"\1", a or b) for a, b in found]
    return [re.sub(r'", ', " ", c, count=1).replace('"', "") for c in plain]


def test_binding_comes_before_checking():
    @I.ir_module
    class Before:
        @R.function
        def main(
            y: R.Tensor(("n * m",), "float32"), x: R.Tensor(("n", "m", 4), "float32"), z: R.Tensor(("m",), "int8")
        ):
            n, m = T.int64(), T.int64()
            return R.shape([n * m, 2])

    assert calls_in(Before) == [
        "alloc_shape_heap 3, n bound by x, dimension 0, m bound by x, dimension 1, n * m from 0 1",
        "match x, shape_heap, tensor, 3, float32, 3, 1, 0, 1, 1, 2, 0, main: parameter x",
        "match y, 0, tensor, 1, float32, 0, main: parameter y",
        "cls.shape_func(shape_heap)",
        "match y, shape_heap, tensor, 1, float32, 1, 3, 2, main: parameter y",
        "match x, 0, tensor, 3, float32, 3, 2, 0, 2, 0, 0, 4, main: parameter x",
        "match z, shape_heap, tensor, 1, int8, 1, 3, 1, main: parameter z",
        "make_shape shape_heap, 2, 1, 2, 0, 2",
    ]


def test_static_functions_need_no_heap():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor, z: R.Object) -> R.Shape([2]):
            return R.shape([2])

    assert calls_in(Before) == [
        "match x, 0, tensor, 2, float32, 2, 0, 2, 0, 3, main: parameter x",
        "match y, 0, tensor, -1, , 0, main: parameter y",
    ]


def test_equal_shapes_are_made_once():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32"), b: R.Prim("bool")) -> R.Object:
            n = T.int64()
            _ = R.call_packed("test.lower.touch", R.shape([n + 1, n]), R.shape([n + 1, n]))
            if b:
                _1 = R.call_packed("test.lower.touch", R.shape([n + 1, n]), R.shape([2 * n]))
                r = R.shape([n])
            else:
                r = R.shape([2 * n])
            return R.shape([n])

    text = text_of(VMShapeLower()(Before)["main"])
    assert text.count("vm.builtin.make_shape") == 5
    assert text.count("cls.shape_func") == 1


def test_match_cast_checks_only_what_is_not_known():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            k = T.int64()
            y = R.match_cast(x, R.Tensor((n, 2), "float32"))
            z = R.match_cast(y, R.Tensor((k, 2), "float32"))
            w = R.match_cast(z, R.Tensor((3, 2), "float32"))
            return y

    assert calls_in(Before)[2:] == [
        "match y, shape_heap, tensor, 2, float32, 2, 1, 1, 0, 2, main: match_cast of y",
        "match z, 0, tensor, 2, float32, 2, 0, 3, 0, 2, main: match_cast of z",
    ]


def test_shapes_held_by_variables():
    @I.ir_module
    class Before:
        @R.function
        def main(s: R.Shape(ndim=2), x: R.Object) -> R.Object:
            y = R.match_cast(x, R.Tensor(s, "float32"))
            return y

    assert calls_in(Before) == [
        "match s, 0, shape, 2, , 0, main: parameter s",
        "match x, 0, tensor, 2, float32, 0, main: match_cast of x",
        "match_shape_value x, s, main: match_cast of x",
    ]
    main = VirtualMachine(build(Before))["main"]
    assert main((2, 3), np.zeros((2, 3), "float32")).shape == (2, 3)
    with pytest.raises(ValueError, match=r"main: match_cast of x: the shape is \(2, 3\), expected \(3, 2\)"):
        main((3, 2), np.zeros((2, 3), "float32"))


def test_running_it_again_changes_nothing():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Shape(["2 * n"]):
            n = T.int64()
            return R.shape([2 * n])

    once = VMShapeLower()(Before)
    assert VMShapeLower()(once) is once


# ----------------------------------------------------------------------------------- bytecode


def code_of(mod):
    text = build(mod, pipeline=Sequential([])).as_text()
    return [line.split("  ", 2)[-1].strip() for line in text.split("\n\n", 1)[1].splitlines()[1:]]


def test_unused_results_and_aliases_take_no_register():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Object) -> R.Object:
            y = x
            _ = R.call_packed("test.lower.touch", y, R.str("a"), R.prim_value(3), R.dtype("int8"))
            z = y
            return z

    assert code_of(Module) == ["call  test.lower.touch(%0, 'a', 3, dtype int8)", "ret   %0"]


def test_a_branch_that_ends_the_function_returns():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(b: R.Prim("bool"), x: R.Object) -> R.Object:
            if b:
                r = R.call_packed("test.lower.make", x)
            else:
                r = x
            return r

        @R.function(pure=False)
        def middle(b: R.Prim("bool"), x: R.Object) -> R.Object:
            if b:
                r = R.call_packed("test.lower.make", x)
            else:
                r = x
            s = R.call_packed("test.lower.make", r)
            return s

    text = build(Module, pipeline=Sequential([])).as_text().split("\n\n", 1)[1]
    assert text == (
        "@main(%0: b, %1: x):  # 4 registers\n"
        "  0  call  vm.builtin.match(%0, 0, 'scalar', 0, dtype bool, 0, 'main: parameter b')\n"
        "  1  call  %2 = vm.builtin.read_if_cond(%0)\n"
        "  2  if    %2 else +3\n"
        "  3  call  %3 = test.lower.make(%1)\n"
        "  4  ret   %3\n"
        "  5  ret   %1\n"
        "\n"
        "@middle(%0: b, %1: x):  # 6 registers\n"
        "  0  call  vm.builtin.match(%0, 0, 'scalar', 0, dtype bool, 0, 'middle: parameter b')\n"
        "  1  call  %3 = vm.builtin.read_if_cond(%0)\n"
        "  2  if    %3 else +4\n"
        "  3  call  %4 = test.lower.make(%1)\n"
        "  4  call  %2 = vm.builtin.copy(%4)\n"
        "  5  goto  +2\n"
        "  6  call  %2 = vm.builtin.copy(%1)\n"
        "  7  call  %5 = test.lower.make(%2)\n"
        "  8  ret   %5\n"
    )


def test_constants_are_shared_only_with_those_who_read():
    @I.ir_module
    class Module:
        @T.prim_func
        def reads(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
            for i in range(2):
                B[i] = A[i]

        @R.function(pure=False)
        def main() -> R.Object:
            cls = Module
            _ = cls.reads(R.const([1, 2], "int32"), R.const([3, 4], "int32"))
            _1 = R.call_packed("test.lower.touch", R.const([5, 6], "int32"))
            return R.const([7, 8], "int32")

    assert code_of(Module) == [
        "call  %0 = vm.builtin.copy_tensor(c1)",
        "call  reads(c0, %0)",
        "call  %1 = vm.builtin.copy_tensor(c2)",
        "call  test.lower.touch(%1)",
        "call  %2 = vm.builtin.copy_tensor(c3)",
        "ret   %2",
    ]


def test_what_is_not_lowered_is_reported():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()

            @R.function
            def inner(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                return y

            return inner(x)

    with pytest.raises(DiagnosticError, match="a local function is left where a value is expected"):
        build(Module, pipeline=Sequential([]))


@I.ir_module
class Identity:
    @R.function
    def main(x: R.Object) -> R.Object:
        return x


@pytest.mark.parametrize(
    ("change", "message"), [({"attrs": {}}, "rule 12: the module has no entry point"), ({"params": ()}, "rule 2: ")]
)
def test_programs_that_are_not_well_formed_are_refused(change, message):
    with pytest.raises(DiagnosticError, match=message):
        build(Identity.with_function("main", Identity["main"].replace(**change)))


def test_a_module_without_relax_functions():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(0)

    with pytest.raises(DiagnosticError, match="the module has no Relax function to call from outside"):
        build(kernel)


def test_tensors_of_one_shape_in_one_place_are_made_once():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(storage: R.Object) -> R.Object:
            a = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(64), R.shape([4]), R.dtype("int8"))
            b = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(0), R.shape([4]), R.dtype("int8"))
            c = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(64), R.shape([4]), R.dtype("int8"))
            d = R.call_packed("vm.builtin.reshape", a, R.shape([2, 2]))
            e = R.call_packed("vm.builtin.reshape", c, R.shape([2, 2]))
            r = R.call_packed("test.lower.make", a, b, c, d, e)
            return r

    executable = build(Module, pipeline=Sequential([]))
    assert code_of(Module) == [
        "call  %1 = vm.builtin.alloc_tensor_in(%0, 64, c0, dtype int8)",
        "call  %2 = vm.builtin.alloc_tensor_in(%0, 0, c0, dtype int8)",
        "call  %3 = vm.builtin.copy(%1)",
        "call  %4 = vm.builtin.reshape(%1, c2)",
        "call  %5 = vm.builtin.copy(%4)",
        "call  %6 = test.lower.make(%1, %2, %3, %4, %5)",
        "ret   %6",
    ]
    result = VirtualMachine(executable)["main"](np.zeros(128, "int8"))
    assert [tuple(tensor.shape) for tensor in result] == [(4,), (4,), (4,), (2, 2), (2, 2)]


def test_tensors_of_a_branch_are_not_those_behind_it():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(b: R.Prim("bool"), storage: R.Object) -> R.Object:
            if b:
                r = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(0), R.shape([4]), R.dtype("int8"))
            else:
                r = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(0), R.shape([4]), R.dtype("int8"))
            s = R.call_packed("vm.builtin.alloc_tensor_in", storage, R.prim_value(0), R.shape([4]), R.dtype("int8"))
            t = R.call_packed("test.lower.make", r, s)
            return t

    assert sum("alloc_tensor_in" in line for line in code_of(Module)) == 3
    machine = VirtualMachine(build(Module, pipeline=Sequential([])))
    for choice in (True, False):
        assert len(machine["main"](choice, np.zeros(128, "int8"))) == 2
