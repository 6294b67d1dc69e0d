"""A small chart in the form of the original's: its values are those of a CAPOperator, at the root."""

from __future__ import annotations

from pathlib import Path

DEFINITIONS = Path(__file__).parents[3] / "deploy" / "crds"
BROUGHT = ("capapplications.sme.sap.com", "captenants.sme.sap.com")
"""The kinds that the chart defines."""

_VALUES = """\
controller:
  replicas: 1
  dnsTarget: ""
subscriptionServer:
  replicas: 1
  domain: ""
  dnsTarget: ""
  ingressGatewayLabels: {istio: ingressgateway, app: istio-ingressgateway}
webhook:
  replicas: 1
  certificateManager: Default
"""

_RIGHTS = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}-controller
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .Release.Namespace }}-controller
rules:
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
  FURTHER
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .Release.Namespace }}-controller
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .Release.Namespace }}-controller}
subjects:
  - {kind: ServiceAccount, name: {{ .Release.Name }}-controller, namespace: {{ .Release.Namespace }}}
"""

_DEPLOYMENTS = """\
{{- range $name, $part := dict "controller" .Values.controller "subscription-server" .Values.subscriptionServer }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $.Release.Name }}-{{ $name }}
spec:
  replicas: {{ $part.replicas }}
  selector:
    matchLabels: {operator.sme.sap.com/app: {{ $.Release.Name }}-{{ $name }}}
  template:
    metadata:
      labels: {operator.sme.sap.com/app: {{ $.Release.Name }}-{{ $name }}}
ANNOTATIONS    spec:
      containers:
        - name: {{ $name }}
          image: example.com/{{ $name }}:{{ $.Chart.AppVersion }}
          env:
            - {name: DNS_TARGET, value: {{ $part.dnsTarget | quote }}}
            {{- if $.Capabilities.APIVersions.Has "cert-manager.io/v1/Certificate" }}
            - {name: CERT_MANAGER, value: cert-manager.io}
            {{- end }}
{{- end }}
"""

_GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata:
  name: {{ .Release.Name }}
spec:
  selector:
    {{- toYaml .Values.subscriptionServer.ingressGatewayLabels | nindent 4 }}
  servers:
    - hosts: [{{ .Values.subscriptionServer.domain }}]
      port: {name: https, number: 443, protocol: HTTPS}
      tls: {mode: SIMPLE, credentialName: {{ .Release.Name }}}
"""

_CERTIFICATE = """\
{{- $name := printf "%s-webhook-tls" .Release.Name }}
{{- $former := lookup "v1" "Secret" .Release.Namespace $name }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
data:
  {{- if $former }}
  {{- toYaml $former.data | nindent 2 }}
  {{- else }}
  {{- $authority := genCA "authority" 3650 }}
  {{- $pair := genSignedCert $name nil (list $name) 1000 $authority }}
  ca.crt: {{ $authority.Cert | b64enc }}
  tls.crt: {{ $pair.Cert | b64enc }}
  tls.key: {{ $pair.Key | b64enc }}
  {{- end }}
"""


def write(folder: Path, *, version: str = "1", fate: str = "", grants: str = "") -> Path:
    """The chart, in a version of the pods' image; `fate` is that of its pods, `grants` a further rule.

    Returns its folder.
    """
    annotations = f"      annotations: {{stellwerk.local/fate: {fate}}}\n" if fate else ""
    files = {
        "Chart.yaml": f"apiVersion: v2\nname: cap-operator\nversion: 0.1.0\nappVersion: '{version}'\n",
        "values.yaml": _VALUES,
        "templates/rights.yaml": _RIGHTS.replace("FURTHER", f"- {grants}" if grants else ""),
        "templates/deployments.yaml": _DEPLOYMENTS.replace("ANNOTATIONS", annotations),
        "templates/gateway.yaml": _GATEWAY,
        "templates/certificate.yaml": _CERTIFICATE,
        **{f"crds/{name}.yaml": (DEFINITIONS / f"{name}.yaml").read_text() for name in BROUGHT},
    }
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder
