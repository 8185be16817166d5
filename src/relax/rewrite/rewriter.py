"""Rewriter: base class of rewrites of Relax expressions.

    class DoubleToAdd(Rewriter):
        def call(self, call: Call) -> RelaxExpr:
            call = self.parts(call)                               # arguments first
            match call:
                case Call(Op("relax.multiply"), (a, Constant(data))) if data.ndim == 0 and data == 2:
                    return add(a, a)                              # replaces the call
            return call

    new_mod = DoubleToAdd(mod).module()

Hooks, each with a default that rewrites the parts and returns the same object where no part changed:

    call, if_, tuple_, tuple_get_item, seq, function      expressions with parts
    variable, leaf                                        variables; all other leaves
    block                                                 a block of either kind
    binding ── var_binding, match_cast                    emit what a binding becomes, or nothing to drop it
    define                                                the variable to bind in the place of another
    info, dim                                             struct info; a scalar expression in a shape or a PrimValue

New bindings go into the block being rewritten, through ``self.builder.emit(value)``. That builder normalises a hook's
result and derives its struct info. A variable is kept as long as its struct info describes the new value; otherwise a
variable with the value's struct info replaces it and its uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import is_
from typing import Any, ClassVar, TypeVar, cast

from ..block_builder import BlockBuilder
from ..derive.context import FORCE_PURE, FunctionScope, PoisonedError
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
)
from ..info.dims import simplify_dim
from ..info.mapping import map_struct_info
from ..info.relations import is_base_of, is_plainly_same
from ..ir import DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, StructInfo, set_slot, structural_equal
from ..prim import free_vars as free_prim_vars
from ..prim import substitute as substitute_prim
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..prim.totality import scalar_never_fails
from ..struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.stmt import PrimFunc

_SIMPLE = (Var, DataflowVar, Constant)
"""Leaf classes that are in normal form once they have struct info."""

T = TypeVar("T")
ExprT = TypeVar("ExprT", bound=RelaxExpr)


def blocks_in(function: Function) -> Iterator[BindingBlock]:
    """Blocks of a function in normal form, including those of branches and local functions, in unspecified order."""
    pending: list[RelaxExpr] = [function.body]
    while pending:
        match pending.pop():
            case SeqExpr(blocks):
                for block in blocks:
                    yield block
                    pending += [b.value for b in block.bindings if type(b.value) in (If, Function)]
            case If(_, true_branch, false_branch):
                pending += [true_branch, false_branch]
            case Function() as inner:
                pending.append(inner.body)
            case _:
                pass


def bindings_in(function: Function) -> Iterator[Binding]:
    """Bindings of a function in normal form, including those of branches and local functions, in unspecified order."""
    for block in blocks_in(function):
        yield from block.bindings


class Rewriter:
    """Rewriter of functions and modules; see the module's docstring for the hooks to override."""

    HOOKS: ClassVar[dict[type, str]] = {
        Call: "call",
        If: "if_",
        Tuple: "tuple_",
        TupleGetItem: "tuple_get_item",
        SeqExpr: "seq",
        Function: "function",
        Var: "variable",
        DataflowVar: "variable",
        **dict.fromkeys((Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm), "leaf"),
        **dict.fromkeys((GlobalVar, ExternFunc, PrimFunc, Op), "leaf"),
    }
    """Names of the hooks, by class of expression."""

    _infos: dict[int, StructInfo] | None = None
    """Cache of rewritten tuple and function struct infos, by id of the old ones, during the outermost rewrite."""

    _keeps_dims: ClassVar[bool] = True
    """True if dimensions are unchanged unless a shape variable is replaced: no relevant hook is overridden."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._keeps_dims = all(
            getattr(cls, name) is getattr(Rewriter, name) for name in ("HOOKS", "leaf", "dim", "_shape_in_info")
        )

    def __init__(self, mod: IRModule | None = None) -> None:
        self._given = mod
        self.mod = mod if mod is not None else IRModule()
        self.variables: dict[Var, RelaxExpr] = {}
        """Replacements of variables, applied to their uses."""
        self.shape_vars: dict[PrimVar, PrimExpr] = {}
        """Replacements of shape variables."""
        self._name = ""
        self._normal: RelaxExpr | None = None
        """Last result of `parts`, which is already in normal form."""

    @cached_property
    def builder(self) -> BlockBuilder:
        """Builder that emits new bindings, created at first use."""
        return BlockBuilder(self._given, warn=False)

    # -- entry

    def module(self) -> IRModule:
        """Return the module with all Relax functions rewritten, including functions added by the rewriter.

        Raises DiagnosticError with the errors of all bindings of all functions.
        """
        builder = self.builder
        builder.collect = True
        for global_var, function in self.mod.functions.items():
            if isinstance(function, Function):
                name = global_var.name_hint
                try:
                    builder.functions[name] = self.rewrite_function(function, name)
                except DiagnosticError as error:
                    builder.report(error)
        if builder.diagnostics:
            raise DiagnosticError(builder.diagnostics)
        return builder.get()

    def concerns(self, function: Function) -> bool:
        """Return False to skip a global function without traversing it. Default: True.

        The check must be cheaper than the traversal it saves, such as a search of `bindings_in`.
        """
        return True

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        """Rewrite a global function to normal form; returns it unchanged if nothing changed. `name` is for error
        messages.
        """
        if not self.concerns(function):
            return function
        builder = self.builder
        self._name = name or str(function.attrs.get("global_symbol", ""))
        outer = builder.global_function, builder.rebound
        with builder.detached():
            builder.global_function, builder.rebound = function, None
            new = cast(Function, self.function(function))
            if new is not function or function.struct_info_ is None:
                new = builder.function_body(new, name)
        builder.global_function, builder.rebound = outer
        return new

    def rewrite(self, expr: RelaxExpr) -> RelaxExpr:
        """Rewrite any expression by the hook for its class, to normal form with struct info."""
        new = self._dispatch(expr)
        if new is self._normal or (type(new) in _SIMPLE and new.struct_info_ is not None):
            return new
        return self.builder.normalize(new)

    def parts(self, expr: ExprT) -> ExprT:
        """Rewrite the parts of an expression, to normal form with struct info. Returns it unchanged if no part
        changed.
        """
        new = self._normal = self.builder.normalize(self.default(expr))
        return cast(ExprT, new)

    def default(self, expr: RelaxExpr) -> RelaxExpr:
        """Apply the default hook: rewrite the parts of an expression, without normalisation and struct info."""
        return getattr(Rewriter, Rewriter.HOOKS[type(expr)])(self, expr)

    def _dispatch(self, expr: RelaxExpr) -> RelaxExpr:
        name = self.HOOKS.get(type(expr))
        if name is None:
            raise TypeError(f"{type(self).__name__}: cannot visit a {type(expr).__name__}")
        return getattr(self, name)(expr)

    # -- variables

    def lookup(self, var: RelaxExpr) -> RelaxExpr | None:
        """Value bound to a variable emitted so far; None if there is none."""
        return self.builder.lookup_binding(var) if isinstance(var, Var) else None

    def with_struct_info(self, var: Var, struct_info: StructInfo) -> Var:
        """Return the variable if it has this struct info, otherwise a new one of its name with it."""
        current = var.struct_info_
        if current is struct_info or (current is not None and structural_equal(current, struct_info)):
            return var
        new = type(var)(var.name_hint, span=var.span)
        set_slot(new, "_struct_info", struct_info)
        return new

    # -- hooks: expressions

    def leaf(self, expr: RelaxExpr) -> RelaxExpr:
        """Hook for all leaves except variables and tuples; the default rewrites the scalar expressions in them."""
        match expr:
            case PrimValue(value):
                new = self.scalar(value)
                return expr if new is value else PrimValue(new, span=expr.span)
            case ShapeExpr(values):
                dims = mapped(values, self.scalar)
                return expr if dims is values else ShapeExpr(dims, span=expr.span)
            case _:
                return expr

    def scalar(self, expr: PrimExpr) -> PrimExpr:
        """Rewrite a scalar expression used as a value: like a dimension, but one that may raise is not simplified."""
        new = self._replaced(expr)
        return new if new is expr or not scalar_never_fails(new) else simplify_dim(new)

    def _replaced(self, expr: PrimExpr) -> PrimExpr:
        if not self.shape_vars:
            return expr
        mine = {var: self.shape_vars[var] for var in free_prim_vars(expr) if var in self.shape_vars}
        return substitute_prim(expr, mine)

    def variable(self, var: Var) -> RelaxExpr:
        """Hook for the uses of variables of either kind; the default looks them up in `variables`."""
        return self.variables.get(var, var)

    def tuple_(self, expr: Tuple) -> RelaxExpr:
        """Hook for tuples."""
        fields = mapped(expr.fields, self.rewrite)
        return expr if fields is expr.fields else Tuple(fields, span=expr.span)

    def tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        """Hook for projections."""
        value = self.rewrite(expr.tuple_value)
        return expr if value is expr.tuple_value else TupleGetItem(value, expr.index, span=expr.span)

    def call(self, call: Call) -> RelaxExpr:
        """Hook for calls."""
        callee = call.op if isinstance(call.op, Op) else self.rewrite(call.op)
        args = mapped(call.args, self.rewrite)
        sinfo_args = mapped(call.sinfo_args, self.info)
        if callee is call.op and args is call.args and sinfo_args is call.sinfo_args:
            return call
        rewritten = Call(callee, args, call.attrs, sinfo_args, span=call.span)
        if callee is call.op and sinfo_args is call.sinfo_args and all(map(_are_told_alike, call.args, args)):
            set_slot(rewritten, "_struct_info", call.struct_info_)  # the same would be derived
        return rewritten

    def if_(self, expr: If) -> RelaxExpr:
        """Hook for conditionals; the default rewrites each branch in a new scope."""
        cond = self.rewrite(expr.cond)
        with self.builder.given(cond, True):
            true_branch = self.scope(expr.true_branch)
        with self.builder.given(cond, False):
            false_branch = self.scope(expr.false_branch)
        if cond is expr.cond and true_branch is expr.true_branch and false_branch is expr.false_branch:
            return expr
        return If(cond, true_branch, false_branch, span=expr.span)

    def seq(self, seq: SeqExpr) -> RelaxExpr:
        """Hook for sequences of blocks: bodies of functions and branches."""
        builder = self.builder
        frames, scopes = len(builder.frames), len(builder.scopes)
        builder.begin_scope()
        blocks: list[BindingBlock] = []
        try:
            for block in seq.blocks:
                new = self.block(block)
                blocks += [*builder.take_split_blocks(), new]
            builder.begin_binding_block()
            body = builder.leaf(self.rewrite(seq.body))
            blocks = merge_blocks(blocks + builder.end_blocks())
        finally:
            del builder.frames[frames:]
            while len(builder.scopes) > scopes + 1:
                builder.end_scope()
            scope = builder.end_scope()
        same = len(blocks) == len(seq.blocks) and all(map(is_, blocks, seq.blocks))
        if same and body is seq.body:
            return seq
        result = SeqExpr(blocks, body, span=seq.span)
        set_slot(result, "_struct_info", scope.erased(body.struct_info))
        return result

    def function(self, function: Function) -> RelaxExpr:
        """Hook for functions, global ones and literals."""
        params = mapped(function.params, self.redefined)
        scopes = self.builder.function_scopes
        force_pure = bool(function.attrs.get(FORCE_PURE, False))
        scopes.append(FunctionScope(self._name, function.is_pure, force_pure))
        self._name = ""
        try:
            body = self.scope(function.body, params)
        finally:
            scopes.pop()
        ret = None if function.ret_struct_info is None else self.info(function.ret_struct_info)
        old_info = function.struct_info_
        result = function.replace(params=params, body=body, ret_struct_info=ret)
        if old_info is not None and ret is not None and (params is function.params and ret is function.ret_struct_info):
            set_slot(result, "_struct_info", old_info)  # parameters and result are unchanged
        return result

    def scope(self, expr: RelaxExpr, params: Sequence[Var] | None = None) -> RelaxExpr:
        """Rewrite a function's body or a branch in a new scope, to a SeqExpr."""
        builder = self.builder
        depth = len(builder.scopes)
        builder.begin_scope(params)
        # Hide the enclosing blocks, so that bindings emitted inside stay inside.
        frames, builder.frames = builder.frames, []
        try:
            if isinstance(expr, SeqExpr):
                return builder.scope_body(self.rewrite(expr))
            builder.begin_binding_block()
            body = builder.leaf(self.rewrite(expr))
            return builder.scope_body(SeqExpr(builder.end_blocks(), body, span=expr.span))
        finally:
            builder.frames = frames
            while len(builder.scopes) > depth:
                builder.end_scope()

    # -- hooks: blocks and bindings

    def block(self, block: BindingBlock) -> BindingBlock:
        """Hook for blocks of either kind. The default rewrites the bindings in order."""
        builder = self.builder
        builder.open_frame(isinstance(block, DataflowBlock))
        for binding in block.bindings:
            try:
                self.binding(binding)
            except (DiagnosticError, PoisonedError) as error:
                builder.recover(binding, error)
        return builder.end_block_keeping(block)

    def binding(self, binding: Binding) -> None:
        """Hook for bindings of either kind; emits the rewritten binding."""
        if isinstance(binding, MatchCast):
            self.match_cast(binding)
        else:
            self.var_binding(cast(VarBinding, binding))

    def var_binding(self, binding: VarBinding) -> None:
        """Hook for bindings of values."""
        var = None
        if isinstance(binding.value, Function):
            # A recursive function refers to its variable, which must be replaced before the body is rewritten.
            var = self.redefined(binding.var)
            self.builder.note_own(var, binding.value)
            self._name = var.name_hint
        self.bind(binding, self.rewrite(binding.value), var)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        """Emit a binding with a new value; returns the bound variable, to which uses of the old one are redirected.

        The value is in normal form, as from `rewrite`. `var` is the variable to bind if its definition has already been
        rewritten.
        """
        if var is None:
            var = self.redefined(binding.var)
        if value is binding.value and var is binding.var:
            self._emit(binding)
            return var
        info, declared = value.struct_info, var.struct_info_
        if declared is None or not self.describes(var, declared, info):
            var = self.with_struct_info(var, info)
        if var is not binding.var:
            self.variables[binding.var] = var
            if isinstance(value, Function):
                value = substitute(value, {binding.var: var})
        self._emit(VarBinding(var, value, span=binding.span))
        return var

    def _emit(self, binding: VarBinding) -> None:
        if isinstance(binding.value, Function):
            self.builder.emit_normalized(binding)
        else:
            self.builder.bind(binding.var, binding.value, binding)

    def describes(self, var: Var, declared: StructInfo, info: StructInfo) -> bool:
        """True if a variable may keep its struct info `declared` when its new value has `info`."""
        with self.builder.knowing():
            return declared is info or is_base_of(declared, info) or structural_equal(declared, info)

    def match_cast(self, binding: MatchCast) -> None:
        """Hook for match_cast bindings."""
        value, info = self.rewrite(binding.value), self.info(binding.struct_info)
        var = self.redefined(binding.var)
        if value is binding.value and info is binding.struct_info and var is binding.var:
            self.builder.emit_normalized(binding)
            return
        if info is not binding.struct_info:
            var = self.with_struct_info(var, info)
        if var is not binding.var:
            self.variables[binding.var] = var
        self.builder.emit_normalized(MatchCast(var, value, info, span=binding.span))

    def redefined(self, var: Var) -> Var:
        """Apply `define` to a variable, and redirect its uses if it changed."""
        new = self.define(var)
        if new is not var:
            self.variables[var] = new
        return new

    def define(self, var: Var) -> Var:
        """Hook for definitions of variables; returns the variable to bind. The default rewrites its struct info."""
        info = var.struct_info_
        new_info = None if info is None else self.info(info)
        if new_info is None or new_info is info:
            return var
        if var.annotation is not None:
            return type(var)(var.name_hint, new_info, span=var.span)
        new = type(var)(var.name_hint, span=var.span)
        set_slot(new, "_struct_info", new_info)
        return new

    # -- hooks: struct info

    def dim(self, expr: PrimExpr) -> PrimExpr:
        """Hook for scalar expressions in struct info; the default replaces the variables in `shape_vars`."""
        new = self._replaced(expr)
        return new if new is expr else simplify_dim(new)

    def info(self, struct_info: StructInfo) -> StructInfo:
        """Hook for struct info; the default rewrites the expressions in shapes.

        Also called for fields of tuples and for parameters and results of functions. An object shared within an
        annotation is rewritten once.
        """
        is_tensor = isinstance(struct_info, TensorStructInfo)
        if is_tensor and self._keeps_dims and not self.shape_vars and not isinstance(struct_info.shape, Var):
            return struct_info
        if not isinstance(struct_info, (TupleStructInfo, FuncStructInfo)):
            return map_struct_info(struct_info, self.dim, self._shape_in_info)
        outer = self._infos
        infos = self._infos = {} if outer is None else outer
        try:
            if id(struct_info) not in infos:
                infos[id(struct_info)] = self._info_parts(struct_info)
            return infos[id(struct_info)]
        finally:
            self._infos = outer

    def _info_parts(self, struct_info: TupleStructInfo | FuncStructInfo) -> StructInfo:
        if isinstance(struct_info, TupleStructInfo):
            return struct_info.replace(fields=mapped(struct_info.fields, self.info))
        params = None if struct_info.params is None else mapped(struct_info.params, self.info)
        return struct_info.replace(params=params, ret=self.info(struct_info.ret))

    def _shape_in_info(self, shape: RelaxExpr) -> RelaxExpr:
        if isinstance(shape, ShapeExpr):
            dims = mapped(shape.values, self.dim)
            return shape if dims is shape.values else ShapeExpr(dims, span=shape.span)
        new = self._dispatch(shape)
        return new if is_leaf(new) else shape


def _are_told_alike(old: RelaxExpr, new: RelaxExpr) -> bool:
    """True if derivation cannot distinguish two arguments: identical objects, or variables with equal struct info."""
    if old is new:
        return True
    if not isinstance(old, Var) or not isinstance(new, Var):
        return False
    info, other = old.struct_info_, new.struct_info_
    return info is not None and other is not None and is_plainly_same(info, other)


def mapped(items: tuple[T, ...], function: Any) -> tuple[T, ...]:
    """Map each item, in order; returns the same tuple if none changed."""
    new = tuple([function(item) for item in items])
    return items if all(map(is_, items, new)) else new
