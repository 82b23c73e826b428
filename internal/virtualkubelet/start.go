// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
)

// Start runs the parts that need the provider, once this replica is the leader and a kubeconfig exists.
func (p *process) Start(ctx context.Context) error {
	serveKubelet, err := p.openKubelet(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveKubelet(ctx) })
	group.Go(func() error {
		select {
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		select {
		case <-p.connected:
			return p.runConnected(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

func (p *process) runConnected(ctx context.Context) error {
	if err := p.meetClusters(); err != nil {
		return err
	}
	lease := &nodeLease{
		clients: p.clients, node: p.options.Node, duration: p.options.NodeLeaseDuration,
		health: p.health, now: time.Now, log: p.options.Log, due: p.leaseDue,
	}
	recorder, kinds := p.podEvents()
	pods := &podKind{
		options: p.options, patch: p.offloadingPatch, tooOld: p.checkVersion, generation: p.specGeneration, user: p.remoteUser, ips: p.network.podIPs, route: p.network.readRoute,
		events: newEventLog(recorder), available: p.available, states: newPodStates(time.Now), prioritize: p.prioritize,
	}
	engine, err := p.newEngine(append(kinds, pods.engineKind())...)
	if err != nil {
		return err
	}
	p.pods.Store(engine)
	p.namespaces.Attach(&pods.roots)
	defer p.namespaces.Detach(&pods.roots)
	p.namespaces.Attach(&pods.references)
	defer p.namespaces.Detach(&pods.references)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.awaitSync(ctx, engine)
		return p.health.runChecks(ctx)
	})
	group.Go(func() error { return lease.runRenewal(ctx) })
	group.Go(func() error { return p.runEngine(ctx, engine) })
	if p.options.APIServerSupport {
		group.Go(func() error { return pods.states.runRenewals(ctx, p.lookAgain) })
	}
	group.Go(func() error { return p.runShared(ctx) })
	defer p.conn.Load().Close()
	return group.Wait()
}

// settleInterval is the polling interval of awaitSync.
const settleInterval = 50 * time.Millisecond

// awaitSync waits until the pods of all remote namespaces are synced: before, the readiness of the Node stays unchanged. The wait is
// limited, because one unreadable namespace must not take the node from all others. The wait excludes events, because a provider may
// deny them.
func (p *process) awaitSync(ctx context.Context, engine *multicluster.Engine) {
	ctx, cancel := context.WithTimeout(ctx, p.options.NodeLeaseDuration/2)
	defer cancel()
	for !p.namespaces.Synced(engine, podsKind) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleInterval):
		}
	}
}

// meetClusters prepares both clusters for all engines: API discovery and connections are needed once.
func (p *process) meetClusters() error {
	remoteCluster, err := kube.NewCluster(p.conn.Load().Config())
	if err != nil {
		return fmt.Errorf("preparing the provider: %w", err)
	}
	remoteCluster.Budget = &kube.CacheBudget{Bytes: p.options.PeerCacheLimit, Objects: p.options.PeerCacheLimit / minObjectSize, Full: p.misbehaviours.Report}
	budget := kube.WriteBudget{Rate: writeRate, Burst: writeBurst, Exceeded: p.misbehaviours.Report}.LimitWrites(p.localConfig())
	limited, err := rest.HTTPClientFor(budget)
	if err != nil {
		return fmt.Errorf("preparing this cluster: %w", err)
	}
	p.localCluster = &kube.Cluster{Config: budget, HTTP: limited, Mapper: p.mgr.GetRESTMapper(), Scheme: kube.Scheme, Extends: remoteCluster.Budget}
	p.remoteCluster = &remoteCluster
	return nil
}

// These limits bound the local writes that the provider can cause. Thousands of pods starting at once stay below.
const writeRate, writeBurst = 512 << 10, 256 << 20

// minObjectSize is the least average size of the provider's objects in the cache: a full cache of smaller ones takes more memory
// than counted.
const minObjectSize = 1 << 10

