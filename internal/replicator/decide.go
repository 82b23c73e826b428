// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// clusterPair are the two clusters of a peering, from the local perspective.
type clusterPair struct {
	local, peer liqov1beta1.ClusterID
	// version of the local Liqo.
	version string
}

// step is the next action for one object.
type step string

const (
	// idle: nothing to do.
	idle step = "idle"
	// push: the object exists; its replica gets the spec, and the replica's status is copied back.
	push step = "push"
	// withdraw: the object is being deleted; its replica must be deleted first.
	withdraw step = "withdraw"
	// loosen: the object is going and no copy is seen any more.
	loosen step = "loosen"
	// reap: an orphan, a copy of ours without an object.
	reap step = "reap"
)

// decideStep compares an object with its replica; each is nil when absent. With draining, because the credentials are being
// deleted, no replication starts.
func (e clusterPair) decideStep(local, copied *unstructured.Unstructured, draining bool) step {
	hasFinalizer := local != nil && controllerutil.ContainsFinalizer(local, names.ReplicatorFinalizer)
	switch {
	case !e.isConcerned(local):
		switch {
		case copied != nil:
			return reap
		case hasFinalizer:
			return loosen
		}
		return idle
	case !local.GetDeletionTimestamp().IsZero():
		switch {
		case copied != nil && hasFinalizer && neededHere(local):
			return push
		case copied != nil:
			return withdraw
		case hasFinalizer:
			return loosen
		}
		return idle
	case draining && !hasFinalizer:
		return idle
	}
	return push
}

// neededHere reports whether another finalizer still holds an object being deleted. The replica is deleted last: with the
// replica of a ResourceSlice, the credentials for the drain of its node are revoked.
func neededHere(local *unstructured.Unstructured) bool {
	return slices.ContainsFunc(local.GetFinalizers(), func(f string) bool { return f != names.ReplicatorFinalizer })
}

// isConcerned reports whether local is an object of this cluster for the peer. An object in the peer's tenant namespace
// without a destination is.
func (e clusterPair) isConcerned(local *unstructured.Unstructured) bool {
	if local == nil || local.GetLabels()[names.Replicated] == "true" {
		return false
	}
	destination := local.GetLabels()[names.ReplicationDestination]
	return destination == "" || destination == string(e.peer)
}

// isCopy reports whether an object at the peer is the replica of a local object.
func (e clusterPair) isCopy(remote client.Object) bool {
	labels := remote.GetLabels()
	return labels[names.Replicated] == "true" && labels[names.ReplicationOrigin] == string(e.local)
}

// copyOf returns the desired replica of local: its spec, the labels and annotations of its users, and the labels of
// Liqo. These labels are constant, because the peer rejects changes.
func (e clusterPair) copyOf(local *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(local.GroupVersionKind())
	out.SetName(local.GetName())
	labels := travellingKeys(local.GetLabels(), func(key string) bool { return isOurs(key) || isDeployers(key) })
	labels[names.Replication] = "false"
	labels[names.Replicated] = "true"
	labels[names.ReplicationOrigin] = string(e.local)
	labels[names.ReplicationDestination] = string(e.peer)
	labels[names.RemoteClusterID] = string(e.local)
	out.SetLabels(labels)
	annotations := travellingKeys(local.GetAnnotations(), staysHere)
	if e.version != "" && tellsVersion(local) {
		annotations[names.Version], annotations[names.Capabilities] = e.version, peer.JoinCapabilities(peer.Capabilities())
	}
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	if spec := withoutEmpty(specOf(local)); len(spec) > 0 {
		out.Object["spec"] = spec
	}
	return out
}

// tellsVersion reports whether the replica of an object carries the local Liqo version: only the NamespaceMap, which is unique per
// peer, and whose status returns the peer's version.
func tellsVersion(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind() == offv1beta1.GroupVersion.WithKind("NamespaceMap")
}

// withoutEmpty returns in without empty maps, at any depth. Server-side apply turns a map whose last key is removed into
// null, which every schema rejects, unless the map itself is left out; for our kinds an empty map equals none.
func withoutEmpty(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		if m, ok := v.(map[string]any); ok {
			if m = withoutEmpty(m); len(m) == 0 {
				continue
			}
			v = m
		}
		out[k] = v
	}
	return out
}

func specOf(u *unstructured.Unstructured) map[string]any {
	spec, _ := u.Object["spec"].(map[string]any)
	return spec
}

