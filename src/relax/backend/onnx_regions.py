"""Regions of programs as ONNX models, for libraries that read those: what a library takes, and its modules.

A module's code is a line of JSON that describes the model, then the model (`relax.runtime.libraries.onnx_code`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from onnx import ModelProto, ValueInfoProto

from ..dpl import wildcard
from ..expr import Call, Constant, Function, Tuple, Var, VarBinding
from ..frontend.onnx import to_onnx
from ..frontend.onnx.export.graph import ELEMENT_TYPES
from ..ir import DiagnosticError, IRModule, Op, RelaxExpr, StructInfo
from ..op import Operator, operator_of
from ..prim import IntImm
from ..runtime.modules import Module
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.fusion.fuse_ops_by_pattern import FusionPattern, PatternCheckContext
from ..transform.fusion.outline import outlined
from ..transform.run_codegen import ConstantNames, Generator

_REMEMBERED = 4096
"""Models of which a library's answer is kept."""

Accepts: TypeAlias = "Callable[[bytes], bool]"
"""True if a library runs a model of one operator."""

Takes: TypeAlias = "Callable[[Operator, Sequence[TensorStructInfo], Sequence[TensorStructInfo]], bool]"
"""True if a library computes an operator as the language says, given its tensors and its results."""

_DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}
_SMALL = 4096
"""Greatest size in bytes of constants that are in the model when a library is asked."""


def onnx_patterns(library: str, dtypes: Collection[str], takes: Takes, accepts: Accepts) -> list[FusionPattern]:
    """Return the patterns of a library that reads ONNX: each call of an operator that ONNX can say and it accepts.

    Parameters
    ----------
    library
        The name of the library, with which the name of the pattern begins.
    dtypes
        Dtypes of tensors that it is given.
    takes
        Decides if the library computes an operator as the language says.
    accepts
        Asked for a model of the operator alone.
    """

    asked = lru_cache(maxsize=_REMEMBERED)(accepts)

    def check(context: PatternCheckContext) -> bool:
        call = context.matched_expr
        operator = operator_of(call) if isinstance(call, Call) and isinstance(call.op, Op) else None
        if operator is None or not operator.pure or not isinstance(call, Call):
            return False
        result, given = call.struct_info, [arg.struct_info for arg in call.args]
        operands, results = tensors_in(given), tensors_in([result])
        if operands is None or not results or any(info.dims is None for info in results):
            return False
        if not all(info.ndim >= 0 and str(info.dtype) in dtypes for info in (*operands, *results)):
            return False
        if not takes(operator, operands, results):
            return False
        try:
            return asked(_model(_alone(call)).SerializeToString())
        except DiagnosticError:
            return False

    return [FusionPattern(f"{library}.operator", wildcard()(varg_default_wildcard=True), check=check)]


def tensors_in(infos: Iterable[StructInfo]) -> list[TensorStructInfo] | None:
    """Return the tensors in arguments, those in tuples in their places; None if there is a value of unknown kind."""
    found: list[TensorStructInfo] = []
    for info in infos:
        match info:
            case TensorStructInfo():
                found.append(info)
            case TupleStructInfo(fields):
                nested = tensors_in(fields)
                if nested is None:
                    return None
                found += nested
            case ShapeStructInfo() | PrimStructInfo():
                pass
            case _:
                return None
    return found


def is_empty(info: TensorStructInfo) -> bool:
    """Return True for a tensor without elements."""
    return any(isinstance(size, IntImm) and size.value == 0 for size in info.dims or ())


def may_be_empty(info: TensorStructInfo) -> bool:
    """Return True unless each size of a tensor is known and is not 0."""
    return info.dims is None or not all(isinstance(size, IntImm) and size.value > 0 for size in info.dims)


def onnx_codegen(kind: str, options_of: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Generator:
    """Return a code generator that makes a module of `kind`, with an ONNX model, of each function.

    `options_of` checks the options of the library and returns those that the module keeps.
    """

    def generate(functions: Sequence[Function], options: dict[str, Any], names: ConstantNames) -> list[Module]:
        modules: list[Module] = []
        for function in functions:
            model = _model(function)
            ports = {"inputs": _ports(model.graph.input), "outputs": _ports(model.graph.output)}
            code = (
                json.dumps({**ports, "options": dict(options_of(options))}).encode() + b"\n" + model.SerializeToString()
            )
            modules.append(Module(kind, code, (str(function.attrs["global_symbol"]),)))
        return modules

    return generate


def _ports(values: Iterable[ValueInfoProto]) -> list[tuple[str, str]]:
    """Return the name and dtype of each input or output."""
    return [(value.name, _DTYPES[value.type.tensor_type.elem_type]) for value in values]


def options_among(library: str, known: Mapping[str, Callable[[Any], bool]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a library. Raises ValueError for one that it does not know, or of another value."""
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{library} has no option {name!r}; there is: {', '.join(known)}")
        if not known[name](value):
            raise ValueError(f"{library}: the option {name} cannot be {value!r}")
    return dict(given)


def is_thread_count(value: Any) -> bool:
    """Return True for a number of threads."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _model(function: Function) -> ModelProto:
    """Return a function as an ONNX model. Raises DiagnosticError (E6008, E6009) if ONNX cannot say it."""
    return to_onnx(IRModule({"main": function.replace(attrs={})}))


def _alone(call: Call) -> Function:
    """Return the function of a call alone, large constants as parameters. Names are the same for each such call."""
    names: dict[RelaxExpr, Var] = {}

    def given(arg: RelaxExpr) -> RelaxExpr:
        if isinstance(arg, Tuple):
            return arg.replace(fields=tuple(map(given, arg.fields)))
        large = isinstance(arg, Constant) and math.prod(arg.content.shape) * arg.dtype.bits > 8 * _SMALL
        if large or isinstance(arg, Var):
            return names.setdefault(arg, Var(f"x{len(names)}", arg.struct_info))
        return arg

    plain = call.replace(args=tuple(map(given, call.args)), span=None)
    return outlined([VarBinding(Var("y", call.struct_info), plain)], {}, lift_constants=False).function
