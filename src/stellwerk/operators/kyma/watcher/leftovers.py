"""Certificates, and their Secrets, of Kymas that are gone: of one that ended without its finalizer, or was forced to.

A certificate whose Kyma does not exist is deleted with its Secret. While the Kymas are not listed, nothing is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.collections import KYMAS
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import certificates
from stellwerk.runtime.control.step import Failure, Step, Wait
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View

LeftoverStep: TypeAlias = Step[Record]

FAILED = "CertificateRemovalFailed"
"""The reason of the Event on a certificate that cannot be deleted."""

_log = logging.getLogger(__name__)


def decide(found: Kind, view: View) -> LeftoverStep:
    """What a Certificate of a Kyma, or its Secret, needs next. Raises NotKnown."""
    name = found.metadata.name
    kyma = ObjectKey(labels.KCP_NAMESPACE, name.removesuffix(certificates.SUFFIX))
    if not name.endswith(certificates.SUFFIX) or view.find(KYMAS, kyma, _is_there) is not None:
        return Step()
    left = certificates.removal(kyma.name, view, view.setting(Settings), _refused)
    return Step(writes=left.writes, waits=left.waits)


def _is_there(_: Kyma) -> bool:
    """An aspect: whether there is a Kyma. Nothing else of it counts."""
    return True


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message, event_reason=FAILED)


def collections(settings: Settings) -> Sequence[Collection[Any]]:
    """What may be left of a Kyma."""
    return certificates.CERTIFICATES[settings.cert_management], certificates.CERTIFICATE_SECRETS


@dataclass(slots=True)
class LeftoverLogic:
    """Certificates, or their Secrets, for the engine. What fails is logged and shown by an Event."""

    collection: Collection[Any]

    def decide(self, found: Kind, view: View) -> LeftoverStep:
        """As `Logic.decide`."""
        return decide(found, view)

    def unknown(self, found: Kind, view: View, missing: NotKnown) -> LeftoverStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, found: Kind, failure: Failure) -> None:
        """As `Logic.failed`."""
        _log.error("%s of a Kyma that is gone is not deleted: %s", found.ref, failure.message)

    def unexpected(self, found: Kind, message: str) -> None:
        """As `Logic.unexpected`."""
