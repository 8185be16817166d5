"""The operator reference: a table of all operators, and a page for each of them.

Everything is read off the package: signatures and descriptions from the operator classes, examples from the sample
calls of the tests (`tests/op/cases_*.py`), the result of an example and the accepted element types from the operator's
inference. `names.py` has the names of TVM and ONNX.

    table()     what docs/reference/operators.md shows: a row for each operator
    pages()     {"operators/nn.softmax.md": …, …}: Markdown by path
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import relax.op
from docs_site.names import ONNX, TVM
from relax import tir
from relax.expr import Call, Constant, PrimValue, ShapeExpr, Tuple, Var
from relax.info.text import struct_info_text
from relax.op import infer_call
from relax.op.operator import public_function, public_names
from relax.struct_info import TensorStructInfo

ROOT = Path(__file__).parents[2]
CASES = str(ROOT / "tests" / "op")
sys.path.insert(0, CASES)

import op_harness  # noqa: E402
from op_harness import Case, variant  # noqa: E402

FAMILIES = {
    "float": ("float32", "float64", "float16", "bfloat16"),
    "float8": ("float8_e4m3fn", "float8_e5m2"),
    "float4": ("float4_e2m1fn",),
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "bool": ("bool",),
    "narrow int": ("int4", "uint4", "int2", "uint2"),
}
"""Element types that the pages name together."""

GROUPS = {
    "nn": "Neural networks",
    "image": "Images",
    "vision": "Detection",
    "grad": "Gradients",
    "random": "Random numbers",
    "ccl": "Collectives",
    "dist": "Distributed tensors",
    "inspect": "Properties of tensors",
    "memory": "Memory",
    "vm": "The virtual machine",
    "builtin": "Builtins",
}
"""The titles of the groups, by namespace."""

SPLIT = {
    "binary": "Arithmetic and comparison",
    "ternary": "Arithmetic and comparison",
    "saturating": "Arithmetic and comparison",
    "unary": "Functions of one tensor",
    "statistical": "Reductions and scans",
    "sorting": "Reductions and scans",
    "sets": "Reductions and scans",
    "contraction": "Products and linear algebra",
    "linear_algebra": "Products and linear algebra",
    "matrices": "Products and linear algebra",
    "gather": "Indexing and selection",
    "scatter": "Indexing and selection",
    "selection": "Indexing and selection",
    "recurrent": "Recurrent networks",
    "qdq": "Quantization",
    "intrinsics": "Calls and intrinsics",
    "tir_calls": "Calls and intrinsics",
    "te_call": "Calls and intrinsics",
    "inspect": GROUPS["inspect"],
}
"""The titles of the groups of operators without a namespace, by the module of their class."""


@dataclass(frozen=True)
class Entry:
    """One operator, as its page shows it."""

    name: str
    """As in TVMScript, without the ``R.``: ``nn.softmax``."""
    group: str
    signature: str
    description: str
    dtypes: tuple[str, ...]
    """Element types that its tensors may have, and families of them; empty if it has no sample call."""
    example: str
    onnx: tuple[str, ...]

    @property
    def in_tvm(self) -> bool:
        """True if TVM has an operator of this name."""
        return self.name in TVM

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        first = " ".join(self.description.split("\n\n")[0].split())
        return re.split(r"(?<=\.)\s", first)[0]

    @property
    def path(self) -> str:
        """The address of its page, from docs/reference."""
        return f"operators/{self.name}.md"


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every operator and composite of this package that programs may call, sorted by name."""
    names = list(public_names("relax."))
    for space in dir(relax.op):
        if space in GROUPS:  # others are of operators that a program has made
            names += [f"{space}.{name}" for name in public_names(f"relax.{space}.")]
    return tuple(_entry(name) for name in sorted(set(names)))


def _entry(name: str) -> Entry:
    function = public_function(f"relax.{name}")
    assert function is not None
    cases = _cases().get(f"relax.{name}", [])
    return Entry(
        name,
        _group_of(name, function),
        signature_text(f"R.{name}", function),
        inspect.cleandoc(function.__doc__ or ""),
        _dtypes(cases),
        _example(name, cases),
        tuple(sorted(onnx for onnx, ours in ONNX.items() if ours == name)),
    )


