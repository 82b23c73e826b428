// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// namespaceMapping watches the NamespaceMap of the provider.
type namespaceMapping struct {
	client     client.Client
	provider   liqov1beta1.ClusterID
	namespaces *remoteNamespaces
	changed    func()
}

func setupMapping(mgr ctrl.Manager, m *namespaceMapping) error {
	if err := ctrl.NewControllerManagedBy(mgr).Named("twin-namespaces").For(&offv1beta1.NamespaceMap{}).Complete(m); err != nil {
		return fmt.Errorf("registering the controller of remote namespaces: %w", err)
	}
	return nil
}

func (m *namespaceMapping) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list offv1beta1.NamespaceMapList
	if err := m.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: string(m.provider)}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the namespace maps: %w", err)
	}
	var ours []*offv1beta1.NamespaceMap
	for i := range list.Items {
		if !peer.IsReplica(&list.Items[i]) {
			ours = append(ours, &list.Items[i])
		}
	}
	var changed bool
	switch len(ours) {
	case 0:
		changed = m.namespaces.Set(nil)
	case 1:
		changed = m.namespaces.Set(ours[0])
	default:
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("%d NamespaceMaps exist for %s, want one", len(ours), m.provider))
	}
	if changed {
		m.changed()
	}
	return reconcile.Result{}, nil
}

// providerCredentials watches the Secret with the provider's kubeconfig.
type providerCredentials struct {
	client  client.Client
	process *process
	events  *eventLog
}

func setupCredentials(mgr ctrl.Manager, c *providerCredentials) error {
	if err := ctrl.NewControllerManagedBy(mgr).Named("provider-kubeconfig").For(&corev1.Secret{}).Complete(c); err != nil {
		return fmt.Errorf("registering the controller of the kubeconfig: %w", err)
	}
	return nil
}

// Reconcile connects, or replaces the credentials of the connection. An unusable kubeconfig changes nothing:
// the old one may still work.
func (c *providerCredentials) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := c.client.Get(ctx, req.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := c.setKubeconfig(secret.Data[names.KubeconfigKey])
	switch {
	case errors.Is(err, multicluster.ErrOtherServer):
		// Every cache is about the old server. A new process starts with empty caches.
		c.process.stopWith(fmt.Errorf("using Secret %s: %w", req.NamespacedName, err))
	case err != nil:
		err = kube.Invalid("InvalidKubeconfig", err)
		c.process.options.Log.Info("the kubeconfig of the provider cannot be used", "secret", req.String(), "reason", err.Error())
		c.events.record(secret, corev1.EventTypeWarning, "InvalidKubeconfig", err.Error())
	}
	return reconcile.Result{}, nil
}

func (c *providerCredentials) setKubeconfig(kubeconfig []byte) error {
	if conn := c.process.conn.Load(); conn != nil {
		return conn.Swap(kubeconfig)
	}
	return c.process.connectProvider(kubeconfig)
}

// stopWith ends the process.
func (p *process) stopWith(err error) {
	select {
	case p.failed <- err:
	default:
	}
}
