"""The examples of docs/train-a-torch-model.md run, one after the other."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import torch

PAGE = Path(__file__).parents[3] / "docs" / "train-a-torch-model.md"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_examples_run(monkeypatch, tmp_path):
    """Several processes are one here, started as torchrun does."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "RANK": 0, "WORLD_SIZE": 1}.items():
        monkeypatch.setenv(name, str(value))
    names = {}
    for block in re.findall(r"^```python no-run\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["correct"].float().mean() > 0.9
    torch.distributed.destroy_process_group()
    assert set(torch.load("trained.pt")) == {"weight", "bias"}
