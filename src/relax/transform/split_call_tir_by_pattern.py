"""Split PrimFuncs: what begins with patterns is computed by a packed function, the rest by a PrimFunc.

Before   def main(x, w):                                   # SplitCallTIRByPattern([matmul], fcodegen)
             y = R.call_tir(cls.fused_matmul_relu, (x, w), R.Tensor((n, 2), "float32"))
             return y
After    def main(x, w):
             a = R.call_dps_packed("mylib.matmul", (x, w), R.Tensor((n, 2), "float32"))
             y = R.call_tir(cls.fused_matmul_relu_rest, (a,), R.Tensor((n, 2), "float32"))
             return y
         @T.prim_func(private=True)
         def fused_matmul_relu_rest(matmul, relu): ...     # the loops behind those of the pattern

A pattern is a PrimFunc of one loop nest or more. Beginning with the first nest of a kernel, the first pattern of the
list that has the same nests, but for names and for the values of its shape variables, takes them; so does the next.
`fcodegen` gets these matches, and answers with the name of a packed function, how many of the matches it computes, and
the buffers of the kernel that it takes, the one it writes last: what TVM takes too, with source code instead of a name.
An empty answer keeps the kernel. If nothing is left, the packed function takes the kernel's place.

A call stays as it is if the nests taken have more than one result, or the kernel has; if the rest writes the result of
the nests taken; and if the PrimFunc has conditions, integers (`tir_vars`), or sizes that the call does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..derive.call_graph import call_graph
from ..expr import Call, ExternFunc, ShapeExpr, Tuple
from ..ir import GlobalVar, IRModule, Node, RelaxExpr, structural_equal
from ..op import call_dps_packed, is_call_of
from ..op.intrinsics import CallTIR
from ..prim import PrimExpr, free_vars
from ..prim import Var as PrimVar
from ..prim import substitute as substitute_dim
from ..rewrite import Rewriter
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from ..tir import Block, BlockRealize, Buffer, BufferStore, PrimFunc, SeqStmt, Stmt
from ..tir.buffer import shape_vars_bound_by
from ..tir.functor import pre_order_visit, substitute
from ..tir.statements import seq_of
from .decorators import module_pass

UNFIT: Final = "E4016"
"""An answer of a code generator that does not fit the kernel."""


@dataclass(frozen=True)
class MatchResult:
    """Nests of a kernel that are those of a pattern."""

    pattern: PrimFunc
    symbol_values: tuple[PrimExpr, ...]
    """The values of the pattern's shape variables, in the order in which its buffers mention them."""
    matched_buffers: tuple[Buffer, ...]
    """The buffers of the kernel for those of the pattern's parameters, in their order."""


FCodegen = Callable[[list[MatchResult]], Sequence[Any]]


