"""Rollouts in worlds of values, for the properties of all kinds that decide by steps."""

from __future__ import annotations

import random
from datetime import timedelta

from tests.unit.kyma.fleet.test_rollout import NOW, SETTINGS, kyma, manifest, version
from tests.unit.kyma.kyma.worlds import DELETED, a_meta, a_rollout

from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.types.object_meta import Record, kubernetes_time, rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, METAS
from stellwerk.operators.kyma.fleet.rollout import ROLLOUTS, ModuleVersion, RolloutLogic
from stellwerk.testing import steps as kit
from stellwerk.testing.clock import FakeClock


def in_steps(some: random.Random) -> kit.World[ModuleVersion, Record]:
    """A version of a module, Kymas of which some wait for it, and the turns so far."""
    names, clock = "abcdef", FakeClock(NOW)
    kymas, manifests, turns = [], [], {}
    for name in some.sample(names, some.randint(0, 5)):
        has_it = some.random() < 0.3
        canary, waits = some.random() < 0.2, not has_it and some.random() < 0.7
        kymas.append(kyma(name, "2.0.0" if has_it else "1.0.0", waits=waits, canary=canary))
        if some.random() < 0.8:
            state, applied = some.choice(["Ready", "Ready", "Error"]), some.choice(["1.0.0", "2.0.0", None])
            manifests.append(manifest(name, "2.0.0" if has_it else "1.0.0", state, applied=applied))
    for name in some.sample(names, some.randint(0, 3)):
        since = rfc3339(kubernetes_time(NOW - timedelta(minutes=some.choice([1, 20]))))
        turns[name] = {"since": since, "state": some.choice(["UnderWay", "UnderWay", "Failed", "Withdrawn"])}
    rollout = a_rollout("keda-2.0.0", state=some.choice(["Running", "Running", "Stopped"]), done=2, **turns)
    if some.random() < 0.1:
        rollout.data["turns"] = "odd"
    if some.random() < 0.2:
        rollout.metadata.annotations[labels.RESUME_ANNOTATION] = "true"
    world = kit.World(
        logic=RolloutLogic(),
        obj=version(**({"deletionTimestamp": DELETED, "finalizers": ["others/one"]} if some.random() < 0.1 else {})),
        objects={
            KYMAS: kymas,
            MANIFESTS: manifests,
            METAS: [a_meta("keda", regular="2.0.0", fast="3.0.0")] if some.random() < 0.8 else [],
            ROLLOUTS: [rollout] if some.random() < 0.7 else [],
        },
        settings=(SETTINGS,),
        clock=clock,
        ends_at_once=True,
    )
    if some.random() < 0.1:
        world.objects[ROLLOUTS] = []
        world.hidden = {ROLLOUTS: [Unreadable(rollout.resource, rollout.metadata, "odd")]}
    return world
