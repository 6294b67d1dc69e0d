"""The settings of the CAP Operator Manager: flags and environment variables, read once at start."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.kube.types.model import JsonObject
from stellwerk.render.errors import InvalidValues
from stellwerk.render.request import values
from stellwerk.runtime.settings.table import Setting, SettingsTable

IMAGE_VARIABLE = "STELLWERK_IMAGE"
VALUES_VARIABLE = "STELLWERK_CHART_VALUES"


_REFERENCE = re.compile(
    r"(?P<repository>[A-Za-z0-9][A-Za-z0-9._:/-]*?)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry.example.com/stellwerk:1.2@sha256:…` in parts; tag and digest may be empty."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """The parts of a reference. Raises ValueError."""
        found = _REFERENCE.fullmatch(text)
        if found is None:
            raise ValueError("expected an image such as registry.example.com/stellwerk:1.2.3")
        return cls(found["repository"], found["tag"] or "", found["digest"] or "")


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
