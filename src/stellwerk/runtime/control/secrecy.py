"""The secret words that a pass has read, and must not write.

Code that reads a Secret on behalf of an object notes its words. On the way out of the pass the engine masks them in
every text for people: in the status (`StatusWriter`), in Events (`Recorder`), and in the failure before it is
explained and logged. So an API server that quotes a value in a refusal, a template that puts one into a name, and a web
server that repeats the token of the request show nothing, whichever operator runs, and however many other secrets the
process knows: only the words of this object are compared.

Words are collected when a text has to be compared, and only then. A pass without new text, or without Secrets, costs
nothing. Log lines are masked with the words of all objects (`logs.Redactor`), because the operator's log shows the
objects of all tenants. A status is compared with the words of the pass on its own object and no others: a mask would
confirm a guess of another tenant's secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar, cast

import msgspec

from stellwerk.kube import threads
from stellwerk.kube.masking import Vocabulary
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.runtime.reconciler import ReconcileError
from stellwerk.runtime.telemetry import logs

S = TypeVar("S", bound=Record)

SHORTEST = logs.Redactor.SHORTEST
"""Characters from which a word is masked in a status."""

Words = Callable[[], Iterable[str]]


@dataclass(slots=True, eq=False)
class SecretWords:
    """The secret words of one pass."""

    _sources: dict[str, Words] = field(default_factory=dict)
    _vocabulary: Vocabulary | None = None
    _masked: dict[str, str] = field(default_factory=dict)
    """Texts that were compared already."""

    def note(self, source: str, words: Words) -> None:
        """This object was read. `words` is called in a thread, if at all."""
        self._sources[source] = words
        self._vocabulary = None
        self._masked.clear()

    async def masked(self, text: str) -> str:
        """The text without the words of this pass."""
        if not self._sources or not text:
            return logs.without_tokens(text)
        if text not in self._masked:
            shown = await threads.run(lambda: self._compared(text))
            self._masked |= {text: shown, shown: shown}
        return self._masked[text]

    def _compared(self, text: str) -> str:
        vocabulary = self._vocabulary
        if vocabulary is None:
            words = (word for source in [*self._sources.values()] for word in source())
            vocabulary = self._vocabulary = Vocabulary(word for word in words if len(word) >= SHORTEST)
        return logs.without_tokens(vocabulary.masked(text))


_current: ContextVar[SecretWords | None] = ContextVar("stellwerk_secrets", default=None)
_NONE = SecretWords()


@contextmanager
def reading() -> Iterator[SecretWords]:
    """Secrets that this task and its children note are those of one pass while inside."""
    secrets = SecretWords()
    token = _current.set(secrets)
    try:
        yield secrets
    finally:
        _current.reset(token)


def note(source: str, words: Words) -> None:
    """The pass under way, if one is, has read these secret words. Texts and lines of values are words of their own."""
    if (secrets := _current.get()) is not None:
        secrets.note(source, words)


def current() -> SecretWords:
    """The secrets of the pass under way; none outside of a pass."""
    return _current.get() or _NONE


# ---- what leaves a pass


async def mask_failure(failure: ReconcileError) -> None:
    """Mask the message of a failure, in place."""
    shown = await current().masked(str(failure))
    if shown != str(failure):
        failure.args = (shown,)


async def masked_status(status: S, shown: Record | None) -> S:
    """The status with masked messages. Messages that the object shows already were masked when they were written."""
    listed = _conditions(status)
    known = {condition.message for condition in _conditions(shown)} if shown is not None else set()
    masked = [
        condition
        if condition.message in known
        else msgspec.structs.replace(condition, message=await current().masked(condition.message))
        for condition in listed
    ]
    if all(new.message == old.message for new, old in zip(masked, listed, strict=True)):
        return status
    return msgspec.structs.replace(status, conditions=tuple(masked))


def _conditions(status: Record) -> tuple[Condition, ...]:
    return cast("tuple[Condition, ...]", getattr(status, "conditions", ()))
