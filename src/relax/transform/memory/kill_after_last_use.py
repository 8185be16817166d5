"""Insert kill calls after the last use of each value.

Before   storage = R.memory.alloc_storage(R.shape([64]), …)
         a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
         _ = cls.exp(x, a)
         _ = cls.log(a, b)
         n = R.call_packed("count", b)
         ...
After    storage = R.memory.alloc_storage(R.shape([64]), …)
         a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
         _ = cls.exp(x, a)
         _ = cls.log(a, b)
         _ = R.memory.kill_tensor(a)
         _ = R.memory.kill_storage(storage)
         n = R.call_packed("count", b)
         ...

Allocated tensors are killed by ``memory.kill_tensor``, storages by ``memory.kill_storage``, what other calls return by
``vm.kill_object``. A value is used as long as anything that may share memory with it is: a view, a tuple it is in, the
result of a branch. What is used last in a branch is killed after the If.

Not killed: what escapes; what the function's last binding uses, since everything ends there; the results of branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...analysis.alias import Aliases, variables_in
from ...analysis.properties import NO_DATAFLOW, NORMAL_FORM
from ...expr import Binding, Call, Function, If, SeqExpr, Var, VarBinding
from ...info.mapping import fields_in
from ...ir import IRModule, RelaxExpr
from ...op import is_call_of, memory, vm
from ...op.storage import AllocStorage, BuiltinAllocTensor, EndOfLife, TensorInStorage
from ...rewrite import Rewriter
from ...struct_info import ObjectStructInfo, TensorStructInfo
from ..decorators import function_pass
from ..remove_purity_checking import force_pure


@function_pass(needs={NORMAL_FORM, NO_DATAFLOW}, breaks=())
def KillAfterLastUse(func: Function, mod: IRModule) -> Function:
    """Kill values after their last use; see the module's docstring."""
    kills = _Ends(func, mod).kills
    return _Kills(mod, kills).rewrite_function(force_pure(func)) if kills else func


class _Ends:
    """Finds the binding after which each value is killed."""

    def __init__(self, func: Function, mod: IRModule) -> None:
        self.aliases = Aliases(func, mod, tensors_apart=True)
        self.ranges = self.aliases.live_ranges()
        self.kills: dict[Var, list[Call]] = {}
        """The kills after a binding, by its variable."""
        bindings = list(_all_bindings(func.body))
        self.dead = {arg for b in bindings if is_call_of(b.value, EndOfLife) for arg in variables_in([b.value])}
        self.storages = self.ends_of_storages(bindings)
        self.sequence(func.body, final=True)

    def ends_of_storages(self, bindings: Iterable[VarBinding]) -> dict[Var, int | None]:
        """The last use of each storage: that of the tensors in it."""
        ends: dict[Var, int | None] = {}
        for binding in bindings:
            if is_call_of(binding.value, AllocStorage):
                ends[binding.var] = self.end(binding.var)
            elif is_call_of(binding.value, TensorInStorage):
                assert isinstance(binding.value, Call)
                storage, end = binding.value.args[0], self.end(binding.var)
                if isinstance(storage, Var) and storage in ends:
                    before = ends[storage]
                    ends[storage] = None if before is None or end is None else max(before, end)
        return ends

    def end(self, var: Var) -> int | None:
        """The number of the binding that uses a value last; None if it escapes, or is a name of something else."""
        life = self.ranges.get(var)
        return None if life is None else life.last

    def sequence(self, expr: RelaxExpr, final: bool = False) -> None:
        """Place the kills of what a sequence binds."""
        assert isinstance(expr, SeqExpr)
        bindings = [binding for block in expr.blocks for binding in block.bindings]
        kept = variables_in([expr.body])
        for binding in bindings:
            if not isinstance(binding, VarBinding):
                continue
            if isinstance(binding.value, If):
                self.sequence(binding.value.true_branch)
                self.sequence(binding.value.false_branch)
            kill = self.kill(binding)
            end = self.storages.get(binding.var, self.end(binding.var))
            if kill is None or end is None or binding.var in kept or binding.var in self.dead:
                continue
            after = self.last_until(bindings, end, final)
            if after is not None:
                self.kills.setdefault(after.var, []).append(kill)

    def last_until(self, bindings: Sequence[Binding], end: int, final: bool) -> Binding | None:
        """The binding of a sequence in which the binding of number `end` lies; None for the end of the function."""
        later = [i for i, binding in enumerate(bindings) if self.aliases.position(binding) > end]
        if later:
            return bindings[later[0] - 1]
        inside = not final and end < self._after(bindings[-1])
        return bindings[-1] if inside else None

    def _after(self, binding: Binding) -> int:
        """The number of the first binding after one, and after the branches in it."""
        value = binding.value if isinstance(binding, VarBinding) else None
        count = sum(1 for _ in _all_bindings(value)) if isinstance(value, If) else 0
        return self.aliases.position(binding) + 1 + count

    def kill(self, binding: VarBinding) -> Call | None:
        """The call that ends the life of a variable's value."""
        var, value = binding.var, binding.value
        if is_call_of(value, AllocStorage):
            return memory.kill_storage(var)
        if is_call_of(value, BuiltinAllocTensor, TensorInStorage):
            return memory.kill_tensor(var)
        if isinstance(value, Call) and _holds_memory(var):
            return vm.kill_object(var)
        return None


def _holds_memory(var: Var) -> bool:
    """True if a value may be, or contain, a tensor or an object."""
    info = var.struct_info_
    return info is None or any(isinstance(i, TensorStructInfo | ObjectStructInfo) for i in fields_in(info))


def _all_bindings(expr: RelaxExpr) -> Iterable[VarBinding]:
    """The bindings of values in a sequence, or in the branches of an If, in order of evaluation."""
    sequences = (expr.true_branch, expr.false_branch) if isinstance(expr, If) else (expr,)
    for sequence in sequences:
        for block in sequence.blocks if isinstance(sequence, SeqExpr) else ():
            for binding in block.bindings:
                if isinstance(binding, VarBinding):
                    yield binding
                    if isinstance(binding.value, If):
                        yield from _all_bindings(binding.value)


class _Kills(Rewriter):
    """Emits the kills."""

    def __init__(self, mod: IRModule, kills: dict[Var, list[Call]]) -> None:
        super().__init__(mod)
        self.kills = kills

    def binding(self, binding: Binding) -> None:
        super().binding(binding)
        for kill in self.kills.get(binding.var, ()):
            self.builder.emit(kill, "_")
