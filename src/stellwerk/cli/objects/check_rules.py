"""The rules of `stellwerk check`. Pure.

A CustomResourceDefinition is compared by its fields and not by a version number: the API server silently drops fields
that an older definition lacks, and what the operator writes into them is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from stellwerk.api import rbac
from stellwerk.api.rbac import PolicyRule
from stellwerk.cli.shell import text
from stellwerk.cli.shell.text import Style, Tone, escaped
from stellwerk.delivery import deployed_process
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.conditions import first_of

with lazy_imports(__name__):  # for `check` alone: the verbs that wait use these rules, too
    from stellwerk.delivery import grants, workloads
    from stellwerk.runtime.certificates import certs

if TYPE_CHECKING:
    from stellwerk.delivery.grants import Grant
    from stellwerk.delivery.installation import Webhooks

INSTALLER = "stellwerk"
"""The label `app.kubernetes.io/managed-by` of what `stellwerk install` applies."""
Verdict = Literal["good", "unsure", "warning", "bad"]
_SYMBOLS: dict[Verdict, tuple[str, Tone]] = {
    "good": ("✔", "good"),
    "unsure": ("◌", "dim"),
    "warning": ("✗", "busy"),
    "bad": ("✗", "bad"),
}
_NAMED = 3
_EXPIRES_SOON = timedelta(days=3)
"""As the alert StellwerkCertificateExpiry; a certificate that is renewed has months left."""
SEE_OPERATOR = "see whether the operator runs: kubectl get pods -A (in the local system: stellwerk status)"


@dataclass(frozen=True, slots=True)
class Found:
    """One result. `fix` is the next step; empty where the verdict is good."""

    subject: str
    verdict: Verdict
    detail: str = ""
    fix: str = ""


def of_definition(wanted: JsonObject, live: JsonObject | None, install: str) -> Found:
    """Whether the cluster has a kind as this program knows it."""
    name = f"kind {dig(wanted, 'spec', 'names', 'kind')}"
    if live is None:
        return Found(name, "bad", "its CustomResourceDefinition is not there", install)
    lacking = sorted(set(_fields(wanted)) - set(_fields(live)))
    if lacking:
        return Found(name, "warning", f"its definition is older and lacks {first_of(lacking, _NAMED)}", install)
    return Found(name, "good")


def _fields(definition: JsonObject) -> Iterator[str]:
    """The fields of all versions."""
    versions = dig(definition, "spec", "versions")
    for version in versions if isinstance(versions, list) else []:
        yield from _below(dig(version, "schema", "openAPIV3Schema"), "")


def _below(schema: JsonValue, path: str) -> Iterator[str]:
    properties = dig(schema, "properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        here = f"{path}.{name}".lstrip(".")
        yield here
        yield from _below(inner, here)
    for inner in (dig(schema, "items"), dig(schema, "additionalProperties")):
        if isinstance(inner, dict):
            yield from _below(inner, path)


def of_other_projects(grants: Iterable[Grant], own: Collection[str], served: Collection[str]) -> list[Found]:
    """Whether the cluster serves the kinds of other projects that an operator works with, group by group.

    No absent one is a fault: of two projects that issue certificates a cluster has one, and a user may need none.
    `own`: groups that the operator brings.
    """
    purposes: dict[str, dict[str, None]] = {}
    for grant in grants:
        for group in grant.rule.api_groups:
            is_built_in = "." not in group or group.endswith(".k8s.io")
            if not is_built_in and group not in own:
                purposes.setdefault(group, {})[grant.purpose] = None
    return [
        Found(f"kinds of {group}", "good")
        if group in served
        else Found(f"kinds of {group}", "unsure", f"not served: {'; '.join(without)}")
        for group, without in sorted(purposes.items())
    ]


def of_rights(absent: Sequence[str], lacking: Sequence[str], count: int, install: str) -> Found:
    """Whether the accounts and roles are there, and grant what they are to grant. `lacking`: a line for each."""
    problems = [f"not there: {first_of(absent, _NAMED)}"] if absent else []
    problems += [first_of(lacking, _NAMED, separator="; ")] if lacking else []
    if problems:
        return Found("rights", "warning", "; ".join(problems), install)
    return Found("rights", "good", f"{count} objects")


def lack_of(wanted: JsonObject, live: JsonObject, *, has_equal_role: bool = False) -> str:
    """What a live role or binding lacks, with its name; empty where it grants all that is wanted, or more.

    `has_equal_role`: the other role to which the binding refers grants as much, see `grants_all`.
    """
    ref = Unstructured.of(wanted).ref
    if rules := _rules(wanted):
        needs = grants.lacking(rules, _rules(live))
        return f"{ref} lacks {first_of([str(need) for need in needs], _NAMED)}" if needs else ""
    if other_role(wanted, live) is not None and not has_equal_role:
        return f"{ref} does not refer to {dig(wanted, 'roleRef', 'name')}"
    bound = _subjects(live)
    unbound = [
        f"{namespace}/{name}" for _, namespace, name in _subjects(wanted) if not _is_bound(namespace, name, bound)
    ]
    return f"{ref} lacks ServiceAccount {first_of(unbound, _NAMED)}" if unbound else ""


def other_role(wanted: JsonObject, live: JsonObject) -> JsonObject | None:
    """The role to which a live binding refers; None where it is the wanted one."""
    return role if (role := role_of(live)) != role_of(wanted) else None


def role_of(binding: JsonObject) -> JsonObject:
    """The role to which a binding refers, without its rules."""
    kind, name = dig(binding, "roleRef", "kind"), dig(binding, "roleRef", "name")
    namespace = dig(binding, "metadata", "namespace") if kind == "Role" else ""
    return {"apiVersion": f"{rbac.GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def grants_all(wanted: JsonObject, live: JsonObject) -> bool:
    """Whether a live role of any name grants what the wanted one does, of which the rules are known."""
    return bool(rules := _rules(wanted)) and not grants.lacking(rules, _rules(live))


def _rules(role: JsonObject) -> tuple[PolicyRule, ...]:
    return msgspec.convert(role.get("rules") or (), tuple[PolicyRule, ...])


def _subjects(binding: JsonObject) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of each."""
    subjects = binding.get("subjects")
    return [
        (str(dig(subject, "kind")), str(dig(subject, "namespace") or ""), str(dig(subject, "name")))
        for subject in (subjects if isinstance(subjects, list) else ())
    ]


