"""Public names of TVM (0.14 to 0.19) and their counterparts in this package: the table of docs/coming-from-tvm.md.

A name that is not implemented, or has another name here, raises an error with a replacement:

    >>> relax.transform.FewShotTuning
    error[E4301]: tvm.relax.transform.FewShotTuning is not built yet
      = help: use `relax.tune.tune_relax`, which takes seconds, or `relax.schedules.ApplyDefaultSchedule`

The error is an AttributeError, so that `hasattr` returns False, or an ImportError if the name is imported. A package
enables this by ``answer_missing(__name__)`` at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES
from .answers import MissingImportError, MissingNameError, answer_missing, missing, missing_module, reason

if TYPE_CHECKING:
    from .names import NAMESPACES, row_of, rows
    from .table import Namespace, Row

__all__ = [
    "NAMESPACES", "MissingImportError", "MissingNameError", "Namespace", "Row", "answer_missing", "missing",
    "missing_module", "reason", "row_of", "rows",
]  # fmt: skip

load_when_used(__name__, HOMES)
