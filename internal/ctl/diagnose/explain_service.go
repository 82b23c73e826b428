// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const (
	pageEndpoints = "docs/troubleshooting.md#no-event-and-no-shadowendpointslice"
	pageServices  = "docs/services.md"
)

// ExplainService returns why a Service has no endpoints or no name, in the consumer and in each provider. The remote scene is nil if no
// provider was asked.
func ExplainService(s, remote *Scene) *Explanation {
	ref := Ref("Service", s.Service)
	w := &chainWriter{chain: Chain{Name: ref}}
	w.addLink(s, "pods match its selector, and are ready", "", s.findBackends, "Pod")
	w.addLink(s, "it has endpoints", fmt.Sprintf("%d ready", countReady(s.EndpointSlices)), s.findEndpoints, "EndpointSlice")
	w.addLink(s, "the DNS of the cluster runs", s.Service.Name+"."+s.Scope, s.findResolvers, "DNS")
	chains := []*chainWriter{w}
	for _, id := range s.selectedProviders() {
		chains = append(chains, s.explainCopy(id, remote, countReady(s.EndpointSlices)))
	}
	return newExplanation(ref, chains...)
}

// explainCopy returns the chain of a Service in one provider.
func (s *Scene) explainCopy(id liqov1beta1.ClusterID, remote *Scene, endpoints int) *chainWriter {
	w := &chainWriter{chain: Chain{Name: fmt.Sprintf("%s in %s", Ref("Service", s.Service), id)}}
	w.addPeering(s, id)
	w.addLink(s, "the namespace is offloaded to the provider", s.RemoteNamespace(), func() []Finding { return s.findRemoteNamespace(id) })
	w.addLink(s, "the Service is reflected", "", func() []Finding { return s.findUnreflected(remote, id) })
	w.addNetwork(s, id, true)
	w.addLink(s, "its endpoints can be translated", "", func() []Finding { return s.findUntranslated(remote, id, endpoints) })
	if remote.isProvider(id) {
		w.addLink(remote, "the provider shows its endpoints", fmt.Sprintf("%d ready", countReady(remote.EndpointSlices)), func() []Finding { return remote.findShown(s, endpoints) }, "EndpointSlice", "ShadowEndpointSlice")
		w.addLink(remote, "the DNS of the provider runs", s.Service.Name+"."+remote.Scope, remote.findResolvers, "DNS")
	}
	return w
}

