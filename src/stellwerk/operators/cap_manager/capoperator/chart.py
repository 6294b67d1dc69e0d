"""The chart that installs the CAP Operator, and the form of its values.

The original's chart has the values of a CAPOperator at its root. The chart of this product installs several operators,
so they are under `capOperator` there, next to what is the same for all: the image, what the manager inherits from its
own installation, such as image pull secrets, and that no other operator is installed. The name in Chart.yaml decides: a
fork of our chart that keeps the name works, and so does any other chart with the original's values. A flag was refused,
because it could contradict the chart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import stellwerk
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap_manager.settings import ImageReference
from stellwerk.render.errors import InvalidValues, SourceError
from stellwerk.render.files import local_files
from stellwerk.render.files.files import Files
from stellwerk.render.request import values
from stellwerk.render.request.values import Layer

PRODUCT = "stellwerk"
"""The name of the chart of this product."""
KEY = "capOperator"
"""What its values of the CAP Operator are under."""


class UnusableChart(Exception):
    """The folder holds no chart; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, and whether its values are nested."""

    files: Files
    is_product: bool
    inherited: JsonObject = field(default_factory=dict)
    """Further values of the chart of this product."""

    def values(self, own: JsonObject, image: str, release: str) -> JsonObject:
        """The values of an installation in the form of this chart. `own`: as the original's chart takes them.

        `release`: the name of the CAPOperator, with which the names of its objects begin in the original's chart. What
        a CAPOperator has no field for, such as the namespaces of ingress gateways, is inherited.
        """
        if not self.is_product:
            return own
        reference = ImageReference.parse(image)
        given = self.inherited.get(KEY)
        administrators = given if isinstance(given, dict) else {}
        fixed: JsonObject = {"enabled": True, "fullnameOverride": release}
        return {
            **self.inherited,
            "image": {"repository": reference.repository, "tag": reference.tag, "digest": reference.digest},
            "crds": {"keep": False},  # the set decides: they go when no CAP object is left
            KEY: values.merge(
                Layer(source, layer)
                for source, layer in (("the manager", administrators), ("the manager", fixed), ("the CAPOperator", own))
            ),
        }


def load(folder: Path | None, inherited: JsonObject | None = None) -> Chart:
    """The chart of a folder; that of this product without one, or where it does not exist. Raises UnusableChart.

    `inherited`: further values, where it is the chart of this product.
    """
    place = folder if folder is not None and folder.exists() else product_folder()
    try:
        files = local_files.read(place)
        name = values.read(files["Chart.yaml"], "Chart.yaml").get("name")
    except KeyError:
        raise UnusableChart(f"{place} has no Chart.yaml") from None
    except (OSError, SourceError, InvalidValues) as error:
        raise UnusableChart(f"{place}: {error}") from None
    return Chart(files, is_product=name == PRODUCT, inherited=inherited or {})


def product_folder() -> Path:
    """The chart of this product: in the installed package, or in the repository."""
    package = Path(stellwerk.__file__).parent
    installed = package / "chart"
    return installed if installed.is_dir() else package.parent.parent / "deploy" / "chart" / "stellwerk"
