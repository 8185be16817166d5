"""PyTorch as a library: operators as functions of torch, on tensors that DLPack shares.

mod = partition_for_torch(mod)            pip install relax[torch]

`_RULES` has the operators, each with the dtypes and forms of which torch computes the same as the interpreter. Declined
are, among others, integer division, conversions of floats to integers, and reductions that may meet an empty axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from ..dpl import DFPattern, is_op, is_tuple_get_item
from ..expr import Binding, Call, Function, PrimValue, SeqExpr, ShapeExpr, StringImm, Tuple, TupleGetItem, VarBinding
from ..expr import Var as ExprVar
from ..ir import IRModule, RelaxExpr, StructInfo, structural_equal
from ..op.base import Operator, operator_of
from ..prim import Add, FloatImm, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub
from ..runtime.libraries.torch import BINARY, BITS, FLOAT_BINARY, LOGIC, TESTS, UNARY, TorchRuntime
from ..runtime.records import dataclass
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.dead_code_elimination import DeadCodeElimination
from ..transform.fusion.fuse_ops_by_pattern import FusionPattern, PatternCheckContext
from ..transform.run_codegen import ConstantNames
from .codegen import register_codegen
from .json_serializer import json_codegen
from .partition import partition

_FLOATS: Final = frozenset({"float32", "float64"})
_INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64", "uint8"})
_BOOL: Final = frozenset({"bool"})
_NUMBERS: Final = _FLOATS | _INTEGERS
_ALL: Final = _NUMBERS | _BOOL | {"float16", "bfloat16"}
"""Dtypes that torch moves and converts as the language does."""
_ROUNDED_TWICE: Final = frozenset(
    {("float64", "float16"), ("float64", "bfloat16"), ("int32", "bfloat16"), ("int64", "bfloat16")}
)
"""Conversions whose results float32, to which torch rounds first, changes."""
_INDICES: Final = frozenset({"int32", "int64"})


@dataclass(frozen=True)
class _Match:
    """A call of an operator on tensors of known rank, and numbers."""

    call: Call
    operator: Operator
    tensors: tuple[TensorStructInfo, ...]
    """The tensors among the operands, those of tuples one by one."""
    results: tuple[TensorStructInfo, ...]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the operator."""
        return getattr(self.operator, name)

    @property
    def rank(self) -> int:
        """Rank of the first tensor."""
        return self.tensors[0].ndim

    def has_elements(self, axes: Sequence[int] | None) -> bool:
        """True if no axis of the first tensor among `axes` (None: all) may be empty."""
        dims = self.tensors[0].dims or ()
        chosen = dims if axes is None else [dims[axis] for axis in axes]
        return all(isinstance(size, IntImm) and size.value > 0 for size in chosen)


Check: TypeAlias = "Callable[[_Match], bool]"


def _same(dtypes: frozenset[str]) -> Check:
    """Return the check that all tensors have one of these dtypes."""
    return lambda m: len(found := {str(t.dtype) for t in (*m.tensors, *m.results)}) == 1 and found <= dtypes


def _to_bool(dtypes: frozenset[str]) -> Check:
    """Return the check that all operands have one of these dtypes, and the result is of booleans."""
    return lambda m: len(found := {str(t.dtype) for t in m.tensors}) == 1 and found <= dtypes


def _indexed(m: _Match) -> bool:
    """True for a tensor of a dtype of torch, and int32 or int64 indices."""
    return str(m.tensors[0].dtype) in _ALL and len(m.tensors) == 2 and str(m.tensors[1].dtype) in _INDICES


def _converts(m: _Match) -> bool:
    """True for a conversion that torch defines and rounds once.

    It does not define those of NaN and large floats to integers, and rounds to float32 on the way to narrower floats.
    """
    source, target = str(m.tensors[0].dtype), str(m.results[0].dtype)
    rounds_twice = (source, target) in _ROUNDED_TWICE
    return {source, target} <= _ALL and not (m.tensors[0].dtype.is_float and target in _INTEGERS) and not rounds_twice


