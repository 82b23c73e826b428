// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
)

// link is the connection to one peer while credentials exist: a replication engine and a health check.
type link struct {
	ends     clusterPair
	recorder events.EventRecorder
	log      logr.Logger
	// changed wakes the peer's reconciliation: health, refusals, or the last copy gone.
	changed func()

	// The remaining fields are written by the peer's reconciliation only, one at a time.
	secret      types.NamespacedName
	fingerprint [sha256.Size]byte

	pair   multicluster.Pair
	conn   *multicluster.Conn
	engine *multicluster.Engine
	// draining: the credentials are being deleted, so no replication starts.
	draining atomic.Bool
	health   peerHealth
	// misbehaviours records the limits that the peer exceeded.
	misbehaviours *multicluster.Misbehaviours
	pace          copyPace

	cancel context.CancelFunc
	work   sync.WaitGroup
}

// peerLimits bound the load by one peer, because this process serves all peers. Replicated objects are few and small.
var peerLimits = kube.Limits{Body: 8 << 20, Event: 2 << 20, Rate: 4 << 20, Burst: 64 << 20}

const (
	peerBytes, peerObjects = 32 << 20, 10_000
	writeRate, writeBurst  = 64 << 10, 16 << 20
)

// dialPeer creates the link for credentials and starts it.
func (r *reconciler) dialPeer(e clusterPair, c *peerCredentials) (*link, error) {
	misbehaviours := multicluster.NewMisbehaviours(string(e.peer), func() { r.enqueue(e.peer) })
	conn, err := multicluster.NewConn(c.kubeconfig, multicluster.AllowLoopback(r.options.AllowLoopbackPeers), multicluster.WithLimits(peerLimits), multicluster.WithMisbehaviours(misbehaviours))
	if err != nil {
		return nil, kube.Invalid(reasonInvalidKubeconfig, err)
	}
	l := &link{
		ends:          e,
		recorder:      r.recorder,
		log:           r.log.WithValues("peer", e.peer),
		changed:       func() { r.enqueue(e.peer) },
		secret:        types.NamespacedName{Namespace: c.secret.Namespace, Name: c.secret.Name},
		fingerprint:   sha256.Sum256(c.kubeconfig),
		pair:          c.enginePair(),
		conn:          conn,
		misbehaviours: misbehaviours,
		health:        peerHealth{look: make(chan struct{}, 1)},
	}
	l.draining.Store(c.isDeleting())
	l.engine, err = multicluster.New(multicluster.Options{
		Local:        kube.WriteBudget{Rate: writeRate, Burst: writeBurst, Exceeded: misbehaviours.Report}.LimitWrites(r.config),
		Budget:       &kube.CacheBudget{Bytes: peerBytes, Objects: peerObjects, Full: misbehaviours.Report},
		Remote:       conn,
		Kinds:        slices.Concat(l.engineKinds(r.options.Workers), l.endpointKinds(), l.networkKinds()),
		FieldManager: names.ReplicatorFieldManager,
		Log:          l.log,
		Peer:         string(e.peer),
		Started:      l.handleStarted,
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("making the mirror to %s: %w", e.peer, err)
	}
	l.startLink(r.options)
	return l, nil
}

func (l *link) startLink(o Options) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	logStartingPeer(l.ends.peer)
	for _, res := range resources {
		logStarting(l.ends.peer, res.groupVersionResource())
	}
	l.engine.Set([]multicluster.Pair{l.pair})
	l.work.Go(func() {
		if err := l.engine.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			l.log.Error(err, "mirror stopped")
		}
	})
	l.work.Go(func() { l.watchHealth(ctx, o) })
}

// handleStarted is called when a kind of a pair is synced on both sides.
func (l *link) handleStarted(_ multicluster.Pair, kind string) {
	if res, ok := resourceNamed(kind); ok {
		logStarted(l.ends.peer, res.groupVersionResource())
	}
	l.lookNow()
}

// stopLink stops the link and waits for its end. No object is removed.
func (l *link) stopLink() {
	l.cancel()
	l.work.Wait()
	l.conn.Close()
	l.misbehaviours.Close()
}

// followCredentials switches a running link to new credentials for the same namespaces. ErrOtherServer means another server: the
// link must be replaced.
func (l *link) followCredentials(c *peerCredentials) (changed bool, err error) {
	if fingerprint := sha256.Sum256(c.kubeconfig); fingerprint != l.fingerprint {
		switch err := l.conn.Swap(c.kubeconfig); {
		case errors.Is(err, multicluster.ErrOtherServer):
			return false, err
		case err != nil:
			return false, kube.Invalid(reasonInvalidKubeconfig, err)
		}
		l.fingerprint, changed = fingerprint, true
		l.lookNow()
	}
	l.secret = types.NamespacedName{Namespace: c.secret.Namespace, Name: c.secret.Name}
	if was := l.draining.Swap(c.isDeleting()); was && !c.isDeleting() {
		// A restart processes the objects skipped while draining.
		l.engine.Set(nil)
		l.engine.Set([]multicluster.Pair{l.pair})
	}
	return changed, nil
}

// links are the running links by peer. After close no link is added.
type links struct {
	mu     sync.Mutex
	byPeer map[string]*link
	closed bool
}

var errClosed = errors.New("the process is stopping")

func (s *links) linkTo(peer string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPeer[peer]
}

func (s *links) addLink(peer string, l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.byPeer == nil {
		s.byPeer = map[string]*link{}
	}
	s.byPeer[peer] = l
	return nil
}

// removeLink stops the link of a peer, if any.
func (s *links) removeLink(peer string) {
	s.mu.Lock()
	l := s.byPeer[peer]
	delete(s.byPeer, peer)
	s.mu.Unlock()
	if l != nil {
		l.stopLink()
	}
}

// Start closes all links when the process stops, or loses leader election.
func (s *links) Start(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	all := s.byPeer
	s.byPeer = nil
	s.mu.Unlock()
	for _, l := range all {
		l.stopLink()
	}
	return nil
}

// Rate of status updates of one object: immediate at first, and then every statusInterval.
const (
	statusBurst    = 30
	statusInterval = 2 * time.Second
	// misbehavesAfter is how long the updates of one object must exceed the rate before the peer counts as misbehaving.
	misbehavesAfter = time.Minute
	// maxPaced bounds how many objects are remembered.
	maxPaced = 10_000
)

// copyPace bounds how often the peer can have a status written, object by object. The zero value is ready for use.
type copyPace struct {
	mu     sync.Mutex
	byName map[string]*objectPace
}

// objectPace is the pace of one object, with the first and the last update of a period with updates above the rate.
type objectPace struct {
	limiter     flowcontrol.RateLimiter
	since, last time.Time
}

// allowCopy reports whether the status of an object may be written now. If not, lasting reports whether the updates of the object
// have exceeded the rate for misbehavesAfter.
func (p *copyPace) allowCopy(key string) (allowed, lasting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pace, ok := p.byName[key]
	if !ok {
		if p.byName == nil || len(p.byName) >= maxPaced {
			p.byName = map[string]*objectPace{} // better too often than remembered for ever
		}
		pace = &objectPace{limiter: flowcontrol.NewTokenBucketRateLimiter(float32(time.Second)/float32(statusInterval), statusBurst)}
		p.byName[key] = pace
	}
	if pace.limiter.TryAccept() {
		return true, false
	}
	now := time.Now()
	if now.Sub(pace.last) > 5*statusInterval {
		pace.since = now
	}
	pace.last = now
	return false, now.Sub(pace.since) >= misbehavesAfter
}
