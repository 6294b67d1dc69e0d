"""Which Secret leads to the cluster of a Kyma. Its name does not matter; its label names the Kyma."""

from __future__ import annotations

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.collections import ACCESS_OF_KYMA
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
