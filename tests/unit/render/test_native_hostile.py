"""The native program under files that want its memory, its stack, its host, or the words of others."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.render.given import request

from stellwerk.render.errors import (
    LimitExceeded,
    RendererGone,
    RenderError,
    RendererTimeout,
    TemplateFailed,
)
from stellwerk.render.request.request import Claim, RenderPostBuild, Texts
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds

pytestmark = pytest.mark.heavy

MOST_BYTES = 450 * 2**20
"""The room of one request (256 MiB), that of the last words, and the worker itself with its program's pages."""


def chart(template: str, **files: str) -> dict[str, str]:
    more = {name.replace("__", "/").replace("_yaml", ".yaml"): text for name, text in files.items()}
    return {"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n", "templates/a.yaml": template, **more}


OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
LARGE = "x" * 500_000
ALIASES = f"x: &a {LARGE}\ny: [{'*a, ' * 8_000}]\n"
MERGES = f"x: &a {{k: {LARGE}}}\ny:\n" + "- <<: *a\n" * 8_000
NESTED = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 12)
)


RECURSIVE = (
    '{{ define "a" }}{{ tpl .t . }}{{ end }}'
    '{{ $d := dict "t" "{{ include \\"a\\" . }}{{ include \\"a\\" . }}" "Template" .Template }}'
    '{{ tpl "{{ include \\"a\\" . }}" $d }}'
)


@dataclass
class Peak:
    """The most memory that the workers of a renderer had."""

    bytes: int = 0