def _layouts(m: _Match, data: str, kernel: str) -> bool:
    result = str(m.out_layout or m.data_layout)
    return (str(m.data_layout), str(m.kernel_layout), result) == (data, kernel, data) and _is_symmetric(m)


def _is_symmetric(m: _Match) -> bool:
    half = m.rank - 2
    return len(m.padding) < 2 * half or m.padding[:half] == m.padding[half:]


def _each(m: _Match, name: str) -> list[int]:
    """Return an attribute with a number for each spatial axis; one number is that of all."""
    values = [int(value) for value in getattr(m, name)][: m.rank - 2]
    return values if len(values) == m.rank - 2 else values * (m.rank - 2)


_SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def _conv(rank: int) -> Check:
    return lambda m: _layouts(m, f"NC{_SPATIAL[rank]}", f"OI{_SPATIAL[rank]}")


def _conv_transpose(rank: int) -> Check:
    """Return the check of a transposed convolution: torch wants output_padding below stride or dilation."""

    def check(m: _Match) -> bool:
        extras = zip(*(_each(m, name) for name in ("output_padding", "strides", "dilation")), strict=True)
        return _layouts(m, f"NC{_SPATIAL[rank]}", f"IO{_SPATIAL[rank]}") and all(
            extra < max(stride, dilation) for extra, stride, dilation in extras
        )

    return check


def _pool(rank: int, kind: str) -> Check:
    """Return the check of pooling: torch pads by half a window at most, and averages without dilation."""

    def check(m: _Match) -> bool:
        layout = f"NC{_SPATIAL[rank]}"
        fits = all(2 * pad <= size for pad, size in zip(_each(m, "padding"), _each(m, "pool_size"), strict=True))
        plain = kind == "max" or (set(m.dilation) == {1} and not (m.ceil_mode and m.count_include_pad))
        known = not m.ceil_mode or all(isinstance(size, IntImm) for size in (m.tensors[0].dims or ())[2:])
        return (
            m.layout == layout and (m.out_layout or layout) == layout and _is_symmetric(m) and fits and plain and known
        )

    return check


def _adaptive_pool(rank: int) -> Check:
    layout = f"NC{_SPATIAL[rank]}"
    return lambda m: bool(m.output_size) and m.layout == layout and (m.out_layout or layout) == layout


def _last_axes(m: _Match) -> bool:
    """True for a normalisation over the last axes, with scale and shift of their shape."""
    axes = [axis % m.rank for axis in m.axes]
    fits = all(info.ndim == len(axes) for info in m.tensors[1:])
    return axes == list(range(m.rank - len(axes), m.rank)) and fits and _scales_and_shifts(m)


def _scales_and_shifts(m: _Match) -> bool:
    return getattr(m.operator, "center", True) and getattr(m.operator, "scale", True)


def _channels_second(m: _Match) -> bool:
    """True for a normalisation per channel or group of channels, which are axis 1, over all further axes."""
    axes = sorted(axis % m.rank for axis in m.axes)
    return m.channel_axis % m.rank == 1 and axes == list(range(2, m.rank)) and _scales_and_shifts(m) and m.rank > 2


def _pads(m: _Match) -> bool:
    return m.pad_mode == "constant"


def _clips(m: _Match) -> bool:
    """True for bounds that are known, and not NaN."""
    bounds = [cast(PrimValue, arg).value for arg in m.call.args[1:]]
    return all(isinstance(bound, IntImm | FloatImm) and bound.value == bound.value for bound in bounds)


def _reduces_some(m: _Match) -> bool:
    axis: Any = m.axis
    return m.has_elements((axis,) if isinstance(axis, int) else axis)


