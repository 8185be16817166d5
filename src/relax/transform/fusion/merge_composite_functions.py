"""Merge composite functions for one external generator into one function, as far as they depend on each other directly.

Before   with R.dataflow():                            After   with R.dataflow():
             lv = cls.fused_conv2d_relu(x, w)                      gv = cls.fused_conv2d_relu_fused_add_dnnl(x, w, b)
             gv = cls.fused_add(lv, b)                             R.output(gv)
             R.output(gv)

                                                       @R.function
                                                       def fused_conv2d_relu_fused_add_dnnl(x, w, b):
                                                           R.func_attr({"Codegen": "dnnl", …})
                                                           local = … fused_conv2d_relu as a local function
                                                           local1 = … fused_add
                                                           with R.dataflow():
                                                               lv = local(x, w)
                                                               gv = local1(lv, b)
                                                               R.output(gv)
                                                           return gv

The composite functions are those of FuseOpsByPattern; their generator is the part of the name "Composite" before the
first dot. Every call of one, merged or alone, ends up in a function with the attribute "Codegen", and so do the fields
that are taken of its result. A group never depends on itself by way of something outside of it. Several results are
returned as a tuple of tensors: a tuple that is used outside is put together there. The bindings of a block are put in
an order in which all is computed before it is used. Blocks in which a tensor may be changed are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...analysis.effects import may_change
from ...analysis.properties import NO_LITERALS, NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ...analysis.uses import uses_of
from ...derive.substitution import copy_with_new_vars
from ...dpl.rewrite import in_order
from ...expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ...ir import GlobalVar, IRModule, Node, RelaxExpr, walk
from ...rewrite import Rewriter
from ...struct_info import TupleStructInfo
from ..decorators import module_pass
from .fuse_ops import LONGEST_NAME
from .fuse_ops_by_pattern import CODEGEN, COMPOSITE, codegen_of, is_grouped, without_uncalled
from .outline import can_be_passed, outlined, sizes_in


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED, NO_LITERALS})
def MergeCompositeFunctions(mod: IRModule) -> IRModule:
    """Merge calls of composite functions; see the module's docstring."""
    composites = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function) and COMPOSITE in f.attrs}
    if not composites:
        return mod
    merged = _Merger(mod, composites).module()
    return merged if merged is mod else without_uncalled(merged, set(composites))


def merged_groups(mod: IRModule) -> list[list[Var]]:
    """The variables of the calls and fields that would become one function each."""
    composites = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function) and COMPOSITE in f.attrs}
    merger = _Merger(mod, composites)
    functions = [f for f in mod.functions.values() if isinstance(f, Function) and not is_grouped(f)]
    blocks = [block for function in functions for block in dataflow_blocks_in(function)]
    return [[binding.var for binding in group] for block in blocks for group in merger.groups(block)]


def dataflow_blocks_in(function: Node) -> list[DataflowBlock]:
    """The dataflow blocks of a function, those of branches and of functions in it too."""
    found: list[DataflowBlock] = []

    def visit(item: Node) -> None:
        if isinstance(item, DataflowBlock):
            found.append(item)

    walk(function, visit)
    return found


class _Merger(Rewriter):
    """Puts a call of a function of the generator in the place of each group of calls."""

    def __init__(self, mod: IRModule, composites: Mapping[str, Function]) -> None:
        super().__init__(mod)
        self.composites = composites

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        return function if is_grouped(function) else super().rewrite_function(function, name)

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock):
            block = self.merged(block)
        return super().block(block)

    def merged(self, block: DataflowBlock) -> DataflowBlock:
        """A block in which every group is one call; struct info is not derived yet."""
        groups = self.groups(block)
        if not groups:
            return block
        grouped = {binding.var: group for group in groups for binding in group}
        bindings: list[Binding] = []
        for binding in block.bindings:
            group = grouped.get(binding.var)
            if group is None:
                bindings.append(binding)
            elif group[-1] is binding:
                bindings += self.call_of(group, _results(group, block))
        return block.replace(bindings=in_order(bindings))

    def function_of(self, binding: Binding) -> Function | None:
        """The composite function that a binding calls, None if it calls none."""
        match binding:
            case VarBinding(_, Call(GlobalVar(name))) if can_be_passed(sizes_in([binding])):
                return self.composites.get(name)
            case _:
                return None

    def groups(self, block: DataflowBlock) -> list[list[VarBinding]]:
        """The groups of calls, each in order: one generator's, joined where none depends on itself over others."""
        if any(isinstance(b.value, Call) and may_change(b.value, self.mod) for b in block.bindings):
            return []
        graph = _Graph()
        for binding in block.bindings:
            function = self.function_of(binding)
            if function is not None:
                graph.add(binding, codegen_of(function))
            elif isinstance(binding.value, TupleGetItem) and isinstance(binding, VarBinding):
                graph.add(binding, graph.codegen_of(binding.value.tuple_value))
            else:
                graph.add(binding, None)
        return graph.groups()

    def call_of(self, group: Sequence[VarBinding], results: Sequence[Var]) -> list[Binding]:
        """The bindings that stand for a group: the call, and what takes its results apart."""
        callees = [binding.value.op for binding in group if isinstance(binding.value, Call)]
        names = [callee.name_hint for callee in callees if isinstance(callee, GlobalVar)]
        codegen = codegen_of(self.composites[names[0]])
        name = f"{'_'.join(names)[:LONGEST_NAME]}_{codegen}"
        fields, tuples = _fields_of(results)
        tensors = [*(var for var in results if var not in tuples), *(field.var for field in fields)]
        outline = outlined([*group, *fields], {CODEGEN: codegen, "global_symbol": name}, outputs=tensors)
        function = _with_local_functions(outline.function, self.composites)
        call = outline.call(self.builder.add_func(function, name))
        built = [VarBinding(var, Tuple(parts)) for var, parts in tuples.items()]
        if len(tensors) == 1:
            return [VarBinding(tensors[0], call, span=group[-1].span), *built]
        whole = DataflowVar("results")
        projections = [VarBinding(var, TupleGetItem(whole, i)) for i, var in enumerate(tensors)]
        return [VarBinding(whole, call, span=group[-1].span), *projections, *built]