// countReady returns the number of ready endpoints.
func countReady(all []discoveryv1.EndpointSlice) (n int) {
	for i := range all {
		for _, e := range all[i].Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}

// findBackends returns that the Service selects no pod, or no ready pod.
func (s *Scene) findBackends() []Finding {
	svc := s.Service
	if len(svc.Spec.Selector) == 0 || svc.Spec.Type == corev1.ServiceTypeExternalName || countReady(s.EndpointSlices) > 0 {
		return nil
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	var unready *corev1.Pod
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Namespace != s.Scope || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if podWorks(p) {
			return nil
		}
		unready = p
	}
	if unready == nil {
		return []Finding{newFailure(Ref("Service", svc), "no pod has the labels of its selector: "+selector.String(), "correct the selector, or the labels of the pods", pageServices)}
	}
	return []Finding{newFailure(Ref("Pod", unready), "no pod of the Service is ready: "+kube.PodProblemOf(unready).String(), fmt.Sprintf("run: liqoctl explain pod %s -n %s", unready.Name, s.Scope), pagePending)}
}

// findEndpoints returns that the Service has ready pods and no ready endpoint.
func (s *Scene) findEndpoints() []Finding {
	svc := s.Service
	if svc.Spec.Type == corev1.ServiceTypeExternalName || countReady(s.EndpointSlices) > 0 {
		return nil
	}
	if len(svc.Spec.Selector) == 0 {
		return []Finding{newFailure(Ref("Service", svc), "it has no selector, and no EndpointSlice has ready endpoints", "create an EndpointSlice, or give it a selector", pageServices)}
	}
	return []Finding{newFailure(Ref("Service", svc), "its pods are ready, and no EndpointSlice has ready endpoints", "see the log of kube-controller-manager", pageServices)}
}

// findResolvers returns that no pod of the DNS is ready. A DNS without the usual label is not judged.
func (s *Scene) findResolvers() []Finding {
	if len(s.Resolvers) == 0 || slices.ContainsFunc(s.Resolvers, func(p corev1.Pod) bool { return podWorks(&p) }) {
		return nil
	}
	return []Finding{newFailure(Ref("Pod", &s.Resolvers[0]), "no pod of the DNS is ready: "+kube.PodProblemOf(&s.Resolvers[0]).String(), "see kubectl describe pod in kube-system", pageServices)}
}

// findUnreflected returns why the Service is not in the provider.
func (s *Scene) findUnreflected(remote *Scene, id liqov1beta1.ClusterID) []Finding {
	svc := s.Service
	ref := Ref("Service", svc)
	if skip, ok := svc.Annotations[names.SkipReflection]; ok && !strings.EqualFold(skip, "false") {
		return []Finding{newFailure(ref, "its annotation "+names.SkipReflection+" keeps it here", fmt.Sprintf("run: kubectl annotate service %s -n %s %s-", svc.Name, s.Scope, names.SkipReflection), "docs/troubleshooting.md#reflectiondisabled")}
	}
	asked := remote.isProvider(id) && remote.Unreadable["Service"] == ""
	e := s.latestEvent("Service", svc, s.virtualNodesOf(id), "FailedReflection", "ReflectionDisabled", "SuccessfulReflection")
	failed := e != nil && e.Reason != "SuccessfulReflection"
	switch {
	case failed && asked && remote.Service != nil && e.Reason == "ReflectionDisabled": // the copy would be gone
		return nil
	case failed:
		g := reflectionReasons[e.Reason]
		return []Finding{s.findingOf(e, ref, g, asked && remote.Service == nil)}
	case asked && remote.Service == nil:
		return []Finding{newFailure(fmt.Sprintf("Service %s/%s (in %s)", remote.Scope, svc.Name, id), "the virtual kubelet did not make it", "see the log of the virtual kubelet of "+string(id), "docs/troubleshooting.md#reflectiondisabled")}
	}
	return nil
}

// findingOf returns the finding of an event. Events report transitions, not the present: they stop an object only if holds is true.
func (s *Scene) findingOf(e *corev1.Event, object string, g guide, holds bool) Finding {
	found := newFailure(object, e.Reason+": "+e.Message, g.remedy, g.page)
	if !holds {
		found = warningOf(found)
		found.Message = fmt.Sprintf("%s ago, and may be over: %s", s.Now.Sub(eventTime(e)).Round(time.Second), found.Message)
	}
	return found
}

// findUntranslated returns that endpoints of the Service have no address for the provider. If the provider has none of the endpoints, the finding is
// a failure.
func (s *Scene) findUntranslated(remote *Scene, id liqov1beta1.ClusterID, endpoints int) (all []Finding) {
	missing := remote.isProvider(id) && remote.Unreadable["EndpointSlice"] == "" && endpoints > 0 && countReady(remote.EndpointSlices) == 0
	for i := range s.EndpointSlices {
		slice := &s.EndpointSlices[i]
		e := s.latestEvent("EndpointSlice", slice, s.virtualNodesOf(id), "EndpointsNotReflected", "FailedReflection", "SuccessfulReflection")
		if e == nil || e.Reason == "SuccessfulReflection" {
			continue
		}
		g := guide{"make an IP for each address", "docs/troubleshooting.md#endpointsnotreflected"}
		if e.Reason != "EndpointsNotReflected" {
			g = reflectionReasons[e.Reason]
		}
		all = append(all, s.findingOf(e, Ref("EndpointSlice", slice), g, missing))
	}
	return all
}

// findShown returns why the provider has no endpoints of a Service with endpoints in the consumer.
func (s *Scene) findShown(consumer *Scene, endpoints int) []Finding {
	if endpoints == 0 || countReady(s.EndpointSlices) > 0 {
		return nil
	}
	for i := range s.ShadowSlices {
		shadow := &s.ShadowSlices[i]
		if e := s.latestEvent("ShadowEndpointSlice", shadow, nil, "ForeignEndpoints", "WrongOrigin", "InvalidEndpoints"); e != nil {
			return []Finding{newFailure(Ref("ShadowEndpointSlice", shadow), e.Reason+": "+e.Message, "see the networks of both clusters: liqoctl info peer", "docs/troubleshooting.md#"+strings.ToLower(e.Reason))}
		}
	}
	if len(s.ShadowSlices) == 0 {
		return []Finding{newFailure("Service "+s.Scope+"/"+consumer.Service.Name, "it has no ShadowEndpointSlice", "see the Configuration of the provider in the consumer, and the options of the virtual kubelet", pageEndpoints)}
	}
	return []Finding{newFailure(Ref("ShadowEndpointSlice", &s.ShadowSlices[0]), "no ready endpoints were made from it", "see the Connection and the Configuration of the consumer in the provider", "docs/troubleshooting.md#endpoints-of-a-consumer-are-not-ready")}
}
