// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package several

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// container prints whose configuration it has, and what no other one prints.
const container = `
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: docker.io/library/busybox:latest
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'echo "$CLUSTER, $WORD, $(cat /proc/sys/kernel/random/uuid)"; exec sleep 100000']
        env:
        - {name: CLUSTER, valueFrom: {configMapKeyRef: {name: whose, key: cluster}}}
        - {name: WORD, valueFrom: {secretKeyRef: {name: whose, key: word}}}
`

// shop is the same in every cluster but for its configuration: as many pods on each node as on any other, and one in b.
// Another cluster's virtual nodes do not count as nodes, because its pods may not go there.
const shop = `
apiVersion: v1
kind: ConfigMap
metadata: {name: whose, namespace: shop}
data: {cluster: OWNER}
---
apiVersion: v1
kind: Secret
metadata: {name: whose, namespace: shop}
stringData: {word: secret of OWNER}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: spread, namespace: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        nodeTaintsPolicy: Honor
        labelSelector: {matchLabels: {app: spread}}` + container + `
---
` + inB

// inB is a pod that has the same name in every cluster, and may run in b only.
const inB = `
apiVersion: v1
kind: Pod
metadata: {name: POD, namespace: shop}
spec:
      nodeSelector: {liqo.io/remote-cluster-id: cl-b}` + container

// onlyC is a namespace of a that extends to c only.
const onlyC = `
apiVersion: v1
kind: Namespace
metadata: {name: shop-only-c}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: shop-only-c}
spec:
  podOffloadingStrategy: Remote
  clusterSelector: {nodeSelectorTerms: [{matchExpressions: [{key: liqo.io/remote-cluster-id, operator: In, values: [cl-c]}]}]}
`

const onlyCPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: only, namespace: shop-only-c}
spec:
  replicas: 2
  selector: {matchLabels: {app: only}}
  template:
    metadata: {labels: {app: only}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]
