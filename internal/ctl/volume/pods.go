// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/mover"
	"liqo.io/liqo/internal/names"
)

const (
	managedByMove = "liqoctl-move-volume"
	// targetAnnotation of the temporary claim has the target node.
	targetAnnotation = "storage.liqo.io/move-target-node"
	moverPort        = 8443
)

// Ends of a copy.
const (
	source = "source"
	target = "target"
)

// findImage returns the image of the controller-manager.
func (m *move) findImage(ctx context.Context) (string, error) {
	manager, err := cluster.ControllerManager(ctx, m.kube, m.liqoNamespace)
	if err != nil {
		return "", err
	}
	container, err := cluster.ManagerContainer(manager)
	if err != nil {
		return "", err
	}
	return container.Image, nil
}

// temporaryName returns the name of the temporary claim. The name depends on the volume to move, and changes with each move.
func temporaryName(in *inputs) string {
	return names.Join(in.claim.Name, "move", shortHash(in.volume.Name))
}

// ensureTemporary makes the claim for the copy. The scheduler binds the claim on the node of the target's pod.
func (m *move) ensureTemporary(ctx context.Context, in *inputs) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := m.kube.Get(ctx, client.ObjectKey{Namespace: m.claim.Namespace, Name: temporaryName(in)}, claim)
	if err == nil && claim.DeletionTimestamp != nil {
		return nil, ui.Fail("the temporary claim %s is being deleted", claim.Name).Hint("Run the command again once it is gone")
	}
	if err == nil {
		if to := claim.Annotations[targetAnnotation]; to != m.targetNode || claim.Labels[names.MovedClaim] != names.Label(m.claim.Name) {
			return nil, ui.Fail("a move of %s to node %q was begun and is not complete", m.claim, to).
				Hint("Complete it with --target-node %s, or take it back with --target-node %s --abort", to, to)
		}
		return claim, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the temporary claim: %w", err)
	}
	size := in.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := in.volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(size) > 0 {
		size = has
	}
	claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.claim.Namespace, Name: temporaryName(in), Labels: maps.Clone(in.claim.Labels), Annotations: withoutBinding(in.claim.Annotations)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: in.claim.Spec.AccessModes, StorageClassName: in.claim.Spec.StorageClassName, VolumeMode: in.claim.Spec.VolumeMode,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	m.markObject(claim)
	claim.Annotations[targetAnnotation] = m.targetNode
	if err := m.kube.Create(ctx, claim); err != nil {
		return nil, fmt.Errorf("making the temporary claim: %w", err)
	}
	return claim, nil
}

// markObject labels an object of this move.
func (m *move) markObject(obj client.Object) {
	if obj.GetAnnotations() == nil {
		obj.SetAnnotations(map[string]string{})
	}
	if obj.GetLabels() == nil {
		obj.SetLabels(map[string]string{})
	}
	m.SetCommonMetadata(obj)
	obj.GetLabels()[names.AppManagedBy], obj.GetLabels()[names.MovedClaim] = managedByMove, names.Label(m.claim.Name)
}

// copyData makes the pods of both ends, and waits until the target has verified everything. The pods are removed in any case.
func (m *move) copyData(ctx context.Context, in *inputs, temporary *corev1.PersistentVolumeClaim) (mover.Progress, error) {
	c := &copying{move: m, in: in, temporary: temporary, remote: map[string]bool{source: providerOf(in.volume) != "", target: providerOf(in.target) != ""}}
	c.step = m.Spin("Copying the data of " + m.claim.String())
	defer c.step.Stop()
	end, err := c.runPods(ctx)
	if err == nil {
		err = m.removeHelpers(ctx)
	} else {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, m.deleteHelpers(within))
	}
	if err != nil {
		failure := ui.Fail("%w", err)
		if inner, ok := errors.AsType[*ui.Failure](err); !ok || len(inner.All()) == 0 {
			failure.Hint(runAgain)
		}
		return end, failure.Hint("What is copied stays in the claim %s; --abort removes it", temporary.Name)
	}
	return end, nil
}

// cleanupTimeout bounds the removal of the pods after an interruption.
const cleanupTimeout = 30 * time.Second

// copying is the state of one copy.
type copying struct {
	*move
	in        *inputs
	temporary *corev1.PersistentVolumeClaim
	remote    map[string]bool // of the ends: whether the pod is in a provider
	step      *ui.Spinner

	mu       sync.Mutex
	follows  bool
	reported int64
}

// chooseListener returns the end that listens: the end in the provider. All providers of the namespace can read the keys of this end. The keys of a
// listener do not open the volume to them.
func (c *copying) chooseListener() (listens, connects string) {
	if c.remote[target] {
		return target, source
	}
	return source, target
}

// podName returns the name of the pod and of the Secret of an end.
func (c *copying) podName(end string) string { return names.Join(c.temporary.Name, end) }

