// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/consumer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	peeringcontroller "liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/provider"
	"liqo.io/liqo/internal/replicator"
	"liqo.io/liqo/internal/resourceslice"
	"liqo.io/liqo/internal/testkit"
)

// newCity is a cluster with all modules. Its nodes, gateways and virtual kubelets are no real ones.
func newCity(t *testing.T, n int, id string) *testCluster {
	t.Helper()
	c := newTestCluster(t, n, id)
	testkit.NthCluster(t, n, testkit.WithControllers("certificatesigningrequest-signing-controller"))
	givePeerRoles(t, c)
	c.authenticates(t)
	testkit.Create(t, c.Client, &offv1beta1.VkOptionsTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.liqo, Name: names.VkOptionsTemplate},
		Spec:       offv1beta1.VkOptionsTemplateSpec{CreateNode: true, ContainerImage: "liqo:test"},
	})
	cluster := liqov1beta1.ClusterID(id)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "peering-" + id}, func(mgr ctrl.Manager) error {
		return errors.Join(
			peeringcontroller.Setup(mgr, peeringcontroller.Options{LiqoNamespace: c.liqo}),
			resourceslice.SetupLocal(mgr, resourceslice.LocalOptions{ClusterID: cluster, LiqoNamespace: c.liqo}),
			resourceslice.SetupRemote(mgr, resourceslice.RemoteOptions{APIServer: c.Config.Host}),
			consumer.SetupVirtualNodes(mgr, consumer.VirtualNodeOptions{ClusterID: cluster, LiqoNamespace: c.liqo, Image: "liqo:test"}),
			provider.SetupNamespaceMaps(mgr, provider.NamespaceMapOptions{LiqoNamespace: c.liqo}),
			replicator.Setup(mgr, replicator.Options{AllowLoopbackPeers: true, ClusterID: cluster, HealthInterval: time.Second, HealthTimeout: time.Second}),
			ctrl.NewControllerManagedBy(mgr).Named("kubelets").For(&appsv1.Deployment{}).Complete(reconcile.Func(c.playKubelet)),
		)
	})
	testkit.Eventually(t, time.Minute, func() error { // what other stories left gets in the way of a census
		var remaining corev1.NamespaceList
		if err := c.Client.List(t.Context(), &remaining, client.HasLabels{names.TenantNamespace}); err != nil {
			return err
		}
		for i := range remaining.Items {
			if err := c.Client.Delete(t.Context(), &remaining.Items[i]); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if n := len(remaining.Items); n > 0 {
			return fmt.Errorf("%d tenant namespaces of other stories are there", n)
		}
		return nil
	})
	return c
}

// givePeerRoles makes the roles of the chart that peers are given.
func givePeerRoles(t *testing.T, c *testCluster) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/chart/templates/roles-peers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Of what is rendered only labels depend.
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.Contains(line, "{{") || strings.Contains(line, "}}") })
	for doc := range strings.SplitSeq(strings.Join(lines, "\n"), "\n---\n") {
		role := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &role.Object); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Create(t.Context(), role); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// playKubelet is a virtual kubelet, as far as that there is a node.
