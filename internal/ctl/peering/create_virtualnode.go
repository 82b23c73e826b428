// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

type createVirtualNodeOptions struct {
	*cluster.Creation
	cluster.Amounts
	secret, slice                                     string
	createNode, noNetworkCheck                        bool
	vkOptions, runtimeClass                           string
	storageClasses, ingressClasses, loadBalancerClass []string
	labels, nodeSelector                              map[string]string
}

// CreateVirtualNode returns the command "create virtualnode".
func CreateVirtualNode(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createVirtualNodeOptions{Creation: common}
	cmd := c.ForPeer(common, &cobra.Command{
		Use:     "virtualnode NAME",
		Aliases: []string{"vn"},
		Short:   "Show a provider as a node",
		Long: "Show a provider as a node, with the credentials of a ResourceSlice or of a Secret.\n" +
			"With a ResourceSlice, amounts, classes and labels are those that the provider granted; their flags are for Secrets only.",
		Example: "  liqoctl create virtualnode milan-2 --remote-cluster-id milan --resource-slice-name milan\n" +
			"  liqoctl create virtualnode milan-2 --remote-cluster-id milan --kubeconfig-secret-name milan-user --cpu 4 --memory 8Gi",
	}, func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error {
		return runCreateVirtualNode(ctx, c, o, cluster, key)
	})
	common.AddFlags(c, cmd, false)
	fs := cmd.Flags()
	fs.StringVar(&o.secret, "kubeconfig-secret-name", "", "The Secret with the credentials, in the tenant namespace")
	fs.StringVar(&o.slice, "resource-slice-name", "", "The ResourceSlice whose credentials and grant are used, in the tenant namespace")
	fs.BoolVar(&o.createNode, "create-node", true, "Show it as a node, and wait for that to be ready")
	fs.BoolVar(&o.noNetworkCheck, "disable-network-check", false, "Call the node ready also while the network to the provider is down")
	fs.StringVar(&o.vkOptions, "vk-options-template", "", "The VkOptionsTemplate of the virtual kubelet, as namespace/name; that of the installation if empty")
	o.Amounts.AddFlags(fs, "2", "4Gi", "110")
	cmd.PreRunE = o.Amounts.CheckFlags
	fs.StringSliceVar(&o.storageClasses, "storage-classes", nil, "The storage classes of the provider, the default one first")
	fs.StringSliceVar(&o.ingressClasses, "ingress-classes", nil, "The ingress classes of the provider, the default one first")
	fs.StringSliceVar(&o.loadBalancerClass, "load-balancer-classes", nil, "The load balancer classes of the provider, the default one first")
	fs.StringToStringVar(&o.labels, "labels", nil, "The labels of the node")
	fs.StringToStringVar(&o.nodeSelector, "node-selector", nil, "The labels of the provider's nodes that pods may run on")
	fs.StringVar(&o.runtimeClass, "runtime-class-name", "", "The runtime class of pods in the provider")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig-secret-name", "resource-slice-name")
	cmd.MarkFlagsOneRequired("kubeconfig-secret-name", "resource-slice-name")
	return cmd
}

func runCreateVirtualNode(ctx context.Context, c *cluster.Session, o *createVirtualNodeOptions, kubeClient client.WithWatch, key client.ObjectKey) error {
	vn, err := o.newVirtualNode(ctx, c, kubeClient, key)
	if err != nil {
		return err
	}
	c.SetCommonMetadata(vn)
	if o.IsRequested() {
		return c.PrintObject(vn, o.OutputFormat())
	}
	if err := o.mayBe(ctx, kubeClient, vn); err != nil {
		return err
	}
	if err := cluster.ApplyObject(ctx, kubeClient, vn); err != nil {
		return err
	}
	c.Success("Virtual node created")
	if !o.createNode {
		return nil
	}
	return c.RunStep("Waiting for node "+vn.Name+" to be ready", "Node "+vn.Name+" is Ready", func() error { return cluster.AwaitNode(ctx, kubeClient, client.ObjectKeyFromObject(vn)) })
}

