// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// RemotePods is the policy of a provider's administrator for pods of consumers. Everything outside the lists is denied,
// also features of later versions of Kubernetes. In names, a final * is a wildcard.
type RemotePods struct {
	// Volumes are the permitted kinds of volumes, by their field in a Pod; nil is DefaultVolumes.
	Volumes []string
	// PriorityClasses, RuntimeClasses and ServiceAccounts are permitted names.
	PriorityClasses, RuntimeClasses, ServiceAccounts []string
	// ControlPlane permits tolerations of the taints of nodes with a role, such as control-plane nodes.
	ControlPlane bool
}

// DefaultVolumes returns the kinds of volumes whose content comes only from the remote namespace, where the consumer or the
// provider put it.
func DefaultVolumes() []string {
	return []string{"configMap", "secret", "emptyDir", "downwardAPI", "projected", "persistentVolumeClaim", "image"}
}

// valuesOf is the prefix of the chart's values in messages.
const valuesOf = "offloading.twinNamespaces.pods."

// ControlPlaneValue is the chart's value for RemotePods.ControlPlane.
const ControlPlaneValue = valuesOf + "controlPlane"

func listsName(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool { return matches(pattern, name) })
}

// check returns an error with the names of the pod's fields that the lists do not permit, or nil.
func (r RemotePods) check(pod *corev1.PodSpec, level string) error {
	if err := r.checkVolumes(pod.Volumes, level); err != nil {
		return err
	}
	if name := pod.PriorityClassName; name != "" && !listsName(r.PriorityClasses, name) {
		return fmt.Errorf("the provider does not let pods of other clusters have the priority class %q (%spriorityClasses)", name, valuesOf)
	}
	if name := pod.RuntimeClassName; name != nil && *name != "" && !listsName(r.RuntimeClasses, *name) {
		return fmt.Errorf("the provider does not let pods of other clusters have the runtime class %q (%sruntimeClasses)", *name, valuesOf)
	}
	if err := r.checkAccount(pod); err != nil {
		return err
	}
	return r.CheckTolerations(pod.Tolerations)
}

func (r RemotePods) checkVolumes(volumes []corev1.Volume, level string) error {
	allowed := r.Volumes
	if allowed == nil {
		allowed = DefaultVolumes()
	}
	for i := range volumes {
		v := &volumes[i]
		kinds := setFields(v.VolumeSource)
		if len(kinds) == 0 {
			return fmt.Errorf("volume %q has no source that this version of Liqo knows", v.Name)
		}
		for _, kind := range kinds {
			switch {
			case kind == "hostPath" && level == PodSecurityPrivileged: // this level permits the consumer any access to the nodes
			case kind == "hostPath" && level != "":
				return fmt.Errorf("volume %q mounts a path of the host, which the provider's Pod Security level %q forbids", v.Name, level)
			case !listsName(allowed, kind):
				return fmt.Errorf("volume %q is of the kind %s, which the provider does not let pods of other clusters have (%svolumes)", v.Name, kind, valuesOf)
			}
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			for _, kind := range setFields(v.Projected.Sources[j]) {
				if !slices.Contains(projections, kind) {
					return fmt.Errorf("volume %q projects a source of the kind %s, which the provider does not let pods of other clusters have", v.Name, kind)
				}
			}
		}
	}
	return nil
}

// projections are the sources of projected volumes. checkAccount checks the credentials among them.
var projections = []string{"configMap", "secret", "downwardAPI", "clusterTrustBundle", "serviceAccountToken", "podCertificate"}

// setFields returns the names of the set fields of a union: a struct of pointers with one set. Reflection finds fields
// of later versions, too.
func setFields(of any) []string {
	var out []string
	value := reflect.ValueOf(of)
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	return out
}

// AccountOf returns the name of the ServiceAccount that a pod runs as.
func AccountOf(pod *corev1.PodSpec) string {
	return cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount, "default")
}

