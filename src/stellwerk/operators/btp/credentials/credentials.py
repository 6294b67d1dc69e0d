"""The required Secret, and what the operand still runs with when the Secret has changed (pure).

Two values of the Secret cannot simply be written through to the operand. The operand keeps the cluster id that it first
saw in a Secret of its own and refuses to start with another; and its credentials Secret is in a namespace of the
user's choice, where the former one would stay behind. So both are compared, remembered on the required Secret, and
cleaned up after the new values are in place. Every step is decided from what is there, so a restart at any point goes
on where the former process stopped: while both credentials Secrets exist, the annotation shows which is the old one.

Values of Secrets are in the fields that need them and in no text form.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from stellwerk.api.core import Pod
from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.identifiers import SYSTEM_NAMESPACES, ObjectKey
from stellwerk.operators.btp import api
from stellwerk.operators.btp.reasons import Reason

REQUIRED_KEYS = ("clientid", "clientsecret", "sm_url", "tokenurl", "cluster_id")
"""What the Secret must have, in the order in which messages name it."""

CLUSTER_ID_KEY = "cluster_id"
CREDENTIALS_NAMESPACE_KEY = "credentials_namespace"
INITIAL_CLUSTER_ID_KEY = "INITIAL_CLUSTER_ID"
"""In the operand's own Secret."""

NAMESPACE_KEYS = ("RELEASE_NAMESPACE", "MANAGEMENT_NAMESPACE")
"""In the operand's ConfigMap: where the operand keeps its cluster id, and where it looks for credentials."""

PLAIN_KEYS = frozenset(
    {CLUSTER_ID_KEY, CREDENTIALS_NAMESPACE_KEY, INITIAL_CLUSTER_ID_KEY, "RELEASE_NAMESPACE", "ca.crt", "tls.crt"}
)
"""What is in our Secrets and no secret: ids and namespaces that messages name, and certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BtpCredentials:
    """The content of a complete required Secret. `operand_data` is that of the operand's Secret: base64 text by key."""

    namespace: str
    """Where the operand's credentials Secret belongs."""
    cluster_id: str
    operand_data: Mapping[str, str] = field(repr=False)
    previous_namespace: str = ""
    """Remembered from a move that may not be finished; empty when there never was one."""
    previous_cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class SecretProblem:
    """Why the required Secret is of no use: the reason and message that the CR shows."""

    reason: Reason
    message: str
    may_pass: bool = False
    """The Secret may be good: the Secret did not fail, so no change of it shows that it works."""


def missing(key: ObjectKey) -> SecretProblem:
    """The Secret is not there, or not for us."""
    return SecretProblem(Reason.MissingSecret, f"{key.name} Secret in {key.namespace} namespace not found")


def unreadable(key: ObjectKey, cause: str) -> SecretProblem:
    """The Secret could not be read for another reason than that it is absent."""
    return SecretProblem(Reason.InvalidSecret, f"Secret {key} could not be read: {cause}", may_pass=True)


def is_for_us(labels: Mapping[str, str]) -> bool:
    """Whether a Secret is labelled as the environment broker's or ours; any other is as good as absent."""
    return labels.get(api.MANAGED_BY_LABEL) in (api.OPERATOR_NAME, api.BROKER_NAME)


def read(
    data: Mapping[str, str], annotations: Mapping[str, str], *, default_namespace: str
) -> BtpCredentials | SecretProblem:
    """The content of a required Secret, or what it lacks. `data` is base64 text by key, as the API carries it."""
    if complaints := _complaints(data, default_namespace):
        return SecretProblem(Reason.InvalidSecret, ", ".join(complaints))
    not_for_the_operand = (CLUSTER_ID_KEY, CREDENTIALS_NAMESPACE_KEY)
    return BtpCredentials(
        namespace=text(data, CREDENTIALS_NAMESPACE_KEY) or default_namespace,
        cluster_id=text(data, CLUSTER_ID_KEY),
        operand_data={key: value for key, value in data.items() if key not in not_for_the_operand},
        previous_namespace=annotations.get(api.PREVIOUS_CREDENTIALS_NAMESPACE_ANNOTATION, ""),
        previous_cluster_id=annotations.get(api.PREVIOUS_CLUSTER_ID_ANNOTATION, ""),
    )


