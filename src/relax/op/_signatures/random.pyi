"""The operators of `relax.op.random`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import DTypeLike, ScalarLike, ShapeLike

def normal(shape: ShapeLike, seed: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """Random numbers of the standard normal distribution, mean 0 and variance 1; the same for the same seed."""

def seed() -> Call:
    """A seed that nobody can foretell, an int64: another one at each call, which is an effect."""

def uniform(shape: ShapeLike, seed: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """Random numbers ≥ 0 and < 1, evenly distributed; the same for the same seed.

    Each is a multiple of 2⁻²⁴ (of float64 2⁻⁵³, float16 2⁻¹¹, bfloat16 2⁻⁸).
    """
