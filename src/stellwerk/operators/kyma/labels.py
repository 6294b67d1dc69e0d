"""Every name that others rely on: labels, annotations, finalizers, field managers, and places.

The names are a contract with clusters that the original lifecycle manager has set up, and with the tools around them: a
finalizer or field manager spelled otherwise would orphan what is there. So they are written once, here.

KCP is the control-plane cluster, SKR a remote cluster that it manages.
"""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_status import GROUP

# ---- who we are, and where

OPERATOR_NAME = "lifecycle-manager"
LEASE_NAME = "893110f7.kyma-project.io"
"""The leader-election Lease, shared with the original so that both never act at once."""

KCP_NAMESPACE = "kcp-system"
"""Where Kymas, Manifests, ModuleTemplates, ModuleReleaseMetas, Watchers and access Secrets are looked for."""
SKR_NAMESPACE = "kyma-system"
SYSTEM_NAMESPACE = "kube-system"
"""Of any cluster; its uid is that of the cluster."""
SKR_KYMA = ObjectKey(SKR_NAMESPACE, "default")
"""The Kyma of a remote cluster, wherever its catalog is."""

DEFAULT_CHANNEL = "regular"
NO_CHANNEL = "none"
"""In any case: no channel has this name."""

KUBECONFIG_KEY = "config"
"""In an access Secret."""

# ---- field managers

FIELD_MANAGER = OPERATOR_NAME
"""Of Manifests, of the status of Kymas and Watchers, of what the watcher needs, and of the definitions in an SKR."""
FINALIZER_MANAGER = f"{GROUP}/{OPERATOR_NAME}"
"""Of finalizers, of the state Deleting in an SKR, and of certificates."""
MODULE_MANAGER = "declarative.kyma-project.io/applier"
"""Of the objects of modules, and of the status and finalizers of Manifests."""
RESOURCE_MANAGER = "resource.kyma-project.io/finalizer"
"""Of default custom resources, and of the finalizer for them."""
CATALOG_MANAGER = "catalog-sync"
"""Of ModuleTemplates and ModuleReleaseMetas in an SKR. What has it there is deleted if it is not wanted any more."""
SYNC_MANAGER = "kyma-sync-context"
"""Of the namespace in an SKR, and of the metadata of its Kyma."""

# ---- labels

KYMA_NAME_LABEL = f"{GROUP}/kyma-name"
"""On access Secrets and Manifests: the Kyma in the KCP."""
MANAGED_BY_LABEL = f"{GROUP}/managed-by"
"""`lifecycle-manager` in the KCP, `kyma` in an SKR."""
WATCHED_BY_LABEL = f"{GROUP}/watched-by"
KYMA = "kyma"
"""The value of both in an SKR."""
SKIP_RECONCILIATION_LABEL = f"{GROUP}/skip-reconciliation"
"""`"true"`: left alone. On a Kyma in any case, on a Manifest to the letter."""
BETA_LABEL = f"{GROUP}/beta"
INTERNAL_LABEL = f"{GROUP}/internal"
SYNC_LABEL = f"{GROUP}/sync"
"""`"false"`: on a Kyma, its SKR gets no catalog; on a ModuleTemplate, no SKR gets it."""
MODULE_NAME_LABEL = f"{GROUP}/module-name"
CHANNEL_LABEL = f"{GROUP}/channel"
CONTROLLER_NAME_LABEL = f"{GROUP}/controller-name"
MANDATORY_MODULE_LABEL = f"{GROUP}/mandatory-module"
SIGNATURE_LABEL = f"{GROUP}/signature"
PURPOSE_LABEL = f"{GROUP}/purpose"
CERTIFICATE_PURPOSE = "klm-watcher-cert-manager"
WATCHER_GATEWAY_LABEL = f"{GROUP}/watcher-gateway"
POD_RESTART_LABEL = f"{GROUP}/pod-restart-trigger"
"""On the pods of the webhook: the version of their certificate."""

RUNTIME_ID_LABEL = "kyma-project.io/runtime-id"
INSTANCE_ID_LABEL = "kyma-project.io/instance-id"
GLOBAL_ACCOUNT_ID_LABEL = "kyma-project.io/global-account-id"
SUBACCOUNT_ID_LABEL = "kyma-project.io/subaccount-id"
REGION_LABEL = "kyma-project.io/region"
PLATFORM_REGION_LABEL = "kyma-project.io/platform-region"
BROKER_PLAN_NAME_LABEL = "kyma-project.io/broker-plan-name"
COPIED_LABELS = (RUNTIME_ID_LABEL, GLOBAL_ACCOUNT_ID_LABEL, SUBACCOUNT_ID_LABEL)
"""Of the Kyma in the KCP, if it has them, onto the one in its SKR."""

