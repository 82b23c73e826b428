// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"fmt"
	"regexp"
	"strings"

	"liqo.io/liqo/internal/names"
)

// podSpec are the fields of pods. Values of environment variables, arguments and commands may have credentials.
const podSpec = "nodeName hostNetwork serviceAccountName restartPolicy schedulerName priorityClassName terminationGracePeriodSeconds dnsPolicy runtimeClassName " +
	"tolerations.** nodeSelector.** affinity.** topologySpreadConstraints.** readinessGates.** " +
	containerFields + " initContainers.name initContainers.image initContainers.resources.**"

const containerFields = "containers.name containers.image containers.imagePullPolicy containers.ports.** containers.resources.** containers.volumeMounts.mountPath " +
	"containers.livenessProbe.httpGet.path containers.livenessProbe.httpGet.port containers.readinessProbe.httpGet.path containers.readinessProbe.httpGet.port"

// metadata are the fields of the metadata of all kinds. Only annotations of Liqo are kept.
const metadata = "apiVersion kind metadata.name metadata.generateName metadata.namespace metadata.uid metadata.resourceVersion metadata.generation " +
	"metadata.creationTimestamp metadata.deletionTimestamp metadata.finalizers metadata.ownerReferences.** metadata.labels.**"

// whole keeps spec and status.
const whole = "spec.** status.**"

// fieldsBelow returns fields below a parent.
func fieldsBelow(parent, fields string) string {
	all := strings.Fields(fields)
	for i := range all {
		all[i] = parent + "." + all[i]
	}
	return strings.Join(all, " ")
}

// workload are the fields of a kind with a template of pods.
var workload = "spec.selector.** spec.template.metadata.labels.** status.** " + fieldsBelow("spec.template.spec", podSpec)

// gateway are the fields of a gateway rendered from a template, and of the template.
var gateway = "service.metadata.labels.** service.spec.type service.spec.ports.** service.spec.selector.** service.spec.externalTrafficPolicy secretRef.name " +
	"deployment.metadata.labels.** deployment.spec.replicas deployment.spec.strategy.** deployment.spec.template.metadata.labels.** " + fieldsBelow("deployment.spec.template.spec", podSpec)

