"""The module as a Helm chart: its templates are the shipped manifests, with values where a chart has some."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from stellwerk.apply.objects import json_edit
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.btp import api
from tests.cluster.btp.modules import Module

REPLICAS = "{{ .Values.manager.replicas }}"
DELETE_HOOK = """apiVersion: batch/v1
kind: Job
metadata:
  name: pre-delete-job
  annotations: {helm.sh/hook: pre-delete}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: farewell, image: example.com/farewell}]}}}
"""
"""Charts of this operand clean up by such a hook; the manager cleans up itself."""
CERTIFICATE = """apiVersion: v1
kind: Secret
metadata: {name: webhook-server-cert}
data: {tls.crt: {{ randAlphaNum 8 | b64enc }}}
"""
"""Charts of this operand make certificates of their own, others in each rendering; the manager makes them itself."""


@dataclass(frozen=True, slots=True)
class ModuleChart:
    """A private chart that a test may change."""

    module: Module

    @classmethod
    def of(cls, module: Module) -> ModuleChart:
        """Make a chart of a copied module's manifests, at its `ChartPath`."""
        chart = cls(module)
        chart.templates.mkdir()
        for file in sorted((module.folder / "apply").iterdir()):
            documents = [document for document in yaml.safe_load_all(file.read_text()) if document]
            text = yaml.safe_dump_all([_with_values(document) for document in documents], sort_keys=False)
            chart.write(f"{file.stem}.yaml", text.replace(f"'{REPLICAS}'", REPLICAS))
        chart.write("farewell.yaml", DELETE_HOOK)
        chart.write("certificate.yaml", CERTIFICATE)
        values = {"manager": {"secret": {}, "replicas": 3}, "cluster": {"id": ""}}
        (module.chart / "values.yaml").write_text(yaml.safe_dump(values))
        chart.override(manager={"replicas": 1})
        return chart

    @property
    def templates(self) -> Path:
        """Where its templates lie."""
        return self.module.chart / "templates"

    def set_version(self, version: str) -> None:
        """Ship the chart under another version."""
        self.module.set_version(version)

    def write(self, name: str, text: str) -> None:
        """Ship a further template, or another text of one."""
        (self.templates / name).write_text(text)

    def remove(self, name: str) -> None:
        """Ship the chart without a template."""
        (self.templates / name).unlink()

    def override(self, **values: JsonObject) -> None:
        """Ship the chart with these overrides of its values, and no others."""
        (self.module.chart.parent / "overrides.yaml").write_text(yaml.safe_dump(values))


def _with_values(document: JsonObject) -> JsonObject:
    match document["kind"], dig(document, "metadata", "name"):
        case "ConfigMap", api.OPERAND_CONFIG_NAME:
            return json_edit.merged(document, {"CLUSTER_ID": "{{ .Values.cluster.id }}"}, "data")
        case "Secret", api.OPERAND_SECRET_NAME:
            keys = ("clientid", "sm_url", "tokenurl")
            texts = {key: f"{{{{ .Values.manager.secret.{key} | b64enc }}}}" for key in keys}
            return json_edit.merged(document, texts, "data")
        case "Deployment", _:
            return json_edit.with_value(document, REPLICAS, "spec", "replicas")
        case _:
            return document
