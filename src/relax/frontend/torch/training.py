"""Training of a torch module by a compiled step: `trainable` exports module and loss, differentiates and builds them.

    training = trainable(module, torch.nn.functional.cross_entropy, AdamW(1e-3), (images,), (labels,))
    for images, labels in batches:
        loss = training.step((images,), (labels,))
    training.load_into(module)

`Training.backward` and `Training.update` are the halves of a step: several calls of the one accumulate gradients for
the other. `Training.distribute` averages them over processes.

The program is that of the module in the mode it is in: batch norms in the mode train normalise by the batch and update
their statistics, dropouts draw a new mask in each step. The package ``torch`` is used but not imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...expr import BindingBlock, Function, SeqExpr, Var
from ...ir import Diagnostic, DiagnosticError, IRModule
from ...op import is_call_of
from ...op.random import Seed
from ...runtime import NDArray, nd
from ...runtime.devices import cpu
from ...runtime.vm import VirtualMachine
from ...training.optimizer import Optimizer
from ...transform import Gradient
from ...vm.driver import build
from .importer import from_exported_program

_STEP = "main_adjoint"
_UPDATE = "update_params"
_PREFIX = "module."


def trainable(
    module: Any,
    loss: Callable[..., Any],
    optimizer: Optimizer,
    inputs: Sequence[Any],
    targets: Sequence[Any] = (),
    *,
    dynamic_shapes: tuple[Any, Any] | None = None,
    autocast: Any = None,
    target: Any = "llvm",
) -> Training:
    """Compile training steps of a torch module.

    Parameters
    ----------
    module
        A ``torch.nn.Module``, in the mode in which it is to be trained (call ``train()`` first). It is not changed.
        Parameters that require gradients are trained.
    loss
        A function or module of torch: called with the module's result and the targets, it returns a scalar.
    optimizer
        An optimizer of `relax.training.optimizer`.
    inputs, targets
        Examples of the arguments of one step, from which the program is exported.
    dynamic_shapes
        Dynamic dimensions of the inputs, and of the targets, each as ``torch.export.export`` takes them.
    autocast
        ``torch.bfloat16`` computes module and loss under ``torch.autocast`` with this dtype; parameters, gradients and
        the optimizer's states keep theirs.
    target
        The target the step is built for.

    Returns
    -------
    Training
        The state of the training, with the values that parameters and buffers have now.

    Raises
    ------
    DiagnosticError
        (E6001) if an operator is not supported or no parameter requires a gradient, (E4012) if an operator has no
        gradient.
    ValueError
        If `autocast` is another dtype than torch's autocast takes.
    """
    torch = sys.modules["torch"]
    if autocast not in (None, torch.bfloat16, torch.float16):
        raise ValueError(f"trainable: autocast is {autocast}, expected torch.bfloat16 or torch.float16")
    program = _exported(torch, module, loss, tuple(inputs), tuple(targets), dynamic_shapes, autocast)
    mod = from_exported_program(program, keep_params_as_input=True, check_sizes=False)
    main = _seeds_as_params(cast(Function, mod["main"]))
    count: int = main.attrs["num_input"]
    targets_of = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    named = module.named_parameters(remove_duplicate=False)  # the program has a tied parameter by its first name
    wanted = {_PREFIX + name for name, param in named if param.requires_grad}
    values = list(main.attrs.get("params", ()))
    kept = {var.name_hint: value for var, value in zip(main.params[count:], values, strict=False)}
    trained = [var for var in main.params[count:] if targets_of.get(var.name_hint) in wanted]
    if not trained:
        hint = "set requires_grad of the parameters to train"
        raise DiagnosticError(Diagnostic("E6001", "trainable: no parameter requires a gradient", hint=hint))
    plain = main.without_attr("params").without_attr("mutated")
    mod = Gradient("main", trained, 0)(mod.with_function("main", plain))
    names = {name: str(of).removeprefix(_PREFIX) for name, of in targets_of.items()}
    optimizer.init(trained, [names[var.name_hint] for var in trained])
    update = optimizer.get_function().with_attr("global_symbol", _UPDATE)
    mod = mod.with_function(_UPDATE, update)
    mutated = [str(name) for name in main.attrs.get("mutated", ())]
    return Training(mod, target, optimizer, [var.name_hint for var in trained], kept, names, mutated)


def _exported(
    torch: Any,
    module: Any,
    loss: Callable[..., Any],
    inputs: tuple[Any, ...],
    targets: tuple[Any, ...],
    shapes: Any,
    autocast: Any,
) -> Any:
    """The exported program of module and loss, in which dropouts and batch norms of the mode train are spelled out."""

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.module, self.loss = module, loss

        def forward(self, inputs: Any, targets: Any) -> Any:
            with torch.autocast("cpu", autocast, enabled=autocast is not None):
                return self.loss(self.module(*inputs), *targets)

    whole = WithLoss()
    whole.training = module.training
    program = torch.export.export(whole, (inputs, targets), dynamic_shapes=shapes, strict=False)
    aten = torch.ops.aten
    return program.run_decompositions({
        aten.dropout.default: partial(_dropped, torch),
        aten.native_dropout.default: partial(_dropout, torch),
        aten._native_batch_norm_legit_functional.default: partial(_batch_norm, torch),
    })  # fmt: skip


def _dropped(torch: Any, x: Any, p: float, train: bool) -> Any:
    return _dropout(torch, x, p, train)[0]


def _dropout(torch: Any, x: Any, p: float, train: bool | None = True) -> tuple[Any, Any]:
    """The elements that are kept, scaled so that their expectation stays, and the mask of them."""
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    keep = torch.rand_like(x) >= p
    zeros = torch.zeros_like(x)
    return (torch.where(keep, x / (1 - p), zeros) if p < 1 else zeros), keep


def _batch_norm(
    torch: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    """The normalised elements, the batch's mean and reciprocal deviation, and the new running statistics."""
    axes = [d for d in range(x.ndim) if d != 1]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    of_batch = x.mean(axes) if training else mean
    spread = x.var(axes, unbiased=False) if training else var
    root = torch.rsqrt(spread + eps)
    result = (x - of_batch.reshape(shape)) * root.reshape(shape)
    if weight is not None:
        result = result * weight.reshape(shape)
    if bias is not None:
        result = result + bias.reshape(shape)
    if not training:
        return result, of_batch, root, mean.clone(), var.clone()
    unbiased = x.var(axes, unbiased=True)
    new_mean = mean * (1 - momentum) + of_batch * momentum
    return result, of_batch, root, new_mean, var * (1 - momentum) + unbiased * momentum


