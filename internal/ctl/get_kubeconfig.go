// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

func (c *cli) getKubeconfig(o *retrieval) *cobra.Command {
	cmd := c.runRetrieval(o, &cobra.Command{
		Use:     "kubeconfig IDENTITY",
		Aliases: []string{"kc"},
		Short:   "Print, in a consumer, the kubeconfig of an Identity in a provider",
		Example: "  liqoctl get kubeconfig controlplane-milan --remote-cluster-id milan",
		Args:    oneName,
	}, func(ctx context.Context, s *Cluster, args []string) error {
		return c.runGetKubeconfig(ctx, s, client.ObjectKey{Namespace: s.namespace, Name: args[0]})
	})
	cmd.ValidArgsFunction = c.completeIdentities
	return cmd
}

func (c *cli) runGetKubeconfig(ctx context.Context, s *Cluster, key client.ObjectKey) error {
	identity := &authv1beta1.Identity{}
	if err := s.kube.Get(ctx, key, identity); apierrors.IsNotFound(err) {
		return out.Fail("Identity %s not found", key)
	} else if err != nil {
		return fmt.Errorf("reading the Identity %s: %w", key, err)
	}
	if identity.Status.KubeconfigSecretRef == nil {
		if why := s.explainState(ctx, identity); why != "" {
			return out.Fail("the Identity %s does not have a kubeconfig secret reference: %s", key, why)
		}
	}
	if err := s.runStep("Waiting for the kubeconfig", "", func() error { return s.awaitKubeconfig(ctx, key) }); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := s.kube.Get(ctx, key, identity); err != nil {
		return fmt.Errorf("reading the Identity %s: %w", key, err)
	}
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: identity.Status.KubeconfigSecretRef.Name}, secret); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	_, err := fmt.Fprintln(c.Result(), string(secret.Data[names.KubeconfigKey]))
	return err
}

// explainState returns the last problem of an object by its conditions and events, "" for none or without the permission to read
// events.
func (s *Cluster) explainState(ctx context.Context, obj client.Object) string {
	var all corev1.EventList
	if s.kube.List(ctx, &all, client.InNamespace(obj.GetNamespace()), client.MatchingFields{"involvedObject.uid": string(obj.GetUID())}) != nil {
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
func (c *cli) completeIdentities(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	other, _ := cmd.Flags().GetString("remote-cluster-id")
	return c.completeArguments(cmd, args, func(ctx context.Context) (found []string) {
		var list authv1beta1.IdentityList
		if kube, err := c.newClient(ctx); err == nil && kube.List(ctx, &list) == nil {
			for i := range list.Items {
				if other == "" || string(list.Items[i].Spec.ClusterID) == other {
					found = append(found, list.Items[i].Name)
				}
			}
		}
		return found
	})
}
