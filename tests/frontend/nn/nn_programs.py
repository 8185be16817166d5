"""Methods of modules as programs, run in all ways: interpreted, compiled, and as bytecode."""

from __future__ import annotations

import numpy as np

import relax
from relax import nd
from relax.frontend import nn
from relax.frontend.nn import spec
from relax.runtime import ShapeTuple


class Method(nn.Module):
    """A module whose method `forward` is a function given."""

    def __init__(self, function):
        self.forward = function


def spec_of(value):
    """The spec of an argument."""
    if isinstance(value, tuple):
        return tuple(spec_of(item) for item in value)
    return int if isinstance(value, int) else spec.Tensor(value.shape, str(value.dtype))


def exported(function, *values, **config):
    """The program of a function of Tensors that is called with arrays like these."""
    names = function.__code__.co_varnames[: len(values)]
    specs = {name: spec_of(value) for name, value in zip(names, values, strict=True)}
    return Method(function).export_tvm({"forward": specs}, **config)[0]


def passed(value):
    """An argument as programs take it."""
    return ShapeTuple((value,)) if isinstance(value, int) else value


def results(mod, *values, name="forward"):
    """The results of a program, which are the same however it is run."""
    arguments = [passed(value) for value in values]
    found = flat(relax.interpret(mod, name, *arguments))
    for mode in ("compiled", "bytecode"):
        vm = relax.VirtualMachine(relax.build(mod, exec_mode=mode), relax.cpu())
        again = flat(vm[name](*arguments))
        assert len(again) == len(found)
        for one, other in zip(found, again, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, rtol=2e-5, atol=1e-6)
    return found


def flat(value):
    """The tensors of a result, in order, as arrays."""
    if isinstance(value, nd.NDArray):
        return [value.numpy()]
    return [array for field in value for array in flat(field)]


def computed(function, *values):
    """The results of a function of Tensors on arrays."""
    return results(exported(function, *values), *values)


def body_of(mod, name="forward"):
    """The lines of a function's bindings, without annotations."""
    body = mod.script().partition(f" def {name}(")[2].partition("@")[0]
    lines = [line.strip() for line in body.splitlines()]
    bindings = [line.partition(": R.") for line in lines if " = R." in line or " = cls." in line]
    return [f"{head} = {rest.rpartition(' = ')[2]}" if rest else head for head, _, rest in bindings]
