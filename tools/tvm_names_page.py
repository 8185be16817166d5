"""The section "Names" of docs/coming-from-tvm.md: `relax.ir.tvm_names` as tables.

python tools/tvm_names_page.py            write the section anew
python tools/tvm_names_page.py --check    exit status 1 if it is not as it would be written
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from generated_pages import with_part, write_or_check
from relax.ir.tvm_names import NAMESPACES, Namespace, Row

PAGE = Path(__file__).parents[1] / "docs" / "coming-from-tvm.md"
BEGIN = "<!-- names of TVM: written by tools/tvm_names_page.py -->\n"
END = "<!-- end of the names of TVM -->\n"


def section() -> str:
    """The text between the two marks of the page."""
    return "\n".join(_table(namespace) for namespace in NAMESPACES)


def _table(namespace: Namespace) -> str:
    title = f"`{namespace.tvm}`"
    same = f"relax.{namespace.tvm.removeprefix('tvm.').removeprefix('relax.')}"
    if namespace.here not in (same, "relax"):
        title += f", here `{namespace.here}`"
    lines = [f"### {title}", "", "| TVM | here | |", "|---|---|---|"]
    for (status, renamed, note), group in groupby(namespace.rows(), lambda row: (row.status, row.renamed, row.note)):
        if renamed:
            lines += [f"| `{row.name}` | `{row.here}` | {status}: another name |" for row in group]
            continue
        here = "" if status == "not yet" else "the same"
        lines.append(f"| {_names(list(group))} | {here} | {status}{f': {note}' if note else ''} |")
    return "\n".join(lines) + "\n"


def _names(rows: list[Row]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows)


def page() -> str:
    """The whole page with the section as it should be."""
    return with_part(PAGE, BEGIN, END, section())


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), __doc__))
