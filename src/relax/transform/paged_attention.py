"""Compile the kernels of paged KV caches: appending to pages, and attention to them.

Before   cache = R.call_packed("vm.builtin.paged_attention_kv_cache_create", …, options, sinfo_args=R.Object)
After    cache = R.call_packed("vm.builtin.paged_attention_kv_cache_create", …, (cls.paged_append, cls.paged_attend),
                               options, sinfo_args=R.Object)

         @T.prim_func(private=True)
         def paged_append(qkv, angles, slots, keys, values, queries): …
         @T.prim_func(private=True)
         def paged_attend(queries, query_positions, query_indptr, keys, values, page_indptr, …, out, lse): …
Keeps    calls with kernels of their own; caches whose page size, heads, dtypes or options are not constants, for which
         the cache computes in NumPy

`relax.topi.paged_attention` has the formulas. Caches with the same heads share one pair of functions. Numbers that fit
no kernel are left to the builtin, which says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..expr import Call, ExternFunc, Function, PrimValue, StringImm, Tuple, Var, VarBinding
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.intrinsics import CallPurePacked
from ..prim import FloatImm, IntImm, PrimExpr
from ..rewrite import Rewriter, bindings_in
from ..runtime.paged_layout import CONFIGURATION, FACTORS, FUNCTIONS, HEADS, PAGE_SIZE, ROPE_MODE
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..topi.paged_attention import PagedHeads, append_to_pages, attend_to_pages
from .decorators import module_pass

CREATE: Final = "vm.builtin.paged_attention_kv_cache_create"
"""Name of the builtin that creates a cache."""


@module_pass(needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def CompilePagedAttention(mod: IRModule) -> IRModule:
    """Give paged KV caches compiled kernels; see the module's docstring."""
    functions = [function for function in mod.functions.values() if isinstance(function, Function)]
    if not any(_creates(binding.value) for function in functions for binding in bindings_in(function)):
        return mod
    return _Caches(mod).module()


def _creates(value: object) -> bool:
    """True for a call of the builtin that creates a cache."""
    if not isinstance(value, Call):
        return False
    callee = value.args[0] if is_call_of(value, CallPurePacked) else value.op
    return isinstance(callee, ExternFunc) and callee.global_symbol == CREATE


class _Caches(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.values: dict[Var, RelaxExpr] = {}

    def function(self, function: Function) -> RelaxExpr:
        self.values |= {b.var: b.value for b in bindings_in(function) if isinstance(b, VarBinding)}
        return super().function(function)

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not _creates(call):
            return call
        start = 1 if is_call_of(call, CallPurePacked) else 0
        args = call.args[start:]
        end = len(args)
        options = self.options(args[-1]) if args else None
        if options is not None:
            end -= 1
        heads = self.heads(args, options or {})
        if heads is None or end < _init(args) + 1 + FUNCTIONS[0] or self.is_given(args[end - 1]):
            return call
        names = ((append_to_pages, "paged_append"), (attend_to_pages, "paged_attend"))
        kernels = Tuple([
            self.builder.add_func(make(heads).without_attr("global_symbol"), name) for make, name in names
        ])  # fmt: skip
        return call.replace(args=(*call.args[: start + end], kernels, *call.args[start + end :]))

    def value(self, expr: RelaxExpr) -> RelaxExpr:
        """Value of an expression, with variables resolved."""
        while isinstance(expr, Var) and expr in self.values:
            expr = self.values[expr]
        return expr

    def is_given(self, expr: RelaxExpr) -> bool:
        """True for a tuple of two functions."""
        value = self.value(expr)
        return isinstance(value, Tuple) and len(value.fields) == 2

    def options(self, expr: RelaxExpr) -> dict[str, RelaxExpr] | None:
        """Options by name, of a tuple of names and values in turn; None for other expressions."""
        value = self.value(expr)
        if not isinstance(value, Tuple) or not value.fields or len(value.fields) % 2:
            return None
        names = [self.value(field) for field in value.fields[::2]]
        if not all(isinstance(name, StringImm) for name in names):
            return None
        return {name.value: value.fields[2 * i + 1] for i, name in enumerate(names) if isinstance(name, StringImm)}

    def heads(self, args: tuple[RelaxExpr, ...], options: Mapping[str, RelaxExpr]) -> PagedHeads | None:
        """Constants of the kernels of a cache; None if they are not known, or fit no kernel."""
        if len(args) <= FACTORS + 1:
            return None
        sizes, init = args[CONFIGURATION].struct_info, args[_init(args)].struct_info
        if not isinstance(sizes, ShapeStructInfo) or sizes.values is None or len(sizes.values) <= PAGE_SIZE:
            return None
        if not isinstance(init, TensorStructInfo):
            return None
        numbers = [_number(sizes.values[PAGE_SIZE]), *(self.number(arg) for arg in args[HEADS])]
        page_size, query_heads, kv_heads, depth, columns = numbers
        mode = self.number(args[ROPE_MODE])
        rotary, interleaved, softcap = (
            self.number(options[name]) if name in options else default
            for name, default in (("rotary_dim", depth), ("interleaved", 0), ("softcap", 0.0))
        )
        page_dtype = self.value(options["page_dtype"]) if "page_dtype" in options else StringImm(str(init.dtype))
        whole = (page_size, query_heads, kv_heads, depth, columns, mode, rotary, interleaved)
        if not all(isinstance(number, int) for number in whole) or softcap is None:
            return None
        if not isinstance(page_dtype, StringImm):
            return None
        sizes_of = dict(zip(("page_size", "query_heads", "kv_heads", "depth", "columns"), whole, strict=False))
        rotated = int(rotary or 0) // 2 if mode else 0
        try:
            return PagedHeads(
                **{name: int(size or 0) for name, size in sizes_of.items()}, dtype=str(init.dtype),
                page_dtype=page_dtype.value, rotated=rotated, interleaved=bool(interleaved), softcap=float(softcap),
            )  # fmt: skip
        except ValueError:  # the builtin says what is wrong
            return None

    def number(self, expr: RelaxExpr) -> int | float | None:
        """Constant that an argument has, or None."""
        value = self.value(expr)
        if isinstance(value, PrimValue):
            return _number(value.value)
        info = expr.struct_info
        return _number(info.value) if isinstance(info, PrimStructInfo) else None


def _number(value: PrimExpr | None) -> int | float | None:
    return value.value if isinstance(value, (IntImm, FloatImm)) else None


def _init(args: tuple[RelaxExpr, ...]) -> int:
    """Position of the initial tensor: behind that of the factors of rotary frequencies, if the call has one."""
    return FACTORS + 1 if isinstance(args[FACTORS + 1].struct_info, TensorStructInfo) else FACTORS


__all__ = ["CompilePagedAttention"]
