"""The rights of the operand, which the operator must hold to grant them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery.grants import Right
from stellwerk.operators.btp import rights
from stellwerk.operators.btp.module.release import Places, load
from stellwerk.operators.btp.settings import Settings
from tests.cluster import rights as audited


def bodies() -> Iterable[dict[str, object]]:
    release = load(Places.of(Settings(), Path(rights.__file__).parent / "data"))
    return [dict(document.body) for document in (*release.documents, *release.network_policies)]


def the_operands() -> set[Right]:
    """What the roles of the module grant to the operand: we must hold it to grant it."""
    roles = [body for body in bodies() if body["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in yaml.safe_load(yaml.safe_dump(role["rules"]))]
    return audited.spelled_out(msgspec.convert(rules, list[PolicyRule]))
