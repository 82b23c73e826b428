// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func TestGatewayServer(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	server := s.server("rome", s.serverTemplate())
	s.create(server)
	s.wantReady(server, reasonTemplateNotFound, "wireguard-server")

	s.create(s.serverTemplate()) // the order does not matter
	node := s.node("192.0.2.1")
	s.wantReady(server, reasonPending, "no replica")
	if server.Status.InternalEndpoint != nil || server.Status.SecretRef == nil || server.Status.SecretRef.Name != "gw-rome" {
		t.Errorf("before a replica runs: %+v", server.Status)
	}
	pod := s.run("rome", "10.0.0.7", node.Name)
	s.wantReady(server, reasonReady, "")

	service := &corev1.Service{ObjectMeta: s.meta("gw-rome")}
	if err := s.get(service); err != nil {
		t.Fatal(err)
	}
	want := networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: service.Spec.Ports[0].NodePort, Protocol: new(corev1.ProtocolUDP)}
	if diff := gocmp.Diff(&want, server.Status.Endpoint); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	if in := server.Status.InternalEndpoint; *in.IP != "10.0.0.7" || *in.Node != node.Name {
		t.Errorf("internal endpoint %v", in)
	}
	if ref := server.Status.ServerRef; ref == nil || ref.Kind != "WgGatewayServer" || ref.Name != "rome" || ref.Namespace != s.where || ref.UID == "" {
		t.Errorf("server reference %v", ref)
	}
	s.checkDeployment(server)
	s.checkRights("rome")
	testkit.WantEvent(t, s.c, server, reasonReady, "can be reached")

	another := s.node("192.0.2.2") // a way to the gateway, too
	s.eventually(func() error { return s.hasAddresses(server, "192.0.2.1", "192.0.2.2") })
	testkit.UpdateStatus(t, s.c.Client, another, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.eventually(func() error { return s.hasAddresses(server, "192.0.2.1") })

	// Its address may soon be another pod's, and nobody is left who would say that the tunnel is down.
	conn := &networkingv1beta1.Connection{ObjectMeta: s.meta("gw-rome"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	s.create(conn)
	testkit.UpdateStatus(t, s.c.Client, conn, func(c *networkingv1beta1.Connection) {
		c.Status.Value, c.Status.Reach, c.Status.FailedNodes = networkingv1beta1.ConnectionError, networkingv1beta1.ReachSome, []string{"worker"}
	})
	testkit.Update(t, s.c.Client, pod, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/held"} })
	if err := s.c.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.wantReady(server, reasonPending, "no replica")
	if server.Status.InternalEndpoint != nil {
		t.Errorf("a pod that is being deleted is still said to be at %v", server.Status.InternalEndpoint)
	}
	s.eventually(func() error {
		if err := s.get(conn); err != nil || conn.Status.Value != networkingv1beta1.Connecting || conn.Status.Lost != "" || conn.Status.Reach != "" || conn.Status.FailedNodes != nil {
			return fmt.Errorf("without a gateway the tunnel is %q (%v)", conn.Status.Value, err)
		}
		return nil
	})
	testkit.Update(t, s.c.Client, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	s.run("rome", "10.0.0.8", node.Name)
	s.wantReady(server, reasonReady, "")
}

func (s *testEnv) hasAddresses(server *networkingv1beta1.GatewayServer, want ...string) error {
	if err := s.get(server); err != nil {
		return err
	}
	if e := server.Status.Endpoint; e == nil || !slices.Equal(slices.Sorted(slices.Values(e.Addresses)), want) {
		return fmt.Errorf("endpoint %+v, want %q", e, want)
	}
	return nil
}

func (s *testEnv) checkDeployment(server *networkingv1beta1.GatewayServer) {
	s.Helper()
	d := s.deployment(server.Name)
	if d.Spec.Strategy.RollingUpdate == nil || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 || d.Spec.MinReadySeconds != handoverSeconds || *d.Spec.Replicas != 1 || len(d.Spec.Template.Spec.Containers) != 1 {
		s.Errorf("deployment %+v", d.Spec)
	}
	for key, want := range map[string]string{
		names.NetworkingComponent: names.ComponentGateway, names.GatewayName: server.Name, names.GatewayNamespace: s.where,
		names.GatewayActive: "true", names.RemoteClusterID: "rome",
	} {
		if got := d.Spec.Template.Labels[key]; got != want {
			s.Errorf("label %s of the pods is %q, want %q", key, got, want)
		}
	}
	args := d.Spec.Template.Spec.Containers[0].Args
	for _, arg := range []string{"--name=" + server.Name, "--namespace=" + s.where, "--remote-cluster-id=rome", "--gateway-uid=" + string(server.UID), "--mode=server", "--listen-ports=51840"} {
		if !slices.Contains(args, arg) {
			s.Errorf("no %s in %q", arg, args)
		}
	}
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == names.GatewayKeysVolume && v.Secret.SecretName != "gw-"+server.Name {
			s.Errorf("the pods mount %q", v.Secret.SecretName)
		}
	}
	owner := metav1.GetControllerOf(d)
	if owner == nil || owner.Kind != "WgGatewayServer" || d.Labels[names.AppManagedBy] != names.ManagedByLiqo {
		s.Errorf("owner %v, labels %v", owner, d.Labels)
	}
	secret := &corev1.Secret{ObjectMeta: s.meta("gw-" + server.Name)}
	if err := s.get(secret); err != nil {
		s.Fatal(err)
	}
	private, err := pki.ParseTunnelKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		s.Fatal(err)
	}
	if public, err := pki.TunnelPublicKey(private); err != nil || string(secret.Data[names.PublicKeyKey]) != string(public[:]) {
		s.Errorf("the keys are no pair: %v", err)
	}
	if !metav1.IsControlledBy(secret, server) || secret.Labels[names.GatewayResource] != "true" || secret.Labels[names.RemoteClusterID] != "rome" {
		s.Errorf("metadata of the Secret %+v", secret.ObjectMeta)
	}
}

func (s *testEnv) checkRights(name string) {
	s.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.where, Name: "gw-" + name}
	var own rbacv1.RoleBinding
	s.eventually(func() error {
		return s.c.Client.Get(s.Context(), client.ObjectKey{Namespace: s.where, Name: "gw-" + name}, &own)
	})
	if own.RoleRef.Name != names.RoleGateway || len(own.Subjects) != 1 || own.Subjects[0] != account {
		s.Errorf("binding %+v", own)
	}
	s.eventually(func() error {
		readers := readersBinding()
		if err := s.get(readers); err != nil {
			return err
		}
		if !slices.Contains(readers.Subjects, account) {
			return fmt.Errorf("%v may not read", account)
		}
		return s.get(&corev1.ServiceAccount{ObjectMeta: s.meta(account.Name)})
	})
}

func TestGatewayClient(t *testing.T) {
	s := newTestEnv(t)
	s.create(s.clientTemplate())
	peer := s.client("rome", s.clientTemplate())
	peer.Spec.Endpoint.Addresses = nil
	s.create(peer)
	s.start()
	s.wantReady(peer, reasonPending, "no address of the server")

	testkit.UpdateStatus(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) {
		c.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"198.51.100.1", "198.51.100.2"}, Port: 30742}
	})
	s.run("rome", "10.0.0.9", "node-1")
	s.wantReady(peer, reasonReady, "")
	if peer.Status.ClientRef == nil || peer.Status.ClientRef.Kind != "WgGatewayClient" || peer.Status.Endpoint == nil {
		t.Errorf("status %+v", peer.Status)
	}
	// A pod runs, and still the Deployment follows what the user says; of the peer only where the user says nothing.
	testkit.Update(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) { c.Spec.Endpoint.Addresses = []string{"203.0.113.1"} })
	s.hasArg("rome", "--endpoint-address=203.0.113.1")
	s.hasArg("rome", "--endpoint-ports=51841")
}

