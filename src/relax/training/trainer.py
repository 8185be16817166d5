"""State of a training loop: parameters, states of the model and the optimizer, and the VM that updates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..expr import Function, Var
from ..info.text import struct_info_text
from ..ir import IRModule
from ..prim import IntImm
from ..runtime import Device, NDArray, VirtualMachine, nd
from ..struct_info import TensorStructInfo
from .errors import misfit
from .schedules import Schedule
from .setup_trainer import SetupTrainer

Values = Sequence[Any] | Mapping[str, Any]
"""Tensors in the order of parameters, or by parameter name."""


class Trainer:
    """Trainer of a module that `SetupTrainer` created and `relax.build` compiled.

    `train_mod` is the module, `vm` the virtual machine that runs it on `device`. With `zero_init_param_state`, all
    parameters and states are initialised to zeros; else they must be loaded before the first step. `schedule` is that
    of the optimizer, of which the module holds only the first learning rate. Raises DiagnosticError (E4013) if the
    module is not of `SetupTrainer`, or if its optimizer has a schedule and none is given, or the reverse.
    """

    def __init__(
        self,
        train_mod: IRModule,
        vm: VirtualMachine,
        device: Device,
        zero_init_param_state: bool = True,
        schedule: Schedule | None = None,
    ) -> None:
        self.mod, self.vm, self.device = train_mod, vm, device
        attrs = train_mod.attrs
        needed = (
            SetupTrainer.INPUT_NUM_ATTR,
            SetupTrainer.PARAM_NUM_ATTR,
            SetupTrainer.STATE_NUM_ATTR,
            SetupTrainer.OPTIM_STATES_ATTR,
        )
        missing = [name for name in needed if name not in attrs]
        adjoint = train_mod.get(SetupTrainer.ADJOINT_FUNC)
        if missing or not isinstance(adjoint, Function):
            absent = ", ".join(missing) or SetupTrainer.ADJOINT_FUNC
            hint = "make the module with relax.training.SetupTrainer"
            raise misfit(f"Trainer: the module has no {absent}", hint=hint)
        if bool(attrs.get(SetupTrainer.SCHEDULED_ATTR)) != (schedule is not None):
            has = "no schedule" if schedule is not None else "a schedule of its learning rate"
            hint = "" if schedule is not None else "pass it: Trainer(..., schedule=optimizer.schedule)"
            raise misfit(f"Trainer: the optimizer of the module has {has}", hint=hint)
        self._schedule, self._updates = schedule, 0
        self._input_num, self._param_num, self._state_num = (int(attrs[name]) for name in needed[:3])
        states: Sequence[NDArray] = attrs[needed[3]]
        self._optim_states: Any = tuple(nd.array(state, device) for state in states)
        first, last = self._input_num, self._input_num + self._param_num
        self._param_vars = adjoint.params[first:last]
        self._state_vars = adjoint.params[last : last + self._state_num]
        self._params: list[NDArray] | None = None
        self._states: list[NDArray] | None = None
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    # -- initial values

    def zero_init_params(self) -> None:
        """Set all parameters to zeros."""
        self._params = [nd.array(np.zeros(_shape(var)), self.device, _dtype(var)) for var in self._param_vars]

    def zero_init_states(self) -> None:
        """Set all states of the model to zeros."""
        self._states = [nd.array(np.zeros(_shape(var)), self.device, _dtype(var)) for var in self._state_vars]

    def xaiver_uniform_init_params(self, seed: int | None = None) -> None:
        """Initialise all parameters by Glorot and Bengio's rule: uniform in ±√(6 / (inputs + outputs)).

        Inputs and outputs are the first two dimensions, times the product of the others; for a vector, its size. (The
        name is TVM's.) `seed` makes the numbers the same in every run.
        """
        rng = np.random.default_rng(seed)
        values: list[NDArray] = []
        for var in self._param_vars:
            shape = _shape(var)
            fans = sum(shape[:2]) * int(np.prod(shape[2:]))
            bound = np.sqrt(6 / max(fans, 1))
            values.append(nd.array(rng.uniform(-bound, bound, shape), self.device, _dtype(var)))
        self._params = values

    def load_params(self, params: Values) -> None:
        """Set the parameters, in order or by name."""
        self._params = self._loaded(params, self._param_vars, "parameter")

    def load_states(self, states: Values) -> None:
        """Set the states of the model, in order or by name."""
        self._states = self._loaded(states, self._state_vars, "state")

    def _loaded(self, values: Values, variables: Sequence[Var], kind: str) -> list[NDArray]:
        names = [var.name_hint for var in variables]
        if isinstance(values, Mapping):
            if set(values) != set(names):
                differing = ", ".join(sorted(set(values) ^ set(names)))
                raise misfit(f"Trainer: the names of {kind}s do not agree: {differing}")
            values = [values[name] for name in names]
        if len(values) != len(names):
            raise misfit(f"Trainer: {len(values)} {kind}s are given, the model has {len(names)}")
        loaded: list[NDArray] = []
        for value, var in zip(values, variables, strict=True):
            tensor = nd.array(value, self.device, _dtype(var))
            if tensor.shape != _shape(var):
                message = f"the {kind} {var.name_hint} has the shape {_shape(var)}, found {tensor.shape}"
                raise misfit(f"Trainer: {message}")
            loaded.append(tensor)
        return loaded

    def export_params(self) -> dict[str, NDArray]:
        """The parameters by name."""
        return self._exported(self._param_vars, self.params)

    def export_states(self) -> dict[str, NDArray]:
        """The states of the model by name."""
        return self._exported(self._state_vars, self.states)

    @staticmethod
    def _exported(variables: Sequence[Var], values: Sequence[NDArray]) -> dict[str, NDArray]:
        return {var.name_hint: value for var, value in zip(variables, values, strict=True)}

    @property
    def params(self) -> list[NDArray]:
        """Parameters. Raises DiagnosticError before they are initialised."""
        if self._params is None:
            raise misfit("Trainer: the parameters have no values yet", hint="call load_params(...)")
        return self._params

    @property
    def states(self) -> list[NDArray]:
        """States of the model. Raises DiagnosticError before they are initialised."""
        if self._states is None:
            raise misfit("Trainer: the states have no values yet", hint="call load_states(...)")
        return self._states

    # -- steps

    def predict(self, *input_instances: Any) -> Any:
        """Return the model's predictions for inputs: a tensor, or a list of several."""
        inputs = self._tensors(input_instances)
        if len(inputs) != self._input_num:
            raise misfit(f"Trainer: {len(inputs)} inputs are given, the model takes {self._input_num}")
        result: Any = self.vm[SetupTrainer.BACKBONE_FUNC](*inputs, *self.params, *self.states)
        if not self._state_num:
            return result
        predictions: list[Any] = list(result)[: -self._state_num]
        return predictions[0] if len(predictions) == 1 else predictions

    def update(self, input_instances: Any, targets: Any) -> NDArray:
        """Do one step: compute gradients, update parameters and states. Returns the loss before the step.

        Several inputs or targets are given as a list or tuple.
        """
        result: Any = self.vm[SetupTrainer.ADJOINT_FUNC](*self._arguments(input_instances, targets))
        values, gradients = result
        loss = values
        if self._state_num:
            loss, *states = values
            self._states = states
        if self._schedule is not None:
            rate = np.asarray(self._schedule(self._updates), self._optim_states[-1].numpy().dtype)
            self._optim_states = (*tuple(self._optim_states)[:-1], nd.array(rate, self.device))
        self._updates += 1
        updated: Any = self.vm[SetupTrainer.UPDATE_PARAMS_FUNC](tuple(self.params), gradients, self._optim_states)
        params, self._optim_states = updated
        self._params = list(params)
        return loss

    def profile_adjoint(self, input_instances: Any, targets: Any) -> Any:
        """Profile one run of the loss and its gradients, without an update.

        The VM must have been created with ``VirtualMachine(..., profile=True)``; see `VirtualMachine.profile`.
        """
        arguments = self._arguments(input_instances, targets)
        return self.vm.profile(SetupTrainer.ADJOINT_FUNC, *arguments)

    def _arguments(self, input_instances: Any, targets: Any) -> list[Any]:
        inputs, labels = (self._tensors(_sequence(values)) for values in (input_instances, targets))
        if len(inputs) != self._input_num:
            raise misfit(f"Trainer: {len(inputs)} inputs are given, the model takes {self._input_num}")
        return [*inputs, *self.params, *self.states, *labels]

    def _tensors(self, values: Sequence[Any]) -> list[NDArray]:
        return [value if isinstance(value, NDArray) else nd.array(np.asarray(value), self.device) for value in values]


def _sequence(values: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", values) if isinstance(values, list | tuple) else [values]


def _shape(var: Var) -> tuple[int, ...]:
    """Static shape of a parameter. Raises DiagnosticError if a dimension is dynamic."""
    info = var.struct_info
    dims = info.dims if isinstance(info, TensorStructInfo) else None
    if dims is None or not all(isinstance(size, IntImm) for size in dims):
        message = f"Trainer: {var.name_hint} is {struct_info_text(info)}, expected a tensor whose sizes are numbers"
        raise misfit(message, var.span)
    return tuple(cast(IntImm, size).value for size in dims)


def _dtype(var: Var) -> str:
    return str(cast(TensorStructInfo, var.struct_info).dtype)
