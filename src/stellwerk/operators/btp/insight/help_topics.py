"""Help about the BTP Manager: the texts of `help/`, with the values that the code defines."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.reasons import FACTS, TURNS, Reason
from stellwerk.operators.btp.settings import TABLE
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue

_DEFAULTS = TABLE.as_text(TABLE.defaults)
_FOLDER = files("stellwerk.operators.btp") / "help"
_CONSTANTS = vars(conditions) | vars(api) | vars(certificates) | vars(credentials)
_VALUES = {
    **{name: text for name, text in _CONSTANTS.items() if name.isupper() and isinstance(text, str)},
    "CA_CERTIFICATE_EXPIRATION": _DEFAULTS["CaCertificateExpiration"],
    "EXPIRATION_BOUNDARY": _DEFAULTS["ExpirationBoundary"].lstrip("-"),
    "HARD_DELETE_TIMEOUT": _DEFAULTS["HardDeleteTimeout"],
    "IN_NAMESPACE": f"kubectl -n {api.STANDARD_NAMESPACE}",
    "SECRET": f"{api.STANDARD_NAMESPACE}/{api.REQUIRED_SECRET_NAME}",
    "WEBHOOK_CERTIFICATE_EXPIRATION": _DEFAULTS["WebhookCertificateExpiration"],
}
"""What the texts may name: the names of the code, and values that are made of others."""
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