func (c *copying) runPods(ctx context.Context) (end mover.Progress, err error) {
	// Pods of an interrupted run may have verified data that changed since.
	if err := c.removeHelpers(ctx); err != nil {
		return end, err
	}
	if err := c.makeKeys(ctx); err != nil {
		return end, err
	}
	following, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	what := kube.Watched{List: &corev1.PodList{}, Opts: []client.ListOption{client.InNamespace(c.claim.Namespace)}}
	err = kube.WaitUntil(kube.WithProgress(ctx, c.step.Waits), c.kube, func(ctx context.Context) error {
		users, err := c.listUsers(ctx, c.claim.Name)
		if err == nil {
			err = inUse(c.claim.String(), users)
		}
		if err != nil {
			return err
		}
		to, err := c.ensurePods(ctx)
		if err != nil {
			return err
		}
		if to.Status.Phase == corev1.PodSucceeded {
			end, err = resultOf(to)
			return err
		}
		followers.Go(func() { c.followProgress(following, to.Name) })
		return kube.Pending("pod " + to.Name + " copies")
	}, what)
	return end, err
}

// resultOf returns the result of the target's pod.
func resultOf(pod *corev1.Pod) (end mover.Progress, err error) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			err = json.Unmarshal([]byte(s.State.Terminated.Message), &end)
		}
	}
	if err == nil && end.Phase != mover.Done {
		err = errors.New("its phase is not " + mover.Done)
	}
	if err != nil {
		return end, fmt.Errorf("reading the result of pod %s: %w", pod.Name, err)
	}
	return end, nil
}

// makeKeys makes the Secrets of both ends.
func (c *copying) makeKeys(ctx context.Context) error {
	one, other, err := mover.NewKeys(time.Now())
	if err != nil {
		return err
	}
	for end, data := range map[string]map[string][]byte{source: one, target: other} {
		secret := &corev1.Secret{ObjectMeta: c.ownedMetadata(end), Type: corev1.SecretTypeOpaque, Data: data, Immutable: new(true)}
		c.markObject(secret)
		reflection := names.SkipReflection
		if c.remote[end] {
			reflection = names.AllowReflection
		}
		secret.Annotations[reflection] = "true"
		if err := c.kube.Create(ctx, secret); err != nil {
			return fmt.Errorf("making the keys: %w", err)
		}
	}
	return nil
}

// ownedMetadata returns the name and the owner of the objects of an end: they go with the temporary claim.
func (c *copying) ownedMetadata(end string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.claim.Namespace, Name: c.podName(end), OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: c.temporary.Name, UID: c.temporary.UID,
	}}}
}

// ensurePods makes the pods one after another, because the second needs the address of the first, and returns the target's pod. A failed pod, or a
// pod with an old address, is replaced.
func (c *copying) ensurePods(ctx context.Context) (*corev1.Pod, error) {
	listens, connects := c.chooseListener()
	first, err := c.ensurePod(ctx, listens, "--listen=:"+strconv.Itoa(moverPort))
	if err != nil {
		return nil, err
	}
	if first.Name == c.podName(target) && first.Status.Phase == corev1.PodSucceeded {
		return first, nil
	}
	if first.Status.PodIP == "" || first.Status.Phase != corev1.PodRunning {
		return nil, notStarted(first)
	}
	second, err := c.ensurePod(ctx, connects, "--connect="+net.JoinHostPort(first.Status.PodIP, strconv.Itoa(moverPort)))
	if err != nil {
		return nil, err
	}
	if second.Status.Phase == corev1.PodPending || second.Status.Phase == "" {
		return nil, notStarted(second)
	}
	if listens == target {
		return first, c.checkRunning(first)
	}
	return second, c.checkRunning(second)
}

// checkRunning returns an error for a pod whose container fails again and again.
func (c *copying) checkRunning(pod *corev1.Pod) error {
	if problem := kube.PodProblemOf(pod); problem.IsPermanent() {
		return ui.Fail("pod %s fails: %s", pod.Name, problem)
	}
	return nil
}

// notStarted returns a Pending with why a pod does not start, and an error if the pod never will.
func notStarted(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == names.PodAccepted && c.Status == corev1.ConditionFalse {
			return kube.Pending("pod " + pod.Name + " does not start: " + cmp.Or(c.Message, c.Reason))
		}
	}
	problem := kube.PodProblemOf(pod)
	if problem.IsPermanent() {
		return ui.Fail("pod %s does not start: %s", pod.Name, problem).Hint("--image names another image of Liqo")
	}
	return kube.Pending("pod " + pod.Name + " starts: " + cmp.Or(problem.String(), string(pod.Status.Phase)))
}

