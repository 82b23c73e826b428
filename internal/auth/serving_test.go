// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// kubelet is a virtual kubelet that runs, as far as the API server knows.
type kubelet struct {
	namespace, node string
	deployment      *appsv1.Deployment
	set             *appsv1.ReplicaSet
}

// newKubelet makes a VirtualNode, its ServiceAccount, Deployment and ReplicaSet.
func newKubelet(t *testing.T, c *testkit.ControlPlane, namespace string) *kubelet {
	t.Helper()
	k := &kubelet{namespace: namespace, node: fmt.Sprintf("vn-%d", time.Now().UnixNano())}
	testkit.Create(t, c.Client,
		&offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: k.node}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: k.node}})
	labels := map[string]string{names.VirtualNode: k.node}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "liqo"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	k.deployment = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.VirtualKubelet(k.node)},
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: pods},
	}
	testkit.Create(t, c.Client, k.deployment)
	k.set = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: k.deployment.Name + "-1", OwnerReferences: owner("Deployment", k.deployment)},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector, Template: pods, Replicas: new(int32(0))},
	}
	testkit.Create(t, c.Client, k.set)
	return k
}

func owner(kind string, obj client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: obj.GetName(), UID: obj.GetUID(), Controller: new(true)}}
}

// pod runs the virtual kubelet with these addresses. edit may make it another pod.
func (k *kubelet) pod(t *testing.T, c *testkit.ControlPlane, edit func(*corev1.Pod), ips ...string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.namespace, Name: fmt.Sprintf("%s-%d", k.set.Name, time.Now().UnixNano()),
			Labels: map[string]string{names.VirtualNode: k.node}, OwnerReferences: owner("ReplicaSet", k.set),
		},
		Spec: corev1.PodSpec{ServiceAccountName: k.node, Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "liqo"}}},
	}
	if edit != nil {
		edit(pod)
	}
	testkit.Create(t, c.Client, pod)
	setAddresses(t, c, pod, ips...)
	return pod
}

func setAddresses(t *testing.T, c *testkit.ControlPlane, pod *corev1.Pod, ips ...string) {
	t.Helper()
	if len(ips) == 0 {
		return
	}
	pod.Status.PodIP = ips[0]
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if err := c.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// as returns a client with the token that a pod of a ServiceAccount has; no pod is a token of no pod.
func as(t *testing.T, c *testkit.ControlPlane, namespace, account string, pod *corev1.Pod) client.Client {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := c.Client.SubResource("token").Create(t.Context(), serviceAccount, request); err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: c.Config.Host, BearerToken: request.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.Config.CAData}}
	return clientOf(t, cfg)
}

func clientOf(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	out, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ask is one request for a serving certificate.
type ask struct {
	node   string
	groups []string
	ips    []string
	dns    []string
	usages []certv1.KeyUsage
	signer string
}

func (k *kubelet) asks(ips ...string) ask {
	return ask{
		node: "system:node:" + k.node, groups: []string{"system:nodes"}, ips: ips, signer: certv1.KubeletServingSignerName,
		usages: []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth},
	}
}

func (a ask) send(t *testing.T, c client.Client) *certv1.CertificateSigningRequest {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: a.node, Organization: a.groups}, DNSNames: a.dns}
	for _, ip := range a.ips {
		template.IPAddresses = append(template.IPAddresses, net.IP(netip.MustParseAddr(ip).AsSlice()))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	out := &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: a.signer, Usages: a.usages,
		},
	}
	testkit.Create(t, c, out)
	return out
}

// decision waits until somebody decided; "" is nobody yet.
func decision(t *testing.T, c *testkit.ControlPlane, request *certv1.CertificateSigningRequest) certv1.CertificateSigningRequestCondition {
	t.Helper()
	var out certv1.CertificateSigningRequestCondition
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if len(request.Status.Conditions) == 0 {
			return errors.New("nobody decided")
		}
		out = request.Status.Conditions[0]
		return nil
	})
	return out
}

// runServing starts the approval, and lets everybody ask.
func runServing(t *testing.T, c *testkit.ControlPlane, o ServingOptions) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "everybody-asks"}
	testkit.Ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{testkit.Rule("certificates.k8s.io", "certificatesigningrequests", "create")}})
	testkit.Ensure(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	})
	run(t, c, func(mgr ctrl.Manager) error { return SetupServing(mgr, o) })
}

func TestServingCertificateOfAVirtualKubelet(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k := newKubelet(t, c, ns)
	request := k.asks("10.9.8.7").send(t, as(t, c, ns, k.node, k.pod(t, c, nil, "10.9.8.7")))
	if got := decision(t, c, request); got.Type != certv1.CertificateApproved {
		t.Fatalf("%s: %s", got.Type, got.Message)
	}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		_, err := pki.ParseCertificate(request.Status.Certificate)
		return err
	})
}

