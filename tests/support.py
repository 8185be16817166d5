"""Helpers that test files share: seeded numbers, programs from text, and one comparison of all ways to run a program.

    from support import agree, module, numbers

    agree(module(MAIN), numbers(3, 4))              # a Relax program: its function `main`
    agree(prim_func(TEXT), numbers(3, 4), np.zeros((3, 4)))    # a PrimFunc, which writes into its arguments

`agree` is the oracle: the program is well-formed, survives printing and parsing, and computes the same interpreted,
lowered and compiled at each optimisation level. A test that needs less calls one of the parts: `machine`,
`interpreted`, `same`.
"""

from __future__ import annotations

import cProfile
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

import relax
from relax import tir
from relax.analysis import assert_well_formed
from relax.codegen import build_module
from relax.ir import IRModule, assert_structural_equal
from relax.ir.transform import PassContext, VerifyInstrument
from relax.runtime import VirtualMachine
from relax.script import from_source
from relax.tir import PrimFunc

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RUNTIME = Path(__file__).parents[1] / "packages" / "runtime"
"""Distribution of the runtime alone."""

Array = np.ndarray[Any, Any]
T = TypeVar("T")

PLAIN_LOOPS = "llvm -opt-level=1"
"""Loops as written: the target of tests whose subject is not the loops. It compiles in a third of the time."""

MODES = ("bytecode", "compiled")
"""Execution modes of a VirtualMachine."""

# ----------------------------------------------------------------------------------------------- numbers


