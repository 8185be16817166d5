"""Optimizers: Relax functions that update parameters from gradients.

    sgd = SGD(0.1).init(params)             params are variables with static shapes and one float dtype
    update = sgd.get_function()

    @R.function
    def SGD(params: R.Tuple(...), gradients: R.Tuple(...), optim_states: R.Tuple(R.Tensor((), "int64"))):
        ...
        return (params_new, optim_states_new)

`state` holds the initial states, to be passed in the first call. The first one is the number of steps done, those of
the optimizer's rule follow. `Options` add master weights and a learning rate that changes between steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict, cast

import numpy as np
from typing_extensions import Unpack

from .. import op
from ..block_builder import BlockBuilder
from ..expr import Function, Tuple, TupleGetItem, Var, const
from ..info.text import struct_info_text
from ..ir import DataType, RelaxExpr
from ..prim import IntImm
from ..runtime import NDArray, nd
from ..struct_info import TensorStructInfo, TupleStructInfo
from .errors import misfit
from .schedules import Schedule

Term = Any
"""An expression with Python's operators."""


WeightDecay = float | Callable[[str], float]
"""Weight decay of all parameters, or a function from a parameter's name to its weight decay."""


Rate = float | Schedule
"""Learning rate: a number, or a function from the number of updates done to the rate of the next update."""


class Options(TypedDict, total=False):
    """Keyword arguments of every optimizer."""

    clip_norm: float
    """Greatest Euclidean norm of all gradients together; longer ones are scaled to it, as by torch's clip_grad_norm_.
    """
    clip_value: float
    """Greatest absolute value of an element of a gradient; others are cut off."""
    master_weights: bool
    """True updates a float32 copy of each parameter, kept in the states, and rounds it to the parameter's dtype."""
    scheduled: bool
    """True makes the learning rate the last state, a scalar, which may be replaced between steps; a schedule as the
    learning rate does, too."""


class Optimizer:
    """Base class of optimizers: `init` takes the parameters, `get_function` returns the update function."""

    def __init__(self, name: str, lr: Rate = 0.0, **options: Unpack[Options]) -> None:
        self.name = name
        self.schedule: Schedule | None = lr if callable(lr) else None
        """Learning rate as a function of the number of updates done; None if it is a number."""
        self.lr = float(lr(0) if callable(lr) else lr)
        if self.schedule is not None:
            options["scheduled"] = True
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise TypeError(f"{name}: unexpected options {', '.join(sorted(unknown))}")
        for limit in ("clip_norm", "clip_value"):
            if not options.get(limit, 1) > 0:
                raise ValueError(f"{name}: {limit} must be greater than 0, found {options.get(limit)}")
        self.options = options
        self._rate: Term = None
        self.dtype: str = ""
        self.param_list: list[Var] = []
        self.names: list[str] = []
        self._state: tuple[NDArray, ...] | None = None

    def init(self, params: Var | Sequence[Var], names: Sequence[str] | None = None) -> Optimizer:
        """Set the parameters to update and create the initial states; returns the optimizer, for chaining.

        `names` are those of which a function given as `weight_decay` is asked; by default those of the variables.
        """
        self.param_list = [params] if isinstance(params, Var) else list(params)
        self.names = [param.name_hint for param in self.param_list] if names is None else list(names)
        self.dtype = self._checked_dtype()
        states = [nd.array(np.zeros((), "int64")), *self._initial_states()]
        if self.has_masters:
            states += self._zeros()
        if self.options.get("scheduled"):
            states.append(self._scalar(self.lr))
        self._state = tuple(states)
        return self

    @property
    def has_masters(self) -> bool:
        """True if the states hold float32 copies of the parameters, before the learning rate if that is a state."""
        return bool(self.options.get("master_weights")) and self.dtype not in ("float32", "float64", "")

    def state_of(self, params: Sequence[Any]) -> tuple[NDArray, ...]:
        """Initial states for parameters of these values: with `master_weights`, their float32 copies are among them."""
        states = list(self.state)
        if self.has_masters:
            last = len(states) - bool(self.options.get("scheduled"))
            first = last - len(self.param_list)
            if len(params) != len(self.param_list):
                raise misfit(f"{self.name}: {len(params)} values are given for {len(self.param_list)} parameters")
            states[first:last] = [nd.array(np.asarray(nd.array(value).numpy(), "float32")) for value in params]
        return tuple(states)

    @property
    def _compute(self) -> str:
        """Dtype in which parameters are updated."""
        return "float32" if self.has_masters else self.dtype or "float32"

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
        numpy = DataType(self._compute).numpy()
        return [nd.array(np.zeros(_sizes(_info(param)) or (), numpy)) for param in self.param_list]

    def _scalar(self, value: float) -> NDArray:
        return nd.array(np.array(value, DataType(self._compute).numpy()))

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
                rest: list[Term] = _fields(builder, optim_states, range(1, len(states)))
                kept: list[RelaxExpr] = [rest.pop()] if self.options.get("scheduled") else []
                self._rate = kept[0] if kept else self._constant(self.lr)
                masters: Sequence[Term] = own
                if self.has_masters:
                    masters, rest = rest[len(rest) - count :], rest[: len(rest) - count]
                    slopes = [builder.emit(op.astype(slope, "float32")) for slope in slopes]
                new_params, new_states = self._step(builder, masters, self._clipped(builder, slopes), rest)
                if self.has_masters:
                    new_states = [*new_states, *new_params]
                    new_params = [builder.emit(op.astype(param, self.dtype)) for param in new_params]
                new_states = [*new_states, *kept]
                params_new = builder.emit_output(Tuple(new_params), "params_new")
                states_new = builder.emit_output(Tuple([steps, *new_states]), "optim_states_new")
            builder.emit_func_output(Tuple((params_new, states_new)))
        return cast(Function, builder.get()[self.name])

    def _clipped(self, builder: BlockBuilder, grads: Sequence[Term]) -> Sequence[Term]:
        """Gradients after the limits of the options."""
        value, norm = self.options.get("clip_value"), self.options.get("clip_norm")
        if value is not None:
            grads = [builder.emit(op.clip(grad, -value, value)) for grad in grads]
        if norm is None or not grads:
            return grads
        total: Term = self._constant(0)
        for grad in grads:
            total = builder.emit(total + op.sum(grad * grad))
        share = self._constant(norm) / (op.sqrt(total) + self._constant(1e-6))
        factor: Term = builder.emit(op.minimum(share, self._constant(1)))
        return [builder.emit(grad * factor) for grad in grads]

    def _decay_of(self, index: int, weight_decay: WeightDecay) -> float:
        """Weight decay of parameter `index`."""
        return float(weight_decay(self.names[index]) if callable(weight_decay) else weight_decay)

    def _decayed(self, builder: BlockBuilder, index: int, param: Term, grad: Term, weight_decay: WeightDecay) -> Term:
        """Gradient of parameter `index` plus weight decay."""
        decay = self._decay_of(index, weight_decay)
        return grad if not decay else builder.emit(grad + self._constant(decay) * param)

    def _shrunk(self, builder: BlockBuilder, index: int, param: Term, weight_decay: WeightDecay) -> Term:
        """Parameter `index` after decoupled weight decay: p · (1 - lr · weight_decay)."""
        decay = self._decay_of(index, weight_decay)
        if not decay:
            return param
        return builder.emit(param * (self._constant(1) - self._rate * self._constant(decay)))

    def _constant(self, value: float) -> Term:
        return const(value, self._compute)


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

    def __init__(self, lr: Rate, weight_decay: WeightDecay = 0, **options: Unpack[Options]) -> None:
        super().__init__("SGD", lr, **options)
        self.weight_decay = weight_decay

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
            slope = self._decayed(builder, i, param, grad, self.weight_decay)
            new.append(builder.emit(param - self._rate * slope))
        return new, []


