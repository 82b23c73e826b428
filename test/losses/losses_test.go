// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// outage is something that is not there for a while, because it is cut off or killed.
type outage struct {
	what    string
	strike  func(t *testing.T, length time.Duration) // nil for the command itself, which is interrupted
	moments []moment
	there   func(ctx context.Context) error // says why it cannot be lost yet; nil for what is always there
}

// moment is a line of peer, and one of the unpeer after it, after which something is lost; without a line it is lost as the command begins.
type moment struct {
	name         string
	peer, unpeer string
	flags        []string
}

var withoutNetwork = []string{"--networking-disabled"}

// What has a part in all of a peering is lost in any part of it, what has a part in one of them while it is there.
var (
	networks       = moment{"networks", "(local) Network configuration correctly set up", "(local) Gateway client correctly deleted", nil}
	tunnel         = moment{"tunnel", "(remote) Gateway server correctly set up", "(local) All resourceslices deleted", nil}
	authentication = moment{"authentication", "(remote) Nonce secret ensured", "(local) No leftover resourceslices on consumer cluster", withoutNetwork}
	resources      = moment{"resources", "(local) ResourceSlice created", "(local) All virtualnodes deleted", nil}

	gateways = []moment{
		{"keys", "(remote) Public key correctly created", "", nil},
		{"credentials", "(remote) Nonce secret ensured", "(local) All resourceslices deleted", nil},
	}
	virtualNodes = []moment{
		{"nodes", "(local) ResourceSlice resources: Accepted", "", nil},
		{"nodes without a network", "(local) ResourceSlice resources: Accepted", "", withoutNetwork},
	}
)

var losses = []outage{
	{"API server of the consumer", away("a/apiserver"), []moment{networks, authentication, tunnel, resources}, nil},
	{"API server of the provider", away("b/apiserver"), []moment{tunnel, resources, authentication, networks}, nil},
	{"network between the clusters", away("b1", "--network"), []moment{authentication, networks, resources, tunnel}, nil},
	killed("controller-manager of the consumer", theConsumer, client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, []moment{resources, tunnel, networks, authentication}),
	killed("controller-manager of the provider", theProvider, client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, []moment{networks, authentication, tunnel, resources}),
	killed("replicator of the consumer", theConsumer, client.MatchingLabels{"app.kubernetes.io/name": "crd-replicator"}, []moment{authentication, resources}),
	killed("replicator of the provider", theProvider, client.MatchingLabels{"app.kubernetes.io/name": "crd-replicator"}, []moment{resources}),
	killed("gateway of the consumer", theConsumer, client.MatchingLabels{"networking.liqo.io/component": "gateway"}, gateways),
	killed("gateway of the provider", theProvider, client.MatchingLabels{"networking.liqo.io/component": "gateway"}, gateways),
	killed("fabric of the consumer", theConsumer, client.MatchingLabels{"app.kubernetes.io/name": "fabric"}, []moment{tunnel}),
	killed("fabric of the provider", theProvider, client.MatchingLabels{"app.kubernetes.io/name": "fabric"}, []moment{tunnel}),
	{"command itself", nil, []moment{tunnel, authentication, networks, resources}, nil},
	killed("virtual kubelet", theConsumer, client.MatchingLabels{"liqo.io/virtual-node": "cl-provider"}, virtualNodes),
}

func theConsumer() *clusters.Cluster { return consumer }
func theProvider() *clusters.Cluster { return provider }

// away is a program or a node of the playground that is stopped or cut off.
func away(target ...string) func(*testing.T, time.Duration) {
	return func(t *testing.T, length time.Duration) {
		for _, what := range []string{"fail", "heal"} {
			if err := story.Playground(append([]string{what}, target...)...); err != nil {
				t.Error(err)
			}
			if what == "fail" {
				time.Sleep(length) // the length of the outage is the story
			}
		}
	}
}

// killed is a process that gets no last word, as soon as there is one.
func killed(what string, in func() *clusters.Cluster, labels client.MatchingLabels, moments []moment) outage {
	return outage{what, func(t *testing.T, _ time.Duration) {
		if err := story.Retry(t.Context(), 20*time.Second, func(ctx context.Context) error {
			return story.KillPod(ctx, in(), "", labels, story.AnyPod)
		}); err != nil {
			t.Errorf("nothing was killed: %v", err)
		}
	}, moments, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := in().Client.List(ctx, &pods, labels); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if states := pod.Status.ContainerStatuses; pod.DeletionTimestamp == nil && len(states) > 0 && states[0].Ready {
				return nil
			}
		}
		return fmt.Errorf("no such pod of %v is ready", labels)
	}}
}

