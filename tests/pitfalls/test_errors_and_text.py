"""Late and opaque errors, printing what is broken, names that clash, programs that are long or deep."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pitfall_helpers import arrays, f32, machine, parse

import relax
from relax.ir import Diagnostic, DiagnosticError, IRModule, Op, Source, Span, assert_structural_equal
from relax.op import Operator, operator
from relax.script import ir as I
from relax.script import relax as R
from relax.struct_info import TensorStructInfo


@operator("relax.pitfall.alpha")
class Alpha(Operator):
    """An operator that nothing lowers."""

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return data


@operator("relax.pitfall.beta")
class Beta(Operator):
    """Another."""

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return data


def test_operators_that_are_never_legalised_are_listed_together():
    x = relax.Var("x", TensorStructInfo((3,), "float32"))
    bb = relax.BlockBuilder()
    for name in ("main", "other"):
        with bb.function(name, [x]):
            a = bb.emit(Alpha().call(x))
            b = bb.emit(Beta().call(a))
            c = bb.emit(Alpha().call(b))
            bb.emit_func_output(c)
        x = relax.Var("x", TensorStructInfo((3,), "float32"))
    with pytest.raises(DiagnosticError) as caught:
        relax.build(bb.get(), "llvm")
    text = str(caught.value)
    assert "pitfall.alpha" in text
    assert "pitfall.beta" in text
    assert "main" in text
    assert "other" in text


def test_a_packed_function_that_does_not_exist():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")) -> R.Object:
            a = R.call_packed("pitfall.missing_one", x)
            b = R.call_packed("pitfall.missing_two", x)
            return (a, b)

    executable = relax.build(Module, "llvm")
    with pytest.raises(relax.runtime.LinkError, match="pitfall.missing_one(.|\n)*pitfall.missing_two"):
        relax.VirtualMachine(executable)


MISSING = {
    "no dtype of an output": "R.call_tir(cls.f, (x,), R.Tensor((3,)))",
    "no shape of an output": 'R.call_tir(cls.f, (x,), R.Tensor(ndim=1, dtype="float32"))',
    "arguments that are no tuple of known length": 'R.call_tir(cls.f, R.shape([3]), R.Tensor((3,), "float32"))',
    "no out_sinfo": "R.call_tir(cls.f, (x,))",
    "too few arguments": 'R.call_tir(cls.f, (), R.Tensor((3,), "float32"))',
    "too many arguments": 'R.call_tir(cls.f, (x, x), R.Tensor((3,), "float32"))',
    "wrong dtype": 'R.call_tir(cls.f, (x,), R.Tensor((3,), "float16"))',
    "wrong rank": 'R.call_tir(cls.f, (x,), R.Tensor((3, 1), "float32"))',
    "wrong size": 'R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))',
    "a missing function": 'R.call_tir(cls.g, (x,), R.Tensor((3,), "float32"))',
    "a missing operator": "R.frobnicate(x)",
    "a missing attribute": "R.nn.softmax(x, axes=0)",
    "an axis out of range": "R.nn.softmax(x, axis=5)",
    "an unknown dtype": 'R.astype(x, "float33")',
    "a reshape that cannot be": "R.reshape(x, (5, 5))",
    "two unknown sizes": "R.reshape(x, (-1, -1))",
    "an index out of range": "(x, x)[7]",
    "a number for a tensor": "R.nn.relu(3)",
    "a text for a tensor": 'R.add(x, "x")',
    "None": "R.add(x, None)",
    "a split that cannot be": "R.split(x, 0)",
}


@pytest.mark.parametrize("name", MISSING)
def test_incomplete_calls_are_refused_where_they_stand(name):
    text = f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
        for i in range(3):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        cls = Module
        y = {MISSING[name]}
        return y
"""
    with pytest.raises(DiagnosticError) as caught:
        relax.build(parse(text), "llvm")
    span = caught.value.diagnostics[0].span
    assert span is not None, caught.value
    assert span.line == 12, caught.value


def test_a_call_made_by_hand_without_what_it_needs():
    """Nodes take anything; what makes no sense is refused before code is generated, with a diagnostic."""
    x = relax.Var("x", TensorStructInfo((3,), "float32"))
    for call in (
        relax.Call(Op.get("relax.call_tir"), [x, x]),
        relax.Call(Op.get("relax.call_tir"), []),
        relax.Call(Op.get("relax.add"), [x]),
        relax.Call(Op.get("relax.nn.softmax"), [x]),
        relax.Call(x, [x]),
        relax.TupleGetItem(x, 0),
        relax.Call(relax.GlobalVar("nowhere"), [x]),
    ):
        y = relax.Var("y")
        body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y)
        func = relax.Function([x], body, TensorStructInfo((3,), "float32"), attrs={"global_symbol": "main"})
        mod = IRModule({relax.GlobalVar("main"): func})
        assert "main" in mod.script()
        if isinstance(call.op if isinstance(call, relax.Call) else None, Op) and call.op.name == "relax.nn.softmax":
            continue  # attributes have defaults
        with pytest.raises(DiagnosticError):
            relax.build(mod, "llvm")