def _is_bound(namespace: str, name: str, subjects: Collection[tuple[str, str, str]]) -> bool:
    """Whether a ServiceAccount is among the subjects: by itself, by its user name, or by one of its groups."""
    groups = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    ways = {("ServiceAccount", namespace, name), ("User", "", f"system:serviceaccount:{namespace}:{name}")}
    return not ways.union(("Group", "", group) for group in groups).isdisjoint(subjects)


@dataclass(frozen=True, slots=True)
class OperatorDeployment:
    """A Deployment of an operator: ours, or that of the original."""

    body: Unstructured
    is_original: bool = False

    @property
    def account(self) -> str:
        """The ServiceAccount of its pods."""
        return str(self.body.at("spec", "template", "spec", "serviceAccountName") or "default")

    @property
    def name_of_roles(self) -> str:
        """The beginning of the names of its roles: its own where the chart made it, else that of its account."""
        return self.body.key.name if self.is_of_chart else self.account

    @property
    def is_of_chart(self) -> bool:
        """Whether the chart of this product made it, rather than that of the original."""
        return self.body.metadata.labels.get("app.kubernetes.io/part-of") == INSTALLER

    @property
    def replicas(self) -> int:
        """How many pods it is to have."""
        count = self.body.at("spec", "replicas")
        return count if isinstance(count, int) else 1

    @property
    def available(self) -> int:
        """How many pods of it are available."""
        count = self.body.at("status", "availableReplicas")
        return count if isinstance(count, int) else 0

    @property
    def look(self) -> str:
        """The command that shows its pods, and the one that shows what they log."""
        key, labels = self.body.key, workloads.selector(self.body)
        pods = f"kubectl get pods -n {key.namespace}{f' -l {labels}' if labels else ''}"
        return f"{pods} && kubectl logs deployment/{key.name} -n {key.namespace} --all-containers"

    @property
    def release(self) -> str:
        """The Helm release that it is of; empty where Helm did not install it."""
        return self.body.metadata.annotations.get("meta.helm.sh/release-name", "")

    @property
    def origin(self) -> str:
        """What installed it."""
        by_install = self.body.metadata.labels.get("app.kubernetes.io/managed-by") == INSTALLER
        how = f"Helm release {self.release}" if self.release else "stellwerk install" if by_install else ""
        return f"{'the original, ' if self.is_original else ''}{how}"

    def upgrade(self, operator: str) -> str:
        """How the kinds and rights of this version are applied where the operator is installed.

        A release of the original's chart, in which only the container was changed, has values that this chart refuses.
        """
        namespace = self.body.key.namespace
        if self.release and not self.is_of_chart:
            return f"take over the Helm release {self.release} of the original: docs/upgrade.md"
        if self.release:
            return f"helm upgrade {self.release} deploy/chart/stellwerk -n {namespace} --reset-then-reuse-values"
        return f"stellwerk install {operator} -n {namespace}"