func (c *testCluster) playKubelet(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &appsv1.Deployment{}
	if err := c.Client.Get(ctx, req.NamespacedName, d); err != nil || d.Labels[names.VirtualNode] == "" || !d.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.asleep.Load() {
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.Labels[names.VirtualNode], Labels: map[string]string{
		names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: d.Labels[names.RemoteClusterID],
	}}}
	if err := client.IgnoreAlreadyExists(c.Client.Create(ctx, node)); err != nil {
		return reconcile.Result{}, err
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if node.ResourceVersion != "" {
		if err := c.Client.Status().Update(ctx, node); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := c.Client.Get(ctx, req.NamespacedName, d); apierrors.IsNotFound(err) { // nobody else would remove the node of one that went meanwhile
		return reconcile.Result{}, client.IgnoreNotFound(c.Client.Delete(ctx, node))
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if d.Status.AvailableReplicas == 1 {
		return reconcile.Result{}, nil
	}
	d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1, 1
	return reconcile.Result{}, c.Client.Status().Update(ctx, d)
}

// peers is a command line of one city about another.
func peers(t *testing.T, from, to *testCluster, args ...string) []string {
	t.Helper()
	if args[0] == "peer" && !slices.Contains(args, "--networking-disabled") && from.id < to.id {
		args = append(args, "--gw-server-service-type", "NodePort") // nobody balances load here
	}
	return append(args, "--kubeconfig", kubeconfigFile(t, from.Config), "--remote-kubeconfig", kubeconfigFile(t, to.Config),
		"--namespace", from.liqo, "--remote-namespace", to.liqo, "--timeout", "5m")
}

func peered(t *testing.T, from, to *testCluster, args ...string) result {
	t.Helper()
	return liqoctl(t, nil, peers(t, from, to, args...)...)
}

const sliced = ` INFO   (local) ResourceSlice created
 INFO   (local) ResourceSlice authentication: Accepted
 INFO   (local) ResourceSlice resources: Accepted
`

// guided is what the guide says that peer prints.
func guided() string {
	gateways := strings.NewReplacer("gw-rome", "gw-cluster1", "gw-milan", "gw-cluster2")
	return initialised + gateways.Replace(connected) + established + authenticated + sliced
}

const ended = ` INFO   (local) All resourceslices deleted
 INFO   (local) Ensured resourceslices absence
 INFO   (local) All virtualnodes deleted
 INFO   (local) Ensured virtualnodes absence
 INFO   (local) No leftover resourceslices on consumer cluster
 INFO   (local) Identity control plane correctly deleted
 INFO   (remote) Tenant correctly deleted
`

const disconnected = ` INFO   (local) Gateway client correctly deleted
 INFO   (remote) Gateway server correctly deleted
 INFO   (local) Network configuration correctly deleted
 INFO   (remote) Network configuration correctly deleted
`

// secondDirection is what peer says where the clusters are connected already.
const secondDirection = initialised + ` INFO   (local) Network correctly initialized
 INFO   (remote) Network correctly initialized
` + established + authenticated + sliced

// namespacesDeleted is what unpeer adds at the end where it deletes them.
const namespacesDeleted = ` INFO   (local) Tenant namespace deleted
 INFO   (remote) Tenant namespace deleted
 INFO   (local) Ensured tenant namespace absence
 INFO   (remote) Ensured tenant namespace absence
`

// The story of the guide about peerings, and of what may go wrong with them.
func TestPeerCommands(t *testing.T) {
	t.Parallel()
	one, two := newCity(t, 2, "cluster1"), newCity(t, 3, "cluster2")
	before := census(t, one, two)
	t.Run("nothing is peered wrongly", func(t *testing.T) {
		nothingIsPeeredWrongly(t, one, two)
		checkNothingRemains(t, before, one, two)
	})
	t.Run("as the guide says", func(t *testing.T) { theyArePeeredByOneCommand(t, one, two) })
	between := census(t, one, two) // the tenant namespaces stay
	for _, story := range []struct {
		name string
		tell func(t *testing.T, one, two *testCluster)
	}{
		{"both ways", theyArePeeredBothWays},
		{"both ways at once", bothDirectionsBeginAtOnce},
		{"both ways undone at once", bothDirectionsEndAtOnce},
		{"a lost consumer", whatALostConsumerLeftIsUndone},
		{"a consumer that is let in no more", whoIsLetInNoMoreIsUndone},
		{"without networks", theyArePeeredWithoutNetworks},
		{"beside gateways that do not start", onlyTheTunnelWaitsForGateways},
		{"until the node is ready", theNodeIsWaitedFor},
		{"interrupted", whatIsInterruptedIsTakenUp},
		{"interrupted in one of two directions", oneOfTwoDirectionsIsTakenUp},
		{"an API server away", whatIsLostIsWaitedFor},
		{"begun and undone", whatIsBegunIsUndone},
	} {
		t.Run(story.name, func(t *testing.T) {
			story.tell(t, one, two)
			checkNothingRemains(t, between, one, two)
		})
	}
	t.Run("gone for good", func(t *testing.T) {
		whatIsGoneIsForgotten(t, one, two)
		checkNothingRemains(t, before, one, two)
	})
}

// census names all that there is in both clusters, but for requests that Kubernetes clears away, for addresses that it draws for Services, and
// for which nonces served, which is remembered as long as there is a tenant namespace.
func census(t *testing.T, one, two *testCluster) (all []string) {
	t.Helper()
	for _, c := range []*testCluster{one, two} {
		for _, name := range listing(t, c.Config) {
			if !uncounted.MatchString(name) {
				all = append(all, c.id+" "+name)
			}
		}
	}
	return all
}

var uncounted = regexp.MustCompile(` (certificatesigningrequests|ipaddresses) |[ /]authentication-nonces-`)

// checkNothingRemains compares with what there was. What earlier tests left may go meanwhile, and what Kubernetes collects goes a little later.
func checkNothingRemains(t *testing.T, before []string, one, two *testCluster) {
	t.Helper()
	testkit.Eventually(t, 5*time.Minute, func() error {
		remaining := slices.DeleteFunc(census(t, one, two), func(name string) bool { return slices.Contains(before, name) })
		if len(remaining) > 0 {
			return fmt.Errorf("left: %s", strings.Join(remaining, ", "))
		}
		return nil
	})
}

func theyArePeeredByOneCommand(t *testing.T, one, two *testCluster) {
	asks := []string{"peer", "--cpu", "2", "--memory", "4Gi", "--pods", "20", "--resource", "nvidia.com/gpu=2"}
	wantTranscript(t, peered(t, one, two, asks...), guided())
	undisturbed(t, one, two, asks...)
	granted := &authv1beta1.ResourceSlice{}
	get(t, one, "liqo-tenant-cluster2", "cluster2", granted)
	if got := granted.Spec.Resources; got.Cpu().String() != "2" || got.Memory().String() != "4Gi" || got.Pods().String() != "20" || got.Name("nvidia.com/gpu", "").String() != "2" {
		t.Errorf("it asks for %v", got)
	}
	roleIs(t, one, two, liqov1beta1.ProviderRole)
	roleIs(t, two, one, liqov1beta1.ConsumerRole)
	nodeIsReady(t, one, "cluster2")
	whoMayNotDoAllOfItChangesNothing(t, one, two, "unpeer")
	whoMayNotRemoveItKeepsIt(t, one, two)
	dry := peered(t, one, two, "unpeer", "--dry-run", "--delete-namespaces")
	dry.succeeds(t)
	want := "| ResourceSlice VirtualNode NamespaceMap Identity Secret Secret GatewayClient Configuration Namespace" +
		" Tenant Secret Secret NamespaceMap ResourceSlice GatewayServer Configuration Namespace"
	if got := strings.Replace(kindsOf(dry.stdout), " Renew", "", 1); got != want { // a Renew may be there
		t.Errorf("it would delete %s, not %s:\n%s", got, want, dry.stdout)
	}
	const proxied = "  proxyURL: http://proxy.example:3128\n"
	peered(t, one, two, "peer", "--dry-run", "--networking-disabled", "--proxy-url", "http://proxy.example:3128").succeeds(t, "\nkind: Tenant\n", proxied)
	slicesAndNodesByHand(t, one, two)
	// Another tunnel is made of the same gateways.
	peered(t, one, two, "peer", "--mtu", "1300", "--gw-server-service-port", "51900", "--gw-client-address", "198.51.100.7", "--create-resource-slice=false").succeeds(t)
	dials := &networkingv1beta1.GatewayClient{}
	get(t, one, "liqo-tenant-cluster2", "cluster2", dials)
	if dials.Spec.MTU != 1300 || dials.Spec.Endpoint.Addresses[0] != "198.51.100.7" {
		t.Errorf("the client is %+v", dials.Spec)
	}
	wantTranscript(t, peered(t, one, two, "unpeer"), ended+disconnected)
	wantTranscript(t, peered(t, one, two, "unpeer"), ` INFO   (local) No resourceslices found
 INFO   (local) Ensured resourceslices absence
 INFO   (local) No virtualnodes found
 INFO   (local) Ensured virtualnodes absence
 INFO   (local) No leftover resourceslices on consumer cluster
 INFO   (local) Identity control plane already deleted
 INFO   (remote) Tenant already deleted
 INFO   (local) Gateway client already deleted
 INFO   (remote) Gateway server already deleted
 INFO   (local) Network configuration already deleted
 INFO   (remote) Network configuration already deleted
`)
}

func roleIs(t *testing.T, in, about *testCluster, want liqov1beta1.RoleType) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		fc := &liqov1beta1.ForeignCluster{}
		if err := in.Client.Get(t.Context(), client.ObjectKey{Name: about.id}, fc); err != nil || fc.Status.Role != want {
			return fmt.Errorf("%s is %q to %s, not %q: %w", about.id, fc.Status.Role, in.id, want, err)
		}
		return nil
	})
}

