// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/liqo/internal/names"
)

// Two writers that revert each other's changes would loop for ever, as fast as the API server allows. Therefore each
// write passes a limiter with the last content written to the object: writing the same content again, although already
// written, is a put-back. The first put-backs are sent at once, the next ones after 1 s, 4 s, 16 s, 64 s, and every 5
// minutes, until a quiet period passes. For objects essential to the whole cluster the delay is at most 10 s.

// ReasonConflictingWriter is the reason of the event for an object that another writer changes after each write of
// Liqo.
const ReasonConflictingWriter = "ConflictingWriter"

// freePutBacks is the number of put-backs without a delay: a user may change an object a few times, and caches are
// stale for a moment.
const freePutBacks = 2

// Objects deleted and recreated by Liqo follow objects deleted and recreated by users, as often as users like. Only a
// loop exceeds freeRemakes within a minute, and is limited to one write per remakeDelay.
const (
	freeRemakes = 20
	remakeDelay = 2 * time.Second
)

// webhookCap is the maximum delay for a webhook configuration: with a wrong CA bundle the API server rejects all
// requests that the webhook covers.
const webhookCap = 10 * time.Second

// delayCap returns the maximum delay between two put-backs to an object of a kind.
func delayCap(kind schema.GroupVersionKind) time.Duration {
	if kind.Group == admissionv1.GroupName {
		return webhookCap
	}
	return backoffCap
}

// conflictingWriter is the error of a write that is delayed because another writer changes the object each time.
type conflictingWriter struct {
	error   // a Wait
	message string
}

func (c *conflictingWriter) Unwrap() error { return c.error }

// ConflictingWriter returns the event message of a write that is delayed because another writer changes the object each
// time.
func ConflictingWriter(err error) (message string, ok bool) {
	c, ok := errors.AsType[*conflictingWriter](err)
	if !ok {
		return "", false
	}
	return c.message, true
}

// conflictEvents returns the events for the delayed writes of an attempt.
func conflictEvents(err error) []Event {
	message, ok := ConflictingWriter(err)
	if !ok {
		return nil
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: ReasonConflictingWriter, Message: message}}
}

// writeKey identifies an object and a write operation.
type writeKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
	how  string
}

// pendingWrite is a write to be checked by the limiter.
type pendingWrite struct {
	key     writeKey
	content string
	// fields maps each field of a patch to a digest of its value; part is a digest of the field names: patches of
	// different fields are counted separately.
	fields map[string]string
	part   string
	// ownRival means that another process of Liqo writes the object too: both writers are right, at different times.
	ownRival bool
	// again means that other content is the put-back: a deleted object was recreated.
	again bool
	// origin is the UID of the object from which the write is derived.
	origin types.UID
	// uid is the UID of the changed object, if known. The creation of an object is limited, not the writes that follow.
	uid types.UID
	// steady is the fixed delay of each put-back, 0 for exponential backoff.
	steady time.Duration
}

// objectKey returns the key of the object, without the operation.
func (k writeKey) objectKey() writeKey { return writeKey{kind: k.kind, name: k.name} }

// ownActs are the times of Liqo's last creation and deletion of an object.
type ownActs struct{ made, deleted time.Time }

// lastWrite describes the last write.
type lastWrite struct {
	content, version string
	uid, origin      types.UID
	fields           map[string]string
	// putBacks counts the consecutive put-backs, with the time of the last write.
	putBacks repeatCount
	// writer is the other writer in the last log entry; logged is the put-back count at the last log entry.
	writer string
	logged int
}

// isPast reports whether the last write is old enough to be ignored.
func (w *lastWrite) isPast(now time.Time) bool {
	return now.Sub(w.putBacks.last) >= max(backoffQuiet, 2*w.putBacks.backoffDelay(freePutBacks)) || now.Before(w.putBacks.last)
}

// isPutBack reports whether the next write reverts a change of another writer since the last write.
func (w *lastWrite) isPutBack(next pendingWrite, now time.Time) bool {
	if w.content == "" || w.origin != next.origin || next.uid != "" && next.uid != w.uid {
		return false
	}
	if w.isPast(now) {
		return false
	}
	return (w.content == next.content) != next.again
}

