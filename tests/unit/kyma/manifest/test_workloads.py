"""Where the workloads of a module get their images."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from stellwerk.operators.kyma.manifest.workloads import VariableTaken, with_localized_images, with_pull_secret

LOCAL = "local.example:5000/mirror/app:1.0@sha256:" + "a" * 64


def workload(*containers: dict[str, Any], kind: str = "Deployment", api: str = "apps/v1", **pod: Any) -> dict[str, Any]:
    """A workload with containers."""
    spec = {"template": {"spec": {"containers": list(containers), **pod}}}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "m"}, "spec": spec}


def pod_of(body: Any) -> Any:
    """The spec of its pods."""
    return body["spec"]["template"]["spec"]


@pytest.mark.req("KYMA-52")
@pytest.mark.parametrize(
    ("image", "is_replaced"),
    [
        pytest.param("app:1.0", True, id="alone"),
        pytest.param("registry.example/some/path/app:1.0", True, id="with host and path"),
        pytest.param("registry.example:5000/app:1.0@sha256:" + "b" * 64, True, id="with port and digest"),
        pytest.param("registry.example/app:1.1", False, id="another tag"),
        pytest.param("registry.example/my-app:1.0", False, id="a name that ends alike"),
        pytest.param("registry.example/app", False, id="no tag"),
        pytest.param("https://registry.example/app:1.0", False, id="an address"),
        pytest.param("use app:1.0", False, id="a sentence"),
    ],
)
def test_an_image_of_the_same_name_and_tag_takes_the_place_of_another(image: str, is_replaced: bool) -> None:
    """In all containers, and in environment variables that hold an image."""
    container = {"name": "c", "image": image, "env": [{"name": "IMAGE", "value": image}, {"name": "NONE"}]}
    body = workload(container, kind="StatefulSet", initContainers=[container])
    before = copy.deepcopy(body)
    expected = LOCAL if is_replaced else image

    pod = pod_of(with_localized_images(body, ["not an image", LOCAL]))

    for each in (pod["containers"][0], pod["initContainers"][0]):
        assert (each["image"], each["env"]) == (expected, [{"name": "IMAGE", "value": expected}, {"name": "NONE"}])
    assert body == before


@pytest.mark.parametrize(("kind", "api"), [("DaemonSet", "apps/v1"), ("Deployment", "example.org/v1")])
def test_other_kinds_stay_as_they_are(kind: str, api: str) -> None:
    body = workload({"name": "c", "image": "app:1.0"}, kind=kind, api=api)

    assert with_localized_images(body, [LOCAL]) is body
    assert with_pull_secret(body, "pull", is_manager=True) is body


def test_pods_get_their_images_with_the_pull_secret_and_keep_their_own() -> None:
    body = workload({"name": "c"}, imagePullSecrets=[{"name": "own"}])

    changed = with_pull_secret(body, "pull", is_manager=False)

    assert pod_of(changed) == {"containers": [{"name": "c"}], "imagePullSecrets": [{"name": "own"}, {"name": "pull"}]}
    assert with_pull_secret(changed, "pull", is_manager=False) == changed


@pytest.mark.req("KYMA-53")
def test_every_container_of_a_manager_gets_the_pull_secret() -> None:
    own = {"name": "A", "value": "b"}
    body = workload({"name": "c", "env": [own]}, {"name": "d"}, initContainers=[{"name": "e"}])
    added = {"name": "SKR_IMG_PULL_SECRET", "value": "pull"}

    pod = pod_of(with_pull_secret(body, "pull", is_manager=True))

    assert pod["containers"] == [{"name": "c", "env": [own, added]}, {"name": "d", "env": [added]}]
    assert pod["initContainers"] == [{"name": "e", "env": [added]}]


def test_a_manager_that_names_a_pull_secret_itself_is_refused() -> None:
    body = workload({"name": "c", "env": [{"name": "SKR_IMG_PULL_SECRET", "value": "own"}]})

    with pytest.raises(VariableTaken, match="container c sets the environment variable SKR_IMG_PULL_SECRET itself"):
        with_pull_secret(body, "pull", is_manager=True)
