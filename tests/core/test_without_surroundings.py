"""Derivation and normalisation where little is around: no module, no function, no open block; and what is refused."""

from __future__ import annotations

import warnings

import pytest

from relax import op, tir
from relax.analysis import derive_call_ret_struct_info
from relax.block_builder import BlockBuilder
from relax.derive.context import Scopes
from relax.derive.normalize import Normalizer, normalize_function, normalize_module
from relax.derive.rules import derive_struct_info, is_pure_call
from relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.info.relations import Verdict, check_compatible, erase_to_well_defined, fit_all
from relax.info.text import struct_info_text
from relax.ir import BaseFunc, DiagnosticError, GlobalVar, IRModule, RelaxWarning, node, set_slot
from relax.ir.transform import PassContext
from relax.op.known import deferred_errors
from relax.prim import SizeVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

VECTOR = TensorStructInfo((4,))
n = SizeVar("n", "int64")


# -------------------------------------------------------------------------------- no function, no block


def test_a_block_without_a_function():
    """As mutators make them: nothing is erased, since nothing ends."""
    x, y = Var("x", VECTOR), Var("y", TensorStructInfo(ndim=1))
    bb = BlockBuilder()
    bb.begin_binding_block()
    a = bb.emit(op.exp(x))
    b = bb.match_cast(y, TensorStructInfo((n,)))
    c = bb.emit(op.concat(Tuple([b, b])))
    block = bb.end_block()
    assert [binding.var for binding in block.bindings] == [a, b, c]
    assert struct_info_text(c.struct_info) == 'R.Tensor((n * 2,), "float32")'


def test_an_expression_without_a_block_stays_nested():
    x = Var("x", VECTOR)
    found = BlockBuilder().normalize(op.exp(op.exp(x)))
    assert isinstance(found.args[0], Call)
    assert found.struct_info.shape is not None


def test_there_is_no_binding_without_a_block():
    x = Var("x", VECTOR)
    with pytest.raises(DiagnosticError, match="there is no open block to put a binding into"):
        Normalizer().binding(VarBinding(Var("y"), op.exp(x)))


def test_only_expressions_and_bindings_are_brought_into_normal_form():
    x = Var("x", VECTOR)
    with pytest.raises(TypeError, match="expected a Relax expression, found int"):
        normalize_function(Function([x], 3))
    with pytest.raises(TypeError, match="expected a binding, found Binding"):
        normalize_function(Function([x], SeqExpr([BindingBlock([Binding()])], x)))


def test_a_part_is_derived_before_the_whole():
    x, f = Var("x", VECTOR), Var("f", FuncStructInfo([VECTOR], VECTOR))
    with pytest.raises(ValueError, match="has not been derived yet"):
        derive_call_ret_struct_info(f.struct_info, Call(f, [op.exp(x)]))
    assert derive_struct_info(x, Scopes()) is VECTOR
    assert derive_struct_info(TupleGetItem(Tuple([x, x]), 1), Scopes()) is VECTOR


def test_purity_of_a_call_on_its_own():
    x = Var("x", VECTOR)
    pure, impure = (Var("f", FuncStructInfo([VECTOR], VECTOR, p)) for p in (True, False))
    assert is_pure_call(Call(pure, [x]))
    assert not is_pure_call(Call(impure, [x]))
    assert not is_pure_call(Call(Var("f"), [x]))
    assert not is_pure_call(Call(GlobalVar("f"), [x]))
    assert is_pure_call(op.exp(x))
    assert not is_pure_call(op.print(x))


# -------------------------------------------------------------------------------- builders that went through an error


def test_a_builder_goes_on_after_an_error_in_a_flattened_block():
    x, y, lv = Var("x", VECTOR), Var("y", TensorStructInfo((5,))), DataflowVar("lv")
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        with deferred_errors():
            sums = [op.add(x, y), op.add(x, y)]
        block = DataflowBlock([VarBinding(lv, sums[0])])
        with pytest.raises(DiagnosticError, match="add"):
            bb.emit(SeqExpr([block], x))
        assert not bb.current_block_is_dataflow()
        branch = SeqExpr([BindingBlock([VarBinding(Var("z"), sums[1])])], x)
        with pytest.raises(DiagnosticError, match="add"):
            bb.emit(Call(Function([], branch), []))
        bb.emit_func_output(bb.emit(op.exp(x)))
    [only] = bb.get()["main"].body.blocks
    assert [type(b.value) for b in only.bindings] == [Call]


def test_a_builder_may_be_told_not_to_warn():
    x, f = Var("x", TensorStructInfo((n,))), Var("f", FuncStructInfo([VECTOR], VECTOR))
    for builder in (BlockBuilder(warn=False), BlockBuilder()):
        with builder.function("main", [x, f]), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            builder.emit_func_output(builder.emit(Call(f, [x])))
        assert len(caught) == (builder.warn is True)
    # Then it is not strict either.
    with PassContext(config={"relax.strict": True}):
        builder = BlockBuilder(warn=False)
        with builder.function("main", [x, f]):
            builder.emit_func_output(builder.emit(Call(f, [x])))


# -------------------------------------------------------------------------------- functions of another kind


@node
class Elsewhere(BaseFunc):
    """A function of which nothing is known here."""

    name: str
    attrs: dict = None


