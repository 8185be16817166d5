"""What MkDocs calls while it builds the site (`hooks` in mkdocs.yml)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site import notebooks, operators, passes

FENCE = re.compile(r"^(?P<indent> *)```python(?P<words>( [\w-]+)+)$", re.MULTILINE)
FILLED: dict[str, Callable[[], str]] = {"operators": operators.table, "passes": passes.sections}
"""What stands in the place of a comment ``<!-- operators: … -->`` of a page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated: the pages of operators, and a page for each notebook."""
    texts = {f"reference/{path}": text for path, text in operators.pages().items()}
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