def numbers(
    *shape: int, dtype: str = "float32", seed: int = 0, low: float | None = None, high: float | None = None
) -> Array:
    """Return seeded random numbers of a shape and dtype (ml_dtypes' names included).

    Floats are standard normal, or uniform in [low, high) if both are given; integers are uniform in [low, high),
    by default [-8, 8), or [0, 8) if unsigned; bools are fair.
    """
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype) if dtype in np.sctypeDict else np.dtype(getattr(ml_dtypes, dtype))
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        least = (0 if kind.kind == "u" else -8) if low is None else int(low)
        return rng.integers(least, 8 if high is None else int(high), shape).astype(kind)
    if low is not None and high is not None:
        return rng.uniform(low, high, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


# ------------------------------------------------------------------------------------ programs from text


def prim_func(text: str, **names: Any) -> PrimFunc:
    """Parse one `@T.prim_func`; `names` are values that its text may use."""
    func = from_source(textwrap.dedent(text), names or None)
    assert isinstance(func, PrimFunc)
    return func


def parse(text: str, **names: Any) -> IRModule:
    """Parse a module, or one function, which becomes the member `main`. The text begins on line 2."""
    parsed = from_source("\n" + textwrap.dedent(text).strip() + "\n", names or None)
    return parsed if isinstance(parsed, IRModule) else IRModule({"main": parsed})


def module(*functions: str, **names: Any) -> IRModule:
    """Parse the text of functions, each with its decorator, as the members of one `@I.ir_module`."""
    members = textwrap.indent("\n".join(textwrap.dedent(text).strip("\n") for text in functions), "    ")
    parsed = from_source(f"@I.ir_module\nclass Module:\n{members}\n", names or None)
    assert isinstance(parsed, IRModule)
    return parsed


def main(body: str, params: str = 'x: R.Tensor(("n",), "float32")', *others: str, pure: bool = True) -> IRModule:
    """Parse a module whose Relax function `main` has these parameters and statements; `others` as for `module`."""
    decorator = "@R.function" if pure else "@R.function(pure=False)"
    statements = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return module(*others, f"{decorator}\ndef main({params}):\n{statements}")


def nodes(root: Any, kind: type[T]) -> list[T]:
    """Return the nodes of a class under a TIR node, in post-order."""
    found: list[T] = []
    tir.post_order_visit(root, lambda node: found.append(node) if isinstance(node, kind) else None)
    return found


# --------------------------------------------------------------------------------------------------- work


def calls(action: Callable[..., object], *args: Any) -> int:
    """Return the number of function calls of `action(*args)`, Python's and C's: work, whatever the load of the machine."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        action(*args)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


# --------------------------------------------------------------------------------------- ways to run one


def machine(mod: IRModule, target: str = "llvm", exec_mode: str = "compiled") -> VirtualMachine:
    """Build a module, verifying what each pass returns, and load it into a VirtualMachine for the CPU."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        return VirtualMachine(relax.build(mod, target, exec_mode=exec_mode), relax.cpu())


def plain_machine(mod: IRModule, exec_mode: str = "compiled") -> VirtualMachine:
    """Build a module with its loops as written (`PLAIN_LOOPS`) and without verification: the quickest way to run it."""
    return VirtualMachine(relax.build(mod, PLAIN_LOOPS, exec_mode=exec_mode), relax.cpu())


def run(mod: IRModule, *args: Any, name: str = "main") -> Any:
    """Return the result of a module's function `name` on the `plain_machine`, its tensors as arrays."""
    return values(plain_machine(mod)[name](*args))


def interpreted(
    func: PrimFunc, *args: Any, reverse_parallel: bool = False, module: IRModule | None = None
) -> list[Any]:
    """Return the arguments after `tir.interpret` ran on copies of them."""
    copies = _copies(args)
    tir.interpret(func, *copies, module=module, reverse_parallel=reverse_parallel)
    return copies


def compiled(func: PrimFunc | IRModule, *args: Any, target: str = "llvm") -> list[Any]:
    """Return the arguments after the compiled function, or a module's `main`, ran on copies of them."""
    copies = _copies(args)
    build_module(func if isinstance(func, IRModule) else {"main": func}, target)["main"](*copies)
    return copies


def _copies(args: Sequence[Any]) -> list[Any]:
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


# ---------------------------------------------------------------------------------------- equal results


def values(result: Any) -> Any:
    """Return a result with its tensors as arrays, tuples and lists as lists, and all else unchanged."""
    if isinstance(result, np.ndarray | np.generic):
        return np.asarray(result)
    if hasattr(result, "numpy"):
        return np.asarray(result.numpy())
    if isinstance(result, relax.ShapeTuple):
        return result
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return [values(item) for item in result]
    return result


def same(found: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Assert that results have one structure, and tensors one dtype, shape and value; NaN equals NaN.

    Without a tolerance, floats are equal if they compare equal: 0.0 is -0.0.
    """
    found, expected = values(found), values(expected)
    if isinstance(expected, list):
        assert isinstance(found, list), f"expected a tuple, found {found}"
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, rtol, atol)
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray), f"expected a tensor, found {found}"
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
        else:
            wide = [value if value.dtype.kind == "f" else value.astype("float64") for value in (found, expected)]
            np.testing.assert_allclose(*wide, rtol=rtol, atol=atol)
    else:
        assert found == expected


# ------------------------------------------------------------------------------------------------- work


def python_calls(function: Callable[[], object], most: int = 20_000_000) -> int:
    """Return the number of Python functions that `function()` calls: its work, the same on any machine.

    Fails at `most` calls, so that work which grows exponentially ends.
    """
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        if event == "call":
            count += 1
            assert count <= most, f"more than {most} calls"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def wait_until(condition: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait for a condition that another thread or process brings about. The bound is far above any time it takes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} seconds"
        time.sleep(0.01)


def packed_runtime(home: Path) -> Path:
    """Return a folder with the files of relax-runtime where it packs them: the value of PYTHONPATH without the compiler."""
    project = tomllib.loads((RUNTIME / "pyproject.toml").read_text(encoding="utf-8"))
    for source, target in project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].items():
        path = home / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to((RUNTIME / source).resolve())
    return home


# ------------------------------------------------------------------------------------------- the oracle


def agree(
    program: PrimFunc | IRModule,
    *args: Any,
    expected: Any = None,
    name: str = "main",
    levels: Sequence[int] = (1, 3),
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> Any:
    """Assert that a program computes the same however it is run; return what the interpreter computes.

    A PrimFunc writes into its arguments: of these, copies are passed, and returned. It is interpreted as it is and
    lowered, with parallel loops in both orders (the same bits), and compiled at each of `levels` (within `rtol` and
    `atol`: products may be fused into sums). A module's function `name` is interpreted, and built at each of `levels` in
    both execution modes, which return the same bits. With `expected`, NumPy's result: a module's, or that of the last
    array argument of a PrimFunc.
    """
    if isinstance(program, PrimFunc):
        return _agree_prim_func(program, args, expected, levels, rtol, atol)
    assert_well_formed(program)
    assert_structural_equal(from_source(program.script()), program)
    result = relax.interpret(program, name, *args)
    if expected is not None:
        same(result, expected, rtol, atol)
    for level in levels:
        target = f"llvm -opt-level={level}"
        found = values(machine(program, target)[name](*args))
        same(found, result, rtol, atol)
        same(machine(program, target, "bytecode")[name](*args), found)
    return result


def _agree_prim_func(
    func: PrimFunc, args: Sequence[Any], expected: Any, levels: Sequence[int], rtol: float, atol: float
) -> list[Any]:
    tir.verify_well_formed(func)
    assert_structural_equal(from_source(func.script()), func)
    lowered = tir.lower(func)
    assert tir.lower(lowered) is lowered
    result = interpreted(func, *args)
    same(interpreted(lowered, *args), result)
    same(interpreted(lowered, *args, reverse_parallel=True), result)
    for level in levels:
        same(compiled(func, *args, target=f"llvm -opt-level={level}"), result, rtol, atol)
    if expected is not None:
        same([arg for arg in result if isinstance(arg, np.ndarray)][-1], expected, rtol, atol)
    return result
