"""Mutations that break a rule about struct info: 10, 14–17, 19, 20 and 22.

The broken struct info is put where annotations stand: on a variable bound to a value that was there before, on a
parameter, or into a match_cast.
"""

from __future__ import annotations

from relax.expr import DataTypeImm, MatchCast, ShapeExpr, Tuple, Var
from relax.ir import DataType, IRModule, StructInfo
from relax.op import zeros
from relax.prim import IntImm
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

from .choices import Choices
from .mutate_tree import LOST, Site, Table, any_tensor, insert, new_size, pick, rewrite, scan, with_param

TABLE = Table()


def annotate(module: IRModule, choices: Choices, info: StructInfo) -> IRModule | None:
    """The module with struct info, as it is or in a tuple, somewhere where it binds no shape variable."""
    site = pick(choices, scan(module).sites)
    return None if site is None else annotate_at(module, choices, site, info)


def annotate_at(module: IRModule, choices: Choices, site: Site, info: StructInfo) -> IRModule:
    """The same at a given place: a binding of a value that was there."""
    value = any_tensor(choices, site)
    if choices.chance(50):
        info, value = TupleStructInfo((info, ObjectStructInfo())), Tuple((value, value))
    return insert(module, site, site.bind("described", value, info.replace(span=site.span)))


def describe(module: IRModule, choices: Choices, info: StructInfo) -> IRModule | None:
    """The module with struct info that mentions no shape variable anywhere an annotation can stand."""
    kind = choices.pick(["binding", "parameter", "match_cast"])
    places = scan(module)
    if kind == "binding":
        return annotate(module, choices, info)
    if kind == "parameter":
        known = pick(choices, places.functions)
        if known is None:
            return None
        span = known.function.span
        param = Var("extra", info.replace(span=span), span=span)
        return rewrite(module, {known.function: with_param(known.function, param)})
    site = pick(choices, places.sites)
    if site is None:
        return None
    cast = MatchCast(site.new_var("cast"), any_tensor(choices, site), info.replace(span=site.span), span=site.span)
    return insert(module, site, cast)


# ------------------------------------------------------------------------------------------- rules


@TABLE.declare("E2010")
def ndim_is_another_number(module: IRModule, choices: Choices) -> IRModule | None:
    """Say an ndim that is not the number of dimensions, or no number of dimensions at all."""
    infos = [
        TensorStructInfo((4, 5), ndim=3),
        TensorStructInfo((), ndim=1),
        ShapeStructInfo((4,), ndim=2),
        TensorStructInfo(ndim=-2),
        ShapeStructInfo(ndim=-3),
    ]
    return describe(module, choices, choices.pick(infos))


@TABLE.declare("E2014")
def tensor_annotation_over_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a tensor annotation a size that nothing binds."""
    size = new_size()
    return annotate(module, choices, TensorStructInfo(choices.pick([(size,), (2, size + 1)]), "float32"))


@TABLE.declare("E2014")
def size_is_negative(module: IRModule, choices: Choices) -> IRModule | None:
    """Say a negative size in a tensor annotation."""
    return describe(module, choices, TensorStructInfo((choices.integer(-9, -1),), "float32"))


@TABLE.declare("E2014", text={"E1002"})
def shape_is_held_by_an_unbound_variable(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an annotation's shape be a variable that nothing binds."""
    stray = Var("stray", ShapeStructInfo(ndim=1))
    return annotate(module, choices, TensorStructInfo(stray, "float32"))


@TABLE.declare("E2014")
def shape_is_held_by_a_tensor(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an annotation's shape be a variable that holds a tensor."""
    found = [(s, v) for s in scan(module).sites for v in s.tensors()]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    return annotate_at(module, choices, chosen[0], TensorStructInfo(chosen[1], "float32", ndim=1))


@TABLE.declare("E2014")
def shape_variable_of_another_rank(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an annotation's shape be a variable that holds a shape of another rank."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    shape = site.bind("s", ShapeExpr((2, 3)), ShapeStructInfo((2, 3)))
    info = TensorStructInfo(shape.var, "float32", ndim=1, span=site.span)
    return insert(module, site, shape, site.bind("described", any_tensor(choices, site), info))


@TABLE.declare("E2014", text={"E1005"})
def shape_is_computed_in_the_annotation(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an annotation's shape be a call."""
    return annotate(module, choices, TensorStructInfo(zeros((2,), "int64"), "float32", ndim=2))


@TABLE.declare("E2015")
def shape_annotation_over_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a shape annotation a size that nothing binds."""
    size = new_size()
    return annotate(module, choices, ShapeStructInfo(choices.pick([(size,), (2, size * 2)])))


@TABLE.declare("E2016")
def prim_annotation_over_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a prim annotation a value that nothing binds."""
    size = new_size()
    return annotate(module, choices, PrimStructInfo(value=choices.pick([size, size + 1])))


@TABLE.declare("E2017")
def function_described_twice(module: IRModule, choices: Choices) -> IRModule | None:
    """Describe a function by params and by a derivation."""
    params = (TensorStructInfo((4,), "float32"),)
    both = FuncStructInfo(params, ObjectStructInfo(), derive_func="relax.default_derivation")
    return describe(module, choices, both)


@TABLE.declare("E2017", text=LOST)
def function_not_described(module: IRModule, choices: Choices) -> IRModule | None:
    """Describe a function by neither params nor a derivation."""
    return describe(module, choices, FuncStructInfo(None, ObjectStructInfo()))


@TABLE.declare("E2019")
def prim_annotation_of_no_number(module: IRModule, choices: Choices) -> IRModule | None:
    """Describe a scalar as a handle, or as nothing."""
    return describe(module, choices, PrimStructInfo(choices.pick(["handle", ""])))


@TABLE.declare("E2020")
def unsupported_dtype(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a dtype with lanes, or of a width the language does not have."""
    dtype = DataType(choices.pick(["float32x4", "int1", "int1x4", "int64x2", "boolx8"]))
    if choices.chance(50):
        return describe(module, choices, TensorStructInfo((2,), dtype))
    site = pick(choices, scan(module).sites)
    return None if site is None else insert(module, site, site.bind("dtype", DataTypeImm(dtype)))


@TABLE.declare("E2022")
def prim_value_of_another_dtype(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a prim annotation a value of another dtype."""
    wrong = [PrimStructInfo("int32", IntImm("int64", 3)), PrimStructInfo("bool", IntImm("int8", 1))]
    return describe(module, choices, choices.pick(wrong))


__all__ = ["TABLE", "annotate", "describe"]
