"""Optimizers: Relax functions that update parameters from gradients.

    sgd = SGD(0.1).init(params)             params are variables with static shapes and one float dtype
    update = sgd.get_function()

    @R.function
    def SGD(params: R.Tuple(...), gradients: R.Tuple(...), optim_states: R.Tuple(R.Tensor((), "int64"))):
        ...
        return (params_new, optim_states_new)

`state` holds the initial states, to be passed in the first call. The first one is the number of steps done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .. import op
from ..block_builder import BlockBuilder
from ..expr import Function, Tuple, TupleGetItem, Var, const
from ..info.text import struct_info_text
from ..ir import DataType, RelaxExpr
from ..prim import IntImm
from ..runtime import NDArray, nd
from ..struct_info import TensorStructInfo, TupleStructInfo
from .errors import misfit

Term = Any
"""An expression with Python's operators."""


class Optimizer:
    """Base class of optimizers: `init` takes the parameters, `get_function` returns the update function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype: str = ""
        self.param_list: list[Var] = []
        self._state: tuple[NDArray, ...] | None = None

    def init(self, params: Var | Sequence[Var]) -> Optimizer:
        """Set the parameters to update and create the initial states; returns the optimizer, for chaining."""
        self.param_list = [params] if isinstance(params, Var) else list(params)
        self.dtype = self._checked_dtype()
        self._state = (nd.array(np.zeros((), "int64")), *self._initial_states())
        return self

    @property
    def state(self) -> tuple[NDArray, ...]:
        """Initial states. Raises DiagnosticError before `init`."""
        if self._state is None:
            raise misfit(f"{self.name}: the optimizer has no parameters yet", hint="call init(params) first")
        return self._state

    def _checked_dtype(self) -> str:
        """Common dtype of the parameters, after checking them."""
        dtype = ""
        seen: set[Var] = set()
        for param in self.param_list:
            info = param.struct_info_
            if not isinstance(info, TensorStructInfo) or not info.dtype.is_float or _sizes(info) is None:
                message = f"{self.name}: the parameter {param.name_hint} is {struct_info_text(info)}"
                raise misfit(f"{message}, expected a tensor of floats whose sizes are numbers", param.span)
            if dtype and str(info.dtype) != dtype:
                message = f"{self.name}: {param.name_hint} is of {info.dtype}, others of {dtype}"
                raise misfit(message, param.span, "let all parameters have one dtype")
            if param in seen:
                raise misfit(f"{self.name}: the parameter {param.name_hint} is given twice", param.span)
            seen.add(param)
            dtype = str(info.dtype)
        return dtype

    def _zeros(self) -> list[NDArray]:
        """Zeros in the shapes of all parameters."""
        numpy = DataType(self.dtype or "float32").numpy()
        return [nd.array(np.zeros(_sizes(_info(param)) or (), numpy)) for param in self.param_list]

    def _scalar(self, value: float) -> NDArray:
        return nd.array(np.array(value, DataType(self.dtype or "float32").numpy()))

    def _initial_states(self) -> list[NDArray]:
        """Initial states besides the step count."""
        return []

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        """New parameters, and new states besides the step count."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it updates parameters")

    def get_function(self) -> Function:
        """Return the function ``(params, gradients, optim_states) -> (new params, new optim_states)`` over tuples."""
        states = self.state
        tensors = TupleStructInfo([_info(param) for param in self.param_list])
        kinds = TupleStructInfo([TensorStructInfo(state.shape, state.dtype) for state in states])
        params, grads = Var("params", tensors), Var("gradients", tensors)
        optim_states = Var("optim_states", kinds)
        builder = BlockBuilder()
        with builder.function(self.name, [params, grads, optim_states]):
            with builder.dataflow():
                steps = builder.emit(TupleGetItem(optim_states, 0), "num_steps")
                steps = builder.emit(op.add(steps, const(1, "int64")), "num_steps_new")
                count = len(self.param_list)
                own, slopes = (_fields(builder, whole, range(count)) for whole in (params, grads))
                rest = _fields(builder, optim_states, range(1, len(states)))
                new_params, new_states = self._step(builder, own, slopes, rest)
                params_new = builder.emit_output(Tuple(new_params), "params_new")
                states_new = builder.emit_output(Tuple([steps, *new_states]), "optim_states_new")
            builder.emit_func_output(Tuple((params_new, states_new)))
        return cast(Function, builder.get()[self.name])

    def _decayed(self, builder: BlockBuilder, param: Term, grad: Term, weight_decay: float) -> Term:
        """Gradient plus weight decay."""
        return grad if not weight_decay else builder.emit(grad + self._constant(weight_decay) * param)

    def _constant(self, value: float) -> Term:
        return const(value, self.dtype)


