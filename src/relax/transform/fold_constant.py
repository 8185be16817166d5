"""Evaluate calls whose operands are constants at compile time.

Before   lv = R.permute_dims(R.const(w))            After   lv = R.const(wᵀ)
         s = R.shape_of(x)      # x: (n, 4)                 s = R.shape([n, 4])

The result must be, bit for bit, what the compiled program would have computed. So an operator is folded

* by its NumPy reference, if its `exactness` holds for the dtypes of the operands;
* else by its own kernel, and so is a call_tir of constants: see `fold_kernels`. The kernel is compiled, if the
  pass is given something that does so (`evaluate`); `relax.build` gives it. Else it is interpreted, if that is exact.

Declines: whatever may fail (an error is left to happen at run time), has an effect, is random, or gives more
than 1 MiB, unless its operands are as large. Such a large result is still computed for a consumer with a small one,
such as the sum of cast integers, if both have exact references. A variable bound to a constant is not taken for it
where something may have changed the tensor in between: in a function with impure calls, only inside one dataflow block.

A constant whose variable is only read in its dataflow block, or in a function without impure calls, branches and local
functions, becomes an operand of those who read it, where kernels can be arranged for it
(`relax.optimize.pack_constants`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..analysis.alias import private_variables, variables_in
from ..analysis.effects import any_call
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..block_builder import BlockBuilder
from ..expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Function,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import DataType, DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, StructInfo
from ..ir.transform import PassContext
from ..op import Operator, is_call_of, operator_of
from ..op.intrinsics import CallTIR, ShapeOf
from ..op.known import known_struct_info
from ..op.operands import is_absent
from ..op.padded import wrapped_result
from ..prim import FloatImm, IntImm
from ..rewrite import Rewriter, bindings_in
from ..runtime.rounding import round_number
from ..runtime.sizes import is_size
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.stmt import PrimFunc
from .decorators import function_pass
from .fold_kernels import FAILURES, Array, KernelEvaluator, run_kernel
from .rewrite_dataflow_reshape import private_in_block

MAX_BYTES = 1 << 20
"""Size in bytes above which a result larger than its operands is not folded."""


_VARIABLES = (Var, DataflowVar)

LARGE = 16
"""Largest ratio of bytes, intermediate result to constant operands, computed to fold a consumer."""

EVALUATE = "relax.FoldConstant.evaluate"
"""The entry of PassContext's `config` that stands in for the option `evaluate`."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def FoldConstant(func: Function, mod: IRModule, evaluate: KernelEvaluator | None = None) -> Function:
    """Replace calls on constants by their results; `evaluate` runs compiled kernels. See the module's docstring."""
    evaluate = evaluate or PassContext.current().config.get(EVALUATE)
    return _Folder(mod, func, evaluate).rewrite_function(func)


