// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/ui"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func isRead(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/connections/gw-milan") }

func TestWaitRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	for name, tc := range map[string]struct {
		meets  func(*http.Request) bool
		answer func() (*http.Response, error)
	}{
		"watches are refused": {testkit.IsWatch, func() (*http.Response, error) { return testkit.Answer(503, ""), nil }},
		"reads are refused":   {isRead, func() (*http.Response, error) { return testkit.Answer(500, testkit.InternalError), nil }},
		"it asks for a pause": {isRead, func() (*http.Response, error) { return testkit.Answer(429, ""), nil }},
		"nobody answers":      {isRead, func() (*http.Response, error) { return nil, syscall.ECONNREFUSED }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := &networkingv1beta1.Connection{Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
			connection.Namespace, connection.Name = testkit.Namespace(t, c, "troubled", nil), "gw-milan"
			testkit.Create(t, c.Client, connection)
			var met atomic.Bool
			cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
				if !tc.meets(r) || met.Swap(true) {
					return nil, nil
				}
				connection.Status.Value = networkingv1beta1.Connected // which no event tells
				if err := c.Client.Status().Update(t.Context(), connection); err != nil {
					t.Error(err)
				}
				return tc.answer()
			})
			gw := newGateway(server, client.ObjectKey{Namespace: connection.Namespace, Name: "milan"})
			if err := gw.awaitConnection(t.Context(), cluster, true); err != nil || !met.Load() {
				t.Errorf("the wait ended: %v; met %v", err, met.Load())
			}
		})
	}
}

func TestWaitTimeoutMessage(t *testing.T) {
	c := testkit.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	var watches atomic.Int32
	cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		switch {
		case !testkit.IsWatch(r):
			return nil, nil
		case watches.Add(1) <= 2: // of the Connection and of the gateway
			return testkit.Answer(200, `{"type":"ERROR","object":`+testkit.InternalError+"}\n"), nil
		case watches.Load() == 4:
			cancel()
		}
		return testkit.Answer(503, "no etcd"), nil
	})
	namespace := testkit.Namespace(t, c, "silent", nil)
	gw := aGateway(t, c, namespace, server)
	err := gw.awaitConnection(ctx, cluster, false)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	for _, want := range []string{"the gateway made no Connection " + namespace + "/gw-milan yet: ", "watching: ", ": context canceled"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
}

