// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

// limit is wide: a story says that a thing happens, not how fast.
const limit = 90 * time.Second

// world is two installations, one of them the consumer of the other.
type world struct {
	consumer, provider       *side
	atConsumer, atProvider   *census
	tag                      string
	ConsumerTenant, Consumer string
	ProviderTenant, Provider string
	User, Kubeconfig         string
	Slice, Namespace         string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		consumer: newSide(t, testkit.Cluster(t, kubernetesControllers)),
		provider: newSide(t, testkit.SecondCluster(t, kubernetesControllers)),
	}
	w.atConsumer, w.atProvider = newCensus(t, w.consumer), newCensus(t, w.provider)
	// What a first start makes for the installation itself is no part of any story.
	w.named(t, 0)
	w.startAll(t)
	for _, s := range w.sides() {
		testkit.Eventually(t, limit, func() error {
			return s.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: "liqo-webhook-certs"}, &corev1.Secret{})
		})
	}
	w.killAll()
	return w
}

// named begins a story under names of its own, which all end in the same tag.
func (w *world) named(t *testing.T, n int) {
	t.Helper()
	w.tag = "-q" + strconv.Itoa(n) + "q"
	w.Consumer, w.Provider = "milan"+w.tag, "rome"+w.tag
	w.consumer.id, w.provider.id = w.Consumer, w.Provider
	w.ConsumerTenant, w.ProviderTenant = "to-rome"+w.tag, "from-milan"+w.tag
	w.User, w.Slice, w.Namespace = "milan-user"+w.tag, "rome-node"+w.tag, "shop"+w.tag
	w.Kubeconfig = base64.StdEncoding.EncodeToString(testkit.Kubeconfig(t, w.provider.User(t, w.User)))
	w.atConsumer.remember(t)
	w.atProvider.remember(t)
}

func (w *world) sides() []*side { return []*side{w.consumer, w.provider} }

// twin is the name of the application's namespace in the provider.
func (w *world) twin() string { return w.Namespace + "-" + w.Consumer }

func (w *world) startAll(t *testing.T) {
	t.Helper()
	for _, s := range w.sides() {
		for _, role := range roles {
			s.start(t, role)
		}
	}
}

func (w *world) killAll() {
	for _, s := range w.sides() {
		for name := range s.running {
			s.kill(name)
		}
	}
}

// eventually waits until check holds, and plays the nodes meanwhile.
func (w *world) eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error // an error of the deadline itself says nothing
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 300*time.Millisecond) {
		w.consumer.kubelets(t)
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v\nconsumer:\n%s\nprovider:\n%s", what, last, w.consumer.logs(), w.provider.logs())
		}
	}
}

// document is one manifest of the story, and where it goes.
type document struct {
	side *side
	*unstructured.Unstructured
}

func (d document) String() string { return d.GetKind() + " " + d.GetNamespace() + "/" + d.GetName() }

// documents are those that the end-to-end stories apply too, and an application that runs in the provider.
func (w *world) documents(t *testing.T) []document {
	t.Helper()
	var out []document
	for _, file := range []string{"../../test/e2e/testdata/peering.yaml", "testdata/shop.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := template.Must(template.New(file).Parse(string(data))).Execute(&text, w); err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(text.String(), "\n---\n") {
			d := document{side: w.consumer, Unstructured: &unstructured.Unstructured{}}
			if strings.Contains(part, "# cluster: provider") {
				d.side = w.provider
			}
			if err := yaml.Unmarshal([]byte(part), &d.Object); err != nil {
				t.Fatal(err)
			}
			unstructured.RemoveNestedField(d.Object, "metadata", "creationTimestamp")
			out = append(out, d)
		}
	}
	return out
}

// apply makes a document so, as kubectl apply does. What Kubernetes makes for a new namespace may have to come first.
func (w *world) apply(t *testing.T, d document) {
	t.Helper()
	w.eventually(t, "the API server to take "+d.String(), func(ctx context.Context) error {
		return d.side.Client.Patch(ctx, d.DeepCopy(), client.Apply, client.FieldOwner("user"), client.ForceOwnership) //nolint:staticcheck // unstructured objects have no apply configuration
	})
}

// works tells whether the peering is up and the application has reached the provider.
func (w *world) works(ctx context.Context) error {
	var node corev1.Node
	if err := w.consumer.Client.Get(ctx, client.ObjectKey{Name: w.Slice}, &node); err != nil {
		return err
	}
	ready := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue }
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
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}} {
		if err := w.provider.Client.Get(ctx, client.ObjectKey{Namespace: w.twin(), Name: "shop"}, obj); err != nil {
			return err
		}
	}
	return nil
}

// dump is what the story made in both clusters.
func (w *world) dump(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for name, c := range map[string]*census{"consumer": w.atConsumer, "provider": w.atProvider} {
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

// wipe forgets the story by force.
func (w *world) wipe(t *testing.T) {
	t.Helper()
	w.killAll()
	if err := errors.Join(w.atConsumer.wipe(t.Context()), w.atProvider.wipe(t.Context())); err != nil {
		t.Fatal(err)
	}
}
