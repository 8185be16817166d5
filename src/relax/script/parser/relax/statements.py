"""Functions of `R` used as statements: dataflow, output, match_cast, func_attr."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ....ir import BaseFunc, RelaxExpr, StructInfo
from ....runtime.records import dataclass
from ....struct_info import ShapeStructInfo, TensorStructInfo
from ..core import Evaluator, SpecialForm
from ..core.diagnostics import CALL, PLACE, error
from .annotations import as_struct_info
from .values import convert_to_expr


@dataclass(frozen=True)
class DataflowFrame:
    """Value of ``R.dataflow()``."""


@dataclass(frozen=True)
class MatchCastValue:
    """Value of ``R.match_cast(value, struct_info)``; assigning it creates the MatchCast."""

    value: RelaxExpr
    struct_info: StructInfo


def _parser(name: str) -> Any:
    current = Evaluator.current()
    if not hasattr(current, "seq"):
        raise error(PLACE, f"R.{name} belongs inside an R.function", None)
    return current


def dataflow() -> DataflowFrame:
    """``with R.dataflow():`` opens a dataflow block."""
    return DataflowFrame()


def output(*values: Any) -> None:
    """``R.output(a, b)``: these variables of the dataflow block are visible after it."""
    _parser("output").dataflow_output(values)


def match_cast(value: Any, struct_info: Any) -> MatchCastValue:
    """``y = R.match_cast(x, R.Tensor((n, m), "float32"))``: check at run time, and bind new shape variables."""
    return MatchCastValue(convert_to_expr(value), as_struct_info(struct_info))


class _MatchShape(SpecialForm):
    """``R.match_shape(x, (n, m))``, an older spelling of match_cast, of tensors and of shapes."""

    def __call__(self, value: Any, pattern: Sequence[Any]) -> MatchCastValue:
        value_info: StructInfo | None = _parser("match_shape").known_info(value)
        if isinstance(value_info, ShapeStructInfo):
            return MatchCastValue(value, ShapeStructInfo(tuple(pattern)))
        dtype = value_info.dtype if isinstance(value_info, TensorStructInfo) else ""
        return MatchCastValue(value, TensorStructInfo(tuple(pattern), dtype))

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> MatchCastValue:
        if len(node.args) != 2 or node.keywords:
            evaluator.fail(CALL, "match_shape takes a value and the dimensions to match it with", node)
        value = convert_to_expr(evaluator.eval(node.args[0]))
        parser = _parser("match_shape")
        with parser.binding_dimensions(), parser.reading_dimensions():
            pattern: Any = evaluator.eval(node.args[1])
        dims = cast("Sequence[Any]", pattern if isinstance(pattern, (tuple, list)) else (pattern,))
        return self(value, dims)


match_shape = _MatchShape()


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the enclosing function."""
    _parser("func_attr").attrs.update(attrs)


def func_ret_struct_info(struct_info: Any) -> None:
    """Annotate the result of the enclosing function."""
    _parser("func_ret_struct_info").ret_struct_info = as_struct_info(struct_info)


def is_meta(value: Any) -> bool:
    """True for a parse-time value: assigning it only names it."""
    if isinstance(value, (RelaxExpr, MatchCastValue, BaseFunc)):
        return False
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[Any]", value)
        return bool(items) and all(is_meta(item) for item in items)
    return True
