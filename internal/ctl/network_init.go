// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

func (c *cli) networkInit(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Tell each of two clusters the networks of the other",
		Long: "Tell each of two clusters the networks of the other, by a Configuration in its tenant namespace, which is made if it is missing.\n" +
			"Each then sees the other's networks under prefixes that are free there.",
		Example: "  liqoctl network init --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.between(cmd.Context(), o, func(ctx context.Context, local, remote *side) error {
				i, err := meet(ctx, local, remote)
				if err != nil {
					return err
				}
				return c.exchange(ctx, i, o.wait)
			})
		},
	}
}

// told is what one cluster is told about the other.
type told struct {
	*side
	want *networkingv1beta1.Configuration
	// have is the one that is there, nil for none.
	have *networkingv1beta1.Configuration
}

// meet reads what both clusters are to be told, and what they know. It changes nothing.
func meet(ctx context.Context, local, remote *side) ([]*told, error) {
	var both []*told
	for _, s := range []struct{ side, other *side }{{local, remote}, {remote, local}} {
		networks, err := ownNetworks(ctx, s.other.kube, s.other.liqoNamespace)
		if err != nil {
			return nil, s.other.wrong(err)
		}
		have, err := s.side.configuration(ctx, s.other.id)
		if err != nil {
			return nil, s.side.wrong(err)
		}
		key := client.ObjectKey{Namespace: s.side.namespace, Name: s.other.id}
		if have != nil {
			key = client.ObjectKeyFromObject(have)
		}
		both = append(both, &told{side: s.side, want: newConfiguration(key, s.other.id, networks), have: have})
	}
	return both, nil
}

// configuration is the one that counts for the other cluster, nil for none. Where the user named a namespace, or may not look into
// others, it is in that one.
func (s *side) configuration(ctx context.Context, other string) (*networkingv1beta1.Configuration, error) {
	var list networkingv1beta1.ConfigurationList
	of := client.MatchingLabels{names.RemoteClusterID: other}
	err := s.kube.List(ctx, &list, of, client.InNamespace(s.asked))
	if apierrors.IsForbidden(err) && s.asked == "" {
		err = s.kube.List(ctx, &list, of, client.InNamespace(s.namespace))
	}
	if apimeta.IsNoMatchError(err) {
		return nil, noNetworking(s.liqoNamespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Configurations: %w", err)
	}
	return peer.Configuration(list.Items, liqov1beta1.ClusterID(other)), nil
}

// knows tells whether the cluster was told already, and has prefixes for all of it.
func (t *told) knows(ctx context.Context) bool {
	return t.have != nil && slices.Equal(t.have.Spec.Remote.CIDR.Pod, t.want.Spec.Remote.CIDR.Pod) &&
		slices.Equal(t.have.Spec.Remote.CIDR.External, t.want.Spec.Remote.CIDR.External) && configured(ctx, t.kube, t.have) == nil
}

// exchange tells both clusters. What is new and cannot be used is taken back.
func (c *cli) exchange(ctx context.Context, both []*told, wait bool) error {
	for _, t := range both {
		if err := t.demand(ctx, append(t.missingRights(), networking("configurations", "get", "list", "watch", "create", "patch", "delete"))...); err != nil {
			return err
		}
	}
	for _, t := range both {
		t.Success("Network configuration correctly retrieved")
	}
	for _, t := range both {
		if err := t.during("Setting up network configuration", "Network configuration correctly set up", func() error {
			if err := t.ensureNamespace(ctx, c, t.want.Labels[names.RemoteClusterID]); err != nil {
				return err
			}
			c.stamp(t.want)
			return apply(ctx, t.kube, t.want)
		}); err != nil {
			return takenBack(ctx, both, err)
		}
	}
	if !wait {
		return nil
	}
	for _, t := range both {
		if err := t.during("Waiting for configuration to be applied", "Configuration applied successfully", func() error {
			return t.awaitConfigured(ctx)
		}); err != nil {
			return takenBack(ctx, both, err)
		}
	}
	return nil
}

func (t *told) awaitConfigured(ctx context.Context) error {
	key, now := client.ObjectKeyFromObject(t.want), &networkingv1beta1.Configuration{}
	return await(ctx, t.kube, func(ctx context.Context) error {
		if err := t.kube.Get(ctx, key, now); apierrors.IsNotFound(err) {
			return fmt.Errorf("somebody deleted the Configuration %s meanwhile", key)
		} else if err != nil {
			return err
		}
		return configured(ctx, t.kube, now)
	}, watchedOne(&networkingv1beta1.ConfigurationList{}, key))
}

// takingBack bounds what is done after a failure.
const takingBack = 10 * time.Second

// takenBack deletes the Configurations that were not there before, unless it only took too long or was interrupted: then the
// next attempt goes on from here.
func takenBack(ctx context.Context, both []*told, why error) error {
	if ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, takingBack)
	defer cancel()
	for _, t := range both {
		if t.have == nil {
			if err := client.IgnoreNotFound(t.kube.Delete(ctx, t.want)); err != nil {
				why = errors.Join(why, t.wrong(fmt.Errorf("taking the Configuration back: %w", err)))
			}
		}
	}
	return why
}
