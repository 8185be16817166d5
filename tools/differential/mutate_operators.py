"""Mutations that break the rules of operators and intrinsics: operands, shapes, dtypes, axes, devices; call_tir, in-place calls.

A call that is there is given another operand, or a wrong call is bound to a new variable. The PrimFuncs that calls
in destination-passing style need are brought along.
"""

from __future__ import annotations

import numpy as np

from relax import op
from relax.expr import Call, Constant, MatchCast, PrimValue, ShapeExpr, Tuple, VarBinding, const
from relax.ir import GlobalVar, IRModule, Op, RelaxExpr, VDevice
from relax.op import operator_of
from relax.op.intrinsics import CallTIR, CallTIRInplace
from relax.op.operands import Operand
from relax.script import from_source
from relax.struct_info import ObjectStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from relax.tir import PrimFunc

from .choices import Choices
from .mutate_derivation import DERIVE, put
from .mutate_tree import Site, Table, any_tensor, change, insert, pick, scan, tensor_info, with_operand

TABLE = Table()

BUILD = "build"


def zeros(*shape: int, dtype: str = "float32") -> Constant:
    """A constant tensor."""
    return Constant(np.zeros(shape, dtype))


# ------------------------------------------------------------------------------------------- operands


def _operands(call: Call) -> list[tuple[int, Operand]]:
    """The operands of an operator's call by position, where each argument is one operand."""
    operator = operator_of(call)
    if operator is None or operator.infer_from_call is not None or any(o.variadic for o in operator.operands):
        return []
    return [(i, operand) for i, (operand, _) in enumerate(operator.arguments(call))]


@TABLE.declare("E3101", stage=DERIVE)
def operand_of_the_wrong_kind(module: IRModule, choices: Choices) -> IRModule | None:
    """Give an operator a shape, a scalar, a tuple or a tensor where it takes none."""
    wrong: list[tuple[Call, int, RelaxExpr]] = []
    values = [ShapeExpr((1,)), PrimValue(1.5), Tuple((PrimValue(1),)), zeros(2)]
    for _, call in scan(module).calls():
        for index, operand in _operands(call):
            wrong += [(call, index, v) for v in values if not operand.accepts(v.struct_info)]
    chosen = pick(choices, wrong)
    if chosen is None:
        return put(module, choices, Call(Op.get("relax.exp"), [ShapeExpr((1,))], op.exp(zeros(1)).attrs))
    call, index, value = chosen
    return change(module, call, args=with_operand(call, index, value).args)


@TABLE.declare("E3101", stage=DERIVE, text={"E3101", "E1004"})
def operator_with_an_argument_too_many(module: IRModule, choices: Choices) -> IRModule | None:
    """Call an operator with one argument more, or one less, than it has operands."""
    calls = [call for _, call in scan(module).calls() if _operands(call)]
    call = pick(choices, calls)
    if call is None:
        return put(module, choices, op.exp(zeros(2)).replace(args=(zeros(2), zeros(2))))
    required = not _operands(call)[-1][1].optional
    fewer = required and choices.chance(50)
    return change(module, call, args=call.args[:-1] if fewer else (*call.args, zeros(2)))


@TABLE.declare("E3102", stage=DERIVE)
def shapes_that_do_not_fit(module: IRModule, choices: Choices) -> IRModule | None:
    """Add, multiply, join or reshape tensors whose sizes are proved not to fit."""
    calls = [
        op.add(zeros(2, 3), zeros(2, 2)),
        op.matmul(zeros(2, 3), zeros(4, 5)),
        op.concat([zeros(2, 3), zeros(4, 5)], axis=0),
        op.broadcast_to(zeros(3), (2, 4)),
        op.reshape(zeros(2, 3), (7,)),
        op.where(const(True), zeros(2), zeros(3)),
    ]
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    grown = [_grown(site, v) for v in site.tensors() if tensor_info(v).dims and tensor_info(v).dtype == "float32"]
    value = choices.pick([*calls, *(g for g in grown if g is not None)])
    return insert(module, site, site.bind("wrong", value))


