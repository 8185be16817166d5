"""Derivation context: enclosing functions and scopes, visible shape variables, diagnostics."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Generator, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from ..expr import Binding, BindingBlock, DataflowBlock, Function, MatchCast, Var
from ..info.dims import simplify_dim
from ..info.mapping import bound_in, substitute_struct_info, used_in
from ..info.relations import Fit, Level, erase, match_own
from ..info.text import prim_text
from ..ir import (
    BaseFunc,
    Diagnostic,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Node,
    RelaxExpr,
    Span,
    StructInfo,
    emit_warning,
    listed_vdevices,
    walk,
)
from ..ir.transform import PassContext
from ..prim import Analyzer, facts_in_scope, free_vars, substitute
from ..prim import cast as cast_scalar
from ..prim.expr import PrimExpr
from ..prim.expr import Var as PrimVar
from ..runtime.records import dataclass
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.stmt import PrimFunc
from .conditions import condition_facts, with_facts

_T = TypeVar("_T")

FORCE_PURE = "relax.force_pure"


class PoisonedError(Exception):
    """Raised on use of a variable whose binding failed; the original error has been reported."""


@dataclass(slots=True)
class FunctionScope:
    """The function whose body is being derived."""

    name: str
    is_pure: bool
    force_pure: bool


class Scope:
    """The variables that a SeqExpr, or a function, binds."""

    __slots__ = ("definitions", "outside", "shape_vars", "variables")

    def __init__(self, outside: Analyzer | None) -> None:
        self.variables: list[Var] = []
        self.shape_vars: list[PrimVar] = []
        self.definitions: dict[PrimVar, PrimExpr] = {}
        """Shape variables bound by a MatchCast, expressed in those of enclosing scopes."""
        self.outside = outside
        """The facts known where the scope was entered."""

    def defined(self, info: StructInfo) -> StructInfo:
        """Replace shape variables of the innermost scope by their definitions in variables of the enclosing scopes."""
        return substitute_struct_info(info, self.definitions, None, simplify_dim) if self.definitions else info

    def erased(self, info: StructInfo) -> StructInfo:
        """Erase struct info to what is valid outside of the scope."""
        return erase(self.defined(info), set(self.shape_vars), set(self.variables))


@dataclass(slots=True)
class ModuleTables:
    """The functions of a module by name, and the signatures they declare."""

    source: dict[GlobalVar, BaseFunc] = field(default_factory=dict[GlobalVar, BaseFunc])
    globals: dict[str, GlobalVar] = field(default_factory=dict[str, GlobalVar])
    functions: dict[str, BaseFunc] = field(default_factory=dict[str, BaseFunc])
    signatures: dict[str, StructInfo | None] = field(default_factory=dict[str, "StructInfo | None"])


_NO_FUNCTIONS: Final = ModuleTables()
_TABLES: Final[WeakKeyDictionary[IRModule, ModuleTables]] = WeakKeyDictionary()


def module_tables(mod: IRModule) -> ModuleTables:
    """Return the cached tables of a module."""
    tables = _TABLES.get(mod)
    if tables is None or tables.source is not mod.functions:
        tables = ModuleTables(mod.functions)
        for global_var, function in mod.functions.items():
            name = global_var.name_hint
            tables.globals[name] = global_var
            tables.functions[name] = function
            info = tables.signatures[name] = signature_of(function)
            if info is not None:
                set_global_struct_info(global_var, info)
        _TABLES[mod] = tables
    return tables


class Layered(ChainMap[str, _T]):
    """A dict layered over another; optimised for lookup."""

    def __contains__(self, key: object) -> bool:
        own, below = self.maps
        return key in own or key in below

    def __getitem__(self, key: str) -> _T:
        own, below = self.maps
        return own[key] if key in own else below[key]

    def get(self, key: str, default: Any = None) -> Any:
        own, below = self.maps
        return own[key] if key in own else below.get(key, default)


class OpenBlock:
    """A block under construction; `done` are the blocks it was split into before the current one."""

    __slots__ = ("bindings", "done", "is_dataflow", "nested")

    def __init__(self, is_dataflow: bool) -> None:
        self.is_dataflow = is_dataflow
        self.bindings: list[Binding] = []
        self.done: list[BindingBlock] = []
        self.nested: dict[RelaxExpr, Var] = {}
        """Pure expressions that were nested in others, and the variables they were bound to."""


class Scopes:
    """The surroundings of an expression whose struct info is derived.

    With `collect`, errors of one binding are kept, and derivation goes on with the next; `diagnostics` holds them.
    Without, the first one is raised. `warn` says whether possible misfits are worth a warning.
    """

    def __init__(self, mod: IRModule | None = None, *, collect: bool = False, warn: bool = True) -> None:
        tables = _NO_FUNCTIONS if mod is None else module_tables(mod)
        # What is declared here lies above what the module has, and that is not copied for each function of it.
        self.globals: MutableMapping[str, GlobalVar] = Layered({}, tables.globals)
        self.functions: MutableMapping[str, BaseFunc] = Layered({}, tables.functions)
        self.signatures: MutableMapping[str, StructInfo | None] = Layered({}, tables.signatures)
        """Declared signatures; None for a function whose result is not known yet."""
        self.scopes: list[Scope] = []
        self.frames: list[OpenBlock] = []
        self.function_scopes: list[FunctionScope] = []
        self.shape_vars: dict[PrimVar, None] = {}
        """The shape variables in scope."""
        self.facts: Analyzer | None = None
        """Facts about shape variables here, None if nothing is: see `facts`. Never changed, only replaced."""
        self.collect = collect
        self.warn = warn
        self.diagnostics: list[Diagnostic] = []
        self.span: Span | None = None
        """The span being derived; diagnostics about nodes without a span use it."""
        self.poisoned: set[Var] = set()
        self.failed: set[str] = set()
        """Global functions in error, whose result is therefore not known."""
        self.own_shape_vars: dict[Var, dict[PrimVar, None]] = {}
        """For each variable bound to a function literal, what that function's parameters bind."""
        self.vdevices = listed_vdevices(mod)
        """The virtual devices the module lists."""

    # -- global functions

    def declare(self, global_var: GlobalVar, function: BaseFunc) -> None:
        """Make a global function known; its declared signature, if it has one, is what calls are derived from."""
        name = global_var.name_hint
        self.globals[name] = global_var
        self.functions[name] = function
        info = self.signatures[name] = signature_of(function)
        if info is not None:
            set_global_struct_info(global_var, info)

    def global_struct_info(self, global_var: GlobalVar) -> StructInfo | None:
        """The struct info of a global function; None if the name is not known, or its result not derived yet."""
        name = global_var.name_hint
        if name in self.globals:
            return self.signatures.get(name)
        return global_var.struct_info_

    def note_own(self, var: Var, function: Function) -> None:
        """Remember which shape variables the parameters of a local function bind: those not in scope already."""
        infos = [param.struct_info_ or ObjectStructInfo() for param in function.params]
        own = self.own_shape_vars.setdefault(var, {})
        own.update((v, None) for v in bound_in(*infos) if v not in self.shape_vars)

    def with_own_variables(self, function: RelaxExpr, info: FuncStructInfo) -> StructInfo:
        """A function's struct info as it is seen here.

        What its parameters bind stands for any size; but in its own body (it may be recursive), or where a variable
        object is bound a second time, that is in scope, and one size. Then the struct info gets new variables.
        """
        if isinstance(function, GlobalVar):
            own = bound_in(*(info.params or ()))
        else:
            own = self.own_shape_vars.get(cast(Var, function), {})
        fresh: dict[PrimVar, PrimExpr] = {v: PrimVar(v.name, v.dtype, span=v.span) for v in own if v in self.shape_vars}
        return substitute_struct_info(info, fresh) if fresh else info

    # -- scopes

    def begin_scope(self, params: Iterable[Var] | None = None) -> None:
        """Enter a scope; parameters bring in the shape variables of their annotations."""
        scope = Scope(outside=self.facts)
        self.scopes.append(scope)
        for param in params or ():
            self.add_variable(param)
            self.add_shape_vars(bound_in(param.struct_info_ or ObjectStructInfo()))

    def end_scope(self) -> Scope:
        """Leave a scope. What it bound is no longer visible."""
        scope = self.scopes.pop()
        self.facts = scope.outside
        for var in scope.shape_vars:
            del self.shape_vars[var]
        return scope

    def add_variable(self, var: Var) -> None:
        if self.scopes:
            self.scopes[-1].variables.append(var)

    def add_shape_vars(self, variables: Iterable[PrimVar]) -> None:
        """Bring shape variables into the innermost scope."""
        for var in variables:
            if var not in self.shape_vars:
                self.shape_vars[var] = None
                if self.scopes:
                    self.scopes[-1].shape_vars.append(var)

    def define(self, values: Mapping[PrimVar, PrimExpr]) -> None:
        """Record what shape variables are that come into the innermost scope."""
        if self.scopes:
            definitions = self.scopes[-1].definitions
            for var, value in values.items():
                mine = {v: definitions[v] for v in free_vars(value) if v in definitions}
                definitions[var] = cast_scalar(var.dtype, simplify_dim(substitute(value, mine)))

    @contextmanager
    def detached(self) -> Generator[None]:
        """Context manager: leave all scopes, blocks and functions, as needed to derive another global function."""
        state = self.scopes, self.frames, self.function_scopes, self.shape_vars, self.facts
        self.scopes, self.frames, self.function_scopes, self.shape_vars = [], [], [], {}
        self.facts = None
        try:
            yield
        finally:
            self.scopes, self.frames, self.function_scopes, self.shape_vars, self.facts = state

    # -- facts

    def learn(self, *conditions: PrimExpr) -> None:
        """Assume conditions on shape variables from here to the end of the innermost scope."""
        self.facts = with_facts(self.facts, conditions)

    @contextmanager
    def given(self, cond: RelaxExpr, holds: bool) -> Generator[None]:
        """A context in which the condition of an If holds, or does not."""
        outside = self.facts
        self.learn(*condition_facts(cond.struct_info_, holds))
        try:
            yield
        finally:
            self.facts = outside

    def known_about(self, *infos: StructInfo) -> list[str]:
        """Return notes with the facts known about the shape variables of `infos`, for a diagnostic."""
        variables = {var for info in infos for var in used_in(info)}
        conditions = () if self.facts is None else self.facts.conditions
        texts = [prim_text(c) for c in conditions if not variables.isdisjoint(free_vars(c))]
        return [f"known here: {', '.join(texts)}"] if texts else []

    def knowing(self) -> AbstractContextManager[None]:
        """Context manager: the prover uses the facts of this scope."""
        return facts_in_scope(self.facts)

    def open_frame(self, is_dataflow: bool) -> None:
        """Begin a block."""
        self.frames.append(OpenBlock(is_dataflow))

    # -- purity

    @property
    def in_dataflow(self) -> bool:
        return bool(self.frames) and self.frames[-1].is_dataflow

    @property
    def must_be_pure(self) -> str:
        """Return why an impure call is not allowed here, "" if it is allowed."""
        function = self.function_scopes[-1] if self.function_scopes else None
        if function is not None and function.force_pure:
            return ""
        if self.in_dataflow:
            return "a dataflow block"
        return "a pure function" if function is not None and function.is_pure else ""

    @property
    def where(self) -> str:
        """Describe the current position: ``in main, inside a dataflow block``."""
        name = next((f.name for f in reversed(self.function_scopes) if f.name), "")
        phrases = [f"in {name}"] if name else []
        if self.in_dataflow:
            phrases.append("inside a dataflow block")
        return ", ".join(phrases)

    # -- complaints

    def error(
        self, code: str, message: str, span: Span | None, notes: Iterable[str] = (), hint: str = ""
    ) -> DiagnosticError:
        """An error at this place, to be raised."""
        return DiagnosticError(Diagnostic(code, message, span or self.span, self.where, tuple(notes), hint))

    def misfit(
        self, number: int, problem: str, reason: str, span: Span | None, notes: Iterable[str], hint: str
    ) -> None:
        """A possible misfit, left to be checked at run time: a warning, or in strict mode an error."""
        if not self.warn:
            return
        because = f": {reason}" if reason else ""
        if PassContext.current().config.get("relax.strict", False):
            raise self.error(f"E{number}", problem + because, span, notes, hint)
        message = f"{problem}, it is checked at run time{because}"
        emit_warning(Diagnostic(f"W{number}", message, span or self.span, self.where, tuple(notes), hint, "warning"))

    def awaits_placing(self, fit: Fit) -> bool:
        """True if a misfit is only that a device is not known, in a module in which RealizeVDevice finds that out."""
        return fit.level is Level.UNPLACED and bool(self.vdevices)

    def report(self, error: DiagnosticError) -> None:
        """Record a diagnostic."""
        self.diagnostics.extend(error.diagnostics)


