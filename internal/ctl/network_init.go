// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

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
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/step"
	"liqo.io/liqo/internal/names"
)

func (c *cli) networkInit(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Exchange the networks of two clusters",
		Long: "Exchange the networks of two clusters, by a Configuration in the tenant namespace of each cluster, which is created if missing.\n" +
			"An existing Configuration, in any namespace, is updated.\n" +
			"Each cluster then reaches the networks of the other under prefixes that are free on its side.",
		Example: "  liqoctl network init --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runWithBoth(cmd.Context(), o, func(ctx context.Context, c *cli, local, remote *Cluster) error {
				i, err := exchangeConfigs(ctx, local, remote)
				if err != nil {
					return err
				}
				return c.exchangeConfigurations(ctx, i, o.wait)
			})
		},
	}
}

// peerConfig is the Configuration of a cluster for the networks of its peer.
type peerConfig struct {
	*Cluster
	want *networkingv1beta1.Configuration
	// have is the existing Configuration, nil for none.
	have *networkingv1beta1.Configuration
	// written reports that want may have been applied.
	written bool
}

// exchangeConfigs reads the networks and the existing Configurations of both clusters. It changes nothing.
func exchangeConfigs(ctx context.Context, local, remote *Cluster) ([]*peerConfig, error) {
	var both []*peerConfig
	for _, s := range []struct{ side, other *Cluster }{{local, remote}, {remote, local}} {
		networks, err := ownNetworks(ctx, s.other.kube, s.other.liqoNamespace)
		if err != nil {
			return nil, s.other.wrapWithCluster(err)
		}
		found, err := s.side.findOne(ctx, &networkingv1beta1.ConfigurationList{}, s.other.id)
		if err != nil {
			return nil, s.side.wrapWithCluster(err)
		}
		key := client.ObjectKey{Namespace: s.side.namespace, Name: s.other.id}
		have, _ := found.(*networkingv1beta1.Configuration)
		if have != nil {
			key = client.ObjectKeyFromObject(have)
		}
		both = append(both, &peerConfig{Cluster: s.side, want: newConfiguration(key, s.other.id, networks), have: have})
	}
	return both, nil
}

// hasConfiguration reports whether the cluster has the wanted Configuration, and local prefixes for all of its networks.
func (t *peerConfig) hasConfiguration(ctx context.Context) bool {
	return t.have != nil && saysSame(t.have, t.want) && checkConfigured(ctx, t.kube, t.have) == nil
}

// saysSame reports whether two Configurations have the same networks.
func saysSame(a, b *networkingv1beta1.Configuration) bool {
	one, other := a.Spec.Remote.CIDR, b.Spec.Remote.CIDR
	return slices.Equal(one.Pod, other.Pod) && slices.Equal(one.External, other.External)
}

// exchangeConfigurations writes the Configurations of both clusters concurrently. New or changed ones that are unusable are rolled
// back.
func (c *cli) exchangeConfigurations(ctx context.Context, both []*peerConfig, wait bool) error {
	if err := demandToTell(ctx, both); err != nil {
		return err
	}
	for _, t := range both {
		t.withPrinter(c.Printer).Success("Network configuration correctly retrieved")
	}
	p := step.New(c.Printer)
	written := map[*peerConfig]*step.Step{}
	for _, t := range both {
		written[t] = t.addStep(p, "Setting up network configuration", "Network configuration correctly set up", func(ctx context.Context) error { return t.writeConfiguration(ctx, c) })
	}
	if wait {
		for _, t := range both {
			t.addStep(p, "Waiting for configuration to be applied", "Configuration applied successfully", t.awaitConfigured, written[t])
		}
	}
	if err := p.Run(ctx); err != nil {
		return takenBack(ctx, both, err)
	}
	return nil
}

// keepConfigurations only records that both clusters have their Configurations, so that the user needs no permission to write them.
func (c *cli) keepConfigurations(_ context.Context, both []*peerConfig, _ bool) error {
	for _, t := range both {
		c.setCommonMetadata(t.want)
		if err := keepObject(t.kube, t.want); err != nil {
			return t.wrapWithCluster(err)
		}
	}
	return nil
}

// demandToTell fails if the user may not write the Configuration in one of the clusters.
func demandToTell(ctx context.Context, both []*peerConfig) error {
	for _, t := range both {
		if err := t.requirePermissions(ctx, t.permissionsFor(t.want.Namespace, "write Configuration")...); err != nil {
			return err
		}
	}
	return nil
}

func (t *peerConfig) writeConfiguration(ctx context.Context, c *cli) error {
	if err := t.ensureNamespace(ctx, c, t.want); err != nil {
		return err
	}
	if t.have != nil && !saysSame(t.have, t.want) {
		t.Warn("The Configuration %s named %s: it names %s now", client.ObjectKeyFromObject(t.have), networksOf(t.have), networksOf(t.want))
	}
	c.setCommonMetadata(t.want)
	t.written = true // also if the answer is lost
	return applyObject(ctx, t.kube, t.want)
}

func networksOf(cfg *networkingv1beta1.Configuration) string {
	return fmt.Sprintf("pods %v, external %v", cfg.Spec.Remote.CIDR.Pod, cfg.Spec.Remote.CIDR.External)
}

func (t *peerConfig) awaitConfigured(ctx context.Context) error {
	now := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: t.want.Namespace, Name: t.want.Name}}
	return await.Ready(ctx, t.kube, now, func(ctx context.Context, now *networkingv1beta1.Configuration) error {
		return checkConfigured(ctx, t.kube, now)
	})
}

// takingBack is the timeout of a rollback.
const takingBack = 10 * time.Second

// takenBack rolls back the written Configurations, unless the cause is a timeout or an interruption: the next attempt continues from
// this state.
func takenBack(ctx context.Context, both []*peerConfig, why error) error {
	if ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, takingBack)
	defer cancel()
	for _, t := range both {
		if err := t.takeBack(ctx); err != nil {
			why = errors.Join(why, t.wrapWithCluster(fmt.Errorf("taking the Configuration back: %w", err)))
		}
	}
	return why
}

// takeBack deletes a new Configuration, and restores the previous spec of an existing one unless another client changed it meanwhile.
// Labels and annotations of others are kept: the controller records its own writes in them.
func (t *peerConfig) takeBack(ctx context.Context) error {
	if !t.written {
		return nil
	}
	if t.have == nil {
		return client.IgnoreNotFound(t.kube.Delete(ctx, t.want))
	}
	if saysSame(t.have, t.want) {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &networkingv1beta1.Configuration{}
		if err := t.kube.Get(ctx, client.ObjectKeyFromObject(t.have), now); err != nil || !saysSame(now, t.want) {
			return client.IgnoreNotFound(err)
		}
		asNow := client.MergeFromWithOptions(now.DeepCopy(), client.MergeFromWithOptimisticLock{})
		hash := names.AppliedHash + "." + names.CLIFieldManager
		annotations := map[string]string{hash: now.Annotations[hash]}
		maps.Copy(annotations, t.want.Annotations)
		now.Labels = withoutKeys(now.Labels, t.want.Labels, t.have.Labels)
		now.Annotations = withoutKeys(now.Annotations, annotations, t.have.Annotations)
		now.Spec.Remote = t.have.Spec.Remote
		if err := t.kube.Patch(ctx, now, asNow, client.FieldOwner(names.CLIFieldManager)); err != nil {
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