// A gateway reads by itself where its server went: its pod stays, until something else of it changes, or its user says where.
func TestGatewayMovedServer(t *testing.T) {
	s := newTestEnv(t)
	of := s.clientTemplate()
	peer := s.client("rome", of)
	peer.Spec.Endpoint = networkingv1beta1.EndpointStatus{}
	s.create(of, peer)
	s.start()
	says := func(port int32, addresses ...string) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) {
			c.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: addresses, Port: port}
		})
	}
	says(30742, "198.51.100.1", "198.51.100.2")
	s.hasArg("rome", "--endpoint-address=198.51.100.1,198.51.100.2")
	s.wantReady(peer, reasonPending, "no replica")
	before := s.deployment("rome")
	created := &networkingv1beta1.WgGatewayClient{ObjectMeta: s.meta("rome")}
	if err := s.get(created); err != nil {
		t.Fatal(err)
	}
	generation := created.Generation

	says(30743, "198.51.100.3", "198.51.100.1")
	testkit.Update(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) { c.Spec.Endpoint.Port = 7 }) // to see when it is read
	s.wantReady(peer, reasonPending, "no replica")
	if err := s.get(created); err != nil || created.Generation != generation {
		t.Errorf("the WgGatewayClient has the generation %d, after %d: %v", created.Generation, generation, err)
	}
	if now := s.deployment("rome"); now.Generation != before.Generation {
		t.Errorf("the Deployment changed: %s", gocmp.Diff(before.Spec, now.Spec))
	}
	testkit.Update(t, s.c.Client, of, func(o *networkingv1beta1.WgGatewayClientTemplate) {
		o.Spec.Template.Raw = []byte(strings.ReplaceAll(string(o.Spec.Template.Raw), "--ping-interval=1s", "--ping-interval=3s"))
	})
	s.hasArg("rome", "--ping-interval=3s")
	s.hasArg("rome", "--endpoint-address=198.51.100.1,198.51.100.2")

	if err := s.c.Client.Delete(t.Context(), &networkingv1beta1.WgGatewayClient{ObjectMeta: s.meta("rome")}); err != nil {
		t.Fatal(err)
	}
	s.hasArg("rome", "--endpoint-address=198.51.100.3,198.51.100.1") // it is made anew
	testkit.Update(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) {
		c.Spec.Endpoint = networkingv1beta1.EndpointStatus{Addresses: []string{"203.0.113.1"}, Port: 7}
	})
	s.hasArg("rome", "--endpoint-address=203.0.113.1")
	s.hasArg("rome", "--endpoint-ports=7")
	testkit.Update(t, s.c.Client, peer, func(c *networkingv1beta1.GatewayClient) { c.Spec.Endpoint = networkingv1beta1.EndpointStatus{} })
	s.hasArg("rome", "--endpoint-address=198.51.100.3,198.51.100.1")
}

func (s *testEnv) hasArg(name, arg string) {
	s.Helper()
	s.eventually(func() error {
		if args := s.deployment(name).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, arg) {
			return fmt.Errorf("no %s in %q", arg, args)
		}
		return nil
	})
}

func TestGatewayTemplateChange(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	s.create(of, s.server("rome", of), s.server("milan", of)) // no pod runs
	s.hasArg("rome", "--ping-interval=1s")
	s.hasArg("milan", "--ping-interval=1s")
	testkit.Update(t, s.c.Client, of, func(o *networkingv1beta1.WgGatewayServerTemplate) {
		o.Spec.Template.Raw = []byte(strings.ReplaceAll(string(o.Spec.Template.Raw), "--ping-interval=1s", "--ping-interval=3s"))
	})
	s.hasArg("rome", "--ping-interval=3s")
	s.hasArg("milan", "--ping-interval=3s")

	// The selector of a Deployment cannot change; one takes the place of the other.
	before := s.deployment("rome").UID
	testkit.Update(t, s.c.Client, of, func(o *networkingv1beta1.WgGatewayServerTemplate) {
		o.Spec.Template.Raw = []byte(strings.ReplaceAll(string(o.Spec.Template.Raw), `"app.kubernetes.io/part-of":"liqo"`, `"app.kubernetes.io/part-of":"mesh"`))
	})
	s.eventually(func() error {
		d := s.deployment("rome")
		if d.UID == before || d.Spec.Selector.MatchLabels[names.AppPartOf] != "mesh" {
			return fmt.Errorf("still selects %v", d.Spec.Selector.MatchLabels)
		}
		return nil
	})
}

// Accounts that a template names stay whose they are.
func TestGatewayServiceAccount(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	of.Spec.Template.Raw = []byte(strings.ReplaceAll(string(of.Spec.Template.Raw), `"serviceAccountName":"{{ .Name }}"`, `"serviceAccountName":"given"`))
	given := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "given"}}
	server := s.server("rome", of)
	s.create(given, of, server)
	s.wantReady(server, reasonPending, "no")
	if account := s.deployment("rome").Spec.Template.Spec.ServiceAccountName; account != "given" {
		t.Errorf("the pods run as %s", account)
	}
	s.eventually(func() error {
		binding := &rbacv1.RoleBinding{ObjectMeta: s.meta("gw-rome")}
		if err := s.get(binding); err != nil {
			return err
		}
		if binding.Subjects[0].Name != "given" {
			return fmt.Errorf("bound %v", binding.Subjects)
		}
		return nil
	})
	if err := s.get(given); err != nil || len(given.OwnerReferences) != 0 || len(given.Labels) != 0 {
		t.Errorf("the account became %+v: %v", given.ObjectMeta, err)
	}
}

// A virtual kubelet has an account of the name of its virtual node, which is often that of its peer, as a gateway's is.
func TestGatewayServiceAccountOfVirtualNode(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	kubelets := &corev1.ServiceAccount{ObjectMeta: s.meta("rome")}
	server := s.server("rome", s.serverTemplate())
	s.create(kubelets, s.serverTemplate(), server)
	s.wantReady(server, reasonPending, "no")
	if account := s.deployment("rome").Spec.Template.Spec.ServiceAccountName; account != "gw-rome" {
		t.Errorf("the pods run as %s", account)
	}
	s.checkRights("rome")
	if err := s.get(kubelets); err != nil || len(kubelets.OwnerReferences) != 0 || kubelets.Labels[names.GatewayName] != "" {
		t.Errorf("the account became %+v: %v", kubelets.ObjectMeta, err)
	}
}

