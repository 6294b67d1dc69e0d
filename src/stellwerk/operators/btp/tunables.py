"""The settings in force: flags, and the ConfigMap that overrides them while it exists."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stellwerk.api.core import ConfigMap
from stellwerk.operators.btp.settings import Effective, Settings, with_tunables
from stellwerk.runtime.informer import Delta

_log = logging.getLogger(__name__)


class Tunables:
    """Holds the settings in force. `report` is told whether the ConfigMap exists."""

    def __init__(self, base: Settings, report: Callable[[bool], None]) -> None:
        self._base = base
        self._report = report
        self._effective = Effective(base)
        report(False)

    @property
    def settings(self) -> Settings:
        """The settings in force now."""
        return self._effective.settings

    def take(self, delta: Delta[ConfigMap]) -> None:
        """Follow a change of the ConfigMap: keys that are gone fall back to their flags, junk changes nothing."""
        data = delta.new.data if delta.new is not None else None
        self._effective = with_tunables(self._base, self._effective.settings, data)
        self._report(delta.new is not None)
        for rejection in self._effective.rejections:
            _log.warning("ConfigMap %s: %s", delta.key, rejection)
