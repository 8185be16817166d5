"""BlockBuilder: imperative construction of programs.

    bb = BlockBuilder()
    n = tir.Var("n", "int64")
    x = Var("x", TensorStructInfo((n, 4)))
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit(op.exp(x))
            gv = bb.emit_output(op.add(lv, lv))
        bb.emit_func_output(gv)
    mod = bb.get()

Emitted expressions are normalised, their struct info is derived, and errors are raised immediately.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, ClassVar, Final

from .derive.context import FORCE_PURE, FunctionScope
from .derive.normalize import Normalizer, merge_blocks
from .expr import Binding, BindingBlock, Call, Function, MatchCast, SeqExpr, Var, VarBinding, bind_dimensions, convert
from .info.mapping import bind_dimensions_of_operands, bound_in
from .info.relations import erase
from .ir import (
    BaseFunc,
    Diagnostic,
    DiagnosticError,
    GlobalVar,
    IRModule,
    RelaxExpr,
    StructInfo,
    quick_hash,
    structural_equal,
)
from .ir.python_source import user_span
from .op.known import at_span
from .op.te_call import call_te
from .prim.expr import Var as PrimVar
from .prim.per_node import per_node
from .runtime.records import dataclass
from .struct_info import ObjectStructInfo

_FILE: Final = "block_builder.py"


class BuilderError(DiagnosticError, RuntimeError):
    """Raised for a BlockBuilder method called in an invalid state; the error points at the call."""

    def __init__(self, message: str) -> None:
        super().__init__(Diagnostic("E4302", message, user_span(_FILE)))


"""This file: the only package file allowed on the stack between the user's code and a builder call."""


@dataclass(slots=True)
class _OpenFunction:
    """State of the function under construction in ``with bb.function(...)``."""

    name: str
    params: tuple[Var, ...] | None
    attrs: dict[str, Any]
    private: bool
    pure: bool
    blocks: list[BindingBlock] = field(default_factory=list[BindingBlock])
    finished: bool = False


