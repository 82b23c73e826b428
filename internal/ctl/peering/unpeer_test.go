// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// A peer may have another tenant namespace, whose keys stay. What the garbage collector does is done here once somebody waits for it.
func TestUnpeerWaitsForKeys(t *testing.T) {
	c := testkit.Cluster(t)
	s, _ := ctltest.NewBareCluster(t, c, "local", "milan-keys")
	gone, stays := testkit.Namespace(t, c, "gone", nil), testkit.Namespace(t, c, "stays", nil)
	owners := map[string]*corev1.Namespace{gone: {}, stays: {}}
	for name, ns := range owners {
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, ns); err != nil {
			t.Fatal(err)
		}
	}
	secret := func(of ...string) *corev1.Secret {
		created := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: gone, GenerateName: "keys-", Labels: map[string]string{names.RemoteClusterID: "rome-keys"}}}
		for _, name := range of {
			if err := controllerutil.SetOwnerReference(owners[name], created, c.Client.Scheme()); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Create(t, c.Client, created)
		return created
	}
	alone, shared := secret(gone), secret(gone, stays)
	secret(stays)
	var once sync.Once
	s.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if testkit.IsWatch(r) && strings.Contains(r.URL.Path, "/secrets") {
			once.Do(func() {
				testkit.Update(t, c.Client, shared.DeepCopy(), func(s *corev1.Secret) { s.OwnerReferences = s.OwnerReferences[1:] })
				if err := c.Client.Delete(t.Context(), alone); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, nil
	})
	if err := awaitKeys(t.Context(), s, "rome-keys", owners[gone]); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(alone), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("keys that went with the namespace were not waited for: %v", err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(shared), shared); err != nil || kube.Owns(owners[gone], shared) {
		t.Errorf("keys that go with others still go with the namespace: %v, %v", shared.OwnerReferences, err)
	}
}

// Nobody removes the ForeignCluster here, and nothing holds it.
func TestUnpeerRemainingObjects(t *testing.T) {
	c := testkit.Cluster(t)
	fc := &liqov1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome-stays", Labels: map[string]string{names.RemoteClusterID: "rome-stays"}},
		Spec:       liqov1beta1.ForeignClusterSpec{ClusterID: "rome-stays"},
	}
	testkit.Create(t, c.Client, fc)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	consumer, output := ctltest.NewBareCluster(t, c, "local", "rome-stays")
	provider, _ := ctltest.NewBareCluster(t, c, "remote", "milan-stays")
	provider.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if testkit.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/foreignclusters") { // it was read, and the time is over
			cancel()
		}
		return nil, nil
	})
	err := (&unpeering{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, options: &unpeerOptions{wait: true}, consumer: consumer, provider: provider}).runSteps(ctx)
	f, ok := err.(*ui.Failure)
	if !ok || !slices.ContainsFunc(f.All(), func(hint string) bool { return strings.HasPrefix(hint, "Run it again to go on from here.") }) {
		t.Errorf("it does not say what to do: %v", err)
	}
	want := "unable to end what was made of the peering: in the remote cluster: ForeignCluster rome-stays is still there: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("it ended with %v\n%s", err, output)
	}
	if err := c.Client.Delete(t.Context(), fc); err != nil {
		t.Fatal(err)
	}
}

// TestUnpeerData: nothing changes while a volume has its data in the provider, whose claims are named.
func TestUnpeerData(t *testing.T) {
	c := testkit.Cluster(t)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pvc-", Labels: map[string]string{names.StorageProvisioner: "true", names.RemoteClusterID: "milan-data"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: "shop-data", Name: "db"},
		},
	}
	testkit.Create(t, c.Client, volume)
	consumer, output := ctltest.NewBareCluster(t, c, "local", "rome-data")
	provider, _ := ctltest.NewBareCluster(t, c, "remote", "milan-data")
	u := &unpeering{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, options: &unpeerOptions{}, consumer: consumer, provider: provider}
	if err := u.runSteps(t.Context()); err == nil || !strings.Contains(err.Error(), `the data of shop-data/db is in cluster "milan-data", and would be lost`) {
		t.Errorf("got %v", err)
	}
	if err := unoffloadOne(t.Context(), u.Session, c.Client, "shop-data"); err == nil || !strings.Contains(err.Error(), "the data of shop-data/db is in another cluster") {
		t.Errorf("got %v", err)
	}
}

