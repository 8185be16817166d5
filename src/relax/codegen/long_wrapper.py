"""The packed wrapper of a function of many parameters: what is alike is checked in loops.

    for i in range(100):                       as the wrapper of a few parameters does one after the other:
        tensors[i] = checked(args[i], sizes[i])
    for i in range(99):
        fail unless tensors[i] is apart from tensors[99]

LLVM takes time quadratic in the calls of a function between which values are kept, and each check is such a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final

from ..prim import Var
from ..tir import Buffer, overlap_message
from ..tir.signature import Signature
from . import support
from .builder import Operand
from .context import Rule, Unit, escaped
from .wrapper import Wrapper, known_sizes, tensor_kind

MANY: Final = 64
"""Parameters above which a wrapper checks in loops."""


class LongWrapper(Wrapper):
    """Writes the packed wrapper of a function of many parameters. Their tensors are kept on the stack."""

    def __init__(self, unit: Unit, name: str, known: Signature, rules: Mapping[type, Rule]) -> None:
        super().__init__(unit, name, known, rules)
        self.stack = self.b.alloca(f"[{len(known.params)} x ptr]", 16)

    def keep(self, i: int, tensor: Operand) -> None:
        self.store(str(i), tensor)

    def kept(self, i: int) -> Operand:
        return self.load(str(i))

    def store(self, at: Operand, pointer: Operand) -> None:
        """Keep the DLTensor of an argument; in the end, the pointer to its elements."""
        place = self.b.op(f"getelementptr ptr, ptr {self.stack}, i64 {at}")
        self.b.do(f"store ptr {pointer}, ptr {place}")

    def load(self, at: Operand) -> Operand:
        """The DLTensor of an argument, or the pointer to its elements."""
        return self.b.op(f"load ptr, ptr {self.b.op(f'getelementptr ptr, ptr {self.stack}, i64 {at}')}")

    def each(self, first: int, count: int, write: Callable[[Operand, Operand], None]) -> None:
        """A loop over `count` numbers; `write` gets the number counted from 0, and from `first`."""
        b = self.b
        each, following, finished = (b.label(hint) for hint in ("each", "following", "finished"))
        before, next_ = b.block, f"%{following}.i"
        b.branch(each)
        b.start(each)
        i = b.op(f"phi i64 [ 0, %{before} ], [ {next_}, %{following} ]")
        write(i, b.op(f"add i64 {i}, {first}"))
        b.branch(following)
        b.start(following)
        b.do(f"{next_} = add i64 {i}, 1")
        b.branch_if(b.op(f"icmp ult i64 {next_}, {count}"), each, finished)
        b.start(finished)

    def numbered(self, i: Operand, first: int) -> Operand:
        """The number of the message of a round of a loop, one after that of the round before."""
        return self.b.op(f"add i32 {self.b.op(f'trunc i64 {i} to i32')}, {first}")

    # ------------------------------------------------------------------ steps

    def match(self) -> None:
        self._check_arguments()
        self.match_sizes()
        self._require_all_apart()

    def _check_arguments(self) -> None:
        """Check each argument by itself; those of one dtype and rank, one after the other, in a loop."""

        def kind(item: tuple[int, tuple[Var, Buffer | None]]) -> tuple[object, ...]:
            i, (_, buffer) = item
            return (i,) if buffer is None else tensor_kind(buffer)

        for _, group in groupby(enumerate(self.known.params), kind):
            (first, (param, buffer)), *others = group
            buffers = [b for b in (buffer, *(b for _, (_, b) in others)) if b is not None]
            if buffer is None:
                self.match_scalar(first, param)
            elif len(buffers) == 1:
                self.tensor(first, buffer)
            else:
                self._check_tensors(first, buffers)

    def _check_tensors(self, first: int, buffers: list[Buffer]) -> None:
        names = self.b.module.message_run((self.name_of(buffer), "") for buffer in buffers)
        rank = buffers[0].ndim
        all_sizes = [size for buffer in buffers for size in known_sizes(buffer)]
        name = f"of.{self.cx.unit.numbers[self.cx.name]}.{first}"
        table = support.sizes_table(self.b.module, all_sizes, name)

        def write(i: Operand, at: Operand) -> None:
            any_ = self.b.op(f"getelementptr {support.ANY_TYPE}, ptr %args, i64 {at}")
            sizes = table
            if table != "null":
                sizes = self.b.op(f"getelementptr [{rank} x i64], ptr {table}, i64 {i}")
            self.store(at, self.checked(any_, self.numbered(i, names), buffers[0], sizes))

        self.each(first, len(buffers), write)

    def _require_all_apart(self) -> None:
        """Check that what is written overlaps nothing else; with arguments one after the other, in a loop."""

        def kind(item: tuple[int, tuple[int, int]]) -> tuple[object, ...]:
            place, (i, j) = item
            return i, j - place, bool(self.known.buffer(j).strides)

        for _, group in groupby(enumerate(self.known.apart), kind):
            pairs = [pair for _, pair in group]
            self._require_apart(pairs[0][0], [j for _, j in pairs])

    def _require_apart(self, written: int, others: list[int]) -> None:
        a, buffers = self.known.buffer(written), [self.known.buffer(j) for j in others]
        who = escaped(self.cx.title)
        texts = [f"{who}: {overlap_message(escaped(a.name), escaped(b.name))}" for b in buffers]
        number = self.b.module.message_run(("ValueError", text) for text in texts)
        strided = bool(a.strides), bool(buffers[0].strides)

        def write(i: Operand, at: Operand) -> None:
            b = self.b
            mine, other = self.load(str(written)), self.load(at)
            fine, bad = b.label("ok"), b.label("bad")
            apart = b.op(support.tensors_apart(b.module, mine, strided[0], other, strided[1]))
            b.branch_if(apart, fine, bad, hint="then")
            with b.cold(bad):
                b.do(support.raise_numbered(b.module, self.numbered(i, number), ()))
                b.end("br label %error")
            b.start(fine)

        self.each(others[0], len(others), write)

    def pointers(self) -> dict[int, Operand]:
        """The pointers to the elements of the tensors, which take the places of those."""

        def kind(item: tuple[int, int]) -> tuple[int, bool]:
            place, i = item
            return i - place, self.known.buffer(i).elem_offset is None

        tensors = [i for i, (_, buffer) in enumerate(self.known.params) if buffer is not None]
        for _, group in groupby(enumerate(tensors), kind):
            self._replace_by_data([i for _, i in group])
        return {i: self.kept(i) for i in tensors}

    def _replace_by_data(self, members: list[int]) -> None:
        buffer = self.known.buffer(members[0])
        self.each(members[0], len(members), lambda _, at: self.store(at, self.data(self.load(at), buffer)))
