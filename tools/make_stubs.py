"""Write the stubs of `relax.op`, `R`, `T` and `I`, for editors and type checkers.

    python tools/make_stubs.py             write them
    python tools/make_stubs.py --check     fail if one of them is stale

Operators are functions made from classes, and the namespaces of scripts compute some of their members: neither can be
seen without running Python. A stub says it in text, with parameters, types and docstrings:

    src/relax/op/_signatures/              the operators, a file for each namespace; `relax.op` and its kin import them
    src/relax/script/parser/relax/         `R`: the forms of tools/stubs/relax.pyi, the operators, all other functions
    src/relax/script/parser/tir/           `T`: the forms of tools/stubs/tir.pyi, dtypes, all other functions
    src/relax/script/parser/ir.pyi         `I`: tools/stubs/ir.pyi

A form is a member that no signature describes: the parser reads its arguments itself (``R.Tensor``), or takes its
result for something else (``with T.block("B")``). Forms are written by hand in tools/stubs; their docstrings, like all
others, come from the source. A member that is neither a form nor a function fails the run.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from relax.ir import DataType, VDevice
from relax.op.attributes import own_hints
from relax.op.base import class_named
from relax.op.intrinsics import Placing
from relax.op.operands import Operand
from relax.op.operator import Operator, public_function, public_names
from relax.prim import PrimExpr
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.script.parser.tir.dtypes import DTYPE_NAMES
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax.tir.index_map import IndexMap

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "relax"
FORMS = ROOT / "tools" / "stubs"
WIDTH = 110

SPACES = {
    "relax.": "__init__",
    **{f"relax.{name}.": name for name in ("builtin", "ccl", "grad", "image", "inspect", "memory", "nn", "random")},
    "relax.dist.": "distributed",
    "relax.vision.": "vision",
    "relax.vm.": "vm",
}
"""The prefixes of operators' names, and the file of each in src/relax/op/_signatures."""

OPERANDS: dict[Any, str] = {
    TensorStructInfo: "TensorLike",
    ShapeStructInfo: "ShapeLike",
    PrimStructInfo: "ScalarLike",
    TupleStructInfo: "TupleLike",
    FuncStructInfo: "FunctionLike",
    ObjectStructInfo: "Any",
}
"""What an operand takes, by the kind of struct info it needs. Any other kind takes any value."""

ATTRIBUTES: dict[Any, str] = {
    DataType: "DTypeLike",
    PrimExpr: "ExprLike",
    VDevice: "VDevice",
    IndexMap: "IndexMap | Callable[..., Any]",
    Any: "Any",
}
"""What an attribute takes, by its annotation, where that is not the annotation itself."""


class StubError(Exception):
    """A member that the stubs cannot describe."""


# --------------------------------------------------------------------------------------------- one stub


class Stub:
    """The text of one stub: its definitions, and the imports that these need.

    A name that the stub defines hides a builtin or an import of this name; such an import gets a leading underscore.
    """

    def __init__(self, title: str, members: Iterable[str]) -> None:
        self.title = title
        self.members = frozenset(members)
        self.imports: dict[str, str] = {}
        self.parts: list[str] = []

    def name(self, name: str, module: str) -> str:
        """The text for a name of a module, which is imported."""
        if module == "builtins" and name not in self.members:
            return name
        alias = f"_{name}" if name in self.members else name
        shown = name if alias == name else f"{name} as {alias}"
        self._import(alias, f"from {module} import {shown}")
        return alias

    def _import(self, alias: str, statement: str) -> None:
        """Note an import. Raises StubError if the stub imports something else by this name."""
        noted = self.imports.setdefault(alias, statement)
        if noted != statement and _imported(noted) is not _imported(statement):
            raise StubError(f"{alias} would be imported from two modules: {noted}, {statement}")

    def annotation(self, text: str, scope: Mapping[str, Any], module: str) -> str:
        """An annotation of a function of `module`, whose names are those of `scope`."""
        return ast.unparse(_Renamer(self, scope, module).visit(ast.parse(text, mode="eval"))).strip()

    def define(self, text: str) -> None:
        self.parts.append(text)

    def text(self) -> str:
        """The whole file."""
        head = f'"""{self.title} Written by tools/make_stubs.py."""'
        imports = "\n".join(_joined(self.imports.values()))
        return "\n\n".join(part for part in (head, imports, *self.parts) if part) + "\n"


