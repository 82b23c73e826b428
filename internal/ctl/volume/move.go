// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package volume holds the command that moves a volume to another node. The data is copied to a temporary claim on the node, and verified. Then the
// original claim is bound to the copy. The state of a move is only in objects: the command can be run again after any interruption.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// moveOptions are the flags of the command. Names are the original's.
type moveOptions struct {
	namespace, liqoNamespace, targetNode                        string
	cpuRequests, cpuLimits, memoryRequests, memoryLimits, image string
	abort                                                       bool
}

// NewMoveCommand returns the command "move".
func NewMoveCommand(c *cluster.Session) *cobra.Command {
	o := &moveOptions{}
	cmd := &cobra.Command{
		Use:     "volume PVC",
		Aliases: []string{"pvc"},
		Short:   "Move the data of a PersistentVolumeClaim to another node or cluster",
		Long: "Move the data of a PersistentVolumeClaim of Liqo's storage class to another node or cluster. No pod may use the claim meanwhile. " +
			"The old volume is deleted once the claim is bound to the copy, which is verified by checksums. After an interruption, run the same command again.",
		Example:           "  liqoctl move volume data -n shop --target-node milan",
		Args:              cluster.OneName,
		ValidArgsFunction: c.CompleteOne(func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} }, nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return runMove(cmd.Context(), c, o, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", "The namespace of the claim; that of the kubeconfig's context if empty")
	fs.StringVar(&o.targetNode, "target-node", "", "The node to move the data to, which may be a virtual one")
	_ = cmd.MarkFlagRequired("target-node")
	_ = cmd.RegisterFlagCompletionFunc("target-node", c.CompleteOne(func() client.ObjectList { return &corev1.NodeList{} }, nil))
	fs.StringVar(&o.cpuRequests, "containers-cpu-requests", "", "The CPU requests of the pods that copy, such as 100m")
	fs.StringVar(&o.cpuLimits, "containers-cpu-limits", "", "The CPU limits of the pods that copy")
	fs.StringVar(&o.memoryRequests, "containers-ram-requests", "", "The memory requests of the pods that copy, such as 128Mi")
	fs.StringVar(&o.memoryLimits, "containers-ram-limits", "", "The memory limits of the pods that copy")
	fs.StringVar(&o.image, "image", "", "The image of the pods that copy, which is that of Liqo; that of the controller-manager if empty")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.BoolVar(&o.abort, "abort", false, "Remove what an interrupted move has left, and leave the volume where it is")
	for _, name := range []string{"restic-server-image", "restic-image"} {
		fs.String(name, "", "No image of another project is needed")
		_ = fs.MarkHidden(name)
	}
	return cluster.NewGroup("move", "Move a resource to another node or cluster", cmd)
}

// containerResources returns the resources of the containers.
func (o *moveOptions) containerResources() corev1.ResourceRequirements {
	lists := [2]corev1.ResourceList{{}, {}}
	for _, one := range []struct {
		list int
		name corev1.ResourceName
		text string
	}{{0, corev1.ResourceCPU, o.cpuRequests}, {0, corev1.ResourceMemory, o.memoryRequests}, {1, corev1.ResourceCPU, o.cpuLimits}, {1, corev1.ResourceMemory, o.memoryLimits}} {
		if one.text != "" { // the flags were checked
			lists[one.list][one.name] = resource.MustParse(one.text)
		}
	}
	return corev1.ResourceRequirements{Requests: lists[0], Limits: lists[1]}
}

// move is one run of the command.
type move struct {
	*cluster.Session
	*moveOptions
	kube client.WithWatch
	// claim is the claim to move.
	claim client.ObjectKey
	// openLog follows the log of a pod.
	openLog func(ctx context.Context, pod string) (io.ReadCloser, error)
}

// runMove runs the command under the Lease of the claim.
func runMove(ctx context.Context, c *cluster.Session, o *moveOptions, name string) error {
	namespace, err := c.ResourceNamespace(o.namespace)
	if err != nil {
		return err
	}
	config, err := c.RestConfig()
	if err != nil {
		return err
	}
	cl, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	m := &move{
		Session: c, moveOptions: o, kube: cluster.NewRetryingClient(cl, c.Scope("")), claim: client.ObjectKey{Namespace: namespace, Name: name},
		openLog: func(ctx context.Context, pod string) (io.ReadCloser, error) {
			return clients.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true, TailLines: new(int64(1))}).Stream(ctx)
		},
	}
	whole := &cluster.Cluster{Scope: c.Scope(""), Kube: m.kube, LiqoNamespace: o.liqoNamespace}
	actions := []string{"move volume"}
	if o.image == "" {
		actions = append(actions, "find image")
	}
	if err := whole.RequirePermissions(ctx, cluster.PermissionsFor(cluster.Namespaces{Object: namespace, Liqo: o.liqoNamespace}, actions...)...); err != nil {
		return err
	}
	return m.runLocked(ctx, clients, m.moveVolume)
}

