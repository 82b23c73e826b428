{{- /* The beginning of the names that only this chart looks up. */ -}}
{{- define "liqo.prefix" -}}
{{- .Values.nameOverride | default "liqo" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The version of the image that components have, as a label: a digest becomes one that is compared with no other. */ -}}
{{- define "liqo.version" -}}
{{- $version := .Values.image.version | default .Values.tag | default .Chart.AppVersion -}}
{{- regexReplaceAll "^[^A-Za-z0-9]+|[^A-Za-z0-9]+$" (regexReplaceAll "[^A-Za-z0-9_.-]" $version "_" | trunc 63) "" -}}
{{- end -}}

{{- /* Arguments: root, name, module (the name if absent). */ -}}
{{- define "liqo.labels" -}}
{{ include "liqo.selector" . }}
app.kubernetes.io/version: {{ include "liqo.version" .root | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The label part-of=liqo, by which the uninstaller finds objects, does not depend on nameOverride. */ -}}
{{- define "liqo.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ printf "%s-%s" .root.Release.Name .name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/component: {{ .module | default .name }}
app.kubernetes.io/part-of: liqo
{{- end -}}
