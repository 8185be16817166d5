"""Operator declarations: a class per operator, from which the public function, the Op and its properties are derived.

How to add one: write the class in a file of this room, run ``make stubs``, and write sample calls in a table
``tests/op/cases_*.py``, from which its tests are generated (inference, formula, machine code and reference are
compared).

    @operator("relax.nn.softmax")
    class Softmax(Operator):
        '''exp(x - max x) / Σ exp(x - max x) along one axis.'''

        axis: int = -1                                              # attributes: plain fields (attributes.py)

        def infer(self, data: TensorStructInfo) -> TensorStructInfo:  # operands: parameters (operands.py)
            self.require(data.dtype.is_void or data.dtype.is_float, "data", "a floating-point tensor")
            self.require_axis(self.axis, data, "data")
            return data

        compute = topi.nn.softmax                                    # the formula, over te.Tensors

        def reference(self, data: Array) -> Array:                   # the same in NumPy
            e = np.exp(data - data.max(self.axis, keepdims=True))
            return e / e.sum(self.axis, keepdims=True)

That is all: ``relax.op.nn.softmax(data, axis=-1)`` exists (operands, then attributes; the class's docstring), and a
Call's ``attrs`` is the instance. Attributes shared by several operators are declared in their base class, with
defaults; they come first. Other properties are class variables and optional methods, which `relax.op.base.Operator`
declares with their defaults. Passes query these; no pass has a list of operator names:

    pure, total, view, elementwise      effects, failures, storage, and which elements a result depends on
    exactness                           the dtypes for which constants may be folded by `reference`
    mixed_precision                     the dtype of float operands in a program that is made narrow
    packed, legalize, legalize_for      what a call is replaced by: in general, and on one target
    permuted, blocked                   the same computation on permuted, or on split dimensions, for passes that choose
                                        layouts
    gradient                            the gradients of the operands

* `infer` gets one struct info per operand, of the kind annotated. Parts may be unknown (dtype "", ndim -1, shape None):
  infer what can be known, and raise OperatorError (by `require`, …) only for conditions proved false. An operand of
  unknown kind is passed as the weakest info of its kind; if a kind has none, `infer` is not called and the result is
  the weakest of the annotated kind.
* Sizes are compared with the helpers of `dims` (`require_same_dim`, `broadcast`, …): conditions proved false raise an
  error, undecided ones are asserted by the kernel at run time.
* `infer_from_call(self, call, builder, *operands)` replaces `infer` where the call itself matters: for intrinsics,
  whose results are described by the call's sinfo_args. (An `infer` beside it only declares the operands.)
* `compute` is either a formula taken from topi, called with the operands in order and the attributes by name (each
  attribute must be a parameter of it), or a method ``compute(self, *operands)``. Tensors come as te.Tensor, shapes as
  tuples of PrimExpr, scalars as PrimExpr, tuples as lists, an omitted operand as None.
* `reference`, a method or a NumPy function, receives arrays, tuples of ints, numbers and lists in the same order.
* `prepare` changes arguments before they are converted, where they depend on each other (a literal takes the dtype of
  the other operand).
* `make`, a static method, replaces the public function if arguments need more than conversion; it ends with ``return
  Cls(...).call(...)``. Its parameters must still take operands in order, then attributes by name, as calls are printed.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import keyword
from collections.abc import Callable
from typing import Any, TypeVar, cast

from typing_extensions import dataclass_transform

from ..expr import Call
from ..ir import RelaxExpr, child, node, register_op
from ..ir.op import declare_homes, load_home
from ..runtime.rooms import by_name, module_of
from ..target import Target
from ._operators import OPERATORS as _TABLE
from .attributes import attribute_field, own_hints
from .base import Array, Operator, infer_call, is_call_of, is_method, make_operator, operator_class, operator_of
from .operands import operands_of

PublicFunction = Callable[..., Any]

T = TypeVar("T")
FunctionT = TypeVar("FunctionT", bound=PublicFunction)

_FUNCTIONS: dict[str, PublicFunction] = {}

OPERATORS = by_name(_TABLE)
"""The module that declares each operator."""
declare_homes(OPERATORS)


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(child, dataclasses.field))
def operator(name: str) -> Callable[[type[T]], type[T]]:
    """Declare an operator class: ``@operator("relax.nn.softmax")``. See the module's docstring.

    Scripts call it ``R.nn.softmax``; an operator ``acme.twice`` is ``R.acme.twice``. Raises ValueError for a name that
    scripts could not call, or that another operator has in scripts.
    """
    _check_name(name)

    def declare(cls: type[T]) -> type[T]:
        operator_class: Any = node(_with_converters(cls))
        operator_class.op_name = name
        operator_class.attribute_names = tuple(spec.name for spec in operator_class.__node_fields__)
        if operator_class.infer is not None:
            operator_class.operands, operator_class.result_kind = operands_of(operator_class.infer, name)
        elif operator_class.infer_from_call is not None:
            operator_class.operands, operator_class.result_kind = operands_of(
                operator_class.infer_from_call, name, skip=3
            )
        _check_formula(operator_class, "compute")
        _check_formula(operator_class, "reference")
        register_op(
            name,
            operator_class=operator_class,
            FInferStructInfo=infer_call,
            FPurity=operator_class.pure,
            takes_sinfo_args=operator_class.takes_sinfo_args,
            FLegalize=legalize_call,
            reference=operator_class.reference,
        )
        _FUNCTIONS[name] = _public_function(operator_class)
        return operator_class

    return declare


def row(name: str, base: type[T], doc: str, cls: str = "", **members: Any) -> type[T]:
    """Declare an operator in one row of a table: a subclass of `base`, with a docstring and class attributes.

    The class is named `cls`, by default after the operator: "relax.logical_not" is LogicalNot. The variable to which it
    is assigned, in the module of `base`, must have that name.
    """
    called = cls or "".join(word.capitalize() for word in name.rpartition(".")[2].split("_"))
    body = {"__doc__": doc, "__module__": base.__module__, **members}
    return operator(name)(cast("type[T]", type(called, (base,), body)))


def _check_name(name: str) -> None:
    """Raise ValueError for a name that scripts cannot spell or that another operator already uses."""
    for word in name.split("."):
        if not word.isidentifier() or keyword.iskeyword(word):
            raise ValueError(f"the operator's name {name!r} has the part {word!r}, which is no name in Python")
    other = name.removeprefix("relax.") if name.startswith("relax.") else f"relax.{name}"
    if other in _FUNCTIONS or other in OPERATORS:
        raise ValueError(f"scripts call both operators {name} and {other} R.{name.removeprefix('relax.')}")


def composite(name: str) -> Callable[[FunctionT], FunctionT]:
    """Publish a function that builds calls of other operators: ``@composite("relax.linear")``."""

    def publish(function: FunctionT) -> FunctionT:
        load_home(name)  # a later declaration replaces one of relax
        _FUNCTIONS[name] = function
        return function

    return publish


def public_function(name: str) -> PublicFunction | None:
    """Return the public function of an operator or composite, None if there is none of this name.

    ``relax.acme.twice`` may be that of the operator ``acme.twice``, too.
    """
    function = _FUNCTIONS.get(name)
    if function is None and name in OPERATORS:
        load_home(name)
        function = _FUNCTIONS.get(name)
    return _FUNCTIONS.get(name.removeprefix("relax.")) if function is None else function


def public_names(prefix: str) -> list[str]:
    """Names directly below a prefix: ``relax.nn.`` yields softmax, …"""
    return sorted(rest for rest in _below(prefix) if "." not in rest)


def public_spaces(prefix: str) -> list[str]:
    """Namespaces directly below a prefix: ``relax.`` yields nn, image, …"""
    return sorted({rest.partition(".")[0] for rest in _below(prefix) if "." in rest})


def _below(prefix: str) -> list[str]:
    """Names below a prefix, without it. A name without the prefix ``relax.`` counts as below ``relax.``."""
    own = (name if name.startswith("relax.") else f"relax.{name}" for name in _FUNCTIONS)
    names = {*OPERATORS, *own}
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


class OperatorSpace:
    """Namespace of the operators below a prefix without a module: ``relax.op.acme`` for an operator ``acme.twice``."""

    def __init__(self, prefix: str) -> None:
        self.__prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return public_member(self.__prefix, name)

    def __dir__(self) -> list[str]:
        return [*public_names(self.__prefix), *public_spaces(self.__prefix)]


def public_member(prefix: str, name: str, package: str = "") -> Any:
    """The public function of an operator, a module of a package, or a namespace of operators. Raises AttributeError."""
    function = public_function(prefix + name)
    if function is not None:
        return function
    module = module_of(package, name) if package else None
    if module is not None:
        return module
    if not name.startswith("_") and _below(f"{prefix}{name}."):
        return OperatorSpace(f"{prefix}{name}.")
    space = f"relax.op.{prefix.removeprefix('relax.')}".removesuffix(".")
    raise AttributeError(f"{space} has no operator {name!r}")


def namespace(prefix: str, package: str = "") -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose attributes are the public functions below a prefix.

    ``__getattr__, __dir__ = namespace("relax.grad.")`` makes ``relax.op.grad.no_grad``. If `package` is given, the
    modules of this package are attributes as well. Type checkers see the stub instead (tools/make_stubs.py), so that
    they report names that do not exist.
    """
    find = functools.partial(public_member, prefix, package=package)
    return find, lambda: [*public_names(prefix), *public_spaces(prefix)]


