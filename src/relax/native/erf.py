"""Piecewise polynomial erf of float32, for targets that look up 16 elements in one instruction.

    a = min(|x|, 3.94)        i + d = 3.9375 a        erf x = ± a · P_i(d)

erf(a) / a is smooth and between 0.25 and 1.13. In each of 16 segments, a polynomial of degree 5 in the distance d from
the segment's centre is accurate to less than a unit in the last place, without an exponential or a division. The
coefficients were fitted for this file as those of `math` were. Errors stay within 3 units in the last place.
"""

from __future__ import annotations

from typing import Final

from .formula import Val
from .piecewise import LANES, looked_up

_SCALE: Final = 3.9375
_LARGEST: Final = 3.9365
"""Smallest magnitude whose result is 1."""
_ROUNDED: Final = 12582912.0
"""3 · 2^22: adding it rounds to an integer, which is in the lowest bits."""
_PIECES: Final = (
    (1.1283792, 1.1045814, 1.0384104, 0.94334793, 0.83591723, 0.7303889, 0.63579965, 0.5557884, 0.49018833,
     0.4369631, 0.3936206, 0.35792667, 0.32811964, 0.30288368, 0.28124985, 0.2625),
    (-5.8163514e-06, -0.04668502, -0.083314836, -0.10396179, -0.10847052, -0.10108046, -0.08752181,
     -0.072562814, -0.059000533, -0.047876548, -0.039183717, -0.032496944, -0.027334603, -0.023297144,
     -0.020089015, -0.017499961),
    (-0.02416762, -0.021548422, -0.014570552, -0.0060753124, 0.0011865426, 0.005703956, 0.0074486444,
     0.0072803046, 0.0062024826, 0.004927881, 0.0038036283, 0.0029245722, 0.0022713786, 0.0017912103,
     0.001435006, 0.00116641),
    (-0.0005163111, 0.0017384585, 0.0027501448, 0.0027536284, 0.0020025962, 0.0010117148, 0.00020363754,
     -0.0002580671, -0.00042071348, -0.00041042318, -0.0003347184, -0.0002527433, -0.00018599046,
     -0.00013706325, -0.000102353595, -7.774745e-05),
    (0.0016485424, 0.00036328414, 0.000119316035, -0.00011176153, -0.00023911639, -0.00023468502,
     -0.00015923726, -7.525223e-05, -1.5094707e-05, 1.3862845e-05, 2.0007506e-05, 1.8968818e-05, 1.346482e-05,
     8.433063e-06, 6.0240486e-06, 6.043524e-06),
    (-0.0009470311, -3.8113776e-05, -5.2082985e-05, -3.8544324e-05, -1.14058985e-05, 1.00043735e-05,
     1.8024275e-05, 1.5485795e-05, 8.672565e-06, 3.059609e-06, 2.3985956e-07, -7.9175913e-07, -8.423013e-07,
     -5.8619895e-07, -4.4035554e-07, -3.7432397e-07),
)  # fmt: skip
"""Coefficients by power of d; each row holds the 16 segments."""


def erf_by_pieces(x: Val) -> Val:
    """a · P_i(d), with the sign of x; NaN propagates."""
    a = x.abs()
    a = a.gt(_LARGEST).choose(_LARGEST, a)
    rounded = a.fma(_SCALE, _ROUNDED)
    piece = rounded.bitcast("i32") & (LANES - 1)
    d = a.fma(_SCALE, -(rounded - _ROUNDED))
    *others, result = (looked_up(f"relax.erf.{power}", values, piece) for power, values in enumerate(_PIECES))
    for coefficient in reversed(others):
        result = result.fma(d, coefficient)
    return (result * a).copysign(x)