@contextmanager
def peak_of(renderer: Renderer) -> Iterator[Peak]:
    """Look at the memory of the workers each millisecond, from beside the event loop."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            for process in renderer.processes:
                try:
                    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
                except (OSError, IndexError):
                    continue
                peak.bytes = max(peak.bytes, pages * 4096)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


@pytest.fixture
async def hasty(program: Path) -> AsyncIterator[Renderer]:
    """A renderer whose requests have two seconds."""
    async with Renderer(lambda: program, bounds=Bounds(seconds=2, grace_seconds=0)) as renderer:
        yield renderer


@pytest.mark.req("R-411", "R-402")
@pytest.mark.parametrize("bomb", [ALIASES, MERGES, NESTED], ids=["scalars", "merges", "nested"])
@pytest.mark.parametrize(
    ("files", "changes"),
    [
        (lambda bomb: chart(OBJECT + bomb), {}),
        (lambda bomb: chart(OBJECT, values_yaml=bomb), {}),
        (lambda bomb: chart(OBJECT, crds__a_yaml=OBJECT + bomb), {}),
        (lambda bomb: {"kustomization.yaml": f"{bomb}resources: [a.yaml]\n", "a.yaml": OBJECT}, {}),
        (lambda bomb: {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": OBJECT + bomb}, {}),
        (lambda bomb: {"a.yaml": OBJECT + bomb}, {}),
        (lambda bomb: {"a.yaml": OBJECT + bomb}, {"generator": "manifests"}),
        (lambda bomb: {"a.yaml": OBJECT, ".component-config.yaml": bomb}, {}),
    ],
    ids=["template", "values", "crds", "kustomization", "resource", "plain", "manifests", "config"],
)
async def test_aliases_are_bounded_in_bytes_before_they_unfold_wherever_yaml_is_read(
    native: Renderer, files: Any, changes: dict[str, Any], bomb: str
) -> None:
    with (
        peak_of(native) as peak,
        pytest.raises(RenderError, match="aliases that unfold to more than 10 times the text"),
    ):
        await native.render(request({}, files(bomb), **changes))
    assert peak.bytes < 200 * 2**20


@pytest.mark.req("R-411", "R-404")
@pytest.mark.parametrize(
    ("files", "changes"),
    [
        (chart('{{ $x := repeat 16000000 "x" }}{{ range until 1000 }}{{ $x }}{{ end }}'), {}),
        (
            chart(
                '{{ $l := list }}{{ $x := repeat 1000000 "x" }}'
                "{{ range until 10000 }}{{ $l = append $l (printf $x .) }}{{ end }}"
            ),
            {},
        ),
        (chart("{{ $l := list }}{{ range until 100000 }}{{ $l = append $l (until 100000) }}{{ end }}"), {}),
        (chart(RECURSIVE), {}),
        (
            {
                "kustomization.yaml": "configMapGenerator:\n- name: a\n  files: ["
                + ",".join(f"k{number}=big.txt" for number in range(5_000))
                + "]\n",
                "big.txt": "y" * 1_000_000,
            },
            {},
        ),
        (
            {"a.yaml": OBJECT + "data:\n" + "".join(f"  k{number}: ${{v}}\n" for number in range(5_000))},
            {"post_build": RenderPostBuild(substitute={"v": "z" * 1_000_000})},
        ),
        (chart('{{ $x := printf "[%s1]" (repeat 7000000 "1,") }}{{ fromYamlArray $x | len }}'), {}),
        ({"a.yaml": '{{ range 1000000000 }}{{ "0123456789012345678901234567890123456789" }}{{ end }}'}, {}),
        ({"a.yaml": OBJECT + "data: {x: '${v//x/${v}}'}\n"}, {"post_build": RenderPostBuild({"v": "x" * 1_000_000})}),
    ],
    ids=[
        "output",
        "values",
        "lists",
        "recursion",
        "generator",
        "substitution",
        "large list",
        "loop",
        "replacement",
    ],
)
async def test_no_request_takes_more_memory_than_is_promised_and_the_next_is_served(
    native: Renderer, files: dict[str, str], changes: dict[str, Any]
) -> None:
    with (
        peak_of(native) as peak,
        pytest.raises((LimitExceeded, TemplateFailed, RendererGone, RendererTimeout)),
    ):
        await native.render(request({}, files, **changes))
    assert peak.bytes < MOST_BYTES
    assert len((await native.render(request({}, {"a.yaml": OBJECT}))).objects) == 1


BIG = '{{ $x := repeat 16000000 "x" }}'
SHARED = '{{ $x := dict }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}'


@pytest.mark.req("R-411", "R-404")
@pytest.mark.parametrize(
    "template",
    [
        '{{ repeat 100000 (repeat 100000 "x") }}',
        "{{ untilStep -9223372036854775807 9223372036854775807 1 }}",
        BIG + '{{ replace "x" $x $x }}',
        BIG + '{{ splitList "" $x }}',
        "{{ $x := list 1 }}{{ range until 40 }}{{ $x = concat $x $x }}{{ end }}",
        SHARED + "{{ toYaml $x }}",
        '{{ $d := dict }}{{ $_ := set $d "x" $d }}{{ $d }}',
        '{{ range until 1000 }}{{ $_ := genPrivateKey "rsa" }}{{ end }}',
    ],
)
async def test_a_function_that_makes_much_out_of_little_ends_within_the_bounds_of_its_request(
    hasty: Renderer, template: str
) -> None:
    with peak_of(hasty) as peak, pytest.raises((LimitExceeded, RendererTimeout)) as caught:
        await hasty.render(request({}, {"a.yaml": template}))
    assert "rendering needs more than 256 MiB of memory" in str(caught.value) or isinstance(
        caught.value, RendererTimeout
    )
    assert peak.bytes < MOST_BYTES
    assert len((await hasty.render(request({}, {"a.yaml": OBJECT}))).objects) == 1


@pytest.mark.req("R-404")
async def test_a_pattern_of_a_substitution_that_takes_too_long_is_ended(hasty: Renderer) -> None:
    files = {"a.yaml": OBJECT + "data: {x: '${v##*a*a*a*a*b}'}\n"}
    with pytest.raises(RendererTimeout):
        await hasty.render(request({}, files, post_build=RenderPostBuild({"v": "x" * 1_000_000})))
    assert len((await hasty.render(request({}, {"a.yaml": OBJECT}))).objects) == 1


DEEP = 9_000
FLOW = f"{'[' * DEEP}{']' * DEEP}"
MAPPINGS = f"{'{a: ' * 1_000}1{'}' * 1_000}"
"""The library takes a time for them that grows with the square of the depth; at 9,000 the request's time is over."""
BLOCK = f"\n  {'- ' * DEEP}x"


