"""Where the module comes from, asked in every pass: folders of manifests or a chart, by the settings now.

The source may change while we run. Objects that both have stay as they are: they carry the same names and labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials.credentials import BtpCredentials
from stellwerk.operators.btp.errors import ChartPathEmpty
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.module.chart import Charts, Order
from stellwerk.operators.btp.module.release import Loader, ModuleRelease, Places
from stellwerk.operators.btp.settings import Settings


@dataclass(slots=True)
class ReleaseSupplier:
    """Answers with the release that is wanted now."""

    settings: Callable[[], Settings]
    charts: Charts
    folders: Loader = field(default_factory=Loader)

    @property
    def is_chart(self) -> bool:
        """Whether the module comes from a chart now."""
        return release.comes_from_chart(self.settings())

    async def current(self, operator: BtpOperator, credentials: BtpCredentials) -> ModuleRelease:
        """The module as it is wanted now. Raises ModuleUnreadable, and for a chart ChartPathEmpty and ChartUnusable."""
        settings = self.settings()
        places = Places.of(settings)
        if not self.is_chart:
            return self.folders.load(places)
        if not settings.chart_path:
            raise ChartPathEmpty("set ChartPath, or set ModuleSource to resources")
        order = Order.of(operator.metadata.name, settings.chart_namespace, credentials)
        return await self.charts.load(places, order)