def _orders(m: _Match) -> bool:
    """True if indices, where there are any, have a dtype of torch's, and the tensor can be sorted along an axis."""
    indices = {str(result.dtype) for result in m.results} - {str(m.tensors[0].dtype)}
    return m.rank > 0 and str(m.tensors[0].dtype) in _NUMBERS and indices <= _INDICES


def _attends(m: _Match) -> bool:
    return m.window_size is None and not (m.causal_mask and len(m.tensors) > 3)


def _resizes(m: _Match) -> bool:
    """True for the modes in which torch reads the same elements with the same weights."""
    modes = str(m.method), str(m.coordinate_transformation_mode)
    sizes = zip((m.tensors[0].dims or ())[2:], (m.results[0].dims or ())[2:], strict=False)
    pairs = [(a.value, b.value) for a, b in sizes if isinstance(a, IntImm) and isinstance(b, IntImm)]
    if str(m.layout) != "NCHW" or m.rank != 4 or len(pairs) < 2 or min(map(min, pairs)) < 1 or m.cubic_exclude:
        return False
    if modes == ("nearest_neighbor", "asymmetric"):
        return m.rounding_method == "floor" and all(a % b == 0 or b % a == 0 for a, b in pairs)
    if modes == ("linear", "align_corners"):
        return all(b > 1 for _, b in pairs)
    return modes == ("linear", "half_pixel") or (modes == ("cubic", "half_pixel") and m.cubic_alpha == -0.75)


_FLOAT, _NUMBER, _ANY = _same(_FLOATS), _same(_NUMBERS), _same(_ALL)

_RULES: Final[Mapping[str, tuple[Check, ...]]] = {
    **dict.fromkeys(UNARY, (_FLOAT,)),
    **dict.fromkeys(TESTS, (_to_bool(_FLOATS),)),
    **dict.fromkeys(BINARY, (_NUMBER,)),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), (_to_bool(_NUMBERS),)),
    **dict.fromkeys(FLOAT_BINARY, (_FLOAT,)),
    **dict.fromkeys(("negative", "square"), (_NUMBER,)),
    **dict.fromkeys((*BITS, "bitwise_not"), (_same(_INTEGERS | _BOOL),)),
    **dict.fromkeys((*LOGIC, "logical_not"), (_same(_BOOL),)),
    "where": (
        lambda m: (
            str(m.tensors[0].dtype) == "bool"
            and len({str(t.dtype) for t in m.tensors[1:]} | {str(m.results[0].dtype)}) == 1
            and str(m.results[0].dtype) in _ALL
        ),
    ),
    **dict.fromkeys(
        (
            "nn.gelu",
            "nn.gelu_tanh",
            "nn.silu",
            "nn.relu6",
            "nn.leakyrelu",
            "nn.softplus",
            "nn.softmax",
            "nn.log_softmax",
        ),
        (_FLOAT,),
    ),
    "nn.layer_norm": (_FLOAT, _last_axes),
    "nn.rms_norm": (_FLOAT, _last_axes),
    "nn.group_norm": (_FLOAT, _channels_second),
    "nn.instance_norm": (_FLOAT, _channels_second),
    "nn.batch_norm": (_FLOAT, _scales_and_shifts, lambda m: not m.training and m.axis == 1),
    "nn.attention": (_FLOAT, _attends),
    **{f"nn.conv{rank}d": (_FLOAT, _conv(rank)) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": (_FLOAT, _conv_transpose(rank)) for rank in (1, 2, 3)},
    **{f"nn.{kind}_pool{rank}d": (_FLOAT, _pool(rank, kind)) for rank in (1, 2, 3) for kind in ("max", "avg")},
    **{f"nn.adaptive_avg_pool{rank}d": (_FLOAT, _adaptive_pool(rank)) for rank in (1, 2, 3)},
    "nn.pad": (_NUMBER, _pads),
    "image.resize2d": (_FLOAT, _resizes),
    **dict.fromkeys(
        (
            "nn.batch_flatten",
            "flatten",
            "permute_dims",
            "reshape",
            "broadcast_to",
            "expand_dims",
            "split",
            "flip",
            "tile",
        ),
        (_ANY,),
    ),
    "squeeze": (_ANY, lambda m: m.axis is not None),
    "concat": (_ANY, lambda m: m.axis is not None),
    "stack": (_ANY,),
    "strided_slice": (_ANY, lambda m: all(value.value > 0 for value in _numbers(m.call.args[4:]))),
    "take": (_indexed, lambda m: m.mode == "fast"),
    "gather_elements": (_indexed,),
    "clip": (_NUMBER, _clips),
    "astype": (_converts,),
    "sum": (_NUMBER,),
    "mean": (_FLOAT,),
    "max": (_NUMBER, _reduces_some),
    "min": (_NUMBER, _reduces_some),
    "variance": (_FLOAT,),
    "std": (_FLOAT,),
    "argmax": (lambda m: str(m.tensors[0].dtype) in _NUMBERS, _reduces_some),
    "argmin": (lambda m: str(m.tensors[0].dtype) in _NUMBERS, _reduces_some),
    "cumsum": (_FLOAT, lambda m: not m.exclusive),
    "sort": (_orders,),
    "argsort": (_orders,),
    "topk": (_orders,),
}
"""For each operator of torch's, checks that must all hold."""