// slicesAndNodesByHand is about create resourceslice and create virtualnode.
func slicesAndNodesByHand(t *testing.T, one, two *testCluster) {
	t.Helper()
	at := func(args ...string) result {
		return liqoctl(t, one.Config, append(args, "--remote-cluster-id", "cluster2", "--timeout", "5m")...)
	}
	at("create", "rs", "second", "--cpu", "1", "--no-virtual-node").succeeds(t, " INFO  ResourceSlice created\n INFO  ResourceSlice authentication: Accepted\n INFO  ResourceSlice resources: Accepted\n")
	at("create", "virtualnode", "by-hand", "--resource-slice-name", "none").refuses(t, "ResourceSlice liqo-tenant-cluster2/none not found", "liqoctl create resourceslice none")
	testkit.Eventually(t, time.Minute, func() error {
		return at("create", "vn", "by-hand", "--resource-slice-name", "second").err // its credentials come a moment later
	})
	vn := &offv1beta1.VirtualNode{}
	get(t, one, "liqo-tenant-cluster2", "by-hand", vn)
	if got := vn.Spec.ResourceQuota.Hard.Cpu().String(); got != "1" || vn.Spec.KubeconfigSecretRef.Name != "kubeconfig-resourceslice-second" {
		t.Errorf("the node has %s, %+v", got, vn.Spec.KubeconfigSecretRef)
	}
	at("create", "vn", "cluster2", "--resource-slice-name", "second").refuses(t, "was made of the ResourceSlice cluster2")
	at("create", "vn", "by-hand", "--kubeconfig-secret-name", "none").refuses(t, "Secret liqo-tenant-cluster2/none not found")
	at("create", "vn", "by-secret", "--kubeconfig-secret-name", "kubeconfig-resourceslice-second", "--vk-options-template", one.liqo+"/none").refuses(t, "VkOptionsTemplate "+one.liqo+"/none not found")
	at("create", "vn", "by-secret", "--kubeconfig-secret-name", "kubeconfig-resourceslice-second", "--vk-options-template", one.liqo+"/"+names.VkOptionsTemplate).succeeds(t,
		" INFO  Virtual node created\n INFO  Node by-secret is Ready\n")
	liqoctl(t, one.Config, "create", "rs", "any", "--remote-cluster-id", "nobody").refuses(t, `tenant namespace not found for cluster "nobody"`)
	at("create", "rs", "second", "-n", "default").refuses(t, "the ResourceSlice liqo-tenant-cluster2/second has this name already")
	// A provider that refuses is not waited for.
	tenant := &authv1beta1.Tenant{}
	get(t, two, "liqo-tenant-cluster1", "cluster1", tenant)
	condition := func(to authv1beta1.TenantCondition) {
		testkit.Update(t, two.Client, tenant, func(tenant *authv1beta1.Tenant) { tenant.Spec.TenantCondition = to })
	}
	condition(authv1beta1.TenantConditionCordoned)
	testkit.Eventually(t, time.Minute, func() error {
		get(t, two, "liqo-tenant-cluster1", "cluster1", tenant)
		if len(tenant.Status.Conditions) == 0 || !slices.ContainsFunc(tenant.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == "TenantCordoned" }) {
			return errors.New("it is not cordoned yet")
		}
		return nil
	})
	at("create", "rs", "third", "--no-virtual-node").succeeds(t, "ResourceSlice authentication: Accepted", " WARN  ResourceSlice resources not accepted. "+
		"The provider cluster may have cordoned the tenant or the resourceslice\n WARN  The provider says: ")
	at("create", "rs", "second", "--cpu", "1000", "--no-virtual-node").succeeds(t, " WARN  ResourceSlice resources not accepted. ",
		" WARN  The provider grants less than is asked for: cpu 1 of 1k\n")
	condition(authv1beta1.TenantConditionActive)
}

