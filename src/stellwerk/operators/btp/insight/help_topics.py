"""Help about the BTP Manager: the texts of `help/`, with the values that the code defines."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.credentials.credentials import CLUSTER_ID_KEY, CREDENTIALS_NAMESPACE_KEY
from stellwerk.operators.btp.reasons import FACTS, TURNS, Reason
from stellwerk.operators.btp.settings import TABLE
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue

_DEFAULTS = TABLE.as_text(TABLE.defaults)
_FOLDER = files("stellwerk.operators.btp") / "help"
_VALUES = {
    "BROKER_NAME": api.BROKER_NAME,
    "CA_CERTIFICATE_EXPIRATION": _DEFAULTS["CaCertificateExpiration"],
    "CA_CERTIFICATE_KEY": certificates.CA_CERTIFICATE_KEY,
    "CA_PRIVATE_KEY_KEY": certificates.CA_PRIVATE_KEY_KEY,
    "CA_SECRET_NAME": api.CA_SECRET_NAME,
    "CLUSTER_ID_KEY": CLUSTER_ID_KEY,
    "CREDENTIALS_NAMESPACE_KEY": CREDENTIALS_NAMESPACE_KEY,
    "DISABLE_NETWORK_POLICIES_ANNOTATION": api.DISABLE_NETWORK_POLICIES_ANNOTATION,
    "EXPIRATION_BOUNDARY": _DEFAULTS["ExpirationBoundary"].lstrip("-"),
    "FORCE_DELETE_LABEL": api.FORCE_DELETE_LABEL,
    "HARD_DELETE_TIMEOUT": _DEFAULTS["HardDeleteTimeout"],
    "IN_NAMESPACE": f"kubectl -n {api.STANDARD_NAMESPACE}",
    "MANAGED_BY_LABEL": api.MANAGED_BY_LABEL,
    "MANAGED_SELECTOR": api.MANAGED_SELECTOR,
    "OPERATOR_NAME": api.OPERATOR_NAME,
    "READY": api.READY,
    "REQUIRED_SECRET_NAME": api.REQUIRED_SECRET_NAME,
    "SECRET": f"{api.STANDARD_NAMESPACE}/{api.REQUIRED_SECRET_NAME}",
    "STALLED": api.STALLED,
    "STANDARD_NAME": api.STANDARD_NAME,
    "STANDARD_NAMESPACE": api.STANDARD_NAMESPACE,
    "TUNABLES_NAME": api.TUNABLES_NAME,
    "WEBHOOK_CERTIFICATE_EXPIRATION": _DEFAULTS["WebhookCertificateExpiration"],
    "WEBHOOK_CERTIFICATE_KEY": certificates.WEBHOOK_CERTIFICATE_KEY,
    "WEBHOOK_PRIVATE_KEY_KEY": certificates.WEBHOOK_PRIVATE_KEY_KEY,
    "WEBHOOK_SECRET_NAME": api.WEBHOOK_SECRET_NAME,
}
_TUNABLES = tuple((row.key, f"{row.help} Default: {_DEFAULTS[row.key] or 'none'}.") for row in TABLE.rows)

CATALOGUE: Catalogue[Reason, State] = Catalogue(read_reasons(_FOLDER / "reasons.md", FACTS, _VALUES), TURNS)
TOPICS = read_topics(_FOLDER / "topics.md", _VALUES, {"tunables": _TUNABLES})


def _page() -> str:
    """The reference page of all reasons, as Markdown."""
    return "\n".join([_HEAD, *CATALOGUE.table(Reason), "", *CATALOGUE.sections()])


_HEAD = """# Reasons of a BtpOperator

The condition `Ready` of a BtpOperator carries one of these reasons. `stellwerk explain REASON` prints the same text.

| reason | state | meaning |
| --- | --- | --- |"""

HELP = {"BtpOperator": KindHelp(catalogue=CATALOGUE, page=_page, topics=TOPICS)}
