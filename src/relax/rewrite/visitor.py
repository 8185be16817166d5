"""Visitors and mutators of Relax expressions with TVM's names. The passes of this package use `Rewriter`.

    visit_expr ── visit_call_, visit_function_, visit_if_, visit_seq_expr_, visit_var_, …        by class of expression
    visit_binding_block ── visit_binding_block_, visit_dataflow_block_
    visit_binding ── visit_var_binding_, visit_match_cast_
    visit_var_def ── visit_var_def_, visit_dataflow_var_def_
    visit_expr_dep_struct_info_field                    struct info, for the expressions its shapes are made of
    visit_prim_expr                                     a scalar expression, in a shape or a PrimValue

Override methods at the required level: `visit_var_def` visits every definition, `visit_dataflow_var_def_` only those of
dataflow variables. ``super().visit_…`` visits the parts.

`ExprMutator` is the Rewriter under these names: it emits results of visits through a BlockBuilder (`builder_`), which
normalises them and derives their struct info; a visit may emit further bindings. Unchanged parts are shared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ..info.relations import is_base_of
from ..ir import GlobalVar, IRModule, Op, RelaxExpr, StructInfo, structural_equal
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.stmt import PrimFunc
from .rewriter import Rewriter

T = TypeVar("T")

VISITS: dict[type, str] = {
    Constant: "visit_constant_",
    Tuple: "visit_tuple_",
    Var: "visit_var_",
    DataflowVar: "visit_dataflow_var_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    PrimValue: "visit_prim_value_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
    PrimFunc: "visit_prim_func_",
}
"""Names of the visit methods, by class of expression."""


class ExprVisitor:
    """Visitor of every part of an expression; see the module's docstring for the methods to override.

    An object shared within an annotation or a tuple is visited once.
    """

    _entered: set[int] | None = None
    """Ids of the infos and tuples already entered during the outermost visit."""

    @contextmanager
    def _entering(self, item: StructInfo | Tuple) -> Generator[bool]:
        """Yield True if a compound object was not yet entered during the outermost visit."""
        outer = self._entered
        entered = self._entered = set[int]() if outer is None else outer
        new = id(item) not in entered
        entered.add(id(item))
        try:
            yield new
        finally:
            self._entered = outer

    def visit_expr(self, expr: RelaxExpr) -> None:
        """Visit any expression, by its class. Raises TypeError for a value that is not a Relax expression."""
        name = VISITS.get(type(expr))
        if name is None:
            raise TypeError(f"{type(self).__name__}: cannot visit a {type(expr).__name__}")
        getattr(self, name)(expr)

    def _visit_leaf(self, op: Any) -> None: ...

    visit_constant_ = visit_global_var_ = visit_extern_func_ = visit_op_ = visit_string_imm_ = _visit_leaf
    visit_data_type_imm_ = visit_var_ = visit_prim_func_ = _visit_leaf

    def visit_prim_expr(self, expr: PrimExpr) -> None: ...

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        self.visit_var_(op)

    def visit_prim_value_(self, op: PrimValue) -> None:
        self.visit_prim_expr(op.value)

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        for value in op.values:
            self.visit_prim_expr(value)

    def visit_tuple_(self, op: Tuple) -> None:
        with self._entering(op) as new:
            for item in op.fields if new else ():
                self.visit_expr(item)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        self.visit_expr(op.tuple_value)

    def visit_call_(self, op: Call) -> None:
        self.visit_expr(op.op)
        for arg in op.args:
            self.visit_expr(arg)
        for info in op.sinfo_args:
            self.visit_expr_dep_struct_info_field(info)

    def visit_if_(self, op: If) -> None:
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_function_(self, op: Function) -> None:
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)
        if op.ret_struct_info is not None:
            self.visit_expr_dep_struct_info_field(op.ret_struct_info)

    # -- blocks and bindings

    def visit_binding_block(self, block: BindingBlock) -> None:
        """Visit a block of either kind."""
        if isinstance(block, DataflowBlock):
            self.visit_dataflow_block_(block)
        else:
            self.visit_binding_block_(block)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_binding(self, binding: Binding) -> None:
        """Visit a binding of either kind."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            self.visit_var_binding_(cast(VarBinding, binding))

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.visit_expr(binding.value)
        self.visit_expr_dep_struct_info_field(binding.struct_info)
        self.visit_var_def(binding.var)

    def visit_var_def(self, var: Var) -> None:
        """Visit the definition of a variable of either kind."""
        if isinstance(var, DataflowVar):
            self.visit_dataflow_var_def_(var)
        else:
            self.visit_var_def_(var)

    def visit_var_def_(self, var: Var) -> None:
        if var.struct_info_ is not None:
            self.visit_expr_dep_struct_info_field(var.struct_info_)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        self.visit_var_def_(var)

    # -- struct info

    def visit_expr_dep_struct_info_field(self, struct_info: StructInfo) -> None:
        """Visit the expressions in the shapes of struct info."""
        match struct_info:
            case TensorStructInfo(shape):
                if shape is not None:
                    self.visit_expr(shape)
            case ShapeStructInfo(values):
                for value in values or ():
                    self.visit_prim_expr(value)
            case PrimStructInfo(_, value):
                if value is not None:
                    self.visit_prim_expr(value)
            case TupleStructInfo(fields):
                self._enter_info(struct_info, fields)
            case FuncStructInfo(params, ret):
                self._enter_info(struct_info, (*(params or ()), ret))
            case _:
                return

    def _enter_info(self, struct_info: StructInfo, fields: Iterable[StructInfo]) -> None:
        with self._entering(struct_info) as new:
            for item in fields if new else ():
                self.visit_expr_dep_struct_info_field(item)


