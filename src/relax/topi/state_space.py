"""State-space layers over ragged batches: a causal convolution, and the recurrence of Mamba 2.

Tokens of all sequences of a batch stand one behind the other; those of sequence i end before `ends[i]`. Each sequence
brings the state that its earlier tokens have left. Tokens of a sequence are computed one after the other, in parallel
over channels or heads, so that states stay in the cache of a core.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from .. import te
from ..prim import IntImm, Max, Min, PrimExpr, Var, const, intrin
from ..tir.buffer import Buffer
from ..tir.stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt

_LANES: Final = 16
"""Lanes of the vectors that statements are written in; the width of registers divides it."""


def causal_conv(
    x: te.Tensor, state: te.Tensor, weight: te.Tensor, bias: te.Tensor, ends: te.Tensor
) -> tuple[te.Tensor, te.Tensor]:
    """Return the convolution (n, c) of each channel with its past, and the state (b, k - 1, c) after it.

    `x` is (n, c), `weight` (k, c), `bias` (c,). The state has the k - 1 inputs before those of a sequence.
    Raises ValueError for symbolic k or c.
    """
    taps, channels = _static(weight.shape)
    lanes = math.gcd(channels, _LANES)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, before, factors, start_values, until = ins
        target, after = outs
        block, s, t = (Var(name, "int64") for name in ("block", "s", "t"))
        first, end = Var("first", "int64"), Var("end", "int64")
        at = Var("c", "int64")
        c = block * lanes + at

        def tap(k: int) -> Stmt:
            def added(value: PrimExpr) -> Stmt:
                return _vector(at, lanes, BufferStore(target, target[t, c] + factors[k, c] * value, (t, c)))

            row = t + (k - taps + 1)
            return IfThenElse(row >= first, added(source[row, c]), added(before[s, t - first + k, c]))

        def kept(j: int) -> Stmt:
            row = end + (j - taps + 1)

            def stored(value: PrimExpr) -> Stmt:
                return _vector(at, lanes, BufferStore(after, value, (s, const(j, "int64"), c)))

            return IfThenElse(row >= first, stored(source[row, c]), stored(before[s, end - first + j, c]))

        begin = _vector(at, lanes, BufferStore(target, start_values[c], (t, c)))
        token = SeqStmt((begin, *(tap(k) for k in range(taps))))
        after_tokens = [kept(j) for j in range(taps - 1)]
        body = _sequence(s, t, first, end, until, source.shape[0], token, behind=after_tokens)
        loop = For(s, 0, until.shape[0], "serial", body)
        return For(block, 0, const(channels // lanes, "int64"), "parallel", loop)

    inputs = [x, state, weight, bias, ends]
    first, second = te.extern([x.shape, state.shape], inputs, statement, "causal_conv", ["float32"] * 2)
    return first, second


def state_space_scan(
    x: te.Tensor, steps: te.Tensor, decays: te.Tensor, b: te.Tensor, c: te.Tensor, skips: te.Tensor, state: te.Tensor,
    ends: te.Tensor,
) -> tuple[te.Tensor, te.Tensor]:  # fmt: skip
    """Return the outputs (n, h, p) of the recurrence h ← decay · h + step · b ⊗ x, y = c · h + skip · x.

    `x` is (n, h, p), `steps` and `decays` (n, h), `b` and `c` (n, groups, size), `skips` (h,), `state` (b, h, size, p);
    the second result is the state after the batch's tokens. Neighbouring heads share a group.
    Raises ValueError for symbolic h, groups, size or p, and for heads that cannot share groups evenly.

    Source: Dao and Gu, Transformers are SSMs, 2024 (Mamba 2), in its recurrent form.
    """
    (heads, size, width), (groups, _) = _static(state.shape[1:]), _static(b.shape[1:])
    if not groups or heads % groups:
        raise ValueError(f"{heads} heads cannot share {groups} groups evenly")
    per_group = heads // groups
    lanes = math.gcd(width, _LANES)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, step, decay, inward, outward, skip, before, until = ins
        target, after = outs
        head, s, t, i, block, at = (Var(name, "int64") for name in ("head", "s", "t", "i", "block", "at"))
        first, end = Var("first", "int64"), Var("end", "int64")
        p, group = block * lanes + at, head // per_group

        def over_width(*stores: Stmt) -> Stmt:
            return For(
                block, 0, const(width // lanes, "int64"), "serial", SeqStmt([_vector(at, lanes, x) for x in stores])
            )

        place, output = (s, head, i, p), (t, head, p)
        value = after[place] * decay[t, head] + inward[t, group, i] * (step[t, head] * source[output])
        update = over_width(
            BufferStore(after, value, place),
            BufferStore(target, target[output] + outward[t, group, i] * after[place], output),
        )
        start = over_width(BufferStore(target, skip[head] * source[output], output))
        token = SeqStmt((start, For(i, 0, const(size, "int64"), "serial", update)))
        copied = For(i, 0, const(size, "int64"), "serial", over_width(BufferStore(after, before[place], place)))
        body = _sequence(s, t, first, end, until, source.shape[0], token, ahead=[copied])
        loop = For(s, 0, until.shape[0], "serial", body)
        return For(head, 0, const(heads, "int64"), "parallel", loop)

    inputs = [x, steps, decays, b, c, skips, state, ends]
    first, second = te.extern([x.shape, state.shape], inputs, statement, "state_space_scan", ["float32"] * 2)
    return first, second


def _sequence(
    s: Var, t: Var, first: Var, end: Var, ends: Buffer, count: PrimExpr, token: Stmt, *,
    ahead: Sequence[Stmt] = (), behind: Sequence[Stmt] = (),
) -> Stmt:  # fmt: skip
    """Return the statement of sequence `s`: `ahead`, `token` for each token `t` from `first` to `end`, then `behind`.

    Ends are kept between 0 and `count`, so that wrong ones do not lead outside of the tokens.
    """
    zero = const(0, "int64")

    def inside(value: PrimExpr) -> PrimExpr:
        return Max(zero, Min(value.astype("int64"), count.astype("int64")))

    before = intrin.if_then_else(s > 0, ends[Max(s - 1, zero)], const(0, "int32"))
    body = SeqStmt([*ahead, For(t, first, end - first, "serial", token), *behind])
    return LetStmt(end, inside(ends[s]), LetStmt(first, Min(inside(before), end), body))


def _vector(at: Var, lanes: int, body: Stmt) -> Stmt:
    return For(at, 0, const(lanes, "int64"), "vectorized" if lanes > 1 else "serial", body)


def _static(dims: Sequence[PrimExpr]) -> tuple[int, ...]:
    """Return dimensions as ints. Raises ValueError for symbolic ones."""
    sizes: list[int] = []
    for dim in dims:
        if not isinstance(dim, IntImm):
            raise ValueError(f"the dimension {dim} must be a constant")
        sizes.append(dim.value)
    return tuple(sizes)


__all__ = ["causal_conv", "state_space_scan"]
