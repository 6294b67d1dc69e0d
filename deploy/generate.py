"""Writes the files that are made from code; `make generate` runs it, and tests prove the files fresh.

usage: python deploy/generate.py
"""

from __future__ import annotations

from pathlib import Path

from stellwerk.cli import reference
from stellwerk.kube.schema.crd import Definition, to_yaml
from stellwerk.operators.btp import api, flags, reasons, rights
from stellwerk.operators.btp.insight import help_topics
from stellwerk.operators.btp.module import operand
from stellwerk.operators.component import api as component_api
from stellwerk.operators.component import flags as component_flags
from stellwerk.operators.component import reasons as component_reasons
from stellwerk.operators.component import rights as component_rights
from stellwerk.operators.component.insight import help_topics as component_help_topics
from stellwerk.runtime.insight.help_topics import page

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Made by `make generate`; do not edit.\n"


def generated() -> dict[Path, str]:
    """Every generated file, relative to the root of the repository, and its text."""
    return {**_definitions(), **_btp(), **_component(), reference.PAGE: reference.page()}


def _definitions() -> dict[Path, str]:
    ours: tuple[Definition, ...] = (api.DEFINITION, *component_api.DEFINITIONS)
    return {Path(f"deploy/crds/{one.name}.yaml"): HEADER + to_yaml(one.body()) for one in ours}


def _btp() -> dict[Path, str]:
    return {
        Path("src/stellwerk/operators/btp/data/module-resources/apply/crds.yml"): HEADER
        + "---\n".join(to_yaml(kind.body()) for kind in (operand.SERVICE_BINDINGS, operand.SERVICE_INSTANCES)),
        Path("deploy/rbac/btp-manager.yaml"): HEADER + rights.as_yaml(),
        Path("docs/reference/reasons/btp.md"): reasons.page(),
        Path("docs/reference/settings/btp.md"): flags.page(),
        Path("docs/reference/topics/btp.md"): page("About a BtpOperator", help_topics.TOPICS),
    }


def _component() -> dict[Path, str]:
    return {
        **{
            Path(f"deploy/chart/component-operator/crds/{one.name}.yaml"): HEADER + to_yaml(one.body())
            for one in component_api.DEFINITIONS
        },
        Path("deploy/rbac/component-operator.yaml"): HEADER + component_rights.as_yaml(),
        Path("deploy/rbac/component-operator-cluster-admin.yaml"): HEADER + component_rights.cluster_admin_as_yaml(),
        Path("deploy/chart/component-operator/files/rights.yaml"): HEADER + component_rights.rules_as_yaml(),
        Path("docs/reference/reasons/component.md"): component_reasons.page(),
        Path("docs/reference/settings/component.md"): component_flags.page(),
        Path("docs/reference/topics/component.md"): page("About a Component", component_help_topics.TOPICS),
    }


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
