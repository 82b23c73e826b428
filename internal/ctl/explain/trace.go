// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// mostEndpoints is the number of traced endpoints of a Service.
const mostEndpoints = 5

// NewTraceCommand returns the command "trace".
func NewTraceCommand(c *cluster.Session) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "trace POD POD|SERVICE|IP",
		Short: "Show the hops of a packet between pods of two clusters, and the one that is broken",
		Long: "Show the hops of a packet from a pod of the consumer, or one of its pods in a provider, to another pod, a Service or an address, as this cluster sees it: " +
			"pod, fabric, gateway, tunnel, gateway, fabric, pod, with the addresses at each hop. Nodes and gateways send probes now, to their peers, and what these say is checked hop by hop. Nothing is changed.\n\n" +
			"svc/NAME is the Service where a pod has the same name, NAME.NAMESPACE a pod or Service of another namespace. With --remote-kubeconfig the hops in the provider are checked, too. The exit code is 1 if a hop is broken.",
		Example: "  liqoctl trace client web-0 -n shop\n" +
			"  liqoctl trace client web-0 -n shop --remote-kubeconfig milan.kubeconfig\n" +
			"  liqoctl trace client svc/web.shop -n test\n" +
			"  liqoctl trace client 10.71.2.7 -n test --output json",
		Args: cluster.CheckArguments(cobra.ExactArgs(2), checkNameOrAddress),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.runTrace(cmd.Context(), c, isRemoteGiven(cmd.Flags()), args[0], args[1])
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.CompleteOne(func() client.ObjectList { return &corev1.PodList{} }, nil)(cmd, nil, typed)
		},
	}
	o.addFlags(cmd, "The namespace of the pods and Services; that of the kubeconfig's context if empty")
	return cmd
}

// checkNameOrAddress rejects a text that is neither a name nor an address.
func checkNameOrAddress(text string) error {
	if _, err := netip.ParseAddr(text); err == nil {
		return nil
	}
	kind, name := splitKind(text)
	if kind != "" && kind != "pod" && kind != "service" {
		return ui.Fail("%q is neither a pod nor a Service", text).Hint("It is NAME, pod/NAME, svc/NAME or an address")
	}
	return cluster.CheckName(name)
}

// traceTime bounds the reading of both clusters: a cluster may stop answering.
const traceTime = 3 * readTime

func (o *options) runTrace(ctx context.Context, c *cluster.Session, asksRemote bool, from, to string) error {
	namespace, err := c.ResourceNamespace(o.namespace)
	if err != nil {
		return err
	}
	local, remote, err := o.identifyClusters(ctx, c, asksRemote)
	if err != nil {
		return err
	}
	t := &tracer{local: local, remote: remote, namespace: namespace}
	limited, cancel := context.WithTimeout(ctx, traceTime)
	defer cancel()
	e, err := t.traceNames(limited, from, to)
	if err != nil {
		return err
	}
	if t.probes.problem != "" {
		c.Info("The state of hops is that of the probes that always run; none was sent now: %s", t.probes.problem)
	}
	for _, note := range t.notes {
		c.Info("%s", note)
	}
	return o.printExplanation(c, e)
}

// tracer reads the facts of a trace.
type tracer struct {
	local, remote *cluster.Cluster // remote is nil if not asked
	namespace     string
	near, far     *diagnose.Scene
	// nearReader and farReader read more facts of the scenes.
	nearReader, farReader *facts.Reader
	probes                probeSender
	// notes are hints that the user did not ask for, and has to know.
	notes []string
}