// leaseDuration is how long a Lease holds without its process, renewDeadline how long a process retries to renew the Lease.
const (
	leaseDuration = time.Minute
	renewDeadline = 45 * time.Second
	renewPeriod   = 10 * time.Second
)

// runLocked runs do while no other run moves the same claim. The Lease is deleted at the end.
func (m *move) runLocked(ctx context.Context, clients kubernetes.Interface, do func(context.Context) error) error {
	host, _ := os.Hostname()
	identity := fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
	name := names.Join("move", m.claim.Name)
	step := m.Spin("Waiting for another run of this command")
	defer step.Stop()
	held, end := context.WithCancel(context.WithoutCancel(ctx)) // until do has cleaned up
	defer end()
	stop := context.AfterFunc(ctx, end)
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          kube.NewLease(clients.CoordinationV1(), m.claim.Namespace, name, identity, nil),
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: renewPeriod, ReleaseOnCancel: true, Name: name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer end()
				stop()
				step.Stop()
				within, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(leading, cancel)()
				result <- do(within)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(other string) {
				if other != identity {
					step.Waits("the Lease " + name + " is held by " + other)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(held)
	if !elector.IsLeader() && len(result) == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	err = <-result
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return ui.Fail("the Lease %s was lost: %w", name, err).Hint(runAgain)
	}
	deleteLease(context.WithoutCancel(ctx), clients, m.claim.Namespace, name)
	return err
}

// deleteLease deletes a Lease without a holder. A remaining Lease does no harm.
func deleteLease(ctx context.Context, clients kubernetes.Interface, namespace, name string) {
	leases := clients.CoordinationV1().Leases(namespace)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		_ = leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &lease.ResourceVersion}})
	}
}

const runAgain = "Run the command again to continue"

// moveVolume moves the volume, or takes an interrupted move back. Each step reads the current state.
func (m *move) moveVolume(ctx context.Context) error {
	if _, err := m.finishSwap(ctx); err != nil {
		return err
	}
	if m.abort {
		return m.removeCopy(ctx)
	}
	in, err := m.gatherInputs(ctx)
	if err != nil {
		return err
	}
	if in.isThere() {
		m.Success("The data of %s is on node %s already", m.claim, m.targetNode)
		return m.removeCopy(ctx)
	}
	if err := in.checkInputs(); err != nil {
		return err
	}
	m.Success("Pre-flight checks passed")
	temporary, err := m.ensureTemporary(ctx, in)
	if err != nil {
		return err
	}
	copied, err := m.copyData(ctx, in, temporary)
	if err != nil {
		return err
	}
	m.Success("Copied and verified %d files, %s", copied.TotalFiles, sumOf(copied.TotalBytes))
	if err := m.commitSwap(ctx, in, temporary); err != nil {
		return err
	}
	completed, err := m.finishSwap(ctx)
	if err != nil {
		return err
	}
	if !completed {
		return ui.Fail("a pod with the claim %s started while the copy was verified: the claim has its old volume again", m.claim).
			Hint("Delete the pod. %s: only what the pod changed is copied", runAgain)
	}
	m.Success("The data of %s is on node %s", m.claim, m.targetNode)
	return nil
}

// sumOf returns an amount of bytes for messages.
func sumOf(bytes int64) string {
	amount, unit := float64(bytes), 0
	for ; amount >= 1024 && unit < len(units)-1; unit++ {
		amount /= 1024
	}
	return fmt.Sprintf("%.4g %s", amount, units[unit])
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
