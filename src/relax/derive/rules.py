"""Derivation: the struct info of an expression from that of its parts (language.md §6, one function per rule).

Operators bring their own rule: the fact ``FInferStructInfo`` on an Op is called with the call and the block builder,
and ``FPurity`` says whether calling it is free of effects (a bool, or a function of the call; pure if not said).
``takes_sinfo_args`` False says that the rule derives the result, so that a call must not state it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..expr import Call, DataflowVar, If, Tuple, TupleGetItem, Var
from ..info.dims import simplify_dim
from ..info.mapping import substitute_struct_info
from ..info.relations import Fit, Verdict, call_result, is_base_of, struct_info_lca
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticError, GlobalVar, Op, RelaxExpr, Span, StructInfo
from ..ir.parts import argument_span, condition_span
from ..op.base import infer_call
from ..op.known import inferred
from ..prim.analyzer import has_facts_in_scope
from ..struct_info import (
    DEFAULT_DERIVATION,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    get_derivation,
)
from .context import PoisonedError, Scopes


def silencing_hint(expr: RelaxExpr, expected: StructInfo) -> str:
    """The hint that silences a warning: state the expected struct info; it is checked at run time all the same."""
    name = getattr(expr, "name_hint", "")
    cast = f"{name or 'checked'} = R.match_cast({name or '...'}, {struct_info_text(expected)})"
    rest = "which makes the same check" if name else "and use that; it makes the same check"
    return f"to silence this, write {cast} before it, {rest}"


def known_struct_info(expr: RelaxExpr, scopes: Scopes) -> StructInfo:
    """The struct info of a part. A part that has none is an error in the program."""
    if type(expr) is Var or type(expr) is DataflowVar:
        info = expr.struct_info_
        if info is not None and not isinstance(info, FuncStructInfo):
            return info
    info = scopes.global_struct_info(expr) if isinstance(expr, GlobalVar) else expr.struct_info_
    if isinstance(info, FuncStructInfo) and isinstance(expr, (Var, GlobalVar)):
        return scopes.with_own_variables(expr, info)
    if isinstance(expr, Tuple):
        return _tuple_struct_info(expr, scopes)
    if info is not None:
        return info
    if isinstance(expr, Var):
        if expr in scopes.poisoned:
            raise PoisonedError
        kind = "dataflow variable" if isinstance(expr, DataflowVar) else "variable"
        raise scopes.error(
            "E3014",
            f"the {kind} {expr.name_hint} is used where it is not bound",
            None,
            hint="bind it first; a local function that calls itself needs a return annotation",
        )
    if isinstance(expr, GlobalVar):
        raise _unknown_global(expr, scopes)
    if isinstance(expr, Op):
        message = f"the operator {expr.name} is used as a value"
        raise scopes.error("E2009", message, expr.span, hint="operators can only be called")
    return expr.struct_info


def _tuple_struct_info(expr: Tuple, scopes: Scopes) -> StructInfo:
    fields = [known_struct_info(field, scopes) for field in expr.fields]
    current = expr.struct_info
    if isinstance(current, TupleStructInfo) and all(a is b for a, b in zip(current.fields, fields, strict=True)):
        return current
    return TupleStructInfo(fields)


def _unknown_global(global_var: GlobalVar, scopes: Scopes) -> DiagnosticError:
    name = global_var.name_hint
    if name in scopes.failed:
        raise PoisonedError
    if name in scopes.globals:
        return scopes.error(
            "E2008",
            f"rule 8: {name} is (mutually) recursive and has no return annotation",
            global_var.span or scopes.functions[name].span,
            hint=f"write def {name}(...) -> <struct info>: what a recursive function returns is not inferred",
        )
    return DiagnosticError(unknown_function(name, list(scopes.globals), global_var.span or scopes.span, scopes.where))


def unknown_function(name: str, names: Sequence[str], span: Span | None, where: str) -> Diagnostic:
    """Return the diagnostic for an unknown global function."""
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]}?" if close else "call one that the module has, or add it"
    notes = (f"it has: {', '.join(names) or 'none'}",)
    return Diagnostic("E3011", f"the module has no function {name}", span, where, notes, hint)


def derive_struct_info(expr: RelaxExpr, scopes: Scopes) -> StructInfo:
    """The struct info of an expression in normal form whose parts have theirs.

    Raises DiagnosticError when the expression breaks a rule.
    """
    match expr:
        case Call():
            return derive_call(expr, scopes)
        case TupleGetItem():
            return derive_tuple_get_item(expr, scopes)
        case If():
            return derive_if(expr, scopes)
        case _:
            return known_struct_info(expr, scopes)


# ------------------------------------------------------------------------------------ tuples, if


def derive_tuple_get_item(expr: TupleGetItem, scopes: Scopes) -> StructInfo:
    """The field. Not a tuple, or an index out of range, is an error."""
    info = known_struct_info(expr.tuple_value, scopes)
    match info:
        case TupleStructInfo(fields):
            if 0 <= expr.index < len(fields):
                return fields[expr.index]
            raise scopes.error(
                "E3009",
                f"index {expr.index} is out of range for a tuple of {len(fields)}",
                expr.span,
                [_note(expr.tuple_value, info)],
                f"its fields are 0 to {len(fields) - 1}" if fields else "the empty tuple has no fields",
            )
        case ObjectStructInfo() if expr.index >= 0:
            return info
        case ObjectStructInfo():
            message = f"index {expr.index} is out of range for any tuple"
            note = _note(expr.tuple_value, info)
            raise scopes.error("E3009", message, expr.span, [note], "fields are counted from 0")
        case _:
            note = _note(expr.tuple_value, info)
            hint = "R.take picks elements of a tensor"
            raise scopes.error("E3009", "only tuples have fields", expr.span, [note], hint)


def derive_if(expr: If, scopes: Scopes) -> StructInfo:
    """The least upper bound of the branches; the condition must be a bool scalar."""
    info = known_struct_info(expr.cond, scopes)
    verdict = _is_bool_scalar(info)
    if verdict is Verdict.NO:
        hint = "compare, or cast, to get a bool of rank 0"
        message = "the condition of an if must be a bool scalar"
        raise scopes.error("E3010", message, _condition_place(expr), [_note(expr.cond, info)], hint)
    if verdict is Verdict.POSSIBLY:
        problem = "the condition of this if may not be a bool scalar"
        hint = silencing_hint(expr.cond, TensorStructInfo((), "bool"))
        scopes.misfit(3010, problem, "", _condition_place(expr), [_note(expr.cond, info)], hint)
    then = known_struct_info(expr.true_branch, scopes)
    other = known_struct_info(expr.false_branch, scopes)
    return _bound_by_condition(expr.cond, then, other, scopes) or struct_info_lca(then, other, scopes.shape_vars)


def _condition_place(expr: If) -> Span | None:
    return use_span(expr.cond) or condition_span(expr.span) or expr.span


def _bound_by_condition(cond: RelaxExpr, then: StructInfo, other: StructInfo, scopes: Scopes) -> StructInfo | None:
    """The info of one branch, if the other's is at least as specific where the condition sends the program there."""
    for holds, here, there in ((True, then, other), (False, other, then)):
        with scopes.given(cond, holds), scopes.knowing():
            if is_base_of(there, here):
                return there
    return None


