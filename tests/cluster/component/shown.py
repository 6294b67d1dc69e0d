"""Everything that the Components of a namespace have shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from stellwerk.operators.component.api import Component
from stellwerk.runtime import conditions
from stellwerk.testing.scenarios import status_history
from stellwerk.testing.scenarios.status_history import Shown


@dataclass
class StatusHistory(status_history.StatusHistory[Component]):
    """What the Components of a namespace have shown, by name."""

    kind: type[Component] = Component
    pages: dict[str, list[Shown]] = field(default_factory=dict)
    latest: dict[str, Component] = field(default_factory=dict)

    def write(self, obj: Component) -> None:
        name = obj.metadata.name
        self.latest[name] = obj
        ready = conditions.find(obj.status.conditions, "Ready")
        if obj.status.state is not None and ready is not None:
            shown = Shown(obj.status.state, ready.reason, ready.message)
            status_history.turn(self.pages.setdefault(name, []), shown)

    def end(self, obj: Component) -> None:
        self.latest.pop(obj.metadata.name, None)
