{{- /*
The rights of a process: its ServiceAccount, the roles generated from the markers of its source, and their bindings.
Roles of the namespace called liqo in the markers are made in the release's; those of "tenant" and "offloaded" are
ClusterRoles of roles-tenant.yaml and roles-virtual-kubelet.yaml, which the controller-manager binds in each such namespace.
Arguments: root, name, without: resources whose rules are left out, which these values do not need.
*/ -}}
{{- define "liqo.rights" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- $role := printf "%s-%s" (include "liqo.prefix" $root) $name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: liqo-{{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "liqo.labels" . | nindent 4 }}
{{- range regexSplit "(?m)^---$" ($root.Files.Get (printf "files/rbac/%s.yaml" $name)) -1 }}
{{- $doc := fromYaml . }}
{{- if and $doc.kind (not (has ($doc.metadata.namespace | default "") (list "tenant" "offloaded"))) }}
{{- $namespace := "" }}
{{- with $doc.metadata.namespace }}{{ $namespace = ternary $root.Release.Namespace . (eq . "liqo") }}{{ end }}
{{- $own := $role }}
{{- /* An installation may be in a namespace that the markers name, too. */}}
{{- if and $namespace (eq $namespace $root.Release.Namespace) (ne $doc.metadata.namespace "liqo") }}
{{- $own = printf "%s-of-%s" $role $namespace }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $doc.kind }}
metadata:
  name: {{ $own }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "liqo.labels" $ | nindent 4 }}
rules:
{{- range $doc.rules }}
{{- if not (has (first .resources) ($.without | default list)) }}
{{ toYaml (list .) }}
{{- end }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $doc.kind }}Binding
metadata:
  name: {{ $own }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "liqo.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $doc.kind }}
  name: {{ $own }}
subjects:
- kind: ServiceAccount
  name: liqo-{{ $name }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end -}}
{{- /* The rules that a process has in a namespace of its markers; in the whole cluster if that is empty. Arguments: root, process, namespace. */ -}}
{{- define "liqo.rules" -}}
{{- $in := .namespace -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get (printf "files/rbac/%s.yaml" .process)) -1 -}}
{{- $doc := fromYaml . -}}
{{- if and $doc.kind (eq ($doc.metadata.namespace | default "") $in) -}}
{{ toYaml $doc.rules }}
{{- end -}}
{{- end -}}
{{- end -}}