def _grown(site: Site, var: RelaxExpr) -> Call | None:
    """A tensor beside one that is longer by two: never equal, and neither is 1."""
    dims = tensor_info(var).dims or ()
    if not dims:
        return None
    longer = op.full((*dims[:-1], dims[-1] + 2), const(0.0), "float32")
    if len(dims) == 1:
        return op.matmul(longer, var)
    *batch, rows, columns = range(len(dims))
    return op.matmul(longer, op.permute_dims(var, [*batch, columns, rows]))


@TABLE.declare("E3103", stage=DERIVE)
def dtypes_that_do_not_fit(module: IRModule, choices: Choices) -> IRModule | None:
    """Give an operator a dtype it does not take, or two that differ."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    calls = [
        op.add(zeros(2), zeros(2, dtype="int64")),
        op.nn.softmax(zeros(2, dtype="int32")),
        op.logical_not(zeros(2)),
        op.bitwise_not(zeros(2)),
        op.where(zeros(2), zeros(2), zeros(2)),
        op.sqrt(zeros(2, dtype="bool")),
    ]
    for var in site.tensors():
        other = "int8" if tensor_info(var).dtype != "int8" else "int16"
        calls.append(op.add(var, zeros(1, dtype=other)))
    return insert(module, site, site.bind("wrong", choices.pick(calls)))


@TABLE.declare("E3104", stage=DERIVE)
def axis_that_does_not_exist(module: IRModule, choices: Choices) -> IRModule | None:
    """Name an axis past the last dimension, or one twice."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    x = any_tensor(choices, site)
    ndim = tensor_info(x).ndim
    axis = choices.pick([ndim, -ndim - 1, ndim + 5])
    calls = [
        op.expand_dims(x, axis=axis + (1 if axis >= 0 else -1)),
        op.squeeze(x, axis=axis),
        op.flip(x, axis=axis),
        op.permute_dims(zeros(2, 2), [0, 0]),
    ]
    return insert(module, site, site.bind("wrong", choices.pick(calls)))


@TABLE.declare("E3105", stage=DERIVE, text={"E3105", "E1004", "E1005"})
def attribute_of_a_wrong_value(module: IRModule, choices: Choices) -> IRModule | None:
    """Give an operator an attribute that it cannot have."""
    image = zeros(1, 1, 4, 4)
    calls = [
        op.nn.max_pool2d(image, pool_size=(2, 2), layout="XYZW"),
        op.nn.conv2d(image, zeros(1, 1, 2, 2), strides=(0, 1)),
        op.split(zeros(5), 0, axis=0),
    ]
    return put(module, choices, choices.pick(calls))


@TABLE.declare("E3106", stage=DERIVE)
def operands_on_two_devices(module: IRModule, choices: Choices) -> IRModule | None:
    """Add tensors that are on different virtual devices."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    here = site.bind("here", op.to_vdevice(zeros(2), VDevice("llvm", 0)))
    there = site.bind("there", op.to_vdevice(zeros(2), VDevice("llvm", 1)))
    return insert(module, site, here, there, site.bind("wrong", op.add(here.var, there.var)))


@TABLE.declare("E3106", stage=BUILD)
def tensor_wanted_on_two_devices(module: IRModule, choices: Choices) -> IRModule | None:
    """Add a tensor of which no device is said to tensors on two: propagation finds no place for it."""
    if module.global_infos.get("vdevice"):
        return None
    devices = VDevice("llvm", 0), VDevice("llvm", 1)
    module = module.replace(global_infos={**module.global_infos, "vdevice": devices})
    site = pick(choices, scan(module).ordinary)
    if site is None:
        return None
    wanted = site.bind("wanted", op.negative(zeros(2)))
    placed = [site.bind("placed", op.to_vdevice(zeros(2), device)) for device in devices]
    used = [site.bind("used", op.add(wanted.var, there.var)) for there in placed]
    return insert(module, site, wanted, *placed, *used)


# ------------------------------------------------------------------------------------------- kernels

KERNELS = """
from relax.script import ir as I
from relax.script import tir as T

