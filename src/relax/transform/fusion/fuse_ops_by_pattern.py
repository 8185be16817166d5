"""Group pattern matches: each match becomes a call of a new function, for a library or for FuseTIR.

    x, w = wildcard(), wildcard()
    conv_relu = is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(x, w))
    mod = FuseOpsByPattern([("dnnl.conv2d_relu", conv_relu)])(mod)

Before   with R.dataflow():                      After   with R.dataflow():
             lv = R.nn.conv2d(x, w)                          gv = cls.fused_relax_nn_conv2d_relax_nn_relu(x, w)
             gv = R.nn.relu(lv)                              R.output(gv)
             R.output(gv)
                                                 @R.function(private=True)
                                                 def fused_relax_nn_conv2d_relax_nn_relu(x, w):
                                                     R.func_attr({"Composite": "dnnl.conv2d_relu", "Primitive": 1})
                                                     with R.dataflow(): … as before

Patterns are tried in their order, each on the bindings of a block from the last to the first. The calls, tuples and
fields of tuples that parts of the pattern matched are the group; everything else it matched is given to the function.
Constants stay inside with `bind_constants`, else they become parameters.

A match is left alone if one of its bindings belongs to another group already, if a result other than the last is used
outside of it, if `check` says no, and in a block in which a tensor may be changed.

`annotate_codegen` wraps each function in another one, an entry point with the attribute "Codegen": the part of the
composite's name before the first dot. `entry_functions` are the functions to look at; by default, all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias, cast

from ...analysis.effects import may_change
from ...analysis.properties import NO_LITERALS, NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ...analysis.variables import all_global_vars, free_vars
from ...derive.substitution import copy_with_new_vars
from ...dpl import CallPattern, DFPattern, TupleGetItemPattern, TuplePattern, UnorderedTuplePattern
from ...dpl.context import BlockFacts
from ...expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ...ir import GlobalVar, IRModule, Op, RelaxExpr
from ...rewrite import Rewriter
from ...runtime.records import dataclass
from ..decorators import module_pass
from ..remove_unused_functions import entry_names
from .fuse_ops import LONGEST_NAME
from .outline import can_be_passed, outlined, sizes_in
from .outline_groups import PRIMITIVE

COMPOSITE: Final = "Composite"
"""Function attribute: name of the pattern that matched."""
CODEGEN: Final = "Codegen"
"""Function attribute: name of the external code generator."""


@dataclass(frozen=True)
class PatternCheckContext:
    """Facts about a match, for the `check` of a pattern."""

    matched_expr: RelaxExpr
    """The expression that the whole pattern matched."""
    annotated_expr: Mapping[str, RelaxExpr]
    """The expressions that the pattern's `annotation_patterns` matched."""
    matched_bindings: Mapping[Var, RelaxExpr]
    """The bindings of the group, in order."""
    var_usages: Mapping[Var, Sequence[Var]]
    """For each variable of the block, the variables whose values use it."""
    value_to_bound_var: Mapping[RelaxExpr, Var]
    """For each value of the block, the variable bound to it."""