class BlockBuilder(Normalizer):
    """Builder of functions, binding by binding, and of their module; see the module's docstring.

    The functions of `mod` may be called by new ones and are part of the result.
    """

    _stack: ClassVar[threading.local] = threading.local()

    def __init__(self, mod: IRModule | None = None, *, warn: bool = True) -> None:
        super().__init__(mod, warn=warn, trust=True)
        self._mod = mod if mod is not None else IRModule()
        self._open: _OpenFunction | None = None
        self._by_hash: dict[type[BaseFunc], dict[int, list[GlobalVar]]] = {}
        self._given_out: dict[str, int] = {}
        """Last suffix used to make a global name unique, per name."""
        self._split: list[BindingBlock] = []

    @staticmethod
    def current() -> BlockBuilder | None:
        """Builder of the innermost open ``function`` scope, None outside of any."""
        builders: list[BlockBuilder] = getattr(BlockBuilder._stack, "builders", [])
        return builders[-1] if builders else None

    # -- functions

    @contextmanager
    def function(
        self,
        name: str,
        params: Var | Sequence[Var] | None = None,
        attrs: dict[str, Any] | None = None,
        private: bool = False,
        pure: bool = True,
    ) -> Generator[None]:
        """Build a function: emit its bindings inside, and its result with `emit_func_output`.

        A function opened inside another is also a function of the module, and does not see the variables of the outer
        one.

        Parameters
        ----------
        name
            The name of the function in the module.
        params
            Its parameters; they may also be passed to `emit_func_output`.
        attrs
            Its attributes.
        private
            True if it is not an entry point.
        pure
            False if it has effects.
        """
        if self._open is None:
            with self._function(name, params, attrs, private, pure):
                yield
            return
        outer, self._open = self._open, None
        try:
            with self.detached(), self._function(name, params, attrs, private, pure):
                yield
        finally:
            self._open = outer

    @contextmanager
    def _function(
        self, name: str, params: Var | Sequence[Var] | None, attrs: dict[str, Any] | None, private: bool, pure: bool
    ) -> Generator[None]:
        opened = self._open = _OpenFunction(name, _params(params), dict(attrs or {}), private, pure)
        builders: list[BlockBuilder] = getattr(BlockBuilder._stack, "builders", [])
        BlockBuilder._stack.builders = [*builders, self]
        depth = len(self.scopes), len(self.frames), len(self.function_scopes)
        self._enter_params(opened.params or ())
        self.begin_scope(opened.params or ())
        self.function_scopes.append(FunctionScope(name, pure, bool(opened.attrs.get(FORCE_PURE, False))))
        self.open_frame(False)
        try:
            yield
            if not opened.finished:
                raise BuilderError(
                    f"BlockBuilder: function {name!r} has no result; call emit_func_output before its scope ends"
                )
        finally:
            self._open = None
            BlockBuilder._stack.builders = builders
            del self.frames[depth[1] :], self.function_scopes[depth[2] :]
            while len(self.scopes) > depth[0]:
                self.end_scope()

    @contextmanager
    def testing_scope(self, def_vars: Sequence[PrimVar] = ()) -> Generator[None]:
        """A scope to emit into without a function, with these shape variables in scope; its bindings are discarded."""
        depth = len(self.scopes), len(self.frames)
        self.begin_scope(())
        self.add_shape_vars(def_vars)
        self.open_frame(False)
        try:
            yield
        finally:
            del self.frames[depth[1] :]
            while len(self.scopes) > depth[0]:
                self.end_scope()

    def _enter_params(self, params: Iterable[Var]) -> None:
        for param in params:
            self.used_names.add(param.name_hint)
            if param.struct_info_ is None:
                object.__setattr__(param, "_struct_info", ObjectStructInfo())
            bind_dimensions(param.struct_info)

    @contextmanager
    def dataflow(self) -> Generator[None]:
        """Emit into a dataflow block: pure, without control flow. Raises RuntimeError inside another one."""
        opened = self._require_function("dataflow")
        if self.in_dataflow:
            raise BuilderError("BlockBuilder: a dataflow block cannot be begun inside another")
        opened.blocks += self.close_frame()
        self.open_frame(True)
        depth = len(self.frames)
        try:
            yield
        finally:
            # Discard frames left open by an exception.
            del self.frames[depth:]
            opened.blocks += self.close_frame()
            self.open_frame(False)

    def emit_func_output(self, output: Any, params: Var | Sequence[Var] | None = None) -> GlobalVar:
        """Complete the open function with its result, and add it to the module.

        Parameters
        ----------
        output
            The result: an expression, a number, or a tuple of them.
        params
            The parameters, if `function` did not get them.

        Returns
        -------
        GlobalVar
            The name of the function in the module.

        Raises
        ------
        RuntimeError
            Outside of a function, inside a dataflow block, or if the function has a result already.
        """
        opened = self._require_function("emit_func_output")
        if opened.finished:
            raise BuilderError(f"BlockBuilder: function {opened.name!r} has a result already")
        if self.in_dataflow:
            raise BuilderError(
                "BlockBuilder: emit_func_output inside a dataflow block; end the block first, "
                "and make what is returned an output of it (emit_output)"
            )
        self._late_params(opened, params)
        body = self.leaf(convert(output))
        self.check_escape(body)
        blocks = merge_blocks(opened.blocks + self.close_frame())
        opened.finished = True
        attrs = opened.attrs if opened.private else {"global_symbol": opened.name, **opened.attrs}
        seq = SeqExpr(blocks, body, span=body.span)
        scope = self.scopes[-1]
        signature = opened.params or ()
        own = set(scope.variables).difference(signature)
        bound = set(scope.shape_vars).difference(bound_in(*(p.struct_info for p in signature)))
        assert body.struct_info_ is not None
        result = erase(scope.defined(body.struct_info_), bound, own)
        object.__setattr__(seq, "_struct_info", result)
        function = Function(signature, seq, result, opened.pure, attrs)
        return self.add_func(function, opened.name)

    def _late_params(self, opened: _OpenFunction, params: Var | Sequence[Var] | None) -> None:
        late = _params(params)
        if late is None:
            return
        if opened.params is not None:
            raise BuilderError(
                f"BlockBuilder: the parameters of {opened.name!r} are given twice, to function and to emit_func_output"
            )
        opened.params = late
        self._enter_params(late)

    def _require_function(self, method: str) -> _OpenFunction:
        if self._open is None:
            raise BuilderError(
                f"BlockBuilder: {method} outside a function; write it inside `with bb.function(name, params):`"
            )
        return self._open

    # -- bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an expression to a new variable of the open block.

        Parameters
        ----------
        expr
            The expression; a nested one is bound part by part.
        name_hint
            A name for the variable.

        Returns
        -------
        Var
            The variable, with struct info.

        Raises
        ------
        DiagnosticError
            If the operands do not fit; it points at the line that calls `emit`.
        """
        return self._emit(expr, name_hint, output=False)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Bind a result of the open dataflow block, visible after it.

        Parameters
        ----------
        output
            The expression.
        name_hint
            A name for the variable.

        Returns
        -------
        Var
            The variable.

        Raises
        ------
        RuntimeError
            Outside a dataflow block.
        """
        if not self.in_dataflow:
            raise BuilderError(
                "BlockBuilder: emit_output outside a dataflow block; write it inside `with bb.dataflow():`"
            )
        return self._emit(output, name_hint, output=True)

    def _emit(self, expr: Any, name_hint: str, *, output: bool) -> Var:
        self._require_block("emit_output" if output else "emit")
        source = convert(expr)
        span = source.span or user_span(_FILE)
        if isinstance(source, Call) and source.span is None and span is not None:
            source = at_span(source, span)
        try:
            value = self.visit(source)
        except DiagnosticError as error:
            raise error.placed(span) from None
        var = self.new_var(name_hint, span, output=output)
        self.bind(var, value)
        return var

    def match_cast(self, value: Any, struct_info: StructInfo, name_hint: str = "") -> Var:
        """Bind a run-time check of a value's struct info; it binds the new shape variables of `struct_info`.

        Parameters
        ----------
        value
            The value.
        struct_info
            The struct info to check, such as ``R.Tensor((n, 4), "float32")``.
        name_hint
            A name for the variable.

        Returns
        -------
        Var
            The value under a name whose struct info is `struct_info`.
        """
        self._require_block("match_cast")
        source = convert(value)
        span = source.span or user_span(_FILE)
        try:
            leaf = self.leaf(source)
            var = self.new_var(name_hint, span)
            self.match_cast_binding(MatchCast(var, leaf, struct_info, span=span))
        except DiagnosticError as error:
            raise error.placed(span) from None
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Append a binding whose value is in normal form, keeping its variable.

        Raises TypeError for a value that is not a binding, RuntimeError outside of a block.
        """
        self._require_block("emit_normalized")
        match binding:
            case VarBinding():
                self.var_binding(binding)
            case MatchCast():
                self.match_cast_binding(binding)
            case _:
                raise TypeError(f"expected a binding, found {type(binding).__name__}")

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """A call_tir of a function over tensor expressions; its PrimFunc is added to the module (see te_call).

        Parameters
        ----------
        func
            A function from te.Tensors to a te.Tensor, or a list of them, as those of `relax.topi`.
        args, kwargs
            Its arguments: expressions become te.Tensors.
        primfunc_name_hint
            A name for the PrimFunc; that of `func` by default.
        primfunc_attrs
            Attributes of the PrimFunc.

        Returns
        -------
        Call
            The call, to be emitted.
        """
        return call_te(self, func, args, kwargs, primfunc_name_hint, primfunc_attrs)

    def emit_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        name_hint: str = "",
        **kwargs: Any,
    ) -> Var:
        """Emit the result of `call_te`: ``bb.emit_te(topi.add, x, y)``."""
        self._require_block("emit_te")
        return self.emit(call_te(self, func, args, kwargs, primfunc_name_hint, primfunc_attrs), name_hint)

    def _require_block(self, method: str) -> None:
        if not self.frames:
            raise BuilderError(
                f"BlockBuilder: {method} outside a block; write it inside `with bb.function(name, params):`"
            )

    def normalize(self, expr: Any) -> RelaxExpr:
        """Return the expression in normal form, with struct info; nested expressions are bound in the open block.

        Outside of functions, the variables of the expression are as parameters: their dimensions are not negative.
        """
        converted = convert(expr)
        if not self.scopes:
            bind_dimensions_of_operands(converted)
        return self.visit(converted)

    # -- blocks, as mutators make them

    def begin_dataflow_block(self) -> None:
        """Open a dataflow block; `end_block` closes it."""
        self.open_frame(True)

    def begin_binding_block(self) -> None:
        """Open an ordinary block; `end_block` closes it."""
        self.open_frame(False)

    def current_block_is_dataflow(self) -> bool:
        return self.in_dataflow

    def end_block(self) -> BindingBlock:
        """Close the open block. Raises DiagnosticError if the bindings do not fit one block: see `end_blocks`."""
        blocks = self.end_blocks()
        if len(blocks) == 1:
            return blocks[0]
        raise self.error(
            "E2104",
            "an expression with blocks of another kind was flattened into this block",
            blocks[0].span,
            hint="end_blocks() gives all the blocks it was split into",
        )

    def end_blocks(self, original: BindingBlock | None = None) -> list[BindingBlock]:
        """Close the open block; returns several blocks if a SeqExpr with a dataflow block was flattened into it.

        Returns `original` if it has the identical bindings. Raises RuntimeError if no block is open.
        """
        if not self.frames:
            raise BuilderError("BlockBuilder: end_block without a block that was begun")
        return self.close_frame(original)

    def end_block_keeping(self, original: BindingBlock) -> BindingBlock:
        """`end_blocks` for a mutator: return the last block; `take_split_blocks` returns those split off before it."""
        blocks = self.end_blocks(original)
        self._split += blocks[:-1]
        return blocks[-1]

    def take_split_blocks(self) -> list[BindingBlock]:
        """Blocks split off since the last call."""
        taken, self._split = self._split, []
        return taken

    # -- the module

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function to the module under a unique name; an equal function already there is reused.

        A public function takes the new name as its global symbol (rule 13).

        Parameters
        ----------
        func
            The function.
        func_name
            The preferred name.

        Returns
        -------
        GlobalVar
            The name it has.
        """
        kind = type(func)
        alone = kind not in self._by_hash and all(type(other) is not kind for other in self.functions.values())
        equal = None if alone else self._equal_function(func, _hash_of(func))
        if equal is not None:
            return equal
        global_var = GlobalVar(self.unique_global_name(func_name))
        if func.attrs.get("global_symbol", global_var.name_hint) != global_var.name_hint:
            func = func.with_attr("global_symbol", global_var.name_hint)
        table = None if alone else self._hashes(kind)
        function = self._define(global_var, func)
        if table is None:  # it is hashed when another function comes
            return global_var
        key = _hash_of(function)
        if function is not func:
            equal = self._equal_function(function, key)
            if equal is not None:
                self._forget(global_var)
                return equal
        table.setdefault(key, []).append(global_var)
        return global_var

    def _equal_function(self, func: BaseFunc, key: int) -> GlobalVar | None:
        """Function of the module structurally equal to one with this hash, or None."""
        for candidate in self._hashes(type(func)).get(key, ()):
            other = self.functions[candidate.name_hint]
            if structural_equal(other, func) and _sizes_among(other) == _sizes_among(func):
                return candidate
        return None

    def _forget(self, global_var: GlobalVar) -> None:
        for table in (self.globals, self.functions, self.signatures):
            table.pop(global_var.name_hint, None)

    def update_func(self, gvar: GlobalVar, updated_func: BaseFunc) -> None:
        """Replace a function of the module. Raises KeyError if there is no function of this name."""
        if gvar.name_hint not in self.globals:
            known = ", ".join(self.globals) or "none"
            raise KeyError(f"the module has no function {gvar.name_hint!r} (it has: {known})")
        self._by_hash = {}
        known = self.globals[gvar.name_hint]
        old = self.functions[gvar.name_hint]
        try:
            self._define(known, updated_func)
        except DiagnosticError:
            self.declare(known, old)
            raise

    def _define(self, global_var: GlobalVar, func: BaseFunc) -> BaseFunc:
        self.declare(global_var, func)
        if isinstance(func, Function):
            try:
                with self.detached():
                    func = self.function_body(func, global_var.name_hint)
            except DiagnosticError:
                self._forget(global_var)
                raise
            self.declare(global_var, func)
        return func

    def _hashes(self, kind: type[BaseFunc]) -> dict[int, list[GlobalVar]]:
        """Functions of one class by structural hash, computed at the first call."""
        table = self._by_hash.get(kind)
        if table is None:
            table = self._by_hash[kind] = {}
            for name, function in self.functions.items():
                if type(function) is kind:
                    table.setdefault(_hash_of(function), []).append(self.globals[name])
        return table

    def unique_global_name(self, name: str) -> str:
        """A name unused in the module: `name` itself, or else name1, name2 and so on."""
        candidate, count = name, self._given_out.get(name, 1)
        while candidate in self.globals:
            candidate = f"{name}{count}"
            count += 1
        self._given_out[name] = max(count - 1, 1)
        return candidate

    def get(self) -> IRModule:
        """Current module: the given functions, and every function completed so far."""
        table = {self.globals[name]: function for name, function in self.functions.items()}
        return self._mod.with_functions(table)

    def finalize(self) -> IRModule:
        """Completed module. Raises RuntimeError while a function is under construction."""
        if self._open is not None and not self._open.finished:
            raise BuilderError(
                f"BlockBuilder: function {self._open.name!r} is not finished; call emit_func_output first"
            )
        return self.get()

    def get_context_module(self) -> IRModule:
        """Current module."""
        return self.get()


