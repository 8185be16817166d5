"""Comparison of the gradients of a program with central differences of the interpreter."""

from __future__ import annotations

import numpy as np

import relax
from relax.analysis import assert_well_formed
from relax.transform import Gradient


def values(result):
    """A result as nested tuples of arrays."""
    return tuple(map(values, result)) if isinstance(result, (tuple, list)) else np.array(result.numpy())


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


def check_gradients(mod, *args, target=0, compiled=False):
    """Compare the gradients by all tensors of floats with differences along random directions; return them."""
    adjoint = Gradient("main", target_index=target)(mod)
    assert_well_formed(adjoint)
    result, gradients = values(relax.interpret(adjoint, "main_adjoint", *args))
    scalars = flat(result)
    for got, expected in zip(scalars, flat(values(relax.interpret(mod, "main", *args))), strict=True):
        np.testing.assert_array_equal(got, expected)
    if compiled:
        vm = relax.VirtualMachine(relax.build(adjoint, "llvm -opt-level=1"), relax.cpu())
        for got, expected in zip(flat(values(vm["main_adjoint"](*args))), [*scalars, *flat(gradients)], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    rng = np.random.default_rng(3)
    leaves = flat(args)
    for i, (leaf, gradient) in enumerate(zip(leaves, flat(gradients), strict=True)):
        assert gradient.shape == leaf.shape
        direction = rng.uniform(-1, 1, leaf.shape)
        at = []
        for sign in (1, -1):
            rest = iter([*leaves[:i], leaf + sign * 1e-6 * direction, *leaves[i + 1 :]])
            moved = [tuple(next(rest) for _ in arg) if isinstance(arg, tuple) else next(rest) for arg in args]
            at.append(float(flat(values(relax.interpret(mod, "main", *moved)))[target]))
        np.testing.assert_allclose((gradient * direction).sum(), (at[0] - at[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    return gradients
