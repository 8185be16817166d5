"""Cases of ewise_fma, log_add_exp, wrap_param and bucketize, of sampling, of backward functions and of one worker."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, NUMBERS, Case, Random, Sizes, special

rng = Random(13)


def floats(*shape: int) -> np.ndarray:
    return rng.array(shape, "float32")


CASES = [Case("relax.ewise_fma", [special(d), special(d)[::-1].copy(), special(d)]) for d in NUMBERS]
CASES += [
    Case("relax.ewise_fma", [floats(2, 3), floats(1, 3), floats(2, 1)]),
    Case("relax.ewise_fma", [floats(0, 2), floats(1, 2), floats(1, 1)]),
    Case("relax.ewise_fma", [floats(), floats(), floats()]),
    Case("relax.ewise_fma", [floats(2, 3), floats(), floats(1, 1)]),
]

VALUES = [*special("float32"), 88, -88, 1e-30]
CASES += [
    Case("relax.log_add_exp", [np.repeat(np.array(VALUES, d), 18), np.tile(np.array(VALUES, d), 18)])
    for d in ("float32", "float64")
]
CASES += [Case("relax.log_add_exp", [rng.array((2, 3), d), rng.array((3,), d)]) for d in FLOATS]
CASES += [Case("relax.wrap_param", [special("float32")], {"dtype": d}) for d in ("float16", "int8")]
CASES += [Case("relax.wrap_param", [special("int32")]), Case("relax.wrap_param", [rng.array((4,), "float64")])]

# ---------------------------------------------------------------------------------------------- bucketize
BOUNDS = [-3, -1, 0, 0, 0, 2, 7]
for right in (False, True):
    CASES += [
        Case("relax.bucketize", [np.arange(9).astype(d), np.array([0, 2, 2, 3, 7], d)], {"right": right})
        for d in NUMBERS
    ]
    CASES += [
        Case("relax.bucketize", [np.append(special("float32"), np.float32(7)), np.array(BOUNDS, "float32")], {"right": right}),
        Case("relax.bucketize", [special("float32"), np.array([0, np.inf, np.nan, np.nan], "float32")], {"right": right}),
        Case("relax.bucketize", [rng.array((2, 3), "int32"), np.array(BOUNDS, "int32")], {"out_int32": True, "right": right}),
        Case("relax.bucketize", [rng.array((), "int32"), np.array([], "int32")], {"right": right}),
        Case("relax.bucketize", [rng.array((2, 0), "int32"), np.array([1], "int32")], {"right": right}),
    ]  # fmt: skip

# ----------------------------------------------------------------------------------------------- sampling
PROB = np.array([[0.2, 0.3, 0.5], [0, 1, 0]], "float32")


def column(*values: float, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)[:, None]


DRAWN = [PROB, column(0, 0.2, 0.7, 0.9999, 0.5), column(0, 0, 0, 0, 1, dtype="int64")]
CASES += [
    Case("relax.multinomial_from_uniform", DRAWN),
    Case("relax.multinomial_from_uniform", [PROB, column(0.6, 1.0)], {"dtype": "int32"}),
    Case("relax.multinomial_from_uniform", [PROB.astype("float16"), column(0.1, 0)]),
    Case("relax.multinomial_from_uniform", [PROB[:1], column(0.6), column(2, dtype="int32")],
         raises=(IndexError, "out")),
]  # fmt: skip
for name in ("relax.random.uniform", "relax.random.normal"):
    CASES += [Case(name, [Sizes((2, 3)), 7], {"dtype": dtype}) for dtype in FLOATS]
    CASES += [Case(name, [Sizes(shape), -(2**62)]) for shape in ((), (0, 2), (4,))]

# ------------------------------------------------------------------------------------- backward functions
for name in ("no_grad", "start_checkpoint", "end_checkpoint"):
    CASES += [Case(f"relax.grad.{name}", [floats(*shape)]) for shape in ((2, 3), (), (0,))]


def taken(shape: tuple[int, ...], x: tuple[int, ...], indices: list, **attrs: int) -> Case:
    operands = [rng.array(shape, "float32"), rng.array(x, "float32"), np.array(indices, "int32")]
    return Case("relax.grad.take_backward", operands, attrs)


CASES += [
    taken((4,), (3,), [0, 2, 2, -1], axis=0),
    taken((2, 2, 3), (4, 3), [[0, 1], [1, 3]], axis=0),
    taken((2, 2, 1), (2, 3, 1), [2, 0], axis=-2),
    taken((3,), (2, 2), [0, 3, 3]),
    taken((0,), (2,), [], axis=0),
    taken((2, 0), (0, 0), [0, 1], axis=0),
    Case("relax.grad.take_backward", [floats(2), floats(2, 3), np.array(1)], {"axis": 1}),
    Case("relax.grad.take_backward", [floats(1), floats(3), np.array([3])], {"axis": 0}, raises=(IndexError, "out")),
]

POOLS = [
    ((1, 2, 2, 2), {"pool_size": (2, 2), "strides": (2, 2)}),
    ((2, 1, 3, 2), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}),
    ((1, 1, 3, 2), {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True}),
    ((1, 1, 3, 3), {"pool_size": (2, 3), "dilation": (2, 1), "padding": (0, 1, 0, 0)}),
]
for shape, attrs in POOLS:
    data = rng.array((shape[0], shape[1], 5, 4), "float32")
    CASES += [
        Case("relax.grad.max_pool2d_backward", [rng.array(shape, "float32"), data], attrs),
        Case("relax.grad.avg_pool2d_backward", [rng.array(shape, "float32"), data], attrs),
        Case(
            "relax.grad.avg_pool2d_backward", [rng.array(shape, "float32"), data], {**attrs, "count_include_pad": True}
        ),
    ]
for name in ("max", "avg"):
    attrs = {"pool_size": (2, 2), "strides": (2, 2), "layout": "NHWC", "out_layout": "NCHW"}
    CASES += [
        Case(f"relax.grad.{name}_pool2d_backward", [rng.array((1, 2, 2, 2), d), rng.array((1, 5, 4, 2), d)], attrs)
        for d in ("float16", "float64")
    ]

LABELS = np.array([0, 2, -100, 1], "int64")
for attrs in ({}, {"reduction": "sum"}):
    CASES += [Case("relax.grad.nll_loss_backward", [floats(), floats(4, 3), LABELS, floats(3)], attrs)]
CASES += [
    Case("relax.grad.nll_loss_backward", [floats(), floats(4, 3), LABELS]),
    Case(
        "relax.grad.nll_loss_backward", [floats(), floats(4, 3), np.array([0, 2, 2, 1]), floats(3)], {"ignore_index": 2}
    ),
    Case("relax.grad.nll_loss_backward", [floats(4), floats(4, 3), LABELS, floats(3)], {"reduction": "none"}),
    Case("relax.grad.nll_loss_backward", [floats(), floats(2, 3, 2), LABELS.reshape(2, 2), floats(3)]),
    Case("relax.grad.nll_loss_backward", [floats(), floats(3), np.array(1)]),
    Case("relax.grad.nll_loss_backward", [floats(), floats(2, 3), np.array([1, 9])]),
    Case("relax.grad.nll_loss_backward", [floats(), floats(3), np.array(1), floats(3)]),
]

# ------------------------------------------------------------------------------------ facts about tensors
FACTS = ("dtype_code", "dtype_bits", "dtype_lanes", "ndim", "byte_offset", "elem_offset")
CASES += [Case(f"relax.inspect.tensor_{name}", [rng.array((2, 3), d)]) for name in FACTS for d in ("bfloat16", "bool")]
CASES += [
    Case(f"relax.inspect.tensor_{name}_i", [floats(2, 3, 4), axis]) for name in ("shape", "stride") for axis in range(3)
]

# --------------------------------------------------------------------------------------------- one worker
CASES += [
    Case("relax.ccl.allreduce", [floats(2, 3)], {"op_type": "avg"}),
    Case("relax.ccl.allgather", [floats(2, 3)], {"num_workers": 1}),
    Case("relax.ccl.broadcast_from_worker0", [floats(0, 3)]),
    Case("relax.ccl.scatter_collective", [floats(2, 3)], {"num_workers": 1, "axis": 1}),
    Case("relax.dist.redistribute_replica_to_shard", [floats(2, 3)], {"num_workers": 1, "axis": 0}),
]
