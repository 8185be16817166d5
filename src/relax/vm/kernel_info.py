"""Operation counts of kernels, stored in executables for profiles."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import IRModule
from ..prim import BinaryExpr, Cast, IntImm, PrimExpr, Var, simplify
from ..runtime.debug_info import KernelInfo
from ..tir import PrimFunc
from ..tir.analysis import operation_count
from ..transform.size_words import MOST_WORDS, WORDS


def kernel_infos(mod: IRModule) -> dict[str, KernelInfo]:
    """Infos of a module's unscheduled PrimFuncs: operations added by schedules do not count."""
    funcs = ((name.name_hint, func) for name, func in mod.functions.items() if isinstance(func, PrimFunc))
    return {name: KernelInfo(operations=_operations(func)) for name, func in funcs}


def _operations(func: PrimFunc) -> str:
    count = operation_count(func)
    if count is None:
        return ""
    sources = {param: f"s{i}" for i, param in enumerate(func.params) if param not in func.buffer_map}
    for i, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        for dim, size in enumerate(() if buffer is None else buffer.shape):
            if isinstance(size, Var):
                sources.setdefault(size, f"a{i}.{dim}")
    words: list[str] = []
    return " ".join(words) if _append(simplify(count), sources, words) else ""


def _append(expr: PrimExpr, sources: Mapping[Var, str], words: list[str]) -> bool:
    """Append an expression in postfix order; False if an operation has no name."""
    if len(words) > MOST_WORDS:
        return False
    match expr:
        case IntImm(value=value):
            words.append(str(value))
        case Var() if expr in sources:
            words.append(sources[expr])
        case Cast(_, value):
            return _append(value, sources, words)
        case BinaryExpr(a=a, b=b) if type(expr) in WORDS:
            if not (_append(a, sources, words) and _append(b, sources, words)):
                return False
            words.append(WORDS[type(expr)])
        case _:
            return False
    return True
