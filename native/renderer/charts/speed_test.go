package charts_test

import (
	"fmt"
	"testing"

	"stellwerk/renderer/charts"
	"stellwerk/renderer/wire"
)

// thirtyObjects is a chart like many: named templates with labels, thirty manifests of moderate size.
func thirtyObjects() map[string][]byte {
	files := map[string][]byte{
		"Chart.yaml":  []byte("apiVersion: v2\nname: thirty\nversion: 1.0.0\nappVersion: 2.0.0\n"),
		"values.yaml": []byte("image: {repository: registry.example.com/app, tag: v1}\nreplicas: 2\nresources: {limits: {cpu: 1}}\n"),
		"templates/_names.tpl": []byte(`{{- define "thirty.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}`),
	}
	for number := range 15 {
		files[fmt.Sprintf("templates/deployment-%02d.yaml", number)] = fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-%d
  labels: {{- include "thirty.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {{- include "thirty.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "thirty.labels" . | nindent 8 }}
    spec:
      containers:
        - name: app
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
          ports:
            - {name: http, containerPort: 8080, protocol: TCP}
          livenessProbe: {httpGet: {path: /healthz, port: http}}
          resources: {{- toYaml .Values.resources | nindent 12 }}
`, number)
		files[fmt.Sprintf("templates/service-%02d.yaml", number)] = fmt.Appendf(nil, `apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-%d
  labels: {{- include "thirty.labels" . | nindent 4 }}
spec:
  ports:
    - {name: http, port: 80, targetPort: http}
  selector: {{- include "thirty.labels" . | nindent 4 }}
`, number)
	}
	return files
}

func BenchmarkThirtyObjects(b *testing.B) {
	req := request(thirtyObjects(), "")
	for b.Loop() {
		found, _, err := charts.Render(req, req.Files, nil, wire.Uses{})
		if err != nil || len(found) != 30 {
			b.Fatal(len(found), err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charts/s")
}