`

// peerings are those that the chapters made.
type peerings struct{ ab, ac, cb *clusters.Peering }

// Each chapter begins where the one before ended.
func TestSeveralPeers(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	p := &peerings{}
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"three peerings and four virtual nodes", p.begin},
		{"pods spread over real nodes and those of all providers", p.spread},
		{"twins of the same name in the same provider do not mix", p.doNotMix},
		{"logs answer from the right one", p.logs},
		{"a selector chooses one of two providers", p.choose},
		{"one of two providers is away", p.away},
		{"a namespace leaves one of two providers", p.leave},
		{"one of two peerings ends", p.end},
	} {
		if !t.Run(chapter.name, chapter.tell) {
			t.FailNow()
		}
	}
}

func (p *peerings) begin(t *testing.T) {
	p.ab, p.ac, p.cb = peer(t, a, b, "a-b"), peer(t, a, c, "a-c"), peer(t, c, b, "c-b")
	more := *p.ab // all the same, but for the slice
	more.Slice = "a-b-more"
	apply(t, &more)
	for node, in := range map[string]*clusters.Cluster{"a-b": a, "a-b-more": a, "a-c": a, "c-b": c} {
		eventually(t, "node "+node+" to be Ready", func(ctx context.Context) error { return nodeIs(ctx, in, node, true) })
	}
	eventually(t, "the namespaces to be offloaded", func(ctx context.Context) error {
		return errors.Join(chosen(ctx, a, "shop", "cl-b", "cl-c"), chosen(ctx, c, "shop", "cl-b"))
	})
}

func peer(t *testing.T, consumer, provider *clusters.Cluster, name string) *clusters.Peering {
	t.Helper()
	p, err := clusters.NewPeering(t.Context(), consumer, provider, name)
	if err != nil {
		t.Fatal(err)
	}
	p.Namespace, p.Tenant = "shop", name // the name of a Tenant is taken once in a cluster
	apply(t, p)
	return p
}

func apply(t *testing.T, p *clusters.Peering) {
	t.Helper()
	docs, err := p.Documents()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		kubectl(t, byID(d.Cluster), d.Manifest, "apply", "-f", "-")
	}
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	took := story.Eventually(t, what, 3*time.Minute, check)
	t.Logf("%s: %s", what, took)
}

func (p *peerings) spread(t *testing.T) {
	for in, replicas := range map[*clusters.Cluster]string{a: "8", c: "4"} {
		kubectl(t, in, strings.NewReplacer("REPLICAS", replicas, "OWNER", in.ID, "POD", "same").Replace(shop), "apply", "-f", "-")
	}
	eventually(t, "two pods on each node", func(ctx context.Context) error {
		return errors.Join(
			nodesAre(ctx, a, "spread", map[string]int{"a1": 2, "a-b": 2, "a-b-more": 2, "a-c": 2}),
			nodesAre(ctx, c, "spread", map[string]int{"c1": 2, "c-b": 2}))
	})
	eventually(t, "each pod in one provider", everyPodOnce)
}

// doNotMix looks at objects that have the same name in a and in c, and have copies in b.
func (p *peerings) doNotMix(t *testing.T) {
	words := func(ctx context.Context, in *clusters.Cluster, namespace string) (string, error) {
		var config corev1.ConfigMap
		var secret corev1.Secret
		key := client.ObjectKey{Namespace: namespace, Name: "whose"}
		err := errors.Join(in.Client.Get(ctx, key, &config), in.Client.Get(ctx, key, &secret))
		return fmt.Sprintf("%s, %s%s", config.Data["cluster"], secret.Data["word"], config.Data["more"]), err
	}
	check := func(want map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			got := map[string]string{}
			for where := range want {
				id, namespace, _ := strings.Cut(where, " ")
				var err error
				if got[where], err = words(ctx, byID(id), namespace); err != nil {
					return err
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		}
	}
	ofA, ofC := "cl-a, secret of cl-a", "cl-c, secret of cl-c"
	want := map[string]string{"cl-a shop": ofA, "cl-b shop-cl-a": ofA, "cl-c shop-cl-a": ofA, "cl-c shop": ofC, "cl-b shop-cl-c": ofC}
	eventually(t, "ConfigMaps and Secrets", check(want))
	kubectl(t, a, "", "patch", "configmap", "whose", "-n", "shop", "--type=merge", "-p", `{"data":{"more":", and more"}}`)
	for where, word := range want {
		if word == ofA {
			want[where] += ", and more"
		}
	}
	eventually(t, "the change of one ConfigMap", check(want))
}

func (p *peerings) logs(t *testing.T) {
	for _, in := range []*clusters.Cluster{a, c} {
		pods, err := application(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			provider, virtual := lenders[pod.Spec.NodeName]
			if !virtual {
				continue
			}
			var here string
			story.Eventually(t, "the log of "+pod.Name, time.Minute, func(context.Context) (err error) {
				here, err = in.Kubectl("", "logs", pod.Name, "-n", pod.Namespace)
				return err
			})
			there, err := byID(provider).Kubectl("", "logs", pod.Name, "-n", pod.Namespace+"-"+in.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(here, in.ID+", secret of "+in.ID+", ") || here != there {
				t.Errorf("pod %s of %s says %q here and %q in %s", pod.Name, in.ID, here, there, provider)
			}
		}
	}
}

func (p *peerings) choose(t *testing.T) {
	kubectl(t, a, onlyC, "apply", "-f", "-")
	eventually(t, "the namespace to be offloaded to c", func(ctx context.Context) error { return chosen(ctx, a, "shop-only-c", "cl-c") })
	kubectl(t, a, onlyCPods, "apply", "-f", "-")
	eventually(t, "both pods in c", func(ctx context.Context) error { return nodesAre(ctx, a, "only", map[string]int{"a-c": 2}) })
	eventually(t, "each pod in one provider", everyPodOnce)
	if err := gone(t.Context(), b, client.ObjectKey{Name: "shop-only-c-cl-a"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

// away: what a has in b goes on, and so does what c, whose API server does not answer, has there.
func (p *peerings) away(t *testing.T) {
	before := mustLent(t, b, c)
	since := map[string]time.Time{"a-b": {}, "a-b-more": {}}
	for node := range since {
		is, err := readiness(t.Context(), a, node)
		if err != nil {
			t.Fatal(err)
		}
		since[node] = is.LastTransitionTime.Time
	}
	if err := story.Playground("fail", "c/apiserver"); err != nil {
		t.Fatal(err)
	}
	healed := false
	heal := func() {
		if !healed {
			healed = true
			if err := story.Playground("heal", "c/apiserver"); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer heal()
	eventually(t, "node a-c to be not Ready", func(ctx context.Context) error { return nodeIs(ctx, a, "a-c", false) })
	meanwhile(t)
	for node, was := range since {
		is, err := readiness(t.Context(), a, node)
		if err != nil || is.Status != corev1.ConditionTrue || !is.LastTransitionTime.Time.Equal(was) {
			t.Errorf("node %s is %s since %s, was Ready since %s: %v", node, is.Status, is.LastTransitionTime, was, err)
		}
	}
	kept(t, only(before, "cl-b "), mustLent(t, b))
	heal()
	eventually(t, "node a-c to be Ready again", func(ctx context.Context) error { return nodeIs(ctx, a, "a-c", true) })
	eventually(t, "node c-b to be Ready again", func(ctx context.Context) error { return nodeIs(ctx, c, "c-b", true) })
	eventually(t, "each pod in one provider", everyPodOnce)
	kept(t, before, mustLent(t, b, c))
}

// meanwhile has a new pod of a run in b.
func meanwhile(t *testing.T) {
	t.Helper()
	kubectl(t, a, strings.ReplaceAll(inB, "POD", "meanwhile"), "apply", "-f", "-")
	eventually(t, "a new pod to run in b and to answer", func(ctx context.Context) error {
		var pod corev1.Pod
		if err := a.Client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "meanwhile"}, &pod); err != nil {
			return err
		}
		if !ready(&pod) {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		out, err := a.Kubectl("", "logs", "meanwhile", "-n", "shop")
		if err == nil && !strings.HasPrefix(out, "cl-a, ") {
			err = fmt.Errorf("its log is %q", out)
		}
		return err
	})
	kubectl(t, a, "", "delete", "pod", "meanwhile", "-n", "shop", "--timeout=1m")
}

// leave changes which providers a namespace extends to, from both to c.
func (p *peerings) leave(t *testing.T) {
	before := mustLent(t, b, c)
	kubectl(t, a, "", "patch", "namespaceoffloading", "offloading", "-n", "shop", "--type=merge", "-p",
		`{"spec":{"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"liqo.io/remote-cluster-id","operator":"In","values":["cl-c"]}]}]}}}`)
	eventually(t, "the twin in b to go", func(ctx context.Context) error {
		return errors.Join(gone(ctx, b, client.ObjectKey{Name: p.ab.Twin()}, &corev1.Namespace{}), chosen(ctx, a, "shop", "cl-c"))
	})
	eventually(t, "four pods on each node that is left", func(ctx context.Context) error {
		return nodesAre(ctx, a, "spread", map[string]int{"a1": 4, "a-c": 4})
	})
	eventually(t, "each pod in one provider", everyPodOnce)
	maps.DeleteFunc(before, func(pod, _ string) bool { return strings.HasPrefix(pod, "cl-b "+p.ab.Twin()+"/") })
	kept(t, before, mustLent(t, b, c))
	for _, in := range []*clusters.Cluster{a, c} {
		var pod corev1.Pod
		if err := in.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "same"}, &pod); err != nil {
			t.Fatal(err)
		}
		if aborted := pod.Status.Phase == corev1.PodFailed; aborted != (in == a) {
			t.Errorf("the pod of %s that nobody makes anew is %s %s", in.ID, pod.Status.Phase, pod.Status.Reason)
		}
	}
}

