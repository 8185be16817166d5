"""torch.compile(backend="relax") in threads, in forked workers of a DataLoader, and under torch.profiler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import relax

torch = pytest.importorskip("torch")
nn = torch.nn


def test_eight_threads_call_one_module(twins, builds):
    module, compiled, _ = twins(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    inputs = [torch.randn(2 + index % 5, 8) for index in range(64)]

    def call(x):
        with torch.no_grad():
            return compiled(x)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, inputs))
    for x, y in zip(inputs, found, strict=True):
        torch.testing.assert_close(y, module(x).detach())
    assert len(builds) == 1


class Rows(torch.utils.data.Dataset):
    """Rows that a compiled function makes in the worker."""

    def __init__(self, function):
        self.function = function

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.function(torch.full((2000,), float(index)))


@pytest.mark.parametrize("warm", [True, False], ids=["compiled before", "compiled in the worker"])
def test_workers_that_are_forked(warm):
    function = torch.compile(lambda x: (x * 2).exp().log() + 1, backend="relax", options={"tier": "now"})
    if warm:
        function(torch.ones(2000))
    rows = torch.utils.data.DataLoader(Rows(function), batch_size=4, num_workers=2, multiprocessing_context="fork")
    found = torch.cat(list(rows))[:, 0]
    torch.testing.assert_close(found, torch.arange(8.0) * 2 + 1)


def test_the_profiler_names_what_is_compiled():
    function = torch.compile(lambda x: x.exp() + 1, backend="relax", options={"tier": "now"})
    function(torch.ones(3))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(torch.ones(3))
    assert any(event.key.startswith("relax: ") for event in profile.key_averages())


def test_loops_run_on_as_many_threads_as_torch_has():
    function = torch.compile(lambda x: x.exp() + 1, backend="relax", options={"tier": "now"})
    before, ours = torch.get_num_threads(), relax.runtime.num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            function(torch.ones(3))
            assert relax.runtime.num_threads() == count
    finally:
        torch.set_num_threads(before)
        relax.runtime.set_num_threads(ours)
