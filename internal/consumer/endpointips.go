// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// endpointIPs makes pods in one provider reachable from the other providers: between providers, a pod is reached by an IP only. A pod gets
// an IP while the pod is an endpoint in a namespace of several providers.
type endpointIPs struct {
	client client.Client
	// live reads pods, which this process does not cache.
	live     client.Reader
	slices   client.Reader
	events   *kube.EventRecorder
	kubelets VirtualNodeOptions
	// rejected has the endpoints without an IP after the last pass, by namespace and pod. Used by one worker.
	rejected map[string]map[string]rejection
}

// rejection is why an endpoint got no IP: the pod does not confirm it, or an IP of another owner has the name.
type rejection struct {
	pod   remotePod
	taken types.UID
	at    time.Time
}

// rejectionTTL is the time to live of a rejection: no watch reports that a pod confirms an endpoint later.
const rejectionTTL = 10 * time.Minute

// SetupEndpointIPs registers the controller of the IPs of endpoints. The options are those of the virtual kubelets.
func SetupEndpointIPs(mgr ctrl.Manager, o VirtualNodeOptions) error {
	offloaded := labels.SelectorFromSet(labels.Set{names.SchedulingEnabled: "true"})
	watch := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &discoveryv1.EndpointSlice{}, offloaded, nil)
	if err := mgr.Add(watch); err != nil {
		return fmt.Errorf("watching the endpoints of offloaded namespaces: %w", err)
	}
	e := &endpointIPs{client: mgr.GetClient(), live: mgr.GetAPIReader(), slices: watch, kubelets: o,
		events: kube.NewEventRecorder(kube.EmitBy(mgr.GetEventRecorder("liqo-endpoint-ips"), "ShowEndpoint")), rejected: map[string]map[string]rejection{}}
	here := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{requestFor(obj.GetNamespace())}
	})
	all := handler.EnqueueRequestsFromMapFunc(e.allRequests)
	b := ctrl.NewControllerManagedBy(mgr).Named("endpoint-ips").
		WithOptions(controller.Options{RateLimiter: kube.RateLimiter()}).
		Watches(&ipamv1alpha1.IP{}, here, builder.WithPredicates(ofEndpoint)).
		Watches(&corev1.Service{}, here, builder.WithPredicates(reflectionChanged)).
		Watches(&offv1beta1.NamespaceMap{}, e.mapHandler(), builder.WithPredicates(own)).
		Watches(&offv1beta1.VirtualNode{}, all, builder.WithPredicates(nodeSpecChanged)).
		Watches(&offv1beta1.VkOptionsTemplate{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&networkingv1beta1.Configuration{}, all, builder.WithPredicates(peer.NetworksPredicate)).
		Watches(&liqov1beta1.ForeignCluster{}, all, builder.WithPredicates(directChanged)).
		WatchesRawSource(watch.Source(here))
	if err := b.Complete(e); err != nil {
		return fmt.Errorf("registering controller endpoint-ips: %w", err)
	}
	return nil
}

func requestFor(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

func (e *endpointIPs) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.Requests(ctx, e.client, &corev1.NamespaceList{}, kube.Every, client.MatchingLabels{names.SchedulingEnabled: "true"}, client.UnsafeDisableDeepCopy)
}

// mapHandler enqueues the namespaces whose entry in a NamespaceMap changed.
func (e *endpointIPs) mapHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	differing := func(before, after *offv1beta1.NamespaceMap, q queue) {
		for _, namespace := range differingNamespaces(before, after) {
			q.Add(requestFor(namespace))
		}
	}
	none := &offv1beta1.NamespaceMap{}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, ev event.CreateEvent, q queue) {
			differing(none, ev.Object.(*offv1beta1.NamespaceMap), q)
		},
		DeleteFunc: func(_ context.Context, ev event.DeleteEvent, q queue) {
			differing(ev.Object.(*offv1beta1.NamespaceMap), none, q)
		},
		UpdateFunc: func(_ context.Context, ev event.UpdateEvent, q queue) {
			differing(ev.ObjectOld.(*offv1beta1.NamespaceMap), ev.ObjectNew.(*offv1beta1.NamespaceMap), q)
		},
	}
}

