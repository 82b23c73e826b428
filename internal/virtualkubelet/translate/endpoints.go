// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// remoteKind is the prefix of the kind of an endpoint's target: the provider has no such pod.
const remoteKind = "Remote"

// Addresses translates local addresses for the provider.
type Addresses struct {
	// Pods are the networks of the pods of this cluster, which the provider knows. Empty if all addresses mean the same
	// in both clusters.
	Pods []netip.Prefix
	// Peer has the networks of the provider, as mapped locally: the provider knows its own endpoints.
	Peer prefix.Map
	// Others have the networks of the pods of other peers, by cluster ID.
	Others map[string]prefix.Map
	// Direct requests that pods of other peers keep their own addresses, to be translated by the provider.
	Direct bool
	// Exposed maps addresses to the ones published to peers.
	Exposed map[netip.Addr]netip.Addr
}

// directData is the value of the annotation DirectConnections: addresses of endpoints, by the cluster that they belong to.
type directData struct {
	ClusterAddresses map[string][]string `json:"clusterAddresses"`
}

// DirectEndpoints returns the addresses of a ShadowEndpointSlice in clusters other than the consumer, by cluster ID. The
// endpoint of such an address names the cluster as its node.
func DirectEndpoints(shadow *offv1beta1.ShadowEndpointSlice) (map[string][]string, error) {
	text := shadow.Annotations[names.DirectConnections]
	if text == "" {
		return nil, nil
	}
	var data directData
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w", names.DirectConnections, err)
	}
	return data.ClusterAddresses, nil
}

// UsesDirectConnections reports whether the pods of a Service in two providers reach each other without the consumer.
func UsesDirectConnections(service metav1.Object) bool {
	return isSet(service, names.UseDirectConnections)
}

// ShadowEndpointSlice requests the endpoints of a local slice outside the provider. Endpoints unreachable from the provider
// are omitted, and their addresses returned.
func (t Target) ShadowEndpointSlice(local *discoveryv1.EndpointSlice, a Addresses) (want *offv1beta1.ShadowEndpointSlice, unknown []string) {
	want = &offv1beta1.ShadowEndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: offv1beta1.GroupVersion.String(), Kind: "ShadowEndpointSlice"},
		ObjectMeta: t.objectMeta(local.Name, local),
	}
	want.Labels[discoveryv1.LabelManagedBy] = names.EndpointSliceManager
	delete(want.Annotations, corev1.EndpointsLastChangeTriggerTime) // also changes with endpoints that are not reflected
	delete(want.Annotations, names.DirectConnections)
	direct := directData{ClusterAddresses: map[string][]string{}}
	template := &want.Spec.Template
	template.AddressType = local.AddressType
	for i := range local.Ports {
		template.Ports = append(template.Ports, *local.Ports[i].DeepCopy())
	}
	for i := range local.Endpoints {
		endpoint, remaining := t.translateEndpoint(&local.Endpoints[i], a)
		if endpoint == nil {
			unknown = append(unknown, remaining...)
			continue
		}
		template.Endpoints = append(template.Endpoints, *endpoint)
		if cluster := *endpoint.NodeName; cluster != string(t.Origin) {
			direct.ClusterAddresses[cluster] = append(direct.ClusterAddresses[cluster], endpoint.Addresses...)
		}
	}
	if len(direct.ClusterAddresses) > 0 {
		text, err := json.Marshal(direct)
		if err != nil {
			panic(err) // unreachable: strings have an encoding
		}
		if want.Annotations == nil {
			want.Annotations = map[string]string{}
		}
		want.Annotations[names.DirectConnections] = string(text)
	}
	return want, unknown
}

// translateEndpoint returns the endpoint for the provider, or only its unreachable addresses, if any. Zones and hints are
// omitted: they refer to the nodes of this cluster.
func (t Target) translateEndpoint(local *discoveryv1.Endpoint, a Addresses) (want *discoveryv1.Endpoint, unknown []string) {
	if local.NodeName != nil && *local.NodeName == t.Node {
		return nil, nil
	}
	var remote []string
	cluster := string(t.Origin)
	for _, text := range local.Addresses {
		addr, err := netip.ParseAddr(text)
		if err == nil && local.NodeName != nil && a.isPeers(addr) {
			return nil, nil // a pod on another virtual node of this provider
		}
		other, own := "", addr
		if local.NodeName != nil {
			other, own = a.ofOther(addr)
		}
		seen, ok := a.toRemote(addr)
		switch {
		case other != "" && a.Direct:
			cluster, seen = other, own
		case err == nil && !ok && other != "" && local.TargetRef != nil && local.TargetRef.Kind == "Pod":
			return nil, nil // the controller-manager is about to make an IP, or records why not
		case err != nil || !ok:
			return nil, []string{text}
		}
		remote = append(remote, seen.String())
	}
	out := &discoveryv1.Endpoint{
		Addresses:  remote,
		Conditions: *local.Conditions.DeepCopy(),
		Hostname:   local.Hostname,
		NodeName:   &cluster,
	}
	if ref := local.TargetRef; ref != nil {
		out.TargetRef = &corev1.ObjectReference{Kind: remoteKind + ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	}
	return out, nil
}

func (a Addresses) isPeers(local netip.Addr) bool { return a.Peer.ContainsLocal(local) }

// ofOther returns the other peer that a pod belongs to, "" for none, and the pod's address there.
func (a Addresses) ofOther(local netip.Addr) (cluster string, own netip.Addr) {
	for id, pods := range a.Others {
		if own, is := pods.ToRemote(local); is {
			return id, own
		}
	}
	return "", local
}

// toRemote translates an address for the provider.
func (a Addresses) toRemote(local netip.Addr) (netip.Addr, bool) {
	if !local.IsValid() {
		return local, false
	}
	if len(a.Pods) == 0 || slices.ContainsFunc(a.Pods, func(p netip.Prefix) bool { return p.Contains(local) }) {
		return local, true
	}
	seen, ok := a.Exposed[local]
	return seen, ok
}

// AllowsSlice reports whether a slice is to be copied: annotations of the slice take precedence over those of its Service, nil for none.
func (r ReflectionType) AllowsSlice(slice, service metav1.Object) bool {
	switch {
	case isSet(slice, names.SkipReflection):
		return false
	case isSet(slice, names.AllowReflection):
		return true
	case service != nil:
		return r.Allows(service, false)
	}
	return r.Allows(slice, false)
}
