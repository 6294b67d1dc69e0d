"""The settings of the CAP Operator Manager: flags and environment variables, read once at start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stellwerk.operators.cap_manager.image import ImageReference
from stellwerk.runtime.settings.table import Setting, SettingsTable

IMAGE_VARIABLE = "STELLWERK_IMAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    manifest_directory: Path = Path("chart")
    image: str = ""


def _image(text: str) -> str:
    ImageReference.parse(text)
    return text


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
    ),
    about="A value comes from its flag, else from its environment variable, else it is the default.",
)
