"""Panels of dashboards as values, and the Grafana dashboard that they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stellwerk.kube.types.model import JsonObject

_COLUMNS = 24
"""The width of a dashboard in Grafana."""
_SOURCE: JsonObject = {"type": "prometheus", "uid": "${datasource}"}


class Shape(StrEnum):
    """How a panel shows its queries, by Grafana's names."""

    TIME_SERIES = "timeseries"
    NUMBER = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and how its series are called: `{{label}}` is replaced by the value of a label."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel. `unit` is one of Grafana's: `s`, `bytes`, `percentunit`, `short`."""

    title: str
    queries: Sequence[Query]
    description: str
    shape: Shape = Shape.TIME_SERIES
    unit: str = "short"
    width: int = 12
    height: int = 8

    def body(self, number: int, x: int, y: int) -> JsonObject:
        """The panel at a place of the grid."""
        is_now = self.shape is not Shape.TIME_SERIES
        targets: list[JsonObject] = [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "instant": is_now,
                "range": not is_now,
                **({"format": "table"} if self.shape is Shape.TABLE else {}),
            }
            for index, query in enumerate(self.queries)
        ]
        return {
            "id": number,
            "type": self.shape.value,
            "title": self.title,
            "description": self.description,
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": {},
            "targets": [*targets],
        }


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another dashboard."""

    title: str
    uid: str

    def body(self) -> JsonObject:
        return {"type": "link", "title": self.title, "url": f"/d/{self.uid}", "keepTime": True, "includeVars": True}


def dashboard(uid: str, title: str, panels: Sequence[Panel], links: Sequence[Link] = ()) -> JsonObject:
    """A Grafana dashboard: panels from left to right, row after row."""
    bodies: list[JsonObject] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        bodies.append(panel.body(number, x, y))
        x, row_height = x + panel.width, max(row_height, panel.height)
    return {
        "uid": uid,
        "title": title,
        "tags": ["stellwerk"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "links": [link.body() for link in links],
        "panels": [*bodies],
    }
