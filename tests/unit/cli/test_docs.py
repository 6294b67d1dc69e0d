"""The pages that people read: links lead somewhere, and every command that they are told to type exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from stellwerk.assembly import OPERATORS, PROCESSES
from stellwerk.cli import kinds, reference, verb_tree
from stellwerk.cli.arguments import options
from stellwerk.cli.help.explain import catalogue, topics
from stellwerk.delivery.grants import added_to
from stellwerk.kube.types.model import Unstructured

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^ *```(?:sh)?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:[a-z.]*/bin/)?stellwerk [^`]+)`")
_IDS = [str(page.relative_to(ROOT)) for page in PAGES]
PLACEHOLDER = re.compile(r"[A-Z\[|/]+.*|\.\.\.")
_PROSE = {"docs/reference/cli.md"}
"""Made from the program itself, with usages instead of commands."""


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = (link for link in _LINK.findall(page.read_text()) if "://" not in link)
    assert [link for link in links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    target, _, fragment = link.partition("#")
    file = (page.parent / target).resolve() if target else page
    return file.exists() and (not fragment or fragment in map(anchor, _HEADING.findall(file.read_text())))


def test_diagrams_are_pictures_which_the_site_shows_without_a_program_from_elsewhere() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in _LINK.findall(page.read_text())}
    assert [page for page in PAGES if "```mermaid" in page.read_text()] == []
    assert [picture for picture in (ROOT / "docs" / "assets").iterdir() if picture.resolve() not in shown] == []


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_has_its_pages_and_topics(name: str) -> None:
    topics = {topic for help in OPERATORS[name].help().values() for topic in help.topics}
    assert len(topics) >= 2
    for start in ("README.md", "docs/index.md"):
        text = (ROOT / start).read_text()
        for kind in (row.resource.kind for row in OPERATORS[name].kinds):
            assert kind in text, f"{start} does not name {kind}"
        assert f"reference/reasons/{name}.md" in text, f"{start} does not lead to the reasons of {name}"


def test_every_page_can_be_reached_from_the_first() -> None:
    pending, seen = [ROOT / "docs" / "index.md"], set[Path]()
    while pending:
        page = pending.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = (link.partition("#")[0] for link in _LINK.findall(page.read_text()) if "://" not in link)
        pending += [(page.parent / target).resolve() for target in targets if target]
    assert [page for page in (ROOT / "docs").rglob("*.md") if page.resolve() not in seen] == []


def commands(text: str) -> Iterator[str]:
    """What a page tells people to type: in blocks and in the running text."""
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            command = line.strip().partition(" #")[0].partition(" | ")[0]
            if re.match(r"([a-z.]*/bin/)?stellwerk ", command):
                yield command
    yield from _INLINE.findall(text)


def parses(command: str) -> str:
    """What is wrong with a command; empty where nothing is. Only the words are checked, nothing is done."""
    words = shlex.split(command)[1:]
    verb = verb_tree.ALIASES.get(words[0], words[0])
    if verb.startswith("-") or PLACEHOLDER.fullmatch(verb):
        return ""
    if verb not in verb_tree.VERBS:
        return f"{command}: there is no verb {verb}"
    found = verb_tree.VERBS[verb].load(verb)
    if isinstance(found, click.Group) and len(words) > 1:
        found = found.get_command(click.Context(found), words[1]) or found
    known = {name for one in found.params for name in (*one.opts, *one.secondary_opts)}
    known |= {name for one in options.all_of(click.Command("x")).params for name in one.opts} | {"--help", "-h"}
    unknown = [word for word in words[1:] if word.startswith("-") and word.partition("=")[0] not in known]
    return f"{command}: {verb} has no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", [page for page, name in zip(PAGES, _IDS, strict=True) if name not in _PROSE])
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    assert [wrong for command in commands(page.read_text()) if (wrong := parses(command))] == []


def test_every_command_that_the_program_itself_recommends_exists() -> None:
    told: list[str] = []
    for entry in catalogue():
        told += [*entry.meaning.check, *entry.meaning.fix]
    for subject in topics():
        told += subject.topic.commands
    ours = [line for line in told if line.startswith("stellwerk ")]
    ours += [one for line in told for one in _INLINE.findall(line)]
    assert ours
    assert [wrong for command in ours if (wrong := parses(command))] == []


def test_there_is_a_page_for_each_original_and_one_for_templates() -> None:
    for row in kinds.OWN:
        assert any(row.resource.kind in page.read_text() for page in (ROOT / "docs" / "migration").iterdir())
    assert (ROOT / "docs" / "templates.md").exists()
    assert (ROOT / reference.PAGE).exists()


@pytest.mark.parametrize("kind", sorted(spec.kinds[0].resource.kind for spec in OPERATORS.values()))
def test_the_picture_of_the_architecture_has_every_operator_with_its_first_kind(kind: str) -> None:
    assert f">{kind}" in (ROOT / "docs" / "assets" / "architecture.svg").read_text()


@pytest.mark.parametrize("process", PROCESSES)
def test_the_page_about_security_names_the_roles_of_every_process(process: str) -> None:
    bodies = map(Unstructured.of, PROCESSES[process].installation().accounts())
    for_users = added_to("")
    names = {
        body.key.name
        for body in bodies
        if body.gvk.kind == "ClusterRole" and not any(label.startswith(for_users) for label in body.metadata.labels)
    }
    rows = (ROOT / "docs/security.md").read_text().split("## Roles", 1)[1].split("\n## ", 1)[0]
    assert {name for name in names if f"`{name}`" not in rows} == set()


def test_the_page_about_installations_names_the_operand_of_the_module_that_is_shipped() -> None:
    chart = ROOT / "src/stellwerk/operators/btp/data/module-chart/chart/Chart.yaml"
    version = str(yaml.safe_load(chart.read_text())["appVersion"])
    page = (ROOT / "docs/install.md").read_text()
    assert set(re.findall(r"\bv\d+\.\d+\.\d+\b", page)) == {version}
    assert f"sap-btp-service-operator:{version}" in page


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_no_page_replaces_the_kinds_of_all_operators_at_once(page: Path) -> None:
    assert not re.search(r"-f deploy/crds/?(\s|$)", page.read_text())
