"""Descriptors and objects as values that passes ask for: each is read once for all who ask, and kept by its content.

    sources = Sources.of(settings, client, rules)
    offers = Offers(component=partial(sources.component, view), ...)
    view.load(sources.objects(view, manifest))

What a Manifest installs is a layer of a registry, the content of a link, or a text in the Manifest itself.

Versions of a component never change, as with the original, so a descriptor is kept until there is no room. What cannot
be read is Unknown with the cause, and is tried again by itself; a changed login is another load, and is tried at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from stellwerk.api.core import Secret
from stellwerk.apply.errors import UnreadableManifest
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import InstallInfo, LayerType, Manifest
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.collections import OTHER_SECRETS, SIGNATURE_SECRETS_OF
from stellwerk.operators.kyma.kyma.catalog import module_of
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.module.resolution import Component
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.sources.descriptors import (
    RAW_MANIFEST,
    BadDescriptor,
    Descriptor,
    ModuleObjects,
    objects_in,
)
from stellwerk.operators.kyma.sources.links import Links
from stellwerk.operators.kyma.sources.registry import Login, LoginUnusable, Pull, Repository
from stellwerk.operators.kyma.sources.signatures import NotTrusted, PublicKey, Trust
from stellwerk.render.errors import SourceError
from stellwerk.render.sources.artifact_disk_cache import Shelf
from stellwerk.render.sources.egress import EgressRules, shown_url
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.reading.known import ABSENT, Absent, Known, NotKnown, Present, Refused, Unknown
from stellwerk.runtime.reading.loads import Load, SecretData
from stellwerk.runtime.reading.view import View

V = TypeVar("V")

_LINKED = "rawManifest"
"""The file of a ModuleTemplate that is installed if there is no layer."""


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
    shelf: Shelf | None = field(default=None, compare=False, repr=False)
    """Where layers are on disk, if anywhere."""

    async def pull(self, client: Client, component: str) -> Pull:
        """What reads a component. Raises SourceError, ApiError."""
        login = None
        if self.secret is not None:
            login = Login.of(self.secret, await client.find(Secret, self.secret.name, self.secret.namespace))
        return Pull(self.client, self.rules, self.repository, component, login, shelf=self.shelf)


@dataclass(frozen=True, slots=True)
class RegistryOf:
    """The registry that a Secret names with its login. A changed Secret counts at once."""

    secret: ObjectKey
    path: str
    """Below which the modules are."""
    client: HttpClient = field(compare=False, repr=False)
    rules: EgressRules = field(compare=False, repr=False)
    version: str = ""
    """That of the Secret as it was seen; empty if there is none."""

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.secret.namespace

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the registry in Secret {self.secret}"

    async def fetch(self, client: Client) -> Registry:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            found = await SecretData(self.secret, self.version).fetch(client)
            login = Login.of(self.secret, found)
        except SourceError as error:
            raise Refused(str(error)) from error
        repository = Repository.of(login.address, self.path)
        return Registry(repository, self.client, self.rules, self.secret, self.version)

    def size(self, value: Registry) -> int:
        """As `Load.size`."""
        return 1024


@dataclass(frozen=True, slots=True)
class DescriptorOf:
    """The descriptor of a version of a component."""

    registry: Registry
    component: str
    version: str
    trust: Trust | None = None
    """Whose signature it needs, if any."""

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
            found = await (await self.registry.pull(client, self.component)).descriptor(self.version, self.trust)
            if self.trust is not None and (found.name, found.version) != (self.component, self.version):
                raise NotTrusted(f"the signed component is {found.name}:{found.version}")
        except SourceError as error:
            raise Refused(str(error)) from error
        return found

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


@dataclass(frozen=True, slots=True)
class LinkedObjects:
    """The objects in the content of a link."""

    links: Links
    url: str
    digest: str = ""
    """That the content has; empty if any is taken."""

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.url

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the manifest at {shown_url(self.url)}"

    async def fetch(self, client: Client) -> ModuleObjects:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            content = await self.links.read(self.url, self.digest)
            return await threads.run(lambda: objects_in(content, LayerType.OciRef))
        except (SourceError, UnreadableManifest) as error:
            raise Refused(f"cannot read {self.about}: {error}") from error

    def size(self, value: ModuleObjects) -> int:
        """As `Load.size`."""
        return value.memory_bytes


@dataclass(frozen=True, slots=True)
class DigestOfLink:
    """The digest of the content of a link. As versions never change, it is read once."""

    links: Links
    url: str

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.url

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the manifest at {shown_url(self.url)}"

    async def fetch(self, client: Client) -> str:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            content = await self.links.read(self.url)
        except SourceError as error:
            raise Refused(f"cannot read {self.about}: {error}") from error
        return await threads.run(lambda: f"sha256:{hashlib.sha256(content).hexdigest()}")

    def size(self, value: str) -> int:
        """As `Load.size`."""
        return 256 + len(self.url)


@dataclass(frozen=True, slots=True)
class InlineObjects:
    """The objects in a text that a Manifest has in it."""

    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """That of the text."""
        return f"sha256:{hashlib.sha256(self.text.encode()).hexdigest()}"

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return "spec.install"

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return "spec.install.source.manifest"

    async def fetch(self, client: Client) -> ModuleObjects:
        """As `Load.fetch`. Raises Refused with the cause."""
        try:
            return await threads.run(lambda: ModuleObjects.of(self.text))
        except UnreadableManifest as error:
            raise Refused(f"cannot read {self.about}: {error}") from error

    def size(self, value: ModuleObjects) -> int:
        """As `Load.size`."""
        return value.memory_bytes + len(self.text)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where modules come from, by the settings of the process."""

    registry: Registry | RegistryOf | None
    """None if the process was started without one."""
    links: Links
    signatures: tuple[str, ...] = ()
    """Names of signatures of which each component must have one that is valid. Empty: none is asked for."""

    @classmethod
    def of(cls, settings: Settings, client: HttpClient, rules: EgressRules) -> Sources:
        """Those of the settings."""
        secret, path, folder = (
            settings.oci_registry_cred_secret,
            settings.modules_repository_subpath,
            settings.layer_cache_dir,
        )
        shelf = Shelf(Path(folder), most_bytes=settings.layer_cache_mib * 2**20) if folder else None
        registry: Registry | RegistryOf | None = None
        if secret:
            registry = RegistryOf(ObjectKey(labels.KCP_NAMESPACE, secret), path, client, rules)
        elif settings.oci_registry_host:
            registry = Registry(Repository.of(settings.oci_registry_host, path), client, rules, shelf=shelf)
        return cls(registry, Links(client, rules, settings.raw_manifest_links), settings.module_signatures)

    def objects(self, view: View, manifest: Manifest) -> ObjectsOf | LinkedObjects | InlineObjects:
        """What loads the objects of a Manifest; its `digest` names the content.

        Raises SourceError if nothing does, and NotKnown if the registry is not known yet.
        """
        source = manifest.spec.install.source
        words = {key: value for key, value in source.items() if isinstance(value, str)}
        match words.get("type", ""):
            case "oci-ref" | "oci-dir" as type_:
                registry = self._registry_of(view, words.get("repo", ""))
                return ObjectsOf(registry, words.get("name", ""), words.get("ref", ""), LayerType(type_))
            case "raw-url":
                self.links.check(words.get("url", ""))
                return LinkedObjects(self.links, words.get("url", ""), words.get("ref", ""))
            case "raw-inline":
                return InlineObjects(words.get("manifest", ""))
            case _:
                raise BadDescriptor(
                    f"could not determine render mode for {manifest.metadata.namespace}/{manifest.metadata.name}: "
                    "render mode is invalid"
                )

    def _registry_of(self, view: View, named: str) -> Registry:
        """The registry that a Manifest names. The login is shown to no other host than that of the settings."""
        known = self._registry(view)
        if isinstance(known, Unknown):
            raise NotKnown("the registry of modules", known.why)
        if not isinstance(known, Present):
            return Registry(Repository("").named(named), self.links.client, self.links.rules)
        repository = known.value.repository.named(named)
        if repository.host != known.value.repository.host:
            return Registry(repository, known.value.client, known.value.rules)
        return replace(known.value, repository=repository)

    def _registry(self, view: View) -> Known[Registry]:
        """Absent if there is none. Raises SourceError if the Secret that names it cannot be used."""
        if isinstance(self.registry, RegistryOf):
            version = view.get(OTHER_SECRETS, self.registry.secret, _version)
            if isinstance(version, Unknown):
                return version
            if not isinstance(version, Present):
                raise LoginUnusable.missing(self.registry.secret)
            return _loaded(view, replace(self.registry, version=version.value))
        return Present(self.registry) if self.registry is not None else ABSENT

    def _trust(self, view: View, namespace: str) -> Known[Trust | None]:
        """The keys of the signatures that are asked for. Raises SourceError if there is none, or one has no content."""
        keys: list[PublicKey] = []
        for name in self.signatures:
            for secret in view.all(SIGNATURE_SECRETS_OF, f"{namespace}/{name}"):
                key = ObjectKey(namespace, secret.metadata.name)
                found = _loaded(view, SecretData(key, secret.metadata.resource_version))
                if isinstance(found, Unknown):
                    return found
                if isinstance(found, Present):
                    keys.append(PublicKey(name, key, _public_key(key, found.value)))
        if not keys:
            raise NotTrusted(
                f"there is no key for the signature {' or '.join(self.signatures)}. Create a Secret with the public "
                f"key: kubectl create secret generic -n {namespace} NAME --from-file=key=FILE, and label it: kubectl "
                f"label secret -n {namespace} NAME {labels.SIGNATURE_LABEL}={self.signatures[0]}"
            )
        return Present(Trust(tuple(keys)))

    def component(self, view: View, template: ModuleTemplate, name: str) -> Known[Component]:
        """The component of a template, for `Offers`: from the registry if `name` is its OCM name, else the inline one.

        If it has no layer with objects, the manifest that the template has a link to is installed. Absent if there is
        none of them. Raises SourceError if it cannot be used.
        """
        registry = self._registry(view)
        described = registry if isinstance(registry, Unknown) else self._descriptor(view, registry, template, name)
        if isinstance(described, Unknown):
            return described
        without = Descriptor(name or module_of(template), version_of(template))
        descriptor = described.value if isinstance(described, Present) else without
        own = Repository.of(descriptor.context.base_url, descriptor.context.sub_path)
        layer = descriptor.install(str(registry.value.repository if isinstance(registry, Present) else own))
        install = Present(layer) if layer is not None else self._linked(view, template)
        if isinstance(install, Present):
            return Present(Component(descriptor.name, descriptor.version, install.value, descriptor.images))
        if isinstance(described, Present) and not isinstance(install, Unknown):
            raise BadDescriptor(f"{descriptor.name}:{descriptor.version} has no layer {RAW_MANIFEST}")
        return install

    def _descriptor(
        self, view: View, registry: Present[Registry] | Absent, template: ModuleTemplate, name: str
    ) -> Known[Descriptor]:
        trust = self._trust(view, template.metadata.namespace) if self.signatures else Present(None)
        if not isinstance(trust, Present):
            return trust
        if isinstance(registry, Present) and name:
            return _loaded(view, DescriptorOf(registry.value, name, version_of(template), trust.value))
        inline = Descriptor.inline(template.spec.descriptor, trust.value)
        return Present(inline) if inline is not None else ABSENT

    def _linked(self, view: View, template: ModuleTemplate) -> Known[InstallInfo]:
        link = next((each.link for each in template.spec.resources if each.name == _LINKED), "")
        if not link:
            return ABSENT
        self.links.check(link)
        if self.signatures:
            raise NotTrusted(f"the manifest at {shown_url(link)} has no signature, but --module-signatures is set")
        digest = _loaded(view, DigestOfLink(self.links, link))
        if not isinstance(digest, Present):
            return digest
        return Present(InstallInfo(name=RAW_MANIFEST, source={"type": "raw-url", "url": link, "ref": digest.value}))


def _version(secret: PartialObjectMetadata) -> str:
    return secret.metadata.resource_version


def _public_key(key: ObjectKey, secret: Secret) -> bytes:
    try:
        return secret.decoded().get("key", b"")
    except ValueError:
        raise NotTrusted(f"Secret {key} has content that is not base64") from None


def _loaded(view: View, load: Load[V]) -> Known[V]:
    """What a user has to put right is raised."""
    found = view.load(load)
    if isinstance(found, Unknown) and found.is_refused:
        raise SourceError(found.why)
    return found
