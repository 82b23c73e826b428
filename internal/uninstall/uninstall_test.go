// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func watching(t *testing.T, c *testkit.ControlPlane) client.WithWatch {
	t.Helper()
	return asUser(t, c.Config)
}

// create makes the object, and takes it away whatever holds it.
func create(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	if err := c.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // the test's own is over
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err == nil {
			_ = removeFinalizers(ctx, c.Client, obj)
		}
		_ = c.Client.Delete(ctx, obj)
	})
}

func meta(ns, name, peer string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: ns, Name: name}
	if peer != "" {
		m.Labels = map[string]string{names.RemoteClusterID: peer}
	}
	return m
}

func withFinalizer(m metav1.ObjectMeta, labels, annotations map[string]string) metav1.ObjectMeta {
	m.Finalizers = []string{"test.liqo.io/held"}
	m.Labels, m.Annotations = labels, annotations
	return m
}

func TestCheckInUse(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "use", nil)
	if b, err := Check(t.Context(), c.Client); err != nil || !b.Empty() {
		t.Fatalf("an empty cluster is in use: %v %v", b, err)
	}
	for id, modules := range map[string]liqov1beta1.Modules{
		"cl-all":  {Networking: on, Authentication: on, Offloading: on},
		"cl-auth": {Authentication: on},
		"cl-gone": {},
	} {
		fc := &liqov1beta1.ForeignCluster{ObjectMeta: meta("", id, id), Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}}
		create(t, c, fc)
		fc.Status.Role, fc.Status.Modules = liqov1beta1.UnknownRole, modules
		if err := c.Client.Status().Update(t.Context(), fc); err != nil {
			t.Fatal(err)
		}
	}
	network := func(m metav1.ObjectMeta) *ipamv1alpha1.Network {
		return &ipamv1alpha1.Network{ObjectMeta: m, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"}}
	}
	ip := func(m metav1.ObjectMeta) *ipamv1alpha1.IP {
		return &ipamv1alpha1.IP{ObjectMeta: m, Spec: ipamv1alpha1.IPSpec{IP: "10.0.0.1"}}
	}
	for _, obj := range []client.Object{
		&offv1beta1.NamespaceOffloading{ObjectMeta: meta(ns, "offloading", "")},
		&authv1beta1.ResourceSlice{ObjectMeta: meta(ns, "of-a-peer", "cl-gone")},
		&authv1beta1.ResourceSlice{ObjectMeta: meta(ns, "of-nobody", "cl-unknown")},
		&networkingv1beta1.Configuration{ObjectMeta: meta(ns, "of-nobody", "")},
		ip(withFinalizer(meta(ns, "held", ""), nil, nil)),
		ip(withFinalizer(meta(ns, "ours", ""), map[string]string{names.IPType: names.IPTypeAPIServerProxy}, nil)),
		ip(meta(ns, "free", "")),
		network(withFinalizer(meta(ns, "held", ""), nil, map[string]string{names.Preinstalled: "false"})),
		network(withFinalizer(meta(ns, "preinstalled", ""), nil, map[string]string{names.Preinstalled: "true"})),
	} {
		create(t, c, obj)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pvc-", Labels: map[string]string{names.StorageProvisioner: "true"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: ns, Name: "data"},
		},
	}
	create(t, c, volume)
	volume.Status.Phase = corev1.VolumeBound
	if err := c.Client.Status().Update(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Client.Patch(context.Background(), volume, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = c.Client.Delete(context.Background(), volume)
	})
	got, err := Check(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	want := `you should:
disable networking for clusters:
- cl-all
disable authentication for clusters:
- cl-all
- cl-auth
- cl-gone
disable offloading for clusters:
- cl-all
unoffload the following namespaces:
- NS
remove the following resources:
- Configuration.networking.liqo.io: NS/of-nobody
- IP.ipam.liqo.io: NS/held
- Network.ipam.liqo.io: NS/held
- PersistentVolumeClaim: NS/data
- ResourceSlice.authentication.liqo.io: NS/of-nobody
`
	if diff := cmp.Diff(want, strings.ReplaceAll(got.String(), ns, "NS")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Empty() || !got.Peered() {
		t.Error("it is in use and peered")
	}
	if err := CleanUp(t.Context(), uninstaller(t, c)); err == nil || !strings.Contains(err.Error(), "- cl-auth") {
		t.Errorf("cleaning up does not refuse: %v", err)
	}
}

var on = liqov1beta1.Module{Enabled: true}

func TestCleanUp(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "clean", nil)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: meta("", "cl-idle", "cl-idle"), Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "cl-idle"}}
	slow := &ipamv1alpha1.Network{
		ObjectMeta: withFinalizer(meta(ns, "pod-cidr", ""), nil, map[string]string{names.Preinstalled: "true"}),
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"},
	}
	create(t, c, fc)
	create(t, c, slow)
	stays := &ipamv1alpha1.IP{ // as long as the Service does
		ObjectMeta: withFinalizer(meta(ns, "api-server-proxy", ""), map[string]string{names.IPType: names.IPTypeAPIServerProxy}, map[string]string{names.Preinstalled: "true"}),
		Spec:       ipamv1alpha1.IPSpec{IP: "10.0.0.7"},
	}
	create(t, c, stays)
	other := &ipamv1alpha1.IP{ObjectMeta: meta(ns, "other", ""), Spec: ipamv1alpha1.IPSpec{IP: "10.0.0.8"}}
	create(t, c, other)

	kube := uninstaller(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := CleanUp(ctx, kube)
	if err == nil || !strings.Contains(err.Error(), "Network "+ns+"/pod-cidr (held by test.liqo.io/held) is still there") {
		t.Errorf("the error does not say who is slow: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- CleanUp(t.Context(), uninstaller(t, c)) }()
	if err := removeFinalizers(t.Context(), c.Client, slow); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, list := range []client.ObjectList{&liqov1beta1.ForeignClusterList{}, &ipamv1alpha1.NetworkList{}} {
		if err := c.Client.List(t.Context(), list); err != nil || len(describeAll(list)) > 0 {
			t.Errorf("left: %v %v", describeAll(list), err)
		}
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(stays), stays); err != nil || stays.DeletionTimestamp != nil {
		t.Errorf("what is made again was deleted: %v", err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
		t.Errorf("the other IP is there: %v", err)
	}
	if err := removeFinalizers(t.Context(), c.Client, stays); err != nil {
		t.Fatal(err)
	}
}

func describeAll(list client.ObjectList) (all []string) {
	_ = apimeta.EachListItem(list, func(obj runtime.Object) error {
		all = append(all, obj.(client.Object).GetName())
		return nil
	})
	return all
}

// stumbling is a cluster whose API server fails the first list of that kind, the first deletion and the first patch.
func stumbling(t *testing.T, c *testkit.ControlPlane, kind string) client.WithWatch {
	t.Helper()
	troubles := map[string]func() (*http.Response, error){
		http.MethodGet:    func() (*http.Response, error) { return testkit.Answer(503, ""), nil },
		http.MethodDelete: func() (*http.Response, error) { return testkit.Answer(500, testkit.InternalError), nil },
		http.MethodPatch:  func() (*http.Response, error) { return nil, syscall.ECONNREFUSED },
	}
	var lock sync.Mutex
	t.Cleanup(func() {
		for method := range troubles {
			t.Errorf("there was no %s", method)
		}
	})
	return testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if testkit.IsWatch(r) || r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, kind) {
			return nil, nil
		}
		lock.Lock()
		defer lock.Unlock()
		response := troubles[r.Method]
		if response == nil {
			return nil, nil
		}
		delete(troubles, r.Method)
		return response()
	})
}

func TestCleanUpRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	ns := tenant(t, c, "troubled")
	create(t, c, &ipamv1alpha1.Network{ObjectMeta: meta(ns, "pod-cidr", ""), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"}})
	if err := CleanUp(t.Context(), stumbling(t, c, "/networks")); err != nil {
		t.Fatal(err)
	}
	var networks ipamv1alpha1.NetworkList
	if err := c.Client.List(t.Context(), &networks, client.InNamespace(ns)); err != nil || len(networks.Items) > 0 {
		t.Errorf("%d networks are left: %v", len(networks.Items), err)
	}
	if got := bindingsHeld(t, c, ns); got > 0 {
		t.Errorf("%d bindings are held", got)
	}
}

func TestWaitDeletionRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	isList := func(r *http.Request) bool { return !testkit.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/networks") }
	for name, tc := range map[string]struct {
		meets  func(*http.Request) bool
		answer func() (*http.Response, error)
	}{
		"lists are refused":   {isList, func() (*http.Response, error) { return testkit.Answer(500, testkit.InternalError), nil }},
		"it asks for a pause": {isList, func() (*http.Response, error) { return testkit.Answer(429, ""), nil }},
		"nobody answers":      {isList, func() (*http.Response, error) { return nil, syscall.ECONNREFUSED }},
		"watches are refused": {testkit.IsWatch, func() (*http.Response, error) { return testkit.Answer(503, ""), nil }},
		"a watch ends with an error": {testkit.IsWatch, func() (*http.Response, error) {
			return testkit.Answer(200, `{"type":"ERROR","object":`+testkit.InternalError+"}\n"), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := testkit.Namespace(t, c, "troubled", nil)
			slow := &ipamv1alpha1.Network{ObjectMeta: withFinalizer(meta(ns, "slow", ""), nil, nil), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"}}
			create(t, c, slow)
			if err := c.Client.Delete(t.Context(), slow); err != nil {
				t.Fatal(err)
			}
			var met atomic.Bool
			cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
				if !tc.meets(r) || met.Swap(true) {
					return nil, nil
				}
				if err := removeFinalizers(t.Context(), c.Client, slow); err != nil {
					t.Error(err)
				}
				return tc.answer()
			})
			if err := kube.WaitForNone(t.Context(), cluster, &ipamv1alpha1.NetworkList{}, client.InNamespace(ns)); err != nil || !met.Load() {
				t.Errorf("the wait ended: %v; met %v", err, met.Load())
			}
		})
	}
}

