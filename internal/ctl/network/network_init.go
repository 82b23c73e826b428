// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

func networkInit(c *cluster.Session, o *NetworkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Exchange the networks of two clusters",
		Long: "Exchange the networks of two clusters, by a Configuration in the tenant namespace of each cluster, which is created if missing.\n" +
			"An existing Configuration, in any namespace, is updated.\n" +
			"Each cluster then reaches the networks of the other under prefixes that are free on its side.",
		Example: "  liqoctl network init --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWithBoth(cmd.Context(), c, o, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
				i, err := exchangeConfigs(ctx, local, remote)
				if err != nil {
					return err
				}
				return ExchangeConfigurations(ctx, c, i, o.Wait)
			})
		},
	}
}

// peerConfig is the Configuration of a cluster for the networks of its peer.
type peerConfig struct {
	*cluster.Cluster
	want *networkingv1beta1.Configuration
	// have is the existing Configuration, nil for none.
	have *networkingv1beta1.Configuration
	// written reports that want may have been applied.
	written bool
}

// exchangeConfigs reads the networks and the existing Configurations of both clusters. Nothing is changed.
func exchangeConfigs(ctx context.Context, local, remote *cluster.Cluster) ([]*peerConfig, error) {
	var both []*peerConfig
	for _, s := range []struct{ side, other *cluster.Cluster }{{local, remote}, {remote, local}} {
		networks, err := OwnNetworks(ctx, s.other.Kube, s.other.LiqoNamespace)
		if err != nil {
			return nil, s.other.WrapWithCluster(err)
		}
		found, err := FindOne(ctx, s.side, &networkingv1beta1.ConfigurationList{}, s.other.ID)
		if err != nil {
			return nil, s.side.WrapWithCluster(err)
		}
		key := client.ObjectKey{Namespace: s.side.Namespace, Name: s.other.ID}
		have, _ := found.(*networkingv1beta1.Configuration)
		if have != nil {
			key = client.ObjectKeyFromObject(have)
		}
		both = append(both, &peerConfig{Cluster: s.side, want: NewConfiguration(key, s.other.ID, networks), have: have})
	}
	return both, nil
}

// hasConfiguration reports whether the cluster has the wanted Configuration, and local prefixes for all networks in the Configuration.
func (t *peerConfig) hasConfiguration(ctx context.Context) bool {
	return t.have != nil && saysSame(t.have, t.want) && checkConfigured(ctx, t.Kube, t.have) == nil
}

// saysSame reports whether two Configurations have the same networks.
func saysSame(a, b *networkingv1beta1.Configuration) bool {
	one, other := a.Spec.Remote.CIDR, b.Spec.Remote.CIDR
	return slices.Equal(one.Pod, other.Pod) && slices.Equal(one.External, other.External)
}

// ExchangeConfigurations writes the Configurations of both clusters concurrently. New or changed Configurations are rolled back if unusable.
func ExchangeConfigurations(ctx context.Context, c *cluster.Session, both []*peerConfig, wait bool) error {
	if err := RequireConfigurationPermissions(ctx, both); err != nil {
		return err
	}
	for _, t := range both {
		t.WithPrinter(c.Printer).Success("Network configuration correctly retrieved")
	}
	p := ui.NewPlan(c.Printer)
	written := map[*peerConfig]*ui.Step{}
	for _, t := range both {
		written[t] = t.AddStep(p, "Setting up network configuration", "Network configuration correctly set up", func(ctx context.Context) error { return t.writeConfiguration(ctx, c) })
	}
	if wait {
		for _, t := range both {
			t.AddStep(p, "Waiting for configuration to be applied", "Configuration applied successfully", t.awaitConfigured, written[t])
		}
	}
	if err := p.Run(ctx); err != nil {
		return takenBack(ctx, both, err)
	}
	return nil
}

// keepConfigurations only records that both clusters have their Configurations. The user then needs no permission to write them.
func keepConfigurations(_ context.Context, c *cluster.Session, both []*peerConfig, _ bool) error {
	for _, t := range both {
		c.SetCommonMetadata(t.want)
		if err := cluster.KeepObject(t.Kube, t.want); err != nil {
			return t.WrapWithCluster(err)
		}
	}
	return nil
}

