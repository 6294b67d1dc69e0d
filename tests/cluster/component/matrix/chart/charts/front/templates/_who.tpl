{{ define "who" }}the front{{ end }}
