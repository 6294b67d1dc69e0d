{{- /* What is set: a dictionary without empty texts, lists and dictionaries. */}}
{{- define "stellwerk.set" -}}
{{- $set := dict }}
{{- range $key, $value := . }}
{{- if kindIs "map" $value }}
{{- $inner := include "stellwerk.set" $value | fromYaml }}
{{- if $inner }}{{- $_ := set $set $key $inner }}{{- end }}
{{- else if not (or (kindIs "invalid" $value) (eq (toString $value) "") (and (kindIs "slice" $value) (empty $value))) }}
{{- $_ := set $set $key $value }}
{{- end }}
{{- end }}
{{- toYaml $set }}
{{- end }}

{{- /* What a level of values sets, with podDisruptionBudget as pdb. The image of a program of the original, which does not run
       here, is left out. Takes the values and the operator's file. */}}
{{- define "stellwerk.level" -}}
{{- $values := deepCopy (.values | default dict) }}
{{- with $values.podDisruptionBudget }}
{{- $_ := set $values "pdb" (mergeOverwrite ($values.pdb | default dict) (include "stellwerk.set" . | fromYaml)) }}
{{- end }}
{{- range $prefix := .operator.ignoredImages }}
{{- if hasPrefix $prefix (($values.image).repository | default "") }}
{{- $values = set (omit $values "image") "image" (pick $values.image "pullPolicy") }}
{{- end }}
{{- end }}
{{- toYaml $values }}
{{- end }}

{{- /* The values of a process: its own over those of its operator over the common ones. An empty value is none.
       Takes the root, the operator's file, and the process in it. */}}
{{- define "stellwerk.values" -}}
{{- $own := index .root.Values .operator.key }}
{{- $common := include "stellwerk.level" (dict "values" .root.Values "operator" dict) | fromYaml }}
{{- $values := mergeOverwrite $common (include "stellwerk.level" (dict "values" $own "operator" .operator) | fromYaml | include "stellwerk.set" | fromYaml) }}
{{- if .process.component }}
{{- $component := include "stellwerk.level" (dict "values" (index $own .process.component) "operator" .operator) | fromYaml }}
{{- $values = mergeOverwrite $values (include "stellwerk.set" $component | fromYaml) }}
{{- end }}
{{- toYaml $values }}
{{- end }}

{{- /* A value by its path, as text: labels as a flag spells them. Takes the values and the path. */}}
{{- define "stellwerk.at" -}}
{{- $place := .values }}
{{- range splitList "." .path }}
{{- $place = get ($place | default dict) . }}
{{- end }}
{{- /* Numbers of values are floats, which are printed as 1e+06 from a million on. */}}
{{- if kindIs "float64" $place }}{{ if eq (float64 (int64 $place)) $place }}{{ $place = int64 $place }}{{ end }}{{ end }}
{{- if kindIs "map" $place }}
{{- $pairs := list }}
{{- range $key, $value := $place }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end }}
{{- $place = join "," $pairs }}
{{- end }}
{{- if not (kindIs "invalid" $place) }}{{ toString $place }}{{ end }}
{{- end }}

{{- /* The name of the objects that belong to no operator. */}}
{{- define "stellwerk.release" -}}
{{- .Values.fullnameOverride | default (list .Release.Name .Values.nameOverride | compact | join "-") }}
{{- end }}

{{- define "stellwerk.fullname" -}}
{{- $own := index .root.Values .operator.key }}
{{- $own.fullnameOverride | default $own.nameOverride | default .operator.objectName | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of the objects of a process. */}}
{{- define "stellwerk.processname" -}}
{{- include "stellwerk.suffixed" (merge (dict "base" (include "stellwerk.fullname" .)) .) }}
{{- end }}

{{- define "stellwerk.suffixed" -}}
{{- if .process.suffix }}
{{- printf "%s-%s" (.base | trunc (int (sub 62 (len .process.suffix)))) .process.suffix }}
{{- else if not .process.component }}
{{- .base }}
{{- else }}
{{- .process.account }}
{{- end }}
{{- end }}

{{- define "stellwerk.selector" -}}
{{- $base := (index .root.Values .operator.key).nameOverride | default .operator.objectName | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "stellwerk.suffixed" (merge (dict "base" $base) .) }}
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

{{- /* The labels that only the objects and pods of one process have. */}}
{{- define "stellwerk.own" -}}
{{- $name := include "stellwerk.processname" . }}
{{- range $label, $text := .process.labels }}
{{ $label }}: {{ $text | replace "{name}" $name | replace "{release}" $.root.Release.Name | quote }}
{{- end }}
{{- end }}

{{- define "stellwerk.labels" -}}
{{ include "stellwerk.common" .root }}
{{ include "stellwerk.selector" . }}
{{- include "stellwerk.own" . }}
{{- end }}

