"""The native program behind the renderer keeps to the bounds that its double only plays."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.render.given import is_alive, request

from stellwerk.kube.types.model import JsonValue
from stellwerk.render.errors import (
    DecryptFailed,
    ExpressionFailed,
    InvalidChart,
    InvalidExpression,
    KustomizeFailed,
    LimitExceeded,
    LookupFailed,
    PathNotFound,
    RenderError,
    RendererTimeout,
    TemplateFailed,
)
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import (
    Claim,
    Generator,
    Missing,
    ReleaseInfo,
    RenderPostBuild,
    TemplateQuery,
    Texts,
)
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds

pytestmark = pytest.mark.heavy

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


def templated(text: str) -> dict[str, str]:
    return {"a.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{x: '{text}'}}\n"}


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.2.3\nappVersion: '4'\n",
    "values.yaml": "replicas: 1\nextra: {a: 1, b: 2}\n",
    "templates/all.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n"
        "data: {replicas: '{{ .Values.replicas }}', extra: '{{ .Values.extra | toJson }}'}\n"
    ),
}


async def test_a_chart_at_the_root_is_rendered_with_its_values_below(native: Renderer) -> None:
    found = await native.render(request({"extra": {"a": None}}, CHART))
    assert (found.generator, found.uses) == ("helm", frozenset({"name", "namespace", "revision", "cluster"}))
    assert found.chart is not None
    assert (found.chart.name, found.chart.version, found.chart.app_version) == ("app", "1.2.3", "4")
    assert found.objects[0]["data"] == {"replicas": "1", "extra": '{"b":2}'}
    assert found.origins[0].startswith("templates/all.yaml")


KUSTOMIZATION = {
    "app/kustomization.yaml": "resources: [all.yaml]\nnamespace: {{ namespace }}\n",
    "app/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {n: '{{ .n }}', v: '${v}'}\n",
}


async def test_a_kustomization_is_rendered_and_substituted(native: Renderer) -> None:
    asked = request({"n": 1_000_000}, KUSTOMIZATION, path="app", post_build=RenderPostBuild({"v": "w"}))
    found = await native.render(asked)
    assert found.objects[0]["data"] == {"n": "1000000", "v": "w"}
    assert found.uses == {"namespace"}
    other = request({"n": 1_000_000}, KUSTOMIZATION, path="app", post_build=RenderPostBuild({"v": "w"}), tenant="b")
    assert await native.render(other) is found


@pytest.mark.req("R-604")
@pytest.mark.parametrize("kind", ["chart", "kustomization"])
async def test_passwords_and_keys_made_for_one_tenant_are_not_given_to_another(native: Renderer, kind: str) -> None:
    text = '{{ randAlphaNum 20 }} {{ (genCA "a" 1).Key | sha256sum }}'
    files = {"templates/all.yaml": templated(text)["a.yaml"], "Chart.yaml": CHART["Chart.yaml"]}
    asked = {
        tenant: request({}, files if kind == "chart" else templated(text), tenant=tenant, component={"metadata": {}})
        for tenant in "ab"
    }
    found = {tenant: await native.render(one) for tenant, one in asked.items()}
    assert "chance" in found["a"].uses
    assert found["a"].objects != found["b"].objects
    assert await native.render(asked["a"]) is found["a"]


async def test_time_zones_are_known(native: Renderer) -> None:
    text = '{{ dateInZone "15:04" (toDate "2006-01-02" "2026-07-01") "Asia/Tokyo" }}'
    found = await native.render(request({}, templated(text)))
    assert found.objects[0]["data"] == {"x": "09:00"}
    expression = "timestamp('2026-07-01T00:00:00Z').getHours('Asia/Tokyo') == 9"
    assert await native.holds(Claim(text=expression, objects={}))


async def test_a_folder_without_files_comes_to_no_objects(native: Renderer) -> None:
    files = Files({"README.md": b"text", "other.yaml": b"kind: Other"}, ["deploy"])
    found = await native.render(replace(request({}), files=files, path="deploy"))
    assert found.objects == ()


@pytest.mark.parametrize("listed", ["../base", "../base/a.yaml"])
async def test_what_a_kustomization_lists_outside_of_its_path_is_reported_as_such(
    native: Renderer, listed: str
) -> None:
    base = {"base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": templated("x")["a.yaml"]}
    files = {**base, "app/kustomization.yaml": f"resources: [{listed}]\n"}
    why = f"lists {listed}, which is outside of the path; add it to includedKustomizations or includedFiles in .comp"
    with pytest.raises(KustomizeFailed, match=re.escape(why)) as caught:
        await native.render(request({}, files, path="app"))
    assert (caught.value.file, caught.value.line) == ("app/kustomization.yaml", 1)
    with pytest.raises(KustomizeFailed, match=r"lists \.\./other, which does not exist"):
        await native.render(request({}, {**base, "app/kustomization.yaml": "resources: [../other]"}, path="app"))


async def test_a_template_sees_what_exists(native: Renderer) -> None:
    text = '{{ (lookup "v1" "Secret" "ns" "x").data.key }} and {{ len (lookupList "v1" "Pod" "ns" "a=b") }}'

    async def lookup(query: TemplateQuery) -> JsonValue:
        assert (query.api_version, query.namespace, query.where) == ("v1", "ns", "target")
        return [{}, {}] if query.many else {"data": {"key": query.name}}

    found = await native.render(request({}, templated(text)), lookup)
    assert found.objects[0]["data"] == {"x": "x and 2"}
    assert found.uses == {"lookup"}


@pytest.mark.req("R-108")
async def test_random_values_stay_where_a_template_gets_the_same_answers(native: Renderer) -> None:
    text = '{{ randAlphaNum 20 }} {{ (lookup "v1" "ConfigMap" "ns" "x").data.key }}'
    answers = ["a", "a", "b"]

    async def lookup(_: TemplateQuery) -> JsonValue:
        return {"data": {"key": answers.pop(0)}}

    first, same, other = [(await native.render(request({}, templated(text)), lookup)).digest for _ in range(3)]
    assert (same == first, other == first) == (True, False)
    assert not answers


async def test_a_password_is_made_again_after_the_secret_that_kept_it_was_deleted(native: Renderer) -> None:
    text = '{{ with lookup "v1" "Secret" "ns" "x" }}{{ .data.key }}{{ else }}{{ randAlphaNum 20 }}{{ end }}'
    answers: list[JsonValue | Missing] = [Missing.OBJECT, Missing.OBJECT, {"data": {"key": "kept"}}, Missing.OBJECT]

    async def lookup(_: TemplateQuery) -> JsonValue | Missing:
        return answers.pop(0)

    first, same, kept, other = [(await native.render(request({}, templated(text)), lookup)) for _ in range(4)]
    assert same is first
    assert kept.objects[0]["data"] == {"x": "kept"}
    assert other.digest != first.digest


async def test_a_lookup_that_is_refused_names_the_template(native: Renderer) -> None:
    async def lookup(_: TemplateQuery) -> JsonValue:
        raise PermissionError("may not read Secrets")

    with pytest.raises(LookupFailed, match="may not read Secrets"):
        await native.render(request({}, {"a.yaml": 'x: {{ lookup "v1" "Secret" "ns" "x" }}'}), lookup)


@pytest.mark.parametrize(
    ("files", "changes", "kind"),
    [
        ({"Chart.yaml": "name: [}"}, {}, InvalidChart),
        ({**CHART, "templates/b.yaml": "{{ fail 'no' }}"}, {}, TemplateFailed),
        ({"kustomization.yaml": "resources: [missing.yaml]"}, {}, KustomizeFailed),
        ({"a/b.yaml": "x"}, {"path": "b"}, PathNotFound),
        ({"a.yaml": "sops:\n  mac: ENC[x]\n"}, {"decryption": {"x.agekey": b"no key"}}, DecryptFailed),
    ],
)
async def test_mistakes_have_their_classes(
    native: Renderer, files: dict[str, str], changes: dict[str, object], kind: type[RenderError]
) -> None:
    with pytest.raises(kind):
        await native.render(request({}, files, **changes))


ENDLESS = "{{ range until 9000 }}{{ range until 9000 }}{{ range until 9000 }}{{ end }}{{ end }}{{ end }}"


@pytest.mark.req("R-404")
async def test_an_endless_template_ends_with_its_budget(program: Path) -> None:
    async with Renderer(lambda: program, bounds=Bounds(seconds=2, grace_seconds=0)) as renderer:
        with pytest.raises(RendererTimeout):
            await renderer.render(request({}, templated(ENDLESS)))
        assert len((await renderer.render(request({}, templated("ok")))).objects) == 1


@pytest.mark.req("R-404")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{{ repeat 2000000000 "x" }}', "rendering needs more than 256 MiB of memory"),
        ('{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}', "templates are nested more than 1000 deep"),
        (
            '{{ $x := "xxxxxxxxxxxxxxxx" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}{{ $x }}',
            "rendering needs more than 256 MiB of memory",
        ),
        ('{{ range until 3000 }}{{ repeat 20000 "x" }}{{ end }}', "is larger than 16 MiB"),
    ],
    ids=["repeat", "recursion", "doubling", "output"],
)
async def test_a_template_that_asks_for_too_much_is_refused(native: Renderer, text: str, why: str) -> None:
    with pytest.raises(LimitExceeded, match=why):
        await native.render(request({}, templated(text)))
    assert len((await native.render(request({}, templated("ok")))).objects) == 1


@pytest.mark.req("R-405")
@pytest.mark.parametrize("function", ["env", "expandenv", "getHostByName"])
async def test_functions_that_look_around_do_not_exist(native: Renderer, function: str) -> None:
    with pytest.raises(TemplateFailed, match=function):
        await native.render(request({}, templated(f'{{{{ {function} "HOME" }}}}')))


@pytest.mark.parametrize("path", ["charts/podinfo", "kustomize"])
async def test_podinfo_is_rendered(native: Renderer, path: str) -> None:
    folder = FIXTURES / "podinfo"
    if not folder.is_dir():
        pytest.skip("the fixtures shared among projects are not here")
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    found = await native.render(request({}, files, path=path, release=ReleaseInfo("podinfo", "ns")))
    assert {"Deployment", "Service"} <= {str(body["kind"]) for body in found.objects}


async def test_an_idle_worker_is_small_and_ends_with_its_parent(program: Path) -> None:
    async with Renderer(lambda: program, shares=Shares(workers=1)) as renderer:
        await renderer.render(request({}, templated("ok")))
        (worker,) = renderer.processes
        assert renderer.resident_bytes() < 96 * 2**20
    assert not is_alive(worker)


async def test_a_claim_is_judged_between_renderings(native: Renderer) -> None:
    def claim(text: str) -> Claim:
        return Claim(text=text, objects={"dep": {"status": {"revision": 2**53 + 1, "state": "Ready"}}})

    assert await native.holds(claim(f"dep.status.revision == {2**53 + 1} && dep.status.state == 'Ready'"))
    assert not await native.holds(claim("dep.?status.?load.orValue(0) > 1"))
    with pytest.raises(InvalidExpression, match="line 1, column 1: undeclared reference to 'self'"):
        await native.holds(claim("self.x"))
    with pytest.raises(ExpressionFailed, match="no such key: x"):
        await native.holds(claim("dep.status.x == 1"))
    assert (await native.render(request({}, CHART))).generator == "helm"
    assert native.workers_started == 1


async def test_texts_are_made_for_each_row_between_renderings(native: Renderer) -> None:
    templates = {"name": "{{.subDomain}}.{{.domain}}", "target": '{{ printf "x.%s" .domain | trunc 5 }}'}
    rows = [{"domain": "example.com", "subDomain": name} for name in ("one", "two")]
    assert await native.texts(Texts(templates=templates, rows=rows)) == [
        {"name": "one.example.com", "target": "x.exa"},
        {"name": "two.example.com", "target": "x.exa"},
    ]
    for text, cause in (("{{ .typo }}", "typo"), ("{{ now }}", "now"), ("{{ end }}", "unexpected")):
        with pytest.raises(TemplateFailed, match=cause):
            await native.texts(Texts(templates={"name": text}, rows=rows))
    assert (await native.render(request({}, CHART))).generator == "helm"
    assert native.workers_started == 1


ANNOTATED = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {order: 1, flag: true, ratio: 1.0, word: x}}\n"
)


@pytest.mark.parametrize("generator", ["auto", "kustomize", "manifests"])
@pytest.mark.parametrize("kustomization", ["", "resources: [a.yaml]\n"], ids=["folder", "kustomization"])
async def test_numbers_and_booleans_in_annotations_are_text_as_they_are_written(
    native: Renderer, generator: Generator, kustomization: str
) -> None:
    is_listed = kustomization and generator != "manifests"
    files = {"a.yaml": ANNOTATED} | ({"kustomization.yaml": kustomization} if is_listed else {})
    asked = replace(request({}, files), generator=generator)
    (found,) = (await native.render(asked)).objects
    assert found["metadata"] == {
        "name": "a",
        "annotations": {"order": "1", "flag": "true", "ratio": "1.0", "word": "x"},
    }


async def test_numbers_in_labels_stay_what_they_are(native: Renderer) -> None:
    text = ANNOTATED.replace("annotations:", "labels:")
    (found,) = (await native.render(request({}, {"a.yaml": text}))).objects
    assert found["metadata"] == {"name": "a", "labels": {"order": 1, "flag": True, "ratio": 1.0, "word": "x"}}
