{{- define "matrix.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end }}
{{- define "shared.who" -}}the parent{{- end }}
{{- define "recursive" -}}{{ if gt (int .) 0 }}{{ . }} {{ include "recursive" (sub (int .) 1) }}{{ end }}{{- end }}