{{- define "stellwerk.image" -}}
{{- with .registry }}{{ . }}/{{ end }}
{{- required "image.repository: name the image that you built (make image)" .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default .appVersion }}{{ end }}
{{- end }}

{{- /* Manifests under another name than that of the account, and in the namespace of the release. */}}
{{- define "stellwerk.renamed" -}}
{{- $text := .text | replace "release-namespace-placeholder" .root.Release.Namespace }}
{{- $text = regexReplaceAll (printf "(?m)^(\\s*(?:- )?name: )%s" .account) $text (printf "${1}%s" .name) }}
{{- /* The Secret of a certificate has the name of the Service in front of it; it begins with the authority of a former one. */}}
{{- $former := ternary "" (printf "\n${1}%s-tls" .account) (eq .name .account) }}
{{- regexReplaceAll (printf "(?m)^( *- )%s-tls$" .account) $text (printf "${1}%s-tls%s" .name $former) }}
{{- end }}

{{- /* The manifests of a process that is limited to namespaces, with its Roles in each of them. Takes the values besides what a
       process has. */}}
{{- define "stellwerk.limited" -}}
{{- $ingress := list }}
{{- with .process.limited.ingress }}
{{- $ingress = regexSplit "[\\s,]+" (include "stellwerk.at" (dict "values" $.values "path" .)) -1 | compact }}
{{- if or (empty $ingress) (has "*" $ingress) }}
{{- $place := compact (list $.operator.key $.process.component .) | join "." }}
{{- fail (printf "watchNamespaces: the %s needs Roles in the namespaces of ingress gateways. Name them in %s" $.process.title $place) }}
{{- end }}
{{- end }}
{{- $places := dict "watched-namespace-placeholder" .root.Values.watchNamespaces "ingress-namespace-placeholder" (uniq $ingress) }}
{{- $manifests := list }}
{{- range $body := fromYamlArray .process.limited.manifests }}
{{- range $namespace := get $places ($body.metadata.namespace | default "") | default (list "") }}
{{- $copy := deepCopy $body }}
{{- if $namespace }}{{ $_ := set $copy.metadata "namespace" $namespace }}{{ end }}
{{- $manifests = append $manifests $copy }}
{{- end }}
{{- end }}
{{- toYaml $manifests }}
{{- end }}

{{- /* A namespace: the one that values name, if files/operators leaves it to them. Takes the namespace, and the values besides
       what a process has. */}}
{{- define "stellwerk.place" -}}
{{- $named := get .process.places .namespace | default dict }}
{{- with $named.value }}{{ include "stellwerk.at" (dict "values" $.values "path" .) | default $named.default }}{{ else }}{{ .namespace }}{{ end }}
{{- end }}

{{- /* The namespaces that an operator works on. Takes the root and the operator's file. */}}
{{- define "stellwerk.places" -}}
{{- $context := dict "root" .root "operator" .operator "process" (first .operator.processes) }}
{{- $values := include "stellwerk.values" $context | fromYaml }}
{{- $places := list }}
{{- range .operator.namespaces }}{{ $places = append $places (include "stellwerk.place" (merge (dict "namespace" . "values" $values) $context)) }}{{ end }}
{{- uniq $places | join " and " }}
{{- end }}

{{- /* The ServiceAccount that a process acts as. Takes the values and the name of the process. */}}
{{- define "stellwerk.account" -}}
{{- .values.serviceAccount.name | default .name }}
{{- end }}

{{- /* Roles and bindings of a list of manifests are left out where the values say so, and so is the account of a process. */}}
{{- define "stellwerk.manifests" -}}
{{- $account := .serviceAccount | default (dict "create" true) }}
{{- range .manifests }}
{{- $adds := false }}
{{- range $label, $_ := .metadata.labels }}
{{- if hasPrefix "rbac.authorization.k8s.io/aggregate-to-" $label }}{{ $adds = true }}{{ end }}
{{- end }}
{{- $is_role := hasSuffix "rbac.authorization.k8s.io/v1" .apiVersion }}
{{- $is_account := and (eq .kind "ServiceAccount") (eq .metadata.name $.name) }}
{{- if ternary $.root.Values.rbac.create true $is_role | and (ternary $.root.Values.rbac.aggregate true $adds) (ternary $account.create true $is_account) }}
{{- $_ := set .metadata "labels" (merge (default dict .metadata.labels) $.labels) }}
{{- if $is_account }}
{{- $_ := set .metadata "name" $account.name }}
{{- if $account.annotations }}{{ $_ := set .metadata "annotations" $account.annotations }}{{ end }}
{{- end }}
{{- range .subjects }}
{{- if and (eq .kind "ServiceAccount") (eq .name $.name) }}{{ $_ := set . "name" $account.name }}{{ end }}
{{- end }}
---
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether a process is installed: without webhooks, a server of these alone is not. Takes the values and the process. */}}
{{- define "stellwerk.installed" -}}
{{- if or .values.webhooks.enabled (not .process.servesOnlyWebhooks) }}true{{ end }}
{{- end }}

