// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/podpage"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

// servedProbes is the server of an agent beside its metrics, with TLS and authorization.
type servedProbes struct {
	address string
	mu      sync.Mutex
	results []plan.ProbeResult
	busy    int // requests that are refused, as others are answered
	after   string
}

// ServeHTTP answers with the results that the test set.
func (s *servedProbes) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.busy--
		w.Header().Set("Retry-After", s.after)
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	_ = json.NewEncoder(w).Encode(s.results)
}

// refuse has the next requests answered by 429, to be sent again after some seconds.
func (s *servedProbes) refuse(requests int, after string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.after = requests, after
}

func (s *servedProbes) answer(results ...plan.ProbeResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = results
}

func serveProbes(t *testing.T, c *testkit.ControlPlane) *servedProbes {
	t.Helper()
	s := &servedProbes{address: "127.0.0.1:" + strconv.Itoa(testkit.Port(t))}
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "agent", MetricsAddress: s.address}, func(mgr ctrl.Manager) error {
		return mgr.AddMetricsServerExtraHandler(names.ProbePath, s)
	})
	return s
}

// TestTraceProbes has agents of rome that send probes for the trace; those of milan have no metrics.
func TestTraceProbes(t *testing.T) {
	r := newRoad(t)
	fabric, gateway := serveProbes(t, r.rome), serveProbes(t, r.rome)
	active := newPod(r.peering.Namespace, "gw-milan", "worker", map[string]string{
		names.NetworkingComponent: names.ComponentGateway, names.GatewayActive: "true", names.RemoteClusterID: "milan",
	})
	active.Spec.Containers[0].Ports = metricsPorts
	ctltest.LendWithStatus(t, r.rome, active, setReady)

	trace := func(wantProblem string) *diagnose.Explanation {
		t.Helper()
		traced := &tracer{local: r.local, namespace: r.shop}
		traced.probes.limit = 3 * time.Minute
		traced.probes.newReader = func(c *cluster.Cluster, clients kubernetes.Interface) *podpage.Reader {
			pages := podpage.NewReader(c.Config, clients)
			pages.Dial = func(ctx context.Context, pod *corev1.Pod, _ int32) (net.Conn, error) {
				to := map[string]string{r.here.pod.Name: fabric.address, active.Name: gateway.address}[pod.Name]
				return (&net.Dialer{}).DialContext(ctx, "tcp", to)
			}
			return pages
		}
		var e *diagnose.Explanation
		testkit.Eventually(t, 3*time.Minute, func() (err error) { // the API server learns of rights by watches of its own
			traced.probes.problem = ""
			if e, err = traced.traceNames(t.Context(), "client", "web"); err == nil && !strings.Contains(traced.probes.problem, wantProblem) || wantProblem == "" && traced.probes.problem != "" {
				err = errors.New("the problem is " + traced.probes.problem)
			}
			return err
		})
		return e
	}
	if e := trace("requesting a token of the ServiceAccount liqo-diagnostics"); e.Stopped || strings.Contains(r.textOf(e), "probed") {
		t.Errorf("without a ServiceAccount:\n%s", r.textOf(e))
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.local.LiqoNamespace, Name: names.Diagnostics}}
	ctltest.Lend(t, r.rome, account)
	testkit.Allow(t, r.rome, "", "system:serviceaccount:"+account.Namespace+":"+account.Name, rbacv1.PolicyRule{NonResourceURLs: []string{names.ProbePath}, Verbs: []string{"get"}})

	answered := func(peer string) plan.ProbeResult {
		return plan.ProbeResult{Peer: peer, Answered: true, Milliseconds: 1.25}
	}
	lost, lostLarge := plan.ProbeResult{Peer: "milan"}, plan.ProbeResult{Peer: "milan", Bytes: 1340}
	for _, tc := range []struct {
		name          string
		node, gateway []plan.ProbeResult
		notes         int
		stop          string
	}{
		{"answered", []plan.ProbeResult{answered("turin"), answered("milan")}, []plan.ProbeResult{answered("milan")}, 2, ""},
		{"other peers", []plan.ProbeResult{{Peer: "turin"}}, nil, 0, ""},
		{"node", []plan.ProbeResult{lost}, []plan.ProbeResult{answered("milan")}, 1, "InternalNode worker: the tunnel works, and its probe gets no answer from milan"},
		{"tunnel", []plan.ProbeResult{lost}, []plan.ProbeResult{lost}, 0, "a probe that was sent now got no answer"},
		{"large packets", []plan.ProbeResult{lost}, []plan.ProbeResult{answered("milan"), lostLarge}, 0, "large packets are lost in the tunnel"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fabric.answer(tc.node...)
			gateway.answer(tc.gateway...)
			e := trace("")
			stop := ""
			if f := e.Stop(); f != nil {
				stop = f.Failure().Object + ": " + f.Failure().Message
			}
			if notes := strings.Count(r.textOf(e), "probed now: 1.25 ms"); notes != tc.notes || !strings.Contains(stop, tc.stop) || tc.stop == "" && stop != "" {
				t.Errorf("stopped by %q, %d hops are probed:\n%s", stop, notes, r.textOf(e))
			}
		})
	}
	// Another trace at the same time is waited for once.
	fabric.answer(answered("milan"))
	gateway.answer(answered("milan"))
	fabric.refuse(1, "1")
	if e := trace(""); e.Stopped || strings.Count(r.textOf(e), "probed now") != 2 {
		t.Errorf("beside another trace:\n%s", r.textOf(e))
	}
	fabric.refuse(2, "3600")
	if e := trace("the pod is asked by others: ask again in 4s"); e.Stopped || strings.Count(r.textOf(e), "probed now") != 1 {
		t.Errorf("beside many traces:\n%s", r.textOf(e))
	}
}
