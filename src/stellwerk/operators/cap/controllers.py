"""The controllers and caches of the CAP Operator, added to a manager."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_tenant import CAPTenantOperation, OperationStatus
from stellwerk.operators.cap.credentials import BindingSecrets, CredentialSecrets
from stellwerk.operators.cap.operation.reconcile import OperationReconciler
from stellwerk.operators.cap.watches import BY_OWNER, BY_VERSION, Caches, caches, controller_of
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager

OPERATION_WORKERS = 10
"""How many operations are worked on at once."""

OperationController = Controller[CAPTenantOperation, OperationStatus]


@dataclass(frozen=True, slots=True)
class CapOperator:
    """The parts that others may ask for."""

    caches: Caches
    operations: OperationController


def install(manager: Manager, *, recorder: EventSink | None = None) -> CapOperator:
    """Give the CAP Operator to a manager."""
    seen = caches(manager)
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    credentials = CredentialSecrets(client, BindingSecrets(client, seen.secrets), seen.credentials)
    reconciler = OperationReconciler(client=client, caches=seen, credentials=credentials, clock=manager.clock)
    operations: OperationController = Controller(
        "CAPTenantOperation",
        seen.operations,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        workers=OPERATION_WORKERS,
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    _wire_operations(operations, seen)
    manager.add_controller(operations)
    return CapOperator(seen, operations)


def _wire_operations(controller: OperationController, seen: Caches) -> None:
    """An operation goes on when its Job, its tenant or its version changes."""
    store = seen.operations.store
    controller.ignore_updates(only_status_changed)
    controller.watches(seen.jobs, lambda delta: controller_of(delta, CAPTenantOperation))
    controller.watches(seen.tenants, lambda delta: [each.key for each in store.by(BY_OWNER, delta.latest.metadata.uid)])
    controller.watches(seen.versions, lambda delta: _of_version(seen, delta.key))


def _of_version(seen: Caches, version: ObjectKey) -> list[ObjectKey]:
    return [each.key for each in seen.operations.store.by(BY_VERSION, str(version))]