def test_broken_programs_print():
    x = relax.Var("x")
    dv = relax.DataflowVar("lv")
    nested = relax.Call(Op.get("relax.add"), [relax.If(x, x, dv), relax.Tuple([relax.ShapeExpr([]), x])])
    loop = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(x, x)])], dv)
    odd = [
        relax.Function([x, x], loop, None, attrs={"global_symbol": "other"}),
        relax.Function([], nested, None),
        relax.Function([dv], relax.SeqExpr([], relax.SeqExpr([], dv)), relax.ShapeStructInfo(None)),
        relax.Function([], relax.Function([], x, None), None),
    ]
    for i, func in enumerate(odd):
        mod = IRModule({relax.GlobalVar(f"f{i}"): func})
        assert mod.script()
        assert func.script()
        assert str(func)
        assert repr(func)
        with pytest.raises(DiagnosticError):
            relax.build(mod, "llvm")
    for expr in (x, dv, nested, loop, Op.get("relax.add"), relax.GlobalVar("g"), relax.Tuple([])):
        assert str(expr)


def test_error_formatting_does_not_crash():
    empty, source = Source("missing.py", ""), Source("\0bad\n", "one\n\ttwo\u2028\x0cthree\n变量 = 1")
    spans = [
        None,
        Span(empty, 1, 1, 1, 5),
        Span(empty, 10**6, 10**6, 0, 0),
        Span(source, 0, 0, 0, 0),
        Span(source, 1, 500, 1, 2),
        Span(source, 2, 3, 1, 1),
        Span(source, -1, -1, -5, -1),
        Span(source, 3, 1, 9, 99),
    ]
    for span in spans:
        for message in ("", "braces {0} %s {", "line\nline", "ünï\ud800", "x" * 10_000):
            diagnostic = Diagnostic("E0000", message, span, message, (message, message), message)
            assert str(DiagnosticError([diagnostic, diagnostic]))
            assert repr(diagnostic)


def test_errors_about_values_that_do_not_print():
    class Unprintable:
        def __repr__(self):
            raise RuntimeError("no")

        __str__ = __repr__

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

    vm = machine(Module)
    with pytest.raises(TypeError, match="parameter x: expected a tensor, found an object of type Unprintable"):
        vm["main"](Unprintable())


def test_errors_of_packed_functions_keep_their_kind():
    class Odd(Exception):
        pass

    def fail(kind):
        def call(x):
            raise kind("braces {0} %s")

        return call

    for kind in (ValueError, KeyError, ZeroDivisionError, StopIteration, Odd, MemoryError, OSError):
        relax.register_func("pitfall.fail", fail(kind), override=True)

        @I.ir_module
        class Module:
            @R.function(pure=False)
            def main(x: R.Tensor((2,), "float32")) -> R.Object:
                return R.call_packed("pitfall.fail", x)

        with pytest.raises(Exception, match="braces .0. %s") as caught:
            machine(Module)["main"](f32(1, 2))
        assert isinstance(caught.value, (kind, RuntimeError))


NAMES = [
    "lambda", "class", "None", "True", "if", "R", "T", "I", "cls", "self", "Module", "print", "len", "range",
    "x y", "1x", "", "a.b", "a-b", "%0", "ünï", "变量", "_", "__x", "v", "v_1", "def", "int64", "main", "f",
    "'quote\"", "new\nline", "import", "match", "type", "async", "relax", "float32", "emoji🙂", "𝐱", "x",
]  # fmt: skip


def test_names_that_clash():
    n = relax.tir.Var("lambda", "int64")
    params = [relax.Var(name, TensorStructInfo((n,), "float32")) for name in NAMES]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            total = params[0]
            for param, name in zip(params[1:], NAMES, strict=False):
                total = bb.emit(relax.op.add(total, param), name)
            out = bb.emit_output(relax.op.negative(total), "class")
        bb.emit_func_output(out)
    mod = bb.get()
    assert_structural_equal(relax.script.from_source(mod.script(show_meta=True)), mod)
    values = [f32(i, 1) for i in range(len(NAMES))]
    for program in (mod, relax.script.from_source(mod.script(show_meta=True))):
        np.testing.assert_array_equal(machine(program)["main"](*values).numpy(), -sum(values))


