"""Pages of a KV cache: which are free, who uses them, and which ones still hold a known prefix.

    pool = PagePool(pages)
    ids = pool.take(3, after=7)        [8, 9, 10] if those are free
    pool.share(8); pool.release(8)     reference counts

Pages are handed out in runs, because a kernel reads neighbouring pages several times faster than scattered ones.
A page with registered tokens (`PrefixTable`) stays cached when its last user releases it, until its memory is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, final

import numpy as np

from .dtypes import Array

_GAP: Final = 32
"""Most pages left free between sequences. A run of as many pages is read as fast as a longer one, and sequences that
lie close together touch less memory, which the system hands out in large pages.
"""
_ROOT: Final = 0
"""The node before the first page of every sequence."""


@final
class PagePool:
    """Reference counts of pages, and the choice of free ones."""

    __slots__ = ("_count", "_free", "prefixes", "references", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.references: list[int] = [0] * size
        """The sequences that use each page."""
        self._free: Array = np.ones(size + 1, np.bool_)
        self._free[size] = False  # a fence behind the last page
        self._count = size
        self.prefixes = PrefixTable()

    @property
    def available(self) -> int:
        """The number of pages that `take` can hand out: free ones, and unused ones of cached prefixes."""
        return self._count + self.prefixes.unused

    def take(self, count: int, after: int = -1) -> list[int]:
        """Hand out `count` pages with a reference count of 1, in as few runs as possible.

        The first run begins behind page `after` if that page is free. The caller has compared `count` with `available`.
        """
        while self._count < count:
            self._set_free(self.prefixes.evict())
        self._count -= count
        taken: list[int] = []
        while len(taken) < count:
            at = after + 1
            if not (after >= 0 and self._free[at]):
                at = self._start_of_run(count - len(taken))
            while len(taken) < count and self._free[at]:
                self._free[at] = False
                self.references[at] = 1
                taken.append(at)
                at += 1
            after = taken[-1]
        return taken

    def share(self, page: int) -> None:
        """Add a user of a page that is in use or cached."""
        if not self.references[page]:
            self.prefixes.use(page)
        self.references[page] += 1

    def release(self, page: int) -> None:
        """Remove a user; a page without users is free, or cached if its tokens are registered."""
        self.references[page] -= 1
        if not self.references[page] and not self.prefixes.keep(page):
            self._set_free((page,))

    def is_private(self, page: int) -> bool:
        """True if one sequence alone uses a page, so that it may be written. Its registered tokens are forgotten."""
        if self.references[page] > 1:
            return False
        self._set_free(self.prefixes.forget(page))
        return True

    def clear(self) -> None:
        """Free all pages and forget all prefixes."""
        self.references[:] = [0] * self.size
        self._free[:-1] = True
        self._count = self.size
        self.prefixes = PrefixTable()

    def _set_free(self, pages: Iterable[int]) -> None:
        for page in pages:
            self._free[page] = True
            self._count += 1

    def _start_of_run(self, count: int) -> int:
        """Return the free page at which to begin a run of `count`.

        The first pages of the longest free run, at most half of it, are left to the sequence before it, to grow into.
        """
        edges: Array = np.flatnonzero(np.diff(self._free, prepend=False))
        starts, lengths = edges[::2], edges[1::2] - edges[::2]
        longest = int(lengths.argmax())
        start, length = int(starts[longest]), int(lengths[longest])
        if start and length > count:
            return start + min((length - count + 1) // 2, _GAP)
        return start


@final
class _Node:
    """A page whose tokens, and all tokens before them, are known."""

    __slots__ = ("children", "key", "number", "page", "parent")

    def __init__(self, number: int, page: int, key: tuple[int, bytes], parent: _Node | None) -> None:
        self.number = number
        self.page = page
        self.key = key
        self.parent = parent
        self.children: set[_Node] = set()


@final
class PrefixTable:
    """Whole pages by the token ids in them and the page before: a tree, in which a prefix of a text is a path."""

    __slots__ = ("_idle", "_next", "_nodes", "_of_page")

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], _Node] = {}
        self._of_page: dict[int, _Node] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Registered pages that no sequence uses; the one unused for longest first."""
        self._next = _ROOT + 1

    @property
    def unused(self) -> int:
        """The number of registered pages that no sequence uses."""
        return len(self._idle)

    def match(self, chunks: Iterable[bytes]) -> list[int]:
        """Return the pages of the longest known prefix of a text, given the ids of each page as bytes."""
        number, pages = _ROOT, list[int]()
        for chunk in chunks:
            node = self._nodes.get((number, chunk))
            if node is None:
                break
            number = node.number
            pages.append(node.page)
        return pages

    def register(self, chunks: Iterable[bytes], pages: Iterable[int]) -> None:
        """Register the ids of pages from the beginning of a sequence. A prefix known by another page keeps that."""
        parent: _Node | None = None
        for chunk, page in zip(chunks, pages, strict=False):
            key = (_ROOT if parent is None else parent.number, chunk)
            node = self._nodes.get(key)
            if node is None:
                if page in self._of_page:
                    return  # known with other tokens: it was shared by a sequence that says something else of it
                node = _Node(self._next, page, key, parent)
                self._next += 1
                self._nodes[key] = self._of_page[page] = node
                if parent is not None:
                    parent.children.add(node)
            parent = node

    def keep(self, page: int) -> bool:
        """Cache a page that lost its last user; False if it is not registered."""
        if page not in self._of_page:
            return False
        self._idle[page] = None
        return True

    def use(self, page: int) -> None:
        """Take a cached page into use again."""
        self._idle.pop(page, None)

    def evict(self) -> list[int]:
        """Forget the page that has been unused for longest, one without registered pages behind it if there is any.

        Returns the pages that this frees.
        """
        oldest = next(iter(self._idle))
        return self.forget(next((page for page in self._idle if not self._of_page[page].children), oldest))

    def forget(self, page: int) -> list[int]:
        """Forget a page, and all pages behind it; return those that no sequence uses."""
        node = self._of_page.get(page)
        if node is None:
            return []
        freed, pending = list[int](), [node]
        while pending:
            each = pending.pop()
            pending += each.children
            if each.page in self._idle:
                del self._idle[each.page]
                freed.append(each.page)
            each.children = set()
            self._remove(each)
        return freed

    def _remove(self, node: _Node) -> None:
        del self._nodes[node.key], self._of_page[node.page]
        if node.parent is not None:
            node.parent.children.discard(node)
