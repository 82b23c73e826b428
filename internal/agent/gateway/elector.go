// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/names"
)

// fencedDevice has no peers while it is closed. The device closes at once, also while the loop of the gateway waits.
type fencedDevice struct {
	Device
	mu   sync.Mutex
	open bool
}

func (d *fencedDevice) Apply(c wg.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		c.Peers = nil
	}
	return d.Device.Apply(c)
}

// Restart would bring back a peer that was just removed.
func (d *fencedDevice) Restart(key wg.PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		return nil
	}
	return d.Device.Restart(key)
}

// setOpen removes all peers unless the device is to be open.
func (d *fencedDevice) setOpen(open bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open = open; open {
		return nil
	}
	return d.Device.Keep()
}

// elector lets this replica have a peer while the rule of package election permits. The loop of the elector waits neither for the API server nor for
// the kernel state.
type elector struct {
	options Options
	client  client.Client
	live    client.Reader
	cache   cache.Cache
	log     logr.Logger
	device  *fencedDevice
	// newFence makes the fence of the tunnel, which is closed then.
	newFence func() (fence, error)
	learned  endpointMemory
	bind     func(netip.AddrPort) (*net.UDPConn, error)
	changed  func()        // is called when this replica became active, or ceased to be
	wake     agent.Trigger // requests a step
	// endpointDue requests that this replica is marked as the ready endpoint of its Service.
	endpointDue agent.Trigger

	mu        sync.Mutex // guards the fields below
	rule      *election.Replica
	lease     *coordinationv1.Lease
	active    bool
	fence     fence     // nil: it has to be made
	newFenced time.Time // last attempt to make the fence
	unfenced  error     // why the fence could not be set, last; nil: it could
	fenced    time.Time // when the fence closes by itself
	failure   string    // that was logged last
	writing   bool
	unwritten bool                  // an error of the Lease was logged since its last write
	addresses map[string]netip.Addr // of the other replicas
	sealer    *sealer
	conn      *net.UDPConn
	endpoint  netip.AddrPort // of the client of a server, as told last
}

// fence stops the packets of the tunnel while it is closed, even if this process hangs.
type fence interface {
	Open(time.Duration) error
}

func newElector(mgr ctrl.Manager, o Options, device *fencedDevice, newFence func() (fence, error), learned endpointMemory, changed func()) *elector {
	return &elector{
		options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), cache: mgr.GetCache(), log: mgr.GetLogger().WithName("elector"),
		device: device, newFence: newFence, learned: learned, bind: bindReplica, changed: changed, wake: agent.NewTrigger(), endpointDue: agent.NewTrigger(),
		rule: election.NewReplica(o.Pod, election.Default(), newNonce), addresses: map[string]netip.Addr{},
	}
}

// NeedLeaderElection returns false: this is the election.
func (e *elector) NeedLeaderElection() bool { return false }

