"""BtpOperator: the kind itself, and every name that others rely on.

The names are a contract with clusters that the original operator has set up: a label or finalizer spelled otherwise
would orphan what is there. So they are written once, here, and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record

GROUP = "operator.kyma-project.io"

# ---- who we are

OPERATOR_NAME = "btp-manager"
"""Our field manager, and the value of the managed-by label on everything we made."""

BROKER_NAME = "kcp-kyma-environment-broker"
"""Who delivers the required Secret, by its managed-by label."""

MODULE_NAME = "btp-operator"
OPERAND_NAME = "sap-btp-operator"
"""What all names of the operand begin with, and the value of its instance label."""

STANDARD_NAMESPACE = "kyma-system"
STANDARD_NAME = "btpoperator"
STANDARD_KEY = ObjectKey(STANDARD_NAMESPACE, STANDARD_NAME)
"""Where the one CR is in a managed Kyma runtime."""

LEASE_NAME = "ec023d38.kyma-project.io"
"""The leader-election Lease, shared with the original so that both never act at once."""

# ---- on the CR

FINALIZER = f"{GROUP}/{OPERATOR_NAME}"
CHART_ERA_FINALIZER = "custom-deletion-finalizer"
"""What releases of early 2023 put on the CR; taken off together with ours."""

FORCE_DELETE_LABEL = "force-delete"
"""`"true"`, exactly: delete service instances and bindings too."""

DISABLE_NETWORK_POLICIES_ANNOTATION = f"{GROUP}/btp-operator-disable-network-policies"
"""`true` in any case: no network policies."""

HARD_DELETE_STARTED_ANNOTATION = f"{GROUP}/hard-delete-started-at"
"""Ours: when the sweep over instances and bindings began (RFC 3339), so that a restart does not restart the clock."""
SOFT_DELETE_STARTED_ANNOTATION = f"{GROUP}/soft-delete-started-at"
"""Ours: when the sweep was first given up (RFC 3339), so that a failure does not make the deletion hard again."""

PROBE_STATUS_ANNOTATION = "tls-probe-status"
PROBE_HASH_ANNOTATION = "tls-probe-hash"
PROBE_UPDATED_AT_ANNOTATION = "tls-probe-updated-at"
PROBE_LAST_HASH_ANNOTATION = "tls-probe-last-hash"

# ---- on module resources

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MODULE_LABEL = "kyma-project.io/module"
VERSION_LABEL = "chart-version"
RECOMMENDED_VERSION_LABEL = "app.kubernetes.io/chart-version"
"""How the published documentation spells the version label; both are set, either is read."""

INSTANCE_LABEL = "app.kubernetes.io/instance"
OPERAND_POD_SELECTOR = f"{INSTANCE_LABEL}={OPERAND_NAME}"
MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={OPERATOR_NAME}"
CHECKSUM_ANNOTATION = f"{GROUP}/config-checksum"
"""Ours, on the operand's pod template: pods roll when their configuration or credentials change."""

# ---- the required Secret and the tunables

REQUIRED_SECRET_NAME = "sap-btp-manager"  # noqa: S105  # a name
TUNABLES_NAME = "sap-btp-manager"
PREVIOUS_CLUSTER_ID_ANNOTATION = f"{GROUP}/previous-cluster-id"
PREVIOUS_CREDENTIALS_NAMESPACE_ANNOTATION = f"{GROUP}/previous-credentials-namespace"

# ---- the operand

OPERAND_CONFIG_NAME = "sap-btp-operator-config"
OPERAND_SECRET_NAME = "sap-btp-service-operator"  # noqa: S105  # a name
CLUSTER_ID_SECRET_NAME = "sap-btp-operator-clusterid"  # noqa: S105  # a name
"""Written by the operand itself; holds the cluster id that it first saw."""

OPERAND_DEPLOYMENT_NAME = "sap-btp-operator-controller-manager"
OPERAND_CONTAINER = "manager"
WEBHOOK_SERVICE_NAME = "sap-btp-operator-webhook-service"
CA_SECRET_NAME = "ca-server-cert"  # noqa: S105  # a name
WEBHOOK_SECRET_NAME = "webhook-server-cert"  # noqa: S105  # a name
CERTIFICATE_SECRETS = (CA_SECRET_NAME, WEBHOOK_SECRET_NAME)
SERVICES_GROUP = "services.cloud.sap.com"
LIMITED_CACHE_LABEL = f"{SERVICES_GROUP}/managed-by-sap-btp-operator"
"""What makes an object visible to an operand that runs with a limited cache."""

PRIORITY_CLASS_NAME = "btp-manager-kyma-priority"
VERSIONS_NAME = "btp-manager-versions"
"""The ConfigMap that records which version and kinds were applied."""

LEGACY_NETWORK_POLICY_NAME = "kyma-project.io--btp-operator-allow-to-webhook"
"""Of a former release; deleted wherever it is found."""


class State(StrEnum):
    """The module's state, as Lifecycle Manager reads it."""

    Processing = "Processing"
    Deleting = "Deleting"
    Ready = "Ready"
    Error = "Error"
    Warning = "Warning"


READY = "Ready"
"""The type of the condition that the original has, which is always the first one."""


class BtpOperatorSpec(Record, frozen=True, kw_only=True):
    """There is nothing to choose yet; unknown keys are dropped by the API server."""


class BtpOperatorStatus(Record, frozen=True, kw_only=True):
    """How the module is. Written by the operator only."""

    state: Annotated[
        State,
        documented(
            "Ready: the module works. Processing and Deleting: no user has to act. Warning: the user has to act. "
            "Error: the operator could not and tries again.",
            example="Ready",
        ),
    ]
    conditions: Annotated[
        tuple[Condition, ...],
        documented(
            "Ready comes first; its reason and message explain the state. Stalled is there only while the user has "
            "to act, Reconciling only while the operator works, for tools that wait as kstatus does."
        ),
    ] = ()
    observed_generation: Annotated[int, documented("The metadata.generation that was last looked at.")] = 0
    last_handled_reconcile_at: Annotated[
        str,
        documented(
            f"The value of the annotation {REQUESTED_AT_ANNOTATION} that was acted on last.",
            example="2026-01-31T09:30:00Z",
        ),
    ] = ""


class BtpOperator(Kind, frozen=True, kw_only=True):
    """Asks for the SAP BTP service operator in this cluster. One represents the module; further ones stand aside."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1alpha1", "BtpOperator", "btpoperators", namespaced=True)

    spec: Annotated[BtpOperatorSpec | None, documented("May be left out, empty or null.", nullable=True)] = None
    status: BtpOperatorStatus | None = None


DEFINITION = Definition(
    short_names=("btp",),
    categories=("kyma-modules", "kyma-btp-operator", "all", "sap"),
    versions=(
        Version(
            kind=BtpOperator,
            columns=(
                PrinterColumn(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
                PrinterColumn(name="State", path=".status.state"),
                PrinterColumn(name="Reason", path='.status.conditions[?(@.type=="Ready")].reason'),
                AGE,
                PrinterColumn(name="Message", path='.status.conditions[?(@.type=="Ready")].message', priority=1),
            ),
        ),
    ),
)
"""The CustomResourceDefinition, made from the structs above."""
