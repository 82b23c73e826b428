// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/mover"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// patience is for what needs no time on an idle machine.
const patience = 2 * time.Minute

// fixture is a claim with a volume on one node, and another node.
type fixture struct {
	*testkit.ControlPlane
	ns, from, to, oldVolume string
	// prevent stops the simulated target from completing.
	prevent atomic.Bool
}

// newNode makes a ready node; provider is "" for a local one.
func newNode(t *testing.T, c *testkit.ControlPlane, name, provider string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if provider != "" {
		maps.Copy(node.Labels, map[string]string{names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: provider, names.StorageAvailable: "true"})
	}
	testkit.Create(t, c.Client, node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(t, c.Client.Status().Update(t.Context(), node))
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newVolume returns a volume of a claim, on a node or in a provider.
func newVolume(claim *corev1.PersistentVolumeClaim, key, where string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Labels: map[string]string{}, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": names.StorageProvider}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/x"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{where}}},
			}}}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	if key == names.RemoteClusterID {
		v.Labels[key] = where
	}
	return v
}

// newFixture makes the objects, and simulates Kubernetes until the end of the test. Providers are "" for local nodes.
func newFixture(t *testing.T, from, to string) *fixture {
	t.Helper()
	c := testkit.Cluster(t)
	f := &fixture{ControlPlane: c, ns: testkit.Namespace(t, c, "move", nil)}
	f.from, f.to = f.ns+"-from", f.ns+"-to"
	newNode(t, c, f.from, from)
	newNode(t, c, f.to, to)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: f.ns}, Provisioner: names.StorageProvider, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "data", Labels: map[string]string{"app": "shop"}, Annotations: map[string]string{
			"note": "kept", "volume.kubernetes.io/selected-node": f.from, "pv.kubernetes.io/bind-completed": "yes",
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &f.ns,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	testkit.Create(t, c.Client, class, claim)
	volume := newVolume(claim, corev1.LabelHostname, f.from)
	if from != "" {
		volume = newVolume(claim, names.RemoteClusterID, from)
	}
	f.oldVolume = volume.Name
	testkit.Create(t, c.Client, volume)
	claim.Spec.VolumeName = volume.Name
	must(t, c.Client.Update(t.Context(), claim))
	if from+to != "" {
		testkit.Create(t, c.Client, &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: names.NamespaceOffloading}, Spec: offv1beta1.NamespaceOffloadingSpec{
			PodOffloadingStrategy: offv1beta1.LocalAndRemotePodOffloadingStrategyType, NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
		}})
	}
	f.simulate(t)
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.Status.Phase == corev1.ClaimBound {
			return err
		}
		return errors.New("not bound yet")
	})
	return f
}

// simulate does what Kubernetes does about claims, volumes and pods of the namespace, after each of their changes.
func (f *fixture) simulate(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1)
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &corev1.PodList{}} {
		events, err := f.Client.Watch(ctx, list)
		must(t, err)
		go func() {
			for range events.ResultChan() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		}()
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				_ = f.reconcile(ctx) // conflicts follow from changes, which come here
			}
		}
	}()
}

