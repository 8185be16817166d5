"""Conversion of a tensor expression function to a call_tir, for `BlockBuilder.call_te` and `emit_te`.

    bb.emit_te(topi.add, x, y)      x: R.Tensor((n, 4)), y: R.Tensor((n, 4))

    @T.prim_func(private=True)
    def add(A: T.Buffer((n, 4)), B: …, T_add: …): …             over a shape variable of its own
    lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((n, 4), "float32"))

Tensors become placeholders, shapes lists of dimensions, prim values scalars, tuples lists. Shape variables that no
buffer of the PrimFunc binds, including the caller's variables used by the formula, are passed as `tir_vars`; variables
that are not sizes (possibly negative, or floats) as arguments. An unknown dimension is first bound to a variable by a
match_cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from .. import te
from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem, Var, convert
from ..info.dims import simplify_dim
from ..info.mapping import used_in
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticError, GlobalVar, Node, RelaxExpr, StructInfo, VDevice, same_vdevice, walk
from ..prim import PrimExpr, SizeVar, cast, free_vars, substitute
from ..prim.expr import Var as PrimVar
from ..prim.intervals import may_overflow
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.functor import substitute as substitute_func
from ..tir.stmt import PrimFunc
from ..tir.usage import shape_vars_bound_by
from .intrinsics import CallTIR


class Builder(Protocol):
    """Part of the BlockBuilder interface that `call_te` uses."""

    @property
    def shape_vars(self) -> Mapping[PrimVar, None]: ...

    def normalize(self, expr: Any) -> RelaxExpr: ...

    def leaf(self, expr: RelaxExpr) -> RelaxExpr: ...

    def match_cast(self, value: Any, struct_info: StructInfo, name_hint: str = "") -> Var: ...

    def add_func(self, func: PrimFunc, func_name: str) -> GlobalVar: ...


def call_te(
    builder: Builder,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name_hint: str | None,
    attrs: Mapping[str, Any] | None,
) -> Call:
    """Add the PrimFunc of a tensor expression function to the builder's module, and return its call_tir.

    Raises DiagnosticError when an argument has no form in tensor expressions, or the function returns no tensor.
    """
    name = name_hint or getattr(func, "__name__", "te_func")
    name = name if name.isidentifier() else "te_func"
    converter = _Arguments(builder, name)
    te_args = [converter.argument(arg) for arg in args]
    te_kwargs = {key: converter.argument(arg) for key, arg in kwargs.items()}
    result = func(*te_args, **te_kwargs)
    outputs = _outputs(name, result)
    prim_func = converter.prim_func(outputs).without_attr("global_symbol").with_attr(dict(attrs or {}))
    infos = [converter.output_info(tensor) for tensor in outputs]
    single = isinstance(result, te.Tensor)
    out = infos[0] if single else TupleStructInfo(infos)
    operands: list[RelaxExpr] = [builder.add_func(prim_func, name), Tuple(converter.exprs)]
    integers = converter.integers(prim_func)
    if integers:
        operands.append(ShapeExpr(integers))
    return _call_tir(operands, out)


def _call_tir(operands: list[RelaxExpr], out: StructInfo) -> Call:
    return CallTIR().raw_call(operands, (out,))


def _outputs(name: str, result: Any) -> list[te.Tensor]:
    several = isinstance(result, (list, tuple))
    items: list[Any] = [*result] if several else [result]
    if not items or not all(isinstance(item, te.Tensor) for item in items):
        actual = type(result).__name__
        raise _error(f"{name}: expected the function to return a te.Tensor, or a list of them, found {actual}")
    return items


def _error(message: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic("E3015", message, hint=hint))


def _names() -> Iterator[str]:
    count = 0
    while True:
        round_, letter = divmod(count, 26)
        yield chr(ord("A") + letter) + (str(round_) if round_ else "")
        count += 1


class _Arguments:
    """Conversion of Relax arguments to tensor expressions, over shape variables owned by the PrimFunc."""

    def __init__(self, builder: Builder, name: str) -> None:
        self.builder = builder
        self.name = name
        self.names = _names()
        self.exprs: list[RelaxExpr] = []
        self.parameters: list[te.Tensor | PrimVar] = []
        self.inner: dict[PrimVar, PrimVar] = {}
        """Maps the caller's shape variables to the PrimFunc's."""
        self.computed: dict[PrimVar, PrimExpr] = {}
        """Maps scalar parameters to the expressions that the caller computes for them, in its own shape variables."""
        self.vdevices: list[VDevice | None] = []

    def argument(self, arg: Any) -> Any:
        """Convert one argument: Relax and scalar expressions, also inside lists and dicts; others are unchanged."""
        match arg:
            case RelaxExpr():
                return self.expr(self.builder.leaf(arg))
            case PrimExpr():
                return self.scalar(arg)
            case tuple() | list():
                items: list[Any] = [self.argument(item) for item in arg]  # type: ignore[reportUnknownVariableType]
                return items
            case dict():
                return {key: self.argument(item) for key, item in arg.items()}  # type: ignore[reportUnknownVariableType]
            case _:
                return self.expr(convert(arg)) if hasattr(arg, "__dlpack__") else arg

    def expr(self, expr: RelaxExpr) -> Any:
        """Convert a leaf according to its struct info."""
        match expr:
            case StringImm(value) | DataTypeImm(value):
                return value
            case PrimValue(value):
                return self.known(expr, value)
            case Tuple(fields):
                return [self.expr(field) for field in fields]
            case _:
                pass
        info = self.builder.normalize(expr).struct_info
        match info:
            case TensorStructInfo():
                return self.tensor(expr, info)
            case ShapeStructInfo():
                return self.shape(expr, info)
            case PrimStructInfo(dtype, value):
                return self.parameter(expr, dtype) if value is None else self.known(expr, value)
            case TupleStructInfo(fields):
                items = [self.builder.leaf(TupleGetItem(expr, i)) for i in range(len(fields))]
                return [self.expr(item) for item in items]
            case _:
                raise _error(
                    f"{self.name}: a value of struct info {struct_info_text(info)} has no form in tensor expressions",
                    "match_cast it to what it is",
                )

    def scalar(self, value: PrimExpr) -> PrimExpr:
        """Rewrite a scalar over the caller's shape variables in the PrimFunc's."""
        for var in free_vars(value):
            if var in self.inner:
                continue
            if var.nonnegative:
                self.inner[var] = SizeVar(var.name, var.dtype)
            else:  # no size, which a buffer or `tir_vars` could tell
                self.inner[var] = PrimVar(var.name, var.dtype)
                self.exprs.append(PrimValue(var))
                self.parameters.append(self.inner[var])
        return substitute(value, self.inner) if self.inner else value

    def known(self, expr: RelaxExpr, value: PrimExpr) -> PrimExpr:
        """Convert a scalar of known value. One that may overflow 64 bits, which is an error, is computed by the
        caller.
        """
        if not may_overflow(value):
            return self.scalar(value)
        var = self.parameter(expr, value.dtype)
        self.computed[var] = value
        return var

    def tensor(self, expr: RelaxExpr, info: TensorStructInfo) -> te.Tensor:
        if info.dtype.is_void or info.ndim == -1:
            raise _error(
                f"{self.name}: the dtype and the number of dimensions of a tensor must be known, "
                f"found {struct_info_text(info)}",
                "match_cast it to what it is",
            )
        dims = info.dims
        if dims is None:
            dims = self.unknown_dims(info.ndim)
            cast_info = TensorStructInfo(dims, info.dtype, info.vdevice)
            expr = self.builder.match_cast(expr, cast_info)
        tensor = te.placeholder([self.scalar(dim) for dim in dims], info.dtype, next(self.names))
        self.exprs.append(expr)
        self.parameters.append(tensor)
        self.vdevices.append(info.vdevice)
        return tensor

    def shape(self, expr: RelaxExpr, info: ShapeStructInfo) -> list[PrimExpr]:
        if info.ndim == -1:
            raise _error(
                f"{self.name}: the number of dimensions of a shape must be known", "match_cast it to R.Shape(ndim=...)"
            )
        values = info.values
        if values is None:
            values = self.unknown_dims(info.ndim)
            self.builder.match_cast(expr, ShapeStructInfo(values))
        return [self.scalar(value) for value in values]

    def parameter(self, expr: RelaxExpr, dtype: str) -> PrimVar:
        """Create a PrimFunc parameter for a scalar known only at run time."""
        var = PrimVar(next(self.names), dtype)
        self.exprs.append(expr)
        self.parameters.append(var)
        return var

    def unknown_dims(self, ndim: int) -> tuple[PrimExpr, ...]:
        """Create shape variables of the caller for dimensions of a tensor of unknown shape."""
        return tuple(SizeVar(f"d{i}", "int64") for i in range(ndim))

    def output_info(self, tensor: te.Tensor) -> TensorStructInfo:
        """Struct info of an output, in the caller's shape variables."""
        outer: dict[PrimVar, PrimExpr] = {inner: var for var, inner in self.inner.items()}
        outer.update(self.computed)
        dims = [cast("int64", simplify_dim(substitute(dim, outer))) for dim in tensor.shape]
        info = TensorStructInfo(dims, tensor.dtype, self.vdevice())
        given = {*self.inner, *(var for value in self.computed.values() for var in free_vars(value))}
        unknown = [var.name for var in used_in(info) if var not in given]
        if unknown:
            raise _error(
                f"{self.name}: the shape of the output {tensor.name} uses {', '.join(unknown)}, which no argument gives"
            )
        return info

    def prim_func(self, outputs: list[te.Tensor]) -> PrimFunc:
        """Create the PrimFunc of `outputs`; occurrences of the caller's shape variables are replaced by its own."""
        func = te.create_prim_func([*self.parameters, *outputs])
        in_scope = self.builder.shape_vars
        foreign: dict[PrimVar, None] = {}

        def visit(item: Node) -> None:
            if isinstance(item, PrimVar) and item in in_scope:
                foreign[item] = None

        walk(func, visit)
        if not foreign:
            return func
        for var in foreign:
            self.scalar(var)
        # Variables that are not sizes are parameters now.
        func = te.create_prim_func([*self.parameters, *outputs])
        table = {var: self.inner[var] for var in foreign}
        params = [table.get(param, param) for param in func.params]
        own = substitute_func(func.replace(params=tuple(dict.fromkeys(params))), table)
        bound = {var for buffer in own.buffer_map.values() for var in shape_vars_bound_by(buffer)}
        bound.difference_update(p for p in self.parameters if isinstance(p, PrimVar))
        return own.replace(params=tuple(param for param in own.params if param not in bound))

    def vdevice(self) -> VDevice | None:
        """Virtual device of the tensors that have one, None if they disagree."""
        stated = [vdevice for vdevice in self.vdevices if vdevice is not None]
        return stated[0] if stated and all(same_vdevice(stated[0], other) for other in stated) else None

    def integers(self, func: PrimFunc) -> list[PrimExpr]:
        """`tir_vars` of the call: the caller's expressions for parameters without an argument."""
        bound = {p for p in self.parameters if isinstance(p, PrimVar)}
        outer = {inner: var for var, inner in self.inner.items()}
        extra = [p for p in func.params if p not in func.buffer_map and p not in bound]
        foreign = [p.name for p in extra if p not in outer]
        if foreign:
            raise _error(f"{self.name}: the formula uses {', '.join(foreign)}, which no argument gives")
        return [cast("int64", outer[p]) for p in extra]
