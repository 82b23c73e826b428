{{- /*
The refusals of a policy: "who" selects the requesters, "rules" must hold for their requests, each with a message. "variables" (a list of a
name and an expression, which may use earlier ones) are inserted where they are used.

The API server makes an untyped copy of an object, and of what it was, for the conditions to match, and three more for the
validations of a policy that matches: for these, for their messages and for audit annotations. On objects that are written all
the time that is much of its work. So a policy here matches only what it refuses, and its validations say why.

Rules are evaluated before "who", because "who" asks the authorizer. An expression can afford two such calls: "who" is a condition
"apart" where rules call the authorizer, too, and "first" precedes each condition.
*/ -}}
{{- define "liqo.refusals" -}}
{{- $rules := list }}
{{- range .rules }}
{{- $rules = append $rules (printf "(%s)" (trim .expression)) }}
{{- end }}
{{- $first := empty .first | ternary "" (printf "%s && " .first) }}
{{- $conditions := dict "refused" (printf "%s!(%s)" $first (join " && " $rules)) }}
{{- if .apart }}
{{- $_ := set $conditions "by-those-it-is-about" (printf "%s%s" $first .who) }}
{{- else }}
{{- $_ := set $conditions "refused" (printf "%s && %s" $conditions.refused .who) }}
{{- end -}}
{{- $variables := .variables -}}
matchConditions:
{{- range $name, $expression := $conditions }}
- name: {{ $name }}
  expression: {{ include "liqo.inline" (dict "variables" $variables "expression" $expression) | quote }}
{{- end }}
validations:
{{- range .rules }}
- message: {{ .message | quote }}
  reason: Forbidden
  expression: {{ include "liqo.inline" (dict "variables" $variables "expression" .expression) | quote }}
{{- end }}
{{- end }}

{{- define "liqo.inline" -}}
{{- $expression := .expression }}
{{- range reverse .variables }}
{{- $expression = replace (printf "variables.%s" .name) (printf "(%s)" .expression) $expression }}
{{- end }}
{{- regexReplaceAll "\\s+" $expression " " | trim }}
{{- end }}

{{- /* Whether a MutatingAdmissionPolicy steers the pods of offloaded namespaces: not empty, or the webhook does. */ -}}
{{- define "liqo.podsByPolicy" -}}
{{- $choice := .Values.webhook.mutatingAdmissionPolicy }}
{{- if or (eq $choice "enabled") (and (eq $choice "auto") (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")) }}true{{ end }}
{{- end }}

{{- /* The namespaces whose new pods are steered, and the pods that are left alone without reading how the namespace is offloaded. */ -}}
{{- define "liqo.steeredNamespaces" -}}
namespaceSelector:
  matchLabels:
    liqo.io/scheduling-enabled: "true"
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
    - kube-system
    - {{ .Release.Namespace }}
{{- end }}

{{- define "liqo.steeredPods" -}}
# A pod that names its node gets the toleration and nothing else.
- name: not-bound-and-tolerant
  expression: >-
    object.spec.?nodeName.orValue('') == '' ||
    !object.spec.?tolerations.orValue([]).exists(t, t.?key.orValue('') == 'virtual-node.liqo.io/not-allowed')
- name: not-of-a-node
  expression: "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, !(o.kind in ['DaemonSet', 'Node']))"
- name: not-static
  expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
- name: not-being-deleted
  expression: "!has(object.metadata.deletionTimestamp)"
{{- end }}
