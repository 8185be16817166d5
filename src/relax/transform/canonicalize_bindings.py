"""Remove trivial bindings: aliases, projections of known tuples, casts that are proved to hold.

Before   y = x                                   After   lv = R.add(x, x)
         lv = R.add(y, y)                                return lv
         t = (lv, x)
         a = t[0]
         b = R.match_cast(a, R.Tensor((n,), "float32"))      # lv is known to be that
         return b

* ``y = x``: uses of y become x, if x is known to be what y is, or more: struct info is then derived again. An
  output of a dataflow block that names a DataflowVar takes its place: ``lv = f(x); gv = lv`` becomes ``gv = f(x)``.
* ``t[i]`` of a known tuple is its field; ``(t[0], t[1])`` of all fields of t is t.
* A match_cast that must succeed is a name for its value. A shape variable it binds to a known dimension becomes
  that dimension, everywhere; a cast that checks anything, or binds what is not known, stays.
* A variable of a dataflow block that nobody reads after the block becomes a DataflowVar.

Constants are not moved: a constant is a fresh tensor, and who changes it in place changes one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from ..analysis.properties import NORMAL_FORM
from ..analysis.totality import is_nonnegative
from ..analysis.uses import Uses
from ..derive.substitution import Substitution
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..info.relations import Level, fit_all, is_base_of
from ..ir import DiagnosticError, GlobalVar, IRModule, Node, Op, RelaxExpr, StructInfo, structural_equal, walk
from ..op import operator_of
from ..op.intrinsic import DestinationPassing
from ..prim import PrimExpr
from ..prim import Var as ShapeVar
from ..prim.totality import is_surely_size
from ..rewrite import Rewriter, bindings_in, blocks_in
from ..rewrite.rebuild import with_info
from ..struct_info import PrimStructInfo, ShapeStructInfo, TupleStructInfo
from .decorators import function_pass
from .refine import refined


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks=())
def CanonicalizeBindings(func: Function, mod: IRModule) -> Function:
    """Remove trivial bindings; see the module's docstring. Struct info stays as precise as it was."""
    while True:
        result = localize_outputs(_canonical(func, mod))
        if result is func:
            return func
        func = result


_NAMES: Final = frozenset((Var, DataflowVar, GlobalVar, Tuple, TupleGetItem))
"""Classes of values for which a binding is only an alias."""


def _may_say_nothing(binding: Binding) -> bool:
    return not isinstance(binding, VarBinding) or type(binding.value) in _NAMES


def _canonical(func: Function, mod: IRModule) -> Function:
    if func.struct_info_ is not None and not any(map(_may_say_nothing, bindings_in(func))):
        return func
    canonicalizer = _Canonicalizer(mod)
    try:
        result = canonicalizer.rewrite_function(func)
        return refined(result, mod) if canonicalizer.learned else result
    except DiagnosticError:
        # What is proved wrong only now is an error where it runs, if it runs: weaker descriptions stay.
        return _Canonicalizer(mod, learns=False).rewrite_function(func)


