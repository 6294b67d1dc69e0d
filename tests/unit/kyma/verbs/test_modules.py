"""What `stellwerk module ...` shows and changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from stellwerk.delivery.verb_plans import Edit, VerbPlan, VerbRefused
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.catalog import Catalog
from stellwerk.operators.kyma.verbs import chosen as chosen_kyma
from stellwerk.operators.kyma.verbs import modules
from stellwerk.operators.kyma.verbs.chosen import Chosen

API = "operator.kyma-project.io/v1beta2"
IN_STEP: JsonObject = {"type": "CRDsSync", "status": "True", "reason": "Ready", "message": ""}


def template(module: str, version: str, **spec: object) -> ModuleTemplate:
    body = {"apiVersion": API, "kind": "ModuleTemplate", "metadata": {"name": f"{module}-{version}"}}
    named = {"moduleName": module, "version": version, "descriptor": {}}
    return msgspec.convert({**body, "spec": {**named, **spec}}, ModuleTemplate)


def meta(module: str, **channels: str) -> ModuleReleaseMeta:
    listed = [{"channel": channel, "version": version} for channel, version in channels.items()]
    body = {"apiVersion": API, "kind": "ModuleReleaseMeta", "metadata": {"name": module}}
    return msgspec.convert({**body, "spec": {"moduleName": module, "channels": listed}}, ModuleReleaseMeta)


OFFERS = chosen_kyma.offers_of(
    Catalog(
        (
            template("keda", "1.0.0"),
            template("keda", "2.0.0", requiresDowntime=True),
            template("serverless", "1.0.0"),
            template("former", "0.1.0", channel="fast"),
        ),
        (meta("keda", regular="1.0.0", fast="2.0.0", lost="9.0.0"), meta("serverless", regular="1.0.0")),
    )
)


def chosen(
    *entries: JsonObject, shown: list[JsonObject] | None = None, in_control_plane: bool = False, offered: bool = True
) -> Chosen:
    namespace, name = (labels.KCP_NAMESPACE, "k") if in_control_plane else ("kyma-system", "default")
    body: JsonObject = {
        "apiVersion": API,
        "kind": "Kyma",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"},
        "spec": {"channel": "regular", "modules": [*entries]},
        "status": {"modules": [*(shown or [])], "conditions": [IN_STEP]},
    }
    return Chosen(obj=Unstructured.of(body), offers=OFFERS if offered else None)


def entry(name: str, **fields: object) -> JsonObject:
    return {"name": name, "managed": True, "unknown": "kept", **fields}  # type: ignore[dict-item]


def after(plan: VerbPlan, seen: Chosen) -> object:
    [edit] = plan.writes
    assert isinstance(edit, Edit)
    patch = edit.patch(seen.obj)
    return patch and patch["spec"]["modules"]  # type: ignore[index,call-overload]


def names(listed: object) -> list[str]:
    assert isinstance(listed, list)
    return [str(each["name"]) for each in listed]


def test_a_list_shows_what_is_wanted_and_what_is_still_there() -> None:
    kyma = chosen(
        entry("keda", channel="fast"),
        entry("serverless", managed=False, customResourcePolicy="Ignore"),
        shown=[
            {"name": "keda", "state": "Ready", "channel": "fast", "version": "2.0.0"},
            {"name": "old", "state": "Deleting", "channel": "regular", "version": "1.0.0", "message": "waits for CRs"},
        ],
    )
    table = modules.list_of(kyma).table
    assert table is not None
    assert table.rows == [
        ["keda", "fast", "2.0.0", "Ready", "yes", "CreateAndDelete", ""],
        ["old", "regular", "1.0.0", "Deleting", "yes", "", "waits for CRs"],
        ["serverless", "regular", "", "", "no", "Ignore", ""],
    ]
    assert table.values[2]["managed"] is False


def test_the_list_that_a_new_cluster_begins_with_is_not_shown_as_that_of_the_cluster() -> None:
    kyma = chosen(
        entry("serverless"), shown=[{"name": "keda", "state": "Unmanaged", "channel": "fast"}], in_control_plane=True
    )
    table = modules.list_of(kyma).table
    assert table is not None
    assert table.rows == [["keda", "fast", "", "Unmanaged", "no", "", ""]]


def test_a_catalog_shows_the_version_of_each_channel_that_can_be_had() -> None:
    kyma = chosen(shown=[{"name": "keda", "state": "Ready", "channel": "fast", "version": "2.0.0"}])
    table = modules.catalog_for(kyma, ()).table
    assert table is not None
    assert [[*row[:5]] for row in table.rows] == [
        ["former", "fast", "0.1.0", "", ""],
        ["keda", "fast", "2.0.0", "installed", "downtime"],
        ["keda", "regular", "1.0.0", "", ""],
        ["serverless", "regular", "1.0.0", "", ""],
    ]
    assert [each["channel"] for each in table.values] == ["fast", "fast", "regular", "regular"]
    one = modules.catalog_for(kyma, ("serverless",)).table
    assert one is not None
    assert len(one.rows) == 1


def test_a_change_keeps_what_others_have_written_to_the_list_meanwhile() -> None:
    before = chosen(entry("keda"))
    meanwhile = chosen(entry("keda", channel="fast"), entry("former"))

    assert after(modules.added(before, ["serverless"], "", "Ignore"), meanwhile) == [
        entry("keda", channel="fast"),
        entry("former"),
        {"name": "serverless", "managed": True, "customResourcePolicy": "Ignore"},
    ]
    assert names(after(modules.removed(before, ["keda"]), meanwhile)) == ["former"]
    assert after(modules.managed(before, ["keda"], False), meanwhile) == [
        entry("keda", channel="fast", managed=False),
        entry("former"),
    ]
    assert after(modules.moved(before, "keda", "fast"), meanwhile) is None, "another client was faster"
    assert after(modules.added(before, ["former"], "fast", ""), meanwhile) is None


Act = Callable[[], VerbPlan]


@pytest.mark.parametrize(
    ("act", "why", "fix"),
    [
        (lambda: modules.added(chosen(), ["kead"], "", ""), "has no module kead", "did you mean keda?"),
        (lambda: modules.added(chosen(), ["x"], "", ""), "has no module x", "stellwerk module catalog"),
        (lambda: modules.added(chosen(), ["keda"], "fas", ""), "no channel fas", "did you mean fast?"),
        (lambda: modules.added(chosen(), ["keda"], "lost", ""), "no channel lost", "fast"),
        (lambda: modules.added(chosen(), ["former"], "", ""), "no channel regular", "fast"),
        (
            lambda: modules.added(chosen(entry("keda")), ["keda"], "fast", ""),
            "has the module keda already, from channel regular",
            "stellwerk module channel keda fast -n kyma-system --kyma default",
        ),
        (lambda: modules.moved(chosen(entry("keda")), "keda", "fsat"), "no channel fsat", "did you mean fast?"),
        (lambda: modules.moved(chosen(entry("keda")), "kda", "fast"), "has no module kda", "did you mean keda?"),
        (
            lambda: modules.moved(
                chosen(entry("keda"), shown=[{"name": "keda", "state": "Ready", "version": "2.0.0"}]), "keda", "regular"
            ),
            "channel regular has version 1.0.0 of module keda, and 2.0.0 is installed",
            "stellwerk module catalog keda",
        ),
        (lambda: modules.removed(chosen(entry("keda")), ["former"]), "has no module former", "stellwerk module list"),
        (
            lambda: modules.removed(
                chosen(entry("keda", managed=False), shown=[{"name": "keda", "state": "Ready"}]), ["keda"]
            ),
            "not unmanaged yet",
            "stellwerk module list",
        ),
        (lambda: modules.managed(chosen(entry("keda")), ["x"], True), "has no module x", "stellwerk module list"),
        (lambda: modules.catalog_for(chosen(offered=False), ()), "cannot be read", "ask for the right"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_step(act: Act, why: str, fix: str) -> None:
    with pytest.raises(VerbRefused) as refused:
        act()
    assert why in str(refused.value)
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("act", "note"),
    [
        (lambda: modules.added(chosen(entry("keda")), ["keda"], "", ""), "has the module keda already"),
        (lambda: modules.moved(chosen(entry("keda", channel="fast")), "keda", "fast"), "from channel fast already"),
        (lambda: modules.managed(chosen(entry("keda")), ["keda"], True), "is managed already"),
        (
            lambda: modules.removed(
                chosen(shown=[{"name": "keda", "state": "Deleting", "message": "waits for Sample a/b"}]), ["keda"]
            ),
            "is being removed already: waits for Sample a/b",
        ),
    ],
)
def test_what_is_so_already_is_no_failure_and_is_waited_for(act: Act, note: str) -> None:
    plan = act()
    assert (list(plan.writes), len(plan.awaited), plan.destroys) == ([], 1, "")
    assert note in plan.notes[0]


def test_an_unmanaged_module_follows_another_channel_later_and_is_not_waited_for() -> None:
    plan = modules.moved(chosen(entry("keda", managed=False)), "keda", "fast")
    assert (len(plan.writes), list(plan.awaited)) == (1, [])
    assert "once it is managed again" in plan.notes[0]


def test_a_user_who_may_not_read_the_catalog_is_told_that_names_are_not_checked() -> None:
    plan = modules.added(chosen(offered=False), ["keda"], "any", "")
    assert len(plan.writes) == 1
    assert "names and channels are not checked" in plan.notes[0]


def test_a_removal_asks_about_modules_whose_objects_go() -> None:
    assert modules.removed(chosen(entry("keda")), ["keda"]).destroys == (
        "module keda of Kyma kyma-system/default with all objects"
    )
    unmanaged = chosen(entry("keda", managed=False), shown=[{"name": "keda", "state": "Unmanaged"}])
    plan = modules.removed(unmanaged, ["keda"])
    assert plan.destroys == ""
    assert "stay in the cluster" in plan.notes[0]


def test_a_list_that_nothing_follows_is_changed_only_on_request() -> None:
    kyma = chosen(entry("keda"), in_control_plane=True)
    with pytest.raises(VerbRefused) as refused:
        modules.refuse_beginning(kyma, allowed=False)
    assert "in Kyma kyma-system/default" in str(refused.value)
    assert "kubectl get secret -n kcp-system -l operator.kyma-project.io/kyma-name=k" in refused.value.fix
    modules.refuse_beginning(kyma, allowed=True)
    plan = modules.added(kyma, ["serverless"], "", "")
    assert names(after(plan, kyma)) == ["keda", "serverless"]
    assert list(plan.awaited) == [], "no cluster would show it"
    modules.refuse_beginning(chosen(), allowed=False)


READY: JsonObject = {"name": "keda", "state": "Ready", "channel": "regular", "version": "1.0.0"}
MOVED: JsonObject = {"name": "keda", "state": "Ready", "channel": "fast", "version": "2.0.0"}
BUSY: JsonObject = {"name": "keda", "state": "Processing", "channel": "fast", "version": "2.0.0"}
ERROR: JsonObject = {"name": "keda", "state": "Error", "channel": "fast", "message": "no image"}
LEFT: JsonObject = {"name": "keda", "state": "Unmanaged"}


@pytest.mark.parametrize(
    ("act", "ends"),
    [
        (lambda: modules.added(chosen(), ["keda"], "", ""), [None, None, True, True, False, True]),
        (lambda: modules.moved(chosen(entry("keda")), "keda", "fast"), [None, None, None, True, False, None]),
        (lambda: modules.removed(chosen(entry("keda")), ["keda"]), [True, None, None, None, None, None]),
        (lambda: modules.managed(chosen(entry("keda")), ["keda"], False), [None, None, None, None, None, True]),
        (
            lambda: modules.managed(chosen(entry("keda", managed=False)), ["keda"], True),
            [None, None, True, True, False, None],
        ),
    ],
    ids=["add", "channel", "remove", "unmanage", "manage"],
)
def test_each_change_has_its_own_end(act: Act, ends: list[bool | None]) -> None:
    [awaited] = act().awaited
    shown: list[bool | None] = []
    for status in ([], [BUSY], [READY], [MOVED], [ERROR], [LEFT]):
        seen = chosen(entry("keda"), shown=status).obj
        shown.append(awaited.is_good(seen) if awaited.has_ended(seen) else None)
    assert shown == ends
    assert awaited.part(chosen(shown=[ERROR]).obj) == "module keda is Error: no image"
    assert awaited.part(chosen(shown=[MOVED]).obj) == "module keda 2.0.0 is Ready"
