"""Whatever the program, broken or not: complaints are diagnostics, and what passes is sound."""

from __future__ import annotations

import warnings

from hypothesis import given, settings
from hypothesis import strategies as st

from relax import op
from relax.analysis import check_normal_form, check_normalized, check_well_formed
from relax.derive.normalize import normalize_module
from relax.derive.substitution import copy_with_new_vars
from relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.ir import DiagnosticError, GlobalVar, IRModule, assert_structural_equal, structural_equal
from relax.op.known import deferred_errors
from relax.prim import SizeVar
from relax.rewrite.visitor import ExprMutator
from relax.script import from_source
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

DIMS = st.sampled_from([SizeVar("n", "int64"), SizeVar("m", "int64"), 0, 1, 4])
INFOS = st.recursive(
    st.one_of(
        st.just(ObjectStructInfo()),
        st.builds(lambda dims: TensorStructInfo(dims), st.lists(DIMS, max_size=2)),
        st.builds(lambda ndim: TensorStructInfo(ndim=ndim), st.integers(-1, 2)),
        st.builds(lambda dims: ShapeStructInfo(dims), st.lists(DIMS, max_size=2)),
        st.just(TensorStructInfo((), "bool")),
        st.just(PrimStructInfo("int64")),
        st.just(FuncStructInfo.opaque_func()),
    ),
    lambda inner: st.one_of(
        st.builds(TupleStructInfo, st.lists(inner, max_size=2)),
        st.builds(FuncStructInfo, st.lists(inner, max_size=2), inner, st.booleans()),
    ),
    max_leaves=3,
)


@st.composite
def modules(draw):
    """Modules over few variables, used anywhere, bound anywhere."""
    pool = [Var("a"), Var("b"), Var("c"), DataflowVar("d"), DataflowVar("e")]
    pool += [Var("f", draw(INFOS)), Var("g", draw(INFOS)), Var("h", draw(INFOS))]
    variables = st.sampled_from(pool)
    names = st.sampled_from(["main", "other", "nowhere"])

    def grow(inner):
        return st.one_of(
            st.builds(lambda x: op.exp(x), inner),
            st.builds(lambda x, y: op.add(x, y), inner, inner),
            st.builds(lambda x: op.print(x), inner),
            st.builds(lambda x: Tuple([x]), inner),
            st.builds(TupleGetItem, inner, st.integers(-1, 2)),
            st.builds(If, inner, inner, inner),
            st.builds(lambda f, x: Call(f, [x]), inner, inner),
            st.builds(lambda p, b, r: Function([p], b, r), variables, inner, st.none() | INFOS),
            st.builds(lambda k, bs, b: SeqExpr([k(bs)], b), kinds, st.lists(bindings(inner), max_size=3), inner),
        )

    def bindings(values):
        return st.one_of(st.builds(VarBinding, variables, values), st.builds(MatchCast, variables, values, INFOS))

    kinds = st.sampled_from([BindingBlock, DataflowBlock])
    leaves = st.one_of(
        variables,
        st.builds(GlobalVar, names),
        st.just(const(1.0)),
        st.builds(lambda d: ShapeExpr([d]), DIMS),
        st.builds(lambda d: PrimValue(d), DIMS),
        st.just(ExternFunc("f")),
    )
    exprs = st.recursive(leaves, grow, max_leaves=8)
    function = st.builds(
        lambda params, body, ret, pure, attrs: Function(params, body, ret, pure, attrs),
        st.lists(variables, max_size=2),
        exprs,
        st.none() | INFOS,
        st.booleans(),
        st.sampled_from([{}, {"global_symbol": "main"}, {"relax.force_pure": True}]),
    )
    with deferred_errors():  # operands that do not fit are for normalisation to complain of
        functions = {"main": draw(function)}
        if draw(st.booleans()):
            functions["other"] = draw(function)
    return IRModule(functions)