func isEndpointIP(obj client.Object) bool {
	return obj.GetLabels()[names.IPType] == names.IPTypeEndpoint
}

// ofEndpoint passes the IPs of endpoints, and their deletions: the name becomes free.
var ofEndpoint = predicate.Or(predicate.And(predicate.NewPredicateFuncs(isEndpointIP), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})), kube.Deleted)

// reflectionKeys annotate a Service whose endpoints are not, or not always, translated.
var reflectionKeys = []string{names.SkipReflection, names.AllowReflection, names.UseDirectConnections}

// reflectionChanged passes Services whose annotations decide, and changes of these.
var reflectionChanged = predicate.Funcs{
	CreateFunc: func(ev event.CreateEvent) bool {
		return slices.ContainsFunc(reflectionKeys, func(key string) bool { return ev.Object.GetAnnotations()[key] != "" })
	},
	UpdateFunc: func(ev event.UpdateEvent) bool {
		return slices.ContainsFunc(reflectionKeys, func(key string) bool {
			return ev.ObjectOld.GetAnnotations()[key] != ev.ObjectNew.GetAnnotations()[key]
		})
	},
}

// directChanged passes only changes of whether a provider maps endpoints of other peers.
var directChanged = predicate.Funcs{
	CreateFunc: func(ev event.CreateEvent) bool { return mapsOthers(ev.Object) },
	UpdateFunc: func(ev event.UpdateEvent) bool { return mapsOthers(ev.ObjectOld) != mapsOthers(ev.ObjectNew) },
}

// mapsOthers reports whether a provider itself maps endpoints of other peers.
func mapsOthers(foreign client.Object) bool {
	return slices.Contains(foreign.(*liqov1beta1.ForeignCluster).Status.Capabilities, peer.DirectConnections)
}

// Reconcile creates, updates and deletes the IPs of the endpoints of a namespace.
func (e *endpointIPs) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	err := e.syncNamespace(ctx, req.Name)
	if err == nil && len(e.rejected[req.Name]) > 0 {
		err = kube.Wait(rejectionTTL, "rejected endpoints are tried again")
	}
	return kube.Result(err)
}

func (e *endpointIPs) syncNamespace(ctx context.Context, namespace string) error {
	view, err := e.gatherView(ctx, namespace)
	if err != nil {
		return err
	}
	var current ipamv1alpha1.IPList
	if err := e.client.List(ctx, &current, client.InNamespace(namespace), client.MatchingLabels{names.IPType: names.IPTypeEndpoint}); err != nil {
		return fmt.Errorf("listing the IPs of endpoints: %w", err)
	}
	wanted := view.remotePods()
	needed := len(wanted) > 0
	for i := range current.Items {
		ip := &current.Items[i]
		pod, needed := wanted[ip.Name]
		if needed && (pod.undecided || pod.isShownBy(ip)) {
			delete(wanted, ip.Name)
			if err := e.allowPeers(ctx, ip, view.allowedPeers()); err != nil {
				return err
			}
			continue
		}
		// The address of an IP is immutable. The deletion event triggers the creation of a successor.
		delete(wanted, ip.Name)
		if err := kube.DeleteObject(ctx, e.client, ip, "deleting the IP of endpoint %q", ip.Name); err != nil {
			return err
		}
	}
	return errors.Join(e.createIPs(ctx, view, wanted), e.reportExcess(ctx, view, needed))
}