@I.ir_module
class Kernels:
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + A[i]

    @T.prim_func
    def inplace_kernel(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + A[i]
"""

FOUR = TensorStructInfo((4,), "float32")


def with_kernel(module: IRModule, name: str) -> tuple[IRModule, GlobalVar]:
    """The module with a PrimFunc of KERNELS, and its name."""
    if name not in module:
        function = from_source(KERNELS)[name]
        assert isinstance(function, PrimFunc)
        module = module.with_function(name, function.replace(span=_span(module)))
    return module, module.get_global_var(name)


def _span(module: IRModule) -> object:
    return next((f.span for f in module.functions.values() if f.span is not None), None)


@TABLE.declare("E3110", stage=DERIVE)
def output_that_cannot_be_allocated(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a kernel with an output whose shape or dtype is not known, or that is no tensor."""
    infos = [
        TensorStructInfo(None, "float32", ndim=1),
        TensorStructInfo((4,), ""),
        ShapeStructInfo((4,)),
        TupleStructInfo((FOUR, ObjectStructInfo())),
    ]
    wrong = choices.pick(infos)
    kernels = CallTIR, CallTIRInplace
    calls = [call for _, call in scan(module).calls() if isinstance(call.attrs, kernels)]
    if calls and choices.chance(50):
        call = pick(choices, calls)
        tensor = isinstance(call.sinfo_args[0], TensorStructInfo)
        if tensor and not isinstance(wrong, TupleStructInfo):
            return change(module, call, sinfo_args=(wrong,))
    module, kernel = with_kernel(module, "kernel")
    return put(module, choices, op.call_tir(kernel, [zeros(4)], FOUR).replace(sinfo_args=(wrong,)))


@TABLE.declare("E3111", stage=DERIVE)
def kernel_called_with_what_it_does_not_take(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a kernel with arguments or outputs that do not fit its parameters, or as many as it has not."""
    module, kernel = with_kernel(module, "kernel")
    calls = [
        op.call_tir(kernel, [zeros(5)], FOUR),
        op.call_tir(kernel, [zeros(4, dtype="int32")], FOUR),
        op.call_tir(kernel, [zeros(4), zeros(4)], FOUR),
        op.call_tir(kernel, [], FOUR),
        op.call_tir(kernel, [zeros(4)], [FOUR, FOUR]),
        op.call_tir(kernel, [zeros(4)], TensorStructInfo((4, 1), "float32")),
        op.call_tir(kernel, [zeros(4)], FOUR, tir_vars=[1]),
    ]
    return put(module, choices, choices.pick(calls))


@TABLE.declare("E3112", stage=DERIVE)
def inplace_index_of_no_argument(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an in-place call reuse an argument it does not have, none, or one that the output does not fit."""
    module, kernel = with_kernel(module, "inplace_kernel")
    x = zeros(4)
    calls = [
        op.call_tir_inplace(kernel, [x], [1], FOUR),
        op.call_tir_inplace(kernel, [x], [-1], FOUR),
        op.call_tir_inplace(kernel, [x], [0, -1], FOUR),
        op.call_tir_inplace(kernel, [zeros(5)], [0], FOUR),
        op.call_inplace_packed("differential.unknown", x, inplace_indices=[3], sinfo_args=FOUR),
    ]
    return put(module, choices, choices.pick(calls))


@TABLE.declare("E4006", stage=BUILD)
def use_after_reuse_in_place(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a tensor, under its name or another, after an in-place call has reused it."""
    module, kernel = with_kernel(module, "inplace_kernel")
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    fresh = site.bind("fresh", op.zeros((4,), "float32"))
    named: list[VarBinding | MatchCast] = []
    name = fresh.var
    kind = choices.pick(["itself", "another name", "a match_cast"])
    if kind == "another name":
        named = [site.bind("alias", fresh.var)]
    elif kind == "a match_cast":
        named = [MatchCast(site.new_var("alias"), fresh.var, FOUR, span=site.span)]
    if named:
        name = named[0].var
    reused = site.bind("reused", op.call_tir_inplace(kernel, [fresh.var], [0], FOUR))
    used = site.bind("used", op.add(name, reused.var))
    return insert(module, site, fresh, *named, reused, used)


__all__ = ["BUILD", "TABLE", "with_kernel"]
