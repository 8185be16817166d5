"""Effects of a call on its arguments: which it reads, writes and retains, and which its result may alias.

The facts are declared by the operators' classes (`Operator.effects`) and by the machine's builtins
(`relax.runtime.builtin_table`). A PrimFunc is asked for the parameters it writes. Of any other function nothing is
known.
"""

from __future__ import annotations

from collections.abc import Callable

from ..derive.rules import is_pure_call
from ..expr import Call, ExternFunc, Function, SeqExpr, Tuple, TupleGetItem, Var
from ..ir import GlobalVar, IRModule, Node, Op, RelaxExpr, StructInfo, walk
from ..op.base import operator_of
from ..runtime.builtin_table import BUILTINS, UNKNOWN, Arguments, Effects, selects
from ..runtime.records import dataclass
from ..tir import PrimFunc, written_params

Exprs = tuple[RelaxExpr, ...]


@dataclass(frozen=True)
class CallEffects:
    """Arguments of a call, grouped by what the call does with them; includes the function value that is called."""

    reads: Exprs
    writes: Exprs
    keeps: Exprs
    """Arguments that escape through the call."""
    aliases: Exprs
    """Arguments that the result may alias or contain."""
    pure: bool
    """True if the call has no visible effect. (It may still change an argument that is not used any more.)"""

    @property
    def may_change(self) -> bool:
        """True if the call may write a tensor."""
        return bool(self.writes) or not self.pure


def effects_of(call: Call, mod: IRModule | None = None) -> CallEffects:
    """The effects of a call. With a module, a call of one of its PrimFuncs writes what the PrimFunc writes."""
    effects, args, pure = _declared(call, mod)
    reads, writes, keeps, aliases = (
        _selected(args, positions) for positions in (effects.reads, effects.writes, effects.keeps, effects.aliases)
    )
    reused = reused_arguments(call)
    operator = operator_of(call)
    if operator is not None and operator.view:
        aliases = call.args[:1]
    return CallEffects(reads, (*writes, *reused), keeps, (*aliases, *reused), pure)


def returned_arguments(call: Call) -> Exprs:
    """Arguments that the result is, or contains, by the definition of the language.

    Unlike `effects_of`, it leaves out views, which are the compiler's choice, and arguments reused in place, which
    are not used again.
    """
    effects, args, _ = _declared(call, None)
    return tuple(arg for i, arg in enumerate(args) if selects(effects.aliases, i) and not selects(effects.keeps, i))


def reused_arguments(call: Call) -> Exprs:
    """Arguments that a call changes in place and returns; all, as one tuple, where it is not known which they are."""
    operator = operator_of(call)
    if operator is None:
        return ()
    args, indices = operator.reused(call)
    if indices and not isinstance(args, Tuple):
        return (args,)
    return tuple(args.fields[index] for index in indices) if isinstance(args, Tuple) else ()


def any_call(func: Function, holds: Callable[[CallEffects], bool]) -> bool:
    """True if `holds` holds for the effects of a call in a function or its local functions."""
    calls: list[Call] = []

    def visit(item: Node) -> bool:
        if isinstance(item, Call) and holds(effects_of(item)):
            calls.append(item)
        return not calls and not isinstance(item, (Var, StructInfo))

    walk(func, visit)
    return bool(calls)


def may_change(call: Call, mod: IRModule | None = None) -> bool:
    """True if a call may change a tensor. A Relax function of the module is asked for the calls it makes itself."""
    if not effects_of(call, mod).may_change:
        return False
    callee = mod.get(call.op) if mod is not None and isinstance(call.op, GlobalVar) else None
    return not isinstance(callee, Function) or any_call(callee, lambda effects: effects.may_change)


def only_reads(call: Call, mod: IRModule) -> bool:
    """True if the callee is a Relax function of the module that neither writes, retains nor returns its arguments."""
    callee = mod.get(call.op) if isinstance(call.op, GlobalVar) else None
    return (
        isinstance(callee, Function)
        and not any_call(callee, lambda effects: effects.may_change or bool(effects.keeps))
        and _result_is_new(callee)
    )


def _result_is_new(func: Function) -> bool:
    """True if a function returns only fresh results of its own calls."""
    if not isinstance(func.body, SeqExpr):
        return False
    values = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    waiting: list[RelaxExpr | None] = [func.body.body]
    done: set[RelaxExpr] = set()
    while waiting:
        match waiting.pop():
            case Tuple(fields):
                waiting += fields
            case TupleGetItem(source):
                waiting.append(source)
            case Var() as var:
                if var not in done:
                    done.add(var)
                    waiting.append(values.get(var))
            case Call() as call if not effects_of(call).aliases:
                pass
            case _:
                return False
    return True


def _declared(call: Call, mod: IRModule | None) -> tuple[Effects, Exprs, bool]:
    """The declared effects, the arguments they count, and purity."""
    match call.op:
        case Op():
            operator = operator_of(call)
            effects = UNKNOWN if operator is None else operator.call_effects(call)
            return effects, call.args, is_pure_call(call)
        case ExternFunc(name) if name in BUILTINS:
            return BUILTINS[name].effects, call.args, BUILTINS[name].pure
        case GlobalVar() as callee if mod is not None and isinstance(func := mod.get(callee), PrimFunc):
            return Effects(writes=tuple(sorted(written_params(func)))), call.args, False
        case _:
            return UNKNOWN, (call.op, *call.args), is_pure_call(call)


def _selected(args: Exprs, positions: Arguments) -> Exprs:
    return args if positions == "all" else tuple(args[i] for i in positions if i < len(args))
