"""Types of layer parameters (weights), derived from the data type and the attributes.

    nn.dense(%x, %w, units=10)     with %x: Tensor[(n, 4), float32]: %w is a Tensor[(10, 4), float32]

Type inference applies a rule when the data type is known and a parameter type is not. A rule returns the shapes of the
operands after the first, all with its dtype, or None if the attributes do not determine them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...ir import Op
from ..attrs import Attrs

PARAMETERS: Final = "relay.parameters"
"""Op attribute key of the parameter rule."""

Shape = Sequence[Any]
Shapes = Sequence[Shape] | None
Rule = Callable[[Any, Shape], Shapes]


def parameter_shapes(op: Op, attrs: Attrs | None, data: Shape) -> Shapes:
    """Shapes of the operands after the first one (of shape `data`), or None if not derivable."""
    rule: Rule | None = op.get_attr(PARAMETERS)
    if rule is None:
        return None
    try:
        return rule(attrs, data)
    except (IndexError, KeyError, ValueError):
        return None  # the operator reports errors in its data


def _channels(count: int) -> Rule:
    """Rule for `count` parameters with one element per channel."""
    return lambda a, x: [(x[a.axis],)] * count


def _dense(a: Any, x: Shape) -> Shapes:
    return None if a.units is None else [(a.units, x[-1])]


def _convolution(transposed: bool) -> Rule:
    def rule(a: Any, x: Shape) -> Shapes:
        if a.channels is None or a.kernel_size is None or not (a.data_layout + a.kernel_layout).isupper():
            return None
        inputs, outputs = x[a.data_layout.index("C")], a.channels
        if transposed:
            outputs //= a.groups
        elif a.groups > 1:
            inputs = inputs // a.groups
        letters = [letter for letter in a.kernel_layout if letter not in "OI"]
        sizes = {"I": inputs, "O": outputs, **dict(zip(letters, a.kernel_size, strict=True))}
        return [[sizes[letter] for letter in a.kernel_layout]]

    return rule


_RULES: Final[dict[str, Rule]] = {
    "nn.dense": _dense,
    "nn.bias_add": _channels(1),
    "nn.prelu": _channels(1),
    "nn.batch_norm": _channels(4),
    "nn.layer_norm": _channels(2),
    "nn.instance_norm": _channels(2),
    "nn.group_norm": _channels(2),
    **{f"nn.conv{n}d": _convolution(False) for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _convolution(True) for n in (1, 2, 3)},
}


def register_rules() -> None:
    """Register the rules on their operators."""
    for name, rule in _RULES.items():
        Op.get(name).set_attr(PARAMETERS, rule)
