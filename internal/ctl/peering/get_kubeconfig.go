// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// GetKubeconfig returns the command "get kubeconfig".
func GetKubeconfig(c *cluster.Session, o *cluster.Retrieval) *cobra.Command {
	cmd := c.RunRetrieval(o, &cobra.Command{
		Use:     "kubeconfig IDENTITY",
		Aliases: []string{"kc"},
		Short:   "Print, in a consumer, the kubeconfig of an Identity in a provider",
		Example: "  liqoctl get kubeconfig controlplane-milan --remote-cluster-id milan",
		Args:    cluster.OneName,
	}, func(ctx context.Context, s *cluster.Cluster, args []string) error {
		return runGetKubeconfig(ctx, c, s, client.ObjectKey{Namespace: s.Namespace, Name: args[0]})
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, p2 string) ([]string, cobra.ShellCompDirective) {
		return completeIdentities(c, cmd, args, p2)
	}
	return cmd
}

func runGetKubeconfig(ctx context.Context, c *cluster.Session, s *cluster.Cluster, key client.ObjectKey) error {
	identity := &authv1beta1.Identity{}
	if err := s.Kube.Get(ctx, key, identity); apierrors.IsNotFound(err) {
		return ui.Fail("Identity %s not found", key)
	} else if err != nil {
		return fmt.Errorf("reading the Identity %s: %w", key, err)
	}
	if identity.Status.KubeconfigSecretRef == nil {
		if reason := explainState(ctx, s, identity); reason != "" {
			return ui.Fail("the Identity %s does not have a kubeconfig secret reference: %s", key, reason)
		}
	}
	if err := s.RunStep("Waiting for the kubeconfig", "", func() error { return awaitKubeconfig(ctx, s, key) }); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := s.Kube.Get(ctx, key, identity); err != nil {
		return fmt.Errorf("reading the Identity %s: %w", key, err)
	}
	if err := s.Kube.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: identity.Status.KubeconfigSecretRef.Name}, secret); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	_, err := fmt.Fprintln(c.Result(), string(secret.Data[names.KubeconfigKey]))
	return err
}

// explainState returns the last problem of an object by its conditions and events, "" for none or without the permission to read
// events.
func explainState(ctx context.Context, s *cluster.Cluster, obj client.Object) string {
	var all corev1.EventList
	if s.Kube.List(ctx, &all, client.InNamespace(obj.GetNamespace()), client.MatchingFields{"involvedObject.uid": string(obj.GetUID())}) != nil {
		return ""
	}
	var last *corev1.Event
	for i := range all.Items {
		if e := &all.Items[i]; last == nil || !e.CreationTimestamp.Before(&last.CreationTimestamp) {
			last = e
		}
	}
	if last == nil || last.Type != corev1.EventTypeWarning {
		return ""
	}
	return last.Reason + ": " + last.Message
}

// completeIdentities offers the Identities in the tenant namespace of the other cluster, or in all namespaces.
func completeIdentities(c *cluster.Session, cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	other, _ := cmd.Flags().GetString("remote-cluster-id")
	return c.CompleteArguments(cmd, args, func(ctx context.Context) (found []string) {
		var list authv1beta1.IdentityList
		if kube, err := c.NewClient(ctx); err == nil && kube.List(ctx, &list) == nil {
			for i := range list.Items {
				if other == "" || string(list.Items[i].Spec.ClusterID) == other {
					found = append(found, list.Items[i].Name)
				}
			}
		}
		return found
	})
}
