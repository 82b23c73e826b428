// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Placement holds the namespace of new objects and the Liqo namespace: flags of create and generate.
type Placement struct {
	Namespace, LiqoNamespace string
}

// AddFlags adds the flags of the options to a command.
func (p *Placement) AddFlags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVarP(&p.Namespace, "namespace", "n", "", "The namespace of the object; that of the kubeconfig's context if empty")
	cmd.PersistentFlags().StringVar(&p.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
}

// Creation holds the common options of the create commands.
type Creation struct {
	Placement
	DryRunOptions
	Peer    string
	wait    bool
	Timeout time.Duration
}

// AddFlags adds the flags of one command. An object without a state to wait for has no --wait.
func (o *Creation) AddFlags(c *Session, cmd *cobra.Command, canWait bool) {
	fs := cmd.Flags()
	fs.StringVar(&o.Peer, "remote-cluster-id", "", "The ID of the other cluster")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	o.DryRunOptions.AddFlags(fs)
	if canWait {
		fs.BoolVar(&o.wait, "wait", false, "Wait until the object is ready")
	}
	fs.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "How long all of it may take")
}

// WithOneArgument returns a command that creates a single object.
func (c *Session) WithOneArgument(o *Creation, cmd *cobra.Command, run func(ctx context.Context, key client.ObjectKey) error) *cobra.Command {
	cmd.Args = OneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := c.ResourceNamespace(o.Namespace)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
		defer cancel()
		return run(ctx, client.ObjectKey{Namespace: namespace, Name: args[0]})
	}
	return cmd
}

// ForPeer returns a command that creates a single object in the tenant namespace of the peer, which must exist, or in another namespace given by the
// user. Printing an object with an explicit namespace needs no cluster.
func (c *Session) ForPeer(o *Creation, cmd *cobra.Command, run func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error) *cobra.Command {
	cmd.Args = CheckArguments(cobra.ExactArgs(1), checkNodeName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
		defer cancel()
		namespace := o.Namespace
		cluster, err := c.NewClient(ctx)
		if err != nil && (namespace == "" || !o.IsRequested()) { // otherwise no request is needed
			return err
		}
		if namespace == "" {
			if namespace, err = tenantNamespace(ctx, cluster, o.Peer); err != nil {
				return err
			}
		}
		return run(ctx, cluster, client.ObjectKey{Namespace: namespace, Name: args[0]})
	}
	return cmd
}

// tenantNamespace returns the tenant namespace of a peer. A user who may not list namespaces may have access to the namespace with the default name.
func tenantNamespace(ctx context.Context, cluster client.WithWatch, id string) (string, error) {
	s := &Cluster{Kube: cluster}
	if err := s.FindNamespace(ctx, id); err != nil {
		return "", err
	}
	if s.Missing {
		return "", ui.Fail("tenant namespace not found for cluster %q", id).
			Hint("Peer with it by liqoctl peer, or make the namespace by liqoctl authenticate")
	}
	return s.Namespace, nil
}

// ResourceNamespace returns the namespace of an object: from the user, else from the kubeconfig's context.
func (c *Session) ResourceNamespace(requested string) (string, error) {
	if requested != "" {
		return requested, nil
	}
	namespace, _, err := c.KubeFlags.ToRawKubeConfigLoader().Namespace()
	if err == nil {
		return namespace, nil
	}
	if _, unread := c.RestConfig(); unread != nil { // restConfig has the better error
		return "", unread
	}
	return "", explainUnusable(fmt.Errorf("reading the kubeconfig: %w", err), "")
}

// RestMapper returns the REST mapper of the cluster.
func (c *Session) RestMapper(ctx context.Context) (apimeta.RESTMapper, error) {
	cl, err := c.NewClient(ctx)
	if err != nil {
		return nil, err
	}
	return cl.RESTMapper(), nil
}

// readiness returns a Pending with the missing condition of an object.
type readiness func(ctx context.Context, cl client.Reader, obj client.Object) error

