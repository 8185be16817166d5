"""Calls of operators whose operands have an unknown rank or dtype: kernels are chosen at run time.

Before   y = R.exp(x)                          After   y = R.call_pure_packed("relax.run.operator", spec, kernels, x,
         # x: R.Tensor                                                        sinfo_args=R.Tensor)

`spec` is the JSON text of a function whose body is the call, and whose parameters are the shape variables and operands
that it reads. The runtime (`relax.runtime.operators`) takes a kernel for the ranks and dtypes of the operands from
`kernels`, a serialised executable, or has the function compiled when it first meets them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from ..analysis.variables import free_symbolic_vars
from ..block_builder import BlockBuilder
from ..expr import Call, Constant, DataTypeImm, Function, PrimValue, ShapeExpr, StringImm, Tuple, Var
from ..ir import DataType, Diagnostic, DiagnosticError, RelaxExpr, StructInfo, save_json
from ..ir.transform import PassContext
from ..op.base import as_value, call_runtime
from ..prim import Var as PrimVar
from ..runtime.operators import RUN_OPERATOR
from ..struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo

DISPATCH: Final = "relax.LegalizeOps.dispatch"
"""Entry of PassContext's `config`: False to reject calls of which too little is known (E4001). Default: True."""
COMBINATIONS: Final = "relax.LegalizeOps.combinations"
"""Entry of `config`: pairs (dtype, rank) of tensors for which kernels are compiled beforehand and saved with the
executable. All tensors of a call have one of the dtypes; their ranks may differ. The default is none."""
COMPILE: Final = "relax.LegalizeOps.compile"
"""Entry of `config`, set by `relax.build`: a function of `spec` and signatures that returns a serialised executable."""

Signature: TypeAlias = "tuple[tuple[str, int], ...]"
"""Dtype and rank of each tensor operand."""
Compile: TypeAlias = "Callable[[str, Sequence[Signature]], bytes]"

MOST_COMBINATIONS: Final = 256
"""Maximum number of combinations of a call for which kernels are compiled beforehand."""

_INLINE: Final = (ShapeExpr, PrimValue, StringImm, DataTypeImm)


def dispatched(call: Call, name: str, builder: BlockBuilder) -> RelaxExpr | None:
    """Return the call that chooses a kernel at run time; None if the configuration excludes it.

    `name` is that of the operator, for messages.
    """
    config = PassContext.current().config
    if config.get(DISPATCH, True) is False:
        return None
    sizes = free_symbolic_vars(call.replace(args=tuple(arg for arg in call.args if _is_inline(arg))))
    operands = [arg for arg in call.args if not _is_inline(arg)]
    spec = save_json(_function(call, name, sizes))
    kernels = _kernels(spec, call, operands, config) if not sizes else None
    values = (*map(PrimValue, sizes), *operands)
    return call_runtime(RUN_OPERATOR, (StringImm(spec), kernels or as_value(None), *values), call, builder)


def _is_inline(arg: RelaxExpr) -> bool:
    """True for an argument that is written into the function; constants are operands, since they may be large."""
    return isinstance(arg, _INLINE) or (isinstance(arg, Tuple) and all(map(_is_inline, arg.fields)))


def _function(call: Call, name: str, sizes: Sequence[PrimVar]) -> Function:
    """Return the call as a function of shape variables and operands."""
    params = [Var(size.name, PrimStructInfo(value=size)) for size in sizes]
    args: list[RelaxExpr] = []
    for position, arg in enumerate(call.args):
        if _is_inline(arg):
            args.append(arg)
        else:
            params.append(Var(f"x{position}", _annotation(arg)))
            args.append(params[-1])
    return Function(params, call.replace(args=tuple(args), span=None), attrs={"global_symbol": name})


def _annotation(operand: RelaxExpr) -> StructInfo:
    """Return the struct info of a parameter: the dtype of a scalar, which its value does not tell, and nothing else."""
    info = operand.struct_info_
    return PrimStructInfo(info.dtype) if isinstance(info, PrimStructInfo) else ObjectStructInfo()


def _kernels(spec: str, call: Call, operands: Sequence[RelaxExpr], config: Mapping[str, Any]) -> Constant | None:
    """Return the kernels compiled beforehand, if the configuration asks for some and each operand is a tensor.

    Raises DiagnosticError for combinations that are invalid or too many.
    """
    ranks = _ranks(call, config.get(COMBINATIONS, ()))
    compile_: Compile | None = config.get(COMPILE)
    if not ranks or compile_ is None or not all(isinstance(x.struct_info_, TensorStructInfo) for x in operands):
        return None
    count = sum(len(of) ** len(operands) for of in ranks.values())
    if count > MOST_COMBINATIONS:
        message = f"{len(operands)} operands of the dtypes and ranks given have {count} combinations"
        raise _error(
            call, message, f"give fewer: at most {MOST_COMBINATIONS} kernels of a call are compiled beforehand"
        )
    signatures = [
        tuple((dtype, rank) for rank in chosen)
        for dtype, of in ranks.items()
        for chosen in product(of, repeat=len(operands))
    ]
    code = compile_(spec, signatures)
    return Constant(np.frombuffer(code, "uint8")) if code else None


def _ranks(call: Call, combinations: Any) -> dict[str, list[int]]:
    """Return the ranks of each dtype among pairs (dtype, rank)."""
    ranks: dict[str, list[int]] = {}
    try:
        for dtype, rank in combinations:
            of = ranks.setdefault(str(DataType(dtype)), [])
            if operator.index(rank) < 0:
                raise ValueError(f"the rank {rank} is negative")
            if rank not in of:
                of.append(rank)
    except (TypeError, ValueError) as error:
        raise _error(call, f"{combinations!r}: {error}", 'write pairs of dtype and rank: [("float32", 2)]') from None
    return ranks


def _error(call: Call, message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("E4017", f"{COMBINATIONS}: {message}", call.span, hint=hint))
