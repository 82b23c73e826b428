// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package virtualkubelet is the virtual kubelet: it represents a provider as a Node, runs the pods of that node in the provider, copies
// the objects that the pods need, and serves the kubelet API.
package virtualkubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"

	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// process is one virtual kubelet.
type process struct {
	options    Options
	clients    kubernetes.Interface
	mgr        ctrl.Manager
	namespaces *remoteNamespaces
	health     *providerHealth
	virtual    atomic.Pointer[offv1beta1.VirtualNode]
	// checkedNamespaces counts the remote namespaces in which our permissions were checked.
	checkedNamespaces atomic.Uint32
	conn              atomic.Pointer[multicluster.Conn]
	// misbehaviours holds which of our limits the provider exceeded.
	misbehaviours *multicluster.Misbehaviours
	way           atomic.Pointer[providerProxy]
	reader        atomic.Pointer[client.Reader]
	network       *networkState
	// available tracks whether the pods can be reached.
	available *availability
	// metrics serves the metrics of the pods.
	metrics *podMetrics
	// localCluster and remoteCluster are the local and the remote cluster for all engines.
	localCluster, remoteCluster *kube.Cluster
	// broadcaster takes the events of all components.
	broadcaster record.EventBroadcaster
	// pods is the engine that reflects the pods, nil until a kubeconfig exists.
	pods atomic.Pointer[multicluster.Engine]
	// shared is the engine that reflects the shared objects of the provider's virtual nodes, nil until this process was the leader once.
	shared atomic.Pointer[multicluster.Engine]
	// connected is closed when conn is set; failed receives errors that only a new process can recover from.
	connected chan struct{}
	failed    chan error
	// leaseDue signals that the Node lease is to be renewed now.
	leaseDue chan struct{}
}

// Run runs a virtual kubelet until ctx ends or an error is fatal.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	if err := o.validateOptions(); err != nil {
		return fmt.Errorf("checking the options: %w", err)
	}
	p := &process{options: o, namespaces: &remoteNamespaces{}, misbehaviours: multicluster.NewMisbehaviours(string(o.Provider), nil), connected: make(chan struct{}), failed: make(chan error, 1), leaseDue: make(chan struct{}, 1)}
	if err := p.prepareProcess(ctx); err != nil {
		return err
	}
	return p.mgr.Start(ctx)
}

func (p *process) prepareProcess(ctx context.Context) error {
	var err error
	if p.clients, err = kubernetes.NewForConfig(p.options.Config); err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	secret, err := p.awaitVirtualNode(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the virtual node: %w", err)
	}
	managed := managerOptions(p.options, secret)
	managed.LeaseOwner = p.ownerReference()
	if p.mgr, err = kube.NewManager(p.options.Config, managed); err != nil {
		return err
	}
	p.broadcaster = p.newBroadcaster(ctx)
	p.available = &availability{pods: p.mgr.GetClient(), changed: p.lookAgain, log: p.options.Log}
	nodeWake, podWake := make(chan event.GenericEvent, 1), make(chan event.GenericEvent, 1)
	p.health = &providerHealth{
		ping: p.pingProvider, interval: p.options.PingInterval, timeout: p.options.PingTimeout,
		failureThreshold: p.options.NodeLeaseDuration, now: time.Now, changed: func() { wakeUp(nodeWake); p.renewLease() }, log: p.options.Log,
	}
	p.misbehaviours.Changed = func() { wakeUp(nodeWake) }
	p.metrics = &podMetrics{
		open: p.openMetrics, resources: resourceMetrics{list: p.listPodMetrics, pairs: p.namespaces.Pairs}, list: p.listRemote, changed: func() { wakeUp(nodeWake) }, node: p.options.Node, started: time.Now(), now: time.Now, log: p.options.Log,
	}
	if err := p.setupControllers(ctx, nodeWake, podWake); err != nil {
		return err
	}
	return p.mgr.Add(p)
}

// ownerReference returns the VirtualNode as an owner reference.
func (p *process) ownerReference() *metav1.OwnerReference {
	vn := p.virtual.Load()
	return &metav1.OwnerReference{APIVersion: offv1beta1.GroupVersion.String(), Kind: "VirtualNode", Name: vn.Name, UID: vn.UID}
}

// renewLease has the lease renewed at once, unless a renewal is due already.
func (p *process) renewLease() {
	select {
	case p.leaseDue <- struct{}{}:
	default:
	}
}

// wakeUp sends a signal, unless one is still pending.
func wakeUp(to chan<- event.GenericEvent) {
	select {
	case to <- event.GenericEvent{Object: &corev1.Node{}}:
	default:
	}
}

const pollInterval = time.Second

// awaitVirtualNode waits for the VirtualNode of this process and returns the name of its kubeconfig Secret.
func (p *process) awaitVirtualNode(ctx context.Context) (secret string, err error) {
	direct, err := client.New(p.options.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		return "", err
	}
	defer p.answerProbes()()
	key := types.NamespacedName{Namespace: p.options.TenantNamespace, Name: p.options.Node}
	for waiting := false; ; waiting = true {
		vn := &offv1beta1.VirtualNode{}
		err := direct.Get(ctx, key, vn)
		if err == nil {
			p.virtual.Store(vn)
			if p.options.KubeconfigSecret != "" {
				return p.options.KubeconfigSecret, nil
			}
			if ref := vn.Spec.KubeconfigSecretRef; ref != nil && ref.Name != "" {
				return ref.Name, nil
			}
		} else if apierrors.IsUnauthorized(err) {
			return "", err
		}
		// Also while the API server is away: the restart of an exited process is delayed longer each time.
		if !waiting {
			p.options.Log.Info("waiting for the virtual node and its kubeconfig", "virtualNode", key.String(), "error", err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// answerProbes answers liveness probes until the manager does. It stops when the returned
// function is called.
func (p *process) answerProbes() (stop func()) {
	if p.options.HealthAddress == "0" {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: cmp.Or(p.options.HealthAddress, fmt.Sprintf(":%d", names.HealthPort)), Handler: mux, ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			p.options.Log.Error(err, "answering probes failed")
		}
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// managerOptions restricts every cache, and thereby the permissions of this process, to the objects of this node.
func managerOptions(o Options, secret string) kube.ManagerOptions {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	tenant := map[string]cache.Config{o.TenantNamespace: {}}
	return kube.ManagerOptions{
		Name:                    o.Node,
		LeaderElection:          o.LeaseEnabled,
		LeaderElectionNamespace: o.TenantNamespace,
		Identity:                o.PodName,
		LeaseDuration:           o.LeaseDuration,
		RenewDeadline:           o.LeaseRenew,
		RetryPeriod:             o.LeaseRetry,
		HealthAddress:           o.HealthAddress,
		MetricsAddress:          o.MetricsAddress,
		PlainMetrics:            o.PlainMetrics,
		ProfilingAddress:        o.ProfilingAddress,
		Log:                     o.Log,
		RepeatNames:             o.RepeatNames,
		Objects: map[client.Object]cache.ByObject{
			&offv1beta1.VirtualNode{}:     {Namespaces: tenant, Field: named(o.Node)},
			&offv1beta1.NamespaceMap{}:    {Namespaces: map[string]cache.Config{cmp.Or(o.MapNamespace, o.TenantNamespace): {}}},
			&corev1.Secret{}:              {Namespaces: tenant, Field: named(secret)},
			&corev1.Node{}:                {Field: named(o.Node)},
			&liqov1beta1.ForeignCluster{}: {Field: named(string(o.Provider))},
			&corev1.Pod{}:                 {Field: fields.OneTermEqualSelector("spec.nodeName", o.Node), Transform: slimLocal},
		},
	}
}

// setupControllers registers the controllers: all reactions to objects of the tenant namespace and of the cluster.
func (p *process) setupControllers(ctx context.Context, nodeWake, podWake chan event.GenericEvent) error {
	version, err := p.clients.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("asking for the version of the cluster: %w", err)
	}
	node := &nodeSync{
		client: p.mgr.GetClient(), options: p.options, health: p.health, misbehaviours: p.misbehaviours, metrics: p.metrics, kubernetesVersion: version.GitVersion, now: time.Now,
		seen: p.virtual.Store, ready: p.available.setAvailable, registered: p.renewLease,
	}
	if err := setupNode(p.mgr, node, nodeWake); err != nil {
		return err
	}
	if err := setupMapping(p.mgr, &namespaceMapping{
		client: p.mgr.GetClient(), provider: p.options.Provider, namespaces: p.namespaces, changed: func() {
			wakeUp(podWake)
			p.lookAtPolicies()
		},
	}); err != nil {
		return err
	}
	shown := &publishedIPs{
		client: p.mgr.GetClient(), installation: p.options.LiqoNamespace,
		changed: func(namespace string) {
			p.lookAtSlicesOf(namespace)
			p.lookAtPolicies()
		},
		led: func(ctx context.Context) error { return p.network.lookAtPods(ctx) },
	}
	if err := setupPublishedIPs(ctx, p.mgr, shown); err != nil {
		return err
	}
	p.network = &networkState{client: p.mgr.GetClient(), options: p.options, changed: p.lookAgain, slices: p.lookAtNetwork, shown: shown}
	if err := setupNetwork(ctx, p.mgr, p.network); err != nil {
		return err
	}
	if err := setupCredentials(p.mgr, &providerCredentials{
		client: p.mgr.GetClient(), process: p, events: newEventLog(p.newRecorder("liqo-virtual-kubelet")),
	}); err != nil {
		return err
	}
	return setupFallback(p.mgr, &fallback{
		client: p.mgr.GetClient(), live: p.mgr.GetAPIReader(), options: p.options, namespaces: p.namespaces, remote: p.remoteReader,
		events: newEventLog(p.newRecorder("liqo-pod-reflection")),
	}, podWake)
}

// lookAgain enqueues a pod. Pods that are not reflected yet will be anyway.
func (p *process) lookAgain(pod client.ObjectKey) {
	engine := p.pods.Load()
	if remoteNamespace, ok := p.namespaces.RemoteOf(pod.Namespace); ok && engine != nil {
		engine.Enqueue(podsKind, multicluster.Pair{Local: pod.Namespace, Remote: remoteNamespace}, pod.Name)
	}
}

// prioritize has an object copied before others in the queue, if this process reflects the shared objects.
func (p *process) prioritize(kind string, pair multicluster.Pair, name string) {
	if engine := p.shared.Load(); engine != nil {
		engine.EnqueueFirst(kind, pair, name)
	}
}

// lookAtNetwork enqueues all EndpointSlices and NetworkPolicies.
func (p *process) lookAtNetwork() {
	for _, pair := range p.namespaces.Pairs() {
		p.lookAtSlicesOf(pair.Local)
	}
	p.lookAtPolicies()
}

// lookAtPolicies enqueues all NetworkPolicies.
func (p *process) lookAtPolicies() {
	engine := p.shared.Load()
	if engine == nil {
		return
	}
	for _, pair := range p.namespaces.Pairs() {
		engine.Enqueue(policiesKind, pair, allPolicies)
	}
}

// policyView returns the addresses of both clusters for NetworkPolicies.
func (p *process) policyView(ctx context.Context) (translate.PolicyView, error) {
	reach, err := p.network.readReach(ctx)
	if err != nil || !reach.enabled {
		return translate.PolicyView{Flat: true}, err
	}
	exposed, err := p.network.shown.allTranslations(ctx)
	return translate.PolicyView{Own: p.namespaces.Networks(), Peer: reach.peer.Pairs(), Exposed: exposed}, err
}

// lookAtSlicesOf enqueues the EndpointSlices of a namespace.
func (p *process) lookAtSlicesOf(namespace string) {
	engine := p.shared.Load()
	if remoteNamespace, ok := p.namespaces.RemoteOf(namespace); ok && engine != nil {
		engine.Enqueue(slicesKind, multicluster.Pair{Local: namespace, Remote: remoteNamespace}, allSlices)
	}
}

// newBroadcaster returns the broadcaster of events. The queues are long even with few users: all components share one broadcaster.
func (p *process) newBroadcaster(ctx context.Context) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.clients.CoreV1().Events(corev1.NamespaceAll)})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return broadcaster
}

// newRecorder returns the event recorder of the given component.
func (p *process) newRecorder(component string) record.EventRecorder {
	return p.broadcaster.NewRecorder(kube.Scheme, corev1.EventSource{Component: component, Host: p.options.Node})
}

var errNotConnected = errors.New("no usable kubeconfig exists yet")

func (p *process) pingProvider(ctx context.Context) error {
	conn := p.conn.Load()
	if conn == nil {
		return errNotConnected
	}
	if err := conn.Healthy(ctx); err != nil {
		return err
	}
	return p.mayWork(ctx)
}

// maxCheckedNamespaces is how many remote namespaces are checked at most: all have to answer within the time of one ping.
const maxCheckedNamespaces = 3

// mayWork lists the objects read by the reflection, in one remote namespace after the other until one answers: a provider that
// revoked our permissions still answers pings, and established watches go on for minutes.
func (p *process) mayWork(ctx context.Context) error {
	var refused error
	remotes := p.namespaces.Remotes()
	for range min(maxCheckedNamespaces, len(remotes)) {
		remoteNamespace := remotes[int(p.checkedNamespaces.Add(1))%len(remotes)] // other namespaces each time: a few may be terminating
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("ShadowPodList"))
		err := p.remoteReader().List(ctx, list, client.InNamespace(remoteNamespace), client.Limit(1))
		if refused != nil && err != nil && ctx.Err() != nil {
			break // no answer does not revoke the refusal
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			return nil // other errors are reported by the reflection itself
		}
		refused = err
	}
	if refused != nil {
		return fmt.Errorf("%w: %w", multicluster.ErrRefused, refused)
	}
	return nil
}

