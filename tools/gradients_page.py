"""The table of docs/gradients.md: operators, and whether `Gradient` has a derivative of each.

python tools/gradients_page.py            write the table anew
python tools/gradients_page.py --check    exit status 1 if it is not as it would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from generated_pages import with_part, write_or_check
from relax.ir import Op
from relax.ir.op import load_home
from relax.op.base import Operator
from relax.op.operator import OPERATORS

PAGE = Path(__file__).parents[1] / "docs" / "gradients.md"
BEGIN = "<!-- operators: written by tools/gradients_page.py -->\n"
END = "<!-- end of the operators -->\n"

CONSTANT = "none: the result is piecewise constant, its gradient 0"
INDICES = "none: the result is indices, integers or booleans"
NEW = "none: the result does not depend on a tensor of floats"
LOOPS = "none: the formula is a statement of loops, which is not differentiated"
TENSORS = "none: the sizes of the result are known at run time only; `strided_slice` with dynamic sizes has one"
INTERNAL = "none: made by passes that run after `Gradient`"
CALLS = "none: a call of a kernel or function; `call_tir_with_grad` names the gradient of a kernel"
KERNELS = "derivative, if the kernel is loop nests of elements, sums, maxima and minima: by their adjoint loops"
REGISTERED = "derivative, by the function of tensor expressions that it names"
QUANTISED = "none: not built, as a model is quantised after it is trained; `astype` and arithmetic have derivatives"
DEVICES = "none: a transfer between devices or workers"

REASONS: dict[str, str] = {
    CONSTANT: "ceil floor floor_divide round sign trunc grad.no_grad left_shift right_shift quantize "
    "reinterpret multinomial_from_uniform nn.dynamic_quantize",
    INDICES: "argmax argmin argsort bitwise_and bitwise_not bitwise_or bitwise_xor bucketize equal greater "
    "greater_equal isfinite isinf isnan less less_equal logical_and logical_not logical_or logical_xor nonzero "
    "not_equal shape_of shape_to_tensor tensor_to_shape unique inspect.tensor_byte_offset inspect.tensor_dtype_bits "
    "inspect.tensor_dtype_code inspect.tensor_dtype_lanes inspect.tensor_elem_offset inspect.tensor_ndim "
    "inspect.tensor_shape_i inspect.tensor_stride_i vision.all_class_non_max_suppression "
    "vision.padded_non_max_suppression vision.leading_rows",
    NEW: "arange blackman_window eye eye_like full full_like hamming_window hann_window null_value one_hot ones "
    "ones_like random.normal random.seed random.uniform read_tensor_from_file zeros zeros_like",
    TENSORS: "dynamic_strided_slice",
    LOOPS: "vision.roi_align grad.nll_loss_backward",
    INTERNAL: "builtin.alloc_tensor memory.alloc_storage memory.alloc_tensor memory.kill_storage memory.kill_tensor "
    "memory.view vm.alloc_storage vm.alloc_tensor vm.call_tir_dyn vm.kill_object call_builtin_with_ctx",
    QUANTISED: "dequantize dequantize_blocks saturating_astype nn.quantized_matmul nn.quantized_expert_matmul "
    "nn.quantized_take",
    CALLS: "call_dps_packed call_inplace_packed call_packed call_pure_packed call_tir_inplace "
    "invoke_closure invoke_pure_closure make_closure print assert_op",
    KERNELS: "call_tir",
    REGISTERED: "call_tir_with_grad",
    DEVICES: "ccl.allgather ccl.allreduce ccl.broadcast_from_worker0 ccl.scatter_collective "
    "ccl.scatter_from_worker0 dist.redistribute_replica_to_shard hint_on_device to_vdevice",
}
"""Operators without a derivative, by the reason, and those that have one under a condition."""

_REASON = {name: reason for reason, names in REASONS.items() for name in names.split()}


def operators() -> Iterator[str]:
    """Names of the operators, without the prefix ``relax.``. Functions that build calls of others are left out."""
    for name in sorted(OPERATORS):
        load_home(name)
        if Op.exists(name) and isinstance(Op.get(name).get_attr("operator_class"), type):
            yield name.removeprefix("relax.")


def status(name: str) -> str:
    """ "derivative", or the reason for none."""
    return _REASON.get(name, "derivative")


def rule(name: str) -> str:
    """The origin of an operator's derivative."""
    cls = Op.get(f"relax.{name}").get_attr("operator_class")
    own = cls.gradient is not Operator.gradient or cls.gradient_of_call is not Operator.gradient_of_call
    return "derivative, by a rule" if own else "derivative, by adjoint loops of the formula"


def table() -> str:
    """The table: a row per operator."""
    lines = ["| operator | |", "|---|---|"]
    for name in operators():
        text = status(name)
        lines.append(f"| `{name}` | {rule(name) if text == 'derivative' else text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page with the table as it should be."""
    return with_part(PAGE, BEGIN, END, table())


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), __doc__))
