"""BlockBuilder: programs built by calls, and what happens when the calls are wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from relax import op, te, tir, topi
from relax.analysis import well_formed
from relax.block_builder import BlockBuilder
from relax.expr import Call, DataflowVar, Function, MatchCast, ShapeExpr, Tuple, Var, VarBinding, const
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op, RelaxWarning, assert_structural_equal, structural
from relax.prim import SizeVar
from relax.prim.expr import Var as PrimVar
from relax.script import from_source
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from relax.transform import LegalizeOps
from support import parse

n, m = SizeVar("n", "int64"), SizeVar("m", "int64")


def tensor(*dims, dtype="float32"):
    return TensorStructInfo(dims, dtype)


def test_a_function_is_built_block_by_block():
    bb = BlockBuilder()
    x, y = Var("x", tensor(n, 4)), Var("y", tensor(4))
    with bb.function("main", [x, y]):
        with bb.dataflow():
            lv = bb.emit(op.add(x, y))
            gv = bb.emit_output(op.exp(op.sin(lv)))
        z = bb.match_cast(gv, tensor(m, 4))
        out = bb.emit((z, lv.struct_info and gv))
        bb.emit_func_output(out)
    mod = bb.get()
    assert_structural_equal(mod, parse("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):
            n, m = T.int64(), T.int64()
            with R.dataflow():
                lv = R.add(x, y)
                lv1 = R.sin(lv)
                gv = R.exp(lv1)
                R.output(gv)
            z = R.match_cast(gv, R.Tensor((m, 4), "float32"))
            out = (z, gv)
            return out
    """))  # fmt: skip
    assert well_formed(mod)
    assert isinstance(lv, DataflowVar)
    assert not isinstance(gv, DataflowVar)
    assert bb.finalize() is not None


def test_names_follow_their_place_or_the_hint():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main", x):
        with bb.dataflow():
            names = [bb.emit(x).name_hint, bb.emit(x).name_hint, bb.emit(x, "w").name_hint]
            names.append(bb.emit_output(x).name_hint)
        names += [bb.emit(x).name_hint, bb.emit(x, "x").name_hint]
        bb.emit_func_output(x)
    assert names == ["lv", "lv1", "w", "gv", "gv1", "x1"]


def test_attributes_privacy_and_purity():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main", [x], attrs={"kind": 1}):
        bb.emit_func_output(x)
    y = Var("y", tensor(4))
    with bb.function("helper", [y], private=True, pure=False):
        bb.emit(op.print(y))
        bb.emit_func_output(y)
    mod = bb.get()
    assert mod["main"].attrs == {"global_symbol": "main", "kind": 1}
    assert mod["helper"].attrs == {}
    assert mod["helper"].is_pure is False


def test_functions_call_each_other():
    bb = BlockBuilder()
    x, y = Var("x", tensor(n)), Var("y", tensor(3))
    with bb.function("helper", [x], private=True):
        helper = bb.emit_func_output(bb.emit(op.concat((x, x))))
    with bb.function("main", [y]):
        out = bb.emit(Call(helper, [y]))
        bb.emit_func_output(out)
    assert struct_info_text(out.struct_info) == 'R.Tensor((6,), "float32")'
    assert well_formed(bb.get())


def test_parameters_may_come_with_the_result():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main"):
        bb.emit_func_output(bb.emit(op.exp(x)), params=[x])
    assert bb.get()["main"].params == (x,)


def test_a_function_without_parameters_or_bindings():
    bb = BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(())
    assert struct_info_text(bb.get()["main"].struct_info) == "R.Callable((), R.Tuple())"


def test_what_is_emitted_is_known_at_once():
    bb = BlockBuilder()
    x = Var("x", tensor(n, 4))
    with bb.function("main", [x]):
        y = bb.emit(op.matmul(x, const([[1.0]] * 4)))
        assert struct_info_text(y.struct_info) == 'R.Tensor((n, 1), "float32")'
        assert isinstance(bb.lookup_binding(y), Call)
        assert bb.lookup_binding(x) is None
        assert bb.current() is bb
        bb.emit_func_output(y)
    assert BlockBuilder.current() is None


