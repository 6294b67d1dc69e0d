"""Writes the files that are made from code; `make generate` runs it, and tests prove the files fresh.

usage: python deploy/generate.py
"""

from __future__ import annotations

from pathlib import Path

from stellwerk.assembly import OPERATORS
from stellwerk.cli import reference
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.schema.crd import to_yaml
from stellwerk.runtime.insight import help_topics
from stellwerk.runtime.settings import process_settings

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Made by `make generate`; do not edit.\n"


def generated() -> dict[Path, str]:
    """Every generated file, relative to the root of the repository, and its text."""
    found = {reference.PAGE: reference.page()}
    for operator in OPERATORS.values():
        found |= of_operator(operator)
    return found


def of_operator(operator: OperatorSpec) -> dict[Path, str]:
    """The files of one operator: its kinds, its pages, and what it adds."""
    installation, help = operator.installation(), operator.help()
    pages = Path("docs/reference")
    kinds = " or ".join(help)
    topics = {name: topic for kind in help.values() for name, topic in kind.topics.items()}
    return {
        **{Path(f"deploy/crds/{kind.name}.yaml"): HEADER + to_yaml(kind.body()) for kind in installation.definitions},
        **{Path(path): HEADER + text for path, text in installation.files().items()},
        pages / f"settings/{operator.name}.md": process_settings.page(operator.title, operator.settings()),
        pages / f"reasons/{operator.name}.md": "\n".join(each.reasons_page(kind) for kind, each in help.items()),
        pages / f"topics/{operator.name}.md": help_topics.page(f"About a {kinds}", topics),
    }


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
