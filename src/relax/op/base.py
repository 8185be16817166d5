"""The base of operators: calling, inferring and lowering, for the classes that `operator` declares.

A call is made from converted arguments; inference checks their kinds and asks `infer`; lowering writes `compute`
down as a call_tir. How an operator is declared is told in `relax.op.operator`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from typing_extensions import dataclass_transform

from .. import te, topi
from ..expr import Call, DataTypeImm, ExternFunc, PrimValue, StringImm, Tuple, TupleGetItem
from ..info.mapping import fields_in, map_fields
from ..ir import (
    DataType,
    Diagnostic,
    DiagnosticError,
    Node,
    Op,
    RelaxExpr,
    Span,
    StructInfo,
    VDevice,
    child,
    same_vdevice,
    vdevice_text,
)
from ..ir.python_source import user_span
from ..prim import PrimExpr
from ..runtime.builtin_table import BUILTINS, PACKED, Effects
from ..struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..target import Target
from .attributes import AttributeValueError
from .dims import collect_checks, normalize_axis
from .errors import ATTRIBUTES, DEVICES, DTYPES, OPERANDS, OperatorError, Shown, diagnose
from .facts import Axes, Exactness, MixedPrecision, Permuted, pointwise
from .known import DEFERRED, known_struct_info, remember
from .operands import DTYPE_CLASSES, KIND_NAMES, Kind, Operand, as_argument, is_absent, weakest

_CALLED_THROUGH: Final = ("op/", "expr.py", "ir/expr.py")
"""Files and folders of this package that may stand between the user's call of an operator and this one."""

Array: TypeAlias = Any
"""A NumPy array, in references. (NumPy's own types leave too much unknown to say more.)"""


Term: TypeAlias = Any
"""An expression in a gradient, with Python's operators."""