func (f *fixture) reconcile(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	var pods corev1.PodList
	if err := errors.Join(f.Client.List(ctx, &claims, client.InNamespace(f.ns)), f.Client.List(ctx, &volumes), f.Client.List(ctx, &pods, client.InNamespace(f.ns))); err != nil {
		return err
	}
	var errs []error
	used := func(claim string) bool {
		return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return usesClaim(&p, claim) && p.Status.Phase != corev1.PodSucceeded })
	}
	volumeNamed := func(name string) *corev1.PersistentVolume {
		if i := slices.IndexFunc(volumes.Items, func(v corev1.PersistentVolume) bool { return v.Name == name }); i >= 0 {
			return &volumes.Items[i]
		}
		return nil
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		switch v := volumeNamed(claim.Spec.VolumeName); {
		case claim.DeletionTimestamp != nil:
			if !used(claim.Name) {
				claim.Finalizers = nil
				errs = append(errs, f.Client.Update(ctx, claim))
			}
		case claim.Spec.VolumeName == "" && used(claim.Name):
			v := newVolume(claim, corev1.LabelHostname, f.to)
			errs = append(errs, client.IgnoreAlreadyExists(f.Client.Create(ctx, v)))
			claim.Spec.VolumeName = v.Name
			errs = append(errs, f.Client.Update(ctx, claim))
		case claim.Status.Phase != corev1.ClaimBound && v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == f.ns && v.Spec.ClaimRef.Name == claim.Name &&
			(v.Spec.ClaimRef.UID == "" || v.Spec.ClaimRef.UID == claim.UID):
			v.Spec.ClaimRef.UID = claim.UID
			claim.Status.Phase = corev1.ClaimBound
			errs = append(errs, f.Client.Update(ctx, v))
			v.Status.Phase = corev1.VolumeBound
			errs = append(errs, f.Client.Status().Update(ctx, v), f.Client.Status().Update(ctx, claim))
		}
	}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Namespace != f.ns || v.Spec.ClaimRef.UID == "" ||
			slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool { return c.UID == v.Spec.ClaimRef.UID }) {
			continue
		}
		switch {
		case v.DeletionTimestamp != nil:
			v.Finalizers = nil
			errs = append(errs, f.Client.Update(ctx, v))
		case v.Status.Phase != corev1.VolumeReleased:
			v.Status.Phase = corev1.VolumeReleased
			errs = append(errs, f.Client.Status().Update(ctx, v))
		case v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
			errs = append(errs, f.Client.Delete(ctx, v))
		}
	}
	running := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Labels[names.MovedClaim] == "" || pod.DeletionTimestamp != nil:
		case pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded:
			pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.1"
			pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
			errs = append(errs, f.Client.Status().Update(ctx, pod))
		default:
			running++
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if running < 2 || f.prevent.Load() || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || !strings.HasSuffix(pod.Name, "-"+target) {
			continue
		}
		text, err := json.Marshal(mover.Progress{Phase: mover.Done, TotalFiles: 3, TotalBytes: 3 << 20})
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mover", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text)}}}}
		errs = append(errs, err, f.Client.Status().Update(ctx, pod))
	}
	return errors.Join(errs...)
}

// newMove returns a run of the command, and its output.
func (f *fixture) newMove(kube client.WithWatch) (*move, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &move{
		Session:     &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), out, out)},
		moveOptions: &moveOptions{targetNode: f.to, image: "liqo"}, kube: kube, claim: client.ObjectKey{Namespace: f.ns, Name: "data"},
		openLog: func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no kubelet") },
	}, out
}

// checkMoved checks the state after a move, or after one that was taken back.
func (f *fixture) checkMoved(t *testing.T, moved bool) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(t, f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: "data"}, claim))
	if claim.Status.Phase != corev1.ClaimBound || (claim.Spec.VolumeName != f.oldVolume) != moved {
		t.Errorf("the claim is %s to %s", claim.Status.Phase, claim.Spec.VolumeName)
	}
	if claim.Labels["app"] != "shop" || claim.Annotations["note"] != "kept" || claim.Labels[names.MovedClaim] != "" || claim.Spec.Resources.Requests.Storage().String() != "1Gi" {
		t.Errorf("the claim is %+v", claim)
	}
	volume := &corev1.PersistentVolume{}
	must(t, f.Client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || volume.Labels[names.MovedClaim] != "" || volume.Annotations[swapAnnotation] != "" || volume.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("the volume is %+v", volume)
	}
	testkit.Eventually(t, patience, func() error {
		var list corev1.PersistentVolumeList
		if err := f.Client.List(t.Context(), &list); err != nil {
			return err
		}
		for _, v := range list.Items {
			if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == f.ns && v.Name != volume.Name {
				return fmt.Errorf("volume %s of %s is left", v.Name, v.Spec.ClaimRef.Name)
			}
		}
		return nil
	})
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}} {
		must(t, f.Client.List(t.Context(), list, client.InNamespace(f.ns), client.HasLabels{names.MovedClaim}))
		if left := cluster.ItemsOf(list); len(left) > 0 {
			t.Errorf("%T %s is left", left[0], left[0].GetName())
		}
	}
}

