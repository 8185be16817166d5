"""Training: losses, optimizers, and their combination with a model, under TVM's names.

    setup = relax.training.SetupTrainer(MSELoss(), SGD(0.1), [prediction_info, target_info])
    train_mod = setup(Model)                                    Model has the function `backbone`
    vm = relax.VirtualMachine(relax.build(train_mod), relax.cpu())
    trainer = relax.training.Trainer(train_mod, vm, relax.cpu())
    loss = trainer.update(inputs, targets)

Gradients are those of `relax.transform.Gradient`.
"""

from __future__ import annotations

from ..ir.tvm_names import answer_missing
from . import loss, optimizer, schedules, setup_trainer, trainer, utils
from .setup_trainer import SetupTrainer
from .trainer import Trainer
from .utils import AppendLoss

__all__ = [
    "AppendLoss",
    "SetupTrainer",
    "Trainer",
    "loss",
    "optimizer",
    "schedules",
    "setup_trainer",
    "trainer",
    "utils",
]

answer_missing(__name__)
