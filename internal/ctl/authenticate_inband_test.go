// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// What does not hang on the networks is looked at before they are connected.
func TestPeeringThroughTheTunnelIsRefusedBeforeAnythingIsDone(t *testing.T) {
	c := testkit.Cluster(t)
	rome, _ := bareSide(t, c, "local", "rome-in-band")
	milan, said := bareSide(t, c, "remote", "milan-in-band")
	survey := func() error {
		r := &peeringRun{
			cli: &cli{Printer: out.New(strings.NewReader(""), said, said)}, consumer: rome, provider: milan,
			options: &peerOptions{networkingDisabled: true, inBand: true}, // the networks are somebody else's
		}
		return r.survey(t.Context())
	}
	refused := func(want string) {
		t.Helper()
		if err := survey(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it is not refused because %s: %v", want, err)
		}
	}
	refused("there is no IP " + milan.liqoNamespace)
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: milan.liqoNamespace, Name: names.APIServerProxyIP}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.20"}}
	testkit.Create(t, c.Client, ip)
	testkit.UpdateStatus(t, c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = "10.70.0.9", "10.70.0.0/16" })
	if err := survey(); err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: peerMeta(client.ObjectKey{Namespace: "default", Name: "in-band"}, rome.id), Spec: authv1beta1.TenantSpec{ClusterID: "rome-in-band"}}
	testkit.Create(t, c.Client, tenant)
	refused("the Tenant default/in-band of rome-in-band is not in its tenant namespace")
	if err := c.Client.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
}
