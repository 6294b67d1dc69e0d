"""Help about Components: the texts of `help/`, with the values that the code defines."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types import duration
from stellwerk.operators.component import api, intervals
from stellwerk.operators.component.errors import RETRY_SECONDS
from stellwerk.operators.component.reasons import FACTS, TURNS, Cause, Reason
from stellwerk.operators.component.references import references
from stellwerk.operators.component.settings import Settings
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue

_SETTINGS = Settings()
_FOLDER = files("stellwerk.operators.component") / "help"
_VALUES = {
    "ABANDON_ANNOTATION": api.ABANDON_ANNOTATION,
    "APPROVED_HOOKS_ANNOTATION": api.APPROVED_HOOKS_ANNOTATION,
    "DISABLE_EVENTS_ANNOTATION": api.DISABLE_EVENTS_ANNOTATION,
    "HTTP_REPOSITORY_INTERVAL": duration.format(_SETTINGS.http_repository_interval),
    "KUBE_CONFIG_KEYS": ", ".join(references.KUBE_CONFIG_KEYS),
    "LOGIN_KEYS": ", ".join(references.LOGIN_KEYS),
    "READY": READY,
    "REAPPLY_INTERVAL": duration.format(intervals.REAPPLY),
    "RECLAIM_MANAGERS": " or ".join(_SETTINGS.reclaim_managers),
    "RECONCILER": api.RECONCILER,
    "RECONCILING": RECONCILING,
    "REQUESTED_AT_ANNOTATION": REQUESTED_AT_ANNOTATION,
    "REQUEUE_INTERVAL": duration.format(intervals.REQUEUE),
    "RETRY_SECONDS": f"{RETRY_SECONDS:.0f}",
    "SEALS": api.SEALS,
    "STALLED": STALLED,
    "VALUES_KEYS": ", ".join(references.VALUES_KEYS),
}

CATALOGUE: Catalogue[Reason | Cause, State] = Catalogue(read_reasons(_FOLDER / "reasons.md", FACTS, _VALUES), TURNS)
TOPICS = read_topics(_FOLDER / "topics.md", _VALUES)


def _page() -> str:
    """The reference page of all reasons and causes, as Markdown."""
    tables = [_HEAD, *CATALOGUE.table(Reason), "", _CAUSES_HEAD, *CATALOGUE.table(Cause), ""]
    return "\n".join([*tables, *CATALOGUE.sections()])


_HEAD = """# Reasons of a Component

The condition `Ready` of a Component carries one of the first eleven words, as with the original operator.
`stellwerk explain REASON` prints the same text.

| reason | state | meaning |
| --- | --- | --- |"""

_CAUSES_HEAD = """While a Component is not ready, the condition `Reconciling` (waiting may help) or `Stalled` (it will
not) names the cause.

| cause | state | meaning |
| --- | --- | --- |"""

HELP = {"Component": KindHelp(catalogue=CATALOGUE, page=_page, topics=TOPICS)}