func theyArePeeredBothWays(t *testing.T, one, two *testCluster) {
	peered(t, one, two, "peer").succeeds(t)
	wantTranscript(t, peered(t, two, one, "peer"), secondDirection)
	roleIs(t, one, two, liqov1beta1.ConsumerAndProviderRole)
	peered(t, one, two, "unpeer", "--delete-namespaces").refuses(t, "cannot delete the tenant namespace when a bidirectional is enabled, please remove the --delete-namespaces flag")
	wantTranscript(t, peered(t, one, two, "unpeer"), ended)
	roleIs(t, one, two, liqov1beta1.ConsumerRole)
	// The other direction goes on.
	get(t, two, "liqo-tenant-cluster1", "cluster1", &offv1beta1.VirtualNode{})
	awaitConnected(t, one, "liqo-tenant-cluster2", "gw-cluster2")
	peered(t, one, two, "peer").succeeds(t, sliced)
	wantTranscript(t, peered(t, one, two, "unpeer"), ended)
	peered(t, two, one, "unpeer").succeeds(t, ended, "(remote) Gateway client correctly deleted", "(local) Gateway server correctly deleted")
}

// bothDirectionsBeginAtOnce has each of them find no tunnel: who is later uses that of the other one.
func bothDirectionsBeginAtOnce(t *testing.T, one, two *testCluster) {
	var other result
	late := &lineCounter{left: 1}
	late.then = func() {
		if other.stderr == "" {
			other = peered(t, two, one, "peer", "--gw-server-service-type", "NodePort")
		}
	}
	args := append([]string{"liqoctl"}, peers(t, one, two, "peer")...)
	if err := Run(t.Context(), Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: late}); err != nil {
		t.Fatalf("%v\n%s", err, late)
	}
	other.succeeds(t)
	for c, want := range map[*testCluster]int{one: 1, two: 0} {
		var servers networkingv1beta1.GatewayServerList
		if err := c.Client.List(t.Context(), &servers, client.MatchingLabels{names.RemoteClusterID: map[*testCluster]string{one: two.id, two: one.id}[c]}); err != nil || len(servers.Items) != want {
			t.Errorf("%s has %d servers: %v", c.id, len(servers.Items), err)
		}
	}
	peered(t, one, two, "peer").succeeds(t)
	peered(t, two, one, "unpeer").succeeds(t)
	peered(t, one, two, "unpeer").succeeds(t)
}

// bothDirectionsEndAtOnce has each of them see the other: whoever is last takes the networks along.
func bothDirectionsEndAtOnce(t *testing.T, one, two *testCluster) {
	peered(t, one, two, "peer").succeeds(t)
	peered(t, two, one, "peer").succeeds(t)
	var other result
	late := &lineCounter{left: 1} // the first line waits for the other direction to end, which sees that this one has not
	late.then = func() {
		if other.stderr == "" {
			other = peered(t, two, one, "unpeer")
		}
	}
	args := append([]string{"liqoctl"}, peers(t, one, two, "unpeer")...)
	if err := Run(t.Context(), Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: late}); err != nil {
		t.Fatalf("%v\n%s", err, late)
	}
	wantTranscript(t, other, ended)
	if got := comparableOutput(late.String(), ended); !strings.HasSuffix(got, " INFO   (remote) Tenant correctly deleted\n"+disconnected) {
		t.Errorf("it said:\n%s", got)
	}
}