// offloadingPatch returns the present offloading patch of the VirtualNode, with the options' labels and annotations not to reflect.
func (p *process) offloadingPatch() *offv1beta1.OffloadingPatch {
	patch := *translate.PatchOf(p.virtual.Load())
	patch.LabelsNotReflected = slices.Concat(patch.LabelsNotReflected, p.options.LabelsNotReflected)
	patch.AnnotationsNotReflected = slices.Concat(patch.AnnotationsNotReflected, p.options.AnnotationsNotReflected)
	return &patch
}

// checkVersion returns why the provider's version of Kubernetes does not suffice for a pod, or "".
func (p *process) checkVersion(pod *corev1.Pod) string {
	return policy.CheckMinor(pod, p.virtual.Load().Spec.Labels)
}

func (p *process) specGeneration() int64 { return p.virtual.Load().Generation }

// remoteUser returns the value of the label CreatorUser for objects that this process creates in the provider; empty if unknown.
func (p *process) remoteUser() string {
	if conn := p.conn.Load(); conn != nil {
		return policy.CreatorUser(conn.User())
	}
	return ""
}

func (p *process) remoteReader() client.Reader {
	if reader := p.reader.Load(); reader != nil {
		return *reader
	}
	return nil
}

// connectProvider makes the first connection, from a readable kubeconfig.
func (p *process) connectProvider(kubeconfig []byte) error {
	conn, err := multicluster.NewConn(kubeconfig, multicluster.AllowLoopback(p.options.AllowLoopbackPeers), multicluster.WithMisbehaviours(p.misbehaviours))
	if err != nil {
		return err
	}
	if !conn.NamesAuthority() && p.options.PublicRoots != nil {
		p.options.PublicRoots()
	}
	proxy, err := newProvider(conn, p.options.Log)
	if err != nil {
		return err
	}
	var reader client.Reader
	if reader, err = client.New(conn.Config(), client.Options{Scheme: kube.Scheme, Mapper: p.mgr.GetRESTMapper()}); err != nil {
		return fmt.Errorf("making the client of the provider: %w", err)
	}
	p.way.Store(proxy)
	p.reader.Store(&reader)
	p.conn.Store(conn)
	close(p.connected)
	return nil
}

// listenKubelet opens the port of the kubelet API.
func (p *process) listenKubelet(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(p.options.ListenPort)))
	if err != nil {
		return nil, fmt.Errorf("opening the port of the kubelet API: %w", err)
	}
	return listener, nil
}

// localConfig returns the configuration for clients other than the manager's.
func (p *process) localConfig() *rest.Config { return p.mgr.GetConfig() }