// traceNames returns the hops between two ends, by their names on the command line.
func (t *tracer) traceNames(ctx context.Context, from, to string) (*diagnose.Explanation, error) {
	source, _, err := t.findSubject(ctx, from)
	if err != nil {
		return nil, t.local.WrapWithCluster(err)
	}
	if source == nil {
		return nil, ui.Fail("%s is a Service: packets begin at a pod", from)
	}
	if err := t.readScenes(ctx); err != nil {
		return nil, err
	}
	start, err := t.endOfPod(ctx, source)
	if err != nil {
		return nil, err
	}
	if address, err := netip.ParseAddr(to); err == nil {
		return t.traceAddress(ctx, start, address)
	}
	pod, service, err := t.findSubject(ctx, to)
	if err != nil {
		return nil, t.local.WrapWithCluster(err)
	}
	if pod != nil && service != nil {
		t.notes = append(t.notes, fmt.Sprintf("%s is a pod and a Service; this is the way to the pod, and svc/%s is the Service", to, to))
	}
	if pod == nil {
		return t.traceService(ctx, start, service)
	}
	end, err := t.endOfPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	return t.traceTo(ctx, start, end)
}

// traceTo returns the hops between two ends. The way between two providers is two ways, both through the consumer.
func (t *tracer) traceTo(ctx context.Context, from, to diagnose.End) (*diagnose.Explanation, error) {
	if id := t.near.ClusterID; from.Cluster != to.Cluster && string(from.Cluster) != id && string(to.Cluster) != id {
		return nil, ui.Fail("%s is in %s, and %s in %s: such packets go through this cluster", from.Name, from.Cluster, to.Name, to.Cluster).
			Hint("Trace both parts, each with a pod of this cluster").See("docs/services.md#several-providers")
	}
	if from.Cluster != to.Cluster {
		t.sendProbes(ctx, &from, to.Cluster)
		t.sendProbes(ctx, &to, from.Cluster)
	}
	return diagnose.Trace(from, to), nil
}

// sendProbes sends probes to the other cluster from the node of an end and from its gateway.
func (t *tracer) sendProbes(ctx context.Context, end *diagnose.End, other liqov1beta1.ClusterID) {
	c := t.local
	if end.Scene == nil {
		return
	}
	if end.Scene == t.far {
		c = t.remote
	}
	t.probes.sendFrom(ctx, c, end, other)
}

// findSubject returns the pod and the Service of [KIND/]NAME, in the namespace or as NAME.NAMESPACE; at least one of them.
func (t *tracer) findSubject(ctx context.Context, text string) (*corev1.Pod, *corev1.Service, error) {
	kind, name := splitKind(text)
	keys := []client.ObjectKey{{Namespace: t.namespace, Name: name}}
	if i := strings.LastIndex(name, "."); i > 0 {
		keys = append(keys, client.ObjectKey{Namespace: name[i+1:], Name: name[:i]})
	}
	for _, key := range keys {
		pod, service := &corev1.Pod{}, &corev1.Service{}
		isPod, err := t.findNamed(ctx, kind, "pod", key, pod)
		if err != nil {
			return nil, nil, err
		}
		isService, err := t.findNamed(ctx, kind, "service", key, service)
		switch {
		case isPod && isService:
			return pod, service, nil
		case isPod: // also if the user may not read Services
			return pod, nil, nil
		case err != nil:
			return nil, nil, err
		case isService:
			return nil, service, nil
		}
	}
	return nil, nil, ui.Fail("no %s %q is in namespace %q", cmp.Or(kind, "pod or Service"), name, t.namespace)
}

// findNamed reads an object of a kind, unless another kind is asked for, and reports whether it exists.
func (t *tracer) findNamed(ctx context.Context, asked, kind string, key client.ObjectKey, obj client.Object) (bool, error) {
	if asked != "" && asked != kind {
		return false, nil
	}
	err := t.local.Kube.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the %s: %w", kind, err)
	}
	return err == nil, nil
}