func TestWaitRemainingObjects(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "silent", nil)
	create(t, c, &ipamv1alpha1.Network{ObjectMeta: withFinalizer(meta(ns, "slow", ""), nil, nil), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.0.0.0/16"}})
	ctx, cancel := context.WithCancel(t.Context())
	var watches atomic.Int32
	cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		switch {
		case !testkit.IsWatch(r):
			return nil, nil
		case watches.Add(1) == 1:
			return testkit.Answer(200, ""), nil
		case watches.Load() == 3:
			cancel()
		}
		return testkit.Answer(503, "no etcd"), nil
	})
	err := kube.WaitForNone(ctx, cluster, &ipamv1alpha1.NetworkList{}, client.InNamespace(ns))
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "Network "+ns+"/slow (held by test.liqo.io/held) is still there: watching: ") {
		t.Errorf("it ended with %v", err)
	}
}

func TestWaitEmpty(t *testing.T) {
	c := testkit.Cluster(t)
	if err := kube.WaitForNone(t.Context(), watching(t, c), &corev1.ConfigMapList{}, client.MatchingLabels{"nobody": "has-it"}); err != nil {
		t.Error(err)
	}
	unknown := listOf(crdKind.GroupVersion().WithKind("Unknown"))
	if err := kube.WaitForNone(t.Context(), watching(t, c), unknown); err != nil {
		t.Errorf("a kind that does not exist is waited for: %v", err)
	}
}