// A list of one is as good as the one.
func TestGatewayNodePort(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	server := s.server("rome", s.serverTemplate())
	server.Spec.Endpoint.Port, server.Spec.Endpoint.Ports, server.Spec.Endpoint.NodePorts = 0, []int32{7}, []int32{30083}
	s.create(s.serverTemplate(), server)
	service := &corev1.Service{ObjectMeta: s.meta("gw-rome")}
	s.eventually(func() error { return s.get(service) })
	if p := service.Spec.Ports; len(p) != 1 || p[0].Port != 7 || p[0].NodePort != 30083 {
		t.Errorf("the Service has %+v", p)
	}
}

// The holder of the Lease is the active replica, whatever becomes of the last one: a dead node leaves its pod running for minutes.
func TestGatewayReplicas(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	server := s.server("rome", of)
	s.create(of, server)
	if d := s.deployment("rome"); d.Spec.Template.Labels[names.GatewayActive] != "true" || slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--leader-election=true") {
		t.Errorf("a gateway of one pod has %+v", d.Spec.Template)
	}
	lease, budget := &coordinationv1.Lease{ObjectMeta: s.meta("gw-rome")}, &policyv1.PodDisruptionBudget{ObjectMeta: s.meta("gw-rome")}
	role, binding := &rbacv1.Role{ObjectMeta: s.meta("gateway-lease-rome")}, &rbacv1.RoleBinding{ObjectMeta: s.meta("gateway-lease-rome")}
	slice, service := &discoveryv1.EndpointSlice{ObjectMeta: s.meta("gw-rome")}, &corev1.Service{ObjectMeta: s.meta("gw-rome")}
	electionParts := []client.Object{lease, budget, role, binding, slice}
	endpoints := func(want string) error {
		err := errors.Join(s.get(slice), s.get(service))
		var got []string
		for _, e := range slice.Endpoints {
			text := e.Addresses[0]
			if *e.Conditions.Ready {
				text += " ready"
			}
			if *e.Conditions.Serving != *e.Conditions.Ready {
				text += " or not"
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if now := strings.Join(got, ", "); err == nil && (now != want || service.Spec.Selector[names.GatewayActive] != byEndpointSlice || len(slice.Ports) != 1) {
			err = fmt.Errorf("the Service selects %v and leads to %q by %+v, want %q", service.Spec.Selector, now, slice.Ports, want)
		}
		return err
	}
	gone := func() error {
		for _, obj := range electionParts {
			if err := s.get(obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T: %v", obj, err)
			}
		}
		return nil
	}
	if err := gone(); err != nil {
		t.Errorf("a gateway of one pod has an election: %v", err)
	}
	scale := func(from, to string) {
		testkit.Update(t, s.c.Client, of, func(o *networkingv1beta1.WgGatewayServerTemplate) {
			o.Spec.Template.Raw = []byte(strings.Replace(string(o.Spec.Template.Raw), `"replicas":`+from, `"replicas":`+to, 1))
		})
	}
	s.node("192.0.2.1")
	last := s.run("rome", "10.0.0.6", "node-1")
	reached := func(want string) error {
		err, at := s.get(server), ""
		if in := server.Status.InternalEndpoint; in != nil {
			at = in.IP.String()
		}
		if err == nil && at != want {
			err = fmt.Errorf("nodes reach %q, want %q", at, want)
		}
		return err
	}
	s.eventually(func() error { return reached("10.0.0.6") })
	scale("1", "2")
	s.eventually(func() error {
		d := s.deployment("rome")
		pod, labelled := d.Spec.Template.Spec, d.Spec.Template.Labels[names.GatewayActive] != ""
		if *d.Spec.Replicas != 2 || labelled || !slices.Contains(pod.Containers[0].Args, "--leader-election=true") || slices.Contains(pod.Containers[0].Args, "--leader-election=false") ||
			pod.Affinity.PodAntiAffinity == nil || d.Spec.Strategy.RollingUpdate == nil {
			return fmt.Errorf("the Deployment has %+v", d.Spec)
		}
		for _, obj := range electionParts {
			if err := s.get(obj); err != nil {
				return err
			}
		}
		return nil
	})
	if r := role.Rules; len(r) != 2 || !slices.Equal(r[0].Verbs, []string{"update"}) || slices.ContainsFunc(r, func(r rbacv1.PolicyRule) bool {
		return !slices.Equal(r.ResourceNames, []string{lease.Name}) || slices.Contains(r.Verbs, "create")
	}) {
		t.Errorf("replicas may %+v", r)
	}
	s.eventually(func() error { return endpoints("10.0.0.6 ready") })
	heldBy := func(want string) {
		t.Helper()
		s.eventually(func() error {
			err, is := s.get(lease), ""
			if h := lease.Spec.HolderIdentity; h != nil {
				is = *h
			}
			if err == nil && is != want {
				err = fmt.Errorf("the Lease has the holder %q, want %q", is, want)
			}
			return err
		})
	}
	heldBy(election.Outside) // no replica takes it, however long the last pod stays
	first, second := s.run("rome", "10.0.0.7", "node-1"), s.run("rome", "10.0.0.8", "node-2")
	s.eventually(func() error {
		err := reached("10.0.0.6")
		if err == nil && len(server.Status.Replicas) != 2 {
			err = fmt.Errorf("the replicas are %v", server.Status.Replicas)
		}
		return err
	})
	s.eventually(func() error { return endpoints("10.0.0.6 ready, 10.0.0.7, 10.0.0.8") })
	again := func(of *corev1.Pod, ip string) *corev1.Pod { // its ReplicaSet makes another one
		t.Helper()
		if err := s.c.Client.Delete(t.Context(), of, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		return s.runPod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.where, GenerateName: of.GenerateName, Labels: of.Labels},
			Spec:       corev1.PodSpec{NodeName: of.Spec.NodeName, Containers: []corev1.Container{{Name: "gateway", Image: "liqo", Args: of.Spec.Containers[0].Args}}},
		}, ip)
	}
	last = again(last, "10.0.0.5")
	s.eventually(func() error { return endpoints("10.0.0.5 ready, 10.0.0.7, 10.0.0.8") })
	s.eventually(func() error { return reached("10.0.0.5") })
	heldBy(election.Outside)
	testkit.Update(t, s.c.Client, slice, func(e *discoveryv1.EndpointSlice) { // as the next active replica does
		for i := range e.Endpoints {
			is := e.Endpoints[i].Addresses[0] == "10.0.0.7"
			e.Endpoints[i].Conditions.Ready, e.Endpoints[i].Conditions.Serving = &is, &is
		}
	})
	if err := s.c.Client.Delete(t.Context(), last, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error { return reached("") }) // a replica takes what has no holder at once
	s.eventually(func() error { return endpoints("10.0.0.7 ready, 10.0.0.8") })
	heldBy("")
	hold := func(by *corev1.Pod) {
		t.Helper()
		testkit.Update(t, s.c.Client, lease, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = &by.Name, new(int32(1))
		})
		s.eventually(func() error {
			for _, p := range []*corev1.Pod{first, second} {
				if err := s.get(p); err != nil {
					return err
				}
				if active := p.Labels[names.GatewayActive]; (active == "true") != (p == by) {
					return fmt.Errorf("the label of %s is %q", p.Name, active)
				}
			}
			err := s.get(server)
			if in := server.Status.InternalEndpoint; err == nil && (in == nil || in.IP.String() != by.Status.PodIP || len(server.Status.Replicas) != 2) {
				err = fmt.Errorf("nodes reach %v of %v", in, server.Status.Replicas)
			}
			return err
		})
	}
	hold(first)
	s.wantReady(server, reasonReady, "")
	hold(second)
	for name, c := range map[string]struct {
		state corev1.ContainerState
		want  int
	}{
		"waits_after_a_crash": {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, 1},
		"ended":               {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}, 1},
		"runs":                {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 2},
	} {
		testkit.UpdateStatus(t, s.c.Client, second, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: c.state}, {Name: "another", State: corev1.ContainerState{}}}
		})
		s.eventually(func() error {
			err := s.get(server)
			if in := server.Status.InternalEndpoint; err == nil && (len(server.Status.Replicas) != c.want || in == nil || in.IP.String() != second.Status.PodIP) {
				err = fmt.Errorf("%s: of %v nodes reach %v", name, server.Status.Replicas, in)
			}
			return err
		})
	}
	testkit.UpdateStatus(t, s.c.Client, second, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	phase := func(of *corev1.Pod, is corev1.PodPhase) {
		testkit.UpdateStatus(t, s.c.Client, of, func(p *corev1.Pod) { p.Status.Phase = is })
	}
	phase(second, corev1.PodSucceeded) // it ended, and is still there
	testkit.Update(t, s.c.Client, lease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &first.Name })
	s.eventually(func() error {
		err := errors.Join(s.get(first), s.get(second))
		if one, other := first.Labels[names.GatewayActive], second.Labels[names.GatewayActive]; err == nil && (one != "true" || other != "") {
			err = fmt.Errorf("the labels are %q and %q", one, other)
		}
		return err
	})
	phase(second, corev1.PodRunning)
	hold(first)
	testkit.Update(t, s.c.Client, lease, func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity = nil
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, names.GatewayStandbys, second.Name)
	})
	if err := s.c.Client.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error {
		err := s.get(server)
		if err == nil && (len(server.Status.Replicas) != 1 || server.Status.InternalEndpoint == nil) {
			err = fmt.Errorf("of %v nodes reach %v, which nothing replaces yet", server.Status.Replicas, server.Status.InternalEndpoint)
		}
		return err
	})
	next := s.run("rome", "10.0.0.10", "node-2")
	testkit.Update(t, s.c.Client, second, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/held"} })
	if err := s.c.Client.Delete(t.Context(), second, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error { return reached("") }) // the standby ends, too: the next replica does not wait for it
	testkit.Update(t, s.c.Client, second, func(p *corev1.Pod) { p.Finalizers = nil })
	second = next

	scale("2", "1")
	s.eventually(func() error {
		if *s.deployment("rome").Spec.Replicas != 1 {
			return errors.New("there are replicas")
		}
		return nil
	})
	s.eventually(func() error {
		err := s.get(service)
		if is := service.Spec.Selector[names.GatewayActive]; err == nil && is != "true" {
			err = fmt.Errorf("the Service selects %q", is)
		}
		return err
	})
	s.eventually(func() error { // what it says would be followed beside the selected pods
		if err := s.get(slice); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the EndpointSlice of replicas is left beside the selected pods: %v", err)
		}
		return nil
	})
	third := s.run("rome", "10.0.0.9", "node-1")
	testkit.Update(t, s.c.Client, lease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &second.Name })
	s.eventually(func() error {
		err := errors.Join(s.get(server), s.get(second), s.get(third))
		if err == nil && (len(server.Status.Replicas) != 1 || second.Labels[names.GatewayActive] != "true" || third.Labels[names.GatewayActive] != "true") {
			err = fmt.Errorf("of %v, %v and %v are active", server.Status.Replicas, second.Labels, third.Labels)
		}
		return err
	})
	for _, obj := range []client.Object{lease, budget, role, binding} {
		if err := s.get(obj); err != nil {
			t.Errorf("a replica still runs, and of the election: %v", err)
		}
	}
	if err := s.c.Client.Delete(t.Context(), second, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(gone)
	s.eventually(func() error { return reached("10.0.0.9") })
	s.eventually(func() error {
		err := s.get(server)
		if err == nil && server.Status.Replicas != nil {
			err = fmt.Errorf("the replicas are %v", server.Status.Replicas)
		}
		return err
	})
}

