{{- /* The values of an operator over the common ones. Takes the root and the operator's file. */}}
{{- define "stellwerk.values" -}}
{{- $own := index .root.Values .operator.key }}
{{- toYaml (mergeOverwrite (deepCopy .root.Values) (deepCopy $own)) }}
{{- end }}

{{- define "stellwerk.fullname" -}}
{{- $own := index .root.Values .operator.key }}
{{- $own.fullnameOverride | default $own.nameOverride | default .operator.account | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "stellwerk.selector" -}}
app.kubernetes.io/name: {{ (index .root.Values .operator.key).nameOverride | default .operator.account | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "stellwerk.common" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: stellwerk
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "stellwerk.labels" -}}
{{ include "stellwerk.common" .root }}
{{ include "stellwerk.selector" . }}
{{- end }}

{{- define "stellwerk.image" -}}
{{- with .registry }}{{ . }}/{{ end }}
{{- required "image.repository: name the image that you built (make image)" .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default .appVersion }}{{ end }}
{{- end }}

{{- /* Manifests of an operator under the name of its account and in the namespace of the release. */}}
{{- define "stellwerk.renamed" -}}
{{- $name := include "stellwerk.fullname" . }}
{{- $text := .text | replace "release-namespace-placeholder" .root.Release.Namespace }}
{{- regexReplaceAll (printf "(?m)^(\\s*(?:- )?name: )%s" .operator.account) $text (printf "${1}%s" $name) }}
{{- end }}
