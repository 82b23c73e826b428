// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AggregatedAPI leads the API server to an aggregated API, until the test ends. It is served by the Service, at the address that is returned; with
// insecure by any certificate.
func AggregatedAPI(t testing.TB, c *ControlPlane, group, version, namespace, service string, insecure bool) (api *unstructured.Unstructured, address string) {
	t.Helper()
	host, err := hostAddress()
	if err != nil {
		t.Fatal(err)
	}
	port := Port(t)
	Create(t, c.Client,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}}},
			Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(port))}},
		},
	)
	api = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15), "insecureSkipTLSVerify": insecure,
			"service": map[string]any{"name": service, "namespace": namespace, "port": int64(443)},
		},
	}}
	Create(t, c.Client, api)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), api) })
	return api, net.JoinHostPort(host, strconv.Itoa(port))
}

// WaitForAPI waits until the API server counts an aggregated API as available.
func WaitForAPI(t testing.TB, c *ControlPlane, api *unstructured.Unstructured) {
	t.Helper()
	Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(api), api); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		for _, condition := range conditions {
			if fields := condition.(map[string]any); fields["type"] == "Available" && fields["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", conditions)
	})
}

// hostAddress returns an address of this machine that endpoints may have: not one of loopback.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, addr := range all {
		if prefix, ok := addr.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address but loopback")
}
