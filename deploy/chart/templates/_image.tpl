{{- /*
The image of a component. Arguments: root, image (the component's values). The digest is of the appVersion: values that name another image or
version go without.

An image of the original is known by the organization that publishes it, or, in a mirror, by a directory "liqo" and the
name of one of its components. A mirror of ours may well be in such a directory.
*/ -}}
{{- define "liqo.image" -}}
{{- $name := .image.name | default .root.Values.image.name -}}
{{- $components := "liqo-controller-manager|webhook|crd-replicator|virtual-kubelet|ipam|fabric|gateway|proxy|metric-agent|cert-creator|telemetry|uninstaller|liqo-crd-upgrade" -}}
{{- if regexMatch (printf "(^|/)liqotech(/|$)|(^|/)liqo/(%s)([/:@]|$)" $components) $name -}}
{{- fail (printf "the image %q belongs to another distribution of Liqo and does not run with this chart: remove the image.name values, one image (image.name) serves every component" $name) -}}
{{- end -}}
{{- $version := .image.version | default .root.Values.image.version | default .root.Values.tag -}}
{{- if hasPrefix "sha256:" $version -}}
{{ $name }}@{{ $version }}
{{- else if or $version .image.name -}}
{{ $name }}:{{ $version | default .root.Chart.AppVersion }}
{{- else -}}
{{ $name }}:{{ .root.Chart.AppVersion }}{{ with .root.Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Every image value is checked, also of components that this version does not have. */ -}}
{{- define "liqo.checkImages" -}}
{{- $v := .Values -}}
{{- $all := list $v.controllerManager $v.webhook $v.crdReplicator $v.metricAgent $v.metricAgent.initContainer $v.telemetry $v.uninstaller $v.proxy $v.ipam.internal $v.networking.fabric $v.virtualKubelet (index $v "liqo-crds").crdUpgrade -}}
{{- range $_, $container := $v.networking.gatewayTemplates.container -}}
{{- $all = append $all $container -}}
{{- end -}}
{{- range $all -}}
{{- $_ := include "liqo.image" (dict "root" $ "image" .image) -}}
{{- end -}}
{{- end -}}