def _info(param: Var) -> TensorStructInfo:
    return cast(TensorStructInfo, param.struct_info)


def _sizes(info: TensorStructInfo) -> tuple[int, ...] | None:
    """Static dimensions of a tensor, None if any is dynamic."""
    dims = info.dims
    if dims is None or not all(isinstance(size, IntImm) for size in dims):
        return None
    return tuple(cast(IntImm, size).value for size in dims)


def _fields(builder: BlockBuilder, whole: Var, indices: range) -> list[Var]:
    return [builder.emit(TupleGetItem(whole, i)) for i in indices]


class SGD(Optimizer):
    """Stochastic gradient descent: p ← p - lr · (g + weight_decay · p)."""

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__("SGD")
        self.lr, self.weight_decay = float(lr), float(weight_decay)

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        for param, grad in zip(params, grads, strict=True):
            slope = self._decayed(builder, param, grad, self.weight_decay)
            new.append(builder.emit(param - self._constant(self.lr) * slope))
        return new, []


class MomentumSGD(Optimizer):
    """Gradient descent with momentum: v ← momentum · v + (1 - dampening) · g, p ← p - lr · v.

    g includes weight_decay · p. With `nesterov`, the step is lr · (g + momentum · v). States: a velocity for each
    parameter, initially 0.
    """

    def __init__(
        self, lr: float, momentum: float, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False
    ) -> None:
        super().__init__("MomentumSGD")
        self.lr, self.momentum, self.dampening = float(lr), float(momentum), float(dampening)
        self.weight_decay, self.nesterov = float(weight_decay), nesterov

    def _initial_states(self) -> list[NDArray]:
        return self._zeros()

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        velocities: list[RelaxExpr] = []
        momentum = self._constant(self.momentum)
        for param, grad, old in zip(params, grads, states, strict=True):
            slope = self._decayed(builder, param, grad, self.weight_decay)
            damped = slope if not self.dampening else slope * self._constant(1 - self.dampening)
            velocity: Term = builder.emit(momentum * old + damped)
            step = slope + momentum * velocity if self.nesterov else velocity
            new.append(builder.emit(param - self._constant(self.lr) * step))
            velocities.append(velocity)
        return new, velocities


class Adam(Optimizer):
    """Adam (Kingma, Ba 2015): steps along the moving mean of gradients, divided by the root of that of their squares.

    m ← β₀ · m + (1 - β₀) · g, v ← β₁ · v + (1 - β₁) · g², p ← p - lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - β₀ᵗ) and
    v̂ = v / (1 - β₁ᵗ) in step t; g includes weight_decay · p. States: β₀ᵗ, β₁ᵗ, then m and v of all parameters.
    """

    def __init__(
        self, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0
    ) -> None:
        super().__init__("Adam")
        self.lr, self.eps, self.weight_decay = float(lr), float(eps), float(weight_decay)
        self.beta1, self.beta2 = float(betas[0]), float(betas[1])

    def _initial_states(self) -> list[NDArray]:
        return [self._scalar(1), self._scalar(1), *self._zeros(), *self._zeros()]

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        first, second = self._constant(self.beta1), self._constant(self.beta2)
        one = self._constant(1)
        products = [builder.emit(states[0] * first), builder.emit(states[1] * second)]
        unbiased: list[Term] = [builder.emit(one - cast(Term, product)) for product in products]
        count = len(params)
        means, squares = states[2 : 2 + count], states[2 + count :]
        new: list[RelaxExpr] = []
        new_means: list[RelaxExpr] = []
        new_squares: list[RelaxExpr] = []
        for param, grad, mean, square in zip(params, grads, means, squares, strict=True):
            slope = self._decayed(builder, param, grad, self.weight_decay)
            m: Term = builder.emit(first * mean + self._constant(1 - self.beta1) * slope)
            v: Term = builder.emit(second * square + self._constant(1 - self.beta2) * slope * slope)
            root = op.sqrt(v / unbiased[1]) + self._constant(self.eps)
            new.append(builder.emit(param - self._constant(self.lr) * (m / unbiased[0]) / root))
            new_means.append(m)
            new_squares.append(v)
        return new, [*products, *new_means, *new_squares]
