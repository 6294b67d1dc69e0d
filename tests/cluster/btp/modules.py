"""A private copy of the module's folders, so that a test can ship another version of the module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject


@dataclass(frozen=True, slots=True)
class Module:
    """The folders that the operator is pointed at."""

    root: Path

    @property
    def folder(self) -> Path:
        """`ResourcesPath`."""
        return self.root / "module-resources"

    @property
    def chart(self) -> Path:
        """`ChartPath`."""
        return self.root / "module-chart" / "chart"

    @property
    def manager_resources(self) -> Path:
        """`ManagerResourcesPath`."""
        return self.root / "manager-resources"

    def set_version(self, version: str) -> None:
        """Ship the module under another version."""
        file = self.chart / "Chart.yaml"
        chart = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({**chart, "version": version}))

    def remove(self, resource: Resource, name: str) -> None:
        """Ship the module without an object."""
        self.rename(resource, name, into=None)

    def rename(self, resource: Resource, name: str, *, into: str | None) -> None:
        """Ship an object under another name, or not at all."""
        for file in sorted((self.folder / "apply").iterdir()):
            text = file.read_text()
            if name not in text:
                continue
            documents = [document for document in yaml.safe_load_all(text) if document]
            kept = [_renamed(document, resource, name, into) for document in documents]
            file.write_text(yaml.safe_dump_all([document for document in kept if document is not None]))

    def list_for_deletion(self, api_version: str, kind: str, name: str, namespace: str = "kyma-system") -> None:
        """Ship the module with one more object that is to be deleted."""
        document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
        file = self.folder / "delete" / "to-delete.yml"
        file.write_text(f"{file.read_text() if file.exists() else ''}\n---\n{yaml.safe_dump(document)}")

    def write(self, name: str, text: str) -> None:
        """Ship a further file."""
        (self.folder / "apply" / name).write_text(text)


def _renamed(document: JsonObject, resource: Resource, name: str, into: str | None) -> JsonObject | None:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    if document["kind"] != resource.kind or metadata["name"] != name:
        return document
    return None if into is None else {**document, "metadata": {**metadata, "name": into}}
