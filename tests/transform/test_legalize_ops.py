"""LegalizeOps: operators become kernels, packed calls, or a complaint that lists them all."""

from __future__ import annotations

import pytest

import relax
from relax import tir
from relax.ir import DiagnosticError, register_op
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import LegalizeOps, PassContext
from support import PLAIN_LOOPS

NO_DISPATCH = {"relax.LegalizeOps.dispatch": False}


def kernels(mod):
    return [g.name_hint for g, f in mod.functions.items() if isinstance(f, tir.PrimFunc)]


def calls(mod):
    """The names of the operators and packed functions that are left, in order."""
    found = []

    def visit(item):
        if isinstance(item, relax.Call):
            found.append(getattr(item.op, "name", getattr(item.op, "global_symbol", "")))

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.ir.walk(func, visit)
    return found


def test_an_operator_becomes_a_kernel(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            with R.dataflow():
                y = R.call_tir(Expected.exp, (x,), R.Tensor((n, 4), "float32"))
                R.output(y)
            return y

        @T.prim_func(private=True)
        def exp(a: T.handle, b: T.handle):
            T.func_attr({"tir.noalias": True})
            n = T.int64()
            A = T.match_buffer(a, (n, T.int64(4)), "float32")
            B = T.match_buffer(b, (n, T.int64(4)), "float32")
            for i, j in T.grid(n, T.int64(4)):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = T.exp(A[vi, vj])

    check(LegalizeOps(), Before, Expected)


def test_equal_kernels_are_one_and_different_ones_are_not():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((5,), "float32"), z: R.Tensor((4,), "float16")):
            a = R.exp(R.exp(x))
            b = R.exp(y)
            c = R.exp(z)
            return (a, b, c, R.clip(x, 0.0, 1.0), R.clip(x, 0.0, 2.0))

    after = LegalizeOps()(Before)
    assert kernels(after) == ["exp", "exp1", "exp2", "clip", "clip1"]
    assert calls(after) == ["relax.call_tir"] * 6


def test_kernels_are_made_once_for_calls_that_differ_in_constants_and_names(monkeypatch):
    """The layers of a model: other weights, other shapes behind the same formula, tuples, views."""

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
        a = R.add(x, R.const([1.0, 2.0, 3.0, 4.0], "float32"))
        b = R.add(y, R.const([5.0, 6.0, 7.0, 8.0], "float32"))
        c = R.concat((a, x), axis=1)
        d = R.concat((b, y), axis=1)
        e = R.add(R.const([1.0, 2.0, 3.0, 4.0], "float32"), x)
        f = R.tile(c, (2, 1))
        h = R.tile(d, (3, 1))
        return (c, d, e, f, h)

    made = []
    call_te = relax.BlockBuilder.call_te
    monkeypatch.setattr(
        relax.BlockBuilder,
        "call_te",
        lambda self, *args, **kw: (made.append(kw["primfunc_name_hint"]), call_te(self, *args, **kw))[1],
    )
    after = LegalizeOps()(relax.IRModule.from_expr(main))
    assert made == ["add", "concatenate", "add", "tile", "tile"]
    assert kernels(after) == ["add", "concatenate", "add1", "tile", "tile1"]
    constants = [b.value.args[1].fields for b in after["main"].body.blocks[0].bindings[:2]]
    assert [fields[1].data.tolist()[0] for fields in constants] == [1.0, 5.0]


