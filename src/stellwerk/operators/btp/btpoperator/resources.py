"""From the module's manifests to the wanted objects (pure).

The manifests are a release's and know nothing of this cluster. What they lack is set here: labels and version, the
namespace, the operand's image, its credentials and configuration, the CA that its webhooks are trusted by. All of it is
set on every pass, so an edit in the cluster never lives longer than until the next one.

The operand reads its configuration when it starts. So the pod template carries a checksum of it, and pods roll when it
changes. An operand that the original operator started has no such checksum, and adding one would restart it for
nothing: until something changes, its Deployment only records outside of the template what its pods were started with.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address, Document, kinds_of
from stellwerk.kube.types.model import JsonObject, JsonValue, dig, encode_json
from stellwerk.operators.btp import api
from stellwerk.operators.btp.credentials.credentials import BtpCredentials
from stellwerk.operators.btp.errors import ModuleIncomplete, ModuleUnreadable
from stellwerk.operators.btp.module.release import ModuleRelease
from stellwerk.operators.btp.settings import Settings

POD_TEMPLATE = ("spec", "template")
POD_SPEC = (*POD_TEMPLATE, "spec")
POD_ANNOTATIONS = (*POD_TEMPLATE, "metadata", "annotations")
POD_LABELS = (*POD_TEMPLATE, "metadata", "labels")


_AUTHORITIES = "custom-ca-certs"
AUTHORITIES_FOLDER = "/etc/ssl/custom-ca-certs"
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
NEED_CERTIFICATES = ("Deployment", *_WEBHOOKS)
"""What mounts the certificates or trusts them: of no use before they are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The operand's Deployment and its configuration now, before we change anything."""

    template_checksum: str = ""
    """In the pod template; empty where the original operator made it."""
    known_checksum: str = ""
    """On the Deployment itself: what the pods were started with, noted when we took over."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Data of the operand's ConfigMap."""
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Data of the operand's credentials Secret, base64 text. Needed only while there is no checksum yet."""

    @classmethod
    def of(cls, deployment: JsonObject, config: Mapping[str, str], secret: Mapping[str, str]) -> Running:
        """From the live Deployment."""
        return cls(
            template_checksum=str(dig(deployment, *POD_ANNOTATIONS, api.CHECKSUM_ANNOTATION) or ""),
            known_checksum=str(dig(deployment, "metadata", "annotations", api.CHECKSUM_ANNOTATION) or ""),
            config=config,
            secret=secret,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What this cluster and this pass put into the manifests."""

    settings: Settings
    credentials: BtpCredentials
    image: str
    """Of the operand. Empty is passed on: the API server refuses it with a message."""
    network_policies: bool = True
    ca_bundle: bytes = b""
    """PEM of the CA that signed the webhooks' certificate; empty leaves the webhooks as they are."""
    running: Running | None = None
    """None where there is no Deployment yet."""


def prepared(release: ModuleRelease, values: Values) -> tuple[Document, ...]:
    """The wanted objects of the module, in the order of the manifests, network policies last.

    Every object carries the chart namespace; the caller drops it from cluster-scoped kinds.

    Raises `ModuleIncomplete`, and `ModuleUnreadable` where the Deployment has no container for the operand.
    """
    _require_parts(release, values.settings)
    policies = release.network_policies if values.network_policies else ()
    labelled = [_labelled(document, release.version, values.settings) for document in (*release.documents, *policies)]
    configured = [_changed(document, _configured(document.body, values)) for document in labelled]
    checksum = checksum_of(*_operand_data(configured))
    return tuple(_changed(document, _finished(document.body, values, checksum)) for document in configured)


def restarts(running: JsonObject, wanted: JsonObject) -> bool:
    """Whether a Deployment that is wanted replaces the pods of a running one for the sake of credentials or
    configuration: their checksum in the pod template is another one. False for any object that carries none."""
    checksum = dig(wanted, *POD_ANNOTATIONS, api.CHECKSUM_ANNOTATION)
    return bool(checksum) and checksum != dig(running, *POD_ANNOTATIONS, api.CHECKSUM_ANNOTATION)


def operand_image(body: JsonObject) -> str:
    """The operand's image in its Deployment; empty in any other object."""
    containers = _listed(body, *POD_SPEC, "containers") if body.get("kind") == "Deployment" else []
    return next((str(dig(container, "image") or "") for container in containers if _is_manager(container)), "")


def to_delete(release: ModuleRelease, settings: Settings) -> tuple[Document, ...]:
    """What former releases left, as written in the manifests, and the network policy of one of them."""
    metadata: JsonObject = {"name": api.LEGACY_NETWORK_POLICY_NAME, "namespace": settings.chart_namespace}
    legacy = Document({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata})
    return (*release.outdated, legacy)


def is_applied(address: Address, release: ModuleRelease, settings: Settings, credentials_namespace: str) -> bool:
    """Whether a release applies an object: then it stays, should a list of deletions from another release name it.

    A list may have an object of the same name in another group or namespace, which is another object.
    """
    of_release = (*release.documents, *release.network_policies)
    same = (
        document for document in of_release if _identity(document.body) == (address.resource.kind, address.key.name)
    )
    for document in same:
        place = credentials_namespace if _is_credentials(document.body) else settings.chart_namespace
        in_group = any(gvk.group == address.resource.group for gvk in kinds_of([document]))
        if in_group and (not address.resource.namespaced or address.key.namespace == place):
            return True
    return False


def _identity(body: JsonObject) -> tuple[JsonValue, JsonValue]:
    return body.get("kind"), dig(body, "metadata", "name")


# ---- which object is which


def _is(body: JsonObject, kind: str, name: str) -> bool:
    return _identity(body) == (kind, name)


def _is_config(body: JsonObject) -> bool:
    return _is(body, "ConfigMap", api.OPERAND_CONFIG_NAME)


def _is_credentials(body: JsonObject) -> bool:
    return _is(body, "Secret", api.OPERAND_SECRET_NAME)


def _require_parts(release: ModuleRelease, settings: Settings) -> None:
    bodies = [document.body for document in release.documents]
    parts = {
        "configMap": any(map(_is_config, bodies)),
        "secret": any(map(_is_credentials, bodies)),
        "deployment": any(_is(body, "Deployment", settings.deployment_name) for body in bodies),
    }
    if not all(parts.values()):
        raise ModuleIncomplete(parts)


def _changed(document: Document, body: JsonObject) -> Document:
    return replace(document, body=body)


# ---- what is set on every object


def labels_for(version: str) -> dict[str, str]:
    """The labels of every module resource."""
    return {
        api.MANAGED_BY_LABEL: api.OPERATOR_NAME,
        api.MODULE_LABEL: api.MODULE_NAME,
        api.VERSION_LABEL: version,
        api.RECOMMENDED_VERSION_LABEL: version,
    }


def _labelled(document: Document, version: str, settings: Settings) -> Document:
    body = json_edit.with_namespace(json_edit.with_labels(document.body, labels_for(version)), settings.chart_namespace)
    if body.get("kind") == "Deployment":  # network policies select pods by it
        body = json_edit.merged(body, {api.MODULE_LABEL: api.MODULE_NAME}, *POD_LABELS)
    return _changed(document, body)


# ---- configuration and credentials


def _configured(body: JsonObject, values: Values) -> JsonObject:
    if _is_config(body):
        return json_edit.merged(body, operand_config(values.credentials, values.settings), "data")
    if _is_credentials(body):
        moved = json_edit.with_namespace(body, values.credentials.namespace)
        return json_edit.merged(moved, values.credentials.operand_data, "data")
    return body


def operand_config(credentials: BtpCredentials, settings: Settings) -> dict[str, str]:
    """What we set in the operand's ConfigMap; its other keys are the manifest's."""
    return {
        "CLUSTER_ID": credentials.cluster_id,
        "RELEASE_NAMESPACE": credentials.namespace,
        "MANAGEMENT_NAMESPACE": credentials.namespace,
        "ENABLE_LIMITED_CACHE": str(settings.enable_limited_cache).lower(),
    }


def _operand_data(documents: Iterable[Document]) -> tuple[JsonValue, JsonValue]:
    bodies = [document.body for document in documents]
    config = next(body.get("data") for body in bodies if _is_config(body))
    return config, next(body.get("data") for body in bodies if _is_credentials(body))


def checksum_of(config: JsonValue, secret: JsonValue) -> str:
    """A fingerprint of the operand's configuration and credentials, whatever the order of their keys."""
    return sha256(encode_json([_sorted(config), _sorted(secret)])).hexdigest()


def _sorted(data: JsonValue) -> JsonValue:
    return dict(sorted(data.items())) if isinstance(data, dict) else {}


# ---- the operand, its webhooks, its rights


def _finished(body: JsonObject, values: Values, checksum: str) -> JsonObject:
    if _is(body, "Deployment", values.settings.deployment_name):
        return _operand(body, values, checksum)
    if body.get("kind") in _WEBHOOKS:
        return _webhooks(body, values)
    if body.get("kind") in ("ClusterRoleBinding", "RoleBinding"):
        return _binding(body, values.settings.chart_namespace)
    return body


def _operand(body: JsonObject, values: Values, checksum: str) -> JsonObject:
    body = _with_manager(body, lambda manager: {**manager, "image": values.image})
    if values.settings.image_pull_secrets:
        secrets: list[JsonValue] = [{"name": name} for name in values.settings.image_pull_secrets]
        body = json_edit.with_value(body, secrets, *POD_SPEC, "imagePullSecrets")
    if values.settings.custom_ca_certs:
        body = _trusting(body, values.settings.custom_ca_certs)
    annotation = {api.CHECKSUM_ANNOTATION: checksum}
    if _runs_unmarked(values.running, checksum):
        return json_edit.with_annotations(body, annotation)
    return json_edit.merged(body, annotation, *POD_ANNOTATIONS)


def _runs_unmarked(running: Running | None, checksum: str) -> bool:
    """Whether the pods of an operand that another client started run with just this configuration."""
    if running is None or running.template_checksum:
        return False
    return checksum == (running.known_checksum or checksum_of(dict(running.config), dict(running.secret)))


def _trusting(body: JsonObject, name: str) -> JsonObject:
    """The operand with further authorities, from whichever there is of this name. It reads them when it starts."""
    sources: list[JsonValue] = [{kind: {"name": name, "optional": True}} for kind in ("configMap", "secret")]
    volume: JsonObject = {"name": _AUTHORITIES, "projected": {"sources": sources}}
    mount: JsonObject = {"name": _AUTHORITIES, "mountPath": AUTHORITIES_FOLDER, "readOnly": True}
    folders: JsonObject = {"name": "SSL_CERT_DIR", "value": f"/etc/ssl/certs:{AUTHORITIES_FOLDER}"}
    body = json_edit.with_value(body, [*_listed(body, *POD_SPEC, "volumes"), volume], *POD_SPEC, "volumes")

    def trusting(manager: JsonObject) -> JsonObject:
        mounts, variables = _listed(manager, "volumeMounts"), _listed(manager, "env")
        return {**manager, "volumeMounts": [*mounts, mount], "env": [*variables, folders]}

    return _with_manager(body, trusting)


def _with_manager(body: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The Deployment with its operand's container changed. Raises ModuleUnreadable where there is none."""
    containers = _listed(body, *POD_SPEC, "containers")
    if not any(_is_manager(container) for container in containers):
        name = dig(body, "metadata", "name")
        raise ModuleUnreadable(f"Deployment {name}: has no container {api.OPERAND_CONTAINER!r}")
    changed: list[JsonValue] = [
        change(one) if isinstance(one, dict) and _is_manager(one) else one for one in containers
    ]
    return json_edit.with_value(body, changed, *POD_SPEC, "containers")


def _is_manager(container: JsonValue) -> bool:
    return dig(container, "name") == api.OPERAND_CONTAINER


def _listed(body: JsonObject, *path: str) -> list[JsonValue]:
    found = dig(body, *path)
    return found if isinstance(found, list) else []


def _webhooks(body: JsonObject, values: Values) -> JsonObject:
    listed = body.get("webhooks")
    return {**body, "webhooks": [_webhook(webhook, values) for webhook in listed]} if isinstance(listed, list) else body


def _webhook(webhook: JsonValue, values: Values) -> JsonValue:
    if not isinstance(webhook, dict):
        return webhook
    if dig(webhook, "clientConfig", "service", "name") == api.WEBHOOK_SERVICE_NAME:
        webhook = json_edit.with_value(webhook, values.settings.chart_namespace, "clientConfig", "service", "namespace")
    if values.ca_bundle:
        bundle = base64.b64encode(values.ca_bundle).decode()
        webhook = json_edit.with_value(webhook, bundle, "clientConfig", "caBundle")
    return webhook


def _binding(body: JsonObject, namespace: str) -> JsonObject:
    """The operand's account is where the operand is, also when that is not where the manifests were made for."""
    subjects = body.get("subjects")
    if not isinstance(subjects, list):
        return body
    moved: Sequence[JsonValue] = [
        {**subject, "namespace": namespace}
        if isinstance(subject, dict)
        and (subject.get("kind"), subject.get("name")) == ("ServiceAccount", api.OPERAND_NAME)
        else subject
        for subject in subjects
    ]
    return {**body, "subjects": list(moved)}
