// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// What a user made, by the name that a story gives it.
const (
	theSecret            = "Secret"
	theSlice             = "ResourceSlice"
	theOffloading        = "NamespaceOffloading"
	theApplication       = "namespace of the application"
	theConsumerNamespace = "tenant namespace of the consumer"
	theTenant            = "Tenant"
	theRole              = "RoleBinding of the consumer's user"
	theProviderNamespace = "tenant namespace of the provider"
)

// All that users made in one cluster and in the other, and so have to delete.
var (
	ofConsumer = []string{theSecret, theSlice, theOffloading, theApplication, theConsumerNamespace}
	ofProvider = []string{theTenant, theRole, theProviderNamespace}
)

// beginnings are what a user may begin with. What is nobody's to delete comes back, or goes with what it is made from.
// The first ones are told by every run, the others by longer ones.
var beginnings = []string{
	theSecret, theConsumerNamespace, theProviderNamespace, theTenant, "VirtualNode", theSlice, theOffloading, "twin namespace", "Quota",
	theApplication, theRole, "NamespaceMap", "Identity", "copy of the ResourceSlice", "copy of the NamespaceMap", "ForeignCluster",
	"kubeconfig of the slice", "ShadowPod", "Pod", "Node", "virtual kubelet",
}

// remove deletes one object by its name in stories, and waits for nothing.
func (w *topology) remove(t *testing.T, name string) {
	t.Helper()
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	consumer, provider := w.consumer.Client, w.provider.Client
	var err error
	switch name {
	case theSecret:
		err = consumer.Delete(t.Context(), &corev1.Secret{ObjectMeta: at(w.ConsumerTenant, "cplane-secret")})
	case theSlice:
		err = consumer.Delete(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: at(w.ConsumerTenant, w.Slice)})
	case theOffloading:
		err = consumer.Delete(t.Context(), &offv1beta1.NamespaceOffloading{ObjectMeta: at(w.Namespace, names.NamespaceOffloading)})
	case theApplication:
		err = consumer.Delete(t.Context(), &corev1.Namespace{ObjectMeta: at("", w.Namespace)})
	case theConsumerNamespace:
		err = consumer.Delete(t.Context(), &corev1.Namespace{ObjectMeta: at("", w.ConsumerTenant)})
	case theTenant:
		err = provider.Delete(t.Context(), &authv1beta1.Tenant{ObjectMeta: at(w.ProviderTenant, "my-tenant")})
	case theRole:
		err = provider.Delete(t.Context(), w.documentOf(t, "RoleBinding"))
	case theProviderNamespace:
		err = provider.Delete(t.Context(), &corev1.Namespace{ObjectMeta: at("", w.ProviderTenant)})
	case "VirtualNode":
		err = consumer.Delete(t.Context(), &offv1beta1.VirtualNode{ObjectMeta: at(w.ConsumerTenant, w.Slice)})
	case "NamespaceMap":
		err = consumer.Delete(t.Context(), &offv1beta1.NamespaceMap{ObjectMeta: at(w.ConsumerTenant, w.Provider)})
	case "twin namespace":
		err = provider.Delete(t.Context(), &corev1.Namespace{ObjectMeta: at("", w.Twin())})
	case "Quota":
		err = provider.DeleteAllOf(t.Context(), &offv1beta1.Quota{}, client.InNamespace(w.ProviderTenant))
	case "Identity":
		err = consumer.DeleteAllOf(t.Context(), &authv1beta1.Identity{}, client.InNamespace(w.ConsumerTenant))
	case "copy of the ResourceSlice":
		err = provider.Delete(t.Context(), &authv1beta1.ResourceSlice{ObjectMeta: at(w.ProviderTenant, w.Slice)})
	case "copy of the NamespaceMap":
		err = provider.Delete(t.Context(), &offv1beta1.NamespaceMap{ObjectMeta: at(w.ProviderTenant, w.Provider)})
	case "ForeignCluster":
		err = errors.Join(consumer.Delete(t.Context(), &liqov1beta1.ForeignCluster{ObjectMeta: at("", w.Provider)}),
			provider.Delete(t.Context(), &liqov1beta1.ForeignCluster{ObjectMeta: at("", w.Consumer)}))
	case "kubeconfig of the slice":
		err = consumer.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(w.ConsumerTenant), client.MatchingLabels{names.IdentityType: string(authv1beta1.ResourceSliceIdentityType)})
	case "ShadowPod":
		err = provider.Delete(t.Context(), &offv1beta1.ShadowPod{ObjectMeta: at(w.Twin(), "shop")})
	case "Pod":
		err = consumer.Delete(t.Context(), &corev1.Pod{ObjectMeta: at(w.Namespace, "shop")})
	case "Node":
		err = consumer.Delete(t.Context(), &corev1.Node{ObjectMeta: at("", w.Slice)})
	case "virtual kubelet":
		w.killKubelets()
	default:
		t.Fatalf("nobody knows how to delete %q", name)
	}
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("deleting %s: %v", name, err)
	}
}

func (w *topology) documentOf(t *testing.T, kind string) client.Object {
	t.Helper()
	docs := w.documents(t)
	return docs[slices.IndexFunc(docs, func(d document) bool { return d.GetKind() == kind })]
}

