{{- /*
A rule of a role for each resource that is reflected on request. Arguments: resources, as resource.group, and verbs. What gives
rights, runs code past the rules for pods or is reflected in a way of its own is refused.
*/ -}}
{{- define "liqo.reflectedRules" -}}
{{- $verbs := .verbs -}}
{{- range .resources }}
{{- $parts := regexSplit "\\." . 2 }}
{{- $group := last $parts }}
{{- if or (ne (len $parts) 2) (regexMatch "[*/]" .) }}
{{- fail (printf "%s is not of the form resource.group" .) }}
{{- end }}
{{- if or (has $group (list "" "apps" "batch" "extensions" "policy" "networking.k8s.io" "discovery.k8s.io")) (regexMatch "(^|\\.)liqo\\.io$" $group) (regexMatch "^(admissionregistration|apiextensions|apiregistration|authentication|authorization|certificates|coordination|events|rbac\\.authorization)\\.k8s\\.io$" $group) }}
{{- fail (printf "%s is never reflected on request" .) }}
{{- end }}
- apiGroups: [{{ $group }}]
  resources: [{{ first $parts }}]
  verbs: {{ $verbs }}
{{- end }}
{{- end -}}
