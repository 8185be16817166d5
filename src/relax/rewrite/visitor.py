"""Walking and rewriting Relax expressions.

    visit_expr ── visit_call_, visit_function_, visit_if_, visit_seq_expr_, visit_var_, …        by class of expression
    visit_binding_block ── visit_binding_block_, visit_dataflow_block_
    visit_binding ── visit_var_binding_, visit_match_cast_
    visit_var_def ── visit_var_def_, visit_dataflow_var_def_
    visit_expr_dep_struct_info_field                    struct info, for the expressions its shapes are made of
    visit_prim_expr                                     a scalar expression, in a shape or a PrimValue

Override what you are interested in, at the level you are interested in: `visit_var_def` sees every definition,
`visit_dataflow_var_def_` only those of dataflow variables. ``super().visit_…`` goes on below.

`ExprMutator` goes through a BlockBuilder (`builder_`): what a visit returns is emitted again, brought into normal form
and derived; a visit may emit further bindings. What is not touched is shared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from ..block_builder import BlockBuilder
from ..derive.context import FORCE_PURE, FunctionScope
from ..derive.normalize import merge_blocks
from ..derive.substitution import substitute
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
    is_leaf,
)  # fmt: skip
from ..info.mapping import map_struct_info
from ..info.relations import is_base_of
from ..ir import GlobalVar, IRModule, Op, RelaxExpr, StructInfo, set_slot, structural_equal
from ..prim import substitute as substitute_prim
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..tir.stmt import PrimFunc

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
"""The method that visits an expression, by its class."""


class _Dispatcher:
    """From the class of a node to the method that visits it."""

    def _visit_expr(self, expr: RelaxExpr) -> Any:
        name = VISITS.get(type(expr))
        if name is None:
            raise TypeError(f"{type(self).__name__}: cannot visit a {type(expr).__name__}")
        return getattr(self, name)(expr)


class ExprVisitor(_Dispatcher):
    """Visits every part of an expression; see the module's docstring for what to override.

    An object that occurs in several places of an annotation, or of a tuple, is entered once.
    """

    _entered: set[int] | None = None
    """The infos and tuples entered, by id, inside the outermost one being visited."""

    @contextmanager
    def _entering(self, item: StructInfo | Tuple) -> Generator[bool]:
        """Whether to enter what consists of several: it was not entered before, inside the outermost one."""
        outer = self._entered
        entered = self._entered = set[int]() if outer is None else outer
        new = id(item) not in entered
        entered.add(id(item))
        try:
            yield new
        finally:
            self._entered = outer

    def visit_expr(self, expr: RelaxExpr) -> None:
        """Visit any expression, by its class."""
        self._visit_expr(expr)

    def visit_constant_(self, op: Constant) -> None: ...

    def visit_global_var_(self, op: GlobalVar) -> None: ...

    def visit_extern_func_(self, op: ExternFunc) -> None: ...

    def visit_op_(self, op: Op) -> None: ...

    def visit_string_imm_(self, op: StringImm) -> None: ...

    def visit_data_type_imm_(self, op: DataTypeImm) -> None: ...

    def visit_var_(self, op: Var) -> None: ...

    def visit_prim_func_(self, op: PrimFunc) -> None: ...

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
        """Visit the expressions that shapes in struct info are made of."""
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

    def _enter_info(self, struct_info: StructInfo, parts: Iterable[StructInfo]) -> None:
        with self._entering(struct_info) as new:
            for item in parts if new else ():
                self.visit_expr_dep_struct_info_field(item)


class ExprMutator(_Dispatcher):
    """Rewrites an expression; see the module's docstring for what to override.

    A visit returns the expression to stand in the place of the one visited, or that very one. New bindings go through
    ``self.builder_.emit``. `mod` is the module the rewritten functions belong to.
    """

    _infos: dict[int, StructInfo] | None = None
    """What became of tuple and function infos, by id, inside the outermost one being visited."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod, warn=False)
        self.var_remap_: dict[Var, RelaxExpr] = {}
        self.shape_var_remap_: dict[PrimVar, PrimExpr] = {}

    # -- entry

    def visit_expr(self, expr: RelaxExpr) -> RelaxExpr:
        """Visit any expression, by its class; the result is in normal form and has struct info."""
        return self.builder_.normalize(self._visit_expr(expr))

    def visit_expr_post_order(self, expr: RelaxExpr) -> RelaxExpr:
        """Rewrite the parts of an expression in the default way, as an overridden visit does first."""
        if isinstance(expr, Var):  # of either kind: the default visit of one kind asks that of the other
            return ExprMutator.visit_var_(self, expr)
        name = VISITS[type(expr)]
        return getattr(ExprMutator, name)(self, expr)

    # -- remapping

    def set_var_remap(self, var: Var, value: RelaxExpr) -> None:
        """Uses of a variable, from here on, become another expression."""
        self.var_remap_[var] = value

    def get_var_remap(self, var: Var) -> RelaxExpr:
        """What a variable has become. Raises KeyError if it is not remapped."""
        return self.var_remap_[var]

    def set_shape_var_remap(self, var: PrimVar, value: PrimExpr) -> None:
        """Uses of a shape variable, from here on, become another expression."""
        self.shape_var_remap_[var] = value

    def lookup_binding(self, var: Var) -> RelaxExpr | None:
        """The value bound to a variable emitted so far, None if there is none."""
        return self.builder_.lookup_binding(var)

    def with_struct_info(self, var: Var, struct_info: StructInfo) -> Var:
        """The variable itself if it has this struct info, else a new one of its name that has."""
        known = var.struct_info_
        if known is struct_info or (known is not None and structural_equal(known, struct_info)):
            return var
        new = type(var)(var.name_hint, span=var.span)
        set_slot(new, "_struct_info", struct_info)
        return new

    # -- leaves

    def visit_constant_(self, op: Constant) -> RelaxExpr:
        return op

    def visit_global_var_(self, op: GlobalVar) -> RelaxExpr:
        return op

    def visit_extern_func_(self, op: ExternFunc) -> RelaxExpr:
        return op

    def visit_op_(self, op: Op) -> RelaxExpr:
        return op

    def visit_string_imm_(self, op: StringImm) -> RelaxExpr:
        return op

    def visit_data_type_imm_(self, op: DataTypeImm) -> RelaxExpr:
        return op

    def visit_prim_func_(self, op: PrimFunc) -> RelaxExpr:
        return op

    def visit_var_(self, op: Var) -> RelaxExpr:
        return self.var_remap_.get(op, op)

    def visit_dataflow_var_(self, op: DataflowVar) -> RelaxExpr:
        # A class that overrides the visits of both kinds has said what becomes of each.
        both = type(self).visit_dataflow_var_ is not ExprMutator.visit_dataflow_var_
        return ExprMutator.visit_var_(self, op) if both else self.visit_var_(op)

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        return substitute_prim(expr, self.shape_var_remap_) if self.shape_var_remap_ else expr

    def visit_prim_value_(self, op: PrimValue) -> RelaxExpr:
        value = self.visit_prim_expr(op.value)
        return op if value is op.value else PrimValue(value, span=op.span)

    def visit_shape_expr_(self, op: ShapeExpr) -> RelaxExpr:
        values = _map(op.values, self.visit_prim_expr)
        return op if values is op.values else ShapeExpr(values, span=op.span)

    # -- expressions with parts

    def visit_tuple_(self, op: Tuple) -> RelaxExpr:
        fields = _map(op.fields, self.visit_expr)
        return op if fields is op.fields else Tuple(fields, span=op.span)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> RelaxExpr:
        value = self.visit_expr(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index, span=op.span)

    def visit_call_(self, op: Call) -> RelaxExpr:
        callee = op.op if isinstance(op.op, Op) else self.visit_expr(op.op)
        args = _map(op.args, self.visit_expr)
        sinfo_args = _map(op.sinfo_args, self.visit_expr_dep_struct_info_field)
        if callee is op.op and args is op.args and sinfo_args is op.sinfo_args:
            return op
        return Call(callee, args, op.attrs, sinfo_args, span=op.span)

    def visit_if_(self, op: If) -> RelaxExpr:
        cond = self.visit_expr(op.cond)
        with self.builder_.given(cond, True):
            true_branch = self.visit_with_new_scope(op.true_branch)
        with self.builder_.given(cond, False):
            false_branch = self.visit_with_new_scope(op.false_branch)
        if cond is op.cond and true_branch is op.true_branch and false_branch is op.false_branch:
            return op
        return If(cond, true_branch, false_branch, span=op.span)

    def visit_seq_expr_(self, op: SeqExpr) -> RelaxExpr:
        builder = self.builder_
        frames, scopes = len(builder.frames), len(builder.scopes)
        builder.begin_scope()
        blocks: list[BindingBlock] = []
        try:
            for block in op.blocks:
                new = self.visit_binding_block(block)
                blocks += [*builder.take_split_blocks(), new]
            builder.begin_binding_block()
            body = builder.leaf(self.visit_expr(op.body))
            blocks = merge_blocks(blocks + builder.end_blocks())
        finally:
            del builder.frames[frames:]
            while len(builder.scopes) > scopes + 1:
                builder.end_scope()
            scope = builder.end_scope()
        same = len(blocks) == len(op.blocks) and all(a is b for a, b in zip(blocks, op.blocks, strict=True))
        if same and body is op.body:
            return op
        result = SeqExpr(blocks, body, span=op.span)
        set_slot(result, "_struct_info", scope.erased(body.struct_info))
        return result

    def visit_function_(self, op: Function) -> RelaxExpr:
        params = _map(op.params, self._define)
        builder = self.builder_
        force_pure = bool(op.attrs.get(FORCE_PURE, False))
        builder.function_scopes.append(FunctionScope("", op.is_pure, force_pure))
        try:
            body = self.visit_with_new_scope(op.body, params)
        finally:
            builder.function_scopes.pop()
        ret = op.ret_struct_info
        if ret is not None:
            ret = self.visit_expr_dep_struct_info_field(ret)
        return op.replace(params=params, body=body, ret_struct_info=ret)

    def visit_with_new_scope(self, expr: RelaxExpr, params: Sequence[Var] | None = None) -> RelaxExpr:
        """Visit a function's body or a branch: in a scope of its own; the result is a SeqExpr."""
        builder = self.builder_
        depth = len(builder.scopes)
        builder.begin_scope(params)
        # The blocks around are out of reach: what is emitted inside belongs inside.
        frames, builder.frames = builder.frames, []
        try:
            if isinstance(expr, SeqExpr):
                return builder.scope_body(self.visit_expr(expr))
            builder.begin_binding_block()
            body = builder.leaf(self.visit_expr(expr))
            return builder.scope_body(SeqExpr(builder.end_blocks(), body, span=expr.span))
        finally:
            builder.frames = frames
            while len(builder.scopes) > depth:
                builder.end_scope()

    # -- blocks and bindings

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Visit a block of either kind."""
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        return self.visit_binding_block_(block)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        self.builder_.begin_binding_block()
        for binding in block.bindings:
            self.visit_binding(binding)
        return self.builder_.end_block_keeping(block)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        self.builder_.begin_dataflow_block()
        for binding in block.bindings:
            self.visit_binding(binding)
        return self.builder_.end_block_keeping(block)

    def visit_binding(self, binding: Binding) -> None:
        """Visit a binding of either kind, and emit what it becomes."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            self.visit_var_binding_(cast(VarBinding, binding))

    def visit_var_binding_(self, binding: VarBinding) -> None:
        # A function may call itself: what its variable becomes must be known inside.
        var = None
        if isinstance(binding.value, Function):
            var = self._define(binding.var)
            self.builder_.note_own(var, binding.value)
        value = self.visit_expr(binding.value)
        self.re_emit_binding(binding, value, var)

    def re_emit_binding(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> None:
        """Emit a binding with another value; its variable follows if it turns out to be something else.

        `var` is the variable to bind, where its definition has been visited already.
        """
        if var is None:
            var = self._define(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        info, known = value.struct_info, var.struct_info_
        if known is None or not _keeps(var, known, info):
            var = self.with_struct_info(var, info)
        if var is not binding.var:
            self.var_remap_[binding.var] = var
            if isinstance(value, Function):
                value = substitute(value, {binding.var: var})
        self.builder_.emit_normalized(VarBinding(var, value, span=binding.span))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        value = self.visit_expr(binding.value)
        info = self.visit_expr_dep_struct_info_field(binding.struct_info)
        var = self._define(binding.var)
        if value is binding.value and info is binding.struct_info and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        if info is not binding.struct_info:
            var = self.with_struct_info(var, info)
        if var is not binding.var:
            self.var_remap_[binding.var] = var
        self.builder_.emit_normalized(MatchCast(var, value, info, span=binding.span))

    def _define(self, var: Var) -> Var:
        """The variable that an overridden `visit_var_def` gives; uses become uses of it."""
        new = self.visit_var_def(var)
        if new is not var:
            self.var_remap_[var] = new
        return new

    def visit_var_def(self, var: Var) -> Var:
        """Visit the definition of a variable of either kind; the variable to define in its place."""
        if isinstance(var, DataflowVar):
            return self.visit_dataflow_var_def_(var)
        return self.visit_var_def_(var)

    def visit_var_def_(self, var: Var) -> Var:
        info = var.struct_info_
        if info is None:
            return var
        new_info = self.visit_expr_dep_struct_info_field(info)
        if new_info is info:
            return var
        if var.annotation is not None:
            new = type(var)(var.name_hint, new_info, span=var.span)
        else:
            new = type(var)(var.name_hint, span=var.span)
            set_slot(new, "_struct_info", new_info)
        self.var_remap_[var] = new
        return new

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        return self.visit_var_def_(var)

    # -- struct info

    def visit_expr_dep_struct_info_field(self, struct_info: StructInfo) -> StructInfo:
        """Rewrite the expressions that shapes in struct info are made of.

        Fields of tuples, parameters and results of functions come through here too. What was made of an object stands
        wherever else it occurs in the annotation.
        """
        if not isinstance(struct_info, (TupleStructInfo, FuncStructInfo)):
            return map_struct_info(struct_info, self.visit_prim_expr, self._visit_shape)
        outer = self._infos
        infos = self._infos = {} if outer is None else outer
        try:
            if id(struct_info) not in infos:
                infos[id(struct_info)] = self._visit_parts(struct_info)
            return infos[id(struct_info)]
        finally:
            self._infos = outer

    def _visit_parts(self, struct_info: TupleStructInfo | FuncStructInfo) -> StructInfo:
        visit = self.visit_expr_dep_struct_info_field
        if isinstance(struct_info, TupleStructInfo):
            fields = _map(struct_info.fields, visit)
            return struct_info.replace(fields=fields)
        params = None if struct_info.params is None else _map(struct_info.params, visit)
        return struct_info.replace(params=params, ret=visit(struct_info.ret))

    def _visit_shape(self, shape: RelaxExpr) -> RelaxExpr:
        visited = self._visit_expr(shape)
        return visited if is_leaf(visited) else shape


def _keeps(var: Var, known: StructInfo, info: StructInfo) -> bool:
    """Whether a variable can go on being described as it was, for a value of this struct info."""
    return structural_equal(known, info) or (var.annotation is not None and is_base_of(known, info))


def _map(items: tuple[T, ...], function: Any) -> tuple[T, ...]:
    """Each item mapped, in order; the same tuple if none changed."""
    mapped = tuple([function(item) for item in items])
    return items if all(a is b for a, b in zip(items, mapped, strict=True)) else mapped


PyExprVisitor = ExprVisitor
PyExprMutator = ExprMutator


def visitor(cls: type[T]) -> type[T]:
    """The decorator TVM's visitors carry; here a class needs none, and is returned as it is."""
    return cls


def mutator(cls: type[T]) -> type[T]:
    """The decorator TVM's mutators carry; here a class needs none, and is returned as it is."""
    return cls


def post_order_visit(expr: RelaxExpr, fvisit: Any) -> None:
    """Call a function on every expression, parts before what they are parts of."""

    class Visitor(ExprVisitor):
        def visit_expr(self, expr: RelaxExpr) -> None:
            super().visit_expr(expr)
            fvisit(expr)

    Visitor().visit_expr(expr)


__all__ = [
    "VISITS",
    "ExprMutator",
    "ExprVisitor",
    "PyExprMutator",
    "PyExprVisitor",
    "mutator",
    "post_order_visit",
    "visitor",
]