// A slice with the name of that of a gateway is adopted, unless something else controls it: the gateway says so then.
func TestGatewayEndpointSliceExists(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	of.Spec.Template.Raw = []byte(strings.Replace(string(of.Spec.Template.Raw), `"replicas":1`, `"replicas":2`, 1))
	owner := &corev1.ConfigMap{ObjectMeta: s.meta("owner")}
	s.create(of, owner)
	slice := func(name string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: s.meta(name), AddressType: discoveryv1.AddressTypeIPv4}
	}
	taken, free := slice("gw-rome"), slice("gw-milan")
	taken.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	s.create(taken, free)
	first, second := s.server("rome", of), s.server("milan", of)
	s.create(first, second)
	s.run("rome", "10.0.0.6", "node-1")
	s.run("milan", "10.0.0.7", "node-1")
	s.wantReady(first, reasonTaken, "EndpointSlice gw-rome belongs to ConfigMap owner")
	s.eventually(func() error {
		err := s.get(free)
		if err == nil && (metav1.GetControllerOf(free) == nil || len(free.Endpoints) != 1 || free.Labels[names.NetworkingComponent] != names.ComponentGateway) {
			err = fmt.Errorf("a slice that nothing controls is not adopted: %+v", free)
		}
		return err
	})
	if err := s.get(taken); err != nil || len(taken.Endpoints) > 0 {
		t.Errorf("the slice of another has %v: %v", taken.Endpoints, err)
	}
}