def _joined(statements: Iterable[str]) -> list[str]:
    """Imports, those from one module in one statement."""
    names: dict[str, set[str]] = {}
    for statement in statements:
        head, separator, name = statement.partition(" import ")
        names.setdefault(head if separator else statement, set()).add(name)
    lines: list[str] = []
    for head, imported in sorted(names.items()):
        line = f"{head} import {', '.join(sorted(imported))}" if imported != {""} else head
        if len(line) > WIDTH:
            line = f"{head} import (\n" + "".join(f"    {name},\n" for name in sorted(imported)) + ")"
        lines.append(line)
    return lines


def _imported(statement: str) -> Any:
    """The object that a ``from … import …`` names."""
    _, module, _, name, *_ = statement.split()
    return getattr(importlib.import_module(module), name)


class _Renamer(ast.NodeTransformer):
    """Replaces the names of an annotation by those that the stub imports."""

    def __init__(self, stub: Stub, scope: Mapping[str, Any], module: str) -> None:
        self.stub, self.scope, self.module = stub, scope, module

    def visit_Name(self, node: ast.Name) -> ast.Name:
        value = self.scope.get(node.id, None)
        if node.id not in self.scope and hasattr(builtins, node.id):
            return ast.Name(self.stub.name(node.id, "builtins"))
        if value is typing:
            raise StubError(f"{self.module}: import the names of typing, not typing itself")
        home = getattr(value, "__module__", None)
        if inspect.ismodule(value):
            self.stub.imports[node.id] = f"import {value.__name__} as {node.id}"
            return node
        names_itself = inspect.isclass(value) and home is not None and value.__name__ == node.id
        if names_itself and getattr(sys.modules.get(home), node.id, None) is value:
            return ast.Name(self.stub.name(node.id, home))
        if value is getattr(typing, node.id, object()):
            return ast.Name(self.stub.name(node.id, "typing"))
        return ast.Name(self.stub.name(node.id, self.module))


def documented(head: str, doc: str | None, indent: str = "") -> str:
    """A definition with a docstring as its body."""
    if not doc:
        return f"{indent}{head} ..."
    body = inspect.cleandoc(doc).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if body.endswith('"'):
        body += " "
    lines = textwrap.indent(body, indent + "    ", lambda line: bool(line.strip()))
    close = f"\n{indent}    " if "\n" in body else ""
    return f'{indent}{head}\n{indent}    """{lines.strip()}{close}"""'


def signature_text(name: str, parameters: list[str], result: str) -> str:
    """``def name(parameters) -> result:``, on several lines if it is long."""
    line = f"def {name}({', '.join(parameters)}) -> {result}:"
    if len(line) <= WIDTH:
        return line
    return f"def {name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f") -> {result}:"


def default_text(value: Any) -> str:
    """A default value, if it is as plain in a stub as in the source."""
    plain = value is None or isinstance(value, (bool, int, float, str))
    if plain or (isinstance(value, tuple) and all(isinstance(v, (int, float, str)) for v in value)):
        return repr(value)
    return "None" if isinstance(value, DataType) and value.is_void else "..."


# --------------------------------------------------------------------------------------------- operators


def operator_stub(prefix: str) -> Stub:
    """The operators below a prefix."""
    names = public_names(prefix)
    shown = f"relax.op.{SPACES[prefix]}".removesuffix(".__init__")
    stub = Stub(f"The operators of `{shown}`, as editors and type checkers see them.", names)
    for name in names:
        define_operator(stub, name, prefix + name)
    return stub


def define_operator(stub: Stub, name: str, full_name: str) -> None:
    """Add one operator (or a function made of several) to a stub."""
    cls, function = class_named(full_name), public_function(full_name)
    if function is None:
        raise StubError(f"{full_name} has no function")
    if cls is None or cls.make is not None:
        define_function(stub, name, function)
        return
    parameters = operator_parameters(stub, cls, inspect.signature(function))
    head = signature_text(name, parameters, stub.name("Call", "relax.expr"))
    stub.define(documented(head, function.__doc__))


def operator_parameters(stub: Stub, cls: type[Operator], signature: inspect.Signature) -> list[str]:
    """The parameters of the function that an operator class makes: operands, then attributes."""
    operands = {operand.name: operand for operand in cls.operands}
    hints = attribute_hints(cls)
    shown: list[str] = []
    for parameter in signature.parameters.values():
        operand = operands.get(parameter.name)
        kind = attribute_type(stub, hints[parameter.name]) if operand is None else operand_type(stub, cls, operand)
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f" = {default_text(parameter.default)}"
        shown.append(f"{star}{parameter.name}: {kind}{default}")
    return shown