// removeExtraFields removes the fields of current missing in want, at any depth, and reports whether any were removed.
func removeExtraFields(current, want map[string]any) (removed bool) {
	for key, value := range current {
		inner, isMap := value.(map[string]any)
		wanted, ok := want[key]
		switch {
		case isMap && len(inner) == 0:
		case !ok:
			delete(current, key)
			removed = true
		case isMap:
			wantedInner, _ := wanted.(map[string]any)
			removed = removeExtraFields(inner, wantedInner) || removed
		}
	}
	return removed
}

func travellingKeys(in map[string]string, stays func(string) bool) map[string]string {
	out := make(map[string]string, len(in)+5)
	for k, v := range in {
		if !stays(k) {
			out[k] = v
		}
	}
	return out
}

// isOurs reports whether a label has a meaning for Liqo: such labels are local to a cluster, and a peer may not change them. Further
// labels of the domain belong to users.
func isOurs(key string) bool { return names.MeansSomething(key) }

// staysHere reports whether an annotation is not replicated: switches of the provider, annotations of Liqo, and records of the
// tool that applied the object.
func staysHere(key string) bool {
	return isDeployers(key) || key == names.Version || key == names.Capabilities || strings.HasPrefix(key, names.AppliedHash) || strings.HasPrefix(key, names.Cordon)
}

// deployers are the domains, or single keys, by which deployment tools recognise their objects and prune orphans. The peer may run
// the same tool.
var deployers = []string{
	corev1.LastAppliedConfigAnnotation, "app.kubernetes.io/instance", "argocd.argoproj.io/", "meta.helm.sh/", "kustomize.toolkit.fluxcd.io/",
	"helm.toolkit.fluxcd.io/",
}

// isDeployers reports whether a label or an annotation belongs to a deployment tool.
func isDeployers(key string) bool {
	return slices.ContainsFunc(deployers, func(mark string) bool {
		return key == mark || strings.HasSuffix(mark, "/") && strings.HasPrefix(key, mark)
	})
}

// maxStatus bounds the status of one object stored by a peer in this cluster.
const maxStatus = 512 << 10

// statusBack returns local with the status of its replica, or nil if no write is needed. A replica without a status is
// ignored: the provider has not processed the replica yet, and the previous status stays.
func statusBack(local, copied *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	status, ok := copied.Object["status"]
	if !ok || equality.Semantic.DeepEqual(status, local.Object["status"]) {
		return nil, nil
	}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the copy: %w", err)
	}
	if len(raw) > maxStatus {
		return nil, fmt.Errorf("the status written by the peer has %d bytes, more than the %d that are accepted", len(raw), maxStatus)
	}
	believed, err := believedStatus(local, copied)
	if err != nil || equality.Semantic.DeepEqual(believed, local.Object["status"]) {
		return nil, err
	}
	if len(believed) == 0 && local.Object["status"] == nil {
		return nil, nil
	}
	out := local.DeepCopy()
	out.Object["status"] = believed
	return out, nil
}

// believedStatus returns the accepted part of a replica's status by the rules of each kind. A kind without rules has no status.
func believedStatus(local, copied *unstructured.Unstructured) (map[string]any, error) {
	var believed any
	switch kind := local.GroupVersionKind(); kind {
	case offv1beta1.GroupVersion.WithKind("NamespaceMap"):
		var ours, theirs offv1beta1.NamespaceMap
		if err := decodeInto(local, &ours); err != nil {
			return nil, err
		}
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.NamespaceMapStatus(&ours.Spec, &ours.Status, &theirs.Status))
	case authv1beta1.GroupVersion.WithKind("ResourceSlice"):
		var theirs authv1beta1.ResourceSlice
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.ResourceSliceStatus(&theirs.Status))
	case authv1beta1.GroupVersion.WithKind("Renew"):
		var theirs authv1beta1.Renew
		if err := decodeStatus(copied, &theirs); err != nil {
			return nil, err
		}
		believed = new(policy.RenewStatus(&theirs.Status))
	default:
		return nil, fmt.Errorf("no rule for the status of a %s", kind.Kind)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(believed)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the copy: %w", err)
	}
	return out, nil
}

// decodeStatus decodes only the status: other fields written by a peer are ignored.
func decodeStatus(from *unstructured.Unstructured, into any) error {
	return decodeInto(&unstructured.Unstructured{Object: map[string]any{"status": from.Object["status"]}}, into)
}

func decodeInto(from *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		return fmt.Errorf("decoding a %s: %w", from.GetKind(), err)
	}
	return nil
}
