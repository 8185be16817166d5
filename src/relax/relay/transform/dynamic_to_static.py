"""DynamicToStatic: replace operators with a constant shape operand by those with a shape attribute.

    %0 = shape_of(%y, dtype="int64");          becomes    reshape(%x, newshape=[2, 6])
    dyn.reshape(%x, %0)                                   with %y: Tensor[(2, 6), float32]

A call of a ``dyn`` operator becomes one of its static form (`ops.dynamic`) if the corresponding operands are constants,
or fold to constants (`FoldConstant`). The refined types are used for later calls, so a chain becomes static in one run.
A call stays if the operands depend on data, or if the static form would have another rank (`reshape` has codes that
`dyn.reshape` lacks). A program in which no call becomes static is unchanged; otherwise constants are folded everywhere.
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
    """Folds constants, makes calls static, and tracks the refined types."""

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
            refined = self.type_of(pre.body)
            if refined is not None:
                self._types[result] = refined
        return result

    def bind(self, let: Let) -> None:
        refined = self.type_of(self.memo[let.value])
        if refined is not None and self.memo.get(let.var, let.var) is let.var:
            self._types[let.var] = refined

    def _narrow(self, pre: Expr, post: Expr) -> None:
        """Record the refined type of a node, if it is more precise than the inferred one."""
        before = self.type_of(pre)
        if before is None or not _is_open(before) or isinstance(post, (If, Function, Constant)):
            return
        refined = self._derived(post)
        if refined is not None and _dimensions(refined) == _dimensions(before):
            self._types[post] = refined

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
        """Type of an operator call from the refined operand types, or None if it cannot be derived."""
        types = [self.type_of(arg) for arg in call.args]
        known_types = [t for t in types if t is not None]
        if len(known_types) < len(types):
            return None
        try:
            return apply_operator(tuple(known_types), (call.op, call.attrs, call.args), call.span)
        except DiagnosticError:
            return None

    def _fits(self, static: Call, pre: Expr) -> bool:
        before, refined = self.type_of(pre), self._result(static)
        return before is not None and refined is not None and _dimensions(refined) == _dimensions(before)


def static_call(call: Call) -> Call | None:
    """Return the call of the static form, or None if there is none or a needed operand is no constant."""
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
    """Ranks and dtypes of a type; None for parts other than tensors."""
    match type_:
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar):
            return len(shape), str(dtype)
        case TupleType(fields):
            return [_dimensions(field) for field in fields]
        case _:
            return None


def dynamic_to_static(expr: Expr, program: Program | None = None) -> Expr:
    """Return the typed expression with ``dyn`` operators of constant shapes made static; itself if there are none."""
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
    """Make ``dyn`` operators with constant shapes static, in every function."""
    return dynamic_to_static(function, program)
