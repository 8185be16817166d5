"""Namespaces available to script text: R, T, I, and the modules of `import relax` and `import tvm`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ...ir import DataType
from ...prim import expr as prim
from ...struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from . import ir, relax, tir
from .core import Namespace


class Library(Namespace):
    """A fixed table of names."""

    def __init__(self, label: str, members: Mapping[str, Any]) -> None:
        self.__script_name__ = label
        self.__members = dict(members)

    def __dir__(self) -> list[str]:
        return list(self.__members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.__members:
            raise AttributeError(name)
        return self.__members[name]


@cache
def library_namespaces() -> dict[str, Any]:
    """Names at the top level of a text."""
    script = Library("script", {"ir_module": ir.ir_module, "ir": ir, "relax": relax, "tir": tir})
    scalars = Library(
        "tir", {"Var": prim.Var, "SizeVar": prim.SizeVar, "IntImm": prim.IntImm, "FloatImm": prim.FloatImm}
    )
    infos = {
        cls.__name__: cls
        for cls in (
            FuncStructInfo, ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo,
            TupleStructInfo,
        )
    }  # fmt: skip
    shared = {"script": script, "tir": scalars, "ir": Library("ir", {"load_json": ir.load_json}), "DataType": DataType}
    relax_library = Library("relax", {**shared, **infos})
    tvm_library = Library("tvm", {**shared, "relax": relax_library})
    return {"R": relax, "T": tir, "I": ir, "relax": relax_library, "tvm": tvm_library, "tir": scalars}