// RequireConfigurationPermissions fails if the user may not write the Configuration in one of the clusters.
func RequireConfigurationPermissions(ctx context.Context, both []*peerConfig) error {
	for _, t := range both {
		if err := t.RequirePermissions(ctx, t.PermissionsFor(t.want.Namespace, "write Configuration")...); err != nil {
			return err
		}
	}
	return nil
}

func (t *peerConfig) writeConfiguration(ctx context.Context, c *cluster.Session) error {
	if err := t.EnsureNamespace(ctx, c, t.want); err != nil {
		return err
	}
	if t.have != nil && !saysSame(t.have, t.want) {
		t.Warn("The Configuration %s named %s: it names %s now", client.ObjectKeyFromObject(t.have), networksOf(t.have), networksOf(t.want))
	}
	c.SetCommonMetadata(t.want)
	t.written = true // also if the answer is lost
	return cluster.ApplyObject(ctx, t.Kube, t.want)
}

func networksOf(cfg *networkingv1beta1.Configuration) string {
	return fmt.Sprintf("pods %v, external %v", cfg.Spec.Remote.CIDR.Pod, cfg.Spec.Remote.CIDR.External)
}

func (t *peerConfig) awaitConfigured(ctx context.Context) error {
	now := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: t.want.Namespace, Name: t.want.Name}}
	return kube.WaitForReady(ctx, t.Kube, now, func(ctx context.Context, now *networkingv1beta1.Configuration) error {
		return checkConfigured(ctx, t.Kube, now)
	})
}

// TakingBack is the timeout of a rollback.
const TakingBack = 10 * time.Second

// takenBack rolls back the written Configurations, unless the cause is a timeout or an interruption: the next attempt continues from
// this state.
func takenBack(ctx context.Context, both []*peerConfig, why error) error {
	if ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, TakingBack)
	defer cancel()
	for _, t := range both {
		if err := t.takeBack(ctx); err != nil {
			why = errors.Join(why, t.WrapWithCluster(fmt.Errorf("taking the Configuration back: %w", err)))
		}
	}
	return why
}

// takeBack deletes a new Configuration, and restores the previous spec of an existing one unless another client changed the spec meanwhile. Labels
// and annotations of other clients are kept: the controller records its own writes in them.
func (t *peerConfig) takeBack(ctx context.Context) error {
	if !t.written {
		return nil
	}
	if t.have == nil {
		return client.IgnoreNotFound(t.Kube.Delete(ctx, t.want))
	}
	if saysSame(t.have, t.want) {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &networkingv1beta1.Configuration{}
		if err := t.Kube.Get(ctx, client.ObjectKeyFromObject(t.have), now); err != nil || !saysSame(now, t.want) {
			return client.IgnoreNotFound(err)
		}
		asNow := client.MergeFromWithOptions(now.DeepCopy(), client.MergeFromWithOptimisticLock{})
		hash := names.AppliedHash + "." + names.CLIFieldManager
		annotations := map[string]string{hash: now.Annotations[hash]}
		maps.Copy(annotations, t.want.Annotations)
		now.Labels = withoutKeys(now.Labels, t.want.Labels, t.have.Labels)
		now.Annotations = withoutKeys(now.Annotations, annotations, t.have.Annotations)
		now.Spec.Remote = t.have.Spec.Remote
		if err := t.Kube.Patch(ctx, now, asNow, client.FieldOwner(names.CLIFieldManager)); err != nil {
			return err
		}
		t.Warn("The Configuration %s has its previous networks again", client.ObjectKeyFromObject(now))
		return nil
	})
}

// withoutKeys returns the previous entries and foreign additions: all entries of now except ours.
func withoutKeys(now, ours, before map[string]string) map[string]string {
	back := map[string]string{}
	maps.Copy(back, before)
	for key, value := range now {
		if our, set := ours[key]; !set || our != value {
			back[key] = value
		}
	}
	return back
}
