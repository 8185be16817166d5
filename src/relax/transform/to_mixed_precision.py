"""Compute in float16 or bfloat16 where most of the work is, and in float32 where precision is needed.

Before   with R.dataflow():                                ToMixedPrecision()
             lv = R.nn.conv2d(x, w)                        # x, w: float32
             lv1 = R.nn.relu(lv)
             gv = R.nn.conv2d(lv1, w)
             R.output(gv)
After    with R.dataflow():
             lv = R.astype(x, dtype="float16")
             lv1 = R.astype(w, dtype="float16")
             lv2 = R.nn.conv2d(lv, lv1, out_dtype="float32")
             lv3 = R.nn.relu(lv2)
             lv4 = R.astype(lv3, dtype="float16")
             gv = R.nn.conv2d(lv4, lv1, out_dtype="float32")
             R.output(gv)

Each operator's class says what becomes of it (`Operator.mixed_precision`):

    ALWAYS   computed of operands in the narrow dtype, with a result of `out_dtype` if the operator lets one choose
    FOLLOW   computed in the narrow dtype if its float32 operands are narrow (or results of ALWAYS), and its result goes
             only to operators that are computed so; in float32 otherwise
    NEVER    computed in float32

The float32 result of an ALWAYS operator is rounded behind the element-wise operators that follow it, as long as each
is the only one that reads what it follows: fusion makes them part of the kernel that adds up the sums. Their other
operands are narrow, and widened where they are read; constants stay float32. What several operators read is narrow.

Converted are the pure operators in dataflow blocks whose floats are all float32; values seen outside of a block keep
their dtype, and so do parameters, but those named in `fp16_input_names`. (See ConvertToDataflow.) A constant that the
narrow dtype does not hold keeps its operator in float32: one with an element that would become infinite, or, where
operands follow, a number that would become zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from ..analysis.properties import LEGALIZED, NO_OPERATORS, NORMAL_FORM
from ..analysis.uses import uses_of
from ..derive.call_graph import global_vars_in
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..info.mapping import fields_in, map_fields
from ..info.relations import is_base_of
from ..ir import DataType, Diagnostic, DiagnosticContext, IRModule, Op, RelaxExpr, StructInfo
from ..op import Operator, operator_of
from ..op.facts import MixedPrecision
from ..op.unary import Astype
from ..prim import FloatImm
from ..rewrite import Rewriter
from ..runtime.records import dataclass
from ..runtime.rounding import convert_array
from ..struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from .decorators import module_pass

FLOAT32 = DataType("float32")
NARROW = ("float16", "bfloat16")


@module_pass(needs={NORMAL_FORM}, breaks={LEGALIZED, NO_OPERATORS})
def ToMixedPrecision(
    mod: IRModule,
    out_dtype: str = "float32",
    fp16_input_names: Sequence[str] | None = None,
    mixed_precision_type: str = "float16",
) -> IRModule:
    """Convert dataflow blocks to mixed precision; see the module's docstring.

    `out_dtype` is the dtype of the results of products and convolutions: "float32" or the narrow one. The float32
    parameters named in `fp16_input_names` become narrow. `mixed_precision_type` is the narrow dtype, "float16" or
    "bfloat16". Raises DiagnosticError (E4010) for other dtypes, for names that no float32 parameter has, and for
    parameters of functions that others call.
    """
    problems = DiagnosticContext()
    names = tuple(fp16_input_names or ())
    if mixed_precision_type not in NARROW:
        problems.emit(_wrong(f"mixed_precision_type must be float16 or bfloat16, found {mixed_precision_type!r}"))
    if out_dtype not in ("float32", mixed_precision_type):
        problems.emit(_wrong(f"out_dtype must be float32 or {mixed_precision_type}, found {out_dtype!r}"))
    _check_names(mod, names, mixed_precision_type, problems)
    problems.finish()
    return _MixedPrecision(mod, DataType(mixed_precision_type), DataType(out_dtype), names).module()


def _wrong(message: str) -> Diagnostic:
    return Diagnostic("E4010", f"ToMixedPrecision: {message}")


def _check_names(mod: IRModule, names: Sequence[str], narrow: str, problems: DiagnosticContext) -> None:
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    for name in names:
        having = [key for key, f in functions.items() if any(_is_input(param, [name]) for param in f.params)]
        params = [param for f in functions.values() for param in f.params]
        if not having and not any(_is_input(param, [name], DataType(narrow)) for param in params):
            problems.emit(_wrong(f"no function has a float32 parameter {name!r}"))
        for key in having:
            users = [user for user, f in functions.items() if key in global_vars_in(f)]
            if users:
                problems.emit(_wrong(f"{key} is called by {', '.join(users)}, which pass float32 as {name!r}"))


def _is_input(param: Var, names: Sequence[str], dtype: DataType = FLOAT32) -> bool:
    fields = fields_in(param.struct_info)
    named = param.name_hint in names
    return named and any(isinstance(field, TensorStructInfo) and field.dtype == dtype for field in fields)


@dataclass
class Precisions:
    """A value of the program: the dtypes in which it is at hand."""

    program: DataType
    """Its dtype in the program; void for what is no tensor."""
    computed: DataType
    """The dtype in which it was computed."""
    at_hand: dict[DataType, RelaxExpr]
    """Its values by dtype: variables, or the projection that gives one."""
    loses_nothing: bool = False
    """True if it may be narrow: it was computed so, or is to be made narrow as the result of an ALWAYS operator."""


Precision: TypeAlias = "Precisions | tuple[Precision, ...]"
"""The dtypes of a tensor, or of the fields of a tuple."""


class _MixedPrecision(Rewriter):
    def __init__(self, mod: IRModule, narrow: DataType, out: DataType, names: Sequence[str]) -> None:
        super().__init__(mod)
        self.narrow, self.out, self.names = narrow, out, names
        self.inputs: dict[Var, Var] = {}
        """The parameters that became narrow."""
        self.values: dict[Var, Precision] = {}
        """The values of the scope at hand that are not, or not only, there in the dtype of the program."""
        self.wide: set[Var] = set()
        """The variables of the dataflow block at hand that are needed in the dtype of the program."""
        self.readers: Counter[Var] = Counter()
        """The number of bindings of that block which read a variable."""

    # -- scopes

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        self.inputs = {p: self._narrowed(p) for p in function.params if _is_input(p, self.names)}
        return super().rewrite_function(function, name)

    def _narrowed(self, param: Var) -> Var:
        def narrowed(info: StructInfo) -> StructInfo:
            is_wide = isinstance(info, TensorStructInfo) and info.dtype == FLOAT32
            return info.replace(dtype=self.narrow) if is_wide else info

        return Var(param.name_hint, map_fields(param.struct_info, narrowed), span=param.span)

    def define(self, var: Var) -> Var:
        return self.inputs.get(var) or super().define(var)

    @contextmanager
    def _own_values(self) -> Generator[None]:
        """A scope with values of its own: what is emitted in it is not seen outside."""
        outer = self.values, self.wide, self.readers
        self.values, self.wide, self.readers = {}, set(), Counter()
        try:
            yield
        finally:
            self.values, self.wide, self.readers = outer

    def seq(self, seq: SeqExpr) -> RelaxExpr:
        with self._own_values():
            return super().seq(seq)

    def block(self, block: BindingBlock) -> BindingBlock:
        with self._own_values():
            if isinstance(block, DataflowBlock):
                self.wide = self._needed_wide(block)
                for binding in block.bindings:
                    self.readers.update(list(uses_of(binding.value).variables))
            return super().block(block)

    # -- what is needed

    def _needed_wide(self, block: DataflowBlock) -> set[Var]:
        """The variables that some use needs in the dtype of the program, or that are seen outside of the block."""
        wide = {binding.var for binding in block.bindings if not isinstance(binding.var, DataflowVar)}
        for binding in reversed(block.bindings):
            if self._passes_wide(binding, binding.var in wide):
                wide.update(uses_of(binding.value).variables)
        return wide

    def _passes_wide(self, binding: Binding, is_wide: bool) -> bool:
        """True if a binding needs what it uses in the dtype of the program."""
        value = binding.value
        if not isinstance(binding, VarBinding) or self._is_claim(binding):
            return True
        match value:
            case Var() | TupleGetItem() | Tuple():
                return is_wide
            case Call():
                operator = self._operator(value)
                if operator is None or operator.mixed_precision is MixedPrecision.NEVER:
                    return True
                if operator.mixed_precision is MixedPrecision.ALWAYS:
                    return False
                return is_wide or not any(map(_is_float32, fields_in(value.struct_info)))
            case _:
                return True

    def _is_claim(self, binding: VarBinding) -> bool:
        """True if a variable is annotated with more than its value tells, which is checked where it is bound."""
        return not is_base_of(binding.var.struct_info, binding.value.struct_info)

    def _operator(self, call: Call) -> Operator | None:
        """The operator of a call that may become narrow: one whose floats are float32; else None."""
        operator = operator_of(call) if isinstance(call.op, Op) else None
        if operator is None or not operator.pure or operator.mixed_precision is MixedPrecision.NEVER:
            return None
        follows = operator.mixed_precision is MixedPrecision.FOLLOW
        wide = 0
        for arg in leaves(call.args):
            for info in fields_in(arg.struct_info):
                if isinstance(info, ObjectStructInfo) or _is_other_float(info):
                    return None
                wide += _is_float32(info)
            if not self._holds(arg, follows):
                return None
        return operator if wide else None

    def _holds(self, arg: RelaxExpr, follows: bool) -> bool:
        """False for a constant that the narrow dtype does not hold, and for a float32 scalar that is no constant."""
        match arg:
            case Constant(data) if data.dtype == np.float32:
                values = data.numpy()
            case PrimValue(value) if value.dtype == FLOAT32:
                if not isinstance(value, FloatImm):
                    return False
                values = np.array(value.value, np.float32)
            case Var():
                return not (isinstance(arg.struct_info, PrimStructInfo) and _is_float32(arg.struct_info))
            case _:
                return True
        narrow = convert_array(values, self.narrow.numpy()).astype(np.float32)
        overflows = np.isinf(narrow) & ~np.isinf(values)
        vanishes = follows and values.size == 1 and bool(np.any((narrow == 0) & (values != 0)))
        return not (bool(overflows.any()) or vanishes)

    # -- bindings

    def var_binding(self, binding: VarBinding) -> None:
        if self.builder.in_dataflow and not self._is_claim(binding):
            precision = self._precision_of_value(binding.value)
            if precision is not None:
                self._define(binding, precision)
                return
            if isinstance(binding.value, Call) and self._converted(binding, binding.value):
                return
        super().var_binding(binding)

    def _precision_of_value(self, value: RelaxExpr) -> Precision | None:
        """The dtypes of a value that only names others, if one of them is known here; else None."""
        match value:
            case Var():
                return self._precision_of(value)
            case TupleGetItem(Var() as whole, index):
                precision = self._precision_of(whole)
                return precision[index] if isinstance(precision, tuple) else None
            case Tuple(fields) if any(self._precision_of_value(field) is not None for field in fields):
                return tuple(map(self._precision, fields))
            case _:
                return None

    def _precision_of(self, var: Var) -> Precision | None:
        if var in self.inputs and var not in self.values:
            new = self.inputs[var]
            self.values[var] = self._computed(new, var.struct_info, new.struct_info)
        return self.values.get(var)

    def _computed(
        self, value: RelaxExpr, program: StructInfo, computed: StructInfo, loses_nothing: bool = False
    ) -> Precision:
        """The dtypes of a value just computed."""
        if isinstance(program, TupleStructInfo) and isinstance(computed, TupleStructInfo):
            fields = enumerate(zip(program.fields, computed.fields, strict=True))
            return tuple(self._computed(TupleGetItem(value, i), old, new, loses_nothing) for i, (old, new) in fields)
        before, now = _dtype(program), _dtype(computed)
        return Precisions(before, now, {now: value}, loses_nothing or now == self.narrow)

    def _define(self, binding: VarBinding, precision: Precision) -> None:
        """Give a variable its value; bind it if it is seen outside of the block."""
        self.values[binding.var] = precision
        if isinstance(precision, Precisions) and isinstance(precision.at_hand[precision.computed], TupleGetItem):
            value = self.builder.emit(precision.at_hand[precision.computed], binding.var.name_hint)
            precision.at_hand[precision.computed] = value
        if isinstance(binding.var, DataflowVar):
            return
        if isinstance(precision, tuple) or precision.program in precision.at_hand:
            self.bind(binding, self.builder.normalize(self._original(precision)))
        else:
            cast_up = Astype(precision.program).call(precision.at_hand[precision.computed])
            precision.at_hand[precision.program] = self.bind(binding, self.builder.normalize(cast_up))

    # -- values

    def variable(self, var: Var) -> RelaxExpr:
        may_differ = isinstance(var, DataflowVar) or var in self.inputs
        precision = self._precision_of(var) if may_differ else None
        return super().variable(var) if precision is None else self._original(precision)

    def _original(self, precision: Precision) -> RelaxExpr:
        """The value in the dtype of the program."""
        if isinstance(precision, tuple):
            return Tuple([self._original(field) for field in precision])
        return self._in_dtype(precision, precision.program)

    def _in_dtype(self, precision: Precisions, dtype: DataType) -> RelaxExpr:
        """The value in some dtype, converted now if it is not at hand."""
        if dtype not in precision.at_hand:
            source = self._in_dtype(precision, precision.computed)
            precision.at_hand[dtype] = self.builder.emit(Astype(dtype).call(source))
        elif isinstance(precision.at_hand[dtype], TupleGetItem):
            precision.at_hand[dtype] = self.builder.emit(precision.at_hand[dtype])
        return precision.at_hand[dtype]

    def _precision(self, expr: RelaxExpr) -> Precision:
        """The dtypes in which a variable, or the fields of a tuple, are at hand."""
        if isinstance(expr, Tuple):
            return tuple(map(self._precision, expr.fields))
        present = self._precision_of(expr) if isinstance(expr, Var) else None
        if present is None:
            present = self._computed(self.rewrite(expr), expr.struct_info, expr.struct_info)
            if isinstance(expr, Var) and isinstance(expr.struct_info, TensorStructInfo):
                self.values[expr] = present
        return present

    def _narrow(self, expr: RelaxExpr) -> RelaxExpr:
        """An operand with its float32 tensors and numbers made narrow."""
        match expr:
            case Tuple(fields):
                return Tuple([self._narrow(field) for field in fields])
            case Constant(data) if data.dtype == np.float32:
                return Constant(convert_array(data.numpy(), self.narrow.numpy()), span=expr.span)
            case PrimValue(FloatImm(dtype, value)) if dtype == FLOAT32:
                return PrimValue(FloatImm(self.narrow, value), span=expr.span)
            case Var():
                return self._narrowed_value(self._precision(expr))
            case _:
                return self.rewrite(expr)

    def _narrowed_value(self, precision: Precision) -> RelaxExpr:
        if isinstance(precision, tuple):
            return Tuple([self._narrowed_value(field) for field in precision])
        return self._in_dtype(precision, self.narrow if precision.program == FLOAT32 else precision.program)

    # -- calls

    def _converted(self, binding: VarBinding, call: Call) -> bool:
        """Emit a call on narrow operands; False if the call stays as it is."""
        operator = self._operator(call)
        if operator is None:
            return False
        always = operator.mixed_precision is MixedPrecision.ALWAYS
        if not always and (binding.var in self.wide or not self._operands_are_narrow(call)):
            return False
        if always and self.out != self.narrow:
            operator = operator.narrowed(self.out)
        behind_sums = not always and operator.elementwise and any(map(self._is_unrounded, call.args))
        args = [self._widened(arg) if behind_sums else self._narrow(arg) for arg in call.args]
        value = self.builder.normalize(operator.raw_call(args, call.sinfo_args, call.span))
        before, now = call.struct_info, value.struct_info
        free = (always or behind_sums) and binding.var not in self.wide
        if not _same_dtypes(before, now):
            var = self.builder.emit(value, binding.var.name_hint)
            self._define(binding, self._computed(var, before, now, free))
            return True
        var = self.bind(binding, value)
        if free:
            self.values[binding.var] = self._computed(var, before, now, free)
        return True

    def _is_unrounded(self, expr: RelaxExpr) -> bool:
        """True for a float32 result that may be narrow, and that only one binding reads."""
        present = self._precision_of(expr) if isinstance(expr, Var) and self.readers[expr] == 1 else None
        return isinstance(present, Precisions) and present.loses_nothing and present.computed == FLOAT32

    def _widened(self, expr: RelaxExpr) -> RelaxExpr:
        """An operand of an operator that is computed in float32: unrounded, or narrow in memory."""
        if isinstance(expr, Constant | PrimValue) or self._is_unrounded(expr):
            return self.rewrite(expr)
        narrow = self._narrow(expr)
        if _dtype(narrow.struct_info) != self.narrow:
            return narrow
        return self.builder.emit(Astype(FLOAT32).call(narrow))

    def _operands_are_narrow(self, call: Call) -> bool:
        """True if every float32 operand is narrow, or may be made so; constants may."""
        for arg in leaves(call.args):
            present = self._precision_of(arg) if isinstance(arg, Var) else None
            if present is None:
                if isinstance(arg, Var) and any(map(_is_float32, fields_in(arg.struct_info))):
                    return False
            elif not all(
                precision.loses_nothing or precision.program != FLOAT32 for precision in _leaf_precisions(present)
            ):
                return False
        return True


def leaves(args: Sequence[RelaxExpr]) -> Iterator[RelaxExpr]:
    """The expressions, and the fields of those that are tuples, in order."""
    for arg in args:
        if isinstance(arg, Tuple):
            yield from leaves(arg.fields)
        else:
            yield arg


def _leaf_precisions(precision: Precision) -> Iterator[Precisions]:
    if isinstance(precision, Precisions):
        yield precision
    else:
        for field in precision:
            yield from _leaf_precisions(field)


def _dtype(info: StructInfo) -> DataType:
    return info.dtype if isinstance(info, TensorStructInfo) else DataType("")


def _same_dtypes(one: StructInfo, other: StructInfo) -> bool:
    if isinstance(one, TupleStructInfo) and isinstance(other, TupleStructInfo):
        return all(map(_same_dtypes, one.fields, other.fields))
    return _dtype(one) == _dtype(other)


def _is_float32(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo | PrimStructInfo) and info.dtype == FLOAT32


def _is_other_float(info: StructInfo) -> bool:
    """True for a float of another dtype, and where the dtype is not known."""
    if not isinstance(info, TensorStructInfo | PrimStructInfo):
        return False
    return info.dtype.is_void or (info.dtype.is_float and info.dtype != FLOAT32)