// Start takes part in the election until the context ends, and then ends its own term.
func (e *elector) Start(ctx context.Context) error {
	defer e.releaseLease()
	informer, err := e.cache.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watching the Lease of the gateway: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: e.observeObject, UpdateFunc: func(_, now any) { e.observeObject(now) },
	})
	if err != nil {
		return fmt.Errorf("watching the Lease of the gateway: %w", err)
	}
	go e.receiveMessages(ctx)
	go e.keepEndpointReady(ctx)
	for {
		timer := time.NewTimer(e.runStep(ctx))
		select {
		case <-timer.C:
		case <-e.wake:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// pause bounds the time between two steps.
const pause = time.Second

// runStep does what is due, and returns the time until something else may be.
func (e *elector) runStep(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	next := now.Add(pause)
	consider := func(at time.Time) {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	what, due := e.rule.NextWrite(now)
	begins := what != election.None && !e.writing && e.lease != nil
	consider(due)
	var standbys []string
	began := now
	if begins {
		if e.rule.RecordAttempt(now); what == election.Renew {
			var renews bool
			if standbys, renews = e.rule.BeginRenew(now); !renews {
				began = time.Time{}
			}
		}
	}
	until := e.rule.ActiveUntil()
	if err := e.setActive(now.Before(until), e.rule.FenceUntil(now)); err != nil {
		if text := err.Error(); text != e.failure {
			e.failure = text
			e.log.Error(err, "the tunnel is not as it must be yet")
		}
		consider(now.Add(fenceRetry))
		if begins && what == election.Renew {
			e.rule.RecordRefusal()
			begins = false
		}
	} else {
		e.failure = ""
	}
	consider(until)
	if until.After(e.fenced) {
		consider(e.fenced.Add(-fenceSlack))
	}
	if begins { // a replica becomes a standby only once the fence closes without it
		e.writing = true
		go e.writeLease(ctx, what, e.lease.DeepCopy(), standbys, began)
	}
	requests, due := e.rule.Requests(now)
	for _, m := range requests {
		e.sendMessage(m, netip.AddrPortFrom(e.addresses[m.To], names.ReplicaPort))
	}
	consider(due)
	return time.Until(next)
}

// setActive opens the fence until then, and the device, or closes both. If the fence cannot be set, the device closes when the fence should.
func (e *elector) setActive(active bool, until time.Time) error {
	var failed error
	if active {
		failed = e.moveFence(until)
		active = failed == nil || e.active && time.Now().Before(e.fenced)
	} else if e.active || e.unfenced != nil {
		e.fenced = time.Time{}
		_ = e.setFence(0) // it closes by itself, and the device will have no peer
	}
	if e.active == active {
		return failed
	}
	if err := e.device.setOpen(active); err != nil {
		return err
	}
	if e.active = active; active {
		e.rule.RecordActive()
		e.endpointDue.Send()
		if !e.options.Server { // a NAT may map the port of an earlier term to a former replica of the server
			if err := e.device.Rebind(); err != nil {
				e.log.V(1).Info("the port stays", "reason", err.Error()) // in the first term there may be none yet
			}
		}
	}
	e.log.Info("the replica changed", "active", active)
	e.changed()
	return failed
}

// fenceSlack is the minimum remaining time, and the minimum extension, of the fence.
const fenceSlack = 600 * time.Millisecond

// fenceRetry is the time until the next attempt to set the fence.
const fenceRetry = 100 * time.Millisecond

// moveFence makes the fence close at until, or a moment before.
func (e *elector) moveFence(until time.Time) error {
	now := time.Now()
	late := until.Before(e.fenced) || e.fenced.Sub(now) <= fenceSlack || until.Sub(e.fenced) >= fenceSlack
	if e.unfenced == nil && (until.Equal(e.fenced) || !late) {
		return nil
	}
	if err := e.setFence(until.Sub(now)); err != nil {
		return err
	}
	e.fenced = until
	if !time.Now().Before(until) { // this process stood still meanwhile
		return e.setFence(0)
	}
	return nil
}

// setFence opens the fence for a time, or closes the fence. After a failure, the next call makes a new fence: another process may have deleted the
// fence.
func (e *elector) setFence(open time.Duration) (err error) {
	if e.fence == nil {
		if e.unfenced != nil && time.Since(e.newFenced) < fenceRetry {
			return e.unfenced
		}
		e.newFenced = time.Now()
		e.fence, err = e.newFence()
	}
	if err == nil {
		err = e.fence.Open(open)
	}
	if e.unfenced = err; err != nil {
		e.fence = nil
	}
	return err
}

// fenceError returns why the fence cannot be set, or nil.
func (e *elector) fenceError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unfenced
}

// writeLimit is how long a write of the Lease, or a read of it, may take.
const writeLimit = time.Second

// writeLease takes or renews the Lease, or changes only the standbys if began is zero.
func (e *elector) writeLease(ctx context.Context, what election.Write, lease *coordinationv1.Lease, standbys []string, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if what == election.Take {
		var ok bool
		if standbys, ok = e.beginTake(ctx, lease); !ok {
			return
		}
		began = time.Now()
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, names.GatewayStandbys, strings.Join(standbys, ","))
	stamp := metav1.NewMicroTime(time.Now())
	if !began.IsZero() {
		lease.Spec.RenewTime = &stamp
	}
	if what == election.Take {
		if holderOf(lease) != e.options.Pod {
			lease.Spec.LeaseTransitions = new(termOf(lease) + 1)
		}
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &e.options.Pod, &stamp
		lease.Spec.LeaseDurationSeconds = new(int32(election.Default().Lease / time.Second))
	}
	err := e.client.Update(ctx, lease)
	e.recordWrite(lease, began, err)
	if apierrors.IsConflict(err) { // the watch may be late
		var current coordinationv1.Lease
		if err := e.live.Get(ctx, client.ObjectKeyFromObject(lease), &current); err == nil {
			e.observeLease(&current)
		}
	}
}

// beginTake reads the Lease and the running replicas, and reports whether the Lease may be taken, and with which standbys.
func (e *elector) beginTake(ctx context.Context, lease *coordinationv1.Lease) (standbys []string, ok bool) {
	var running []string
	err := e.live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if err == nil {
		e.observeLease(lease.DeepCopy())
		running, err = e.runningReplicas(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		standbys, ok = e.rule.BeginTake(leaseOf(lease), running, time.Now())
	} else {
		e.rule.RecordUnread()
		e.logLeaseError("the Lease was not read", err)
	}
	e.writing = ok
	return standbys, ok
}

// runningReplicas returns the names of the replicas that run, by the API server.
func (e *elector) runningReplicas(ctx context.Context) (out []string, err error) {
	var replicas []networkingv1beta1.GatewayReplica
	key := client.ObjectKey{Namespace: e.options.Namespace, Name: e.options.Name}
	if e.options.Server {
		gateway := &networkingv1beta1.GatewayServer{}
		err = e.live.Get(ctx, key, gateway)
		replicas = gateway.Status.Replicas
	} else {
		gateway := &networkingv1beta1.GatewayClient{}
		err = e.live.Get(ctx, key, gateway)
		replicas = gateway.Status.Replicas
	}
	if err != nil {
		return nil, fmt.Errorf("reading the replicas of the gateway: %w", err)
	}
	for _, r := range replicas {
		out = append(out, r.Name)
	}
	return out, nil
}

func (e *elector) recordWrite(lease *coordinationv1.Lease, began time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = false
	switch {
	case err == nil:
		e.unwritten = false
		if now := lease.Annotations[names.GatewayStandbys]; e.lease == nil || now != e.lease.Annotations[names.GatewayStandbys] {
			e.log.Info("the standbys changed", "standbys", now)
		}
		e.lease = lease
		e.rule.RecordWrite(leaseOf(lease), began, time.Now())
	case isRefusal(err):
		e.rule.RecordRefusal()
	}
	if err != nil {
		e.logLeaseError("the Lease was not written", err)
	}
	e.wake.Send()
}

// logLeaseError logs the first error since the last write of the Lease. Conflicts are usual.
func (e *elector) logLeaseError(message string, err error) {
	level := 1
	if !e.unwritten && !apierrors.IsConflict(err) {
		e.unwritten, level = true, 0
	}
	e.log.V(level).Info(message, "reason", err.Error())
}

// isRefusal reports whether a write failed for certain: others may have reached the API server.
func isRefusal(err error) bool {
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	return apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsTooManyRequests(err)
}

func (e *elector) observeObject(obj any) {
	if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Namespace == e.options.Namespace && lease.Name == names.Gateway(e.options.Name) {
		e.observeLease(lease)
	}
}

func (e *elector) observeLease(lease *coordinationv1.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rule.ObserveLease(leaseOf(lease), time.Now())
	if e.lease == nil || e.lease.UID != lease.UID || versionOf(e.lease) < versionOf(lease) {
		e.lease = lease
	}
	e.wake.Send()
}

func leaseOf(lease *coordinationv1.Lease) election.Lease {
	out := election.Lease{UID: string(lease.UID), Version: versionOf(lease), Term: termOf(lease), Holder: holderOf(lease)}
	if at := lease.Spec.RenewTime; at != nil {
		out.Renewed = at.UnixMicro()
	}
	if text := lease.Annotations[names.GatewayStandbys]; text != "" {
		out.Standbys = strings.Split(text, ",")
	}
	return out
}

func versionOf(lease *coordinationv1.Lease) uint64 {
	n, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64) // the API guarantees a number
	return n
}

func termOf(lease *coordinationv1.Lease) int32 {
	if n := lease.Spec.LeaseTransitions; n != nil {
		return *n
	}
	return 0
}

func holderOf(lease *coordinationv1.Lease) string {
	if s := lease.Spec.HolderIdentity; s != nil {
		return *s
	}
	return ""
}

// isActive reports whether this replica may have the peer.
func (e *elector) isActive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active
}

// isHolder reports whether this replica holds the Lease, active or not.
func (e *elector) isHolder() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rule.IsHolder()
}