// AllowsAccount reports whether pods may run as a ServiceAccount of the provider, with its tokens.
func (r RemotePods) AllowsAccount(name string) bool { return listsName(r.ServiceAccounts, name) }

// checkAccount returns an error if a pod uses an account of the provider or its credentials. The account default, common to
// all pods without another account, is permitted without credentials.
func (r RemotePods) checkAccount(pod *corev1.PodSpec) error {
	account := AccountOf(pod)
	if r.AllowsAccount(account) {
		return nil
	}
	refuse := func(what string) error {
		return fmt.Errorf("the provider does not let pods of other clusters have %s of its ServiceAccount %q (%sserviceAccounts)", what, account, valuesOf)
	}
	if account != "default" {
		return refuse("the identity")
	}
	if pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken {
		return refuse("a token")
	}
	for _, v := range pod.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			switch {
			case source.ServiceAccountToken != nil:
				return refuse("a token")
			case source.PodCertificate != nil:
				return refuse("a certificate")
			}
		}
	}
	return nil
}

// rolePrefix is the prefix of the taints of nodes with a role.
const rolePrefix = "node-role.kubernetes.io/"

// ToleratesRole reports whether a toleration names the taint of nodes that are dedicated to a role in their own cluster.
func ToleratesRole(t corev1.Toleration) bool {
	return strings.HasPrefix(t.Key, rolePrefix) || t.Key == "CriticalAddonsOnly"
}

// CheckTolerations returns an error that names a toleration forbidden to pods of consumers.
func (r RemotePods) CheckTolerations(tolerations []corev1.Toleration) error {
	for _, t := range tolerations {
		if !r.ControlPlane && ToleratesRole(t) {
			return fmt.Errorf("the provider does not let pods of other clusters tolerate the taint %s of its nodes (%s)", t.Key, ControlPlaneValue)
		}
	}
	return nil
}

// ordinaryTaints are the taints for conditions of a node, in contrast to taints for its purpose.
var ordinaryTaints = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodePIDPressure, corev1.TaintNodeOutOfService,
}

// EncodeRoleTolerations returns the value of the annotation RoleTolerations for a pod, or "" without such tolerations.
func EncodeRoleTolerations(tolerations []corev1.Toleration) string {
	var out []corev1.Toleration
	for _, t := range tolerations {
		if ToleratesRole(t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return ""
	}
	encoded, err := json.Marshal(out)
	if err != nil {
		panic(err) // parts of objects always encode
	}
	return string(encoded)
}

// PodTolerations returns the tolerations of the pod of a ShadowPod. Tolerations denied by CheckTolerations are left out, and tolerations in
// the annotation RoleTolerations are added if permitted. A toleration without a key tolerates everything, including control-plane nodes and
// virtual nodes: it is replaced by tolerations of ordinaryTaints.
func (r RemotePods) PodTolerations(sp *offv1beta1.ShadowPod) []corev1.Toleration {
	if r.ControlPlane {
		var offered []corev1.Toleration
		if err := json.Unmarshal([]byte(sp.Annotations[names.RoleTolerations]), &offered); err != nil {
			offered = nil
		}
		return append(slices.Clone(sp.Spec.Pod.Tolerations), slices.DeleteFunc(offered, func(t corev1.Toleration) bool { return !ToleratesRole(t) })...)
	}
	var out []corev1.Toleration
	for _, t := range sp.Spec.Pod.Tolerations {
		if t.Key != "" {
			if !ToleratesRole(t) {
				out = append(out, t)
			}
			continue
		}
		for _, key := range ordinaryTaints {
			narrow := t
			narrow.Key, narrow.Value = key, ""
			out = append(out, narrow)
		}
	}
	return out
}

// KeepOffVirtualNodes excludes virtual nodes for a pod from another cluster: the pod would be offloaded again, to a third
// cluster or back.
func KeepOffVirtualNodes(pod *corev1.PodSpec) {
	require(pod, []corev1.NodeSelectorTerm{virtual(corev1.NodeSelectorOpNotIn)})
}
