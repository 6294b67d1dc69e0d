"""The ConfigMap of tunables means the same as flags, also where it names folders."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import HasMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp.config_overrides import Tunables
from stellwerk.operators.btp.errors import ModuleUnreadable
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.settings import TABLE, ModuleSource, Settings
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.reconciler import Notice


class NoEvents:
    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        raise AssertionError(f"{notice.reason} about {obj.metadata.name}: {notice.message}")


def tunables(folder: Path, base: Settings | None = None) -> Tunables:
    resolve = partial(release.in_force, working_directory=folder)
    return Tunables(base or Settings(), lambda *_: None, NoEvents(), resolve=resolve)


def changed_to(**data: str) -> Delta[ConfigMap]:
    return Delta(None, ConfigMap(metadata=ObjectMeta(name="sap-btp-manager", namespace="kyma-system"), data=data))


@pytest.mark.parametrize("key", TABLE.as_text(Settings()))
def test_a_default_in_the_config_map_changes_nothing(tmp_path: Path, key: str) -> None:
    followed = tunables(tmp_path)
    before = followed.settings

    followed.take(changed_to(**{key: TABLE.as_text(Settings())[key]}))

    assert followed.settings == before


@pytest.mark.parametrize("source", ModuleSource)
@pytest.mark.parametrize("present", ["module-resources", "module-chart/chart", ""])
def test_a_source_in_the_config_map_is_the_one_that_the_flag_gives(
    tmp_path: Path, source: ModuleSource, present: str
) -> None:
    if present:
        shutil.copytree(release.SHIPPED / present, tmp_path / present)
    followed = tunables(tmp_path)

    followed.take(changed_to(ModuleSource=source.value))

    assert followed.settings == tunables(tmp_path, Settings(module_source=source)).settings


def test_without_the_config_map_the_flags_are_in_force_again(tmp_path: Path) -> None:
    followed = tunables(tmp_path)
    before, change = followed.settings, changed_to(ModuleSource="chart", ReadyTimeout="90s")

    followed.take(change)
    assert followed.settings != before
    followed.take(Delta(change.new, None))

    assert followed.settings == before


def test_a_folder_of_the_users_own_counts_as_soon_as_it_is_filled(tmp_path: Path) -> None:
    followed = tunables(tmp_path)

    followed.take(changed_to(ResourcesPath="./module-v2", ManagerResourcesPath="./policies-v2", ChartPath="./chart-v2"))
    for shipped, own in (
        ("module-resources", "module"),
        ("manager-resources", "policies"),
        ("module-chart/chart", "chart"),
    ):
        shutil.copytree(release.SHIPPED / shipped, tmp_path / f"{own}-v2")

    places = release.Places.of(followed.settings)
    assert places == release.Places(tmp_path / "module-v2", tmp_path / "policies-v2", tmp_path / "chart-v2")
    assert release.load(places).network_policies


TOO_LONG = "/" + "a" * 300


@pytest.mark.req("R-413")
@pytest.mark.parametrize("key", ["ResourcesPath", "ManagerResourcesPath", "ChartPath"])
@pytest.mark.parametrize("source", ModuleSource)
def test_a_folder_that_cannot_be_looked_at_leaves_the_other_keys_in_force(
    tmp_path: Path, key: str, source: ModuleSource
) -> None:
    reports: list[tuple[bool, int]] = []
    resolve = partial(release.in_force, working_directory=tmp_path)
    followed = Tunables(Settings(), lambda *report: reports.append(report), NoEvents(), resolve=resolve)

    followed.take(changed_to(**{key: TOO_LONG, "EnableLimitedCache": "false", "ModuleSource": source.value}))

    assert followed.settings.enable_limited_cache is False
    assert reports[-1] == (True, 0)


@pytest.mark.req("R-413")
@pytest.mark.parametrize("key", ["resources_path", "manager_resources_path", "chart_path"])
def test_a_folder_that_cannot_be_looked_at_is_named_when_it_is_read(tmp_path: Path, key: str) -> None:
    named: dict[str, Any] = {key: TOO_LONG}
    settings = release.in_force(Settings(**named), tmp_path)

    with pytest.raises(ModuleUnreadable, match=f"{TOO_LONG}.*File name too long"):
        release.Loader().load(release.Places.of(settings))


def test_a_folder_that_is_nowhere_is_named_in_the_working_directory(tmp_path: Path) -> None:
    found = release.in_force(Settings(resources_path="./module-v2"), tmp_path)

    with pytest.raises(ModuleUnreadable, match=re.escape(str(tmp_path / "module-v2" / "apply"))):
        release.load(release.Places.of(found))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"WebhookCertificateExpiration": "100h"}, "WebhookCertificateExpiration"),
        ({"ExpirationBoundary": "-2562047h"}, "CaCertificateExpiration and WebhookCertificateExpiration"),
    ],
)
def test_a_boundary_that_reaches_a_lifetime_is_reported(tmp_path: Path, data: dict[str, str], named: str) -> None:
    told: list[str] = []

    class Events(NoEvents):
        def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
            told.append(notice.message)

    resolve = partial(release.in_force, working_directory=tmp_path)
    followed = Tunables(Settings(), lambda *_: None, Events(), resolve=resolve)

    followed.take(changed_to(**data))
    followed.take(changed_to(**data))

    (message,) = told
    assert message.startswith("ExpirationBoundary: ")
    assert f"has no effect: it is not shorter than {named}, so these certificates" in message
