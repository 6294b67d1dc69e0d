{{ define "who" }}the parent, {{ .Chart.Name }}{{ end }}
