// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8sv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// The other writer does something to an object in each round, as an operator does that is told of each change; what of ours it is, is put
// back. rounds are many more than writes may be: most of them last milliseconds, and the last of that many writes is sent minutes later.
const (
	rounds      = 60
	mostWrites  = 10
	leastWrites = 3
)

// rivalry is an object, and how we put it back.
type rivalry struct {
	*applier
	limited client.Client
	writes  int
	told    string
}

func newRivalry(t *testing.T) *rivalry {
	t.Helper()
	a := newApplier(t)
	return &rivalry{applier: a, limited: kube.LimitWrites(a.client, a.client)}
}

// run has both writers write in turn. ours returns whether it wrote.
func (r *rivalry) run(t *testing.T, theirs func(context.Context) error, owned func(context.Context) (bool, error)) {
	t.Helper()
	for range rounds {
		wrote, err := owned(t.Context())
		if message, conflict := kube.ConflictingWriter(err); conflict {
			r.told = message
			if after := kube.Classify(err).After; after <= 0 {
				t.Fatalf("it is tried again after %s", after)
			}
		} else if err != nil && !apierrors.IsConflict(err) && !kube.IsWait(err) {
			t.Fatalf("putting it back: %v", err)
		}
		if wrote {
			r.writes++
		}
		if err := theirs(t.Context()); err != nil && !apierrors.IsConflict(err) {
			t.Fatalf("changing it: %v", err)
		}
	}
	if r.writes > mostWrites || r.writes < leastWrites {
		t.Errorf("%d writes in %d rounds, want %d to %d", r.writes, rounds, leastWrites, mostWrites)
	}
}

func (r *rivalry) wantTold(t *testing.T, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(r.told, word) {
			t.Errorf("told %q, without %q", r.told, word)
		}
	}
}