// Whatever is lost in the middle of peer and of unpeer, they end well once it is back, or say in one line why not and do so when they are
// run again: the peering is then as any other, and of one that ended nothing is left. LIQO_SOAK_LOSS is how many seconds a loss lasts, and
// LIQO_SOAK_LOSSES how many moments each of them meets, 4 at most.
func TestPeeringLosses(t *testing.T) {
	length, each := time.Duration(number(t, "LIQO_SOAK_LOSS", 8))*time.Second, number(t, "LIQO_SOAK_LOSSES", 2)
	b := newBench(t)
	b.length = length
	for _, flags := range [][]string{nil, withoutNetwork} { // undisturbed
		b.run(t, nil, "", append([]string{"peer"}, flags...)...)
		b.settle(t)
		b.peered[fmt.Sprint(flags)] = b.look(t)
		b.run(t, nil, "", "unpeer", "--delete-namespaces")
		b.checkNothingRemains(t, consumer, provider)
	}
	for _, l := range losses {
		for _, m := range l.moments[:min(each, len(l.moments))] {
			t.Run(l.what+" lost with "+m.name, func(t *testing.T) {
				b.run(t, &l, m.peer, append([]string{"peer"}, m.flags...)...)
				b.isAs(t, b.peered[fmt.Sprint(m.flags)])
				b.run(t, &l, m.unpeer, "unpeer", "--delete-namespaces")
				b.checkNothingRemains(t, consumer, provider)
			})
			if t.Failed() {
				return // the clusters are not as they were
			}
		}
	}
}

// The tunnel by which the consumer reaches the provider is made by the command that needs it, and ended by the one that needs it last.
func TestInBandPeering(t *testing.T) {
	b := newBench(t)
	dry, err := consumer.Liqoctl("peer", "--in-band", "--dry-run", "--remote-kubeconfig", provider.Kubeconfig)
	if err != nil || !strings.Contains(dry, "kind: GatewayServer\n") || !strings.Contains(dry, "kind: ResourceSlice\n") {
		t.Fatal(err, dry)
	}
	b.checkNothingRemains(t, consumer, provider)
	b.run(t, nil, "", "peer", "--in-band")
	out, err := consumer.Kubectl("", "get", "foreigncluster", provider.ID, "-o", "jsonpath={.status.foreignProxyUrl}")
	if err != nil || !strings.HasSuffix(out, ":8118") {
		t.Errorf("the proxy is %q: %v", out, err)
	}
	b.run(t, nil, "", "unpeer", "--delete-namespaces")
	b.checkNothingRemains(t, consumer, provider)
}

// A provider that died is forgotten by force, with all that is in its tenant namespace. Should it come back, it is told the same, and then
// nothing is left in it either.
func TestDeadProvider(t *testing.T) {
	b := newBench(t)
	b.run(t, nil, "", "peer")
	b.settle(t)
	b.offload(t)
	works(t, provider.ID)
	if err := story.Playground("fail", "b/apiserver"); err != nil {
		t.Fatal(err)
	}
	heal := sync.OnceFunc(func() {
		if err := story.Playground("heal", "b/apiserver"); err != nil {
			t.Error(err)
		}
	})
	defer heal()
	force := func(c, gone *clusters.Cluster) {
		t.Helper()
		start := time.Now()
		if out, err := c.Say("force", "unpeer", gone.ID, "--skip-confirm"); err != nil {
			t.Fatal(err, out)
		}
		t.Logf("%s forgot %s after %s", c.ID, gone.ID, time.Since(start).Round(100*time.Millisecond))
	}
	force(consumer, provider)
	works(t, "") // what ran in the provider, and a pod that somebody else keeps
	kubectl(t, consumer, "", "patch", "pod", "-n", lent, "kept", "--type", "merge", "-p", `{"metadata":{"finalizers":null}}`)
	kubectl(t, consumer, "", "delete", "namespace", lent)
	b.checkNothingRemains(t, consumer)
	heal()
	force(provider, consumer)
	b.checkNothingRemains(t, consumer, provider)
}

// lent is a namespace with an application, which would rather run in the provider, and a pod that only can there, and does not go by itself.
const lent = "lent"

