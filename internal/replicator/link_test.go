// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/testkit"
)

func TestLinkLeaks(t *testing.T) {
	p := newPeering(t)
	p.bind(p.userName)
	secret := p.secret("cplane-secret", testkit.Kubeconfig(t, p.user))
	r := &reconciler{
		options:  Options{AllowLoopbackPeers: true, HealthInterval: healthInterval, HealthTimeout: healthTimeout},
		config:   p.consumer.Config,
		recorder: events.NewFakeRecorder(100),
		log:      logr.Discard(),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	defer r.queue.ShutDown()
	c := &peerCredentials{secret: secret, kubeconfig: secret.Data["kubeconfig"], remoteNamespace: p.providerTenant}

	before := goleak.IgnoreCurrent()
	l, err := r.dialPeer(clusterPair{local: "rome", peer: "milan"}, c)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		if s := l.currentState(); !s.isAlive() || !l.engine.Synced(l.pair) {
			return errors.New("not connected yet")
		}
		return nil
	})
	l.stopLink()
	testkit.Eventually(t, limit, func() error { return goleak.Find(before) })
}
