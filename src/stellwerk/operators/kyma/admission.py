"""Checks of Kymas before an API server stores them: a ValidatingAdmissionPolicy, which no process has to answer.

The original stores what the checks refuse and shows it in the status, so an administrator has to ask for them: the
chart installs them in the control plane, and `deploy/admission/kyma.yaml` is for remote clusters, in which users edit
their Kyma. They look at what a write changes, so a Kyma that was stored before can still be changed in other ways.

An unknown module is not refused: a policy sees the Kyma alone, and the modules are in other objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from stellwerk.api.admission import GROUP
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_status import State

NAME = f"checks.{Kyma.resource.plural}.{Kyma.resource.group}"
FILE = "deploy/admission/kyma.yaml"
SWITCH = "admissionChecks"
"""The value of the chart that installs them."""

_NONE = labels.NO_CHANNEL
_SEE_CHANNELS = "see the channels of modules: kubectl get mrm -A -o yaml"
_CHANGES_SPEC = "request.operation == 'CREATE' || object.spec != oldObject.spec"
_STAYS_NONE = f"(oldObject != null && oldObject.spec.channel == '{_NONE}')"
_HAD_MODULES = "oldObject != null && has(oldObject.spec.modules)"
_MODULES = "(has(object.spec.modules) ? object.spec.modules : [])"
_IS_NONE = f"has(m.channel) && m.channel == '{_NONE}'"
_WAS_NONE = (
    f"({_HAD_MODULES} && oldObject.spec.modules.exists(o, o.name == m.name && o.?channel.orValue('') == '{_NONE}'))"
)
_NEW_NONE = f"{_MODULES}.filter(m, {_IS_NONE} && !{_WAS_NONE}).map(m, m.name)"
_STATUSES = "(oldObject != null ? oldObject.?status.?modules.orValue([]) : [])"
_HAS_OBJECTS = (
    f"{_STATUSES}.exists(s, s.name == o.name && s.?version.orValue('') != '' && s.state != '{State.Unmanaged}')"
)
_STAYS = f"{_MODULES}.exists(m, m.name == o.name)"
_TOO_EARLY = (
    f"({_HAD_MODULES} ? oldObject.spec.modules : [])"
    f".filter(o, !o.managed && !{_STAYS} && {_HAS_OBJECTS}).map(o, o.name)"
)


def objects() -> Sequence[JsonObject]:
    """The policy and its binding."""
    resource = Kyma.resource
    validations: list[JsonValue] = [
        {
            "expression": f"object.spec.channel != '{_NONE}' || {_STAYS_NONE}",
            "message": f"spec.channel: {_NONE} is no channel; {_SEE_CHANNELS}",
        },
        {
            "expression": "size(variables.withoutChannel) == 0",
            "messageExpression": f"'spec.modules: {_NONE} is no channel, and that of ' "
            f"+ variables.withoutChannel.join(', ') + '; {_SEE_CHANNELS}'",
        },
        {
            "expression": "size(variables.tooEarly) == 0",
            "messageExpression": "'spec.modules: ' + variables.tooEarly.join(', ') + ' must not be removed while its "
            f"objects still become unmanaged: they would be deleted; wait for its state {State.Unmanaged}: "
            "kubectl get kyma -A -o yaml'",
        },
    ]
    rule: JsonObject = {
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural],
    }
    policy: JsonObject = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "changes-the-spec", "expression": _CHANGES_SPEC}],
        "variables": [
            {"name": "withoutChannel", "expression": _NEW_NONE},
            {"name": "tooEarly", "expression": _TOO_EARLY},
        ],
        "validations": validations,
    }
    binding: JsonObject = {"policyName": NAME, "validationActions": ["Deny"]}
    return [_named("ValidatingAdmissionPolicy", policy), _named("ValidatingAdmissionPolicyBinding", binding)]


def _named(kind: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": NAME}, "spec": spec}


def template() -> str:
    """The template of the chart that installs both if the values ask for it."""
    bodies = yaml.safe_dump([*objects()], sort_keys=False, width=1_000)
    return f"""{{{{- $operator := .Files.Get "files/operators/kymaLifecycleManager.yaml" | fromYaml }}}}
{{{{- $own := index .Values $operator.key }}}}
{{{{- if and $own.enabled $own.{SWITCH} }}}}
{{{{- $context := dict "root" . "operator" $operator "process" (first $operator.processes) }}}}
{{{{- $bodies := `
{bodies}` }}}}
{{{{- range fromYamlArray $bodies }}}}
{{{{- $_ := set .metadata "labels" (include "stellwerk.labels" $context | fromYaml) }}}}
---
{{{{ toYaml . }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
