"""Schedules of learning rates: their values, and training steps that follow them."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.training import SetupTrainer, Trainer, schedules
from relax.training.loss import MSELoss
from relax.training.optimizer import SGD


def rates(schedule, *updates):
    return pytest.approx([schedule(done) for done in updates], abs=1e-12)


def test_values():
    assert [0, 0.1, 0.2, 0.2] == rates(schedules.constant(0.2, warmup=2), 0, 1, 2, 9)
    assert [0, 0.1, 0.2, 0.11, 0.02, 0.02] == rates(schedules.cosine(0.2, 12, warmup=2, final=0.02), 0, 1, 2, 7, 12, 30)
    assert [0.2, 0.15, 0.1, 0.1] == rates(schedules.linear(0.2, 10, final=0.1), 0, 5, 10, 11)
    assert [0, 0.4, 0.4, 0.2, 0.1] == rates(schedules.step(0.4, 3, 0.5, warmup=1), 0, 1, 3, 4, 7)


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ValueError, match="cosine: steps must be greater than warmup, found 5 and 5"):
        schedules.cosine(0.1, 5, warmup=5)
    with pytest.raises(ValueError, match="linear: final must not be negative, found -1"):
        schedules.linear(0.1, 5, final=-1)
    with pytest.raises(ValueError, match="step: every must be at least 1, found 0"):
        schedules.step(0.1, 0)
    with pytest.raises(ValueError, match=r"constant: lr must not be negative, found -0\.1"):
        schedules.constant(-0.1)


@I.ir_module
class Scale:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function
    def backbone(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        with R.dataflow():
            out = R.multiply(x, w)
            R.output(out)
        return out


def test_a_trainer_follows_the_schedule_of_its_optimizer():
    optimizer, info = SGD(schedules.step(1.0, 1, 0.5)), R.Tensor((2,), "float32")
    mod = SetupTrainer(MSELoss("sum"), optimizer, [info, info])(Scale)
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    with pytest.raises(relax.ir.DiagnosticError, match="the optimizer of the module has a schedule of its learning"):
        Trainer(mod, vm, relax.cpu())
    trainer = Trainer(mod, vm, relax.cpu(), schedule=optimizer.schedule)
    trainer.load_params([np.zeros(2, "float32")])
    x, target = np.ones(2, "float32"), np.ones(2, "float32")
    seen = [0.0]
    for rate in (1.0, 0.5, 0.25):  # the gradient is 2 (w - 1)
        trainer.update(x, target)
        seen.append(seen[-1] - rate * 2 * (seen[-1] - 1))
        np.testing.assert_allclose(trainer.params[0].numpy(), seen[-1], rtol=1e-6)