def declared() -> dict[str, str]:
    """Module of each loaded public function, by the operator's name."""
    return {name: function.__module__ for name, function in _FUNCTIONS.items()}


def legalize_call(builder: Any, call: Call) -> RelaxExpr:
    """FLegalize of every operator class."""
    operator = operator_of(call)
    if operator is None:
        return call
    target = Target.current()
    special = None if target is None else operator.legalize_for(target, builder, call)
    return operator.legalize(builder, call) if special is None else special


def _with_converters(cls: type[T]) -> type[T]:
    """Attach to each attribute its annotation's converter; attributes with a default in a base class come first."""
    raw: Any = cls
    annotations: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Operator) or base is Operator or "__node_fields__" in base.__dict__:
            continue
        hints: dict[str, Any] = {}
        for name, annotation in inspect.get_annotations(base).items():
            default = base.__dict__.get(name, dataclasses.MISSING)
            declared = base is cls or default is not dataclasses.MISSING
            if declared and not str(annotation).startswith("ClassVar"):
                hints = hints or own_hints(base)
                default = default if base is cls else raw.inherited_default(default)
                fields[name] = attribute_field(name, hints[name], default)
                annotations[name] = annotation
    for name, field in fields.items():
        setattr(cls, name, field)
    cls.__annotations__ = annotations | inspect.get_annotations(cls)
    return cls


