"""Products of matrices as functions of te, and the shapes of their arguments."""

from __future__ import annotations

from relax import te


def product(m, n, k, batch=None, transposed=False, dtype="float32"):
    """``C = A @ B``, of matrices or batches of them, B transposed or not."""
    lead = () if batch is None else (batch,)
    a = te.placeholder((*lead, m, k), dtype, "A")
    b = te.placeholder((*lead, n, k) if transposed else (*lead, k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")

    def element(*at):
        *outer, i, j = at
        right = (*outer, j, axis) if transposed else (*outer, axis, j)
        return te.sum(a[(*outer, i, axis)] * b[right], axis=axis)

    return te.create_prim_func([a, b, te.compute((*lead, m, n), element, "C")])


def shapes(m, n, k, batch=None, transposed=False):
    lead = () if batch is None else (batch,)
    right = (n, k) if transposed else (k, n)
    return [(*lead, m, k), (*lead, *right), (*lead, m, n)]
