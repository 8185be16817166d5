"""Substitute variables in Relax expressions; copy functions with fresh variables.

What is replaced: free Relax variables by expressions, shape variables by scalar expressions, everywhere they occur, in
annotations too. A variable bound inside whose description changes becomes a new variable. Struct info that was derived
is carried over, rewritten. Parts that do not change are shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from ..expr import Binding, BindingBlock, Function, MatchCast, PrimValue, SeqExpr, ShapeExpr, Var, VarBinding, convert
from ..info.dims import simplify_dim
from ..info.mapping import bound_in, fields_in, map_struct_info
from ..ir import Node, RelaxExpr, StructInfo, map_children, set_slot
from ..prim import substitute as substitute_prim
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..prim.expr import cast as cast_prim
from ..prim.totality import scalar_never_fails
from ..struct_info import TensorStructInfo
from ..tir.stmt import PrimFunc

ExprT = TypeVar("ExprT", bound=Node)


def substitute(expr: ExprT, mapping: Mapping[Any, Any]) -> ExprT:
    """Replace variables: ``{Var: expression, tir.Var: scalar expression}``. The expression itself if none occurs.

    Raises TypeError if a key is no variable.
    """
    variables: dict[Var, RelaxExpr] = {}
    shape_vars: dict[PrimVar, PrimExpr] = {}
    for key, value in mapping.items():
        if isinstance(key, Var):
            variables[key] = convert(value)
        elif isinstance(key, PrimVar):
            shape_vars[key] = cast_prim(key.dtype, value)
        else:
            raise TypeError(f"substitute: expected a relax.Var or a tir.Var, found {type(key).__name__}")
    return cast(ExprT, Substitution(variables, shape_vars, fresh=False).node(expr))


def copy_with_new_vars(func: Function) -> Function:
    """A structurally equal function that shares no bound variable, of Relax or of shapes, with the original."""
    return cast(Function, Substitution({}, {}, fresh=True).node(func))


class Substitution:
    """A substituting walk; passes may extend its tables on the way. `fresh` renames all bound variables."""

    def __init__(
        self, variables: dict[Var, RelaxExpr], shape_vars: dict[PrimVar, PrimExpr], *, fresh: bool = False
    ) -> None:
        self.variables = variables
        self.shape_vars = shape_vars
        self.fresh = fresh

    # -- any node

    def node(self, node: Node) -> Node:
        match node:
            case Var():
                return self.variables.get(node, node)
            case PrimExpr():
                return self.scalar(node)
            case StructInfo():
                return self.info(node)
            case PrimFunc():
                return node
            case Function():
                new: Node = self.function(node)
            case SeqExpr():
                new = self.seq(node)
            case _:
                new = map_children(node, self.node)
        return self.carry(node, new)

    def carry(self, old: Node, new: Node) -> Node:
        """Carry derived struct info from a node to its replacement."""
        if new is not old and isinstance(old, RelaxExpr) and isinstance(new, RelaxExpr):
            info = getattr(old, "_struct_info", None)
            if info is not None and not isinstance(new, (ShapeExpr, PrimValue)):
                set_slot(new, "_struct_info", self.info(info))
        return new

    def dim(self, value: PrimExpr) -> PrimExpr:
        if not self.shape_vars:
            return value
        if isinstance(value, PrimVar):
            return self.shape_vars.get(value, value)
        new = substitute_prim(value, self.shape_vars)
        return new if new is value else simplify_dim(new)

    def scalar(self, value: PrimExpr) -> PrimExpr:
        """A scalar that is computed. Only what certainly has a value is simplified: what leaves 64 bits is an error."""
        if not self.shape_vars:
            return value
        new = substitute_prim(value, self.shape_vars)
        return simplify_dim(new) if new is not value and scalar_never_fails(new) else new

    def info(self, info: StructInfo) -> StructInfo:
        return map_struct_info(info, self.dim, self.shape)

    def shape(self, shape: RelaxExpr) -> RelaxExpr | None:
        """The shape of a struct info, which is not computed. Subclasses may return None: only the rank remains."""
        if isinstance(shape, ShapeExpr):
            return map_children(shape, lambda child: self.dim(child) if isinstance(child, PrimExpr) else child)
        return cast(RelaxExpr, self.node(shape))

    # -- what binds

    def define_shape_vars(self, *infos: StructInfo) -> None:
        """New shape variables for those that an annotation binds, when everything is to be new."""
        if self.fresh:
            for var in bound_in(*infos):
                if var not in self.shape_vars:
                    self.shape_vars[var] = PrimVar(var.name, var.dtype, span=var.span)

    def define(self, var: Var) -> Var:
        """The variable to bind in the place of another: itself if its description does not change."""
        info = var.struct_info_
        new_info = None if info is None else self.info(info)
        if not self.fresh and new_info is info:
            return var
        annotation = None if var.annotation is None else self.info(var.annotation)
        new = type(var)(var.name_hint, annotation, span=var.span)
        if new_info is not None:
            set_slot(new, "_struct_info", new_info)
        self.variables[var] = new
        return new

    def function(self, func: Function) -> Function:
        self.define_shape_vars(*(p.struct_info_ for p in func.params if p.struct_info_ is not None))
        params = self.parameters(func.params)
        body = cast(RelaxExpr, self.node(func.body))
        ret = None if func.ret_struct_info is None else self.info(func.ret_struct_info)
        return func.replace(params=params, body=body, ret_struct_info=ret)

    def parameters(self, params: tuple[Var, ...]) -> tuple[Var, ...]:
        """Replace parameters; an annotation may name a parameter that holds its shape, even a later one."""
        named = {shape for p in params for shape in _shapes_named(p.struct_info_)}
        first = [self.define(p) if p in named else None for p in params]
        result = tuple(self.define(p) if new is None else new for p, new in zip(params, first, strict=True))
        return params if all(a is b for a, b in zip(params, result, strict=True)) else result

    def seq(self, seq: SeqExpr) -> SeqExpr:
        blocks = self.tuple_of(seq.blocks, self.block)
        body = cast(RelaxExpr, self.node(seq.body))
        return seq.replace(blocks=blocks, body=body)

    def block(self, block: BindingBlock) -> BindingBlock:
        return block.replace(bindings=self.tuple_of(block.bindings, self.binding))

    def binding(self, binding: Binding) -> Binding:
        match binding:
            case MatchCast(var, value, info):
                value = cast(RelaxExpr, self.node(value))
                self.define_shape_vars(info)
                return binding.replace(value=value, struct_info=self.info(info), var=self.define(var))
            case VarBinding(var, Function() as function):
                # The function may call itself: its variable is defined first, in the shape variables of its parameters.
                self.define_shape_vars(*(p.struct_info_ for p in function.params if p.struct_info_ is not None))
                new_var = self.define(var)
                return binding.replace(var=new_var, value=self.node(function))
            case VarBinding(var, value):
                value = cast(RelaxExpr, self.node(value))
                return binding.replace(value=value, var=self.define(var))
            case _:
                return binding

    @staticmethod
    def tuple_of(items: tuple[Any, ...], function: Any) -> tuple[Any, ...]:
        mapped = tuple([function(item) for item in items])
        return items if all(a is b for a, b in zip(items, mapped, strict=True)) else mapped


def _shapes_named(info: StructInfo | None) -> list[Var]:
    """The variables that hold shapes of tensors in a struct info."""
    fields = () if info is None else fields_in(info)
    return [p.shape for p in fields if isinstance(p, TensorStructInfo) and isinstance(p.shape, Var)]
