// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// peerHealth is the health of the peer's API server.
type peerHealth struct {
	look chan struct{} // asks for a look before the next interval

	mu sync.Mutex
	// looked: the rest means something.
	looked bool
	// failure is why the API server does not answer, empty while it does.
	failure string
	// refusals are the rejections of our calls by the API server, by subject, until it accepts them.
	refusals map[string]string
	// refusedSince is the time of the first rejection of every call, zero while access works.
	refusedSince time.Time
	// rejections are why objects are not copied although we may, by object.
	rejections map[string]string
}

// access is the key of rejections that concern every call.
const access = ""

// healthSnapshot is a snapshot of the health.
type healthSnapshot struct {
	looked           bool
	failure, refusal string
	some             bool // the refusal concerns some calls only
	rejection        string
	refusedSince     time.Time
}

func (l *link) currentState() healthSnapshot {
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	_, all := l.health.refusals[access]
	return healthSnapshot{l.health.looked, l.health.failure, firstText(l.health.refusals), !all, firstText(l.health.rejections), l.health.refusedSince}
}

// firstText returns one of the texts, deterministic for a set, or "".
func firstText(texts map[string]string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[slices.Min(slices.Collect(maps.Keys(texts)))]
}

// isAlive reports whether the peer answers and accepts our credentials: only then is the user's declaration of
// its loss overridden.
func (s healthSnapshot) isAlive() bool { return s.looked && s.failure == "" && s.refusal == "" }

// watchHealth looks at the peer at once and then at every interval, until ctx ends.
func (l *link) watchHealth(ctx context.Context, o Options) {
	if o.HealthInterval < 0 {
		l.recordFailure("")
		return
	}
	ticker := time.NewTicker(o.HealthInterval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		l.lookOnce(ctx, o.HealthTimeout, n%rightsEvery == rightsEvery-1)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.health.look:
		}
	}
}

// lookNow asks for a look before the interval is over.
func (l *link) lookNow() {
	select {
	case l.health.look <- struct{}{}:
	default:
	}
}

// rightsEvery is the number of health checks per check of permissions: an established watch continues for minutes after its permission
// was revoked, and with nothing to replicate no call would fail.
const rightsEvery = 4

func (l *link) lookOnce(ctx context.Context, timeout time.Duration, rights bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := l.conn.Healthy(ctx)
	if ctx.Err() != nil && context.Cause(ctx) == context.Canceled {
		return
	}
	if err != nil {
		l.recordFailure(err.Error())
	} else {
		l.recordFailure("")
	}
	if rights || err != nil || l.currentState().refusal != "" || !l.engine.Synced(l.pair, pluralNames()...) {
		l.tryRights(ctx)
	}
}

// tryRights lists one object of each kind: rejected watches are retried silently, and without a pending object no
// failure would show the rejection.
func (l *link) tryRights(ctx context.Context) {
	c, err := client.New(l.conn.Config(), client.Options{Mapper: newMapper()})
	if err != nil {
		l.recordRefusal(access, classifyAnswer(err))
		return
	}
	for _, res := range resources {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(res.newList().GroupVersionKind())
		if err := c.List(ctx, list, client.InNamespace(l.pair.Remote), client.Limit(1)); err != nil {
			l.recordRefusal(access, classifyAnswer(err))
			return
		}
	}
	l.recordRefusal(access, nil)
}

func (l *link) recordFailure(failure string) {
	l.health.mu.Lock()
	news := !l.health.looked || (l.health.failure == "") != (failure == "")
	l.health.looked, l.health.failure = true, failure
	l.health.mu.Unlock()
	if news {
		l.changed()
	}
}

// recordRefusal records whether err, the result of a call about key, is a rejection. A missing answer says nothing about
// access.
func (l *link) recordRefusal(key string, err error) {
	refusal, is := errors.AsType[*rejectedCall](err)
	if is {
		l.setText(&l.health.refusals, key, refusal.message)
	} else if err == nil || key != access {
		l.setText(&l.health.refusals, key, "")
	}
}

// recordRejection records whether err, the result of replicating an object, means that the object is invalid for
// the peer.
func (l *link) recordRejection(key string, err error) {
	if _, invalid := kube.InvalidReason(err); invalid {
		l.setText(&l.health.rejections, key, key+": "+err.Error())
	} else if !kube.Classify(err).Failed() {
		l.setText(&l.health.rejections, key, "")
	}
}

// setText sets or deletes a text, and notifies if the first text changed.
func (l *link) setText(texts *map[string]string, key, text string) {
	l.health.mu.Lock()
	before := firstText(*texts)
	if text == "" {
		delete(*texts, key)
	} else {
		if *texts == nil {
			*texts = map[string]string{}
		}
		(*texts)[key] = text
	}
	switch _, all := l.health.refusals[access]; {
	case !all:
		l.health.refusedSince = time.Time{}
	case l.health.refusedSince.IsZero():
		l.health.refusedSince = time.Now()
	}
	after := firstText(*texts)
	l.health.mu.Unlock()
	if before != after {
		l.changed()
	}
}