CANARY_LABEL = f"{GROUP}/canary"
"""`"true"` on a Kyma: it gets a new version of a module before others do, if rollouts are limited."""
ROLLOUT_LABEL = f"{GROUP}/rollout"
"""On a ConfigMap: the module whose rollout it shows."""

COMPONENT_LABEL = "app.kubernetes.io/component"
PART_OF_LABEL = "app.kubernetes.io/part-of"
PART_OF = "Kyma"
SKR_NAMESPACE_LABELS: Mapping[str, str] = {
    MANAGED_BY_LABEL: KYMA,
    "istio-injection": "enabled",
    "namespaces.warden.kyma-project.io/validate": "enabled",
}

# ---- annotations

FQDN_ANNOTATION = f"{GROUP}/fqdn"
OCM_COMPONENT_NAME_ANNOTATION = f"{GROUP}/ocm-component-name"
"""Both have the name of the OCM component."""
IS_UNMANAGED_ANNOTATION = f"{GROUP}/is-unmanaged"
"""`"true"` on a Manifest: its objects stay as they are, and the Manifest goes. It is never removed again."""
IS_CLUSTER_SCOPED_ANNOTATION = f"{GROUP}/is-cluster-scoped"
"""`"true"` on a ModuleTemplate: its default custom resource has no namespace."""
MODULE_VERSION_ANNOTATION = f"{GROUP}/module-version"
"""The version of a ModuleTemplate that does not have it in its spec."""
SYNCED_LAYER_ANNOTATION = "sync-oci-ref"
"""On a Manifest: digest of the layer that was last applied completely."""
OWNED_BY_ANNOTATION = f"deprecated-{GROUP}/owned-by"
"""On objects of modules: the Manifest; on the Kyma of an SKR: that of the KCP; as NAMESPACE/NAME."""
DISCLAIMER_ANNOTATION = f"{GROUP}/managed-by-reconciler-disclaimer"
INJECT_DATA_ANNOTATION = f"{GROUP}/inject-data-from-kcp"
"""`"true"` on a Secret of the module `deployer`: its data are those of the Secret of this name in the KCP."""
RESUME_ANNOTATION = f"{GROUP}/resume-rollout"
"""`"true"` on the ConfigMap of a rollout that has stopped: go on, and count failures from the beginning."""
CLUSTER_ANNOTATION = f"{GROUP}/cluster-uid"
"""On a Kyma of the KCP: which cluster is its SKR. To remove it is to confirm that it is another one now. On a Manifest:
in which cluster its default custom resource was created."""
SKR_DOMAIN_ANNOTATION = "skr-domain"
CA_ADDED_AT_ANNOTATION = "caAddedToBundleAt"
"""On the Secret of the gateway: when its newest authority came (RFC 3339)."""

# ---- finalizers

KYMA_FINALIZER = f"{GROUP}/Kyma"
"""With a capital letter."""
WATCHER_FINALIZER = f"{GROUP}/watcher"
MANDATORY_MODULE_FINALIZER = f"{GROUP}/mandatory-module"
PURGE_FINALIZER = f"{GROUP}/purge-finalizer"
"""Of releases up to 1.20; removed from a Kyma that is deleted."""
MANIFEST_FINALIZER = "declarative.kyma-project.io/finalizer"
LABEL_REMOVAL_FINALIZER = "label-removal-finalizer"
RESOURCE_FINALIZER = "resource.kyma-project.io/finalizer"
"""On a Manifest with a default custom resource that it creates."""
MANIFEST_FINALIZERS = (MANIFEST_FINALIZER, LABEL_REMOVAL_FINALIZER, RESOURCE_FINALIZER)

# ---- Istio and the certificates of the watcher

ISTIO_NAMESPACE = "istio-system"
POLICY_CONFIG_MAP = "klm-maintenance-config"
"""With the policy of maintenance windows, as `policy.json`."""
CA_CERTIFICATE_NAME = "klm-watcher-serving"
GATEWAY_SECRET_NAME = "klm-istio-gateway"  # noqa: S105  # a name
ROOT_SECRET_NAME = "klm-watcher"  # noqa: S105  # a name