class _Canonicalizer(Rewriter):
    """One forward walk: `known` holds what variables are bound to, `variables` what they are replaced by."""

    def __init__(self, mod: IRModule, learns: bool = True) -> None:
        super().__init__(mod)
        self.learns = learns
        """True if variables are replaced by values with more precise struct info, and shape variables by dimensions."""
        self.known: dict[Var, RelaxExpr] = {}
        self.claimed: set[Var] = set()
        """Variables whose struct info a packed function promised: a cast of one is a check."""
        self.promoted: dict[Var, Var] = {}
        """DataflowVars replaced by the output variable that aliases them."""
        self.local: set[Var] = set()
        """The DataflowVars of the block being walked."""
        self.learned = False
        """True if a variable was replaced by a value with more precise struct info."""

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.local
        if isinstance(block, DataflowBlock):
            self.local = {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}
            self.promoted.update(promoted_outputs(block, self.local))
        new = super().block(block)
        self.local = outer
        return new

    def define(self, var: Var) -> Var:
        """Return the variable to bind: the output that aliases it, if any."""
        target = self.promoted.get(var, var)
        new = super().define(target)
        if target is not var:
            self.variables[target] = new
            self.local.add(new)
        return new

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        """Emit the binding in canonical form unless it is trivial."""
        value = self.simplify(value)
        if self.is_name_for(binding.var, value):
            self.variables[binding.var] = value
            return binding.var
        var = super().bind(binding, value, var)
        self.known[var] = value
        if is_claim(value, self.claimed):
            self.claimed.add(var)
        return var

    # -- values

    def simplify(self, value: RelaxExpr) -> RelaxExpr:
        """A projection of a known tuple is its field, a tuple of all projections the tuple they come from."""
        match value:
            case TupleGetItem(Tuple(fields), index) if index < len(fields):
                return fields[index]
            case TupleGetItem(Var() as source, index):
                definition = self.known.get(source)
                # A branch that is never taken may ask a value of unknown type for a field that it does not have.
                fields = definition.fields if isinstance(definition, Tuple) else ()
                if index < len(fields) and self.is_visible(fields[index]):
                    return fields[index]
            case Tuple(fields) if fields:
                return self.whole_tuple(fields) or value
            case _:
                pass
        return value

    def is_visible(self, value: RelaxExpr) -> bool:
        """True if a name can be used here; a DataflowVar only inside its block."""
        if isinstance(value, DataflowVar):
            return value in self.local
        return isinstance(value, (Var, GlobalVar))

    def whole_tuple(self, fields: tuple[RelaxExpr, ...]) -> Var | None:
        """The tuple of which these are all the fields, in order."""
        source: Var | None = None
        for i, field in enumerate(fields):
            definition = self.known.get(field) if isinstance(field, Var) else None
            if not isinstance(definition, TupleGetItem) or definition.index != i:
                return None
            if not isinstance(definition.tuple_value, Var) or source not in (None, definition.tuple_value):
                return None
            source = definition.tuple_value
        info = source.struct_info_ if source is not None else None
        whole = isinstance(info, TupleStructInfo) and len(info.fields) == len(fields)
        return source if whole and source is not None and self.is_visible(source) else None

    def is_name_for(self, var: Var, value: RelaxExpr) -> bool:
        """True if ``var = value`` only gives a variable (or a global function) a second name."""
        if not isinstance(value, (Var, GlobalVar)):
            return False
        if value is self.variables.get(var, var):
            return True  # the output has taken the place of what it names
        if isinstance(value, DataflowVar) and not isinstance(var, DataflowVar):
            return False
        declared = None if var.struct_info_ is None else self.info(var.struct_info_)
        info = value.struct_info_
        if same_info(declared, info):
            return True
        better = self.learns and declared is not None and info is not None and is_base_of(declared, info)
        self.learned = self.learned or better
        return better

    # -- match_cast

    def match_cast(self, binding: MatchCast) -> None:
        value = self.rewrite(binding.value)
        table = self.certain(value, self.info(binding.struct_info))
        if table is None or (table and not self.learns):
            super().match_cast(binding)
            return
        self.shape_vars.update(table)
        if self.is_name_for(binding.var, value):
            self.variables[binding.var] = value
            return
        super().bind(VarBinding(binding.var, binding.value, span=binding.span), value)

    def certain(self, value: RelaxExpr, target: StructInfo) -> dict[ShapeVar, PrimExpr] | None:
        """The values of the shape variables that a cast binds; None if the cast may fail."""
        info = value.struct_info_
        if info is None or value in self.claimed:
            return None
        fits, table, unknown = fit_all([info], [target], self.builder.shape_vars)
        if unknown or fits[0].level is not Level.SAME:
            return None
        return table if keeps_sizes(target, table) else None


def keeps_sizes(info: StructInfo, table: dict[ShapeVar, PrimExpr]) -> bool:
    """True if what takes the place of the variables that scalars and shapes bind is as surely a size as they are.

    A scalar that binds a variable which is a dimension elsewhere is checked to be one. Of the dimensions of a
    shape it is known, but the expressions (``n - m``) do not say so.
    """
    match info:
        case PrimStructInfo(_, ShapeVar() as var) if var in table and var.nonnegative:
            return is_surely_size(table[var])
        case ShapeStructInfo(values):
            return all(is_nonnegative(table[v]) for v in values or () if isinstance(v, ShapeVar) and v in table)
        case TupleStructInfo(fields):
            return all(keeps_sizes(field, table) for field in fields)
        case _:
            return True


