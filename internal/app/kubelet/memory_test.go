// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	limit = 2 * time.Minute
	// settling is how long after a burst its memory is looked at, as long as in test/bench.
	settling = 12 * time.Second
	// What a virtual kubelet may take, with and per pod.
	promised, promisedPerPod = 40 << 20, 20 << 10
)

// BenchmarkMemory measures what a virtual kubelet has resident after bursts of pods, on two API servers and nothing else.
// It tells what is alive after the last garbage
// collection, too. LIQO_PROGRAM measures a program that is there already, with the arguments before the flags: "$PWD/bin/liqo virtual-kubelet".
//
//	go test ./internal/app/kubelet -run '^$' -bench Memory -benchtime 1x
func BenchmarkMemory(b *testing.B) {
	program := strings.Fields(os.Getenv("LIQO_PROGRAM"))
	if len(program) == 0 {
		program = []string{build(b)}
	}
	for _, pods := range []int{100, 500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			for b.Loop() {
				measure(b, program, pods)
			}
		})
	}
}

// build makes the program as the image has it.
func build(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "virtual-kubelet")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "liqo.io/liqo/cmd/virtual-kubelet")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building: %v\n%s", err, text)
	}
	return out
}

func measure(b *testing.B, argv []string, pods int) {
	b.Helper()
	consumer, provider := testkit.Cluster(b), testkit.SecondCluster(b)
	tenant := testkit.Namespace(b, consumer, "tenant", nil)
	local, remoteNamespace := testkit.Namespace(b, consumer, "burst", nil), testkit.Namespace(b, provider, "burst-twin", nil)
	testkit.Create(b, consumer.Client,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "kubeconfig"},
			Data:       map[string][]byte{names.KubeconfigKey: testkit.Kubeconfig(b, provider.User(b, "slice", "system:masters"))},
		},
		&offv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: tenant},
			Spec: offv1beta1.VirtualNodeSpec{
				ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"},
				ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1k")}},
			},
		})
	mapping := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: "milan", Labels: map[string]string{names.RemoteClusterID: "milan"},
	}, Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{local: remoteNamespace}}}
	testkit.Create(b, consumer.Client, mapping)
	testkit.UpdateStatus(b, consumer.Client, mapping, func(m *offv1beta1.NamespaceMap) {
		m.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{local: {RemoteNamespace: remoteNamespace, Phase: offv1beta1.MappingAccepted}}
	})
	args := append(argv[1:len(argv):len(argv)],
		"--nodename="+tenant, "--tenant-namespace="+tenant, "--node-ip=127.0.0.1", "--home-cluster-id=rome", "--foreign-cluster-id=milan",
		"--certificate-type=self-signed", "--listen-port="+strconv.Itoa(testkit.Port(b)), "--health-probe-address=127.0.0.1:0")
	path, err := filepath.Abs(argv[0])
	if err != nil {
		b.Fatal(err)
	}
	p := consumer.Run(b, consumer.Config, fmt.Sprintf("kubelet-%d", pods), []string{"GODEBUG=gctrace=1"}, path, args...)
	defer p.Kill()
	ctx, stop := context.WithCancel(b.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return provide(ctx, provider, remoteNamespace) })
	group.Go(func() error { return burst(ctx, consumer, local, tenant, pods) })
	defer func() {
		stop()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}()
	start := time.Now()
	testkit.Eventually(b, limit, func() error {
		if err := p.Alive(); err != nil {
			b.Fatal(err)
		}
		var list corev1.PodList
		if err := consumer.Client.List(ctx, &list, client.InNamespace(local)); err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != pods {
			return fmt.Errorf("%d of %d pods run", running, pods)
		}
		return nil
	})
	b.ReportMetric(time.Since(start).Seconds(), "s")
	time.Sleep(settling)
	report(b, p, pods)
}

// burst makes the pods of a Deployment, as the controller-manager and the scheduler leave them.
func burst(ctx context.Context, c *testkit.ControlPlane, namespace, node string, pods int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for n := range pods {
		group.Go(func() error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: fmt.Sprintf("bench-7d4b9c6f5d-%05d", n),
					Labels: map[string]string{"app": "bench", "pod-template-hash": "7d4b9c6f5d"},
					OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "bench-7d4b9c6f5d", UID: "0a6cfbd5-5b0c-4f3e-9f8c-1b7f3a2c9d11",
						Controller: new(true), BlockOwnerDeletion: new(true),
					}},
				},
				Spec: corev1.PodSpec{
					NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
					Containers: []corev1.Container{{
						Name: "app", Image: "example.org/app:1",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
						}},
					}},
				},
			}
			return c.Client.Create(ctx, pod)
		})
	}
	return group.Wait()
}

// provide makes the pod of each ShadowPod and has it run.
func provide(ctx context.Context, c *testkit.ControlPlane, namespace string) error {
	created := map[string]bool{}
	for ctx.Err() == nil {
		var list offv1beta1.ShadowPodList
		if err := c.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for i := range list.Items {
			shadow := &list.Items[i]
			if created[shadow.Name] {
				continue
			}
			created[shadow.Name] = true
			group.Go(func() error { return run(ctx, c, shadow, i) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func run(ctx context.Context, c *testkit.ControlPlane, shadow *offv1beta1.ShadowPod, n int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shadow.Namespace, Name: shadow.Name, Labels: shadow.Labels, Annotations: shadow.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offv1beta1.GroupVersion.WithKind("ShadowPod"))},
		},
		Spec: *shadow.Spec.Pod.DeepCopy(),
	}
	pod.Spec.NodeName = fmt.Sprintf("node-%d", n%20)
	if err := c.Client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	now := metav1.Now()
	ip := fmt.Sprintf("10.2.%d.%d", n/250, n%250+1)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		StartTime: &now, QOSClass: pod.Status.QOSClass,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Image: "example.org/app:1", Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return c.Client.Status().Update(ctx, pod)
}

func report(b *testing.B, p *testkit.Process, pods int) {
	b.Helper()
	b.ReportMetric(cpu(b, p.PID())/float64(pods)*1000, "cpu-ms/pod")
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		b.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		unit, ok := map[string]string{"VmRSS:": "rss-MiB", "RssAnon:": "anon-MiB", "RssFile:": "file-MiB"}[fields[0]]
		if !ok {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(kib/1024, unit)
		if most := promised + promisedPerPod*pods; unit == "rss-MiB" && kib*1024 > float64(most) {
			b.Logf("it takes %.1f MiB; %.1f were promised", kib/1024, float64(most)/(1<<20))
		}
	}
	if cycles := heapAfterGC.FindAllStringSubmatch(p.Log(), -1); len(cycles) > 0 {
		heap, err := strconv.ParseFloat(cycles[len(cycles)-1][1], 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(heap, "live-MiB")
	}
}

// cpu is how many seconds a process has computed, its start included.
func cpu(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// heapAfterGC is what was alive after a garbage collection, in what Go says of each.
var heapAfterGC = regexp.MustCompile(`\d+->\d+->(\d+) MB, \d+ MB goal`)
