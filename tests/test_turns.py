"""Who works for long gives way to who waits, and to who has pressed a key, for half of the time at most."""

from __future__ import annotations

import threading
import time

from ntstop.turns import TurnLock

from .helpers import wait_until


def test_who_waits_gets_the_lock_before_who_gives_way_has_it_again() -> None:
    lock, order = TurnLock(), list[str]()

    def other() -> None:
        with lock:
            order.append("other")

    waiting = threading.Thread(target=other)
    with lock:
        assert not lock.wanted
        waiting.start()
        wait_until(lambda: lock.wanted)
    lock.give_way()
    with lock:
        order.append("one")
    waiting.join()
    assert order == ["other", "one"] and not lock.wanted


def test_the_lock_may_be_taken_again_by_who_has_it() -> None:
    lock = TurnLock()
    with lock, lock:
        assert not lock.wanted


def test_quiet_is_kept_to_its_end_and_not_asked_for_again_at_once() -> None:
    lock = TurnLock()
    begin = time.monotonic()
    lock.ask_for_quiet(0.1)
    assert lock.wanted
    lock.give_way()
    assert time.monotonic() - begin >= 0.1 and not lock.wanted
    lock.ask_for_quiet(60.0)
    if time.monotonic() - begin < 0.2:
        assert not lock.wanted
