"""One sequence of a paged KV cache: its pages in the order of their positions."""

from __future__ import annotations

from typing import Final, final

import numpy as np

from .dtypes import Array

_FIRST_ROOM: Final = 64


@final
class PagedSequence:
    """A sequence: the page `ids[j]` holds the tokens from position `starts[j]` on; `count` pages are listed.

    Pages that no query can see any more are dropped from the middle: behind those of the attention sinks, before those
    of the sliding window.
    """

    __slots__ = (
        "count", "dropped", "ids", "is_chain", "length", "sink", "sink_pages", "starts", "tree", "version", "window",
    )  # fmt: skip

    def __init__(self) -> None:
        self.length = 0
        """Tokens, including those whose pages were dropped."""
        self.count = 0
        self.ids: Array = np.empty(_FIRST_ROOM, np.int32)
        self.starts: Array = np.empty(_FIRST_ROOM, np.int32)
        self.dropped = 0
        """Pages dropped behind the first `sink_pages`."""
        self.sink_pages = 0
        self.window = 0
        """The sliding window of this sequence in the layers that slide, in tokens; 0: none."""
        self.sink = 0
        self.version = 0
        """A number that changes with the list of pages and the window."""
        self.tree: tuple[int, ...] | None = None
        """The parents of the last tokens, if they came as a tree of which no part has been accepted yet."""
        self.is_chain = True
        """True if `tree` is a chain, so that it may stay as it is."""

    def index(self, position: int, page_size: int) -> int:
        """Return the index in `ids` of the page of a position that was not dropped."""
        page = position // page_size
        return page if page < self.sink_pages or not self.dropped else page - self.dropped

    def append_pages(self, pages: list[int], page_size: int) -> None:
        """List further pages behind the last one."""
        needed = self.count + len(pages)
        if needed > len(self.ids):
            room = max(needed, 2 * len(self.ids))
            self.ids = np.concatenate([self.ids, np.empty(room - len(self.ids), np.int32)])
            self.starts = np.concatenate([self.starts, np.empty(room - len(self.starts), np.int32)])
        first = self.count + self.dropped
        self.ids[self.count : needed] = pages
        self.starts[self.count : needed] = np.arange(first, first + len(pages)) * page_size
        self.count = needed

    def cut_pages(self, count: int) -> list[int]:
        """Remove the pages behind the first `count` from the list; return them, the last one first."""
        removed: list[int] = self.ids[count : self.count][::-1].tolist()
        self.count = count
        return removed

    def sink_page_count(self, page_size: int) -> int:
        """Return the number of pages that hold the attention sinks."""
        return self.sink_pages if self.dropped else pages_of(self.sink, page_size)

    def visible_from(self, page_size: int) -> int:
        """Return the index of the first page behind the sinks that the next token sees through the window."""
        if self.window <= 0:
            return 0
        first = max(0, self.length - self.window + 1) // page_size
        sinks = self.sink_page_count(page_size)
        return max(first - self.dropped, sinks) if first > sinks else 0

    def drop_pages(self, index: int, page_size: int) -> list[int]:
        """Drop the pages from those of the sinks up to `index` (`visible_from`); return them."""
        sinks = self.sink_page_count(page_size)
        removed: list[int] = self.ids[sinks:index].tolist()
        if removed:
            self.ids = np.concatenate([self.ids[:sinks], self.ids[index:]])
            self.starts = np.concatenate([self.starts[:sinks], self.starts[index:]])
            self.count -= len(removed)
            self.dropped += len(removed)
            self.sink_pages = sinks
        return removed

    def holds_window_at(self, length: int, page_size: int) -> bool:
        """True if no page is dropped that a token at position `length` would see, or that holds a token before."""
        if not self.dropped or length <= self.sink_pages * page_size:
            return True
        if self.window <= 0 or length < (self.sink_pages + self.dropped) * page_size:
            return False
        return max(0, length - self.window + 1) // page_size >= self.sink_pages + self.dropped

    def cut_tokens(self, length: int, page_size: int) -> list[int]:
        """Keep the first `length` tokens; return the pages without any, the last one first."""
        self.length = length
        if length <= self.sink_pages * page_size:
            self.dropped = self.sink_pages = 0
        return self.cut_pages(pages_of(length, page_size) - self.dropped)

    def fork(self) -> PagedSequence:
        """Return a copy that lists the same pages."""
        child = PagedSequence()
        child.length, child.count = self.length, self.count
        child.ids, child.starts = self.ids.copy(), self.starts.copy()
        child.dropped, child.sink_pages = self.dropped, self.sink_pages
        child.window, child.sink = self.window, self.sink
        return child


def pages_of(tokens: int, page_size: int) -> int:
    """Return the number of pages that hold `tokens` tokens."""
    return -(-tokens // page_size)