def _is_bool_scalar(info: StructInfo) -> Verdict:
    match info:
        case PrimStructInfo(dtype):
            return Verdict.YES if dtype.is_bool else Verdict.NO
        case TensorStructInfo():
            if info.ndim > 0 or not (info.dtype.is_bool or info.dtype.is_void):
                return Verdict.NO
            return Verdict.YES if info.ndim == 0 and info.dtype.is_bool else Verdict.POSSIBLY
        case ObjectStructInfo():
            return Verdict.POSSIBLY
        case _:
            return Verdict.NO


# ------------------------------------------------------------------------------------ calls


def derive_call(call: Call, scopes: Scopes) -> StructInfo:
    """The struct info of a call, by the kind of its callee."""
    for arg in call.args:
        known_struct_info(arg, scopes)
    if isinstance(call.op, Op):
        return _derive_op_call(call, call.op, scopes)
    info = known_struct_info(call.op, scopes)
    match info:
        case FuncStructInfo(params) if params is not None:
            if call.sinfo_args:
                raise _needless_sinfo_args(call, scopes)
            return derive_call_ret_struct_info(info, call, scopes)
        case FuncStructInfo():
            return _derive_packed_call(call, info.derive_func, scopes)
        case ObjectStructInfo():
            return _derive_packed_call(call, DEFAULT_DERIVATION, scopes)
        case _:
            raise scopes.error(
                "E3003",
                "only functions can be called",
                use_span(call.op) or call.span,
                [f"{callee_text(call.op)}: {struct_info_text(info)}"],
                "call a function of the module, a local function, or a value annotated as R.Callable(...)",
            )


