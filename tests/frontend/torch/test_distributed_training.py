"""Data-parallel training: two processes with parts of each batch do the step of one process with the whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distributed_worker import batch, perceptron
from torch.nn import functional

WORKER = Path(__file__).with_name("distributed_worker.py")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_two_processes_train_as_one(tmp_path):
    environment = os.environ | {"RELAX_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    results = [tmp_path / f"rank{rank}.pt" for rank in (0, 1)]
    workers = [
        subprocess.Popen([sys.executable, WORKER, tmp_path / "meeting", str(rank), results[rank]], env=environment)
        for rank in (0, 1)
    ]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0]
    torch.manual_seed(0)
    eager = perceptron()
    optimizer = torch.optim.AdamW(eager.parameters(), 0.05)
    for seed in range(3):
        x, y = batch(seed)
        optimizer.zero_grad()
        functional.cross_entropy(eager(x), y).backward()
        optimizer.step()
    first, second = (torch.load(result) for result in results)
    for name, value in eager.state_dict().items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-5)
