"""Each operator's sample calls, exported and run in ONNX Runtime: they agree with its reference, or a table says why not."""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import pytest
from op_harness import all_cases, assert_close, reference, variant

import onnx_backend
import relax
from relax import BlockBuilder, ShapeStructInfo
from relax.expr import Tuple, Var
from relax.frontend.onnx import to_onnx
from relax.frontend.onnx.export.registry import WRITERS
from relax.op.operator import OPERATORS

UNSAID = {
    "relax.ccl.allgather": "tensors of several workers",
    "relax.ccl.allreduce": "tensors of several workers",
    "relax.ccl.broadcast_from_worker0": "tensors of several workers",
    "relax.ccl.scatter_collective": "tensors of several workers",
    "relax.dist.redistribute_replica_to_shard": "tensors of several workers",
    "relax.erfc": "1 - Erf has no digits left where the error function is near 1",
    "relax.grad.avg_pool2d_backward": "ONNX has no gradient of pools",
    "relax.nn.quantized_expert_matmul": "ONNX has no product of rows with a matrix for each",
}
"""Operators of sample calls that have no writer."""

REFUSED = {
    "nn.(rnn|gru|lstm)": "a recurrent layer whose hidden size is not known",  # an attribute of ONNX's
    "layout_transform": "a layout transform by an index map",
    "max_pool.*d.*": "indices of (a maximum pool in the layout NHWC|windows that lie in the padding)",
    "vision.roi_align": "regions pooled to the greatest sample",
    "nn.conv2d": "a convolution of .* with a window of unknown size",
    "nn.conv2d_transpose": "a transposed convolution of int32",
    "squeeze": "output .* of unknown rank",  # it has the rank that its sizes, if 1, leave
    "reinterpret": "of another width",
    "nn.(conv|.*_pool).*": r"a packed layout \(NC.*\d[a-z]\)",
    "vision.col2im": "images assembled from blocks of (int32|bool)",
    "dequantize_blocks|nn.quantized_(matmul|take)": "weights (in the block format .* that are no constants|that are arranged)",
}
"""Forms of operators that are refused: what ONNX cannot say."""

RUNTIME = {
    r".*float4_e2m1fn.*": "NOT_IMPLEMENTED",  # no kernels of 4-bit floats
    r".*u?int[24]\b.*": "NOT_IMPLEMENTED|No corresponding Numpy type|currently only supported",  # few of 2 and 4 bits
    r"astype.*(fnuz|fn|e5m2|e8m0fnu|e4m3.*|e3m4).*": "NOT_IMPLEMENTED|No corresponding Numpy type|currently only supported",
    r"image.resize.*": "while running Resize",  # sizes of 0, and more axes than kernels take
    r"(nn|grad).*pool.*": "while running (Max|Average|Lp)Pool|pads|Pad should be smaller|Exception during initialization",
    r"image.grid_sample.*": "while running GridSample",  # empty images, and bicubic samples of volumes
    r"nn.pad.*reflect.*": "while running Pad",  # by more than the data have
    r"take.*": "while running (Gather|Mod)|Exception during initialization",  # of nothing, out of range
    r"nn.layer_norm.*": "must be at least 1, got 0",
    r"nn.conv3d_transpose.*": "Computed output dimension is <= 0",
    r"vision.col2im.*": "must be a positive multiple",
    r"image.affine_grid.*": "Can't merge shape info",
    r"grad.take_backward.*": "Indices vs updates dimensions differs",
    r"quantize.*float32.0.*": "while running QuantizeLinear",  # of nothing by a scale for each element
    r"nn.(gru|lstm).*": "while running (GRU|LSTM)",  # lengths of 0
    r"(acos|acosh|asin|asinh|atan|atanh|cosh|erf|sinh|tan|nn.gelu|nn.conv2d.*|nn.avg_pool2d|nn.rnn)\(.*float64.*": "NOT_IMPLEMENTED",
}
"""Calls that ONNX Runtime does not run, by their text, with what it says."""