def _group_of(name: str, function: Callable[..., Any]) -> str:
    space = name.rpartition(".")[0]
    module = function.__module__.rpartition(".")[2]
    return GROUPS[space] if space else SPLIT.get(module, "Shapes, creation and conversion")


def signature_text(name: str, function: Callable[..., Any]) -> str:
    """The parameters of a function with their defaults, without annotations; one a line where they are many."""
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"
    if len(text) <= LINE:
        return text
    keyword_only = [p.kind is p.KEYWORD_ONLY for p in parameters]
    lines = [f"    {p},\n" for p in parameters]
    if True in keyword_only:
        lines.insert(keyword_only.index(True), "    *,\n")
    return f"{name}(\n{''.join(lines)})"


LINE = 88
"""The width of code on the site."""


# ------------------------------------------------------------------------------ sample calls


@functools.cache
def _cases() -> dict[str, list[Case]]:
    if CASES not in sys.path:  # MkDocs takes away what its hooks put there
        sys.path.insert(0, CASES)
    found: dict[str, list[Case]] = {}
    for case in op_harness.all_cases():
        if case.raises is None:
            found.setdefault(case.op, []).append(case)
    return found


def _usual(cases: list[Case]) -> list[Case]:
    """The cases with those first that read best: float32, few dimensions but some, no empty ones."""

    def rank(case: Case) -> tuple[bool, bool, bool, int]:
        flat = [x for value in case.operands for x in (value if isinstance(value, list) else [value])]
        arrays = [x for x in flat if hasattr(x, "shape")]
        first = arrays[0] if arrays else None
        usual = first is not None and first.dtype.name == "float32"
        plain = bool(arrays) and all(x.ndim > 0 and 0 < min(x.shape) and max(x.shape) < 10 for x in arrays)
        return (not plain, not usual, plain and arrays[0].size < 4, len(case.attrs))

    return sorted(cases, key=rank)


def _example(name: str, cases: list[Case]) -> str:
    """A call of sample operands, and what is derived of its result."""
    if not cases:
        return ""
    call = _named(variant(_usual(cases)[0], symbolic=False).call)
    operands = {arg.name_hint: struct_info_text(arg.struct_info_) for arg in _variables(call)}
    lines = [f"{var}: {info}" for var, info in operands.items()]
    return "\n".join([*lines, _call_text(name, call), f"# {struct_info_text(infer_call(call))}"])


def _named(call: Call) -> Call:
    """The call with variables named after the operands that they are."""
    operands = call.attrs.operands
    names = [operands[min(i, len(operands) - 1)].name if operands else "x" for i in range(len(call.args))]
    args: list[Any] = []
    for name, arg in zip(names, call.args, strict=True):
        many = isinstance(arg, Tuple) or names.count(name) > 1
        fields = [
            Var(f"{name}_{i + len(args)}" if many else name, leaf.struct_info_) if isinstance(leaf, Var) else leaf
            for i, leaf in enumerate(arg.fields if isinstance(arg, Tuple) else (arg,))
        ]
        args.append(Tuple(fields) if isinstance(arg, Tuple) else fields[0])
    return call.replace(args=args)


def _variables(call: Call) -> Iterator[Var]:
    for arg in call.args:
        for leaf in arg.fields if isinstance(arg, Tuple) else (arg,):
            if isinstance(leaf, Var):
                yield leaf


def _call_text(name: str, call: Call) -> str:
    """A call as TVMScript, without the attributes that have their defaults."""
    defaults = {p.name: p.default for p in inspect.signature(_function(name)).parameters.values()}
    args = [text for arg in call.args if (text := _argument(arg))]
    for attribute in call.attrs.attribute_names:
        value = getattr(call.attrs, attribute)
        if value != defaults.get(attribute, inspect.Parameter.empty):
            args.append(f"{attribute}={_value(value)}")
    return f"R.{name}({', '.join(args)})"


