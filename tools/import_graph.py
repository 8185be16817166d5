"""The imports between the modules of a package, read from their source, and the circles in them.

    python tools/import_graph.py src/relax        prints each circle with the imports that close it

An import counts wherever it stands: at the top of a module, in a function, under a condition. One under
``if TYPE_CHECKING`` counts only where it is asked for (`for_types`). ``from .room import name`` is an import of the module
``room.name`` if there is one, else of ``room``. A package that a module lies in is not counted as imported by it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """An import of one module of the package by another."""

    importer: str
    imported: str
    for_types: bool
    """True if it stands under ``if TYPE_CHECKING``."""
    line: int


def imports_in(root: Path) -> list[Import]:
    """The imports between modules of the package in the folder `root`."""
    modules = {_name(root, path): path for path in sorted(root.rglob("*.py"))}
    return [found for name, path in modules.items() for found in _imports(name, path, modules.keys())]


def circles(imports: Iterable[Import], *, for_types: bool) -> list[list[str]]:
    """The circles: groups of modules, as large as can be, in which imports lead from each module to each other.

    Imports for type checkers count with `for_types`.
    """
    arrows: dict[str, dict[str, None]] = {}
    for one in imports:
        if for_types or not one.for_types:
            arrows.setdefault(one.importer, {})[one.imported] = None
            arrows.setdefault(one.imported, {})
    return [sorted(group) for group in _connected(arrows) if len(group) > 1]


def needed(root: Path, roots: Iterable[str], homes: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The modules of the package in the folder `root` that `roots` import, directly or not, and `roots` themselves.

    `homes` has, for each package that loads its names when they are used, the module of each name, as a relative
    import: ``from ..tir import For`` needs the module that defines For. A package itself is needed where a name of its
    own is imported. An import of a whole package such as ``from .. import tir`` needs all its names.
    """
    modules = {_name(root, path): path for path in sorted(root.rglob("*.py"))}
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _needed_by(name, modules[name], modules.keys(), homes)
    return found


def _needed_by(
    name: str, path: Path, modules: Collection[str], homes: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """The modules that one module needs to be loaded."""
    for node, for_types in _import_statements(ast.parse(path.read_text(encoding="utf-8")), False):
        if for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
            continue
        source = _source(node, _package(name, path))
        for alias in node.names if source in modules else ():
            inner = f"{source}.{alias.name}"
            if inner in homes:
                yield from (_module_of(inner, one, homes) for one in homes[inner])
            else:
                yield inner if inner in modules else _module_of(source, alias.name, homes)


def _module_of(package: str, name: str, homes: Mapping[str, Mapping[str, str]]) -> str:
    """The module that defines a name of a package: where its home leads to, from package to package.

    A home is a relative import: ``..prim.expr``, ``.expr:Var`` for a name of another spelling, ``.expr:`` for a module.
    """
    while name in homes.get(package, {}):
        home, renamed, original = homes[package][name].partition(":")
        inner = home.lstrip(".")
        parts = package.split(".")
        package = ".".join([*parts[: len(parts) + 1 - (len(home) - len(inner))], *filter(None, [inner])])
        if renamed and not original:
            break
        name = original or name
    return package


def _package(name: str, path: Path) -> list[str]:
    """The package from which a module's relative imports start."""
    return name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]


def _source(node: ast.ImportFrom, package: list[str]) -> str:
    """The module that an import takes names from."""
    base = [*package[: len(package) + 1 - node.level], *filter(None, [node.module])]
    return ".".join(base) if node.level else node.module or ""


def _name(root: Path, path: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, path: Path, modules: Iterable[str]) -> Iterator[Import]:
    known = set(modules)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node, for_types in _import_statements(tree, False):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            source = _source(node, _package(name, path))
            inner = [f"{source}.{alias.name}" for alias in node.names]
            targets = [module if module in known else source for module in inner]
        for target in dict.fromkeys(targets):
            if target in known and target != name:
                yield Import(name, target, for_types, node.lineno)


def _import_statements(node: ast.AST, for_types: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements in a tree, each with whether it is for type checkers only."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, for_types
    elif isinstance(node, ast.If) and _is_type_checking(node.test):
        for child in node.body:
            yield from _import_statements(child, True)
        for child in node.orelse:
            yield from _import_statements(child, for_types)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _import_statements(child, for_types)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _connected(arrows: dict[str, dict[str, None]]) -> list[list[str]]:
    """The strongly connected components, by Tarjan's algorithm with a stack of its own instead of recursion."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    groups: list[list[str]] = []
    for start in arrows:
        if start in numbers:
            continue
        work = [(start, iter(arrows[start]))]
        numbers[start] = lowest[start] = len(numbers)
        path.append(start)
        on_path.add(start)
        while work:
            module, following = work[-1]
            for other in following:
                if other not in numbers:
                    numbers[other] = lowest[other] = len(numbers)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(arrows[other])))
                    break
                if other in on_path:
                    lowest[module] = min(lowest[module], numbers[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == numbers[module]:
                    at = path.index(module)
                    groups.append(path[at:])
                    on_path.difference_update(path[at:])
                    del path[at:]
    return groups


def main(folder: str) -> int:
    """Print the circles of a package; the exit status is 1 if there are some."""
    imports = imports_in(Path(folder))
    found = circles(imports, for_types=True)
    for circle in found:
        print(f"circle of {len(circle)}: {', '.join(circle)}")
        for one in imports:
            if one.importer in circle and one.imported in circle:
                kind = "  (for types)" if one.for_types else ""
                print(f"  {one.importer}:{one.line} -> {one.imported}{kind}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
