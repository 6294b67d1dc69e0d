"""A folder without a chart is a kustomization, with as much templating as its author asks for."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, gate, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

SETTINGS = """\
templateSuffix: .tpl
leftTemplateDelimiter: "[["
rightTemplateDelimiter: "]]"
includedFiles: [../shared/words.txt]
values: {greeting: hello, name: nobody}
"""
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: templated, namespace: "[[ namespace ]]"}
data:
  greeting: "[[ .greeting ]] [[ .name ]]"
  notes: "[[ readFile "notes/secret.txt" | toString | trim ]]"
  words: "[[ readFile "../shared/words.txt" | toString | trim ]]"
  files: "[[ listFiles "notes/*" | join "," ]]"
  literal: "{{ not a template }}"
"""
PLAIN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
data: {value: "[[ .greeting ]]"}
"""


async def test_only_what_is_meant_to_be_templated_is_and_what_is_ignored_can_be_read(
    given: Given, running: Running, then: Then
) -> None:
    files = {
        "app/.component-config.yaml": SETTINGS,
        "app/.component-ignore": "notes/\n*.txt\nignored.yaml\n",
        "app/templated.yaml.tpl": TEMPLATE,
        "app/plain.yaml": PLAIN,
        "app/ignored.yaml": config("ignored"),
        "app/notes/secret.txt": "read me\n",
        "app/notes/ignored.yaml": "{{ [[ this is nothing at all",
        "app/nested/more.yaml": config("nested"),
        "shared/words.txt": "abc\n",
        "other/other.yaml": config("other"),
    }
    await given.source(files)
    await given.component(path="app", values={"name": "world"})
    await running.start()
    ready = await then.ready()
    assert {item.name for item in ready.status.inventory} == {"templated", "plain", "nested"}
    assert (await then.config("templated")).data == {
        "greeting": "hello world",
        "notes": "read me",
        "words": "abc",
        "files": "notes/ignored.yaml,notes/secret.txt",
        "literal": "{{ not a template }}",
    }
    assert (await then.config("plain")).data == {"value": "[[ .greeting ]]"}


async def test_an_empty_folder_is_ready_without_any_object_and_a_missing_one_is_an_error(
    given: Given, running: Running, then: Then
) -> None:
    files = {"empty/notes.txt": "nothing here", "full/one.yaml": config("one")}
    await given.source(files)
    await running.start()
    await given.component("empty", path="empty")
    await given.component("missing", path="nowhere")
    await given.component("file", path="full/one.yaml")
    ready = await then.ready("empty")
    assert ready.status.inventory == ()
    await then.shows("Error", "Error", "missing", saying="no such file or directory: nowhere")
    await then.shows("Error", "Error", "file", saying="not a directory: full/one.yaml")
    await given.component("missing", path="full")
    await then.ready("missing")
    await given.component("missing", path="empty")
    await then.ready("missing")
    assert not await then.exists(ConfigMap, "one")


async def test_a_template_may_pin_an_inner_component_to_its_own_revision_and_wait_for_it(
    given: Given, running: Running, then: Then
) -> None:
    spec: JsonObject = {
        "sourceRef": {"fluxGitRepository": {"name": "source"}},
        "revision": "{{ component.Status.LastAttemptedRevision }}",
        "path": "inner",
    }
    inner = manifest("Component", "inner", {"spec": spec}, api_version="core.cs.sap.com/v1alpha1")
    files = {"outer/inner.yaml": inner, "inner/gate.yaml": gate("gate")}
    await given.source(files, revision="r1")
    await given.component("outer", path="outer")
    await running.start()
    await then.shows("Processing", name="outer", saying=f"Component {then.key('inner')}")
    await given.opened("gate")
    await then.ready("outer", revision="r1")
    assert (await then.ready("inner", revision="r1")).spec.revision == "r1"

    await given.source(files | {"inner/more.yaml": gate("more")}, revision="r2")
    await then.shows("Processing", name="outer", saying=f"Component {then.key('inner')}")
    await given.opened("more")
    await then.ready("outer", revision="r2")
    assert (await then.ready("inner", revision="r2")).spec.revision == "r2"
    await given.deleted("outer")
    await then.gone("outer")
    assert "inner" not in then.history.latest
