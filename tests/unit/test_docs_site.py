"""The documentation site builds without a warning, has a page for each reason, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy import docs_site
from tests.toy_operator.operator import OPERATOR as TOY

from stellwerk.assembly import OPERATORS

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
SPECS = (*OPERATORS.values(), TOY)
_LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(https?:[^"'> ]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: a dead link, a dead anchor or a page without a place fails the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_each_reason_has_a_page_of_the_site(site: Path) -> None:
    paths = docs_site.reason_pages(OPERATORS.values())
    assert len(paths) > 100
    assert [path for path in paths if not (site / path).with_suffix(".html").exists()] == []


def test_a_page_loads_nothing_from_another_server(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    assert {url for page in pages for url in _LOADED.findall(page.read_text())} == set()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.name))
def test_an_operator_gets_a_page_for_each_reason_by_being_registered(spec: object) -> None:
    (operator,) = (each for each in SPECS if each is spec)
    pages = docs_site.reason_pages([operator])

    for kind, help in operator.help().items():
        for reason, meaning in help.catalogue.meanings.items():
            text = pages.pop(f"reference/reasons/{operator.name}/{kind.lower()}/{reason.lower()}.md")
            assert text.startswith(f"# {reason}\n\nA reason of a {kind}.\n")
            assert meaning.meaning in text
            assert all(f"\n{title}:\n" in text for title, _ in meaning.advice)
    assert not pages


def test_an_operator_has_its_place_in_the_navigation_by_being_registered() -> None:
    paths = [*_paths(docs_site.navigation([TOY]))]

    assert paths[:4] == [f"reference/{folder}/toy.md" for folder in ("settings", "reasons", "topics", "rights")]
    assert paths[4:6] == ["reference/settings/toy-greeter.md", "reference/rights/toy-greeter.md"]
    assert paths[6:] == list(docs_site.reason_pages([TOY]))


def _paths(entries: object) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for inner in entries.values():
            yield from _paths(inner)
    elif isinstance(entries, list):
        for inner in entries:
            yield from _paths(inner)


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("index.md", "../designs/", "designs/index.md"),
        ("component-operator.md", "../deploy/chart/stellwerk/README.md", "reference/chart.md"),
        ("designs/renderer.md", "../docs/reference/renderer.md", "../reference/renderer.md"),
        ("index.md", "quickstart.md", "quickstart.md"),
        ("security.md", "https://example.com/a.md", "https://example.com/a.md"),
    ],
)
def test_a_link_to_a_page_outside_of_docs_leads_to_its_copy_on_the_site(page: str, link: str, target: str) -> None:
    assert docs_site.linked(f"see [it]({link}#there)", page) == f"see [it]({target}#there)"
