{{/* Names of what belongs to no namespace, or to another's: those of config/default in catalogd-system, else with the namespace. */}}
{{- define "catalogd.clusterName" -}}
{{- if eq .namespace "catalogd-system" }}{{ .name }}{{ else }}{{ .name }}:{{ .namespace }}{{ end }}
{{- end }}

{{- define "catalogd.labels" -}}
app.kubernetes.io/name: catalogd
app.kubernetes.io/part-of: catalogd
{{- end }}

{{/* The rules of a kind in files/role.yaml, which `make generate` makes. */}}
{{- define "catalogd.rules" -}}
{{- $kind := .kind }}
{{- range splitList "\n---\n" (.root.Files.Get "files/role.yaml") }}
{{- $role := fromYaml . }}
{{- if eq $role.kind $kind }}
{{- toYaml $role.rules }}
{{- end }}
{{- end }}
{{- end }}

{{- define "catalogd.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "catalogd.args" -}}
- --external-url={{ .Values.externalURL | default (printf "https://catalogd.%s.svc" .Release.Namespace) }}
{{- with .Values.catalogSelector }}
- {{ printf "--catalog-selector=%s" . | quote }}
{{- end }}
{{- if not .Values.leaderElection.enabled }}
- --leader-elect=false
{{- end }}
{{- with .Values.leaderElection.leaseDuration }}
- --leader-elect-lease-duration={{ . }}
{{- end }}
{{- with .Values.leaderElection.renewDeadline }}
- --leader-elect-renew-deadline={{ . }}
{{- end }}
{{- with .Values.leaderElection.retryPeriod }}
- --leader-elect-retry-period={{ . }}
{{- end }}
{{- if .Values.tls.secretName }}
- --tls-cert-file=/etc/catalogd/tls/tls.crt
- --tls-private-key-file=/etc/catalogd/tls/tls.key
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
