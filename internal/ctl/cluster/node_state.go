// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// nodeState holds the objects that decide whether the node of a VirtualNode is ready.
type nodeState struct {
	// virtualNode is nil before its creation.
	virtualNode *offv1beta1.VirtualNode
	// node is nil if no node has the name.
	node *corev1.Node
	// kubelets are the pods of its virtual kubelet.
	kubelets []corev1.Pod
}

// checkReady returns nil once the node is ready or if it stays hidden, a Pending with the reason before, and another error for a
// permanent problem.
func (s *nodeState) checkReady(key client.ObjectKey) error {
	switch {
	case s.virtualNode == nil:
		return kube.Pending(fmt.Sprintf("there is no VirtualNode %s yet", key))
	case s.virtualNode.DeletionTimestamp != nil:
		return kube.Pending(fmt.Sprintf("the VirtualNode %s is being deleted", key))
	case s.isHidden():
		return nil
	case s.node == nil || s.node.DeletionTimestamp != nil:
		if reason := ProblemOf(s.virtualNode); reason != "" {
			return kube.Pending("there is no node " + key.Name + " yet" + reason)
		}
		why := NotReady(names.VirtualKubelet(key.Name), s.kubelets)
		if text, waits := errors.AsType[kube.Pending](why); waits {
			return kube.Pending("there is no node " + key.Name + " yet: " + string(text))
		}
		return why
	}
	message := ""
	for _, c := range s.node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
		if c.Type == corev1.NodeReady && c.Message != "" {
			message = ": " + c.Message
		}
	}
	return kube.Pending("the node " + key.Name + " is not ready" + message)
}

// isHidden reports whether the VirtualNode creates no Node. Without an explicit spec the options decide. The controller has applied the options once
// the status has a condition of the virtual kubelet.
func (s *nodeState) isHidden() bool {
	if create := s.virtualNode.Spec.CreateNode; create != nil {
		return !*create
	}
	isRun, isNone := false, true
	for _, c := range s.virtualNode.Status.Conditions {
		switch c.Type {
		case offv1beta1.VirtualKubeletConditionType:
			isRun = c.Status == offv1beta1.RunningConditionStatusType
		case offv1beta1.NodeConditionType:
			isNone = c.Status == offv1beta1.NoneConditionStatusType
		}
	}
	return isRun && isNone
}

// ProblemOf returns the problem in the conditions of a VirtualNode.
func ProblemOf(vn *offv1beta1.VirtualNode) string {
	for _, c := range vn.Status.Conditions {
		if c.Status != offv1beta1.RunningConditionStatusType && c.Message != "" {
			return ": " + c.Message
		}
	}
	return ""
}

// AwaitNode waits until the node of a VirtualNode is ready. The VirtualNode may be created meanwhile; its deletion ends the wait.
func AwaitNode(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	kubelets := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{names.VirtualNode: key.Name}}
	watched := []kube.Watched{kube.WatchOne(&offv1beta1.VirtualNodeList{}, key), kube.WatchOne(nodes, client.ObjectKey{Name: key.Name})}
	// Pods only explain why a node is not ready: a user who may not read pods can wait, too.
	if err := cluster.List(ctx, &corev1.PodList{}, append(kubelets, client.Limit(1))...); err == nil {
		watched = append(watched, kube.Watched{List: &corev1.PodList{}, Opts: kubelets})
	} else if !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing the pods of the virtual kubelet: %w", err)
	}
	wasThere := false
	return kube.WaitUntil(ctx, cluster, func(ctx context.Context) error {
		s := &nodeState{virtualNode: &offv1beta1.VirtualNode{}, node: &corev1.Node{}}
		if err := cluster.Get(ctx, key, s.virtualNode); apierrors.IsNotFound(err) {
			if wasThere {
				return fmt.Errorf("the VirtualNode %s was deleted while waiting", key)
			}
			s.virtualNode = nil
		} else if err != nil {
			return err
		}
		wasThere = wasThere || s.virtualNode != nil && s.virtualNode.DeletionTimestamp == nil
		if err := cluster.Get(ctx, client.ObjectKey{Name: key.Name}, s.node); apierrors.IsNotFound(err) {
			s.node = nil
			var pods corev1.PodList
			if err := cluster.List(ctx, &pods, kubelets...); err != nil && !apierrors.IsForbidden(err) {
				return err
			}
			s.kubelets = pods.Items
		} else if err != nil {
			return err
		}
		return s.checkReady(key)
	}, watched...)
}

// PodReady reports whether the pod is ready.
func PodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// NotReady returns a Pending about pods without a ready pod, or an error if a change is needed.
func NotReady(of string, pods []corev1.Pod) error {
	for i := range pods {
		problem := kube.PodProblemOf(&pods[i])
		switch {
		case pods[i].DeletionTimestamp != nil || problem.Reason == "":
			continue
		case problem.IsPermanent():
			return ui.Fail("pod %s does not start: %s", pods[i].Name, problem)
		}
		return kube.Pending(fmt.Sprintf("pod %s does not start: %s", pods[i].Name, problem))
	}
	return kube.Pending(fmt.Sprintf("no pod of %s is ready", of))
}

// EndpointTexts returns all addresses with all ports, in order.
func EndpointTexts(e *networkingv1beta1.EndpointStatus) (all []string) {
	if e == nil {
		return nil
	}
	ports := e.Ports
	if len(ports) == 0 {
		ports = []int32{e.Port}
	}
	for _, address := range e.Addresses {
		for _, port := range ports {
			all = append(all, net.JoinHostPort(address, strconv.Itoa(int(port))))
		}
	}
	return all
}
