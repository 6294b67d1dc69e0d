"""Which mandatory modules a Kyma gets, and in which version. Pure.

A mandatory ModuleReleaseMeta names the version. Without one for a module, its templates with the label of mandatory
modules count, as in earlier releases: the highest version of each module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.catalog import module_of


class MandatoryTemplateMissing(Exception):
    """A mandatory module has no template. The Kyma gets no mandatory module until it has one."""

    def __init__(self, meta: ModuleReleaseMeta, name: str) -> None:
        super().__init__(
            f"failed to get module template: ModuleTemplate {meta.metadata.namespace}/{name} of {meta.ref} does not "
            f"exist. Create it, or correct spec.mandatory: kubectl edit mrm -n {meta.metadata.namespace} "
            f"{meta.metadata.name}"
        )


@dataclass(frozen=True, slots=True)
class MandatoryModule:
    """A module as every cluster gets it. `meta` is None in the form of earlier releases."""

    name: str
    version: str
    template: ModuleTemplate
    meta: ModuleReleaseMeta | None


def is_served(kyma: Kyma) -> bool:
    """Whether a Kyma gets mandatory modules now: one that is deleted or skipped is left as it is."""
    is_skipped = kyma.metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL, "").lower() == "true"
    return not is_skipped and not kyma.metadata.is_terminating


def mandatory_modules(
    metas: Iterable[ModuleReleaseMeta], templates: Iterable[ModuleTemplate]
) -> tuple[MandatoryModule, ...]:
    """The mandatory modules, by name. Raises MandatoryTemplateMissing."""
    by_name = {each.metadata.name: each for each in templates}
    found: dict[str, MandatoryModule | None] = {}
    for meta in metas:
        if meta.spec.mandatory is None:
            continue
        name, version = meta.metadata.name, meta.spec.mandatory.version
        found[name] = None  # while it is being deleted, an older form of the module does not take its place
        if meta.metadata.is_terminating:
            continue
        template = by_name.get(f"{name}-{version}")
        if template is None:
            raise MandatoryTemplateMissing(meta, f"{name}-{version}")
        found[name] = MandatoryModule(name, version, template, meta)
    for template in sorted(filter(is_former_mandatory, by_name.values()), key=_order, reverse=True):
        if not template.metadata.is_terminating:
            module = module_of(template)
            found.setdefault(module, MandatoryModule(module, version_of(template), template, None))
    return tuple(module for _, module in sorted(found.items()) if module is not None)


def is_former_mandatory(template: ModuleTemplate) -> bool:
    """Whether a template makes a module mandatory, as in earlier releases."""
    return template.metadata.labels.get(labels.MANDATORY_MODULE_LABEL) == "true" and bool(module_of(template))


def version_of(template: ModuleTemplate) -> str:
    """The version of a template; older templates name it by an annotation."""
    return template.spec.version or template.metadata.annotations.get(labels.MODULE_VERSION_ANNOTATION, "")


def _order(template: ModuleTemplate) -> tuple[object, str]:
    return precedence(version_of(template)), template.metadata.name