func TestMoveVolume(t *testing.T) {
	f := newFixture(t, "", "")
	m, out := f.newMove(f.Client)
	if err := m.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, true)
	for _, line := range []string{" INFO  Pre-flight checks passed\n", " INFO  Copied and verified 3 files, 3 MiB\n", "The data of " + f.ns + "/data is on node " + f.to + "\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the output lacks %q:\n%s", line, out)
		}
	}
	again, out := f.newMove(f.Client)
	if err := again.moveVolume(t.Context()); err != nil || !strings.Contains(out.String(), "already") {
		t.Errorf("the second time: %v\n%s", err, out)
	}
	f.checkMoved(t, true)
}

// errKilled is what a client of a killed process returns.
var errKilled = errors.New("killed")

// killAfter returns a client of a process that is killed after n writes, and reports whether it was.
func killAfter(c client.WithWatch, n int64, kill func()) (_ client.WithWatch, killed func() bool) {
	var left atomic.Int64
	left.Store(n)
	write := func(do func() error) error {
		now := left.Add(-1)
		if now < 0 {
			return errKilled
		}
		err := do()
		if now == 0 {
			kill()
			return errKilled
		}
		return err
	}
	dead := func() bool { return left.Load() <= 0 }
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if dead() {
				return errKilled
			}
			return c.List(ctx, list, opts...)
		},
	}), dead
}

// Killed after each of its writes and run again, the command ends in the same state.
func TestMoveKilled(t *testing.T) {
	const most = 24
	var completed atomic.Int64
	t.Run("after", func(t *testing.T) {
		for n := range int64(most) {
			t.Run(fmt.Sprint(n+1), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, "", "")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				kube, killed := killAfter(f.Client, n+1, cancel)
				m, out := f.newMove(kube)
				err := m.moveVolume(ctx)
				if !killed() {
					must(t, err)
					completed.Add(1)
					return
				}
				volumes := f.countData(t)
				if volumes == 0 {
					t.Fatal("no volume has the data")
				}
				again, secondOut := f.newMove(f.Client)
				if err := again.moveVolume(t.Context()); err != nil {
					t.Fatalf("%v\n%s\nafter %v\n%s", err, secondOut, err, out)
				}
				f.checkMoved(t, true)
			})
		}
	})
	if completed.Load() == 0 {
		t.Errorf("the command has more than %d writes: kill it after all of them", most)
	}
}

// countData returns the number of volumes of the namespace that are not being deleted.
func (f *fixture) countData(t *testing.T) (n int) {
	t.Helper()
	var list corev1.PersistentVolumeList
	must(t, f.Client.List(t.Context(), &list))
	for _, v := range list.Items {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == f.ns && v.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// Kubernetes may delete the old volume as soon as its policy is Delete again, also between reading and writing.
func TestMoveOldVolumeDeletedMeanwhile(t *testing.T) {
	f := newFixture(t, "", "")
	kube := interceptor.NewClient(f.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if volume, is := obj.(*corev1.PersistentVolume); is && volume.Name == f.oldVolume && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
				gone := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: f.oldVolume}}
				must(t, c.Delete(ctx, gone))
				testkit.Eventually(t, patience, func() error {
					if err := c.Get(ctx, client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
						return fmt.Errorf("the old volume is not gone: %w", err)
					}
					return nil
				})
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	m, out := f.newMove(kube)
	if err := m.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, true)
}