// ownedObjects are objects of each kind that controllers of ours make.
func ownedObjects(namespace string) map[string]client.Object {
	name := testkit.UniqueID()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"test": "ours"}}
	global := metav1.ObjectMeta{Name: name, Labels: meta.Labels}
	labels := map[string]string{"app": "x"}
	hook := admissionv1.ValidatingWebhook{
		Name: "x.liqo.io", SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://localhost:1")},
	}
	return map[string]client.Object{
		"Deployment": &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}},
		"Service":                        &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		"Secret":                         &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"key": []byte("value")}},
		"ConfigMap":                      &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}},
		"ServiceAccount":                 &corev1.ServiceAccount{ObjectMeta: meta},
		"Role":                           &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{}},
		"RoleBinding":                    &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"}},
		"ClusterRole":                    &rbacv1.ClusterRole{ObjectMeta: global, Rules: []rbacv1.PolicyRule{}},
		"ClusterRoleBinding":             &rbacv1.ClusterRoleBinding{ObjectMeta: global, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "x"}},
		"Namespace":                      &corev1.Namespace{ObjectMeta: global},
		"Node":                           &corev1.Node{ObjectMeta: global},
		"EndpointSlice":                  &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}},
		"Ingress":                        &networkingk8sv1.Ingress{ObjectMeta: meta, Spec: networkingk8sv1.IngressSpec{IngressClassName: new("x"), Rules: []networkingk8sv1.IngressRule{{Host: "x.example.com"}}}},
		"ValidatingWebhookConfiguration": &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: global, Webhooks: []admissionv1.ValidatingWebhook{hook}},
		"ForeignCluster":                 &liqov1beta1.ForeignCluster{ObjectMeta: global, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(name)}},
		"Identity": &authv1beta1.Identity{ObjectMeta: meta, Spec: authv1beta1.IdentitySpec{
			ClusterID: liqov1beta1.ClusterID(name), Type: authv1beta1.ControlPlaneIdentityType, AuthParams: authv1beta1.AuthParams{APIServer: "https://example.com"},
		}},
		"ResourceSlice": &authv1beta1.ResourceSlice{ObjectMeta: meta, Spec: authv1beta1.ResourceSliceSpec{ProviderClusterID: new(liqov1beta1.ClusterID(name)), Class: "default"}},
		"Renew":         &authv1beta1.Renew{ObjectMeta: meta, Spec: authv1beta1.RenewSpec{ConsumerClusterID: liqov1beta1.ClusterID(name), IdentityType: authv1beta1.ControlPlaneIdentityType, CSR: []byte("x"), PublicKey: []byte("x")}},
		"Network":       &ipamv1alpha1.Network{ObjectMeta: meta, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.200.0.0/16"}},
		"IP":            &ipamv1alpha1.IP{ObjectMeta: meta, Spec: ipamv1alpha1.IPSpec{IP: "10.200.0.1"}},
		"Configuration": &networkingv1beta1.Configuration{ObjectMeta: meta},
		"Connection":    &networkingv1beta1.Connection{ObjectMeta: meta, Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}},
		"InternalNode":  &networkingv1beta1.InternalNode{ObjectMeta: global},
		"PublicKey":     &networkingv1beta1.PublicKey{ObjectMeta: meta, Spec: networkingv1beta1.PublicKeySpec{PublicKey: []byte(strings.Repeat("x", 32))}},
		"VirtualNode":   &offv1beta1.VirtualNode{ObjectMeta: meta, Spec: offv1beta1.VirtualNodeSpec{ClusterID: liqov1beta1.ClusterID(name)}},
		"NamespaceMap":  &offv1beta1.NamespaceMap{ObjectMeta: meta},
		"Quota":         &offv1beta1.Quota{ObjectMeta: meta, Spec: offv1beta1.QuotaSpec{User: "x", Resources: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		"ShadowPod":     &offv1beta1.ShadowPod{ObjectMeta: meta, Spec: offv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
		"ShadowEndpointSlice": &offv1beta1.ShadowEndpointSlice{ObjectMeta: meta, Spec: offv1beta1.ShadowEndpointSliceSpec{
			Template: offv1beta1.EndpointSliceTemplate{AddressType: discoveryv1.AddressTypeIPv4},
		}},
	}
}

// Objects that we own, of each kind, are put back ever more seldom where another writer changes or deletes them each time.
func TestPutBacks(t *testing.T) {
	namespace := newApplier(t).namespace
	kinds := ownedObjects(namespace)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		want := kinds[kind]
		t.Run(kind+"/changed", func(t *testing.T) {
			r := newRivalry(t)
			r.run(t, func(ctx context.Context) error {
				got := &metav1.PartialObjectMetadata{}
				gvk, err := apiutil.GVKForObject(want, kube.Scheme)
				if err != nil {
					return err
				}
				got.SetGroupVersionKind(gvk)
				got.Namespace, got.Name = want.GetNamespace(), want.GetName()
				return r.client.Patch(ctx, got, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"test":"theirs"}}}`)), client.FieldOwner("istiod"))
			}, func(ctx context.Context) (bool, error) { return kube.Ensure(ctx, r.limited, want) })
			r.wantTold(t, kind, want.GetName(), `"istiod"`)
		})
		if kind == "Namespace" { // which takes a controller to go
			continue
		}
		t.Run(kind+"/deleted", func(t *testing.T) {
			r := newRivalry(t)
			r.run(t, func(ctx context.Context) error {
				return client.IgnoreNotFound(r.client.Delete(ctx, want.DeepCopyObject().(client.Object), client.GracePeriodSeconds(0)))
			}, func(ctx context.Context) (bool, error) { return kube.Ensure(ctx, r.limited, want) })
			r.wantTold(t, kind, want.GetName(), "deleted")
		})
	}
}

// The same holds for what is not applied as a whole.
func TestPutBacksOfParts(t *testing.T) {
	r := newRivalry(t)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID()}}
	fc.Spec.ClusterID = liqov1beta1.ClusterID(fc.Name)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	secret := func(name string, value int) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Data: map[string][]byte{"key": fmt.Appendf(nil, "made %d", value)}}
	}
	testkit.Create(t, r.client, fc)
	set := func(role liqov1beta1.RoleType) func(client.Client) func(context.Context) (bool, error) {
		return func(c client.Client) func(context.Context) (bool, error) {
			return func(ctx context.Context) (bool, error) {
				got := &liqov1beta1.ForeignCluster{}
				if err := r.client.Get(ctx, client.ObjectKeyFromObject(fc), got); err != nil {
					return false, err
				}
				before := got.DeepCopy()
				got.Status.Role = role
				err := c.Status().Patch(ctx, got, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(string(role)))
				return err == nil, err
			}
		}
	}
	label := func(c client.Client, value string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			body := fmt.Appendf(nil, `{"metadata":{"labels":{"test":%q}}}`, value)
			err := c.Patch(ctx, ns.DeepCopy(), client.RawPatch("application/merge-patch+json", body), client.FieldOwner(value))
			return err == nil, err
		}
	}
	made := 0
	for name, c := range map[string]struct {
		ours, theirs func(context.Context) (bool, error)
		told         string
	}{
		"status": {set(liqov1beta1.ConsumerRole)(r.limited), set(liqov1beta1.ProviderRole)(r.client), "ForeignCluster"},
		"label":  {label(r.limited, "liqo"), label(r.client, "other"), "Namespace"},
		"a new key each time": {
			func(ctx context.Context) (bool, error) {
				made++
				err := r.limited.Create(ctx, secret("key", made))
				return err == nil, err
			},
			func(ctx context.Context) (bool, error) {
				return true, client.IgnoreNotFound(r.client.Delete(ctx, secret("key", 0)))
			}, "Secret",
		},
		"a foreign object is removed": {
			func(ctx context.Context) (bool, error) {
				got := secret("foreign", 0)
				if err := r.client.Get(ctx, client.ObjectKeyFromObject(got), got); err != nil {
					return false, client.IgnoreNotFound(err)
				}
				err := r.limited.Delete(ctx, got, client.Preconditions{UID: &got.UID})
				return err == nil, err
			},
			func(ctx context.Context) (bool, error) {
				err := r.client.Create(ctx, secret("foreign", 0))
				if apierrors.IsAlreadyExists(err) {
					err = nil
				}
				return err == nil, err
			}, "made anew by another writer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := &rivalry{applier: r.applier, limited: r.limited}
			one.run(t, func(ctx context.Context) error {
				_, err := c.theirs(ctx)
				return err
			}, c.ours)
			one.wantTold(t, c.told)
		})
	}
}

// steadfast wants the role of ForeignClusters to be that of a consumer.
type steadfast struct{}

func (steadfast) Sync(_ context.Context, fc *liqov1beta1.ForeignCluster) error {
	fc.Status.Role = liqov1beta1.ConsumerRole
	return nil
}

// A controller does not fight, and says with whom it would.
func TestConflictingWriterEvent(t *testing.T) {
	c := testkit.Cluster(t)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "test"}, func(mgr ctrl.Manager) error {
		controller := kube.NewController[*liqov1beta1.ForeignCluster](mgr, kube.Options{Name: "steadfast"}, steadfast{})
		return controller.Complete(controller.Builder())
	})
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID()}}
	fc.Spec.ClusterID = liqov1beta1.ClusterID(fc.Name)
	testkit.Create(t, c.Client, fc)
	undone := 0
	rival := func() error { // writes as soon as it was put back
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil {
			return err
		}
		if fc.Status.Role != liqov1beta1.ConsumerRole {
			return fmt.Errorf("put back %d times so far", undone)
		}
		undone++
		body := []byte(`{"status":{"role":"Provider"}}`)
		return c.Client.Status().Patch(t.Context(), fc, client.RawPatch("application/merge-patch+json", body), client.FieldOwner("rival"))
	}
	for range leastWrites {
		testkit.Eventually(t, time.Minute, rival)
	}
	// From now on the controller takes longer than all of these rounds, which have it look at the object.
	for round := range 10 * mostWrites {
		if err := rival(); err != nil && !strings.Contains(err.Error(), "so far") {
			t.Fatal(err)
		}
		testkit.Update(t, c.Client, fc, func(fc *liqov1beta1.ForeignCluster) { fc.Annotations = map[string]string{"round": strconv.Itoa(round)} })
	}
	testkit.WantEvent(t, c, fc, kube.ReasonConflictingWriter, `changed by "rival"`)
	if undone > mostWrites {
		t.Errorf("the status was put back %d times", undone)
	}
}
