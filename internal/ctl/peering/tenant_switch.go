// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// switchOptions hold the common options of the provider's commands that restrict or restore a consumer (activate, cordon, uncordon,
// drain).
type switchOptions struct {
	cluster.DryRunOptions
	namespace string
	wait      bool
	timeout   time.Duration
}

func (o *switchOptions) addFlags(cmd *cobra.Command, what string) {
	fs := cmd.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", "The namespace of the "+what)
	fs.BoolVar(&o.wait, "wait", true, "Wait until it is so")
	fs.DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	o.DryRunOptions.AddFlags(fs)
}

// tenantSwitch is one position of the switch for a consumer.
type tenantSwitch struct {
	verb, done string
	to         authv1beta1.TenantCondition
	// confirmed asks for a confirmation first.
	confirmed bool
	// from is the only position from which the switch is allowed, "" for any; else is the message in all other positions.
	from        authv1beta1.TenantCondition
	otherwise   string
	short, long string
}

var (
	activateTenant = tenantSwitch{
		verb: "activate", done: "activated", to: authv1beta1.TenantConditionActive,
		short: "Let a consumer have resources, again if it was cordoned or drained",
	}
	cordonTenant = tenantSwitch{
		verb: "cordon", done: "cordoned", to: authv1beta1.TenantConditionCordoned, confirmed: true,
		from: authv1beta1.TenantConditionActive, otherwise: "is not active. Activate the tenant to cordon it.",
		short: "Let a consumer keep its resources, and grant no new ones",
		long:  "Let a consumer keep what it has, and have nothing new: its ResourceSlices are granted no more, and no new pods of it start.",
	}
	uncordonTenant = tenantSwitch{
		verb: "uncordon", done: "uncordoned", to: authv1beta1.TenantConditionActive,
		from: authv1beta1.TenantConditionCordoned, otherwise: "is not cordoned",
		short: "Let a consumer that was cordoned have resources again",
	}
	drainTenant = tenantSwitch{
		verb: "drain", done: "drained", to: authv1beta1.TenantConditionDrained, confirmed: true,
		short: "Take everything back that a consumer was granted",
		long: "Take everything back that a consumer was granted: its ResourceSlices are denied, its certificates let it do nothing more, and its pods are evicted.\n" +
			"The command does not wait for the end of the pods. `activate tenant` undoes it.",
	}
)

// NewActivateCommand returns the command "activate".
func NewActivateCommand(c *cluster.Session) *cobra.Command {
	return cluster.NewGroup("activate", "Let consumers have resources", tenantCommand(c, &activateTenant))
}

// NewCordonCommand returns the command "cordon".
func NewCordonCommand(c *cluster.Session) *cobra.Command {
	return cluster.NewGroup("cordon", "Grant consumers nothing new", tenantCommand(c, &cordonTenant), sliceCommand(c, true))
}

// NewUncordonCommand returns the command "uncordon".
func NewUncordonCommand(c *cluster.Session) *cobra.Command {
	return cluster.NewGroup("uncordon", "Take a cordon back", tenantCommand(c, &uncordonTenant), sliceCommand(c, false))
}

// NewDrainCommand returns the command "drain".
func NewDrainCommand(c *cluster.Session) *cobra.Command {
	return cluster.NewGroup("drain", "Take back the grants of consumers", tenantCommand(c, &drainTenant))
}

func tenantCommand(c *cluster.Session, s *tenantSwitch) *cobra.Command {
	o := &switchOptions{}
	cmd := &cobra.Command{
		Use: "tenant NAME", Aliases: []string{"tenants"}, Short: s.short, Long: s.long,
		Example:           fmt.Sprintf("  liqoctl %s tenant rome", s.verb),
		Args:              cluster.OneName,
		ValidArgsFunction: c.CompleteOne(func() client.ObjectList { return &authv1beta1.TenantList{} }, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.confirmed {
				if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), s.verb); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return switchTenant(ctx, c, o, s, args[0])
		},
	}
	o.addFlags(cmd, "Tenant; all are searched if empty")
	return cmd
}

func switchTenant(ctx context.Context, c *cluster.Session, o *switchOptions, s *tenantSwitch, name string) error {
	cluster, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	var tenant *authv1beta1.Tenant
	for {
		if tenant, err = FindTenant(ctx, cluster, o.namespace, name); err != nil {
			return fmt.Errorf("unable to get tenant: %w", err)
		}
		if now := cmp.Or(tenant.Spec.TenantCondition, authv1beta1.TenantConditionActive); s.from != "" && now != s.from {
			c.Warn("Tenant %q %s", name, s.otherwise)
			return nil
		}
		before := tenant.DeepCopy()
		tenant.Spec.TenantCondition = s.to
		c.SetCommonMetadata(tenant)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if o.IsRequested() {
			if err := client.NewDryRunClient(cluster).Patch(ctx, tenant, patch); err != nil {
				return fmt.Errorf("unable to update tenant: %w", err)
			}
			return c.PrintObject(partOf(c, tenant), o.OutputFormat())
		}
		err = cluster.Patch(ctx, tenant, patch, client.FieldOwner(names.CLIFieldManager))
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("unable to update tenant: %w", err)
		}
	}
	c.Success("Tenant %q %s", name, s.done)
	if !o.wait {
		return nil
	}
	return awaitSwitch(ctx, c, cluster, tenant, "")
}