def test_branches_and_local_functions(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.negative(a)

            if c:
                r = R.exp(x)
            else:
                r = inner(x)
            return r

    after = check(LegalizeOps(), Before, LegalizeOps()(Before))
    assert sorted(kernels(after)) == ["exp", "negative"]


def test_intrinsics_stay(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            s = R.shape_of(x)
            t = R.shape_to_tensor(s)
            R.print(t)
            n = R.null_value()
            y = R.call_dps_packed("test.f", (x,), R.Tensor((4,), "float32"))
            return (y, n)

    check(LegalizeOps(), Before)


def test_operators_of_data_dependent_size_become_packed_calls():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            u = R.unique(x)
            y = R.exp(u)
            return y

    after = LegalizeOps()(Before)
    relax.analysis.assert_well_formed(after)
    assert "relax.call_pure_packed" in calls(after)
    # What came has a size nobody knows: the kernel is generic, a match_cast names the size.
    assert "match_cast" in after.script()
    assert "exp" in kernels(after)


@I.ir_module
class ExpAndNegative:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        z = R.negative(y)
        return z


def test_a_rule_of_the_callers(check):
    def by_library(builder, call):
        return relax.op.call_dps_packed("library.exp", call.args, call.struct_info)

    after = LegalizeOps({"relax.exp": by_library})(ExpAndNegative)
    assert kernels(after) == ["negative"]
    assert "library.exp" in after.script()

    def by_others(builder, call):
        return relax.op.add(relax.op.negative(call.args[0]), call.args[0])

    assert kernels(LegalizeOps({"relax.exp": by_others})(ExpAndNegative)) == ["negative", "add"]


def test_a_rule_that_keeps_the_call(check):
    after = LegalizeOps({"relax.exp": lambda builder, call: call}, enable_warning=True)(ExpAndNegative)
    assert kernels(after) == ["negative"]
    assert calls(after)[0] == "relax.exp"
    assert kernels(LegalizeOps()(after)) == ["negative", "exp"]


def test_all_that_cannot_be_legalized_is_listed_at_once():
    register_op("test.mystery", FInferStructInfo=lambda call, builder: call.args[0].struct_info)

    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    y = relax.Var("y", relax.TensorStructInfo(None, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        a = bb.emit(relax.Call("test.mystery", [x]))
        b = bb.emit(relax.op.exp(a))
        c = bb.emit(relax.op.sum(y, axis=[0]))
        bb.emit_func_output(relax.Tuple([b, c]))
    with PassContext(config=NO_DISPATCH), pytest.raises(DiagnosticError) as caught:
        LegalizeOps()(bb.get())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E4001"
    assert diagnostic.message == "LegalizeOps: cannot legalize relax.sum, test.mystery"
    assert any("test.mystery: it has no formula" in note for note in diagnostic.notes)
    assert any("relax.sum" in note and "R.Tensor" in note for note in diagnostic.notes)
    assert "in main" in diagnostic.notes[0]


def test_places_are_told():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(dtype="float32")):
            y = R.sum(x, axis=[0])
            return y

    with (
        PassContext(config=NO_DISPATCH),
        pytest.raises(DiagnosticError, match=r"test_legalize_ops.py:\d+:17") as caught,
    ):
        LegalizeOps()(Before)
    assert "match_cast" in str(caught.value)


def test_a_kernel_for_a_size_serves_no_other_number():
    """A size is passed as one of `tir_vars`, and checked; another number is an argument, and may be negative."""

    @I.ir_module
    class Module:
        @R.function
        def size(x: R.Tensor((8,), "float32"), v: R.Shape(["k"])):
            k = T.int64()
            return (R.take(x, R.prim_value(k), axis=0), R.full((2,), R.prim_value(k), "int64"))

        @R.function
        def number(x: R.Tensor((8,), "float32"), v: R.Prim("int64")):
            k = T.int64()
            _ = R.match_cast(v, R.Prim("int64", value=k))
            return (R.take(x, R.prim_value(k), axis=0), R.full((2,), R.prim_value(k), "int64"))

    legal = LegalizeOps()(Module)
    assert len(kernels(legal)) == 4
    for mod in (Module, legal):
        vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
        x = relax.nd.array([float(i) for i in range(8)], dtype="float32")
        for name, k, expected in (("number", -3, 5), ("number", 3, 3), ("size", relax.ShapeTuple([3]), 3)):
            element, filled = vm[name](x, k)
            assert element.numpy() == expected
            assert filled.numpy().tolist() == [-3 if k == -3 else 3] * 2


def test_equal_functions_of_a_size_and_of_a_number_are_two():
    def of(variable):
        a, b = tir.decl_buffer((8,), "int64", "A"), tir.decl_buffer((2,), "int64", "B")
        handles = [tir.Var(name, "handle") for name in ("a", "b")]
        body = tir.BufferStore(b, variable, (0,))
        return tir.PrimFunc(
            (handles[0], variable, handles[1]), body, buffer_map=dict(zip(handles, (a, b), strict=True))
        )

    builder = relax.BlockBuilder()
    size, number = of(tir.SizeVar("k", "int64")), of(tir.Var("k", "int64"))
    names = [builder.add_func(func, "f").name_hint for func in (size, number, of(tir.Var("k", "int64")))]
    assert names[0] != names[1] == names[2]
