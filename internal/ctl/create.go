// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// placement holds the namespace of new objects and the Liqo namespace: flags of create and generate.
type placement struct {
	namespace, liqoNamespace string
}

func (p *placement) addFlags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVarP(&p.namespace, "namespace", "n", "", "The namespace of the object; that of the kubeconfig's context if empty")
	cmd.PersistentFlags().StringVar(&p.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
}

// creation holds the common options of the create commands.
type creation struct {
	placement
	dryRunOptions
	peer    string
	wait    bool
	timeout time.Duration
}

func (c *cli) newCreateCommand() *cobra.Command {
	o := &creation{}
	parent := newGroup("create", "Create objects of Liqo, or print them",
		c.createConfiguration(o), c.createGatewayServer(o), c.createGatewayClient(o), c.createPublicKey(o), c.createNonce(o))
	o.placement.addFlags(parent)
	parent.AddCommand(c.createResourceSlice(o), c.createVirtualNode(o))
	return parent
}

// addFlags adds the flags of one command. An object without a state to wait for has no --wait.
func (o *creation) addFlags(c *cli, cmd *cobra.Command, canWait bool) {
	fs := cmd.Flags()
	fs.StringVar(&o.peer, "remote-cluster-id", "", "The ID of the other cluster")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	_ = cmd.RegisterFlagCompletionFunc("remote-cluster-id", c.completeClusters)
	o.dryRunOptions.addFlags(cmd, fs)
	if canWait {
		fs.BoolVar(&o.wait, "wait", false, "Wait until the object is ready")
	}
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
}

// withOneArgument returns a command that creates a single object.
func (c *cli) withOneArgument(o *creation, cmd *cobra.Command, run func(ctx context.Context, key client.ObjectKey) error) *cobra.Command {
	cmd.Args = oneName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := c.resourceNamespace(o.namespace)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return run(ctx, client.ObjectKey{Namespace: namespace, Name: args[0]})
	}
	return cmd
}

// forPeer returns a command that creates a single object in the tenant namespace of the peer, which must exist, or in another
// namespace given by the user. Printing an object with an explicit namespace needs no cluster.
func (c *cli) forPeer(o *creation, cmd *cobra.Command, run func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error) *cobra.Command {
	cmd.Args = checkArguments(cobra.ExactArgs(1), checkNodeName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		namespace := o.namespace
		cluster, err := c.newClient(ctx)
		if err != nil && (namespace == "" || !o.isRequested()) { // otherwise no request is needed
			return err
		}
		if namespace == "" {
			if namespace, err = tenantNamespace(ctx, cluster, o.peer); err != nil {
				return err
			}
		}
		return run(ctx, cluster, client.ObjectKey{Namespace: namespace, Name: args[0]})
	}
	return cmd
}

// tenantNamespace returns the tenant namespace of a peer. A user who may not list namespaces may have been given the one with the
// default name.
func tenantNamespace(ctx context.Context, cluster client.WithWatch, id string) (string, error) {
	s := &Cluster{kube: cluster}
	if err := s.findNamespace(ctx, id); err != nil {
		return "", err
	}
	if s.missing {
		return "", out.Fail("tenant namespace not found for cluster %q", id).
			Hint("Peer with it by liqoctl peer, or make the namespace by liqoctl authenticate")
	}
	return s.namespace, nil
}

// resourceNamespace returns the namespace of an object: the one given by the user, else the namespace of the kubeconfig's context.
func (c *cli) resourceNamespace(asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	namespace, _, err := c.kubeFlags.ToRawKubeConfigLoader().Namespace()
	if err == nil {
		return namespace, nil
	}
	if _, unread := c.restConfig(); unread != nil { // restConfig has the better error
		return "", unread
	}
	return "", explainUnusable(fmt.Errorf("reading the kubeconfig: %w", err), "")
}

// restMapper returns the REST mapper of the cluster.
func (c *cli) restMapper(ctx context.Context) (apimeta.RESTMapper, error) {
	kube, err := c.newClient(ctx)
	if err != nil {
		return nil, err
	}
	return kube.RESTMapper(), nil
}

// readiness returns a Pending with the missing condition of an object.
type readiness func(ctx context.Context, kube client.Reader, obj client.Object) error

// createAndWait prints the object, or applies it and waits until it is ready.
func (c *cli) createAndWait(ctx context.Context, o *creation, obj client.Object, created, isReady string, ready readiness) error {
	c.setCommonMetadata(obj)
	if o.isRequested() {
		return c.printObject(obj, o.outputFormat())
	}
	cluster, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	if id, err := clusterIdentity(ctx, cluster, o.liqoNamespace); err == nil && id == o.peer { // a user who may not read the ID skips the check
		return out.Fail("%q is this cluster: --remote-cluster-id is the ID of the other one", id)
	}
	if err := applyObject(ctx, cluster, obj); err != nil {
		return err
	}
	c.Success("%s", created)
	if !o.wait {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	return c.runStep("Waiting for "+key.String(), isReady, func() error {
		return await.Ready(ctx, cluster, obj, func(ctx context.Context, obj client.Object) error { return ready(ctx, cluster, obj) })
	})
}

// applyObject creates or updates an object, also one that another client created. An object of the same name that is being deleted is
// awaited first.
func applyObject(ctx context.Context, c client.WithWatch, obj client.Object, opts ...kube.EnsureOption) error {
	opts = append(opts, kube.FieldManager(names.CLIFieldManager))
	for {
		changed, err := kube.Ensure(ctx, c, obj, opts...)
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		if apimeta.IsNoMatchError(err) {
			return noKind(kind)
		}
		if err == nil && !changed {
			return keepObject(c, obj)
		}
		if !kube.IsWait(err) {
			return err
		}
		if err := awaitDeleted(ctx, c, obj); err != nil {
			return err
		}
	}
}

// noKind returns the error about a cluster that lacks a kind of Liqo.
func noKind(kind string) error {
	return out.Fail("the cluster has no kind %s: Liqo is not installed in it", kind).
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
	return requireWait(await.Object(ctx, cluster, now, func(_ context.Context, there bool) error {
		if !there || now.DeletionTimestamp == nil {
			return nil
		}
		return await.Pending(fmt.Sprintf("the earlier %s %s is being deleted, and held by %s",
			gvk.Kind, strings.TrimPrefix(client.ObjectKeyFromObject(now).String(), "/"), strings.Join(now.Finalizers, ", ")))
	}))
}

// requireWait turns the error of a skipped wait into a failure: a dry run does not know how the command would go on.
func requireWait(err error) error {
	if await.IsSkipped(err) {
		return out.Fail("%w: try again when it is gone", err)
	}
	return err
}
