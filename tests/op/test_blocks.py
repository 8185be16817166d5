"""Operators on weights in block formats: what inference refuses, in the words that a user reads."""

from __future__ import annotations

import pytest

from relax.ir import DiagnosticError
from relax.script import from_source

SOURCE = """
from relax.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 64), "int8"), s: R.Tensor((2, 2), "float32"), w: R.Tensor((5, 36), "uint8"),
             p: R.Tensor((1, 144), "int32"), e: R.Tensor((3, 5, 36), "uint8"), f: R.Tensor((2, 64), "float32"), i: R.Tensor((3,), "int64")):
        y = {call}
        return y
"""

REFUSED = {
    'R.nn.quantized_matmul(x, s, w, format="q9")': "format must be one of q4_0, q4_1",
    'R.nn.quantized_matmul(f, s, w, format="q4_0")': "x must be a tensor of int8, found float32",
    'R.nn.quantized_matmul(x, s, f, format="q4_0")': "weights must be a tensor of uint8, found float32",
    'R.nn.quantized_matmul(x, s, w, format="q8_0")': "weights must be rows of whole blocks of 34 bytes, found rows of 36 bytes",
    'R.nn.quantized_matmul(x, s, w, format="int4_g64")': "scales of blocks of 64 numbers differ: 2 and 1",
    'R.nn.quantized_matmul(x, s, p, format="q4_0", lanes=16, columns=40)': "panels and those of the columns differ: 1 and 3",
    'R.nn.quantized_matmul(x, s, p, format="q4_1", lanes=16, columns=5)': "words and those of whole units differ",
    'R.nn.quantized_matmul(x, s, p, format="q4_0", lanes=3, columns=5)': "lanes must be 0, 4, 8, 16 or 32, found 3",
    'R.nn.quantized_expert_matmul(x, s, w, i, format="q4_0")': "weights must be matrices, of 3 dimensions, found 2 dimensions",
    'R.nn.quantized_expert_matmul(x, s, e, i, format="q4_0")': "the number of experts and of rows of x differ: 3 and 2",
    'R.nn.quantized_expert_matmul(x, s, e, f, format="q4_0")': "experts must be a tensor of signed integers or unsigned integers, found float32",
    'R.nn.quantized_expert_matmul(x, s, e, x, format="q4_0")': "experts must be a vector, found 2 dimensions",
    'R.nn.quantized_take(w, f, format="q4_0")': "indices must be a tensor of signed integers or unsigned integers, found float32",
    'R.nn.quantized_take(i, i, format="q4_0")': "weights must be a matrix, found 1 dimensions",
    'R.dequantize_blocks(w, format="q4_0", out_dtype="int8")': "out_dtype must be a floating-point dtype",
    "R.nn.dynamic_quantize(f, block_size=0)": "block_size must be a positive integer, found 0",
    "R.nn.dynamic_quantize(i)": "data must be a tensor of floating point, found int64",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused_is_underlined(call):
    with pytest.raises(DiagnosticError) as caught:
        from_source(SOURCE.format(call=call))
    text = caught.value.render()
    assert REFUSED[call] in text, text
    assert f"y = {call}" in text
    assert "^^^" in text