def attribute_hints(cls: type[Operator]) -> dict[str, Any]:
    """The annotations of an operator's attributes, those of its bases included."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not object:
            hints.update(own_hints(base))
    return hints


def operand_type(stub: Stub, cls: type[Operator], operand: Operand) -> str:
    """The type of an operand. An operator that changes its arguments first takes numbers for tensors."""
    texts = [OPERANDS.get(kind, "Any") for kind in operand.kinds]
    if cls.prepare is not Operator.prepare and "TensorLike" in texts:
        texts.append("ScalarLike")
    if "Any" in texts:
        texts = ["Any"]
    if operand.optional and texts != ["Any"]:
        texts.append("None")
    return " | ".join(argument_name(stub, text) for text in dict.fromkeys(texts))


def attribute_type(stub: Stub, hint: Any) -> str:
    """The type of an attribute: what its converter takes (see `relax.op.attributes`)."""
    return " | ".join(dict.fromkeys(_attribute_types(stub, hint)))


def _attribute_types(stub: Stub, hint: Any) -> list[str]:
    origin = get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return [text for member in get_args(hint) for text in _attribute_types(stub, member)]
    if hint is type(None):
        return ["None"]
    if origin is tuple:
        item = attribute_type(stub, get_args(hint)[0])
        return [item, f"{stub.name('Sequence', 'collections.abc')}[{item}]"]
    if origin is Literal:
        return [f"{stub.name('Literal', 'typing')}[{', '.join(map(repr, get_args(hint)))}]", "str"]
    if hint in (bool, int, float, str):
        return [stub.name(hint.__name__, "builtins")]
    if hint not in ATTRIBUTES:
        raise StubError(f"no type for an attribute annotated {hint!r}")
    return [argument_name(stub, text) for text in ATTRIBUTES[hint].split(" | ")]


def argument_name(stub: Stub, text: str) -> str:
    """The text of a type of `OPERANDS` and `ATTRIBUTES`, with its import."""
    homes = {
        "None": None,
        "Any": "typing",
        "VDevice": "relax.ir.expr",
        "IndexMap": "relax.tir.index_map",
        "ExprLike": "relax.prim.expr",
    }
    if text.startswith("Callable"):
        return f"{stub.name('Callable', 'collections.abc')}[..., {stub.name('Any', 'typing')}]"
    home = homes.get(text, "relax.op.arguments")
    return text if home is None else stub.name(text, home)


# --------------------------------------------------------------------------------------------- functions


def define_function(stub: Stub, name: str, function: Callable[..., Any]) -> None:
    """Add a function of Python's, with the annotations of its source."""
    source = inspect.unwrap(function)
    if inspect.ismethod(source):
        source = source.__func__
    signature = inspect.signature(function)
    scope, module = source.__globals__, source.__module__
    shown: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.annotation is parameter.empty:
            raise StubError(f"{module}.{name}: the parameter {parameter.name} has no annotation")
        kind = stub.annotation(str(parameter.annotation), scope, module)
        default = "" if parameter.default is parameter.empty else f" = {default_text(parameter.default)}"
        shown.append(f"{star}{parameter.name}: {kind}{default}")
    result = stub.annotation(str(signature.return_annotation), scope, module)
    stub.define(documented(signature_text(name, shown, result), function.__doc__))


# ------------------------------------------------------------------------------------------------ scripts


def script_stub(
    title: str,
    file: str,
    module: types.ModuleType,
    imports: Mapping[str, str] = types.MappingProxyType({}),
    variables: Mapping[str, str] = types.MappingProxyType({}),
) -> Stub:
    """A namespace of scripts: its forms, members by their imports or types, and all other functions."""
    members = [name for name in dir(module) if not name.startswith("_")]
    stub = Stub(title, {*members, *imports, *variables})
    stub.imports.update(imports)
    formed = define_forms(stub, (FORMS / file).read_text(encoding="utf-8"), module)
    for name in members:
        if name in formed or name in imports or name in variables:
            continue
        value = getattr(module, name)
        if inspect.isclass(value):
            stub.imports[name] = f"from {value.__module__} import {value.__name__} as {name}"
        elif inspect.isroutine(value):
            define_script_function(stub, name, value)
        else:
            raise StubError(f"{file} lacks the form {name}, a {type(value).__name__}")
    stub.define("\n".join(f"{name}: {kind}" for name, kind in variables.items()))
    return stub


