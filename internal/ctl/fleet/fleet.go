// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// Facts are the objects of a cluster for a document.
type Facts struct {
	*diagnose.Facts
	ClusterID   string
	Offloadings []offv1beta1.NamespaceOffloading
	// Pods are the pods of offloaded namespaces and of consumers. Pods on virtual nodes are in OffloadedPods, and may also be in Pods.
	Pods   []corev1.Pod
	Events []corev1.Event
	// WebhookAuthority is the authority of the webhook, PEM.
	WebhookAuthority []byte
	// Throughput is the traffic of tunnels, by Connection; ThroughputProblem is why the traffic of some tunnels is unknown.
	Throughput        map[client.ObjectKey]Throughput
	ThroughputProblem string
}

// Throughput is the traffic from and to a peer, in bits per second, and the lost percentage of the last probes, if reported by the gateway.
type Throughput struct {
	Received, Sent int64
	Loss           *float64
}

// UnreadableThroughput is the entry of Document.Unreadable with the reason why tunnels have no throughput.
const UnreadableThroughput = "Throughput"

// maxEvents bounds the events of a document.
const maxEvents = 200

// New returns the document about facts.
func New(f *Facts) *Document {
	s := newSummary(f)
	d := &Document{
		Format: Format, Time: f.Now.UTC().Truncate(time.Second),
		Cluster:      Cluster{ID: f.ClusterID, Version: f.InstalledVersion(), Kubernetes: f.ServerVersion},
		Peers:        convertAll(f.Peers, newPeer),
		Tunnels:      []Tunnel{},
		Slices:       convertAll(f.Slices, s.newSlice),
		VirtualNodes: convertAll(f.VirtualNodes, s.newVirtualNode),
		Namespaces:   convertAll(f.Offloadings, newNamespace),
		Pods:         make([]Pod, 0, len(s.pods)),
		Certificates: s.newCertificates(),
		Events:       newEvents(f.Events),
		Check:        diagnose.NewReport(f.Groups()),
		Unreadable:   map[string]string{},
	}
	for i := range f.Connections {
		c := &f.Connections[i]
		t := Tunnel{
			Peer: c.Labels[names.RemoteClusterID], Namespace: c.Namespace, Name: c.Name, End: string(c.Spec.Type), State: string(c.Status.Value),
			Lost: string(c.Status.Lost), FailedNodes: c.Status.FailedNodes, MTU: c.Status.MTU,
		}
		if latency, err := time.ParseDuration(c.Status.Latency.Value); err == nil {
			t.LatencyMilliseconds = new(float64(latency.Microseconds()) / 1000)
		}
		if rate, known := f.Throughput[client.ObjectKeyFromObject(c)]; known {
			t.ReceivedBitsPerSecond, t.SentBitsPerSecond, t.LossPercent = &rate.Received, &rate.Sent, rate.Loss
		}
		d.Tunnels = append(d.Tunnels, t)
	}
	for _, pod := range s.pods {
		d.Pods = append(d.Pods, s.newPod(pod))
	}
	for kind, reason := range f.Unreadable {
		d.Unreadable[kind] = diagnose.ForeignText(reason)
	}
	if f.ThroughputProblem != "" {
		d.Unreadable[UnreadableThroughput] = diagnose.ForeignText(f.ThroughputProblem)
	}
	d.sortLists()
	return d
}

func (d *Document) sortLists() {
	slices.SortFunc(d.Peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Tunnels, func(a, b Tunnel) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.Slices, func(a, b Slice) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.VirtualNodes, func(a, b VirtualNode) int { return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(d.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(d.Certificates, func(a, b Certificate) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Object, b.Object))
	})
}

// convertAll returns the result for each object; never nil.
func convertAll[T, R any](all []T, convert func(*T) R) []R {
	out := make([]R, 0, len(all))
	for i := range all {
		out = append(out, convert(&all[i]))
	}
	return out
}

// summary is the facts with sums over the pods for several parts of the document.
type summary struct {
	*Facts
	pods []*corev1.Pod
	// clusters are the clusters of virtual nodes, by node.
	clusters map[string]string
	// onNode and ofUser are the requests of pods by virtual node, and by the user of a consumer.
	onNode, ofUser map[string]corev1.ResourceList
	count          map[string]int
}

