"""Descriptors and objects as values that passes ask for: each is read once for all who ask, and kept by its content.

    offers = Offers(component=partial(component_of, view, registry), ...)
    view.load(ObjectsOf(registry, NAME, DIGEST, TYPE))

Versions of a component never change, as with the original, so a descriptor is kept until there is no room. What cannot
be read is Unknown with the cause, and is tried again by itself; a changed login is another load, and is tried at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stellwerk.api.core import Secret
from stellwerk.apply.errors import UnreadableManifest
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_manifest import LayerType
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.module.resolution import Component
from stellwerk.operators.kyma.sources.descriptors import (
    RAW_MANIFEST,
    BadDescriptor,
    Descriptor,
    ModuleObjects,
    objects_in,
)
from stellwerk.operators.kyma.sources.registry import Login, Pull, Repository
from stellwerk.render.errors import SourceError
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.reading.known import ABSENT, Known, Present, Refused, Unknown
from stellwerk.runtime.reading.view import View


@dataclass(frozen=True, slots=True)
class Registry:
    """Where components are, and how it is asked."""

    repository: Repository
    client: HttpClient = field(compare=False, repr=False)
    rules: EgressRules = field(compare=False, repr=False)
    secret: ObjectKey | None = None
    """The Secret with the login, if it wants one."""
    secret_version: str = ""
    """That of the Secret as it was seen; empty if there is none."""

    async def pull(self, client: Client, component: str) -> Pull:
        """What reads a component. Raises SourceError, ApiError."""
        login = None
        if self.secret is not None:
            login = Login.of(self.secret, await client.find(Secret, self.secret.name, self.secret.namespace))
        return Pull(self.client, self.rules, self.repository, component, login)


@dataclass(frozen=True, slots=True)
class DescriptorOf:
    """The descriptor of a version of a component."""

    registry: Registry
    component: str
    version: str

    @property
    def tenant(self) -> str:
        """As `Load.tenant`: a component that answers slowly takes no turn of others."""
        return self.component

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the descriptor of {self.component}:{self.version}"

    async def fetch(self, client: Client) -> Descriptor:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            return await (await self.registry.pull(client, self.component)).descriptor(self.version)
        except SourceError as error:
            raise Refused(str(error)) from error

    def size(self, value: Descriptor) -> int:
        """As `Load.size`."""
        return 1024 + sum(map(len, value.images))


@dataclass(frozen=True, slots=True)
class ObjectsOf:
    """The objects in a layer, which has this digest."""

    registry: Registry
    component: str
    digest: str
    type: LayerType

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.component

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the layer {self.digest} of {self.component}"

    async def fetch(self, client: Client) -> ModuleObjects:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            layer = await (await self.registry.pull(client, self.component)).layer(self.digest)
            return await threads.run(lambda: objects_in(layer, self.type))
        except (SourceError, UnreadableManifest) as error:
            raise Refused(f"cannot read {self.about}: {error}") from error

    def size(self, value: ModuleObjects) -> int:
        """As `Load.size`."""
        return value.memory_bytes


def component_of(view: View, registry: Registry | None, template: ModuleTemplate, name: str) -> Known[Component]:
    """The component of a template, for `Offers`: that of the registry if `name` is its OCM name, else the inline one.

    Absent if there is neither. Raises SourceError if it cannot be used.
    """
    if registry is not None and name:
        found = view.load(DescriptorOf(registry, name, version_of(template)))
        if isinstance(found, Unknown) and found.is_refused:
            raise SourceError(found.why)
        if not isinstance(found, Present):
            return found
        return Present(_component(found.value, str(registry.repository)))
    inline = Descriptor.inline(template.spec.descriptor)
    if inline is None:
        return ABSENT
    context = inline.context
    own = str(Repository.of(context.base_url, context.sub_path))
    return Present(_component(inline, str(registry.repository) if registry is not None else own))


def _component(descriptor: Descriptor, repository: str) -> Component:
    install = descriptor.install(repository)
    if install is None:
        raise BadDescriptor(f"{descriptor.name}:{descriptor.version} has no layer {RAW_MANIFEST}")
    return Component(descriptor.name, descriptor.version, install, descriptor.images)