def _complaints(data: Mapping[str, str], default_namespace: str) -> list[str]:
    """In the words of the original operator, which name keys and never values."""
    absent = [key for key in REQUIRED_KEYS if key not in data]
    empty = [key for key in REQUIRED_KEYS if data.get(key) == ""]
    as_text = (*REQUIRED_KEYS, CREDENTIALS_NAMESPACE_KEY)
    garbled = [key for key in as_text if data.get(key) and _text(data[key]) is None]
    complaints = [f"key(s) {', '.join(absent)} not found"] if absent else []
    complaints += [f"missing value(s) for {', '.join(empty)} key(s)"] if empty else []
    complaints += [f"value(s) of {', '.join(garbled)} key(s) not readable as text"] if garbled else []
    if "\0" in text(data, CLUSTER_ID_KEY):
        # The operand gets it as an environment variable, which takes any other text, also with a newline at its end. It
        # is passed on as it is: the operand has stored it in this form, and does not start with another one.
        complaints += [f"value of {CLUSTER_ID_KEY} has a NUL character"]
    namespace = text(data, CREDENTIALS_NAMESPACE_KEY)
    if namespace and namespace != default_namespace:
        complaints += [f"value of {CREDENTIALS_NAMESPACE_KEY} {why}" for why in _of_namespace(namespace)]
    return complaints


def _of_namespace(namespace: str) -> Iterator[str]:
    """Why the credentials may not be there. The Secret names where we write, with rights that its author may lack."""
    if namespace in SYSTEM_NAMESPACES:
        yield "names a namespace of the cluster's own"
    elif not name_validation.is_namespace(namespace):
        yield "cannot be the name of a namespace"


def is_cluster_id(text: str) -> bool:
    """Whether a text that others may have written is fit for an annotation and a message, as any cluster ID is."""
    return re.fullmatch(r"[!-~]{1,253}", text) is not None


def _shown(cluster_id: str | None) -> str:
    return cluster_id if cluster_id and is_cluster_id(cluster_id) else "a value that is no cluster ID"


