"""One at a time, across processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(file: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other process has the lock, and acquire it. The file does not outlive its last user.

    `on_wait` is called once, where another process has it.
    """
    descriptor = _locked(file, on_wait)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(file: Path, on_wait: Callable[[], None]) -> int:
    """A lock on the present file: its former holder has removed the file that we opened."""
    waits = False
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    waits = True
                    on_wait()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
