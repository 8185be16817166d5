"""Check that weights of few bits stay so: what a program keeps, and what it allocates when it runs."""

from __future__ import annotations

import math
import re

import numpy as np
import torch

import relax
from relax.frontend.torch import from_exported_program


def stays_narrow(program, module, *inputs, weights, tolerance, bits=8):
    """Check that a program computes what its module does, keeps `weights` numbers in `bits` bits, and makes no floats
    of them when it runs; return the executable.
    """
    mod = from_exported_program(program, unwrap_unit_return_tuple=True)
    executable = relax.build(mod)
    kept = [c for c in executable.constants if hasattr(c, "__dlpack__")]
    floats = sum(math.prod(c.shape) for c in kept if "float" in str(c.dtype))
    others = sum(-(-math.prod(c.shape) * c.dtype.bits // 8) for c in kept if "float" not in str(c.dtype))
    assert floats < weights / 8, f"{floats} floats beside {weights} weights"
    assert others < 1.1 * weights * bits / 8, f"{others} bytes of integers for {weights} weights"
    allocated = sum(map(int, re.findall(r"alloc_storage\((\d+)", executable.as_text())))
    assert allocated < weights / 4, f"{allocated} bytes are allocated for each call"
    vm = relax.VirtualMachine(executable, relax.cpu())
    with torch.no_grad():
        expected = module(*inputs).double().numpy()
    given = [relax.nd.array(x.float().numpy().astype(relax.DataType(str(x.dtype)[6:]).numpy())) for x in inputs]
    found = vm["main"](*given).numpy().astype("float64")
    np.testing.assert_allclose(found, expected, 0, tolerance * np.abs(expected).max())
    return executable