// contradictsPatch reports whether a patch of other fields changes the content of the last write: a field has another
// value, or a parent or child of a field was set or removed.
func (w *lastWrite) contradictsPatch(fields map[string]string) bool {
	for path, value := range fields {
		for last, was := range w.fields {
			if path == last && value != was || strings.HasPrefix(path, last+"/") || strings.HasPrefix(last, path+"/") {
				return true
			}
		}
	}
	return false
}

// writeLimiter is the rate limiter of put-backs, with exponential backoff.
type writeLimiter struct {
	now func() time.Time

	mu    sync.Mutex
	of    map[writeKey]map[string]lastWrite // by part
	acts  map[writeKey]ownActs
	prune int
}

// delayOf returns the delay between the last write and a put-back. A put-back of a change that Liqo itself made is no
// conflict.
func (l *writeLimiter) delayOf(next pendingWrite, last lastWrite) time.Duration {
	acts := l.acts[next.key.objectKey()]
	undone := acts.deleted
	if next.again {
		undone = acts.made
	}
	if !next.ownRival && (undone.Before(last.putBacks.last) || undone.IsZero()) {
		return min(last.putBacks.backoffDelay(freePutBacks), delayCap(next.key.kind))
	}
	if last.putBacks.count <= freeRemakes {
		return 0
	}
	return remakeDelay
}

// remaining returns the remaining delay of a write, and the record of the last write.
func (l *writeLimiter) remaining(next pendingWrite) (time.Duration, lastWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.of[next.key][next.part]
	now := l.now()
	if !last.isPutBack(next, now) {
		return 0, last
	}
	delay := next.steady
	if delay == 0 {
		delay = l.delayOf(next, last)
	}
	return max(last.putBacks.last.Add(delay).Sub(now), 0), last
}

// remadeQuiet is the interval at which an object may be deleted and recreated for ever. A legitimate cycle involves
// several slow writers, such as a user who peers and unpeers, and the garbage collector; a faster cycle is a loop.
const remadeQuiet = 10 * time.Second

// remadeSlowly reports whether the object was recreated since the last write, and the last write was long ago.
func (w *lastWrite) remadeSlowly(next pendingWrite, uid types.UID, now time.Time) bool {
	return (next.again || uid != w.uid) && now.Sub(w.putBacks.last) >= max(remadeQuiet, 2*w.putBacks.backoffDelay(freePutBacks))
}

// recordWrite records a write with the resulting resourceVersion and UID. A write that changed nothing is not counted.
func (l *writeLimiter) recordWrite(w pendingWrite, version string, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, last := l.now(), l.of[w.key][w.part]
	next := lastWrite{content: w.content, fields: w.fields, version: version, uid: uid, origin: w.origin, putBacks: repeatCount{last: now}}
	if last.isPutBack(w, now) && !last.remadeSlowly(w, uid, now) {
		if version != "" && version == last.version {
			return
		}
		next.putBacks = last.putBacks.afterNext(now, freePutBacks)
		next.writer, next.logged = last.writer, last.logged
	}
	l.initMaps()
	if l.of[w.key] == nil {
		l.of[w.key] = map[string]lastWrite{}
	}
	maps.DeleteFunc(l.of[w.key], func(_ string, other lastWrite) bool { return other.contradictsPatch(w.fields) })
	l.of[w.key][w.part] = next
	if w.key.how == howCreate || strings.HasPrefix(w.key.how, howApply) {
		l.acts[w.key.objectKey()] = ownActs{made: now, deleted: l.acts[w.key.objectKey()].deleted}
	}
	l.pruneOld(now)
}

func (l *writeLimiter) initMaps() {
	if l.of == nil {
		l.of, l.acts = map[writeKey]map[string]lastWrite{}, map[writeKey]ownActs{}
	}
}

