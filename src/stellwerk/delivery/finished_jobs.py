"""Jobs that Kubernetes has removed after their success, remembered as they were.

A Job with `ttlSecondsAfterFinished` can be removed before any pass has seen that it is complete. Without this memory it
would count as deleted by another client, and would run again, for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stellwerk.api.batch import Job
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.readiness.kstatus import conditions_of
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.apply.set.plan.plan_object import goes_by_itself
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime.cache.informer import Delta

MOST_FINISHED = 1_000
"""Jobs that are remembered; the oldest go first."""


@dataclass(slots=True)
class FinishedJobs:
    """The Jobs of one cluster that were complete when Kubernetes removed them. A new Job replaces the one before."""

    _jobs: OrderedDict[ObjectIdentity, LiveObject] = field(default_factory=OrderedDict)

    def note(self, delta: Delta[Live]) -> None:
        """Take over a change of an object of any kind."""
        live = delta.latest
        if not isinstance(live, Unstructured) or not goes_by_itself(live.body):
            return
        address = Address(Job.resource, delta.key)
        identity = ObjectIdentity.of(address.ref)
        self._jobs.pop(identity, None)
        complete = conditions_of(live.body).get("Complete")
        if delta.new is None and complete is not None and complete.status == "True":
            body = json_edit.without(live.body, "metadata", "deletionTimestamp")
            metadata = msgspec.structs.replace(live.metadata, deletion_timestamp=None)
            self._jobs[identity] = LiveObject(address, Unstructured(body, metadata))
            if len(self._jobs) > MOST_FINISHED:
                self._jobs.popitem(last=False)

    def of(self, is_owned: Callable[[Live], bool]) -> dict[ObjectIdentity, LiveObject]:
        """Those of one owner, as they were before their deletion."""
        return {identity: seen for identity, seen in self._jobs.items() if is_owned(seen.live)}