func TestGatewayReplicasRejected(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	s.create(of, s.server("rome", of))
	s.deployment("rome")
	created := &networkingv1beta1.WgGatewayServer{}
	if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.where, Name: "rome"}, created); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*appsv1.DeploymentSpec){
		"too-many":        func(d *appsv1.DeploymentSpec) { d.Replicas = new(int32(maxReplicas + 1)) },
		"another-program": func(d *appsv1.DeploymentSpec) { d.Replicas, d.Template.Spec.Containers[0].Args = new(int32(2)), nil },
	} {
		byHand := &networkingv1beta1.WgGatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: name, Labels: created.Labels}, Spec: *created.Spec.DeepCopy()}
		edit(&byHand.Spec.Deployment.Spec)
		s.runPod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.where, GenerateName: "gw-" + name + "-", Labels: mergeMaps(created.Labels, map[string]string{
				names.GatewayName: names.GatewayLabel(name), names.GatewayNamespace: s.where, names.NetworkingComponent: names.ComponentGateway, names.GatewayActive: "true",
			})},
			Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "gateway", Image: "liqo", Args: []string{gatewayProgram}}}},
		}, "10.0.0.4")
		s.create(byHand)
		s.eventually(func() error {
			if err := s.get(byHand); err != nil {
				return err
			}
			c := apimeta.FindStatusCondition(byHand.Status.Conditions, networkingv1beta1.ConditionGatewayReady)
			if c == nil || c.Reason != reasonReplicas {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
		service := &corev1.Service{ObjectMeta: s.meta("gw-" + name)}
		s.eventually(func() error {
			err := s.get(service)
			if is := service.Spec.Selector[names.GatewayActive]; err == nil && is != "true" {
				err = fmt.Errorf("the Service of %s selects %q, so that it follows no pod that runs", name, is)
			}
			return err
		})
		if err := s.get(&appsv1.Deployment{ObjectMeta: s.meta("gw-" + name)}); !apierrors.IsNotFound(err) {
			t.Errorf("%s has a Deployment: %v", name, err)
		}
	}
}

// The right to patch pods was for several replicas: it is taken back where an earlier version gave it.
func TestGatewayRoleUpgrade(t *testing.T) {
	s := newTestEnv(t)
	more := &rbacv1.RoleBinding{
		ObjectMeta: s.meta(names.GatewayReplica("rome")), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: formerReplicaRole},
	}
	more.Labels = map[string]string{names.AppManagedBy: names.ManagedByLiqo, names.NetworkingComponent: names.ComponentGateway}
	s.create(more)
	s.start()
	of := s.serverTemplate()
	s.create(of, s.server("rome", of))
	s.eventually(func() error {
		if err := s.get(more); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a gateway still has the right: %v", err)
		}
		return nil
	})
}

func TestGatewayInvalid(t *testing.T) {
	s := newTestEnv(t)
	other, allowed := testkit.Namespace(t, s.c, "other", nil), testkit.Namespace(t, s.c, "allowed", nil)
	s.options.TemplateNamespaces = []string{allowed}
	s.start()
	variant := func(name, namespace string, edit func(*networkingv1beta1.WgGatewayServerTemplate)) client.Object {
		out := s.serverTemplate()
		out.Name, out.Namespace = name, cmp.Or(namespace, s.liqo)
		if edit != nil {
			edit(out)
		}
		s.create(out)
		return out
	}
	replaced := func(old, now string) func(*networkingv1beta1.WgGatewayServerTemplate) {
		return func(o *networkingv1beta1.WgGatewayServerTemplate) {
			o.Spec.Template.Raw = []byte(strings.ReplaceAll(string(o.Spec.Template.Raw), old, now))
		}
	}
	usual := variant("usual", "", nil)
	s.create(s.clientTemplate())
	for name, tc := range map[string]struct {
		of           client.Object
		edit         func(*networkingv1beta1.GatewayServer)
		reason, text string
	}{
		"unlabelled": {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Labels = nil }, reason: reasonInvalidPeer, text: names.RemoteClusterID + " is missing"},
		"mislabelled": {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Labels[names.RemoteClusterID] = "Rome_1" }, reason: reasonInvalidPeer,
			text: `"Rome_1"`},
		"nameless": {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Spec.ServerTemplateRef = corev1.ObjectReference{} }, reason: reasonTemplateNotFound, text: "spec.serverTemplateRef names no template"},
		"unknown":  {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Spec.ServerTemplateRef.Kind = "NoTemplate" }, reason: reasonTemplateNotFound, text: "NoTemplate"},
		"crossed": {of: s.clientTemplate(), edit: func(g *networkingv1beta1.GatewayServer) { g.Spec.ServerTemplateRef.Kind = "WgGatewayClientTemplate" }, reason: reasonInvalidTemplate,
			text: "renders WgGatewayClient"},
		"elsewhere":  {of: variant("elsewhere", other, nil), reason: reasonTemplateNotAllowed, text: "templates of namespace " + other},
		"permitted":  {of: variant("permitted", allowed, nil), reason: reasonPending},
		"homely":     {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Spec.ServerTemplateRef.Namespace = "" }, reason: reasonPending},
		"unfillable": {of: variant("unfillable", "", replaced("{{ .ClusterID }}", "{{ .NoSuchThing }}")), reason: reasonInvalidTemplate, text: "NoSuchThing"},
		"mistyped":   {of: variant("mistyped", "", replaced(`"volumeMounts"`, `"volumeMount"`)), reason: reasonInvalidTemplate, text: "volumeMount"},
		"greedy": {of: variant("greedy", "", func(o *networkingv1beta1.WgGatewayServerTemplate) {
			o.Spec.ObjectKind = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
		}), reason: reasonInvalidTemplate, text: "Deployment of apps/v1"},
		"original": {of: variant("original", "", replaced(`"containers":[`, `"containers":[{"name":"wireguard","image":"{{ .NoSuchThing }}"},{"name":"geneve","image":"g"},`)), reason: reasonInvalidTemplate,
			text: "docs/migration.md"},
		"refused": {of: variant("refused", "", replaced(`"imagePullPolicy":"IfNotPresent"`, `"imagePullPolicy":"Perhaps"`)), reason: reasonRefused, text: "Perhaps"},
		"several": {of: usual, edit: func(g *networkingv1beta1.GatewayServer) {
			g.Spec.Endpoint.Port, g.Spec.Endpoint.Ports = 0, []int32{7, 8}
		}, reason: reasonInvalidService, text: "spec.endpoint.ports has 8"},
		"outward": {of: usual, edit: func(g *networkingv1beta1.GatewayServer) { g.Spec.Endpoint.ServiceType = corev1.ServiceTypeExternalName }, reason: reasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			s := &testEnv{T: t, c: s.c, liqo: s.liqo, where: s.where}
			server := s.server(name, tc.of)
			if tc.edit != nil {
				tc.edit(server)
			}
			s.create(server)
			s.wantReady(server, tc.reason, tc.text)
			if tc.reason != reasonPending {
				testkit.WantEvent(t, s.c, server, tc.reason, tc.text)
			}
		})
	}
}

// Whoever waits for a gateway takes what is said of its new spec for the answer: what was said of the old one is none.
func TestGatewayRepaired(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	server := s.server("rome", of)
	server.Spec.Endpoint.ServiceType = corev1.ServiceTypeExternalName
	s.create(of, server)
	s.wantReady(server, reasonRefused, "")
	seen, err := s.c.Client.Watch(t.Context(), &networkingv1beta1.GatewayServerList{}, client.InNamespace(s.where))
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	testkit.Update(t, s.c.Client, server, func(g *networkingv1beta1.GatewayServer) { g.Spec.Endpoint.ServiceType = corev1.ServiceTypeNodePort })
	s.wantReady(server, reasonPending, "no address yet")
	for event := range seen.ResultChan() {
		now := event.Object.(*networkingv1beta1.GatewayServer)
		c := apimeta.FindStatusCondition(now.Status.Conditions, networkingv1beta1.ConditionGatewayReady)
		if c.ObservedGeneration < server.Generation {
			continue
		}
		if c.Reason != reasonPending {
			t.Errorf("of the new spec it is said: %s: %s", c.Reason, c.Message)
		}
		if strings.Contains(c.Message, "no address yet") {
			return
		}
	}
	t.Error("the watch ended before the gateway was looked at")
}

