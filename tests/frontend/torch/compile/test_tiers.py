"""Tiers of torch.compile: kernels of the library answer at first, the full build takes over between two calls."""

from __future__ import annotations

import pytest

from relax.frontend.torch import wait_full
from relax.frontend.torch.compile import piece
from relax.frontend.torch.compile.options import BackendOptions, read_options
from relax.vm import full_build

torch = pytest.importorskip("torch")


def test_modes_that_ask_for_speed_build_in_full():
    assert BackendOptions().tier == "auto"
    for mode in ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        assert read_options(mode, None).tier == "full"
    assert read_options("max-autotune", {"tier": "auto"}).tier == "auto"


def test_the_full_build_takes_over_forward_and_backward(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "1")
    module = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 3))
    x = torch.randn(5, 24)
    module(x).square().sum().backward()
    expected = [module(x).detach(), *(parameter.grad.clone() for parameter in module.parameters())]
    compiled = torch.compile(module, backend="relax", options={"tier": "auto"})
    before = set(piece._BUILT.values())

    def agrees():
        module.zero_grad()
        result = compiled(x)
        result.square().sum().backward()
        got = [result.detach(), *(parameter.grad for parameter in module.parameters())]
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other)

    with full_build._turns.lock:
        agrees()
        assert not wait_full(timeout=0)
    builds = [built for built in piece._BUILT.values() if built not in before]
    assert len(builds) == 2
    machines = [built.machine for built in builds]
    assert all(machine is not None for machine in machines)
    assert wait_full(timeout=300)
    assert all(machine.tier == "full" for machine in machines)
    first = [built.run for built in builds]
    agrees()
    assert all(built.machine is None and built.run is not old for built, old in zip(builds, first, strict=True))
    agrees()