// hasStandby reports whether another replica can take over.
func (e *elector) hasStandby() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rule.HasStandby(time.Now())
}

// isReplaced reports whether the Lease of this replica was deleted, or has another holder.
func (e *elector) isReplaced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := e.live.Get(ctx, client.ObjectKey{Namespace: e.options.Namespace, Name: names.Gateway(e.options.Name)}, lease)
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && holderOf(lease) != e.options.Pod
}

// silentReplicas returns the other running replicas, if this replica holds the Lease and none of them may take over.
func (e *elector) silentReplicas() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rule.SilentReplicas()
}

// setUnable sets whether this replica cannot apply its state.
func (e *elector) setUnable(unable bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rule.SetUnable(unable)
}

// setReplicas sets the running replicas, whether nodes reach another replica, and the key that all replicas have. A replica without a key sends and
// hears nothing.
func (e *elector) setReplicas(replicas []networkingv1beta1.GatewayReplica, elsewhere bool, key *wg.PrivateKey) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	clear(e.addresses)
	for _, r := range replicas {
		address, err := netip.ParseAddr(r.IP.String())
		if err != nil {
			continue
		}
		if all = append(all, r.Name); r.Name != e.options.Pod {
			e.addresses[r.Name] = address.Unmap()
		}
	}
	e.rule.SetReplicas(all, elsewhere, time.Now())
	e.wake.Send()
	if key == nil {
		e.sealer = nil
		return nil
	}
	var err error
	e.sealer, err = newSealer(*key, string(e.options.UID))
	return err
}