// onlyTheTunnelWaitsForGateways has none of them start: all that needs none is done, and is told after the lines of the network.
func onlyTheTunnelWaitsForGateways(t *testing.T, one, two *testCluster) {
	for _, c := range []*testCluster{one, two} {
		c.idle.Store(true)
		defer c.idle.Store(false)
	}
	output := &syncBuffer{}
	end, over := newOvertime(t.Context())
	defer over()
	args := append([]string{"liqoctl"}, peers(t, one, two, "peer")...)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(end, Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: output})
	}()
	before, _, _ := strings.Cut(guided(), " INFO   (remote) Gateway pod")
	testkit.Eventually(t, time.Minute, func() error {
		identity, granted := &authv1beta1.Identity{}, &authv1beta1.ResourceSlice{}
		err := errors.Join(one.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-cluster2", Name: names.ControlPlaneIdentity("cluster2")}, identity),
			one.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-cluster2", Name: "cluster2"}, granted))
		if said := output.String(); err == nil && (len(granted.Status.Conditions) < 2 || said != before) {
			err = fmt.Errorf("the slice has %v, and it said:\n%s", granted.Status.Conditions, said)
		}
		return err
	})
	granted := &authv1beta1.ResourceSlice{}
	get(t, one, "liqo-tenant-cluster2", "cluster2", granted)
	for _, c := range granted.Status.Conditions {
		if c.Status != authv1beta1.ResourceSliceConditionAccepted {
			t.Errorf("the slice is not accepted: %+v", c)
		}
	}
	over()
	err := <-ended
	result{stderr: output.String(), err: err}.refuses(t, "in the remote cluster: no pod of gw-cluster1 is ready: ", "timed out waiting for the condition", "Run the command again to continue")
	peered(t, one, two, "unpeer").succeeds(t)
}

// theNodeIsWaitedFor has the virtual kubelet begin late: nothing that was printed before says that there is a node.
func theNodeIsWaitedFor(t *testing.T, one, two *testCluster) {
	one.asleep.Store(true)
	defer one.asleep.Store(false)
	for _, comes := range []bool{false, true} {
		output := &syncBuffer{}
		end, over := newOvertime(t.Context())
		defer over()
		args := append([]string{"liqoctl"}, peers(t, one, two, "peer", "--networking-disabled")...)
		ended := make(chan error, 1)
		go func() {
			ended <- Run(end, Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: output})
		}()
		testkit.Eventually(t, time.Minute, func() error {
			err := one.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-cluster2", Name: "vk-cluster2"}, &appsv1.Deployment{})
			if said := output.String(); err == nil && said != authenticated+sliced {
				err = fmt.Errorf("it said:\n%s", said)
			}
			return err
		})
		select {
		case err := <-ended:
			t.Fatalf("it ended before there was a node: %v\n%s", err, output)
		default:
		}
		if comes {
			one.asleep.Store(false)
		} else {
			over()
		}
		r := result{err: <-ended, stderr: output.String()}
		if comes {
			wantTranscript(t, r, authenticated+sliced)
			nodeIsReady(t, one, "cluster2")
		} else {
			// How much of it the command had seen by then depends on its watches; node_state_test.go has the reasons.
			r.refuses(t, "Unable to ensure offloading: in the local cluster: there is no ", "cluster2 yet",
				"timed out waiting for the condition", "Run the command again to continue", "\n INFO  See docs/troubleshooting.md#the-node-is-not-there-or-not-ready\n")
		}
	}
	// Without a node there is nothing to wait for.
	peered(t, one, two, "unpeer").succeeds(t)
	peered(t, one, two, "peer", "--networking-disabled", "--create-virtual-node=false").succeeds(t, sliced)
	peered(t, one, two, "unpeer").succeeds(t)
}

// nodeIsReady wants a node to be ready now.
func nodeIsReady(t *testing.T, in *testCluster, name string) {
	t.Helper()
	node := &corev1.Node{}
	get(t, in, "", name, node)
	if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		t.Errorf("node %s is not ready: %+v", name, node.Status.Conditions)
	}
}

// syncBuffer is output that is read while a command writes it.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String leaves out what a busy machine is waited for.
func (l *syncBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lateness.ReplaceAllString(l.text.String(), "")
}

// overtime is a context whose time is over when somebody says so.
type overtime struct {
	context.Context
	over chan struct{}
}

// newOvertime returns such a context, and the function that says so.
func newOvertime(ctx context.Context) (end overtime, over func()) {
	end = overtime{ctx, make(chan struct{})}
	return end, sync.OnceFunc(func() { close(end.over) })
}

func (o overtime) Done() <-chan struct{} { return o.over }

func (o overtime) Err() error {
	select {
	case <-o.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// whatALostConsumerLeftIsUndone is about a consumer that forgot the provider, which still has its requests.
func whatALostConsumerLeftIsUndone(t *testing.T, one, two *testCluster) {
	peered(t, one, two, "peer", "--networking-disabled").succeeds(t)
	identity := &authv1beta1.Identity{}
	get(t, one, "liqo-tenant-cluster2", names.ControlPlaneIdentity("cluster2"), identity)
	testkit.Update(t, one.Client, identity, func(identity *authv1beta1.Identity) { identity.Spec.AuthParams.APIServer = "https://127.0.0.1:1" })
	testkit.Eventually(t, time.Minute, func() error { // the controllers have the new address, and delete nothing in the provider
		fc := &liqov1beta1.ForeignCluster{}
		err := one.Client.Get(t.Context(), client.ObjectKey{Name: "cluster2"}, fc)
		if err == nil && slices.ContainsFunc(fc.Status.Conditions, func(c liqov1beta1.Condition) bool {
			return c.Type == liqov1beta1.APIServerStatus && c.Status == liqov1beta1.ConditionEstablished
		}) {
			err = errors.New("its API server is still said to answer")
		}
		return err
	})
	liqoctl(t, one.Config, "force", "unpeer", "cluster2", "--skip-confirm", "--timeout", "5m").succeeds(t)
	get(t, two, "liqo-tenant-cluster1", "cluster2", &authv1beta1.ResourceSlice{})
	copied := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-cluster1", Name: "cluster2", Labels: map[string]string{
		names.Replicated: "true", names.ReplicationOrigin: "cluster1", names.RemoteClusterID: "cluster1",
	}}}
	if err := two.Client.Create(t.Context(), copied); client.IgnoreAlreadyExists(err) != nil { // it comes with the virtual node, sooner or later
		t.Fatal(err)
	}
	dry := peered(t, one, two, "unpeer", "--dry-run")
	dry.succeeds(t)
	if got, want := kindsOf(dry.stdout), "| Tenant Secret Secret NamespaceMap ResourceSlice"; !strings.HasPrefix(got, want) { // and a Renew, if it came so far
		t.Errorf("it would delete %s, not %s:\n%s", got, want, dry.stdout)
	}
	peered(t, one, two, "unpeer").succeeds(t, "(remote) Tenant correctly deleted")
}