def deployments_of(operator: str, original: str, among: Sequence[Unstructured]) -> list[OperatorDeployment]:
    """The Deployments that run an operator: ours by their command, the original's by its name."""
    ours = [
        OperatorDeployment(body)
        for body in among
        if any(process.runs(operator) for process in deployed_process.of_deployment(body))
    ]
    originals = [body for body in among if deployed_process.is_original(body, original)]
    return ours + [OperatorDeployment(body, is_original=True) for body in originals]


def of_deployments(deployments: Sequence[OperatorDeployment], causes: Mapping[ObjectKey, str]) -> list[Found]:
    """What installed the operator, and whether its pods are available. `causes`: why those of a Deployment are not."""
    found = [_of_deployment(each, causes.get(each.body.key, "")) for each in deployments]
    active = [each for each in deployments if each.replicas]
    originals = [each for each in active if each.is_original]
    if originals and len(active) > len(originals):
        key = originals[0].body.key
        fix = f"kubectl scale deployment {key.name} -n {key.namespace} --replicas=0"
        found.append(Found("installation", "warning", "the original runs, too", fix))
    return found


def _of_deployment(deployment: OperatorDeployment, cause: str) -> Found:
    key, available = deployment.body.key, deployment.available
    origin = f" ({deployment.origin.removesuffix(', ')})" if deployment.origin else ""
    detail = f"Deployment {key}{origin}: {available} of {deployment.replicas} replicas available"
    if available >= deployment.replicas:
        return Found("installation", "good" if deployment.replicas else "unsure", detail)
    verdict: Verdict = "warning" if available else "bad"
    why = f"; {cause}" if cause else ""
    return Found("installation", verdict, detail + why, deployment.look)


def of_webhooks(configuration: Unstructured, served: str, now: datetime, fix: str) -> Found:
    """Whether API servers can ask the webhooks of a configuration.

    `served`: the certificate that the webhook server presents, PEM in base64; empty where it is not known.
    """
    ref, listed = configuration.ref, configuration.at("webhooks")
    bundles = [dig(webhook, "clientConfig", "caBundle") for webhook in (listed if isinstance(listed, list) else ())]
    if not all(bundles):
        detail = f"{ref} has no caBundle, so API servers trust no answer and may refuse what it is about"
        return Found("webhooks", "warning", detail, fix)
    # A bundle keeps the former authority for a while; of a chain, the first is the certificate of the server.
    known = [
        ("the authority in its caBundle", max(_ends(bundle), default=None))
        for bundle in dict.fromkeys(map(str, bundles))
    ]
    known += [("the certificate that the webhook server presents", next(_ends(served), None))] if served else []
    for name, ends in known:
        if ends is None:
            return Found("webhooks", "warning", f"{ref}: {name} cannot be read", fix)
        if ends <= now:
            return Found("webhooks", "warning", f"{ref}: {name} expired {text.age(ends, now)} ago", fix)
        if ends - now < _EXPIRES_SOON:
            return Found("webhooks", "warning", f"{ref}: {name} expires in {text.age(now, ends)}", fix)
    return Found("webhooks", "good", str(ref))