func (p *process) newEngine(kinds ...multicluster.Kind) (*multicluster.Engine, error) {
	engine, err := multicluster.New(multicluster.Options{
		Local: p.localConfig(), Remote: p.conn.Load(), LocalCluster: p.localCluster, RemoteCluster: p.remoteCluster, Kinds: kinds,
		FieldManager: names.ReflectionFieldManager, Log: p.options.Log, Peer: string(p.options.Provider), Handled: p.countItem,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the reflection: %w", err)
	}
	return engine, nil
}

func (p *process) runEngine(ctx context.Context, engine *multicluster.Engine) error {
	p.namespaces.Attach(engine)
	defer p.namespaces.Detach(engine)
	return engine.Run(ctx)
}

// sharedLease is held by one of the virtual kubelets of a provider: only the holder reflects their shared objects.
const sharedLease = "virtual-kubelet-leader-election"

// runShared reflects the objects that the pods of all virtual nodes of this provider need, while this process is the leader.
func (p *process) runShared(ctx context.Context) error {
	if !p.options.LeaseEnabled {
		return p.reflectShared(ctx)
	}
	turns := make(chan context.Context)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for ctx.Err() == nil {
			if err := p.whileFit(ctx, func(ctx context.Context) error { return p.electLeader(ctx, turns) }); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for {
			select {
			case turn := <-turns:
				if err := p.reflectShared(turn); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// whileFit waits until the provider accepts this virtual node's credentials, and then runs do while they are accepted: the
// credentials of the other virtual nodes may be valid when ours are not.
func (p *process) whileFit(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	awaitVerdict := func(is bool) {
		for (p.health.classify() == answers) != is && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(p.options.LeaseRetry):
			}
		}
	}
	if awaitVerdict(true); ctx.Err() != nil {
		return nil
	}
	watch.Go(func() {
		awaitVerdict(false)
		stop()
	})
	return do(ctx)
}

// electLeader waits for the shared lease, and sends a context that lasts as long as the lease is held.
func (p *process) electLeader(ctx context.Context, turns chan<- context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            kube.NewLease(p.clients.CoordinationV1(), p.options.TenantNamespace, sharedLease, p.leaderIdentity(), p.ownerReference()),
		LeaseDuration:   p.options.LeaseDuration,
		RenewDeadline:   p.options.LeaseRenew,
		RetryPeriod:     p.options.LeaseRetry,
		ReleaseOnCancel: true,
		Name:            sharedLease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(turn context.Context) {
				select {
				case turns <- turn:
				case <-turn.Done():
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the lease %s: %w", sharedLease, err)
	}
	elector.Run(ctx)
	return nil
}

// leaderIdentity returns the identity of this replica in leases.
func (p *process) leaderIdentity() string {
	host, _ := os.Hostname()
	return p.options.Node + "/" + cmp.Or(p.options.PodName, host)
}

// openKubelet opens the port of the kubelet API, before its address is published, and returns the function that serves the port. The port
// is served from the first moment on: logs of running pods can be read even while the provider is being reconnected.
func (p *process) openKubelet(ctx context.Context) (serveIt func(context.Context) error, err error) {
	listener, err := p.listenKubelet(ctx)
	if err != nil {
		return nil, err
	}
	gate, err := newGate(ctx, p.clients, p.options.Node, p.options.Log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	events := newEventLog(p.newRecorder("liqo-virtual-kubelet"))
	certs, err := newCertificates(ctx, p.clients, p.options.Certificate, p.options.Node, p.options.NodeIP, func(err error) {
		p.options.Log.Info("no new serving certificate", "reason", err.Error())
		events.record(p.virtual.Load(), corev1.EventTypeWarning, reasonNoCertificate, err.Error())
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	api := &kubeletAPI{find: p.findPod, list: p.listPods, remoteNamespace: p.namespaces.RemoteOf, send: p.sendToLeader, metrics: p.metrics, log: p.options.Log}
	return func(ctx context.Context) error {
		return serveTLS(ctx, listener, gate.wrapHandler(api.newHandler()), certs)
	}, nil
}

// reasonNoCertificate is the reason of the event on the VirtualNode.
const reasonNoCertificate = "ServingCertificateFailed"

// sendToLeader forwards a request to the provider.
func (p *process) sendToLeader(w http.ResponseWriter, req *http.Request, to *url.URL) {
	proxy := p.way.Load()
	if proxy == nil {
		writeText(w, http.StatusBadGateway, "the provider is not known yet")
		return
	}
	proxy.forwardRequest(w, req, to)
}

func (p *process) findPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := p.mgr.GetAPIReader().Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	if err != nil || pod.Spec.NodeName != p.options.Node {
		return nil, errNoPod
	}
	return pod, nil
}

func (p *process) listPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := p.mgr.GetAPIReader().List(ctx, &pods, client.MatchingFields{"spec.nodeName": p.options.Node}); err != nil {
		return nil, fmt.Errorf("listing the pods of the node: %w", err)
	}
	return pods.Items, nil
}

// openMetrics requests a page of the metric agent of the provider.
func (p *process) openMetrics(ctx context.Context, path string) (io.ReadCloser, error) {
	proxy := p.way.Load()
	if proxy == nil {
		return nil, errNotConnected
	}
	return proxy.openPage(ctx, agentPath(string(p.options.ClusterID), path))
}

// listPodMetrics lists the usages of pods that metrics-server of the provider knows.
func (p *process) listPodMetrics(ctx context.Context, namespace string) (out podMetricsList, err error) {
	conn := p.conn.Load()
	if conn == nil {
		return out, errNotConnected
	}
	api, err := discovery.NewDiscoveryClientForConfig(conn.Config())
	if err != nil {
		return out, fmt.Errorf("making the client of the provider: %w", err)
	}
	data, err := api.RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", namespace, "pods").DoRaw(ctx)
	if err != nil {
		return out, fmt.Errorf("listing the metrics of pods: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("reading the metrics of pods: %w", err)
	}
	return out, nil
}

// listRemote returns the UIDs of the pods of this node that are in the provider.
func (p *process) listRemote(ctx context.Context) (localPods, error) {
	var list corev1.PodList
	if err := p.mgr.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of the node: %w", err)
	}
	pods := localPods{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Labels[names.ShadowPod] == "true" {
			pods[client.ObjectKeyFromObject(pod)] = pod.UID
		}
	}
	return pods, nil
}

// Metrics for dashboards of the original. The metrics of the engine say more, by kind and peer.
var (
	reflectionLabels = []string{"namespace", "reflector_resource", "cluster_id", "node_name"}

	reflectedItems = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_item_counter", Help: "Items that were handled without an error.",
	}, reflectionLabels)
	reflectionErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_error_counter", Help: "Failed attempts, or attempts to be retried later.",
	}, reflectionLabels)
)

func init() { metrics.Registry.MustRegister(reflectedItems, reflectionErrors) }

// reflectorResources are the kinds of objects by the names of the engine.
var reflectorResources = map[string]string{
	podsKind: podKindName, "services": "Service", slicesKind: sliceKindName, "ingresses": "Ingress", policiesKind: "NetworkPolicy", "configmaps": "ConfigMap",
	"secrets": "Secret", claimsKind: claimKindName, eventsKind: "Event",
}

// countItem counts a reconciled item.
func (p *process) countItem(pair multicluster.Pair, kind string, err error) {
	resource, ok := reflectorResources[kind]
	if !ok {
		resource = kind
	}
	labels := []string{pair.Local, resource, string(p.options.Provider), p.options.Node}
	if err != nil {
		reflectionErrors.WithLabelValues(labels...).Inc()
		return
	}
	reflectedItems.WithLabelValues(labels...).Inc()
}
