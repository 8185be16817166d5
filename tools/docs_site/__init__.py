"""The documentation site: what MkDocs is given beside the pages in docs/.

    hooks.py        what MkDocs calls while it builds (`hooks` in mkdocs.yml)
    operators.py    the pages of the operators, generated from their classes and their sample calls
    notebooks.py    notebooks, executed and as pages

`make docs` builds the site; docs/write-the-docs.md says how its pages are written.
"""

from __future__ import annotations