// readScenes reads the networks of the clusters.
func (t *tracer) readScenes(ctx context.Context) (err error) {
	read := func(c *cluster.Cluster, namespace string) (*diagnose.Scene, *facts.Reader, error) {
		s, r, err := newScene(ctx, c, namespace)
		if err != nil {
			return nil, nil, err
		}
		if err := readNetwork(ctx, r, s); err != nil {
			return nil, nil, err
		}
		var networks ipamv1alpha1.NetworkList
		var ips ipamv1alpha1.IPList
		err = r.List(ctx, facts.Kind{Name: "Network", List: &networks}, facts.Kind{Name: "IP", List: &ips})
		s.Networks, s.IPs = networks.Items, ips.Items
		return s, r, err
	}
	if t.near, t.nearReader, err = read(t.local, t.namespace); err != nil || t.remote == nil {
		return err
	}
	t.far, t.farReader, err = read(t.remote, "")
	return err
}

// endOfPod returns the end of a pod of the consumer, with its pod in the provider.
func (t *tracer) endOfPod(ctx context.Context, pod *corev1.Pod) (diagnose.End, error) {
	end := t.near.EndOfPod(pod, t.far, nil)
	if end.Scene == nil {
		return end, nil
	}
	if end.Scene == t.near {
		return end, t.readSurroundings(ctx, &end)
	}
	nso := &offv1beta1.NamespaceOffloading{}
	if err := t.local.Kube.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: offloading}, nso); err != nil {
		return end, t.local.WrapWithCluster(fmt.Errorf("reading the offloading: %w", err))
	}
	copied := &corev1.Pod{}
	found, err := t.farReader.Get(ctx, "RemotePod", client.ObjectKey{Namespace: nso.Status.RemoteNamespaceName, Name: pod.Name}, copied)
	if err != nil || !found {
		return end, err
	}
	end.Pod = copied
	return end, t.readSurroundings(ctx, &end)
}

// readerOf returns the reader of the cluster of a scene.
func (t *tracer) readerOf(s *diagnose.Scene) *facts.Reader {
	if s == t.far {
		return t.farReader
	}
	return t.nearReader
}

// readSurroundings reads the objects besides the pod of an end that decide whether packets pass. Unreadable objects are left out.
func (t *tracer) readSurroundings(ctx context.Context, end *diagnose.End) error {
	r := t.readerOf(end.Scene)
	var policies netv1.NetworkPolicyList
	if err := r.List(ctx, facts.Kind{Name: "NetworkPolicy", List: &policies, Opts: []client.ListOption{client.InNamespace(end.Pod.Namespace)}}); err != nil {
		return err
	}
	end.Policies = policies.Items
	ns := &corev1.Namespace{}
	found, err := r.Get(ctx, "NamespaceOfPod", client.ObjectKey{Name: end.Pod.Namespace}, ns)
	if err != nil {
		return err
	}
	if found {
		end.Namespace = ns
	}
	end.Offloaded, err = r.Get(ctx, "NamespaceOffloading", client.ObjectKey{Namespace: end.Pod.Namespace, Name: offloading}, &offv1beta1.NamespaceOffloading{})
	return err
}

// traceAddress returns the hops to an address as seen by the consumer. For the address of a Service, it returns the hops to the endpoints.
func (t *tracer) traceAddress(ctx context.Context, from diagnose.End, address netip.Addr) (*diagnose.Explanation, error) {
	if end, known := t.near.EndOfAddress(address, nil); !known || end.Scene != t.near || !t.near.IsOfServices(address) {
		return t.traceHost(ctx, from, address)
	}
	var services corev1.ServiceList
	// No selector knows the second address of a Service.
	if err := t.listReadable(ctx, t.near, facts.Kind{Name: "Service", List: &services}, func() bool { return findService(services.Items, address) != nil }); err != nil {
		return nil, err
	}
	if service := findService(services.Items, address); service != nil {
		return t.traceService(ctx, from, service)
	}
	if why := t.near.Unreadable["Service"]; why != "" {
		t.notes = append(t.notes, fmt.Sprintf("The Service of %s is not known, so its endpoints are not traced: %s", address, why))
		return t.traceHost(ctx, from, address)
	}
	return diagnose.TraceVacantService(t.near, &from, address.String()), nil
}

