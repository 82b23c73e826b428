// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// Settings of NamespaceMapOptions.NetworkPolicies.
const (
	PoliciesDetected   = "auto"
	PoliciesEnforced   = "true"
	PoliciesUnenforced = "false"
)

// enforcingGroups are API groups of CNI plugins that enforce NetworkPolicies.
var enforcingGroups = []string{"cilium.io", "crd.projectcalico.org", "crd.antrea.io", "k8s.ovn.org", "kubeovn.io", "networking.k8s.aws"}

// kubeRouter is the DaemonSet of kube-router, which has no API group.
var kubeRouter = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-router"}

// enforcementTTL is the time to live of what was detected.
const enforcementTTL = 5 * time.Minute

// policyEnforcement detects whether the CNI plugin of this cluster enforces NetworkPolicies.
type policyEnforcement struct {
	setting string
	live    client.Reader
	nodes   client.Reader // cached
	groups  interface {
		ServerGroups() (*metav1.APIGroupList, error)
	}

	mu       sync.Mutex
	at       time.Time
	enforced bool
}

// isEnforced reports whether NetworkPolicies are enforced. After an error the last result counts.
func (e *policyEnforcement) isEnforced(ctx context.Context) bool {
	switch e.setting {
	case PoliciesEnforced:
		return true
	case PoliciesUnenforced:
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) < enforcementTTL {
		return e.enforced
	}
	enforced, err := e.detectPlugin(ctx)
	if err != nil {
		log.FromContext(ctx).V(1).Info("the CNI plugin was not detected", "reason", err.Error())
		return e.enforced
	}
	e.at, e.enforced = time.Now(), enforced
	return enforced
}

func (e *policyEnforcement) detectPlugin(ctx context.Context) (bool, error) {
	groups, err := e.groups.ServerGroups()
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return slices.Contains(enforcingGroups, g.Name) }) {
		return true, nil
	}
	if err := e.live.Get(ctx, kubeRouter, &appsv1.DaemonSet{}); !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	var nodes corev1.NodeList
	if err := e.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	return isEnforcedByK3s(nodes.Items), nil
}

// k3sArguments annotates the nodes of k3s with the arguments of the process: a JSON list, where each flag and each value is an element.
const k3sArguments = "k3s.io/node-args"

// isEnforcedByK3s reports whether the nodes run k3s with the controller of NetworkPolicies taken from kube-router. A flag of the
// servers disables the controller on all nodes.
func isEnforcedByK3s(nodes []corev1.Node) bool {
	servers := 0
	for i := range nodes {
		var arguments []string
		text := nodes[i].Annotations[k3sArguments]
		if nodes[i].Labels[names.NodeType] == names.NodeTypeVirtualNode || json.Unmarshal([]byte(text), &arguments) != nil || len(arguments) == 0 || arguments[0] != "server" {
			continue
		}
		servers++
		for i, argument := range arguments { // the configuration file and the command line may both have it
			if argument == "--disable-network-policy" && (i+1 == len(arguments) || arguments[i+1] != "false") {
				return false
			}
		}
	}
	return servers > 0
}

// translatedNetworks returns the networks of a consumer as this cluster sees them; nil is no Configuration.
func translatedNetworks(c *networkingv1beta1.Configuration) []offv1beta1.TranslatedNetwork {
	if c == nil {
		return nil
	}
	networks, placed, _ := prefix.Placed(c)
	if !placed {
		return nil
	}
	var out []offv1beta1.TranslatedNetwork
	for _, pair := range slices.Concat(networks.Pods, networks.External) {
		out = append(out, offv1beta1.TranslatedNetwork{CIDR: pair.Remote.String(), TranslatedCIDR: pair.Local.String()})
	}
	return out[:min(len(out), maxNetworks)]
}

// maxNetworks is the limit of the CRD.
const maxNetworks = 64