Gradients: TypeAlias = "Sequence[RelaxExpr | None]"
"""One gradient per operand, None for an operand that gets none."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(child, dataclasses.field))
class Operator(Node):
    """The base of operators. How one is declared is told in `relax.op.operator`."""

    __slots__ = ()

    op_name: ClassVar[str] = ""
    """The registered name, ``relax.nn.softmax``."""
    operands: ClassVar[tuple[Operand, ...]] = ()
    """The operands, read from `infer`'s parameters."""
    result_kind: ClassVar[Kind] = StructInfo
    """The kind of result, read from `infer`'s return annotation."""
    attribute_names: ClassVar[tuple[str, ...]] = ()

    pure: ClassVar[bool] = True
    """True if a call has no effect but its result."""
    takes_sinfo_args: ClassVar[bool] = False
    """True if a call says itself what it returns, in its sinfo_args: some intrinsics'."""
    packed: ClassVar[str | None] = None
    """The packed function of the runtime that implements it, where a formula cannot (data-dependent shapes).
    It is called with the operands, then the attributes in order."""
    total: ClassVar[bool] = False
    """True if a call gives a value whatever the elements of its operands are, provided their kinds, dtypes and sizes
    are known and fit. False is the safe answer: a call that may fail stays where its error would be seen.
    """
    exactness: ClassVar[Exactness] = Exactness.NEVER
    """Dtypes of operands for which `reference` gives the bits of every kernel, so that it may fold constants."""
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    """The dtype of float operands in a program that is converted to a narrow float dtype."""
    accuracy: ClassVar[float | None] = None
    """The greatest error of an element of the result in units in the last place, as docs/numerics.md defines them;
    None where elements are exact, or where no such bound is stated.
    """
    effects: ClassVar[Effects] = Effects()
    """Effects of a call on its operands, as evaluation defines them (language.md §7). The default: it reads them, and
    its result is fresh. A `packed` function that is a builtin says it in its own declaration.
    """
    elementwise: ClassVar[bool] = False
    """True if each element of the result depends only on the elements at its place in the operands, which broadcast."""
    commutative: ClassVar[bool] = False
    """True if the two operands may change places."""
    view: ClassVar[bool] = False
    """True if the result holds the first operand's elements in the same order, so that it may share its
    storage.
    """
    kernel: ClassVar[str] = ""
    """The name of the PrimFunc, where the formula is a method and the operator's own name is not TVM's."""
    needs_concrete_ndim: ClassVar[bool] = True
    """True if `compute` needs to know the ranks of its tensors."""
    propagates_vdevice: ClassVar[bool] = True
    """True if the result is placed where the operands are (and these must agree)."""

    # What the class's own methods or formulas replace. (Not ClassVar, so that methods may override them; this base
    # declares no fields.)
    infer: Any = None
    infer_from_call: Any = None
    compute: Any = None
    reference: Any = None
    make: Any = None

    @classmethod
    def inherited_default(cls, value: Any) -> Any:
        """Default of an attribute declared in a base class with the default `value`; may depend on the class."""
        return value

    def spelled(self, attribute: str, value: Any) -> Any:
        """The value that an attribute has when it is given as `value`. Raises ValueError or TypeError for no value."""
        return getattr(self.replace(**{attribute: value}), attribute)

    @property
    def short_name(self) -> str:
        """The name without ``relax.``, as errors show it."""
        return self.op_name.removeprefix("relax.")

    # ------------------------------------------------------------------------------------ calling

    def call(self, *arguments: Any, sinfo_args: Sequence[StructInfo] = ()) -> Call:
        """A call of this operator. Arguments are converted; optional ones may be left out or None."""
        return make_call(self, arguments, sinfo_args)

    def raw_call(
        self, args: Sequence[RelaxExpr], sinfo_args: Sequence[StructInfo] = (), span: Span | None = None
    ) -> Call:
        """A call of this operator on expressions as they are: nothing is converted or checked."""
        return Call(Op.get(self.op_name), tuple(args), self, tuple(sinfo_args), span=span)

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The arguments as a user gave them, made ready for conversion: where they depend on each other."""
        return arguments

    # -------------------------------------------------------------------------------- effects

    def call_effects(self, call: Call) -> Effects:
        """Effects of a call on its arguments."""
        if self.packed is None:
            return self.effects
        return BUILTINS[self.packed].effects if self.packed in BUILTINS else PACKED

    def reused(self, call: Call) -> tuple[RelaxExpr, tuple[int, ...]]:
        """Arguments as a tuple, and the indices of those that a call changes in place and returns."""
        return Tuple(()), ()

    # ---------------------------------------------------------------------------------- inferring

    def require(
        self,
        condition: bool,
        operand: str,
        expected: str,
        *,
        code: str = DTYPES,
        found: str = "",
        hint: str = "",
    ) -> None:
        """Complain that an operand is not as expected ("a tensor of …") unless the condition holds."""
        if not condition:
            tail = f", found {found}" if found else ""
            raise OperatorError(code, f"{operand} must be {expected}{tail}", operand=operand, hint=hint)

    def require_dtype(self, info: TensorStructInfo, operand: str, *classes: str) -> None:
        """Complain unless the dtype is one of: "float", "int", "uint", "bool" (or is not known)."""
        dtype = info.dtype
        allowed = any(getattr(dtype, f"is_{name}") for name in classes) or dtype.is_void
        wanted = " or ".join(DTYPE_CLASSES[name] for name in classes)
        self.require(allowed, operand, f"a tensor of {wanted}", found=str(dtype))

    def require_attribute(self, condition: bool, attribute: str, expected: str, *, hint: str = "") -> None:
        """Complain that an attribute is not as expected ("a positive integer") unless the condition holds."""
        if not condition:
            found = getattr(self, attribute)
            raise OperatorError(ATTRIBUTES, f"{attribute} must be {expected}, found {found!r}", hint=hint)

    def require_axis(self, axis: int, data: TensorStructInfo, operand: str = "data") -> int | None:
        """The axis counted from the front, None while the rank is unknown; complains if there is no such."""
        return None if data.ndim == -1 else normalize_axis(axis, data.ndim, "axis", operand)

    def weakest_result(self, infos: Sequence[StructInfo | None]) -> StructInfo:
        """The result where the kind of some operand is not known; `infos` tells of the others."""
        return weakest((self.result_kind,)) or ObjectStructInfo()

    # --------------------------------------------------------------------------- transforming

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        """The same computation with the dimensions of the first tensor operand permuted by `axes`.

        (Of an element-wise operator: the dimensions of the largest operand, to which others are broadcast.)
        `infos` are the struct infos of the operands. None, the default: the computation depends on the order of
        dimensions, or too little is known of the operands.
        """
        return pointwise(self, axes, infos) if self.elementwise else None

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        """The same computation with operands in the layouts named, "NHWC"; the last may be that of the result.

        Raises OperatorError for layouts that cannot be had, as the default does: the operator has no layouts. None:
        too little is known of the operands.
        """
        raise OperatorError(ATTRIBUTES, "has no layouts", hint="its operands follow the layouts of others")

    def narrowed(self, out_dtype: DataType) -> Operator:
        """The operator for a call whose float operands are made narrow, with a result of `out_dtype` if that is free.

        The default: it is where the operator has an attribute `out_dtype` that says nothing yet.
        """
        return self.replace(out_dtype=out_dtype) if getattr(self, "out_dtype", None) == "" else self

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """The gradients of a scalar by each operand of a call, given its gradient `grad` by the result.

        A gradient has the struct info of its operand; it is None where the result does not depend on the operand,
        or only in steps (integers, conditions, shapes). No gradients at all, the default: the operator has no rule,
        or the rule needs shapes that are not known. `operands`, `result` and `grad` are variables or other leaves.
        """
        return None

    def gradient_of_call(self, builder: Any, call: Call, result: Term, grad: Term) -> Gradients | None:
        """`gradient` of a call, where a BlockBuilder is at hand: for operators whose gradient is a new kernel."""
        return self.gradient(call.args, result, grad)

    # ---------------------------------------------------------------------------------- lowering

    def formula(self, *values: Any) -> Any:
        """`compute` of operands in its own terms (te.Tensor, PrimExpr, …): a tensor, or a list of them."""
        return self._apply("compute", values)

    def evaluate(self, *values: Any) -> Any:
        """`reference` of arrays, shapes, numbers and lists: an array, or a tuple of them."""
        return self._apply("reference", values)

    def _apply(self, which: str, values: tuple[Any, ...]) -> Any:
        function: Any = getattr(type(self), which)
        if function is None:
            raise TypeError(f"{self.short_name} has no {which}")
        if inspect.isfunction(function) and is_method(function):
            return function(self, *values)
        return function(*values, **{name: getattr(self, name) for name in self.attribute_names})

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """The replacement of a call in LegalizeOps: a call_tir of the formula, or a call of the packed function.

        The call itself where neither is possible yet (a rank or dtype is unknown) or the operator has
        neither.
        """
        if self.packed is not None:
            return self.packed_call(self.packed, call, builder)
        if self.compute is None or not self.can_compute(call):
            return call
        pairs = self.arguments(call)
        absent = [operand.optional and is_absent(arg) for operand, arg in pairs]
        given = [arg for (_, arg), left_out in zip(pairs, absent, strict=True) if not left_out]

        def formula(*values: Any) -> Any:
            rest = iter(values)
            return self.checked_formula(call, [None if left_out else next(rest) for left_out in absent])

        try:
            return builder.call_te(formula, *given, primfunc_name_hint=self.kernel_name())
        except OperatorError as error:  # sizes became known since the call was derived, and do not fit
            shown = [Shown(operand.name, arg, known_struct_info(arg)) for operand, arg in pairs]
            raise diagnose(error, self.short_name, shown, call.span) from None

    def legalize_for(self, target: Target, builder: Any, call: Call) -> RelaxExpr | None:
        """The replacement of a call on one target, asked before `legalize`; None where that serves as everywhere."""
        return None

    def kernel_name(self) -> str:
        """The name of the PrimFunc: the formula's where it is one of topi's, as TVM names it; else the operator's."""
        module, name = getattr(self.compute, "__module__", ""), getattr(self.compute, "__name__", "")
        if module.startswith(topi.__name__) and name.isidentifier():
            return name
        return self.kernel or self.short_name.rpartition(".")[2]

    def packed_call(self, function: str, call: Call, builder: Any) -> RelaxExpr:
        """The call as one of a packed function of the runtime, which takes the operands, then the attributes."""
        attributes = tuple(_as_value(getattr(self, name)) for name in self.attribute_names)
        arguments = (ExternFunc(function), *call.args, *attributes)
        info = call.struct_info
        packed = _operator("relax.call_pure_packed").raw_call(arguments, (_unplaced(info),), call.span)
        return _moved(builder, packed, info)

    def checked_formula(self, call: Call, values: Sequence[Any]) -> Any:
        """`formula`, whose kernel asserts what inference could not decide about the sizes at hand."""
        infos = [
            _info_of(value, o) for o, value in zip(expand_operands(self, len(values)), values, strict=True)
        ]
        with collect_checks() as checks:
            infer_operands(self, call, None, infos)
        result: Any = self.formula(*values)
        if checks:
            tensors: Any = result
            first = cast("te.Tensor", tensors[0] if isinstance(tensors, (list, tuple)) else tensors)
            first.op.attrs["requires"] = tuple((check.condition, check.message) for check in checks)
        return result

    def can_compute(self, call: Call) -> bool:
        """True if enough is known of a call's operands to write its formula down."""
        infos = [known_struct_info(arg) for arg in call.args]
        return all(info is not None and _is_concrete(info, self.needs_concrete_ndim) for info in infos)

    def arguments(self, call: Call) -> list[tuple[Operand, RelaxExpr]]:
        """The call's arguments with their operands. Raises OperatorError for a wrong number of them."""
        return list(zip(expand_operands(self, len(call.args)), call.args, strict=True))