DIFFERENT = {
    r"quantize.*": "NaN, which QuantizeLinear leaves open",
    r"sum\(int64.*": "overflow, in which sums of ONNX Runtime stop",
    r"astype.*e8m0fnu.*": "rounding to powers of two",
    r"vision.*non_max_suppression\(float32\[1, 6, 4\].*": "boxes without an area, and of negative one",
    r"image.grid_sample.*nearest.*": "coordinates between two elements",
}
"""Calls whose results differ, with the reason."""


def leaves(arg):
    """The variables in an argument."""
    if isinstance(arg, Tuple):
        return [variable for field in arg.fields for variable in leaves(field)]
    return [arg] if isinstance(arg, Var) else []


def program(made):
    """A module that makes a call; a shape is a further parameter that binds symbolic sizes."""
    params = [variable for arg in made.call.args for variable in leaves(arg)]
    sizes = [Var("sizes", ShapeStructInfo(list(made.env)))] if made.env else []
    builder = BlockBuilder()
    with builder.function("main", [*params, *sizes]):
        with builder.dataflow():
            result = builder.emit_output(made.call)
        builder.emit_func_output(result)
    return builder.get(), [np.array(list(made.env.values()), np.int64)] if made.env else []


def problem(case, symbolic):
    """What is wrong with a call that is exported and run: "refused: …", "runtime: …", "differs: …", "" if nothing."""
    made = variant(case, symbolic)
    mod, sizes = program(made)
    try:
        model = to_onnx(mod)
    except relax.DiagnosticError as error:
        return f"refused: {error.diagnostics[0].message}"
    onnx.checker.check_model(model, full_check=True)
    args = [onnx_backend.onnxruntime_value(array) for array in [*made.arrays, *sizes]]
    try:
        session = onnx_backend.onnxruntime_session(model)
        found = session.run(None, {v.name: array for v, array in zip(session.get_inputs(), args, strict=True)})
    except Exception as error:  # noqa: BLE001 (ONNX Runtime has a dozen kinds)
        return f"runtime: {' '.join(str(error).split())}"
    for result, wanted in zip(found, reference(case, made.operator), strict=True):
        right = wanted if result.dtype == wanted.dtype else onnx_backend.onnxruntime_value(wanted)
        if (result.dtype, result.shape) != (right.dtype, right.shape):
            return f"differs: {result.dtype}{result.shape}, expected {right.dtype}{right.shape}"
        try:
            assert_close(result.astype(wanted.dtype), wanted, case.tolerance, False)
        except AssertionError as error:
            return f"differs: {' '.join(str(error).split())[:200]}"
    return ""


def explained(case, found):
    """The entry of a table that says why a call has a problem; None if there is none."""
    kind, _, said = found.partition(": ")
    if kind == "refused":
        for pattern, reason in REFUSED.items():
            if re.search(pattern, case.op) and re.search(reason, said):
                return pattern
        return case.op if case.op in UNSAID else None
    table = RUNTIME if kind == "runtime" else DIFFERENT
    text = str(case)
    fitting = {pattern: says for pattern, says in table.items() if re.match(pattern, text)}
    return next((p for p, says in fitting.items() if kind != "runtime" or re.search(says, said)), None)


def runs(case):
    """True for calls that are compared. ONNX Runtime ends the process for recurrent layers without steps."""
    empty = any(0 in value.shape for value in case.operands if isinstance(value, np.ndarray))
    return not case.raises and not (re.search("nn.(rnn|gru|lstm)", case.op) and empty)


CASES: dict[str, list] = {}
for _case in all_cases():
    if runs(_case):
        CASES.setdefault(_case.op, []).append(_case)


def test_every_operator_has_a_writer_or_a_reason():
    missing = {op for op in CASES if op not in WRITERS}
    assert missing == set(UNSAID)
    own = {name for name in WRITERS if name.startswith("relax.")}  # examples of the documentation add others
    assert own <= set(OPERATORS) | {"relax.call_tir", "relax.call_pure_packed"}


def check(op, cases):
    """Calls, with numbers and with symbolic sizes, agree or are explained."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            for symbolic in (False, True):
                found = problem(case, symbolic)
                assert not found or explained(case, found), f"{case}{' (symbolic)' * symbolic}: {found}"


@pytest.mark.parametrize("op", sorted(CASES))
def test_first_calls(op):
    check(op, CASES[op][:2])


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(CASES))
def test_all_calls(op):
    check(op, CASES[op][2:])
