// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// offloading is the name of every NamespaceOffloading.
const offloading = "offloading"

// gatherer reads the scenes of one object.
type gatherer struct {
	kind, namespace, name string
	// limit is how long reading the provider may take, readTime if 0.
	limit time.Duration
}

// answer is an explanation, and why the remote cluster is not part of it: the cluster has no part in the object, or does not answer.
type answer struct {
	*diagnose.Explanation
	foreign string
	unasked bool
}

// newAnswer reads both clusters; remote may be nil.
func (g *gatherer) newAnswer(ctx context.Context, local, remote *cluster.Cluster) (*answer, error) {
	limited, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	s, err := g.readConsumer(limited, local)
	if err != nil {
		return nil, err
	}
	out := &answer{}
	var far *diagnose.Scene
	if remote != nil {
		if out.foreign = g.checkProvider(s, remote.ID); out.foreign == "" {
			if far, err = g.readRemote(ctx, remote, s); err != nil && ctx.Err() != nil {
				return nil, err
			} else if err != nil {
				far, out.unasked = nil, true
				out.foreign = fmt.Sprintf("The remote cluster %s was not asked: %s", remote.ID, cluster.DescribeError(err))
			}
		}
	}
	switch g.kind {
	case "pod":
		out.Explanation = diagnose.ExplainPod(s, far)
	case "namespace":
		out.Explanation = diagnose.ExplainNamespace(s, far)
	case "service":
		out.Explanation = diagnose.ExplainService(s, far)
	default:
		out.Explanation = diagnose.ExplainNode(s, far, g.name)
	}
	if out.Explanation != nil {
		return out, nil
	}
	if why := s.Unreadable["Node"]; why != "" {
		return nil, ui.Fail("reading the node: %s", why)
	}
	return nil, ui.Fail("no Node, VirtualNode or ResourceSlice is called %q", g.name)
}

// checkProvider returns why the remote cluster has nothing to do with the object, "" if it has.
func (g *gatherer) checkProvider(s *diagnose.Scene, remote string) string {
	node := g.name
	switch g.kind {
	case "pod":
		node = s.Pod.Spec.NodeName
	case "node":
	default:
		return ""
	}
	if provider := s.ProviderOfNode(node); provider != "" && string(provider) != remote {
		return fmt.Sprintf("The remote cluster %s was not asked: the node %s stands for %s", remote, node, provider)
	}
	return ""
}

// newScene returns a scene with the peerings of a cluster.
func newScene(ctx context.Context, c *cluster.Cluster, namespace string) (*diagnose.Scene, *facts.Reader, error) {
	r := facts.NewReader(c.Kube, c.LiqoNamespace)
	err := r.ListPeerings(ctx)
	r.Facts.Now = c.Clock.Now()
	return &diagnose.Scene{Facts: r.Facts, ClusterID: c.ID, Scope: namespace}, r, err
}

// readConsumer reads the scene of the consumer. The object to explain must exist.
func (g *gatherer) readConsumer(ctx context.Context, c *cluster.Cluster) (*diagnose.Scene, error) {
	s, r, err := newScene(ctx, c, g.namespace)
	if err != nil {
		return nil, err
	}
	var maps offv1beta1.NamespaceMapList
	var kubelets corev1.PodList
	if err := r.List(ctx, facts.Kind{Name: "NamespaceMap", List: &maps}, facts.Kind{Name: "VirtualKubelet", List: &kubelets, Opts: []client.ListOption{
		client.MatchingLabels{names.OffloadingComponent: names.ComponentVirtualKubelet},
	}}); err != nil {
		return nil, err
	}
	s.Maps, s.Pods = maps.Items, kubelets.Items
	if g.kind == "node" {
		if err := r.ListOffloadedPods(ctx); err != nil {
			return nil, err
		}
		return s, readNetwork(ctx, r, s)
	}
	if err := g.readSubject(ctx, c, s); err != nil {
		return nil, c.WrapWithCluster(err)
	}
	nso, ns := &offv1beta1.NamespaceOffloading{}, &corev1.Namespace{}
	if found, err := r.Get(ctx, "NamespaceOffloading", client.ObjectKey{Namespace: g.namespace, Name: offloading}, nso); err != nil {
		return nil, err
	} else if found {
		s.Offloading = nso
	}
	if found, err := r.Get(ctx, "Namespace", client.ObjectKey{Name: g.namespace}, ns); err != nil {
		return nil, err
	} else if found {
		s.Namespace = ns
	}
	switch g.kind {
	case "pod":
		err = g.readPod(ctx, r, s)
	case "service":
		err = g.readService(ctx, r, s)
	default:
		err = readEvents(ctx, r, s, client.MatchingFields{"reason": "FailedCreate"}, client.MatchingFields{"involvedObject.name": offloading})
	}
	return s, err
}