// newVirtualNode returns the VirtualNode to create.
func (o *createVirtualNodeOptions) newVirtualNode(ctx context.Context, c *cluster.Session, cluster client.WithWatch, key client.ObjectKey) (*offv1beta1.VirtualNode, error) {
	vn, err := o.ofSecret(key)
	if err == nil && o.slice != "" {
		vn, err = o.ofSlice(ctx, c, cluster, key)
	}
	if err != nil {
		return nil, err
	}
	vn.Spec.CreateNode, vn.Spec.DisableNetworkCheck = &o.createNode, &o.noNetworkCheck
	if o.vkOptions != "" {
		namespace, name, _ := strings.Cut(o.vkOptions, "/")
		vn.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	}
	vn.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("VirtualNode"))
	return vn, nil
}

// ofSecret returns the VirtualNode for a kubeconfig Secret, the only thing known of the provider.
func (o *createVirtualNodeOptions) ofSecret(key client.ObjectKey) (*offv1beta1.VirtualNode, error) {
	hard, err := o.Amounts.ParseAll()
	if err != nil {
		return nil, err
	}
	vn := &offv1beta1.VirtualNode{
		ObjectMeta: network.PeerMeta(key, o.Peer),
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID:           liqov1beta1.ClusterID(o.Peer),
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: o.secret},
			ResourceQuota:       corev1.ResourceQuotaSpec{Hard: hard},
			Labels:              map[string]string{},
		},
	}
	maps.Copy(vn.Spec.Labels, o.labels)
	vn.Spec.Labels[names.RemoteClusterID] = o.Peer
	for i, name := range o.storageClasses {
		vn.Spec.StorageClasses = append(vn.Spec.StorageClasses, liqov1beta1.StorageType{StorageClassName: name, Default: i == 0})
	}
	for i, name := range o.ingressClasses {
		vn.Spec.IngressClasses = append(vn.Spec.IngressClasses, liqov1beta1.IngressType{IngressClassName: name, Default: i == 0})
	}
	for i, name := range o.loadBalancerClass {
		vn.Spec.LoadBalancerClasses = append(vn.Spec.LoadBalancerClasses, liqov1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: i == 0})
	}
	o.setFields(vn)
	return vn, nil
}

// setFields sets the options for changes of pods on their way to the provider.
func (o *createVirtualNodeOptions) setFields(vn *offv1beta1.VirtualNode) {
	if vn.Spec.OffloadingPatch == nil && len(o.nodeSelector) == 0 && o.runtimeClass == "" {
		return
	}
	p := cmp.Or(vn.Spec.OffloadingPatch, &offv1beta1.OffloadingPatch{})
	if len(o.nodeSelector) > 0 {
		p.NodeSelector = o.nodeSelector
	}
	if o.runtimeClass != "" {
		p.RuntimeClassName = &o.runtimeClass
	}
	vn.Spec.OffloadingPatch = p
}

