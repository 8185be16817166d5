"""The operators of `relax.op.random`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import DTypeLike, ScalarLike, ShapeLike

def normal(shape: ShapeLike, seed: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """Random numbers of the standard normal distribution (mean 0, variance 1), determined by the seed."""

def seed() -> Call:
    """An unpredictable int64 seed, different at each call, which is an effect."""

def uniform(shape: ShapeLike, seed: ScalarLike, dtype: DTypeLike = 'float32') -> Call:
    """Uniform random numbers in [0, 1), determined by the seed.

    Each is a multiple of 2⁻²⁴ (of float64 2⁻⁵³, float16 2⁻¹¹, bfloat16 2⁻⁸).
    """