// recordDelete records that Liqo deleted an object.
func (l *writeLimiter) recordDelete(object writeKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.initMaps()
	l.acts[object] = ownActs{made: l.acts[object].made, deleted: l.now()}
	l.pruneOld(l.now())
}

// pruneOld deletes expired records, once the number of records has doubled.
func (l *writeLimiter) pruneOld(now time.Time) {
	if len(l.of)+len(l.acts) < l.prune {
		return
	}
	maps.DeleteFunc(l.acts, func(_ writeKey, o ownActs) bool {
		return now.Sub(o.made) >= 2*backoffCap && now.Sub(o.deleted) >= 2*backoffCap
	})
	for key, parts := range l.of {
		maps.DeleteFunc(parts, func(_ string, w lastWrite) bool { return w.isPast(now) })
		if len(parts) == 0 {
			delete(l.of, key)
		}
	}
	l.prune = 2*(len(l.of)+len(l.acts)) + 1000
}

// recordWriter records the logged other writer.
func (l *writeLimiter) recordWriter(of pendingWrite, writer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.of[of.key][of.part]; ok {
		w.writer, w.logged = writer, w.putBacks.count
		l.of[of.key][of.part] = w
	}
}

// limitedClient is a client that delays put-backs.
type limitedClient struct {
	client.Client
	live    client.Reader // reads the managed fields of the other writer
	limit   *writeLimiter
	deletes bool
}

// LimitWrites returns a client that delays writes against the repeated changes of another writer. live reads, bypassing
// any cache, the name of the other writer.
func LimitWrites(c client.Client, live client.Reader) client.Client {
	return &limitedClient{Client: c, live: live, limit: &writeLimiter{now: time.Now}, deletes: true}
}

// limitCopies returns a client as LimitWrites does, for replicas, whose deletions are not limited: they follow the
// deletions of the originals.
func limitCopies(c client.Client) client.Client {
	return &limitedClient{Client: c, live: c, limit: &writeLimiter{now: time.Now}}
}

// newLimitedClient returns the client of a manager.
func newLimitedClient(cfg *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(cfg, o)
	if err != nil {
		return nil, err
	}
	o.Cache = nil
	live, err := client.New(cfg, o)
	if err != nil {
		return nil, err
	}
	return LimitWrites(c, live), nil
}

// isUnlimited reports whether objects of a kind are not limited: they are rewritten regularly, or are requests such as
// reviews.
func isUnlimited(kind schema.GroupVersionKind) bool {
	switch kind.Group {
	case "authentication.k8s.io", "authorization.k8s.io", "events.k8s.io", "coordination.k8s.io":
		return true
	}
	return kind.Kind == "Event"
}

// sendLimited sends a write, or returns an error if the write has to wait.
func (c *limitedClient) sendLimited(ctx context.Context, w *pendingWrite, send func() error, after func() (version string, uid types.UID)) error {
	if w == nil {
		return send()
	}
	w.origin, w.ownRival, w.steady = originOf(ctx), hasOwnRival(ctx), steadyDelay(ctx)
	if remaining, last := c.limit.remaining(*w); remaining > 0 {
		return c.conflictError(ctx, w, remaining, last)
	}
	if err := send(); err != nil {
		return err
	}
	version, uid := after()
	c.limit.recordWrite(*w, version, uid)
	return nil
}

// identityOf returns the resourceVersion and UID from the response to a write.
func identityOf(obj client.Object) func() (string, types.UID) {
	return func() (string, types.UID) { return obj.GetResourceVersion(), obj.GetUID() }
}

