"""Manifest: one module of one Kyma, installed in the cluster of that Kyma. Made by the Kyma controller.

A spec is read leniently and refused by the API server, as those of modules.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record, always_written
from stellwerk.operators.kyma.api_module import EMBEDDED_RESOURCE, LabelSelector, Manager, refuse_deep
from stellwerk.operators.kyma.api_status import (
    FORMER_VERSION,
    GROUP,
    VERSION,
    JsonMap,
    LastOperation,
    State,
    always_written_map,
    documented_conditions,
    unset,
)


class CustomResourcePolicy(StrEnum):
    """What becomes of the module's default custom resource."""

    CreateAndDelete = "CreateAndDelete"
    Ignore = "Ignore"


class LayerType(StrEnum):
    """What the layer of an OCI registry holds."""

    OciRef = "oci-ref"
    OciDir = "oci-dir"


POLICY = documented(
    "What becomes of the module's default custom resource. CreateAndDelete: created once and deleted with the module. "
    "Ignore: neither.",
    values=tuple(CustomResourcePolicy),
    default=CustomResourcePolicy.CreateAndDelete,
)


class InstallInfo(Record, frozen=True, kw_only=True):
    """Where the objects of the module come from."""

    name: Annotated[str, documented("Name of the layer.", required=True, example="raw-manifest")] = always_written()
    source: Annotated[
        JsonMap,
        documented(
            "The layer: repo, name, ref and type, which is oci-ref for one YAML file and oci-dir for an archive with "
            "one. Without a registry: type raw-url with url and, as ref, the digest of its content, or type raw-inline "
            "with the YAML as manifest.",
            required=True,
        ),
    ] = always_written_map()


class LegacyConfig(Record, frozen=True, kw_only=True):
    """Accepted for compatibility; has no effect."""

    repo: Annotated[str, documented("Has no effect.")] = ""
    name: Annotated[str, documented("Has no effect.")] = ""
    ref: Annotated[str, documented("Has no effect.")] = ""
    type: Annotated[str, documented("Has no effect.", values=("helm-chart", "oci-ref", "kustomize", ""))] = ""
    cred_secret_selector: Annotated[LabelSelector | None, documented("Has no effect.", map_type="atomic")] = None


class ManifestSpec(Record, frozen=True, kw_only=True):
    """What is to be installed."""

    install: Annotated[InstallInfo, documented("Where the objects of the module come from.", required=True)] = (
        InstallInfo()
    )
    remote: Annotated[bool, documented("Has no effect: all modules are installed remotely.", required=True)] = (
        msgspec.field(default_factory=bool)
    )
    version: Annotated[str, documented("Version of the module.", example="1.0.0")] = ""
    localized_images: Annotated[
        tuple[str, ...],
        documented("Images that take the place of those with the same name and tag.", example="registry.local/app:1.0"),
    ] = ()
    manager: Annotated[
        Manager | None,
        documented(
            "Workload whose readiness is that of the module.", otherwise="the first Deployment or StatefulSet of it"
        ),
    ] = None
    resource: Annotated[
        JsonMap | None,
        documented("The module's default custom resource.", nullable=True, schema=EMBEDDED_RESOURCE),
    ] = None
    custom_resource_policy: Annotated[str, POLICY] = CustomResourcePolicy.CreateAndDelete
    config: Annotated[LegacyConfig | None, documented("Accepted for compatibility; has no effect.")] = None

    def __post_init__(self) -> None:
        """Raises ValueError for JSON that is nested too deep."""
        refuse_deep("install.source", self.install.source)
        refuse_deep("resource", self.resource)


class SyncedResource(Record, frozen=True, kw_only=True, order=True, gc=False):
    """An object that is in the cluster because of the Manifest. Only these are ever deleted."""

    group: Annotated[str, documented("API group; empty: the core group.", example="apps")]
    version: Annotated[str, documented("API version.", example="v1")]
    kind: Annotated[str, documented("Kind.", example="Deployment")]
    name: Annotated[str, documented("Name.", example="template-operator-controller-manager")]
    namespace: Annotated[str, documented("Namespace; empty for objects without one.", example="kyma-system")]


class ManifestStatus(Record, frozen=True, kw_only=True):
    """How the module is in its cluster. Written by the operator only."""

    state: Annotated[
        State,
        documented(
            "Ready: applied, and its manager works. Processing and Deleting: under way. Warning: nothing is deleted "
            "because what was read seems incomplete. Error: it could not be applied, or its manager fails.",
            required=True,
            example="Ready",
        ),
    ] = unset()
    conditions: Annotated[
        tuple[Condition, ...], documented_conditions("Resources, Installation, and ModuleCR if there is a default one")
    ] = ()
    last_operation: Annotated[LastOperation | None, documented("What was last done, or why it failed.")] = None
    synced: Annotated[
        tuple[SyncedResource, ...], documented("The objects that are in the cluster.", list_type="atomic")
    ] = ()


class Manifest(Kind, frozen=True, kw_only=True):
    """One module of one Kyma, installed in the cluster of that Kyma."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Manifest", "manifests", namespaced=True)

    spec: Annotated[ManifestSpec, documented("What is to be installed.", required=False)] = ManifestSpec()
    status: Annotated[ManifestStatus, documented("How the module is in its cluster.", required=False)] = (
        ManifestStatus()
    )


class _FormerManifest(Manifest, frozen=True, kw_only=True):
    """One module of one Kyma, installed in the cluster of that Kyma."""

    resource: ClassVar[Resource] = Resource(GROUP, FORMER_VERSION, "Manifest", "manifests", namespaced=True)


_STATE = PrinterColumn(name="State", path=".status.state")
MANIFESTS = Definition(
    versions=(
        Version(
            kind=Manifest,
            columns=(
                _STATE,
                PrinterColumn(name="Version", path=".spec.version"),
                PrinterColumn(name="Reason", path=".status.lastOperation.operation"),
                AGE,
            ),
        ),
        Version(
            kind=_FormerManifest,
            columns=(_STATE, AGE),
            served=False,
            deprecated="kyma-project.io/v1beta1 Manifest is deprecated. Use v1beta2 instead.",
        ),
    ),
)