// keptFields are the fields of each gathered kind: paths with dots through maps, through all elements of lists, and with ** for all fields below. All
// other fields, and unlisted kinds, are left out.
var keptFields = map[string]string{
	// Kinds of Liqo. Their spec and status have neither credentials nor manifests of users.
	"ForeignCluster": whole, "Configuration": whole, "Connection": whole, "GatewayClient": whole, "InternalNode": whole, "PublicKey": "spec.**",
	"RouteConfiguration": whole, "FirewallConfiguration": whole, "IP": whole, "Network": whole, "NamespaceOffloading": whole, "NamespaceMap": whole, "Quota": "spec.**",
	"ShadowEndpointSlice": "spec.**",
	"GatewayServer":       "spec.serverTemplateRef.** spec.mtu spec.endpoint.** spec.secretRef.name status.**",
	"Tenant":              "spec.clusterID spec.authzPolicy spec.tenantCondition status.tenantNamespace status.acceptanceTime status.conditions.**",
	"Identity":            "spec.clusterID spec.type spec.namespace status.kubeconfigSecretRef.name",
	"ResourceSlice":       "spec.class spec.providerClusterID spec.consumerClusterID spec.resources.** status.resources.** status.storageClasses.** status.conditions.** status.nodeLabels.** status.nodeSelector.** status.declaredFeatures",
	"VirtualNode": "spec.clusterID spec.createNode spec.kubeconfigSecretRef.name spec.resourceQuota.** spec.labels.** spec.taints.** spec.storageClasses.** spec.ingressClasses.** spec.loadBalancerClasses.** " +
		"spec.disableNetworkCheck spec.declaredFeatures spec.offloadingPatch.** status.**",
	"ShadowPod":       "status.** " + fieldsBelow("spec.pod", podSpec),
	"WgGatewayServer": "status.** " + fieldsBelow("spec", gateway), "WgGatewayClient": "status.** spec.deployment.spec.replicas spec.secretRef.name",
	"WgGatewayServerTemplate": "spec.objectKind.** spec.template.metadata.labels.** " + fieldsBelow("spec.template.spec", gateway),
	"WgGatewayClientTemplate": "spec.objectKind.** spec.template.metadata.labels.** " + fieldsBelow("spec.template.spec", gateway),
	"VkOptionsTemplate": "spec.createNode spec.disableNetworkCheck spec.containerImage spec.metricsEnabled spec.metricsAddress spec.labelsNotReflected spec.annotationsNotReflected " +
		"spec.reflectorsConfig.** spec.resources.** spec.extraLabels.** spec.nodeExtraLabels.** spec.replicas spec.pullPolicy spec.tolerations.**",
	"Renew": "spec.consumerClusterID spec.identityType status.conditions.**",

	"Node":       "spec.taints.** spec.unschedulable spec.podCIDRs spec.providerID status.conditions.** status.capacity.** status.allocatable.** status.addresses.** status.nodeInfo.**",
	"Pod":        "status.** " + fieldsBelow("spec", podSpec),
	"Deployment": "spec.replicas spec.strategy.** " + workload, "DaemonSet": "spec.updateStrategy.** " + workload, "ReplicaSet": "spec.replicas " + workload,
	"Service":                        whole,
	"EndpointSlice":                  "addressType endpoints.** ports.**",
	"NetworkPolicy":                  "spec.**",
	"PodDisruptionBudget":            whole,
	"ResourceQuota":                  whole,
	"LimitRange":                     "spec.**",
	"PersistentVolume":               "spec.capacity.** spec.accessModes spec.claimRef.** spec.storageClassName spec.persistentVolumeReclaimPolicy spec.nodeAffinity.** status.**",
	"PersistentVolumeClaim":          "spec.storageClassName spec.volumeName spec.accessModes spec.resources.** status.**",
	"Lease":                          "spec.**",
	"Namespace":                      "status.**",
	"Event":                          "type reason message count firstTimestamp lastTimestamp eventTime series.** related.** involvedObject.** source.** reportingComponent action",
	"APIService":                     "spec.group spec.version spec.service.** spec.insecureSkipTLSVerify status.**",
	"CertificateSigningRequest":      "spec.signerName spec.username spec.usages spec.expirationSeconds status.conditions.**",
	"CustomResourceDefinition":       "spec.versions.name spec.versions.served spec.versions.storage status.conditions.** status.storedVersions",
	"MutatingWebhookConfiguration":   webhookFields,
	"ValidatingWebhookConfiguration": webhookFields,
	"ValidatingAdmissionPolicy":      whole, "ValidatingAdmissionPolicyBinding": "spec.**",
	"StorageClass": "provisioner volumeBindingMode allowVolumeExpansion reclaimPolicy",
	// Values become their lengths.
	"Secret": "type", "ConfigMap": "",
}

const webhookFields = "webhooks.name webhooks.failurePolicy webhooks.clientConfig.service.** webhooks.namespaceSelector.** webhooks.objectSelector.** webhooks.rules.** webhooks.timeoutSeconds"

// fieldTree are kept fields by name; nil keeps all fields below.
type fieldTree map[string]fieldTree

func newFieldTree(fields string) fieldTree {
	root := fieldTree{}
	for _, path := range strings.Fields(fields) {
		at := root
		parts := strings.Split(path, ".")
		for i, part := range parts {
			if i == len(parts)-1 || parts[i+1] == "**" {
				at[part] = nil
				break
			}
			if at[part] == nil {
				at[part] = fieldTree{}
			}
			at = at[part]
		}
	}
	return root
}

var fieldTrees = func() map[string]fieldTree {
	all := map[string]fieldTree{}
	for kind, fields := range keptFields {
		all[kind] = newFieldTree(metadata + " " + fields)
	}
	return all
}()

