"""The facts that the well-formedness rules read from a program, collected in one walk.

The walk follows the scopes of language.md §3 and takes any program, in normal form or not, with struct info or
without. It records what may break a rule, with its place; the rules, one function each in `rules/`, pick from these
records and word the complaint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any, Literal

from ..derive.call_graph import call_graph, recursive_groups
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
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
)
from ..info.mapping import bound_in
from ..ir import BaseFunc, DataType, GlobalVar, IRModule, Node, Op, RelaxExpr, Span, StructInfo
from ..prim import free_vars
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..runtime.records import dataclass
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo


@dataclass(slots=True, eq=False)
class Region:
    """A function, a SeqExpr, or a dataflow block."""

    parent: Region | None
    kind: Literal["function", "sequence", "dataflow"]
    function: str

    def encloses(self, other: Region | None) -> bool:
        """True if `other` is this scope or lies inside it."""
        while other is not None:
            if other is self:
                return True
            other = other.parent
        return False

    @property
    def function_scope(self) -> Region | None:
        """The innermost function around."""
        scope: Region | None = self
        while scope is not None and scope.kind != "function":
            scope = scope.parent
        return scope

    @property
    def dataflow_block(self) -> Region | None:
        """The dataflow block directly around, inside the same function; None outside of one."""
        scope: Region | None = self
        while scope is not None and scope.kind == "sequence":
            scope = scope.parent
        return scope if scope is not None and scope.kind == "dataflow" else None


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a program: the number of definitions and uses before it, its scope, its span."""

    order: int
    scope: Region
    span: Span | None

    @property
    def label(self) -> str:
        """Describe the position in words."""
        where = f"in {self.scope.function}" if self.scope.function else ""
        if self.scope.dataflow_block is None:
            return where
        return f"{where}, inside a dataflow block".removeprefix(", ")


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a variable (`is_param`: as a parameter), visible in `scope` from this position on."""

    var: Var
    place: Place
    is_param: bool
    scope: Region


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a variable that is not plainly visible: undefined, in its own value, or across a function."""

    var: Var
    place: Place
    problem: Literal["invisible", "own value", "captured"]


@dataclass(frozen=True, slots=True, eq=False)
class ShapeUse:
    """Use of an unbound shape variable."""

    var: PrimVar
    place: Place
    position: Literal["expression", "tensor", "shape", "prim", "parameter", "result"]


@dataclass(frozen=True, slots=True)
class Annotated:
    """An annotation of the program, or a part of one."""

    info: StructInfo
    place: Place


@dataclass(frozen=True, slots=True)
class ShapeHolder:
    """A tensor annotation whose shape is an expression other than a ShapeExpr; `visible` if it is a Var in scope."""

    info: TensorStructInfo
    shape: RelaxExpr
    visible: bool
    place: Place


@dataclass(frozen=True, slots=True)
class FunctionLiteral:
    """A function, global or local, with the variable it is bound to, if it is local and bound."""

    function: Function
    place: Place
    var: Var | None
    calls_itself: bool


@dataclass(frozen=True, slots=True)
class At:
    """A node with its position."""

    node: Any
    place: Place


@dataclass(slots=True)
class ProgramFacts:
    """Records collected from a program; `module` is None for a single function."""

    module: IRModule | None
    definitions: dict[Var, list[Definition]] = field(default_factory=dict[Var, list[Definition]])
    uses: list[Use] = field(default_factory=list[Use])
    shape_definitions: dict[PrimVar, list[Place]] = field(default_factory=dict[PrimVar, list[Place]])
    shape_uses: list[ShapeUse] = field(default_factory=list[ShapeUse])
    annotations: list[Annotated] = field(default_factory=list[Annotated])
    shape_holders: list[ShapeHolder] = field(default_factory=list[ShapeHolder])
    functions: list[FunctionLiteral] = field(default_factory=list[FunctionLiteral])
    ops_as_values: list[At] = field(default_factory=list[At])
    global_uses: list[At] = field(default_factory=list[At])
    """Mentions of global functions."""
    ifs_in_dataflow: list[At] = field(default_factory=list[At])
    calls_in_dataflow: list[At] = field(default_factory=list[At])
    """Calls of functions (not operators) directly inside dataflow blocks."""
    recursive_calls: list[At] = field(default_factory=list[At])
    """Calls of a local function inside that function, directly inside a dataflow block."""
    prim_values: list[At] = field(default_factory=list[At])
    dtypes: list[tuple[DataType, Place]] = field(default_factory=list[tuple[DataType, Place]])
    recursive: dict[str, int] = field(default_factory=dict[str, int])
    """For each recursive global function, the number of its group."""


