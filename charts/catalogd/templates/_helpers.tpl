{{/* Names of objects outside the release namespace: those of config/default in catalogd-system, otherwise with the namespace. */}}
{{- define "catalogd.clusterName" -}}
{{- if eq .namespace "catalogd-system" }}{{ .name }}{{ else }}{{ .name }}:{{ .namespace }}{{ end }}
{{- end }}

{{/* Rejects conflicting installations. `helm template` cannot see other installations. */}}
{{- define "catalogd.check" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicas) 1) }}
{{- fail "without leader election, replicas overwrite each other's statuses and packages: set leaderElection.enabled=true, or replicas=1" }}
{{- end }}
{{- range (lookup "apps/v1" "StatefulSet" "" "").items }}
{{- if and (eq "catalogd" (dig "labels" "app.kubernetes.io/name" "" .metadata)) (ne .metadata.namespace $.Release.Namespace) }}
{{- $theirs := contains "--catalog-selector" (toJson .spec.template.spec.containers) }}
{{- if or (not $.Values.catalogSelector) (and $.Release.IsInstall (not $theirs)) }}
{{- fail (printf "namespace %s has a catalogd too, and installations that select the same CatalogSource overwrite each other: set catalogSelector, there first, to selectors that do not overlap, such as \"shard notin (a)\" there and \"shard=a\" here" .metadata.namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "catalogd.labels" -}}
app.kubernetes.io/name: catalogd
app.kubernetes.io/part-of: catalogd
{{- end }}

{{/* The rules of a kind in a file, by default files/role.yaml, which `make generate` writes. */}}
{{- define "catalogd.rules" -}}
{{- $kind := .kind }}
{{- range splitList "\n---\n" (.root.Files.Get (.file | default "files/role.yaml")) }}
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
{{- if .Values.clusterCatalogs.enabled }}
- --cluster-catalogs
{{- if .Values.clusterCatalogs.anonymousRead }}
- --anonymous-read
{{- end }}
{{- end }}
{{- if .Values.olmV0.enabled }}
- --grpc-bind-address=:50051
- --olm-v0
{{- end }}
{{- if .Values.bundleContent.enabled }}
- --bundle-content
{{- with .Values.bundleContent.registries }}
- --bundle-registries={{ join "," . }}
{{- end }}
{{- end }}
{{- if .Values.page.enabled }}
- --page
{{- end }}
{{- if .Values.tls.secretName }}
- --tls-cert-file=/etc/catalogd/tls/tls.crt
- --tls-private-key-file=/etc/catalogd/tls/tls.key
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
