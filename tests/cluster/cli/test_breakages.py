"""`stellwerk why` names the true cause of what is broken in the BTP module, and a next step that works as printed."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from tests.cluster.breakages import Expected, Judge
from tests.cluster.cli.conftest import BTP, Given, btp_status
from tests.cluster.program import CommandLine

KYMA = "kyma-system"
BROKER: JsonObject = {"labels": {"app.kubernetes.io/managed-by": "kcp-kyma-environment-broker"}}
KEYS = ("clientid", "clientsecret", "sm_url", "tokenurl", "cluster_id")


@dataclass(frozen=True, slots=True)
class Row:
    """A BtpOperator in a state, what else there is, and what `why` must say."""

    reason: str
    state: str
    message: str
    expected: Expected
    secret: JsonObject | None = None


def secret(*keys: str, empty: str = "", metadata: JsonObject = BROKER) -> JsonObject:
    data: JsonObject = {key: "" if key == empty else "Y2FuYXJ5" for key in keys}
    return {"metadata": metadata, "data": data}


WHOLE = secret(*KEYS)
SUBJECT = "btp/cr"
RIGHT = "grant verb patch on configmaps in namespace kyma-system"
DENIED = f"cannot apply ConfigMap kyma-system/x: user m may not patch configmaps in namespace kyma-system ({RIGHT})"

ROWS: dict[str, Row] = {
    "no Secret": Row(
        "MissingSecret",
        "Warning",
        "not found",
        Expected(SUBJECT, ["Secret kyma-system/sap-btp-manager does not exist"], "stellwerk explain MissingSecret"),
    ),
    "no label": Row(
        "MissingSecret",
        "Warning",
        "not found",
        Expected(SUBJECT, ["has not the label"], "kubectl label secret sap-btp-manager", ["does not exist"]),
        secret(*KEYS, metadata={}),
    ),
    "no keys": Row(
        "InvalidSecret",
        "Error",
        "missing keys",
        Expected(
            SUBJECT, ["lacks keys: tokenurl, cluster_id"], "kubectl edit secret sap-btp-manager", ["Y2FuYXJ5", "canary"]
        ),
        secret(*KEYS[:3]),
    ),
    "empty value": Row(
        "InvalidSecret",
        "Error",
        "empty values",
        Expected(SUBJECT, ["empty values for keys: tokenurl"], "kubectl edit secret sap-btp-manager", ["lacks"]),
        secret(*KEYS, empty="tokenurl"),
    ),
    "no right": Row(
        "ReconcileFailed",
        "Error",
        DENIED,
        Expected(SUBJECT, ["may not patch configmaps"], "stellwerk explain ReconcileFailed"),
        WHOLE,
    ),
    "resources": Row(
        "ProvisioningFailed",
        "Error",
        "timed out while waiting for resources readiness",
        Expected(SUBJECT, ["timed out"], "stellwerk reconcile btp/cr"),
        WHOLE,
    ),
    "chart": Row(
        "ChartInstallFailed",
        "Error",
        DENIED,
        Expected(SUBJECT, ["may not patch configmaps"], "stellwerk explain ChartInstallFailed"),
        WHOLE,
    ),
}
"""By name."""


async def test_why_names_the_cause_of_each_breakage_and_a_command_that_works(
    given: Given, place: str, command_line_cluster: LocalCluster, command_line: CommandLine
) -> None:
    given.namespace(KYMA)
    judge = Judge(command_line_cluster.kubeconfig, command_line)
    wrong: list[str] = []
    given.operator(place, "cr", "Initialized", "Processing", "begins")
    for name, row in ROWS.items():
        given.status(BTP, place, "cr", btp_status(row.reason, row.state, row.message))
        if row.secret is not None:
            given.put(Secret.resource, KYMA, "sap-btp-manager", **row.secret)
        try:
            await judge.judge(place, row.expected)
        except AssertionError as error:
            wrong.append(f"== {name}: {error}")
        finally:
            if row.secret is not None:
                given.gone(Secret.resource, KYMA, "sap-btp-manager")
    assert not wrong, "\n".join(wrong)