// A virtual node is drained before the network goes that its pods need, and not waited for any longer: its kubelet takes its time.
func TestUnpeerNetworkAfterDrain(t *testing.T) {
	c := testkit.Cluster(t)
	consumer, output := ctltest.NewBareCluster(t, c, "local", "rome-drained")
	provider, _ := ctltest.NewBareCluster(t, c, "remote", "milan-drained")
	about := map[string]string{names.RemoteClusterID: provider.ID}
	vn := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: consumer.Namespace, Name: "milan-drained", Labels: about, Finalizers: []string{"example.org/held"}},
		Spec:       offv1beta1.VirtualNodeSpec{ClusterID: "milan-drained", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "none"}},
	}
	network := network.NewConfiguration(client.ObjectKey{Namespace: consumer.Namespace, Name: "milan"}, provider.ID, networkingv1beta1.ClusterConfigCIDR{})
	testkit.Create(t, c.Client, vn, network)
	ctltest.Lend(t, c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: consumer.Namespace, Name: "drained"},
		Spec:       corev1.PodSpec{NodeName: vn.Name, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	})
	kubeletIs := func(to offv1beta1.VirtualNodeConditionStatusType) {
		testkit.UpdateStatus(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) {
			vn.Status.Conditions = []offv1beta1.VirtualNodeCondition{{Type: offv1beta1.VirtualKubeletConditionType, Status: to}}
		})
	}
	kubeletIs(offv1beta1.RunningConditionStatusType)
	var early atomic.Bool
	consumer.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/configurations/") {
			now := &offv1beta1.VirtualNode{}
			if err := c.Client.Get(r.Context(), client.ObjectKeyFromObject(vn), now); err != nil || !isDrained(now) {
				early.Store(true)
			}
		}
		return nil, nil
	})
	ended := make(chan error, 1)
	go func() {
		ended <- (&unpeering{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, options: &unpeerOptions{wait: true}, consumer: consumer, provider: provider}).runSteps(t.Context())
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vn), vn); err != nil || vn.DeletionTimestamp == nil {
			return fmt.Errorf("the virtual node is not deleted: %w", err)
		}
		return nil
	})
	kubeletIs(offv1beta1.DeletingConditionStatusType)
	testkit.Eventually(t, time.Minute, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(network), network); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the networks are still connected: %w", err)
		}
		return nil
	})
	if early.Load() {
		t.Error("the network went before the pods")
	}
	testkit.Update(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) { vn.Finalizers = nil })
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// What the cluster takes away by itself is waited for, and what is somebody else's is not.
func TestUnpeerWaitsForPods(t *testing.T) {
	c := testkit.Cluster(t)
	s, output := ctltest.NewBareCluster(t, c, "local", "rome-ending")
	const other = "milan-ending"
	meta := func(name string, labels map[string]string, of ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: labels, OwnerReferences: of}
	}
	pod := func(name string, labels map[string]string) *corev1.Pod {
		labels[names.RemoteClusterID] = other
		return &corev1.Pod{ObjectMeta: meta(name, labels), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "liqo"}}}}
	}
	theirs := metav1.OwnerReference{APIVersion: offv1beta1.GroupVersion.String(), Kind: "VirtualNode", Name: other, UID: "gone"}
	going := []client.Object{
		pod("gw-ending", map[string]string{names.NetworkingComponent: names.ComponentGateway}),
		pod("vk-ending", map[string]string{names.OffloadingComponent: names.ComponentVirtualKubelet, names.VirtualNode: other}),
		&coordinationv1.Lease{ObjectMeta: meta("lease-ending", nil, theirs)},
	}
	staying := []client.Object{pod("hers", map[string]string{"app": "hers"}), &coordinationv1.Lease{ObjectMeta: meta("lease-hers", nil)}}
	testkit.Create(t, c.Client, slices.Concat(going, staying)...)
	var waited atomic.Int32
	s.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		for _, obj := range going {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+obj.GetName()) {
				waited.Add(1)
				return nil, client.IgnoreNotFound(c.Client.Delete(r.Context(), obj, client.GracePeriodSeconds(0)))
			}
		}
		return nil, nil
	})
	if err := errors.Join(awaitKubelets(t.Context(), s, other), awaitNothing(t.Context(), s, other)); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if n := waited.Load(); n < 2 { // the garbage collector of another story may take the Lease first
		t.Errorf("%d of %d were waited for", n, len(going))
	}
	for _, obj := range going {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%s was not waited for: %v", obj.GetName(), err)
		}
	}
	for _, obj := range staying {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Error(err)
		}
	}
}

