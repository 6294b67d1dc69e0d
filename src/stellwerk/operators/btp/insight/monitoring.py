"""Alerts and panels about the BTP Manager alone; the runbook is `help/alerts.md`."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.monitoring.alerts import Alert, Severity
from stellwerk.delivery.monitoring.panels import Panel, Query
from stellwerk.delivery.operator_spec import OwnMonitoring

_EXPIRY = "btpmanager_certificate_expiration_timestamp_seconds"

MONITORING = OwnMonitoring(
    alerts=(
        Alert(
            name="BtpOperandCertificateExpiry",
            expr=f"min by (certificate) ({_EXPIRY}) - time() < 259200",
            duration="10m",
            severity=Severity.CRITICAL,
            summary="The certificate {{ $labels.certificate }} of the SAP BTP service operator expires soon",
            description="The certificate {{ $labels.certificate }} of the operand's webhooks expires in "
            "{{ $value | humanizeDuration }} and was not renewed.",
        ),
        Alert(
            name="BtpCredentialsRefused",
            expr="max(btpmanager_credentials_refused) == 1",
            duration="15m",
            severity=Severity.WARNING,
            summary="SAP Service Manager refuses the credentials",
            description="The token server refuses the credentials of the Secret sap-btp-manager.",
        ),
    ),
    runbook=(files("stellwerk.operators.btp") / "help" / "alerts.md").read_text("utf-8"),
    panels=(
        Panel(
            title="Certificates of the operand",
            queries=(Query(f"min by (certificate) ({_EXPIRY}) - time()", "{{certificate}}"),),
            description="Time until a certificate of the operand's webhooks expires",
            unit="s",
        ),
        Panel(
            title="Credentials",
            queries=(
                Query("max(btpmanager_credentials_refused)", "refused by the token server"),
                Query("max(btpmanager_credential_probe_status)", "CA-bundle probe alerts"),
                Query("max(btpmanager_custom_config_rejected_keys)", "keys of the ConfigMap without effect"),
            ),
            description="1 while the credentials are refused or the probe alerts; rejected keys of the ConfigMap",
        ),
    ),
)
