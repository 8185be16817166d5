"""Tensor intrinsics: a computation described in plain loops, and its implementation on a target.

    @T.prim_func                                           @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):       def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4,), offset_factor=1)           A = T.match_buffer(a, (4,), offset_factor=1)
        ...                                                    ...
        with T.block("root"):                                  with T.block("root"):
            for i in range(4):                                     T.evaluate(T.call_extern("int32", "dot4",
                with T.block("update"):                                A.access_ptr("r"), B.access_ptr("r"),
                    vi = T.axis.reduce(4, i)                           C.access_ptr("rw")))
                    C[0] = C[0] + A[vi] * B[vi]

    TensorIntrin.register("dot4", desc, impl)

`Schedule.tensorize` replaces a block that matches the description by the implementation.
"""

from __future__ import annotations

import difflib
from typing import ClassVar

from ..ir import Diagnostic, DiagnosticError, structural_equal
from ..ir.tvm_names import answer_missing
from ..prim import IntImm
from ..runtime.records import dataclass
from .buffer import Buffer
from .stmt import Block, BlockRealize, PrimFunc


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """A description and an implementation over the same buffers, registered under a name.

    Raises DiagnosticError if their parameters differ, or are not buffers of static shape.
    """

    desc: PrimFunc
    impl: PrimFunc
    name: str = ""

    _registered: ClassVar[dict[str, TensorIntrin]] = {}

    def __post_init__(self) -> None:
        _require_same_parameters(self.name, self.desc, self.impl)

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Register an intrinsic under a name. Raises DiagnosticError if the name is taken, unless `override`."""
        intrin = TensorIntrin(desc, impl, name)
        if name in TensorIntrin._registered and not override:
            raise _error(name, "the name is registered already", "pass override=True to replace it")
        TensorIntrin._registered[name] = intrin

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return the intrinsic of a name; if there is none, None with `allow_missing`, else DiagnosticError is
        raised.
        """
        intrin = TensorIntrin._registered.get(name)
        if intrin is None and not allow_missing:
            close = difflib.get_close_matches(name, TensorIntrin._registered, 1)
            hint = f"did you mean {close[0]!r}?" if close else "register it with TensorIntrin.register"
            raise _error(name, "no intrinsic of this name is registered", hint)
        return intrin


def buffers_of(func: PrimFunc) -> list[Buffer]:
    """Return the buffers of a function's parameters in order."""
    return [func.buffer_map[param] for param in func.params]


def root_of(func: PrimFunc) -> Block:
    """Return the root block of a function; a new one if the function has none."""
    body = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return body.block
    return Block((), (), (), "root", body)


def _require_same_parameters(name: str, desc: PrimFunc, impl: PrimFunc) -> None:
    for which, func in (("description", desc), ("implementation", impl)):
        if not isinstance(func, PrimFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _error(name, f"the {which} must be a PrimFunc, found {type(func).__name__}")
        if func.preconditions:
            raise _error(name, f"the {which} has preconditions", "a part of a program cannot demand anything")
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                raise _error(name, f"the parameter {param.name} of the {which} is no buffer")
            if not all(isinstance(size, IntImm) for size in buffer.shape):
                raise _error(name, f"the sizes of buffer {buffer.name} of the {which} must be constants")
    if len(desc.params) != len(impl.params):
        raise _error(name, f"the description has {len(desc.params)} parameters, the implementation {len(impl.params)}")
    for first, second in zip(buffers_of(desc), buffers_of(impl), strict=True):
        if (
            first.dtype != second.dtype
            or first.scope != second.scope
            or not structural_equal(first.shape, second.shape)
        ):
            raise _error(
                name,
                f"buffer {first.name} of the description is {_kind(first)}, {second.name} of the implementation "
                f"{_kind(second)}",
            )


def _kind(buffer: Buffer) -> str:
    sizes = (size.value for size in buffer.shape if isinstance(size, IntImm))
    return f"({', '.join(map(str, sizes))}) of {buffer.dtype!s} in {buffer.scope}"


def _error(name: str, message: str, hint: str = "") -> DiagnosticError:
    return DiagnosticError(Diagnostic("E8002", f"tensor intrinsic {name or '(unnamed)'}: {message}", hint=hint))


answer_missing(__name__)
