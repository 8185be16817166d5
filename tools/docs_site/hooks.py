"""What MkDocs calls while it builds the site (`hooks` in mkdocs.yml)."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site import notebooks, operators, passes  # noqa: E402

TABLE = "reference/operators.md"
FENCE = re.compile(r"^(?P<indent> *)```python(?P<words>( [\w-]+)+)$", re.MULTILINE)
FILLED: dict[str, Callable[[], str]] = {"operators": operators.table, "passes": passes.sections}
"""What stands in the place of a comment ``<!-- operators: … -->`` of a page."""

_operator_pages = functools.cache(operators.pages)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of operators below the table of them in the navigation."""
    _list_with(TABLE, config.nav).extend(f"reference/{path}" for path in _operator_pages())
    return config


def _list_with(item: str, tree: Any) -> list[Any]:
    """The list within a navigation that holds an item, or an empty one."""
    if not isinstance(tree, list):
        return []
    if item in tree:
        return tree
    inner = (_list_with(item, value) for entry in tree if isinstance(entry, dict) for value in entry.values())
    return next((found for found in inner if found), [])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated: the pages of operators, and a page for each notebook."""
    texts = {f"reference/{path}": text for path, text in _operator_pages().items()}
    for path in sorted(Path(config.docs_dir).rglob("*.ipynb")):
        texts[path.relative_to(config.docs_dir).with_suffix(".md").as_posix()] = notebooks.page(path)
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is generated, lead links to a notebook to its page, drop the words after ```python."""
    for name, text in FILLED.items():
        if f"<!-- {name}:" in markdown:
            markdown = re.sub(rf"<!-- {name}:.*?-->", lambda _, text=text: text(), markdown)
    if page.file.generated_by is None:
        markdown = markdown.replace(".ipynb)", ".md)")
    return FENCE.sub(r"\g<indent>```python", markdown)
