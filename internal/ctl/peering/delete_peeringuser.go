// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	certv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

type deletePeeringUserOptions struct {
	cluster.DryRunOptions
	consumer string
	timeout  time.Duration
}

// DeletePeeringUser returns the command "delete peeringuser".
func DeletePeeringUser(c *cluster.Session) *cobra.Command {
	o := &deletePeeringUserOptions{}
	cmd := &cobra.Command{
		Use:   "peering-user",
		Short: "Take the rights of the peering user of another cluster away",
		Long: "Delete the peering user of another cluster. Its kubeconfig has no permissions after the command.\n" +
			"Objects created with it stay: a peered cluster stays peered.",
		Example: "  liqoctl delete peering-user --consumer-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runDeletePeeringUser(ctx, c, o)
		},
	}
	consumerFlag(c, cmd, &o.consumer)
	o.DryRunOptions.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	return cmd
}

func runDeletePeeringUser(ctx context.Context, c *cluster.Session, o *deletePeeringUserOptions) error {
	cl, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	u, err := findPeeringUser(ctx, cl, o.consumer)
	if err != nil {
		return err
	}
	if o.IsRequested() {
		return previewDeletion(c, cl, u, o)
	}
	step := c.Spin("Deleting the user")
	defer step.Stop()
	if err := kube.DeleteObjects(ctx, cl, u.objects); err != nil {
		return err
	}
	if err := u.awaitRefused(ctx, cl); err != nil {
		return err
	}
	step.Stop()
	if len(u.others) > 0 {
		return ui.Fail("the peering user of %s has rights that were not given by `generate peering-user`, by %s: they stay", o.consumer, strings.Join(u.others, ", ")).
			Hint("Delete them")
	}
	if len(u.objects) == 0 {
		c.Success("Peering user for cluster with ID %q already deleted", o.consumer)
		return nil
	}
	c.Success("Peering user for cluster with ID %q deleted successfully", o.consumer)
	return nil
}

// oldPeeringUser is the existing peering user of a cluster.
type oldPeeringUser struct {
	// objects are the bindings, then the request for the certificate.
	objects []client.Object
	// rights maps the namespaces of the bindings to the users.
	rights map[string][]string
	// others are bindings to the user created by another client.
	others []string
}

func findPeeringUser(ctx context.Context, cl client.Reader, consumer string) (*oldPeeringUser, error) {
	var narrow rbacv1.RoleBindingList
	var wide rbacv1.ClusterRoleBindingList
	var requests certv1.CertificateSigningRequestList
	err := cl.List(ctx, &narrow)
	if err == nil {
		err = cl.List(ctx, &wide)
	}
	if err == nil {
		err = cl.List(ctx, &requests, OfPeeringUser(consumer))
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the peering user of %s: %w", consumer, err)
	}
	u := &oldPeeringUser{rights: map[string][]string{}}
	label := OfPeeringUser(consumer)[names.PeeringUser]
	for i := range narrow.Items {
		b := &narrow.Items[i]
		switch users := PeeringUsers(b.Subjects, consumer); {
		case b.Labels[names.PeeringUser] == label:
			u.objects = append(u.objects, b)
			u.rights[b.Namespace] = append(u.rights[b.Namespace], users...)
		case len(users) > 0:
			u.others = append(u.others, "RoleBinding "+b.Namespace+"/"+b.Name)
		}
	}
	for i := range wide.Items {
		if b := &wide.Items[i]; len(PeeringUsers(b.Subjects, consumer)) > 0 {
			u.others = append(u.others, "ClusterRoleBinding "+b.Name)
		}
	}
	for i := range requests.Items {
		u.objects = append(u.objects, &requests.Items[i])
	}
	return u, nil
}

// PeeringUsers returns the peering users of a cluster among the subjects: their names are the cluster ID followed by 32 hexadecimal digits.
func PeeringUsers(subjects []rbacv1.Subject, consumer string) (users []string) {
	name := regexp.MustCompile("^" + regexp.QuoteMeta(names.PeeringUserName(consumer)) + "-[0-9a-f]{32}$")
	for _, s := range subjects {
		if s.Kind == rbacv1.UserKind && name.MatchString(s.Name) {
			users = append(users, s.Name)
		}
	}
	return users
}

// awaitRefused waits until the API server rejects requests of the user.
func (u *oldPeeringUser) awaitRefused(ctx context.Context, cl client.Client) error {
	for namespace, users := range u.rights {
		for _, user := range slices.Compact(users) {
			if err := awaitPeering(ctx, cl, namespace, user, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// asking is the interval of permission checks: changes of permissions cannot be watched.
const asking = 50 * time.Millisecond

// awaitPeering waits until the API server allows or denies peering to a user. Its authorizer sees new bindings with a delay.
func awaitPeering(ctx context.Context, cl client.Client, namespace, user string, may bool) error {
	ctx, cancel := context.WithTimeout(ctx, network.TakingBack)
	defer cancel()
	for {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{names.ControlPlaneGroup, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: names.VerbPeer, Group: authv1beta1.GroupName, Resource: authv1beta1.TenantResource,
			},
		}}
		if err := cl.Create(ctx, review); err != nil {
			return fmt.Errorf("asking what the user %s may do: %w", user, err)
		}
		if review.Status.Allowed == may {
			return nil
		}
		select {
		case <-ctx.Done():
			if may {
				return ui.Fail("the API server does not let the user %s peer in namespace %s, though it was given the right", user, namespace)
			}
			return ui.Fail("the user %s still has rights in namespace %s, though its bindings are gone", user, namespace).
				Hint("Something gives them to all, or to the group %s", names.ControlPlaneGroup)
		case <-time.After(asking):
		}
	}
}

// previewDeletion prints the names of the objects to delete.
func previewDeletion(c *cluster.Session, cl client.Client, u *oldPeeringUser, o *deletePeeringUserOptions) error {
	if len(u.objects) == 0 {
		c.Info("Peering user for cluster with ID %q already deleted", o.consumer)
	}
	return c.PrintNames(&o.DryRunOptions, cl.Scheme(), u.objects...)
}
