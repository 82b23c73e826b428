// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clientgotesting "k8s.io/client-go/testing"
)

// cachedKinds is a getter whose kinds were cached earlier, as on the disk of a user.
type cachedKinds struct {
	genericclioptions.RESTClientGetter
	cache discovery.CachedDiscoveryInterface
}

func (k cachedKinds) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return k.cache, nil
}

// A cluster of another version of Kubernetes may have the address of an earlier one, as with kind, or have been upgraded.
func TestCapabilitiesIgnoreCachedKinds(t *testing.T) {
	const policies = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
	cluster := &fakediscovery.FakeDiscovery{Fake: &clientgotesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "admissionregistration.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy"}},
	}}}}
	h := &helmClient{config: &action.Configuration{RESTClientGetter: cachedKinds{cache: memory.NewMemCacheClient(cluster)}}}
	for _, known := range []bool{true, false} {
		if !known {
			cluster.Resources = []*metav1.APIResourceList{{GroupVersion: "admissionregistration.k8s.io/v1"}}
		}
		caps, err := h.clusterCapabilities()
		if err != nil {
			t.Fatal(err)
		}
		if got := caps.APIVersions.Has(policies); got != known {
			t.Errorf("the cluster has the kind: %v, want %v", got, known)
		}
	}
}
