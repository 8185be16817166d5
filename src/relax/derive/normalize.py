"""Normal form (language.md §4), and struct info written once on every node of it.

    gv = f(g(x), h(y))          lv = g(x)
                          →     lv1 = h(y)
                                gv = f(lv, lv1)

Nested expressions are bound left to right, a SeqExpr used as a value is flattened into its surroundings, neighbouring
blocks of one kind are merged, empty ones dropped. What is in normal form already is returned as the object it is, with
its struct info filled in. The work is linear in the number of bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, TypeVar

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
from ..info.mapping import bound_in, shape_expressions
from ..info.relations import Fit, Verdict, check_castable, check_compatible, erase, match_dimensions
from ..info.text import struct_info_text
from ..ir import BaseFunc, DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, Span, StructInfo, set_slot
from ..ir.deep import nested_too_deeply
from ..prim.expr import Var as PrimVar
from ..struct_info import FuncStructInfo, ObjectStructInfo
from .call_graph import callees_first
from .conditions import call_facts, cast_facts
from .context import (
    FORCE_PURE,
    FunctionScope,
    PoisonedError,
    Scopes,
    function_struct_info,
    make_block,
    merge_blocks,
    set_global_struct_info,
    sizes_bound_again,
    with_result,
)
from .rules import check_purity, derive_struct_info, is_pure_call, known_struct_info, silencing_hint, use_span
from .substitution import substitute

_T = TypeVar("_T", bound=RelaxExpr)


class Normalizer(Scopes):
    """Brings expressions into normal form inside the block that is open, and derives their struct info."""

    def __init__(
        self, mod: IRModule | None = None, *, collect: bool = False, warn: bool = True, trust: bool = False
    ) -> None:
        super().__init__(mod, collect=collect, warn=warn)
        self.trust = trust
        """True if a SeqExpr that has struct info is taken to be in normal form, and not walked again."""
        self.values: dict[Var, Binding] = {}
        self.global_function: Function | None = None
        self.rebound: set[PrimVar] | None = None
        """The shape variables bound both in local functions and casts of that function; None until one is met."""
        self.used_names: set[str] = set()
        self.name_counts: dict[str, int] = {}

    def lookup_binding(self, var: Var) -> RelaxExpr | None:
        """The value bound to a variable by a binding seen so far, None if there is none."""
        binding: Any = self.values.get(var)
        return None if binding is None else binding.value

    # -- names and new variables

    def get_unique_name(self, prefix: str) -> str:
        """A name not given out before: the prefix itself, then prefix1, prefix2 and so on."""
        count = self.name_counts.get(prefix, 0)
        name = prefix
        while name in self.used_names:
            count += 1
            name = f"{prefix}{count}"
        self.name_counts[prefix] = count
        self.used_names.add(name)
        return name

    def new_var(self, name_hint: str, span: Span | None, *, output: bool = False) -> Var:
        """A fresh variable for the open block: a DataflowVar inside a dataflow block unless it is an output."""
        local = self.in_dataflow and not output
        name = self.get_unique_name(name_hint or ("lv" if local else "gv"))
        return DataflowVar(name, span=span) if local else Var(name, span=span)

    # -- frames: blocks under construction

    def close_frame(self, original: BindingBlock | None = None) -> list[BindingBlock]:
        """The blocks made since the frame was opened; `original` itself if they are just that one."""
        frame = self.frames.pop()
        if not frame.done and original is not None and _same(original.bindings, frame.bindings):
            return [original]
        return [*frame.done, make_block(frame.is_dataflow, frame.bindings, original)]

    def append(self, binding: Binding) -> None:
        """Put a finished binding into the open block."""
        if not self.frames:
            hint = "emit inside `with bb.function(...)`, or begin a block with begin_binding_block()"
            raise self.error("E2103", "there is no open block to put a binding into", binding.span, hint=hint)
        self.frames[-1].bindings.append(binding)
        if isinstance(binding, MatchCast):
            self.learn(*cast_facts(binding.value.struct_info_, binding.struct_info))
        else:
            self.learn(*call_facts(binding.value))
        self.add_variable(binding.var)
        self.values[binding.var] = binding

    def split_frame(self, is_dataflow: bool) -> None:
        """Close the current block of the open frame and go on with one of the given kind."""
        frame = self.frames[-1]
        if frame.bindings:
            frame.done.append(make_block(frame.is_dataflow, frame.bindings, None))
        frame.bindings, frame.is_dataflow = [], is_dataflow

    # -- expressions

    def visit(self, expr: RelaxExpr) -> RelaxExpr:
        """The expression in normal form, with struct info: a leaf, or something whose parts are leaves."""
        handler = _HANDLERS.get(type(expr))
        if handler is None:
            raise TypeError(f"expected a Relax expression, found {type(expr).__name__}")
        if expr.span is not None and not isinstance(expr, Var):
            self.span = expr.span
        return getattr(self, handler)(expr)

    def leaf(self, expr: RelaxExpr) -> RelaxExpr:
        """The expression as a leaf: bound to a new variable in the open block if need be.

        One object nested in several places is computed once, if that cannot be told from computing it anew.
        """
        if type(expr) in (Var, DataflowVar):
            return self.visit_variable(expr)
        frame = self.frames[-1] if self.frames else None
        bound = None if frame is None else frame.nested.get(expr)
        if bound is not None:
            return bound
        value = self.visit(expr)
        if type(value) in _LEAVES or frame is None:
            return value
        var = self.new_var("", value.span)
        self.bind(var, value)
        if isinstance(value, TupleGetItem) or (isinstance(value, Call) and is_pure_call(value, self)):
            frame.nested[expr] = var
        return var

    def leaves(self, exprs: tuple[RelaxExpr, ...]) -> tuple[RelaxExpr, ...]:
        """Each as a leaf, in order; the same tuple if nothing changed."""
        new = tuple([self.leaf(expr) for expr in exprs])
        return exprs if _same(exprs, new) else new

    def visit_variable(self, expr: RelaxExpr) -> RelaxExpr:
        known_struct_info(expr, self)
        return expr

    def visit_constant(self, expr: RelaxExpr) -> RelaxExpr:
        return expr

    def visit_global_var(self, expr: GlobalVar) -> RelaxExpr:
        """The module's own GlobalVar of this name."""
        if self.global_struct_info(expr) is None:
            known_struct_info(expr, self)  # which says what is wrong
        return self.globals.get(expr.name_hint, expr)

    def visit_tuple(self, expr: Tuple) -> RelaxExpr:
        fields = self.leaves(expr.fields)
        return expr if fields is expr.fields else Tuple(fields, span=expr.span)

    def visit_tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        value = self.leaf(expr.tuple_value)
        return self.derived(expr if value is expr.tuple_value else expr.replace(tuple_value=value))

    def visit_call(self, expr: Call) -> RelaxExpr:
        if not self.frames and self.trust and expr.struct_info_ is not None:
            return expr
        op = expr.op if isinstance(expr.op, Op) else self.leaf(expr.op)
        args = self.leaves(expr.args)
        if op is not expr.op or args is not expr.args:
            expr = expr.replace(op=op, args=args)
        self.derived(expr)
        check_purity(expr, self)
        return expr

    def visit_if(self, expr: If) -> RelaxExpr:
        if self.in_dataflow:
            raise self.error(
                "E2007",
                "rule 7: a dataflow block has no control flow, so no if",
                expr.span,
                hint="end the dataflow block before it",
            )
        cond = self.leaf(expr.cond)
        with self.given(cond, True):
            true_branch = self.scope_body(expr.true_branch)
        with self.given(cond, False):
            false_branch = self.scope_body(expr.false_branch)
        return self.derived(expr.replace(cond=cond, true_branch=true_branch, false_branch=false_branch))

    def visit_seq(self, expr: SeqExpr) -> RelaxExpr:
        """A SeqExpr as a value is flattened into the open block; where none is open it stays one."""
        if not self.frames:
            return self.scope_body(expr)
        outer = self.in_dataflow
        for block in expr.blocks:
            inner = isinstance(block, DataflowBlock)
            if outer and not inner and block.bindings:
                raise self.error(
                    "E2102",
                    "normal form: an ordinary block cannot be flattened into a dataflow block",
                    block.span or expr.span,
                    hint="make the inner block a dataflow block, or bind the value outside",
                )
            if inner is not outer:
                self.split_frame(inner)
            try:
                for binding in block.bindings:
                    self.binding(binding)
            finally:
                if inner is not outer:
                    self.split_frame(outer)
        return self.visit(expr.body)

    def visit_function(self, expr: Function) -> RelaxExpr:
        return self.function_body(self.kept_apart(expr), "")

    def kept_apart(self, function: Function) -> Function:
        """A function literal with shape variables of its own that no match_cast around it binds as well, later."""
        if self.rebound is None:
            self.rebound = sizes_bound_again(self.global_function or function)
        if not self.rebound:
            return function
        infos = [param.struct_info_ or ObjectStructInfo() for param in function.params]
        own = [v for v in bound_in(*infos) if v in self.rebound and v not in self.shape_vars]
        return substitute(function, {v: PrimVar(v.name, v.dtype, span=v.span) for v in own})

    def derived(self, expr: _T) -> _T:
        """The expression with its struct info written, unless it has some already."""
        if expr.struct_info_ is None:
            with self.knowing():
                set_slot(expr, "_struct_info", derive_struct_info(expr, self))
        return expr

    # -- scopes

    def scope_body(self, expr: RelaxExpr) -> SeqExpr:
        """A function's body or a branch: a SeqExpr in a scope of its own, whose body is a leaf."""
        if self.trust and isinstance(expr, SeqExpr) and expr.struct_info_ is not None:
            return expr
        depth = len(self.frames)
        self.begin_scope()
        try:
            blocks: list[BindingBlock] = []
            if isinstance(expr, SeqExpr):
                for block in expr.blocks:
                    blocks += self.block(block)
            self.open_frame(False)
            body = self.leaf(expr.body if isinstance(expr, SeqExpr) else expr)
            self.check_escape(body)
            blocks = merge_blocks(blocks + self.close_frame())
        finally:
            del self.frames[depth:]
            scope = self.end_scope()
        if isinstance(expr, SeqExpr) and body is expr.body and _same(expr.blocks, blocks):
            result = expr
        else:
            result = SeqExpr(blocks, body, span=expr.span)
        if result.struct_info_ is None:
            info = known_struct_info(body, self)
            set_slot(result, "_struct_info", scope.erased(info))
        return result

    def check_escape(self, body: RelaxExpr) -> None:
        """Reject uses of a DataflowVar after its block."""
        match body:
            case DataflowVar(name):
                raise self.error(
                    "E2001",
                    f"rule 1: the dataflow variable {name} is used outside its dataflow block",
                    None,
                    hint="make it an output of the block (R.output, BlockBuilder.emit_output)",
                )
            case Tuple(fields):
                for item in fields:
                    self.check_escape(item)
            case _:
                return

    def block(self, block: BindingBlock) -> list[BindingBlock]:
        """A block's bindings in normal form, as one block or, where something was flattened, several."""
        self.open_frame(isinstance(block, DataflowBlock))
        for binding in block.bindings:
            self.binding(binding)
        return self.close_frame(block)

    def function_body(self, expr: Function, name: str) -> Function:
        """A function, global or a literal, in normal form; a result that is not annotated is filled in."""
        for param in expr.params:
            if param.struct_info_ is None:
                set_slot(param, "_struct_info", ObjectStructInfo())
        force_pure = bool(expr.attrs.get(FORCE_PURE, False))
        if not self.function_scopes:
            self.global_function, self.rebound = expr, None
        self.begin_scope(expr.params)
        self.function_scopes.append(FunctionScope(name, expr.is_pure, force_pure))
        try:
            body = self.scope_body(expr.body)
            ret = self.result_info(expr, body, name)
        finally:
            self.function_scopes.pop()
            self.end_scope()
        result = expr.replace(body=body, ret_struct_info=ret)
        if result.struct_info_ is None:
            set_slot(result, "_struct_info", function_struct_info(result, ret))
        return result

    def result_info(self, expr: Function, body: SeqExpr, name: str) -> StructInfo:
        """The declared result, which the body must be compatible with; without one, the body's."""
        actual = body.struct_info
        expected = expr.ret_struct_info
        if expected is None or expected is actual:
            return actual
        with self.knowing():
            fit = check_compatible(actual, expected, self.shape_vars)
        if fit.verdict is not Verdict.YES:
            subject = name or "this function"
            span = use_span(body.body) or body.span or expr.span
            notes = [f"returns {struct_info_text(actual)}", f"declared {struct_info_text(expected)}"]
            if fit.verdict is Verdict.NO:
                message = f"{subject} does not return what it declares: {fit.reason}"
                hint = fit.hint("declare what the function returns, or return what it declares")
                raise self.error("E3007", message, span, notes, hint)
            if expr.struct_info_ is None and not self.awaits_placing(fit):
                problem = f"what {subject} returns may not fit its declaration"
                self.misfit(3007, problem, fit.reason, span, notes, silencing_hint(body.body, expected))
        return expected

    # -- bindings

    def binding(self, binding: Binding) -> None:
        """Bring a binding into normal form and append it to the open block; an error may be kept for later."""
        try:
            match binding:
                case VarBinding():
                    self.var_binding(binding)
                case MatchCast():
                    self.match_cast_binding(binding)
                case _:
                    raise TypeError(f"expected a binding, found {type(binding).__name__}")
        except (DiagnosticError, PoisonedError) as error:
            self.recover(binding, error)

    def recover(self, binding: Binding, error: DiagnosticError | PoisonedError) -> None:
        """Record the error of a binding and continue with the next; without `collect`, raise it."""
        if not self.collect:
            raise error
        if isinstance(error, DiagnosticError):
            self.report(error)
        if binding.var.struct_info_ is None:
            self.poisoned.add(binding.var)
        if isinstance(binding, MatchCast):
            self.add_shape_vars(bound_in(binding.struct_info))
        self.append(binding)

    def var_binding(self, binding: VarBinding) -> None:
        var, value = binding.var, binding.value
        new = self.local_function(var, value) if isinstance(value, Function) else self.visit(value)
        self.bind(var, new, binding)

    def local_function(self, var: Var, function: Function) -> Function:
        """A function literal bound to a variable: it may call itself through that variable."""
        function = self.kept_apart(function)
        self.note_own(var, function)
        annotated = var.annotation
        if function.ret_struct_info is None and isinstance(annotated, FuncStructInfo):
            function = with_result(function, annotated, self.shape_vars)
        declared = function.ret_struct_info
        if var.struct_info_ is None and declared is not None:
            set_slot(var, "_struct_info", function_struct_info(function, declared))
        return self.function_body(function, var.name_hint)

    def bind(self, var: Var, value: RelaxExpr, original: VarBinding | None = None) -> None:
        """Append ``var = value``; the variable's struct info is its annotation, else what was derived."""
        if isinstance(value, Function):
            self.note_own(var, value)
        info = known_struct_info(value, self)
        declared = var.struct_info_
        if declared is None:
            set_slot(var, "_struct_info", self.visible(var, info))
        elif declared is not info:
            with self.knowing():
                fit = check_compatible(info, declared, self.shape_vars)
            if fit.verdict is not Verdict.YES:
                self.bind_checked(var, value, info, declared, fit, original)
                return
        if original is not None and original.value is value:
            self.append(original)
        else:
            self.append(VarBinding(var, value, span=original.span if original is not None else value.span))

    def bind_checked(
        self, var: Var, value: RelaxExpr, info: StructInfo, declared: StructInfo, fit: Fit, original: VarBinding | None
    ) -> None:
        """An annotation claims more than was derived: that is checked at run time, by a match_cast."""
        span = var.span or (original.span if original is not None else None) or value.span
        notes = [f"declared {struct_info_text(declared)}", f"derived  {struct_info_text(info)}"]
        name = var.name_hint
        if fit.verdict is Verdict.NO:
            message = f"the value does not fit the annotation of {name}: {fit.reason}"
            hint = fit.hint("leave the annotation out to get what was derived")
            raise self.error("E3006", message, span, notes, hint)
        if var.annotation is not None and not self.awaits_placing(fit):
            problem = f"the annotation of {name} claims more than was derived"
            shown = getattr(value, "name_hint", "...")
            hint = f"to silence this, write {name} = R.match_cast({shown}, {struct_info_text(declared)}) instead"
            self.misfit(3006, problem, fit.reason, span, notes, hint)
        if not is_leaf(value):
            unchecked = self.new_var("", value.span)
            # A function that calls itself does so by the variable it is bound to.
            self.bind(unchecked, substitute(value, {var: unchecked}))
            value = unchecked
        self.append(MatchCast(var, value, declared, span=span))

    def visible(self, var: Var, info: StructInfo) -> StructInfo:
        """An output of a dataflow block must not be described by variables of that block."""
        if not self.in_dataflow or isinstance(var, DataflowVar):
            return info
        local = {e for e in shape_expressions(info) if isinstance(e, DataflowVar)}
        return erase(info, (), local) if local else info

    def match_cast_binding(self, binding: MatchCast) -> None:
        """A cast brings new shape variables into scope; one that can never succeed is an error."""
        value = self.leaf(binding.value)
        info, cast = known_struct_info(value, self), binding.struct_info
        with self.knowing():
            fit = check_castable(info, cast, self.shape_vars)
        if fit.verdict is Verdict.NO:
            raise self.error(
                "E3008",
                f"this match_cast can never succeed: {fit.reason}",
                binding.span,
                [
                    f"the value: {struct_info_text(info)}",
                    f"cast to:   {struct_info_text(cast)}",
                    *self.known_about(info, cast),
                ],
                "cast to what the value may be, or leave the match_cast out",
            )
        self.define(match_dimensions((cast,), (info,), self.shape_vars)[0])
        self.add_shape_vars(bound_in(cast))
        var = binding.var
        declared = var.struct_info_
        if declared is None:
            set_slot(var, "_struct_info", self.visible(var, cast))
        elif declared is not cast:
            with self.knowing():
                fit = check_compatible(cast, declared, self.shape_vars)
            if fit.verdict is not Verdict.YES:
                raise self.error(
                    "E3006",
                    f"the match_cast does not give what {var.name_hint} is declared to be: {fit.reason}",
                    var.span or binding.span,
                    [f"declared {struct_info_text(declared)}", f"cast to  {struct_info_text(cast)}"],
                    "leave the annotation out: the variable is what the match_cast says",
                )
        self.append(binding if value is binding.value else binding.replace(value=value))


