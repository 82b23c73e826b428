// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// between runs a command of network from rome to milan.
func between(t *testing.T, rome, milan *testCluster, args ...string) result {
	t.Helper()
	return betweenAs(t, rome, milan, rome.Config, milan.Config, args...)
}

func betweenAs(t *testing.T, rome, milan *testCluster, local, remote *rest.Config, args ...string) result {
	t.Helper()
	args = append([]string{"network"}, args...)
	return liqoctl(t, local, append(args, "--remote-kubeconfig", kubeconfigFile(t, remote),
		"--liqo-namespace", rome.liqo, "--remote-liqo-namespace", milan.liqo)...)
}

const (
	identities = ` INFO   (local) Cluster identity correctly retrieved
 INFO   (remote) Cluster identity correctly retrieved
`
	initialised = ` INFO   (local) Network configuration correctly retrieved
 INFO   (remote) Network configuration correctly retrieved
 INFO   (local) Network configuration correctly set up
 INFO   (remote) Network configuration correctly set up
 INFO   (local) Configuration applied successfully
 INFO   (remote) Configuration applied successfully
`
	connected = ` INFO   (local) Network correctly initialized
 INFO   (remote) Network correctly initialized
 INFO   (remote) Gateway server correctly set up
 INFO   (remote) Gateway pod gw-rome is ready
 INFO   (remote) Gateway server Service created successfully
 INFO   (local) Gateway client correctly set up
 INFO   (local) Gateway pod gw-milan is ready
 INFO   (remote) Gateway server Secret created successfully
 INFO   (local) Public key correctly created
 INFO   (local) Gateway client Secret created successfully
 INFO   (remote) Public key correctly created
`
	established = ` INFO   (remote) Connection created successfully
 INFO   (local) Connection created successfully
 INFO   (local) Connection is established
 INFO   (remote) Connection is established
`
)

// lateness is what a step says that lasts for long, on a busy machine.
var lateness = regexp.MustCompile(`(?m)^ WARN   ?(\([a-z]+\) )?(Waiting for|Deleting|Applying) .*\n`)

// comparableOutput returns the output without lines that depend on the speed of the machine: a node may be deleted before the command reads it.
func comparableOutput(stderr, want string) string {
	stderr = lateness.ReplaceAllString(stderr, "")
	if strings.Contains(want, "All virtualnodes deleted") {
		stderr = strings.Replace(stderr, "No virtualnodes found", "All virtualnodes deleted", 1)
	}
	return stderr
}

