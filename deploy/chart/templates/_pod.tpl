{{- /* Metadata of a pod. Arguments: root, name, values (the component's). */ -}}
{{- define "liqo.podMetadata" -}}
{{- with .values.pod.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "liqo.labels" . | nindent 2 }}
  {{- with .values.pod.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* Replicas avoid each other. It adds to its arguments: root, name, values. */ -}}
{{- define "liqo.spread" -}}
{{- if gt (int .values.replicas) 1 -}}
  {{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "liqo.selector" . | fromYaml)) -}}
  {{- $_ := set . "affinity" (dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)))) -}}
{{- end -}}
{{- end -}}

{{- /* Replicas are drained one by one. Arguments: root, name, values. */ -}}
{{- define "liqo.budget" -}}
{{- if gt (int .values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "liqo.prefix" .root }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "liqo.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # One that does not start must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "liqo.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /*
What the pods of all processes share. Arguments: root, name, values, affinity (used if the user has none), anonymous (it asks nothing of
the API server in its own name).
*/ -}}
{{- define "liqo.podSpec" -}}
{{- if .anonymous -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- else -}}
serviceAccountName: {{ printf "liqo-%s" .name }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.common.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.common.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.common.affinity | default .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
volumes:
- name: tmp
  emptyDir: {}
{{- end -}}

{{- /* What the containers of all processes share. Arguments: root, values, cpu and memory that are requested unless values say otherwise. */ -}}
{{- define "liqo.container" -}}
image: {{ include "liqo.image" (dict "root" .root "image" .values.image) | quote }}
imagePullPolicy: {{ .root.Values.pullPolicy }}
{{- /* The end of its log is in its status, for users without access to logs. */}}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop:
    - ALL
resources:
  {{- with .values.pod.resources.limits | default .limits }}
  limits:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  requests:
    {{- .values.pod.resources.requests | default (dict "cpu" (.cpu | default "20m") "memory" (.memory | default "64Mi")) | toYaml | nindent 4 }}
volumeMounts:
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- /* Extra arguments of a process. Arguments: root, values. */ -}}
{{- define "liqo.extraArgs" -}}
{{- range concat .root.Values.common.extraArgs .values.pod.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "liqo.env" -}}
- name: CLUSTER_ID
  valueFrom:
    configMapKeyRef:
      name: liqo-clusterid-configmap
      key: CLUSTER_ID
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end -}}

{{- /* Argument: seconds between two looks whether a process is ready. */ -}}
{{- define "liqo.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: healthz
  initialDelaySeconds: 10
  periodSeconds: 20
  failureThreshold: 4
readinessProbe:
  httpGet:
    path: /readyz
    port: healthz
  periodSeconds: {{ . }}
  failureThreshold: {{ div 9 . }}
{{- end -}}

{{- /* name;default of the classes offered to consumers. */ -}}
{{- define "liqo.classes" -}}
{{- $out := list -}}
{{- range . -}}
{{- $out = append $out (ternary (printf "%s;default" .name) .name (default false .default)) -}}
{{- end -}}
{{- join "," $out -}}
{{- end -}}

{{- /* Kinds as group/version/plural. */ -}}
{{- define "liqo.resources" -}}
{{- $out := list -}}
{{- range . -}}
{{- $out = append $out (printf "%s/%s" .apiVersion .resource) -}}
{{- end -}}
{{- join "," $out -}}
{{- end -}}

{{- define "liqo.pairs" -}}
{{- $out := list -}}
{{- range $key, $value := . -}}
{{- $out = append $out (printf "%s=%s" $key (toString $value)) -}}
{{- end -}}
{{- join "," $out -}}
{{- end -}}