// conflictError returns the error of a delayed write. The other writer is looked up once per delay.
func (c *limitedClient) conflictError(ctx context.Context, w *pendingWrite, remaining time.Duration, last lastWrite) error {
	if w.ownRival {
		return Wait(remaining, "another process of Liqo changed "+w.key.name.String()+" a moment ago")
	}
	writer := last.writer
	if last.logged != last.putBacks.count {
		writer = c.otherWriter(ctx, w.key)
		c.limit.recordWriter(*w, writer)
		log.FromContext(ctx).Info("object is changed by another writer", "kind", w.key.kind.Kind, "object", w.key.name.String(),
			"writer", writer, "putBacks", last.putBacks.count, "again", remaining.Round(time.Second).String())
	}
	object := w.key.kind.Kind + " " + strings.TrimPrefix(w.key.name.String(), "/")
	often := fmt.Sprintf("ever more seldom, every %s in the end", delayCap(w.key.kind))
	if w.steady > 0 {
		often = fmt.Sprintf("every %s", w.steady)
	}
	message := fmt.Sprintf("%s is %s each time after Liqo wrote it; it is put back %s", object, writer, often)
	return &conflictingWriter{error: Wait(remaining, ReasonConflictingWriter+": "+message), message: message}
}

// otherWriter describes the change of the other writer: "changed by istiod".
func (c *limitedClient) otherWriter(ctx context.Context, key writeKey) string {
	if key.how == howDelete {
		return "made anew by another writer"
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(key.kind)
	err := c.live.Get(ctx, key.name, meta)
	switch {
	case apierrors.IsNotFound(err):
		return "deleted"
	case err != nil:
		return "changed by another writer"
	}
	if manager := lastManager(meta.ManagedFields); manager != "" {
		return "changed by " + fmt.Sprintf("%q", manager)
	}
	return "changed by another writer"
}

// lastManager returns the last field manager that is not Liqo's.
func lastManager(fields []metav1.ManagedFieldsEntry) string {
	var last metav1.ManagedFieldsEntry
	for _, f := range fields {
		if isOurManager(f.Manager) || f.Time == nil {
			continue
		}
		if last.Time == nil || !f.Time.Before(last.Time) {
			last = f
		}
	}
	return last.Manager
}

func isOurManager(name string) bool {
	managers := []string{
		names.FieldManager, names.ReflectionFieldManager, names.ShadowPodFieldManager, names.ShadowEndpointSliceFieldManager, "virtual-kubelet",
	}
	return slices.Contains(managers, name) || strings.HasPrefix(name, names.FieldManager+"-") || strings.HasPrefix(name, names.ReflectionFieldManager+"-")
}

// Write operations.
const (
	howCreate = "create"
	howUpdate = "update"
	howPatch  = "patch"
	howApply  = "apply"
	howDelete = "delete"
)

// newWriteOf prepares a write of content to an object, nil for a write that is not limited. part distinguishes writes
// of the same operation.
func (c *limitedClient) newWriteOf(obj client.Object, how, part string, content any) *pendingWrite {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil || obj.GetName() == "" || isUnlimited(kind) {
		return nil // the API server validates the object
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil
	}
	return newWrite(kind, client.ObjectKeyFromObject(obj), how, part, encoded)
}

// newChangeOf prepares a write to an existing object.
func (c *limitedClient) newChangeOf(obj client.Object, how, part string, content any) *pendingWrite {
	w := c.newWriteOf(obj, how, part, content)
	if w != nil {
		w.uid = obj.GetUID()
	}
	return w
}

func newWrite(kind schema.GroupVersionKind, name types.NamespacedName, how, part string, encoded []byte) *pendingWrite {
	var fields any
	if json.Unmarshal(encoded, &fields) != nil {
		return nil
	}
	// Keys and certificates differ each time they are generated: the values of a new Secret are ignored. Other values
	// for an existing Secret are other content.
	fields = stripVolatile(fields, kind == corev1.SchemeGroupVersion.WithKind("Secret") && how == howCreate)
	w := &pendingWrite{key: writeKey{kind: kind, name: name, how: strings.TrimSuffix(how+"/"+part, "/")}, content: contentDigest(fields)}
	if how == howPatch {
		w.fields = patchedFields("", fields, map[string]string{})
		w.part = contentDigest(slices.Sorted(maps.Keys(w.fields)))
	}
	return w
}

func contentDigest(of any) string {
	encoded, _ := json.Marshal(of) // cannot fail for decoded JSON and strings
	sum := sha256.Sum256(encoded)
	return string(sum[:12])
}

// stripVolatile returns the content without versions and timestamps, and for a secret without the values.
func stripVolatile(content any, secret bool) any {
	switch v := content.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			switch key {
			case "lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "lastUpdateTime", "resourceVersion", "managedFields", "creationTimestamp":
				continue
			case names.AppliedHash: // the hash covers the values too
				if secret {
					continue
				}
			case "data", "stringData":
				if entries, ok := value.(map[string]any); ok && secret {
					out[key] = withoutValues(entries)
					continue
				}
			}
			out[key] = stripVolatile(value, secret)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = stripVolatile(v[i], secret)
		}
		return out
	}
	return content
}

