"""What must become true: each method waits on a watch of the real API server, never on the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stellwerk.api.core import ConfigMap
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Kind, Unstructured, View, metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.testing.eventually import eventually
from tests.cluster.component.shown import StatusHistory

PATIENCE_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Then:
    """What must become true in the test's namespace."""

    client: Client
    history: StatusHistory
    namespace: str

    async def shows(
        self, state: str, reason: str = "", name: str = "comp", *, saying: str = "", within: float = PATIENCE_SECONDS
    ) -> Component:
        """The Component's latest entry has this state and reason, is about its latest spec, and says this."""
        generation = await self._generation(name)

        def holds() -> bool:
            page, found = self.history.pages.get(name, []), self.history.latest.get(name)
            return (
                bool(page)
                and found is not None
                and found.metadata.generation >= generation
                and found.status.observed_generation == found.metadata.generation
                and page[-1].state == state
                and reason in ("", page[-1].reason)
                and saying.lower() in page[-1].message.lower()
            )

        await self.history.until(
            holds, lambda: f"{name} never showed {state}/{reason} {saying!r}:\n{self.told(name)}", within
        )
        return self.history.latest[name]

    async def ready(self, name: str = "comp", *, revision: str = "", within: float = PATIENCE_SECONDS) -> Component:
        """The Component is Ready as its spec is now, with this revision of its source applied."""
        generation = await self._generation(name)

        def holds() -> bool:
            found = self.history.latest.get(name)
            return (
                found is not None
                and found.metadata.generation >= generation
                and found.is_ready
                and revision in ("", found.status.last_applied_revision)
            )

        await self.history.until(holds, lambda: f"{name} was never Ready:\n{self.told(name)}", within)
        return self.history.latest[name]

    async def _generation(self, name: str) -> int:
        """What the spec of a Component is now: the history may still be about an older one."""
        found = await self.client.find(metadata_of(Component), name, self.namespace)
        return found.metadata.generation if found is not None else 0

    async def counts(self, contents: int, name: str = "comp", *, within: float = PATIENCE_SECONDS) -> Component:
        """The Component has taken up so many contents, and is Ready with the last."""
        await self.history.until(
            lambda: (
                (found := self.history.latest.get(name)) is not None
                and found.is_ready
                and found.status.revision == contents
            ),
            lambda: f"{name} was never Ready with content {contents}:\n{self.told(name)}",
            within,
        )
        return self.history.latest[name]

    async def phases(self, expected: Mapping[str, str], name: str = "comp") -> Component:
        """The inventory comes to hold objects of these names, and no others, in these phases."""

        def found() -> dict[str, str]:
            component = self.history.latest.get(name)
            return {item.name: item.phase for item in component.status.inventory} if component is not None else {}

        await self.history.until(
            lambda: found() == expected, lambda: f"{name} has {found()}:\n{self.told(name)}", PATIENCE_SECONDS
        )
        return self.history.latest[name]

    async def turned(
        self, reason: str, name: str = "comp", *, times: int = 1, within: float = PATIENCE_SECONDS
    ) -> Component:
        """The Component has turned to this reason so many times, and shows it now."""

        def holds() -> bool:
            found = self.reasons(name)
            return found[-1:] == [reason] and found.count(reason) >= times

        await self.history.until(
            holds, lambda: f"{name} did not turn {reason} {times} times:\n{self.told(name)}", within
        )
        return self.history.latest[name]

    async def is_sealed_again(self, name: str, former: Sequence[str]) -> None:
        """The status of a Component comes to hold a seal of its delete hooks that is none of the former ones."""
        await self.history.until(
            lambda: not {*self.history.latest[name].status.delete_hook_seals} <= {*former},
            lambda: f"{name} was not sealed again:\n{self.told(name)}",
            PATIENCE_SECONDS,
        )

    async def gone(self, name: str = "comp", within: float = PATIENCE_SECONDS) -> None:
        """The Component is gone. The history alone does not say so: it may not have heard of it yet."""
        await self.absent(Component, name, within=within)
        await self.history.until(
            lambda: name not in self.history.latest, lambda: f"{name} is still there:\n{self.told(name)}", within
        )

    def told(self, name: str = "comp") -> str:
        """All that the Component has shown."""
        return "\n".join(map(str, self.history.pages.get(name, []))) or "it showed nothing"

    def reasons(self, name: str = "comp") -> list[str]:
        """The reasons that it has shown, in order, each run of equal ones once."""
        found: list[str] = []
        for shown in self.history.pages.get(name, []):
            if not found or found[-1] != shown.reason:
                found.append(shown.reason)
        return found

    async def config(self, name: str, namespace: str = "") -> ConfigMap:
        """A ConfigMap that exists."""
        return await self.client.get(ConfigMap, name, namespace or self.namespace)

    async def config_holds(self, name: str, data: Mapping[str, str]) -> None:
        """A ConfigMap comes to hold this."""

        async def holds() -> bool:
            found = await self.client.find(ConfigMap, name, self.namespace)
            assert found is not None, "it does not exist"
            assert found.data == data
            return True

        await eventually(holds, within=PATIENCE_SECONDS, describe=f"ConfigMap {name} holds {dict(data)}")

    async def config_is_another(self, name: str, uid: str) -> ConfigMap:
        """A ConfigMap comes to exist that is not the one with this uid."""

        async def found() -> ConfigMap | None:
            one = await self.client.find(ConfigMap, name, self.namespace)
            return one if one is not None and one.metadata.uid != uid else None

        one = await eventually(found, within=PATIENCE_SECONDS, describe=f"another ConfigMap {name}")
        assert one is not None
        return one

    async def event(self, reason: str, *, about: str, saying: str = "") -> None:
        """An Event comes."""

        async def came() -> bool:
            events = (await self.client.list(Event, self.namespace)).items
            return any(
                one.reason == reason and one.regarding.name == about and saying in (one.note or "") for one in events
            )

        await eventually(came, within=PATIENCE_SECONDS, describe=f"Event {reason} about {about} {saying!r}")

    async def exists(self, kind: type[Kind], name: str, namespace: str | None = None) -> bool:
        """Whether an object is there, and not on its way out."""
        found = await self.client.find(metadata_of(kind), name, self.namespace if namespace is None else namespace)
        return found is not None and not found.metadata.is_terminating

    async def absent(
        self, kind: type[Kind], name: str, namespace: str | None = None, *, within: float = PATIENCE_SECONDS
    ) -> None:
        """An object goes."""
        place = self.namespace if namespace is None else namespace

        async def is_absent() -> bool:
            return await self.client.find(metadata_of(kind), name, place) is None

        await eventually(is_absent, within=within, describe=f"{kind.__name__} {place}/{name} is gone")

    async def free_form(self, view: View[Unstructured], name: str) -> Unstructured:
        """An object of any kind."""
        return await self.client.get(view, name, self.namespace)

    def key(self, name: str = "comp") -> ObjectKey:
        """Where a Component of the test lies."""
        return ObjectKey(self.namespace, name)