// redactObject returns the kept fields of an object, nil for an unlisted kind. Text in the fields is redacted.
func redactObject(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	tree, known := fieldTrees[kind]
	if !known {
		return nil
	}
	kept, _ := keepFields(object, tree).(map[string]any)
	source, _ := object["metadata"].(map[string]any)
	if annotations := keepAnnotations(source["annotations"]); len(annotations) > 0 {
		kept["metadata"].(map[string]any)["annotations"] = annotations
	}
	if kind == "Secret" || kind == "ConfigMap" {
		for _, field := range []string{"data", "binaryData"} {
			if values, is := object[field].(map[string]any); is {
				kept[field] = lengthsOf(values)
			}
		}
	}
	return kept
}

// keepFields returns the part of a value that a tree keeps.
func keepFields(value any, tree fieldTree) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, child := range value {
			if below, kept := tree[name]; kept || tree == nil {
				out[name] = keepFields(child, below)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, element := range value {
			out[i] = keepFields(element, tree)
		}
		return out
	}
	text, isText := value.(string)
	switch {
	case tree != nil: // fields are expected here: an object without a schema has anything
		return nil
	case isText:
		return redactText(text)
	}
	return value
}

// keepAnnotations returns the annotations of Liqo.
func keepAnnotations(annotations any) map[string]any {
	out := map[string]any{}
	all, _ := annotations.(map[string]any)
	for key, value := range all {
		copied := key == names.OffloadingAnnotations || key == names.OffloadingLabels // contents of a user's pod
		if text, is := value.(string); is && names.MeansSomething(key) && !copied {
			out[key] = redactText(text)
		}
	}
	return out
}

// lengthsOf returns the lengths of values.
func lengthsOf(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		out[key] = fmt.Sprintf("%d characters", len(fmt.Sprint(value)))
	}
	return out
}

const redacted = "REDACTED"

// secretKeys are names of credentials in assignments, flags, headers and JSON. A bare "secret" is the kind of Kubernetes.
const secretKeys = `(?:password|passwd|passphrase|pwd|token|api[-_]?key|access[-_]?key(?:[-_]?id)?|private[-_]?key|preshared[-_]?key|pre-shared-key|secret[-_]?(?:access[-_]?)?key|client[-_]?secret|` +
	`nonce|credentials?|authorization|auth|cookie)`

// secretTexts match credentials in free text, such as logs and messages; $1 is the kept part of a match.
var secretTexts = []*regexp.Regexp{
	regexp.MustCompile(`()(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`()eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]{8,}){1,2}`), // JSON web tokens
	regexp.MustCompile(`((?i)\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{4,}`),
	regexp.MustCompile(`((?i)` + secretKeys + `(?:["\\]*\s*[:=]|\s)\s*\\?")[^"\\]+`),                    // up to the closing quotation mark
	regexp.MustCompile(`((?i)` + secretKeys + `(?:["'\\]*\s*[:=]\s*|["'\\]*\s*,\s*["'\\]+))[^\s"'\\]+`), // up to the next space
	regexp.MustCompile(`((?i)\s--?` + secretKeys + `[ ])[^\s"'-][^\s"']*`),                              // a flag
	regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)[^\s/?#"']+@`),                                          // users of URLs
	regexp.MustCompile(`()\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|xox[abprs]-[A-Za-z0-9-]{10,})\b`),
	regexp.MustCompile(`()[A-Za-z0-9+/]{43}=`), // keys of WireGuard, including public keys
}

// longText is a text that may be random.
var longText = regexp.MustCompile(`[A-Za-z0-9+/_-]{64,}={0,2}`)

// redactText replaces credentials in text.
func redactText(text string) string {
	for _, pattern := range secretTexts {
		text = pattern.ReplaceAllString(text, "${1}"+redacted)
	}
	return longText.ReplaceAllStringFunc(text, redactRandom)
}

// redactRandom replaces text with letters of both cases and digits, as encoded credentials have. Digests of images and names stay.
func redactRandom(text string) string {
	for _, class := range []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"} {
		if !strings.ContainsAny(text, class) {
			return text
		}
	}
	return redacted
}
