"""The settings in force: flags, and the ConfigMap that overrides them while it exists."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from stellwerk.api.core import ConfigMap
from stellwerk.operators.btp.settings import TABLE, Settings, unusable_boundary
from stellwerk.runtime import conditions
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.settings.table import Effective, Rejection

REJECTED = "TunablesRejected"
"""The reason of the Event on the ConfigMap: what of it has no effect, and why."""

_log = logging.getLogger(__name__)


class Tunables:
    """Holds the settings in force. `report` receives whether the ConfigMap exists, and how much of it has no effect.

    What has no effect is also reported by an Event on the ConfigMap, whose author may see neither our log nor our
    metrics.

    `resolve` finds the folders that settings name. It is applied to flags and ConfigMap together, so that a folder or a
    source means the same in either, and once for each change, because it looks at the file system.
    """

    def __init__(
        self,
        base: Settings,
        report: Callable[[bool, int], None],
        recorder: EventSink,
        *,
        resolve: Callable[[Settings], Settings],
    ) -> None:
        self._base = base
        self._resolve = resolve
        self._report = report
        self._recorder = recorder
        self._effective = Effective(base)
        self.settings = resolve(base)
        """The settings in force now, with the module's folders resolved."""
        report(False, 0)

    def take(self, delta: Delta[ConfigMap]) -> None:
        """Follow a change of the ConfigMap: keys that are gone fall back to their flags, junk changes nothing."""
        former, data = self._effective, delta.new.data if delta.new is not None else None
        self._effective = _with_boundary(TABLE.overridden(self._base, former.settings, data))
        if self._effective.settings != former.settings:
            self.settings = self._resolve(self._effective.settings)
        rejections = self._effective.rejections
        self._report(delta.new is not None, len(rejections))
        if delta.new is None or not rejections or rejections == former.rejections:
            return
        for rejection in rejections:
            _log.warning("ConfigMap %s: %s", delta.key, rejection)
        message = conditions.truncated("; ".join(map(str, rejections)))
        self._recorder.send(delta.new, Notice(REJECTED, message, Severity.WARNING, action="Read"))


def _with_boundary(effective: Effective[Settings]) -> Effective[Settings]:
    """Report also a boundary that does not count, whichever of the settings made it so."""
    why = unusable_boundary(effective.settings)
    if not why:
        return effective
    value = TABLE.as_text(effective.settings)["ExpirationBoundary"]
    return replace(effective, rejections=(*effective.rejections, Rejection("ExpirationBoundary", value, why)))