// A node that is lost never says that a pod ended.
func TestUnpeerLostNode(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	s, output := ctltest.NewBareCluster(t, c, "local", "rome-lost")
	const other = "milan-lost"
	pod := func(name string, labels map[string]string) *corev1.Pod {
		labels[names.RemoteClusterID] = other
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "lost", Containers: []corev1.Container{{Name: "main", Image: "liqo"}}},
		}
	}
	lost := pod("gw-lost", map[string]string{names.NetworkingComponent: names.ComponentGateway})
	over := pod("gw-over", map[string]string{names.NetworkingComponent: names.ComponentGateway})
	kubelet := pod("vk-lost", map[string]string{names.OffloadingComponent: names.ComponentVirtualKubelet, names.VirtualNode: other})
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "renew-lost", Labels: map[string]string{names.RemoteClusterID: other}}}
	testkit.Create(t, c.Client, lost, over, kubelet, renew)
	testkit.UpdateStatus(t, c.Client, over, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	for _, obj := range []client.Object{lost, kubelet} {
		if err := c.Client.Delete(t.Context(), obj, client.GracePeriodSeconds(1)); err != nil {
			t.Fatal(err)
		}
	}
	var waited atomic.Bool
	s.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+renew.Name) && !waited.Swap(true) {
			return nil, c.Client.Delete(r.Context(), renew)
		}
		return nil, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(awaitKubelets(ctx, s, other), awaitNothing(ctx, s, other)); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if !waited.Load() {
		t.Error("what comes after the pods was not waited for")
	}
	for name, want := range map[string]int{lost.Name: 1, kubelet.Name: 1, over.Name: 0} {
		if n := strings.Count(output.String(), "The node lost has not confirmed that the pod "+s.Namespace+"/"+name+" ended"); n != want {
			t.Errorf("of %s it warns %d times:\n%s", name, n, output)
		}
	}
	// Nobody takes namespaces away here: only what is told of it counts.
	testkit.Update(t, c.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(ns *corev1.Namespace) {
		ns.Labels = map[string]string{names.RemoteClusterID: other, names.TenantNamespace: "true"}
	})
	if err := deleteNamespace(ctx, s, other, true); err != nil {
		t.Fatal(err)
	}
	if want := "The tenant namespace " + s.Namespace + " is being deleted, and goes with its pod "; !strings.Contains(output.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, output)
	}
}

func TestRequestsOfVirtualNodes(t *testing.T) {
	s := &cluster.Cluster{Namespace: "liqo-tenant-milan"}
	type condition = certv1.CertificateSigningRequestCondition
	request := func(user string, conditions ...condition) *certv1.CertificateSigningRequest {
		out := &certv1.CertificateSigningRequest{Spec: certv1.CertificateSigningRequestSpec{Username: user}}
		out.Status.Conditions = conditions
		return out
	}
	approved := condition{Type: certv1.CertificateApproved, Reason: "VirtualKubeletServing"}
	const kubelet = "system:serviceaccount:liqo-tenant-milan:milan"
	for _, tc := range []struct {
		name    string
		request *certv1.CertificateSigningRequest
		want    bool
	}{
		{"one that waits", request(kubelet), true},
		{"one that was approved", request(kubelet, approved), true},
		{"not one that somebody else approved", request(kubelet, condition{Type: certv1.CertificateApproved, Reason: "KubectlApprove"}), false},
		{"not one that was denied", request(kubelet, condition{Type: certv1.CertificateDenied}), false},
		{"not one that failed", request(kubelet, approved, condition{Type: certv1.CertificateFailed}), false},
		{"not that of a node", request("system:node:worker"), false},
		{"not that of another provider", request("system:serviceaccount:liqo-tenant-milan-2:milan"), false},
	} {
		if got := askedInside(s, tc.request); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// A virtual kubelet that asks in its last moment is refused: its virtual node is gone.
func TestUnpeerDecidedRequest(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	for _, to := range []certv1.RequestConditionType{certv1.CertificateDenied, certv1.CertificateApproved} {
		t.Run(string(to), func(t *testing.T) {
			t.Parallel()
			s, output := ctltest.NewBareCluster(t, c, "local", "rome-decided")
			account, err := client.New(c.User(t, "system:serviceaccount:"+s.Namespace+":milan", "system:masters"), client.Options{Scheme: kube.Scheme})
			if err != nil {
				t.Fatal(err)
			}
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			asks, err := pki.NewCSR(key, pki.Subject{CommonName: "system:node:milan", Organization: "system:nodes"})
			if err != nil {
				t.Fatal(err)
			}
			request := &certv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "decided-" + strings.ToLower(string(to))},
				Spec: certv1.CertificateSigningRequestSpec{
					Request: asks, SignerName: certv1.KubeletServingSignerName, Usages: []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth},
				},
			}
			testkit.Create(t, account, request)
			var looked atomic.Bool
			s.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet || testkit.IsWatch(r) || !strings.HasSuffix(r.URL.Path, "/"+request.Name) || looked.Swap(true) {
					return nil, nil
				}
				decided := request.DeepCopy()
				decided.Status.Conditions = []certv1.CertificateSigningRequestCondition{{Type: to, Status: corev1.ConditionTrue, Reason: "SomebodyDid"}}
				return nil, c.Client.SubResource("approval").Update(r.Context(), decided)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := awaitKubelets(ctx, s, "milan-decided"); err != nil || !looked.Load() {
				t.Errorf("looked %v: %v\n%s", looked.Load(), err, output)
			}
		})
	}
}
