// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func service(namespace, origin string, edit func(*corev1.Service)) *corev1.Service {
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Labels: map[string]string{names.OffloadingOrigin: origin}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if edit != nil {
		edit(out)
	}
	return out
}

func called(name string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}
	}
}

func TestServicesPolicy(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	staff := clientOf(t, c.User(t, "editor", "staff", "system:authenticated"))
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-editor-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"create", "get"}},
	}}
	if err := c.Client.Create(t.Context(), editor); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), editor) })
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-1234")
	bind(t, c, remoteNamespace, editor.Name, "editor")
	sibling := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	bind(t, c, sibling, names.RoleVirtualKubeletRemote, "gold-1234")
	for _, user := range []client.Client{peer, staff} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &corev1.Service{})
		})
	}
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: sibling, Name: "x"}, &corev1.Service{})
	})
	external := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }
	shadow := func(origin string) *offv1beta1.ShadowEndpointSlice {
		return &offv1beta1.ShadowEndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, GenerateName: "web-", Labels: map[string]string{names.OffloadingOrigin: origin}},
			Spec:       offv1beta1.ShadowEndpointSliceSpec{Template: offv1beta1.EndpointSliceTemplate{AddressType: discoveryv1.AddressTypeIPv4}},
		}
	}
	const own, addresses, elsewhere = "may only write what it reflects itself", "may not claim external addresses", "may not stand for an address"
	for name, tc := range map[string]struct {
		as   client.Client
		what client.Object
		want string
	}{
		"a Service":                        {peer, service(remoteNamespace, "milan", nil), ""},
		"a Service of another cluster":     {peer, service(remoteNamespace, "turin", nil), own},
		"a Service of nobody":              {peer, service(remoteNamespace, "", nil), own},
		"endpoints":                        {peer, shadow("milan"), ""},
		"endpoints of another cluster":     {peer, shadow("turin"), own},
		"external addresses":               {peer, service(remoteNamespace, "milan", external), addresses},
		"external addresses of staff":      {staff, service(remoteNamespace, "", external), ""},
		"a name outside":                   {peer, service(remoteNamespace, "milan", called("db.example.com")), ""},
		"a name that only looks like one":  {peer, service(remoteNamespace, "milan", called("svc.example.com")), ""},
		"a Service of another namespace":   {peer, service(remoteNamespace, "milan", called("kubernetes.default.svc.cluster.local")), elsewhere},
		"the same in short and in capital": {peer, service(remoteNamespace, "milan", called("kubernetes.default.svc")), elsewhere},
		"a pod":                            {peer, service(remoteNamespace, "milan", called("10-1-2-3.other.pod.cluster.local")), elsewhere},
		"a pod of a StatefulSet":           {peer, service(remoteNamespace, "milan", called("db-0.db.other.svc.cluster.local")), elsewhere},
		"an address":                       {peer, service(remoteNamespace, "milan", called("169.254.169.254")), elsewhere},
		"this machine":                     {peer, service(remoteNamespace, "milan", called("localhost")), elsewhere},
		"a name without a domain":          {peer, service(remoteNamespace, "milan", called("metadata")), elsewhere},
		"a Service by the search path":     {peer, service(remoteNamespace, "milan", called("kubernetes.default")), elsewhere},
		"a domain, told apart from that":   {peer, service(remoteNamespace, "milan", called("example.com.")), ""},
		"a dot makes no name a domain":     {peer, service(remoteNamespace, "milan", called("metadata.")), elsewhere},
		"a Service with a dot at the end":  {peer, service(remoteNamespace, "milan", called("kubernetes.default.svc.")), elsewhere},
		"own_namespace":                    {peer, service(remoteNamespace, "milan", called("web."+sibling+".svc.cluster.local")), ""},
		"own_namespace_short":              {peer, service(remoteNamespace, "milan", called("web."+sibling+".svc")), ""},
		"own_namespace_dot":                {peer, service(remoteNamespace, "milan", called("web."+sibling+".svc.cluster.local.")), ""},
		"own_namespace_pod":                {peer, service(remoteNamespace, "milan", called("db-0.db."+sibling+".svc.cluster.local")), ""},
		"own_namespace_by_search_path":     {peer, service(remoteNamespace, "milan", called("web."+sibling)), elsewhere},
		"own_namespace_as_name_of_service": {peer, service(remoteNamespace, "milan", called(sibling+".default.svc.cluster.local")), elsewhere},
		"own_namespace_before_another":     {peer, service(remoteNamespace, "milan", called("web."+sibling+".svc.default.svc.cluster.local")), elsewhere},
		"own_namespace_before_svc":         {peer, service(remoteNamespace, "milan", called("web."+sibling+".svc.svc")), elsewhere},
		"hexadecimal_address":              {peer, service(remoteNamespace, "milan", called("0x7f.0.0.1")), elsewhere},
		"hexadecimal_address_all":          {peer, service(remoteNamespace, "milan", called("0xa9.0xfe.0xa9.0xfe")), elsewhere},
		"octal_address":                    {peer, service(remoteNamespace, "milan", called("0251.0376.0251.0376")), elsewhere},
		"short_address":                    {peer, service(remoteNamespace, "milan", called("127.0.1")), elsewhere},
		"address_with_dot":                 {peer, service(remoteNamespace, "milan", called("169.254.169.254.")), elsewhere},
		"address_with_numbers_last":        {peer, service(remoteNamespace, "milan", called("a.b.1")), elsewhere},
		"localhost_localdomain":            {peer, service(remoteNamespace, "milan", called("localhost.localdomain.")), elsewhere},
		"localhost_of_anything":            {peer, service(remoteNamespace, "milan", called("a.b.localhost")), elsewhere},
		"localhost6":                       {peer, service(remoteNamespace, "milan", called("a.localhost6.localdomain6")), elsewhere},
		"cluster_domain":                   {peer, service(remoteNamespace, "milan", called("node.a.cluster.local")), elsewhere},
		"cluster_domain_dot":               {peer, service(remoteNamespace, "milan", called("api.cluster.local.")), elsewhere},
		"metadata_of_clouds":               {peer, service(remoteNamespace, "milan", called("metadata.google.internal")), elsewhere},
		"numbers_in_a_domain":              {peer, service(remoteNamespace, "milan", called("1.2.example.com")), ""},
		"hexadecimal_looks_in_a_domain":    {peer, service(remoteNamespace, "milan", called("0xcafe.example.com")), ""},
		"a name of staff":                  {staff, service(remoteNamespace, "", called("kubernetes.default.svc.cluster.local")), ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, tc.as.Create(t.Context(), tc.what, client.DryRunAll), tc.want) })
	}

	local, foreign := service(remoteNamespace, "milan", nil), service(remoteNamespace, "", nil)
	testkit.Create(t, c.Client, local, foreign)
	for name, tc := range map[string]struct {
		what        *corev1.Service
		patch, want string
	}{
		"a change of its own":                      {local, `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		"a claim of what is its own":               {local, `{"spec":{"externalIPs":["192.0.2.1"]}}`, addresses},
		"the mark of its own":                      {local, `{"metadata":{"labels":{"offloading.liqo.io/origin":"turin"}}}`, own},
		"what the provider put there":              {foreign, `{"metadata":{"annotations":{"a":"b"}}}`, own},
		"a mark for what the provider put there":   {foreign, `{"metadata":{"labels":{"offloading.liqo.io/origin":"milan"}}}`, own},
		"an owner":                                 {local, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`, "may not touch finalizers and owners"},
		"a finalizer that nobody would take of it": {local, `{"metadata":{"finalizers":["example.com/kept"]}}`, "may not touch finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, peer.Patch(t.Context(), tc.what.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(tc.patch)), client.DryRunAll), tc.want)
		})
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web"}, AddressType: discoveryv1.AddressTypeIPv4}
	if err := peer.Create(t.Context(), slice, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a peer makes an EndpointSlice: %v", err)
	}
}