func wantTranscript(t *testing.T, r result, want string) {
	t.Helper()
	if r.err != nil {
		t.Errorf("it failed: %v", r.err)
	}
	if diff := cmp.Diff(want, comparableOutput(r.stderr, want)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.stdout != "" {
		t.Errorf("progress on standard output: %q", r.stdout)
	}
}

// The two clusters of this story use the same networks. Their controllers are real, their nodes and gateways are not.
func TestNetworkCommands(t *testing.T) {
	rome, milan := newTestCluster(t, 2, "rome"), newTestCluster(t, 3, "milan")
	nothingCanBeConnectedWrongly(t, rome, milan)
	aDryRunPrintsWhatConnects(t, rome, milan)
	theyAreConnectedByCommands(t, rome, milan)
	oneCommandConnectsToo(t, rome, milan)
	aPeeringUserConnectsThem(t, rome, milan)
	theyAreConnectedByHand(t, rome, milan)
	whatHasNoRoomIsTakenBack(t, rome, milan)
}

func theyAreConnectedByCommands(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	for range 2 {
		wantTranscript(t, between(t, rome, milan, "init"), identities+initialised)
	}
	between(t, rome, milan, "connect", "--skip-validation", "--gw-server-template-name", "none").refuses(t,
		"in the remote cluster: the gateway is refused: TemplateNotFound: ")
	whatATemplateLacksIsTold(t, rome, milan)
	whatIsNotReachedIsTold(t, rome, milan)
	seen := configurationOf(t, rome, "liqo-tenant-milan", "milan")
	if want := []networkingv1beta1.CIDR{"10.200.0.0/16"}; !slices.Equal(seen.Spec.Remote.CIDR.Pod, want) || seen.Status.Remote == nil || slices.Equal(seen.Status.Remote.CIDR.Pod, want) {
		t.Errorf("rome sees milan as %+v, %+v", seen.Spec, seen.Status)
	}
	for range 2 {
		wantTranscript(t, between(t, rome, milan, "connect", "--server-service-type", "NodePort"), identities+connected+established)
	}
	server := &networkingv1beta1.GatewayServer{}
	get(t, milan, "liqo-tenant-rome", "rome", server)
	dials := &networkingv1beta1.GatewayClient{}
	get(t, rome, "liqo-tenant-milan", "milan", dials)
	if diff := cmp.Diff(*server.Status.Endpoint, dials.Spec.Endpoint); diff != "" {
		t.Errorf("the client dials another server (-server +client):\n%s", diff)
	}

	// The flags of the server reach it, by their older names too, and pods of before are not taken for those of now.
	change := []string{"connect", "--server-service-type", "NodePort", "--server-port", "51900", "--node-port", "31900", "--mtu", "1300", "--client-address", "198.51.100.7"}
	milan.idle.Store(true)
	between(t, rome, milan, append(change, untilMissing("are not up to date yet"))...).refuses(t, "in the remote cluster: the pods of the Deployment gw-rome are not up to date yet: timed out waiting for the condition")
	milan.idle.Store(false)
	between(t, rome, milan, change...).succeeds(t)
	get(t, milan, "liqo-tenant-rome", "rome", server)
	if e := server.Spec.Endpoint; e.Port != 51900 || *e.NodePort != 31900 || server.Spec.MTU != 1300 {
		t.Errorf("the server is %+v", server.Spec)
	}
	get(t, rome, "liqo-tenant-milan", "milan", dials)
	if want := "198.51.100.7"; dials.Spec.Endpoint.Addresses[0] != want || dials.Spec.Endpoint.Port != 31900 || dials.Spec.MTU != 1300 {
		t.Errorf("the client is %+v", dials.Spec)
	}

	// Keys that gateways made go with them, so no manifest refers to their Secrets.
	if r := between(t, rome, milan, "connect", "--dry-run", "--server-service-type", "NodePort"); r.err != nil || strings.Contains(r.stdout, "secretRef:\n    name:") ||
		len(tunnelKey.FindAllString(r.stdout, -1)) != 2 {
		t.Errorf("%v:\n%s", r.err, r.stdout)
	}

	liqoctl(t, nil, "__complete", "--kubeconfig", kubeconfigFile(t, rome.Config), "create", "publickey", "x", "--remote-cluster-id", "").succeeds(t, "milan\n")
	between(t, milan, rome, "connect").refuses(t, "in the local cluster: gateway server for the other direction already exists")
	between(t, rome, milan, "disconnect").refuses(t, "--skip-confirm")
	wantTranscript(t, between(t, rome, milan, "disconnect", "--wait", "--skip-confirm"), identities+
		" INFO   (local) Gateway client correctly deleted\n INFO   (remote) Gateway server correctly deleted\n")
	wantTranscript(t, between(t, rome, milan, "reset", "--skip-confirm"), identities+
		" INFO   (local) Gateway client already deleted\n INFO   (remote) Gateway server already deleted\n"+
		" INFO   (local) Network configuration correctly deleted\n INFO   (remote) Network configuration correctly deleted\n")
	wantTranscript(t, between(t, rome, milan, "reset", "--skip-confirm"), identities+
		" INFO   (local) Gateway client already deleted\n INFO   (remote) Gateway server already deleted\n"+
		" INFO   (local) Network configuration already deleted\n INFO   (remote) Network configuration already deleted\n")
}

// whatATemplateLacksIsTold is about templates that are there, and of which no gateway can be made.
func whatATemplateLacksIsTold(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	broken := func(c *testCluster, template client.Object, usual string, spec func() *networkingv1beta1.GatewayTemplateSpec) {
		get(t, c, c.liqo, usual, template)
		text := spec().Template.Raw
		spec().Template.Raw = bytes.ReplaceAll(text, []byte("{{ .Name }}"), []byte("{{ .Nickname }}"))
		template.SetName("broken")
		template.SetResourceVersion("")
		testkit.Create(t, c.Client, template)
	}
	servers, clients := &networkingv1beta1.WgGatewayServerTemplate{}, &networkingv1beta1.WgGatewayClientTemplate{}
	broken(milan, servers, "wireguard-server", func() *networkingv1beta1.GatewayTemplateSpec { return &servers.Spec })
	broken(rome, clients, "wireguard-client", func() *networkingv1beta1.GatewayTemplateSpec { return &clients.Spec })
	const why = `"{{ .Nickname }}" cannot be filled: `
	between(t, rome, milan, "connect", "--server-service-type", "NodePort", "--gw-server-template-name", "broken").refuses(t,
		"in the remote cluster: the gateway is refused: InvalidTemplate: the template "+milan.liqo+"/broken: ", why)
	between(t, rome, milan, "connect", "--server-service-type", "NodePort", "--gw-client-template-name", "broken").refuses(t,
		"in the local cluster: the gateway is refused: InvalidTemplate: the template "+rome.liqo+"/broken: ", why)
}

// whatIsNotReachedIsTold is about a server at an address where nobody answers.
func whatIsNotReachedIsTold(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	rome.deaf.Store(true)
	defer rome.deaf.Store(false)
	otherNamespace := []string{"connect", "--server-service-type", "NodePort", "--client-address", "203.0.113.9", "--client-port", "31900"}
	between(t, rome, milan, append(otherNamespace, "--wait=false")...).succeeds(t)
	awaitConnection(t, rome, "liqo-tenant-milan", "gw-milan", networkingv1beta1.ConnectionError)
	between(t, rome, milan, append(otherNamespace, untilMissing("nothing comes back from its server, dialled at 203.0.113.9:31900"))...).refuses(t,
		`in the local cluster: the Connection liqo-tenant-milan/gw-milan is "Error": nothing comes back from its server, dialled at 203.0.113.9:31900 by UDP: timed out waiting for the condition`)
}

// Who connects at once after a reset gets the keys of the new gateways, and clusters that were told nothing are told. Whichever
// cluster is named first, all goes.
func oneCommandConnectsToo(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	wantTranscript(t, between(t, rome, milan, "connect", "--gw-server-service-type", "NodePort"), identities+initialised+connected+established)
	wantTranscript(t, between(t, milan, rome, "reset", "--skip-confirm"), identities+
		" INFO   (local) Gateway client already deleted\n INFO   (remote) Gateway client correctly deleted\n"+
		" INFO   (local) Gateway server correctly deleted\n INFO   (remote) Gateway server already deleted\n"+
		" INFO   (local) Network configuration correctly deleted\n INFO   (remote) Network configuration correctly deleted\n")
}

// theyAreConnectedByHand is what two administrators type who only send each other files.
func theyAreConnectedByHand(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	romes := printed(t, rome, "generate", "configuration")
	applyFile(t, milan, romes)
	milans := printed(t, milan, "generate", "configuration")
	applyFile(t, rome, milans)
	want := `apiVersion: networking.liqo.io/v1beta1
kind: Configuration
metadata:
  labels:
    liqo.io/remote-cluster-id: rome
  name: rome
spec:
  remote:
    cidr:
      external:
      - 10.70.0.0/16
      pod:
      - 10.200.0.0/16
status: {}
---
`
	if diff := cmp.Diff(want, romes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	liqoctlIn(t, milan, "create", "gatewayserver", "server", "--remote-cluster-id", "rome", "--service-type", "NodePort", "--wait").
		succeeds(t, " INFO  Gatewayserver created\n INFO  gatewayserver is ready\n")
	server := &networkingv1beta1.GatewayServer{}
	get(t, milan, "default", "server", server)
	liqoctlIn(t, rome, "create", "gatewayclient", "client", "--remote-cluster-id", "milan", "--wait",
		"--addresses", strings.Join(server.Status.Endpoint.Addresses, ","), "--port", fmt.Sprint(server.Status.Endpoint.Port)).
		succeeds(t, " INFO  Gatewayclient created\n INFO  gatewayclient is ready\n")
	applyFile(t, rome, printed(t, milan, "generate", "publickey", "--gateway-type", "server", "--gateway-name", "server"))
	romes = printed(t, rome, "generate", "publickey", "--gateway-type", "client", "--gateway-name", "client")
	if !strings.Contains(romes, "  labels:\n    liqo.io/remote-cluster-id: rome\n    networking.liqo.io/gateway-resource: \"true\"\n  name: rome\nspec:\n  publicKey: ") {
		t.Errorf("the key of rome is\n%s", romes)
	}
	applyFile(t, milan, romes)
	for c, name := range map[*testCluster]string{rome: "gw-client", milan: "gw-server"} {
		awaitConnected(t, c, "default", name)
	}
	liqoctlIn(t, rome, "generate", "publickey", "--gateway-type", "server", "--gateway-name", "client").refuses(t, "there is no GatewayServer default/client")

	whatWasMadeByHandIsFound(t, rome, milan)
}

// whatWasMadeByHandIsFound is about commands on what is in no tenant namespace.
func whatWasMadeByHandIsFound(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	limitedUser := milan.User(t, "guest")
	testkit.Allow(t, milan.ControlPlane, "default", "guest", testkit.Rule("networking.liqo.io", "configurations", "watch", "create", "patch", "delete"))
	wantTranscript(t, betweenAs(t, rome, milan, rome.Config, limitedUser, "init"), identities+initialised)
	testkit.Allow(t, milan.ControlPlane, "", "guest", append(looking, testkit.Rule("networking.liqo.io", "gatewayservers", "list"), testkit.Rule("networking.liqo.io", "gatewayclients", "list"))...)
	betweenAs(t, rome, milan, rome.Config, limitedUser, "disconnect", "--skip-confirm").refuses(t,
		"in the remote cluster: you are not allowed to get gatewayservers.networking.liqo.io, watch gatewayservers.networking.liqo.io, delete gatewayservers.networking.liqo.io in namespace default")

	between(t, rome, milan, "connect", "--server-service-type", "NodePort", "--mtu", "1300").succeeds(t,
		"(remote) Gateway pod gw-server is ready", "(local) Gateway pod gw-client is ready", "(local) Connection is established")
	server, dials := &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}
	get(t, milan, "default", "server", server)
	get(t, rome, "default", "client", dials)
	if server.Spec.MTU != 1300 || dials.Spec.MTU != 1300 {
		t.Errorf("the server is %+v, the client %+v", server.Spec, dials.Spec)
	}
	between(t, milan, rome, "connect").refuses(t, "in the local cluster: gateway server for the other direction already exists: default/server")

	// Of several, which -n makes only where there is none, none is taken.
	liqoctlIn(t, milan, "create", "gatewayserver", "second", "--remote-cluster-id", "rome", "--service-type", "NodePort", "-n", "liqo-tenant-rome").succeeds(t)
	between(t, rome, milan, "connect").refuses(t, "in the remote cluster: several GatewayServers of rome exist: default/server, liqo-tenant-rome/second", "Delete all but one of them")
	between(t, rome, milan, "disconnect", "--skip-confirm", "-n", "liqo-tenant-milan", "--remote-namespace", "liqo-tenant-rome").succeeds(t,
		"(local) Gateway client already deleted", "(remote) Gateway server correctly deleted")
	get(t, milan, "default", "server", server)
	between(t, rome, milan, "reset", "--skip-confirm").succeeds(t, "(local) Gateway client correctly deleted", "(remote) Gateway server correctly deleted",
		"(local) Network configuration correctly deleted", "(remote) Network configuration correctly deleted")
}

// looking is what a guest may who is only to see what a cluster knows of another.
var looking = []rbacv1.PolicyRule{
	testkit.Rule("", "configmaps", "list"), testkit.Rule("", "namespaces", "get", "list"),
	testkit.Rule("ipam.liqo.io", "networks", "list"), testkit.Rule("networking.liqo.io", "configurations", "list", "get"),
}

// nothingCanBeConnectedWrongly is about what is refused before anything is changed.
func nothingCanBeConnectedWrongly(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	between(t, rome, rome, "init").refuses(t, "local and remote clusters must be different", "--remote-kubeconfig")
	between(t, rome, &testCluster{ControlPlane: milan.ControlPlane, liqo: "elsewhere"}, "init").refuses(t,
		`in the remote cluster: Liqo is not installed in namespace "elsewhere"`)
	bare := testkit.Namespace(t, milan.ControlPlane, "bare", nil)
	testkit.Create(t, milan.Client, identityOf("milan", bare))
	between(t, rome, &testCluster{ControlPlane: milan.ControlPlane, liqo: bare}, "connect").refuses(t, "in the remote cluster: the networking module of Liqo is not installed")
	for want, flags := range map[string][]string{
		"template WgGatewayServerTemplate " + milan.liqo + "/none not found": {"--gw-server-template-name", "none"},
		"template WgGatewayClientTemplate " + rome.liqo + "/none not found":  {"--gw-client-template-name", "none"},
		`invalid type of templates "one/two"`:                                {"--gw-server-type", "one/two"},
		"invalid port 0":                                                     {"--server-port", "0"},
		"invalid MTU 1":                                                      {"--mtu", "1"},
	} {
		between(t, rome, milan, append([]string{"connect"}, flags...)...).refuses(t, want)
	}
	for _, args := range [][]string{
		{"configuration", "--pod-cidr", "10.201.0.0/16", "--external-cidr", "10.71.0.0/16"}, {"gatewayserver", "--service-type", "NodePort"}, {"gatewayclient", "--addresses", "192.0.2.1", "--port", "31840"},
	} {
		liqoctlIn(t, rome, append([]string{"create", args[0], "mine", "--remote-cluster-id", "rome", "-n", "default"}, args[1:]...)...).refuses(t, `"rome" is this cluster`)
	}
	limitedUser := milan.User(t, "guest")
	betweenAs(t, rome, milan, rome.Config, limitedUser, "init").refuses(t, "in the remote cluster: ", "forbidden")
	testkit.Allow(t, milan.ControlPlane, "", "guest", looking...)
	betweenAs(t, rome, milan, rome.Config, limitedUser, "init").refuses(t,
		"in the remote cluster: you are not allowed to create namespaces, originate tenants.authentication.liqo.io, watch configurations.networking.liqo.io, create configurations.networking.liqo.io, "+
			"patch configurations.networking.liqo.io, delete configurations.networking.liqo.io in namespace liqo-tenant-rome")

	var all networkingv1beta1.ConfigurationList
	var tenants corev1.NamespaceList
	for c, other := range map[*testCluster]*testCluster{rome: milan, milan: rome} {
		if err := c.Client.List(t.Context(), &all); err != nil || len(all.Items) > 0 {
			t.Errorf("%s was told something: %v, %v", c.id, all.Items, err)
		}
		if err := c.Client.List(t.Context(), &tenants, client.MatchingLabels{names.RemoteClusterID: other.id}); err != nil || len(tenants.Items) > 0 {
			t.Errorf("%s has a new namespace: %v, %v", c.id, tenants.Items, err)
		}
	}
}

// whatHasNoRoomIsTakenBack is about networks of the other cluster for which none of ours are left.
func whatHasNoRoomIsTakenBack(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	rome.stop()
	between(t, rome, milan, "init", untilMissing("Configuration liqo-tenant-milan/milan has not been processed yet")).refuses(t, "in the local cluster: Configuration liqo-tenant-milan/milan has not been processed yet: "+
		"is liqo-controller-manager running?: timed out waiting for the condition")
	between(t, rome, milan, "reset", "--skip-confirm").succeeds(t, "(local) Network configuration correctly deleted")
	rome.run(t, "10.200.0.0/16") // which rome uses itself
	r := between(t, rome, milan, "init")
	r.refuses(t, "in the local cluster: the network 10.", " of the other cluster cannot be remapped: no prefix of length 16 is free in 10.200.0.0/16")
	for c, other := range map[*testCluster]string{rome: "milan", milan: "rome"} {
		err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + other, Name: other}, &networkingv1beta1.Configuration{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s keeps the Configuration: %v", c.id, err)
		}
	}

	// What somebody else wrote comes back.
	liqoctlIn(t, rome, "create", "configuration", "hers", "--remote-cluster-id", "milan", "--pod-cidr", "10.201.0.0/16", "--external-cidr", "10.71.0.0/16", "-n", "default").succeeds(t)
	testkit.Update(t, rome.Client, configurationOf(t, rome, "default", "hers"), func(cfg *networkingv1beta1.Configuration) {
		cfg.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.202.0.0/16"}
	})
	var before *networkingv1beta1.Configuration
	testkit.Eventually(t, time.Minute, func() error { // the controller writes its networks there, too
		if before = configurationOf(t, rome, "default", "hers"); before.Spec.Local == nil || len(before.Annotations) < 2 {
			return errors.New("the networks of rome are not in it")
		}
		return nil
	})
	between(t, rome, milan, "init").refuses(t, "cannot be remapped",
		"(local) The Configuration default/hers named pods [10.202.0.0/16], external [10.71.0.0/16]: it names pods [10.200.0.0/16], external [10.70.0.0/16] now",
		"(local) The Configuration default/hers has its previous networks again")
	after := configurationOf(t, rome, "default", "hers")
	if diff := cmp.Diff(before.Spec.Remote, after.Spec.Remote) + cmp.Diff(before.Annotations, after.Annotations); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

// liqoctlIn runs a command in one of the clusters.
func liqoctlIn(t *testing.T, c *testCluster, args ...string) result {
	t.Helper()
	return liqoctl(t, c.Config, append(args, "--liqo-namespace", c.liqo, "--timeout", "5m")...)
}

func printed(t *testing.T, c *testCluster, args ...string) string {
	t.Helper()
	r := liqoctlIn(t, c, args...)
	r.succeeds(t)
	return r.stdout
}

// applyFile is kubectl apply in the namespace default.
func applyFile(t *testing.T, c *testCluster, manifest string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.TrimSuffix(manifest, "---\n")), obj); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace("default")
	testkit.Create(t, client.WithFieldValidation(c.Client, metav1.FieldValidationStrict), obj) // as kubectl does
}