def program_with_a_kernel_called(name):
    x = relax.Var("x", TensorStructInfo((2,), "float32"))
    a = relax.te.placeholder((2,), "float32", "x")
    kernel = relax.te.create_prim_func([a, relax.te.compute((2,), lambda i: a[i] * 2.0, "y")])
    bb = relax.BlockBuilder()
    inner = bb.add_func(kernel.with_attr("global_symbol", name), name)
    with bb.function("main", [x]):
        y = bb.emit(relax.op.call_tir(inner, (x,), TensorStructInfo((2,), "float32")))
        bb.emit_func_output(y)
    return bb.get()


FUNCTION_NAMES = [
    "lambda",
    "R",
    "T",
    "I",
    "x y",
    "ünï",
    "__main__",
    "print",
    "%s",
    "a.b",
    "_",
    "None",
    "memcpy",
    "free",
]


@pytest.mark.parametrize("name", FUNCTION_NAMES)
def test_function_names_that_clash(name):
    vm = machine(program_with_a_kernel_called(name))
    assert vm["main"](f32(1, 2)).numpy().tolist() == [2, 4]


@pytest.mark.parametrize("name", FUNCTION_NAMES)
def test_function_names_that_clash_are_printed(name):
    mod = program_with_a_kernel_called(name)
    assert_structural_equal(relax.script.from_source(mod.script(show_meta=True)), mod)


def test_a_long_program():
    lines = ["@R.function", 'def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):']
    lines += ["    v0 = x"]
    lines += [f"    v{i + 1} = R.add(v{i}, x)" for i in range(500)]
    lines += ["    return v500"]
    mod = parse("\n".join(lines))
    assert_structural_equal(relax.script.from_source(mod.script(show_meta=True)), mod)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"))
    for n in (0, 1, 3):
        assert vm["main"](np.ones(n, "float32")).numpy().tolist() == [501] * n


def test_deep_programs():
    depth = 60
    nested = "x"
    for _ in range(depth):
        nested = f"R.add({nested}, x)"
    lines = ["@R.function", 'def main(x: R.Tensor((), "float32"), b: R.Tensor((), "bool")) -> R.Tensor((), "float32"):']
    lines += [f"    y = {nested}"]
    pad = "    "
    for i in range(15):
        lines += [f"{pad}if b:", f"{pad}    z{i} = R.add(y, y)"]
        lines += [f"{pad}    r{i} = z{i}", f"{pad}else:"]
        pad += "    "
    lines += [f"{pad}r15 = y"]
    for i in reversed(range(15)):
        lines += [f"{pad}r{i} = R.negative(r{i + 1})"]
        pad = pad[:-4]
    lines += ["    return r0"]
    mod = parse("\n".join(lines))
    assert_structural_equal(relax.script.from_source(mod.script(show_meta=True)), mod)
    vm = machine(mod)
    assert vm["main"](np.float32(1), np.array(True)).item() == 2 * (depth + 1)
    assert vm["main"](np.float32(1), np.array(False)).item() == -(depth + 1)


def test_deep_tuples():
    value = x = relax.Var("x", TensorStructInfo((1,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        for _ in range(40):
            value = bb.emit(relax.Tuple([value, x]))
        for _ in range(40):
            value = bb.emit(relax.TupleGetItem(value, 0))
        bb.emit_func_output(value)
    mod = bb.get()
    assert_structural_equal(relax.script.from_source(mod.script(show_meta=True)), mod)
    assert machine(mod)["main"](f32(3)).numpy().tolist() == [3]


def test_running_passes_twice():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), b: R.Tensor((), "bool")) -> R.Tensor(("n", 2), "float32"):
            @R.function
            def f(y: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
                return R.add(x, y)

            with R.dataflow():
                a = R.permute_dims(x)
                c = R.reshape(R.permute_dims(a), R.shape_of(x))
                R.output(c)
            if b:
                r = f(c)
            else:
                r = R.matmul(c, R.const([[1.0, 0.0], [0.0, 1.0]], "float32"))
            return r

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mod = Module
        for step in relax.optimize.pipeline.DEFAULT:
            mod = step.make()(step.make()(mod))
        vm = relax.VirtualMachine(relax.build(mod, "llvm", pipeline=None))
        again = relax.VirtualMachine(relax.build(relax.get_pipeline("default")(Module), "llvm"))
    x = np.arange(6, dtype="float32").reshape(3, 2)
    for b in (True, False):
        wanted = x + x if b else x
        np.testing.assert_array_equal(arrays(vm["main"](x, np.array(b))), wanted)
        np.testing.assert_array_equal(arrays(again["main"](x, np.array(b))), wanted)