// What the pods of a killed run verified may have changed since.
func TestMoveVerifiesAgain(t *testing.T) {
	f := newFixture(t, "", "")
	kube, _ := killAfter(f.Client, 5, func() {})
	m, _ := f.newMove(kube)
	if err := m.moveVolume(t.Context()); err == nil {
		t.Fatal("it was not killed")
	}
	old := &corev1.Pod{}
	find := func(is func(*corev1.Pod) bool) error {
		var pods corev1.PodList
		if err := f.Client.List(t.Context(), &pods, client.InNamespace(f.ns), client.HasLabels{names.MovedClaim}); err != nil {
			return err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; strings.HasSuffix(pod.Name, "-"+target) && is(pod) {
				pod.DeepCopyInto(old)
				return nil
			}
		}
		return errors.New("there is no such pod")
	}
	testkit.Eventually(t, patience, func() error {
		return find(func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	})
	f.prevent.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	again, _ := f.newMove(f.Client)
	result := make(chan error, 1)
	go func() { result <- again.moveVolume(ctx) }()
	before := old.UID
	testkit.Eventually(t, patience, func() error { return find(func(pod *corev1.Pod) bool { return pod.UID != before }) })
	cancel()
	if err := <-result; err == nil {
		t.Error("it did not wait for the new pod")
	}
	f.prevent.Store(false)
	last, out := f.newMove(f.Client)
	if err := last.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, true)
}

// newUser returns a pod that uses the claim.
func (f *fixture) newUser(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "web"}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "web", Image: "web"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}
}

func TestMoveUsed(t *testing.T) {
	f := newFixture(t, "", "")
	f.prevent.Store(true)
	m, out := f.newMove(f.Client)
	result := make(chan error, 1)
	go func() { result <- m.moveVolume(t.Context()) }()
	testkit.Eventually(t, patience, func() error {
		var pods corev1.PodList
		if err := f.Client.List(t.Context(), &pods, client.InNamespace(f.ns)); err != nil || len(pods.Items) == 2 {
			return err
		}
		return errors.New("the copy has not begun")
	})
	user := f.newUser("")
	testkit.Create(t, f.Client, user)
	if err := <-result; err == nil || !strings.Contains(err.Error(), "is used by pod web") {
		t.Fatalf("a pod that uses the claim meanwhile: %v\n%s", err, out)
	}
	var pods corev1.PodList
	must(t, f.Client.List(t.Context(), &pods, client.InNamespace(f.ns), client.HasLabels{names.MovedClaim}))
	if len(pods.Items) > 0 {
		t.Errorf("the pod %s is left", pods.Items[0].Name)
	}
	must(t, f.Client.Delete(t.Context(), user))
	f.prevent.Store(false)
	again, out := f.newMove(f.Client)
	if err := again.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, true)
}

// A pod that starts just before the claim is deleted may write what the copy lacks.
func TestMovePodInBetween(t *testing.T) {
	f := newFixture(t, "", "")
	user := f.newUser(f.from)
	deleted := false
	kube := interceptor.NewClient(f.Client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if _, is := obj.(*corev1.PersistentVolumeClaim); is && obj.GetName() == "data" {
				if err := c.Create(ctx, user); err != nil {
					return err
				}
				deleted = true
			}
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if deleted { // the command has listed the pod
				if err := client.IgnoreNotFound(c.Delete(ctx, user, client.GracePeriodSeconds(0))); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	m, _ := f.newMove(kube)
	err := m.moveVolume(t.Context())
	if err == nil || !strings.Contains(err.Error(), "started") {
		t.Fatalf("a pod in between: %v", err)
	}
	claim := &corev1.PersistentVolumeClaim{}
	must(t, f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: "data"}, claim))
	if claim.Spec.VolumeName != f.oldVolume {
		t.Errorf("the claim has volume %s", claim.Spec.VolumeName)
	}
	again, out := f.newMove(f.Client)
	if err := again.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, true)
}