// However much is there, and whatever went before it, a gateway that is deleted goes, with all that was made for it.
func TestGatewayDeletion(t *testing.T) {
	s := newTestEnv(t)
	stop := s.start()
	of := s.serverTemplate()
	server, peer := s.server("rome", of), s.client("milan", s.clientTemplate())
	s.create(of, s.clientTemplate(), server, peer)
	s.deployment("rome")
	s.deployment("milan")
	s.checkRights("rome")
	s.checkRights("milan")
	if err := errors.Join(s.c.Client.Delete(t.Context(), of), s.c.Client.Delete(t.Context(), s.clientTemplate()), s.c.Client.Delete(t.Context(), server)); err != nil {
		t.Fatal(err)
	}
	gone := func(name, kind string) {
		t.Helper()
		s.eventually(func() error {
			for _, obj := range []client.Object{
				&appsv1.Deployment{ObjectMeta: s.meta("gw-" + name)}, &corev1.Secret{ObjectMeta: s.meta("gw-" + name)}, &corev1.ServiceAccount{ObjectMeta: s.meta("gw-" + name)},
				&rbacv1.RoleBinding{ObjectMeta: s.meta("gw-" + name)}, &rbacv1.RoleBinding{ObjectMeta: s.meta(names.GatewayKeys(name))},
				&corev1.Service{ObjectMeta: s.meta("gw-" + name)}, objectOf(networkingv1beta1.GroupVersion.WithKind(kind)),
			} {
				obj.SetNamespace(s.where)
				if obj.GetName() == "" {
					obj.SetName(name)
				}
				if err := s.get(obj); !apierrors.IsNotFound(err) {
					return fmt.Errorf("%T %s is still there: %v", obj, obj.GetName(), err)
				}
			}
			return nil
		})
	}
	gone("rome", "WgGatewayServer")
	s.eventually(func() error {
		readers := readersBinding()
		if err := s.get(readers); err != nil {
			return err
		}
		if slices.ContainsFunc(readers.Subjects, func(x rbacv1.Subject) bool { return x.Namespace == s.where && x.Name == "gw-rome" }) {
			return errors.New("it may still read")
		}
		return nil
	})
	stop() // nobody need be there
	if err := s.c.Client.Delete(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	gone("milan", "WgGatewayClient")
}

// The pods of a gateway that is gone end before garbage collection has come to them.
func TestGatewayDeletionPods(t *testing.T) {
	s := beginIn(t, testkit.SecondCluster(t)) // where nobody collects
	s.start()
	gone, peer := s.server("gone", s.serverTemplate()), s.client("peer", s.clientTemplate())
	for _, obj := range []client.Object{gone, peer} { // each has keys of its own
		obj.SetLabels(map[string]string{names.RemoteClusterID: obj.GetName()})
	}
	s.create(s.serverTemplate(), s.clientTemplate(), gone, peer)
	s.deployment("gone")
	s.deployment("peer")
	if err := errors.Join(s.c.Client.Delete(t.Context(), gone), s.c.Client.Delete(t.Context(), peer)); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{&networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("gone")}, &networkingv1beta1.WgGatewayClient{ObjectMeta: s.meta("peer")}} {
		s.eventually(func() error {
			if err := s.get(obj); err != nil {
				return err
			}
			if d := s.deployment(obj.GetName()); d.Spec.Replicas == nil || *d.Spec.Replicas != 0 {
				return fmt.Errorf("%s has replicas", obj.GetName())
			}
			c := apimeta.FindStatusCondition(*wireguardOf(obj).conditions, networkingv1beta1.ConditionGatewayReady)
			if c == nil || c.Reason != reasonPending || !strings.Contains(c.Message, "was deleted") {
				return fmt.Errorf("%s is said to be %+v", obj.GetName(), c)
			}
			return nil
		})
	}
}

// No pods end of a gateway that is there, or of what others keep, however late a cache is.
func TestGatewayOrphans(t *testing.T) {
	s := beginIn(t, testkit.SecondCluster(t)) // where nobody collects
	for name, tc := range map[string]struct {
		gone, unseen  bool // the gateway, and the gateway in the cache
		uid           types.UID
		kept          bool // by another owner
		orphan, taken bool // since the cache saw it
		want          bool
	}{
		"it is there":                          {},
		"it is there and the cache is late":    {unseen: true},
		"it is gone":                           {gone: true, want: true},
		"it is another of its name":            {uid: "another", want: true},
		"it is gone and another owner is left": {gone: true, kept: true},
		"it is gone and leaves this behind":    {gone: true, orphan: true},
		"it is gone, and this with it":         {gone: true, taken: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			owner := s.server("", s.serverTemplate())
			owner.GenerateName = "server-"
			s.create(owner)
			ref := *metav1.NewControllerRef(owner, kindOf(owner))
			ref.UID = cmp.Or(tc.uid, ref.UID)
			created := &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta(owner.Name)}
			created.OwnerReferences = []metav1.OwnerReference{ref}
			if tc.kept {
				created.OwnerReferences = append(created.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"})
			}
			s.create(created)
			seen := created.DeepCopy()
			if tc.orphan {
				created.OwnerReferences = nil
				if err := s.c.Client.Update(t.Context(), created); err != nil {
					t.Fatal(err)
				}
			}
			for _, it := range []struct {
				goes bool
				obj  client.Object
			}{{tc.gone, owner}, {tc.taken, created}} {
				if it.goes {
					if err := s.c.Client.Delete(t.Context(), it.obj); err != nil {
						t.Fatal(err)
					}
				}
			}
			cached := interceptor.NewClient(s.c.Client, interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if tc.unseen {
						return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
					}
					return w.Get(ctx, key, obj, opts...)
				},
			})
			w := &wireguards[*networkingv1beta1.WgGatewayServer]{all: cached, keys: &gatewayKeys{live: s.c.Client}}
			if got, err := w.isLeft(t.Context(), wireguardOf(seen)); err != nil || got != tc.want {
				t.Errorf("it is left: %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}

// Garbage collection may take the Deployment of a gateway that is gone before the cache shows that it is.
func TestGatewayDeletionPendingPods(t *testing.T) {
	s := newTestEnv(t)
	created := &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("rome")}
	created.Labels = map[string]string{names.RemoteClusterID: "milan"}
	created.Spec.Deployment.Spec = appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{names.GatewayName: "rome"}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: "gateway"}}}},
	}
	s.create(created)
	w := &wireguards[*networkingv1beta1.WgGatewayServer]{client: s.c.Client, all: s.c.Client, keys: &gatewayKeys{live: s.c.Client, bindings: s.c.Client, liqoNamespace: s.liqo}}
	deployment := &appsv1.Deployment{ObjectMeta: s.meta("gw-rome")}
	s.eventually(func() error {
		return errors.Join(w.ensureWorkload(t.Context(), wireguardOf(created)), s.get(deployment))
	})
	// Garbage collection may have been here already.
	if err := errors.Join(s.c.Client.Delete(t.Context(), created.DeepCopy()), client.IgnoreNotFound(s.c.Client.Delete(t.Context(), deployment.DeepCopy()))); err != nil {
		t.Fatal(err)
	}
	if err := w.ensureWorkload(t.Context(), wireguardOf(created)); !kube.IsWait(err) {
		t.Errorf("it says %v", err)
	}
	if err := s.get(deployment); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is there, of %v: %v", deployment.OwnerReferences, err)
	}
}