// whoIsLetInNoMoreIsUndone is about a provider that took its Tenant away first: nothing of the consumer's would end by itself.
func whoIsLetInNoMoreIsUndone(t *testing.T, one, two *testCluster) {
	const gaveUp = "(local) cluster2 lets this cluster in no more: what is here ends without it, and what is there is removed in the end"
	peered(t, one, two, "peer", "--networking-disabled").succeeds(t)
	liqoctl(t, two.Config, "drain", "tenant", "cluster1", "--skip-confirm").succeeds(t)
	peered(t, one, two, "unpeer").succeeds(t, gaveUp, "(remote) Tenant correctly deleted")

	peered(t, two, one, "peer", "--networking-disabled").succeeds(t)
	peered(t, one, two, "peer", "--networking-disabled").succeeds(t)
	liqoctl(t, two.Config, "delete", "tenant", "cluster1").succeeds(t)
	peered(t, one, two, "unpeer").succeeds(t, gaveUp, "(remote) Tenant already deleted")
	roleIs(t, one, two, liqov1beta1.ConsumerRole)
	fc := &liqov1beta1.ForeignCluster{}
	if get(t, one, "", "cluster2", fc); fc.Annotations[names.PermanentlyUnreachable] != "" {
		t.Errorf("it stays given up: %v", fc.Annotations)
	}
	peered(t, two, one, "unpeer").succeeds(t, ended)

	// By hand, and the provider did not wait until the consumer had taken back what it has there.
	peered(t, one, two, "peer", "--networking-disabled").succeeds(t)
	deleted := func(in *testCluster, kind string, obj client.Object) {
		liqoctl(t, in.Config, "delete", kind, obj.GetName(), "-n", obj.GetNamespace()).succeeds(t)
		testkit.Eventually(t, time.Minute, func() error { return isGone(in.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)) })
	}
	deleted(one, "resourceslice", &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-cluster2", Name: "cluster2"}})
	testkit.Create(t, one.Client, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-cluster2", Name: "left", Labels: map[string]string{
		names.RemoteClusterID: "cluster2", names.Replication: "true", names.ReplicationDestination: "cluster2",
	}}})
	testkit.Eventually(t, time.Minute, func() error {
		return two.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-cluster1", Name: "left"}, &offv1beta1.NamespaceMap{})
	})
	deleted(one, "identity", &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-cluster2", Name: names.ControlPlaneIdentity("cluster2")}})
	deleted(two, "tenant", &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-cluster1", Name: "cluster1"}})
	peered(t, one, two, "unpeer").succeeds(t, gaveUp, "(remote) Tenant already deleted")
}

func theyArePeeredWithoutNetworks(t *testing.T, one, two *testCluster) {
	wantTranscript(t, peered(t, one, two, "peer", "--networking-disabled"), authenticated+sliced)
	peered(t, one, two, "unpeer").succeeds(t, ended, "Network configuration already deleted")
}

// whatIsBegunIsUndone is about half a peering, of which no ForeignCluster need tell.
func whatIsBegunIsUndone(t *testing.T, one, two *testCluster) {
	liqoctlIn(t, one, "create", "configuration", "cluster2", "--remote-cluster-id", "cluster2", "--pod-cidr", "10.201.0.0/16", "--external-cidr", "10.71.0.0/16", "-n", "default").succeeds(t)
	peered(t, one, two, "unpeer").succeeds(t, "(local) No resourceslices found", "(local) Network configuration correctly deleted", "(remote) Network configuration already deleted")
	introduced(t, one, two, "authenticate").succeeds(t)
	peered(t, one, two, "unpeer").succeeds(t, "(local) No resourceslices found", "(remote) Tenant correctly deleted")
	// The server may be at the consumer.
	peered(t, one, two, "peer", "--gw-server-service-location", "Consumer").succeeds(t, "(local) Gateway server correctly set up", "(remote) Gateway client correctly set up")
	get(t, one, "liqo-tenant-cluster2", "cluster2", &networkingv1beta1.GatewayServer{})
	peered(t, one, two, "unpeer").succeeds(t, "(local) Gateway server correctly deleted")
}

// nothingIsPeeredWrongly is about what is refused before anything is changed.
func nothingIsPeeredWrongly(t *testing.T, one, two *testCluster) {
	peered(t, one, one, "peer").refuses(t, "local and remote clusters must be different")
	peered(t, one, one, "unpeer").refuses(t, "local and remote clusters must be different")
	for want, flags := range map[string][]string{
		"--cpu: invalid amount \"many\"":                             {"--cpu", "many"},
		"--memory: an amount cannot be negative":                     {"--memory=-1Gi"},
		"--pods: invalid amount \"1.5\": must be a whole number":     {"--pods", "1.5"},
		"--memory: invalid amount \"1500m\": must be a whole number": {"--memory", "1500m"},
		"--resource: invalid resource name \"a b\"":                  {"--resource", "a b=2"},
		"it is one of Consumer, Provider":                            {"--gw-server-service-location", "Elsewhere"},
		"(global) Unable to ensure authentication: in the remote cluster: its API server has no proxy in the tunnel": {"--in-band"},
		"invalid MTU 1": {"--mtu", "1"},
		"--proxy-url: ": {"--proxy-url", "not a URL"},
		"(global) Unable to ensure networking: in the remote cluster: template ": {"--gw-server-template-name", "none"},
	} {
		peered(t, one, two, append([]string{"peer"}, flags...)...).refuses(t, want)
	}
	apart := installed(t, map[*testCluster]string{one: "v0.3.0", two: "v0.1.0"})
	peered(t, one, two, "peer").refuses(t, "the local cluster has Liqo v0.3.0 and the remote one v0.1.0, which do not work together", "Upgrade the remote cluster by liqoctl install")
	for _, command := range []string{"init", "connect"} {
		between(t, one, two, command).refuses(t, "the local cluster has Liqo v0.3.0 and the remote one v0.1.0, which do not work together")
	}
	peered(t, two, one, "peer", "--dry-run").refuses(t, "the local cluster has Liqo v0.1.0 and the remote one v0.3.0", "Upgrade the local cluster")
	apart()
	for _, format := range []string{"yaml", "json"} {
		dry := peered(t, one, two, "peer", "-o", format, "--cpu", "2")
		dry.succeeds(t)
		for kind, n := range map[string]int{"Namespace": 2, "Configuration": 2, "GatewayServer": 1, "GatewayClient": 1, "PublicKey": 2, "ResourceSlice": 1} {
			got := strings.Count(dry.stdout, "kind: "+kind+"\n")
			if format == "json" { // which has nothing that controllers complete
				got = strings.Count(dry.stdout, `"kind": "`+kind+`"`) + strings.Count(dry.stderr, ") The "+kind+" ")
			}
			if got != n {
				t.Errorf("%d of kind %s, not %d:\n%s%s", got, kind, n, dry.stdout, dry.stderr)
			}
		}
	}
	asked := peered(t, one, two, "peer", "--dry-run", "--resource-slice-class", "gold", "--create-virtual-node=false", "--gw-server-template-name", "none", "--skip-validation")
	asked.succeeds(t, "  class: gold\n", "  serverTemplateRef:\n    apiVersion: networking.liqo.io/v1beta1\n    kind: WgGatewayServerTemplate\n    name: none\n")
	if strings.Contains(asked.stdout, names.CreateVirtualNode) {
		t.Errorf("a virtual node is asked for:\n%s", asked.stdout)
	}
	whoMayNotDoAllOfItChangesNothing(t, one, two, "peer")
	nobody := &testCluster{ControlPlane: two.ControlPlane, liqo: "elsewhere"}
	peered(t, one, nobody, "peer").refuses(t, `in the remote cluster: Liqo is not installed in namespace "elsewhere"`)
	liqoctl(t, one.Config, "force", "unpeer", "--skip-confirm").refuses(t, "Cluster ID must be specified")
	liqoctl(t, one.Config, "force", "unpeer", "nobody", "--skip-confirm").refuses(t, "Remote cluster with ID nobody not found")
	liqoctl(t, one.Config, "force", "unpeer", "cluster2").refuses(t, "--skip-confirm")
	limitedUser := two.User(t, "guest-of-none")
	liqoctl(t, nil, "peer", "--kubeconfig", kubeconfigFile(t, one.Config), "--remote-kubeconfig", kubeconfigFile(t, limitedUser), "-n", one.liqo, "--remote-namespace", two.liqo).
		refuses(t, "in the remote cluster: ", "forbidden")
}

// looks are the verbs of who changes nothing.
var looks = []string{"get", "list", "watch"}

// allBut are all rights but those to change what is of one group.
func allBut(one string) (rules []rbacv1.PolicyRule) {
	for _, group := range []string{"", "apps", authv1beta1.GroupName, liqov1beta1.GroupName, "ipam.liqo.io", networkingv1beta1.GroupName, offv1beta1.GroupName} {
		verbs := []string{"*"}
		if group == one {
			verbs = looks
		}
		rules = append(rules, testkit.Rule(group, "*", verbs...))
	}
	return rules
}

// whoMayNotDoAllOfItChangesNothing is about users who may do a part of what a command does, in one of the clusters.
func whoMayNotDoAllOfItChangesNothing(t *testing.T, one, two *testCluster, command string) {
	t.Helper()
	for user, rules := range map[string][]rbacv1.PolicyRule{
		"half-looks": {testkit.Rule("*", "*", looks...)}, "half-no-secrets": allBut(""), "half-no-tenants": allBut(authv1beta1.GroupName), "half-no-gateways": allBut(networkingv1beta1.GroupName),
	} {
		for side, c := range map[string]*testCluster{"local": one, "remote": two} {
			changesNothingAs(t, c, user, rules, one, two, "in the "+side+" cluster: you are not allowed to ", command)
		}
	}
}

// whoMayNotRemoveItKeepsIt is about what unpeer removes last, or in one cluster only.
func whoMayNotRemoveItKeepsIt(t *testing.T, one, two *testCluster) {
	t.Helper()
	changesNothingAs(t, one, "half-no-offloading", allBut(offv1beta1.GroupName), one, two, "in the local cluster: you are not allowed to delete ", "unpeer")
	noNamespaces := append(allBut(""), testkit.Rule("", "secrets", "*"))
	for side, c := range map[string]*testCluster{"local": one, "remote": two} {
		changesNothingAs(t, c, "half-no-namespaces", noNamespaces, one, two, "in the "+side+" cluster: you are not allowed to delete namespaces", "unpeer", "--delete-namespaces")
	}
}

// changesNothingAs runs a command of a user who has some rights in one of the clusters, which refuses and writes nothing.
func changesNothingAs(t *testing.T, c *testCluster, user string, rules []rbacv1.PolicyRule, one, two *testCluster, want string, command ...string) {
	t.Helper()
	ways := map[*testCluster]*countingProxy{one: newCountingProxy(t, one.Config, false), two: newCountingProxy(t, two.Config, false)}
	ways[c] = frontOf(t, c, user, rules)
	r := liqoctl(t, nil, append(command, "--kubeconfig", kubeconfigFile(t, &rest.Config{Host: ways[one].URL}), "--remote-kubeconfig", kubeconfigFile(t, &rest.Config{Host: ways[two].URL}),
		"--namespace", one.liqo, "--remote-namespace", two.liqo, "--timeout", "5m")...)
	r.refuses(t, want, "\n INFO  Ask the administrator of that cluster for the right",
		"\n INFO  See docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to\n")
	if here, there := ways[one].writes.Load(), ways[two].writes.Load(); here+there > 0 {
		t.Errorf("%v as %s: %d and %d writes:\n%s", command, user, here, there, r.stderr)
	}
	forbid(t, c, user)
}

// forbid takes the rights of a user away again.
func forbid(t *testing.T, c *testCluster, user string) {
	t.Helper()
	for _, obj := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		obj.SetName(user)
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// frontOf is a way to a cluster as a user who has these rights.
func frontOf(t *testing.T, c *testCluster, user string, rules []rbacv1.PolicyRule) *countingProxy {
	t.Helper()
	testkit.Allow(t, c.ControlPlane, "", user, rules...)
	return newCountingProxy(t, c.User(t, user), false)
}

// whatIsGoneIsForgotten is about a provider and consumer whose API server does not answer any more.
func whatIsGoneIsForgotten(t *testing.T, one, two *testCluster) {
	peered(t, one, two, "peer").succeeds(t)
	peered(t, two, one, "peer").succeeds(t)
	gone := rest.CopyConfig(two.Config)
	gone.Host = "https://127.0.0.1:1"
	identity := &authv1beta1.Identity{}
	get(t, one, "liqo-tenant-cluster2", names.ControlPlaneIdentity("cluster2"), identity)
	testkit.Update(t, one.Client, identity, func(identity *authv1beta1.Identity) { identity.Spec.AuthParams.APIServer = gone.Host })
	liqoctl(t, one.Config, "unpeer", "--remote-kubeconfig", kubeconfigFile(t, gone), "--namespace", one.liqo).refuses(t, "in the remote cluster: ", "the connection to the server https://127.0.0.1:1 was refused")
	force := func(c, other *testCluster) result {
		return liqoctl(t, c.Config, "force", "unpeer", other.id, "--skip-confirm", "--timeout", "5m")
	}
	keepers := map[string][]rbacv1.PolicyRule{
		"delete tenants.authentication.liqo.io": allBut(authv1beta1.GroupName), "patch foreignclusters.core.liqo.io": allBut(liqov1beta1.GroupName), "delete namespaces": allBut(""),
	}
	for right, rules := range keepers {
		way := frontOf(t, one, "keeper", rules)
		liqoctl(t, &rest.Config{Host: way.URL}, "force", "unpeer", two.id, "--skip-confirm", "--timeout", "5m").refuses(t, "you are not allowed to ", right)
		if n := way.writes.Load(); n > 0 {
			t.Errorf("force unpeer without the right to %s writes %d times", right, n)
		}
		forbid(t, one, "keeper")
	}
	var there result // one answers it, and grants nothing any more
	var forgetting sync.WaitGroup
	forgetting.Go(func() { there = force(two, one) })
	wantTranscript(t, force(one, two), " INFO  Info about the remote cluster retrieved successfully\n INFO  Foreign cluster declared as permanently unreachable successfully\n"+
		" INFO  Tenant namespace deleted\n INFO  Ensured tenant namespace absence\n INFO  Force unpeer executed successfully\n")
	forgetting.Wait()
	there.succeeds(t, "Force unpeer executed successfully")
	force(two, one).refuses(t, "Remote cluster with ID cluster1 not found")
}
