"""Kyma: the modules of one cluster. Also the definitions of all kinds of the lifecycle manager.

A spec is read leniently and refused by the API server: an object that breaks a newer rule must not hide all others.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.operators.kyma.api_manifest import MANIFESTS, POLICY, CustomResourcePolicy
from stellwerk.operators.kyma.api_module import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from stellwerk.operators.kyma.api_status import (
    FORMER_VERSION,
    GROUP,
    VERSION,
    LastOperation,
    State,
    documented_conditions,
)
from stellwerk.operators.kyma.api_watcher import WATCHERS


class Module(Record, frozen=True, kw_only=True, gc=False):
    """A module that the cluster is to have."""

    name: Annotated[str, documented("Name of the module.", example="template-operator")]
    channel: Annotated[
        str,
        documented(
            "Channel that its version comes from.",
            pattern=text_forms.CHANNEL.pattern,
            min_length=3,
            max_length=32,
            otherwise="that of the Kyma",
            example="fast",
        ),
    ] = ""
    custom_resource_policy: Annotated[str, POLICY] = CustomResourcePolicy.CreateAndDelete
    managed: Annotated[
        bool,
        documented("false: the module stays in the cluster as it is, without updates.", default=True, required=True),
    ] = True
    controller: Annotated[str, documented("Accepted for compatibility; has no effect.")] = ""
    remote_module_template_ref: Annotated[str, documented("Accepted for compatibility; has no effect.")] = ""


class KymaSpec(Record, frozen=True, kw_only=True):
    """Which modules the cluster is to have."""

    channel: Annotated[
        str,
        documented(
            "Channel of the modules that name none.",
            form=text_forms.CHANNEL,
            min_length=3,
            max_length=32,
            required=True,
            example="regular",
        ),
    ] = ""
    skip_maintenance_windows: Annotated[
        bool, documented("Upgrades that need a downtime do not wait for a maintenance window.")
    ] = False
    modules: Annotated[tuple[Module, ...], documented("The modules.", list_type="map", list_map_keys=("name",))] = ()


class TrackedMetadata(Record, frozen=True, kw_only=True, gc=False):
    """Where the object is."""

    name: Annotated[str, documented("Its name.")] = ""
    namespace: Annotated[str, documented("Its namespace; empty for objects without one.")] = ""
    generation: Annotated[int, documented("Its generation when it was last looked at.")] = 0


class TrackedObject(Record, frozen=True, kw_only=True, gc=False):
    """An object that belongs to a module."""

    api_version: Annotated[str, documented("Its API version.", example="operator.kyma-project.io/v1beta2")] = ""
    kind: Annotated[str, documented("Its kind.", example="Manifest")] = ""
    metadata: Annotated[TrackedMetadata, documented("Where it is.", required=False)] = TrackedMetadata()


class ModuleStatus(Record, frozen=True, kw_only=True):
    """How a module is."""

    name: Annotated[str, documented("Name of the module.", example="template-operator")]
    state: Annotated[
        State,
        documented(
            "Ready: it works. Processing and Deleting: under way. Unmanaged: left alone. Warning: a user has to act. "
            "Error: it does not work.",
            example="Ready",
        ),
    ]
    fqdn: Annotated[str, documented("The same as ocmComponentName.")] = ""
    ocm_component_name: Annotated[
        str, documented("Name of its OCM component.", example="kyma-project.io/module/template-operator")
    ] = ""
    channel: Annotated[str, documented("Channel that its version comes from.", example="regular")] = ""
    version: Annotated[str, documented("Its version.", example="1.0.0")] = ""
    message: Annotated[str, documented("Why it is as it is, and what to do.")] = ""
    maintenance: Annotated[
        bool, documented("Whether another version waits for a maintenance window.", default=False)
    ] = False
    manifest: Annotated[TrackedObject | None, documented("Its Manifest, in the control plane.")] = None
    template: Annotated[TrackedObject | None, documented("Its ModuleTemplate.")] = None
    resource: Annotated[TrackedObject | None, documented("Its default custom resource.")] = None


class KymaStatus(Record, frozen=True, kw_only=True):
    """How the modules are. Written by the operator only."""

    state: Annotated[
        State,
        documented(
            "Ready: all modules work. Processing and Deleting: under way. Warning: a user has to act. Error: a module "
            "does not work, or the cluster cannot be managed.",
            example="Ready",
        ),
    ] = State.Unset
    active_channel: Annotated[
        str, documented("The channel with which the Kyma was last Ready or Warning.", example="regular")
    ] = ""
    conditions: Annotated[
        tuple[Condition, ...],
        documented_conditions("CRDsSync, Modules, ModuleCatalog, SKRWebhook and SKRImagePullSecretSync"),
    ] = ()
    last_operation: Annotated[LastOperation | None, documented("What was last done, or why it failed.")] = None
    modules: Annotated[tuple[ModuleStatus, ...], documented("The modules, by name.")] = ()


class Kyma(Kind, frozen=True, kw_only=True):
    """The modules of one cluster."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Kyma", "kymas", namespaced=True)

    spec: Annotated[KymaSpec, documented("Which modules the cluster is to have.", required=False)] = KymaSpec()
    status: Annotated[KymaStatus, documented("How the modules are.", required=False)] = KymaStatus()


class _FormerSync(Record, frozen=True, kw_only=True):
    """Has no effect."""

    enabled: Annotated[bool, documented("Has no effect.", default=False)] = False
    namespace: Annotated[str, documented("Has no effect.")] = ""
    no_module_copy: Annotated[bool, documented("Has no effect.", default=True)] = True
    module_catalog: Annotated[bool, documented("Has no effect.", default=True)] = True
    strategy: Annotated[str, documented("Has no effect.", default="secret")] = "secret"


class _FormerKymaSpec(KymaSpec, frozen=True, kw_only=True):
    """Which modules the cluster is to have."""

    modules: Annotated[tuple[Module, ...], documented("The modules.")] = ()
    sync: Annotated[_FormerSync | None, documented("Has no effect.")] = None


class _FormerKyma(Kind, frozen=True, kw_only=True):
    """The modules of one cluster."""

    resource: ClassVar[Resource] = Resource(GROUP, FORMER_VERSION, "Kyma", "kymas", namespaced=True)

    spec: Annotated[_FormerKymaSpec, documented("Which modules the cluster is to have.", required=False)] = (
        _FormerKymaSpec()
    )
    status: Annotated[KymaStatus, documented("How the modules are.", required=False)] = KymaStatus()


# ---- the definitions

_STATE = PrinterColumn(name="State", path=".status.state")
KYMAS = Definition(
    versions=(
        Version(
            kind=Kyma,
            columns=(_STATE, PrinterColumn(name="Reason", path=".status.lastOperation.operation"), AGE),
        ),
        Version(
            kind=_FormerKyma,
            columns=(_STATE, AGE),
            served=False,
            deprecated="kyma-project.io/v1beta1 Kyma is deprecated. Use v1beta2 instead.",
        ),
    ),
)
DEFINITIONS = (KYMAS, MODULE_TEMPLATES, MODULE_RELEASE_METAS, MANIFESTS, WATCHERS)
"""The CustomResourceDefinitions, made from the structs. The first three are also those of the remote clusters."""