def test_a_function_of_another_kind_is_an_object():
    x = Var("x", VECTOR)
    mod = IRModule({"f": Elsewhere("f", {})})
    main = Function([x], Call(mod.get_global_var("f"), [x]), is_pure=False, attrs={"global_symbol": "main"})
    mod = normalize_module(mod.with_function("main", main))
    assert isinstance(mod["main"].ret_struct_info, ObjectStructInfo)
    # Unless it says itself what it is.
    other = Elsewhere("f", {})
    set_slot(other, "_struct_info", FuncStructInfo([VECTOR], ShapeStructInfo(ndim=2)))
    x = Var("x", VECTOR)
    mod = IRModule({"f": other})
    main = Function([x], Call(mod.get_global_var("f"), [x]), attrs={"global_symbol": "main"})
    mod = normalize_module(mod.with_function("main", main))
    assert struct_info_text(mod["main"].ret_struct_info) == "R.Shape(ndim=2)"


# -------------------------------------------------------------------------------- struct info that does not fit any more


def test_what_a_variable_was_derived_to_be_is_checked_when_its_value_says_less():
    """A pass puts a weaker value in: what follows relies on the variable's struct info, so it is checked, silently."""
    x, y = Var("x", TensorStructInfo(ndim=1)), Var("y")
    set_slot(y, "_struct_info", VECTOR)
    body = SeqExpr([BindingBlock([VarBinding(y, x)])], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = normalize_function(Function([x], body))
    [binding] = found.body.blocks[0].bindings
    assert isinstance(binding, MatchCast)
    assert binding.struct_info is VECTOR


def test_a_match_cast_gives_what_its_variable_is_declared_to_be():
    x, y = Var("x", TensorStructInfo(ndim=1)), Var("y", TensorStructInfo((5,)))
    body = SeqExpr([BindingBlock([MatchCast(y, x, VECTOR)])], y)
    with pytest.raises(DiagnosticError) as caught:
        normalize_function(Function([x], body))
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == (
        "E3006", "the match_cast does not give what y is declared to be: dimension 0: expected 5, found 4",
    )  # fmt: skip
    weaker = Var("y", TensorStructInfo(ndim=1))
    body = SeqExpr([BindingBlock([MatchCast(weaker, x, VECTOR)])], weaker)
    assert normalize_function(Function([x], body)).ret_struct_info is weaker.struct_info


def test_errors_in_match_casts_are_collected_and_their_variables_known_after():
    x, y, z, w = Var("x", VECTOR), Var("y"), Var("z"), Var("w")
    block = BindingBlock(
        [MatchCast(y, x, TensorStructInfo((n, n))), VarBinding(z, ShapeExpr([n])), VarBinding(w, op.exp(y))]
    )
    with pytest.raises(DiagnosticError) as caught:
        normalize_function(Function([x], SeqExpr([block], w)))
    assert [d.code for d in caught.value.diagnostics] == ["E3008"]


# -------------------------------------------------------------------------------- struct info that breaks rules


def test_two_shapes_whose_ndim_was_said_wrong_differ():
    """Rule 10 is broken; comparing is possible all the same."""
    fit = check_compatible(TensorStructInfo((4, 5), ndim=2), TensorStructInfo((4, 5, 6), ndim=2))
    assert (fit.verdict, fit.reason) == (Verdict.NO, "rank: expected 3, found 2")


def test_a_size_that_nothing_determines_is_used_up_by_the_first_that_needs_it():
    expected = [FuncStructInfo([], TensorStructInfo((n,))), TensorStructInfo((n,))]
    fits, _, unknown = fit_all([FuncStructInfo([], VECTOR), TensorStructInfo(ndim=1)], expected)
    assert unknown == {n}
    assert [fit.verdict for fit in fits] == [Verdict.YES, Verdict.POSSIBLY]


def test_a_packed_functions_struct_info_has_nothing_to_erase():
    info = TupleStructInfo([FuncStructInfo.opaque_func(), PrimStructInfo(value=n)])
    found = erase_to_well_defined(info)
    assert found.fields[0] is info.fields[0]
    assert struct_info_text(found.fields[1]) == 'R.Prim("int64")'


def test_a_constant_is_what_it_is_wherever_it_stands():
    assert normalize_function(Function([], const(1))).ret_struct_info.ndim == 0


def test_warnings_are_of_a_category_of_their_own():
    x, f = Var("x", TensorStructInfo((n,))), Var("f", FuncStructInfo([VECTOR], VECTOR))
    with pytest.warns(RelaxWarning, match="W3001"):
        normalize_function(Function([x, f], Call(f, [x])))


def test_dimensions_of_operands_are_not_negative():
    """The variables of an expression that stands alone are as parameters, whose dimensions are sizes."""
    n, h, w = (tir.Var(name, "int64") for name in "nhw")
    image = Var("image", TensorStructInfo((n, 3, h, w), "float32"))
    matrix = Var("matrix", TensorStructInfo((n, w), "float32"))
    for call, expected in (
        (op.nn.max_pool2d(image, (3, 3), (2, 2), 1, ceil_mode=True), "(n, 3, h // 2 + 1, w // 2 + 1)"),
        (op.nn.max_pool2d(image, (2, 2), (2, 2), ceil_mode=True), "(n, 3, (h + 1) // 2, (w + 1) // 2)"),
        (op.split(matrix, 1, 1), "(n, w)"),
        (op.split(matrix, [2], 1), "(n, T.min(2, w))"),
    ):
        info = BlockBuilder().normalize(call).struct_info
        tensor = info.fields[0] if isinstance(info, TupleStructInfo) else info
        assert tensor.script() == f'R.Tensor({expected}, dtype="float32")'