def test_a_parameter_without_annotation_is_an_object():
    bb = BlockBuilder()
    x = Var("x")
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    assert isinstance(x.struct_info, ObjectStructInfo)


def test_a_module_is_extended():
    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return x
    """)
    bb = BlockBuilder(mod)
    assert bb.get() is mod
    y = Var("y", tensor(4))
    with bb.function("other", [y]):
        bb.emit_func_output(Call(mod.get_global_var("main"), [y]))
    assert [g.name_hint for g in bb.get().functions] == ["main", "other"]
    assert bb.get()["main"] is mod["main"]


def test_functions_are_added_once_and_under_names_of_their_own():
    def function(name):
        x = Var(name, tensor(4))
        return Function([x], op.exp(x))

    bb = BlockBuilder()
    first = bb.add_func(function("x"), "f")
    assert bb.add_func(function("y"), "f") is first
    z = Var("z", tensor(5))
    second = bb.add_func(Function([z], z), "f")
    assert [g.name_hint for g in bb.get().functions] == ["f", "f1"]
    bb.update_func(second, function("w"))
    assert struct_info_text(second.struct_info.ret) == 'R.Tensor((4,), "float32")'
    with pytest.raises(KeyError, match="the module has no function 'g'"):
        bb.update_func(GlobalVar("g"), function("w"))


def test_blocks_by_hand():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    bb.begin_scope([x])
    bb.begin_dataflow_block()
    assert bb.current_block_is_dataflow()
    y = bb.emit(op.exp(x))
    bb.emit_normalized(VarBinding(Var("z"), op.sin(y)))
    bb.emit_normalized(MatchCast(Var("w"), y, tensor(4)))
    block = bb.end_block()
    bb.end_scope()
    assert [b.var.name_hint for b in block.bindings] == ["lv", "z", "w"]
    with pytest.raises(RuntimeError, match="end_block without a block"):
        bb.end_block()


def test_normalize_outside_of_a_block_only_derives():
    x = Var("x", tensor(n))
    expr = BlockBuilder().normalize(op.exp(op.exp(x)))
    assert struct_info_text(expr.struct_info) == 'R.Tensor((n,), "float32")'


# -------------------------------------------------------------------------------- misuse


def test_misuse_is_told():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with pytest.raises(RuntimeError, match="emit outside a block"):
        bb.emit(x)
    with pytest.raises(RuntimeError, match="dataflow outside a function"), bb.dataflow():
        pass
    with pytest.raises(RuntimeError, match="emit_func_output outside a function"):
        bb.emit_func_output(x)
    with pytest.raises(RuntimeError, match="function 'main' has no result; call emit_func_output"):
        with bb.function("main", [x]):
            bb.emit(x)
    with bb.function("main", [x]):
        with pytest.raises(RuntimeError, match="emit_output outside a dataflow block"):
            bb.emit_output(x)
        with pytest.raises(RuntimeError, match="function 'other' has no result; call emit_func_output"):
            with bb.function("other", []):
                pass
        with bb.dataflow():
            lv = bb.emit(x)
            with pytest.raises(RuntimeError, match="cannot be begun inside another"), bb.dataflow():
                pass
            with pytest.raises(RuntimeError, match="emit_func_output inside a dataflow block"):
                bb.emit_func_output(x)
        with pytest.raises(DiagnosticError, match="the dataflow variable lv is used outside its dataflow block"):
            bb.emit_func_output(lv)
        with pytest.raises(RuntimeError, match="'main' is not finished"):
            bb.finalize()
        with pytest.raises(TypeError, match="expected a Relax expression, found object"):
            bb.emit(object())
        bb.emit_func_output(x)
        with pytest.raises(RuntimeError, match="'main' has a result already"):
            bb.emit_func_output(x)
    with pytest.raises(RuntimeError, match="given twice"), bb.function("again", [x]):
        bb.emit_func_output(x, params=[x])
    with pytest.raises(TypeError, match="a parameter must be a relax.Var, found int"), bb.function("f", [1]):
        pass
    assert [g.name_hint for g in bb.get().functions] == ["main"]


def test_misuse_points_at_the_line():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with pytest.raises(DiagnosticError, match=r"test_block_builder.py:\d+:9\n") as caught:
        bb.emit(x)
    assert "        bb.emit(x)\n" in str(caught.value)
    with pytest.raises(DiagnosticError) as caught:
        with bb.function("main", [x]):
            bb.emit(x)
    assert '|         with bb.function("main", [x]):\n' in str(caught.value)


def test_an_error_inside_leaves_the_builder_usable():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with pytest.raises(DiagnosticError), bb.function("main", [x]), bb.dataflow():
        bb.emit(op.matmul(x, bb.emit(Tuple([]))))
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    assert well_formed(bb.get())


def test_wrong_operands_are_refused_on_the_spot():
    bb = BlockBuilder()
    x, y = Var("x", tensor(3)), Var("y", tensor(4))
    with bb.function("main", [x, y]):
        with pytest.raises(DiagnosticError, match="add"):
            bb.emit(op.add(x, y))
        with pytest.raises(DiagnosticError, match="impure, inside a pure function"):
            bb.emit(op.print(x))
        with pytest.raises(DiagnosticError, match="this match_cast can never succeed"):
            bb.match_cast(x, tensor(4))
        bb.emit_func_output(x)
    assert bb.get()["main"].body.blocks == ()


# -------------------------------------------------------------------------------- emit_te


def body_of(mod):
    return [binding for block in mod["main"].body.blocks for binding in block.bindings]


def test_emit_te_makes_a_prim_func_and_a_call_of_it():
    bb = BlockBuilder()
    x, y = Var("x", tensor(n, 4)), Var("y", tensor(4))
    with bb.function("main", [x, y]):
        z = bb.emit_te(topi.add, x, y)
        bb.emit_func_output(z)
    mod = bb.get()
    assert [g.name_hint for g in mod.functions] == ["add", "main"]
    call = body_of(mod)[0].value
    assert call.op.name == "relax.call_tir"
    assert call.args[0] is mod.get_global_var("add")
    assert call.args[1].fields == (x, y)
    assert struct_info_text(z.struct_info) == 'R.Tensor((n, 4), "float32")'
    func = mod["add"]
    assert isinstance(func, tir.PrimFunc)
    assert "global_symbol" not in func.attrs
    # Its shape variable is its own.
    assert n not in {v for b in func.buffer_map.values() for v in b.shape}
    assert well_formed(mod)


def test_equal_prim_funcs_are_shared_and_different_ones_are_not():
    bb = BlockBuilder()
    x, y = Var("x", tensor(n)), Var("y", tensor(m))
    with bb.function("main", [x, y]):
        bb.emit_te(topi.exp, x)
        bb.emit_te(topi.exp, y)
        bb.emit_te(lambda t: te.compute(t.shape, lambda i: t[i] + 1.0), x, primfunc_name_hint="plus")
        bb.emit_te(lambda t: te.compute(t.shape, lambda i: t[i] + 2.0), x, primfunc_name_hint="plus")
        bb.emit_func_output(())
    assert [g.name_hint for g in bb.get().functions] == ["exp", "plus", "plus1", "main"]


def test_shapes_scalars_tuples_and_literals():
    def formula(pair, shape, factor, text, axes):
        first, second = pair
        assert text == "text"
        assert axes == [0, (1, 2)] or axes == [0, [1, 2]]
        return te.compute(shape, lambda i: first[i] * factor + second[i])

    bb = BlockBuilder()
    x = Var("x", tensor(n))
    with bb.function("main", [x]):
        y = bb.emit_te(formula, Tuple([x, x]), ShapeExpr([n]), 2.0, "text", [0, (1, 2)])
        bb.emit_func_output(y)
    assert struct_info_text(y.struct_info) == 'R.Tensor((n,), "float32")'
    assert len(body_of(bb.get())[0].value.args) == 2


def test_shape_variables_no_buffer_binds_are_passed_as_integers():
    bb = BlockBuilder()
    x = Var("x", tensor(n * 2))
    with bb.function("main", [x, Var("s", ShapeStructInfo([n]))]):
        y = bb.emit_te(lambda t, k: te.compute((k, 2), lambda i, j: t[i * 2 + j]), x, n)
        z = bb.emit_te(lambda t, k: te.compute((4,), lambda i: t[i] + k.astype("float32")), x, n)
        bb.emit_func_output((y, z))
    first, second = (binding.value for binding in body_of(bb.get()))
    assert len(first.args) == 2  # the output buffer binds it
    assert struct_info_text(second.args[2].struct_info) == "R.Shape([n])"
    assert well_formed(bb.get())


def test_dimensions_without_a_name_get_one():
    bb = BlockBuilder()
    x, s = Var("x", TensorStructInfo(ndim=2)), Var("s", ShapeStructInfo(ndim=1))
    with bb.function("main", [x, s]):
        y = bb.emit_te(topi.exp, x)
        z = bb.emit_te(lambda shape: te.compute(shape, lambda i: te.const(0.0, "float32")), s)
        bb.emit_func_output((y, z))
    kinds = [type(binding).__name__ for binding in body_of(bb.get())]
    assert kinds == ["MatchCast", "VarBinding", "MatchCast", "VarBinding"]
    assert struct_info_text(y.struct_info) == 'R.Tensor((d0, d1), "float32")'
    assert struct_info_text(bb.get()["main"].ret_struct_info.fields[0]) == 'R.Tensor(dtype="float32", ndim=2)'
    assert well_formed(bb.get())


def test_scalars_only_known_at_run_time_are_parameters():
    bb = BlockBuilder()
    x, p = Var("x", tensor(n)), Var("p", PrimStructInfo("float32"))
    with bb.function("main", [x, p]):
        y = bb.emit_te(lambda t, f: te.compute(t.shape, lambda i: t[i] * f), x, p)
        bb.emit_func_output(y)
    call = body_of(bb.get())[0].value
    assert call.args[1].fields == (x, p)
    assert len(bb.get()["te_func"].params) == 3


def test_several_outputs_are_a_tuple():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main", [x]):
        y = bb.emit_te(lambda t: [topi.exp(t), topi.sin(t)], x, primfunc_name_hint="both")
        single = bb.emit_te(lambda t: [topi.exp(t)], x)
        bb.emit_func_output((y, single))
    assert struct_info_text(y.struct_info) == 'R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))'
    assert struct_info_text(single.struct_info) == 'R.Tuple(R.Tensor((4,), "float32"))'


def test_a_tuple_variable_is_taken_apart():
    bb = BlockBuilder()
    t = Var("t", TupleStructInfo([tensor(4), tensor(4)]))
    with bb.function("main", [t]):
        y = bb.emit_te(lambda pair: topi.add(*pair), t, primfunc_name_hint="add")
        bb.emit_func_output(y)
    assert [type(b.value).__name__ for b in body_of(bb.get())] == ["TupleGetItem", "TupleGetItem", "Call"]


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_zero_and_one(size):
    bb = BlockBuilder()
    x = Var("x", tensor(size, n))
    with bb.function("main", [x]):
        y = bb.emit_te(topi.exp, x)
        bb.emit_func_output(y)
    assert struct_info_text(y.struct_info) == f'R.Tensor(({size}, n), "float32")'


def test_what_has_no_form_in_tensor_expressions_is_refused():
    bb = BlockBuilder()
    x, y, o = Var("x", TensorStructInfo()), Var("y", TensorStructInfo((4,), "")), Var("o", ObjectStructInfo())
    with bb.function("main", [x, y, o]):
        for value in (x, y):
            with pytest.raises(
                DiagnosticError, match="the dtype and the number of dimensions of a tensor must be known"
            ):
                bb.emit_te(topi.exp, value)
        with pytest.raises(DiagnosticError, match="R.Object has no form in tensor expressions"):
            bb.emit_te(topi.exp, o)
        with pytest.raises(DiagnosticError, match=r"return a te.Tensor, or a list of them, found int"):
            bb.emit_te(lambda: 1)
        foreign = PrimVar("foreign", "int64")
        with pytest.raises(DiagnosticError, match="foreign, which no argument gives"):
            bb.emit_te(lambda t: te.compute((foreign,), lambda i: t[i]), Var("z", tensor(4)))
        bb.emit_func_output(())


def test_call_te_gives_the_call_alone():
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    call = bb.call_te(topi.exp, x, primfunc_attrs={"mark": 1})
    assert isinstance(call, Call)
    assert bb.get()["exp"].attrs["mark"] == 1


def test_a_possible_misfit_is_warned_of_once():
    bb = BlockBuilder()
    x, y = Var("x", tensor(4)), Var("y", TensorStructInfo(ndim=1))
    with bb.function("f", [x], private=True):
        f = bb.emit_func_output(x)
    with bb.function("main", [y]):
        with pytest.warns(RelaxWarning, match="W3001") as caught:
            z = bb.emit(Call(f, [y]))
        bb.emit_func_output(z)
    assert len(caught) == 1


def test_adding_a_function_does_not_hash_its_constants(monkeypatch):
    hashed = []

    class Counting:
        def __init__(self, start=b""):
            self.inner = new_digest(start)

        def update(self, data):
            hashed.append(len(data))
            self.inner.update(data)

        def digest(self):
            return self.inner.digest()

        def copy(self):
            return self  # of what was begun for one node

    new_digest = structural._new_digest
    monkeypatch.setattr(structural, "_new_digest", Counting)
    monkeypatch.setattr(structural, "_begun", structural._begun.__wrapped__)

    def with_data(data):
        x = Var("x", TensorStructInfo(data.shape, "float32"))
        return Function([x], Call(Op.get("relax.add"), (x, const(data))), None, True, {})

    data = np.zeros((1024, 1024), "float32")
    other = data.copy()
    other[3, 5] = 1
    builder = BlockBuilder()
    names = [builder.add_func(with_data(part), "f").name_hint for part in (data, other, data, data.copy())]
    assert names == ["f", "f1", "f", "f"]
    assert hashed
    assert sum(hashed) < 100_000


def test_long_functions_are_told_apart():
    """Functions of more than 256 bindings: equal ones are one, others stay."""

    def chain(last):
        x = Var("x", TensorStructInfo((4,), "float32"))
        bb = BlockBuilder()
        with bb.function("f", [x]):
            y = x
            for _ in range(300):
                y = bb.emit(op.exp(y))
            bb.emit_func_output(bb.emit(last(y)))
        return bb.get()["f"].without_attr("global_symbol")

    builder = BlockBuilder()
    names = [builder.add_func(chain(last), "f").name_hint for last in (op.exp, op.sin, op.exp, op.sin)]
    assert names == ["f", "f1", "f", "f1"]


def test_what_is_emitted_has_the_place_of_the_emit():
    x = Var("x", TensorStructInfo((4,), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(op.exp(x))
        bb.emit_func_output(y)
    span = bb.get()["main"].body.blocks[0].bindings[0].value.span
    assert span.source.name == __file__
    assert span.source.line(span.line)[span.column - 1 : span.end_column - 1] == (
        "bb.emit(op.exp(x))" if sys.version_info >= (3, 11) else "y = bb.emit(op.exp(x))"
    )


def test_errors_of_operators_have_the_place_of_the_call():
    x = Var("x", TensorStructInfo((4,), "float32"))
    y = Var("y", TensorStructInfo((3,), "float32"))
    mistakes = [
        lambda: x + y,  # 0
        lambda: op.matmul(x, x, "no dtype"),  # 1
        lambda: op.add(x, "no tensor"),  # 2
    ]
    for i, mistake in enumerate(mistakes):
        with pytest.raises(DiagnosticError) as caught:
            mistake()
        span = caught.value.diagnostics[0].span
        assert span.source.name == __file__
        assert span.source.line(span.line).endswith(f"# {i}")


def test_passes_do_not_take_their_own_lines_for_the_users():
    text = "@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    y = R.exp(x)\n    return y"
    mod = LegalizeOps()(IRModule.from_expr(from_source(text, name="mine.py")))
    (binding,) = mod["main"].body.blocks[0].bindings
    assert binding.value.span.source.name == "mine.py"