@module_pass(needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def SplitCallTIRByPattern(mod: IRModule, patterns: Sequence[PrimFunc], fcodegen: FCodegen) -> IRModule:
    """Let packed functions compute what matches patterns; see the module's docstring.

    Parameters
    ----------
    patterns
        What packed functions can compute.
    fcodegen
        A function from the matches in a kernel to the name of a packed function, the number of matches it computes,
        and the buffers it takes; or to an empty list.

    Raises DiagnosticError (E4016) for an answer that does not fit the matches.
    """
    splitter = _Splitter(mod, tuple(patterns), fcodegen)
    result = splitter.module()
    if not splitter.split:
        return mod
    called = {name for names in call_graph(result).values() for name in names}
    return result.with_functions({
        g: f
        for g, f in result.functions.items()
        if g.name_hint not in splitter.split or g.name_hint in called or "global_symbol" in f.attrs
    })  # fmt: skip


@dataclass(frozen=True)
class _Parts:
    """A kernel in two parts."""

    symbol: str
    taken: tuple[Buffer, ...]
    """The buffers that the packed function takes, its result last."""
    rest: PrimFunc | None
    needed: tuple[Buffer, ...] = ()
    """The inputs of the kernel that the rest takes."""


class _Splitter(Rewriter):
    def __init__(self, mod: IRModule, patterns: tuple[PrimFunc, ...], fcodegen: FCodegen) -> None:
        super().__init__(mod)
        self.patterns = patterns
        self.fcodegen = fcodegen
        self.known: dict[str, _Parts | None] = {}
        self.split: set[str] = set()
        """The names of the kernels that were split."""

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, CallTIR) or len(call.args) != 2:
            return call
        callee, args = call.args
        (result,) = call.sinfo_args
        function = self.mod.get(callee) if isinstance(callee, GlobalVar) else None
        if not isinstance(callee, GlobalVar) or not isinstance(function, PrimFunc):
            return call
        if not isinstance(args, Tuple) or not isinstance(result, TensorStructInfo):
            return call
        buffers = [function.buffer_map.get(param) for param in function.params]
        given = {b: arg for b, arg in zip(buffers, args.fields, strict=False) if b is not None}
        infos = [*(arg.struct_info_ for arg in args.fields), result]
        if len(infos) != len(buffers) or len(given) != len(args.fields) or buffers[-1] is None:
            return call
        sizes = _sizes([b for b in buffers if b is not None], infos)
        if callee.name_hint not in self.known:
            self.known[callee.name_hint] = self._split(function, call, callee.name_hint)
        parts = self.known[callee.name_hint]
        if parts is None or not all(var in sizes for dim in parts.taken[-1].shape for var in free_vars(dim)):
            return call
        self.split.add(callee.name_hint)
        dims = [substitute_dim(dim, sizes) for dim in parts.taken[-1].shape]
        first_info = TensorStructInfo(ShapeExpr(dims), parts.taken[-1].dtype, result.vdevice)
        inputs = Tuple([given[buffer] for buffer in parts.taken[:-1]])
        if parts.rest is None:
            return call_dps_packed(ExternFunc(parts.symbol), inputs, result).replace(span=call.span)
        first = self.builder.emit(call_dps_packed(ExternFunc(parts.symbol), inputs, first_info).replace(span=call.span))
        rest = self.builder.add_func(parts.rest, f"{callee.name_hint}_rest")
        return call.replace(args=(rest, Tuple([first, *(given[buffer] for buffer in parts.needed)])))

    def _split(self, function: PrimFunc, call: Call, name: str) -> _Parts | None:
        nests = _nests(function)
        matches, ends = self._matches(nests)
        if not matches or function.preconditions:
            return None
        answer = list(self.fcodegen(matches))
        if not answer:
            return None
        fits = len(answer) == 3 and isinstance(answer[0], str) and isinstance(answer[1], int)
        fits = fits and 0 <= answer[1] <= len(matches) and all(isinstance(b, Buffer) for b in answer[2])
        if not fits:
            message = f"SplitCallTIRByPattern: the answer for {name} is no name, number of matches and buffers"
            hint = f"there are {len(matches)} matches; an empty list keeps the kernel"
            raise self.builder.error(UNFIT, message, call.span, hint=hint)
        if answer[1] == 0:
            return None
        end = ends[answer[1] - 1]
        parts = _parted(function, nests[:end], nests[end:], answer[0])
        if parts is None:
            return None
        taken = tuple(answer[2])
        if len(set(taken)) != len(taken) or set(taken) != set(parts.taken) or taken[-1] is not parts.taken[-1]:
            wanted, actual = (", ".join(b.name for b in each) for each in (parts.taken, taken))
            message = f"SplitCallTIRByPattern: {answer[0]} for {name} is given the buffers {actual}, not {wanted}"
            hint = "give the buffers that the nests read, in any order, and the one they write last"
            raise self.builder.error(UNFIT, message, call.span, hint=hint)
        return _Parts(parts.symbol, taken, parts.rest, parts.needed)

    def _matches(self, nests: Sequence[Stmt]) -> tuple[list[MatchResult], list[int]]:
        """The matches from the first nest on, and the number of nests that they are up to each."""
        matches: list[MatchResult] = []
        ends: list[int] = []
        start = 0
        while start < len(nests):
            for pattern in self.patterns:
                count = len(_nests(pattern))
                match = _match(pattern, nests[start : start + count])
                if match is not None:
                    matches.append(match)
                    start += count
                    ends.append(start)
                    break
            else:
                break
        return matches, ends


def _root(function: PrimFunc) -> Block | None:
    """The block around a kernel's nests; None if there is none, or it does more than hold them."""
    root = function.body.block if isinstance(function.body, BlockRealize) else None
    plain = root is not None and not (root.iter_vars or root.match_buffers or root.init or root.annotations)
    return root if plain else None