def _params(params: Var | Sequence[Var] | None) -> tuple[Var, ...] | None:
    if params is None:
        return None
    result = (params,) if isinstance(params, Var) else tuple(params)
    for param in result:
        if not isinstance(param, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"BlockBuilder: a parameter must be a relax.Var, found {type(param).__name__}")
    return result


def _hash_of(func: BaseFunc) -> int:
    """Hash of a function, kept for kernels: those of a module are hashed by each pass that adds functions to it.

    Long functions are hashed by their numbers of parameters and bindings alone: hashing one takes longer than comparing
    the few that are as long.
    """
    if not isinstance(func, Function):
        return _hash_of_kernel(func)
    lengths = [len(block.bindings) for block in func.body.blocks] if isinstance(func.body, SeqExpr) else []
    return hash((len(func.params), *lengths)) if sum(lengths) > _LONG else quick_hash(func)


_LONG: Final = 256
"""Bindings of a long function."""


_hash_of_kernel: Final = per_node(quick_hash)


def _sizes_among(func: BaseFunc) -> list[bool]:
    """Per parameter, True for a scalar known to be a size, which is passed and checked differently."""
    params: tuple[Any, ...] = getattr(func, "params", ())
    return [isinstance(param, PrimVar) and param.nonnegative for param in params]
