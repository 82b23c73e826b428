// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// VirtualNodeOptions say how virtual kubelets are run.
type VirtualNodeOptions struct {
	// ClusterID of this cluster.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace is where the installation lives.
	LiqoNamespace string
	// Image of virtual kubelets whose options name none.
	Image string
	// Images are permitted for virtual kubelets besides the image in the options of the installation; a final * matches any suffix.
	Images []string
	// PodCIDRs of this cluster.
	PodCIDRs []string
	// VkOptionsTemplate is the default for VirtualNodes that name none; if empty, virtual-kubelet-default in
	// LiqoNamespace.
	VkOptionsTemplate types.NamespacedName
	// CheckArguments tells why a virtual kubelet would not start with these arguments; nil never does.
	CheckArguments func(args []string) error
	// Workers is the number of VirtualNodes handled at once; 0 is 4.
	Workers int

	mapNamespace string // of the NamespaceMap of one VirtualNode
}

const defaultNodeWorkers = 4

// SetupVirtualNodes registers the controller that runs a virtual kubelet for each VirtualNode.
func SetupVirtualNodes(mgr ctrl.Manager, o VirtualNodeOptions) error {
	if o.Workers == 0 {
		o.Workers = defaultNodeWorkers
	}
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	evictor, err := newEvictor(mgr)
	if err != nil {
		return err
	}
	kubelets, err := runningKubelets(mgr)
	if err != nil {
		return err
	}
	departures, err := newPodDrainWatcher(mgr)
	if err != nil {
		return err
	}
	v := &virtualNodes{client: mgr.GetClient(), direct: direct, evictor: evictor, drainWatcher: departures, recorder: mgr.GetEventRecorder("liqo-virtualnode"), options: o, rollouts: &rolloutLimiter{}}
	c := kube.NewController(mgr, kube.Options{Name: "virtualnode", Finalizer: names.VirtualNodeFinalizer, Workers: o.Workers}, v)
	b := v.addWatches(c.Builder()).
		WatchesRawSource(source.Kind(kubelets, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(servedBy), ended)).
		WatchesRawSource(source.Channel(departures.drained, &handler.EnqueueRequestForObject{}))
	return c.Complete(b)
}

type virtualNodes struct {
	client client.Client
	// direct bypasses the cache, for pods, ServiceAccounts and Secrets, and for decisions that need current
	// data.
	direct  client.Client
	evictor evictor
	// drainWatcher notifies about evicted pods.
	drainWatcher *podDrainWatcher
	recorder     events.EventRecorder
	options      VirtualNodeOptions
	rollouts     *rolloutLimiter
}

// Sync runs the virtual kubelet with its permissions, and maintains the provider's NamespaceMap.
func (v *virtualNodes) Sync(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	now := metav1.Now()
	if vn.Spec.ClusterID == "" {
		return kube.Invalid("Invalid", errors.New("spec.clusterID is required"))
	}
	template, err := v.readTemplate(ctx, vn)
	if err != nil {
		return err
	}
	hasNode := createsNode(vn, &template.Spec)
	setCondition(vn, kubeletCondition, creating, "", now)
	if hasNode {
		setCondition(vn, nodeCondition, creating, "", now)
	}
	node, err := v.readNode(ctx, v.client, vn)
	if err != nil {
		return err
	}
	if err := v.checkPlace(ctx, vn); err != nil {
		return err
	}
	available, err := v.runKubelet(ctx, vn, template)
	if err != nil {
		return err
	}
	if available {
		setCondition(vn, kubeletCondition, running, "", now)
	}
	if !hasNode {
		return v.removeNode(ctx, vn, now)
	}
	if node != nil {
		setCondition(vn, nodeCondition, running, "", now)
	}
	return nil
}

// runKubelet ensures the virtual kubelet, its permissions and the NamespaceMap, and reports whether a replica runs.
func (v *virtualNodes) runKubelet(ctx context.Context, vn *offv1beta1.VirtualNode, template *offv1beta1.VkOptionsTemplate) (available bool, err error) {
	if err := v.ensureRights(ctx, vn); err != nil {
		return false, err
	}
	namespace, err := v.tenantNamespace(ctx, vn)
	if err != nil {
		return false, err
	}
	if err := v.ensureNamespaceMap(ctx, vn, namespace); err != nil {
		return false, err
	}
	if err := v.ensureMapRights(ctx, vn, namespace); err != nil {
		return false, err
	}
	return v.ensureDeployment(ctx, vn, template, namespace)
}

