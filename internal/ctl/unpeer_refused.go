// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/peer"
)

// refusalPatience is how long what ends is waited for before somebody asks whether the provider hinders it: what begins late is refused nothing.
const refusalPatience = 2 * time.Second

// despiteRefusal does what ends with the provider's leave. One that lets the consumer in no more, because its Tenant was drained or deleted
// or its certificate has ended, is given up meanwhile, for nobody else would do so: both clusters are at hand, and what the provider still
// has of the consumer's is removed there, with its credentials.
func (u *unpeering) despiteRefusal(ctx context.Context, told *out.Printer, do func(context.Context) error) error {
	looking, enough := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		u.giveUpIfRefused(looking, u.consumer.via(told))
	}()
	err := do(ctx)
	enough()
	<-looked
	return err
}

// giveUpIfRefused waits until the provider refuses the consumer, and says so to the consumer: see names.PermanentlyUnreachable.
func (u *unpeering) giveUpIfRefused(ctx context.Context, s *side) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(refusalPatience):
	}
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: u.provider.id}}
	err := await.Object(ctx, s.kube, fc, &liqov1beta1.ForeignClusterList{}, func(_ context.Context, there bool) error {
		if there && refusedBy(fc) {
			return nil
		}
		return await.Pending(u.provider.id + " refuses nothing")
	})
	if err == nil {
		err = declareGone(ctx, s.kube, fc)
	}
	switch {
	case ctx.Err() != nil: // it went as it should
	case apierrors.IsForbidden(err):
		s.Warn("%s lets this cluster in no more, and you may not have it given up: %s", u.provider.id, err)
	case err != nil:
		s.Warn("Looking whether %s lets this cluster in: %s", u.provider.id, err)
	default:
		s.Warn("%s lets this cluster in no more: what is here ends without it, and what is there is removed in the end", u.provider.id)
	}
}

// refusedBy tells of a cluster that it answers, and refuses every call of this one.
func refusedBy(fc *liqov1beta1.ForeignCluster) bool {
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatus && strings.HasPrefix(c.Message, peer.RefusesCalls) {
			return true
		}
	}
	return false
}
