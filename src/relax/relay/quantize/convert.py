"""quantize: a trained network with convolutions and products of int8.

    nn.conv2d(%x, weight)    becomes    %0 = cast(clip(round(%x / sx), -127, 127), dtype="int8");
                                        %1 = nn.conv2d(%0, weight8, out_dtype="int32");
                                        cast(%1, dtype="float32") * (sx * sw)

where weight8 = round(weight / sw) is a constant. The steps sx and sw are the operand's threshold and the weight's
range, divided by the largest integer, 127 for 8 bits. An operand of several calls is quantised once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from ...ir import IRModule
from ...ir.transform import Sequential
from ...runtime.records import dataclass
from ..adt import Match
from ..executor import create_executor
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, Var, const
from ..operators import call_operator
from ..parts import parts_of
from ..transform.canonicalize_ops import CanonicalizeOps
from ..transform.fold_constant import FoldConstant
from ..transform.fold_scale_axis import BackwardFoldScaleAxis, ForwardFoldScaleAxis
from ..transform.infer_type import InferType
from ..transform.rewriting import Rewriter, is_call, substituted_vars
from ..transform.simplify_inference import SimplifyInference
from ..transform.to_graph_normal_form import ToGraphNormalForm
from ..types import TensorType
from .calibrate import Array, histograms, threshold_by_kl, threshold_by_percentile
from .config import QConfig, current_qconfig

_CONVOLUTIONS: Final = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_LARGEST_SUM: Final = 2**31 - 1


def quantize(
    mod: IRModule | Function,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
) -> IRModule:
    """Return the module with convolutions and products of `main` computed in int8, according to `current_qconfig`.

    Parameters
    ----------
    mod
        A module, or its main function, of float32.
    params
        Values for parameters of main by name, which become constants. Only calls whose weight is a constant change.
    dataset
        Inputs of main by parameter name, one mapping a batch, to find ranges with; "global_scale" needs none. It is
        read twice.

    A call inside a branch, a clause or a function stays float32, as does one on a value that `let` binds with an
    effect. Raises ValueError for a mode that needs a dataset and has none, and DiagnosticError for a module that is
    wrong.
    """
    config = current_qconfig()
    mod = prerequisite_optimize(mod, params)
    main_name = mod.get_global_var("main")
    main = cast(Function, mod["main"])
    chosen = list(_chosen(main, config))
    if not chosen:
        return mod
    thresholds = _thresholds(mod, main, [call.args[0] for call in chosen], config, dataset)
    steps = dict(zip(chosen, thresholds, strict=True))
    body = _Realizer(config, steps).visit(main.body)
    # the result type is derived from the body; operand types are unchanged
    changed = mod.with_functions({main_name: main.replace(body=body)})
    return InferType()(FoldConstant()(InferType()(changed)))


def prerequisite_optimize(mod: IRModule | Function, params: Mapping[str, Any] | None = None) -> IRModule:
    """Return the module in the form that `quantize` expects: batch norms folded into weights, weights as constants."""
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    if params:
        name = module.get_global_var("main")
        module = module.with_functions({name: _bound(cast(Function, module["main"]), params)})
    passes = [
        ToGraphNormalForm(), SimplifyInference(), FoldConstant(), ForwardFoldScaleAxis(), BackwardFoldScaleAxis(),
        CanonicalizeOps(), FoldConstant(),
    ]  # fmt: skip
    return Sequential([step for each in passes for step in (InferType(), each)] + [InferType()])(module)


def _bound(main: Function, params: Mapping[str, Any]) -> Function:
    """Bind constants to parameters. Raises ValueError for an unknown parameter name."""
    table = {param.name_hint: param for param in main.params}
    for name in params:
        if name not in table:
            raise ValueError(f"quantize: main has no parameter named {name!r}")
    constants: dict[Var, Expr] = {table[name]: Constant(_array(value)) for name, value in params.items()}
    kept = tuple(param for param in main.params if param not in constants)
    return main.replace(params=kept, body=substituted_vars(main.body, constants))


def _array(value: Any) -> Array:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


# -- the calls that change


def _chosen(main: Function, config: QConfig) -> Iterator[Call]:
    """Yield the calls of main that are quantised, in evaluation order."""
    convolutions = 0
    for node in _calls_of(main.body):
        if is_call(node, *_CONVOLUTIONS):
            skipped = convolutions in config.skip_conv_layers
            convolutions += 1
        elif is_call(node, "nn.dense"):
            skipped = config.skip_dense_layer
        else:
            continue
        if not skipped and _is_quantizable(node, config):
            yield node


def _is_quantizable(call: Call, config: QConfig) -> bool:
    data, weight = call.args
    type_ = getattr(data, "checked_type_", None)
    out_dtype = cast(Any, call.attrs).out_dtype
    if not isinstance(type_, TensorType) or str(type_.dtype) != "float32":
        return False
    if not isinstance(weight, Constant) or weight.data.dtype != "float32" or not np.isfinite(weight.data).all():
        return False
    if out_dtype is not None and not out_dtype.is_void and str(out_dtype) != "float32":
        return False
    products = _largest(config.nbit_input) * _largest(config.nbit_weight) * (weight.data.size or 1)
    return products // max(1, weight.data.shape[0]) <= _LARGEST_SUM


def _calls_of(body: Expr) -> Iterator[Call]:
    """Yield the calls always evaluated with the body, on values that depend only on parameters; operands first."""
    bound: set[Expr] = set()
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(body, False)]
    while stack:
        node, entered = stack.pop()
        if node in seen:
            continue
        if not entered:
            if isinstance(node, Let):
                bound.add(node.var)
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(_evaluated(node)))
            continue
        seen.add(node)
        if any(operand in bound for operand in _evaluated(node)):
            bound.add(node)
        elif isinstance(node, Call):
            yield node


def _evaluated(node: Expr) -> Sequence[Expr]:
    """Parts of an expression that are always evaluated with it."""
    match node:
        case Function():
            return ()
        case If(cond):
            return (cond,)
        case Match():
            return (node.data,)
        case _:
            return parts_of(node)


# -- ranges


def _thresholds(
    mod: IRModule,
    main: Function,
    operands: Sequence[Expr],
    config: QConfig,
    dataset: Iterable[Mapping[str, Any]] | None,
) -> list[float]:
    """Quantisation threshold of each operand."""
    if config.calibrate_mode == "global_scale":
        return [config.global_scale] * len(operands)
    if dataset is None:
        raise ValueError(f'quantize: calibrate_mode "{config.calibrate_mode}" needs a dataset')
    batches = list(dataset)
    if not batches:
        raise ValueError("quantize: the dataset has no batch")
    distinct = list(dict.fromkeys(operands))
    observed = Function(list(main.params), Tuple(distinct))
    evaluate = create_executor("vm", mod).evaluate(observed)
    names = [param.name_hint for param in main.params]

    def values() -> Iterator[list[Array]]:
        for batch in batches:
            missing = [name for name in names if name not in batch]
            if missing:
                raise ValueError(f"quantize: a batch of the dataset has no {', '.join(missing)}")
            yield [_array(value) for value in evaluate(*(batch[name] for name in names))]

    find = threshold_by_kl if config.calibrate_mode == "kl_divergence" else threshold_by_percentile
    thresholds = [find(histogram, config.nbit_input) for histogram in histograms(values, len(distinct))]
    table = dict(zip(distinct, thresholds, strict=True))
    return [table[operand] for operand in operands]


# -- the program of integers


@dataclass(frozen=True)
class _Numbers:
    """Quantised numbers: multiples of a step, up to a largest one."""

    step: float
    largest: int

    def of(self, values: Array) -> Array:
        """Quantise an array; the result is float64."""
        rounded = np.round(values.astype("float64") / self.step)
        return np.minimum(np.maximum(rounded, -self.largest), self.largest)


def _largest(bits: int) -> int:
    return 2 ** (bits - 1) - 1


class _Realizer(Rewriter):
    def __init__(self, config: QConfig, thresholds: Mapping[Call, float]) -> None:
        super().__init__()
        self.config = config
        self.left = dict(thresholds)
        self._quantized: dict[tuple[Expr, float], Expr] = {}

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        threshold = self.left.pop(pre, None) if isinstance(pre, Call) else None
        if threshold is None:
            return post
        call = cast(Call, post)
        config = self.config
        data = _Numbers(threshold / _largest(config.nbit_input), _largest(config.nbit_input))
        values = cast(Constant, call.args[1]).data
        weight = _Numbers(
            _weight_threshold(values, config) / _largest(config.nbit_weight), _largest(config.nbit_weight)
        )
        numbers = weight.of(values)
        if config.do_simulation:
            rounded = Constant((numbers * weight.step).astype("float32"))
            return call.replace(args=(self._simulated(call.args[0], data), rounded))
        operands = self._quantize(call.args[0], data), Constant(numbers.astype(config.dtype_weight))
        attrs = {**dict(cast(Any, call.attrs).items()), "out_dtype": config.dtype_activation}
        total = call_operator(cast(Any, call.op).name, *operands, **attrs)
        return call_operator(
            "multiply", call_operator("cast", total, dtype="float32"), const(data.step * weight.step, "float32")
        )

    def _quantize(self, data: Expr, numbers: _Numbers) -> Expr:
        key = data, numbers.step
        if key not in self._quantized:
            rounded = self._rounded(data, numbers)
            self._quantized[key] = call_operator("cast", rounded, dtype=self.config.dtype_input)
        return self._quantized[key]

    def _simulated(self, data: Expr, numbers: _Numbers) -> Expr:
        key = data, numbers.step
        if key not in self._quantized:
            step = const(numbers.step, "float32")
            self._quantized[key] = call_operator("multiply", self._rounded(data, numbers), step)
        return self._quantized[key]

    def _rounded(self, data: Expr, numbers: _Numbers) -> Expr:
        scaled = call_operator("multiply", data, const(1 / numbers.step, "float32"))
        return call_operator(
            "clip", call_operator("round", scaled), a_min=-float(numbers.largest), a_max=float(numbers.largest)
        )


def _weight_threshold(values: Array, config: QConfig) -> float:
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return largest if config.weight_scale == "max" else float(2.0 ** np.ceil(np.log2(largest)))