def _seeds_as_params(main: Function) -> Function:
    """The function with the seeds of random numbers as its last parameters, which makes it pure."""
    body = cast(SeqExpr, main.body)
    seeds: list[Var] = []
    blocks: list[BindingBlock] = []
    for block in body.blocks:
        drawn = [binding for binding in block.bindings if is_call_of(binding.value, Seed)]
        seeds += [binding.var for binding in drawn]
        rest = tuple(binding for binding in block.bindings if binding not in drawn)
        if rest:
            blocks.append(block.replace(bindings=rest) if drawn else block)
    if not seeds:
        return main
    return main.replace(params=(*main.params, *seeds), body=body.replace(blocks=tuple(blocks)), is_pure=True)


class Training:
    """State of the training of a torch module: parameters, buffers and the states of the optimizer.

    `trainable` makes it. `mod` is the module of the compiled functions.
    """

    def __init__(
        self,
        mod: IRModule,
        target: Any,
        optimizer: Optimizer,
        trained: Sequence[str],
        values: Mapping[str, NDArray],
        names: Mapping[str, str],
        mutated: Sequence[str],
    ) -> None:
        self.mod = mod
        main = cast(Function, mod["main"])
        first: int = main.attrs["num_input"]
        self._inputs = first
        self._params = [var.name_hint for var in main.params[first:] if var.name_hint in values]
        self._seeds = len(main.params) - first - len(self._params)
        self._trained, self._names, self._mutated = list(trained), dict(names), list(mutated)
        self._values = {name: nd.array(value) for name, value in values.items()}
        self._scheduled = bool(optimizer.options.get("scheduled"))
        self._schedule = optimizer.schedule
        self._states: Any = optimizer.state_of([self._values[name] for name in trained])
        self._rng = np.random.default_rng()
        self._vm = VirtualMachine(build(mod, target), cpu())
        self._gradients: list[Any] = []
        """Sums of the gradients since the last update, as torch tensors."""
        self._summands = 0
        self._updates = 0
        self._group: Any = None

    def seed(self, seed: int) -> None:
        """Make the masks of dropouts from here on a function of `seed`."""
        self._rng = np.random.default_rng(seed)

    def step(self, inputs: Sequence[Any], targets: Sequence[Any] = ()) -> float:
        """Do one step: update parameters, buffers and the optimizer. Returns the loss before the step.

        Gradients that `backward` collected before are part of the update. Raises TypeError if the numbers of tensors
        differ from those of the examples.
        """
        loss = self.backward(inputs, targets)
        self.update()
        return loss

    def backward(self, inputs: Sequence[Any], targets: Sequence[Any] = ()) -> float:
        """Compute the loss, which is returned, and collect its gradients for the next `update`; update buffers.

        Raises TypeError if the numbers of tensors differ from those of the examples.
        """
        torch = sys.modules["torch"]
        leaves = torch.utils._pytree.tree_leaves((tuple(inputs), tuple(targets)))
        if len(leaves) != self._inputs:
            raise TypeError(f"step: {len(leaves)} inputs and targets are given, expected {self._inputs}")
        passed = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        seeds = [int(self._rng.integers(1 << 62)) for _ in range(self._seeds)]
        values = [self._values[name] for name in self._params]
        results, gradients = self._vm[_STEP](*passed, *values, *seeds)
        loss, *buffers = results
        self._values.update(zip(self._mutated, buffers, strict=True))
        news = [torch.from_dlpack(gradient) for gradient in gradients]
        olds = self._gradients
        self._gradients = [old + new for old, new in zip(olds, news, strict=True)] if olds else news
        self._summands += 1
        return float(loss.numpy())

    def update(self) -> None:
        """Update the parameters and the optimizer by the mean of the collected gradients.

        With several processes, the mean is that of the gradients of all of them, however many each has collected.
        Raises RuntimeError if no gradient was collected.
        """
        if not self._gradients:
            raise RuntimeError("update: no gradients were collected since the last update: call backward first")
        gradients, count = self._gradients, self._summands
        if self._group is not None:
            gradients, count = self._reduced(gradients), self._sum(count)
        if count > 1:
            gradients = [gradient / count for gradient in gradients]
        if self._schedule is not None:
            self.lr = self._schedule(self._updates)
        before = tuple(self._values[name] for name in self._trained)
        passed = tuple(nd.from_dlpack(gradient) for gradient in gradients)
        after, self._states = self._vm[_UPDATE](before, passed, self._states)
        self._values.update(zip(self._trained, after, strict=True))
        self._gradients, self._summands = [], 0
        self._updates += 1

    def distribute(self, group: Any = None) -> None:
        """Train with the other processes of a group of ``torch.distributed``, by default all: each with its own data.

        Parameters, buffers, the optimizer's states and the number of updates become those of rank 0. From here on,
        `update` averages the gradients over the group; all processes must call it equally often. Buffers are not
        averaged.

        Raises RuntimeError if ``torch.distributed`` is not initialised.
        """
        torch = sys.modules["torch"]
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            raise RuntimeError("distribute: call torch.distributed.init_process_group first")
        self._group = torch.distributed.group.WORLD if group is None else group
        source = torch.distributed.get_global_rank(self._group, 0)
        names = list(self._values)
        every = [torch.from_dlpack(value).clone() for value in (*self._values.values(), *self._states)]
        updates = torch.tensor(self._updates)
        for value in (*every, updates):
            torch.distributed.broadcast(value, source, self._group)
        shared = [nd.array(value) for value in every]
        self._values.update(zip(names, shared, strict=False))
        self._states = tuple(shared[len(names) :])
        self._updates = int(updates)

    def _sum(self, count: int) -> int:
        """Sum of an integer over the processes."""
        torch = sys.modules["torch"]
        total = torch.tensor(count)
        torch.distributed.all_reduce(total, group=self._group)
        return int(total)

    def _reduced(self, gradients: Sequence[Any]) -> list[Any]:
        """Sums of the gradients over the processes, by one transfer for each dtype."""
        torch = sys.modules["torch"]
        sums: dict[int, Any] = {}
        for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
            own = [i for i, gradient in enumerate(gradients) if gradient.dtype == dtype]
            whole = torch.cat([gradients[i].reshape(-1) for i in own])
            torch.distributed.all_reduce(whole, group=self._group)
            parts = whole.split([gradients[i].numel() for i in own])
            sums |= {i: part.view(gradients[i].shape) for i, part in zip(own, parts, strict=True)}
        return [sums[i] for i in range(len(gradients))]

    @property
    def lr(self) -> float:
        """Learning rate of an optimizer made with ``scheduled=True`` or a schedule; it may be set between steps.

        A schedule sets it at each update. Raises AttributeError for another optimizer.
        """
        self._require_schedule()
        return float(self._states[-1].numpy())

    @lr.setter
    def lr(self, value: float) -> None:
        self._require_schedule()
        old = self._states[-1]
        self._states = (*tuple(self._states)[:-1], nd.array(np.asarray(value, old.numpy().dtype)))

    def _require_schedule(self) -> None:
        if not self._scheduled:
            raise AttributeError("the learning rate is a constant of the step: make the optimizer with scheduled=True")

    def state_dict(self) -> dict[str, Any]:
        """Copies of the parameters and buffers that the program uses, as torch tensors by their names in the module."""
        torch = sys.modules["torch"]
        return {self._names[name]: torch.from_dlpack(value).clone() for name, value in self._values.items()}

    def load_into(self, module: Any) -> None:
        """Copy the parameters and buffers into a torch module of the same structure."""
        values = self.state_dict()
        missing = module.load_state_dict(values, strict=False)
        temporary = dict(module.named_buffers())  # those that a module does not save are not in its state dict
        unknown = [name for name in missing.unexpected_keys if name not in temporary]
        if unknown:
            raise TypeError(f"load_into: the module has no {', '.join(unknown)}")
        for name in missing.unexpected_keys:
            temporary[name].copy_(values[name])


__all__ = ["Training", "trainable"]
