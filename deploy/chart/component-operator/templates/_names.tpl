{{- define "component-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "component-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "component-operator.selector" -}}
app.kubernetes.io/name: {{ include "component-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "component-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "component-operator.selector" . }}
{{- end }}

{{- define "component-operator.subject" -}}
- kind: ServiceAccount
  name: {{ include "component-operator.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Whether the operator is cluster-admin: as the values say, else unless tenancy is strict. */}}
{{- define "component-operator.clusterAdmin" -}}
{{- if kindIs "bool" .Values.rbac.clusterAdmin }}{{ .Values.rbac.clusterAdmin }}{{ else }}{{ ne .Values.options.tenancy "strict" }}{{ end }}
{{- end }}
