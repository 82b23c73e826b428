// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/test/clusters"
)

// limit is wide: a story says that a thing happens, not how fast.
const limit = 5 * time.Minute

// topology is two installations, one of them the consumer of the other.
type topology struct {
	clusters.Peering

	consumer, provider     *testCluster
	atConsumer, atProvider *inventory
	tag                    string
}

// worlds is how many stories are told at the same time. Most of a story is waiting: for the pause that Kubernetes makes
// before it empties a namespace, for retries of processes that found others dead.
const worlds = 2

// inWorlds runs a test for each seed in parallel, in a free topology.
func inWorlds(t *testing.T, seeds int, tell func(t *testing.T, w *topology, seed uint64)) {
	t.Helper()
	t.Parallel()
	next := make(chan uint64, seeds)
	for seed := range seeds {
		next <- uint64(seed)
	}
	close(next)
	var telling sync.WaitGroup
	for n := range min(worlds, seeds) {
		telling.Go(func() {
			t.Run("world "+strconv.Itoa(n), func(t *testing.T) {
				var w *topology
				for seed := range next {
					if w == nil {
						w = newTopology(t)
					}
					tell(t, w, seed)
				}
			})
		})
	}
	telling.Wait()
}

// newTopology waits for a free topology and reserves it until the test ends.
func newTopology(t *testing.T, more ...testkit.Option) *topology {
	t.Helper()
	n := testkit.Turn(t, "world", worlds)
	more = append(more, kubernetesControllers)
	return worldOf(t, testkit.NthCluster(t, 2*n, more...), testkit.NthCluster(t, 2*n+1, more...))
}

func worldOf(t *testing.T, consumer, provider *testkit.ControlPlane) *topology {
	t.Helper()
	w := &topology{consumer: newTestCluster(t, consumer), provider: newTestCluster(t, provider)}
	w.atConsumer, w.atProvider = newInventory(t, w.consumer), newInventory(t, w.provider)
	// What a first start makes for the installation itself is no part of any story.
	w.named(t, 0)
	w.startAll(t)
	for _, s := range w.sides() {
		for _, name := range []string{names.WebhookCertsSecret, names.KeysSecret} {
			testkit.Eventually(t, limit, func() error {
				return s.Client.Get(t.Context(), client.ObjectKey{Namespace: names.LiqoNamespace, Name: name}, &corev1.Secret{})
			})
		}
	}
	w.killAll()
	return w
}

// named begins a story under names of its own, which all end in the same tag: namespaces of stories before may still be going.
func (w *topology) named(t *testing.T, n int) {
	t.Helper()
	w.tag = "-q" + strconv.Itoa(n) + "q"
	w.Peering = clusters.Peering{
		Consumer: "milan" + w.tag, Provider: "rome" + w.tag,
		ConsumerTenant: "to-rome" + w.tag, ProviderTenant: "from-milan" + w.tag,
		User: "milan-user" + w.tag, Slice: "rome-node" + w.tag, Namespace: "shop" + w.tag, Tenant: "my-tenant",
		CPU: "20", Memory: "128Gi", Strategy: "LocalAndRemote",
	}
	w.Kubeconfig = base64.StdEncoding.EncodeToString(testkit.Kubeconfig(t, w.provider.User(t, w.User)))
	w.consumer.id, w.provider.id = w.Consumer, w.Provider
	for _, s := range w.sides() {
		s.admit(t, true)
	}
	w.atConsumer.remember(t)
	w.atProvider.remember(t)
}

func (w *topology) sides() []*testCluster { return []*testCluster{w.consumer, w.provider} }

func (w *topology) startAll(t *testing.T) {
	t.Helper()
	for _, s := range w.sides() {
		for _, role := range roles {
			s.start(t, role)
		}
	}
}

func (w *topology) killAll() {
	for _, s := range w.sides() {
		s.killAll()
	}
}

// eventually waits until check holds, and plays the nodes meanwhile. It leaves the machine to the others at least half of the
// time: some checks list all that there is.
func (w *topology) eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error // an error of the deadline itself says nothing
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 300*time.Millisecond) {
		w.consumer.kubelets(t)
		start := time.Now()
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(max(wait, time.Since(start))):
		case <-ctx.Done():
			t.Fatalf("consumer:\n%s\nprovider:\n%s\nwaiting for %s: %v", w.consumer.logs(), w.provider.logs(), what, last)
		}
	}
}