def make_block(is_dataflow: bool, bindings: Iterable[Binding], original: BindingBlock | None) -> BindingBlock:
    """A block of either kind, in the place of another."""
    span = original.span if original is not None else None
    return DataflowBlock(tuple(bindings), span=span) if is_dataflow else BindingBlock(tuple(bindings), span=span)


def merge_blocks(blocks: Iterable[BindingBlock]) -> list[BindingBlock]:
    """Neighbours of one kind merged, empty blocks dropped; blocks that need neither stay the objects they are."""
    groups: list[list[BindingBlock]] = []
    for block in blocks:
        if not block.bindings:
            continue
        if groups and isinstance(groups[-1][0], DataflowBlock) is isinstance(block, DataflowBlock):
            groups[-1].append(block)
        else:
            groups.append([block])
    return [
        group[0]
        if len(group) == 1
        else make_block(isinstance(group[0], DataflowBlock), [b for block in group for b in block.bindings], group[0])
        for group in groups
    ]


def sizes_bound_again(function: Function) -> set[PrimVar]:
    """The shape variables that the parameters of a local function bind, and a match_cast somewhere too."""
    local: set[PrimVar] = set()
    cast: set[PrimVar] = set()

    def visit(item: Node) -> None:
        if isinstance(item, Function) and item is not function:
            local.update(bound_in(*(p.struct_info_ for p in item.params if p.struct_info_ is not None)))
        elif isinstance(item, MatchCast):
            cast.update(bound_in(item.struct_info))

    walk(function, visit)
    return local & cast


