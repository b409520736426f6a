"""Locks that a fork waits for."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable

import pytest

from lowering.ground import locks
from lowering.ground.locks import Lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(work: Callable[[], object]) -> int:
    """Exit status of a child that does ``work`` within two seconds; it forks from this thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are running: that is the test
        child = os.fork()
    if child == 0:
        threading.Timer(2, os._exit, [7]).start()
        try:
            work()
        except BaseException:
            os._exit(8)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def held(lock: Lock, seconds: float) -> threading.Thread:
    """A thread that has taken the lock."""
    taken = threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(2)
    return thread


def taken(lock: Lock) -> None:
    with lock:
        pass


def test_a_child_can_take_what_another_thread_held() -> None:
    lock = Lock()
    thread = held(lock, 0.3)
    start = time.monotonic()
    assert in_child(lambda: taken(lock)) == 0
    assert time.monotonic() - start > 0.2
    thread.join(2)
    assert not thread.is_alive()
    taken(lock)


def test_a_lock_of_pythons_own_would_hang() -> None:
    """What the others are for: the same with one."""
    plain, ready, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with plain:
            ready.set()
            done.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait(2)
    assert in_child(lambda: plain.acquire()) == 7
    done.set()
    thread.join(2)


def test_who_holds_one_forks_at_once() -> None:
    lock, other = Lock(), Lock()
    with lock, lock:
        assert in_child(lambda: (taken(lock), taken(other))) == 0
    taken(lock)
    assert in_child(lambda: taken(lock)) == 0


def test_nobody_comes_in_while_a_fork_waits() -> None:
    first, second = Lock(), Lock()
    entered: list[float] = []
    let_go = time.monotonic() + 0.3
    thread = held(first, 0.3)

    def late() -> None:
        while not locks._gate._forking and time.monotonic() < let_go:
            time.sleep(0.01)
        with second:
            entered.append(time.monotonic())

    waiting = threading.Thread(target=late)
    waiting.start()
    assert in_child(lambda: taken(second)) == 0
    waiting.join(2)
    thread.join(2)
    assert len(entered) == 1 and entered[0] >= let_go


def test_a_fork_goes_on_when_the_last_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 20.0)
    lock = Lock()
    thread = held(lock, 0.1)
    start = time.monotonic()
    assert in_child(lambda: taken(lock)) == 0
    assert time.monotonic() - start < 15
    thread.join(2)


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.2)
    lock, free = Lock(), Lock()
    thread = held(lock, 1.0)
    start = time.monotonic()
    assert in_child(lambda: taken(free)) == 0
    assert time.monotonic() - start < 0.9
    thread.join(2)
    taken(lock)


def test_one_thread_at_a_time() -> None:
    lock, inside, most = Lock(), [0], [0]

    def work() -> None:
        for _ in range(50):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(5)
    assert most == [1] and inside == [0]