def _needless_sinfo_args(call: Call, scopes: Scopes) -> DiagnosticError:
    name = callee_text(call.op)
    given = ", ".join(map(struct_info_text, call.sinfo_args))
    return scopes.error(
        "E3016",
        f"a call of {name} takes no sinfo_args: what it returns is derived",
        call.span,
        [f"found sinfo_args {given}"],
        "leave them out, and state what is only known at run time with R.match_cast",
    )


def _derive_op_call(call: Call, op: Op, scopes: Scopes) -> StructInfo:
    infer: Callable[[Call, Any], StructInfo] | None = op.get_attr("FInferStructInfo")
    if infer is not None:
        if call.sinfo_args and op.get_attr("takes_sinfo_args") is False:
            raise _needless_sinfo_args(call, scopes)
        alone = infer is infer_call and scopes.facts is None and not has_facts_in_scope()
        known = inferred(call) if alone else None
        return _ask(infer, call, op.name, scopes) if known is None else known
    if len(call.sinfo_args) == 1:
        return call.sinfo_args[0]
    raise scopes.error(
        "E3013",
        f"{op.name}: this operator has no struct-info rule",
        call.span,
        hint="register FInferStructInfo on it, or give the call one sinfo_arg",
    )


def _ask(rule: Callable[[Call, Any], StructInfo], call: Call, name: str, scopes: Scopes) -> StructInfo:
    """The struct info that an operator's or a packed function's own rule gives a call; errors are reported here."""
    try:
        info: Any = rule(call, scopes)
    except DiagnosticError as error:
        raise DiagnosticError(
            [
                replace(
                    d,
                    span=d.span or call.span or scopes.span,
                    label=d.label or scopes.where,
                    notes=d.notes or notes_of(call),
                )
                for d in error.diagnostics
            ]
        ) from error
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise scopes.error("E3100", f"{name}: {error}", call.span, notes_of(call)) from error
    if isinstance(info, StructInfo):
        return info
    message = f"{name}: its rule gave no struct info, but {type(info).__name__}"
    raise scopes.error("E3100", message, call.span, notes_of(call))


def _derive_packed_call(call: Call, derivation: str | None, scopes: Scopes) -> StructInfo:
    derive = get_derivation(derivation or "")
    if derive is None:
        raise scopes.error(
            "E3012",
            f"the derivation {derivation!r} is not registered",
            call.span,
            hint="register it with relax.struct_info.register_derivation(name, function)",
        )
    return _ask(derive, call, callee_text(call.op), scopes)


