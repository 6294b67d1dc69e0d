"""What an operator that is no administrator may do, changed as a test goes on."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, to_json_object
from stellwerk.operators.component import rights
from tests.cluster import permissions

ALL = ["get", "list", "watch", "create", "patch", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Rights:
    """What an operator that is no administrator may do besides its own work."""

    client: Client
    user: str

    async def are(self, *rules: tuple[str, list[str]]) -> None:
        """These verbs on these resources of the core group, anywhere, and no others."""
        own: list[JsonValue] = [to_json_object(grant.rule) for grant in rights.GRANTS]
        asked: list[JsonValue] = [_rule(resource, verbs) for resource, verbs in rules]
        mark, marked = permissions.mark()
        role: JsonObject = {"metadata": {"name": self.user}, "rules": [*own, *asked, mark]}
        await self.client.apply(ClusterRole, role, force=True)
        await self.client.apply(ClusterRoleBinding, {"metadata": {"name": self.user}, **self._bound_to("ClusterRole")})
        await permissions.count(self.client, self.user, marked)

    async def are_in(self, namespace: str, *rules: tuple[str, list[str]]) -> None:
        """These verbs on these resources of the core group in one namespace, and no others there."""
        named: JsonObject = {"name": self.user, "namespace": namespace}
        asked: list[JsonValue] = [_rule(resource, verbs) for resource, verbs in rules]
        mark, marked = permissions.mark()
        await self.client.apply(Role, {"metadata": named, "rules": [*asked, mark]}, force=True)
        await self.client.apply(RoleBinding, {"metadata": named, **self._bound_to("Role")})
        await permissions.count(self.client, self.user, permissions.within(marked, namespace))

    async def end(self) -> None:
        """None, anywhere in the whole cluster."""
        await self.client.delete(metadata_of(ClusterRoleBinding), self.user)
        await self.client.delete(metadata_of(ClusterRole), self.user)

    def _bound_to(self, kind: str) -> JsonObject:
        group = "rbac.authorization.k8s.io"
        role: JsonObject = {"apiGroup": group, "kind": kind, "name": self.user}
        subject: JsonObject = {"apiGroup": group, "kind": "User", "name": self.user}
        return {"roleRef": role, "subjects": [subject]}


def _rule(resource: str, verbs: list[str]) -> JsonObject:
    return {"apiGroups": [""], "resources": [resource], "verbs": [*verbs]}
