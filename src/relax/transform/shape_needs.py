"""The expressions over shape variables whose values a function needs."""

from __future__ import annotations

from typing import cast

from ..expr import Call, Function, If, MatchCast, PrimValue, SeqExpr, ShapeExpr, Tuple, VarBinding
from ..info.mapping import dims_of, fields_in
from ..ir import RelaxExpr, StructInfo
from ..prim import FloatImm, IntImm, PrimExpr
from ..prim import Var as PrimVar
from ..prim.totality import scalar_never_fails
from ..struct_info import FuncStructInfo, ObjectStructInfo, TupleStructInfo
from .shape_code import ExprTable

_OBJECT = ObjectStructInfo()


def shape_needs(func: Function) -> list[PrimExpr]:
    """The expressions a function uses, each once, in order: those only that cannot fail.

    What the result is checked against is not among them: that check is seldom needed.
    """
    return _Needs(func).found


def all_dims(info: StructInfo) -> list[PrimExpr]:
    """The dimensions of a struct info, its fields, and a function's parameters and result; of each object once."""
    dims: list[PrimExpr] = []
    seen: set[int] = set()
    pending = [info]
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            dims += dims_of(item)
            inner = (*(item.params or ()), item.ret) if isinstance(item, FuncStructInfo) else ()
            pending += reversed(item.fields if isinstance(item, TupleStructInfo) else inner)
    return dims


class _Needs:
    """Collects them."""

    def __init__(self, func: Function) -> None:
        self.found: list[PrimExpr] = []
        self._seen: ExprTable[bool] = ExprTable()
        for param in func.params:
            self.info(param.struct_info_ or _OBJECT)
        self.seq(cast(SeqExpr, func.body))

    def add(self, value: PrimExpr) -> None:
        if isinstance(value, IntImm | FloatImm | PrimVar) or self._seen.get(value):
            return
        self._seen.put(True, value)
        if scalar_never_fails(value):
            self.found.append(value)

    def info(self, info: StructInfo) -> None:
        for field in fields_in(info):
            for dim in dims_of(field):
                self.add(dim)

    def seq(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                if isinstance(binding, MatchCast):
                    self.info(binding.struct_info)
                    self.leaf(binding.value)
                elif isinstance(binding, VarBinding):
                    self.value(binding.value)
        self.leaf(seq.body)

    def value(self, value: RelaxExpr) -> None:
        match value:
            case If(_, yes, no):
                self.seq(cast(SeqExpr, yes))
                self.seq(cast(SeqExpr, no))
            case Call(_, args):
                for arg in args:
                    self.leaf(arg)
            case _:
                self.leaf(value)

    def leaf(self, leaf: RelaxExpr) -> None:
        match leaf:
            case Tuple(fields):
                for field in fields:
                    self.leaf(field)
            case ShapeExpr(values):
                for value in values:
                    self.add(value)
            case PrimValue(value):
                self.add(value)
            case _:
                pass