// readSubject reads the object itself.
func (g *gatherer) readSubject(ctx context.Context, c *cluster.Cluster, s *diagnose.Scene) error {
	var obj client.Object
	key := client.ObjectKey{Namespace: g.namespace, Name: g.name}
	switch g.kind {
	case "pod":
		s.Pod = &corev1.Pod{}
		obj = s.Pod
	case "service":
		s.Service = &corev1.Service{}
		obj = s.Service
	default:
		return nil // the namespace of the object may be missing
	}
	if err := c.Kube.Get(ctx, key, obj); err != nil {
		return fmt.Errorf("reading the %s: %w", g.kind, err)
	}
	return nil
}

func (g *gatherer) readPod(ctx context.Context, r *facts.Reader, s *diagnose.Scene) error {
	var claims corev1.PersistentVolumeClaimList
	if s.Pod.Spec.NodeName == "" { // the free capacity matters only before a node is chosen
		if err := r.ListOffloadedPods(ctx); err != nil {
			return err
		}
	}
	if err := r.List(ctx, facts.Kind{Name: "PersistentVolumeClaim", List: &claims, Opts: []client.ListOption{client.InNamespace(g.namespace)}}); err != nil {
		return err
	}
	s.Claims = claims.Items
	about := []client.MatchingFields{{"involvedObject.name": g.name}}
	for _, v := range s.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			about = append(about, client.MatchingFields{"involvedObject.name": v.PersistentVolumeClaim.ClaimName})
		}
	}
	return readEvents(ctx, r, s, about...)
}

func (g *gatherer) readService(ctx context.Context, r *facts.Reader, s *diagnose.Scene) error {
	var pods corev1.PodList
	if len(s.Service.Spec.Selector) > 0 {
		if err := r.List(ctx, facts.Kind{Name: "Pod", List: &pods, Opts: []client.ListOption{
			client.InNamespace(g.namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(s.Service.Spec.Selector)},
		}}); err != nil {
			return err
		}
	}
	s.Pods = append(s.Pods, pods.Items...)
	if err := readEndpoints(ctx, r, s, g.name); err != nil {
		return err
	}
	about := []client.MatchingFields{{"involvedObject.name": g.name}}
	for i := range s.EndpointSlices {
		about = append(about, client.MatchingFields{"involvedObject.name": s.EndpointSlices[i].Name})
	}
	return readEvents(ctx, r, s, about...)
}

// readEndpoints reads the endpoints of a Service and the DNS pods.
func readEndpoints(ctx context.Context, r *facts.Reader, s *diagnose.Scene, service string) error {
	var slices discoveryv1.EndpointSliceList
	var resolvers corev1.PodList
	err := r.List(ctx,
		facts.Kind{Name: "EndpointSlice", List: &slices, Opts: []client.ListOption{client.InNamespace(s.Scope), client.MatchingLabels{discoveryv1.LabelServiceName: service}}},
		facts.Kind{Name: "DNS", List: &resolvers, Opts: []client.ListOption{client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"k8s-app": "kube-dns"}}})
	s.EndpointSlices, s.Resolvers = slices.Items, resolvers.Items
	return err
}