def served_certificate(deployment: OperatorDeployment, process: str, webhooks: Webhooks, own: str) -> tuple[str, str]:
    """The Secret with the certificate that a webhook server presents, and its key there; empty where it is not known.

    `own`: the Secret of the certificate that the server makes itself, unless it is to serve another.
    """
    for each in deployed_process.of_deployment(deployment.body):
        if each.runs(process):
            file = webhooks.certificate_file(each.words, each.variables)
            return deployed_process.mounted_secret(deployment.body, each.container, file) if file else (own, "tls.crt")
    return "", ""


def _ends(encoded: str) -> Iterator[datetime]:
    """When the certificates expire, without those that cannot be read."""
    try:
        pem = base64.b64decode(encoded)
    except ValueError:
        return
    for each in certs.split(pem):
        if (end := certs.facts(certs.KeyPair(each, b"")).ends) is not None:
            yield end


def of_leases(leases: Sequence[Unstructured], now: datetime, look: str = SEE_OPERATOR) -> Found:
    """Which process leads, and whether it renews its Lease. `look`: how the user sees whether it runs."""
    held = [lease for lease in leases if lease.at("spec", "holderIdentity")]
    if not held:
        detail = "no process holds the Lease: the operator does not run, or runs without --leader-elect"
        return Found("leader", "unsure", detail, look)
    lease = held[0]
    holder, renewed = lease.at("spec", "holderIdentity"), _moment(lease.at("spec", "renewTime"))
    seconds = lease.at("spec", "leaseDurationSeconds")
    lasts = timedelta(seconds=seconds if isinstance(seconds, int) else 0)
    if len(held) > 1:
        places = ", ".join(sorted(one.key.namespace for one in held))
        return Found("leader", "warning", f"Leases are held in {places}", "run one operator for a cluster")
    if renewed is None or now - renewed > 2 * lasts:
        since = text.age(renewed, now)
        return Found("leader", "warning", f"{holder} has not renewed the Lease {lease.key} for {since}", look)
    return Found("leader", "good", f"{holder}, renewed {text.age(renewed, now)} ago")


def of_objects(kind: str, unready: Sequence[str], count: int) -> Found:
    """Whether the objects of a kind are well."""
    if unready:
        detail = f"{len(unready)} of {count} not ready: {first_of(unready, _NAMED)}"
        return Found(f"{kind} objects", "warning", detail, "stellwerk why -A")
    return Found(f"{kind} objects", "good", f"{count} looked at")


def of_unwatched(kind: str, namespaces: Collection[str], watched: Sequence[str]) -> list[Found]:
    """The objects of a kind that an operator does not see, because it is limited to namespaces. `namespaces`: of each
    object; empty for one without."""
    elsewhere = [each for each in namespaces if watched and each and each not in watched]
    if not elsewhere:
        return []
    detail = (
        f"{len(elsewhere)} in namespaces that are not watched: {first_of(sorted(set(elsewhere)), _NAMED)} "
        f"(watched: {first_of(watched, _NAMED)})"
    )
    return [Found(f"{kind} objects elsewhere", "warning", detail, "add their namespaces to the value watchNamespaces")]


def of_unread(hidden: Sequence[str]) -> list[Found]:
    """What could not be judged."""
    if not hidden:
        return []
    return [
        Found("not looked at", "warning", f"you may not read {', '.join(hidden)}", "ask for the right, or use --as")
    ]


def _moment(value: JsonValue) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None


# ---- looks


def shown(found: Sequence[Found], style: Style) -> list[str]:
    """A line for each, and what to do below it."""
    width = max((len(one.subject) for one in found), default=0)
    lines = []
    for one in found:
        symbol, tone = _SYMBOLS[one.verdict]
        lines.append(
            f"{style.painted(style.drawn(symbol), tone)} {one.subject:{width}}  {escaped(one.detail)}".rstrip()
        )
        if one.fix:
            lines.append(f"  {'':{width}}  Fix: {one.fix}")
    return lines


def as_json(found: Sequence[Found]) -> JsonObject:
    """The same for programs."""
    return {
        "checks": [
            {"subject": one.subject, "verdict": one.verdict, "detail": one.detail, "fix": one.fix} for one in found
        ]
    }


def of_unreadable(objects: Sequence[str]) -> list[Found]:
    """Objects that exist and are not what their kinds promise: an operator skips them."""
    fix = "correct the field that is named, with kubectl edit, or delete the object"
    return [Found("unreadable object", "warning", f"an object cannot be read: {each}", fix) for each in objects]
