"""General form of an operator's call: sizes become variables, so that calls of many shapes share a kernel.

    call            R.nn.conv2d(x, w, padding=1)             x: (1, 64, 56, 56), w: (128, 64, 3, 3)
    general form    R.nn.conv2d(x0, x1, padding=1)           x0: (s0, s1, s2, s3), x1: (s4, s1, 3, 3)

Sizes that are equal share a variable where the call needs that (the channels above), not where they merely coincide
(56 and 56). A size of 1 becomes a variable unless its being known matters, as in broadcasting. Attributes, dtypes,
ranks, constant numbers, sizes of 0, and what the operator names (`Operator.known_axes`: 3 and 3 above) stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ..expr import Call, Constant, DataTypeImm, Function, PrimValue, ShapeExpr, StringImm, Tuple, Var
from ..ir import RelaxExpr, exact_digest
from ..op.base import Operator
from ..prim import FloatImm, IntImm, PrimExpr, SizeVar, const_int_bound
from ..prim.expr import Var as PrimVar
from ..prim.identity import identity
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo

LARGEST: Final = 1 << 32
"""Numbers from here on stand for "to the end": a variable in their place could overflow."""

Partition: TypeAlias = "tuple[int, ...]"
"""The variable of each size of a call, by number; -1 for a size that stays as it is."""


@dataclass(frozen=True)
class CallSizes:
    """The operands of a call, fields of tuples in their place, and its sizes in order of occurrence."""

    tensors: tuple[RelaxExpr, ...]
    sizes: tuple[PrimExpr, ...]
    """Dimensions of tensors, values of shapes, and scalars that are not constants."""
    classes: Partition
    """Equal sizes share a variable; those that are 1 stay."""
    ones: tuple[int, ...]
    """Positions of sizes that are 1, but may become variables."""
    signed: frozenset[int]
    """Positions of scalars that may be negative, or are no integers."""
    values: tuple[int, ...]
    """Number of each size of the operands, in order; sizes that are equal have the same number."""
    axes: tuple[tuple[int, int], ...]
    """For each size its axis in its operand, counted from the first one and from the last one."""
    words: tuple[str | int, ...]
    """Everything about the call that is no size, as text, and the positions of the sizes in it."""

    @staticmethod
    def of(call: Call, operator: Operator) -> CallSizes | None:
        """Return the sizes of a call's operands; None if its kernel may depend on more than their struct info.

        Operands of unknown shape and functions are such cases.
        """
        tensors: list[RelaxExpr] = []
        sizes: list[PrimExpr] = []
        values: list[int] = []
        numbers: dict[object, int] = {}
        axes: list[tuple[int, int]] = []
        ones: list[int] = []
        stay: set[int] = set()
        signed: set[int] = set()
        named = operator.without_sizes([arg.struct_info_ for arg in call.args])
        words: list[str | int] = [operator.op_name, exact_digest((named, call.sinfo_args)).hex()]
        for position, arg in enumerate(call.args):
            known = operator.known_axes.get(position, ())
            words.append("(" if isinstance(arg, Tuple) else "")
            for leaf in _leaves(arg):
                own = _sizes_of(leaf, position in operator.size_operands)
                if own is None:
                    return None
                words.append(_word(leaf, bool(own)))
                for axis, size in enumerate(own):
                    at = len(sizes)
                    words.append(at)
                    sizes.append(size)
                    values.append(numbers.setdefault(_value_key(size), len(numbers)))
                    axes.append((axis, axis - len(own)))
                    if isinstance(size, IntImm) and (axis in known or size.value in (0, 1)):
                        stay.add(at)
                        if size.value == 1 and axis not in known and not operator.keeps_ones:
                            ones.append(at)
                    if _may_be_negative(size, isinstance(leaf, PrimValue)):
                        signed.add(at)
                if isinstance(leaf.struct_info_, TensorStructInfo):
                    tensors.append(leaf)
        classes = renumbered([None if at in stay else value for at, value in enumerate(values)])
        return CallSizes(
            tuple(tensors), tuple(sizes), classes, tuple(ones), frozenset(signed),
            tuple(values), tuple(axes), tuple(words),
        )  # fmt: skip

    @property
    def key(self) -> str:
        """Text that is equal for calls of one general form in which equal sizes share a variable."""
        return self.text(self.classes)

    def text(self, partition: Partition) -> str:
        """Return the text of a general form; equal for calls that have it with this partition."""
        return ";".join([word if isinstance(word, str) else self._size_word(word, partition) for word in self.words])

    def _size_word(self, at: int, partition: Partition) -> str:
        if partition[at] < 0:
            return f"={self.sizes[at]}"
        return f"{'v' if at in self.signed else 's'}{partition[at]} {self.sizes[at].dtype}"

    @property
    def kept_ones(self) -> tuple[tuple[int, ...], ...]:
        """Sizes of 1 that may stay, the fewest first: none; those beside another size on their axis; all."""
        others = {axis[1] for at, axis in enumerate(self.axes) if self.values[at] != self.values[self.ones[0]]}
        beside = tuple(at for at in self.ones if self.axes[at][1] in others)
        return tuple(dict.fromkeys(((), beside, self.ones)))

    def with_equal_sizes(self, kept: Sequence[int]) -> CallSizes:
        """Return a call in which all sizes are equal that do not stay; of those that are 1 some are `kept`.

        It is the same for all calls that differ in sizes alone, and in which the sizes that are kept are 1.
        """
        free = frozenset(self.ones).difference(kept)
        kinds = [
            None if number < 0 and at not in free else (str(size.dtype), at in self.signed)
            for at, (number, size) in enumerate(zip(self.classes, self.sizes, strict=True))
        ]
        return replace(self, classes=renumbered(kinds), ones=tuple(kept))

    def fits(self, partition: Partition) -> bool:
        """True if sizes that share a variable of a partition are equal."""
        by_number: dict[int, int] = {}
        pairs = zip(partition, self.values, strict=True)
        return all(number < 0 or by_number.setdefault(number, value) == value for number, value in pairs)

    def arguments(self, partition: Partition) -> list[PrimExpr]:
        """Return the value of each variable of a partition."""
        values: dict[int, PrimExpr] = {}
        for size, number in zip(self.sizes, partition, strict=True):
            values.setdefault(number, size)
        return [values[number] for number in sorted(values) if number >= 0]


def renumbered(values: Iterable[object]) -> Partition:
    """Number values in order of first occurrence; -1 for None."""
    numbers: dict[object, int] = {}
    return tuple(-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values)


def _leaves(arg: RelaxExpr) -> Iterator[RelaxExpr]:
    """An argument, or the fields of a tuple."""
    if isinstance(arg, Tuple):
        for field in arg.fields:
            yield from _leaves(field)
    else:
        yield arg


def _sizes_of(leaf: RelaxExpr, counts: bool) -> Sequence[PrimExpr] | None:
    """Sizes of an operand, None if its kernel may depend on more than they and its dtype say.

    Constant numbers are sizes if the operand `counts`.
    """
    match leaf, leaf.struct_info_:
        case ShapeExpr(values), _:
            return values
        case PrimValue(value), _:
            return (value,) if _is_size(value, counts) else ()
        case ((StringImm() | DataTypeImm()), _):
            return ()
        case ((Var() | Constant()), TensorStructInfo() as info) if info.vdevice is None and not info.dtype.is_void:
            return info.dims
        case Var(), ShapeStructInfo(values):
            return values
        case _:
            return None


def _is_size(value: PrimExpr, counts: bool) -> bool:
    """True for a scalar that is not constant, and for a constant that is a size."""
    if isinstance(value, IntImm):
        return counts and 1 < value.value < LARGEST
    return not isinstance(value, FloatImm)


def _word(leaf: RelaxExpr, has_sizes: bool) -> str:
    """Kind of an operand, with everything about it that is no size."""
    match leaf, leaf.struct_info_:
        case _, TensorStructInfo() as info:
            return f"tensor {info.dtype} {info.ndim}"
        case _, ShapeStructInfo(values) if values is not None:
            return f"shape {len(values)}"
        case PrimValue(IntImm() | FloatImm() as value), _ if not has_sizes:
            return f"number {value.dtype} {value.value!r}"
        case PrimValue(value), _:
            return f"scalar {value.dtype}"
        case ((StringImm(text) | DataTypeImm(text)), _):
            return f"{type(leaf).__name__} {text!r}"
        case _:
            return ""


def _value_key(size: PrimExpr) -> object:
    return size.value if isinstance(size, IntImm) else identity(size)


@dataclass(frozen=True)
class GeneralCall:
    """A call over variables of its own: a function of the operands whose body is the call."""

    function: Function
    variables: tuple[PrimVar, ...]
    """Variables by number."""

    @staticmethod
    def of(call: Call, operator: Operator, operands: CallSizes, partition: Partition) -> GeneralCall:
        """Replace each size of a call by the variable that a partition names."""
        variables: dict[int, PrimVar] = {}
        sizes = tuple(
            size if number < 0 else variables.setdefault(number, _variable(size, number, i in operands.signed))
            for i, (size, number) in enumerate(zip(operands.sizes, partition, strict=True))
        )
        params: list[Var] = []
        given = iter(sizes)
        args = tuple(
            _general_arg(arg, position in operator.size_operands, given, params)
            for position, arg in enumerate(call.args)
        )
        ordered = tuple(variables[number] for number in sorted(variables))
        scope = [Var(variable.name, PrimStructInfo(value=variable)) for variable in ordered]
        infos = [arg.struct_info_ for arg in args]
        body = operator.over_sizes(infos).raw_call(args, call.sinfo_args)
        function = Function([*scope, *params], body, attrs={"global_symbol": "main"})
        return GeneralCall(function, ordered)


def _may_be_negative(size: PrimExpr, is_scalar: bool) -> bool:
    """True unless a size is a dimension, or provably not negative; variables say themselves what they are."""
    if isinstance(size, PrimVar):
        return not size.nonnegative
    return is_scalar and not (size.dtype.is_int and const_int_bound(size).min_value >= 0)


def _variable(size: PrimExpr, number: int, is_signed: bool) -> PrimVar:
    """Variable in place of a size. A kernel may rely on that a SizeVar is not negative."""
    return PrimVar(f"v{number}", size.dtype) if is_signed else SizeVar(f"s{number}", size.dtype)


def _general_arg(arg: RelaxExpr, counts: bool, sizes: Iterator[PrimExpr], params: list[Var]) -> RelaxExpr:
    """Return an argument of the general form; operands are appended to `params`."""
    match arg, arg.struct_info_:
        case Tuple(fields), _:
            return Tuple([_general_arg(field, counts, sizes, params) for field in fields])
        case PrimValue(value), _:
            return PrimValue(next(sizes)) if _is_size(value, counts) else arg
        case (ShapeExpr(values), _) | (Var(), ShapeStructInfo(values)) if values is not None:
            return ShapeExpr([next(sizes) for _ in values])
        case _, TensorStructInfo() as info if info.dims is not None:
            params.append(Var(f"x{len(params)}", TensorStructInfo([next(sizes) for _ in info.dims], info.dtype)))
            return params[-1]
        case _:
            return arg