def _nests(function: PrimFunc) -> tuple[Stmt, ...]:
    root = _root(function)
    if root is None:
        return ()
    return root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)


def _match(pattern: PrimFunc, nests: Sequence[Stmt]) -> MatchResult | None:
    """The pattern in these nests; None if they are others."""
    own = _nests(pattern)
    if not own or len(own) != len(nests):
        return None
    theirs, ours = _buffers_in(nests), _buffers_in(own)
    params = [pattern.buffer_map.get(param) for param in pattern.params]
    if len(ours) != len(theirs) or any(buffer not in ours for buffer in params if buffer is not None):
        return None
    values: dict[PrimVar, PrimExpr] = {}
    for mine, other in zip(ours, theirs, strict=True):
        if mine.dtype != other.dtype or mine.ndim != other.ndim or mine.strides or other.strides:
            return None
        for size, value in zip(mine.shape, other.shape, strict=True):
            if isinstance(size, PrimVar) and size.dtype == value.dtype:
                values.setdefault(size, value)
    buffers = dict(zip(ours, theirs, strict=True))
    same = all(
        structural_equal(substitute_dim(size, values), value)
        for mine, other in buffers.items()
        for size, value in zip(mine.shape, other.shape, strict=True)
    )
    if not same or not structural_equal(substitute(seq_of(own), {**values, **buffers}), seq_of(nests)):
        return None
    matched = tuple(buffers[buffer] for buffer in params if buffer is not None)
    return MatchResult(pattern, tuple(values.values()), matched)


def _parted(function: PrimFunc, first: Sequence[Stmt], later_nests: Sequence[Stmt], symbol: str) -> _Parts | None:
    """A kernel as its first nests, whose one result the others read, and these."""
    params = [function.buffer_map[param] for param in function.params if param in function.buffer_map]
    used, later = _buffers_in(first), set(_buffers_in(later_nests))
    written = _written(first)
    results = [b for b in used if b in written and (b in later or b in params)]
    if len(results) != 1 or (later_nests and (results[0] in params or results[0] in _written(later_nests))):
        return None
    (result,) = results
    taken = (*(b for b in used if b in params and b is not result), result)
    if not later_nests:
        return _Parts(symbol, taken, None) if result is params[-1] else None
    root = _root(function)
    assert root is not None
    assert isinstance(function.body, BlockRealize)
    needed = tuple(b for b in params[:-1] if b in later)
    inputs = (result, *needed, params[-1])
    handles = [PrimVar(f"var_{buffer.name}", "handle") for buffer in inputs]
    allocated = tuple(b for b in root.alloc_buffers if b in later and b is not result)
    block = root.replace(alloc_buffers=allocated, body=seq_of(later_nests))
    kept = {
        key: value for key, value in function.attrs.items() if key == "tir.noalias"
    }  # other attributes describe the whole kernel
    rest = PrimFunc(
        tuple(handles),
        body=function.body.replace(block=block),
        buffer_map=dict(zip(handles, inputs, strict=True)),
        attrs=kept,
    )
    bound = {var for buffer in inputs for var in shape_vars_bound_by(buffer)}
    sizes = {var for b in params for var in shape_vars_bound_by(b)}
    return _Parts(symbol, taken, rest, needed) if sizes <= bound else None


def _buffers_in(stmts: Iterable[Stmt]) -> list[Buffer]:
    """The buffers that statements use, in the order of their first uses."""
    buffers: dict[Buffer, None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Buffer):
            buffers.setdefault(node)

    for stmt in stmts:
        pre_order_visit(stmt, visit)
    return list(buffers)


def _written(stmts: Iterable[Stmt]) -> set[Buffer]:
    """The buffers to which statements store."""
    buffers: set[Buffer] = set()

    def visit(node: Node) -> None:
        if isinstance(node, BufferStore):
            buffers.add(node.buffer)

    for stmt in stmts:
        pre_order_visit(stmt, visit)
    return buffers


def _sizes(buffers: Sequence[Buffer], infos: Sequence[Any]) -> dict[PrimVar, PrimExpr]:
    """The values of a kernel's shape variables in the caller's."""
    values: dict[PrimVar, PrimExpr] = {}
    for buffer, info in zip(buffers, infos, strict=True):
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        for size, value in zip(buffer.shape, dims or (), strict=False):
            if isinstance(size, PrimVar):
                values.setdefault(size, value)
    return values