// createIPs creates the IPs of pods. A rejected endpoint is tried again after a change of the endpoint, or of the IP with the same name.
func (e *endpointIPs) createIPs(ctx context.Context, view *endpointView, wanted map[string]remotePod) error {
	var errs []error
	rejected := map[string]rejection{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name].undecided {
			continue
		}
		why, err := e.createIP(ctx, view, name, wanted[name])
		if why != nil {
			rejected[name] = *why
		}
		errs = append(errs, err)
	}
	for name, r := range e.rejected[view.namespace] {
		if rejected[name].pod.uid != r.pod.uid {
			e.events.Forget(r.pod.uid)
		}
	}
	delete(e.rejected, view.namespace)
	if len(rejected) > 0 {
		e.rejected[view.namespace] = rejected
	}
	return errors.Join(errs...)
}

// excessOf is the subject of the event about a namespace that more providers have than an IP allows.
type excessOf string

// reportExcess reports once that some providers cannot reach the pods of a namespace in other providers.
func (e *endpointIPs) reportExcess(ctx context.Context, view *endpointView, needed bool) error {
	excess := len(view.providers) - names.MaxAllowedPeers
	if excess <= 0 || !needed {
		e.events.Forget(excessOf(view.namespace))
		return nil
	}
	offloading := &offv1beta1.NamespaceOffloading{}
	if err := e.client.Get(ctx, client.ObjectKey{Namespace: view.namespace, Name: names.NamespaceOffloading}, offloading); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading the NamespaceOffloading of namespace %q: %w", view.namespace, err))
	}
	e.events.RecordAbout(excessOf(view.namespace), offloading, kube.Event{
		Type: corev1.EventTypeWarning, Reason: "TooManyProviders",
		Message: fmt.Sprintf("%d of %d providers do not reach the pods of this namespace in other providers, since at most %d may: select fewer clusters", excess, len(view.providers), names.MaxAllowedPeers),
	})
	return nil
}

// allowPeers sets the peers that may use an IP.
func (e *endpointIPs) allowPeers(ctx context.Context, ip *ipamv1alpha1.IP, peers string) error {
	if ip.Annotations[names.AllowedPeers] == peers {
		return nil
	}
	patch := client.MergeFrom(ip.DeepCopy())
	metav1.SetMetaDataAnnotation(&ip.ObjectMeta, names.AllowedPeers, peers)
	if err := e.client.Patch(ctx, ip, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("updating the peers of the IP of endpoint %q: %w", ip.Name, err))
	}
	return nil
}

