"""Makes facts true: sources with artifacts, Components, and what they refer to."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stellwerk.api import flux
from stellwerk.api.core import ConfigMap, Namespace, Secret, ServiceAccount
from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, View, metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.artifacts import ArtifactServer, Published
from tests.cluster import permissions
from tests.cluster.component.manifests import GATE


def config_map(name: str, **data: str) -> str:
    """A manifest."""
    lines = "\n".join(f"  {key}: {value!r}" for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{lines or '  a: b'}\n"


@dataclass(frozen=True, slots=True)
class Given:
    """Acts as an administrator in the test's namespace."""

    client: Client
    server: ArtifactServer
    namespace: str
    namespaces: list[str] = field(default_factory=list)
    """Those that the test has besides."""

    async def source(
        self, files: Mapping[str, str | bytes], name: str = "source", *, revision: str = "", ready: bool = True
    ) -> Published:
        """A GitRepository that offers these files."""
        artifact = self.server.publish(f"{self.namespace}/{name}.tar.gz", files, revision=revision)
        await self.offers(artifact, name, ready=ready)
        return artifact

    async def offers(
        self,
        artifact: Published,
        name: str = "source",
        *,
        kind: type[flux.FluxSource] = flux.GitRepository,
        version: str = "v1",
        ready: bool = True,
        digest: str = "",
    ) -> None:
        """A source of flux whose status names an artifact."""
        (resource,) = (one for one in flux.resources(kind) if one.version == version)
        view = View(resource, kind)
        body: JsonObject = {"metadata": {"name": name, "namespace": self.namespace}, "spec": {"url": artifact.url}}
        written = await self.client.apply(view, body)
        condition: JsonObject = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "Stored" if ready else "Failed",
            "message": "stored artifact" if ready else "cannot clone",
            "observedGeneration": written.metadata.generation,
            "lastTransitionTime": datetime.now(UTC).isoformat(),
        }
        found: JsonObject = {
            "url": artifact.url,
            "digest": digest or artifact.digest,
            "revision": artifact.revision,
            "lastUpdateTime": datetime.now(UTC).isoformat(),
        }
        status: JsonObject = {"status": {"conditions": [condition], "artifact": found}}
        await self.client.patch(metadata_of(resource), name, self.namespace, MergePatch(status), subresource="status")

    async def source_says(self, status: JsonObject, name: str = "source") -> None:
        """A GitRepository whose status is another one."""
        target = metadata_of(flux.GitRepository)
        await self.client.patch(target, name, self.namespace, MergePatch({"status": status}), subresource="status")

    async def component(self, name: str = "comp", source: str = "source", /, **spec: Any) -> Component:
        """A Component of a GitRepository; further fields of its spec as the manifest spells them."""
        wanted: JsonObject = {"sourceRef": {"fluxGitRepository": {"name": source}}, **spec}
        metadata: JsonObject = {"name": name, "namespace": self.namespace}
        return await self.client.apply(Component, {"metadata": metadata, "spec": wanted}, force=True)

    async def annotated(self, name: str = "comp", **annotations: str) -> None:
        """A Component with an annotation more: how people poke one."""
        patch = MergePatch({"metadata": {"annotations": {**annotations}}})
        await self.client.patch(metadata_of(Component), name, self.namespace, patch)

    async def labelled(self, name: str = "comp", **labels: str) -> None:
        """A Component with a label more."""
        patch = MergePatch({"metadata": {"labels": {**labels}}})
        await self.client.patch(metadata_of(Component), name, self.namespace, patch)

    async def opened(self, *names: str, is_open: bool = True) -> None:
        """Gates that are open, or closed again; those of an object that does not exist yet are waited for."""
        condition: JsonObject = {"type": "Ready", "status": str(is_open), "reason": "Test"}
        status = MergePatch({"status": {"conditions": [condition]}})
        for name in names:
            await eventually(lambda name=name: self._has_gate(name), describe=f"gate {name} exists")  # type: ignore[misc]
            await self.client.patch(metadata_of(GATE), name, self.namespace, status, subresource="status")

    async def _has_gate(self, name: str) -> bool:
        return await self.client.find(metadata_of(GATE), name, self.namespace) is not None

    async def account(self, name: str, role: str) -> None:
        """A ServiceAccount that may do in the test's namespace what a ClusterRole says, as `edit` and `admin`."""
        metadata: JsonObject = {"name": name, "namespace": self.namespace}
        await self.client.apply(ServiceAccount, {"metadata": metadata})
        reference: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject: JsonObject = {"kind": "ServiceAccount", **metadata}
        body: JsonObject = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
        await self.client.apply(RoleBinding, body)
        user = permissions.account(name, self.namespace)
        await permissions.count(self.client, user, permissions.on("configmaps", "update", self.namespace))

    async def secret(self, name: str, **values: str) -> None:
        """A Secret."""
        metadata: JsonObject = {"name": name, "namespace": self.namespace}
        await self.client.apply(Secret, {"metadata": metadata, "stringData": {**values}})

    async def secret_deleted(self, name: str) -> None:
        """A Secret that somebody has deleted."""
        await self.client.delete(metadata_of(Secret), name, self.namespace)

    async def config(self, name: str, namespace: str = "", **data: str) -> ConfigMap:
        """A ConfigMap of somebody else."""
        metadata: JsonObject = {"name": name, "namespace": namespace or self.namespace}
        return await self.client.apply(ConfigMap, {"metadata": metadata, "data": {**data}})

    def a_namespace_to_be_made(self) -> str:
        """The name of a namespace that does not exist, and will not after the test."""
        name = f"made-{secrets.token_hex(5)}"
        self.namespaces.append(name)
        return name

    async def a_namespace(self, name: str = "") -> str:
        """A further namespace, until the end of the test."""
        name = name or self.a_namespace_to_be_made()
        await self.client.apply(Namespace, {"metadata": {"name": name}})
        return name

    async def tidy(self) -> None:
        """Take the further namespaces away; nobody waits for their end."""
        for name in self.namespaces:
            await self.client.delete(metadata_of(Namespace), name)

    async def written_by(self, manager: str, name: str, **data: str) -> None:
        """Keys of a ConfigMap that somebody else has written."""
        patch = MergePatch({"data": {**data}})
        await self.client.patch(metadata_of(ConfigMap), name, self.namespace, patch, field_manager=manager)

    async def finalizers(self, name: str, *finalizers: str) -> None:
        """A ConfigMap with these finalizers and no others."""
        patch = MergePatch({"metadata": {"finalizers": [*finalizers]}})
        await self.client.patch(metadata_of(ConfigMap), name, self.namespace, patch)

    async def config_deleted(self, name: str) -> None:
        """A ConfigMap that somebody has deleted."""
        await self.client.delete(metadata_of(ConfigMap), name, self.namespace)

    async def deleted(self, name: str = "comp") -> None:
        """A Component that somebody asked to go."""
        await self.client.delete(metadata_of(Component), name, self.namespace)