def is_claim(value: RelaxExpr, claimed: Collection[RelaxExpr]) -> bool:
    """True if a value's struct info is what a packed function or a closure promised, and nothing has checked."""
    match value:
        case Call(Op(), _, _, sinfo_args):
            operator = operator_of(value)
            return bool(sinfo_args) and not (isinstance(operator, DestinationPassing) and operator.allocates)
        case Call(callee):
            return not isinstance(callee, GlobalVar)
        case TupleGetItem(source):
            return source in claimed
        case Tuple(fields):
            return any(field in claimed for field in fields)
        case _:
            return value in claimed


def same_info(a: StructInfo | None, b: StructInfo | None) -> bool:
    """True if the struct infos of two values are provably equal."""
    return a is b or (a is not None and b is not None and structural_equal(a, b))


def promoted_outputs(block: DataflowBlock, local: Collection[Var]) -> dict[Var, Var]:
    """DataflowVars of a block with the output that takes their place: in ``lv = f(x); gv = lv``, gv does."""
    outputs: dict[Var, Var] = {}
    for binding in block.bindings:
        match binding:
            case VarBinding(var, DataflowVar() as source) if not isinstance(var, DataflowVar):
                if source in local and source not in outputs and same_info(var.struct_info_, source.struct_info_):
                    outputs[source] = var
            case _:
                pass
    return outputs


# ------------------------------------------------------------------------------------ outputs


def localize_outputs(func: Function) -> Function:
    """Make DataflowVars of the variables of dataflow blocks that are used inside their block only."""
    outputs = dataflow_outputs(func)
    if not outputs:
        return func
    used = Uses()

    def visit(item: Node) -> bool:
        if isinstance(item, DataflowBlock):
            used.variables.update((var, None) for var in used_beyond(item))
            return False
        if isinstance(item, Binding):
            used.add_definition(item.var)
        if isinstance(item, Var):
            used.variables[item] = None
        elif isinstance(item, RelaxExpr) and item.struct_info_ is not None:
            used.add_info(item.struct_info_)
        return True

    walk(func, visit)
    local = [var for var in outputs if var not in used.variables]
    return _as_dataflow(func, local) if local else func


def dataflow_outputs(func: Function) -> list[Var]:
    """The variables that dataflow blocks bind and show outside; blocks in functions inside a block do not count."""
    outputs: list[Var] = []
    if not any(isinstance(block, DataflowBlock) for block in blocks_in(func)):
        return outputs

    def visit(item: Node) -> bool:
        if isinstance(item, DataflowBlock):
            outputs.extend(b.var for b in item.bindings if not isinstance(b.var, DataflowVar))
            return False
        if isinstance(item, VarBinding):
            return isinstance(item.value, (Function, SeqExpr, If))
        return isinstance(item, (Function, SeqExpr, BindingBlock, If))

    walk(func, visit)
    return outputs


def used_beyond(block: DataflowBlock) -> set[Var]:
    """Return the variables a block uses from outside, and its own variables that must stay visible."""
    uses, visible = Uses(), Uses()
    for binding in block.bindings:
        uses.add(binding)
        if not isinstance(binding.var, DataflowVar):
            visible.add_definition(binding.var)
        if isinstance(binding, VarBinding) and isinstance(binding.value, Function):
            visible.add(binding.value)  # a closure may outlive the block, and may capture no DataflowVar
    return (uses.variables.keys() - {b.var for b in block.bindings}) | visible.variables.keys()


def _as_dataflow(func: Function, variables: list[Var]) -> Function:
    replacements = {var: DataflowVar(var.name_hint, var.annotation, span=var.span) for var in variables}
    renamed: dict[Var, RelaxExpr] = {
        var: new if new.struct_info_ is not None else with_info(new, var.struct_info)
        for var, new in replacements.items()
    }
    return cast(Function, _Renaming(renamed, {}).node(func))


class _Renaming(Substitution):
    """A substitution that renames variables where they are bound, too."""

    def define(self, var: Var) -> Var:
        replacement = self.variables.get(var)
        return replacement if isinstance(replacement, Var) else super().define(var)