// A gateway whose pod restarts again and again says each time that it is connected: the Connection is shown as down at once all the same.
func TestGatewayRestartConnection(t *testing.T) {
	s := newTestEnv(t)
	created := &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("rome")}
	conn := &networkingv1beta1.Connection{ObjectMeta: s.meta("gw-rome"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	s.create(conn)
	w := &wireguards[*networkingv1beta1.WgGatewayServer]{client: s.c.Client, all: s.c.Client, keys: &gatewayKeys{live: kube.LimitWrites(s.c.Client, s.c.Client)}}
	for round := range 10 {
		testkit.UpdateStatus(t, s.c.Client, conn, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.Connected })
		if err := w.markDisconnected(t.Context(), wireguardOf(created)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.get(conn); err != nil || conn.Status.Value != networkingv1beta1.Connecting {
			t.Fatalf("round %d: the tunnel is %q (%v)", round, conn.Status.Value, err)
		}
	}
}

// What a template rendered comes back when it is deleted, and the keys, which the peer knows, are the same.
func TestGatewayChildDeleted(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	s.create(of, s.server("rome", of))
	before := s.deployment("rome")
	keys, now := &corev1.Secret{ObjectMeta: s.meta("gw-rome")}, &corev1.Secret{ObjectMeta: s.meta("gw-rome")}
	if err := errors.Join(s.get(keys), s.c.Client.Delete(t.Context(), &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("rome")})); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error {
		if d := s.deployment("rome"); d.UID == before.UID {
			return errors.New("the Deployment is the old one")
		}
		return s.get(now)
	})
	if diff := gocmp.Diff(keys.Data, now.Data); diff != "" {
		t.Error("the keys are others")
	}
	service := &corev1.Service{ObjectMeta: s.meta("gw-rome")}
	owner := metav1.GetControllerOf(s.deployment("rome")).UID
	s.eventually(func() error { // that of the gateway that came back
		if err := s.get(service); err != nil {
			return err
		}
		if metav1.GetControllerOf(service).UID != owner {
			return errors.New("the Service is the old one")
		}
		return s.c.Client.Delete(t.Context(), service)
	})
	s.eventually(func() error { return s.get(service) })
}

// A server and a client of one name would have one Deployment: the second waits until the first is gone.
func TestGatewaySameName(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	server, peer := s.server("rome", s.serverTemplate()), s.client("rome", s.clientTemplate())
	s.create(s.serverTemplate(), s.clientTemplate(), server)
	s.hasArg("rome", "--mode=server")
	s.create(peer)
	s.wantReady(peer, reasonTaken, "belongs to WgGatewayServer rome")
	s.hasArg("rome", "--mode=server")
	if err := s.c.Client.Delete(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	s.wantReady(peer, reasonPending, "no replica")
	s.hasArg("rome", "--mode=client")
}

// What goes with a gateway goes after it, one owner after the other: who has its name then waits, and is not told to take another one.
func TestGatewayOtherKindOrphans(t *testing.T) {
	for name, held := range map[string]client.Object{"the gateway": &networkingv1beta1.GatewayServer{}, "what was rendered": &networkingv1beta1.WgGatewayServer{}} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.start()
			server, peer := s.server("rome", s.serverTemplate()), s.client("rome", s.clientTemplate())
			s.create(s.serverTemplate(), s.clientTemplate(), server)
			s.hasArg("rome", "--mode=server")
			hold := func(finalizers ...string) {
				held.SetNamespace(server.Namespace)
				held.SetName("rome")
				testkit.Update(t, s.c.Client, held, func(obj client.Object) { obj.SetFinalizers(finalizers) })
			}
			hold("liqo.io/held-by-the-test")
			if err := s.c.Client.Delete(t.Context(), server); err != nil {
				t.Fatal(err)
			}
			s.create(peer)
			s.wantReady(peer, reasonPending, "an object of the earlier WgGatewayServer rome is being deleted")
			hold()
			s.hasArg("rome", "--mode=client")
		})
	}
}

// Who wants another port deletes a server and makes it anew at once.
func TestGatewayRecreated(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	old, anew := s.server("rome", of), s.server("rome", of)
	s.create(of, old)
	s.deployment("rome")
	if err := s.c.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	anew.Spec.Endpoint.Port = 51841
	s.create(anew)
	s.eventually(func() error {
		d, keys, service := s.deployment("rome"), &corev1.Secret{ObjectMeta: s.meta("gw-rome")}, &corev1.Service{ObjectMeta: s.meta("gw-rome")}
		if err := errors.Join(s.get(keys), s.get(service), s.get(anew)); err != nil {
			return err
		}
		if !metav1.IsControlledBy(keys, anew) || service.Spec.Ports[0].Port != 51841 || anew.Status.SecretRef == nil ||
			!slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--gateway-uid="+string(anew.UID)) {
			return errors.New("something is the old one's")
		}
		return nil
	})
}

// Two gateways whose template gives them one name do not take it from each other.
func TestGatewayNameConflict(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	of.Spec.Template.Raw = []byte(strings.Replace(string(of.Spec.Template.Raw), `"name":"{{ .Name }}"`, `"name":"same"`, 1))
	first, second := s.server("rome", of), s.server("milan", of)
	s.create(of, first)
	s.wantReady(first, reasonPending, "")
	s.create(second)
	s.wantReady(second, reasonTaken, "WgGatewayServer same belongs to GatewayServer rome")
}

func TestGatewayNoWrites(t *testing.T) {
	s := newTestEnv(t)
	stop := s.start()
	of := s.serverTemplate()
	server := s.server("rome", of)
	s.create(of, server)
	s.node("192.0.2.7")
	s.run("rome", "10.0.0.7", "node-1")
	s.wantReady(server, reasonReady, "")
	versions := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		for _, obj := range []client.Object{
			server, &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("rome")}, &appsv1.Deployment{ObjectMeta: s.meta("gw-rome")}, &corev1.Service{ObjectMeta: s.meta("gw-rome")},
			&corev1.Secret{ObjectMeta: s.meta("gw-rome")}, &corev1.ServiceAccount{ObjectMeta: s.meta("gw-rome")}, &rbacv1.RoleBinding{ObjectMeta: s.meta("gw-rome")},
		} {
			if err := s.get(obj); err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%T", obj)] = obj.GetResourceVersion()
		}
		return out
	}
	before := versions()
	stop()
	s.start() // everything is looked at again
	other := s.server("milan", of)
	s.create(other)
	s.wantReady(other, reasonPending, "")
	if diff := gocmp.Diff(before, versions()); diff != "" {
		t.Errorf("written again (-before +now):\n%s", diff)
	}
}