def _info_of(value: Any, operand: Operand) -> StructInfo | None:
    """The struct info of an operand given as a tensor expression."""
    if isinstance(value, te.Tensor):
        return TensorStructInfo(value.shape, value.dtype)
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[Any]", value)
        if operand.takes(ShapeStructInfo):
            return ShapeStructInfo(tuple(items))
        return TupleStructInfo(tuple(_info_of(item, operand) or ObjectStructInfo() for item in items))
    if isinstance(value, PrimExpr):
        return PrimStructInfo(value=value)
    return None if value is None else ObjectStructInfo()


def is_method(function: Any) -> bool:
    """True if a formula or reference is a method of its class, rather than a function of the operands."""
    return next(iter(inspect.signature(function).parameters), "") == "self"


def _is_concrete(info: StructInfo, rank: bool) -> bool:
    def known(field: StructInfo) -> bool:
        if isinstance(field, TensorStructInfo):
            return not field.dtype.is_void and (field.ndim != -1 or not rank)
        return not isinstance(field, ObjectStructInfo)

    return all(map(known, fields_in(info)))


def _operator(name: str, *attributes: Any) -> Operator:
    """An operator of a module above this one."""
    return Op.get(name).get_attr("operator_class")(*attributes)


def _moved(builder: Any, value: RelaxExpr, info: StructInfo) -> RelaxExpr:
    """The result of a runtime function, which is on the host's first device, moved to the device of `info`.

    Where that says nothing, but the module lists virtual devices, the first one is where tensors are made.
    """
    listed: Sequence[VDevice] = getattr(builder, "vdevices", ())
    if isinstance(info, TupleStructInfo) and listed:
        whole = builder.emit(value)
        fields = [TupleGetItem(whole, i, span=value.span) for i in range(len(info.fields))]
        return Tuple(tuple(_moved(builder, f, i) for f, i in zip(fields, info.fields, strict=True)))
    vdevice = info.vdevice if isinstance(info, TensorStructInfo) else None
    if vdevice is None and listed and isinstance(info, TensorStructInfo):
        vdevice = listed[0]
    if vdevice is None:
        return value
    return _operator("relax.to_vdevice", vdevice).raw_call((builder.emit(value),), (), value.span)