@pytest.mark.req("R-410", "R-402")
@pytest.mark.parametrize("deep", [FLOW, MAPPINGS, BLOCK], ids=["lists", "mappings", "block"])
@pytest.mark.parametrize(
    ("files", "changes"),
    [
        (lambda deep: chart(f"{OBJECT}a: {deep}\n"), {}),
        (lambda deep: chart(OBJECT, values_yaml=f"a: {deep}\n"), {}),
        (lambda deep: chart('{{ .Files.Get "b.yaml" | mustFromYaml | toJson }}', b_yaml=f"a: {deep}\n"), {}),
        (lambda deep: {"a.yaml": f"{OBJECT}a: {deep}\n"}, {}),
        (lambda deep: {"a.yaml": f"{OBJECT}a: {deep}\n"}, {"generator": "manifests"}),
        (
            lambda deep: {
                "kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n",
                "a.yaml": f"{OBJECT}a: {deep}\n",
            },
            {},
        ),
        (lambda deep: {"kustomization.yaml": f"resources: [a.yaml]\na: {deep}\n", "a.yaml": OBJECT}, {}),
        (lambda deep: {"a.yaml": OBJECT, ".component-config.yaml": f"a: {deep}\n"}, {}),
    ],
    ids=["template", "values", "function", "plain", "manifests", "resource", "kustomization", "config"],
)
async def test_deep_text_is_refused_wherever_it_is_read_and_ends_no_worker(
    native: Renderer, files: Any, changes: dict[str, Any], deep: str
) -> None:
    with pytest.raises(RenderError) as caught:
        await native.render(request({}, files(deep), **changes))
    assert not isinstance(caught.value, RendererGone | RendererTimeout)
    assert native.workers_started == 1


@pytest.mark.req("R-410")
@pytest.mark.parametrize(
    "template",
    [
        f"{{{{ {'(' * 100_000}1{')' * 100_000} }}}}",
        f"{OBJECT}{'{{ if 1 }}' * 1_000_000}",
        f"{OBJECT}{'{{ if 1 }}' * 40_000}{'{{ end }}' * 40_000}a: [",
        '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
        '{{ $d := dict }}{{ range until 9000 }}{{ $d = dict "a" $d }}{{ end }}{{ toYaml $d }}',
    ],
    ids=["parentheses", "unclosed blocks", "blocks", "calls", "values"],
)
async def test_templates_nested_without_end_are_refused_and_the_next_is_rendered(
    native: Renderer, template: str
) -> None:
    with pytest.raises(RenderError):
        await native.render(request({}, chart(template)))
    assert len((await native.render(request({}, {"a.yaml": OBJECT}))).objects) == 1


@pytest.mark.req("R-410")
async def test_an_expression_nested_too_deep_is_refused(native: Renderer) -> None:
    for text in ("(" * 2_000 + "true" + ")" * 2_000, "[" * 2_000 + "]" * 2_000 + " == []"):
        with pytest.raises(RenderError):
            await native.holds(Claim(text=text, objects={}))
    assert native.workers_started == 1


@pytest.mark.req("R-410")
@pytest.mark.parametrize(
    "template",
    ["{{ range until 100000000 }}{{ end }}", '{{ repeat 2000000000 "x" }}', "{{ range until 5000 }}x{{ end }}"],
)
async def test_a_text_that_costs_too_much_is_refused(native: Renderer, template: str) -> None:
    with pytest.raises(LimitExceeded):
        await native.texts(Texts(templates={"name": template}, rows=[{}]))
    assert await native.texts(Texts(templates={"name": "ok"}, rows=[{}])) == [{"name": "ok"}]


# ---- the host

LOOKS = ['env "SECRET"', 'expandenv "$SECRET"', 'getHostByName "localhost"']