{{- /* Whether cert-manager certifies the webhooks of a process. Takes the values and the process. */}}
{{- define "stellwerk.certified" -}}
{{- if and .process.webhooks .values.webhooks.enabled (eq (.values.certificateManager | default .values.webhooks.certificates) "CertManager") }}true{{ end }}
{{- end }}

{{- /* What the values set an option to, as text; nothing where that is the default of the program. Takes the option besides
       what a process has. */}}
{{- define "stellwerk.option" -}}
{{- $option := .option }}
{{- $set := include "stellwerk.at" (dict "values" $.values "path" $option.value) }}
{{- if and (eq $set "") $option.common }}
{{- $set = include "stellwerk.at" (dict "values" $.root.Values "path" $option.common) }}
{{- if and $option.isOpposite (ne $set "") }}{{ $set = ternary "false" "true" (eq $set "true") }}{{ end }}
{{- end }}
{{- if and (eq $set "") $option.detected }}
{{- range reverse $option.detected }}
{{- if or (not .api) ($.root.Capabilities.APIVersions.Has .api) }}{{ $set = .value }}{{ end }}
{{- end }}
{{- end }}
{{- if and (eq $set "") $option.derived }}
{{- if include "stellwerk.at" (dict "values" $.values "path" $option.derived.with) }}{{ $set = printf "%s-%s" $.name $option.derived.word }}{{ end }}
{{- end }}
{{- if and $option.file (ne $set "") }}
{{- $set = printf "/etc/stellwerk/files/%s" $option.file }}
{{- end }}
{{- if ne $set $option.default }}{{ $set }}{{ end }}
{{- end }}

{{- /* The flags that a process has of its values, and of what the chart creates for it. */}}
{{- define "stellwerk.flags" -}}
{{- $flags := list }}
{{- range $option := .process.options }}
{{- if not $option.variable }}
{{- with include "stellwerk.option" (merge (dict "option" $option) $) }}{{ $flags = append $flags (printf "--%s=%s" $option.flag .) }}{{ end }}
{{- end }}
{{- end }}
{{- with .process.webhooks }}
{{- $flags = append $flags (printf "--%s=%s" .serviceFlag $.name) }}
{{- if include "stellwerk.certified" $ }}
{{- $flags = concat $flags .certificateFlags }}
{{- end }}
{{- end }}
{{- toYaml (concat $flags (.values.options.extraArgs | default list)) }}
{{- end }}

{{- /* The variables that a process has of its values, in the place of flags. One of extraEnv counts before it. */}}
{{- define "stellwerk.variables" -}}
{{- $others := dict }}
{{- range .values.extraEnv }}{{ $_ := set $others .name true }}{{ end }}
{{- $variables := list }}
{{- range $option := .process.options }}
{{- if and $option.variable (not (hasKey $others $option.variable)) }}
{{- with include "stellwerk.option" (merge (dict "option" $option) $) }}{{ $variables = append $variables (dict "name" $option.variable "value" .) }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $variables }}
{{- end }}

{{- /* The TCP ports that a process may call besides DNS. Takes the values of the process. */}}
{{- define "stellwerk.egressPorts" -}}
{{- $ports := list }}
{{- range .networkPolicy.egressPorts }}{{ $ports = append $ports (int .) }}{{ end }}
{{- with (.versionMonitoring).prometheusAddress }}
{{- $host := regexReplaceAll "^([a-zA-Z]+://)?([^/?#]*).*$" . "${2}" }}
{{- with regexFind ":[0-9]{1,5}$" $host | trimPrefix ":" | int }}
{{- if le . 65535 }}{{ $ports = append $ports . }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml (uniq $ports) }}
{{- end }}

{{- /* The files that the values of a process have the text of. */}}
{{- define "stellwerk.files" -}}
{{- $files := dict }}
{{- range $option := .process.options }}
{{- if $option.file }}
{{- with include "stellwerk.at" (dict "values" $.values "path" $option.value) }}{{ $_ := set $files $option.file . }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $files }}
{{- end }}

{{- /* The ConfigMaps of the user that a process sees: name and folder. Takes the process and its values. */}}
{{- define "stellwerk.configMaps" -}}
{{- $seen := dict }}
{{- range $value, $folder := .process.configMaps }}
{{- with include "stellwerk.at" (dict "values" $.values "path" $value) }}{{ $_ := set $seen . $folder }}{{ end }}
{{- end }}
{{- toYaml $seen }}
{{- end }}

{{- /* The port of a container. Takes the port of the process and its values. */}}
{{- define "stellwerk.port" -}}
{{- with .port.value }}{{ include "stellwerk.at" (dict "values" $.values "path" .) }}{{ else }}{{ .port.number }}{{ end }}
{{- end }}
