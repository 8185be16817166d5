"""Cases of einsum and outer."""

from __future__ import annotations

import numpy as np
from op_harness import NUMBERS, Case, Random

rng = Random(11)


def x(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.array(shape, dtype)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 3)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,ac", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,...jk", (1, 2, 3), (6, 3, 4)),
    ("i...->...", (3, 2, 4)),
    ("...i->...", (3, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("i,i", (4,), (4,)),
    ("i,j->ij", (4,), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("i,ij,j->", (2,), (2, 3), (3,)),
    ("ij,j->ij", (2, 1), (3,)),
    ("ij,ij,j->i", (2, 1), (2, 1), (3,)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    (",i->i", (), (3,)),
    ("->", ()),
    (" i j , j -> i ", (2, 3), (3,)),
]
CASES = [Case("relax.einsum", [[x(*shape) for shape in shapes]], {"subscripts": text}) for text, *shapes in EINSUMS]
CASES += [
    Case("relax.einsum", [[x(2, 3, dtype=dtype), x(3, 4, dtype=dtype)]], {"subscripts": "ij,jk->ki"})
    for dtype in (*NUMBERS, "int4", "uint2")
]
CASES += [Case("relax.outer", [x(3, dtype=dtype), x(4, dtype=dtype)]) for dtype in NUMBERS]
CASES += [Case("relax.outer", [x(a), x(b)]) for a, b in ((0, 3), (1, 1))]
