"""OpenBLAS, the smallest example of a C library: matrix products of float32 and float64, called by address.

mod = partition_for_openblas(mod)            pip install relax[openblas]
"""

from __future__ import annotations

from ..dpl import is_op, wildcard
from ..expr import Call
from ..ir import IRModule
from ..op.base import operator_of
from ..prim import Analyzer
from ..struct_info import TensorStructInfo
from ..transform.fusion.fuse_ops_by_pattern import PatternCheckContext
from .codegen import register_codegen
from .json_serializer import json_codegen
from .partition import partition

_DTYPES = ("float32", "float64")


def _fits(context: PatternCheckContext) -> bool:
    """True for a product of matrices, or of as many on either side, without broadcasting."""
    root = context.annotated_expr["root"]
    left, right = (context.annotated_expr[name].struct_info_ for name in ("left", "right"))
    result = root.struct_info_
    infos = [info for info in (left, right, result) if isinstance(info, TensorStructInfo)]
    if len(infos) < 3 or len({str(info.dtype) for info in infos}) > 1 or str(infos[0].dtype) not in _DTYPES:
        return False
    a, b = infos[0].dims, infos[1].dims
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return False
    prover = Analyzer()
    same_batch = len(a) == len(b) and all(map(prover.can_prove_equal, a[:-2], b[:-2]))
    return len(b) == 2 or same_batch


def _is_transposed(context: PatternCheckContext) -> bool:
    """True for a product with a matrix whose axes are swapped."""
    swap = context.annotated_expr["swap"]
    axes = getattr(operator_of(swap), "axes", ()) if isinstance(swap, Call) else ()
    info = context.annotated_expr["right"].struct_info_
    return isinstance(info, TensorStructInfo) and info.ndim == 2 and axes in (None, (1, 0)) and _fits(context)


def _register() -> None:
    left, right = wildcard(), wildcard()
    product = is_op("relax.matmul")(left, right)
    a, b = wildcard(), wildcard()
    swap = is_op("relax.permute_dims")(b)
    transposed = is_op("relax.matmul")(a, swap)
    parts = {"root": transposed, "left": a, "right": b, "swap": swap}
    register_codegen(
        "openblas",
        patterns=[
            ("openblas.matmul", product, {"root": product, "left": left, "right": right}, _fits),
            ("openblas.matmul_transposed", transposed, parts, _is_transposed),
        ],
        codegen=json_codegen("openblas"),
        override=True,
    )


_register()


def partition_for_openblas(mod: IRModule) -> IRModule:
    """Return a module whose matrix products are OpenBLAS's. Raises nothing of its own; see `partition`."""
    return partition(mod, "openblas")
