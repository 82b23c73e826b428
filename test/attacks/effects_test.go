// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// stopLiqo scales a Deployment of Liqo to zero until the test ends: an attacker that owns its cluster does so first, because the controller
// would revert what it writes.
func stopLiqo(t *testing.T, c *clusters.Cluster, deployment, component string) {
	t.Helper()
	kubectl(t, c, "", "scale", "deployment", deployment, "-n", names.LiqoNamespace, "--replicas=0")
	t.Cleanup(func() {
		kubectl(t, c, "", "scale", "deployment", deployment, "-n", names.LiqoNamespace, "--replicas=1")
		kubectl(t, c, "", "rollout", "status", "deployment", deployment, "-n", names.LiqoNamespace, "--timeout=2m")
	})
	story.Eventually(t, deployment+" to end", patience, func(ctx context.Context) error {
		var pods corev1.PodList
		err := c.Client.List(ctx, &pods, client.InNamespace(names.LiqoNamespace), client.MatchingLabels{"app.kubernetes.io/name": component})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
}

// mergePatch returns the merge patch that sets a field of an object.
func mergePatch(t *testing.T, field, name string, value any) client.Patch {
	t.Helper()
	text, err := json.Marshal(map[string]any{field: map[string]any{name: value}})
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.MergePatchType, text)
}

// The consumer asks for remote namespaces by the names of others, with the certificate of its control plane.
func TestConsumerNamespaces(t *testing.T) {
	const honest = "honest"
	requested := map[string]string{
		"addon":              "argocd",
		"addon_by_suffix":    "attacks-system",
		"bound_by_addon":     "attacks-addon",
		"kubernetes":         metav1.NamespaceSystem,
		"default":            metav1.NamespaceDefault,
		"liqo":               names.LiqoNamespace,
		"own_tenant":         providerTenant,
		"other_tenant":       otherTenant,
		"tenant_to_come":     names.DefaultTenantNamespace("cl-new"),
		"app_of_other":       otherShop,
		"namespace_of_staff": staff,
		honest:               "attacks-honest",
	}
	stopLiqo(t, consumer, "liqo-crd-replicator", "crd-replicator")
	mapping := read(t, provider, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: provider.ID}})
	if err := controlPlane.Patch(t.Context(), mapping, mergePatch(t, "spec", "desiredMapping", requested)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the replicator leaves entries alone that it has not made
		none := map[string]any{}
		for local := range mapping.Spec.DesiredMapping {
			if local != shop {
				none[local] = nil
			}
		}
		if err := controlPlane.Patch(context.WithoutCancel(t.Context()), mapping, mergePatch(t, "spec", "desiredMapping", none)); err != nil {
			t.Error(err)
		}
	})
	story.Eventually(t, "an answer about each namespace", patience, func(ctx context.Context) error {
		if err := provider.Client.Get(ctx, client.ObjectKeyFromObject(mapping), mapping); err != nil {
			return err
		}
		if status := mapping.Status.CurrentMapping[honest]; status.Phase != offv1beta1.MappingAccepted {
			return fmt.Errorf("the legitimate name is refused: %+v", status)
		}
		for local := range requested {
			if mapping.Status.CurrentMapping[local].Phase == "" {
				return fmt.Errorf("there is none about %s", local)
			}
		}
		return nil
	})
	secrets := func(namespace string) request { return slice.list(&corev1.SecretList{}, namespace) }
	story.Eventually(t, "the rights in the honest namespace", patience, secrets(requested[honest]))
	delete(requested, honest)
	for local, remote := range requested {
		t.Run(local, func(t *testing.T) {
			if status := mapping.Status.CurrentMapping[local]; status.Phase == offv1beta1.MappingAccepted {
				t.Errorf("the consumer gets the namespace %s: %+v", remote, status)
			}
			expectRefusal(t, secrets(remote)(t.Context()), forbidden)
			namespace := &corev1.Namespace{}
			err := provider.Client.Get(t.Context(), client.ObjectKey{Name: remote}, namespace)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if remote != providerTenant && namespace.Labels[names.RemoteClusterID] == consumer.ID {
				t.Errorf("the namespace %s has the labels %v", remote, namespace.Labels)
			}
		})
	}
}

// The consumer has endpoints of the provider behind a Service of its own, with the certificate of its ResourceSlice.
func TestConsumerEndpoints(t *testing.T) {
	var configurations networkingv1beta1.ConfigurationList
	if err := provider.Client.List(t.Context(), &configurations, client.MatchingLabels{names.RemoteClusterID: consumer.ID}); err != nil {
		t.Fatal(err)
	}
	if len(configurations.Items) != 1 || configurations.Items[0].Status.Remote == nil || len(configurations.Items[0].Status.Remote.CIDR.Pod) == 0 {
		t.Fatalf("Configurations of the consumer are %+v", configurations.Items)
	}
	networks := configurations.Items[0]
	own := netip.MustParsePrefix(string(networks.Spec.Remote.CIDR.Pod[0])).Addr().Next().Next().Next()
	seen := netip.MustParsePrefix(string(networks.Status.Remote.CIDR.Pod[0])) // the network of own, in the provider
	remote := read(t, provider, pod(remoteShop, "remote"))
	kubernetes := read(t, provider, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}})
	foreign := map[string]string{"metadata": "169.254.169.254", "loopback": "127.0.0.1", "node": remote.Status.HostIP, "service": kubernetes.Spec.ClusterIP}
	shadow := &offv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: remoteShop, Name: "attack", Labels: map[string]string{
		names.OffloadingOrigin: consumer.ID, discoveryv1.LabelServiceName: "attack",
	}}}
	shadow.Spec.Template.AddressType = discoveryv1.AddressTypeIPv4
	shadow.Spec.Template.Ports = []discoveryv1.EndpointPort{{Port: new(int32(443))}}
	for _, address := range append([]string{own.String()}, slices.Sorted(maps.Values(foreign))...) {
		shadow.Spec.Template.Endpoints = append(shadow.Spec.Template.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	if err := slice.Create(t.Context(), shadow); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, provider, "", "delete", "shadowendpointslice", shadow.Name, "-n", shadow.Namespace, "--timeout=2m")
	})
	var addresses []string
	story.Eventually(t, "the endpoint of the consumer", patience, func(ctx context.Context) error {
		var all discoveryv1.EndpointSliceList
		if err := provider.Client.List(ctx, &all, client.InNamespace(remoteShop), client.MatchingLabels{discoveryv1.LabelServiceName: "attack"}); err != nil {
			return err
		}
		addresses = nil
		for _, s := range all.Items {
			for _, e := range s.Endpoints {
				addresses = append(addresses, e.Addresses...)
			}
		}
		if len(addresses) == 0 {
			return errors.New("it is not there")
		}
		return nil
	})
	if first, err := netip.ParseAddr(addresses[0]); err != nil || !seen.Contains(first) || len(addresses) > 1 {
		t.Errorf("endpoints are %v, want one in the network of the consumer, %s", addresses, seen)
	}
	for name, address := range foreign {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(addresses, address) {
				t.Errorf("%s is behind a Service of the consumer: %v", address, addresses)
			}
		})
	}
}