def _unplaced(info: StructInfo) -> StructInfo:
    """Struct info without the devices of tensors."""

    def unplaced(field: StructInfo) -> StructInfo:
        placed = isinstance(field, TensorStructInfo) and field.vdevice is not None
        return field.replace(vdevice=None) if placed else field

    return map_fields(info, unplaced)


def _as_value(value: Any) -> RelaxExpr:
    """An attribute as an argument of a packed function; None is the null object."""
    if value is None:
        return _operator("relax.null_value").raw_call(())
    if isinstance(value, DataType):
        return DataTypeImm(value)
    return StringImm(value) if isinstance(value, str) else PrimValue(value)


def expand_operands(operator: Operator, count: int) -> list[Operand]:
    """One operand per argument. Raises OperatorError if so many cannot be given."""
    operands = operator.operands
    if operands and operands[-1].variadic:
        fixed = operands[:-1]
        if count >= len(fixed):
            return [*fixed, *[operands[-1]] * (count - len(fixed))]
    elif sum(not operand.optional for operand in operands) <= count <= len(operands):
        return list(operands[:count])
    least, most = sum(not (o.optional or o.variadic) for o in operands), len(operands)
    names = ", ".join(operand.name for operand in operands) or "none"
    number = (
        f"{least}"
        if least == most
        else f"at least {least}"
        if operands[-1].variadic
        else f"{least} to {most}"
    )
    raise OperatorError(OPERANDS, f"takes {number} operand{'s' * (number != '1')} ({names}), found {count}")


