"""How long something takes, told by what it costs the processor: a machine that is busy elsewhere is not its fault."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_SECONDS = 2.0


def promptly(test: Callable[P, T]) -> Callable[P, T]:
    """Fail where one run of the test takes the processor two seconds: what takes that long over a few bytes hangs."""

    @functools.wraps(test)
    def timed(*arguments: P.args, **named: P.kwargs) -> T:
        began = time.process_time()
        answer = test(*arguments, **named)
        assert time.process_time() - began < LONGEST_SECONDS
        return answer

    return timed