class Valid:
    """Draws programs that are right: every variable in its scope, every value a tensor of one dimension."""

    def __init__(self, draw):
        self.draw = draw
        self.fuel = 12

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def expr(self, env, in_dataflow=False):
        self.fuel -= 1
        if self.fuel < 0:
            return self.pick(*env)
        kind = self.pick("leaf", "exp", "add", "field", "if", "call", "seq", "seq", "shape")
        if kind == "if" and in_dataflow:
            kind = "exp"
        match kind:
            case "leaf":
                return self.pick(*env)
            case "exp":
                return op.exp(self.expr(env, in_dataflow))
            case "add":
                return op.add(self.expr(env, in_dataflow), const(self.pick(0.0, -1.5, float("inf"))))
            case "field":
                pair = Tuple([self.expr(env, in_dataflow), self.expr(env, in_dataflow)])
                return TupleGetItem(pair, self.pick(0, 1))
            case "if":
                return If(const(self.pick(True, False)), self.expr(env), self.expr(env))
            case "call":
                size = self.pick(SizeVar("k", "int64"), SizeVar("n", "int64"))
                param = Var("p", TensorStructInfo((size,)))
                seen = [v for v in env if not isinstance(v, DataflowVar)]
                return Call(Function([param], self.expr([param, *seen])), [self.expr(env, in_dataflow)])
            case "shape":
                return TupleGetItem(Tuple([self.pick(*env), ShapeExpr([4])]), 0)
            case _:
                return self.seq(env, in_dataflow)

    def seq(self, env, in_dataflow=False):
        blocks = []
        for _ in range(self.draw(st.integers(0, 2))):
            is_dataflow = in_dataflow or self.draw(st.booleans())
            bindings, outer, inner = [], list(env), list(env)
            for _ in range(self.draw(st.integers(0, 3))):
                local = is_dataflow and self.draw(st.booleans())
                var = (DataflowVar if local else Var)(self.pick("x", "y", "_", "lv", "R"))
                bindings.append(self.binding(var, inner, is_dataflow))
                inner.append(var)
                if not local:
                    outer.append(var)
            blocks.append((DataflowBlock if is_dataflow else BindingBlock)(bindings))
            env = outer
        return SeqExpr(blocks, self.pick(*env))

    def binding(self, var, env, is_dataflow):
        if self.draw(st.integers(0, 3)) == 0:
            return MatchCast(var, self.pick(*env), TensorStructInfo((SizeVar("m", "int64"),)))
        return VarBinding(var, self.expr(env, is_dataflow))

    def module(self):
        functions = {}
        for name in ("main", "other")[: self.pick(1, 2)]:
            params = [Var(n, TensorStructInfo((SizeVar(n, "int64"),))) for n in ("n", "m")]
            ret = self.pick(None, TensorStructInfo(ndim=1), TensorStructInfo())
            attrs = {"global_symbol": name}
            functions[name] = Function(params, self.expr(params), ret, attrs=attrs)
        return IRModule(functions)


@st.composite
def valid_modules(draw):
    return Valid(draw).module()


@settings(max_examples=50)
@given(modules())
def test_complaints_are_diagnostics(mod):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all((d.message.startswith("rule ") or d.code == "E3011") and d.render() for d in check_well_formed(mod))
        check_normal_form(mod)
        assert mod.script()
        try:
            done = normalize_module(mod)
        except DiagnosticError:
            return
        assert check_normal_form(done) == []
        assert normalize_module(done) is done


@settings(max_examples=50)
@given(valid_modules())
def test_what_is_well_formed_stays_so(mod):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check_well_formed(mod) == []
        done = normalize_module(mod)
        assert normalize_module(done) is done
        assert check_normalized(done) == []
        for function in done.functions.values():
            assert ExprMutator(done).visit_expr(function) is function
            copy = copy_with_new_vars(function)
            assert structural_equal(copy, function)
            assert check_normalized(copy) == []


@settings(max_examples=50)
@given(valid_modules())
def test_what_is_well_formed_prints_and_parses_back(mod):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = normalize_module(mod)
        assert_structural_equal(from_source(done.script(show_meta=True)), done)
