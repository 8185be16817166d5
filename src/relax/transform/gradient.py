"""Differentiate a function: add one that computes its result, and the gradients of a scalar of it by parameters.

Before   def main(x: R.Tensor((3, 3)), y: R.Tensor((3, 3))):
             with R.dataflow():
                 lv = R.multiply(x, y)
                 gv = R.sum(lv)
                 R.output(gv)
             return gv

After    Gradient("main") leaves main as it is, and adds
         def main_adjoint(x: R.Tensor((3, 3)), y: R.Tensor((3, 3))):
             with R.dataflow():
                 lv = R.multiply(x, y)
                 gv = R.sum(lv)
                 gv_adjoint = R.ones(R.shape([]), "float32")
                 lv_adjoint = R.broadcast_to(gv_adjoint, R.shape([3, 3]))
                 x_adjoint = R.multiply(lv_adjoint, y)
                 y_adjoint = R.multiply(lv_adjoint, x)
                 x_adjoint_out = x_adjoint
                 y_adjoint_out = y_adjoint
                 R.output(gv, x_adjoint_out, y_adjoint_out)
             return (gv, (x_adjoint_out, y_adjoint_out))

Differentiation is in reverse mode: the bindings are copied, then walked backwards. Each call adds the gradients by its
operands, which the operator's own rule makes of the gradient by its result (`relax.op.base.Operator.gradient`); those
of several uses of a variable are summed. Only what leads from a required parameter to the target is differentiated.
What a rule does not use is left to DeadCodeElimination.

The function is pure: bindings of operators, calls, branches, tuples, projections and match_casts, inside dataflow
blocks or not; they all come into one dataflow block. Calls of functions and branches are differentiated by functions of
their own (`gradient_calls`), recursive calls too. Refused (E4012), all reasons together: local functions, operators
without a derivative, dtypes or shapes that a rule needs and that are not known. An operator without a rule is
differentiated by its formula (`relax.op.formula_gradients`).

``R.grad.no_grad(x)`` is x, to which no gradient passes. What is computed from ``R.grad.start_checkpoint(x)`` up to
``R.grad.end_checkpoint(y)`` is not kept for the backward half: that computes it again where it needs it, from x. It
reads x through another start_checkpoint, so that EliminateCommonSubexpr does not merge both computations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.properties import LEGALIZED, NO_DATAFLOW, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..analysis.uses import uses_of
from ..block_builder import BlockBuilder
from ..derive.call_graph import call_graph, reachable, recursive_groups
from ..derive.context import FORCE_PURE
from ..derive.normalize import normalize_module
from ..derive.substitution import copy_with_new_vars
from ..expr import Binding, Call, Function, MatchCast, Tuple, TupleGetItem, Var, VarBinding
from ..info.mapping import fields_in
from ..info.text import struct_info_text
from ..ir import (
    Diagnostic,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Node,
    Op,
    RelaxExpr,
    Span,
    StructInfo,
    map_children,
    structural_equal,
)
from ..op import is_call_of, operator_of
from ..op.adjoints import Adjoints
from ..op.base import Operator
from ..op.creation import Ones
from ..op.errors import OperatorError
from ..op.formula_gradients import formula_gradient
from ..op.grad import EndCheckpoint, Mark, NoGrad, StartCheckpoint
from ..op.intrinsics import CallTIR
from ..op.kernel_gradients import kernel_gradient
from ..struct_info import TensorStructInfo, TupleStructInfo
from .decorators import module_pass
from .gradient_calls import Calls, is_settled, may_vary, result_gradient
from .one_block import OneBlock, bindings_of, body_of, obstacles, results_of
from .to_non_dataflow import without_dataflow

SUFFIX = "_adjoint"
CODE = "E4012"


@module_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW, LEGALIZED, STORAGE_EXPLICIT, SHAPES_LOWERED})
def Gradient(
    mod: IRModule, func_name: str, require_grads: Var | Sequence[Var] | None = None, target_index: int = 0
) -> IRModule:
    """Add the function ``<func_name>_adjoint``, which returns ``(result, (gradients...))``; see the module's docstring.

    `require_grads` are parameters of the function, all by default: tensors of floats, or tuples of them. The target is
    the result, or the field number `target_index` of a result that is a tuple: a scalar of floats. Raises
    DiagnosticError (E4012) for what cannot be differentiated.
    """
    function = mod.get(func_name)
    if not isinstance(function, Function):
        raise _error(f"{func_name!r} is no Relax function of the module")
    positions = _positions(function, require_grads)
    name = f"{func_name}{SUFFIX}"
    present = mod.get(name)
    normal = normalize_module(mod)
    if present is not None:  # functions that an earlier differentiation added are to get the same names again
        reached = reachable(normal.without([name]), {func_name})
        normal = normal.without([other.name_hint for other in normal.functions if other.name_hint not in reached])
    adjoint = _module(normal, func_name, name, positions, target_index)
    if present is None:
        return adjoint
    if structural_equal(present, adjoint[name], map_free_vars=True):
        return mod
    hint = "rename it, or remove it before differentiating again"
    raise _error(f"the module has another function {name!r}", present.span, hint)


def _module(mod: IRModule, func_name: str, name: str, positions: Sequence[int], target_index: int) -> IRModule:
    """The module with the adjoint, and with the functions that it pulls gradients back through calls by."""
    calls = Calls()
    function = _function(mod, func_name)
    outlined = calls.outlined(mod, func_name)
    copy = copy_with_new_vars(_function(outlined, func_name))
    required = [copy.params[i] for i in positions]
    new = _Adjoint(outlined, name, copy, required, calls, target=_target(copy, target_index)).function()[0]
    while calls.pending:
        item = calls.pending.pop(0)
        if item.name in calls.branches:
            new, chosen = calls.choice(new, item)
        else:
            source = calls.outlined(new, item.name)
            own = copy_with_new_vars(_function(source, item.name))
            head, temporary = result_gradient(own), f"{item.vjp}_body"
            wanted = [own.params[i] for i in item.indices]
            if item.name != func_name and source is not new:
                source = source.with_function(item.name, _function(new, item.name))
            new, written = _Adjoint(source, temporary, own, wanted, calls, head=head).function()
            chosen = _function(new, written.name_hint)
            if written.name_hint != temporary:  # the module has an equal one already
                chosen = copy_with_new_vars(chosen)
            new = new.without([temporary])
        new = normalize_module(new.with_function(item.vjp, chosen.without_attr("global_symbol")))
    added = {vjp.name_hint for vjp, _ in calls.vjps.values()}
    for group in recursive_groups(call_graph(new)):
        for each in added.intersection(group):  # no dataflow block may call its own function
            new = new.with_function(each, without_dataflow(_function(new, each)))
    return new.with_function(func_name, function)


def _error(message: str, span: Span | None = None, hint: str = "") -> DiagnosticError:
    return DiagnosticError(_diagnostic(message, span, hint))


def _diagnostic(message: str, span: Span | None = None, hint: str = "") -> Diagnostic:
    return Diagnostic(CODE, f"Gradient: {message}", span, hint=hint)


def _function(mod: IRModule, name: str) -> Function:
    function = mod[name]
    assert isinstance(function, Function)
    return function


# ------------------------------------------------------------------------------------------- requests


def _positions(function: Function, require_grads: Var | Sequence[Var] | None) -> list[int]:
    """The positions of the parameters by which gradients are required."""
    if require_grads is None:
        required = list(function.params)
    else:
        required = [require_grads] if isinstance(require_grads, Var) else list(require_grads)
    positions: list[int] = []
    for var in required:
        index = next((i for i, param in enumerate(function.params) if param is var), None)
        if index is None:
            hint = "take them from the function: mod[name].params"
            raise _error(f"{_shown(var)} in require_grads is no parameter of the function", hint=hint)
        if index in positions:
            raise _error(f"{_shown(var)} is twice in require_grads")
        info = var.struct_info_
        if info is None or not all(_is_float(field) for field in fields_in(info)):
            hint = "name the parameters by which gradients are needed: require_grads=[...]"
            message = f"the gradient by {_shown(var)} is required, which is {struct_info_text(info)}"
            raise _error(f"{message}: only tensors of floats, and tuples of them, have gradients", hint=hint)
        positions.append(index)
    return positions


def _shown(var: object) -> str:
    return var.name_hint if isinstance(var, Var) else repr(var)


def _is_float(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and info.dtype.is_float


def _target(func: Function, index: int) -> tuple[RelaxExpr, TensorStructInfo]:
    """The expression to differentiate, and what it is."""
    body, outputs = body_of(func).body, results_of(func)
    if not 0 <= index < len(outputs):
        raise _error(f"target_index is {index}, but the function returns {len(outputs)} values", body.span)
    infos = body.struct_info.fields if isinstance(body.struct_info, TupleStructInfo) else [body.struct_info]
    info = infos[index]
    if not isinstance(info, TensorStructInfo) or info.ndim != 0 or not info.dtype.is_float:
        hint = "reduce it with R.sum or R.mean, or choose another output by target_index"
        message = f"the target must be a scalar of floats, found {struct_info_text(info)}"
        raise _error(message, body.span, hint)
    return outputs[index], info


# ------------------------------------------------------------------------------------------- building


class _Adjoint:
    """Builds the adjoint of one function, whose variables are its own already."""

    def __init__(
        self,
        mod: IRModule,
        name: str,
        func: Function,
        required: Sequence[Var],
        calls: Calls,
        *,
        target: tuple[RelaxExpr, TensorStructInfo] | None = None,
        head: Var | None = None,
    ) -> None:
        self.name, self.func, self.required, self.calls = name, func, required, calls
        self.body = body_of(func).body
        self.target, self.head = target, head
        self.bindings = bindings_of(func)
        self.builder = BlockBuilder(mod, warn=False)
        kept = uses_of(self.body).variables if head is None else ()
        self.forward = OneBlock((*func.params, *kept))
        self.active: set[Var] = set()
        """Variables that depend on required parameters."""
        self.segment: dict[Var, int] = {}
        """Variables that are computed between marks of a checkpoint, with the positions of their bindings."""
        self.recomputed: dict[Var, RelaxExpr] = {}
        self.adjoints = Adjoints()
        self.placed: dict[Node, Node] = {}
        """Parts of the gradients by one binding's operands, over the variables bound here."""
        self.problems: list[Diagnostic] = []

    def function(self) -> tuple[IRModule, GlobalVar]:
        """The module with the adjoint, and its name there."""
        self._check_straight()
        self._find_active()
        attrs = {k: v for k, v in self.func.attrs.items() if k != "global_symbol"}
        if self.head is not None:  # others, as Primitive, speak of how the function itself is lowered
            attrs = {k: v for k, v in attrs.items() if k == FORCE_PURE}
        self.builder.used_names.update(binding.var.name_hint for binding in self.bindings)
        params = self.func.params if self.head is None else (*self.func.params, self.head)
        with self.builder.function(self.name, params, attrs, private=self.head is not None):
            with self.builder.dataflow():
                for position, binding in enumerate(self.bindings):
                    self._copy(position, binding)
                gradients = self._differentiate()
            if self.head is None:
                result = self.forward.expression(self.body)
                written = self.builder.emit_func_output(Tuple((result, Tuple(gradients))))
            else:
                written = self.builder.emit_func_output(Tuple(gradients))
        return self.builder.get(), written

    def _check_straight(self) -> None:
        """Report constructs that a dataflow block cannot hold."""
        reasons = obstacles(self.func)
        if not self.func.is_pure:
            del reasons[1:]  # its branches are still in place: they are no obstacle in a pure function
        for reason, span, hint in reasons:
            self._problem(f"{reason} has no gradient", span, hint)
        self._report()

    def _problem(self, message: str, span: Span | None, hint: str = "") -> None:
        self.problems.append(_diagnostic(message, span or self.func.span, hint))

    def _report(self) -> None:
        if self.problems:
            raise DiagnosticError(self.problems)

    def _find_active(self) -> None:
        self.active.update(self.required)
        for binding in self.bindings:
            value = binding.value
            if isinstance(value, Call) and is_call_of(value, NoGrad):
                continue
            if any(var in self.active for var in _operands(value)) and may_vary(binding.var.struct_info_):
                self.active.add(binding.var)

    # -- the forward half

    def _copy(self, position: int, binding: Binding) -> None:
        """Emit a binding of the function."""
        value = binding.value
        if is_call_of(value, EndCheckpoint):
            for var in _operands(value):  # which is what the mark's variable becomes
                self.segment.pop(var, None)
        elif _starts(value) or any(var in self.segment for var in _operands(value)):
            self.segment[binding.var] = position
        if isinstance(binding, VarBinding) and isinstance(value, Call) and is_call_of(value, Mark):
            marked = self.forward.expression(value.args[0])
            if binding.var in self.forward.outputs:
                self.builder.emit_normalized(binding.replace(value=marked))
            else:
                self.forward.variables[binding.var] = marked
        else:
            self.builder.emit_normalized(self.forward.binding(binding))

    # -- the backward half

    def _differentiate(self) -> list[RelaxExpr]:
        """Emit the gradients; those by the required parameters."""
        if self.head is not None:
            self._add(self.body, self.head, self.func.span)
        elif self.target is not None and any(var in self.active for var in _operands(self.target[0])):
            ones = Ones(self.target[1].dtype).call(())
            name = next(iter(_operands(self.target[0]))).name_hint
            self.adjoints.add(self.target[0], self.builder.emit(ones, f"{name}{SUFFIX}"))
        for binding in reversed(self.bindings):
            if binding.var in self.adjoints:
                self._pass_on(binding)
        self._report()
        return [
            self.builder.emit_output(
                self._placed(self.adjoints.total(param), param.name_hint + SUFFIX, None),
                f"{param.name_hint}{SUFFIX}_out",
            )
            for param in self.required
        ]

    def _pass_on(self, binding: Binding) -> None:
        """Add the gradients by the operands of a binding, given those by its variable."""
        value, span = binding.value, binding.value.span or binding.span
        self.placed = {}
        grad = self._placed(self.adjoints.total(binding.var), f"{binding.var.name_hint}{SUFFIX}", span)
        match value:
            case Var() | Tuple() | TupleGetItem():
                self._add(value, grad, span)
            case Call(op=Op()):
                gradients = self._gradients(binding.var, value, grad, span)
                for arg, gradient in zip(value.args, gradients, strict=True):
                    self._add(arg, gradient, span)
            case Call(op=GlobalVar() as callee) if (found := self.calls.vjp(self.builder, callee)) is not None:
                vjp, indices = found
                if not self._is_settled_call(binding.var, value, callee, indices, span):
                    return
                pulled = self._placed(Call(vjp, (*value.args, grad), span=span), f"{callee.name_hint}{SUFFIX}", span)
                for k, i in enumerate(indices):
                    self._add(value.args[i], TupleGetItem(pulled, k), span)
            case Call(op=callee):
                name = f" of {callee.name_hint}" if isinstance(callee, (GlobalVar, Var)) else ""
                hint = "a pure function of the module has one, if the struct info of its result is declared"
                self._problem(f"a call{name}, which is no operator, has no gradient", span, hint)
            case _:
                self._problem(f"this {type(value).__name__} has no gradient", span)

    def _is_settled_call(
        self, var: Var, call: Call, callee: GlobalVar, indices: Sequence[int], span: Span | None
    ) -> bool:
        """Report results and arguments of which it is not known whether they are tensors of floats; False if any."""
        subject = "if" if callee.name_hint in self.calls.branches else f"a call of {callee.name_hint}"
        if not is_settled(var.struct_info_):
            hint = "declare it in the struct info of the result"
            self._problem(f"{subject} has no gradient where the dtype of its result is not known", span, hint)
            return False
        for i, arg in enumerate(call.args):
            if i in indices or not may_vary(arg.struct_info_):
                continue
            active = next((each for each in _operands(arg) if each in self.active), None)
            if active is not None:
                hint = "declare the parameter as R.Tensor(..., dtype), or match_cast the value"
                message = f"{subject} has no gradient where the dtype of the parameter for {active.name_hint}"
                self._problem(f"{message} is not known", span, hint)
                return False
        return True

    def _gradients(self, var: Var, call: Call, grad: RelaxExpr, span: Span | None) -> Sequence[RelaxExpr | None]:
        """The gradients by the operands of an operator's call, by its rule."""
        nothing = (None,) * len(call.args)
        operator = operator_of(call)
        assert isinstance(call.op, Op)
        name = call.op.name.removeprefix("relax.")
        for value in (var, *(arg for arg in _operands(call) if arg in self.active)):
            if not is_settled(value.struct_info_):
                hint = f"say it: {value.name_hint} = R.match_cast({value.name_hint}, R.Tensor(..., dtype))"
                message = f"{name} has no gradient where the dtype of {value.name_hint} is not known"
                self._problem(message, span, hint)
                return nothing
        try:
            gradients = None if operator is None else operator.gradient_of_call(self.builder, call, var, grad)
            if operator is not None and gradients is None:
                gradients = formula_gradient(operator, self.builder, call, grad)
                if gradients is None and type(operator) is CallTIR:
                    gradients = kernel_gradient(self.builder, call, grad)
        except OperatorError as error:
            self._problem(error.message, span, error.hint)
            return nothing
        if gradients is not None:
            return gradients
        if operator is None or not _has_rule(operator):
            self._problem(f"{name} has no gradient", span, "R.grad.no_grad makes a constant of its operand")
        else:
            unknown = next((v for v in _operands(call) if _lacks_shape(v.struct_info_)), None)
            hint = "" if unknown is None else f"the shape of {unknown.name_hint} is not known: match_cast it"
            self._problem(f"{name} has no gradient for these operands and attributes", span, hint)
        return nothing

    def _add(self, operand: RelaxExpr, grad: RelaxExpr | None, span: Span | None) -> None:
        """Emit the gradient by one use of an operand, if it leads to a required parameter."""
        if grad is None:
            return
        if isinstance(operand, Tuple):
            for i, item in enumerate(operand.fields):
                self._add(item, grad.fields[i] if isinstance(grad, Tuple) else TupleGetItem(grad, i), span)
            return
        var = next(iter(_operands(operand)), None)
        if var in self.active and may_vary(operand.struct_info_):
            assert var is not None
            self.adjoints.add(operand, self._placed(grad, f"{var.name_hint}{SUFFIX}", span))

    def _placed(self, expr: RelaxExpr, name: str, span: Span | None) -> RelaxExpr:
        """A gradient as variables, bound here."""
        if isinstance(expr, Tuple):
            return Tuple([self._placed(item, name, span) for item in expr.fields])
        mapped = self._mapped(expr, span)
        return self.builder.emit(mapped, name) if isinstance(mapped, (Call, TupleGetItem)) else mapped

    def _mapped(self, expr: RelaxExpr, span: Span | None) -> RelaxExpr:
        """An expression over variables of the function as one over those bound here; what is shared stays shared."""

        def visit(node: Node) -> Node:
            if isinstance(node, Var):
                return self._value_of(node)
            if not isinstance(node, (Call, Tuple, TupleGetItem)):
                return node
            if node not in self.placed:
                new = map_children(node, visit)
                self.placed[node] = new.replace(span=span) if isinstance(new, Call) and new.span is None else new
            return self.placed[node]

        mapped = visit(expr)
        assert isinstance(mapped, RelaxExpr)
        return mapped

    # -- checkpoints

    def _value_of(self, var: Var) -> RelaxExpr:
        """The variable bound here for one of the function; of a value that is not kept, one that computes it again."""
        if var in self.segment:
            if var not in self.recomputed:
                self._recompute(var)
            return self.recomputed[var]
        return self.forward.variables.get(var, var)

    def _recompute(self, var: Var) -> None:
        """Emit again the bindings of a segment that a variable depends on."""
        needed: set[Var] = set()
        pending = [var]
        while pending:
            current = pending.pop()
            if current in needed or current in self.recomputed or current not in self.segment:
                continue
            needed.add(current)
            binding = self.bindings[self.segment[current]]
            pending += () if _starts(binding.value) else _operands(binding.value)
        for each in sorted(needed, key=self.segment.__getitem__):
            self.recomputed[each] = self._again(self.bindings[self.segment[each]])

    def _again(self, binding: Binding) -> RelaxExpr:
        name, span = binding.var.name_hint, binding.value.span
        if isinstance(binding, MatchCast):
            return self.builder.match_cast(self._mapped(binding.value, span), binding.struct_info, name)
        if isinstance(binding.value, Call) and is_call_of(binding.value, Mark) and not _starts(binding.value):
            return self._mapped(binding.value.args[0], span)
        return self.builder.emit(self._mapped(binding.value, span), name)


def _starts(value: RelaxExpr) -> bool:
    return isinstance(value, Call) and is_call_of(value, StartCheckpoint)


def _operands(value: RelaxExpr) -> Iterator[Var]:
    """The variables among the operands of a binding's value, fields of tuples included."""
    match value:
        case Var():
            yield value
        case Tuple(items) | Call(args=items):
            for item in items:
                yield from _operands(item)
            if isinstance(value, Call) and isinstance(value.op, Var):
                yield value.op
        case TupleGetItem(whole):
            yield from _operands(whole)
        case _:
            return


def _has_rule(operator: Operator) -> bool:
    cls = type(operator)
    return cls.gradient is not Operator.gradient or cls.gradient_of_call is not Operator.gradient_of_call


def _lacks_shape(info: StructInfo | None) -> bool:
    return info is not None and any(
        isinstance(field, TensorStructInfo) and field.dims is None for field in fields_in(info)
    )