class MomentumSGD(Optimizer):
    """Gradient descent with momentum: v ← momentum · v + (1 - dampening) · g, p ← p - lr · v.

    g includes weight_decay · p. With `nesterov`, the step is lr · (g + momentum · v). States: a velocity for each
    parameter, initially 0.
    """

    def __init__(
        self,
        lr: Rate,
        momentum: float,
        dampening: float = 0,
        weight_decay: WeightDecay = 0,
        nesterov: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__("MomentumSGD", lr, **options)
        self.momentum, self.dampening = float(momentum), float(dampening)
        self.weight_decay, self.nesterov = weight_decay, nesterov

    def _initial_states(self) -> list[NDArray]:
        return self._zeros()

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        velocities: list[RelaxExpr] = []
        momentum = self._constant(self.momentum)
        for i, (param, grad, old) in enumerate(zip(params, grads, states, strict=True)):
            slope = self._decayed(builder, i, param, grad, self.weight_decay)
            damped = slope if not self.dampening else slope * self._constant(1 - self.dampening)
            velocity: Term = builder.emit(momentum * old + damped)
            step = slope + momentum * velocity if self.nesterov else velocity
            new.append(builder.emit(param - self._rate * step))
            velocities.append(velocity)
        return new, velocities


class Adam(Optimizer):
    """Adam (Kingma, Ba 2015): steps along the moving mean of gradients, divided by the root of that of their squares.

    m ← β₀ · m + (1 - β₀) · g, v ← β₁ · v + (1 - β₁) · g², p ← p - lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - β₀ᵗ) and
    v̂ = v / (1 - β₁ᵗ) in step t; g includes weight_decay · p. States: β₀ᵗ, β₁ᵗ, then m and v of all parameters.
    """

    decoupled: ClassVar[bool] = False
    """True applies weight decay to the parameter, not to the gradient."""

    def __init__(
        self,
        lr: Rate,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: WeightDecay = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(type(self).__name__, lr, **options)
        self.eps, self.weight_decay = float(eps), weight_decay
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
        for i, (param, grad, mean, square) in enumerate(zip(params, grads, means, squares, strict=True)):
            slope = grad
            if self.decoupled:
                param = self._shrunk(builder, i, param, self.weight_decay)
            else:
                slope = self._decayed(builder, i, param, grad, self.weight_decay)
            m: Term = builder.emit(first * mean + self._constant(1 - self.beta1) * slope)
            v: Term = builder.emit(second * square + self._constant(1 - self.beta2) * slope * slope)
            root = op.sqrt(v / unbiased[1]) + self._constant(self.eps)
            new.append(builder.emit(param - self._rate * (m / unbiased[0]) / root))
            new_means.append(m)
            new_squares.append(v)
        return new, [*products, *new_means, *new_squares]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov, Hutter 2019): p ← p · (1 - lr · weight_decay), then Adam's step."""

    decoupled = True

    def __init__(
        self,
        lr: Rate,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: WeightDecay = 0.01,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, **options)


class Lion(Optimizer):
    """Lion (Chen et al. 2023): steps of one size, along the signs of a moving mean.

    p ← p · (1 - lr · weight_decay) - lr · sign(β₀ · m + (1 - β₀) · g), then m ← β₁ · m + (1 - β₁) · g. States: m of
    each parameter, initially 0.
    """

    def __init__(
        self,
        lr: Rate,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: WeightDecay = 0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__("Lion", lr, **options)
        self.weight_decay = weight_decay
        self.beta1, self.beta2 = float(betas[0]), float(betas[1])

    def _initial_states(self) -> list[NDArray]:
        return self._zeros()

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        means: list[RelaxExpr] = []
        for i, (param, grad, mean) in enumerate(zip(params, grads, states, strict=True)):
            direction = op.sign(mean * self._constant(self.beta1) + grad * self._constant(1 - self.beta1))
            shrunk = self._shrunk(builder, i, param, self.weight_decay)
            new.append(builder.emit(shrunk - self._rate * direction))
            means.append(builder.emit(mean * self._constant(self.beta2) + grad * self._constant(1 - self.beta2)))
        return new, means


class Muon(Optimizer):
    """Muon (Jordan et al. 2024), for matrices: the momentum is made nearly orthogonal by Newton and Schulz's steps.

    v ← momentum · v + (1 - momentum) · g, u = v or, with `nesterov`, g + momentum · (v - g); p ← p · (1 - lr ·
    weight_decay) - lr · a · orthogonal(u), with a = √max(1, rows / columns). `steps` iterations use `coefficients`, in
    bfloat16 as torch's, or in `dtype`. States: v of each parameter. Raises DiagnosticError for a parameter that has not
    two dimensions.
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        weight_decay: WeightDecay = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        steps: int = 5,
        dtype: str = "bfloat16",
        **options: Unpack[Options],
    ) -> None:
        super().__init__("Muon", lr, **options)
        self.weight_decay, self.momentum, self.nesterov = weight_decay, float(momentum), nesterov
        self.coefficients, self.eps, self.steps, self.orthogonal_dtype = coefficients, float(eps), steps, dtype

    def _initial_states(self) -> list[NDArray]:
        for param in self.param_list:
            if len(_sizes(_info(param)) or ()) != 2:
                message = f"Muon: the parameter {param.name_hint} is {struct_info_text(param.struct_info)}"
                raise misfit(f"{message}, expected a matrix", param.span, "update other parameters with AdamW")
        return self._zeros()

    def _step(
        self, builder: BlockBuilder, params: Sequence[Term], grads: Sequence[Term], states: Sequence[Term]
    ) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
        new: list[RelaxExpr] = []
        velocities: list[RelaxExpr] = []
        momentum = self._constant(self.momentum)
        for i, (param, grad, old) in enumerate(zip(params, grads, states, strict=True)):
            velocity: Term = builder.emit(old + (grad - old) * self._constant(1 - self.momentum))
            update: Term = builder.emit(grad + (velocity - grad) * momentum) if self.nesterov else velocity
            rows, columns = _sizes(_info(self.param_list[i])) or (0, 0)
            scale = self._rate * self._constant(max(1.0, rows / max(columns, 1)) ** 0.5)
            shrunk = self._shrunk(builder, i, param, self.weight_decay)
            new.append(builder.emit(shrunk - scale * self._orthogonal(builder, update, rows > columns)))
            velocities.append(velocity)
        return new, velocities

    def _orthogonal(self, builder: BlockBuilder, matrix: Term, tall: bool) -> Term:
        """Nearly orthogonal factor of a matrix: its singular values become about 1."""

        def narrow(value: float) -> Term:
            return const(value, self.orthogonal_dtype)

        x: Term = builder.emit(op.astype(matrix, self.orthogonal_dtype))
        if tall:
            x = builder.emit(op.permute_dims(x))
        norm = op.sqrt(op.sum(x * x))
        x = builder.emit(x / op.maximum(norm, narrow(self.eps)))
        a, b, c = map(narrow, self.coefficients)
        for _ in range(self.steps):
            gram: Term = builder.emit(op.matmul(x, op.permute_dims(x)))
            mixed: Term = builder.emit(b * gram + c * op.matmul(gram, gram))
            x = builder.emit(a * x + op.matmul(mixed, x))
        if tall:
            x = builder.emit(op.permute_dims(x))
        return op.astype(x, self._compute)
