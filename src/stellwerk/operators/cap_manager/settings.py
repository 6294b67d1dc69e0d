"""The settings of the CAP Operator Manager: flags and environment variables, read once at start."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap_manager.image import ImageReference
from stellwerk.render.errors import InvalidValues
from stellwerk.render.request import values
from stellwerk.runtime.settings.table import Setting, SettingsTable

IMAGE_VARIABLE = "STELLWERK_IMAGE"
VALUES_VARIABLE = "STELLWERK_CHART_VALUES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    manifest_directory: Path = Path("chart")
    image: str = ""
    chart_values: JsonObject = field(default_factory=dict)


def _image(text: str) -> str:
    ImageReference.parse(text)
    return text


def _values(text: str) -> JsonObject:
    try:
        return values.read(text, "the text")
    except InvalidValues as error:
        raise ValueError(f"expected values of a chart as JSON: {error}") from None


def _folder(folder: Path) -> str:
    return str(folder) if folder.is_absolute() else f"./{folder}"


TABLE = SettingsTable(
    Settings(),
    (
        Setting(
            field="manifest_directory",
            read=Path,
            write=_folder,
            help="Folder of the chart that installs the CAP Operator; where it is absent: the product's chart.",
        ),
        Setting(
            field="image",
            read=_image,
            help="Image of the pods that the chart of this product creates. The chart passes the image of the manager.",
            environment=IMAGE_VARIABLE,
        ),
        Setting(
            field="chart_values",
            read=_values,
            write=lambda found: json.dumps(found) if found else "",
            help="Further values, as JSON, of the chart of this product. The chart passes imagePullSecrets, "
            "networkPolicy and capOperator of the manager.",
            environment=VALUES_VARIABLE,
            has_flag=False,
        ),
    ),
    about="A value comes from its flag, else from its environment variable, else it is the default.",
)
