"""Which Secret leads to the cluster of a Kyma, and the cluster itself.

The name of the Secret does not matter; its label names the Kyma.
"""

from __future__ import annotations

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.collections import ACCESS_OF_KYMA, KYMAS, RUNTIME_NAMESPACES
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.view import View


class AccessUnclear(Exception):
    """It is not known which cluster belongs to a Kyma. The message names the cause and what to do."""


class AccessSecretNotFound(AccessUnclear):
    """There is no access Secret: what is in the cluster cannot be reached any more."""

    def __init__(self, kyma: ObjectKey) -> None:
        super().__init__(
            f"failed to find the secret with label {labels.KYMA_NAME_LABEL}={kyma.name}: access secret not found. Look "
            f"for it: kubectl get secret -n {kyma.namespace} -l {labels.KYMA_NAME_LABEL}={kyma.name}"
        )


class SeveralAccessSecrets(AccessUnclear):
    """More than one Secret names the Kyma; to guess would install its modules in the cluster of another one."""

    def __init__(self, kyma: ObjectKey, names: list[str]) -> None:
        super().__init__(
            "could not safely identify the rest config source: more than one secret found: "
            f"{', '.join(names)}. Take the label {labels.KYMA_NAME_LABEL} from those that are not of {kyma}: "
            f"kubectl label secret -n {kyma.namespace} NAME {labels.KYMA_NAME_LABEL}-"
        )


class NoKubeconfig(AccessUnclear):
    """The access Secret has no kubeconfig."""

    def __init__(self, secret: ObjectKey) -> None:
        super().__init__(
            f"Secret {secret} has no key {labels.KUBECONFIG_KEY!r} with a kubeconfig. Set it: "
            f"kubectl edit secret -n {secret.namespace} {secret.name}"
        )


class RuntimeUnusable(AccessUnclear):
    """The cluster cannot be opened, does not answer, or refuses the login."""


class AnotherCluster(AccessUnclear):
    """The cluster is not the one that the modules of the Kyma were installed in."""

    def __init__(self, kyma: ObjectKey, secret: ObjectKey, former: str, found: str) -> None:
        super().__init__(
            f"Secret {secret} leads to another cluster than before: the uid of its namespace {labels.SYSTEM_NAMESPACE} "
            f"is {found}, and not {former}. Nothing is written there until you correct the Secret: kubectl edit secret "
            f"-n {secret.namespace} {secret.name}; or confirm the cluster: "
            f"kubectl annotate kyma -n {kyma.namespace} {kyma.name} {labels.CLUSTER_ANNOTATION}-"
        )


def runtime(view: View, kyma: ObjectKey) -> View:
    """The cluster of a Kyma of the control plane. Raises AccessUnclear; NotKnown while the Secret is being read, and
    while it is not known which cluster this is."""
    secret = access_secret(view, kyma)
    kubeconfig = content_of(view, secret).decoded().get(labels.KUBECONFIG_KEY)
    if not kubeconfig:
        raise NoKubeconfig(secret.key)
    try:
        there = view.on(Kubeconfig(secret.key, kubeconfig))
    except NotKnown as error:
        raise RuntimeUnusable(str(error)) from None
    former, found = view.find(KYMAS, kyma, cluster_noted), identity(there)
    if former and found and former != found:
        raise AnotherCluster(kyma, secret.key, former, found)
    return there


def cluster_noted(kyma: Kyma) -> str:
    """An aspect: the uid of the cluster that a Kyma of the control plane has; empty: none is noted yet."""
    return kyma.metadata.annotations.get(labels.CLUSTER_ANNOTATION, "")


def identity(there: View) -> str:
    """The uid of a cluster; empty if it has none. Raises NotKnown."""
    return there.find(RUNTIME_NAMESPACES, ObjectKey("", labels.SYSTEM_NAMESPACE), _uid) or ""


def _uid(namespace: Namespace) -> str:
    return namespace.metadata.uid


def content_of(view: View, secret: PartialObjectMetadata) -> Secret:
    """The content of a Secret of the control plane, as it was seen. Raises NotKnown while it is being read."""
    content = view.load(SecretData(secret.key, secret.metadata.resource_version))
    if not isinstance(content, Present):
        raise NotKnown(f"Secret {secret.key}", content.why if isinstance(content, Unknown) else "it is gone")
    return content.value


def access_secret(view: View, kyma: ObjectKey) -> PartialObjectMetadata:
    """The access Secret of a Kyma of the control plane. Raises AccessUnclear, and NotKnown if Secrets are not listed.

    One that is being deleted counts until it is gone: its content still leads to the cluster.
    """
    found = view.all(ACCESS_OF_KYMA, str(kyma))
    if not found:
        raise AccessSecretNotFound(kyma)
    if len(found) > 1:
        raise SeveralAccessSecrets(kyma, [each.metadata.name for each in found])
    return found[0]
