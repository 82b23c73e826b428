{{- /* How the pods of a gateway are known. The names of the longest ones leave no room for that of the release. */ -}}
{{- define "liqo.gatewaySelector" -}}
app.kubernetes.io/name: {{ `"{{ .Name }}"` }}
app.kubernetes.io/instance: {{ printf "{{ if lt (len .Name) %d }}%s-{{ end }}{{ .Name }}" (sub 63 (len .Release.Name)) .Release.Name | quote }}
app.kubernetes.io/component: networking
app.kubernetes.io/part-of: liqo
networking.liqo.io/component: gateway
networking.liqo.io/gateway-name: {{ `"{{ .Name }}"` }}
networking.liqo.io/gateway-namespace: {{ `"{{ .Namespace }}"` }}
{{- end -}}

{{- /* Where gateways run unless the user says otherwise: on nodes of this cluster. The controller-manager adds that replicas are on several, if possible. */ -}}
{{- define "liqo.gatewayAffinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - key: liqo.io/type
        operator: NotIn
        values:
        - virtual-node
{{- end -}}

{{- /* The rules for gateways of kinds that are not ours: what templates make, and the templates themselves. Argument: the root. */ -}}
{{- define "liqo.gatewayKindRules" -}}
{{- range concat .Values.networking.serverResources .Values.networking.clientResources }}
{{- $group := first (splitList "/" .apiVersion) }}
{{- $own := and (eq $group "networking.liqo.io") (has .resource (list "wggatewayservers" "wggatewayclients")) }}
{{- if not $own }}
{{- $parts := splitList "/" .apiVersion }}
{{- if or (ne (len $parts) 2) (regexMatch "[*/]" (printf "%s%s" $group .resource)) (regexMatch "[*/]" (.template | default "")) }}
{{- fail (printf "%s of %s cannot be what gateways are made of: apiVersion is group/version and resource a plural" .resource .apiVersion) }}
{{- end }}
{{- if or (has $group (list "apps" "batch" "extensions" "policy")) (regexMatch "(^|\\.)k8s\\.io$" $group) (regexMatch "(^|\\.)liqo\\.io$" $group) }}
{{- fail (printf "%s of %s cannot be what gateways are made of: a kind of an API group of its own can" .resource .apiVersion) }}
{{- end }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [create, delete, get, list, patch, update, watch]
{{- with .template }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ . | quote }}]
  verbs: [get]
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