func newSummary(f *Facts) *summary {
	s := &summary{
		Facts: f, clusters: map[string]string{},
		onNode: map[string]corev1.ResourceList{}, ofUser: map[string]corev1.ResourceList{}, count: map[string]int{},
	}
	for i := range f.VirtualNodes {
		s.clusters[f.VirtualNodes[i].Name] = string(f.VirtualNodes[i].Spec.ClusterID)
	}
	seen := map[client.ObjectKey]bool{}
	for _, list := range [][]corev1.Pod{f.OffloadedPods, f.Pods} {
		for i := range list {
			if key := client.ObjectKeyFromObject(&list[i]); !seen[key] {
				seen[key] = true
				s.pods = append(s.pods, &list[i])
				s.countPod(&list[i])
			}
		}
	}
	return s
}

// countPod adds the requests of a pod to the sum of its node, or of its user.
func (s *summary) countPod(pod *corev1.Pod) {
	if policy.Ended(pod.Status.Phase) {
		return
	}
	in, key := s.onNode, pod.Spec.NodeName
	if isOfConsumer(pod) {
		in, key = s.ofUser, pod.Labels[names.CreatorUser]
	} else if _, virtual := s.clusters[key]; !virtual {
		return
	}
	s.count[key]++
	if in[key] == nil {
		in[key] = corev1.ResourceList{}
	}
	policy.AddResources(in[key], policy.PodUsage(pod))
}

func isOfConsumer(pod *corev1.Pod) bool {
	return pod.Labels[names.ManagedBy] == names.ManagedByShadowPod
}

func newPeer(fc *liqov1beta1.ForeignCluster) Peer {
	m := fc.Status.Modules
	p := Peer{
		ID: string(fc.Spec.ClusterID), Role: string(fc.Status.Role), Version: diagnose.ForeignText(fc.Status.Version), Alerts: []string{},
		Modules: Modules{diagnose.ModuleStatus(m.Networking), diagnose.ModuleStatus(m.Authentication), diagnose.ModuleStatus(m.Offloading)},
	}
	for _, module := range []liqov1beta1.Module{m.Networking, m.Authentication, m.Offloading} {
		for _, c := range diagnose.Unready(module) {
			p.Alerts = append(p.Alerts, diagnose.ForeignText(diagnose.ConditionText(c)))
		}
	}
	if trouble := peer.Trouble(fc); trouble != "" {
		p.Alerts = append(p.Alerts, diagnose.ForeignText(trouble))
	}
	if c := peer.Misbehaviour(fc); c != nil {
		p.Alerts = append(p.Alerts, diagnose.ForeignText(diagnose.ConditionText(*c)))
	}
	switch {
	case len(p.Alerts) > 0:
		p.Phase = PhaseUnhealthy
	case m.Networking.Enabled || m.Authentication.Enabled || m.Offloading.Enabled:
		p.Phase = PhaseHealthy
	default:
		p.Phase = PhasePending
	}
	return p
}

func (s *summary) newSlice(slice *authv1beta1.ResourceSlice) Slice {
	accepted, alerts := diagnose.IsAccepted(slice)
	out := Slice{
		Peer: s.PeerOf(slice), Namespace: slice.Namespace, Name: slice.Name, Action: diagnose.ActionOf(slice), Class: diagnose.ForeignText(string(slice.Spec.Class)),
		Accepted: accepted, Alerts: boundAll(alerts), Asked: boundResources(slice.Spec.Resources), Granted: boundResources(slice.Status.Resources), Used: corev1.ResourceList{},
	}
	if slice.Labels[names.Replicated] == "true" {
		if params := slice.Status.AuthParams; params != nil {
			if certificate, err := pki.ParseCertificate(params.SignedCRT); err == nil {
				policy.AddResources(out.Used, s.ofUser[policy.CreatorUser(certificate.Subject.CommonName)])
			}
		}
		return out
	}
	for i := range s.VirtualNodes {
		if vn := &s.VirtualNodes[i]; vn.Namespace == slice.Namespace && vn.Labels[names.ResourceSliceName] == slice.Name {
			policy.AddResources(out.Used, s.onNode[vn.Name])
		}
	}
	return out
}

