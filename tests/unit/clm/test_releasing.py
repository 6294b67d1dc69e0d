"""The release that a user names, and how a verb about it ends."""

from __future__ import annotations

import pytest

from stellwerk.apply.errors import Obstacle, WriteFailed, WriteFailure
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.releases.errors import NoSuchRelease
from stellwerk.releases.release import Release

KEY = ObjectKey("shop", "web")


@pytest.mark.parametrize("name", ["a", "web.front", "1-2", "x" * 63])
def test_a_name_that_a_config_map_and_a_label_can_have_is_a_release(name: str) -> None:
    assert releasing.key_of("shop", name) == ObjectKey("shop", name)
    assert releasing.key_of(None, name) == ObjectKey("default", name)


@pytest.mark.parametrize("name", ["", "a/b", "Web", "web_front", "-a", "a-", "a..b", "x" * 64, "a b", "ä"])
def test_any_other_name_is_wrong_usage(name: str) -> None:
    with pytest.raises(Failure) as caught:
        releasing.key_of("shop", name)
    assert caught.value.code == Exit.USAGE


def test_a_release_is_never_applied_or_deleted_in_all_namespaces() -> None:
    with pytest.raises(Failure, match="is in one namespace") as caught:
        releasing.key_of("", "web")
    assert caught.value.code == Exit.USAGE


def test_a_name_in_several_namespaces_is_none_of_them() -> None:
    web, other = Release(key=KEY), Release(key=ObjectKey("test", "web"))
    anywhere = ObjectKey("", "web")
    assert releasing.only(anywhere, [web]) is web
    with pytest.raises(NoSuchRelease, match="there is no release web in any namespace"):
        releasing.only(anywhere, [])
    with pytest.raises(Failure, match="there are 2 releases named web") as caught:
        releasing.only(anywhere, [web, other])
    assert "shop, test" in caught.value.report.cause
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("obstacles", "code"),
    [
        ([Obstacle.FORBIDDEN, Obstacle.FORBIDDEN], Exit.FORBIDDEN),
        ([Obstacle.FORBIDDEN, Obstacle.INVALID], Exit.FAILED),
    ],
)
def test_a_run_that_only_lacks_rights_ends_with_the_code_for_that(obstacles: list[Obstacle], code: Exit) -> None:
    ref = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), ObjectKey("shop", "one"))
    failures = [WriteFailure(ref, "apply", obstacle, "", "", ApiError("")) for obstacle in obstacles]
    with pytest.raises(Failure) as caught, releasing.explained("apply", KEY):
        raise WriteFailed(failures)
    assert caught.value.code == code