# ------------------------------------------------------------------------------------------- calls


def make_call(operator: Operator, arguments: Sequence[Any], sinfo_args: Sequence[StructInfo] = ()) -> Call:
    """A call of an operator with converted arguments.

    Raises DiagnosticError for what cannot be one, and for operands whose struct info is known and does not fit.
    """
    try:
        given = list(operator.prepare(arguments))
        while given and given[-1] is None:
            given.pop()
        operands = expand_operands(operator, len(given))
        args = tuple(
            as_argument(operand, value, operator.short_name)
            for operand, value in zip(operands, given, strict=True)
        )
    except OperatorError as error:
        raise diagnose(error, operator.short_name, (), user_span(*_CALLED_THROUGH)) from None
    call = Call(Op.get(operator.op_name), args, operator, tuple(sinfo_args))
    # Calls of functions need the module to infer from: they have no formula.
    alone = operator.infer is not None if operator.infer_from_call is None else operator.compute is not None
    if alone and not DEFERRED.get():
        _infer_early(call)
    return call


def _infer_early(call: Call) -> None:
    """Infer a call as soon as it is made, if its operands are known, so that an error is raised there."""
    if any(known_struct_info(arg) is None for arg in call.args):
        return
    try:
        info = infer_call(call)
    except DiagnosticError as error:
        raise error.placed(user_span(*_CALLED_THROUGH)) from None
    except (TypeError, ValueError, AttributeError, LookupError):
        return  # normalisation will report it, with its place
    remember(call, info)


def make_operator(cls: type[Operator], attributes: dict[str, Any]) -> Operator:
    """The instance with these attributes. Raises DiagnosticError for a value an attribute does not take."""
    try:
        return cls(**attributes)  # type: ignore[reportCallIssue]
    except AttributeValueError as error:
        name = cls.op_name.removeprefix("relax.")
        span = user_span(*_CALLED_THROUGH)
        raise DiagnosticError(Diagnostic(ATTRIBUTES, f"{name}: {error}", span)) from None


def operator_of(call: Call) -> Operator | None:
    """The operator instance of a call; None if the callee is not an operator that has a class.

    A call made without attributes is of the operator with its defaults.
    """
    if not isinstance(call.op, Op):
        return None
    if isinstance(call.attrs, Operator):
        return call.attrs
    cls = operator_class(call.op)
    return None if cls is None else make_operator(cls, {})


def operator_class(op: Node) -> type[Operator] | None:
    """The class of an operator; None for an Op without one, and for any other callee."""
    return op.get_attr("operator_class") if isinstance(op, Op) else None


def class_named(name: str) -> type[Operator] | None:
    """The class of the operator of this name; None if there is no such operator, or it has no class."""
    return operator_class(Op.get(name)) if Op.exists(name) else None


def is_call_of(expr: Node, *classes: type[Operator]) -> bool:
    """True for a call of an operator of one of these classes."""
    cls = operator_class(expr.op) if isinstance(expr, Call) else None
    return cls is not None and issubclass(cls, classes)


# ----------------------------------------------------------------------------------------- inference


