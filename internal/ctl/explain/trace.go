// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// mostEndpoints is the number of endpoints of a Service that are traced.
const mostEndpoints = 5

// NewTraceCommand returns the command "trace".
func NewTraceCommand(c *cluster.Session) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "trace POD POD|SERVICE|IP",
		Short: "Show the hops of a packet between pods of two clusters, and the one that is broken",
		Long: "Show the hops of a packet from a pod of the consumer, or one of its pods in a provider, to another pod, a Service or an address, as this cluster sees it: " +
			"pod, fabric, gateway, tunnel, gateway, fabric, pod, with the addresses at each hop. Nodes and gateways send probes now, to their peers, and what these say is checked hop by hop. Nothing is changed.\n\n" +
			"NAME.NAMESPACE is a pod or Service of another namespace. With --remote-kubeconfig the hops in the provider are checked, too. The exit code is 1 if a hop is broken.",
		Example: "  liqoctl trace client web-0 -n shop\n" +
			"  liqoctl trace client web-0 -n shop --remote-kubeconfig milan.kubeconfig\n" +
			"  liqoctl trace client web.shop -n test\n" +
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

// checkNameOrAddress rejects what is neither a name nor an address.
func checkNameOrAddress(text string) error {
	if _, err := netip.ParseAddr(text); err == nil {
		return nil
	}
	return cluster.CheckName(text)
}

// traceTime bounds the reading of both clusters, one of which may stop answering.
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
	return o.printExplanation(c, e)
}

// tracer reads what a trace needs.
type tracer struct {
	local, remote *cluster.Cluster // remote is nil if it was not asked
	namespace     string
	near, far     *diagnose.Scene
	// farReader reads facts of the remote cluster.
	farReader *facts.Reader
	probes    probeSender
}

// traceNames returns the hops between two ends, which are named as on the command line.
func (t *tracer) traceNames(ctx context.Context, from, to string) (*diagnose.Explanation, error) {
	source, service, err := t.findSubject(ctx, from)
	if err != nil {
		return nil, t.local.WrapWithCluster(err)
	}
	if service != nil {
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
	if service != nil {
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

// sendProbes has the node of an end and its gateway probe the other cluster.
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

// findSubject returns the pod or else the Service of a name, in the namespace or as NAME.NAMESPACE.
func (t *tracer) findSubject(ctx context.Context, name string) (*corev1.Pod, *corev1.Service, error) {
	keys := []client.ObjectKey{{Namespace: t.namespace, Name: name}}
	if i := strings.LastIndex(name, "."); i > 0 {
		keys = append(keys, client.ObjectKey{Namespace: name[i+1:], Name: name[:i]})
	}
	for _, key := range keys {
		pod, service := &corev1.Pod{}, &corev1.Service{}
		err := t.local.Kube.Get(ctx, key, pod)
		if err == nil {
			return pod, nil, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("reading the pod: %w", err)
		}
		err = t.local.Kube.Get(ctx, key, service)
		if err == nil {
			return nil, service, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("reading the Service: %w", err)
		}
	}
	return nil, nil, ui.Fail("no pod or Service %q is in namespace %q", name, t.namespace)
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
	if t.near, _, err = read(t.local, t.namespace); err != nil || t.remote == nil {
		return err
	}
	t.far, t.farReader, err = read(t.remote, "")
	return err
}

// endOfPod returns the end of a pod of the consumer, with its pod in the provider.
func (t *tracer) endOfPod(ctx context.Context, pod *corev1.Pod) (diagnose.End, error) {
	end := t.near.EndOfPod(pod, t.far, nil)
	if end.Scene == nil || end.Scene == t.near {
		return end, nil
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
	return end, t.readReceiver(ctx, t.remote, t.far, copied)
}

// readReceiver reads what else decides whether a pod receives packets. What cannot be read is left out.
func (t *tracer) readReceiver(ctx context.Context, c *cluster.Cluster, s *diagnose.Scene, pod *corev1.Pod) error {
	var policies netv1.NetworkPolicyList
	nso := &offv1beta1.NamespaceOffloading{}
	if err := c.Kube.List(ctx, &policies, client.InNamespace(pod.Namespace)); err != nil && ctx.Err() != nil {
		return err
	}
	if err := c.Kube.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: offloading}, nso); err == nil {
		s.Offloading = nso
	} else if ctx.Err() != nil {
		return err
	}
	ns := &corev1.Namespace{}
	if err := c.Kube.Get(ctx, client.ObjectKey{Name: pod.Namespace}, ns); err == nil {
		s.Namespace = ns
	} else if ctx.Err() != nil {
		return err
	}
	s.Policies = policies.Items
	return nil
}

// traceAddress returns the hops to an address, as the consumer sees it.
func (t *tracer) traceAddress(ctx context.Context, from diagnose.End, address netip.Addr) (*diagnose.Explanation, error) {
	end, known := t.near.EndOfAddress(address, t.far)
	if !known {
		return diagnose.TraceUnknown(t.near, &from, address.String()), nil
	}
	c, s := t.local, end.Scene
	if s != nil && s == t.far {
		c = t.remote
	}
	if s == nil {
		return t.traceTo(ctx, from, end)
	}
	var pods corev1.PodList
	if err := c.Kube.List(ctx, &pods, client.MatchingFields{"status.podIP": end.Address.String()}); err != nil && ctx.Err() != nil {
		return nil, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !p.Spec.HostNetwork && p.Labels[names.ShadowPod] != "true" {
			end.Pod, end.Name = p, diagnose.Ref("Pod", p)+" ("+address.String()+")"
			if err := t.readReceiver(ctx, c, s, p); err != nil {
				return nil, err
			}
		}
	}
	return t.traceTo(ctx, from, end)
}

// traceService returns the hops to each ready endpoint of a Service.
func (t *tracer) traceService(ctx context.Context, from diagnose.End, service *corev1.Service) (*diagnose.Explanation, error) {
	var slices discoveryv1.EndpointSliceList
	if err := t.local.Kube.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return nil, t.local.WrapWithCluster(fmt.Errorf("reading the endpoints: %w", err))
	}
	t.near.Service = service
	addresses := readyAddresses(slices.Items)
	if len(addresses) == 0 {
		return diagnose.TraceWithoutEndpoints(t.near, &from), nil
	}
	var all []*diagnose.Explanation
	var failed []error
	for _, address := range addresses[:min(len(addresses), mostEndpoints)] {
		e, err := t.traceAddress(ctx, from, address)
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
