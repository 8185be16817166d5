"""Mixtures of experts: feed-forward layers of which each token takes a few.

    self.mlp = Experts(hidden, inner, count=128, used=8, activation="silu")

A router's product gives each token its experts, and their weights. The rows of all tokens and experts are sorted by
expert, so that the weights of an expert are read once for all its rows; the results return to their tokens' order.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from .. import op as relax_op
from .. import te
from ..expr import const
from ..frontend import nn
from ..frontend.nn import Tensor, op
from ..topi.indexing import as_int64
from ..topi.packed_blocks import PackedBlocks
from .layers import ACTIVATIONS, GatedMLP, Linear, QuantizedActivations, expr_of

MOST_EXPERTS: Final = 4096
"""Most experts of a layer; a corrupt file must not make its reader look for billions of them."""


class ExpertMatrices(nn.Module):
    """Matrices of all experts in one form: numbers (experts, in, out), or rows of a block format packed for kernels."""

    def __init__(self, count: int, in_features: int, out_features: int, packed: PackedBlocks | None = None) -> None:
        super().__init__()
        self.count, self.in_features, self.out_features, self.packed = count, in_features, out_features, packed
        if packed is None:
            self.weight = nn.Parameter((count, in_features, out_features), "float32")
        else:
            self.weight = nn.Parameter((count, packed.panels(out_features), packed.words(in_features)), "int32")

    def forward(self, x: QuantizedActivations, experts: Tensor) -> Tensor:
        """Product (n, out) of activations (n, in), each row with the matrix of its expert (n,)."""
        if self.packed is None:
            return op.tensor_expr_op(expert_product, "expert_product", [x.x, self.weight, experts])
        numbers, scales = x.blocks(self.packed.format.elements)
        product = relax_op.nn.quantized_expert_matmul(
            expr_of(numbers), expr_of(scales), expr_of(self.weight), expr_of(experts),
            **self.packed.attributes(self.out_features),
        )  # fmt: skip
        return cast(Tensor, op.wrap_nested(product, "product"))


def expert_product(x: te.Tensor, weights: te.Tensor, experts: te.Tensor) -> te.Tensor:
    """Formula of the products (n, out) of rows (n, in) and the matrices (experts, in, out) of their experts (n,)."""
    k = te.reduce_axis((0, x.shape[1]), "k")

    def total(i: Any, j: Any) -> Any:
        return te.sum(x(i, k.var) * weights(as_int64(experts(i)), k.var, j), axis=k)

    return te.compute((x.shape[0], weights.shape[2]), total, "expert_product")


class ExpertLinear(nn.Module):
    """Product of rows with one matrix of their expert, or with several side by side: (n, in) to (n, Σ sizes).

    A checkpoint has the matrices `names` of each expert (``experts.3.up_proj.weight``), those of all experts in one
    tensor (``experts.up_proj.weight``, of 3 dimensions), or all of this layer (``experts.gate_up_proj``), beside this
    layer in each case.
    """

    def __init__(self, count: int, in_features: int, sizes: Sequence[int], names: Sequence[str]) -> None:
        super().__init__()
        self.count, self.in_features, self.sizes, self.names = count, in_features, tuple(sizes), tuple(names)
        self.matrices = nn.ModuleList([ExpertMatrices(count, in_features, sum(sizes))])

    def forward(self, x: QuantizedActivations, experts: Tensor) -> Tensor:
        """Product (n, Σ sizes) of activations (n, in) and the matrices of each row's expert (n,)."""
        parts = [cast(Tensor, cast(Any, matrix)(x, experts)) for matrix in self.matrices]
        return parts[0] if len(parts) == 1 else op.concat(parts, dim=-1)


class ExpertMLP(nn.Module):
    """down(activation(gate(x)) · up(x)) with the matrices of each row's expert; the names are those of checkpoints."""

    def __init__(self, count: int, hidden: int, inner: int, activation: str, names: Sequence[str]) -> None:
        super().__init__()
        gate, up, down = names
        self.activation = ACTIVATIONS[activation]
        self.gate_up_proj = ExpertLinear(count, hidden, (inner, inner), (gate, up))
        self.down_proj = ExpertLinear(count, inner, (hidden,), (down,))

    def forward(self, x: QuantizedActivations, experts: Tensor) -> Tensor:
        """Result (n, hidden) of rows (n, hidden) and their experts (n,)."""
        gate, up = op.split(self.gate_up_proj(x, experts), 2, axis=-1)
        return self.down_proj(QuantizedActivations(self.activation(gate) * up), experts)


class Experts(nn.Module):
    """Mixture of experts, Σ weight · expert(x) over the `used` likeliest of `count` experts.

    Activations (n, hidden) become (n, hidden). Weights are the softmax of the router's product over all experts; if
    `normalised`, those of the experts that are taken are divided by their sum. `shared` is the inner size of an expert
    that every token takes, times a gate of its own; 0 for none. `names` are those of an expert's matrices: gate, up
    and down.

    Raises ValueError unless 0 < used ≤ count ≤ 4096.

    Source: Shazeer et al., Outrageously Large Neural Networks, 2017; Jiang et al., Mixtral of Experts, 2024.
    """

    def __init__(
        self, hidden: int, inner: int, count: int, used: int, activation: str, *, normalised: bool = True,
        shared: int = 0, names: Sequence[str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:  # fmt: skip
        super().__init__()
        if not 0 < used <= count <= MOST_EXPERTS:
            raise ValueError(f"{used} of {count} experts cannot be taken; there are up to {MOST_EXPERTS}")
        self.hidden, self.used, self.normalised = hidden, used, normalised
        self.gate = Linear(hidden, count, exact=True)
        self.experts = ExpertMLP(count, hidden, inner, activation, names)
        self.shared_expert = GatedMLP(hidden, shared, activation) if shared else None
        self.shared_expert_gate = Linear(hidden, 1, exact=True) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        """Result (n, hidden)."""
        count, rounded = x.shape[0], QuantizedActivations(x)
        weights, chosen = self.chosen(x)
        experts = op.reshape(chosen, (count * self.used,))
        order = op.argsort(experts)
        tokens = relax_op.floor_divide(expr_of(order), const(self.used, "int32"))
        rows = rounded.rows(cast(Tensor, op.wrap_nested(tokens, "tokens")))
        found = self.experts(rows, op.take(experts, order, axis=0))
        found = op.reshape(op.take(found, op.argsort(order), axis=0), (count, self.used, self.hidden))
        result = op.sum(found * op.unsqueeze(weights, dim=-1), axis=1)
        if self.shared_expert is None or self.shared_expert_gate is None:
            return result
        return result + op.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(rounded)

    def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights (n, used), float32, and experts (n, used), int32, of tokens (n, hidden)."""
        weights, experts = op.topk(op.softmax(self.gate(x), axis=-1), k=self.used, axis=-1)
        if self.normalised:
            weights = weights / op.sum(weights, axis=-1, keepdims=True)
        return weights, experts


__all__ = ["MOST_EXPERTS", "ExpertLinear", "ExpertMLP", "ExpertMatrices", "Experts", "expert_product"]