def _function(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.{name}")
    assert function is not None
    return function


def _argument(arg: Any) -> str:
    match arg:
        case Var():
            return arg.name_hint
        case Tuple():
            return f"({', '.join(map(_argument, arg.fields))}{',' * (len(arg.fields) == 1)})"
        case ShapeExpr():
            return f"({', '.join(map(_scalar, arg.values))}{',' * (len(arg.values) == 1)})"
        case PrimValue():
            return _scalar(arg.value)
        case Constant():
            return f'R.const({arg.data.tolist()}, "{arg.data.dtype}")'
        case _:
            return ""


def _scalar(value: Any) -> str:
    return str(getattr(value, "value", value))


def _value(value: Any) -> str:
    if isinstance(value, tir.IndexMap):
        return str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


def _dtypes(cases: list[Case]) -> tuple[str, ...]:
    """The element types that inference accepts; those of a whole family by its name.

    Tried are a few sample calls: the tensors that have the first one's type get the other one.
    """
    calls = [variant(case, symbolic=False).call for case in _usual(cases)[:4]]
    names: list[str] = []
    for family, members in FAMILIES.items():
        accepted = [dtype for dtype in members if any(_accepts(call, dtype) for call in calls)]
        names += [family] if len(accepted) == len(members) else accepted
    return tuple(names)


def _accepts(call: Call, dtype: str) -> bool:
    tensors = [v for v in _variables(call) if isinstance(v.struct_info_, TensorStructInfo)]
    if not tensors:
        return False
    replaced = tensors[0].struct_info_.dtype

    def changed(arg: Any) -> Any:
        if isinstance(arg, Tuple):
            return Tuple([changed(item) for item in arg.fields])
        info = arg.struct_info_ if isinstance(arg, Var) else None
        if isinstance(info, TensorStructInfo) and info.dtype == replaced:
            return Var(arg.name_hint, TensorStructInfo(info.shape, dtype))
        return arg

    try:
        infer_call(call.replace(args=[changed(arg) for arg in call.args]))
    except (TypeError, ValueError):  # as DiagnosticError and OperatorError are
        return False
    return True


# --------------------------------------------------------------------------------------- pages


def groups() -> dict[str, list[Entry]]:
    """The operators by the title of their group; the greatest group first, as it is looked for most."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        found.setdefault(entry.group, []).append(entry)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def pages() -> dict[str, str]:
    """A page for each operator, by its path in docs/reference."""
    return {entry.path: _page(entry) for entry in entries()}


def table() -> str:
    """The families of element types, and a table for each group: what docs/reference/operators.md shows."""
    families = "\n".join(f"* **{name}**: {', '.join(dtypes)}" for name, dtypes in FAMILIES.items())
    return "\n\n".join([families, *(_group(title, members) for title, members in groups().items())])


def anchor(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w ]", "", title.lower()).replace(" ", "-")


def _group(title: str, members: list[Entry]) -> str:
    head = f"## {title}\n\n| operator | computes | elements | in TVM | ONNX |\n|---|---|---|---|---|"
    rows = [
        f"| [`{e.name}`]({e.path}) | {_cell(e.summary)} | {', '.join(e.dtypes) or '–'} | "
        f"{'yes' if e.in_tvm else 'no'} | {', '.join(e.onnx) or '–'} |"
        for e in members
    ]
    return "\n".join([head, *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _page(entry: Entry) -> str:
    # A search for a name also finds the names that begin with it; the shorter one is meant more often.
    boost = f"---\nsearch:\n  boost: {max(2.0, 40 / len(entry.name)):.1f}\n---"
    tvm = "TVM has an operator of this name." if entry.in_tvm else "TVM has no operator of this name."
    facts = [
        f"* Group: [{entry.group}](../operators.md#{anchor(entry.group)})",
        f"* Element types: {', '.join(entry.dtypes)}" if entry.dtypes else "",
        f"* {tvm}",
        f"* ONNX: {', '.join(entry.onnx)}" if entry.onnx else "",
    ]
    parts = [
        boost,
        f"# R.{entry.name}",
        f"```python no-run\n{entry.signature}\n```",
        entry.description,
        "\n".join(fact for fact in facts if fact),
        f"A call, and what is derived of its result:\n\n```python no-run\n{entry.example}\n```"
        if entry.example
        else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