func get(t *testing.T, c *testCluster, namespace, name string, obj client.Object) {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		t.Fatal(err)
	}
}

func configurationOf(t *testing.T, c *testCluster, namespace, name string) *networkingv1beta1.Configuration {
	t.Helper()
	cfg := &networkingv1beta1.Configuration{}
	get(t, c, namespace, name, cfg)
	return cfg
}

// Scripts were written for older versions.
func TestFlagAliases(t *testing.T) {
	_, all := commandTree(t)
	for older, today := range map[string]string{
		"server-type": "gw-server-type", "server-template-name": "gw-server-template-name", "server-template-namespace": "gw-server-template-namespace",
		"server-service-type": "gw-server-service-type", "server-service-port": "gw-server-service-port", "server-port": "gw-server-service-port",
		"server-service-nodeport": "gw-server-service-nodeport", "node-port": "gw-server-service-nodeport",
		"server-service-loadbalancerip": "gw-server-service-loadbalancerip", "load-balancer-ip": "gw-server-service-loadbalancerip",
		"client-type": "gw-client-type", "client-template-name": "gw-client-template-name", "client-template-namespace": "gw-client-template-namespace",
		"client-address": "gw-client-address", "client-port": "gw-client-port",
	} {
		for _, command := range []string{"network connect", "peer"} {
			flags := all[command].Flags()
			if f := flags.Lookup(today); f == nil || flags.Lookup(older) != f || f.Name != today {
				t.Errorf("%s: --%s is not --%s", command, older, today)
			}
		}
	}
}