// setEndpoint sets the endpoint of the client that standbys are told.
func (e *elector) setEndpoint(endpoint netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endpoint = endpoint
}

// releaseLimit is how long the end of a term may take.
const releaseLimit = time.Second

// releaseLease ends the term of this replica. The peer is removed first, and the Lease is released then, so that another replica takes the Lease at
// once.
func (e *elector) releaseLease() {
	e.mu.Lock()
	held, lease := e.rule.IsHolder(), e.lease
	e.rule.Retire()
	err := e.setActive(false, time.Time{})
	e.mu.Unlock()
	if err != nil {
		e.log.Error(err, "the peer is not removed: the Lease is kept")
		return
	}
	if !held {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	if err := e.clearLease(ctx, lease.DeepCopy()); err != nil {
		e.log.Info("the Lease is not released: a standby waits until it is old", "reason", err.Error())
	}
}

// clearLease removes the holder from the Lease, if the holder is this replica. This replica has no peer now.
func (e *elector) clearLease(ctx context.Context, lease *coordinationv1.Lease) error {
	for holderOf(lease) == e.options.Pod {
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = nil, new(metav1.NewMicroTime(time.Now()))
		lease.Spec.LeaseTransitions = new(termOf(lease) + 1) // shows that this replica wrote the Lease
		err := e.client.Update(ctx, lease)
		if apierrors.IsConflict(err) { // a renewal was on its way
			err = e.live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		}
		if err != nil {
			return fmt.Errorf("releasing the Lease: %w", err)
		}
	}
	e.observeLease(lease)
	return nil
}

// resignLease gives up the Lease if another replica is ready to take the Lease, and reports whether the Lease was given up. An inactive replica
// resigns also for a replica that cannot be asked, and without the API server, because the API server may be unreachable for this replica only.
func (e *elector) resignLease(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	e.mu.Lock()
	active, now := e.active, time.Now()
	resigns := e.rule.IsHolder() && (e.rule.HasStandby(now) || !active && e.rule.HasSuccessor(now))
	e.mu.Unlock()
	if !resigns {
		return false, nil
	}
	lease := &coordinationv1.Lease{}
	err := e.live.Get(ctx, client.ObjectKey{Namespace: e.options.Namespace, Name: names.Gateway(e.options.Name)}, lease)
	if err != nil {
		err = fmt.Errorf("reading the Lease before giving it up: %w", err)
		if active { // no other replica could take the Lease either
			return false, err
		}
	}
	e.mu.Lock()
	e.rule.Resign()
	err = errors.Join(err, e.setActive(false, time.Time{}))
	e.mu.Unlock()
	if err == nil {
		err = e.clearLease(ctx, lease)
	}
	if err != nil {
		e.mu.Lock()
		e.rule.RecordUnreleased()
		e.mu.Unlock()
	}
	return err == nil, err
}