class _Folder(Rewriter):
    """Computes calls; `known` holds the variables that are constants here."""

    def __init__(self, mod: IRModule, func: Function, evaluator: KernelEvaluator | None) -> None:
        super().__init__(mod)
        self._func = func
        self.evaluator = evaluator
        self.known: dict[Var, RelaxExpr] = {}
        self.large: dict[Var, Call] = {}
        """Calls on constants whose results are too large to be kept."""
        self.private: frozenset[Var] = frozenset()
        """Variables that are only read, in their dataflow block or function."""
        self.resolved: dict[Var, RelaxExpr | None] = {}
        """Variables of `known` without the names of others: tuples of tuples are taken apart once."""

    @cached_property
    def effects(self) -> bool:
        """True if the function makes an impure call."""
        return any_call(self._func, lambda effects: not effects.pure)

    @cached_property
    def private_in_function(self) -> frozenset[Var]:
        """Variables that are only read; none if the function makes impure calls, or has branches or local functions."""
        bindings, body = list(bindings_in(self._func)), self._func.body
        values = [binding.value for binding in bindings if isinstance(binding, VarBinding)]
        if self.effects or not isinstance(body, SeqExpr) or any(isinstance(v, If | Function) for v in values):
            return frozenset()
        return private_variables(bindings, variables_in([body.body]))

    def concerns(self, function: Function) -> bool:
        """True if some call reads a constant, a shape or nothing at all, or asks for a shape."""
        values = (binding.value for binding in bindings_in(function))
        return any(
            isinstance(v, (Constant, ShapeExpr, PrimValue, Tuple))
            or (isinstance(v, Call) and (is_call_of(v, ShapeOf) or not all(type(a) in _VARIABLES for a in v.args)))
            or (isinstance(v, Call) and not v.args)
            for v in values
        )

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.known, self.large, self.private
        if self.effects:
            self.known, self.large = {}, {}
        self.private = private_in_block(block) | self.private_in_function
        new = super().block(block)
        known, large, self.private = outer
        if self.effects:
            self.known, self.large = known, large
        return new

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        if isinstance(value, Constant) and binding.var in self.private:
            self.variables[binding.var] = value
            return binding.var
        var = super().bind(binding, value, var)
        if self.builder.in_dataflow or not self.effects:
            if self.constant(value) is not None:
                self.known[var] = value
            elif isinstance(value, Call) and self.is_large(value):
                self.large[var] = value
        return var

    def is_large(self, call: Call) -> bool:
        """True if only the size of its result keeps a call from being folded by its reference."""
        operator, operands = operator_of(call), [self.constant(arg) for arg in call.args]
        known = [operand for operand in operands if operand is not None]
        if operator is None or not operator.pure or not known or len(known) < len(operands):
            return False
        size, given = byte_size(call.struct_info), sum(c.content.nbytes for k in known for c in constants_in(k))
        return size is not None and size <= LARGE * given and has_exact_reference(operator, known)

    def constant(self, expr: RelaxExpr) -> RelaxExpr | None:
        """Return a leaf's constant value (constant, shape, scalar, or tuple of them), or None."""
        match expr:
            case Constant():
                return expr
            case ShapeExpr(values):
                return expr if all(isinstance(value, IntImm) for value in values) else None
            case PrimValue(IntImm() | FloatImm()):
                return expr
            case Var():
                known = self.known.get(expr)  # which may name other variables
                if known is not None and expr not in self.resolved:
                    self.resolved[expr] = self.constant(known)
                return None if known is None else self.resolved[expr]
            case Tuple(fields):
                constants = [self.constant(item) for item in fields]
                known = [item for item in constants if item is not None]
                return Tuple(known, span=expr.span) if len(known) == len(constants) else None
            case _:
                return None

    def tuple_get_item(self, expr: TupleGetItem) -> RelaxExpr:
        normal = self.parts(expr)
        whole: RelaxExpr | None = normal.tuple_value
        while isinstance(whole, Var):
            whole = self.known.get(whole)
        # A branch that is never taken may ask a value of unknown type for a field that it does not have.
        fields = whole.fields if isinstance(whole, Tuple) else ()
        return fields[normal.index] if normal.index < len(fields) else normal

    def call(self, call: Call) -> RelaxExpr:
        normal = self.parts(call)
        if not isinstance(normal.op, Op):
            return normal
        if is_call_of(normal, ShapeOf):
            info = normal.struct_info
            values = info.values if isinstance(info, ShapeStructInfo) else None
            return normal if values is None else ShapeExpr(values, span=call.span)
        constants = [self.constant(arg) for arg in normal.args[is_call_of(normal, CallTIR) :]]
        if any(c is None for c in constants) and any(isinstance(arg, Var) and arg in self.large for arg in normal.args):
            constants = self.with_large(normal, constants)
        operands = [constant for constant in constants if constant is not None]
        if len(operands) < len(constants) or not is_bounded(normal.struct_info, operands):
            return normal
        results = self.compute(normal, operands)
        folded = None if results is None else as_leaf(results, normal.struct_info)
        return normal if folded is None else folded.replace(span=call.span)

    def with_large(self, call: Call, constants: list[RelaxExpr | None]) -> list[RelaxExpr | None]:
        """Return the operands of a call; compute those of `large` if its result is small and its reference exact."""
        operator, size = operator_of(call), byte_size(call.struct_info)
        infos = [arg.struct_info_ for arg in call.args]
        dtypes = [info.dtype for info in infos if isinstance(info, TensorStructInfo)]
        exact = operator is not None and operator.reference is not None and operator.exactness.holds_for(dtypes)
        if size is None or size > MAX_BYTES or not exact:
            return constants
        found: list[RelaxExpr | None] = []
        for arg, constant in zip(call.args, constants, strict=True):
            inner = self.large.get(arg) if isinstance(arg, Var) and constant is None else None
            if inner is None:
                found.append(constant)
                continue
            operands = [operand for operand in map(self.constant, inner.args) if operand is not None]
            results = self.compute(inner, operands) if len(operands) == len(inner.args) else None
            found.append(None if results is None else as_leaf(results, inner.struct_info))
        return found

    # -- computing

    def compute(self, call: Call, operands: list[RelaxExpr]) -> Any:
        """The result of a call as arrays; None if it is not to be folded."""
        operator = operator_of(call)
        if isinstance(operator, CallTIR):
            callee = call.args[0]
            func = self.mod.get(callee) if isinstance(callee, GlobalVar) else None
            return self.run(func, call.replace(args=(callee, *operands)))
        if operator is None or not operator.pure:
            return None
        if has_exact_reference(operator, operands):
            return by_reference(operator, call, operands)
        return None if operator.compute is None else self.run_formula(operator, call, operands)

    def run_formula(self, operator: Operator, call: Call, operands: list[RelaxExpr]) -> Any:
        """The result of an operator's own kernel."""
        builder = BlockBuilder(warn=False)
        try:
            builder.begin_binding_block()
            lowered = operator.legalize(builder, call.replace(args=tuple(operands)))
        except DiagnosticError:
            return None
        if not isinstance(lowered, Call) or not isinstance(lowered.args[0], GlobalVar):
            return None
        return self.run(builder.get()[lowered.args[0]], lowered)

    def run(self, func: Any, call: Call) -> Any:
        """Result of a call_tir of constants; None if its kernel cannot be run or fails."""
        _, args, *scalars = call.args
        info = call.sinfo_args[0]
        outputs = [empty(field) for field in (info.fields if isinstance(info, TupleStructInfo) else (info,))]
        results = [output for output in outputs if output is not None]
        if not isinstance(func, PrimFunc) or not isinstance(args, Tuple) or len(results) < len(outputs):
            return None
        flat: list[Any] = []
        for arg in (*args.fields, *scalars):
            match self.constant(arg):
                case Constant(data):
                    flat.append(np.array(data))  # a copy, whatever the kernel does to it
                case ShapeExpr() | PrimValue() as leaf:
                    value: Any = as_value(leaf)
                    flat += value if isinstance(leaf, ShapeExpr) else [value]
                case _:
                    return None
        if not run_kernel(func, [*flat, *results], self.evaluator):
            return None
        return tuple(results) if isinstance(info, TupleStructInfo) else results[0]


