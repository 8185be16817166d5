"""Example networks with random weights, and checks for tests.

    from relax.relay import testing

    mod, params = testing.resnet.get_workload(batch_size=1, num_layers=18)

One module per network; `init` has `create_workload` and initialisers, `layers` the building blocks.
"""

from __future__ import annotations

from . import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lenet,
    lstm,
    mlp,
    mobilenet,
    resnet,
    squeezenet,
    tree_lstm,
    vgg,
)
from .checks import check_grad, run_infer_type, run_opt_pass
from .init import create_workload

__all__ = [
    "check_grad", "create_workload", "dcgan", "densenet", "dqn", "inception_v3", "init", "layers", "lenet", "lstm",
    "mlp", "mobilenet", "resnet", "run_infer_type", "run_opt_pass", "squeezenet", "tree_lstm", "vgg",
]  # fmt: skip