func withoutValues(entries map[string]any) map[string]any {
	out := make(map[string]any, len(entries))
	for key, value := range entries {
		out[key] = value == nil // nil removes the entry
	}
	return out
}

// patchedFields adds the fields set by a patch, each with a digest of the value.
func patchedFields(at string, content any, into map[string]string) map[string]string {
	fields, ok := content.(map[string]any)
	switch {
	case !ok && at == "": // a JSON patch
		at = "operations"
		fallthrough
	case !ok, len(fields) == 0:
		into[at] = contentDigest(content)
		return into
	}
	for key, value := range fields {
		patchedFields(at+"/"+key, value, into)
	}
	return into
}

func (c *limitedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	var w *pendingWrite
	if len(o.DryRun) == 0 {
		w = c.newWriteOf(obj, howCreate, "", obj)
	}
	return c.sendLimited(ctx, w, func() error { return c.Client.Create(ctx, obj, opts...) }, identityOf(obj))
}

func (c *limitedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := (&client.UpdateOptions{}).ApplyOptions(opts)
	var w *pendingWrite
	if len(o.DryRun) == 0 {
		w = c.newChangeOf(obj, howUpdate, o.FieldManager, obj)
	}
	return c.sendLimited(ctx, w, func() error { return c.Client.Update(ctx, obj, opts...) }, identityOf(obj))
}

func (c *limitedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	w, patch, err := c.newPatchOf(obj, patch, "", o)
	if err != nil {
		return err
	}
	return c.sendLimited(ctx, w, func() error { return c.Client.Patch(ctx, obj, patch, opts...) }, identityOf(obj))
}

// newPatchOf prepares a patch, which is encoded only once.
func (c *limitedClient) newPatchOf(obj client.Object, patch client.Patch, part string, o *client.PatchOptions) (*pendingWrite, client.Patch, error) {
	if len(o.DryRun) > 0 {
		return nil, patch, nil
	}
	data, err := patch.Data(obj)
	if err != nil {
		return nil, nil, err
	}
	patch = client.RawPatch(patch.Type(), data)
	if patch.Type() == types.ApplyPatchType {
		return c.newWriteOf(obj, howApply, part+o.FieldManager, json.RawMessage(data)), patch, nil
	}
	return c.newChangeOf(obj, howPatch, part+o.FieldManager, json.RawMessage(data)), patch, nil
}

func (c *limitedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	uid := obj.GetUID()
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		uid = *o.Preconditions.UID
	}
	var w *pendingWrite
	if uid == "" || len(o.DryRun) > 0 {
		return c.Client.Delete(ctx, obj, opts...)
	}
	this := c.newWriteOf(obj, howDelete, "", uid)
	if this != nil && c.deletes && this.key.kind != corev1.SchemeGroupVersion.WithKind("Pod") { // pods are deleted as often as other writers create them
		w, this.again = this, true
	}
	if err := c.sendLimited(ctx, w, func() error { return c.Client.Delete(ctx, obj, opts...) }, func() (string, types.UID) { return "", "" }); err != nil || this == nil {
		return err
	}
	c.limit.recordDelete(this.key.objectKey())
	return nil
}

func (c *limitedClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *limitedClient) SubResource(name string) client.SubResourceClient {
	inner := c.Client.SubResource(name)
	if name != "status" { // other subresources are actions
		return inner
	}
	return &limitedStatus{inner, c}
}
