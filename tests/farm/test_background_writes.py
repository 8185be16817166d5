"""Files of the cache that are written while the process goes on: who waits for them, and who need not."""

from __future__ import annotations

import os
import threading

import pytest

from relax.farm import background_writes
from relax.farm.cache import key_of

KEY, OTHER = key_of("a"), key_of("b")


@pytest.fixture(autouse=True)
def settled():
    yield
    background_writes.wait_for_all()


def test_the_caller_goes_on_and_the_key_is_waited_for():
    done, go = [], threading.Event()
    background_writes.do_later(KEY, lambda: (go.wait(), done.append(threading.current_thread())))
    assert done == []
    background_writes.wait_for(OTHER)  # is nothing to wait for
    go.set()
    background_writes.wait_for(KEY)
    assert len(done) == 1
    assert done[0] is not threading.current_thread()
    background_writes.wait_for(KEY)


def test_the_work_for_one_key_is_done_in_order():
    done = []
    for i in range(20):
        background_writes.do_later(KEY, lambda i=i: done.append(i))
    background_writes.wait_for_all()
    assert done == list(range(20))


def test_it_is_done_at_once_where_no_thread_can_be_started(monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    done = []
    background_writes.do_later(KEY, lambda: done.append(1))
    assert done == [1]
    background_writes.wait_for(KEY)


@pytest.mark.filterwarnings("error")  # as of an exception in a thread
def test_what_goes_wrong_is_told_to_nobody():
    def full():
        raise OSError(28, "No space left on device")

    background_writes.do_later(KEY, full)
    background_writes.wait_for(KEY)
    done = []
    background_writes.do_later(KEY, lambda: done.append(1))
    background_writes.wait_for(KEY)
    assert done == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_waits_for_nothing():
    go = threading.Event()
    background_writes.do_later(KEY, go.wait)
    child = os.fork()
    if not child:
        done = []
        background_writes.wait_for_all()
        background_writes.do_later(KEY, lambda: done.append(1))
        background_writes.wait_for_all()
        os._exit(0 if done == [1] else 1)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        go.set()
