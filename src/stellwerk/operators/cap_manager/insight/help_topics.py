"""Help about CAPOperators: the texts of `help/`, with the values that the code defines."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.cap_manager import api, rights
from stellwerk.operators.cap_manager.capoperator import plan
from stellwerk.operators.cap_manager.reasons import FACTS, TURNS
from stellwerk.operators.cap_manager.settings import IMAGE_VARIABLE
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue

_FOLDER = files("stellwerk.operators.cap_manager") / "help"
_VALUES = {
    "AGGREGATE": rights.AGGREGATE,
    "DELETE_POLICY": api.DELETE_POLICY_ANNOTATION,
    "DNS_NAMES": plan.DNS_NAMES_ANNOTATION,
    "IMAGE_VARIABLE": IMAGE_VARIABLE,
    "LONGEST_DOMAIN": str(plan.LONGEST_DOMAIN),
    "RETAIN": api.RETAIN_ANNOTATION,
}

CATALOGUE = Catalogue(read_reasons(_FOLDER / "reasons.md", FACTS, _VALUES), TURNS)
HELP: Mapping[str, KindHelp] = {
    "CAPOperator": KindHelp(catalogue=CATALOGUE, topics=read_topics(_FOLDER / "topics.md", _VALUES))
}