@dataclass(frozen=True)
class FusionPattern:
    """A pattern for FuseOpsByPattern.

    Parameters
    ----------
    name
        The name of the composite: ``"library.operator"``.
    annotation_patterns
        Parts of the pattern, by names under which `check` and `attrs_getter` find what they matched.
    check
        Decides if a match becomes a group; by default, each does.
    attrs_getter
        Further attributes of the function, from what the annotated parts matched.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict[str, DFPattern])
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[Mapping[str, RelaxExpr]], Mapping[str, Any]] | None = None


PatternLike: TypeAlias = FusionPattern | tuple[Any, ...]
"""A FusionPattern, or the arguments of one: (name, pattern), (name, pattern, annotations, check), …"""


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED, NO_LITERALS})
def FuseOpsByPattern(
    mod: IRModule,
    patterns: Sequence[PatternLike],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Sequence[str] | None = None,
) -> IRModule:
    """Turn pattern matches into functions; see the module's docstring.

    Raises DiagnosticError (E4005) when a name in `entry_functions` is not a function of the module.
    """
    chosen = [p if isinstance(p, FusionPattern) else FusionPattern(*p) for p in patterns]
    names = None if entry_functions is None else entry_names(mod, entry_functions, "FuseOpsByPattern")
    fused = _PatternFuser(mod, chosen, bind_constants, names).module()
    return _CodegenAnnotator(fused).module() if annotate_codegen else fused


def is_grouped(function: Function) -> bool:
    """True for a function that a grouping pass made."""
    return any(function.attrs.get(key) for key in (PRIMITIVE, COMPOSITE, CODEGEN))


@dataclass(frozen=True)
class _Group:
    members: list[VarBinding]
    attrs: dict[str, Any]


class _PatternFuser(Rewriter):
    """Puts a call in the place of each match."""

    def __init__(
        self, mod: IRModule, patterns: Sequence[FusionPattern], bind_constants: bool, names: set[str] | None
    ) -> None:
        super().__init__(mod)
        self.patterns = patterns
        self.bind_constants = bind_constants
        self.names = names
        self.groups: dict[Var, _Group] = {}
        """The groups of the blocks around, by the variable of the last member."""
        self.inner: set[Var] = set()
        """The variables of the other members."""

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        if is_grouped(function) or (self.names is not None and name not in self.names):
            return function
        return super().rewrite_function(function, name)

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock):
            for group in groups_by_pattern(block, self.patterns, self.mod):
                self.groups[group.members[-1].var] = group
                self.inner.update(binding.var for binding in group.members[:-1])
        return super().block(block)

    def var_binding(self, binding: VarBinding) -> None:
        if binding.var in self.inner:
            return
        group = self.groups.get(binding.var)
        if group is None:
            super().var_binding(binding)
            return
        outline = outlined(group.members, group.attrs, lift_constants=not self.bind_constants)
        callee = self.builder.add_func(outline.function, group_name(group.members))
        call = outline.call(callee, [self.rewrite(argument) for argument in outline.arguments])
        self.bind(binding, self.builder.normalize(call.replace(span=binding.value.span)))


def group_name(group: Iterable[VarBinding]) -> str:
    """Return "fused_" followed by the names of operators and kernels, cut to a maximum length."""
    name = "fused"
    for binding in group:
        match binding.value:
            case Call(Op(operator), (GlobalVar(kernel), *_)) if len(name) < LONGEST_NAME:
                name += "_" + (kernel if operator.startswith("relax.call_tir") else operator.replace(".", "_"))
            case Call(Op(called), _) | Call(GlobalVar(called), _) if len(name) < LONGEST_NAME:
                name += f"_{called.replace('.', '_')}"
            case _:
                pass
    return name


# ---------------------------------------------------------------------------------------- finding groups


def groups_by_pattern(block: DataflowBlock, patterns: Sequence[FusionPattern], mod: IRModule) -> list[_Group]:
    """The groups of a block, disjoint, each in order."""
    if any(isinstance(b.value, Call) and may_change(b.value, mod) for b in block.bindings):
        return []
    matcher = _GroupMatcher(block)
    return [
        group
        for pattern in patterns
        for binding in reversed(block.bindings)
        if isinstance(binding, VarBinding) and (group := matcher.group(pattern, binding)) is not None
    ]


class _GroupMatcher:
    def __init__(self, block: DataflowBlock) -> None:
        self.facts = BlockFacts(block)
        self.bindings = {b.var: b for b in block.bindings if isinstance(b, VarBinding)}
        self.usages = {var: tuple(users) for var, users in self.facts.users.items()}
        self.bound_vars = {binding.value: binding.var for binding in block.bindings}
        self.grouped: set[Var] = set()

    def group(self, pattern: FusionPattern, root: VarBinding) -> _Group | None:
        """The group that ends with a binding, if a pattern matches its value and nothing forbids the group."""
        if root.var in self.grouped or isinstance(root.value, Var):
            return None
        matched = pattern.pattern.extract_matched_expr(root.value, self.facts.values)
        if matched is None:
            return None
        members = {root.var}
        for subpattern, expr in matched.items():
            if isinstance(subpattern, _GROUPED) and isinstance(holder := self.facts.match.holder(expr), Var):
                members.add(holder)
        if not self.may_group(members, root.var):
            return None
        group = [binding for var, binding in self.bindings.items() if var in members]
        annotated = {n: matched[p] for n, p in pattern.annotation_patterns.items() if p in matched}
        if pattern.check is not None and not pattern.check(self.context(root, annotated, group)):
            return None
        attrs: dict[str, Any] = {COMPOSITE: pattern.name, PRIMITIVE: 1}
        if pattern.attrs_getter is not None:
            attrs |= pattern.attrs_getter(annotated)
        self.grouped |= members
        return _Group(group, attrs)

    def may_group(self, members: set[Var], root: Var) -> bool:
        """True if bindings are free, can be put into a function, and only the last one's result is used outside."""
        bindings = [self.bindings.get(var) for var in members]
        if members & self.grouped or not all(b is not None and _is_movable(b) for b in bindings):
            return False
        for var in members:
            leaves = var in self.facts.leaving or not isinstance(var, DataflowVar)
            if var is not root and (leaves or not set(self.usages.get(var, ())) <= members):
                return False
        # Another name of a member stays outside.
        read = {v for b in bindings if b is not None for v in free_vars(b.value)}
        aliases = (v for v in read - members if self.facts.match.holder(v) in members)
        return next(aliases, None) is None and can_be_passed(sizes_in([b for b in bindings if b is not None]))

    def context(
        self, root: VarBinding, annotated: Mapping[str, RelaxExpr], group: Sequence[VarBinding]
    ) -> PatternCheckContext:
        bindings: dict[Var, RelaxExpr] = {b.var: b.value for b in group}
        return PatternCheckContext(root.value, annotated, bindings, self.usages, self.bound_vars)