def derive_call_ret_struct_info(info: FuncStructInfo, call: Call, scopes: Scopes) -> StructInfo:
    """The struct info of a call of a function of this struct info.

    Shape variables of the parameters become what the arguments say; every argument must be compatible; what is said
    in variables that no argument determines is dropped from the result.
    """
    params = info.params or ()
    args = [known_struct_info(arg, scopes) for arg in call.args]
    name = callee_text(call.op)
    if len(params) != len(args):
        raise scopes.error(
            "E3002",
            f"{name} takes {_counted(len(params), 'argument')}, found {len(args)}",
            call.span,
            [f"{name}: {struct_info_text(info)}", *notes_of(call)],
            "give one argument for each parameter",
        )
    fits, table, result = call_result(info, args, scopes.shape_vars)
    for i, fit in enumerate(fits):
        if fit.verdict is not Verdict.YES:
            expected = substitute_struct_info(params[i], table, None, simplify_dim)
            _argument_misfit(call, name, i, fit, expected, scopes)
    return result


def _argument_misfit(call: Call, name: str, index: int, fit: Fit, expected: StructInfo, scopes: Scopes) -> None:
    arg = call.args[index]
    span = use_span(arg) or argument_span(call.span, index, len(call.args)) or call.span
    notes = [f"found {struct_info_text(arg.struct_info_)}", f"expected {struct_info_text(expected)}"]
    if fit.verdict is Verdict.NO:
        hint = fit.hint("give a value of what the parameter declares, or declare the parameter as what it is given")
        raise scopes.error("E3001", f"{name}: argument {index}: {fit.reason}", span, notes, hint)
    if scopes.awaits_placing(fit):
        return
    problem = f"{name}: argument {index} may not fit"
    scopes.misfit(3001, problem, fit.reason, span, notes, silencing_hint(arg, expected))


def check_purity(call: Call, scopes: Scopes) -> None:
    """An impure call is an error in a dataflow block and in a pure function."""
    region = scopes.must_be_pure
    if not region or is_pure_call(call, scopes):
        return
    code = "E3004" if region == "a dataflow block" else "E3005"
    name = callee_text(call.op)
    if region == "a dataflow block":
        hint = "move it out of the dataflow block"
    else:
        hint = "declare the function with pure=False"
    if _is_packed(call):
        hint += ", or, if it has no visible effect, call it through R.call_pure_packed"
    raise scopes.error(code, f"the call of {name} is impure, inside {region}", call.span, hint=hint)


def _is_packed(call: Call) -> bool:
    """True if a call is one of a packed function, directly or by `call_packed`."""
    info = call.op.struct_info_
    return callee_text(call.op) == "relax.call_packed" or (isinstance(info, FuncStructInfo) and info.params is None)


def is_pure_call(call: Call, scopes: Scopes | None = None) -> bool:
    """True if a call has no visible effect: an operator says so itself, a function by its struct info."""
    if isinstance(call.op, Op):
        purity: Any = call.op.get_attr("FPurity")
        return bool(purity(call)) if callable(purity) else purity is None or bool(purity)
    if isinstance(call.op, GlobalVar) and scopes is not None:
        info = scopes.global_struct_info(call.op)
    else:
        info = call.op.struct_info_
    return isinstance(info, FuncStructInfo) and info.purity


def use_span(expr: RelaxExpr) -> Span | None:
    """The span of an expression's use; a variable's own span is that of its binding."""
    return None if isinstance(expr, Var) else expr.span


# ------------------------------------------------------------------------------------ words


def callee_text(callee: RelaxExpr) -> str:
    """The name of what is called."""
    for attribute in ("name", "name_hint", "global_symbol"):
        name: str | None = getattr(callee, attribute, None)
        if name:
            return name
    return "this function"


def notes_of(call: Call) -> tuple[str, ...]:
    """Each argument with its struct info, as notes."""
    return tuple(_note(arg, arg.struct_info_, i) for i, arg in enumerate(call.args))


def _note(expr: RelaxExpr, info: StructInfo | None, index: int | None = None) -> str:
    name = getattr(expr, "name_hint", "") or ("the value" if index is None else f"argument {index}")
    return f"{name}: {struct_info_text(info)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
