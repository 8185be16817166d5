"""Gradients of recurrent layers: a backward scan of the gates, and products of all steps at once.

    P = x Wᵀ + b, Q = previous states · Rᵀ + rb         the gates before activation, computed again
    dP, dQ = call_tir(lstm_backward, …)                 gradients of both, step by step from the last
    dW = dPᵀ x, dR = dQᵀ · previous states, dx = dP W, db = Σ dP, drb = Σ dQ

Layers with clipped gates, lengths of sequences, peepholes, coupled gates or other activation functions than torch's
have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..expr import Call, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir import RelaxExpr
from ..struct_info import TensorStructInfo
from ..topi import recurrent_gradients as scans
from .base import Gradients, Term
from .gradients import apply, tensor_info
from .known import known_struct_info
from .operands import is_absent
from .te_call import call_te


def recurrent_gradient(layer: Any, builder: Any, call: Call, result: Term, grad: Term) -> Gradients | None:
    """Return the gradients of the operands of a call of `layer`, an rnn, gru or lstm; None if it has none."""
    operands: list[RelaxExpr | None] = [None if is_absent(arg) else arg for arg in call.args]
    operands += [None] * (8 - len(operands))
    info, weight = tensor_info(call.args[0]), tensor_info(call.args[2])
    has_scan = layer.clip is None and not getattr(layer, "input_forget", False) and _activation(layer) is not None
    if not has_scan or operands[4] is not None or operands[7] is not None:
        return None
    if info.dims is None or weight.dims is None:
        return None
    return _Backward(layer, builder, len(call.args), operands, result, grad, info, weight).gradients()


def _activation(layer: Any) -> str | None:
    """Activation of the state; None if the layer's activations are not those of torch."""
    names = [function.name for function in layer.functions()]
    each = names[: len(names) // layer.directions]
    if names != each * layer.directions:
        return None
    expected = {1: (["tanh"], ["relu"]), 3: (["sigmoid", "tanh"],), 4: (["sigmoid", "tanh", "tanh"],)}
    return each[-1] if each in expected[layer.gates] else None


class _Backward:
    """The terms of the gradients of one call, in a dtype of at least 32 bits."""

    def __init__(
        self,
        layer: Any,
        builder: Any,
        count: int,
        operands: Sequence[RelaxExpr | None],
        result: Term,
        grad: Term,
        info: TensorStructInfo,
        recurrence: TensorStructInfo,
    ) -> None:
        assert info.dims is not None
        assert recurrence.dims is not None
        self.layer, self.builder, self.count, self.dtype = layer, builder, count, info.dtype
        self.wide = "float32" if info.dtype.bits < 32 else str(info.dtype)
        first, second, self.inputs = info.dims
        self.steps, self.batch = (second, first) if layer.layout else (first, second)
        self.directions, self.rows, self.hidden = recurrence.dims
        self.reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[layer.direction]
        own = [None if operand is None else self.widened(operand) for operand in operands]
        self.x, self.weight, self.recurrence, self.bias = self.moved(own[0]), own[1], own[2], own[3]
        self.initial = [None if state is None else self.moved(state) for state in own[5 : 5 + layer.states]]
        self.given = [state is not None for state in self.initial]
        fields = [self.widened(TupleGetItem(result, i)) for i in range(1 + layer.states)]
        grads = [self.widened(_field(grad, i)) for i in range(1 + layer.states)]
        self.states, self.by_states = (self.in_steps(term) for term in (fields[0], grads[0]))
        self.by_last = [self.moved(term) for term in grads[1:]]

    # -- layouts and dtypes

    def widened(self, term: Any) -> Term:
        return term if str(self.dtype) == self.wide else apply("astype", term, dtype=self.wide)

    def moved(self, term: Any) -> Term:
        """Exchange the first two dimensions of a tensor if the layer's layout has the batch first."""
        return apply("permute_dims", term, axes=[1, 0, 2]) if self.layer.layout else term

    def in_steps(self, term: Any) -> Term:
        return apply("permute_dims", term, axes=[1, 2, 0, 3]) if self.layer.layout else term

    def shaped(self, term: Any, *sizes: Any) -> Term:
        return apply("reshape", term, ShapeExpr(sizes))

    def kernel(self, function: Callable[..., Any], operands: Sequence[Any], name: str, count: int) -> list[Term]:
        """Results of a kernel of tensor expressions, of terms that are not bound to variables yet."""
        stand_ins = [Var(f"operand{i}", known_struct_info(term)) for i, term in enumerate(operands)]
        call = call_te(self.builder, function, tuple(stand_ins), {}, name, None)
        fields: Any = call.args[1]
        terms = dict(zip(stand_ins, operands, strict=True))
        whole = call.replace(args=(call.args[0], Tuple([terms[var] for var in fields.fields]), *call.args[2:]))
        return [TupleGetItem(whole, i) for i in range(count)] if count > 1 else [whole]

    # -- terms

    def product(self, term: Any, weight: Any) -> Term:
        """`term` times the transposed weights of each direction: (directions, steps · batch, rows)."""
        return apply("matmul", term, apply("permute_dims", weight, axes=[0, 2, 1]))

    def biases(self) -> tuple[Any, Any]:
        """Biases of inputs and states, (directions, 1, rows); None without."""
        if self.bias is None:
            return None, None
        halves = apply("split", apply("expand_dims", self.bias, axis=[1]), indices_or_sections=2, axis=2)
        return TupleGetItem(halves, 0), TupleGetItem(halves, 1)

    def gradients(self) -> Gradients:
        flat = self.steps * self.batch
        zeros = [apply("zeros", ShapeExpr((self.directions, self.batch, self.hidden)), dtype=self.wide)]
        initial = [state if state is not None else zeros[0] for state in self.initial]
        (previous,) = self.kernel(
            partial(scans.previous_states, reverse=self.reverse), [self.states, initial[0]], "previous_states", 1
        )
        x = self.shaped(self.x, 1, flat, self.inputs)
        before = self.shaped(previous, self.directions, flat, self.hidden)
        by_sums, by_products, before_late, by_initial = self._scan(x, before, previous, initial)
        by_weight = apply("matmul", apply("permute_dims", by_sums, axes=[0, 2, 1]), x)
        by_x = apply("sum", apply("matmul", by_sums, self.weight), axis=[0])
        by_x = self.moved(self.shaped(by_x, self.steps, self.batch, self.inputs))
        by_bias: Any = None
        if self.bias is not None:
            sums = [apply("sum", term, axis=[1]) for term in (by_sums, by_products)]
            by_bias = apply("concat", Tuple(sums), axis=1)
        by_recurrence = self._by_recurrence(by_products, before, before_late)
        by_state = [self.moved(term) if there else None for term, there in zip(by_initial, self.given, strict=True)]
        results = [by_x, by_weight, by_recurrence, by_bias, None, *by_state]
        results += [None] * self.count
        return [None if term is None else self._narrowed(term) for term in results[: self.count]]

    def _narrowed(self, term: Any) -> Term:
        return term if str(self.dtype) == self.wide else apply("astype", term, dtype=str(self.dtype))

    def _by_recurrence(self, by_products: Any, before: Any, before_late: Any) -> Term:
        """Gradient of the recurrence weights; those of the last gate may read other states."""
        if before_late is None:
            return apply("matmul", apply("permute_dims", by_products, axes=[0, 2, 1]), before)
        parts = apply("split", by_products, indices_or_sections=3, axis=2)
        products = [
            apply(
                "matmul",
                apply("permute_dims", TupleGetItem(parts, i), axes=[0, 2, 1]),
                before_late if i == 2 else before,
            )
            for i in range(3)
        ]
        return apply("concat", Tuple(products), axis=1)

    def _scan(self, x: Any, before: Any, previous: Any, initial: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
        """Gradients of the sums of inputs and of states, (directions, steps · batch, rows), the states that the last
        gate reads if they are others, and gradients of the initial states.
        """
        if self.layer.gates == 1:
            activation = _activation(self.layer)
            sums, *by_initial = self.kernel(
                partial(scans.rnn_backward, reverse=self.reverse, activation=activation or ""),
                [self.states, self.recurrence, self.by_states, *self.by_last],
                "rnn_backward",
                2,
            )
            flat = self._flat(sums, self.rows)
            return flat, flat, None, by_initial
        by_input, by_state = self.biases()
        left = self.product(x, self.weight)
        left = left if by_input is None else left + by_input
        right = self.product(before, self.recurrence)
        right = right if by_state is None else right + by_state
        if self.layer.gates == 4:
            return self._lstm(left + right, initial)
        return self._gru(left, right, before, previous)

    def _lstm(self, sums: Any, initial: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
        gates = self._gates(sums, 4)
        active = [apply("sigmoid", gate) for gate in gates[:3]] + [apply("tanh", gates[3])]
        whole, *by_initial = self.kernel(
            partial(scans.lstm_backward, reverse=self.reverse),
            [*active, initial[1], self.recurrence, self.by_states, *self.by_last],
            "lstm_backward",
            3,
        )
        flat = self._flat(whole, self.rows)
        return flat, flat, None, by_initial

    def _gru(self, left: Any, right: Any, before: Any, previous: Any) -> tuple[Any, Any, Any, list[Any]]:
        (z_in, r_in, h_in), (z, r, h) = self._gates(left, 3), self._gates(right, 3)
        update, reset = apply("sigmoid", z_in + z), apply("sigmoid", r_in + r)
        scanned = [previous, self.recurrence, self.by_states, *self.by_last]
        if self.layer.linear_before_reset:
            gates = [update, reset, apply("tanh", h_in + reset * h)]
            whole, late, by_initial = self.kernel(
                partial(scans.gru_backward, reverse=self.reverse), [*gates, *scanned, h], "gru_backward", 3
            )
            sums = self._flat(whole, self.rows)
            firsts = apply("split", sums, indices_or_sections=3, axis=2)
            parts = [TupleGetItem(firsts, 0), TupleGetItem(firsts, 1), self._flat(late, self.hidden)]
            return sums, apply("concat", Tuple(parts), axis=2), None, [by_initial]
        used = self.shaped(reset * previous, self.directions, self.steps * self.batch, self.hidden)
        last = apply("split", self.recurrence, indices_or_sections=3, axis=1)
        product = self.product(used, TupleGetItem(last, 2))
        _, bias = self.biases()
        if bias is not None:
            product = product + TupleGetItem(apply("split", bias, indices_or_sections=3, axis=2), 2)
        gates = [update, reset, apply("tanh", h_in + self._steps(product))]
        whole, _, by_initial = self.kernel(
            partial(scans.gru_backward, reverse=self.reverse), [*gates, *scanned], "gru_backward", 3
        )
        sums = self._flat(whole, self.rows)
        return sums, sums, used, [by_initial]

    def _flat(self, term: Any, rows: Any) -> Term:
        return self.shaped(term, self.directions, self.steps * self.batch, rows)

    def _steps(self, term: Any) -> Term:
        return self.shaped(term, self.directions, self.steps, self.batch, self.hidden)

    def _gates(self, sums: Any, count: int) -> list[Term]:
        parts = apply("split", sums, indices_or_sections=count, axis=2)
        return [self._steps(TupleGetItem(parts, i)) for i in range(count)]


def _field(grad: Term, index: int) -> Any:
    return grad.fields[index] if isinstance(grad, Tuple) else TupleGetItem(grad, index)


__all__ = ["recurrent_gradient"]
