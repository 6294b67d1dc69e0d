"""Watches of kinds that a cluster may not have: they wait for the definition of the kind, and ask nothing meanwhile.

A kind that is not served is asked for again and again, with growing pauses: a few requests every 15 seconds, for as
long as the project that brings the kind is not installed, which may be for ever. The definitions of all kinds are one
watch more, of metadata only, and report at once when a kind comes and goes.

Without the right to watch definitions, and until they are listed, the watches ask as others do.
"""

from __future__ import annotations

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata
from stellwerk.runtime.cache.informer import Delta, Informer


class Definitions:
    """Suspends watches while their kind has no definition."""

    def __init__(self, definitions: Informer[PartialObjectMetadata]) -> None:
        """`definitions`: the CustomResourceDefinitions of the cluster."""
        self._definitions = definitions
        self._followers: dict[str, set[Informer[HasMetadata]]] = {}
        definitions.on_change(self._on_change)
        definitions.on_parked(self._on_unknown)
        definitions.on_served(self._on_known)

    async def follow(self, informer: Informer[HasMetadata]) -> None:
        """From now on the watch runs while its kind has a definition. Call it whenever the watch is about to start."""
        await self._definitions.wait_settled()
        self._followers.setdefault(informer.view.resource.group_resource, set()).add(informer)
        if self._definitions.has_synced:
            self._suspend_if_absent(informer)

    def _suspend_if_absent(self, informer: Informer[HasMetadata]) -> None:
        name = informer.view.resource.group_resource
        if ObjectKey("", name) not in self._definitions.store:
            informer.suspend(f"the API server serves no {informer.view.resource.gvk}: it has no definition {name}")

    def _on_unknown(self) -> None:
        """No change of a definition is shown from now on."""
        for informer in self._all():
            informer.resume()

    def _on_known(self) -> None:
        """Definitions are watched again. No change shows what was absent before, and still is."""
        for informer in self._all():
            self._suspend_if_absent(informer)

    def _all(self) -> list[Informer[HasMetadata]]:
        return [informer for followers in self._followers.values() for informer in followers]

    def _on_change(self, delta: Delta[PartialObjectMetadata]) -> None:
        for informer in self._followers.get(delta.key.name, ()):
            if delta.new is None:
                informer.suspend(f"its definition {delta.key.name} was deleted, and with it all objects of the kind")
            else:
                informer.is_ending = delta.new.metadata.is_terminating
                informer.resume()