def _numbers(args: Sequence[RelaxExpr]) -> list[Any]:
    """Return the numbers of operands that are scalars, shapes or tuples of scalars."""
    numbers: list[Any] = []
    for arg in args:
        match arg:
            case PrimValue(value):
                numbers.append(value)
            case ShapeExpr(values):
                numbers += values
            case Tuple(fields):
                numbers += _numbers(fields)
            case _:
                pass
    return numbers


def _tensors_of(info: StructInfo | None) -> list[TensorStructInfo] | None:
    """Return the tensors of known rank and dtype that a value holds, a tuple's one by one; None for another value."""
    match info:
        case TensorStructInfo(dims=dims, dtype=dtype) if dims is not None and not dtype.is_void:
            return [info]
        case TupleStructInfo(fields):
            parts = [_tensors_of(field) for field in fields if isinstance(field, TensorStructInfo)]
            return None if None in parts or len(parts) < len(fields) else [t for part in parts for t in part or ()]
        case _:
            return None


def _is_torchs(context: PatternCheckContext) -> bool:
    """True for a call that the operator's rule accepts."""
    call = context.matched_expr
    if isinstance(call, TupleGetItem):
        call = context.matched_bindings.get(cast("ExprVar", call.tuple_value), call.tuple_value)
    operator = operator_of(call) if isinstance(call, Call) else None
    if operator is None or not isinstance(call, Call):
        return False
    tensors: list[TensorStructInfo] = []
    for arg in call.args:
        if _is_static(arg):
            continue
        found = _tensors_of(arg.struct_info_)
        if found is None:
            return False
        tensors += found
    results = _tensors_of(call.struct_info_)
    if not tensors or not results or _postfix_operands(call, tensors) is None:
        return False
    match = _Match(call, operator, tuple(tensors), tuple(results))
    return all(check(match) for check in _RULES[operator.short_name])


# --------------------------------------------------------------------------- numbers in graphs

_SIGNS: Final[Mapping[type[PrimExpr], str]] = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%"}


def _is_static(arg: RelaxExpr) -> bool:
    """True for an operand that is numbers."""
    return isinstance(arg, ShapeExpr | PrimValue) or (
        isinstance(arg, Tuple) and all(isinstance(field, PrimValue) for field in arg.fields)
    )


