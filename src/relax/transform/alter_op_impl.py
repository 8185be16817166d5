"""Replace kernels by others, which may want their buffers in other layouts.

Before   def main(x, y):                                   # AlterOpImpl({"lib.add": add_2d},
             z = R.call_tir(cls.add, (x, y),               #     {"lib.add": [lambda i: (i // 4, i % 4)] * 3})
                            R.Tensor((16,), "float32"))
             return z

         @T.prim_func(private=True)
         def add(a, b, c):                                  # T.func_attr({"operator_name": "lib.add"})
After    def main(x, y):
             a = R.layout_transform(x, lambda i: (i // 4, i % 4))
             b = R.layout_transform(y, lambda i: (i // 4, i % 4))
             c = R.call_tir(cls.add_2d, (a, b), R.Tensor((4, 4), "float32"))
             z = R.layout_transform(c, lambda i, j: (4 * i + j,))
             return z

A kernel is replaced if its attribute "operator_name" is a key of the table. The maps are for its buffers in the order
of its parameters, results last; None leaves one as it is. Places of an input to which nothing moves hold 0.

A call stays as it is if its arguments have no known shapes, or if a result's map leaves places empty: nothing in Relax
takes the others out again. Kernels that are not called any longer go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..analysis.properties import LEGALIZED, NORMAL_FORM
from ..derive.call_graph import call_graph
from ..expr import Call, ShapeExpr, Tuple, TupleGetItem
from ..ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, RelaxExpr, StructInfo, structural_equal
from ..op import is_call_of, layout_transform
from ..op.intrinsics import CallTIR
from ..rewrite import Rewriter
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..tir import IndexMap, PrimFunc
from .decorators import module_pass

OPERATOR_NAME: Final = "operator_name"
UNFIT: Final = "E4015"
"""Maps that do not fit the kernel whose buffers they are for."""

Map = IndexMap | Callable[..., Any] | None
Separators: TypeAlias = "Mapping[str, Sequence[Any] | None] | None"
"""For each operator name, a list of axis separators for each buffer."""


@module_pass(needs={NORMAL_FORM}, breaks={LEGALIZED})
def AlterOpImpl(
    mod: IRModule,
    op_impl_map: Mapping[str, PrimFunc],
    op_buffer_transforms: Mapping[str, Sequence[Map] | None] | None = None,
    op_buffer_axis_separators: Separators = None,
    op_buffer_input_axis_separators: Separators = None,
) -> IRModule:
    """Replace kernels by others of other layouts; see the module's docstring.

    Parameters
    ----------
    op_impl_map
        The kernel for each operator name.
    op_buffer_transforms
        The maps of the kernel's buffers, by operator name.
    op_buffer_axis_separators, op_buffer_input_axis_separators
        TVM's; buffers have one group of dimensions here, so that each list of separators must be empty.

    Raises DiagnosticError (E4015) for maps of another number than buffers, or of other numbers of dimensions, and for
    axis separators.
    """
    _refuse_separators(op_buffer_axis_separators, op_buffer_input_axis_separators)
    maps = {
        name: [m if m is None or isinstance(m, IndexMap) else IndexMap.from_func(m) for m in each]
        for name, each in (op_buffer_transforms or {}).items()
        if each is not None
    }
    rewriter = _Replacer(mod, dict(op_impl_map), maps)
    result = rewriter.module()
    if not rewriter.replaced:
        return mod
    called = {name for names in call_graph(result).values() for name in names}
    return result.with_functions({
        g: f
        for g, f in result.functions.items()
        if g.name_hint not in rewriter.replaced or g.name_hint in called or "global_symbol" in f.attrs
    })  # fmt: skip


def _refuse_separators(*tables: Separators) -> None:
    for table in tables:
        for name, buffers in (table or {}).items():
            if any(buffers or ()):
                message = f"AlterOpImpl: {name}: there are no axis separators, found {list(buffers or ())}"
                raise DiagnosticError(Diagnostic(UNFIT, message, hint="give an empty list for each buffer"))


class _Replacer(Rewriter):
    def __init__(
        self, mod: IRModule, kernels: Mapping[str, PrimFunc], maps: Mapping[str, Sequence[IndexMap | None]]
    ) -> None:
        super().__init__(mod)
        self.kernels = kernels
        self.maps = maps
        self.added: dict[str, GlobalVar] = {}
        self.replaced: set[str] = set()
        """Names of the replaced kernels."""

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, CallTIR) or len(call.args) != 2:
            return call
        callee, args = call.args
        if not isinstance(callee, GlobalVar) or not isinstance(args, Tuple):
            return call
        function = self.mod.get(callee)
        if not isinstance(function, PrimFunc):
            return call
        name = str(function.attrs.get(OPERATOR_NAME, ""))
        if name not in self.kernels or structural_equal(_plain(function), _plain(self.kernels[name])):
            return call
        changed = self._replacement(call, name, args, call.sinfo_args[0])
        if changed is None:
            return call
        self.replaced.add(callee.name_hint)
        return changed

    def _replacement(self, call: Call, name: str, args: Tuple, info: StructInfo) -> RelaxExpr | None:
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        tensors = [*(arg.struct_info_ for arg in args.fields), *infos]
        maps = self._fitting(call, name, tensors)
        shaped = [t for t in tensors if isinstance(t, TensorStructInfo) and t.dims is not None]
        if len(shaped) < len(tensors):
            return None
        count = len(args.fields)
        inverses: list[IndexMap | None] = []
        outputs: list[TensorStructInfo] = []
        for output, index_map in zip(shaped[count:], maps[count:], strict=True):
            shape = output.dims or ()
            if index_map is None:
                inverses.append(None)
                outputs.append(output)
                continue
            try:
                inverses.append(index_map.inverse(shape))
            except ValueError:  # it leaves places empty
                return None
            outputs.append(TensorStructInfo(ShapeExpr(index_map.map_shape(shape)), output.dtype, output.vdevice))
        moved = [
            arg if index_map is None else self.builder.emit(layout_transform(arg, index_map))
            for arg, index_map in zip(args.fields, maps[:count], strict=True)
        ]
        kernel = self._kernel(name)
        if not isinstance(info, TupleStructInfo):
            new = call.replace(args=(kernel, Tuple(moved)), sinfo_args=(outputs[0],))
            return new if inverses[0] is None else layout_transform(self.builder.emit(new), inverses[0])
        whole = self.builder.emit(call.replace(args=(kernel, Tuple(moved)), sinfo_args=(TupleStructInfo(outputs),)))
        fields = [self.builder.emit(TupleGetItem(whole, i)) for i in range(len(outputs))]
        return Tuple([
            field if inverse is None else self.builder.emit(layout_transform(field, inverse))
            for field, inverse in zip(fields, inverses, strict=True)
        ])  # fmt: skip

    def _kernel(self, name: str) -> GlobalVar:
        if name not in self.added:
            kernel = self.kernels[name]
            hint = str(kernel.attrs.get("global_symbol", name.rpartition(".")[2]))
            self.added[name] = self.builder.add_func(_plain(kernel), hint)
        return self.added[name]

    def _fitting(self, call: Call, name: str, tensors: Sequence[StructInfo | None]) -> Sequence[IndexMap | None]:
        """The maps of the buffers. Raises DiagnosticError (E4015)."""
        maps = self.maps.get(name, [None] * len(tensors))
        if len(maps) != len(tensors):
            message = f"AlterOpImpl: {name} has {len(tensors)} buffers, found {len(maps)} maps"
            hint = "give None for a buffer that keeps its layout"
            raise self.builder.error(UNFIT, message, call.span, hint=hint)
        for i, (index_map, tensor) in enumerate(zip(maps, tensors, strict=True)):
            ndim = tensor.ndim if isinstance(tensor, TensorStructInfo) else -1
            if index_map is not None and ndim not in (-1, len(index_map.initial_indices)):
                taken = len(index_map.initial_indices)
                message = f"AlterOpImpl: buffer {i} of {name} has {ndim} dimensions, its map takes {taken} indices"
                raise self.builder.error(UNFIT, message, call.span)
        return maps


def _plain(function: PrimFunc) -> PrimFunc:
    """A kernel without a name of its own, with which it could be called from outside."""
    attrs = {key: value for key, value in function.attrs.items() if key != "global_symbol"}
    return function.replace(attrs=attrs)