// readNetwork reads the fabric of a cluster.
func readNetwork(ctx context.Context, r *facts.Reader, s *diagnose.Scene) error {
	var daemons appsv1.DaemonSetList
	var internal networkingv1beta1.InternalNodeList
	var fabric corev1.PodList
	in := client.InNamespace(s.Facts.Namespace)
	err := r.List(ctx, facts.Kind{Name: "DaemonSet", List: &daemons, Opts: []client.ListOption{in}}, facts.Kind{Name: "InternalNode", List: &internal},
		facts.Kind{Name: "Fabric", List: &fabric, Opts: []client.ListOption{in, client.MatchingLabels{names.AppName: "fabric"}}})
	s.DaemonSets, s.InternalNodes, s.Fabric = daemons.Items, internal.Items, fabric.Items
	return err
}

// readEvents adds the events of the namespace that match a selector. Unreadable events are no error.
func readEvents(ctx context.Context, r *facts.Reader, s *diagnose.Scene, about ...client.MatchingFields) error {
	for _, fields := range about {
		var events corev1.EventList
		if err := r.List(ctx, facts.Kind{Name: "Event", List: &events, Opts: []client.ListOption{client.InNamespace(s.Scope), fields}}); err != nil {
			return err
		}
		s.Events = append(s.Events, events.Items...)
	}
	return nil
}

// readRemote reads the provider for a limited time.
func (g *gatherer) readRemote(ctx context.Context, c *cluster.Cluster, consumer *diagnose.Scene) (*diagnose.Scene, error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(g.limit, readTime))
	defer cancel()
	return g.readProvider(limited, c, consumer)
}

// readProvider reads the provider's scene of the object.
func (g *gatherer) readProvider(ctx context.Context, c *cluster.Cluster, consumer *diagnose.Scene) (*diagnose.Scene, error) {
	s, r, err := newScene(ctx, c, consumer.RemoteNamespace())
	if err != nil || s.Scope == "" {
		return s, err
	}
	ns := &corev1.Namespace{}
	if found, err := r.Get(ctx, "Namespace", client.ObjectKey{Name: s.Scope}, ns); err != nil {
		return nil, err
	} else if found {
		s.Namespace = ns
	}
	key := client.ObjectKey{Namespace: s.Scope, Name: g.name}
	switch g.kind {
	case "pod":
		shadow, pod := &offv1beta1.ShadowPod{}, &corev1.Pod{}
		if found, err := r.Get(ctx, "ShadowPod", key, shadow); err != nil {
			return nil, err
		} else if found {
			s.ShadowPod = shadow
		}
		if found, err := r.Get(ctx, "RemotePod", key, pod); err != nil {
			return nil, err
		} else if found {
			s.Pod = pod
		}
	case "service":
		return s, g.readCopy(ctx, r, s)
	}
	return s, nil
}

// readCopy reads the copy of a Service.
func (g *gatherer) readCopy(ctx context.Context, r *facts.Reader, s *diagnose.Scene) error {
	service := &corev1.Service{}
	if found, err := r.Get(ctx, "Service", client.ObjectKey{Namespace: s.Scope, Name: g.name}, service); err != nil {
		return err
	} else if found {
		s.Service = service
	}
	if err := readEndpoints(ctx, r, s, g.name); err != nil {
		return err
	}
	var shadows offv1beta1.ShadowEndpointSliceList
	if err := r.List(ctx, facts.Kind{Name: "ShadowEndpointSlice", List: &shadows, Opts: []client.ListOption{client.InNamespace(s.Scope), client.MatchingLabels{discoveryv1.LabelServiceName: g.name}}}); err != nil {
		return err
	}
	s.ShadowSlices = shadows.Items
	var about []client.MatchingFields
	for i := range s.ShadowSlices {
		about = append(about, client.MatchingFields{"involvedObject.name": s.ShadowSlices[i].Name})
	}
	return readEvents(ctx, r, s, about...)
}
