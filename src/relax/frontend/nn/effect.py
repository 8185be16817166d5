"""Effects: state of a module that its methods change, such as a cache, passed in and out of each function.

    class Decoder(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(64, (8, 32))        an effect among the attributes

        def forward(self, k, length):
            self.cache.append(k)
            return self.cache.view(length)

A function of a module with effects takes their state behind its inputs, and returns (result, (state, …)).
`_initialize_effect()` returns the state at the beginning. In the program, state is an object.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import op as relax_op
from ...block_builder import BlockBuilder
from ...expr import ShapeExpr, Var
from ...ir import RelaxExpr
from ...prim import PrimExpr
from ...struct_info import ObjectStructInfo, TensorStructInfo
from .tensor import Tensor, at_user, current_builder, get_default_dtype

_PREFIX = "vm.builtin.attention_kv_cache_"


class Effect:
    """Base class of state that functions of a module take and return.

    A subclass says how its state begins (`emit_init`), which parameters hold it in a function (`create`), and what it
    is at the function's end (`finalize`).
    """

    @property
    def in_function(self) -> bool:
        """True in a method whose function is passed the state."""
        return True

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the initial state into the open function; one variable for each part."""
        raise NotImplementedError(f"{type(self).__name__} defines no initial state (emit_init)")

    def create(self, name_hint: str) -> list[Var]:
        """Return new variables for the state, to be parameters of a function, and let them be the state."""
        raise NotImplementedError(f"{type(self).__name__} defines no variables of its state (create)")

    def set_state(self, state_vars: Sequence[RelaxExpr]) -> None:
        """Let these expressions be the state."""
        raise NotImplementedError(f"{type(self).__name__} does not take a state (set_state)")

    def finalize(self) -> list[RelaxExpr]:
        """Return the state at the end of a function, and forget it."""
        raise NotImplementedError(f"{type(self).__name__} does not return its state (finalize)")

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the state, if it has one."""


class ObjectEffect(Effect):
    """State that is one object."""

    state: RelaxExpr | None = None
    """The state in the function under construction, None outside of any."""

    @property
    def in_function(self) -> bool:
        return self.state is not None

    def create(self, name_hint: str) -> list[Var]:
        state = Var(name_hint, ObjectStructInfo())
        self.state = state
        return [state]

    def set_state(self, state_vars: Sequence[RelaxExpr]) -> None:
        (self.state,) = state_vars

    def finalize(self) -> list[RelaxExpr]:
        state, self.state = self._state, None
        return [state]

    @property
    def _state(self) -> RelaxExpr:
        if self.state is None:
            raise RuntimeError(
                f"{type(self).__name__} has no state here: its method must be exported with "
                '"effect_mode": "plain" or "packed"'
            )
        return self.state


class IOEffect(ObjectEffect):
    """Order of output: `op.print_` and `op.debug_func` take and return it, so that none is dropped or moved."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        return [builder.emit(relax_op.null_value(), f"{name_hint}_io" if name_hint else "_io")]

    def emit_call(self, function: str, *args: RelaxExpr) -> None:
        """Emit a call of a packed function that is passed the state and returns the next one."""
        state = self._state
        call = relax_op.call_pure_packed(function, state, *args, sinfo_args=ObjectStructInfo())
        name = state.name_hint if isinstance(state, Var) else "_io"
        self.state = current_builder().emit(call, name)


class KVCache(ObjectEffect):
    """Rows of `unit_shape` that grow along their first dimension, with room for `init_seq_len` of them at first.

    Holds keys or values of one sequence. Several sequences, windows and shared prefixes have
    `relax.frontend.nn.llm.PagedKVCache`.
    """

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = [int(size) for size in unit_shape]
        self.dtype = dtype or get_default_dtype()

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        shape = ShapeExpr([self.init_seq_len, *self.unit_shape])
        rows = builder.emit(relax_op.zeros(shape, self.dtype))
        create = relax_op.call_pure_packed(f"{_PREFIX}create", rows, shape, 0, sinfo_args=ObjectStructInfo())
        return [builder.emit(create, name_hint)]

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the rows."""
        self.dtype = dtype or self.dtype

    def view(self, seq_len: int | PrimExpr) -> Tensor:
        """Return all rows, (seq_len, *unit_shape); an error at run time if there are not `seq_len`."""
        shape = ShapeExpr([seq_len, *self.unit_shape])
        info = TensorStructInfo(shape, self.dtype)
        call = relax_op.call_pure_packed(f"{_PREFIX}view", self._state, shape, sinfo_args=info)
        return Tensor(_expr=current_builder().emit(call))

    def append(self, new_element: Tensor) -> None:
        """Append rows, (any, *unit_shape). Raises TypeError for a tensor of another dtype."""
        if new_element.dtype != self.dtype:
            raise TypeError(f"a cache of {self.dtype} cannot append {new_element!r}; convert it with astype")
        rows = new_element._expr  # pyright: ignore[reportPrivateUsage] (TVM's name)
        call = relax_op.call_inplace_packed(
            f"{_PREFIX}append", self._state, rows, inplace_indices=[0], sinfo_args=ObjectStructInfo()
        )
        self.state = at_user(lambda: current_builder().emit(call))
