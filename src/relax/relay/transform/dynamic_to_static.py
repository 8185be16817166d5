"""DynamicToStatic: operators with a shape as attribute, where the shape that is an operand is known.

    %0 = shape_of(%y, dtype="int64");          becomes    reshape(%x, newshape=[2, 6])
    dyn.reshape(%x, %0)                                   with %y: Tensor[(2, 6), float32]

A call of a ``dyn`` operator becomes one of its static form (`ops.dynamic`) if the operands that the form has as
attributes are constants, or fold to such (`FoldConstant`). The types that this makes known count for the calls behind
it, so that a chain of calls becomes static in one run. A call stays if its operands are computed from data, and if the
static form has another number of dimensions (`reshape` has codes that `dyn.reshape` has not). A program without a call
that becomes static stays as it is; in another one, constants are folded everywhere.
"""

from __future__ import annotations

from typing import Any, cast

from ...ir import DiagnosticError, Op
from ..attrs import Attrs
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem
from ..operator_types import apply_operator
from ..operators import make_attrs, operator_spec
from ..ops.dynamic import plain_attr, static_form
from ..scopes import nodes_with_parts
from ..types import Any as AnyDim
from ..types import TensorType, TupleType, Type, TypeVar
from .fold_constant import Folder, folded
from .rewriting import Program, ordered_rewrite, relay_pass


class _Static(Folder):
    """Folds constants, makes calls static, and keeps the types that this makes known."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        if isinstance(post, Call) and isinstance(post.op, Op):
            static = static_call(post)
            if static is not None and self._fits(static, pre):
                self.changed = True
                return static
        return super().rewrite(pre, post)

    def _rewritten(self, pre: Expr, post: Expr) -> Expr:
        self._narrow(pre, post)
        result = super()._rewritten(pre, post)
        if result is not post:
            self._narrow(pre, result)
        if isinstance(pre, Let):
            known = self.type_of(pre.body)
            if known is not None:
                self._types[result] = known
        return result

    def bind(self, let: Let) -> None:
        known = self.type_of(self.memo[let.value])
        if known is not None and self.memo.get(let.var, let.var) is let.var:
            self._types[let.var] = known

    def _narrow(self, pre: Expr, post: Expr) -> None:
        """Note the type of a node if more is known of it than inference could tell."""
        before = self.type_of(pre)
        if before is None or not _is_open(before) or isinstance(post, (If, Function, Constant)):
            return
        known = self._derived(post)
        if known is not None and _dimensions(known) == _dimensions(before):
            self._types[post] = known

    def _derived(self, post: Expr) -> Type | None:
        match post:
            case Call() if isinstance(post.op, Op):
                return self._result(post)
            case Tuple(fields):
                types = [self.type_of(field) for field in fields]
                return TupleType([t for t in types if t is not None]) if None not in types else None
            case TupleGetItem(tuple_value, index):
                whole = self.type_of(tuple_value)
                return whole.fields[index] if isinstance(whole, TupleType) else None
            case _:
                return None

    def _result(self, call: Call) -> Type | None:
        """The type of an operator's call, from what is known of its operands; None if that says too little."""
        types = [self.type_of(arg) for arg in call.args]
        known = [t for t in types if t is not None]
        if len(known) < len(types):
            return None
        try:
            return apply_operator(tuple(known), (call.op, call.attrs, call.args), call.span)
        except DiagnosticError:
            return None

    def _fits(self, static: Call, pre: Expr) -> bool:
        before, known = self.type_of(pre), self._result(static)
        return before is not None and known is not None and _dimensions(known) == _dimensions(before)


def static_call(call: Call) -> Call | None:
    """The call of the static form; None if the operator has none, or an operand that it needs is no constant."""
    form = static_form(cast(Op, call.op))
    if form is None:
        return None
    op = Op.get(form.name)
    spec = operator_spec(op)
    assert spec is not None
    own: Any = {} if call.attrs is None else dict(call.attrs.items())
    values: dict[str, Any] = {field.name: own[field.name] for field in spec.attrs if field.name in own}
    for name, position in form.attrs.items():
        operand = call.args[position]
        if not isinstance(operand, Constant):
            return None
        values[name] = plain_attr(op, name, operand.data)
    operands = [arg for i, arg in enumerate(call.args) if i not in form.attrs.values()]
    try:
        attrs: Attrs | None = make_attrs(op, values, call.span)
    except DiagnosticError:
        return None
    return Call(op, operands, attrs, span=call.span)


def _is_open(type_: Type) -> bool:
    """True if a dimension of the type is `Any`."""
    match type_:
        case TensorType(shape):
            return not isinstance(shape, TypeVar) and any(isinstance(dim, AnyDim) for dim in shape)
        case TupleType(fields):
            return any(map(_is_open, fields))
        case _:
            return False


def _dimensions(type_: Type) -> Any:
    """The numbers of dimensions and the dtypes of a type; None for a part that is no tensor."""
    match type_:
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar):
            return len(shape), str(dtype)
        case TupleType(fields):
            return [_dimensions(field) for field in fields]
        case _:
            return None


def dynamic_to_static(expr: Expr, program: Program | None = None) -> Expr:
    """The typed expression with operators of known shapes made static; itself if there are none."""
    program = Program() if program is None else program

    def change(ordered: Expr) -> Expr:
        static = _Static()
        result = folded(static, ordered, program)
        return result if static.changed else ordered

    has_dynamic = any(
        isinstance(node, Call) and isinstance(node.op, Op) and static_form(node.op) is not None
        for node in nodes_with_parts(expr)
    )
    return ordered_rewrite(expr, program, change) if has_dynamic else expr


@relay_pass("DynamicToStatic", opt_level=3, required=["InferType"])
def DynamicToStatic(function: Function, program: Program) -> Expr:
    """Make ``dyn`` operators static whose shapes are known, in every function."""
    return dynamic_to_static(function, program)


__all__ = ["DynamicToStatic", "dynamic_to_static"]
