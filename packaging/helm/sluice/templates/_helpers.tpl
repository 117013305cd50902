{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- define "sluice.firstUser" -}}
{{ .Values.firstUser.secret | default (printf "%s-user" .Release.Name) }}
{{- end }}
{{/* What the ConfigMap has. A change of it restarts the pod. */}}
{{- define "sluice.config" -}}
cluster_name = {{ .Release.Name }}
{{- if .Values.tls.secret }}
listeners.tcp.default = 127.0.0.1:5672
listeners.ssl.default = 0.0.0.0:5671
ssl_options.certfile = /etc/sluice/tls/tls.crt
ssl_options.keyfile = /etc/sluice/tls/tls.key
management.tcp.ip = 127.0.0.1
management.ssl.ip = 0.0.0.0
management.ssl.port = 15671
{{- end }}
{{- with .Values.config }}
{{ . | trim }}
{{- end }}
{{- end }}
{{/* The ports for clients, by name. */}}
{{- define "sluice.ports" -}}
{{- if .Values.tls.secret -}}
amqps: 5671
management-tls: 15671
{{- else -}}
amqp: 5672
management: 15672
{{- end }}
{{- end }}
