// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func ingress(namespace, class string, annotations ...string) *networkingv1.Ingress {
	out := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Annotations: map[string]string{}}}
	out.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	if class != "" {
		out.Spec.IngressClassName = &class
	}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		out.Annotations[key] = value
	}
	return out
}

// ingresses are the values of what consumers may have.
func ingresses(of values) values {
	return values{"offloading": values{"twinNamespaces": values{"ingresses": of}}}
}

func TestIngressesPolicyWithoutLimit(t *testing.T) {
	for _, obj := range mustRender(t, ingresses(values{"refusedAnnotations": []any{}})).objects {
		if obj.GetName() == "liqo-ingresses" {
			t.Errorf("there is a %s", obj.GetKind())
		}
	}
}

func TestIngressesPolicy(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	other := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "turin"})
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	staff := clientOf(t, c.User(t, "editor", "staff", "system:authenticated"))
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-editor-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: []string{"create", "get"}},
	}}
	if err := c.Client.Create(t.Context(), editor); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), editor) })
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-1234")
	bind(t, c, other, names.RoleVirtualKubeletRemote, "gold-1234")
	bind(t, c, remoteNamespace, editor.Name, "editor")
	for _, user := range []client.Client{peer, staff} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &networkingv1.Ingress{})
		})
	}
	remoteIngress := ingress(remoteNamespace, "internal", "a/b=c")
	if err := peer.Create(t.Context(), remoteIngress); err != nil {
		t.Fatal("without a limit:", err)
	}

	type attempt struct {
		as   client.Client
		what *networkingv1.Ingress
		want string
	}
	const old = "kubernetes.io/ingress.class"
	for name, tc := range map[string]struct {
		limits   values
		denied   *networkingv1.Ingress // with this text, once the policy is enforced
		text     string
		attempts map[string]attempt
	}{
		"none": {values{"allowed": false, "refusedAnnotations": []any{}}, ingress(remoteNamespace, ""), "of other clusters", map[string]attempt{
			"a peer":         {peer, ingress(remoteNamespace, ""), "this provider takes no Ingresses of other clusters"},
			"somebody else":  {staff, ingress(remoteNamespace, ""), ""},
			"administrators": {c.Client, ingress(remoteNamespace, ""), ""},
		}},
		"some consumers": {values{"consumers": []any{"milan"}, "refusedAnnotations": []any{}}, ingress(other, ""), "of your cluster", map[string]attempt{
			"one of them": {peer, ingress(remoteNamespace, ""), ""},
			"another":     {peer, ingress(other, ""), "this provider takes no Ingresses of your cluster"},
		}},
		"some classes": {values{"classes": []any{"public", "edge"}, "refusedAnnotations": []any{}}, ingress(remoteNamespace, ""), "without a class", map[string]attempt{
			"one of them":                        {peer, ingress(remoteNamespace, "public"), ""},
			"by the annotation":                  {peer, ingress(remoteNamespace, "", old+"=edge"), ""},
			"another":                            {peer, ingress(remoteNamespace, "internal"), "no Ingresses of class internal from other clusters; it takes: public, edge"},
			"another by the annotation":          {peer, ingress(remoteNamespace, "", old+"=internal"), "of class internal"},
			"the default one":                    {peer, ingress(remoteNamespace, ""), "no Ingresses without a class from other clusters"},
			"of somebody else":                   {staff, ingress(remoteNamespace, "internal"), ""},
			"with an annotation, which are free": {peer, ingress(remoteNamespace, "public", "a/b=c"), ""},
		}},
		"no class": {values{"classes": []any{""}, "refusedAnnotations": []any{}}, ingress(remoteNamespace, "x"), "it takes: none named", map[string]attempt{
			"the default one": {peer, ingress(remoteNamespace, ""), ""},
			"a class":         {peer, ingress(remoteNamespace, "public"), "of class public from other clusters; it takes: none named"},
		}},
		"some annotations": {values{"annotations": []any{"example.com/*", "note"}, "refusedAnnotations": []any{}}, ingress(remoteNamespace, "", "x=y"), "with the annotations x", map[string]attempt{
			"none":                 {peer, ingress(remoteNamespace, "any"), ""},
			"those":                {peer, ingress(remoteNamespace, "", "example.com/a=1", "note=2"), ""},
			"others":               {peer, ingress(remoteNamespace, "", "note=2", "nginx.ingress.kubernetes.io/server-snippet=x"), "with the annotations nginx.ingress.kubernetes.io/server-snippet"},
			"the class is a class": {peer, ingress(remoteNamespace, "", old+"=any"), ""},
		}},
		"default": {values{}, ingress(remoteNamespace, "", "example.com/some-snippet=x"), "with the annotations example.com/some-snippet", map[string]attempt{
			"none":               {peer, ingress(remoteNamespace, "any"), ""},
			"others":             {peer, ingress(remoteNamespace, "", "cert-manager.io/issuer=x", "example.com/snippet-of=x"), ""},
			"snippet":            {peer, ingress(remoteNamespace, "", "nginx.ingress.kubernetes.io/configuration-snippet=x"), "with the annotations nginx.ingress.kubernetes.io/configuration-snippet"},
			"snippets":           {peer, ingress(remoteNamespace, "", "nginx.org/server-snippets=x"), "with the annotations nginx.org/server-snippets"},
			"snippet_of_another": {staff, ingress(remoteNamespace, "", "nginx.org/server-snippets=x"), ""},
		}},
		"refused_by_prefix": {values{"refusedAnnotations": []any{"other.example/*"}}, ingress(remoteNamespace, "", "other.example/a=x"), "with the annotations other.example/a", map[string]attempt{
			"snippet": {peer, ingress(remoteNamespace, "", "nginx.org/server-snippets=x"), ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, obj := range mustRender(t, ingresses(tc.limits)).objects {
				if obj.GetName() != "liqo-ingresses" {
					continue
				}
				if err := c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), owner, client.ForceOwnership); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
			}
			testkit.Eventually(t, 3*time.Minute, func() error {
				return refused(peer.Create(t.Context(), tc.denied.DeepCopy(), client.DryRunAll), tc.text)
			})
			for name, a := range tc.attempts {
				expectOne(t, name, a.as.Create(t.Context(), a.what, client.DryRunAll), a.want)
			}
			if name == "none" {
				err := peer.Patch(t.Context(), remoteIngress.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
				expectOne(t, "a change of what is there", err, "takes no Ingresses")
				expectOne(t, "deleting what is there", peer.Delete(t.Context(), remoteIngress.DeepCopy(), client.DryRunAll), "")
			}
		})
	}
}

// expectOne also wants the sentence to come once.
func expectOne(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: refused: %v", name, err)
	case want != "":
		if err := errors.Join(refused(err, want), once(err)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func once(err error) error {
	if err == nil || strings.Count(err.Error(), "this provider takes no") != 1 {
		return errors.New("the sentence does not come once")
	}
	return nil
}
