"""Which version of each module a Kyma gets, what becomes of its Manifest, and how the module is shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, HOME, PREFIX, a_kyma, a_meta, a_rollout, a_template

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject, Unreadable
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import InstallInfo, Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleReleaseMetaSpec, ModuleTemplate
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.collections import MANIFESTS, METAS, TEMPLATES
from stellwerk.operators.kyma.fleet.rollout import ROLLOUTS
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.module.resolution import (
    Component,
    FirstSeen,
    Offers,
    Plan,
    Release,
    is_offered,
    manifest_name,
    release_of,
    resolve,
)
from stellwerk.operators.kyma.module.windows import OneWindow, Policy, Window
from stellwerk.render.errors import SourceError
from stellwerk.runtime.reading.known import Known, Present, Unknown
from stellwerk.runtime.reading.loads import PlainLoads
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
FQDN = "kyma-project.io/module/amod"
NAME = manifest_name("k", FQDN, "amod")


def component(template: ModuleTemplate, ocm_name: str) -> Known[Component]:
    """The component of a template, which is what the template states."""
    name = ocm_name or f"kyma-project.io/module/{template.spec.module_name}"
    return Present(Component(name, version_of(template), InstallInfo(name="raw-manifest")))


def failing(*_: object) -> Known[Component]:
    """A registry that has no such component."""
    raise SourceError("there is no such component")


def hidden(*_: object) -> Known[Component]:
    """A registry that does not answer."""
    return Unknown("the registry does not answer")


OFFERS = Offers(component=component)


@dataclass
class World:
    """A Kyma, and what the control plane offers."""

    modules: Sequence[dict[str, Any]] = ({"name": "amod"},)
    status: Sequence[ModuleStatus] = ()
    metas: Sequence[ModuleReleaseMeta] = (a_meta("amod", regular="1.0.0", fast="2.0.0"),)
    templates: Sequence[ModuleTemplate] = (a_template("amod", "1.0.0"), a_template("amod", "2.0.0"))
    manifests: Sequence[Manifest] = ()
    unreadable: dict[Any, Sequence[Unreadable]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    skips_windows: bool = False
    offers: Offers = OFFERS
    rollouts: Sequence[ConfigMap] = ()
    seen_at: datetime = NOW
    """When the contents of the ModuleReleaseMetas were first seen."""

    @property
    def kyma(self) -> Kyma:
        """The Kyma."""
        spec = {"modules": list(self.modules), "skipMaintenanceWindows": self.skips_windows}
        kyma = a_kyma("k", spec=spec, labels=self.labels)
        return msgspec.structs.replace(kyma, status=msgspec.structs.replace(kyma.status, modules=tuple(self.status)))

    def plans(self) -> tuple[Plan, ...]:
        """The plans of the modules."""
        sources = PlainSources()
        lists = (
            (METAS, self.metas),
            (TEMPLATES, self.templates),
            (MANIFESTS, self.manifests),
            (ROLLOUTS, self.rollouts),
        )
        for collection, objects in lists:
            sources.add(cast("Any", collection), PlainSource(objects, self.unreadable.get(collection, ())))
        kyma = self.kyma
        return resolve(kyma, kyma.spec, self.offers, self.view(sources))

    def view(self, sources: PlainSources) -> View:
        """A view of these sources."""
        loads = PlainLoads({FirstSeen(release_of(each)): self.seen_at for each in self.metas})
        return View(sources=sources, now=NOW, loads=loads)

    def plan(self) -> Plan:
        """The plan of the only module."""
        (plan,) = self.plans()
        return plan

    def after(self, state: str = "Ready") -> World:
        """The world after the plans were followed, and the Manifests have a state."""
        left = {each.metadata.name: each for each in self.manifests}
        for plan in self.plans():
            if plan.wanted is not None:
                body = {**plan.wanted, "status": {"state": state}}
                metadata: dict[str, Any] = {"uid": "uid", **cast("dict[str, Any]", body["metadata"]), "generation": 1}
                left[metadata["name"]] = msgspec.convert({**body, "metadata": metadata}, Manifest)
            if plan.removed is not None:
                del left[plan.removed.metadata.name]
        changed = World(**{**self.__dict__, "manifests": tuple(left.values())})
        changed.status = tuple(plan.status for plan in changed.plans() if plan.status is not None)
        return changed

    def but(self, **fields: Any) -> World:
        """The world with other fields."""
        return World(**{**self.__dict__, **fields})


def shown(plan: Plan) -> tuple[str, str]:
    """State and message of a module."""
    assert plan.status is not None
    return plan.status.state, plan.status.message


INSTALLED = World().after()
FAST = World(modules=({"name": "amod", "channel": "fast"},)).after()


@pytest.mark.parametrize(
    ("kyma", "fqdn", "module", "expected"),
    [
        ("k", "kyma.project.io/module/btp-operator", "btp-operator", "k-btp-operator-4128321918"),
        ("k", "kyma-project.io/module/keda", "keda", "k-keda-1095022605"),
        ("k", "kyma-project.io/module/kim-snatch", "kim-snatch", "k-kim-snatch-2090752361"),
        (
            "24bd3cbf-454a-4075-baa6-113a23fdfcd0", "kyma-project.io/module/a-very-long-module-name-indeed", "m",
            "24bd3cbf-454a-4075-baa6-113a23fdfcd0-a-very-long-module-name-i",
        ),
        ("a" * 61, "x/b", "b", "a" * 61),
    ],
)  # fmt: skip
def test_the_name_of_a_manifest_is_that_of_the_original(kyma: str, fqdn: str, module: str, expected: str) -> None:
    assert manifest_name(kyma, fqdn, module) == expected


@pytest.mark.req("KYMA-06")
def test_a_new_module_gets_a_manifest() -> None:
    template = a_template(
        "amod", "1.0.0", labels={"x": "y"}, data={"kind": "Sample", "apiVersion": "a/v1"},
        manager={"group": "apps", "version": "v1", "kind": "Deployment", "name": "manager"},
    )  # fmt: skip
    world = World(templates=(template,))
    plan = world.plan()
    assert plan.wanted == {
        "apiVersion": f"{PREFIX}/v1beta2",
        "kind": "Manifest",
        "metadata": {
            "name": NAME,
            "namespace": HOME,
            "labels": {
                f"{PREFIX}/kyma-name": "k",
                f"{PREFIX}/module-name": "amod",
                f"{PREFIX}/channel": "regular",
                f"{PREFIX}/managed-by": "lifecycle-manager",
                f"{PREFIX}/controller-name": "",
            },
            "annotations": {f"{PREFIX}/fqdn": FQDN, f"{PREFIX}/ocm-component-name": FQDN},
            "ownerReferences": [
                {"apiVersion": f"{PREFIX}/v1beta2", "kind": "Kyma", "name": "k", "uid": "uid-of-k", "controller": True,
                 "blockOwnerDeletion": True}
            ],
        },
        "spec": {
            "install": {"name": "raw-manifest", "source": {}},
            "remote": False,
            "version": "1.0.0",
            "manager": {"group": "apps", "version": "v1", "kind": "Deployment", "name": "manager"},
            "resource": {"kind": "Sample", "apiVersion": "a/v1",
                         "metadata": {"name": NAME, "namespace": "kyma-system"}},
        },
    }  # fmt: skip
    assert shown(plan) == ("", "")
    status = world.after().plan().status
    assert status is not None
    assert (status.state, status.version, status.channel, status.fqdn) == ("Ready", "1.0.0", "regular", FQDN)
    assert status.manifest is not None
    assert status.template is not None
    assert status.resource is not None
    assert (status.manifest.metadata.name, status.manifest.metadata.generation) == (NAME, 1)
    assert (status.template.kind, status.template.metadata.name) == ("ModuleTemplate", "amod-1.0.0")
    assert status.resource.metadata.namespace == "kyma-system"


@pytest.mark.req("KYMA-17", "KYMA-18")
def test_a_default_resource_is_shown_only_if_it_is_created() -> None:
    scoped = {"metadata": {"name": "c", "namespace": HOME, "annotations": {f"{PREFIX}/is-cluster-scoped": "true"}},
              "spec": {"descriptor": {}, "moduleName": "amod", "version": "1.0.0",
                       "data": {"kind": "S", "apiVersion": "a/v1", "metadata": {"name": "one"}}}}  # fmt: skip
    scoped["metadata"]["name"] = "amod-1.0.0"
    world = World(templates=(msgspec.convert(scoped, ModuleTemplate),))
    status = world.plan().status
    assert status is not None
    assert status.resource is not None
    assert (status.resource.metadata.name, status.resource.metadata.namespace) == ("one", "")
    ignoring = world.but(modules=({"name": "amod", "customResourcePolicy": "Ignore"},)).plan().status
    assert ignoring is not None
    assert ignoring.resource is None


SKEW = (
    "module template update not allowed: ignore channel skew (from fast to regular), as a higher version (2.0.0) of "
    "the module was previously installed"
)
NO_META = 'no ModuleReleaseMeta found  for module "amod" in namespace "kcp-system"'
UNIQUE = (
    "no unique template could be identified: more than one module template found for module: amod, candidates: "
    "[amod-1.0.0 amod-2.0.0]"
)
BETA = a_template("amod", "1.0.0", labels={f"{PREFIX}/beta": "True"})
OLD_FORM = tuple(a_template("amod", each, channel="regular") for each in ("1.0.0", "2.0.0"))


@pytest.mark.req("KYMA-20", "KYMA-21", "KYMA-23", "KYMA-24", "KYMA-25", "KYMA-26", "KYMA-27", "KYMA-29", "KYMA-31")
@pytest.mark.parametrize(
    ("world", "state", "message", "effect"),
    [
        pytest.param(INSTALLED, "Ready", "", "", id="nothing has changed"),
        pytest.param(
            INSTALLED.but(modules=({"name": "amod", "channel": "fast"},)), "Processing", "", "write", id="channel"
        ),
        pytest.param(FAST.but(modules=({"name": "amod"},)), "Warning", SKEW, "", id="older version"),
        pytest.param(
            FAST.but(modules=({"name": "amod"},)).but(
                status=(msgspec.structs.replace(FAST.status[0], template=None, manifest=None, state="Error"),)
            ), "Warning", SKEW, "", id="older version after an error",
        ),
        pytest.param(World(metas=()), "Warning", NO_META, "", id="unknown module"),
        pytest.param(INSTALLED.but(metas=()), "Warning", NO_META, "", id="no meta any more"),
        pytest.param(World(metas=(), templates=OLD_FORM[:1]), "", "", "write", id="template with a channel"),
        pytest.param(World(metas=(), templates=OLD_FORM), "Error", UNIQUE, "", id="two templates with a channel"),
        pytest.param(
            World(metas=(), templates=(a_template("amod", "1.0.0", channel="regular", mandatory=True),)), "Warning",
            "template marked as mandatory: for module amod in channel regular", "", id="mandatory template, no meta",
        ),
        pytest.param(
            World(modules=({"name": "amod", "channel": "none"},)), "Error",
            'invalid configuration in Kyma spec.modules for module amod: Channel "none" is not allowed', "", id="none",
        ),
        pytest.param(
            World(modules=({"name": "amod", "channel": "other"},)), "Error",
            "no versions found for channel: other in module amod", "", id="channel that the meta does not have",
        ),
        pytest.param(World(metas=(a_meta("amod"),)), "Error", "no channels found for module: amod", "",
                     id="no channel"),
        pytest.param(World(templates=()), "Error", "failed to get module template: ModuleTemplate "
                     "kcp-system/amod-1.0.0 does not exist. Create it, or "
                     "correct the ModuleReleaseMeta: kubectl edit mrm -n kcp-system amod",
                     "", id="version without a template"),
        pytest.param(
            World(metas=(a_meta("amod", "1.0.0"),)), "Warning",
            "no templates were found: for module amod in channel regular", "", id="mandatory meta",
        ),
        pytest.param(
            World(templates=(a_template("amod", "1.0.0", mandatory=True),)), "Warning",
            "no templates were found: for module amod in channel regular", "", id="mandatory template",
        ),
        pytest.param(World(templates=(BETA,)), "Error", "module template not allowed: beta module", "", id="beta"),
        pytest.param(
            INSTALLED.but(templates=(BETA,)), "Error", "module template not allowed: beta module", "delete",
            id="becomes beta",
        ),
        pytest.param(
            INSTALLED.but(offers=Offers(component=component, restricted=frozenset({"amod"}))), "Error",
            "module template not allowed: restricted module", "delete", id="becomes restricted",
        ),
        pytest.param(
            World(offers=Offers(component=failing)), "Error",
            "failed to get descriptor: there is no such component", "", id="no component",
        ),
        pytest.param(
            World(offers=Offers(component=lambda *_: Present(Component("", "1.0.0", InstallInfo())))), "Error",
            "invalid component name: value not provided", "", id="component without a name",
        ),
        pytest.param(
            World(offers=Offers(component=lambda *_: Present(Component("x/y", "", InstallInfo())))), "Error",
            "invalid component version: value not provided", "", id="component without a version",
        ),
        pytest.param(World(modules=({"name": f"{HOME}/amod"},)), "Warning", NO_META.replace('"amod"', f'"{HOME}/amod"'),
                     "", id="namespace and name"),
        pytest.param(World(modules=({"name": FQDN},)), "Warning", NO_META.replace('"amod"', f'"{FQDN}"'), "",
                     id="name of the component"),
    ],
)  # fmt: skip
def test_a_module_gets_its_version_or_a_reason(world: World, state: str, message: str, effect: str) -> None:
    plan = world.plan()
    assert shown(plan) == (state, message)
    assert (plan.wanted is not None, plan.removed is not None) == (effect == "write", effect == "delete")


@pytest.mark.req("KYMA-21", "R-306")
@pytest.mark.parametrize(
    ("state", "observed", "marks", "expected"),
    [
        pytest.param("Ready", 2, {}, "Ready", id="about the spec as it is"),
        pytest.param("Ready", 1, {}, "Processing", id="about a former spec"),
        pytest.param("Error", 1, {}, "Processing", id="what failed may be mended"),
        pytest.param("Error", 2, {}, "Error", id="what fails now"),
        pytest.param("", 1, {}, "", id="no state"),
        pytest.param("Ready", 0, {}, "Ready", id="conditions without a generation"),
        pytest.param("Ready", 1, {"annotations": {"sync-oci-ref": "sha256:a"}}, "Ready", id="the original, applied"),
        pytest.param(
            "Ready", 1, {"annotations": {"sync-oci-ref": "sha256:b"}}, "Processing", id="the original, moving"
        ),
        pytest.param(
            "Error", 1, {"annotations": {"sync-oci-ref": "sha256:a"}}, "Processing", id="the original, failed"
        ),
        pytest.param("Ready", 1, {"labels": {f"{PREFIX}/skip-reconciliation": "true"}}, "Ready", id="left alone"),
        pytest.param("Ready", 1, {"deletion_timestamp": NOW}, "Ready", id="being deleted"),
    ],
)
def test_the_state_of_a_former_spec_is_not_that_of_the_module(
    state: str, observed: int, marks: dict[str, Any], expected: str
) -> None:
    (seen,) = INSTALLED.manifests
    condition = Condition(type="Installation", status="True", observed_generation=observed)
    status = ManifestStatus(state=State(state), conditions=(condition,), last_operation=LastOperation(operation="why"))
    install = InstallInfo(name="raw-manifest", source={"ref": "sha256:a"})
    metadata = {"generation": 2, **marks, "labels": {**seen.metadata.labels, **marks.get("labels", {})}}
    moved = msgspec.structs.replace(
        seen,
        metadata=msgspec.structs.replace(seen.metadata, **metadata),
        spec=msgspec.structs.replace(seen.spec, install=install),
        status=status,
    )
    assert shown(INSTALLED.but(manifests=(moved,)).plan()) == (expected, "why" if expected == "Error" else "")


@pytest.mark.req("KYMA-30")
def test_labels_of_the_kyma_admit_beta_and_internal_modules() -> None:
    for beta, internal, has_beta, has_internal in product((False, True), repeat=4):

        def marks(is_beta: bool, is_internal: bool) -> dict[str, str]:
            return {f"{PREFIX}/beta": str(is_beta).lower(), f"{PREFIX}/internal": str(is_internal).lower()}

        template = a_template("amod", "1.0.0", labels=marks(beta, internal))
        plan = World(templates=(template,), labels=marks(has_beta, has_internal)).plan()
        assert (plan.wanted is not None) == ((not beta or has_beta) and (not internal or has_internal))


def test_a_restricted_module_needs_a_selector_that_matches() -> None:
    kyma = a_kyma(labels={"a": "b"})
    listed = frozenset({"amod"})
    matching, other = ({"matchLabels": {"a": value}} for value in "bc")
    empty: dict[str, Any] = {}
    expected = {True: [False, True, False, False], False: [True, False, False, False]}
    for is_listed, results in expected.items():
        found = [
            is_offered("amod", msgspec.convert({"moduleName": "amod", "kymaSelector": each}, ModuleReleaseMetaSpec),
                       kyma, listed if is_listed else frozenset())
            for each in (None, matching, other, empty)
        ]  # fmt: skip
        assert found == results
    assert is_offered("amod", None, kyma, frozenset())


DOWNTIME = INSTALLED.but(
    templates=(a_template("amod", "1.0.0"), a_template("amod", "2.0.0", requiresDowntime=True)),
    modules=({"name": "amod", "channel": "fast"},),
)
LATER, OPEN = (Offers(component=component, windows=Policy(default=OneWindow(Window(NOW + begin, NOW + 2 * HOUR))))
               for begin in (HOUR, -HOUR))  # fmt: skip


@pytest.mark.req("KYMA-49", "KYMA-50")
@pytest.mark.parametrize(
    ("world", "state", "message", "is_maintained", "is_written"),
    [
        pytest.param(DOWNTIME.but(offers=LATER), "Ready",
                     "waiting for next maintenance window to update module version", True, False, id="later"),
        pytest.param(DOWNTIME.but(offers=OPEN), "Processing", "", False, True, id="open"),
        pytest.param(DOWNTIME.but(offers=LATER, skips_windows=True), "Processing", "", False, True, id="skipped"),
        pytest.param(DOWNTIME.but(offers=LATER, status=(), manifests=()), "", "", False, True, id="first installation"),
        pytest.param(
            DOWNTIME.but(
                offers=LATER, manifests=(),
                status=(msgspec.structs.replace(DOWNTIME.status[0], manifest=None, template=None, state="Error"),),
            ), "", "", False, True, id="first installation after an error",
        ),
        pytest.param(
            DOWNTIME, "Error", "failed to determine if maintenance window is active: there is no maintenance policy "
            "that can be used", False, False, id="no policy",
        ),
        pytest.param(
            DOWNTIME.but(offers=Offers(component=component, windows=Policy())), "Error", "failed to determine if "
            "maintenance window is active: matches and defaults also failed to provide a window", False, False,
            id="no window",
        ),
    ],
)  # fmt: skip
def test_an_upgrade_with_a_downtime_waits_for_a_window(
    world: World, state: str, message: str, is_maintained: bool, is_written: bool
) -> None:
    plan = world.plan()
    assert shown(plan) == (state, message)
    assert plan.status is not None
    assert plan.status.maintenance is is_maintained
    assert plan.status.version == ("2.0.0" if is_written else "1.0.0")
    assert (plan.wanted is not None) is is_written


@pytest.mark.req("KYMA-22")
def test_a_new_version_of_a_channel_reaches_each_kyma_at_a_time_of_its_own() -> None:
    """Nothing is shown of the wait, and what a user asks for waits for nothing."""
    slow = replace(OFFERS, longest_delay=HOUR)
    bumped = INSTALLED.but(metas=(a_meta("amod", regular="2.0.0", fast="2.0.0"),), offers=slow)
    plan = bumped.plan()
    assert (plan.wanted, plan.status) == (None, INSTALLED.status[0])
    for later in (bumped.but(seen_at=NOW - HOUR), bumped.but(offers=OFFERS)):
        assert later.plan().wanted is not None
    for asked in (
        INSTALLED.but(modules=({"name": "amod", "channel": "fast"},), offers=slow),
        INSTALLED.but(modules=({"name": "amod", "managed": False},), offers=slow),
        World(offers=slow),
    ):
        assert asked.plan().wanted is not None
    failing = bumped.manifests[0]
    broken = msgspec.structs.replace(failing, status=msgspec.structs.replace(failing.status, state=State.Error))
    assert shown(bumped.but(manifests=(broken,)).plan()) == ("Error", "")


def test_the_delays_of_many_kymas_fill_the_time() -> None:
    offers = replace(OFFERS, longest_delay=HOUR)
    found = [offers.delay(a_kyma(f"k{number}"), Release("uid", 1)) / HOUR for number in range(400)]
    assert (min(found) < 0.02, max(found) > 0.98) == (True, True)
    assert 0.45 < sum(found) / len(found) < 0.55
    assert offers.delay(a_kyma("k1"), Release("uid", 1)) == offers.delay(a_kyma("k1"), Release("uid", 1))
    assert offers.delay(a_kyma("k1"), Release("uid", 1)) != offers.delay(a_kyma("k1"), Release("uid", 2))


@pytest.mark.req("KYMA-38", "KYMA-39", "KYMA-40")
def test_an_unmanaged_module_keeps_channel_and_version_only() -> None:
    leaving = INSTALLED.but(modules=({"name": "amod", "managed": False},))
    plan = leaving.plan()
    assert plan.wanted is not None
    assert cast("JsonObject", cast("JsonObject", plan.wanted["metadata"])["annotations"])[f"{PREFIX}/is-unmanaged"]
    expected = ModuleStatus(
        name="amod", channel="regular", version="1.0.0", fqdn=FQDN, ocm_component_name=FQDN,
        state=cast("Any", "Unmanaged"),
    )  # fmt: skip
    assert plan.status == expected
    marked = leaving.after()
    assert marked.plan() == Plan(name="amod", status=expected)
    gone = marked.but(manifests=())
    assert gone.but(metas=(), templates=()).plan() == Plan(name="amod", status=expected)
    assert gone.but(modules=()).plan() == Plan(name="amod", status=None)
    assert marked.but(modules=()).plan() == Plan(name="amod", status=None)
    assert marked.but(modules=({"name": "amod"},)).plan().wanted is None
    assert marked.but(templates=(BETA,)).plan().removed is None
    assert gone.but(modules=({"name": "amod"},)).plan().wanted is not None
    assert World(modules=({"name": "amod", "managed": False},)).plan().wanted is None


@pytest.mark.req("KYMA-34", "KYMA-35")
def test_a_removed_module_is_shown_until_its_manifest_is_gone() -> None:
    removed = INSTALLED.but(modules=())
    plan = removed.plan()
    assert plan.removed is not None
    assert (plan.removed.metadata.name, plan.wanted, shown(plan)) == (NAME, None, ("Ready", ""))
    body = msgspec.to_builtins(INSTALLED.manifests[0])
    body["metadata"]["deletionTimestamp"] = DELETED
    body["status"]["state"] = "Deleting"
    body["spec"]["customResourcePolicy"] = "Ignore"
    going = removed.but(manifests=(msgspec.convert(body, Manifest),))
    plan = going.plan()
    assert (plan.removed, plan.wanted, shown(plan)) == (None, None, ("Deleting", ""))
    bumped = going.but(metas=(a_meta("amod", regular="2.0.0"),)).plan()
    assert bumped.wanted is not None
    assert cast("JsonObject", bumped.wanted["metadata"])["uid"] == "uid"
    spec = cast("JsonObject", bumped.wanted["spec"])
    assert (spec["version"], spec["customResourcePolicy"]) == ("2.0.0", "Ignore")
    assert removed.but(manifests=()).plan() == Plan(name="amod", status=None)


@pytest.mark.req("KYMA-61")
@pytest.mark.parametrize(
    ("changes", "is_written"),
    [
        ({}, False),
        ({"generation": 2}, True),
        ({"generation": 2, "status": ()}, False),
        ({"generation": 1, "has_template": False}, True),
    ],
)
def test_a_manifest_is_written_if_its_template_has_changed(changes: dict[str, Any], is_written: bool) -> None:
    template = INSTALLED.templates[0]
    metadata = msgspec.structs.replace(template.metadata, generation=changes.get("generation", 0))
    status = changes.get("status", INSTALLED.status)
    if not changes.get("has_template", True):
        status = (msgspec.structs.replace(status[0], template=None),)
    world = INSTALLED.but(templates=(msgspec.structs.replace(template, metadata=metadata),), status=status)
    assert (world.plan().wanted is not None) is is_written


def an_unreadable(obj: Any) -> Unreadable:
    """An object that cannot be decoded."""
    return Unreadable(type(obj).resource, obj.metadata, "spec: broken")


@pytest.mark.parametrize(
    "world",
    [
        INSTALLED.but(metas=(), unreadable={METAS: [an_unreadable(INSTALLED.metas[0])]}),
        INSTALLED.but(templates=(), unreadable={TEMPLATES: [an_unreadable(INSTALLED.templates[0])]}),
        INSTALLED.but(metas=(), templates=(), unreadable={TEMPLATES: [an_unreadable(INSTALLED.templates[0])]}),
        INSTALLED.but(manifests=(), unreadable={MANIFESTS: [an_unreadable(INSTALLED.manifests[0])]}),
        INSTALLED.but(manifests=(), modules=(), unreadable={MANIFESTS: [an_unreadable(INSTALLED.manifests[0])]}),
        INSTALLED.but(offers=Offers(component=hidden)),
    ],
)
def test_what_cannot_be_read_changes_nothing(world: World) -> None:
    assert world.plan() == Plan(name="amod", status=INSTALLED.status[0])


def test_a_new_module_of_which_nothing_is_known_is_not_ready() -> None:
    plan = World(offers=Offers(component=hidden)).plan()
    assert plan.wanted is None
    assert shown(plan) == (
        "Processing", "the descriptor of ModuleTemplate kcp-system/amod-1.0.0: the registry does not answer"
    )  # fmt: skip


@pytest.mark.req("R-408")
@pytest.mark.parametrize(
    "name", ["x/UPPER", "x/a b", "x/..%2f", "x/a?b", "x/a_b", "x/\u00fc", "x/a\nb", "x/" + "A" * 100_000], ids=ascii
)
def test_a_component_that_no_manifest_can_be_named_for_is_an_error_of_its_module(name: str) -> None:
    """Whatever a registry or an inline descriptor says: nothing is written, and what is installed stays."""
    world = INSTALLED.but(
        offers=Offers(component=lambda *_: Present(Component(name, "1.0.0", InstallInfo()))),
        modules=({"name": "amod", "channel": "fast"},),
    )
    plan = world.plan()
    state, message = shown(plan)
    assert (state, plan.wanted, plan.removed) == ("Error", None, None)
    assert "module amod of ModuleTemplate kcp-system/amod-2.0.0 can have no Manifest: metadata.name" in message
    assert len(message) < 1000


@pytest.mark.req("R-408")
def test_a_module_whose_name_is_no_label_is_an_error_that_says_so() -> None:
    name = "a" * 64
    world = World(
        modules=({"name": name},), metas=(a_meta(name, regular="1.0.0"),), templates=(a_template(name, "1.0.0"),)
    )
    plan = world.plan()
    assert plan.wanted is None
    assert "can have no Manifest: metadata.labels[" in shown(plan)[1]


@pytest.mark.req("R-408")
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../amod", "kcp-system/amod", "AMOD", "amod\n", "a%6dod", "\u00fc", "*", "x" * 100_000],
    ids=ascii,
)  # fmt: skip
def test_a_user_reaches_no_other_module_by_an_odd_name(name: str) -> None:
    plan = World(modules=({"name": name},)).plan()
    assert (plan.wanted, plan.removed) == (None, None)
    assert shown(plan)[0] == "Warning"


def test_two_modules_do_not_share_a_manifest() -> None:
    labels = {f"{PREFIX}/kyma-name": "k", f"{PREFIX}/module-name": "bmod"}
    other = msgspec.convert({"metadata": {"name": NAME, "namespace": HOME, "labels": labels}}, Manifest)
    state, message = shown(World(manifests=(other,)).plan())
    assert state == "Error"
    assert "is that of the module 'bmod'" in message


def test_no_module_loses_its_manifest_unless_it_is_removed_or_not_allowed() -> None:
    chance = random.Random(5)
    for _ in range(300):
        names = ["amod", "bmod", "cmod"]
        world = World(
            modules=[
                {"name": name, "channel": chance.choice(["regular", "fast"]), "managed": chance.random() < 0.9}
                for name in chance.sample(names, chance.randint(0, 3))
            ],
            metas=[a_meta(name, regular="1.0.0", fast="2.0.0") for name in names if chance.random() < 0.8],
            templates=[
                a_template(name, version, labels={f"{PREFIX}/beta": chance.choice(["true", "false", "false"])})
                for name in names for version in ("1.0.0", "2.0.0") if chance.random() < 0.9
            ],
        )  # fmt: skip
        calm = world.after().after()
        plans = calm.plans()
        assert plans == calm.plans()
        assert [plan.name for plan in plans] == sorted(plan.name for plan in plans)
        assert [plan.status for plan in plans] == list(calm.status)
        assert not [plan for plan in plans if plan.wanted or plan.removed]
        changed = calm.but(metas=chance.sample(world.metas, len(world.metas) // 2), modules=world.modules[1:])
        asked_for = {each["name"] for each in changed.modules}
        for plan in changed.plans():
            if plan.removed is not None and plan.name in asked_for:
                assert plan.status is not None
                assert "not allowed" in plan.status.message


def test_with_limited_rollouts_an_installed_module_waits_for_its_turn_to_change() -> None:
    """A first installation does not wait, nor does a module that its user takes over."""
    limited = replace(OFFERS, limits_rollouts=True)
    assert World(offers=limited).plan().wanted is not None
    bumped = INSTALLED.but(metas=(a_meta("amod", regular="2.0.0"),), offers=limited)
    plan = bumped.plan()
    assert plan.wanted is None
    assert shown(plan) == ("Ready", "waiting for its turn to get version 2.0.0")
    assert plan.status is not None
    assert plan.status.version == "1.0.0"
    taken_over = bumped.but(modules=({"name": "amod", "managed": False},)).plan()
    assert taken_over.wanted is not None
    begun = bumped.but(rollouts=(a_rollout("amod-2.0.0", k={"since": "2026-01-01T00:00:00Z"}),)).plan()
    assert begun.wanted is not None
    assert begun.status is not None
    assert begun.status.message == ""


def test_a_delayed_upgrade_takes_no_turn_before_its_delay_is_over() -> None:
    """A Kyma that is delayed does not change its Manifest, also if its former status is lost."""
    limited = replace(OFFERS, limits_rollouts=True, longest_delay=HOUR)
    bumped = INSTALLED.but(metas=(a_meta("amod", regular="2.0.0"),), offers=limited)
    assert bumped.plan().wanted is None
    assert shown(bumped.plan()) == ("Ready", "")
    assert bumped.but(status=()).plan().wanted is None
    assert shown(bumped.but(offers=replace(limited, longest_delay=timedelta())).plan())[1].startswith("waiting for its")
