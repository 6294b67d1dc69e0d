"""The look of what is printed, letter by letter. A change here is a change that people see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from textwrap import dedent

from stellwerk.cli.look import events, object_list, status
from stellwerk.cli.look.events import Happening
from stellwerk.cli.look.status import Sheet
from stellwerk.cli.objects import findings
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell import text
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime.insight.diagnosis import AwaitedObject, Diagnosis, Finding

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN = Style()
ASCII = Style(symbols=False)


def ref(kind: str, namespace: str, name: str) -> ObjectRef:
    return ObjectRef(GroupVersionKind("", "v1", kind), ObjectKey(namespace, name))


def ago(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def look(golden: str) -> list[str]:
    return dedent(golden).strip("\n").splitlines()


def test_the_list_of_objects_with_their_health() -> None:
    listed: Sequence[tuple[str, str, str, ObjectHealth, datetime]] = [
        (
            "kyma-system",
            "BtpOperator",
            "btpoperator",
            ObjectHealth("False", "Warning", "MissingSecret"),
            ago(minutes=3),
        ),
        ("kyma-system", "Kyma", "default", ObjectHealth("True", "Ready", "Ready"), ago(days=2)),
        ("shop", "CAPApplication", "bookshop", ObjectHealth("True", "Consistent"), ago(hours=6)),
        (
            "shop",
            "CAPTenant",
            "bookshop-x7",
            ObjectHealth("Unknown", "Upgrading", "UpgradeOperationRuns"),
            ago(seconds=12),
        ),
        ("infra", "Component", "ingress", ObjectHealth("-", "Suspended", "change freeze"), ago(days=9)),
    ]
    looks = object_list.Looks()
    rows = [looks.row(an_object(ns, kind, name, made), seen, NOW) for ns, kind, name, seen, made in listed]
    assert text.table(object_list.COLUMNS, rows) == look(
        """
        NAMESPACE    KIND            NAME         READY   STATE        REASON              AGE
        kyma-system  BtpOperator     btpoperator  False   Warning      MissingSecret       3m
        kyma-system  Kyma            default      True    Ready        -                   2d
        shop         CAPApplication  bookshop     True    Consistent   -                   6h
        shop         CAPTenant       bookshop-x7  Unknown Upgrading    UpgradeOperation... 12s
        infra        Component       ingress      -       Suspended    "change freeze"     9d
        """
    )


def test_a_reason_is_whole_where_a_program_reads_it() -> None:
    seen = ObjectHealth("Unknown", "Upgrading", "UpgradeOperationRuns")
    looks = object_list.Looks(is_terminal=False)
    rows = [looks.row(an_object("shop", "CAPTenant", "bookshop-x7", ago(seconds=12)), seen, NOW)]
    assert text.table(looks.columns, rows) == look(
        """
        NAMESPACE  KIND       NAME         READY   STATE        REASON                AGE
        shop       CAPTenant  bookshop-x7  Unknown Upgrading    UpgradeOperationRuns  12s
        """
    )


def an_object(namespace: str, kind: str, name: str, created: datetime) -> Unstructured:
    metadata = {"namespace": namespace, "name": name, "creationTimestamp": created.isoformat()}
    return Unstructured.of({"apiVersion": "v1", "kind": kind, "metadata": {**metadata}})


SHOP = ObjectSummary(
    ref("Component", "shop", "shop-frontend"),
    ObjectHealth("False", "Error", "DependencyNotReady", since=ago(minutes=4)),
    Diagnosis(
        findings=(
            Finding(
                "waits for Component shop/database",
                "DependencyNotReady",
                (
                    Finding(
                        "Deployment shop/postgres: 0 of 1 replicas available",
                        because=(
                            Finding(
                                'Pod shop/postgres-6d4: image "postgres:99" not found',
                                "ErrImagePull",
                                is_root_cause=True,
                            ),
                        ),
                    ),
                ),
            ),
        ),
        next_step='correct spec.values.image.tag of Component shop/database (now "99").',
    ),
)


def test_why_draws_a_tree_down_to_the_root_cause() -> None:
    assert findings.told(SHOP, PLAIN, NOW) == look(
        """
        ✗ Component shop/shop-frontend is not ready (for 4m)
        └─ waits for Component shop/database                            DependencyNotReady
           └─ Deployment shop/postgres: 0 of 1 replicas available
              └─ Pod shop/postgres-6d4: image "postgres:99" not found   ErrImagePull   <- root cause
        Next: correct spec.values.image.tag of Component shop/database (now "99").
        """
    )


def test_why_has_an_ascii_form() -> None:
    lines = findings.told(SHOP, ASCII, NOW)
    assert all(line.isascii() for line in lines)
    assert lines[:2] == look(
        """
        x Component shop/shop-frontend is not ready (for 4m)
        `- waits for Component shop/database                            DependencyNotReady
        """
    )


def test_siblings_in_a_tree_are_joined_by_a_line() -> None:
    found = (Finding("first", because=(Finding("inner"),)), Finding("second"))
    assert findings.drawn(found, PLAIN) == ["├─ first", "│  └─ inner", "└─ second"]


def test_a_message_that_objects_hand_on_is_read_once_where_it_comes_from() -> None:
    message = "pod mtx-1 ended with exit code 3: full"
    job = Finding(f"Job shop/mtx-1 has failed: {message}", "BackoffLimitExceeded", is_root_cause=True)
    other = Finding("Secret shop/b lacks the key token")
    operation = Finding(f"CAPTenantOperation shop/x: step 1 has failed: {message}.", "Failed", (job, other))
    tenant = Finding(job.text, "ProvisioningFailed", (operation,))
    apart = Finding(f"CAPTenant shop/b: {message}", "", (Finding(f"Pod shop/p: {message}/b"),))

    told = findings.once((tenant, apart))

    assert findings.drawn(told, PLAIN) == look(
        """
        ├─ CAPTenantOperation shop/x: step 1 has failed                           Failed
        │  ├─ Job shop/mtx-1 has failed: pod mtx-1 ended with exit code 3: full   BackoffLimitExceeded   <- root cause
        │  └─ Secret shop/b lacks the key token
        └─ CAPTenant shop/b: pod mtx-1 ended with exit code 3: full
           └─ Pod shop/p: pod mtx-1 ended with exit code 3: full/b
        """
    )
    assert findings.once((replace(tenant, because=(replace(job, reason=""),)),))[0].reason == "ProvisioningFailed"
    assert findings.once(told) == told


def test_why_shows_the_objects_own_message_where_nobody_knows_more() -> None:
    seen = ObjectSummary(ref("Thing", "a", "b"), ObjectHealth("False", "Error", "Broken", "the pump leaks"))
    assert findings.told(seen, PLAIN, NOW) == ["✗ Thing a/b is not ready", "└─ the pump leaks   Broken"]


def test_why_has_nothing_to_tell_about_a_ready_object() -> None:
    seen = ObjectSummary(ref("Thing", "a", "b"), ObjectHealth("True", "Ready", since=ago(days=3)))
    assert findings.told(seen, PLAIN, NOW) == ["✔ Thing a/b is ready (for 3d)"]


def test_why_is_the_same_tree_for_programs() -> None:
    told = findings.as_json(SHOP)
    assert told["object"] == {
        "group": "",
        "version": "v1",
        "kind": "Component",
        "namespace": "shop",
        "name": "shop-frontend",
    }
    assert told["nextStep"] == SHOP.diagnosis.next_step


def test_status_shows_conditions_children_and_events() -> None:
    message = "sap-btp-manager Secret in kyma-system namespace not found"
    condition = Condition(
        type="Ready", status="False", reason="MissingSecret", message=message, last_transition_time=ago(minutes=3)
    )
    operand = ref("Deployment", "kyma-system", "sap-btp-operator-controller-manager")
    sheet = Sheet(
        ObjectSummary(
            ref("BtpOperator", "kyma-system", "btpoperator"),
            ObjectHealth("False", "Warning", "MissingSecret", message, ago(minutes=3)),
            Diagnosis(
                next_step="create the Secret.",
                turn="as soon as the Secret changes",
                unready=(AwaitedObject(operand, "0 of 1 replicas available"),),
            ),
        ),
        [condition],
        [Happening(ago(minutes=2), "Warning", "MissingSecret", 4, ref("BtpOperator", "kyma-system", "b"), message)],
    )
    assert status.shown(sheet, PLAIN, NOW) == look(
        """
        ✗ BtpOperator kyma-system/btpoperator is not ready (for 3m)
          State:    Warning
          Reason:   MissingSecret
          Message:  sap-btp-manager Secret in kyma-system namespace not found
          Turn:     as soon as the Secret changes
          Next:     create the Secret.

        Conditions:
          TYPE   STATUS  REASON         SINCE  MESSAGE
          Ready  False   MissingSecret  3m     sap-btp-manager Secret in kyma-system namespace not found

        Not ready:
          Deployment kyma-system/sap-btp-operator-controller-manager: 0 of 1 replicas available

        Events:
          LAST  TYPE     REASON              COUNT  OBJECT                        NOTE
          2m    Warning  MissingSecret       4      BtpOperator kyma-system/b     sap-btp-manager Secret in kyma-system namespace not found
        """  # noqa: E501  # a line as it is printed
    )


def test_status_of_what_is_ready_names_what_its_next_step_is_about() -> None:
    root = Finding("CAPTenant shop/acme has no payload", "StepProcessingError", is_root_cause=True)
    below = Finding("CAPTenant shop/acme waits for its operation", "Provisioning", (root,))
    concerns = (Finding("3/4 tenants are ready", "NotAllTenantsReady", (below,)), Finding("the Secret is old"))
    sheet = Sheet(
        ObjectSummary(
            ref("CAPApplication", "shop", "bookshop"),
            ObjectHealth("True", "Consistent", "VersionExists", "version 2 is in use", ago(minutes=3)),
            Diagnosis(concerns, next_step="add the payload"),
        ),
        [],
        [],
    )
    assert status.shown(sheet, PLAIN, NOW) == look(
        """
        ✔ CAPApplication shop/bookshop is ready (for 3m)
          State:    Consistent
          Reason:   VersionExists
          Message:  version 2 is in use
          Concern:  3/4 tenants are ready: CAPTenant shop/acme has no payload; the Secret is old
          Next:     add the payload
        """
    )


def test_an_event_series_tells_how_often_and_when_last() -> None:
    event = Unstructured.of(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "n"},
            "eventTime": "2026-05-01T11:00:00.000000Z",
            "series": {"count": 7, "lastObservedTime": "2026-05-01T11:59:00.000000Z"},
            "type": "Warning",
            "reason": "Broken",
            "note": "a\x1b[2J",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p"},
        }
    )
    assert events.table([events.happening(event)], NOW)[1] == (
        "1m    Warning  Broken              7      Pod n/p                       a\\x1b[2J"
    )


def test_an_event_of_the_older_api_is_read_too() -> None:
    event = Unstructured.of(
        {
            "metadata": {"name": "e", "namespace": "n"},
            "eventTime": None,
            "deprecatedCount": 3,
            "deprecatedLastTimestamp": "2026-05-01T11:58:00Z",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "n"},
        }
    )
    seen = events.happening(event)
    assert (seen.count, seen.last) == (3, ago(minutes=2))