// What is left in the cluster of a virtual node is nothing: its requests go when they were answered, and only those.
func TestServingRequestDeleted(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{Now: func() time.Time { return time.Now().Add(servedFor + time.Second) }})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k := newKubelet(t, c, ns)
	mine := as(t, c, ns, k.node, k.pod(t, c, nil, "10.9.8.6"))
	denied := k.asks("10.9.8.5").send(t, mine)
	if got := decision(t, c, denied); got.Type != certv1.CertificateDenied {
		t.Fatalf("%s: %s", got.Type, got.Message)
	}
	request := k.asks("10.9.8.6").send(t, mine)
	testkit.Eventually(t, patient, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the request answers: %v", err)
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(denied), denied); err != nil {
		t.Errorf("the request that was denied, and why, cannot be read: %v", err)
	}
}

// A virtual kubelet that begins while its Deployment goes is not told that it is none.
func TestServingRequestOfEndingPod(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k, other := newKubelet(t, c, ns), newKubelet(t, c, ns)
	pod := k.pod(t, c, func(p *corev1.Pod) { p.Finalizers = []string{"test/ending"} }, "10.9.8.2")
	mine := as(t, c, ns, k.node, pod)
	for _, obj := range []client.Object{k.set, pod} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	request := k.asks("10.9.8.2").send(t, mine)
	later := other.asks("10.9.8.3").send(t, as(t, c, ns, other.node, other.pod(t, c, nil, "10.9.8.3")))
	if got := decision(t, c, later); got.Type != certv1.CertificateApproved {
		t.Fatalf("%s: %s", got.Type, got.Message)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil || len(request.Status.Conditions) > 0 {
		t.Fatalf("while the pod ends the request has the conditions %v: %v", request.Status.Conditions, err)
	}
	testkit.Update(t, c.Client, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	testkit.Eventually(t, patient, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the request answers %v, its conditions are %v", err, request.Status.Conditions)
	})
}

func TestServingRequestOfDeletedVirtualNode(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{Now: func() time.Time { return time.Now().Add(-time.Hour) }}) // it is never time for it to go
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k, other := newKubelet(t, c, ns), newKubelet(t, c, ns)
	request := k.asks("10.9.8.4").send(t, as(t, c, ns, k.node, k.pod(t, c, nil, "10.9.8.4")))
	others := other.asks("10.9.8.3").send(t, as(t, c, ns, other.node, other.pod(t, c, nil, "10.9.8.3")))
	for _, r := range []*certv1.CertificateSigningRequest{request, others} {
		if got := decision(t, c, r); got.Type != certv1.CertificateApproved {
			t.Fatalf("%s: %s", got.Type, got.Message)
		}
	}
	if err := c.Client.Delete(t.Context(), &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: k.node}}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the request answers: %v", err)
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(others), others); err != nil {
		t.Errorf("the request of another virtual node went, too: %v", err)
	}
}