// CreateAndWait prints the object, or applies the object and waits until it is ready.
func (c *Session) CreateAndWait(ctx context.Context, o *Creation, obj client.Object, created, isReady string, ready readiness) error {
	c.SetCommonMetadata(obj)
	if o.IsRequested() {
		return c.PrintObject(obj, o.OutputFormat())
	}
	cluster, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	if id, err := ClusterIdentity(ctx, cluster, o.LiqoNamespace); err == nil && id == o.Peer { // a user who may not read the ID skips the check
		return ui.Fail("%q is this cluster: --remote-cluster-id is the ID of the other one", id)
	}
	if err := ApplyObject(ctx, cluster, obj); err != nil {
		return err
	}
	c.Success("%s", created)
	if !o.wait {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	return c.RunStep("Waiting for "+key.String(), isReady, func() error {
		return kube.WaitForReady(ctx, cluster, obj, func(ctx context.Context, obj client.Object) error { return ready(ctx, cluster, obj) })
	})
}

// ApplyObject creates or updates an object, also an object created by another client. ApplyObject first waits for the end of an object of the same
// name that is being deleted.
func ApplyObject(ctx context.Context, c client.WithWatch, obj client.Object, opts ...kube.EnsureOption) error {
	opts = append(opts, kube.FieldManager(names.CLIFieldManager))
	for {
		changed, err := kube.Ensure(ctx, c, obj, opts...)
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		if apimeta.IsNoMatchError(err) {
			return NoKind(kind)
		}
		if err == nil && !changed {
			return KeepObject(c, obj)
		}
		if !kube.IsWait(err) {
			return err
		}
		if err := awaitDeleted(ctx, c, obj); err != nil {
			return err
		}
	}
}

// NoKind returns the error about a cluster that lacks a kind of Liqo.
func NoKind(kind string) error {
	return ui.Fail("the cluster has no kind %s: Liqo is not installed in it", kind).
		Hint("Install it with liqoctl install, or take another cluster: --kubeconfig and --context choose it")
}

// awaitDeleted waits while an object of the same kind and name is being deleted.
func awaitDeleted(ctx context.Context, cluster client.WithWatch, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, cluster.Scheme())
	if err != nil {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(gvk)
	now.Namespace, now.Name = obj.GetNamespace(), obj.GetName()
	return requireWait(kube.WaitForObject(ctx, cluster, now, func(_ context.Context, exists bool) error {
		if !exists || now.DeletionTimestamp == nil {
			return nil
		}
		return kube.Pending(fmt.Sprintf("the earlier %s %s is being deleted, and held by %s",
			gvk.Kind, strings.TrimPrefix(client.ObjectKeyFromObject(now).String(), "/"), strings.Join(now.Finalizers, ", ")))
	}))
}

// requireWait turns the error of a skipped wait into a failure: a dry run does not know how the command would go on.
func requireWait(err error) error {
	if kube.IsSkipped(err) {
		return ui.Fail("%w: try again when it is gone", err)
	}
	return err
}

// Generation holds the common options of the generate commands. They print manifests for another cluster.
type Generation struct {
	Placement
	Output  string
	timeout time.Duration
}

// AddFlags adds the flags of the options to a command.
func (o *Generation) AddFlags(cmd *cobra.Command) {
	OutputFlag(cmd.Flags(), &o.Output, "yaml", "Print the object as json or yaml")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
}

// PrintGenerated prints an object for another cluster. The object has no namespace unless the user gives one: the namespace of the local context
// means nothing in the other cluster.
func (c *Session) PrintGenerated(o *Generation, obj client.Object) error {
	if o.Namespace != corev1.NamespaceDefault {
		obj.SetNamespace(o.Namespace)
	}
	c.SetCommonMetadata(obj)
	return c.PrintObject(obj, o.Output)
}

// WithTimeout runs a command without arguments within the timeout.
func (o *Generation) WithTimeout(run func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return run(ctx)
	}
}

// Retrieval holds the common options of the get commands. A get command prints one raw value.
type Retrieval struct {
	Placement
	Peer    string
	timeout time.Duration
}

// RunRetrieval adds the flags of a command, and runs the command on the tenant namespace of the peer.
func (c *Session) RunRetrieval(o *Retrieval, cmd *cobra.Command, run func(ctx context.Context, s *Cluster, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&o.Peer, "remote-cluster-id", "", "The ID of the other cluster")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "Time to wait for the value")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		s, err := c.NewClusterOf(ctx, o.Peer, o.Placement)
		if err != nil {
			return err
		}
		if s.Missing {
			return noTenantNamespace(o.Peer)
		}
		return run(ctx, s, args)
	}
	return cmd
}

// NoTenantNamespaceHint is the hint for a peer without a tenant namespace.
const NoTenantNamespaceHint = "The first step of a peering creates it, such as liqoctl create nonce. Check --kubeconfig and --context"

func noTenantNamespace(other string) *ui.Failure {
	return ui.Fail("tenant namespace of %s not found", other).
		Hint("%s", NoTenantNamespaceHint)
}