// removeNode deletes the Node of a VirtualNode with a disabled node; the kubelet keeps running.
func (v *virtualNodes) removeNode(ctx context.Context, vn *offv1beta1.VirtualNode, now metav1.Time) error {
	node, err := v.readNode(ctx, v.client, vn)
	if err != nil {
		return err
	}
	if node == nil {
		setCondition(vn, nodeCondition, none, "", now)
		return nil
	}
	setCondition(vn, nodeCondition, draining, "", now)
	if err := v.drainNode(ctx, vn); err != nil {
		return err
	}
	setCondition(vn, nodeCondition, deleting, "", now)
	return v.deleteNode(ctx, vn)
}

// checkPlace repeats the check of the webhook, which may have been disabled.
func (v *virtualNodes) checkPlace(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	namespace := &corev1.Namespace{}
	if err := v.client.Get(ctx, client.ObjectKey{Name: vn.Namespace}, namespace); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if err := policy.CheckVirtualNodePlace(vn, namespace); err != nil {
		return kube.Again(tenantDelay, kube.Invalid("WrongNamespace", err))
	}
	return nil
}

// checkImage permits the image in the options of the installation, and listed images.
func (v *virtualNodes) checkImage(ctx context.Context, want *appsv1.Deployment, template *offv1beta1.VkOptionsTemplate) error {
	ours := []string{v.options.Image}
	if template.Namespace == v.options.LiqoNamespace {
		ours = append(ours, template.Spec.ContainerImage)
	} else {
		own := &offv1beta1.VkOptionsTemplate{}
		err := v.client.Get(ctx, v.options.defaultTemplate(), own)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading VkOptionsTemplate %q: %w", v.options.VkOptionsTemplate, err)
		}
		ours = append(ours, own.Spec.ContainerImage)
	}
	for _, c := range want.Spec.Template.Spec.Containers {
		if err := policy.CheckVirtualKubeletImage(c.Image, ours, v.options.Images); err != nil {
			return kube.Invalid("ImageNotAllowed", err)
		}
	}
	return nil
}

// readTemplate finds the options of the virtual kubelet.
func (v *virtualNodes) readTemplate(ctx context.Context, vn *offv1beta1.VirtualNode) (*offv1beta1.VkOptionsTemplate, error) {
	key := v.options.templateKey(vn)
	template := &offv1beta1.VkOptionsTemplate{}
	err := v.client.Get(ctx, key, template)
	if apierrors.IsNotFound(err) {
		return nil, kube.Invalid("VkOptionsTemplateMissing", fmt.Errorf("the VkOptionsTemplate %q does not exist", key))
	}
	if err != nil {
		return nil, fmt.Errorf("reading VkOptionsTemplate %q: %w", key, err)
	}
	return template, nil
}

// defaultTemplate is the key of the options of VirtualNodes that name none.
func (o VirtualNodeOptions) defaultTemplate() types.NamespacedName {
	if o.VkOptionsTemplate.Name == "" {
		return types.NamespacedName{Namespace: o.LiqoNamespace, Name: names.VkOptionsTemplate}
	}
	return o.VkOptionsTemplate
}