func TestMoveAbort(t *testing.T) {
	f := newFixture(t, "", "")
	kube, _ := killAfter(f.Client, 5, func() {})
	m, _ := f.newMove(kube)
	if err := m.moveVolume(t.Context()); err == nil {
		t.Fatal("it was not killed")
	}
	other, _ := f.newMove(f.Client)
	newNode(t, f.ControlPlane, f.ns+"-other", "")
	other.targetNode = f.ns + "-other"
	if err := other.moveVolume(t.Context()); err == nil || !strings.Contains(err.Error(), "was begun and is not complete") {
		t.Errorf("another target: %v", err)
	}
	back, out := f.newMove(f.Client)
	back.abort = true
	if err := back.moveVolume(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.checkMoved(t, false)
}

func TestMoveBetweenClusters(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, listens string }{
		"to a provider": {"", "milan", target}, "from a provider": {"milan", "", source}, "local": {"", "", source},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			f := newFixture(t, tc.from, tc.to)
			f.prevent.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			m, _ := f.newMove(f.Client)
			result := make(chan error, 1)
			go func() { result <- m.moveVolume(ctx) }()
			defer func() { cancel(); <-result }()
			var pods corev1.PodList
			var secrets corev1.SecretList
			testkit.Eventually(t, patience, func() error {
				err := errors.Join(f.Client.List(t.Context(), &pods, client.InNamespace(f.ns)), f.Client.List(t.Context(), &secrets, client.InNamespace(f.ns)))
				if err == nil && (len(pods.Items) != 2 || len(secrets.Items) != 2) {
					err = errors.New("the copy has not begun")
				}
				return err
			})
			got := map[string]string{}
			for _, pod := range pods.Items {
				end := pod.Spec.Containers[0].Args[1]
				tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == names.VirtualNodeTaint })
				got[end] = fmt.Sprintf("%s tolerates=%t", strings.Join(pod.Spec.Containers[0].Args, " "), tolerates)
			}
			for _, secret := range secrets.Items {
				end := secret.Name[strings.LastIndex(secret.Name, "-")+1:]
				got[end] += fmt.Sprintf(" skip=%s", secret.Annotations[names.SkipReflection])
			}
			side := func(end, provider string) string {
				address, skip := "--connect=10.0.0.1:8443", "true"
				if end == tc.listens {
					address = "--listen=:8443"
				}
				if provider != "" {
					skip = ""
				}
				if end == target {
					address += " --limit=2Gi"
				}
				return fmt.Sprintf("mover %s %s tolerates=%t skip=%s", end, address, provider != "", skip)
			}
			if diff := cmp.Diff(map[string]string{source: side(source, tc.from), target: side(target, tc.to)}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCheckInputs(t *testing.T) {
	good := func() *inputs {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "1"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("liqo")}}
		claim.Status.Phase = corev1.ClaimBound
		return &inputs{
			claim: claim, class: &storagev1.StorageClass{Provisioner: names.StorageProvider}, volume: newVolume(claim, corev1.LabelHostname, "a"), nodeName: "b",
			target: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}},
		}
	}
	virtual := func(in *inputs) {
		in.target.Labels = map[string]string{names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: "milan", names.StorageAvailable: "true"}
	}
	for want, change := range map[string]func(*inputs){
		"":                   func(*inputs) {},
		"is not one of Liqo": func(in *inputs) { in.class.Provisioner = "rancher.io/local-path" },
		"the StorageClass of shop/data is not one of": func(in *inputs) { in.class = nil },
		"is being deleted":                            func(in *inputs) { in.claim.DeletionTimestamp = new(metav1.Now()) },
		"is not bound":                                func(in *inputs) { in.claim.Status.Phase = corev1.ClaimPending },
		"is a block device":                           func(in *inputs) { in.claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
		`node "b" not found`:                          func(in *inputs) { in.target = nil },
		`node "b" is not ready`:                       func(in *inputs) { in.target.Status.Conditions = nil },
		"is used by pod web and 1 more":               func(in *inputs) { in.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, {}} },
		`namespace "shop" is not offloaded`:           virtual,
		`cluster "milan" offers no storage`:           func(in *inputs) { virtual(in); in.target.Labels[names.StorageAvailable] = "false" },
		`the data is in cluster "rome", which is not connected to cluster "milan"`: func(in *inputs) { virtual(in); in.volume.Labels[names.RemoteClusterID] = "rome" },
		`the strategy of namespace "shop" is Remote`: func(in *inputs) {
			virtual(in)
			in.offloading = &offv1beta1.NamespaceOffloading{Spec: offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType}}
		},
	} {
		in := good()
		change(in)
		if err := in.checkInputs(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %v, want %q", err, want)
		}
	}
	in := good()
	in.offloading = &offv1beta1.NamespaceOffloading{Spec: offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType}}
	if err := in.checkInputs(); err == nil {
		t.Error("pods that only run in providers copy between local nodes")
	}
	in.volume.Spec.NodeAffinity = nil
	if !in.isThere() || good().isThere() {
		t.Error("a volume is where its affinity allows")
	}
}

