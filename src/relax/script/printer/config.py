"""The printer's configuration: the options of ``.script()`` and ``.show()``, under TVM's names."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any, cast

from ...runtime.records import dataclass

IGNORED = frozenset({
    "black_format", "buffer_dtype", "float_dtype", "int_dtype", "num_context_lines", "path_to_annotate",
    "path_to_underline", "print_line_numbers", "show_object_address", "syntax_sugar", "verbose_expr",
})  # fmt: skip
"""TVM options without a meaning here, accepted for compatibility."""


@dataclass(frozen=True)
class PrinterConfig:
    """Options of one printed text."""

    name: str | None = None
    """Name of the class, or of a function without a name."""
    show_meta: bool = False
    """True to print the data of large constants in a metadata section, which the parser needs."""
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    """Name by which functions refer to their module; empty for the class's own name."""
    show_all_struct_info: bool = True
    """True to annotate every binding; otherwise only those whose struct info does not follow from the value."""
    indent_spaces: int = 4
    obj_to_underline: tuple[Any, ...] = ()
    """Nodes to underline."""
    underline_heads: bool = False
    """True to underline only the first line of a statement: of a loop, ``for i in …:``."""
    obj_to_annotate: Mapping[Any, str] = field(default_factory=dict[Any, str])
    """Nodes to annotate with a comment at the end of their line."""

    @staticmethod
    def of(options: Mapping[str, Any]) -> PrinterConfig:
        """Build the config from keyword arguments. Raises TypeError for an unknown one."""
        names = {f.name for f in fields(PrinterConfig)}
        for name in options:
            if name not in names and name not in IGNORED:
                close = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"script() has no option {name!r}{hint}")
        given = {k: v for k, v in options.items() if k in names}
        for option in ("module_alias", "ir_prefix", "tir_prefix", "relax_prefix"):
            word = given.get(option)
            if word and (not word.isidentifier() or keyword.iskeyword(word)):
                raise ValueError(f"script(): {option} must be a name, found {word!r}")
        if "obj_to_underline" in given:
            marked = given["obj_to_underline"]
            several = isinstance(marked, (list, tuple))
            given["obj_to_underline"] = tuple(cast("Sequence[Any]", marked)) if several else (marked,)
        if not given.get("obj_to_annotate", True):
            del given["obj_to_annotate"]
        return PrinterConfig(**given)