const application = story.Work + `---
apiVersion: v1
kind: Pod
metadata: {name: kept, namespace: lent, labels: {app: kept}, finalizers: [example.com/keeps]}
spec:
  nodeSelector: {liqo.io/type: virtual-node}
  terminationGracePeriodSeconds: 0
  containers:
  - name: work
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sleep, "100000"]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

func (b *bench) offload(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { // of a test that failed
		_, _ = consumer.Kubectl("", "patch", "pod", "-n", lent, "kept", "--type", "merge", "-p", `{"metadata":{"finalizers":null}}`)
		_, _ = consumer.Kubectl("", "delete", "namespace", lent, "--ignore-not-found")
	})
	kubectl(t, consumer, "", "create", "namespace", lent)
	if out, err := consumer.Say("offload", "namespace", lent); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, consumer, application, "apply", "-f", "-")
}

// works waits until the application is ready on that node, with the pod that is kept, or on one of the consumer's own, "".
func works(t *testing.T, on string) {
	t.Helper()
	took := story.Eventually(t, fmt.Sprintf("the application on node %q", on), 2*time.Minute, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := consumer.Client.List(ctx, &pods, client.InNamespace(lent)); err != nil {
			return err
		}
		ready := map[string]bool{}
		for i := range pods.Items {
			pod := &pods.Items[i]
			states := pod.Status.ContainerStatuses
			if (pod.Spec.NodeName == provider.ID) == (on != "") && len(states) == 1 && states[0].Ready && pod.DeletionTimestamp == nil {
				ready[pod.Labels["app"]] = true
			}
		}
		if !ready["work"] || on != "" && !ready["kept"] {
			return fmt.Errorf("of %d pods there are ready those of %v", len(pods.Items), slices.Sorted(maps.Keys(ready)))
		}
		return nil
	})
	t.Logf("the application ran on node %q after %s", on, took)
}

func kubectl(t *testing.T, c *clusters.Cluster, stdin string, args ...string) {
	t.Helper()
	if _, err := c.Kubectl(stdin, args...); err != nil {
		t.Fatal(err)
	}
}

// bench is what there was before, and is of a peering that nothing disturbed.
type bench struct {
	length  time.Duration
	objects map[*clusters.Cluster]clusters.Listing
	kernels map[string]string
	peered  map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	kernels, err := story.Kernels(t.Context(), consumer, provider)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{
		objects: map[*clusters.Cluster]clusters.Listing{consumer: listing(t, consumer), provider: listing(t, provider)},
		kernels: kernels, peered: map[string]string{},
	}
}

// run runs a command, loses something after a line, and runs the command again if it failed for that.
func (b *bench) run(t *testing.T, l *outage, after string, args ...string) {
	t.Helper()
	args = append(args, "--remote-kubeconfig", provider.Kubeconfig, "--timeout", "3m")
	if l != nil && after == "" && l.there != nil {
		story.Eventually(t, l.what+" to be there", time.Minute, l.there)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var struck sync.WaitGroup
	begin := sync.OnceFunc(func() {
		if l.strike == nil {
			cancel()
			return
		}
		struck.Go(func() { l.strike(t, b.length) })
	})
	if l != nil && after == "" {
		begin() // while the command looks at what there is
	}
	out, err := consumer.Follow(ctx, func(line string) {
		if l != nil && strings.Contains(line, after) {
			begin()
		}
	}, args...)
	struck.Wait()
	switch {
	case l == nil && err != nil:
		t.Fatal(err)
	case l != nil && !strings.Contains(out, after):
		t.Fatalf("%q is missing: %v\n%s", after, err, out)
	}
	t.Logf("liqoctl %s ended after %s: %v%s", args[0], time.Since(start).Round(100*time.Millisecond), err, warnings(out))
	if err == nil {
		return
	}
	if n := strings.Count(out, " ERRO "); n != 1 || !strings.Contains(out, "Run the command again") {
		t.Errorf("%d errors, or nothing to do about them:\n%s", n, out)
	}
	if out, err := consumer.Say(args...); err != nil {
		t.Fatalf("run again it ended: %v\n%s", err, out)
	}
}

func warnings(out string) string {
	var all string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, " WARN ") {
			all += "\n" + strings.TrimSpace(line)
		}
	}
	return all
}

// random are kinds whose objects have names that nobody chooses, or come with time.
var random = []string{"pods", "replicasets", "endpointslices", "certificatesigningrequests", "controllerrevisions", "ipaddresses", "renews"}

// look names all objects of both clusters, and says how the peering is.
func (b *bench) look(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, c := range []*clusters.Cluster{consumer, provider} {
		for _, name := range slices.Sorted(maps.Keys(listing(t, c))) {
			kind, _, _ := strings.Cut(name, " ")
			if !slices.Contains(random, kind) {
				lines = append(lines, c.ID+" "+name)
			}
		}
		for _, ask := range [][]string{
			{"foreignclusters", "-o", `jsonpath={range .items[*]}{.status.role} {.status.modules.networking.enabled} {.status.modules.authentication.enabled} {.status.modules.offloading.enabled} {range .status.modules.*.conditions[*]}{.type}={.status} {end}{range .status.conditions[*]}{.type}={.status} {end}{end}`},
			{"connections", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.value} {end}`},
			{"resourceslices", "-A", "-o", `jsonpath={range .items[*].status.conditions[*]}{.type}={.status} {end}`},
			{"nodes", "-l", "liqo.io/type=virtual-node", "-o", `jsonpath={range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status}{end} {end}`},
		} {
			out, err := c.Kubectl("", append([]string{"get"}, ask...)...)
			if err != nil {
				out = err.Error()
			}
			lines = append(lines, c.ID+" "+ask[0]+": "+strings.Join(slices.Sorted(slices.Values(strings.Fields(out))), " "))
		}
	}
	return strings.Join(lines, "\n")
}