func TestProgress(t *testing.T) {
	out := &bytes.Buffer{}
	m := &move{
		Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), out, out)}, claim: client.ObjectKey{Namespace: "shop", Name: "data"},
		openLog: func(context.Context, string) (io.ReadCloser, error) {
			var log strings.Builder
			for _, p := range []mover.Progress{
				{Phase: mover.Copying}, {Phase: mover.Copying, TotalBytes: 1 << 30}, {Phase: mover.Copying, TotalBytes: 1 << 30, Bytes: 1 << 29, Rate: 1 << 26},
				{Phase: mover.Copying, TotalBytes: 1 << 30, Bytes: 1<<29 + 1, Rate: 1 << 26}, {Phase: "\x1b[2J", TotalBytes: 1, Bytes: 1},
				{Phase: mover.Verifying, TotalBytes: 1 << 30, Bytes: 1 << 28, Rate: 1 << 28}, {Phase: mover.Done, TotalBytes: 1 << 30, Bytes: 1 << 30},
			} {
				_ = json.NewEncoder(&log).Encode(p)
				log.WriteString("liqo: no progress\n")
			}
			return io.NopCloser(strings.NewReader(log.String())), nil
		},
	}
	c := &copying{move: m, step: m.Spin("")}
	c.followProgress(t.Context(), "pod")
	want := " INFO  copying shop/data: 512 MiB of 1 GiB, 64 MiB/s, 8s left\n INFO  verifying shop/data: 256 MiB of 1 GiB, 256 MiB/s, 3s left\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNotStarted(t *testing.T) {
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}}
	}
	for want, status := range map[string]corev1.PodStatus{
		"pod p starts: Pending":                        {Phase: corev1.PodPending},
		"pod p starts: Unschedulable: full":            {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "full"}}},
		"pod p does not start: over quota":             {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: names.PodAccepted, Status: corev1.ConditionFalse, Message: "over quota"}}},
		"pod p starts: ImagePullBackOff: why":          waiting("ImagePullBackOff"),
		"pod p does not start: ErrImageNeverPull: why": waiting("ErrImageNeverPull"),
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: status}
		if err := notStarted(pod); err.Error() != want {
			t.Errorf("it waits for %q, want %q", err, want)
		}
	}
}

func TestMoveLease(t *testing.T) {
	f := newFixture(t, "", "")
	clients, err := kubernetes.NewForConfig(f.Config)
	must(t, err)
	first, _ := f.newMove(f.Client)
	holds, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- first.runLocked(t.Context(), clients, func(context.Context) error {
			close(holds)
			<-release
			return errKilled
		})
	}()
	<-holds
	waiting, cancel := context.WithCancel(t.Context())
	second, _ := f.newMove(f.Client)
	refused := make(chan error, 1)
	go func() {
		refused <- second.runLocked(waiting, clients, func(context.Context) error { return errors.New("two runs at once") })
	}()
	cancel()
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Errorf("the second run ends with %v", err)
	}
	close(release)
	if err := <-ended; !errors.Is(err, errKilled) {
		t.Errorf("the first run ends with %v", err)
	}
	leases, err := clients.CoordinationV1().Leases(f.ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(leases.Items) > 0 {
		t.Errorf("the Lease %s is left", leases.Items[0].Name)
	}
}

func TestSumOf(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3 GiB"} {
		if got := sumOf(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}
