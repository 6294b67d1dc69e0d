"""Which BtpOperator represents the module, known without a look at all of them for each change.

Tenants may create thousands of BtpOperators. `plan.leader` compares all of them; here its answer is kept and brought up
to date by each change of a CR. Only where the leader goes, or the rule changes, all are compared again.

A CR that cannot be decoded does not lead, although the cache may hold a former version of it: what it asks for is not
known, so it would block all others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import plan
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.cache.store import Store


class Leading:
    """Follows the CRs in a store. `is_fixed` returns whether only the standard place may lead."""

    def __init__(
        self, store: Store[BtpOperator], is_fixed: Callable[[], bool], unreadable: Container[ObjectKey] = ()
    ) -> None:
        self.finished: set[str] = set()
        """UIDs of CRs whose module is gone and which the cache still shows. Add to it with `finish`."""
        self._store = store
        self._is_fixed = is_fixed
        self._unreadable = unreadable
        self._known: BtpOperator | None = None
        self._known_by: bool | None = None
        """The rule by which the leader was found; None while all CRs have to be compared."""
        self._announced: tuple[str, bool] | None = None

    def current(self) -> BtpOperator | None:
        """The CR that represents the module; None when no CR qualifies."""
        fixed = self._is_fixed()
        if self._known_by is not fixed:
            present = [
                cr
                for cr in self._store.all()
                if cr.metadata.uid not in self.finished and cr.key not in self._unreadable
            ]
            self._known, self._known_by = plan.leader(present, fixed=fixed), fixed
        return self._known

    def finish(self, operator: BtpOperator) -> None:
        """The module of this CR is gone: it does not lead any more."""
        shown = self._store.get(operator.key)
        if shown is not None and shown.metadata.uid == operator.metadata.uid:
            self.finished.add(operator.metadata.uid)
        self._known_by = None

    def invalidate(self) -> None:
        """A CR cannot be decoded, or no longer so: compare all of them again."""
        self._known_by = None

    def take(self, delta: Delta[BtpOperator]) -> None:
        """Follow a change of a CR."""
        known, new = self._known, delta.new
        if new is None:  # restored from a backup, it returns with its uid, and its module is to be there again
            self.finished.discard(delta.latest.metadata.uid)
        if self._known_by is None:
            return
        if known is None or delta.latest.metadata.uid != known.metadata.uid:
            if new is not None and new.metadata.uid not in self.finished:
                self._known = plan.leader([new] if known is None else [known, new], fixed=self._known_by)
        elif new is not None and _still_leads(new, known, fixed=self._known_by):
            self._known = new
        else:
            self._known_by = None

    def woken_by(self, delta: object) -> Iterable[ObjectKey]:
        """All CRs, where after this change another one leads, or by another rule: each of them shows who leads."""
        leader = self.current()
        now = (leader.metadata.uid if leader is not None else "", self._is_fixed())
        before, self._announced = self._announced, now
        return [] if before == now else [operator.key for operator in self._store.all()]


def _still_leads(new: BtpOperator, known: BtpOperator, *, fixed: bool) -> bool:
    """Whether a change of the leader leaves its place among the others as it was."""
    same_age = new.metadata.creation_timestamp == known.metadata.creation_timestamp
    return same_age and plan.may_lead(new, fixed=fixed)