def _fields_of(results: Sequence[Var]) -> tuple[list[VarBinding], dict[Var, list[Var]]]:
    """Bindings that take the fields of results that are tuples, and the variables of these by the tuple's."""
    bindings: list[VarBinding] = []
    tuples: dict[Var, list[Var]] = {}
    for var in results:
        if isinstance(var.struct_info_, TupleStructInfo):
            fields = [
                VarBinding(DataflowVar(f"{var.name_hint}_{i}", info), TupleGetItem(var, i))
                for i, info in enumerate(var.struct_info_.fields)
            ]
            tuples[var] = [field.var for field in fields]
            bindings += fields
    return bindings, tuples


def _results(group: Sequence[VarBinding], block: DataflowBlock) -> list[Var]:
    """The variables of a group that are used outside of it; the last one if none is."""
    inside = {binding.var for binding in group}
    used = {var for binding in block.bindings if binding.var not in inside for var in uses_of(binding.value).variables}
    results = [b.var for b in group if b.var in used or not isinstance(b.var, DataflowVar)]
    return results or [group[-1].var]


def _with_local_functions(function: Function, composites: Mapping[str, Function]) -> Function:
    """A function with the composite functions it calls as local ones."""
    assert isinstance(function.body, SeqExpr)
    local: dict[str, Var] = {}
    definitions: list[Binding] = []
    bindings: list[Binding] = []
    for binding in function.body.blocks[0].bindings:
        call = binding.value
        assert isinstance(binding, VarBinding)
        if isinstance(call, TupleGetItem):
            bindings.append(binding)
            continue
        assert isinstance(call, Call)
        assert isinstance(call.op, GlobalVar)
        name = call.op.name_hint
        if name not in local:
            inner = copy_with_new_vars(composites[name])
            local[name] = Var(f"local_{name}", inner.struct_info)
            definitions.append(VarBinding(local[name], inner))
        bindings.append(binding.replace(value=call.replace(op=local[name])))
    body = SeqExpr((BindingBlock(definitions), DataflowBlock(bindings)), function.body.body)
    return function.replace(body=body)


class _Graph:
    """Bindings in groups with dependency bit sets; depending on one member means depending on the whole group."""

    def __init__(self) -> None:
        self.numbers: dict[Var, int] = {}
        self.bindings: list[Binding] = []
        self.codegens: list[str | None] = []
        self.depends: list[int] = []
        self.members: list[int] = []
        """The group of each binding."""

    def add(self, binding: Binding, codegen: str | None) -> None:
        """Add a binding behind those it depends on, and let it join groups of its generator."""
        number = len(self.bindings)
        operands = [self.numbers[v] for v in uses_of(binding.value).variables if v in self.numbers]
        self.numbers[binding.var] = number
        self.bindings.append(binding)
        self.codegens.append(codegen)
        self.members.append(1 << number)
        self.depends.append(0)
        for operand in operands:
            self.depends[number] |= self.depends[operand] | self.members[operand]
        for operand in operands if codegen is not None else ():
            group = self.members[operand]
            if self.codegens[operand] == codegen and not group & self.members[number]:
                self.join(number, group)

    def codegen_of(self, value: RelaxExpr) -> str | None:
        """The generator of the group in which a variable is bound, None if it is bound elsewhere."""
        number = self.numbers.get(value) if isinstance(value, Var) else None
        return None if number is None else self.codegens[number]

    def join(self, number: int, group: int) -> None:
        """Merge a group into that of a binding, unless the whole would depend on itself over others."""
        whole = self.members[number] | group
        depends = 0
        for member in _bits(whole):
            depends |= self.depends[member]
        outside = depends & ~whole
        if any(self.depends[other] & whole for other in _bits(outside)):
            return
        for member in _bits(whole):
            self.members[member] = whole
            self.depends[member] = outside
        for other, needed in enumerate(self.depends):
            if needed & whole:
                self.depends[other] = needed | whole | outside

    def groups(self) -> list[list[VarBinding]]:
        """The groups of calls of composite functions."""
        chosen = dict.fromkeys(m for m, c in zip(self.members, self.codegens, strict=True) if c is not None)
        return [
            [b for b in map(self.bindings.__getitem__, _bits(group)) if isinstance(b, VarBinding)] for group in chosen
        ]


def _bits(number: int) -> list[int]:
    return [i for i in range(number.bit_length()) if number >> i & 1]
