"""Completes the documentation site for MkDocs: pages that are made from the operators, and pages outside of `docs`.

mkdocs.yml names this file as a hook. Each registered operator gets its settings, topics and rights, and a page for each
reason of each of its kinds. Pages that MkDocs would not find, because they are outside of `docs`, are added under the
path in `OUTSIDE`, and links to them are changed to that path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.operator_spec import OperatorSpec

ROOT = Path(__file__).resolve().parent.parent
REASONS = PurePosixPath("reference/reasons")
OF_OPERATOR = ("settings", "reasons", "topics", "rights")
OF_SERVER = ("settings", "rights")
"""The folders below `docs/reference` that have a page for each operator, and for each of its servers."""
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")

Navigation = list[dict[str, object]]


def outside() -> dict[str, str]:
    """Pages outside of `docs`, relative to the root of the repository, and their path on the site."""
    designs = {f"designs/{page.name}": f"designs/{page.name}" for page in sorted((ROOT / "designs").glob("*.md"))}
    pages = {"deploy/chart/stellwerk/README.md": "reference/chart.md", "CHANGELOG.md": "reference/changelog.md"}
    return {**pages, "designs": "designs/index.md", **designs}


def reason_pages(operators: Iterable[OperatorSpec]) -> dict[str, str]:
    """The path and the Markdown of each page about one reason."""
    return {
        str(REASONS / operator.name / kind.lower() / f"{reason.lower()}.md"): text
        for operator in operators
        for kind, help in operator.help().items()
        for reason, text in help.reason_pages(kind).items()
    }


def navigation(operators: Iterable[OperatorSpec]) -> Navigation:
    """The part of the navigation that follows from the operators."""
    return [_of_operator(operator) for operator in operators]


def _of_operator(operator: OperatorSpec) -> dict[str, object]:
    pages = [f"reference/{folder}/{operator.name}.md" for folder in OF_OPERATOR]
    kinds: list[object] = []
    for kind, help in operator.help().items():
        folder = REASONS / operator.name / kind.lower()
        reasons = [{reason: str(folder / f"{reason.lower()}.md")} for reason in help.reason_pages(kind)]
        if reasons:
            kinds.append({f"Reasons of {kind}": reasons})
    servers = [
        {server.title: [f"reference/{folder}/{server.name}.md" for folder in OF_SERVER]} for server in operator.servers
    ]
    return {operator.title: [*pages, *servers, *kinds]}


def generated(operators: Iterable[OperatorSpec]) -> Mapping[str, str]:
    """All pages that are not files below `docs`: path on the site, and Markdown."""
    pages = {path: (ROOT / source).read_text() for source, path in outside().items() if (ROOT / source).is_file()}
    titles = {path: text.partition("\n")[0].removeprefix("# ") for path, text in pages.items()}
    listed = [f"- [{titles[path]}]({posixpath.basename(path)})" for path in pages if path.startswith("designs/")]
    return {**pages, "designs/index.md": "\n".join(["# Decisions", "", *listed, ""]), **reason_pages(operators)}


def linked(text: str, page: str) -> str:
    """The text of a page with links to pages of `outside` changed to where the site has them."""
    sources = {site: source for source, site in outside().items()}
    source = sources.get(page, f"docs/{page}")
    moved = outside()

    def replaced(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        site = moved.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        return posixpath.relpath(site, posixpath.dirname(page) or ".") if site else match[1]

    return _LINK.sub(replaced, text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation."""
    assert config.nav is not None, "mkdocs.yml has a navigation"
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    reference += ["reference/chart.md", "reference/changelog.md", *navigation(OPERATORS.values())]
    decisions = [path for path in outside().values() if path.startswith("designs/")]
    config.nav.append({"Decisions": decisions})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in generated(OPERATORS.values()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change the links to pages outside of `docs`."""
    return linked(markdown, page.file.src_uri)
