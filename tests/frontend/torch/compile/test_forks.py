"""Processes that are forked while a thread builds, and threads that compile different functions at once."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")

FAST = {"options": {"tier": "now", "target": PLAIN_LOOPS}}
WAIT = 60
"""Seconds after which a process counts as blocked."""


def compiled(function, **kwargs):
    return torch.compile(function, backend="relax", dynamic=True, **FAST, **kwargs)


def in_a_fork(function, x):
    """The result of a function in a forked process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(function(x).tolist()), daemon=True)
    process.start()
    try:
        assert receiver.poll(WAIT), "the process is blocked"
        return torch.tensor(receiver.recv())
    finally:
        process.kill()
        process.join()


@pytest.fixture
def slow_build(monkeypatch):
    """Builds of this process begin, and end when they are told: events of the one and the other."""
    from relax.frontend.torch.compile import piece

    begun, ended, build, parent = (
        threading.Event(),
        threading.Event(),
        piece.build,
        multiprocessing.current_process().pid,
    )

    def waiting(*args, **kwargs):
        if multiprocessing.current_process().pid == parent:
            begun.set()
            assert ended.wait(WAIT)
        return build(*args, **kwargs)

    monkeypatch.setattr(piece, "build", waiting)
    return begun, ended


@pytest.mark.parametrize("same", [True, False], ids=["of the same function", "of another function"])
def test_a_process_is_forked_during_a_build(slow_build, same):
    begun, ended = slow_build
    ended.set()
    function = (lambda x: x.sin() * 3) if same else (lambda x: x.cos() * 5)  # equal programs are built once
    ready, pending = compiled(lambda x: x.exp() + 1), compiled(function)
    x = torch.arange(6.0)
    ready(x)
    begun.clear(), ended.clear()
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(pending, x)
        try:
            assert begun.wait(WAIT)
            found = in_a_fork(pending if same else ready, x)
        finally:
            ended.set()
        torch.testing.assert_close(building.result(WAIT), function(x))
    torch.testing.assert_close(found, function(x) if same else x.exp() + 1)


def test_processes_are_forked_while_kernels_are_compiled():
    """Whatever a thread does at that moment, a process that calls what was built before is not blocked."""
    ready, x = compiled(lambda x: x.exp() + 1), torch.arange(6.0)
    ready(x)
    networks = [
        torch.nn.Sequential(torch.nn.Linear(6, 8 + i), torch.nn.Tanh(), torch.nn.Linear(8 + i, 2)) for i in range(3)
    ]

    def build():
        with torch.no_grad():
            return [torch.compile(network, backend="relax")(torch.ones(3, 6)) for network in networks]

    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(build)
        for _ in range(4):
            torch.testing.assert_close(in_a_fork(ready, x), x.exp() + 1)
        results = building.result(WAIT)
    for network, result in zip(networks, results, strict=True):
        torch.testing.assert_close(result, network(torch.ones(3, 6)).detach(), atol=1e-5, rtol=1e-5)


def test_eight_threads_compile_functions_of_their_own():
    functions = [lambda x, i=i: (x * (i + 1)).exp().log() + i for i in range(8)]

    def call(index):
        function = compiled(functions[index])
        return [function(torch.linspace(0, 1, size)) for size in (5, 3, 7)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(8)))
    for function, results in zip(functions, found, strict=True):
        for result in results:
            torch.testing.assert_close(result, function(torch.linspace(0, 1, len(result))), atol=1e-5, rtol=1e-5)


def test_eight_threads_train_one_module(twins):
    """Gradients of a compiled module in threads are those of eager torch; each thread has inputs of its own."""
    module, fast, _ = twins(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    inputs = [torch.randn(3 + index % 3, 4) for index in range(16)]

    def gradient(function, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: gradient(fast, x), inputs))
    for x, result in zip(inputs, found, strict=True):
        torch.testing.assert_close(result, gradient(module, x), atol=1e-5, rtol=1e-5)