def infer_call(call: Call, builder: Any = None) -> StructInfo:
    """FInferStructInfo of every operator class: check the operands' kinds, then ask `infer`."""
    operator = operator_of(call)
    if operator is None:
        raise TypeError("infer_call: the callee is not an operator")
    shown: list[Shown] = []
    try:
        pairs = operator.arguments(call)
        infos: list[StructInfo | None] = []
        for operand, arg in pairs:
            info = known_struct_info(arg)
            shown.append(Shown(operand.name, arg, info))
            infos.append(_checked_kind(operand, arg, info))
        return _infer(operator, call, pairs, infos, builder)
    except OperatorError as error:
        raise diagnose(error, operator.short_name, shown, call.span) from None


class _Unknown(StructInfo):
    """Marks an operand whose kind is not known and has no weakest form."""

    __slots__ = ()


_UNKNOWN = _Unknown()


def _checked_kind(operand: Operand, arg: RelaxExpr, info: StructInfo | None) -> StructInfo | None:
    """The info `infer` gets for an operand: None if it was left out, weakest if nothing is known."""
    if operand.optional and is_absent(arg):
        return None
    if info is not None and operand.accepts(info):
        return info
    if info is None or isinstance(info, ObjectStructInfo):
        return weakest(operand.kinds) or _UNKNOWN
    found = next((text for kind, text in KIND_NAMES.items() if isinstance(info, kind)), "a value")
    raise OperatorError(
        OPERANDS, f"{operand.name} must be {operand.wanted}, found {found}", operand=operand.name
    )


def _infer(
    operator: Operator,
    call: Call,
    pairs: list[tuple[Operand, RelaxExpr]],
    infos: list[StructInfo | None],
    builder: Any,
) -> StructInfo:
    if any(info is _UNKNOWN for info in infos):
        return operator.weakest_result(infos)
    result = infer_operands(operator, call, builder, infos)
    if operator.propagates_vdevice:
        vdevice = _common_vdevice(pairs, infos)
        return result if vdevice is None else _placed(result, vdevice)
    return result


def infer_operands(
    operator: Operator, call: Call, builder: Any, infos: Sequence[StructInfo | None]
) -> StructInfo:
    """`infer` (or `infer_from_call`) of operands whose kinds have been checked. Raises OperatorError."""
    if operator.infer_from_call is not None:
        return operator.infer_from_call(call, builder, *infos)
    return operator.infer(*infos)


def _common_vdevice(
    pairs: list[tuple[Operand, RelaxExpr]], infos: Iterable[StructInfo | None]
) -> VDevice | None:
    """The device of the tensor operands, None if none says; two that disagree are an error."""
    found: tuple[str, VDevice] | None = None
    for (operand, _), info in zip(pairs, infos, strict=True):
        for vdevice in _vdevices(info):
            if found is None:
                found = operand.name, vdevice
            elif not same_vdevice(found[1], vdevice):
                raise OperatorError(
                    DEVICES,
                    "the operands are on different devices",
                    remarks={
                        found[0]: f"on {vdevice_text(found[1])}",
                        operand.name: f"on {vdevice_text(vdevice)}",
                    },
                    hint="move one of them with R.to_vdevice",
                )
    return None if found is None else found[1]


def _vdevices(info: StructInfo | None) -> list[VDevice]:
    fields = () if info is None else fields_in(info)
    return [f.vdevice for f in fields if isinstance(f, TensorStructInfo) and f.vdevice is not None]


def _placed(info: StructInfo, vdevice: VDevice) -> StructInfo:
    """The result's info with its tensors on the device of the operands; one that says otherwise is an error."""

    def placed(field: StructInfo) -> StructInfo:
        if not isinstance(field, TensorStructInfo):
            return field
        if field.vdevice is None:
            return field.replace(vdevice=vdevice)
        if not same_vdevice(field.vdevice, vdevice):
            found = (
                f"the operands are on {vdevice_text(vdevice)}, the result on {vdevice_text(field.vdevice)}"
            )
            raise OperatorError(DEVICES, found, hint="move the operands with R.to_vdevice")
        return field

    return map_fields(info, placed)
