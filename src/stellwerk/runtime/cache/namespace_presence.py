"""Watches in single namespaces, which come and go: with a namespace go the Roles in it, and so the right to watch.

A user who may delete one of the namespaces to which an operator is limited must not stop it in the others. So the watch
of a namespace that does not exist is suspended, which counts as a list without objects; one that is refused in a
namespace that is being deleted does not count as missing. Until namespaces are listed, and without the right to watch
them, watches ask.
"""

from __future__ import annotations

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata
from stellwerk.runtime.cache.informer import Delta, Informer


class NamespacePresence:
    """Suspends watches while their namespace does not exist."""

    def __init__(self, namespaces: Informer[PartialObjectMetadata]) -> None:
        """`namespaces`: all of the cluster."""
        self._namespaces = namespaces
        self._followers: dict[str, set[Informer[HasMetadata]]] = {}
        namespaces.on_change(self._on_change)
        namespaces.on_parked(self._resume_all)
        namespaces.on_served(self._suspend_absent)

    async def follow(self, informer: Informer[HasMetadata]) -> None:
        """From now on the watch runs while its namespace exists. Call it whenever the watch is about to start."""
        await self._namespaces.wait_settled()
        self._followers.setdefault(informer.selection.namespace, set()).add(informer)
        self._suspend_absent()

    def forget(self, informer: Informer[HasMetadata]) -> None:
        """The watch has ended."""
        self._followers.get(informer.selection.namespace, set()).discard(informer)

    def is_ending(self, namespace: str) -> bool:
        """Whether a namespace is known to be absent, or is being deleted."""
        found = self._namespaces.store.get(ObjectKey("", namespace))
        return self._namespaces.has_synced and (found is None or found.metadata.is_terminating)

    def _suspend_absent(self) -> None:
        for namespace, followers in self._followers.items():
            if self._namespaces.has_synced and ObjectKey("", namespace) not in self._namespaces.store:
                for informer in followers:
                    informer.suspend(f"namespace {namespace} does not exist", is_empty=True)

    def _resume_all(self) -> None:
        """No change of a namespace is shown from now on."""
        for followers in self._followers.values():
            for informer in followers:
                informer.resume()

    def _on_change(self, delta: Delta[PartialObjectMetadata]) -> None:
        for informer in self._followers.get(delta.key.name, ()):
            if delta.new is None:
                informer.suspend(f"namespace {delta.key.name} was deleted, with all objects in it", is_empty=True)
            elif delta.old is None:
                informer.resume()
