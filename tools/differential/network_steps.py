"""Steps that compute what is not exact, or what networks are made of: functions of the reals, windows, attention."""

from __future__ import annotations

from functools import cache

import relax.op  # noqa: F401 (registers the operators)
from relax.ir import Op

from .kinds import FLOATS, Tensor
from .writer import Core, step


@cache
def real_functions() -> tuple[str, ...]:
    """The registered functions of the reals: their results are rounded, and compared up to a tolerance."""
    names = []
    for name in Op.list_op_names():
        cls = Op.get(name).get_attr("operator_class")
        if cls is not None and getattr(cls, "takes", None) == ("float",) and len(cls.operands) == 1:
            if not cls.attribute_names:
                names.append(name.removeprefix("relax."))
    return (*names, "nn.softmax", "nn.log_softmax", "nn.gelu", "nn.gelu_tanh", "nn.silu")


class NetworkSteps(Core):
    """Operators of networks."""

    @step(weight=2)
    def real_function(self) -> bool | None:
        v = self.tensor(*FLOATS, exact=True)
        if v is None:
            return False
        name = self.choices.pick(real_functions())
        argument, attribute = f"R.clip({v.name}, -3, 3)", ""
        if name == "rsqrt":  # of zeros of different signs, different infinities
            argument = f"R.abs({argument})"
        if "softmax" in name:
            if not v.kind.dims:
                return False
            attribute = f", axis={self.choices.integer(-1, len(v.kind.dims) - 1)}"
        self.bind(f"R.{name}({argument}{attribute})", v.kind, 30, False, True)

    # ------------------------------------------------------------------------------ networks

    @step(weight=1)
    def network(self) -> bool | None:
        v = self.tensor("float32", ndim=(2,), exact=True)
        if v is None:
            return False
        a, b = v.kind.dims
        image = f"R.reshape(R.clip({v.name}, -2, 2), (1, 1, {a}, {b}))"
        options = [
            (f"R.nn.layer_norm({v.name}, R.ones(({b},), \"float32\"), R.zeros(({b},), \"float32\"), axes=[-1])",
             (a, b), False),
            (f'R.nn.conv2d({image}, R.ones((1, 1, 2, 2), "float32"), padding=1)',
             ("1", "1", f"({a} + 1)", f"({b} + 1)"), True),
            (f"R.nn.max_pool2d({image}, pool_size=(2, 2), strides=(1, 1), padding=(1, 1, 0, 0))",
             ("1", "1", a, b), True),
            (f"R.nn.avg_pool2d({image}, pool_size=(2, 2), strides=(1, 1), padding=(1, 1, 0, 0))",
             ("1", "1", a, b), False),
            (f"R.nn.dropout({v.name}, rate=0.5)[0]", (a, b), True),
        ]  # fmt: skip
        heads = f"R.reshape(R.clip({v.name}, -2, 2), (1, {a}, 1, {b}))"
        options.append((f"R.nn.attention({heads}, {heads}, {heads}, scale=0.5)", ("1", a, "1", b), False))
        row = f'R.ones(({b},), "float32")'
        normal = f"R.nn.batch_norm({v.name}, {row}, {row}, {row}, {row}, axis=1, training=False)[0]"
        options.append((normal, (a, b), False))
        text, result, exact = self.choices.pick(options)
        if not self.fits(result):
            return False
        self.bind(text, Tensor(result, "float32"), 20, exact, True)