// findService returns the Service with an address, nil if there is none.
func findService(all []corev1.Service, address netip.Addr) *corev1.Service {
	for i := range all {
		if slices.Contains(all[i].Spec.ClusterIPs, address.String()) {
			return &all[i]
		}
	}
	return nil
}

// listReadable reads a list of a whole cluster. For a user of namespaces of this cluster, it reads the list of the Service's namespace, or of the
// command's namespace, until found reports true; the kind stays unreadable.
func (t *tracer) listReadable(ctx context.Context, s *diagnose.Scene, kind facts.Kind, found func() bool) error {
	r := t.readerOf(s)
	if s.Unreadable[kind.Name] == "" {
		if err := r.List(ctx, kind); err != nil || s.Unreadable[kind.Name] == "" {
			return err
		}
	}
	if s != t.near {
		return nil
	}
	namespaces := []string{t.namespace}
	if t.near.Service != nil && t.near.Service.Namespace != t.namespace {
		namespaces = []string{t.near.Service.Namespace, t.namespace}
	}
	for _, namespace := range namespaces {
		err := r.Client.List(ctx, kind.List, append(slices.Clone(kind.Opts), client.InNamespace(namespace))...)
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err == nil && found() {
			return nil
		}
	}
	return nil
}

// traceHost returns the hops to the address of a pod or host.
func (t *tracer) traceHost(ctx context.Context, from diagnose.End, address netip.Addr) (*diagnose.Explanation, error) {
	end, known := t.near.EndOfAddress(address, t.far)
	if !known {
		return diagnose.TraceUnknown(t.near, &from, address.String()), nil
	}
	if end.Scene == nil {
		return t.traceTo(ctx, from, end)
	}
	var pods corev1.PodList
	kind := facts.Kind{Name: "Pod", List: &pods, Opts: []client.ListOption{client.MatchingFields{"status.podIP": end.Address.String()}}}
	if err := t.listReadable(ctx, end.Scene, kind, func() bool { return len(pods.Items) > 0 }); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !p.Spec.HostNetwork && p.Labels[names.ShadowPod] != "true" && !policy.Ended(p.Status.Phase) {
			end.Pod, end.Name = p, diagnose.Ref("Pod", p)+" ("+address.String()+")"
			if err := t.readSurroundings(ctx, &end); err != nil {
				return nil, err
			}
		}
	}
	end.Vacant = end.Pod == nil && end.Scene.Unreadable["Pod"] == "" && end.Scene.IsFirstOfPods(end.Address)
	return t.traceTo(ctx, from, end)
}

// traceService returns the hops to each ready endpoint of a Service.
func (t *tracer) traceService(ctx context.Context, from diagnose.End, service *corev1.Service) (*diagnose.Explanation, error) {
	var published discoveryv1.EndpointSliceList
	if err := t.local.Kube.List(ctx, &published, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return nil, t.local.WrapWithCluster(fmt.Errorf("reading the endpoints: %w", err))
	}
	t.near.Service = service
	addresses := readyAddresses(published.Items)
	if len(addresses) == 0 {
		return diagnose.TraceWithoutEndpoints(t.near, &from), nil
	}
	if len(addresses) > mostEndpoints {
		t.notes = append(t.notes, fmt.Sprintf("Only %d of the %d ready endpoints of Service %s are traced; name a pod for another one", mostEndpoints, len(addresses), service.Name))
	}
	var all []*diagnose.Explanation
	var failed []error
	for _, address := range addresses[:min(len(addresses), mostEndpoints)] {
		e, err := t.traceHost(ctx, from, address)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, errors.Join(failed...)
	}
	return diagnose.Merge(from.Name+" to "+diagnose.Ref("Service", service), all), nil
}

// readyAddresses returns the addresses of ready endpoints.
func readyAddresses(all []discoveryv1.EndpointSlice) (out []netip.Addr) {
	for i := range all {
		for _, e := range all[i].Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			if a, err := netip.ParseAddr(e.Addresses[0]); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}
