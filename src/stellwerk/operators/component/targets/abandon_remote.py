"""Giving up what is in another cluster, because there is no way into it any more (pure).

A Component keeps its finalizer until its objects are gone. Where their cluster was torn down, or no user has its
kubeconfig any more, that is for ever, and people take the finalizer off by hand: silently, and also from Components
whose cluster was only restarted. So there is an annotation for it. Its value is the uid of the Component, not `true`:
a line of a manifest in Git must not abandon the next Component of that name in the first outage. And it is looked
at in a deletion only, at the moment at which the cluster cannot be reached; while it answers, its objects are deleted.
"""

from __future__ import annotations

from stellwerk.operators.component.api import ABANDON_ANNOTATION, Component
from stellwerk.operators.component.errors import (
    ClusterTooLarge,
    ClusterUnreachable,
    InvalidKubeConfig,
    ReferencesUnresolved,
)
from stellwerk.runtime.reconciler import Notice, Severity

OUT_OF_REACH = (ReferencesUnresolved, InvalidKubeConfig, ClusterUnreachable, ClusterTooLarge)
"""What keeps us out of a cluster: no kubeconfig, none that can be used, no answer, too many objects. A refusal is
an answer."""

REASON = "ObjectsAbandoned"

_SHOWN = 5
_LONGEST = 60


def is_asked_for(component: Component) -> bool:
    """Whether a user has annotated this very Component so that its objects may stay where they are."""
    asked = component.metadata.annotations.get(ABANDON_ANNOTATION, "")
    return component.spec.kube_config is not None and asked == component.metadata.uid


def advice(component: Component) -> str:
    """The next step, for the message of a deletion that cannot go on."""
    count = len(component.status.inventory)
    objects = "its one object there stays" if count == 1 else f"its {count} objects there stay"
    return (
        f"if the cluster is gone for good, annotate the component with {ABANDON_ANNOTATION}={component.metadata.uid}: "
        f"it is deleted then, and {objects}"
    )


def left_behind(component: Component) -> list[str]:
    """What stays, each as `ConfigMap shop/web`."""
    return [str(item.ref) for item in component.status.inventory]


def notice(component: Component, why: str) -> Notice:
    """The Event that reports it. `why`: what prevented access."""
    names = left_behind(component)
    more = len(names) - _SHOWN
    said = "; ".join(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in names[:_SHOWN])
    listed = f"{said}; and {more} more" if more > 0 else said or "nothing"
    message = f"left behind in the other cluster, as {ABANDON_ANNOTATION} asks: {listed} ({why})"
    return Notice(REASON, message, Severity.WARNING, "Delete")