// ofSlice returns the VirtualNode for the resources granted by a provider.
func (o *createVirtualNodeOptions) ofSlice(ctx context.Context, c *cluster.Session, cluster client.WithWatch, key client.ObjectKey) (*offv1beta1.VirtualNode, error) {
	if cluster == nil {
		return nil, ui.Fail("the grant of a ResourceSlice is read from the cluster, and no cluster is configured: set KUBECONFIG or --kubeconfig")
	}
	from := client.ObjectKey{Namespace: key.Namespace, Name: o.slice}
	slice, identity := &authv1beta1.ResourceSlice{}, &authv1beta1.Identity{}
	if err := cluster.Get(ctx, from, slice); apierrors.IsNotFound(err) {
		return nil, ui.Fail("ResourceSlice %s not found", from).Hint("Make it by: liqoctl create resourceslice %s --remote-cluster-id %s", o.slice, o.Peer)
	} else if err != nil {
		return nil, fmt.Errorf("reading the ResourceSlice: %w", err)
	}
	for _, conditionType := range []authv1beta1.ResourceSliceConditionType{ofAuthentication, ofResources} {
		if condition := conditionOf(slice.Status.Conditions, conditionType); condition.Status != authv1beta1.ResourceSliceConditionAccepted {
			return nil, ui.Fail("the provider did not accept the %s of the ResourceSlice %s: %s", strings.ToLower(string(conditionType)), from, cmp.Or(condition.Message, "it did not decide yet"))
		}
	}
	err := cluster.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: names.SliceIdentity(o.slice)}, identity)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Identity of the ResourceSlice: %w", err)
	}
	if err != nil || identity.Status.KubeconfigSecretRef == nil {
		return nil, ui.Fail("the ResourceSlice %s has no credentials yet: try again in a moment", from)
	}
	allow, err := acceptedNodeLabels(ctx, cluster, o.LiqoNamespace)
	if err != nil {
		c.Warn("Of the labels of the provider the node has those that suit most, because it is not known which this cluster accepts: %v", err)
	}
	labels := policy.OfferedNodeLabels(slice.Status.NodeLabels, allow)
	vn := policy.NewVirtualNode(slice, liqov1beta1.ClusterID(o.Peer), identity.Status.KubeconfigSecretRef.Name, labels)
	vn.Name = key.Name
	o.setFields(vn)
	return vn, nil
}

// acceptedNodeLabels returns the node labels that the controller-manager accepts from slices, nil for the default list.
func acceptedNodeLabels(ctx context.Context, kubeClient client.Reader, liqoNamespace string) ([]string, error) {
	manager, err := cluster.ControllerManager(ctx, kubeClient, liqoNamespace)
	if err != nil {
		return nil, err
	}
	container, err := cluster.ManagerContainer(manager)
	if err != nil {
		return nil, err
	}
	value := cluster.FlagValue(slices.Concat(container.Command, container.Args), "accepted-node-labels")
	if value == "" {
		return nil, nil
	}
	return strings.Split(value, ","), nil
}

// mayBe fails if the virtual node could never become ready.
func (o *createVirtualNodeOptions) mayBe(ctx context.Context, cluster client.Reader, vn *offv1beta1.VirtualNode) error {
	secret := client.ObjectKey{Namespace: vn.Namespace, Name: vn.Spec.KubeconfigSecretRef.Name}
	if err := cluster.Get(ctx, secret, &corev1.Secret{}); apierrors.IsNotFound(err) {
		return ui.Fail("Secret %s not found", secret)
	} else if err != nil {
		return fmt.Errorf("reading the credentials: %w", err)
	}
	if ref := vn.Spec.VkOptionsTemplateRef; ref != nil {
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		if err := cluster.Get(ctx, key, &offv1beta1.VkOptionsTemplate{}); apierrors.IsNotFound(err) {
			return ui.Fail("VkOptionsTemplate %s not found", key)
		} else if err != nil {
			return fmt.Errorf("reading the options of the virtual kubelet: %w", err)
		}
	}
	var all offv1beta1.VirtualNodeList
	if err := cluster.List(ctx, &all); err != nil {
		return fmt.Errorf("reading virtual nodes: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.Name == vn.Name && other.Namespace != vn.Namespace {
			return ui.Fail("the name is taken by the VirtualNode %s/%s, and node names are unique", other.Namespace, other.Name)
		}
		if other.Name == vn.Name && metav1.GetControllerOf(other) != nil {
			return ui.Fail("the VirtualNode %s/%s was made of the ResourceSlice %s: change that one", other.Namespace, other.Name, metav1.GetControllerOf(other).Name)
		}
	}
	var node corev1.Node
	if err := cluster.Get(ctx, client.ObjectKey{Name: vn.Name}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.Labels[names.NodeType] != names.NodeTypeVirtualNode {
		return ui.Fail("node %s already exists and is not a virtual node", vn.Name)
	}
	return nil
}
