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