def _text(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:  # base64 or UTF-8
        return None


def text(data: Mapping[str, str], key: str) -> str:
    """A value as text; empty where there is none, or it is no text. `data` is base64 text by key."""
    return _text(data.get(key, "")) or ""


def secret_texts(data: Mapping[str, str]) -> Iterator[str]:
    """The values that must not be shown, as text and as a server may quote them: in base64, and a part of a URL alone.

    `data` is base64 text by key.
    """
    for key, value in data.items():
        if key in PLAIN_KEYS or not value:
            continue
        yield value
        if (plain := _text(value)) is not None:
            yield plain
            yield from _of_url(plain)


_USER_INFO = re.compile(r"[a-z][a-z0-9+.-]{0,20}://([^/?#@\s]{0,1024})@")


def _of_url(text: str) -> Iterator[str]:
    """User and password in a URL, as they are written and as they are meant."""
    if found := _USER_INFO.match(text):
        for part in found[1].split(":", 1):
            yield from {part, unquote(part)}


# ---- what the operand runs with


@dataclass(frozen=True, slots=True)
class Drift:
    """The operand runs with something else than the required Secret asks for: what a Ready CR turns to."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsComparison:
    """What the required Secret asks for, compared with what the operand has.

    It may be taken again at any point of a move; what is done already is then no longer asked for.
    """

    wanted: BtpCredentials
    namespace: str
    """The namespace of the operand's credentials Secret; where it belongs when there is none."""
    found: Collection[str] = ()
    """All namespaces with a credentials Secret of the operand: also those of moves that a later one has overtaken."""
    config_cluster_id: str | None
    """In the operand's ConfigMap; None when there is no ConfigMap."""
    initial_cluster_id: str | None
    """In the operand's own Secret; None when there is no Secret."""

    @property
    def namespace_changed(self) -> bool:
        """Whether the credentials Secret is in another namespace."""
        return self.namespace != self.wanted.namespace

    @property
    def config_differs(self) -> bool:
        """Whether the operand is configured with another cluster id."""
        return self.config_cluster_id is not None and self.config_cluster_id != self.wanted.cluster_id

    @property
    def initial_differs(self) -> bool:
        """Whether the operand remembers another cluster id than it is to have, and so cannot start with that.

        The original compares with the configuration that is there, and lets the operand crash once in between.
        """
        return bool(self.initial_cluster_id) and self.initial_cluster_id != self.wanted.cluster_id

    @property
    def drift(self) -> Drift | None:
        """Why a Ready module must be provisioned again; None while all agrees."""
        if self.namespace_changed:
            return Drift(
                Reason.CredentialsNamespaceChanged,
                f"credentials namespace changed from {self.namespace} to {self.wanted.namespace}",
            )
        if self.config_differs:
            return self._other_cluster_id(self.config_cluster_id)
        if self.initial_differs:  # the original sees this only once the operand crashes
            return self._other_cluster_id(self.initial_cluster_id)
        return None

    def _other_cluster_id(self, old: str | None) -> Drift:
        former, wanted = _shown(old), _shown(self.wanted.cluster_id)
        return Drift(Reason.ClusterIdChanged, f"cluster ID changed from {former} to {wanted}")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The old values, to be remembered on the required Secret before the new ones are applied.

        Those that are set already are left out.
        """
        old_namespace = self.namespace if self.namespace_changed else ""
        old = (
            (api.PREVIOUS_CREDENTIALS_NAMESPACE_ANNOTATION, old_namespace, self.wanted.previous_namespace),
            (api.PREVIOUS_CLUSTER_ID_ANNOTATION, self._old_cluster_id, self.wanted.previous_cluster_id),
        )
        return {key: value for key, value, known in old if value and value != known}

    @property
    def stale_cluster_id_secret(self) -> ObjectKey | None:
        """To be deleted before that, and failing operand pods with it: they cannot start while it is there."""
        return ObjectKey(self.namespace, api.CLUSTER_ID_SECRET_NAME) if self.initial_differs else None

    @property
    def restarts_operand(self) -> bool:
        """Whether pods that work are deleted, too: nothing else will replace them, and they remember the stale id."""
        return self.initial_differs and self.config_cluster_id == self.wanted.cluster_id

    @property
    def _old_cluster_id(self) -> str:
        """What the annotation remembers; empty for a text that is no cluster ID, because others may have written it."""
        old = self.initial_cluster_id if self.initial_differs else self.config_cluster_id if self.config_differs else ""
        return old if old and is_cluster_id(old) else ""

    @property
    def former_secrets(self) -> tuple[ObjectKey, ...]:
        """What belongs to the old values, to be deleted once the new ones are applied and the module is ready."""
        id_changed = bool(self.config_cluster_id) and (self.config_differs or self.initial_differs)
        former = sorted({self.namespace, *self.found} - {self.wanted.namespace})
        stale_ids = sorted({*former, self.namespace}) if id_changed else former
        return (
            *(ObjectKey(namespace, api.CLUSTER_ID_SECRET_NAME) for namespace in stale_ids),
            *(ObjectKey(namespace, api.OPERAND_SECRET_NAME) for namespace in former),
        )


def possible_namespaces(
    wanted: BtpCredentials | SecretProblem, config: Mapping[str, str], recorded: Iterable[str] = ()
) -> tuple[str, ...]:
    """Where the operand's credentials Secret may be: only an administrator of the chart namespace decides this.

    `config` is the data of the operand's ConfigMap, `recorded` the namespaces in the record of the last installation.
    """
    named = {*recorded, *(config.get(key, "") for key in NAMESPACE_KEYS)}
    if isinstance(wanted, BtpCredentials):
        named |= {wanted.namespace, wanted.previous_namespace}
    return tuple(sorted(namespace for namespace in named if name_validation.is_namespace(namespace)))


def operand_namespace(found: Iterable[str], wanted: BtpCredentials) -> str:
    """Where the operand's credentials Secret is, from the namespaces in which one was found.

    While a move is unfinished there are two, and the annotation names the old one.
    """
    namespaces = sorted(found)
    if wanted.previous_namespace in namespaces:
        return wanted.previous_namespace
    return next(iter(namespaces), wanted.namespace)


def pods_to_restart(pods: Iterable[Pod], chart_namespace: str, *, failing_only: bool) -> tuple[Pod, ...]:
    """Of pods with the operand's instance label its own in the chart namespace; if asked, only those not ready."""
    return tuple(
        pod
        for pod in sorted(pods, key=lambda pod: pod.key)
        if pod.key.namespace == chart_namespace
        and pod.key.name.startswith(api.OPERAND_NAME)
        and not (failing_only and pod.is_ready is not False)
    )