// partOf returns the apply configuration of a Tenant: only the fields owned by the command.
func partOf(c *cluster.Session, tenant *authv1beta1.Tenant) client.Object {
	part := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: tenant.Name},
		Spec:       authv1beta1.TenantSpec{ClusterID: tenant.Spec.ClusterID, TenantCondition: tenant.Spec.TenantCondition},
	}
	part.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("Tenant"))
	c.SetCommonMetadata(part)
	return part
}

// FindTenant returns the Tenant with a name, in any namespace.
func FindTenant(ctx context.Context, cl client.Reader, namespace, name string) (*authv1beta1.Tenant, error) {
	var list authv1beta1.TenantList
	if err := cl.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		return nil, apierrors.NewNotFound(authv1beta1.GroupVersion.WithResource("tenants").GroupResource(), name)
	case 1:
		tenant := &list.Items[0]
		tenant.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("Tenant"))
		if !tenant.DeletionTimestamp.IsZero() {
			return nil, ui.Fail("the Tenant %s is being deleted", client.ObjectKeyFromObject(tenant))
		}
		return tenant, nil
	}
	var in []string
	for i := range list.Items {
		in = append(in, list.Items[i].Namespace)
	}
	return nil, ui.Fail("several namespaces have a Tenant %q: %s", name, strings.Join(in, ", ")).Hint("Say which one is meant with -n")
}

// awaitSwitch waits until the controllers have applied the switches to the ResourceSlices of a Tenant, or to one of them.
func awaitSwitch(ctx context.Context, c *cluster.Session, kubeClient client.WithWatch, tenant *authv1beta1.Tenant, slice string) error {
	in, key := client.InNamespace(tenant.Namespace), client.ObjectKeyFromObject(tenant)
	step := c.Spin("Waiting until it is so")
	defer step.Stop()
	err := kube.WaitUntil(ctx, kubeClient, func(ctx context.Context) error {
		err := kubeClient.Get(ctx, key, tenant)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the Tenant %s was deleted while waiting", key)
		} else if err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
		if ready == nil || ready.ObservedGeneration < tenant.Generation {
			return kube.Pending(fmt.Sprintf("Tenant %s has not been processed yet: is liqo-controller-manager running?", key))
		}
		var all authv1beta1.ResourceSliceList
		if err := kubeClient.List(ctx, &all, in, client.MatchingLabels{names.Replicated: "true"}); err != nil {
			return err
		}
		var quotas offv1beta1.QuotaList
		if err := kubeClient.List(ctx, &quotas, in); err != nil {
			return err
		}
		for i := range all.Items {
			if one := &all.Items[i]; slice == "" || one.Name == slice {
				if err := checkSwitched(tenant.Spec.TenantCondition, one, quotas.Items); err != nil {
					return err
				}
			}
		}
		return nil
	}, kube.WatchOne(&authv1beta1.TenantList{}, key), kube.Watched{List: &authv1beta1.ResourceSliceList{}, Opts: []client.ListOption{in}},
		kube.Watched{List: &offv1beta1.QuotaList{}, Opts: []client.ListOption{in}})
	step.Stop()
	if apierrors.IsForbidden(err) {
		c.Warn("What comes of it is not waited for: %s", cluster.DescribeError(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for what comes of it: %w", err)
	}
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionActive && ready.Status != metav1.ConditionTrue {
		c.Warn("Tenant %q is not ready: %s: %s", tenant.Name, ready.Reason, ready.Message)
	}
	return nil
}

// checkSwitched returns a Pending until the Quota of a ResourceSlice follows the switches. The Quota admits pods.
func checkSwitched(tenant authv1beta1.TenantCondition, slice *authv1beta1.ResourceSlice, quotas []offv1beta1.Quota) error {
	n := slices.IndexFunc(quotas, func(q offv1beta1.Quota) bool { return metav1.IsControlledBy(&q, slice) })
	granted := policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeResources)
	switch {
	case tenant == authv1beta1.TenantConditionDrained:
		if n >= 0 || granted {
			return kube.Pending(fmt.Sprintf("the ResourceSlice %s has its resources still", slice.Name))
		}
		return nil
	case n < 0: // no pod starts without a Quota
		return nil
	}
	held := tenant == authv1beta1.TenantConditionCordoned || policy.IsCordoned(slice)
	if cordoned := quotas[n].Spec.Cordoned; held != (cordoned != nil && *cordoned) {
		return kube.Pending(fmt.Sprintf("the Quota %s of the ResourceSlice %s is not up to date", quotas[n].Name, slice.Name))
	}
	return nil
}