def _same(old: Sequence[object], new: Sequence[object]) -> bool:
    return len(old) == len(new) and all(map(is_, old, new))


_LEAVES = frozenset(
    (Constant, Var, DataflowVar, GlobalVar, Tuple, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc)
)

_HANDLERS: dict[type, str] = {
    Var: "visit_variable",
    DataflowVar: "visit_variable",
    Constant: "visit_constant",
    ShapeExpr: "visit_constant",
    PrimValue: "visit_constant",
    StringImm: "visit_constant",
    DataTypeImm: "visit_constant",
    ExternFunc: "visit_constant",
    GlobalVar: "visit_global_var",
    Op: "visit_variable",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_get_item",
    Call: "visit_call",
    If: "visit_if",
    SeqExpr: "visit_seq",
    Function: "visit_function",
}


# ------------------------------------------------------------------------------------ whole programs


def normalize_module(mod: IRModule) -> IRModule:
    """Every function of a module in normal form, with struct info; the module itself if nothing changed.

    Raises DiagnosticError with all that is wrong in any function. Possible misfits are warned of.
    """
    normalizer = Normalizer(mod, collect=True)
    functions: dict[str, BaseFunc] = {}
    for global_var, function in callees_first(mod):
        name = global_var.name_hint
        functions[name] = function
        if isinstance(function, Function):
            functions[name] = _global_function(normalizer, global_var, function)
    if normalizer.diagnostics:
        raise DiagnosticError(normalizer.diagnostics)
    return mod.with_functions({g: functions[g.name_hint] for g in mod.functions})


