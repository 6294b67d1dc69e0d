"""What every pass over an object of the CAP Operator answers besides its result.

Any change of an annotation starts a pass. Whatever the pass came to, a failure included, the status repeats the request
to look at the object now, so that users see that their own request was handled. And it shows `Stalled` or `Reconciling`
as the state and the failure of the pass have it, so that no reconciler thinks of them; if neither is due, the
one that reported an object which could not be read goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec

from stellwerk.delivery import reconcile_request
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap.kinds.status import ReconciledStatus
from stellwerk.operators.cap.kstatus import cause_of
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.reconciler import Next, Pass, ReconcileError, Reconciler

K_contra = TypeVar("K_contra", bound=Kind, contravariant=True)
S = TypeVar("S", bound=ReconciledStatus)


@dataclass(frozen=True, slots=True)
class Answering(Generic[K_contra, S]):
    """A reconciler whose status shows which request was handled, and whether a user has to act."""

    reconciler: Reconciler[K_contra, S]
    clock: Clock

    def begin(self, obj: K_contra) -> Pass[S]:
        """As `Reconciler.begin`."""
        return _AnsweringPass(self.reconciler.begin(obj), obj, self.clock)

    async def forget(self, key: ObjectKey) -> None:
        """As `Reconciler.forget`."""
        await self.reconciler.forget(key)


@dataclass(frozen=True, slots=True)
class _AnsweringPass(Generic[S]):
    inner: Pass[S]
    obj: Kind
    clock: Clock

    async def run(self) -> Next[S]:
        answer = await self.inner.run()
        if answer.status is not None:
            return replace(answer, status=self._with_answer(answer.status))
        shown: S = self.obj.status  # type: ignore[attr-defined]  # every kind with a reconciler has one
        status = self._with_answer(shown)
        if status == shown or self.obj.metadata.is_terminating:  # a status may have no object any more
            return answer
        return replace(answer, status=status, quiet=True)

    def report(self, failure: ReconcileError) -> S | None:
        status = self.inner.report(failure)
        return self._with_answer(status, failure) if status is not None else None

    def _with_answer(self, status: S, failure: ReconcileError | None = None) -> S:
        asked = reconcile_request.asked(self.obj.metadata)
        shown = conditions.with_cause(status.conditions, cause_of(self.obj, status, failure), self.clock.now())
        return msgspec.structs.replace(status, last_handled_reconcile_at=asked, conditions=shown)
