"""Typed calls to one API server.

    calls    what every request and answer have in common, and any request at all (`raw`)
    reads    get, find, list, pages, watch
    writes   create, apply, update, patch, delete
    client   how a client is made, and the identity that it acts as

Callers need this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from stellwerk import __version__
from stellwerk.kube.client.reads import MAX_LINE_BYTES, PAGE, Admission, ListSelection, Reads, VersionMatch, WatchEvent
from stellwerk.kube.client.request_builder import Target, view_of
from stellwerk.kube.client.writes import Deletion, FieldValidation, Propagation, Writes
from stellwerk.kube.http.transport import LARGEST_ANSWER_BYTES, RequestFacts, ServerBounds, Transport
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.memory_budget import MemoryBudget

__all__ = [
    "MAX_LINE_BYTES",
    "PAGE",
    "USER_AGENT",
    "Admission",
    "Client",
    "Deletion",
    "FieldValidation",
    "ListSelection",
    "Propagation",
    "Target",
    "VersionMatch",
    "WatchEvent",
    "view_of",
]

USER_AGENT = f"stellwerk/{__version__}"


class Client(Reads, Writes):
    """One API server, one identity. Use as an async context manager, or `close()` it."""

    @classmethod
    def connect(
        cls,
        config: ClusterConfig,
        bounds: ServerBounds = ServerBounds(),  # noqa: B008  # immutable
        *,
        field_manager: str = "stellwerk",
        user_agent: str = USER_AGENT,
        on_request: Callable[[RequestFacts], None] | None = None,
        before_write: Callable[[], None] | None = None,
        largest_answer_bytes: int = LARGEST_ANSWER_BYTES,
        largest_list_bytes: int | None = None,
        call_seconds: float | None = None,
        budget: MemoryBudget | None = None,
    ) -> Client:
        """A client for this cluster. Nothing is sent yet.

        `field_manager`: who owns what we apply. `before_write` is called before every write that is not a dry run and
        may raise to prevent it. `call_seconds` bounds each call with its retries, and no watch. `budget`: of the
        memory that answers and lists take while they are read, shared by several clients.
        """
        transport = Transport(
            config,
            user_agent=user_agent,
            on_request=on_request,
            largest_answer_bytes=largest_answer_bytes,
            largest_list_bytes=largest_list_bytes,
            call_seconds=call_seconds,
            budget=budget,
            bounds=bounds,
        )
        client = cls(transport, field_manager=field_manager, before_write=before_write)
        return client.acting_as(*config.impersonate) if config.impersonate else client

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> Client:
        """The same connections under another identity (impersonation; the API server checks the right to do so)."""
        other = self._derived()
        other._acting = (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))
        return other

    def with_field_manager(self, name: str) -> Client:
        """The same connections and identity under another field manager."""
        other = self._derived()
        other._field_manager = name
        return other

    def for_tenant(self, tenant: str) -> Client:
        """The same connections and identity, for calls that may be slow by a tenant's fault and delay only its own."""
        other = self._derived()
        other._tenant = tenant
        return other

    def for_tenants_by_namespace(self) -> Client:
        """The same connections and identity. A write is for the tenant that the namespace of its object is.

        Reads and statuses stay the caller's own calls: they show why a write hangs.
        """
        other = self._derived()
        other._is_by_namespace = True
        return other

    def _derived(self) -> Client:
        other = Client(self._transport, field_manager=self._field_manager, before_write=self._before_write)
        other._acting, other._tenant, other.mapper = self._acting, self._tenant, self.mapper
        other._is_by_namespace = self._is_by_namespace
        return other