def _global_function(normalizer: Normalizer, global_var: GlobalVar, function: Function) -> Function:
    result = _whole_function(normalizer, function, global_var.name_hint)
    if result is None:
        normalizer.failed.add(global_var.name_hint)
        return function
    normalizer.functions[global_var.name_hint] = result
    normalizer.signatures[global_var.name_hint] = result.struct_info
    set_global_struct_info(global_var, result.struct_info)
    return result


def _whole_function(normalizer: Normalizer, function: Function, name: str) -> Function | None:
    """A global function in normal form; None if it is in error, which is then reported."""
    try:
        return normalizer.function_body(function, name)
    except DiagnosticError as error:
        normalizer.report(error)
    except PoisonedError:
        pass
    except RecursionError:
        subject = f"an expression in {name}" if name else "an expression"
        diagnostic = nested_too_deeply(subject, "brought into normal form", function.span)
        normalizer.report(DiagnosticError(diagnostic))
    return None


def normalize_function(
    function: Function, mod: IRModule | None = None, name: str = "", *, warn: bool = True
) -> Function:
    """A function in normal form, with struct info; itself if nothing changed. `mod` tells what it may call.

    Raises DiagnosticError with all that is wrong in it.
    """
    normalizer = Normalizer(mod, collect=True, warn=warn)
    result = _whole_function(normalizer, function, name or function.attrs.get("global_symbol", ""))
    if normalizer.diagnostics or result is None:
        raise DiagnosticError(normalizer.diagnostics)
    return result


__all__ = ["Normalizer", "merge_blocks", "normalize_function", "normalize_module"]
