// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// deletable is a kind whose objects the command delete removes.
type deletable struct {
	use     string
	aliases []string
	// title is the name of the kind in sentences.
	title string
	list  func() client.ObjectList
	// follows names the objects deleted together with the object.
	follows string
}

var deletables = []deletable{
	{"virtualnode", []string{"virtualnodes", "vn"}, "Virtual node", func() client.ObjectList { return &offv1beta1.VirtualNodeList{} },
		"its node and the pods on it, which are made again elsewhere"},
	{"configuration", []string{"config", "configurations"}, "Configuration", func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} }, ""},
	{"gatewayserver", []string{"gatewayservers", "server", "servers", "gws"}, "GatewayServer", func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} },
		"the gateway and its tunnel"},
	{"gatewayclient", []string{"gatewayclients", "client", "clients", "gwc"}, "GatewayClient", func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} },
		"the gateway and its tunnel"},
	{"publickey", []string{"publickeys", "publickeies"}, "PublicKey", func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} }, ""},
	{"resourceslice", []string{"resourceslices", "rs"}, "ResourceSlice", func() client.ObjectList { return &authv1beta1.ResourceSliceList{} },
		"its virtual node and what was granted"},
	{"identity", []string{"identities"}, "Identity", func() client.ObjectList { return &authv1beta1.IdentityList{} }, "its kubeconfig"},
	{"tenant", []string{"tenants"}, "Tenant", func() client.ObjectList { return &authv1beta1.TenantList{} }, "what the consumer was granted; its pods stay until they are removed"},
}

type deletion struct {
	cluster.DryRunOptions
	namespace string
	timeout   time.Duration
}

func newDeleteCommand(c *cluster.Session) *cobra.Command {
	o := &deletion{}
	parent := cluster.NewGroup("delete", "Delete objects of Liqo")
	parent.AddCommand(peering.DeletePeeringUser(c))
	for i := range deletables {
		parent.AddCommand(deleteOne(c, o, &deletables[i]))
	}
	parent.PersistentFlags().StringVarP(&o.namespace, "namespace", "n", "",
		"The namespace of the object; if empty that of the kubeconfig's context, or the only one that has such an object")
	return parent
}

func deleteOne(c *cluster.Session, o *deletion, d *deletable) *cobra.Command {
	also := "."
	if d.follows != "" {
		also = ", and with it " + d.follows + "."
	}
	cmd := &cobra.Command{
		Use: d.use + " NAME", Aliases: d.aliases, Short: d.shortHelp(),
		Long:              d.shortHelp() + also + " The command does not wait until it is gone.",
		Example:           "  liqoctl delete " + d.use + " milan",
		Args:              cluster.OneName,
		ValidArgsFunction: c.CompleteOne(d.list, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runDelete(ctx, c, o, d, args[0])
		},
	}
	o.DryRunOptions.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	return cmd
}

// kindName returns the kind as in manifests.
func (d *deletable) kindName() string { return kube.ListKind(d.list()) }

func (d *deletable) shortHelp() string {
	if strings.HasPrefix(d.kindName(), "I") {
		return "Delete an " + d.kindName()
	}
	return "Delete a " + d.kindName()
}

func runDelete(ctx context.Context, c *cluster.Session, o *deletion, d *deletable, name string) error {
	kubeClient, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	failed := func(err error) error { return fmt.Errorf("unable to delete %s: %w", d.title, err) }
	obj, err := findDeletable(ctx, c, kubeClient, o, d, name)
	if err != nil {
		return failed(err)
	}
	if peer.IsReplica(obj) {
		return failed(ui.Fail("%s %s is a copy of what the cluster %s has, and would come back: that is where to delete it",
			d.kindName(), client.ObjectKeyFromObject(obj), obj.GetLabels()[names.ReplicationOrigin]))
	}
	uid := obj.GetUID()
	if o.IsRequested() {
		err = client.NewDryRunClient(kubeClient).Delete(ctx, obj, client.Preconditions{UID: &uid})
	} else {
		err = kubeClient.Delete(ctx, obj, client.Preconditions{UID: &uid})
	}
	if err != nil {
		return failed(err)
	}
	if o.IsRequested() {
		return c.PrintNames(&o.DryRunOptions, kubeClient.Scheme(), obj)
	}
	c.Success("%s deleted", d.title)
	return nil
}

// findDeletable finds the object in the namespace given by the user, else in the namespace of the kubeconfig's context, else in the only namespace
// with such an object: most objects are in tenant namespaces.
func findDeletable(ctx context.Context, c *cluster.Session, cl client.Reader, o *deletion, d *deletable, name string) (client.Object, error) {
	namespace, err := c.ResourceNamespace(o.namespace)
	if err != nil {
		return nil, err
	}
	found, forbidden := findNamed(ctx, cl, d, name, namespace)
	if forbidden != nil && (o.namespace != "" || !apierrors.IsForbidden(forbidden)) {
		return nil, forbidden
	}
	if len(found) == 1 {
		return found[0], nil
	}
	missing := ui.Fail("namespace %q has no %s %q", namespace, d.kindName(), name)
	if o.namespace != "" {
		return nil, missing
	}
	found, err = findNamed(ctx, cl, d, name, "")
	switch {
	case apierrors.IsForbidden(err) && forbidden != nil: // no namespace was searched
		return nil, ui.Fail("%w", forbidden).Hint("You may not look into all namespaces: say with -n where it is")
	case apierrors.IsForbidden(err):
		return nil, missing.Hint("You may not look into all namespaces: say with -n where it is")
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, ui.Fail("no namespace has the %s %q", d.kindName(), name)
	case len(found) > 1:
		var in []string
		for _, obj := range found {
			in = append(in, obj.GetNamespace())
		}
		return nil, ui.Fail("several namespaces have the %s %q: %s", d.kindName(), name, strings.Join(in, ", ")).Hint("Say which one is meant with -n")
	}
	return found[0], nil
}

// findNamed returns the objects with a name, in one namespace or in all.
func findNamed(ctx context.Context, cl client.Reader, d *deletable, name, namespace string) ([]client.Object, error) {
	list := d.list()
	err := cl.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if apimeta.IsNoMatchError(err) {
		return nil, cluster.NoKind(d.kindName())
	}
	if err != nil {
		return nil, err
	}
	return cluster.ItemsOf(list), nil
}