def _postfix(expr: PrimExpr, places: Sequence[tuple[PrimExpr, str]]) -> str | None:
    """Return a number as text in postfix order, with tensors' dimensions in it; None if that is not possible."""
    if not isinstance(expr, IntImm | FloatImm):
        place = next((place for size, place in places if structural_equal(size, expr)), None)
        if place is not None:
            return place
    match expr:
        case IntImm(value=value) | FloatImm(value=value):
            return str(value)
        case _ if type(expr) in _SIGNS:
            parts = [_postfix(part, places) for part in (cast(Any, expr).a, cast(Any, expr).b)]
            return None if None in parts else f"{parts[0]} {parts[1]} {_SIGNS[type(expr)]}"
        case _:
            return None


def _postfix_operands(call: Call, tensors: Sequence[TensorStructInfo]) -> list[RelaxExpr] | None:
    """Return the operands of a call, with text for numbers; None if the tensors' sizes do not tell some number."""
    places = [
        (size, f"{number}:{axis}")
        for number, info in enumerate(tensors)
        for axis, size in enumerate(info.dims or ())
        if not isinstance(size, IntImm)
    ]
    operands: list[RelaxExpr] = []
    for arg in call.args:
        if not _is_static(arg):
            operands.append(arg)
            continue
        texts = [_postfix(value, places) for value in _numbers([arg])]
        if None in texts:
            return None
        operands.append(StringImm(",".join(text or "" for text in texts)))
    return operands


def _in_text(function: Function) -> Function:
    """Return a function whose calls have text for numbers, which a JSON graph can say of sizes known at run time only.

    Parameters that are shapes, which bind such sizes, are left out: the runtime passes tensors on only.
    """
    body = cast(SeqExpr, function.body)
    blocks = [block.replace(bindings=tuple(map(_binding_in_text, block.bindings))) for block in body.blocks]
    params = tuple(param for param in function.params if not isinstance(param.struct_info_, ShapeStructInfo))
    return function.replace(params=params, body=body.replace(blocks=tuple(blocks)))


def _binding_in_text(binding: Binding) -> Binding:
    if not isinstance(binding, VarBinding):
        return binding
    value = binding.value
    if isinstance(value, Function):
        return binding.replace(value=_in_text(value))
    operator = operator_of(value) if isinstance(value, Call) else None
    if not isinstance(value, Call):
        return binding
    if operator is None:  # of a composite function
        args = tuple(arg for arg in value.args if not isinstance(arg.struct_info_, ShapeStructInfo))
        return binding.replace(value=value.replace(args=args))
    tensors = [t for arg in value.args if not _is_static(arg) for t in _tensors_of(arg.struct_info_) or ()]
    operands = _postfix_operands(value, tensors)
    cut = getattr(operator, "indices_or_sections", None)
    if isinstance(cut, int):  # as many numbers as parts, to tell it from a list of indices
        operator = operator.replace(indices_or_sections=(0,) * cut)
    return binding.replace(value=value.replace(args=tuple(operands or value.args), attrs=operator))


def _generate(functions: Sequence[Function], options: dict[str, Any], constant_names: ConstantNames) -> Any:
    """Return modules with JSON graphs, whose numbers are text: see `relax.runtime.libraries.torch`."""
    return json_codegen("torch")([_in_text(function) for function in functions], options, constant_names)


def _patterns() -> list[FusionPattern]:
    prefix = "torch."
    names = [name.removeprefix(prefix) for name in TorchRuntime.operators]
    return [FusionPattern(prefix + name, _pattern(name), check=_is_torchs) for name in names]


def _pattern(name: str) -> DFPattern:
    """Return the pattern of an operator; that of nn.batch_norm matches the first field, which is not the statistics."""
    call = is_op(f"relax.{name}")(varg_default_wildcard=True)
    return is_tuple_get_item(call, 0) if name == "nn.batch_norm" else call


register_codegen("torch", patterns=_patterns(), codegen=_generate, override=True)


def partition_for_torch(mod: IRModule) -> IRModule:
    """Return a module whose operators are torch's where torch computes the same; see `partition`.

    Unused bindings are removed first: statistics of `R.nn.batch_norm`, which importers take out of its result.
    """
    return partition(DeadCodeElimination()(mod), "torch")