def set_global_struct_info(global_var: GlobalVar, info: StructInfo) -> None:
    """Write a global function's struct info to its GlobalVar, for display only; lookups ask the module."""
    object.__setattr__(global_var, "_struct_info", info)


def signature_of(function: BaseFunc) -> StructInfo | None:
    """The struct info a global function declares; None for a Relax function without a return annotation."""
    match function:
        case PrimFunc():
            return prim_func_struct_info(function)
        case Function():
            ret = function.ret_struct_info
            return None if ret is None else function.struct_info_ or function_struct_info(function, ret)
        case _:
            return function.struct_info_ or ObjectStructInfo()


_KERNEL_INFOS: Final[WeakKeyDictionary[PrimFunc, FuncStructInfo]] = WeakKeyDictionary()


def prim_func_struct_info(function: PrimFunc) -> FuncStructInfo:
    """Func([Tensor or Prim per parameter], Tuple([]), impure)."""
    cached = _KERNEL_INFOS.get(function)
    if cached is None:
        cached = _KERNEL_INFOS[function] = _kernel_struct_info(function)
    return cached


def _kernel_struct_info(function: PrimFunc) -> FuncStructInfo:
    params: list[StructInfo] = []
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is not None:
            params.append(TensorStructInfo(buffer.shape, buffer.dtype))
        elif param.dtype.is_handle:
            params.append(ObjectStructInfo())
        else:
            # An integer binds a shape variable: sizes of buffers may be said in it.
            params.append(PrimStructInfo(param.dtype, param if param.dtype.is_integer else None))
    return FuncStructInfo(params, TupleStructInfo(()), purity=False)


def function_struct_info(function: Function, ret: StructInfo) -> FuncStructInfo:
    """The struct info of a function with this result; shapes held by its parameters are not visible outside."""
    params = [param.struct_info_ or ObjectStructInfo() for param in function.params]
    erased = [erase(info, (), function.params) for info in params]
    return FuncStructInfo(erased, erase(ret, (), function.params), function.is_pure)


def with_result(function: Function, annotated: FuncStructInfo, in_scope: Collection[PrimVar]) -> Function:
    """A function with the result its variable is annotated with, said in its own shape variables.

    Calls of itself are derived by the annotation; so what it returns must be checked against that.
    """
    params = [param.struct_info_ or ObjectStructInfo() for param in function.params]
    if annotated.params is None or len(annotated.params) != len(params):
        return function
    table, free = match_own(annotated.params, params, in_scope)
    return function.replace(ret_struct_info=erase(substitute_struct_info(annotated.ret, table), free))
