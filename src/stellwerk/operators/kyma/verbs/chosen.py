"""The Kyma that a user means, and the modules that it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from stellwerk.delivery.verb_plans import VerbRefused, VerbRequest
from stellwerk.kube.types import lenient
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, Module, ModuleStatus
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.catalog import Catalog, catalog_of, module_of
from stellwerk.operators.kyma.kyma.status import ConditionType
from stellwerk.operators.kyma.module.resolution import is_offered
from stellwerk.operators.kyma.verbs.declared import KYMA_OPTION
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import first_of

Offers: TypeAlias = Mapping[str, Mapping[str, ModuleTemplate]]
"""The template of each channel, by module."""


def status_of(kyma: Kyma, name: str) -> ModuleStatus | None:
    """How a module is."""
    return next((each for each in kyma.status.modules if each.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A Kyma, and the modules that it may have."""

    obj: Unstructured
    offers: Offers | None
    """None: the user may not read them."""

    @property
    def kyma(self) -> Kyma:
        """The Kyma itself."""
        return lenient.convert(self.obj.body, Kyma)

    @property
    def is_beginning(self) -> bool:
        """Whether its list is the one that a new cluster begins with, while the cluster has its own."""
        kyma = self.kyma
        has_cluster = conditions.is_true(kyma.status.conditions, ConditionType.DEFINITIONS.value)
        return kyma.key != labels.SKR_KYMA and has_cluster

    @property
    def channel(self) -> str:
        """That of the modules which name none."""
        return self.kyma.spec.channel or labels.DEFAULT_CHANNEL

    @property
    def where(self) -> str:
        """What chooses this Kyma again, for a command."""
        return f"-n {self.obj.key.namespace} {KYMA_OPTION} {self.obj.key.name}"

    def entry(self, name: str) -> Module | None:
        """A module of its list."""
        return next((each for each in self.kyma.spec.modules if each.name == name), None)

    def status(self, name: str) -> ModuleStatus | None:
        """How a module is."""
        return status_of(self.kyma, name)


async def read(request: VerbRequest) -> Chosen:
    """The Kyma that the user means, with its catalog. Raises VerbRefused, ApiError."""
    obj = await _kyma(request)
    try:
        return Chosen(obj=obj, offers=await _offers(request, lenient.convert(obj.body, Kyma)))
    except Forbidden:
        return Chosen(obj=obj, offers=None)


async def _kyma(request: VerbRequest) -> Unstructured:
    wanted, target = request.texts[KYMA_OPTION], unstructured(Kyma.resource)
    namespace = request.namespace
    if not namespace and wanted in ("", labels.SKR_KYMA.name):
        own = await request.client.find(target, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
        if own is not None:
            return own
    listed = await request.client.list(target, namespace, skip_unreadable=True)
    found = [each for each in listed.items if wanted in ("", each.key.name)]
    if len(found) == 1:
        return found[0]
    place = f"in namespace {namespace}" if namespace else "in the cluster"
    names = sorted(str(each.key) for each in (found or listed.items))
    if not names:
        raise VerbRefused(f"there is no Kyma {place}", fix="see where there is one: stellwerk get kyma -A")
    if not found:
        near = get_close_matches(wanted, [each.key.name for each in listed.items], n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {first_of(names)}"
        raise VerbRefused(f"there is no Kyma {wanted} {place}", fix=hint)
    raise VerbRefused(
        f"there are {len(names)} Kymas {place}: {first_of(names)}",
        fix=f"choose one: -n NAMESPACE {KYMA_OPTION} NAME",
    )


async def _offers(request: VerbRequest, kyma: Kyma) -> Offers:
    """What a Kyma may have. The operator has filtered the catalog of a remote cluster already."""
    is_remote = kyma.key == labels.SKR_KYMA
    namespace = "" if is_remote else kyma.metadata.namespace
    metas = (await request.client.list(ModuleReleaseMeta, namespace, skip_unreadable=True)).items
    templates = (await request.client.list(ModuleTemplate, namespace, skip_unreadable=True)).items
    if is_remote:
        ours = (labels.MANAGED_BY_LABEL, labels.KYMA)
        copies = [each for each in templates if ours in each.metadata.labels.items()]
        return offers_of(Catalog(tuple(copies), tuple(each for each in metas if ours in each.metadata.labels.items())))

    def offered(module: str, meta: ModuleReleaseMeta | None) -> bool:
        # Which modules are restricted is a setting of the operator: one with a selector is meant to be.
        selected = frozenset((module,)) if meta is not None and meta.spec.kyma_selector else frozenset[str]()
        return is_offered(module, meta.spec if meta is not None else None, kyma, selected)

    return offers_of(catalog_of(kyma, templates, metas, is_offered=offered))


def offers_of(catalog: Catalog) -> Offers:
    """The templates of a catalog by module and channel (pure)."""
    by_name = {each.metadata.name: each for each in catalog.templates}
    offers: dict[str, dict[str, ModuleTemplate]] = {}
    for meta in catalog.metas:
        for each in meta.spec.channels:
            template = by_name.get(f"{meta.spec.module_name}-{each.version}")
            if template is not None:
                offers.setdefault(meta.spec.module_name, {})[each.channel] = template
    named = {meta.spec.module_name for meta in catalog.metas}
    for template in catalog.templates:
        if (module := module_of(template)) and module not in named and template.spec.channel:
            offers.setdefault(module, {})[template.spec.channel] = template
    return offers