// gatherView reads what decides about the IPs of a namespace.
func (e *endpointIPs) gatherView(ctx context.Context, namespace string) (*endpointView, error) {
	view := &endpointView{
		namespace: namespace, providers: map[string]bool{}, direct: map[string]bool{}, nodes: map[string]string{}, reflections: map[string][]translate.ReflectionType{},
		pods: map[string]prefix.Map{}, services: map[string]*corev1.Service{},
	}
	var maps offv1beta1.NamespaceMapList
	if err := e.client.List(ctx, &maps, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	for i := range maps.Items {
		if nm := &maps.Items[i]; !peer.IsReplica(nm) && nm.Spec.DesiredMapping[namespace] != "" {
			view.providers[providerOf(nm)] = true
		}
	}
	if len(view.providers) < 2 {
		return view, nil
	}
	var endpoints discoveryv1.EndpointSliceList
	if err := e.slices.List(ctx, &endpoints, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing EndpointSlices: %w", err)
	}
	view.slices = endpoints.Items
	var nodes offv1beta1.VirtualNodeList
	if err := e.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := e.client.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the network configurations: %w", err)
	}
	var foreign liqov1beta1.ForeignClusterList
	if err := e.client.List(ctx, &foreign, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range foreign.Items {
		if mapsOthers(&foreign.Items[i]) {
			view.direct[string(foreign.Items[i].Spec.ClusterID)] = true
		}
	}
	for i := range nodes.Items {
		id := nodes.Items[i].Spec.ClusterID
		if view.providers[string(id)] {
			which, copies, err := e.reflectionOf(ctx, &nodes.Items[i])
			if err != nil {
				return nil, err
			}
			if copies {
				view.reflections[string(id)] = append(view.reflections[string(id)], which)
			}
		}
		view.nodes[nodes.Items[i].Name] = string(id)
		if c := peer.Configuration(configurations.Items, id); c != nil {
			if pods, placed := prefix.PodsOf(c); placed {
				view.pods[string(id)] = pods
			}
		}
	}
	var services corev1.ServiceList
	if err := e.client.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	for i := range services.Items {
		view.services[services.Items[i].Name] = &services.Items[i]
	}
	return view, nil
}

// reflectionOf returns the EndpointSlices that the virtual kubelet of a VirtualNode copies, and whether any are copied.
func (e *endpointIPs) reflectionOf(ctx context.Context, vn *offv1beta1.VirtualNode) (which translate.ReflectionType, copies bool, err error) {
	template := &offv1beta1.VkOptionsTemplate{}
	switch err := e.client.Get(ctx, e.kubelets.templateKey(vn), template); {
	case apierrors.IsNotFound(err):
		return translate.AllowList, true, nil // a running virtual kubelet keeps its unknown options
	case err != nil:
		return "", false, fmt.Errorf("reading the options of virtual node %q: %w", vn.Name, err)
	}
	which, copies = reflectedSlices(vn, template)
	return which, copies, nil
}

// createIP creates the IP of a pod, if the API server confirms the pod and its address: a user of EndpointSlices may not expose other addresses.
// The result is the rejection, if any. Nothing is read live for a known rejection.
func (e *endpointIPs) createIP(ctx context.Context, view *endpointView, name string, of remotePod) (*rejection, error) {
	key := client.ObjectKey{Namespace: view.namespace, Name: name}
	taken := &ipamv1alpha1.IP{}
	if err := e.client.Get(ctx, key, taken); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the IP of endpoint %q: %w", name, err)
	}
	if isEndpointIP(taken) {
		return nil, nil // it is new, and an event follows
	}
	why := &rejection{of, taken.UID, time.Now()}
	if known, has := e.rejected[view.namespace][name]; has && known.pod == of && known.taken == taken.UID && time.Since(known.at) < rejectionTTL {
		return &known, nil
	}
	pod := &corev1.Pod{}
	if err := e.live.Get(ctx, key, pod); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the pod of an endpoint: %w", err)
	}
	if pod.UID != of.uid || pod.DeletionTimestamp != nil || view.nodes[pod.Spec.NodeName] != of.provider || !slices.ContainsFunc(pod.Status.PodIPs, of.isAddress) {
		return why, nil // the slice changes, or is wrong
	}
	if taken.UID == "" {
		var err error
		if taken, err = e.createOrReadIP(ctx, view, pod, of); err != nil || taken == nil {
			return nil, err
		}
		why.taken = taken.UID
	}
	var now []kube.Event
	if taken.Spec.IP != networkingv1beta1.IP(of.address.String()) {
		now = []kube.Event{{
			Type: corev1.EventTypeWarning, Reason: "NameTaken",
			Message: fmt.Sprintf("Other providers do not reach this pod: the IP %s exists for another address", key),
		}}
	}
	e.events.Record(pod, now...)
	return why, nil
}

// createOrReadIP creates the IP of a pod. If the name has another owner, unknown to the cache, the existing IP is returned.
func (e *endpointIPs) createOrReadIP(ctx context.Context, view *endpointView, pod *corev1.Pod, of remotePod) (*ipamv1alpha1.IP, error) {
	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name,
			Labels:          map[string]string{names.IPType: names.IPTypeEndpoint, names.AppManagedBy: managedBy},
			Annotations:     map[string]string{names.AllowedPeers: view.allowedPeers()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: of.uid}},
		},
		Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(of.address.String())},
	}
	if err := e.client.Create(ctx, ip); err == nil || apierrors.IsNotFound(err) { // with the namespace
		return nil, nil
	} else if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating the IP of endpoint %q: %w", pod.Name, err)
	}
	taken := &ipamv1alpha1.IP{}
	if err := e.live.Get(ctx, client.ObjectKeyFromObject(ip), taken); err != nil {
		return nil, client.IgnoreNotFound(fmt.Errorf("reading the IP of endpoint %q: %w", pod.Name, err))
	}
	if isEndpointIP(taken) {
		return nil, nil
	}
	return taken, nil
}