// aGateway is one that was made, and of which nobody took notice.
func aGateway(t *testing.T, c *testkit.ControlPlane, namespace, kind string) *gateway {
	t.Helper()
	key, of := client.ObjectKey{Namespace: namespace, Name: "milan"}, corev1.ObjectReference{Name: "wireguard"}
	const peer = "awaited" // other tests look for gateways of milan in all namespaces
	obj := client.Object(newGatewayClient(key, peer, of, 1340, networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.9"}, Port: 51840}))
	if kind == server {
		obj = (&gatewayServer{serviceType: "NodePort", port: 51840}).newObject(key, peer, of, 1340)
	}
	testkit.Create(t, c.Client, obj)
	return GatewayOf(obj)
}

func TestWaitConnectionRejectedGateway(t *testing.T) {
	c := testkit.Cluster(t)
	no := []metav1.Condition{{Type: networkingv1beta1.ConditionGatewayReady, Status: metav1.ConditionFalse, Reason: "Broken", Message: "it is", LastTransitionTime: metav1.Now(), ObservedGeneration: 1}}
	for name, up := range map[string]bool{"before there is one": false, "before it is up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gw := aGateway(t, c, testkit.Namespace(t, c, "refused", nil), server)
			testkit.UpdateStatus(t, c.Client, gw.server.DeepCopy(), func(gw *networkingv1beta1.GatewayServer) { gw.Status.Conditions = no })
			if up {
				connection := &networkingv1beta1.Connection{Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
				connection.Namespace, connection.Name = gw.GetNamespace(), "gw-milan"
				testkit.Create(t, c.Client, connection)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := gw.awaitConnection(ctx, c.Client, up); err == nil || err.Error() != "the gateway is refused: Broken: it is" {
				t.Errorf("the wait ended: %v", err)
			}
		})
	}
}

// The tunnel of the other direction serves both: what its gateways say is told, whichever of them it is.
func TestWaitTunnelOppositeDirection(t *testing.T) {
	c := testkit.Cluster(t)
	for _, broken := range []string{server, dialer} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			local, _ := ctltest.NewBareCluster(t, c, "local", "rome")
			remote, _ := ctltest.NewBareCluster(t, c, "remote", "milan")
			made := &GatewayPair{Local: local, Remote: remote, Server: aGateway(t, c, local.Namespace, server), Client: aGateway(t, c, remote.Namespace, dialer), Opposite: true}
			in := map[string]string{server: local.Namespace, dialer: remote.Namespace}[broken]
			labels := map[string]string{names.GatewayName: names.GatewayLabel("milan"), names.GatewayNamespace: in}
			template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: "liqo:test"}}}}
			deployment := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "gw-milan"},
				Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}
			testkit.Create(t, c.Client, deployment)
			testkit.UpdateStatus(t, c.Client, deployment, func(d *appsv1.Deployment) {
				d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 1, 1
			})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "gw-milan-0", Labels: labels}, Spec: template.Spec}
			testkit.Create(t, c.Client, pod)
			testkit.UpdateStatus(t, c.Client, pod, func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "gateway", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no such device"}},
				}}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p := ui.NewPlan(ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard))
			made.WaitForTunnel(p)
			if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), "pod gw-milan-0 does not start: CrashLoopBackOff, exit code 1: no such device") {
				t.Errorf("the wait ended: %v", err)
			}
		})
	}
}

func TestWaitEndsIfForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	cluster, err := client.NewWithWatch(c.User(t, "nobody"), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	err = newGateway(server, client.ObjectKey{Namespace: "default", Name: "milan"}).awaitConnection(t.Context(), cluster, false)
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("it ended with %v", err)
	}
}

func TestWaitEndsIfUntrusted(t *testing.T) {
	c := testkit.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	var attempts atomic.Int32
	other := *c
	other.Config = rest.CopyConfig(c.Config)
	other.Config.ServerName = "another.example.org"
	cluster := testkit.Troubled(t, &other, func(*http.Request) (*http.Response, error) {
		if attempts.Add(1) > 1 {
			cancel()
		}
		return nil, nil
	})
	err := newGateway(server, client.ObjectKey{Namespace: "default", Name: "milan"}).awaitConnection(ctx, cluster, false)
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted || attempts.Load() != 1 {
		t.Errorf("after %d attempts it ended with %v", attempts.Load(), err)
	}
}

func TestWaitDeletionRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	cfg := NewConfiguration(client.ObjectKey{Namespace: testkit.Namespace(t, c, "held", nil), Name: "milan"}, "milan", networkingv1beta1.ClusterConfigCIDR{})
	cfg.Finalizers = []string{"example.org/held"}
	testkit.Create(t, c.Client, cfg)
	var met atomic.Bool
	kubeClient := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || testkit.IsWatch(r) || !strings.Contains(r.URL.Path, "/configurations") || met.Swap(true) {
			return nil, nil
		}
		testkit.Update(t, c.Client, cfg.DeepCopy(), func(cfg *networkingv1beta1.Configuration) { cfg.Finalizers = nil })
		return testkit.Answer(503, ""), nil
	})
	in := &cluster.Cluster{Scope: ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard).Scope("local"), Name: "local", Kube: kubeClient}
	gone := &networkRemains{Cluster: in, what: "Network configuration", list: &networkingv1beta1.ConfigurationList{}, found: []client.Object{cfg}}
	if err := gone.removeGateway(t.Context(), in, true); err != nil || !met.Load() {
		t.Errorf("the wait ended: %v; met %v", err, met.Load())
	}
}
