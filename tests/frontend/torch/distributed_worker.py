"""One process of a data-parallel training: python distributed_worker.py <meeting file> <rank> <result file>."""

from __future__ import annotations

import sys

import torch
from torch.nn import functional

from relax.frontend.torch import trainable
from relax.training.optimizer import AdamW

QUICK = "llvm -opt-level=1"


def perceptron():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(6, 4, generator=generator), torch.randint(0, 3, (6,), generator=generator)


def main(meeting, rank, result):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", world_size=2, rank=rank)
    torch.manual_seed(rank)  # the values that count are those of rank 0
    x, y = batch(0)
    training = trainable(perceptron(), functional.cross_entropy, AdamW(0.05), (x[:2],), (y[:2],), target=QUICK)
    training.distribute()
    for seed in range(3):
        x, y = batch(seed)
        for part in range(rank, 3, 2):  # rank 0 has two thirds of the batch
            training.backward((x[part::3],), (y[part::3],))
        training.update()
    torch.save(training.state_dict(), result)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