// ensurePod returns the pod of an end with an address, and makes a missing pod.
func (c *copying) ensurePod(ctx context.Context, end, address string) (*corev1.Pod, error) {
	want := c.newPod(end, address)
	pod, err := getOrNil(ctx, c.kube, client.ObjectKeyFromObject(want), &corev1.Pod{})
	switch {
	case err != nil:
		return nil, err
	case pod == nil:
		if err := c.kube.Create(ctx, want); err != nil {
			return nil, fmt.Errorf("making pod %s: %w", want.Name, err)
		}
		return want, nil
	case pod.DeletionTimestamp != nil:
		return nil, kube.Pending("pod " + pod.Name + " is being deleted")
	case pod.Status.Phase == corev1.PodFailed, end == source && pod.Status.Phase == corev1.PodSucceeded, pod.Annotations[addressAnnotation] != address:
		if err := c.kube.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
		return nil, kube.Pending("pod " + pod.Name + " is replaced")
	}
	return pod, nil
}

// addressAnnotation of a pod has the flag with the address.
const addressAnnotation = "storage.liqo.io/move-address"

// newPod returns the pod of an end. The pod runs as root, because files belong to any user. The only capabilities are those to read, or to write and
// give away, files.
func (c *copying) newPod(end, address string) *corev1.Pod {
	claim, capabilities := c.claim.Name, []corev1.Capability{"DAC_OVERRIDE"}
	args := []string{"mover", end, address}
	if end == target {
		claim, capabilities = c.temporary.Name, append(capabilities, "CHOWN", "FOWNER", "FSETID")
		size := c.temporary.Spec.Resources.Requests[corev1.ResourceStorage]
		args = append(args, "--limit="+size.String())
	}
	pod := &corev1.Pod{ObjectMeta: c.ownedMetadata(end), Spec: corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyOnFailure,
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(5)),
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "mover", Image: c.in.image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args, Resources: c.containerResources(),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "volume", MountPath: "/volume", ReadOnly: end == source}, {Name: "keys", MountPath: "/keys", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{
			{Name: "volume", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: end == source}}},
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: c.podName(end), DefaultMode: new(int32(0o400))}}},
		},
	}}
	if end == target {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{c.targetNode}},
			}}},
		}}}
	}
	if c.remote[end] {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}}
	}
	c.markObject(pod)
	pod.Annotations[addressAnnotation] = address
	return pod
}

// helperSelector returns the options to list the temporary claims, pods and Secrets of moves of the claim.
func (m *move) helperSelector() []client.ListOption {
	return []client.ListOption{client.InNamespace(m.claim.Namespace), client.MatchingLabels{names.MovedClaim: names.Label(m.claim.Name), names.AppManagedBy: managedByMove}}
}

// removeHelpers deletes the pods and Secrets of moves of the claim, and waits until the pods are gone.
func (m *move) removeHelpers(ctx context.Context) error {
	if err := m.deleteHelpers(ctx); err != nil {
		return err
	}
	return kube.WaitForNone(ctx, m.kube, &corev1.PodList{}, m.helperSelector()...)
}

func (m *move) deleteHelpers(ctx context.Context) error {
	var secrets corev1.SecretList
	var pods corev1.PodList
	if err := errors.Join(m.kube.List(ctx, &secrets, m.helperSelector()...), m.kube.List(ctx, &pods, m.helperSelector()...)); err != nil {
		return fmt.Errorf("listing the pods and Secrets of the move: %w", err)
	}
	for _, obj := range append(cluster.ItemsOf(&pods), cluster.ItemsOf(&secrets)...) {
		if err := m.kube.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// followProgress shows the progress from the log of the target's pod, one follower at a time. Without logs there is no progress to show.
func (c *copying) followProgress(ctx context.Context, pod string) {
	c.mu.Lock()
	busy := c.follows
	c.follows = true
	c.mu.Unlock()
	if busy {
		return
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.follows = false
	}()
	log, err := c.openLog(ctx, pod)
	if err != nil {
		return
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var p mover.Progress
		if json.Unmarshal(lines.Bytes(), &p) == nil && p.TotalBytes > 0 && slices.Contains([]string{mover.Copying, mover.Verifying}, p.Phase) {
			c.showProgress(p)
		}
	}
}

// showProgress shows the progress beside the spinner, and without a spinner as a line for each tenth.
func (c *copying) showProgress(p mover.Progress) {
	text := fmt.Sprintf("%s %s: %s of %s, %s/s", p.Phase, c.claim, sumOf(p.Bytes), sumOf(p.TotalBytes), sumOf(p.Rate))
	if left := p.TimeLeft(); left > 0 {
		text += fmt.Sprintf(", %s left", left)
	}
	c.step.Text(text)
	tenth := p.Bytes * 10 / p.TotalBytes
	if p.Phase == mover.Verifying {
		tenth += 100
	}
	if tenth > c.reported && !c.IsTerminal() {
		c.reported = tenth
		c.Info("%s", text)
	}
}
