"""Base class of operators: calls, inference and lowering, for the classes that `operator` declares.

A call is built from converted arguments; inference checks their kinds and calls `infer`; lowering converts `compute` to
a call_tir. See `relax.op.operator` for how to declare one.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
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
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..target import Target
from .attributes import AttributeValueError
from .dims import collect_checks, normalize_axis
from .errors import ATTRIBUTES, DEVICES, DTYPES, OPERANDS, OperatorError, Shown, UnknownSizeError, diagnose
from .facts import Axes, Exactness, MixedPrecision, Order, Permuted, pointwise, pointwise_blocked
from .known import DEFERRED, known_struct_info, remember, remember_inferred
from .operands import ANY, DTYPE_CLASSES, KIND_NAMES, Kind, Operand, as_argument, is_absent, weakest

_CALLED_THROUGH: Final = ("op/", "expr.py", "ir/expr.py")
"""Files and folders of this package that may be on the stack between the user's call of an operator and its check."""

Array: TypeAlias = Any
"""A NumPy array in a reference implementation. (NumPy's own types are too imprecise.)"""


Term: TypeAlias = Any
"""An expression in a gradient formula, with Python's operators."""

Gradients: TypeAlias = "Sequence[RelaxExpr | None]"
"""One gradient per operand; None for an operand without gradient."""


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(child, dataclasses.field))
class Operator(Node):
    """Base class of operators. See `relax.op.operator` for how to declare one."""

    __slots__ = ()

    op_name: ClassVar[str] = ""
    """Registered name, such as ``relax.nn.softmax``."""
    operands: ClassVar[tuple[Operand, ...]] = ()
    """Operands, derived from `infer`'s parameters."""
    result_kind: ClassVar[Kind] = StructInfo
    """Kind of struct info of the result, derived from `infer`'s return annotation."""
    attribute_names: ClassVar[tuple[str, ...]] = ()

    pure: ClassVar[bool] = True
    """True if a call has no side effects."""
    takes_sinfo_args: ClassVar[bool] = False
    """True if a call states its result's struct info in `sinfo_args`, as some intrinsics do."""
    packed: ClassVar[str | None] = None
    """Packed runtime function that implements the operator if no formula can (data-dependent shapes). It is called with
    the operands, then the attributes in order."""
    takes: ClassVar[tuple[str, ...]] = ANY
    """Dtype classes of the operands that hold data. Booleans are among them if NumPy or torch accept them without a
    conversion to numbers; sums and products of booleans count in int64.
    """
    total: ClassVar[bool] = False
    """True if a call whose operands have known and valid kinds, dtypes and dimensions cannot raise, for any elements.
    False is the safe answer: a call that may raise stays in place.
    """
    exactness: ClassVar[Exactness] = Exactness.NEVER
    """Operand dtypes for which `reference` is bit-identical to every kernel and may fold constants."""
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    """Treatment of float operands when a program is converted to a narrow float dtype."""
    accuracy: ClassVar[float | None] = None
    """Error bound of a result element in units in the last place, as defined in docs/numerics.md; None if elements are
    exact or no bound is stated.
    """
    effects: ClassVar[Effects] = Effects()
    """Effects of a call on its operands (language.md §7). Default: operands are read, and the result is freshly
    allocated. The effects of a builtin `packed` function are in the builtin's own declaration.
    """
    elementwise: ClassVar[bool] = False
    """True if each result element depends only on the operand elements at the same index, after broadcasting."""
    commutative: ClassVar[bool] = False
    """True if exchanging the two operands does not change the result."""
    view: ClassVar[bool] = False
    """True if the result holds the first operand's elements in the same order and may alias its storage.
    """
    size_operands: ClassVar[tuple[int, ...]] = ()
    """Positions of operands whose constant numbers are sizes, which a kernel for all shapes takes as arguments."""
    keeps_ones: ClassVar[bool] = False
    """True if sizes of 1 stay constants in a kernel for all shapes: a matrix product of one row has faster loops."""
    kernel: ClassVar[str] = ""
    """Name of the PrimFunc if `compute` is a method and TVM's name differs from the operator's."""
    needs_concrete_ndim: ClassVar[bool] = True
    """True if `compute` requires operands of known rank."""
    propagates_vdevice: ClassVar[bool] = True
    """True if the result is on the virtual device of the operands, which must agree."""

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
        """Return the converted form of `value` for an attribute. Raises ValueError or TypeError if it is not
        accepted.
        """
        return getattr(self.replace(**{attribute: value}), attribute)

    @property
    def short_name(self) -> str:
        """Operator name without ``relax.``, as errors show it."""
        return self.op_name.removeprefix("relax.")

    # ------------------------------------------------------------------------------------ calling

    def call(self, *arguments: Any, sinfo_args: Sequence[StructInfo] = ()) -> Call:
        """Build a call of this operator. Arguments are converted; optional ones may be omitted or None."""
        return make_call(self, arguments, sinfo_args)

    def raw_call(
        self, args: Sequence[RelaxExpr], sinfo_args: Sequence[StructInfo] = (), span: Span | None = None
    ) -> Call:
        """Build a call of this operator on expressions, without conversion or checks."""
        return Call(Op.get(self.op_name), tuple(args), self, tuple(sinfo_args), span=span)

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Preprocess a user's arguments that depend on each other, before conversion."""
        return arguments

    # -------------------------------------------------------------------------------- effects

    def call_effects(self, call: Call) -> Effects:
        """Effects of a call on its arguments."""
        if self.packed is None:
            return self.effects
        return BUILTINS[self.packed].effects if self.packed in BUILTINS else PACKED

    def reused(self, call: Call) -> tuple[RelaxExpr, tuple[int, ...]]:
        """Return (arguments as a tuple, indices of arguments that a call modifies in place and returns)."""
        return Tuple(()), ()

    # ---------------------------------------------------------------------------------- inferring

    def require(
        self, condition: bool, operand: str, expected: str, *, code: str = DTYPES, found: str = "", hint: str = ""
    ) -> None:
        """Raise OperatorError that an operand is not as expected ("a tensor of …") unless the condition holds."""
        if not condition:
            tail = f", found {found}" if found else ""
            raise OperatorError(code, f"{operand} must be {expected}{tail}", operand=operand, hint=hint)

    def require_dtype(self, info: TensorStructInfo, operand: str, *classes: str) -> None:
        """Raise OperatorError unless `dtype` is unknown or in one of the classes "float", "int", "uint", "bool"."""
        dtype = info.dtype
        allowed = any(getattr(dtype, f"is_{name}") for name in classes) or dtype.is_void
        wanted = " or ".join(DTYPE_CLASSES[name] for name in classes)
        self.require(allowed, operand, f"a tensor of {wanted}", found=str(dtype))

    def require_attribute(self, condition: bool, attribute: str, expected: str, *, hint: str = "") -> None:
        """Raise OperatorError that an attribute is not as expected ("a positive integer") unless the condition
        holds.
        """
        if not condition:
            actual = getattr(self, attribute)
            raise OperatorError(ATTRIBUTES, f"{attribute} must be {expected}, found {actual!r}", hint=hint)

    def require_axis(self, axis: int, data: TensorStructInfo, operand: str = "data") -> int | None:
        """Return the axis as a non-negative index, None if the rank is unknown. Raises OperatorError if out of
        range.
        """
        return None if data.ndim == -1 else normalize_axis(axis, data.ndim, "axis", operand)

    def weakest_result(self, infos: Sequence[StructInfo | None]) -> StructInfo:
        """Return the result's struct info if the kind of some operand is unknown; `infos` holds None for these."""
        return weakest((self.result_kind,)) or ObjectStructInfo()

    # --------------------------------------------------------------------------- transforming

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        """Return an equivalent call with the dimensions of the first tensor operand permuted by `axes`.

        For an element-wise operator, `axes` permutes the operand of highest rank, to which the others broadcast.
        `infos` are the struct infos of the operands. Default: None, if the computation depends on the order of
        dimensions or the operands' ranks are unknown.
        """
        return pointwise(self, axes, infos) if self.elementwise else None

    def blocked(self, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
        """Return an equivalent call as `permuted`, with dimensions split by `order` as in a packed layout (NCHW16c).

        Default: None unless the operator is element-wise. None, too, if a size may be no multiple of the parts.
        """
        return pointwise_blocked(self, order, infos) if self.elementwise else None

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        """Return an equivalent call with operands in `layouts` (such as "NHWC"); an extra last one is the result's.

        Raises OperatorError for unsupported layouts; the default supports none. Returns None if too little is known of
        the operands.
        """
        raise OperatorError(ATTRIBUTES, "has no layouts", hint="its operands follow the layouts of others")

    def narrowed(self, out_dtype: DataType) -> Operator:
        """Return the operator for a call with float operands narrowed; `out_dtype` becomes its result dtype if unset.

        Default: set an attribute `out_dtype` that is void.
        """
        return self.replace(out_dtype=out_dtype) if getattr(self, "out_dtype", None) == "" else self

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Return the gradient of a scalar with respect to each operand of a call, from `grad` with respect to the
        result.

        Each gradient has its operand's struct info, or is None if the result does not depend on the operand or is
        piecewise constant in it (integers, conditions, shapes). Default: None, if the operator has no rule or the rule
        needs static shapes. `operands`, `result` and `grad` are variables or other leaves.
        """
        return None

    def gradient_of_call(self, builder: Any, call: Call, result: Term, grad: Term) -> Gradients | None:
        """Return `gradient` of a call, given a BlockBuilder, for operators whose gradient is a new kernel."""
        return self.gradient(call.args, result, grad)

    # ---------------------------------------------------------------------------------- lowering

    def formula(self, *values: Any) -> Any:
        """Apply `compute` to operands (te.Tensor, PrimExpr, …); returns a tensor or a list of tensors."""
        return self._apply("compute", values)

    def evaluate(self, *values: Any) -> Any:
        """Apply `reference` to arrays, shapes, numbers and lists; returns an array or a tuple of arrays."""
        return self._apply("reference", values)

    def _apply(self, which: str, values: tuple[Any, ...]) -> Any:
        function: Any = getattr(type(self), which)
        if function is None:
            raise TypeError(f"{self.short_name} has no {which}")
        if inspect.isfunction(function) and is_method(function):
            return function(self, *values)
        return function(*values, **{name: getattr(self, name) for name in self.attribute_names})

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """Return the replacement of a call in LegalizeOps: a call_tir of the formula, or a packed function call.

        Returns the call unchanged if a rank or dtype, or a size that the formula needs, is still unknown, or the
        operator has neither.
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
        except UnknownSizeError:
            return call
        except OperatorError as error:  # sizes became known since the call was derived, and do not fit
            shown = [Shown(operand.name, arg, known_struct_info(arg)) for operand, arg in pairs]
            raise diagnose(error, self.short_name, shown, call.span) from None

    @classmethod
    def has_lowering(cls) -> bool:
        """True if LegalizeOps replaces calls of operands that are known: by a formula, or by other operators."""
        return cls.compute is not None or cls.legalize is not Operator.legalize

    def legalize_for(self, target: Target, builder: Any, call: Call) -> RelaxExpr | None:
        """Return a target-specific replacement of a call, tried before `legalize`; None for the generic one."""
        return None

    def kernel_name(self) -> str:
        """Name of the PrimFunc: the topi formula's name, as in TVM; otherwise the operator's."""
        module, name = getattr(self.compute, "__module__", ""), getattr(self.compute, "__name__", "")
        if module.startswith(topi.__name__) and name.isidentifier():
            return name
        return self.kernel or self.short_name.rpartition(".")[2]

    def packed_call(self, function: str, call: Call, builder: Any) -> RelaxExpr:
        """Lower a call to packed function `function`, which takes the operands, then the attributes."""
        attributes = tuple(as_value(getattr(self, name)) for name in self.attribute_names)
        return call_runtime(function, (*call.args, *attributes), call, builder)

    def checked_formula(self, call: Call, values: Sequence[Any]) -> Any:
        """Return `formula`, with a run-time assertion for each size condition that inference could not decide."""
        infos = [_info_of(value, o) for o, value in zip(expand_operands(self, len(values)), values, strict=True)]
        with collect_checks() as checks:
            infer_operands(self, call, None, infos)
        result: Any = self.formula(*values)
        if checks:
            tensors: Any = result
            first = cast("te.Tensor", tensors[0] if isinstance(tensors, (list, tuple)) else tensors)
            first.op.attrs["requires"] = tuple((check.condition, check.message) for check in checks)
        return result

    @property
    def rank_depends_on_sizes(self) -> bool:
        """True if the rank of the result depends on the sizes that are static: sizes of the same rank are different."""
        return False

    @property
    def known_axes(self) -> Mapping[int, tuple[int, ...]]:
        """Axes, by operand, whose sizes a kernel for all shapes has as constants (`relax.library`).

        They are those that its innermost loops unroll, such as the windows of a convolution.
        """
        return {}

    def for_all_sizes(self, call: Call) -> RelaxExpr:
        """Return an equivalent of a call, of other operators, whose kernels for all shapes are faster; or the call."""
        return call

    def without_sizes(self, infos: Sequence[StructInfo | None]) -> Operator:
        """Return an operator that is equal for calls which differ in sizes alone: `over_sizes` without variables."""
        return self

    def over_sizes(self, infos: Sequence[StructInfo | None]) -> Operator:
        """Return the operator for operands of variable sizes: attributes that repeat a size become that variable."""
        return self

    def can_compute(self, call: Call) -> bool:
        """True if ranks and dtypes of a call's operands are known well enough to build its formula."""
        infos = [known_struct_info(arg) for arg in call.args]
        return all(info is not None and _is_concrete(info, self.needs_concrete_ndim) for info in infos)

    def arguments(self, call: Call) -> list[tuple[Operand, RelaxExpr]]:
        """Pair the call's arguments with their operands. Raises OperatorError for a wrong number of arguments."""
        return list(zip(expand_operands(self, len(call.args)), call.args, strict=True))


def _info_of(value: Any, operand: Operand) -> StructInfo | None:
    """Struct info of an operand given as a tensor expression."""
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
    """True if a formula or reference is a method of its class rather than a function of the operands."""
    code: types.CodeType = inspect.unwrap(function).__code__
    return code.co_argcount > 0 and code.co_varnames[0] == "self"


def _is_concrete(info: StructInfo, rank: bool) -> bool:
    def is_known(field: StructInfo) -> bool:
        if isinstance(field, TensorStructInfo):
            return not field.dtype.is_void and (field.ndim != -1 or not rank)
        if isinstance(field, ShapeStructInfo):
            return field.ndim != -1 or not rank
        return not isinstance(field, ObjectStructInfo)

    return all(map(is_known, fields_in(info)))


def _operator(name: str, *attributes: Any) -> Operator:
    """Look up an operator declared in a module that imports this one."""
    return Op.get(name).get_attr("operator_class")(*attributes)


def call_runtime(function: str, arguments: Sequence[RelaxExpr], call: Call, builder: Any) -> RelaxExpr:
    """Return a call of a runtime function that computes the result of `call`, on its device."""
    info = call.struct_info
    operator = _operator("relax.call_pure_packed")
    return _moved(builder, operator.raw_call((ExternFunc(function), *arguments), (_unplaced(info),), call.span), info)


def _moved(builder: Any, value: RelaxExpr, info: StructInfo) -> RelaxExpr:
    """Move the result of a runtime function from the host's first device to the device of `info`.

    If `info` has no device, the module's first virtual device is used, if it lists any.
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
    """Return struct info with the virtual devices of tensors removed."""

    def unplaced(field: StructInfo) -> StructInfo:
        placed = isinstance(field, TensorStructInfo) and field.vdevice is not None
        return field.replace(vdevice=None) if placed else field

    return map_fields(info, unplaced)


def as_value(value: Any) -> RelaxExpr:
    """Convert an attribute to an argument of a packed function; None becomes the null object."""
    if value is None:
        return _operator("relax.null_value").raw_call(())
    if isinstance(value, DataType):
        return DataTypeImm(value)
    return StringImm(value) if isinstance(value, str) else PrimValue(value)


def expand_operands(operator: Operator, count: int) -> list[Operand]:
    """Return one operand per argument. Raises OperatorError if `count` arguments do not fit the operands."""
    operands = operator.operands
    if operands and operands[-1].variadic:
        fixed = operands[:-1]
        if count >= len(fixed):
            return [*fixed, *[operands[-1]] * (count - len(fixed))]
    elif sum(not operand.optional for operand in operands) <= count <= len(operands):
        return list(operands[:count])
    least, most = sum(not (o.optional or o.variadic) for o in operands), len(operands)
    names = ", ".join(operand.name for operand in operands) or "none"
    number = f"{least}" if least == most else f"at least {least}" if operands[-1].variadic else f"{least} to {most}"
    raise OperatorError(OPERANDS, f"takes {number} operand{'s' * (number != '1')} ({names}), found {count}")


# ------------------------------------------------------------------------------------------- calls


def make_call(operator: Operator, arguments: Sequence[Any], sinfo_args: Sequence[StructInfo] = ()) -> Call:
    """Build a call of an operator from converted arguments.

    Raises DiagnosticError for arguments that do not convert, and for operands whose known struct info does not fit.
    """
    try:
        given = list(operator.prepare(arguments))
        while given and given[-1] is None:
            given.pop()
        operands = expand_operands(operator, len(given))
        args = tuple(
            as_argument(operand, value, operator.short_name) for operand, value in zip(operands, given, strict=True)
        )
    except OperatorError as error:
        raise diagnose(error, operator.short_name, (), user_span(*_CALLED_THROUGH)) from None
    call = Call(Op.get(operator.op_name), args, operator, tuple(sinfo_args))
    # Calls of functions need the module to infer from: they have no formula.
    alone = operator.infer is not None if operator.infer_from_call is None else operator.compute is not None
    if alone and not DEFERRED.get():
        _infer_early(operator, call)
    return call


def _infer_early(operator: Operator, call: Call) -> None:
    """Infer a call when it is built, if its operands' struct info is known, so that errors are raised there."""
    if any(known_struct_info(arg) is None for arg in call.args):
        return
    try:
        info = infer_call(call)
    except DiagnosticError as error:
        raise error.placed(user_span(*_CALLED_THROUGH)) from None
    except (TypeError, ValueError, AttributeError, LookupError):
        return  # normalisation will report it, with its span
    if operator.infer_from_call is None:
        remember_inferred(call, info)
    else:
        remember(call, info)


def make_operator(cls: type[Operator], attributes: dict[str, Any]) -> Operator:
    """Instantiate an operator with attributes. Raises DiagnosticError for a value that an attribute does not accept."""
    try:
        return cls(**attributes)  # type: ignore[reportCallIssue]
    except AttributeValueError as error:
        name = cls.op_name.removeprefix("relax.")
        span = user_span(*_CALLED_THROUGH)
        raise DiagnosticError(Diagnostic(ATTRIBUTES, f"{name}: {error}", span)) from None


def operator_of(call: Call) -> Operator | None:
    """Return the operator instance of a call; None if the callee is not an operator with a class.

    A call without attributes is one of the operator with its defaults.
    """
    if not isinstance(call.op, Op):
        return None
    if isinstance(call.attrs, Operator):
        return call.attrs
    cls = operator_class(call.op)
    return None if cls is None else make_operator(cls, {})


def operator_class(op: Node) -> type[Operator] | None:
    """Return the class of an operator; None for an Op without a class and for any other callee."""
    return op.get_attr("operator_class") if isinstance(op, Op) else None


def class_named(name: str) -> type[Operator] | None:
    """Return the class of the operator called `name`; None if there is none."""
    return operator_class(Op.get(name)) if Op.exists(name) else None


def is_call_of(expr: Node, *classes: type[Operator]) -> bool:
    """True if `expr` is a call of an operator of one of `classes`."""
    cls = operator_class(expr.op) if isinstance(expr, Call) else None
    return cls is not None and issubclass(cls, classes)


# ----------------------------------------------------------------------------------------- inference


def infer_call(call: Call, builder: Any = None) -> StructInfo:
    """FInferStructInfo of every operator class: check the operands' kinds, then call `infer`."""
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
    """Marker of an operand whose kind is unknown and has no weakest struct info."""

    __slots__ = ()


_UNKNOWN = _Unknown()


def _checked_kind(operand: Operand, arg: RelaxExpr, info: StructInfo | None) -> StructInfo | None:
    """Struct info passed to `infer` for an operand: None if omitted, the weakest if unknown."""
    if operand.optional and is_absent(arg):
        return None
    if info is not None and operand.accepts(info):
        return info
    if info is None or isinstance(info, ObjectStructInfo):
        return weakest(operand.kinds) or _UNKNOWN
    actual = next((text for kind, text in KIND_NAMES.items() if isinstance(info, kind)), "a value")
    raise OperatorError(OPERANDS, f"{operand.name} must be {operand.wanted}, found {actual}", operand=operand.name)


def _infer(
    operator: Operator, call: Call, pairs: list[tuple[Operand, RelaxExpr]], infos: list[StructInfo | None], builder: Any
) -> StructInfo:
    if any(info is _UNKNOWN for info in infos):
        return operator.weakest_result(infos)
    result = infer_operands(operator, call, builder, infos)
    if operator.propagates_vdevice:
        vdevice = _common_vdevice(pairs, infos)
        return result if vdevice is None else _placed(result, vdevice)
    return result


def infer_operands(operator: Operator, call: Call, builder: Any, infos: Sequence[StructInfo | None]) -> StructInfo:
    """Call `infer` (or `infer_from_call`) on operands whose kinds have been checked. Raises OperatorError."""
    if operator.infer_from_call is not None:
        return operator.infer_from_call(call, builder, *infos)
    return operator.infer(*infos)


def _common_vdevice(pairs: list[tuple[Operand, RelaxExpr]], infos: Iterable[StructInfo | None]) -> VDevice | None:
    """Virtual device of the tensor operands, None if none states one. Raises OperatorError if two disagree."""
    stated: tuple[str, VDevice] | None = None
    for (operand, _), info in zip(pairs, infos, strict=True):
        for vdevice in _vdevices(info):
            if stated is None:
                stated = operand.name, vdevice
            elif not same_vdevice(stated[1], vdevice):
                raise OperatorError(
                    DEVICES,
                    "the operands are on different devices",
                    remarks={stated[0]: f"on {vdevice_text(stated[1])}", operand.name: f"on {vdevice_text(vdevice)}"},
                    hint="move one of them with R.to_vdevice",
                )
    return None if stated is None else stated[1]


def _vdevices(info: StructInfo | None) -> list[VDevice]:
    fields = () if info is None else fields_in(info)
    return [f.vdevice for f in fields if isinstance(f, TensorStructInfo) and f.vdevice is not None]


def _placed(info: StructInfo, vdevice: VDevice) -> StructInfo:
    """Put the result's tensors on the operands' virtual device. Raises OperatorError if the result states another."""

    def placed(field: StructInfo) -> StructInfo:
        if not isinstance(field, TensorStructInfo):
            return field
        if field.vdevice is None:
            return field.replace(vdevice=vdevice)
        if not same_vdevice(field.vdevice, vdevice):
            message = f"the operands are on {vdevice_text(vdevice)}, the result on {vdevice_text(field.vdevice)}"
            raise OperatorError(DEVICES, message, hint="move the operands with R.to_vdevice")
        return field

    return map_fields(info, placed)