func (s *summary) newVirtualNode(vn *offv1beta1.VirtualNode) VirtualNode {
	out := VirtualNode{
		Name: vn.Name, Peer: string(vn.Spec.ClusterID), Slice: vn.Labels[names.ResourceSliceName], Status: diagnose.NodeStatus(vn), Pods: s.count[vn.Name],
		Capacity: boundResources(vn.Spec.ResourceQuota.Hard), Used: corev1.ResourceList{},
	}
	policy.AddResources(out.Used, s.onNode[vn.Name])
	if create := vn.Spec.CreateNode; s.Unreadable["Node"] != "" || create != nil && !*create {
		return out
	}
	node := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == vn.Name })
	if node < 0 || !kube.NodeReady(&s.Nodes[node]) {
		out.Status = diagnose.Unhealthy
	}
	out.Cordoned = node >= 0 && s.Nodes[node].Spec.Unschedulable
	return out
}

func newNamespace(o *offv1beta1.NamespaceOffloading) Namespace {
	out := Namespace{
		Name: o.Namespace, RemoteName: o.Status.RemoteNamespaceName, Strategy: string(o.Spec.PodOffloadingStrategy), Phase: string(o.Status.OffloadingPhase),
		Providers: []Provider{}, MisplacedPods: int(o.Status.MisplacedPods),
	}
	for _, id := range slices.Sorted(maps.Keys(o.Status.RemoteNamespacesConditions)) {
		p := Provider{ID: id, Ready: true, Alerts: []string{}}
		for _, c := range o.Status.RemoteNamespacesConditions[id] {
			if c.Type == offv1beta1.NamespaceOffloadingRequired || c.Status == corev1.ConditionTrue {
				continue
			}
			p.Ready = p.Ready && c.Type != offv1beta1.NamespaceReady
			p.Alerts = append(p.Alerts, diagnose.ForeignText(fmt.Sprintf("%s: %s", cmp.Or(c.Reason, string(c.Type)), c.Message)))
		}
		out.Providers = append(out.Providers, p)
	}
	return out
}

func (s *summary) newPod(pod *corev1.Pod) Pod {
	out := Pod{Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), Node: pod.Spec.NodeName}
	if out.Node != "" {
		out.Cluster = cmp.Or(s.clusters[out.Node], s.ClusterID)
	}
	if isOfConsumer(pod) {
		out.Consumer = diagnose.ForeignText(pod.Labels[names.OffloadingOrigin])
	}
	for _, c := range pod.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	if !out.Ready && pod.Status.Phase != corev1.PodSucceeded {
		out.Reason = diagnose.ForeignText(kube.PodProblemOf(pod).String())
	}
	return out
}

// newCertificates returns the authority of the webhook, the certificates issued by peers, and the certificates issued to peers by this cluster.
func (s *summary) newCertificates() []Certificate {
	all := []Certificate{}
	add := func(object, issuer, of string, certificate *x509.Certificate) {
		all = append(all, Certificate{Object: object, Peer: of, Issuer: issuer, NotBefore: certificate.NotBefore.UTC(), NotAfter: certificate.NotAfter.UTC()})
	}
	if authority, err := pki.ParseCertificate(s.WebhookAuthority); err == nil {
		add("MutatingWebhookConfiguration "+names.WebhookConfiguration, s.ClusterID, "", authority)
	}
	for _, c := range s.PeerCertificates() {
		issuer := c.Peer
		if c.IsIssued {
			issuer = s.ClusterID
		}
		add(diagnose.Ref(c.Kind, c.Object), issuer, c.Peer, c.Certificate)
	}
	return all
}

// newEvents returns the newest events first.
func newEvents(all []corev1.Event) []Event {
	out := convertAll(all, func(e *corev1.Event) Event {
		at, count := e.LastTimestamp.Time, e.Count
		for _, other := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
			if at.IsZero() {
				at = other
			}
		}
		if e.Series != nil {
			at, count = e.Series.LastObservedTime.Time, e.Series.Count
		}
		object := diagnose.Ref(e.InvolvedObject.Kind, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}})
		return Event{
			Time: at.UTC().Truncate(time.Second), Type: e.Type, Object: diagnose.ForeignText(object), Reason: diagnose.ForeignText(e.Reason),
			Message: diagnose.ForeignText(e.Message), Count: max(int(count), 1),
		}
	})
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out[:min(len(out), maxEvents)]
}

// maxEntries bounds lists possibly written by a peer.
const maxEntries = 64

func boundAll(texts []string) []string {
	out := []string{}
	for _, text := range texts[:min(len(texts), maxEntries)] {
		out = append(out, diagnose.ForeignText(text))
	}
	return out
}

// boundResources returns a copy with the first resources by name.
func boundResources(all corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(all))[:min(len(all), maxEntries)] {
		out[name] = all[name]
	}
	return out
}
