// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const limit = 3 * time.Minute

// patience is how long a provider may be slow before it counts as lost, where a test has an outage.
const patience = 15 * time.Second

// testEnv is a consumer and a provider with one virtual node and one offloaded namespace; the test plays the provider.
type testEnv struct {
	t                      *testing.T
	consumer, provider     *testkit.ControlPlane
	tenant                 string
	node                   string
	local, remoteNamespace string
	options                Options
	consumerID, providerID liqov1beta1.ClusterID
}

func newTestEnv(t *testing.T, edit func(o *Options)) *testEnv {
	t.Helper()
	s := &testEnv{
		t: t, consumerID: "rome", providerID: "milan",
		consumer: testkit.Cluster(t, testkit.WithControllers("root-ca-certificate-publisher-controller")),
		provider: testkit.SecondCluster(t, testkit.WithControllers("root-ca-certificate-publisher-controller")),
	}
	s.tenant = testkit.Namespace(t, s.consumer, "tenant", nil)
	s.local = testkit.Namespace(t, s.consumer, "web", nil)
	s.remoteNamespace = testkit.Namespace(t, s.provider, "web-twin", nil)
	s.node = s.tenant
	s.create(s.consumer, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig", Namespace: s.tenant},
		Data:       map[string][]byte{names.KubeconfigKey: testkit.Kubeconfig(t, s.provider.User(t, "slice", "system:masters"))},
	})
	s.create(s.consumer, &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: s.providerID, KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"},
			Labels:         map[string]string{"zone": "north"},
			StorageClasses: []liqov1beta1.StorageType{{StorageClassName: "fast", Default: true}},
			ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("50"),
			}},
		},
	})
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted}})
	s.options = Options{
		AllowLoopbackPeers: true, Config: s.consumer.Config, Node: s.node, NodeIP: netip.MustParseAddr("127.0.0.1"), TenantNamespace: s.tenant,
		ClusterID: s.consumerID, Provider: s.providerID, CreateNode: true, PingInterval: 200 * time.Millisecond, PingTimeout: 5 * time.Second,
		Certificate: CertificateSelfSigned, ListenPort: testkit.Port(t), HealthAddress: "0", RepeatNames: true,
	}
	if edit != nil {
		edit(&s.options)
	}
	return s
}

// electing has one of several replicas act, until it ends and gives its leases up. None is ever so slow that it loses them.
func electing(o *Options) {
	o.LeaseEnabled = true
	o.LeaseDuration, o.LeaseRenew, o.LeaseRetry = time.Minute, 40*time.Second, time.Second
}

// step is a part of the story, with a rule as its name.
func (s *testEnv) step(rule string, tell func()) {
	s.t.Helper()
	outer := s.t
	outer.Run(rule, func(t *testing.T) {
		s.t = t
		defer func() { s.t = outer }()
		tell()
	})
}

// run starts the virtual kubelet; stop ends it.
func (s *testEnv) run() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s.options) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("running the virtual kubelet: %v", err)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// mapNamespaces writes the provider's status of the namespaces.
func (s *testEnv) mapNamespaces(current map[string]offv1beta1.RemoteNamespaceStatus) {
	s.t.Helper()
	desired := map[string]string{}
	for local, status := range current {
		desired[local] = status.RemoteNamespace
	}
	s.mapNamespacesAs(desired, current)
}