func TestServingRequestValidation(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k, other := newKubelet(t, c, ns), newKubelet(t, c, ns)
	single := k.pod(t, c, nil, "10.1.0.1")
	dual := k.pod(t, c, nil, "10.1.0.2", "fd00::2")
	otherPod := other.pod(t, c, nil, "10.1.0.3")
	stray := k.pod(t, c, func(p *corev1.Pod) { p.OwnerReferences = nil }, "10.1.0.4")
	bare := k.pod(t, c, func(p *corev1.Pod) { p.Labels = nil }, "10.1.0.5")
	testkit.Create(t, c.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gateway"}})

	mine := as(t, c, ns, k.node, single)
	noPod := as(t, c, ns, k.node, nil)
	for name, test := range map[string]struct {
		by  client.Client
		ask ask
		why string // "" is approved
	}{
		"its own address":                         {by: mine, ask: k.asks("10.1.0.1")},
		"with key encipherment":                   {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.usages = append(a.usages, certv1.UsageKeyEncipherment) })},
		"under the name of the node too":          {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.dns = []string{k.node} })},
		"both addresses of two":                   {by: as(t, c, ns, k.node, dual), ask: k.asks("10.1.0.2", "fd00::2")},
		"one address of two":                      {by: as(t, c, ns, k.node, dual), ask: k.asks("fd00::2")},
		"with a token of no pod":                  {by: noPod, ask: k.asks("10.1.0.1")},
		"not another address":                     {by: mine, ask: k.asks("10.1.0.9"), why: "addresses"},
		"not one more address":                    {by: mine, ask: k.asks("10.1.0.1", "10.96.0.1"), why: "addresses"},
		"not the address of another of its pods":  {by: mine, ask: k.asks("10.1.0.2"), why: "addresses"},
		"not the address of another virtual node": {by: mine, ask: k.asks("10.1.0.3"), why: "addresses"},
		"not another name":                        {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.dns = []string{"kubernetes.default.svc"} }), why: "names"},
		"not for another virtual node":            {by: mine, ask: other.asks("10.1.0.1"), why: "common name"},
		"not for a real node":                     {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.node = "system:node:master" }), why: "common name"},
		"not with a second group":                 {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.groups = append(a.groups, "system:masters") }), why: "one organisation"},
		"not for clients":                         {by: mine, ask: with(k.asks("10.1.0.1"), func(a *ask) { a.usages = append(a.usages, certv1.UsageClientAuth) }), why: "usages"},
		"not from a pod that nobody owns":         {by: as(t, c, ns, k.node, stray), ask: k.asks("10.1.0.4"), why: "Deployment"},
		"not from a pod without label":            {by: as(t, c, ns, k.node, bare), ask: k.asks("10.1.0.5"), why: "Deployment"},
		"not by another virtual kubelet":          {by: as(t, c, ns, other.node, otherPod), ask: k.asks("10.1.0.1"), why: "common name"},
		"not by another account of the namespace": {by: as(t, c, ns, "gateway", nil), ask: k.asks("10.1.0.1"), why: "not that of a VirtualNode"},
		"not by a user":                           {by: clientOf(t, c.User(t, "mallory")), ask: k.asks("10.1.0.1"), why: "not the ServiceAccount"},
		"not by an account elsewhere":             {by: as(t, c, "default", "default", nil), ask: k.asks("10.1.0.1"), why: "not that of a VirtualNode"},
	} {
		t.Run(name, func(t *testing.T) {
			got := decision(t, c, test.ask.send(t, test.by))
			switch {
			case test.why == "" && got.Type != certv1.CertificateApproved:
				t.Errorf("%s: %s", got.Type, got.Message)
			case test.why != "" && (got.Type != certv1.CertificateDenied || !strings.Contains(got.Message, test.why)):
				t.Errorf("%s: %s; it should be denied with %q", got.Type, got.Message, test.why)
			}
		})
	}
}

func with(a ask, edit func(*ask)) ask {
	a.usages, a.groups = slices.Clone(a.usages), slices.Clone(a.groups)
	edit(&a)
	return a
}

func TestServingRequestAwaitsAddress(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k, probe := newKubelet(t, c, ns), newKubelet(t, c, ns)
	pod := k.pod(t, c, nil) // the kubelet told the container its address, and not yet the API server
	request := k.asks("10.2.0.1").send(t, as(t, c, ns, k.node, pod))
	decision(t, c, probe.asks("10.2.0.2").send(t, as(t, c, ns, probe.node, probe.pod(t, c, nil, "10.2.0.2"))))
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
		t.Fatal(err)
	}
	if len(request.Status.Conditions) > 0 {
		t.Fatalf("decided without knowing the address: %v", request.Status.Conditions)
	}
	setAddresses(t, c, pod, "10.2.0.1")
	if got := decision(t, c, request); got.Type != certv1.CertificateApproved {
		t.Errorf("%s: %s", got.Type, got.Message)
	}
}

func TestServingRequestDenied(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{Now: func() time.Time { return time.Now().Add(addressLimit + time.Minute) }})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k := newKubelet(t, c, ns)
	request := k.asks("10.4.0.1").send(t, as(t, c, ns, k.node, k.pod(t, c, nil)))
	if got := decision(t, c, request); got.Type != certv1.CertificateDenied || !strings.Contains(got.Message, "has an address") {
		t.Errorf("%s: %s", got.Type, got.Message)
	}
}

func TestServingRequestOfOther(t *testing.T) {
	c := cluster(t)
	runServing(t, c, ServingOptions{})
	ns := tenantNamespace(t, c, testkit.UniqueID())
	k := newKubelet(t, c, ns)
	pod := k.pod(t, c, nil, "10.3.0.1")
	stranger := with(k.asks("10.3.0.2"), func(a *ask) { a.node = "system:node:worker-1" })
	requests := map[string]*certv1.CertificateSigningRequest{
		"of a real kubelet":             stranger.send(t, clientOf(t, c.User(t, "system:node:worker-1", "system:nodes"))),
		"of an account elsewhere":       stranger.send(t, as(t, c, "default", "default", nil)),
		"for clients of the API server": with(k.asks("10.3.0.1"), func(a *ask) { a.signer = "example.com/other" }).send(t, as(t, c, ns, k.node, pod)),
	}
	// Requests are handled in turn: what came before this one has been looked at.
	decision(t, c, k.asks("10.3.0.1").send(t, as(t, c, ns, k.node, pod)))
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
				t.Fatal(err)
			}
			if len(request.Status.Conditions) > 0 {
				t.Errorf("decided: %v", request.Status.Conditions)
			}
		})
	}
}
