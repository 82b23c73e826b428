// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// replicated runs controller-managers that the API server asks in turn, as behind a Service. It returns how often each was.
func replicated(t *testing.T, s *testCluster, replicas int) []*atomic.Int32 {
	t.Helper()
	requests := make([]*atomic.Int32, replicas)
	ports := make([]string, replicas)
	for i := range replicas {
		requests[i], ports[i] = &atomic.Int32{}, strconv.Itoa(testkit.Port(t))
		s.run(t, controllerManagerRole+"-"+strconv.Itoa(i), s.accounts[controllerManagerRole], nil, []string{
			controllerManagerRole, "--cluster-id=" + s.id, "--health-probe-address=0", "--metrics-address=0", "--webhook-port=" + ports[i],
			"--api-server-address-override=" + s.Config.Host, "--ca-override=" + base64.StdEncoding.EncodeToString(s.Config.CAData),
		})
	}
	var turn atomic.Int32
	s.admission = httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			n := int(turn.Add(1)) % replicas
			requests[n].Add(1)
			r.SetURL(&url.URL{Scheme: "https", Host: "127.0.0.1:" + ports[n]})
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		ErrorLog:  log.New(io.Discard, "", 0),
	})
	t.Cleanup(s.admission.Close)
	s.webhooks = nil
	for _, obj := range releaseObjects(t) {
		if strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			s.webhooks = append(s.webhooks, s.reachable(obj))
		}
	}
	s.admit(t, true)
	t.Cleanup(func() {
		for _, obj := range s.webhooks {
			_ = s.Client.Delete(context.Background(), obj.DeepCopy())
		}
	})
	return requests
}

// guest is a consumer with one Quota of one CPU.
func guest(t *testing.T, s *testCluster, id string, enforcement offv1beta1.LimitsEnforcement) (remoteNamespace string, user client.Client) {
	t.Helper()
	labels := map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"}
	tenancy := testkit.Namespace(t, s.ControlPlane, "tenant-"+id, labels)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tenancy, Name: id}}
	tenant.Spec.ClusterID, tenant.Spec.AuthzPolicy = liqov1beta1.ClusterID(id), new(authv1beta1.TolerateNoHandshake)
	quota := &offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: tenancy, Name: "slice"}}
	quota.Spec = offv1beta1.QuotaSpec{User: "slice-" + id, LimitsEnforcement: enforcement, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	remoteNamespace = "shop-" + id
	mapping := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenancy, Name: "map", Labels: map[string]string{
		names.Replicated: "true", names.ReplicationOrigin: id, names.RemoteClusterID: id,
	}}}
	mapping.Spec.DesiredMapping = map[string]string{"shop": remoteNamespace}
	for _, obj := range []client.Object{tenant, quota, mapping} {
		testkit.Eventually(t, limit, func() error { return client.IgnoreAlreadyExists(s.Client.Create(t.Context(), obj)) }) // the webhooks may be starting
	}
	user, err := client.New(s.User(t, "slice-"+id, id), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return remoteNamespace, user
}

// asks is a ShadowPod, as a virtual kubelet makes it.
func asks(remoteNamespace, name, origin string, requests, limits corev1.ResourceList) *offv1beta1.ShadowPod {
	sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: name, Labels: map[string]string{names.OffloadingOrigin: origin}}}
	sp.Spec.Pod = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
	}}}
	return sp
}

// audit watches the pods of a namespace, lets each that begins end, and knows how many there were at most.
type audit struct {
	mu          sync.Mutex
	alive, ever map[string]bool
	most        int
}

func (a *audit) follow(t *testing.T, s *testCluster, namespace string) {
	w, err := s.watching(t).Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			a.note(e.Type, pod)
			if e.Type == watch.Added && pod.Status.Phase == corev1.PodPending {
				before := pod.DeepCopy()
				pod.Status.Phase = corev1.PodSucceeded
				if err := s.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil && t.Context().Err() == nil {
					t.Errorf("ending a pod: %v", err)
				}
			}
		}
	}()
}

func (a *audit) note(what watch.EventType, pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ever[pod.Name] = true
	if what == watch.Deleted || pod.Status.Phase == corev1.PodSucceeded {
		delete(a.alive, pod.Name)
		return
	}
	a.alive[pod.Name] = true
	a.most = max(a.most, len(a.alive))
}

func (s *testCluster) watching(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(s.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// insist creates obj, however often a machine that is busy makes webhooks late.
func insist(ctx context.Context, c client.Client, obj client.Object, opts ...client.CreateOption) error {
	for {
		err := c.Create(ctx, obj, opts...)
		if !apierrors.IsInternalError(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Two real processes, with their webhooks, share the work and the ledger.
func TestQuotaTwoReplicas(t *testing.T) {
	s := newTestCluster(t, testkit.NthCluster(t, 2*worlds, testkit.WithControllers("namespace-controller", "serviceaccount-controller")))
	s.id = "host"
	requests := replicated(t, s, 2)
	amount := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for id, story := range map[string]struct {
		enforcement     offv1beta1.LimitsEnforcement
		all             int
		without, uneven string // why a pod without requests, and one with other limits, is refused
	}{
		"anton": {offv1beta1.NoLimitsEnforcement, 200, "", ""},
		"berta": {offv1beta1.SoftLimitsEnforcement, 200, "has no cpu request", ""},
		"carla": {offv1beta1.HardLimitsEnforcement, 200, "has no cpu request", "requires to be equal"},
	} {
		t.Run(string(story.enforcement), func(t *testing.T) {
			remoteNamespace, user := guest(t, s, id, story.enforcement)
			const room = 10
			part := amount("100m", "10Mi")
			testkit.Eventually(t, limit, func() error {
				return user.Create(t.Context(), asks(remoteNamespace, "probe", id, part, part), client.DryRunAll)
			})
			for reason, sp := range map[string]*offv1beta1.ShadowPod{
				story.without:          asks(remoteNamespace, "without", id, nil, nil),
				story.uneven + " ":     asks(remoteNamespace, "uneven", id, part, amount("200m", "10Mi")),
				"quota usage exceeded": asks(remoteNamespace, "large", id, amount("1001m", "10Mi"), amount("1001m", "10Mi")),
			} {
				err := insist(t.Context(), user, sp, client.DryRunAll)
				if reason = strings.TrimSpace(reason); reason == "" && err != nil || reason != "" && (err == nil || !strings.Contains(err.Error(), reason)) {
					t.Errorf("%s: got %v, want %q", sp.Name, err, reason)
				}
			}
			a := &audit{alive: map[string]bool{}, ever: map[string]bool{}}
			a.follow(t, s, remoteNamespace)
			var group sync.WaitGroup
			for i := range story.all {
				group.Go(func() {
					if err := insist(t.Context(), user, asks(remoteNamespace, fmt.Sprintf("job-%03d", i), id, part, part)); err != nil {
						t.Errorf("asking for a pod: %v", err)
					}
				})
			}
			group.Wait()
			testkit.Eventually(t, 2*limit, func() error {
				a.mu.Lock()
				defer a.mu.Unlock()
				if len(a.ever) < story.all || len(a.alive) > 0 {
					return fmt.Errorf("%d of %d pods came, %d are there", len(a.ever), story.all, len(a.alive))
				}
				return nil
			})
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.most > room {
				t.Errorf("%d pods at a time, there is room for %d", a.most, room)
			}
			t.Logf("%d pods, %d at a time", len(a.ever), a.most)
		})
	}
	for i, n := range requests {
		if n.Load() == 0 {
			t.Errorf("replica %d was never asked", i)
		}
	}
}