// endpointView is the input of the decision about the IPs of one namespace.
type endpointView struct {
	namespace string
	// providers are the clusters that have the namespace.
	providers map[string]bool
	// nodes has the provider of each virtual node.
	nodes map[string]string
	// direct are the providers with their own mapping of endpoints of other peers.
	direct map[string]bool
	// reflections are the EndpointSlices that the virtual kubelets of each provider copy.
	reflections map[string][]translate.ReflectionType
	// pods has the networks of the pods of each provider, as this cluster sees them; a provider is missing while they are not known.
	pods     map[string]prefix.Map
	slices   []discoveryv1.EndpointSlice
	services map[string]*corev1.Service
}

// allowedPeers returns the providers of the namespace: the peers that may use the IPs.
func (v *endpointView) allowedPeers() string {
	peers := slices.Sorted(maps.Keys(v.providers))
	return strings.Join(peers[:min(len(peers), names.MaxAllowedPeers)], ",")
}

// remotePod is an endpoint in a provider, needed by other providers.
type remotePod struct {
	uid      types.UID
	provider string
	address  netip.Addr
	// undecided: the networks of the provider are not known at this moment. An IP stays.
	undecided bool
}

func (p remotePod) isAddress(ip corev1.PodIP) bool { return ip.IP == p.address.String() }

// isShownBy reports whether an IP is that of this pod and address.
func (p remotePod) isShownBy(ip *ipamv1alpha1.IP) bool {
	addr, err := netip.ParseAddr(string(ip.Spec.IP))
	return err == nil && addr == p.address && slices.ContainsFunc(ip.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.uid })
}

// remotePods returns the pods that need an IP, by name: endpoints in a provider, if another provider has the namespace. An address counts
// only in the networks of the provider's pods, because providers report it. A pod gets one IP, for the IPv4 address if any.
func (v *endpointView) remotePods() map[string]remotePod {
	out := map[string]remotePod{}
	if len(v.providers) < 2 {
		return out
	}
	for i := range v.slices {
		receivers := v.listReceivers(&v.slices[i])
		if len(receivers) == 0 {
			continue
		}
		for j := range v.slices[i].Endpoints {
			name, pod, ok := v.remotePod(&v.slices[i].Endpoints[j])
			ok = ok && slices.ContainsFunc(receivers, func(id string) bool { return id != pod.provider })
			if other, has := out[name]; ok && (!has || pod.address.Less(other.address)) {
				out[name] = pod
			}
		}
	}
	return out
}

// listReceivers returns the providers to which virtual kubelets copy a slice with translated addresses.
func (v *endpointView) listReceivers(slice *discoveryv1.EndpointSlice) (out []string) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if translate.IsAPIServer(v.namespace, name) {
		return nil
	}
	var of metav1.Object
	direct := false
	if service, known := v.services[name]; known {
		of, direct = service, translate.UsesDirectConnections(service)
	}
	for id := range v.providers {
		if direct && v.direct[id] {
			continue
		}
		if slices.ContainsFunc(v.reflections[id], func(which translate.ReflectionType) bool { return which.AllowsSlice(slice, of) }) {
			out = append(out, id)
		}
	}
	return out
}

func (v *endpointView) remotePod(e *discoveryv1.Endpoint) (name string, pod remotePod, ok bool) {
	if e.NodeName == nil || e.TargetRef == nil || e.TargetRef.Kind != "Pod" || e.TargetRef.Namespace != v.namespace || len(e.Addresses) == 0 {
		return "", pod, false
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	provider, virtual := v.nodes[*e.NodeName]
	if err != nil || !virtual {
		return "", pod, false
	}
	networks, known := v.pods[provider]
	pod = remotePod{uid: e.TargetRef.UID, provider: provider, address: addr, undecided: !known}
	return e.TargetRef.Name, pod, !known || networks.ContainsLocal(addr)
}