// A kind that others brought is rendered, and what its status says is shown.
func TestGatewayForeignKind(t *testing.T) {
	s := newTestEnv(t)
	group := s.where + ".example.com"
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	s.install(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "tubes." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "tubes", Singular: "tube", Kind: "Tube", ListKind: "TubeList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	})
	usual := networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayServerResource
	s.options.ServerResources = []string{usual, group + "/v1/tubes"}
	s.rights = append(s.rights, testkit.Rule(group, "tubes", "get", "list", "watch", "create", "patch", "delete"))
	s.start()
	of := &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.liqo, Name: "tubes"}}
	of.Spec.ObjectKind = metav1.TypeMeta{APIVersion: group + "/v1", Kind: "Tube"}
	of.Spec.Template = raw(s, `{metadata: {name: "tube-{{ .Name }}"}, spec: {width: "{{ .Spec.MTU }}", end: "{{ .ClusterID }}"}}`)
	server := s.server("rome", of)
	s.create(server, of)
	s.wantReady(server, reasonPending, "no replica")

	tube := &unstructured.Unstructured{}
	tube.SetAPIVersion(group + "/v1")
	tube.SetKind("Tube")
	tube.SetNamespace(s.where)
	tube.SetName("tube-rome")
	s.eventually(func() error { return s.get(tube) })
	if spec := tube.Object["spec"].(map[string]any); spec["width"] != int64(1340) || spec["end"] != "rome" {
		t.Errorf("rendered %v", spec)
	}
	if !metav1.IsControlledBy(tube, server) || tube.GetLabels()[names.RemoteClusterID] != "rome" {
		t.Errorf("owners %v, labels %v", tube.GetOwnerReferences(), tube.GetLabels())
	}
	tell := func(status map[string]any) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, tube, func(u *unstructured.Unstructured) { u.Object["status"] = status })
	}
	ends := map[string]any{"addresses": []any{"203.0.113.9"}, "ports": []any{int64(1), int64(2)}, "protocol": "TCP"}
	inner := map[string]any{"ip": "10.0.0.3", "node": "n"}
	tell(map[string]any{"endpoint": ends, "internalEndpoint": inner, "secretRef": map[string]any{"name": "k", "namespace": s.where}, "publicKey": "a tube has none"})
	s.wantReady(server, reasonReady, "")
	if e := server.Status.Endpoint; !slices.Equal(e.Addresses, []string{"203.0.113.9"}) || !slices.Equal(e.Ports, []int32{1, 2}) || server.Status.SecretRef.Name != "k" || server.Status.PublicKey != nil {
		t.Errorf("status %+v", server.Status)
	}
	tell(map[string]any{"endpoint": ends, "internalEndpoint": map[string]any{"ip": "nowhere"}})
	s.wantReady(server, reasonPending, "no replica")
	tell(map[string]any{"endpoint": "everywhere"})
	s.wantReady(server, reasonInvalidTemplate, "status of Tube")
	tell(map[string]any{"endpoint": ends, "internalEndpoint": inner, "conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Clogged", "message": "something is stuck", "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}})
	s.wantReady(server, "Clogged", "something is stuck")

	// What an earlier template rendered goes.
	testkit.Update(t, s.c.Client, server, func(g *networkingv1beta1.GatewayServer) { g.Spec.ServerTemplateRef.Name = "wireguard-server" })
	s.create(s.serverTemplate())
	s.deployment("rome")
	s.eventually(func() error {
		if err := s.get(tube); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the tube is still there: %v", err)
		}
		return nil
	})
}

func TestGatewayTemplateResources(t *testing.T) {
	for _, bad := range []string{"wggatewayservers", "networking.liqo.io/wggatewayservers", ""} {
		if _, err := kindsOf(nil, []string{bad}); err == nil || !strings.Contains(err.Error(), "group/version/plural") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What a cache shows may be older than what was just written: a peer that was told so would dial a port that nobody listens on.
func TestGatewayStaleEndpoint(t *testing.T) {
	s := newTestEnv(t)
	node := s.node("192.0.2.9")
	created := &networkingv1beta1.WgGatewayServer{ObjectMeta: s.meta("rome")}
	created.Spec.Service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 51840, NodePort: 30081, Protocol: corev1.ProtocolUDP}},
	}
	s.create(created)
	var lagging *corev1.Service
	cached := interceptor.NewClient(s.c.Client, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if service, ok := obj.(*corev1.Service); ok && lagging != nil {
				lagging.DeepCopyInto(service)
				return nil
			}
			return w.Get(ctx, key, obj, opts...)
		},
	})
	w := &wireguards[*networkingv1beta1.WgGatewayServer]{client: cached, all: s.c.Client, keys: &gatewayKeys{live: s.c.Client}}
	for _, port := range []int32{30081, 30082} {
		created.Spec.Service.Spec.Ports[0].NodePort = port
		if err := w.reportEndpoint(t.Context(), wireguardOf(created)); err != nil {
			t.Fatal(err)
		}
		if e := created.Status.Endpoint; e.Port != port || !slices.Contains(e.Addresses, node.Status.Addresses[0].Address) {
			t.Errorf("the endpoint is %+v, with the Service at port %d", e, port)
		}
		lagging = &corev1.Service{ObjectMeta: s.meta("gw-rome")}
		if err := s.get(lagging); err != nil {
			t.Fatal(err)
		}
	}
}

// Nodes read the MTU of a tunnel there, and need not read Connections.
func TestGatewayMTU(t *testing.T) {
	s := newTestEnv(t)
	s.create(s.serverTemplate(), s.clientTemplate())
	server, dials := s.server("server", s.serverTemplate()), s.client("client", s.clientTemplate())
	s.create(server, dials)
	s.start()
	connection := func(of client.Object) *networkingv1beta1.Connection {
		conn := &networkingv1beta1.Connection{ObjectMeta: s.meta(names.Gateway(of.GetName()))}
		conn.Spec.Type = networkingv1beta1.ConnectionTypeServer
		conn.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, kindOf(of))}
		s.create(conn)
		return conn
	}
	tells := func(mtu int) {
		t.Helper()
		s.eventually(func() error {
			if err := errors.Join(s.get(server), s.get(dials)); err != nil {
				return err
			}
			if server.Status.MTU != mtu || dials.Status.MTU != mtu {
				return fmt.Errorf("the server says %d, the client %d, want %d", server.Status.MTU, dials.Status.MTU, mtu)
			}
			return nil
		})
	}
	conns := []*networkingv1beta1.Connection{connection(server), connection(dials)}
	for _, mtu := range []int{1340, 1232} {
		for _, conn := range conns {
			testkit.UpdateStatus(t, s.c.Client, conn, func(c *networkingv1beta1.Connection) { c.Status.MTU = mtu })
		}
		tells(mtu)
	}
	for _, conn := range conns { // now they are nobody's
		testkit.Update(t, s.c.Client, conn, func(c *networkingv1beta1.Connection) { c.OwnerReferences = nil })
	}
	for _, obj := range []client.Object{server, dials} {
		testkit.Update(t, s.c.Client, obj, func(o client.Object) { o.SetAnnotations(map[string]string{"example.com/look": "again"}) })
	}
	tells(0)
}

func TestGatewayStrategy(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  corev1.PodSpec
		want appsv1.DeploymentStrategyType
	}{
		"network_of_its_own": {corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8083}}}}}, appsv1.RollingUpdateDeploymentStrategyType},
		"host_network":       {corev1.PodSpec{HostNetwork: true}, appsv1.RecreateDeploymentStrategyType},
		"host_port":          {corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8083, HostPort: 8083}}}}}, appsv1.RecreateDeploymentStrategyType},
	} {
		if got := strategyOf(tc.pod).Type; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
