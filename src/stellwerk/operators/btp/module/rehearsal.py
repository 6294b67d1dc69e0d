"""The module for a cluster in which pods are played: nothing runs behind the webhooks' Service there.

A webhook without an answer refuses every service instance, so these match nothing. All else is as in a release.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from stellwerk.operators.btp.module.release import APPLY_FOLDER, SHIPPED
from stellwerk.operators.btp.settings import Settings

FOLDER = "module"
"""The folder of the copy in the folder of the local system."""
OPERAND_PRESENT_LABEL = "stellwerk.local/operand-answers"
"""A namespace with this label gets the webhooks back, for those who run an operand."""


def copy_module(target: Path) -> Path:
    """Make a folder a copy of the module that we ship, with webhooks that match nothing. Returns the folder.

    An earlier copy goes: a file that the release no longer has would be applied.
    """
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(SHIPPED, target)
    for file in sorted((target / "module-resources" / APPLY_FOLDER).iterdir()):
        text = file.read_text()
        if "webhooks:" not in text:  # reading the definitions of kinds would take most of a second
            continue
        documents = [document for document in yaml.safe_load_all(text) if document]
        webhooks = [webhook for document in documents for webhook in document.get("webhooks", [])]
        for webhook in webhooks:
            webhook["namespaceSelector"] = {"matchLabels": {OPERAND_PRESENT_LABEL: "true"}}
        if webhooks:
            file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return target


def flags(folder: Path) -> list[str]:
    """The flags that point the operator at such a copy."""
    shipped = Settings()
    return [
        f"--resources-path={folder / shipped.resources_path}",
        f"--manager-resources-path={folder / shipped.manager_resources_path}",
        f"--chart-path={folder / shipped.chart_path}",
    ]
