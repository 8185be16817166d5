"""Kernel calls proved to match their PrimFunc: its sizes and scalars in terms of the call's operands.

    R.call_tir(cls.add, (x, y), R.Tensor((m, 4), "float32"))       x: (m, 4), y: (4,)
    @T.prim_func add(A: (n, 4), B: (4,), C: (n, 4))                values: {n: m}

Fusion puts the body of a kernel into another one, where nothing checks its arguments any more. So a call counts only if
every size is proved to be what the kernel expects; all others are left as they are.
"""

from __future__ import annotations

from ...expr import Call, PrimValue, ShapeExpr, Tuple
from ...ir import GlobalVar, IRModule, RelaxExpr, StructInfo, structural_equal
from ...op import is_call_of
from ...op.intrinsics import CallTIR
from ...prim import IntImm, PrimExpr, Var, free_vars, substitute
from ...prim.intervals import may_overflow
from ...runtime.records import dataclass
from ...struct_info import TensorStructInfo, TupleStructInfo
from ...tir.buffer import Buffer
from ...tir.nests import is_compact, same_size
from ...tir.stmt import PrimFunc
from ...tir.written import written_params


@dataclass(frozen=True)
class KernelCall:
    """A call of a PrimFunc by call_tir; see the module's docstring."""

    func: PrimFunc
    callee: GlobalVar
    inputs: tuple[tuple[Buffer, RelaxExpr], ...]
    """The tensor operands, each with the parameter's buffer."""
    outputs: tuple[tuple[Buffer, TensorStructInfo], ...]
    values: dict[Var, PrimExpr]
    """The values of sizes and scalar parameters."""
    returns_tuple: bool


class KernelCalls:
    """The calls of a module's kernels, with what is asked of each kernel again and again."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self._written: dict[PrimFunc, frozenset[int]] = {}

    def of(self, call: RelaxExpr) -> KernelCall | None:
        """Return the KernelCall for a call_tir whose operands provably match the PrimFunc, else None."""
        if not isinstance(call, Call) or not is_call_of(call, CallTIR):
            return None
        callee, args, *rest = call.args
        func = self.mod.get(callee) if isinstance(callee, GlobalVar) else None
        if not isinstance(callee, GlobalVar) or not isinstance(func, PrimFunc) or not isinstance(args, Tuple):
            return None
        outputs = output_tensors(call.sinfo_args[0])
        if outputs is None or (rest and not isinstance(rest[0], ShapeExpr)):
            return None
        integers = rest[0].values if rest and isinstance(rest[0], ShapeExpr) else ()
        returns_tuple = isinstance(call.sinfo_args[0], TupleStructInfo)
        match = _Match(func, self.written(func))
        return match.matched(callee, args.fields, integers, outputs, returns_tuple)

    def written(self, func: PrimFunc) -> frozenset[int]:
        """The positions of the parameters that a kernel writes."""
        if func not in self._written:
            self._written[func] = written_params(func)
        return self._written[func]


def output_tensors(info: StructInfo) -> tuple[TensorStructInfo, ...] | None:
    """The tensors that a call returns; None unless each has a shape and a dtype."""
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    tensors = tuple(i for i in infos if isinstance(i, TensorStructInfo) and dims_of(i) is not None)
    return tensors if len(tensors) == len(infos) else None


def dims_of(info: StructInfo | None) -> tuple[PrimExpr, ...] | None:
    """The dimensions of a tensor; None if they are not written out, or its dtype is not known."""
    if not isinstance(info, TensorStructInfo) or info.dtype.is_void or not isinstance(info.shape, ShapeExpr):
        return None
    return info.shape.values


class _Match:
    """Match operands to the parameters of a PrimFunc."""

    def __init__(self, func: PrimFunc, written: frozenset[int]) -> None:
        self.func = func
        self.written = written
        self.values: dict[Var, PrimExpr] = {}
        self.sizes: list[tuple[PrimExpr, PrimExpr]] = []
        """Sizes of parameters, each with the dimension of the operand."""

    def matched(
        self,
        callee: GlobalVar,
        inputs: tuple[RelaxExpr, ...],
        integers: tuple[PrimExpr, ...],
        outputs: tuple[TensorStructInfo, ...],
        returns_tuple: bool,
    ) -> KernelCall | None:
        params = self.func.params
        if len(params) != len(inputs) + len(integers) + len(outputs):
            return None
        first = len(inputs)
        integers_last = bool(integers) and params[-1] not in self.func.buffer_map
        out_at = first if integers_last else first + len(integers)
        int_at = first + len(outputs) if integers_last else first
        if not self.written <= set(range(out_at, out_at + len(outputs))):
            return None
        fits = [self.computed(p, v, outputs) for p, v in zip(params[int_at:], integers, strict=False)]
        tensors: list[tuple[Buffer, RelaxExpr]] = []
        for param, value in zip(params, inputs, strict=False):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                fits.append(isinstance(value, PrimValue) and self.computed(param, value.value, outputs))
            else:
                fits.append(self.tensor(buffer, value.struct_info_))
                tensors.append((buffer, value))
        results = [self.func.buffer_map.get(p) for p in params[out_at : out_at + len(outputs)]]
        output_buffers = [(b, info) for b, info in zip(results, outputs, strict=True) if b is not None]
        fits += [len(output_buffers) == len(outputs), *(self.tensor(b, info) for b, info in output_buffers)]
        if not all(fits) or not all(self.size_fits(size, dim) for size, dim in self.sizes):
            return None
        return KernelCall(self.func, callee, tuple(tensors), tuple(output_buffers), self.values, returns_tuple)

    def computed(self, param: Var, value: PrimExpr, outputs: tuple[TensorStructInfo, ...]) -> bool:
        """Bind a scalar that a kernel would compute itself. A kernel wraps around where the caller has an error.

        A dimension of a result is computed, with that error, wherever the kernel is.
        """
        dims = (dim for info in outputs for dim in dims_of(info) or ())
        safe = not may_overflow(value) or any(structural_equal(value, dim) for dim in dims)
        return safe and self.scalar(param, value)

    def scalar(self, param: Var, value: PrimExpr) -> bool:
        """Bind a scalar parameter; False if the value may not fit."""
        if param in self.func.buffer_map or param.dtype.is_handle:
            return False
        if value.dtype != param.dtype:
            if not isinstance(value, IntImm) or not param.dtype.is_integer:
                return False
            if not param.dtype.min_value <= value.value <= param.dtype.max_value:
                return False
            value = IntImm(param.dtype, value.value)
        if param in self.values:
            return same_size(self.values[param], value)
        self.values[param] = value
        return True

    def tensor(self, buffer: Buffer, info: StructInfo | None) -> bool:
        """Bind the sizes of a tensor parameter that stand alone; False if dtype or rank differ."""
        dims = dims_of(info)
        if dims is None or not isinstance(info, TensorStructInfo) or info.dtype != buffer.dtype:
            return False
        if len(dims) != buffer.ndim or not is_compact(buffer):
            return False
        for size, dim in zip(buffer.shape, dims, strict=True):
            if isinstance(size, Var) and size not in self.values and not self.scalar(size, dim):
                return False
            self.sizes.append((size, dim))
        return True

    def size_fits(self, size: PrimExpr, dim: PrimExpr) -> bool:
        """True if a size of a parameter is proved to be the operand's dimension."""
        if isinstance(size, IntImm):
            return same_size(size, dim)
        if any(var not in self.values for var in free_vars(size)):
            return False
        return same_size(substitute(size, self.values), dim)
