"""Programs of torch, exported, imported, built and compared with what torch computes."""

from __future__ import annotations

import numpy as np
import torch

import relax
from relax.frontend.torch import from_exported_program
from support import PLAIN_LOOPS


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def exported(module, inputs, dynamic=None):
    """A module or a function as a program; `dynamic` gives the dynamic axes of each input."""
    module = module if isinstance(module, torch.nn.Module) else Function(module)
    dims = None
    if dynamic is not None:
        axes = [dict.fromkeys(item, torch.export.Dim.DYNAMIC) for item in dynamic]
        dims = (tuple(axes),) if isinstance(module, Function) else tuple(axes)
    with torch.no_grad():
        return torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=dims, strict=False)


def flat(value):
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in flat(item)]
    return [value]


def close(found, expected, tolerance):
    """The same dtype, shape, NaN and infinities, and numbers within a share of the greatest."""
    actual, right = found.numpy(), expected.detach().to(torch.float64).numpy()
    assert str(expected.dtype) == f"torch.{actual.dtype.name}"
    assert actual.shape == right.shape
    actual = actual.astype("float64")
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(right))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(right))
    finite = right[np.isfinite(right)]
    scale = np.abs(finite).max() if finite.size else 1
    np.testing.assert_allclose(actual[np.isfinite(right)], finite, rtol=tolerance, atol=tolerance * scale)


def check(module, *inputs, dynamic=None, others=(), tolerance=2e-6):
    """Check that a module's program computes what torch does, at the sizes it was exported with and at others."""
    mod = from_exported_program(exported(module, inputs, dynamic))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    for values in (inputs, *others):
        with torch.no_grad():
            expected = flat(module(*values))
        found = vm["main"](*values)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            close(a, b, tolerance)
    return mod


def parts(value):
    """Complex tensors as a program takes and returns them: with a trailing axis of 2."""
    if isinstance(value, (tuple, list)):
        return tuple(map(parts, value))
    return torch.view_as_real(value.resolve_conj()).contiguous() if value.is_complex() else value


def same_numbers(module, *inputs, dynamic=None, others=(), tolerance=2e-6):
    """Check that a function of complex tensors computes what torch does, in the machine and the interpreter.

    Also at sizes that torch excludes, as it compares those of spectra with those of the example.
    """
    mod = from_exported_program(exported(module, inputs, dynamic), check_sizes=False)
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    for values in (inputs, *others):
        expected = parts(flat(module(*values)))
        for found in (vm["main"](*parts(values)), relax.interpret(mod, "main", *parts(values))):
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                close(a, b, tolerance)
    return mod