func (s *testEnv) mapNamespacesAs(desired map[string]string, current map[string]offv1beta1.RemoteNamespaceStatus) {
	s.t.Helper()
	nm := &offv1beta1.NamespaceMap{}
	key := client.ObjectKey{Namespace: s.tenant, Name: string(s.providerID)}
	if err := s.consumer.Client.Get(s.t.Context(), key, nm); apierrors.IsNotFound(err) {
		nm.Namespace, nm.Name = key.Namespace, key.Name
		nm.Labels = map[string]string{names.RemoteClusterID: string(s.providerID)}
		nm.Spec.DesiredMapping = desired
		s.create(s.consumer, nm)
	} else if err != nil {
		s.t.Fatal(err)
	} else {
		nm.Spec.DesiredMapping = desired
		if err := s.consumer.Client.Update(s.t.Context(), nm); err != nil {
			s.t.Fatalf("asking for namespaces: %v", err)
		}
	}
	nm.Status.CurrentMapping = current
	if err := s.consumer.Client.Status().Update(s.t.Context(), nm); err != nil {
		s.t.Fatalf("writing the mapping: %v", err)
	}
}

func (s *testEnv) create(c *testkit.ControlPlane, obj client.Object) {
	s.t.Helper()
	if err := c.Client.Create(s.t.Context(), obj); err != nil {
		s.t.Fatalf("making %T %s: %v", obj, obj.GetName(), err)
	}
}

// pod makes a local pod that is bound to the virtual node.
func (s *testEnv) pod(namespace, name string) *corev1.Pod {
	s.t.Helper()
	pod := s.newPod(namespace, name)
	s.create(s.consumer, pod)
	return pod
}

func (s *testEnv) newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: s.node, Containers: []corev1.Container{{Name: "main", Image: "web:1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

// eventually reads obj until check is content.
func eventually[T client.Object](s *testEnv, c *testkit.ControlPlane, obj T, check func(T) error) T {
	s.t.Helper()
	testkit.Eventually(s.t, limit, func() error {
		if err := c.Client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check(obj)
	})
	return obj
}

func exists[T client.Object](T) error { return nil }

func (s *testEnv) waitUntilDeleted(c *testkit.ControlPlane, obj client.Object) {
	s.t.Helper()
	testkit.Eventually(s.t, limit, func() error {
		err := c.Client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("%T %s is still there", obj, obj.GetName()))
	})
}

func (s *testEnv) shadow(name string) *offv1beta1.ShadowPod {
	return &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.remoteNamespace}}
}

// runRemotely makes the pod of a ShadowPod, as the provider does, and reports it running.
func (s *testEnv) runRemotely(shadow *offv1beta1.ShadowPod, podIP string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: shadow.Name, Namespace: shadow.Namespace, Labels: shadow.Labels, Annotations: shadow.Annotations},
		Spec:       *shadow.Spec.Pod.DeepCopy(),
	}
	pod.Spec.NodeName = "somewhere" // a pod of no node is deleted at once
	s.create(s.provider, pod)
	s.report(pod, corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}, {IP: "fd00::7"}}, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "web:1", Ready: true, RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}},
	})
	return pod
}

func (s *testEnv) report(pod *corev1.Pod, status corev1.PodStatus) {
	s.t.Helper()
	status.QOSClass = pod.Status.QOSClass
	pod.Status = status
	if err := s.provider.Client.Status().Update(s.t.Context(), pod); err != nil {
		s.t.Fatalf("reporting the remote pod: %v", err)
	}
}

// event waits for an event about obj. Routine ones come together in one event, which gives their reasons in its text.
func (s *testEnv) event(obj client.Object, reason, text string) {
	s.t.Helper()
	testkit.Eventually(s.t, limit, func() error {
		var list corev1.EventList
		if err := s.consumer.Client.List(s.t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		for _, e := range list.Items {
			reported := e.Reason == reason || strings.Contains(e.Message, reason+": ")
			if e.InvolvedObject.Name == obj.GetName() && reported && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s", reason, obj.GetName())
	})
}

func reasonIs(reason string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Status.Reason != reason {
			return fmt.Errorf("pod is %s %q, not %q", p.Status.Phase, p.Status.Reason, reason)
		}
		return nil
	}
}

func phaseIs(phase corev1.PodPhase) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("pod is %s %q, not %s", p.Status.Phase, p.Status.Reason, phase)
		}
		return nil
	}
}

func (s *testEnv) localPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.local}}
}
