"""ModuleTemplate and ModuleReleaseMeta: one version of a module, and which channel offers which version.

A spec is read leniently and refused by the API server: an object that breaks a newer rule must not hide all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, ValidationRule, Version, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.depth import LEVELS, TOO_DEEP, is_deeper
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record, always_written
from stellwerk.operators.kyma.api_status import FORMER_VERSION, GROUP, VERSION, JsonMap, State, always_written_map

LEVELS_ABOVE_JSON = 2
"""The object and its spec."""
EMBEDDED_RESOURCE = {"x-kubernetes-embedded-resource": True}


def refuse_deep(name: str, value: JsonMap | None) -> None:
    """Raise ValueError for JSON that is nested too deep; decoding makes an unreadable object of it."""
    if value is not None and is_deeper(value, LEVELS - LEVELS_ABOVE_JSON):
        raise ValueError(f"{name} is {TOO_DEEP}")


class LabelRequirement(Record, frozen=True, kw_only=True):
    """One expression of a selector."""

    key: Annotated[str, documented("Label.", example="kyma-project.io/region")]
    operator: Annotated[str, documented("In, NotIn, Exists or DoesNotExist.", example="In")]
    values: Annotated[
        tuple[str, ...],
        documented("Values of the label, for In and NotIn.", list_type="atomic", example="eu-de"),
    ] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it. An operator that does not exist is fulfilled by none."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return False


class LabelSelector(Record, frozen=True, kw_only=True):
    """Labels that an object must have; all of them."""

    match_labels: Annotated[dict[str, str], documented("Labels and their values.")] = msgspec.field(
        default_factory=dict
    )
    match_expressions: Annotated[
        tuple[LabelRequirement, ...], documented("Expressions about labels.", list_type="atomic")
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected; by an empty selector, each is (API convention)."""
        are_equal = all(labels.get(key) == value for key, value in self.match_labels.items())
        return are_equal and all(each.holds(labels) for each in self.match_expressions)


class GroupVersionKindName(Record, frozen=True, kw_only=True):
    """A kind."""

    group: Annotated[str, documented("API group; empty: the core group.", example="operator.example.com")]
    version: Annotated[str, documented("API version.", example="v1alpha1")]
    kind: Annotated[str, documented("Kind.", example="Sample")]


class Manager(Record, frozen=True, kw_only=True):
    """The workload that runs the module's own controller."""

    group: Annotated[str, documented("API group.", example="apps")]
    version: Annotated[str, documented("API version.", example="v1")]
    kind: Annotated[str, documented("Kind.", example="Deployment")]
    namespace: Annotated[str, documented("Namespace.", example="kyma-system")] = ""
    name: Annotated[str, documented("Name.", example="template-operator-controller-manager")]


# ---- ModuleTemplate


class ModuleIcon(Record, frozen=True, kw_only=True):
    """A picture of the module."""

    name: Annotated[str, documented("Name of the icon.", example="module-icon")]
    link: Annotated[str, documented("Address of the picture.", example="https://example.com/icon.svg")]


class ModuleInfo(Record, frozen=True, kw_only=True):
    """What people may want to know about the module. No controller reads it."""

    repository: Annotated[str, documented("Address of its source code.", example="https://github.com/example/module")]
    documentation: Annotated[str, documented("Address of its documentation.", example="https://example.com/docs")]
    icons: Annotated[tuple[ModuleIcon, ...], documented("Its icons.", list_type="map", list_map_keys=("name",))] = ()


class ModuleResource(Record, frozen=True, kw_only=True):
    """A file of the module."""

    name: Annotated[str, documented("Name of the file.", example="rawManifest")]
    link: Annotated[
        str, documented("Address of the file.", format="uri", example="https://example.com/releases/module.yaml")
    ]


class CustomStateCheck(Record, frozen=True, kw_only=True):
    """Accepted for compatibility; has no effect."""

    json_path: Annotated[str, documented("Has no effect.")]
    value: Annotated[str, documented("Has no effect.")]
    mapped_state: Annotated[str, documented("Has no effect.", values=tuple(State))]


class ModuleTemplateSpec(Record, frozen=True, kw_only=True):
    """What the version consists of, and who may have it."""

    module_name: Annotated[
        str, documented("Name of the module.", form=text_forms.MODULE_NAME, max_length=64, example="template-operator")
    ] = ""
    version: Annotated[
        str, documented("Version of the module.", form=text_forms.MODULE_VERSION, max_length=32, example="1.0.0")
    ] = ""
    channel: Annotated[
        str,
        documented(
            "Channel that offers this version, for modules without a ModuleReleaseMeta.",
            form=text_forms.CHANNEL_OR_EMPTY,
            max_length=32,
            example="regular",
        ),
    ] = ""
    mandatory: Annotated[bool, documented("Every cluster gets the module, and no user can choose it.")] = False
    requires_downtime: Annotated[
        bool, documented("A change to this version waits for a maintenance window, unless the Kyma skips them.")
    ] = False
    descriptor: Annotated[
        JsonMap,
        documented(
            "OCM component descriptor. It is read only if no registry is configured or the ModuleReleaseMeta names no "
            "component.",
            required=True,
        ),
    ] = always_written_map()
    data: Annotated[
        JsonMap | None,
        documented("The module's default custom resource, created once with the module.", schema=EMBEDDED_RESOURCE),
    ] = None
    manager: Annotated[
        Manager | None,
        documented(
            "Workload whose readiness is that of the module.", otherwise="the first Deployment or StatefulSet of it"
        ),
    ] = None
    resources: Annotated[
        tuple[ModuleResource, ...],
        documented("Files of the module, for people and tools.", list_type="map", list_map_keys=("name",)),
    ] = ()
    info: Annotated[ModuleInfo | None, documented("What people may want to know about the module.")] = None
    associated_resources: Annotated[
        tuple[GroupVersionKindName, ...],
        documented("Kinds that belong to the module, for tools that clean up. They do not hold up its removal."),
    ] = ()
    custom_state_check: Annotated[
        tuple[CustomStateCheck, ...], documented("Accepted for compatibility; has no effect.")
    ] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for JSON that is nested too deep."""
        refuse_deep("descriptor", self.descriptor)
        refuse_deep("data", self.data)


class ModuleTemplate(Kind, frozen=True, kw_only=True):
    """One version of a module. Its name is MODULE-VERSION."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "ModuleTemplate", "moduletemplates", namespaced=True)

    spec: Annotated[
        ModuleTemplateSpec, documented("What the version consists of, and who may have it.", required=False)
    ] = ModuleTemplateSpec()