func (o VirtualNodeOptions) templateKey(vn *offv1beta1.VirtualNode) types.NamespacedName {
	ref := vn.Spec.VkOptionsTemplateRef
	switch {
	case ref == nil:
		return o.defaultTemplate()
	case ref.Namespace == "":
		return types.NamespacedName{Namespace: vn.Namespace, Name: ref.Name}
	default:
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
}

var errNodeNameTaken = errors.New("the name of the Node is taken")

// readNode returns the Node of the VirtualNode, or nil. A foreign Node of that name causes errNodeNameTaken, and
// is never modified.
func (v *virtualNodes) readNode(ctx context.Context, from client.Reader, vn *offv1beta1.VirtualNode) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := from.Get(ctx, client.ObjectKey{Name: vn.Name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Node %q: %w", vn.Name, err)
	}
	if node.Labels[names.NodeType] == names.NodeTypeVirtualNode && node.Labels[names.RemoteClusterID] == string(vn.Spec.ClusterID) {
		return node, nil
	}
	relabelled, err := v.updateLabels(ctx, from, vn, node)
	if err != nil {
		return nil, err
	}
	if !relabelled {
		return nil, kube.Invalid("NodeNameTaken", fmt.Errorf("%w: the Node %q exists and is not the virtual node of cluster %q",
			errNodeNameTaken, vn.Name, vn.Spec.ClusterID))
	}
	return node, nil
}

// updateLabels reports whether the Node is ours despite edited labels: a virtual kubelet created the Node, and no other
// VirtualNode has the name.
func (v *virtualNodes) updateLabels(ctx context.Context, from client.Reader, vn *offv1beta1.VirtualNode, node *corev1.Node) (bool, error) {
	if _, created := node.Annotations[names.AppliedTaints]; !created {
		return false, nil
	}
	all := &offv1beta1.VirtualNodeList{}
	if err := from.List(ctx, all); err != nil {
		return false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	return !slices.ContainsFunc(all.Items, func(other offv1beta1.VirtualNode) bool {
		return other.Name == vn.Name && other.UID != vn.UID
	}), nil
}

func (v *virtualNodes) ensureRights(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	account, err := v.ensureServiceAccount(ctx, vn)
	if err != nil {
		return err
	}
	if account != nil && !isAccountOf(vn, account) {
		return kube.Invalid("ServiceAccountTaken", fmt.Errorf("ServiceAccount %q already exists and was not created for this virtual node", account.Name))
	}
	if _, err := kube.Ensure(ctx, v.direct, serviceAccount(vn)); err != nil {
		return fmt.Errorf("making the virtual kubelet's account: %w", err)
	}
	if _, err := kube.Ensure(ctx, v.client, clusterRoleBinding(vn)); err != nil {
		return fmt.Errorf("granting the virtual kubelet's rights in the cluster: %w", err)
	}
	if _, err := kube.Ensure(ctx, v.direct, tenantRole(vn)); err != nil {
		if ref := vn.Spec.KubeconfigSecretRef; ref != nil && apierrors.IsForbidden(err) {
			return mayNotGrant(vn, ref.Name, v.options.LiqoNamespace)
		}
		return fmt.Errorf("granting the virtual kubelet access to its namespace: %w", err)
	}
	// Earlier versions bound a ClusterRole under this name.
	if err := kube.EnsureRoleBinding(ctx, v.client, tenantBinding(vn), v.dropBinding); err != nil {
		return fmt.Errorf("granting the virtual kubelet's rights in its namespace: %w", err)
	}
	return nil
}

// mayNotGrant is the error about a namespace in which the controller-manager has no permission on the kubeconfig, as in namespaces
// of users: only a holder of a permission can grant it.
func mayNotGrant(vn *offv1beta1.VirtualNode, secret, installation string) error {
	err := fmt.Errorf("%s may not let the virtual kubelet read Secret %q: give the ServiceAccount %s/%s the verbs get, list and watch on that Secret in namespace %q",
		names.ControllerManager, secret, installation, names.ControllerManager, vn.Namespace)
	setCondition(vn, kubeletCondition, creating, err.Error(), metav1.Now())
	return kube.Again(tenantDelay, kube.Invalid("KubeconfigForbidden", err))
}

// ensureMapRights lets the virtual kubelet of a VirtualNode outside of the tenant namespace read its NamespaceMap.
func (v *virtualNodes) ensureMapRights(ctx context.Context, vn *offv1beta1.VirtualNode, namespace string) error {
	if namespace == vn.Namespace {
		return nil
	}
	if _, err := kube.Ensure(ctx, v.direct, mapRole(vn, namespace)); err != nil {
		return fmt.Errorf("creating the role for the NamespaceMap: %w", err)
	}
	if err := kube.EnsureRoleBinding(ctx, v.client, mapBinding(vn, namespace), v.dropBinding); err != nil {
		return fmt.Errorf("granting the virtual kubelet the NamespaceMap: %w", err)
	}
	return nil
}

func (v *virtualNodes) dropBinding(ctx context.Context, current *rbacv1.RoleBinding) error {
	return kube.DeleteObject(ctx, v.direct, current, "deleting RoleBinding %q", current.Name)
}

// ensureServiceAccount returns the ServiceAccount of that name, of any origin, or nil.
func (v *virtualNodes) ensureServiceAccount(ctx context.Context, vn *offv1beta1.VirtualNode) (*corev1.ServiceAccount, error) {
	account := serviceAccount(vn)
	if err := v.direct.Get(ctx, client.ObjectKeyFromObject(account), account); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the virtual kubelet's account: %w", err)
	}
	return account, nil
}

// ensureNamespaceMap ensures the NamespaceMap of the provider, which all VirtualNodes of the provider share. The entries belong
// to the NamespaceOffloadings.
func (v *virtualNodes) ensureNamespaceMap(ctx context.Context, vn *offv1beta1.VirtualNode, namespace string) error {
	id := string(vn.Spec.ClusterID)
	nm := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id, Labels: map[string]string{
		names.RemoteClusterID: id, names.Replication: "true", names.ReplicationDestination: id,
	}}}
	if _, err := kube.Ensure(ctx, v.client, nm); err != nil {
		return fmt.Errorf("making the NamespaceMap: %w", err)
	}
	return nil
}