class ExprMutator(Rewriter):
    """Rewriter with TVM's method names; see the module's docstring for the methods to override.

    A visit returns the replacement of the visited expression, or that expression unchanged. New bindings go through
    ``self.builder_.emit``. `mod` is the module of the rewritten functions. Results of `super().visit_call_` and similar
    methods are not yet normalised and lack struct info, unlike those of `visit_expr`.
    """

    HOOKS = VISITS

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.builder_, self.var_remap_, self.shape_var_remap_ = self.builder, self.variables, self.shape_vars

    def visit_expr(self, expr: RelaxExpr) -> RelaxExpr:
        """Visit any expression, by its class; the result is in normal form and has struct info."""
        return super().rewrite(expr)

    def rewrite(self, expr: RelaxExpr) -> RelaxExpr:
        return self.visit_expr(expr)

    def visit_expr_post_order(self, expr: RelaxExpr) -> RelaxExpr:
        """Rewrite the parts of an expression by the default rules, as the first step of an overridden visit."""
        return self.default(expr)

    def set_var_remap(self, var: Var, value: RelaxExpr) -> None:
        """Replace later uses of a variable by another expression."""
        self.variables[var] = value

    def get_var_remap(self, var: Var) -> RelaxExpr:
        """Replacement of a variable. Raises KeyError if it has none."""
        return self.variables[var]

    def set_shape_var_remap(self, var: PrimVar, value: PrimExpr) -> None:
        """Replace later uses of a shape variable by another expression."""
        self.shape_vars[var] = value

    def lookup_binding(self, var: Var) -> RelaxExpr | None:
        """Value bound to a variable emitted so far, None if there is none."""
        return self.lookup(var)

    def scope(self, expr: RelaxExpr, params: Sequence[Var] | None = None) -> RelaxExpr:
        return self.visit_with_new_scope(expr, params)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        return self.re_emit_binding(binding, value, var)

    visit_with_new_scope, re_emit_binding = Rewriter.scope, Rewriter.bind

    def describes(self, var: Var, declared: StructInfo, info: StructInfo) -> bool:
        """Return False for a variable without annotation: as in TVM, it always takes its new value's struct info."""
        return structural_equal(declared, info) or (var.annotation is not None and is_base_of(declared, info))

    # -- expressions, by class

    def _visit(self, op: Any) -> RelaxExpr:
        return self.default(op)

    visit_constant_ = visit_global_var_ = visit_extern_func_ = visit_op_ = visit_string_imm_ = _visit
    visit_data_type_imm_ = visit_prim_func_ = visit_prim_value_ = visit_shape_expr_ = visit_tuple_ = _visit
    visit_tuple_getitem_ = visit_call_ = visit_if_ = visit_seq_expr_ = visit_function_ = _visit

    def visit_var_(self, op: Var) -> RelaxExpr:
        return super().variable(op)

    def visit_dataflow_var_(self, op: DataflowVar) -> RelaxExpr:
        # A class that overrides the visits of both kinds handles dataflow variables itself.
        both = type(self).visit_dataflow_var_ is not ExprMutator.visit_dataflow_var_
        return super().variable(op) if both else self.visit_var_(op)

    # -- blocks, bindings, definitions, struct info: each hook of the Rewriter goes through TVM's

    def block(self, block: BindingBlock) -> BindingBlock:
        return self.visit_binding_block(block)

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Visit a block of either kind."""
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        return self.visit_binding_block_(block)

    visit_binding_block_ = visit_dataflow_block_ = Rewriter.block

    def binding(self, binding: Binding) -> None:
        self.visit_binding(binding)

    def visit_binding(self, binding: Binding) -> None:
        """Visit a binding of either kind, and emit its replacement."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            self.visit_var_binding_(cast(VarBinding, binding))

    visit_var_binding_, visit_match_cast_ = Rewriter.var_binding, Rewriter.match_cast

    def define(self, var: Var) -> Var:
        return self.visit_var_def(var)

    def visit_var_def(self, var: Var) -> Var:
        """Visit the definition of a variable of either kind; returns the variable to define instead."""
        if isinstance(var, DataflowVar):
            return self.visit_dataflow_var_def_(var)
        return self.visit_var_def_(var)

    visit_var_def_ = Rewriter.define

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        return self.visit_var_def_(var)

    def dim(self, expr: PrimExpr) -> PrimExpr:
        return self.visit_prim_expr(expr)

    visit_prim_expr = Rewriter.dim

    def info(self, struct_info: StructInfo) -> StructInfo:
        return self.visit_expr_dep_struct_info_field(struct_info)

    visit_expr_dep_struct_info_field = Rewriter.info


PyExprVisitor = ExprVisitor
PyExprMutator = ExprMutator


def visitor(cls: type[T]) -> type[T]:
    """Class decorator of TVM's visitors; returns the class unchanged."""
    return cls


def mutator(cls: type[T]) -> type[T]:
    """Class decorator of TVM's mutators; returns the class unchanged."""
    return cls


def post_order_visit(expr: RelaxExpr, fvisit: Any) -> None:
    """Call a function on every expression, in post-order."""

    class Visitor(ExprVisitor):
        def visit_expr(self, expr: RelaxExpr) -> None:
            super().visit_expr(expr)
            fvisit(expr)

    Visitor().visit_expr(expr)
