{{- define "shared.who" -}}the child{{- end }}