// end takes down the peering of a with b as the guide says.
func (p *peerings) end(t *testing.T) {
	before := mustLent(t, b, c)
	kubectl(t, a, "", "delete", "rslice", "a-b", "a-b-more", "-n", p.ab.ConsumerTenant, "--timeout=2m")
	kubectl(t, a, "", "delete", "secret", "cplane-secret", "-n", p.ab.ConsumerTenant, "--timeout=2m")
	kubectl(t, b, "", "delete", "tenant", p.ab.Tenant, "-n", p.ab.ProviderTenant, "--timeout=2m")
	kubectl(t, a, "", "delete", "namespace", p.ab.ConsumerTenant, "--timeout=2m")
	kubectl(t, b, "", "delete", "namespace", p.ab.ProviderTenant, "--timeout=2m")
	eventually(t, "the virtual nodes of b to go", func(ctx context.Context) error {
		return errors.Join(
			gone(ctx, a, client.ObjectKey{Name: "a-b"}, &corev1.Node{}),
			gone(ctx, a, client.ObjectKey{Name: "a-b-more"}, &corev1.Node{}),
			gone(ctx, a, client.ObjectKey{Name: "cl-b"}, &liqov1beta1.ForeignCluster{}))
	})
	eventually(t, "a and b to forget each other", func(context.Context) error {
		return errors.Join(neverHeardOf(b, "cl-a"), neverHeardOf(a, "cl-b"))
	})
	eventually(t, "each pod in one provider", everyPodOnce)
	if diff := cmp.Diff(before, mustLent(t, b, c)); diff != "" {
		t.Errorf("pods of the peerings that stay changed (-before +after):\n%s", diff)
	}
	for node, in := range map[string]*clusters.Cluster{"a-c": a, "c-b": c} {
		if err := nodeIs(t.Context(), in, node, true); err != nil {
			t.Error(err)
		}
	}
}

func mustLent(t *testing.T, in ...*clusters.Cluster) map[string]string {
	t.Helper()
	var out map[string]string
	story.Eventually(t, "the pods of providers", time.Minute, func(ctx context.Context) (err error) {
		out, err = lent(ctx, in...)
		return err
	})
	return out
}

// only are the pods in one cluster.
func only(pods map[string]string, cluster string) map[string]string {
	out := maps.Clone(pods)
	maps.DeleteFunc(out, func(pod, _ string) bool { return !strings.HasPrefix(pod, cluster) })
	return out
}

// kept wants each of these pods to be there, the same one, and not started again. There may be more.
func kept(t *testing.T, before, now map[string]string) {
	t.Helper()
	for pod, was := range before {
		if now[pod] != was {
			t.Errorf("pod %s is %q, was %q", pod, now[pod], was)
		}
	}
}
