"""`node.show()` loads what prints the node."""

from __future__ import annotations

import subprocess
import sys

CODE = """
from relax.struct_info import TensorStructInfo
TensorStructInfo((4,), "int8").show()
from relax.ir import IRModule
IRModule({}).show()
"""


def test_show_works_whatever_was_imported():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'R.Tensor((4,), dtype="int8")' in done.stdout
    assert "class Module:" in done.stdout