func (v *virtualNodes) tenantNamespace(ctx context.Context, vn *offv1beta1.VirtualNode) (string, error) {
	own := &corev1.Namespace{}
	if err := v.client.Get(ctx, client.ObjectKey{Name: vn.Namespace}, own); err != nil {
		return "", fmt.Errorf("reading the namespace: %w", err)
	}
	if id, ok := peer.OfNamespace(own); ok && id == vn.Spec.ClusterID {
		return own.Name, nil
	}
	namespace, err := peer.TenantNamespace(ctx, v.client, vn.Spec.ClusterID)
	if err != nil {
		return "", kube.Wait(tenantDelay, err.Error())
	}
	return namespace, nil
}

const tenantDelay = 5 * time.Second

// ensureDeployment renders the virtual kubelet and reports whether a replica runs.
func (v *virtualNodes) ensureDeployment(ctx context.Context, vn *offv1beta1.VirtualNode, template *offv1beta1.VkOptionsTemplate, mapNamespace string) (available bool, err error) {
	o := v.options
	o.mapNamespace = mapNamespace
	want := newDeployment(vn, template, o)
	if err := v.checkImage(ctx, want, template); err != nil {
		return false, err
	}
	if check := v.options.CheckArguments; check != nil {
		if err := check(want.Spec.Template.Spec.Containers[0].Args[1:]); err != nil {
			return false, kube.Invalid("InvalidOptions", fmt.Errorf("a virtual kubelet would not start with its options and arguments: %w", err))
		}
	}
	current := &appsv1.Deployment{}
	err = v.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the virtual kubelet's Deployment: %w", err)
	}
	fresh := err != nil
	if !fresh && current.Spec.Selector != nil && !maps.Equal(current.Spec.Selector.MatchLabels, want.Spec.Selector.MatchLabels) {
		// The selector is immutable, and follows from the provider's ID.
		_, err := v.deleteDeployment(ctx, current)
		return false, err
	}
	if wait, err := v.rollouts.allowRollout(vn.UID, &want.Spec.Template); err != nil {
		return false, err
	} else if wait > 0 && !fresh {
		return false, kube.Wait(wait, "the virtual kubelet was restarted too often")
	}
	if _, err := kube.Ensure(ctx, v.client, want); err != nil {
		return false, fmt.Errorf("running the virtual kubelet: %w", err)
	}
	if fresh {
		v.recorder.Eventf(vn, want, corev1.EventTypeNormal, "VkCreated", "Create", "virtual kubelet %s was created", want.Name)
	}
	return current.Status.AvailableReplicas > 0, nil
}
