// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// scope is the set of namespaces of a gathered kind.
type scope int

const (
	// everywhere is the whole cluster.
	everywhere scope = iota
	// liqoNamespaces are the namespaces of the pods of Liqo, and of tenants.
	liqoNamespaces
	// offloadedNamespaces are liqoNamespaces and the offloaded and remote namespaces.
	offloadedNamespaces
	// eventNamespaces are offloadedNamespaces and the namespace for events of objects without a namespace.
	eventNamespaces
)

// gatheredKind is a kind whose objects are gathered.
type gatheredKind struct {
	group, version, kind string
	in                   scope
	// selector restricts the objects; nil is all.
	selector client.ListOption
	// keep restricts the objects further; nil is all.
	keep func(*unstructured.Unstructured) bool
}

var gatheredKinds = []gatheredKind{
	{"core.liqo.io", "v1beta1", "ForeignCluster", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "Configuration", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "Connection", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "GatewayServer", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "GatewayClient", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "WgGatewayServer", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "WgGatewayClient", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "WgGatewayServerTemplate", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "WgGatewayClientTemplate", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "InternalNode", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "PublicKey", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "RouteConfiguration", everywhere, nil, nil},
	{"networking.liqo.io", "v1beta1", "FirewallConfiguration", everywhere, nil, nil},
	{"ipam.liqo.io", "v1alpha1", "IP", everywhere, nil, nil},
	{"ipam.liqo.io", "v1alpha1", "Network", everywhere, nil, nil},
	{"authentication.liqo.io", "v1beta1", "Tenant", everywhere, nil, nil},
	{"authentication.liqo.io", "v1beta1", "Identity", everywhere, nil, nil},
	{"authentication.liqo.io", "v1beta1", "Renew", everywhere, nil, nil},
	{"authentication.liqo.io", "v1beta1", "ResourceSlice", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "NamespaceOffloading", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "NamespaceMap", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "Quota", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "ShadowPod", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "ShadowEndpointSlice", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "VirtualNode", everywhere, nil, nil},
	{"offloading.liqo.io", "v1beta1", "VkOptionsTemplate", everywhere, nil, nil},

	{"", "v1", "Node", everywhere, nil, nil},
	{"", "v1", "Namespace", everywhere, nil, nil},
	{"", "v1", "Pod", offloadedNamespaces, nil, nil},
	{"", "v1", "Event", eventNamespaces, nil, nil},
	{"", "v1", "Service", offloadedNamespaces, nil, nil},
	{"", "v1", "PersistentVolumeClaim", offloadedNamespaces, nil, nil},
	{"discovery.k8s.io", "v1", "EndpointSlice", offloadedNamespaces, nil, nil},
	{"networking.k8s.io", "v1", "NetworkPolicy", offloadedNamespaces, nil, nil},
	{"apps", "v1", "Deployment", liqoNamespaces, nil, nil},
	{"apps", "v1", "DaemonSet", liqoNamespaces, nil, nil},
	{"apps", "v1", "ReplicaSet", liqoNamespaces, nil, nil},
	{"policy", "v1", "PodDisruptionBudget", liqoNamespaces, nil, nil},
	{"", "v1", "ResourceQuota", offloadedNamespaces, nil, nil},
	{"", "v1", "LimitRange", offloadedNamespaces, nil, nil},
	{"", "v1", "PersistentVolume", everywhere, nil, nil},
	{"", "v1", "Secret", liqoNamespaces, nil, nil},
	{"", "v1", "ConfigMap", liqoNamespaces, nil, nil},
	{"coordination.k8s.io", "v1", "Lease", liqoNamespaces, nil, nil},
	{"storage.k8s.io", "v1", "StorageClass", everywhere, nil, nil},
	{"apiregistration.k8s.io", "v1", "APIService", everywhere, nil, ofLiqo},
	{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", everywhere, nil, ofLiqo},
	{"admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", everywhere, nil, nil},
	{"admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", everywhere, nil, nil},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", everywhere, ofChart, nil},
	{"admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", everywhere, ofChart, nil},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", everywhere, client.MatchingLabels{names.RemoteTenantCSR: "true"}, nil},
}

// ofChart selects the objects of the chart.
var ofChart = client.MatchingLabels{names.AppPartOf: "liqo"}

// ofLiqo reports whether an object is named after an API group of Liqo.
func ofLiqo(object *unstructured.Unstructured) bool {
	return strings.HasSuffix(object.GetName(), ".liqo.io")
}

// pageSize bounds the objects in memory.
const pageSize = 500

// findNamespaces returns the namespaces of each non-empty scope. A scope that cannot be listed is a problem.
func (g *gatherer) findNamespaces(ctx context.Context, pods []corev1.Pod) map[scope][]string {
	home := []string{g.namespace}
	for i := range pods {
		home = append(home, pods[i].Namespace)
	}
	var tenants corev1.NamespaceList
	if err := g.client.List(ctx, &tenants, client.MatchingLabels{names.TenantNamespace: "true"}); err != nil {
		g.archive.addProblem("tenant namespaces: %s", cluster.DescribeError(err))
	}
	for i := range tenants.Items {
		home = append(home, tenants.Items[i].Name)
	}
	all := slices.Clone(home)
	var offloaded offv1beta1.NamespaceOffloadingList
	if err := g.client.List(ctx, &offloaded); err != nil {
		g.archive.addProblem("offloaded namespaces: %s", cluster.DescribeError(err))
	}
	for i := range offloaded.Items {
		all = append(all, offloaded.Items[i].Namespace)
	}
	var maps offv1beta1.NamespaceMapList
	if err := g.client.List(ctx, &maps); err != nil {
		g.archive.addProblem("namespaces of consumers: %s", cluster.DescribeError(err))
	}
	for i := range maps.Items {
		if !peer.IsReplica(&maps.Items[i]) {
			continue
		}
		for _, status := range maps.Items[i].Status.CurrentMapping {
			all = append(all, status.RemoteNamespace)
		}
	}
	all = slices.DeleteFunc(all, func(name string) bool { return name == "" }) // "" is the whole cluster
	out := map[scope][]string{everywhere: {""}, liqoNamespaces: home, offloadedNamespaces: all, eventNamespaces: append(slices.Clone(all), metav1.NamespaceDefault)}
	for in := range out {
		slices.Sort(out[in])
		out[in] = slices.Compact(out[in])
	}
	return out
}

// gatherObjects adds a file for each non-empty kind.
func (g *gatherer) gatherObjects(ctx context.Context, namespaces map[scope][]string) error {
	for _, k := range gatheredKinds {
		var text bytes.Buffer
		for _, namespace := range namespaces[k.in] {
			if err := g.gatherKind(ctx, k, namespace, &text); err != nil {
				if ctx.Err() != nil {
					return err
				}
				g.archive.addProblem("%s in namespace %q: %s", k.kind, namespace, cluster.DescribeError(err))
			}
		}
		if text.Len() == 0 {
			continue
		}
		if err := g.archive.addFile("objects/"+k.kind+".yaml", text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// gatherKind appends the kept fields of objects.
func (g *gatherer) gatherKind(ctx context.Context, k gatheredKind, namespace string, text *bytes.Buffer) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind + "List"})
	options := []client.ListOption{client.Limit(pageSize), client.InNamespace(namespace)}
	if k.selector != nil {
		options = append(options, k.selector)
	}
	for {
		if err := g.client.List(ctx, list, append(options, client.Continue(list.GetContinue()))...); err != nil {
			return err
		}
		for i := range list.Items {
			object := &list.Items[i]
			if k.keep != nil && !k.keep(object) {
				continue
			}
			object.SetAPIVersion(schema.GroupVersion{Group: k.group, Version: k.version}.String())
			object.SetKind(k.kind)
			data, err := yaml.Marshal(redactObject(object.Object))
			if err != nil {
				return fmt.Errorf("writing %s %s: %w", k.kind, client.ObjectKeyFromObject(object), err)
			}
			text.WriteString("---\n")
			text.Write(data)
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
}
