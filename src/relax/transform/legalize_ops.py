"""Replace operators by a call_tir of a PrimFunc made from the operator's formula.

Before   lv = R.exp(x)                     After   lv = R.call_tir(cls.exp, (x,), R.Tensor((n, 4), "float32"))

                                                   @T.prim_func(private=True)
                                                   def exp(x: T.Buffer(("n", 4)), compute: …): …

* An operator implemented by a packed function (its result has a size only the data tells) becomes a pure call of it.
* `customize_legalize_map` gives, by operator name, a function ``(builder, call) -> expression`` to use instead. A call
  that it returns as it is stays, for a later pass.
* Structurally equal PrimFuncs are one function: they are compared, not only hashed.
* A dimension that is not known is named by a match_cast first, and the kernel is generic over it.
* An operator of which too little is known (a rank, a dtype, a size that must be static) becomes a call that chooses a
  kernel at run time (`runtime_dispatch`).
* Intrinsics (call_tir, closures, print …) stay: later passes lower them.

Branches of an If and local functions are legalized too. All operators that cannot be legalized, in all functions, are
reported together (E4001).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..analysis.properties import LEGALIZED, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..block_builder import BlockBuilder
from ..derive.substitution import substitute
from ..expr import Binding, Call, Constant, PrimValue, ShapeExpr, Tuple, Var
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticError, IRModule, Node, Op, RelaxExpr, matching_free_vars, structural_hash
from ..op import is_call_of, operator_of
from ..op.intrinsic import Intrinsic
from ..op.intrinsics import CallTIR
from ..prim import Analyzer
from ..prim import Var as PrimVar
from ..rewrite import Rewriter
from ..rewrite.rebuild import carry_info
from ..struct_info import TensorStructInfo
from .decorators import module_pass
from .runtime_dispatch import dispatched

Legalize = Callable[[BlockBuilder, Call], RelaxExpr]


@module_pass(needs={NORMAL_FORM}, gives={LEGALIZED}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def LegalizeOps(
    mod: IRModule, customize_legalize_map: Mapping[str, Legalize] | None = None, enable_warning: bool = False
) -> IRModule:
    """Legalize every operator of a module; see the module's docstring.

    `enable_warning` is TVM's, and says nothing here: an operator that cannot be legalized is an error (E4001).
    """
    legalizer = Legalizer(mod, customize_legalize_map or {})
    result = legalizer.module()
    legalizer.finish()
    return result


class Legalizer(Rewriter):
    """Replaces each operator's call."""

    def __init__(self, mod: IRModule, custom: Mapping[str, Legalize]) -> None:
        super().__init__(mod)
        self.custom = custom
        self.unsolved: list[tuple[Call, str, str]] = []
        """Calls that stay, each with the reason and the place."""
        self.known: dict[int, _Template] = {}
        """Kernels of calls, by hash of their keys: models repeat themselves."""

    def call(self, call: Call) -> RelaxExpr:
        normal = self.parts(call)
        if not isinstance(normal.op, Op):
            return normal
        legalize = self.custom.get(normal.op.name) or self.rule(normal, normal.op)
        if legalize is None:
            return normal
        key = None if normal.op.name in self.custom else _like(normal)
        if key is not None:
            cached = self.known.get(structural_hash(key, map_free_vars=True))
            again = cached and cached.call_for(normal, key, self.builder.facts)
            if again is not None:
                return again
        try:
            result = self.apply(legalize, normal)
        except DiagnosticError as error:
            self.fail(normal, "; ".join(d.message for d in error.diagnostics))
            return normal
        if result is normal and normal.op.name not in self.custom:
            result = self.dispatched(normal)
            if result is normal:
                self.fail(normal, self.reason(normal))
        if result is normal:
            return normal
        result = self.rewrite(result if result.span is not None else _placed(result, normal))
        if key is not None and isinstance(result, Call):
            template = _Template.of(key, normal, result, self.builder.facts)
            if template is not None:
                self.known[structural_hash(key, map_free_vars=True)] = template
        return result

    def apply(self, legalize: Legalize, call: Call) -> RelaxExpr:
        """The result of a rule; calls of operators that the rule emitted are legalized too."""
        frame = self.builder.frames[-1]
        bindings, start = frame.bindings, len(frame.bindings)
        result = legalize(self.builder, call)
        emitted = bindings[start:]
        if frame.bindings is bindings:
            del bindings[start:]
            self.emitted(emitted)
        return result

    def emitted(self, bindings: Sequence[Binding]) -> None:
        """Legalize bindings that a rule emitted."""
        for binding in bindings:
            self.binding(binding)

    def dispatched(self, call: Call) -> RelaxExpr:
        """Return a call that chooses a kernel at run time; the call itself if that would not help."""
        operator = operator_of(call)
        if operator is None or not operator.has_lowering():
            return call
        return dispatched(call, operator.short_name, self.builder) or call

    def rule(self, call: Call, op: Op) -> Legalize | None:
        """Return the operator's legalisation rule, or None for an intrinsic."""
        operator = operator_of(call)
        if isinstance(operator, Intrinsic):
            return None
        return op.get_attr("FLegalize") or (lambda _, unchanged: unchanged)

    def fail(self, call: Call, reason: str) -> None:
        self.unsolved.append((call, reason, self.builder.where))

    def reason(self, call: Call) -> str:
        """Explain why an operator could not be legalized."""
        operator = operator_of(call)
        if operator is None or (operator.compute is None and operator.packed is None):
            return "it has no formula, no packed function, and no entry in customize_legalize_map"
        infos = ", ".join(struct_info_text(arg.struct_info_) for arg in call.args)
        return f"too little is known of its operands: {infos}"

    def finish(self) -> None:
        """Report the operators that are left, all of them."""
        if not self.unsolved:
            return
        notes = Counter(
            f"{cast(Op, call.op).name}: {reason}{_location_note(call, where)}" for call, reason, where in self.unsolved
        )
        names = sorted({cast(Op, call.op).name for call, _, _ in self.unsolved})
        first = next((call.span for call, _, _ in self.unsolved if call.span is not None), None)
        raise DiagnosticError(
            Diagnostic(
                "E4001",
                f"LegalizeOps: cannot legalize {', '.join(names)}",
                first,
                notes=tuple(note if n == 1 else f"{note} ({n} times)" for note, n in notes.items()),
                hint="match_cast operands to what is known of them, or give a rule in customize_legalize_map",
            )
        )