def ways(call: str) -> Mapping[str, dict[str, str]]:
    """Files that run a call of a function in each place in which templates run."""
    return {
        "template": chart(f"{OBJECT}data: {{x: '{{{{ {call} }}}}'}}\n"),
        "helper": chart(
            f"{OBJECT}data: {{x: '{{{{ include \"h\" . }}}}'}}\n",
            **{"templates/_h.tpl": f'{{{{ define "h" }}}}{{{{ {call} }}}}{{{{ end }}}}'},
        ),
        "tpl": chart(
            f"{OBJECT}data: {{x: '{{{{ tpl (.Files.Get \"t.txt\") . }}}}'}}\n", **{"t.txt": f"{{{{ {call} }}}}"}
        ),
        "notes": chart(OBJECT, **{"templates/NOTES.txt": f"{{{{ {call} }}}}"}),
        "subchart": chart(
            OBJECT,
            **{
                "charts/b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n",
                "charts/b/templates/b.yaml": f"{OBJECT}data: {{x: '{{{{ {call} }}}}'}}\n",
            },
        ),
        "plain": {"a.yaml": f"{OBJECT}data: {{x: '{{{{ {call} }}}}'}}\n"},
        "kustomization": {
            "kustomization.yaml": f"resources: [a.yaml]\nnamePrefix: '{{{{ {call} }}}}'\n",
            "a.yaml": OBJECT,
        },
        "resource": {
            "kustomization.yaml": "resources: [a.yaml]\n",
            "a.yaml": f"{OBJECT}data: {{x: '{{{{ {call} }}}}'}}\n",
        },
    }


@pytest.mark.req("R-405")
@pytest.mark.parametrize("way", list(ways("")))
@pytest.mark.parametrize("call", LOOKS)
async def test_functions_that_look_around_exist_in_no_place_in_which_templates_run(
    native: Renderer, monkeypatch: pytest.MonkeyPatch, way: str, call: str
) -> None:
    monkeypatch.setenv("SECRET", "canary-of-the-host")
    with pytest.raises(TemplateFailed, match=f'function "{call.split()[0]}" not defined'):
        await native.render(request({}, ways(call)[way]))


@pytest.mark.req("R-405")
@pytest.mark.parametrize("path", ["/etc/passwd", "../../../../../../etc/passwd", "/proc/self/environ"])
async def test_files_of_the_host_are_read_by_nothing(native: Renderer, path: str) -> None:
    reading = chart(f"{OBJECT}data: {{x: {{{{ .Files.Get {path!r} | quote }}}}}}\n".replace("'", '"', 2))
    (found,) = (await native.render(request({}, reading))).objects
    assert found["data"] == {"x": ""}
    generator = f"configMapGenerator:\n- name: a\n  files: [x={path}]\n"
    for kustomization in (
        f"resources: [{path}]\n",
        generator,
        generator.replace("files: [x=", "envs: ["),
        f"patches: [{{path: {path}}}]\n",
        f"components: [{path}]\n",
        f"transformers: [{path}]\n",
        f"openapi: {{path: {path}}}\n",
        f"replacements: [{{path: {path}}}]\n",
    ):
        with pytest.raises(RenderError) as caught:
            await native.render(request({}, {"kustomization.yaml": kustomization}))
        assert "root:" not in str(caught.value)


@pytest.mark.req("R-405")
async def test_no_variable_of_the_host_is_seen_by_generators_substitution_or_expressions(
    native: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "canary-of-the-host")
    files = {
        "kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator:\n- name: b\n  envs: [x.env]\n",
        "x.env": "SECRET\n",
        "a.yaml": OBJECT + "data: {x: '${SECRET:-nothing}'}\n",
    }
    rendered = await native.render(request({}, files, post_build=RenderPostBuild({"OTHER": "x"})))
    assert "canary" not in str(rendered.objects)
    assert any(body.get("data") == {"x": "nothing"} for body in rendered.objects)
    for text in ('env("SECRET") == ""', 'getenv("SECRET") == ""', 'file("/etc/passwd") == ""'):
        with pytest.raises(RenderError):
            await native.holds(Claim(text=text, objects={}))


@pytest.mark.req("R-405")
async def test_a_worker_has_no_environment_no_file_and_no_network_of_its_own(
    native: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "canary-of-the-host")
    await native.render(request({}, {"a.yaml": OBJECT}))
    (worker,) = native.processes
    process = Path(f"/proc/{worker}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert status["Seccomp"] == "2", "system calls are filtered"
    assert status["NoNewPrivs"] == "1"