def _check_formula(cls: type[Operator], which: str) -> None:
    """Require that a formula or reference that is not a method takes every attribute."""
    function: Any = getattr(cls, which)
    if not inspect.isfunction(function) or is_method(function):
        return
    setattr(cls, which, staticmethod(function))
    if not cls.attribute_names:
        return
    parameters = inspect.signature(function).parameters
    missing = [name for name in cls.attribute_names if name not in parameters]
    if missing:
        raise TypeError(f"{cls.op_name}: its {which} does not take {', '.join(missing)}")


def _public_function(cls: type[Operator]) -> PublicFunction:
    """Build the public function ``function(operands…, attributes…) -> Call``."""
    signature = _signature(cls)

    def generic(*args: Any, **kwargs: Any) -> Call:
        return _call_with(cls, signature, args, kwargs)

    setattr(generic, "__signature__", signature)  # noqa: B010 (what inspect and help() show)
    function: PublicFunction = generic if cls.make is None else cls.make
    short = cls.op_name.removeprefix("relax.")
    function.__name__ = short.rsplit(".", 1)[-1]
    function.__qualname__ = f"relax.op.{short}"
    function.__module__ = cls.__module__
    function.__doc__ = function.__doc__ or cls.__doc__
    return function


def _signature(cls: type[Operator]) -> inspect.Signature:
    parameters: list[inspect.Parameter] = []
    variadic = False
    for operand in cls.operands:
        variadic = variadic or operand.variadic
        parameters.append(
            inspect.Parameter(
                operand.name,
                inspect.Parameter.VAR_POSITIONAL if operand.variadic else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if operand.optional else inspect.Parameter.empty,
            )
        )
    optional = any(operand.optional for operand in cls.operands)
    for field in sorted(dataclasses.fields(cast(Any, cls)), key=lambda field: field.kw_only is True):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        keyword = field.kw_only is True or variadic or (optional and default is inspect.Parameter.empty)
        kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(field.name, kind, default=default))
    return inspect.Signature(parameters)


def _call_with(
    cls: type[Operator], signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        short = cls.op_name.removeprefix("relax.")
        raise TypeError(f"relax.op.{short}{signature}: {error}") from None
    attributes = {name: bound.arguments[name] for name in cls.attribute_names if name in bound.arguments}
    arguments: list[Any] = []
    for operand in cls.operands:
        value = bound.arguments.get(operand.name)
        if operand.variadic:
            arguments.extend(value or ())
        else:
            arguments.append(value)
    return make_operator(cls, attributes).call(*arguments)


__all__ = [
    "Array",
    "Operator",
    "composite",
    "infer_call",
    "is_call_of",
    "legalize_call",
    "namespace",
    "operator",
    "operator_class",
    "operator_of",
    "public_function",
    "public_member",
    "public_names",
    "public_spaces",
    "row",
]
