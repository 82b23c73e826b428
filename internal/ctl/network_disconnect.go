// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/removal"
)

func (c *cli) networkDisconnect(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "disconnect",
		Short:   "Remove the gateways between two clusters",
		Long:    "Remove the gateways between two clusters, whichever of them has the server. What each knows of the other's networks stays.",
		Example: "  liqoctl network disconnect --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.confirm("disconnect"); err != nil {
				return err
			}
			return c.between(cmd.Context(), o, func(ctx context.Context, local, remote *side) error {
				return disconnect(ctx, local, remote, o.wait)
			})
		},
	}
}

// disconnect removes the gateways of both clusters: clients first, which dial.
func disconnect(ctx context.Context, local, remote *side, wait bool) error {
	for _, s := range []*side{local, remote} {
		if s.missing {
			continue // there is nothing to delete
		}
		if err := s.demand(ctx, deletable("gatewayservers"), deletable("gatewayclients")); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		in, from *side
		kind     string
		// usual is where a gateway of the kind is, which is told also if there was none.
		usual bool
	}{{local, remote, dialer, true}, {remote, local, dialer, false}, {local, remote, server, false}, {remote, local, server, true}} {
		what := deletion{what: "Gateway " + step.kind, list: newGateway(step.kind, client.ObjectKey{}).list(), wait: wait, quiet: !step.usual}
		if err := step.in.remove(ctx, what, client.InNamespace(step.in.namespace), client.MatchingLabels{names.RemoteClusterID: step.from.id}); err != nil {
			return err
		}
	}
	return nil
}

func deletable(resource string) rights { return networking(resource, "list", "watch", "delete") }

// deletion is a kind of which all that is about the other cluster goes.
type deletion struct {
	what string
	list client.ObjectList
	// wait goes on until they are gone; quiet says nothing where there are none.
	wait, quiet bool
}

func (s *side) remove(ctx context.Context, d deletion, which ...client.ListOption) error {
	done := ""
	err := s.during("Deleting "+d.what, "", func() error {
		err := s.kube.List(ctx, d.list, which...)
		if err != nil && !apimeta.IsNoMatchError(err) {
			return err
		}
		if err != nil || apimeta.LenList(d.list) == 0 {
			if !d.quiet {
				done = d.what + " already deleted"
			}
			return nil
		}
		done = d.what + " correctly deleted"
		if err := apimeta.EachListItem(d.list, func(item runtime.Object) error {
			obj := item.(client.Object)
			uid := obj.GetUID()
			err := s.kube.Delete(ctx, obj, client.Preconditions{UID: &uid})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
			}
			return nil
		}); err != nil || !d.wait {
			return err
		}
		return removal.WaitGone(ctx, s.kube, d.list, which...)
	})
	if err == nil && done != "" {
		s.Success("%s", done)
	}
	return err
}

// forget removes what a cluster knows of the networks of another.
func (s *side) forget(ctx context.Context, other string, wait bool) error {
	cfg, err := s.configuration(ctx, other)
	if err != nil {
		return s.wrong(err)
	}
	namespace := s.namespace
	if cfg != nil {
		namespace = cfg.Namespace
	}
	return s.remove(ctx, deletion{what: "Network configuration", list: &networkingv1beta1.ConfigurationList{}, wait: wait},
		client.InNamespace(namespace), client.MatchingLabels{names.RemoteClusterID: other})
}
