"""Help about Kymas and their modules: the texts of `help/`, with the names that the code defines."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.reasons import KYMA, MANIFEST, MODULE, TURNS, WATCHER, ModuleEvent
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue

_FOLDER = files("stellwerk.operators.kyma") / "help"
_VALUES = {name: str(value) for name, value in vars(labels).items() if name.isupper() and not isinstance(value, dict)}
_TOPICS = read_topics(_FOLDER / "topics.md", _VALUES)
_OF_KYMAS = (
    "channels",
    "maintenance-windows",
    "rollouts",
    "kyma-deletion",
    "remote-access",
    "catalog",
    "mandatory-modules",
)


def _help(meanings: Mapping[Any, Any], *topics: str) -> KindHelp:
    return KindHelp(catalogue=Catalogue(meanings, TURNS), topics={name: _TOPICS[name] for name in topics})


_MODULE = read_reasons(_FOLDER / "modules.md", MODULE, {})
HELP: Mapping[str, KindHelp] = {
    "Kyma": _help(read_reasons(_FOLDER / "kyma.md", KYMA, {}), *_OF_KYMAS),
    "Manifest": _help(read_reasons(_FOLDER / "manifest.md", MANIFEST, {}), "module-sources", "module-removal"),
    "ModuleTemplate": _help(_MODULE, "signatures"),
    "ModuleReleaseMeta": _help({ModuleEvent.NOT_HELD: _MODULE[ModuleEvent.NOT_HELD]}),
    "Watcher": _help(read_reasons(_FOLDER / "watcher.md", WATCHER, {}), "watcher"),
}
