"""Makes a failing program small, by changes of its syntax tree, while the same property fails in the same way.

    text, cases = reduce(text, cases, fails)
    print(ready_test("agrees", text, cases, exact))

`fails` says of a program how it fails: a text that must stay the same, or None. What it cannot parse does not fail.
Each change is tried and kept if it helps; they are repeated, the large ones first, until none does.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import relax

Case = list[Any]
Fails = Callable[[str, list[Case]], "str | None"]
Change = Callable[[], None]
Candidates = Callable[[ast.Module], "Iterator[ast.Module | tuple[ast.Module, int]]"]


class Reduction:
    """A program that fails, and the smallest found so far."""

    def __init__(
        self,
        text: str,
        cases: Sequence[Case],
        fails: Fails,
        seconds: float = 120,
        candidates: Sequence[Candidates] | None = None,
    ) -> None:
        self.candidates = candidates or RELAX
        self.text = ast.unparse(ast.parse(text))
        self.cases = [list(case) for case in cases]
        self.fails = fails
        self.kind = fails(text, self.cases)
        if self.kind is None:
            raise ValueError("reduce: the program does not fail")
        self.until = time.monotonic() + seconds
        self.tried: set[str] = {self.text}
        if fails(self.text, self.cases) != self.kind:
            self.text = text  # the layout matters, strangely

    # -------------------------------------------------------------------------------- trying

    def keep(self, text: str, cases: list[Case]) -> bool:
        """Whether a smaller program fails too; then it is the one to go on with."""
        key = f"{text}\n{cases}"
        if key in self.tried or time.monotonic() > self.until:
            return False
        self.tried.add(key)
        if self.fails(text, cases) != self.kind:
            return False
        self.text, self.cases = text, cases
        return True

    def run(self) -> None:
        """Reduce until nothing helps, or the time is over."""
        for case in self.cases:
            if len(self.cases) > 1 and self.keep(self.text, [case]):
                break
        before = None
        while before != (self.text, str(self.cases)) and time.monotonic() < self.until:
            before = self.text, str(self.cases)
            for candidates in self.candidates:
                self.sweep(candidates)
            self.smaller_inputs()

    def sweep(self, candidates: Candidates) -> None:
        """Try all changes of a sort; after one that helped, those of the changed program that come after it."""
        start = 0
        while time.monotonic() < self.until:
            tree = ast.parse(self.text)
            for index, candidate in enumerate(candidates(tree)):
                if index < start:
                    continue
                changed, dropped = candidate if isinstance(candidate, tuple) else (candidate, None)
                cases = self.cases
                if dropped is not None:
                    cases = [[arg for i, arg in enumerate(case) if i != dropped] for case in cases]
                if self.keep(_unparse(changed), cases):
                    start = index
                    break
            else:
                return

    # -------------------------------------------------------------------------------- inputs

    def smaller_inputs(self) -> None:
        """Smaller sizes (all dimensions of one size together), and simpler elements."""
        for case in list(self.cases):
            for size in sorted({d for arg in case if isinstance(arg, np.ndarray) for d in arg.shape}, reverse=True):
                if size:
                    memo: dict[int, Any] = {}
                    self.keep(self.text, [[memo.setdefault(id(arg), _shrunk(arg, size)) for arg in case]])
        for case in list(self.cases):
            for index, arg in enumerate(case):
                for simpler in _simpler(arg):
                    if self.keep(self.text, [[*case[:index], simpler, *case[index + 1 :]]]):
                        break


def reduce(
    text: str, cases: Sequence[Case], fails: Fails, seconds: float = 120, candidates: Sequence[Candidates] | None = None
) -> tuple[str, list[Case]]:
    """A smaller program, and inputs, that fail in the same way. Raises ValueError if it does not fail at all.

    `candidates` are the changes that are tried, by default those of Relax functions.
    """
    reduction = Reduction(text, cases, fails, seconds, candidates)
    reduction.run()
    return reduction.text, reduction.cases


def _unparse(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


# -------------------------------------------------------------------------------------------- changes


def _class(tree: ast.Module) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef))


def _variants(tree: ast.Module, changes: Callable[[ast.Module], list[Change]]) -> Iterator[ast.Module]:
    """A copy of a tree for each of its changes, which `changes` finds in a copy."""
    for index in range(len(changes(copy.deepcopy(tree)))):
        other = copy.deepcopy(tree)
        changes(other)[index]()
        yield other


def functions(tree: ast.Module) -> Iterator[ast.Module]:
    """Without one of the functions."""

    def changes(tree: ast.Module) -> list[Change]:
        body = _class(tree).body
        others = [node for node in body if not (isinstance(node, ast.FunctionDef) and node.name == "main")]
        return [lambda node=node: body.remove(node) for node in others]

    yield from _variants(tree, changes)


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    found: list[list[ast.stmt]] = []
    for node in ast.walk(_class(tree)):
        for name in ("body", "orelse"):
            value = getattr(node, name, None)
            if isinstance(value, list) and value and not isinstance(node, ast.ClassDef):
                found.append(value)
    return found


def statements(tree: ast.Module) -> Iterator[ast.Module]:
    """Without a run of statements: half of a body, a quarter, …, a single one."""

    def changes(tree: ast.Module) -> list[Change]:
        found: list[tuple[int, Change]] = []
        for body in _bodies(tree):
            size = max(1, len(body) // 2)
            while size:
                for start in range(len(body) - size, -1, -max(1, size // 2) if size > 1 else -1):
                    found.append((size, lambda body=body, a=start, b=start + size: _cut(body, a, b)))
                size //= 2
        return [change for _, change in sorted(found, key=lambda item: -item[0])]

    yield from _variants(tree, changes)


def _cut(body: list[ast.stmt], start: int, end: int) -> None:
    del body[start:end]
    if not body:
        body.append(ast.Pass())


def blocks(tree: ast.Module) -> Iterator[ast.Module]:
    """What stands in a block or a branch stands outside of it."""

    def changes(tree: ast.Module) -> list[Change]:
        found: list[Change] = []
        for body in _bodies(tree):
            for index, node in enumerate(body):
                options: list[list[ast.stmt]] = []
                if isinstance(node, ast.If):
                    options = [node.body, node.orelse]
                elif isinstance(node, (ast.With, ast.For)):
                    options = [[inner for inner in node.body if not _is_output(inner)]]
                for option in options:
                    found.append(lambda b=body, i=index, o=option: b.__setitem__(slice(i, i + 1), o))
        return found

    yield from _variants(tree, changes)


def _is_output(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and "R.output" in ast.unparse(node)


def parameters(tree: ast.Module) -> Iterator[tuple[ast.Module, int] | ast.Module]:
    """Without a parameter, and without what is passed for it."""
    for function in [node for node in _class(tree).body if isinstance(node, ast.FunctionDef)]:
        for index in range(len(function.args.args)):
            other = copy.deepcopy(tree)
            target = next(n for n in _class(other).body if isinstance(n, ast.FunctionDef) and n.name == function.name)
            del target.args.args[index]
            if function.name == "main":
                yield other, index
                continue
            for call in ast.walk(other):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == function.name
                    and index < len(call.args)
                ):
                    del call.args[index]
            yield other


def results(tree: ast.Module) -> Iterator[ast.Module]:
    """With fewer results; and without the annotation of the result."""

    def changes(tree: ast.Module) -> list[Change]:
        found: list[Change] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                found.append(lambda node=node: setattr(node, "returns", None))
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                for element in node.value.elts:
                    found.append(lambda node=node, element=element: setattr(node, "value", element))
                for index in range(len(node.value.elts)):
                    found.append(lambda node=node, index=index: node.value.elts.pop(index))
            is_output = isinstance(node, ast.Expr) and _is_output(node)
            if is_output and isinstance(node.value, ast.Call) and len(node.value.args) > 1:
                for index in range(len(node.value.args)):
                    found.append(lambda node=node, index=index: node.value.args.pop(index))
        return found

    yield from _variants(tree, changes)


def annotations(tree: ast.Module) -> Iterator[ast.Module]:
    """Bindings without annotations; decorators without arguments."""

    def changes(tree: ast.Module) -> list[Change]:
        found: list[Change] = []
        for body in _bodies(tree):
            for index, node in enumerate(body):
                if isinstance(node, ast.AnnAssign) and node.value is not None:
                    plain = ast.Assign([node.target], node.value, lineno=0)
                    found.append(lambda b=body, i=index, p=plain: b.__setitem__(i, p))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for index, decorator in enumerate(node.decorator_list):
                    if isinstance(decorator, ast.Call):
                        found.append(lambda n=node, i=index, d=decorator: n.decorator_list.__setitem__(i, d.func))
        return found

    yield from _variants(tree, changes)


def expressions(tree: ast.Module) -> Iterator[ast.Module]:
    """An expression replaced by a part of it, by a parameter or another variable; attributes left out."""

    def changes(tree: ast.Module) -> list[Change]:
        found: list[Change] = []
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
            names = [arg.arg for arg in function.args.args]
            for statement in _own_statements(function):
                value = getattr(statement, "value", None)
                if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) or value is None:
                    continue
                for name in names:
                    if not (isinstance(value, ast.Name) and value.id == name):
                        found.append(lambda s=statement, n=name: setattr(s, "value", ast.Name(n, ast.Load())))
                for part in _parts(value):
                    found.append(lambda s=statement, p=part: setattr(s, "value", p))
                found += _inner_changes(value, names)
        return found

    yield from _variants(tree, changes)


def _own_statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    pending: list[ast.stmt] = list(function.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef):
            continue
        yield node
        for name in ("body", "orelse"):
            pending += getattr(node, name, [])


def _parts(value: ast.expr) -> list[ast.expr]:
    """The operands of a call, the fields of a tuple."""
    match value:
        case ast.Call(args=args):
            found = list(args)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            found = list(elts)
        case ast.Subscript(value=inner):
            found = [inner]
        case ast.BinOp(left=left, right=right):
            found = [left, right]
        case _:
            return []
    return [part for part in found if not isinstance(part, ast.Constant)]


def _inner_changes(value: ast.expr, names: list[str]) -> list[Change]:
    """Changes of the arguments of calls, however deep."""
    found: list[Change] = []
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            for index, keyword in enumerate(node.keywords):
                if keyword.arg not in ("sinfo_args", "out_sinfo", "inplace_indices"):
                    found.append(lambda n=node, i=index: n.keywords.pop(i))
        lists = [node.args] if isinstance(node, ast.Call) else []
        if isinstance(node, (ast.Tuple, ast.List)):
            lists.append(node.elts)
        for items in lists:
            for index, item in enumerate(items):
                for part in [*_parts(item), *(ast.Name(n, ast.Load()) for n in names)]:
                    if ast.dump(part) != ast.dump(item):
                        found.append(lambda items=items, i=index, p=part: items.__setitem__(i, p))
            if len(items) > 1:
                found += [lambda items=items, i=index: items.pop(i) for index in range(len(items))]
    return found


RELAX: tuple[Candidates, ...] = (functions, statements, blocks, parameters, results, annotations, expressions)
"""The changes of Relax functions, the large ones first."""


# --------------------------------------------------------------------------------------------- inputs


def _shrunk(arg: Any, size: int) -> Any:
    """A value with dimensions of one size made one smaller."""
    if isinstance(arg, np.ndarray):
        return np.array(arg[tuple(slice(0, d - 1) if d == size else slice(None) for d in arg.shape)])
    if isinstance(arg, relax.ShapeTuple):
        return relax.ShapeTuple([d - 1 if d == size else d for d in arg])
    if isinstance(arg, tuple):
        return tuple(_shrunk(item, size) for item in arg)
    if isinstance(arg, int) and not isinstance(arg, bool):
        return arg - 1 if arg == size else arg
    return arg


def _simpler(arg: Any) -> Iterator[Any]:
    if isinstance(arg, np.ndarray) and arg.size:
        for value in (0, 1):
            if not np.array_equal(arg, np.full_like(arg, value)):
                yield np.full_like(arg, value)
        ones = np.nan_to_num(arg, nan=1, posinf=1, neginf=1) if arg.dtype.kind == "f" else arg
        if not np.array_equal(ones, arg):
            yield ones
    elif isinstance(arg, int) and not isinstance(arg, bool) and arg:
        yield 0
    elif isinstance(arg, tuple) and not isinstance(arg, relax.ShapeTuple):
        for index, item in enumerate(arg):
            for simpler in _simpler(item):
                yield (*arg[:index], simpler, *arg[index + 1 :])


# ---------------------------------------------------------------------------------------- ready tests


def python_text(value: Any) -> str:
    """A value as Python."""
    if isinstance(value, np.ndarray):
        if not value.size:
            return f'np.zeros({value.shape}, "{value.dtype}")'
        return f'np.array({_numbers(value.tolist())}, "{value.dtype}")'
    if isinstance(value, relax.ShapeTuple):
        return f"relax.ShapeTuple({list(value)})"
    if isinstance(value, tuple):
        return f"({''.join(python_text(item) + ', ' for item in value)})"
    if callable(value):
        return 'relax.get_global_func("fuzz.sum")'
    return repr(value)


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    text = repr(value)
    return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}.get(text, text)


def ready_test(
    property_name: str, text: str, cases: Sequence[Case], exact: bool, comment: str = "", **options: Any
) -> str:
    """A pytest test of a program: it fails as long as the property does not hold."""
    shared = _shared(cases)
    names = {id(array): f"array{i}" for i, array in enumerate(shared)}
    setup = "".join(f"    {names[id(array)]} = {python_text(array)}\n" for array in shared)
    shown = lambda arg: names.get(id(arg)) or python_text(arg)  # noqa: E731
    rows = "".join(f"        [{', '.join(map(shown, case))}],\n" for case in cases)
    body = "\n".join("    " + line if line else "" for line in text.strip("\n").splitlines())
    note = "".join(f"    # {line}\n" for line in comment.splitlines()[:3])
    more = "".join(f", {name}={value!r}" for name, value in options.items())
    exactly = "" if exact else ", exact=False"
    modules = {
        "tir_agrees": "tir_properties", "schedules_agree": "schedule_properties", "erased_agree": "erasing",
    }  # fmt: skip
    module = modules.get(property_name, "properties")
    return (
        f"import textwrap\n\nimport numpy as np\nimport relax\nfrom differential import {module}\n\n\n"
        f"def test_found_{property_name}():\n{note}"
        f'    text = """\n{body}\n    """\n'
        f"{setup}    cases = [\n{rows}    ]\n"
        f"    {module}.{property_name}(textwrap.dedent(text), cases{exactly}{more})\n"
    )


def _shared(cases: Sequence[Case]) -> list[Any]:
    """The arrays that are given as several arguments."""
    arrays = [arg for case in cases for arg in case if isinstance(arg, np.ndarray)]
    counts = {id(array): sum(other is array for other in arrays) for array in arrays}
    return list({id(array): array for array in arrays if counts[id(array)] > 1}.values())
