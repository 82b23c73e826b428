// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// outside is a proxy that the environment names: whoever calls it would have called somebody outside of this machine.
var outside net.Listener

func TestMain(m *testing.M) {
	var err error
	if outside, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "https_proxy"} {
		os.Setenv(name, "http://"+outside.Addr().String())
	}
	testkit.Main(m)
}

func TestControlPlaneKinds(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "kinds", nil)
	quota := &offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "q"}, Spec: offv1beta1.QuotaSpec{User: "milan", Resources: corev1.ResourceList{}}}
	if err := c.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
}

func TestUserPermissions(t *testing.T) {
	c := testkit.Cluster(t)
	user, err := client.New(c.User(t, "nobody", "guests"), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	err = user.List(t.Context(), &corev1.PodList{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("listing pods: got %v, want forbidden", err)
	}
}

func TestPodTokenVolume(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "pods", nil)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := len(pod.Spec.Volumes); got != 1 {
		t.Fatalf("got %d volumes, want the token volume alone", got)
	}
}

func TestNamespaceController(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	name := testkit.Namespace(t, c, "gone", nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, ns)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: got %v, want not found", name, err)
		}
		return nil
	})
}

func TestSecondCluster(t *testing.T) {
	first, second := testkit.Cluster(t), testkit.SecondCluster(t)
	ns := testkit.Namespace(t, first, "only-here", nil)
	err := second.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("namespace of the first cluster in the second: got %v, want not found", err)
	}
}

func TestOutage(t *testing.T) {
	c := testkit.SecondCluster(t)
	ns := testkit.Namespace(t, c, "kept", nil)
	c.StopAPIServer(t)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err == nil {
		t.Fatal("a stopped API server answered")
	}
	c.StartAPIServer(t)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err != nil {
		t.Fatal(err)
	}
}

// Nothing routes a Service's address here and nothing answers for its name: an API server that tried either would reach
// out of the machine.
func TestWebhookLoopback(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "webhooks", nil)
	for name, service := range map[string]*corev1.ServiceSpec{
		"absent":   nil,
		"deserted": {Ports: []corev1.ServicePort{{Port: 443}}, Selector: map[string]string{"nobody": "has-it"}},
		"headless": {Ports: []corev1.ServicePort{{Port: 443}}, ClusterIP: corev1.ClusterIPNone},
		"outside":  {Type: corev1.ServiceTypeExternalName, ExternalName: "webhook.invalid"},
	} {
		if service != nil {
			if err := c.Client.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: *service}); err != nil {
				t.Fatal(err)
			}
		}
		hook := webhook(ns, name)
		if err := c.Client.Create(t.Context(), hook); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), hook) })
	}
	for name, want := range map[string]string{
		"absent":   `service "absent" not found`,
		"deserted": `no endpoints available for service "deserted"`,
		"headless": `no endpoints available for service "headless"`,
		"outside":  `unsupported service type "ExternalName"`,
	} {
		testkit.Eventually(t, 30*time.Second, func() error {
			created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "c-", Labels: map[string]string{"call": name}}}
			err := c.Client.Create(t.Context(), created)
			switch {
			case err == nil:
				return fmt.Errorf("%s: the webhook is not called yet", name)
			case !strings.Contains(err.Error(), want):
				return fmt.Errorf("%s: got %w, want %s", name, err, want)
			}
			return nil
		})
	}
	if err := outside.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if conn, err := outside.Accept(); err == nil {
		conn.Close()
		t.Error("somebody called the proxy")
	}
}

// webhook calls the Service for ConfigMaps labelled with its name.
func webhook(namespace, service string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + service},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    service + ".webhooks.test",
			ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"call": service}},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(2)),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// A port that the kernel gave to a connection meanwhile would keep a server from coming back.
func TestReservedPort(t *testing.T) {
	port := testkit.Port(t)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for range 3 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("listening on the port: %v", err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connecting to the port: %v", err)
		}
		conn.Close()
		l.Close()
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Fatal("somebody listens on the port")
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
	if conn, err := from.Dial("tcp", server.Addr().String()); err == nil {
		conn.Close()
		t.Fatal("a connection was made from the port")
	}
}

func TestTurn(t *testing.T) {
	var has [2]atomic.Bool
	for range 10 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			n := testkit.Turn(t, "something", len(has))
			if has[n].Swap(true) {
				t.Errorf("two tests have the turn %d", n)
			}
			t.Cleanup(func() { has[n].Store(false) })
			runtime.Gosched()
		})
	}
}