_GROUPED = (CallPattern, TuplePattern, UnorderedTuplePattern, TupleGetItemPattern)
"""The patterns of values that a group computes."""


def _is_movable(binding: VarBinding) -> bool:
    match binding.value:
        case Call(Op() | GlobalVar()) | Tuple() | TupleGetItem():
            return True
        case _:
            return False


# ------------------------------------------------------------------------------------ annotating codegen


class _CodegenAnnotator(Rewriter):
    """Wraps each composite function in one that names the generator it is for."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.wrapped: dict[GlobalVar, GlobalVar] = {}

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        return function if is_grouped(function) else super().rewrite_function(function, name)

    def module(self) -> IRModule:
        return without_uncalled(super().module(), {g.name_hint for g in self.wrapped})

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        function = self.mod.get(call.op) if isinstance(call.op, GlobalVar) else None
        if not isinstance(function, Function) or COMPOSITE not in function.attrs:
            return call
        callee = cast(GlobalVar, call.op)
        if callee not in self.wrapped:
            name = f"{callee.name_hint}_{codegen_of(function)}"
            self.wrapped[callee] = self.builder.add_func(_wrapper(function, name), name)
        return Call(self.wrapped[callee], call.args, span=call.span)


def without_uncalled(mod: IRModule, names: set[str]) -> IRModule:
    """A module without those private functions among the named ones that no function refers to."""
    used = {g.name_hint for f in mod.functions.values() for g in all_global_vars(f)}
    gone = {n for n in names - used if "global_symbol" not in mod[n].attrs}
    return mod.with_functions({g: f for g, f in mod.functions.items() if g.name_hint not in gone})


def codegen_of(function: Function) -> str:
    """The generator that a composite function is for."""
    return str(function.attrs[COMPOSITE]).partition(".")[0]


def _wrapper(function: Function, name: str) -> Function:
    """A function that calls a composite one, which is local to it."""
    outer, inner = copy_with_new_vars(function), copy_with_new_vars(function)
    local = Var("local", inner.struct_info)
    result = Var("output", outer.ret_struct_info)
    block = BindingBlock((VarBinding(local, inner), VarBinding(result, Call(local, outer.params))))
    attrs = {CODEGEN: codegen_of(function), "global_symbol": name}
    return Function(outer.params, SeqExpr((block,), result), outer.ret_struct_info, True, attrs)