def empty(info: StructInfo) -> Array | None:
    """An array for an output of known size; None if the size is not known, or a device is asked for."""
    if not isinstance(info, TensorStructInfo) or info.vdevice is not None or byte_size(info) is None:
        return None
    return np.zeros([cast(IntImm, dim).value for dim in info.dims or ()], info.dtype.numpy())


def has_exact_reference(operator: Operator, operands: list[RelaxExpr]) -> bool:
    """True if an operator's reference gives the bits of its kernels for constants of these dtypes."""
    return operator.reference is not None and operator.exactness.holds_for(dtypes_of(operands))


def by_reference(operator: Operator, call: Call, operands: list[RelaxExpr]) -> Any:
    """The result of a call on constants, `operands`, by the operator's reference; None where that fails."""
    pairs = zip(operator.arguments(call), operands, strict=True)
    values = [None if o.optional and is_absent(arg) else as_value(arg) for (o, _), arg in pairs]
    return wrapped_result(evaluate(operator, values), known_struct_info(call))


def evaluate(operator: Operator, values: list[Any]) -> Any:
    """The reference of an operator; None where it fails, so that the error happens at run time."""
    try:
        with np.errstate(all="ignore"):
            return operator.evaluate(*values)
    except FAILURES:
        return None


def dtypes_of(operands: list[RelaxExpr]) -> list[DataType]:
    """The dtypes of tensors and scalars among the operands."""
    scalars = [operand.value.dtype for operand in operands if isinstance(operand, PrimValue)]
    return scalars + [constant.dtype for operand in operands for constant in constants_in(operand)]