func (w *topology) killKubelets() {
	for name := range w.consumer.running {
		if strings.Contains(name, "/") {
			w.consumer.kill(name)
		}
	}
}

// up makes the whole peering, and the application in it.
func (w *topology) up(t *testing.T, n int) {
	t.Helper()
	w.killAll()
	w.named(t, n)
	w.startAll(t)
	for _, d := range w.documents(t) {
		w.apply(t, d)
	}
	w.eventually(t, "the peering to work", w.works)
}

// A user deletes what there is, beginning anywhere and going on in a random order, while processes die and come back.
// Whatever the order, nothing is left: no object, no finalizer, no binding, no namespace. Where the provider forgot the
// consumer before that one was done, it takes the word of the user that the provider is not coming back.
func TestDeletionOrder(t *testing.T) {
	inWorlds(t, testkit.Seeds(t, 9), func(t *testing.T, w *topology, seed uint64) {
		start := time.Now()
		w.up(t, int(seed)+3000)
		up := time.Now()
		order := deletionOrder(beginnings[seed%uint64(len(beginnings))], rand.New(rand.NewPCG(seed, 1)))
		t.Logf("seed %d: %s", seed, strings.Join(order, ", "))
		w.takeDown(t, order, rand.New(rand.NewPCG(seed, 2)))
		t.Logf("seed %d: up after %s, nothing is left after %s", seed, passed(start, up), passed(up, time.Now()))
	})
}

// A consumer that is done before its provider forgets it needs no word of its user.
func TestDeletionConsumerFirst(t *testing.T) {
	inWorlds(t, testkit.Seeds(t, 2), func(t *testing.T, w *topology, seed uint64) {
		w.up(t, int(seed)+2000)
		random := rand.New(rand.NewPCG(seed, 3))
		for _, of := range []struct {
			objects []string
			nothing func(context.Context) error
		}{{ofConsumer, w.atConsumer.nothing}, {ofProvider, w.atProvider.nothing}} {
			order := slices.Clone(of.objects)
			random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			t.Logf("seed %d: %s", seed, strings.Join(order, ", "))
			for _, name := range order {
				w.remove(t, name)
				w.pause(t, time.Duration(random.IntN(300))*time.Millisecond)
			}
			w.eventually(t, "nothing to be left of what was deleted", of.nothing)
		}
	})
}

// The other cluster is gone, its API server and all. What is here goes, once the user says so; should the other one come
// back after all, it can clean up as well.
func TestDeletionLostPeer(t *testing.T) {
	t.Parallel()
	w := newTopology(t)
	nothing := func(t *testing.T, c *inventory) {
		t.Helper()
		w.eventually(t, "nothing to be left", func(ctx context.Context) error {
			w.giveUp(ctx)
			return c.nothing(ctx)
		})
	}
	for i, gone := range []struct {
		who         string
		there       *testCluster
		here, later []string
		stays, back *inventory
	}{
		{"provider", w.provider, ofConsumer, ofProvider, w.atConsumer, w.atProvider},
		{"consumer", w.consumer, ofProvider, ofConsumer, w.atProvider, w.atConsumer},
	} {
		t.Run(gone.who, func(t *testing.T) {
			w.up(t, 1000+i)
			gone.there.killAll()
			gone.there.StopAPIServer(t)
			for _, name := range gone.here {
				w.remove(t, name)
			}
			nothing(t, gone.stays)
			gone.there.StartAPIServer(t)
			w.startAll(t)
			for _, name := range gone.later {
				w.remove(t, name)
			}
			nothing(t, gone.back)
			nothing(t, gone.stays)
		})
	}
}

// deletionOrder is all that a user deletes in random order, after what it begins with.
func deletionOrder(begin string, random *rand.Rand) []string {
	rest := slices.DeleteFunc(slices.Concat(ofConsumer, ofProvider), func(name string) bool { return name == begin })
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return append([]string{begin}, rest...)
}

func (w *topology) takeDown(t *testing.T, order []string, random *rand.Rand) {
	t.Helper()
	for _, name := range order {
		w.remove(t, name)
		w.disturb(random)
		w.pause(t, time.Duration(random.IntN(300))*time.Millisecond)
	}
	w.startAll(t)
	w.eventually(t, "nothing to be left, neither here nor there", func(ctx context.Context) error {
		w.giveUp(ctx)
		return errors.Join(w.atConsumer.nothing(ctx), w.atProvider.nothing(ctx))
	})
}

// pause lets what was begun go on for a while, long enough or not.
func (w *topology) pause(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		w.consumer.kubelets(t)
	}
}

// disturb kills a process, one time of three. It comes back with all others in the end.
func (w *topology) disturb(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	s := w.sides()[random.IntN(2)]
	if n := random.IntN(len(roles) + 1); n < len(roles) {
		s.kill(roles[n])
	} else {
		w.killKubelets()
	}
}

// giveUp says that the provider never comes back, as the user of a consumer does whom it refuses.
func (w *topology) giveUp(ctx context.Context) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+names.PermanentlyUnreachable+`":"true"}}}`))
	_ = w.consumer.Client.Patch(ctx, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: w.Provider}}, patch)
}