def define_forms(stub: Stub, text: str, module: types.ModuleType) -> set[str]:
    """Add the forms of a file, with the docstrings of the members where they have none; their names."""
    names: set[str] = set()
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        decorators = statement.decorator_list if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else []
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        source = "\n".join(lines[first - 1 : statement.end_lineno])
        match statement:
            case ast.Expr():
                continue  # a docstring
            case ast.ImportFrom():
                for alias in statement.names:
                    shown = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
                    stub.imports[alias.asname or alias.name] = f"from {statement.module} import {shown}"
                continue
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                raise StubError(f"line {statement.lineno}: a form is a function, a class or a variable")
        names.add(name)
        stub.define(_with_docstring(source, statement, getattr(module, name, None)))
    return names


def _with_docstring(source: str, statement: ast.stmt, member: Any) -> str:
    """A form, followed by the docstring of the member for which it stands, unless it has one."""
    doc = None if member is None else inspect.getdoc(member)
    if isinstance(statement, ast.FunctionDef):
        head, dots, _ = source.rpartition(" ...")
        return source if not dots else documented(head, doc)
    return source if doc is None or isinstance(statement, (ast.ClassDef, ast.Assign)) else f'{source}\n"""{doc}"""'


def define_script_function(stub: Stub, name: str, function: Callable[..., Any]) -> None:
    """A function of a script's namespace; an operator is the one of `relax.op`, under the same name."""
    cls = class_named(f"relax.{name}")
    if getattr(function, "__module__", "").startswith("relax.op.") and public_function(f"relax.{name}") is not None:
        if cls is not None and issubclass(cls, Placing):
            define_placing(stub, name, cls, function)
        else:
            stub.imports[name] = f"from relax.op._signatures import {name} as {name}"
    else:
        define_function(stub, name, function)


def define_placing(stub: Stub, name: str, cls: type[Operator], function: Callable[..., Any]) -> None:
    """An operator with a virtual device, which a script may name by its text."""
    parameters = operator_parameters(stub, cls, inspect.signature(function))
    devices = [text.replace("VDevice", f"VDevice | {stub.name('str', 'builtins')}") for text in parameters]
    stub.define(documented(signature_text(name, devices, stub.name("Call", "relax.expr")), function.__doc__))


def relax_stub() -> Stub:
    """The namespace `R`."""
    spaces = [name for name in SPACES.values() if name != "__init__" and hasattr(R, name)]
    imports = {name: f"from relax.op._signatures import {name} as {name}" for name in spaces}
    return script_stub("The namespace `R` of scripts.", "relax.pyi", R, imports)


VECTORS = (2, 4, 8, 16, 32, 64)
"""The numbers of lanes of the dtypes that the stub of `T` has; scripts may use any."""


def tir_stub() -> Stub:
    """The namespace `T`."""
    wide = [name for name in DTYPE_NAMES if re.fullmatch("[a-z]+[0-9]+", name)]
    names = [*DTYPE_NAMES, "boolean", *(f"{name}x{lanes}" for name in wide for lanes in VECTORS)]
    dtypes = {name: "_IntDtype" if re.match("u?int", name) else "_Dtype" for name in names}
    return script_stub("The namespace `T` of scripts.", "tir.pyi", T, variables=dtypes)


def ir_stub() -> Stub:
    """The namespace `I`."""
    return script_stub("The namespace `I` of scripts.", "ir.pyi", I)


# ------------------------------------------------------------------------------------------------- files


def stubs() -> dict[Path, str]:
    """All stubs, by their file."""
    parser = PACKAGE / "script" / "parser"
    made = {
        PACKAGE / "op" / "_signatures" / f"{file}.pyi": operator_stub(prefix).text() for prefix, file in SPACES.items()
    }
    made[parser / "relax" / "__init__.pyi"] = relax_stub().text()
    made[parser / "tir" / "__init__.pyi"] = tir_stub().text()
    made[parser / "ir.pyi"] = ir_stub().text()
    return made


def stale() -> list[Path]:
    """The files that are not what this program would write."""
    expected = stubs()
    left_over = set((PACKAGE / "op" / "_signatures").glob("*")) - set(expected)
    return sorted(
        left_over | {path for path, text in expected.items() if not path.exists() or path.read_text("utf-8") != text}
    )


def main() -> int:
    options = argparse.ArgumentParser(description="write the stubs for editors and type checkers")
    options.add_argument("--check", action="store_true", help="write nothing; fail if a stub is stale")
    if options.parse_args().check:
        for path in stale():
            print(f"{path.relative_to(ROOT)} is stale: python tools/make_stubs.py", file=sys.stderr)
        return int(bool(stale()))
    for path, text in stubs().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
