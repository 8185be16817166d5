"""`node.show()` loads what prints the node."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code, shown",
    [
        ("from relax.ir import IRModule\nIRModule({}).show()", "class Module:"),
        (
            "from relax.struct_info import TensorStructInfo\nTensorStructInfo((4,), 'int8').show()",
            'R.Tensor((4,), dtype="int8")',
        ),
        ("from relax.tir.stmt import Evaluate\nEvaluate(1).show()", "1"),
    ],
)
def test_show_works_whatever_was_imported(code, shown):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown in done.stdout, done.stderr
    assert done.returncode == 0