def _like(call: Call) -> Any:
    """The key of a call's kernel: operator, attributes, shapes, scalars and dtypes. None if it depends on more."""
    leaves = _leaves(call)
    tensors = [leaf for leaf in leaves if isinstance(leaf, (Var, Constant))]
    if len(set(tensors)) < len(tensors) or not all(map(_is_told_by_info, leaves)):
        return None
    return (call.op, call.attrs, tuple(arg.struct_info_ for arg in call.args))


def _leaves(call: Call) -> list[RelaxExpr]:
    """The arguments of a call, the fields of tuples in their place."""
    fields = [arg.fields if isinstance(arg, Tuple) else (arg,) for arg in call.args]
    return [leaf for group in fields for leaf in group]


def _is_told_by_info(leaf: RelaxExpr) -> bool:
    """True if a kernel for an argument depends on its struct info only: on that of a tensor, on known scalars."""
    match leaf, leaf.struct_info_:
        case Var() | Constant(), TensorStructInfo() as info:
            return info.dims is not None
        case ((ShapeExpr() | PrimValue()), info):
            return info is not None
        case _:
            return False


class _Template(NamedTuple):
    """A call_tir that an operator became, with struct info, and the positions of its arguments among the operator's."""

    key: Any
    call: Call
    positions: tuple[int, ...]
    facts: Analyzer | None
    """The facts known of shape variables. A kernel made without facts serves everywhere, others only under theirs."""

    @staticmethod
    def of(key: Any, call: Call, result: Call, facts: Analyzer | None) -> _Template | None:
        """Return None unless the legalised body is a single call_tir of some of the arguments."""
        if not is_call_of(result, CallTIR):
            return None
        args = result.args[1]
        positions: dict[RelaxExpr, int] = {}
        for position, leaf in enumerate(_leaves(call)):
            positions.setdefault(leaf, position)
        if not isinstance(args, Tuple) or not all(arg in positions for arg in args.fields):
            return None
        return _Template(key, result, tuple(positions[arg] for arg in args.fields), facts)

    def call_for(self, call: Call, key: Any, facts: Analyzer | None) -> Call | None:
        """Instantiate the template for other arguments and their shape variables, or return None if it does not fit."""
        if self.facts is not None and self.facts is not facts:
            return None
        variables = matching_free_vars(self.key, key)
        if variables is None or any(_is_size(old) is not _is_size(new) for old, new in variables.items()):
            return None
        callee, _, *rest = self.call.args
        leaves = _leaves(call)
        args = (callee, Tuple([leaves[i] for i in self.positions]), *rest)
        # Of operands with the same struct info, but for the names of variables, the same is derived.
        instance = carry_info(
            self.call, Call(self.call.op, args, self.call.attrs, self.call.sinfo_args, span=call.span)
        )
        renamed = {old: new for old, new in variables.items() if old is not new}
        return substitute(instance, renamed) if renamed else instance


def _is_size(variable: Node) -> bool:
    """True for a variable that a kernel may take for a size, which is passed to it otherwise than any other number."""
    return isinstance(variable, PrimVar) and variable.nonnegative


def _location_note(call: Call, where: str) -> str:
    span = "" if call.span is None else f", at {call.span}"
    return f" ({where}{span})" if where else span


def _placed(result: RelaxExpr, call: Call) -> RelaxExpr:
    """The result of legalisation, with the span of the call."""
    return result.replace(span=call.span) if call.span is not None and isinstance(result, Call) else result
