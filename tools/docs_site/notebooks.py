"""Notebooks of the documentation: run, compared with the outputs they hold, and turned into pages.

`python -m docs_site.notebooks docs/learn/first-hour.ipynb` (in tools/, or with tools on the path) runs a notebook and
writes its outputs anew. Only text is understood: what a cell prints, and the value of its last line.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import sys
import types
from pathlib import Path
from typing import Any

HEAD = """!!! note
    This page is a notebook: [download it]({name}), and run it with `jupyter lab {name}`.
"""


def load(path: Path) -> dict[str, Any]:
    """The notebook as JSON."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def output(cell: dict[str, Any]) -> str:
    """The text that a code cell shows below itself."""
    parts = ["".join(o["text"] if o["output_type"] == "stream" else o["data"]["text/plain"]) for o in cell["outputs"]]
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts)


def run(notebook: dict[str, Any]) -> list[str]:
    """Run the code cells in order, in one namespace; the text each of them shows."""
    module = types.ModuleType("notebook")
    sys.modules[module.__name__] = module
    try:
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [_run(source(cell), number, module.__dict__) for number, cell in enumerate(cells, 1)]
    finally:
        del sys.modules[module.__name__]


def _run(text: str, number: int, namespace: dict[str, Any]) -> str:
    """One cell. Its text is put where tracebacks and `inspect` find it, as Jupyter does."""
    name = f"<cell {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    tree = ast.parse(text, name)
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        body = ast.Module(tree.body[:-1] if last else tree.body, type_ignores=[])
        exec(compile(body, name, "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace) if last else None
    if value is not None:
        shown.write(f"{value!r}\n")
    return shown.getvalue()


def update(path: Path) -> None:
    """Run a notebook and write what its cells show today."""
    notebook = load(path)
    shown = iter(run(notebook))
    for count, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
        text = next(shown).splitlines(keepends=True)
        cell["execution_count"] = count
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(path: Path) -> str:
    """A notebook as Markdown: its text, and code blocks with what they show."""
    parts: list[str] = []
    for cell in load(path)["cells"]:
        text = source(cell)
        if cell["cell_type"] == "markdown":
            parts.append(text)
        else:
            parts.append(f"```python\n{text}\n```")
            if cell["outputs"]:
                parts.append(f"```text\n{output(cell)}```")
    title, *rest = "\n\n".join(parts).split("\n\n")
    return "\n\n".join([title, HEAD.format(name=path.name).rstrip(), *rest]) + "\n"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        update(Path(argument))
