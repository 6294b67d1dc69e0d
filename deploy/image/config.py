"""How the image is started, and its labels. `Dockerfile` repeats this, and a test compares both."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime

from deploy.image.python import ROOT

USER = 65532
"""The number of the user and of its group: that of `nonroot` in the images that many clusters allow by policy."""
_ANNOTATION = "org.opencontainers.image"


@dataclass(frozen=True, slots=True)
class Release:
    """What the image is made from. `revision` is empty outside of a Git checkout; `source` is empty where not given."""

    name: str
    version: str
    description: str
    licence: str
    revision: str
    source: str
    created: datetime

    @property
    def labels(self) -> dict[str, str]:
        """The annotations that the OCI image specification defines; they are the labels and those of the manifest."""
        facts = {
            "title": self.name.capitalize(),
            "description": self.description,
            "version": self.version,
            "revision": self.revision,
            "created": self.timestamp,
            "source": self.source,
            "licenses": self.licence,
        }
        return {f"{_ANNOTATION}.{name}": value for name, value in facts.items() if value}

    @property
    def timestamp(self) -> str:
        """The time as the specification writes it (RFC 3339)."""
        return f"{self.created:%Y-%m-%dT%H:%M:%SZ}"


def of_checkout() -> Release:
    """What this checkout is: its commit, and the time of that commit.

    `IMAGE_REVISION`, `IMAGE_SOURCE` (the address of the repository) and `SOURCE_DATE_EPOCH` of the environment replace
    what Git reports. A revision with changes that are not committed ends with `-dirty`.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or "0"
    return Release(
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licence=project["license"],
        revision=os.environ.get("IMAGE_REVISION") or _revision(),
        source=os.environ.get("IMAGE_SOURCE", ""),
        created=datetime.fromtimestamp(int(seconds), UTC),
    )


def process(release: Release) -> dict[str, object]:
    """The part of the configuration that a container runtime reads."""
    return {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "Entrypoint": ["stellwerk"],
        "Cmd": ["--help"],
        "WorkingDir": "/",
        "Labels": release.labels,
    }


ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "HOME": "/home/nonroot",
    # All bytecode is in the image; a module that a volume brings is not to be compiled into the volume.
    "PYTHONDONTWRITEBYTECODE": "1",
}


def _revision() -> str:
    revision = _git("rev-parse", "HEAD")
    return f"{revision}-dirty" if revision and _git("status", "--porcelain", "--untracked-files=no") else revision


def _git(*arguments: str) -> str:
    """What Git prints, or nothing outside of a checkout."""
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours, no shell
            ["git", *arguments],  # noqa: S607 - the Git of the user
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