class _FormerModuleTemplateSpec(ModuleTemplateSpec, frozen=True, kw_only=True):
    """What the version consists of, and who may have it."""

    target: Annotated[
        str, documented("Has no effect.", values=("control-plane", "remote"), required=True, example="remote")
    ] = always_written()


class _FormerModuleTemplate(Kind, frozen=True, kw_only=True):
    """One version of a module."""

    resource: ClassVar[Resource] = Resource(GROUP, FORMER_VERSION, "ModuleTemplate", "moduletemplates", namespaced=True)

    spec: Annotated[
        _FormerModuleTemplateSpec, documented("What the version consists of, and who may have it.", required=False)
    ] = _FormerModuleTemplateSpec()


# ---- ModuleReleaseMeta


class ChannelVersion(Record, frozen=True, kw_only=True):
    """Which version a channel offers."""

    channel: Annotated[
        str,
        documented(
            "Name of the channel.",
            pattern=text_forms.CHANNEL.pattern,
            min_length=3,
            max_length=32,
            example="regular",
        ),
    ]
    version: Annotated[
        str,
        documented("Version of the module.", pattern=text_forms.MODULE_VERSION.pattern, max_length=32, example="1.0.0"),
    ]


class MandatoryVersion(Record, frozen=True, kw_only=True):
    """The version of a module that every cluster gets."""

    version: Annotated[
        str,
        documented("Version of the module.", form=text_forms.FULL_SEMANTIC_VERSION, min_length=1, example="1.0.0"),
    ]


class ModuleReleaseMetaSpec(Record, frozen=True, kw_only=True):
    """Which versions of the module there are: one for each channel, or one for every cluster."""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            rule="has(self.mandatory) != has(self.channels)",
            message="exactly one of 'mandatory' or 'channels' must be specified",
        ),
    )

    module_name: Annotated[
        str,
        documented(
            "Name of the module, which is the name of the ModuleReleaseMeta, too.",
            form=text_forms.MODULE_NAME,
            max_length=64,
            required=True,
            example="template-operator",
        ),
    ] = always_written()
    ocm_component_name: Annotated[
        str,
        documented(
            "Name of the module's OCM component.",
            form=text_forms.OCM_COMPONENT_NAME,
            max_length=255,
            example="kyma-project.io/module/template-operator",
        ),
    ] = ""
    channels: Annotated[
        tuple[ChannelVersion, ...],
        documented("The version of each channel.", list_type="map", list_map_keys=("channel",)),
    ] = ()
    mandatory: Annotated[MandatoryVersion | None, documented("The version that every cluster gets.")] = None
    kyma_selector: Annotated[
        LabelSelector | None,
        documented("Kymas that may have a restricted module, by their labels.", map_type="atomic"),
    ] = None
    beta: Annotated[bool, documented("Has no effect; a label of the ModuleTemplate decides.", default=False)] = False
    internal: Annotated[bool, documented("Has no effect; a label of the ModuleTemplate decides.", default=False)] = (
        False
    )


class ModuleReleaseMeta(Kind, frozen=True, kw_only=True):
    """Which version of a module each channel offers. Its name is the name of the module."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "ModuleReleaseMeta", "modulereleasemetas", namespaced=True)

    spec: Annotated[ModuleReleaseMetaSpec, documented("Which versions of the module there are.", required=False)] = (
        ModuleReleaseMetaSpec()
    )


# ---- their definitions

MODULE_TEMPLATES = Definition(
    short_names=("mt",),
    versions=(
        Version(
            kind=ModuleTemplate,
            columns=(
                PrinterColumn(name="Module", path=".spec.moduleName"),
                PrinterColumn(name="Version", path=".spec.version"),
                AGE,
            ),
        ),
        Version(
            kind=_FormerModuleTemplate,
            columns=(AGE,),
            served=False,
            deprecated="kyma-project.io/v1beta1 ModuleTemplate is deprecated. Use v1beta2 instead.",
        ),
    ),
)
MODULE_RELEASE_METAS = Definition(
    short_names=("mrm",),
    versions=(
        Version(
            kind=ModuleReleaseMeta,
            columns=(
                PrinterColumn(name="Channels", path=".spec.channels[*].channel"),
                PrinterColumn(name="Mandatory", path=".spec.mandatory.version"),
                AGE,
            ),
        ),
    ),
)
