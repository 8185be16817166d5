"""Write the tables by which packages load their modules when a name is used (`relax.runtime.rooms`).

    python tools/make_homes.py             write them
    python tools/make_homes.py --check     fail if one of them is stale

A package (or module) that calls `load_when_used` has its table in ``_homes.py`` beside it, made of the imports under its
``if TYPE_CHECKING``. The tables of the operators, src/relax/op/_operators.py, and of the converters from ONNX,
src/relax/frontend/onnx/_converters.py, come from the declarations of all families, which are imported for them. The
list of the files that generate kernels, src/relax/farm/_generator.py, has the modules that `GENERATORS` import, directly
or not: the cache keeps kernels as long as none of these files changes.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import import_graph

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "relax"
OPERATORS = PACKAGE / "op" / "_operators.py"
GENERATOR = PACKAGE / "farm" / "_generator.py"
GENERATORS = ("relax.tir.transform.lower", "relax.codegen.module", "relax.farm.worker")
"""The modules that make a scheduled PrimFunc into LLVM IR, and that into an object."""
CONVERTERS = PACKAGE / "frontend" / "onnx" / "_converters.py"


def owners() -> Iterator[tuple[Path, ast.Module]]:
    """The files that load names when they are used."""
    for path in sorted([*PACKAGE.rglob("__init__.py"), PACKAGE / "_api.py"]):
        text = path.read_text()
        if "load_when_used(__name__" in text:
            yield path, ast.parse(text)


def homes(tree: ast.Module) -> dict[str, str]:
    """The names that a file imports for type checkers, and the module of each."""
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for part in statement.body:
                if isinstance(part, ast.ImportFrom) and part.level:
                    for alias in part.names:
                        found[alias.asname or alias.name] = _home(part, alias)
    return found


def _home(part: ast.ImportFrom, alias: ast.alias) -> str:
    dots, module = "." * part.level, part.module
    if module is None:
        return f"{dots}{alias.name}:"
    return f"{dots}{module}" if alias.asname in (None, alias.name) else f"{dots}{module}:{alias.name}"


def table(title: str, name: str, entries: Mapping[str, str]) -> str:
    """The text of a table: for each module its names in one string, as ``alias=name`` where they differ."""
    modules: dict[str, list[str]] = {}
    for key in sorted(entries):
        module, renamed, original = entries[key].partition(":")
        home, word = (f"{module}:", key) if renamed and not original else (module, key)
        modules.setdefault(home, []).append(f"{word}={original}" if original else word)
    return text_of(title, name, {module: " ".join(words) for module, words in modules.items()})


def text_of(title: str, name: str, rows: Mapping[str, str]) -> str:
    """The text of a table from modules to the names that each defines."""
    lines: list[str] = []
    for module in sorted(rows):
        parts = textwrap.wrap(rows[module], 100, break_long_words=False, break_on_hyphens=False)
        text = "\n        ".join(f'"{part} "' for part in parts[:-1]) + "\n        " * (len(parts) > 1)
        lines.append(f'    "{module}": {text}"{parts[-1]}",\n')
    return (
        f'"""{title} Written by tools/make_homes.py."""\n\nfrom __future__ import annotations\n\n'
        f"{name} = {{\n{''.join(lines)}}}\n"
    )


def package_tables() -> dict[Path, str]:
    """The text of each table of names, by its file: what `relax` needs to be imported."""
    title = "The names of this package, by the module that defines them."
    return {path.parent / "_homes.py": table(title, "HOMES", homes(tree)) for path, tree in owners()}


def generator_files() -> set[str]:
    """The files that generate kernels, as paths in the package."""
    tables = {_module_name(path): homes(tree) for path, tree in owners()}
    names = import_graph.needed(PACKAGE, GENERATORS, tables)
    return {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if _module_name(path) in names}


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def generator_table() -> dict[Path, str]:
    """The text of the list of files that generate kernels, by its file."""
    lines = "".join(f'    "{name}",\n' for name in sorted(generator_files()))
    title = "The files that generate kernels: modules that lower, write and compile them, and what these import."
    text = f'"""{title}\n\nWritten by tools/make_homes.py.\n"""\n\nfrom __future__ import annotations\n\n'
    return {GENERATOR: f"{text}FILES = (\n{lines})\n"}


def operator_table() -> dict[Path, str]:
    """The text of the table of operators, by its file. The tables of names must be there."""
    from relax.op.operator import declared
    from relax.runtime.rooms import load_whole

    load_whole("relax.op")
    found = {name: module for name, module in declared().items() if module.startswith("relax.op.")}
    return {OPERATORS: table("The operators, by the module that declares them.", "OPERATORS", found)}


def converter_table() -> dict[Path, str]:
    """The text of the table of converters, by its file."""
    from relax.frontend.onnx.registry import declared
    from relax.runtime.rooms import load_whole

    load_whole("relax.frontend.onnx.operators")
    title = "The ONNX operators, with their domains, by the module that converts them."
    return {CONVERTERS: text_of(title, "CONVERTERS", declared())}


def stale(texts: Mapping[Path, str]) -> list[Path]:
    """The files that say something else than `texts`."""
    return [path for path, text in texts.items() if not path.exists() or path.read_text() != text]


def main() -> int:
    """Write the tables, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a table is stale")
    check = parser.parse_args().check
    if not check:
        for path, text in (
            (OPERATORS, table("", "OPERATORS", {})),
            (CONVERTERS, table("", "CONVERTERS", {})),
            (GENERATOR, "FILES = ()\n"),
        ):
            if not path.exists():
                path.write_text(text)
    for make in (package_tables, generator_table, operator_table, converter_table):
        texts = make()
        for path in stale(texts):
            if check:
                print(f"{path.relative_to(ROOT)} is stale: run tools/make_homes.py", file=sys.stderr)
                return 1
            path.write_text(texts[path])
    for path in {*PACKAGE.rglob("_homes.py")} - package_tables().keys():
        print(f"{path.relative_to(ROOT)} is the table of no package: remove it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