// document is one manifest of the story, and where it goes.
type document struct {
	side *testCluster
	*unstructured.Unstructured
}

func (d document) String() string { return d.GetKind() + " " + d.GetNamespace() + "/" + d.GetName() }

//go:embed testdata/shop.yaml
var shopYAML string

// documents are those that the end-to-end stories apply too, and an application that runs in the provider.
func (w *topology) documents(t *testing.T) []document {
	t.Helper()
	manifests, err := w.Documents()
	if err != nil {
		t.Fatal(err)
	}
	var shop bytes.Buffer
	if err := template.Must(template.New("shop").Parse(shopYAML)).Execute(&shop, w); err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(shop.String(), "\n---\n") {
		manifests = append(manifests, clusters.Document{Cluster: w.Consumer, Manifest: part})
	}
	out := make([]document, len(manifests))
	for i, m := range manifests {
		out[i] = document{w.consumer, &unstructured.Unstructured{}}
		if m.Cluster == w.Provider {
			out[i].side = w.provider
		}
		if err := yaml.Unmarshal([]byte(m.Manifest), &out[i].Object); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(out[i].Object, "metadata", "creationTimestamp")
	}
	return out
}

// apply makes a document so, as kubectl apply does. What Kubernetes makes for a new namespace may have to come first, and
// a kind that is not taken without admission needs a controller-manager.
func (w *topology) apply(t *testing.T, d document) {
	t.Helper()
	w.eventually(t, "the API server to take "+d.String(), func(ctx context.Context) error {
		config := client.ApplyConfigurationFromUnstructured(d.DeepCopy())
		err := d.side.Client.Apply(ctx, config, client.FieldOwner("user"), client.ForceOwnership)
		if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
			d.side.start(t, controllerManagerRole)
		}
		return err
	})
}

// works tells whether the peering is up and the application has reached the provider.
func (w *topology) works(ctx context.Context) error {
	var node corev1.Node
	if err := w.consumer.Client.Get(ctx, client.ObjectKey{Name: w.Slice}, &node); err != nil {
		return err
	}
	ready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !slices.ContainsFunc(node.Status.Conditions, ready) {
		return errors.New("the node is not Ready")
	}
	var nso offv1beta1.NamespaceOffloading
	if err := w.consumer.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: "offloading"}, &nso); err != nil {
		return err
	}
	if nso.Status.OffloadingPhase != offv1beta1.ReadyOffloadingPhaseType {
		return fmt.Errorf("the NamespaceOffloading is %q", nso.Status.OffloadingPhase)
	}
	var pod corev1.Pod
	for _, obj := range []client.Object{&corev1.ConfigMap{}, &pod} {
		if err := w.provider.Client.Get(ctx, client.ObjectKey{Namespace: w.Twin(), Name: "shop"}, obj); err != nil {
			return err
		}
	}
	if len(pod.Status.Conditions) == 0 { // nobody else schedules here, and of a pod that is not scheduled nothing is told unless something was before
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(0, 0)}}
		if err := w.provider.Client.Status().Update(ctx, &pod); err != nil {
			return err
		}
	}
	if err := w.consumer.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: "shop"}, &pod); err != nil {
		return err
	}
	if pod.Labels[names.ShadowPod] != "true" {
		return errors.New("the pod does not say that it runs in the provider")
	}
	return nil
}

// dump is what the story made in both clusters.
func (w *topology) dump(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, c := range map[string]*inventory{"consumer": w.atConsumer, "provider": w.atProvider} {
		all, err := c.dump(ctx, w.tag)
		if err != nil {
			return nil, err
		}
		for key, text := range all {
			out[name+" "+key] = strings.NewReplacer(w.consumer.Config.Host, "https://milan", w.provider.Config.Host, "https://rome").Replace(text)
		}
	}
	return out, nil
}

// deleteAll forgets the story by force.
func (w *topology) deleteAll(t *testing.T) {
	t.Helper()
	w.killAll()
	for _, s := range w.sides() {
		s.admit(t, false)
	}
	testkit.Eventually(t, limit, func() error { // webhooks that nobody serves any more may be asked for a moment yet
		return errors.Join(w.atConsumer.deleteAll(t.Context()), w.atProvider.deleteAll(t.Context()))
	})
}
