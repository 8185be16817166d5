"""Piecewise polynomials of float32 functions, for targets that look up 16 elements in one instruction.

    b = s · a + 2        segment: exponent and two digits of b        d = s · a - (b cut to these - 2)
    f(a) ≈ P_segment(d)

There are four segments for each power of 2, so their width grows with the distance from 0, as does the scale on which
these functions vary. Each has a polynomial of degree 5 in the distance d from its start, without an exponential or a
division. The first segment of an odd function has no constant term, so that it is accurate to the last digit near 0.
The coefficients were fitted for this file as those of `math` were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .builder import float_text, vector
from .formula import Val, look_up

LANES: Final = 16
"""Number of segments of a function, and of lanes for which one instruction looks up coefficients."""

_DIGITS: Final = 21
"""Number of mantissa bits of a float32 after the first two."""
_LARGEST: Final = 8.98
"""Magnitude from which the result is 1."""
_TANH_SCALE: Final = 3.3222591876983643
_TANH: Final = (
    (0.0, 0.14937392, 0.29222748, 0.42313123, 0.53847116, 0.7177555, 0.83487064, 0.9060477, 0.9474239,
     0.9839319, 0.9951524, 0.9985433, 0.9995628, 0.99996066, 0.9999965, 0.9999997),
    (0.301, 0.29428306, 0.27529564, 0.24710822, 0.21372591, 0.1459324, 0.09119969, 0.053902514,
     0.030817883, 0.009594932, 0.0029116338, 0.0008757027, 0.0002627602, 2.3469074e-05, 1.8189191e-06,
     -6.452275e-08),
    (-1.5900241e-07, -0.013216156, -0.02421648, -0.031460118, -0.034649972, -0.031526156, -0.022915006,
     -0.014702091, -0.008784513, -0.0028392633, -0.00087338244, -0.00026085688, -7.799317e-05,
     -6.6418197e-06, -1.2526353e-08, 4.5425625e-07),
    (-0.0090894, -0.008387276, -0.0061806315, -0.0035276227, -0.000816491, 0.0024085639, 0.0030024578,
     0.0023884338, 0.0015689401, 0.0005459604, 0.00017415441, 4.883144e-05, 1.4538275e-05, 1.038533e-06,
     -3.158024e-07, -3.468671e-07),
    (8.110367e-08, 0.0010142277, 0.0012860205, 0.0015738346, 0.0011665445, 0.00040814237, -7.473756e-05,
     -0.00021879401, -0.00018010262, -7.151536e-05, -2.4897648e-05, -5.2950754e-06, -1.6706169e-06,
     -7.227541e-08, 1.1036461e-07, 1.00864995e-07),
    (0.0003239523, 3.4351848e-05, 7.187288e-05, -0.00020934151, -0.00014164245, -0.000107853535,
     -3.5352798e-05, 6.080751e-06, 1.06374055e-05, 5.1345496e-06, 2.0718448e-06, 1.7269589e-07,
     8.976217e-08, 2.0523815e-10, -1.1664147e-08, -1.0139638e-08),
)  # fmt: skip
"""Coefficients by power of d; each row holds the 16 segments."""
_ERFCX_SCALE: Final = 2.955665111541748
_ERFCX: Final = (
    (1.0, 0.8344629, 0.7089975, 0.6118653, 0.5352176, 0.42351988, 0.347332, 0.2928068, 0.25222898,
     0.19643998, 0.16026422, 0.13508298, 0.11661691, 0.09144042, 0.075131655, 0.06373011),
    (-0.3817681, -0.28624874, -0.21945047, -0.17164636, -0.13670406, -0.09088792, -0.063697025,
     -0.04659427, -0.035297386, -0.021985995, -0.0148611395, -0.010659514, -0.007994055, -0.0049514044,
     -0.0033560728, -0.0024204517),
    (0.11446481, 0.07915106, 0.056026258, 0.04053081, 0.029965736, 0.017268162, 0.010592482, 0.0068515334,
     0.0046250913, 0.0023509166, 0.0013336532, 0.00082137855, 0.0005372615, 0.00026472032, 0.0001486958,
     9.134757e-05),
    (-0.029091688, -0.018891448, -0.012399565, -0.008251395, -0.0058356808, -0.0029765428, -0.0016226701,
     -0.00094686245, -0.0005658316, -0.00023903967, -0.000115657254, -6.245335e-05, -3.497845e-05,
     -1.3840138e-05, -6.541609e-06, -3.4096422e-06),
    (0.0063814926, 0.004098681, 0.0023087487, 0.0011199646, 0.0009903101, 0.00045832028, 0.0002240518,
     0.00012558758, 5.9933605e-05, 2.1561818e-05, 9.270122e-06, 4.829827e-06, 2.0213806e-06, 6.553313e-07,
     2.7874512e-07, 1.1960171e-07),
    (-0.0010131638, -0.00075277104, -0.00025136583, 0.00013471505, -0.000114030074, -4.9905964e-05,
     -2.2043185e-05, -1.3800715e-05, -3.9639035e-06, -1.2531311e-06, -5.204647e-07, -3.1865164e-07,
     -7.355086e-08, -2.0181206e-08, -8.868156e-09, -2.9512284e-09),
)  # fmt: skip
"""Coefficients of e^(a²) · erfc(a), in the form of `_TANH`."""


def looked_up(name: str, values: Sequence[float], piece: Val) -> Val:
    """Coefficients of the given segments, from the 16 in `values`.

    `piece` has indices from 0 to 15; in vectors of 16 lanes, only the low four bits count.
    """
    module = piece.b.module
    texts = [float_text(value, "float") for value in values]
    if piece.lanes != LANES:
        return look_up(module.table(name, "float", texts), "float", piece)
    of_lanes = vector("float", LANES)
    assert module.math is not None
    function = module.intrinsic(module.math.permute, of_lanes, of_lanes, piece.full_type)
    table = ", ".join(f"float {text}" for text in texts)
    arguments = f"{of_lanes} <{table}>, {piece.full_type} {piece.ref}"
    return Val(piece.b, "float", LANES, piece.b.call(of_lanes, function, arguments, pure=True))


def one_of_two_vectors(values: Sequence[float], index: Val) -> Val:
    """Elements of 32 `values` at 16 indices, of which only the low five bits count."""
    of_lanes = vector("float", LANES)
    module = index.b.module
    assert module.math is not None
    function = module.intrinsic(module.math.permute_two, of_lanes, of_lanes, index.full_type, of_lanes)
    first, second = (
        ", ".join(f"float {float_text(value, 'float')}" for value in part) for part in (values[:LANES], values[LANES:])
    )
    arguments = f"{of_lanes} <{first}>, {index.full_type} {index.ref}, {of_lanes} <{second}>"
    return Val(index.b, "float", LANES, index.b.call(of_lanes, function, arguments, pure=True))


def _by_pieces(name: str, table: Sequence[Sequence[float]], scale: float, a: Val) -> Val:
    """Polynomial of the segment of a, for 0 ≤ a < 30 / scale."""
    bits = a.fma(scale, 2.0).bitcast("i32")
    piece = bits.lshr(_DIGITS) & (LANES - 1)
    start = (bits & -(1 << _DIGITS)).bitcast("float") - 2.0
    d = a.fma(scale, -start)
    *others, result = (looked_up(f"relax.{name}.{i}", row, piece) for i, row in enumerate(table))
    for coefficient in reversed(others):
        result = result.fma(d, coefficient)
    return result


def tanh_by_pieces(x: Val) -> Val:
    """tanh of x, within 3 units in the last place, and never beyond ±1; NaN propagates."""
    a = x.abs()
    a = a.gt(_LARGEST).choose(_LARGEST, a)
    return _by_pieces("tanh", _TANH, _TANH_SCALE, a).copysign(x)


def erfcx_by_pieces(a: Val) -> Val:
    """e^(a²) · erfc(a) for 0 ≤ a ≤ 10.1, within 2 units in the last place."""
    return _by_pieces("erfcx", _ERFCX, _ERFCX_SCALE, a)