// settle waits until a peering has come to rest: the node is Ready, and nothing more is made.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	last := ""
	story.Eventually(t, "the peering to come to rest", 2*time.Minute, func(context.Context) error {
		now := b.look(t)
		was := last
		last = now
		if now != was || !strings.Contains(now, "nodes: True cl-provider") {
			time.Sleep(2 * time.Second) // to rest is to stay so for a while
			return fmt.Errorf("it is\n%s", now)
		}
		return nil
	})
}

// isAs wants the peering to be as one that nothing disturbed.
func (b *bench) isAs(t *testing.T, want string) {
	t.Helper()
	// Kubernetes' own controllers need up to half a minute more for each watch that an API server refused while it began.
	took := story.Eventually(t, "the peering to be as any other", 5*time.Minute, func(context.Context) error {
		if now := b.look(t); now != want {
			return fmt.Errorf("(-undisturbed +now):\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(now, "\n")))
		}
		return nil
	})
	t.Logf("as any other after %s", took)
}

// checkNothingRemains wants objects and kernels of clusters to be as before.
func (b *bench) checkNothingRemains(t *testing.T, in ...*clusters.Cluster) {
	t.Helper()
	took := story.Eventually(t, "nothing to be left", time.Minute, func(ctx context.Context) error {
		for _, c := range in {
			now, err := c.Listing(t.Context())
			if err != nil {
				return err
			}
			if diff := clusters.Changes(steady(b.objects[c]), steady(now)); diff != "" {
				return fmt.Errorf("in %s (-before +after):\n%s", c.ID, diff)
			}
		}
		all, err := story.Kernels(ctx, in...)
		if err != nil {
			return err
		}
		for node, now := range all {
			if was, now := still(b.kernels[node]), still(now); now != was {
				return fmt.Errorf("in the kernel of %s:\n%s", node, cmp.Diff(strings.Split(was, "\n"), strings.Split(now, "\n")))
			}
		}
		return nil
	})
	t.Logf("nothing was left after %s", took)
}

// steady leaves out pods and what goes with them: those that were killed have other names, and addresses that kernels may know.
func steady(l clusters.Listing) clusters.Listing {
	kept := maps.Clone(l)
	maps.DeleteFunc(kept, func(name, _ string) bool {
		return strings.HasPrefix(name, "pods liqo ") || strings.HasPrefix(name, "endpointslices liqo ") || strings.HasPrefix(name, "endpoints liqo ")
	})
	return kept
}

// still leaves out the devices of pods and the ways to them.
func still(kernel string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(kernel, "\n"), func(line string) bool { return strings.Contains(line, "veth") }), "\n")
}

// listing is all objects of a cluster.
func listing(t *testing.T, c *clusters.Cluster) (all clusters.Listing) {
	t.Helper()
	story.Eventually(t, "the objects of "+c.ID, time.Minute, func(context.Context) (err error) {
		if all, err = c.Listing(t.Context()); err == nil {
			err = all.Settled()
		}
		return err
	})
	return all
}

func number(t *testing.T, name string, fallback int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return n
}
