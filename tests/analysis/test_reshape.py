"""has_reshape_pattern: True where a kernel is proved to copy its elements in row-major order."""

from __future__ import annotations

import pytest

import relax
from relax.analysis import has_reshape_pattern
from support import main, prim_func


@pytest.mark.parametrize(
    "body, params, expected",
    [
        ("R.reshape(x, (3, 8))", 'x: R.Tensor((2, 12), "float32")', True),
        ("R.flatten(x)", 'x: R.Tensor((2, 3, 4), "float32")', True),
        ("R.reshape(x, R.shape([2 * n, 3]))", 'x: R.Tensor(("n", 6), "float32")', True),
        ("R.flatten(x)", 'x: R.Tensor(("n", "m"), "int8")', True),
        ("R.expand_dims(x, 1)", 'x: R.Tensor(("n", 4), "float32")', True),
        ("R.squeeze(x, [1])", 'x: R.Tensor(("n", 1, 4), "float32")', True),
        ("R.permute_dims(x)", 'x: R.Tensor((2, 12), "float32")', False),
        ("R.permute_dims(x)", 'x: R.Tensor(("n", "n"), "float32")', False),
        ("R.flip(x, 0)", 'x: R.Tensor((4,), "float32")', False),
        ("R.astype(x, 'float64')", 'x: R.Tensor((4,), "float32")', False),
        ("R.negative(x)", 'x: R.Tensor((4,), "float32")', False),
        ("R.broadcast_to(x, (2, 4))", 'x: R.Tensor((4,), "float32")', False),
        ("R.strided_slice(x, [0], [0], [2])", 'x: R.Tensor((4,), "float32")', False),
    ],
)
def test_kernels_of_operators(body, params, expected):
    sizes = "n = T.int64()\n" if "* n" in body else ""
    legal = relax.transform.LegalizeOps()(main(f"{sizes}return {body}", params))
    func = next(f for g, f in legal.functions.items() if g.name_hint != "main")
    assert has_reshape_pattern(func) is expected


COPY = """
@T.prim_func
def copy(a: T.Buffer((4, {source}), "float32"), b: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, {extent}):
        with T.block("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[{target}] = a[vi, vj]
"""


@pytest.mark.parametrize(
    "source, extent, target",
    [(4, 4, "vi * 4 + vj"), (4, 3, "vi * 4 + vj"), (5, 4, "vi * 4 + vj"), (4, 4, "vj * 4 + vi")],
)
def test_a_reshape_leaves_out_and_reorders_no_element(source, extent, target):
    func = prim_func(COPY.format(source=source, extent=extent, target=target))
    assert has_reshape_pattern(func) is (source == 4 and extent == 4 and target == "vi * 4 + vj")


def test_a_function_of_relax_is_no_kernel():
    with pytest.raises(TypeError, match="has_reshape_pattern takes a PrimFunc, found Function"):
        has_reshape_pattern(main("return x")["main"])