def collect(obj: IRModule | BaseFunc | RelaxExpr) -> ProgramFacts:
    """Walk a module, a function or an expression."""
    program = ProgramFacts(obj if isinstance(obj, IRModule) else None)
    if isinstance(obj, RelaxExpr):
        name: str = obj.attrs.get("global_symbol", "") if isinstance(obj, BaseFunc) else ""
        _Collector(program, name).expr(obj)
        return program
    for number, group in enumerate(recursive_groups(call_graph(obj))):
        program.recursive.update((name, number) for name in group)
    counter = [0]
    for global_var, function in obj.functions.items():
        if isinstance(function, Function):
            _Collector(program, global_var.name_hint, counter).function(function, None)
    return program


def first_span(*nodes: Node | None) -> Span | None:
    """First known source position among nodes."""
    return next((n.span for n in nodes if n is not None and n.span is not None), None)


class _Collector:
    """Walks one global function."""

    def __init__(self, program: ProgramFacts, name: str, counter: list[int] | None = None) -> None:
        self.program = program
        self.counter = counter if counter is not None else [0]
        self.scope = Region(None, "sequence", name)
        self.visible: dict[Var, Region] = {}
        self.shape_visible: dict[PrimVar, Region] = {}
        self.entered: list[tuple[list[Var], list[PrimVar]]] = []
        self.binding: Var | None = None
        """The variable whose value, which is not a function, is being walked."""
        self.local_functions: dict[Var, list[bool]] = {}
        """The local functions being walked, and whether each was found to use its own variable."""
        self.for_output = False
        """True if the annotation being walked is of a variable seen after its dataflow block."""
        self.unbound: set[PrimVar] = set()
        """Shape variables of which a use without a binding was recorded."""
        self.told: set[tuple[int, str, PrimVar]] = set()
        self.annotated: dict[tuple[int, int, str, frozenset[PrimVar]], StructInfo] = {}
        """Struct infos recorded, by id, place and position: one may stand in many places of an annotation."""
        """Positions recorded for each of them; one each suffices."""
        self.walked: list[set[RelaxExpr]] = [set()]
        """Per scope, calls and tuples already walked that bind nothing, so that shared subgraphs are walked once."""
        self.bound_count = 0
        self.span: Span | None = None

    # -- places and scopes

    def place(self, *nodes: Node | None) -> Place:
        self.counter[0] += 1
        return Place(self.counter[0], self.scope, first_span(*nodes) or self.span)

    def enter(self, kind: Literal["function", "sequence", "dataflow"]) -> None:
        self.scope = Region(self.scope, kind, self.scope.function)
        self.entered.append(([], []))
        self.walked.append(set())

    def leave(self) -> None:
        variables, shape_vars = self.entered.pop()
        self.walked.pop()
        for var in variables:
            self.visible.pop(var, None)
        for var in shape_vars:
            self.shape_visible.pop(var, None)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def define(self, var: Var, place: Place, *, is_param: bool = False) -> None:
        """Bind a variable; in a dataflow block an ordinary one goes to the scope around."""
        self.bound_count += 1
        level = -1
        scope = self.scope
        if scope.kind == "dataflow" and not isinstance(var, DataflowVar) and len(self.entered) > 1:
            level = -2
            scope = scope.parent or scope
        self.program.definitions.setdefault(var, []).append(Definition(var, place, is_param, scope))
        if var not in self.visible:
            self.visible[var] = scope
            self.entered[level][0].append(var)

    def define_shape_vars(self, variables: Iterable[PrimVar], place: Place) -> None:
        """Bind shape variables; those a dataflow block binds are seen after it."""
        level, scope = -1, self.scope
        if scope.kind == "dataflow" and len(self.entered) > 1:
            level, scope = -2, scope.parent or scope
        for var in variables:
            self.program.shape_definitions.setdefault(var, []).append(replace(place, scope=scope))
            if var in self.shape_visible:
                continue
            self.shape_visible[var] = scope
            self.entered[level][1].append(var)

    # -- expressions

    def expr(self, expr: RelaxExpr) -> None:
        handler = _EXPRS.get(type(expr))
        if handler is None or expr in self.walked[-1]:
            return
        outer = self.span
        if expr.span is not None and not isinstance(expr, Var):
            self.span = expr.span
        bound_before = self.bound_count
        handler(self, expr)
        if bound_before == self.bound_count and isinstance(expr, (Call, Tuple, TupleGetItem)):
            self.walked[-1].add(expr)
        self.span = outer

    def use(self, var: Var) -> None:
        self.mention(var)
        if var in self.local_functions:
            self.local_functions[var][0] = True

    def mention(self, var: Var) -> None:
        """Record the use of a variable in an expression or as an annotation's shape, unless it is plainly visible."""
        scope = self.visible.get(var)
        if var is self.binding:
            self.program.uses.append(Use(var, self.place(), "own value"))
        elif scope is None:
            self.program.uses.append(Use(var, self.place(), "invisible"))
        elif (
            isinstance(var, DataflowVar)
            and scope.kind == "dataflow"
            and scope.function_scope is not self.scope.function_scope
        ):
            self.program.uses.append(Use(var, self.place(), "captured"))

    def operator(self, op: Op) -> None:
        self.program.ops_as_values.append(At(op, self.place()))

    def global_var(self, global_var: GlobalVar) -> None:
        self.program.global_uses.append(At(global_var, self.place(global_var)))

    def tuple(self, expr: Tuple) -> None:
        for item in expr.fields:
            self.expr(item)

    def tuple_get_item(self, expr: TupleGetItem) -> None:
        self.expr(expr.tuple_value)

    def call(self, call: Call) -> None:
        if not isinstance(call.op, Op):
            self.expr(call.op)
            if self.scope.dataflow_block is not None:
                self.program.calls_in_dataflow.append(At(call, self.place(call)))
                if call.op in self.local_functions:
                    self.program.recursive_calls.append(At(call.op, self.place(call)))
        for arg in call.args:
            self.expr(arg)
        for info in call.sinfo_args:
            self.annotation(info, self.place(info, call), "expression")

    def if_(self, expr: If) -> None:
        if self.scope.dataflow_block is not None:
            self.program.ifs_in_dataflow.append(At(expr, self.place(expr)))
        self.expr(expr.cond)
        for branch in (expr.true_branch, expr.false_branch):
            self.enter("sequence")
            self.expr(branch)
            self.leave()

    def seq(self, expr: SeqExpr) -> None:
        self.enter("sequence")
        for block in expr.blocks:
            self.block(block)
        self.expr(expr.body)
        self.leave()

    def shape_expr(self, expr: ShapeExpr) -> None:
        place = self.place(expr)
        for value in expr.values:
            self.scalar(value, place, "expression")

    def prim_value(self, expr: PrimValue) -> None:
        place = self.place(expr)
        self.program.prim_values.append(At(expr, place))
        self.program.dtypes.append((expr.value.dtype, place))
        self.scalar(expr.value, place, "expression")

    def dtype_imm(self, expr: DataTypeImm) -> None:
        self.program.dtypes.append((expr.value, self.place(expr)))

    def constant(self, expr: Constant) -> None:
        self.program.dtypes.append((expr.dtype, self.place(expr)))

    def function_literal(self, function: Function) -> None:
        self.function(function, None)

    def function(self, function: Function, var: Var | None) -> None:
        """A function with the variable it is bound to, if it is a local one: it may call itself through that."""
        place = self.place(function)
        outer, self.binding = self.binding, None
        self.enter("function")
        uses_itself = [False]
        if var is not None:
            self.local_functions[var] = uses_itself
        self.signature(function)
        self.expr(function.body)
        if var is not None:
            del self.local_functions[var]
        self.leave()
        self.binding = outer
        self.program.functions.append(FunctionLiteral(function, place, var, uses_itself[0]))

    def signature(self, function: Function) -> None:
        infos = [p.struct_info_ for p in function.params]
        for param in function.params:
            self.define(param, self.place(param, function), is_param=True)
        known_infos = [info for info in infos if info is not None]
        self.define_shape_vars(bound_in(*known_infos), self.place(function))
        for param, info in zip(function.params, infos, strict=True):
            if info is not None:
                self.annotation(info, self.place(info, param, function), "parameter")
        if function.ret_struct_info is not None:
            info = function.ret_struct_info
            self.annotation(info, self.place(info, function), "result")

    # -- blocks and bindings

    def block(self, block: BindingBlock) -> None:
        is_dataflow = isinstance(block, DataflowBlock)
        if is_dataflow:
            self.enter("dataflow")
        for binding in block.bindings:
            outer = self.span
            self.span = first_span(binding, binding.var) or self.span
            self.bind(binding)
            self.span = outer
        if is_dataflow:
            self.leave()

    def bind(self, binding: Binding) -> None:
        var = binding.var
        match binding:
            case MatchCast(_, value, info):
                self.own_value(var, value)
                place = self.place(info, binding)
                self.cast_annotation(info, place)
            case VarBinding(_, Function() as function):
                # A function sees the variable it is bound to.
                if var not in self.visible:
                    self.visible[var] = self.scope
                    self.function(function, var)
                    del self.visible[var]
                else:
                    self.function(function, var)
            case _:
                self.own_value(var, binding.value)
        described = var.struct_info_
        if described is not None and not (isinstance(binding, MatchCast) and described is binding.struct_info):
            self.for_output = self.scope.kind == "dataflow" and not isinstance(var, DataflowVar)
            own = () if var.annotation is not None else self.unbound
            self.annotation(described, self.place(described, var, binding), "", frozenset(own))
            self.for_output = False
        self.define(var, self.place(var, binding))

    def own_value(self, var: Var, value: RelaxExpr) -> None:
        outer, self.binding = self.binding, var
        self.expr(value)
        self.binding = outer

    # -- annotations

    def annotation(
        self,
        info: StructInfo,
        place: Place,
        position: Literal["", "expression", "parameter", "result"] = "",
        own: frozenset[PrimVar] = frozenset(),
    ) -> None:
        """Record an annotation that binds nothing, its parts, and its uses of unbound variables."""
        key = id(info), place.order, position, own
        if key in self.annotated:
            return
        self.annotated[key] = info
        self.program.annotations.append(Annotated(info, place))
        match info:
            case TensorStructInfo(shape, dtype):
                self.program.dtypes.append((dtype, place))
                if isinstance(shape, ShapeExpr):
                    for value in shape.values:
                        self.scalar(value, place, position or "tensor", own)
                elif shape is not None:
                    self.shape_holder(info, shape, place)
            case ShapeStructInfo(values):
                for value in values or ():
                    self.scalar(value, place, position or "shape", own)
            case PrimStructInfo(dtype, value):
                self.program.dtypes.append((dtype, place))
                if value is not None:
                    self.scalar(value, place, position or "prim", own)
            case TupleStructInfo(fields):
                for item in fields:
                    self.annotation(item, place, position, own)
            case FuncStructInfo(params, ret):
                inner = own | frozenset(bound_in(*(params or ())))
                for item in (*(params or ()), ret):
                    self.annotation(item, place, position, inner)
            case _:
                return

    def shape_holder(self, info: TensorStructInfo, shape: RelaxExpr, place: Place) -> None:
        """Record a shape given by an expression. A dataflow variable is in scope in its block only."""
        visible = isinstance(shape, Var) and shape in self.visible
        if visible and isinstance(shape, DataflowVar):
            visible = not self.for_output
            self.mention(shape)
        self.program.shape_holders.append(ShapeHolder(info, shape, visible, place))

    def cast_annotation(self, info: StructInfo, place: Place) -> None:
        """A match_cast's: dimension by dimension, a new variable standing alone is bound, others are used."""
        match info:
            case TupleStructInfo(fields):
                key = id(info), place.order, "cast", frozenset[PrimVar]()
                if key in self.annotated:
                    return
                self.annotated[key] = info
                self.program.annotations.append(Annotated(info, place))
                for item in fields:
                    self.cast_annotation(item, place)
            case TensorStructInfo(ShapeExpr(values)):
                self.cast_scalars(values, place, "tensor")
                self.annotation(info, place)
            case ShapeStructInfo(values) if values is not None:
                self.cast_scalars(values, place, "shape")
                self.annotation(info, place)
            case PrimStructInfo(_, value) if value is not None:
                self.cast_scalars((value,), place, "prim")
                self.annotation(info, place)
            case _:
                self.annotation(info, place)

    def cast_scalars(
        self, values: tuple[PrimExpr, ...], place: Place, position: Literal["tensor", "shape", "prim"]
    ) -> None:
        """Bind what stands alone; what is used before that is recorded here, once."""
        later: set[PrimVar] = {v for v in values if isinstance(v, PrimVar) and v not in self.shape_visible}
        for value in values:
            if isinstance(value, PrimVar):
                later.discard(value)
                self.define_shape_vars((value,), place)
            else:
                for var in free_vars(value):
                    if var in later:
                        later.discard(var)
                        self.program.shape_uses.append(ShapeUse(var, place, position))

    def scalar(
        self,
        value: PrimExpr,
        place: Place,
        position: Literal["expression", "tensor", "shape", "prim", "parameter", "result"],
        own: frozenset[PrimVar] = frozenset(),
    ) -> None:
        for var in (value,) if isinstance(value, PrimVar) else free_vars(value):
            if var in self.shape_visible or var in own:
                continue
            key = place.order, position, var
            if key not in self.told:
                self.told.add(key)
                self.program.shape_uses.append(ShapeUse(var, place, position))
            self.unbound.add(var)
            if position == "parameter":
                # The signature is at fault, once, and not what follows from it.
                self.shape_visible[var] = self.scope
                self.entered[-1][1].append(var)


_EXPRS: dict[type, Callable[[_Collector, Any], None]] = {
    Var: _Collector.use,
    DataflowVar: _Collector.use,
    Op: _Collector.operator,
    GlobalVar: _Collector.global_var,
    Tuple: _Collector.tuple,
    TupleGetItem: _Collector.tuple_get_item,
    Call: _Collector.call,
    If: _Collector.if_,
    SeqExpr: _Collector.seq,
    ShapeExpr: _Collector.shape_expr,
    PrimValue: _Collector.prim_value,
    DataTypeImm: _Collector.dtype_imm,
    Constant: _Collector.constant,
    Function: _Collector.function_literal,
}
