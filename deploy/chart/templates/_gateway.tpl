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

{{- /* Where gateways run unless the user says otherwise: on nodes of this cluster, replicas on several if possible. */ -}}
{{- define "liqo.gatewayAffinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - key: liqo.io/type
        operator: NotIn
        values:
        - virtual-node
{{- if gt (int .Values.networking.gatewayTemplates.replicas) 1 }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          networking.liqo.io/gateway-name: {{ `"{{ .Name }}"` }}
          networking.liqo.io/gateway-namespace: {{ `"{{ .Namespace }}"` }}
{{- end }}
{{- end -}}
