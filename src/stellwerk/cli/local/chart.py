"""What the Helm chart renders for operators: the objects that `stellwerk install` prints and applies.

The chart is rendered as Helm does it, for the APIs of a cluster if there is one. Without an image there are no pods, so
that only the objects are left that do not concern pods: kinds, accounts and rights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.apply.objects import json_edit
from stellwerk.cli.objects import check_rules
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RenderError, SourceError
from stellwerk.render.files import local_files
from stellwerk.render.request import offline_capabilities, values
from stellwerk.render.request.request import Lookup, ReleaseInfo, RenderRequest
from stellwerk.render.request.values import Layer
from stellwerk.render.worker.renderer import Renderer

RELEASE = "stellwerk"
_PREFIX = "chart.stellwerk.local"
"""Of annotations that the renderer adds for our engine, such as the policy of a kind that stays. Helm has none."""
_FIRST = ("CustomResourceDefinition", "PriorityClass", "ServiceAccount")
_WITHOUT_PODS = (*_FIRST, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartChoice:
    """What the user chooses: the image (empty: none), files with values, and a namespace for all operators.

    `apis` are the API versions of the cluster, besides those that every Kubernetes has.
    """

    image: str = ""
    files: Sequence[Path] = ()
    namespace: str = ""
    apis: Sequence[str] = ()


async def rendered(
    operators: Sequence[OperatorSpec], choice: ChartChoice, lookup: Lookup | None = None
) -> list[JsonObject]:
    """The objects of these operators with their namespaces, in the order in which they can be applied.

    Each operator is installed in its usual namespace, or all of them in that of `choice`. Objects of the user's own
    are rendered once, with the first namespace. `lookup` answers for the cluster, if there is one: what the chart has
    created by chance is kept. Raises ApiError, and Failure where the chart refuses the values, and where there is
    no renderer.
    """
    try:
        chosen = _chosen(choice)
        async with Renderer(renderer_path) as renderer:
            objects: list[JsonObject] = []
            for namespace, installed in _by_namespace(operators, choice.namespace).items():
                own: JsonObject = {**chosen, "extraObjects": []} if objects else chosen
                found = (await renderer.render(_request(installed, namespace, own, choice.apis), lookup)).objects
                kept = [_as_helm(body) for body in found if _has_image(chosen) or body["kind"] in _WITHOUT_PODS]
                objects += [_namespace(namespace), *sorted(kept, key=lambda body: body["kind"] not in _FIRST)]
            return objects
    except (RenderError, SourceError) as error:
        raise Failure(
            "cannot render the chart",
            cause=str(error),
            fix="set or correct what the cause names in a file with values: stellwerk install --values FILE",
        ) from None


def in_release(body: JsonObject, operators: Sequence[OperatorSpec], choice: ChartChoice) -> JsonObject:
    """An object of a kind with namespaces where Helm would put it: without one, in that of the release.

    Only an object of the user's own has none, and it is rendered with the first operators.
    """
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return body
    home = next(iter(_by_namespace(operators, choice.namespace)))
    return json_edit.with_namespace(body, home)


def _chosen(choice: ChartChoice) -> JsonObject:
    """The values of the user. Raises InvalidValues, OSError."""
    layers = [Layer(str(file), values.read(local_files.content(file), str(file))) for file in choice.files]
    image = [Layer("--image", {"image": image_values(choice.image)})] if choice.image else []
    return values.merge([*layers, *image])


def _has_image(chosen: JsonObject) -> bool:
    return bool(dig(chosen, "image", "repository"))


def _as_helm(body: JsonObject) -> JsonObject:
    """The object without annotations of the renderer."""
    metadata = body["metadata"]
    annotations = dig(metadata, "annotations")
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return body
    kept: JsonObject = {name: value for name, value in annotations.items() if not name.startswith(f"{_PREFIX}/")}
    return {**body, "metadata": {**metadata, "annotations": kept}}


def _by_namespace(operators: Sequence[OperatorSpec], chosen: str) -> dict[str, list[OperatorSpec]]:
    found: dict[str, list[OperatorSpec]] = {}
    for operator in operators:
        found.setdefault(chosen or operator.installation().namespace, []).append(operator)
    return found


def _request(
    operators: Sequence[OperatorSpec], namespace: str, chosen: JsonObject, apis: Sequence[str]
) -> RenderRequest:
    switches: JsonObject = {helm_chart.key(operator): {"enabled": True} for operator in operators}
    required = {} if _has_image(chosen) else _placeholders(operators)
    return RenderRequest(
        files=local_files.read(helm_chart.folder()),
        generator="helm",
        prefix=_PREFIX,
        release=ReleaseInfo(RELEASE, namespace, service=check_rules.INSTALLER),
        values=values.merge(Layer("", each) for each in (required, chosen, switches)),
        cluster=offline_capabilities.cluster(api_versions=apis),
    )


def _placeholders(operators: Sequence[OperatorSpec]) -> JsonObject:
    """Values that the chart requires for pods, where there are to be none."""
    required: JsonObject = {"image": {"repository": "none"}}
    for operator in operators:
        if variables := operator.installation().local_environment:
            required[helm_chart.key(operator)] = {"environment": dict.fromkeys(variables, "none")}
    return required


def image_values(image: str) -> JsonObject:
    """The values of the chart for an image as one word: `registry.example.com/stellwerk:0.1.0`, or with a digest."""
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    repository, _, tag = last.partition(":")
    return {"registry": "", "repository": f"{folder}{slash}{repository}", "tag": tag, "digest": digest}


def _namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