def constants_in(expr: RelaxExpr) -> list[Constant]:
    """The tensors in a constant."""
    if isinstance(expr, Constant):
        return [expr]
    return [c for item in expr.fields for c in constants_in(item)] if isinstance(expr, Tuple) else []


def is_bounded(info: StructInfo, operands: list[RelaxExpr]) -> bool:
    """True if a result is known to be small enough to be kept in the program."""
    size = byte_size(info)
    given = sum(c.content.nbytes for operand in operands for c in constants_in(operand))
    return size is not None and size <= max(MAX_BYTES, given)


def byte_size(info: StructInfo) -> int | None:
    """The bytes a value takes, None if that is not known."""
    return _byte_size(info, {})


def _byte_size(info: StructInfo, done: dict[int, int | None]) -> int | None:
    if id(info) not in done:
        done[id(info)] = _size_of(info, done)
    return done[id(info)]


def _size_of(info: StructInfo, done: dict[int, int | None]) -> int | None:
    match info:
        case TensorStructInfo():
            sizes = [dim.value for dim in info.dims or () if isinstance(dim, IntImm)]
            if info.dims is None or info.dtype.is_void or len(sizes) < len(info.dims):
                return None
            return math.prod(sizes) * info.dtype.itemsize
        case TupleStructInfo(fields):
            field_sizes = [_byte_size(field, done) for field in fields]
            known_sizes = [size for size in field_sizes if size is not None]
            return sum(known_sizes) if len(known_sizes) == len(field_sizes) else None
        case ShapeStructInfo():
            return 0
        case _:
            return None


def as_value(expr: RelaxExpr) -> Any:
    """Convert a constant to the form that references take: arrays, tuples of ints, numbers, lists."""
    match expr:
        case Constant(data):
            return data
        case ShapeExpr(values):
            return tuple(cast(IntImm, value).value for value in values)
        case PrimValue(IntImm(_, value)):
            return value
        case PrimValue(FloatImm(dtype, value)):
            return round_number(value, dtype)
        case Tuple(fields):
            return [as_value(field) for field in fields]
        case _:
            raise TypeError(f"not a constant: {type(expr).__name__}")


def as_leaf(result: Any, info: StructInfo) -> RelaxExpr | None:
    """Convert a result to an expression, or return None if it contradicts the call's struct info."""
    match info:
        case TensorStructInfo():
            array: Array = np.asarray(result)
            dims = tuple(cast(IntImm, dim).value for dim in info.dims or ())
            fits = array.dtype.name == str(info.dtype) and array.shape == dims
            return Constant(array) if fits else None
        case ShapeStructInfo(_, ndim):
            values = [int(value) for value in result]
            return ShapeExpr(values) if ndim in (-1, len(values)) and all(map(is_size, values)) else None
        case TupleStructInfo(fields):
            items: Sequence[Any] = tuple(result)
            if len(items) != len(fields):
                return None
            leaves = [as_leaf(item, field) for item, field in zip(items, fields, strict=True)]
            valid = [leaf for leaf in leaves if leaf is not None]
            return Tuple(valid) if len(valid) == len(leaves) else None
        case _:
            return None
