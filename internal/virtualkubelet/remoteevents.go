// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// eventKind copies the provider's events about remote objects to the local objects. An event is never deleted: a local
// event expires like the remote event.
type eventKind struct {
	options Options
	// node is the node of the pods that the events are about; empty for the objects shared by all nodes.
	node string
	// objects are the involved kinds, by name of the kind.
	objects map[string]involvedResource
	now     func() time.Time
	// onClaim is called with each new warning about a claim; nil for none.
	onClaim func(ctx context.Context, it *multicluster.Item, claim string, e *corev1.Event) error
	// budget limits the rate of local writes that the provider can cause.
	budget flowcontrol.RateLimiter

	mu sync.Mutex
	// own are this process's texts about a pod that are not written yet.
	own map[types.NamespacedName][]string
	// waiting are the events that wait for more parts.
	waiting map[types.NamespacedName]gathering
	// repeated is when an event was last updated.
	repeated map[types.UID]time.Time
}

// involvedResource is one kind of involved objects.
type involvedResource struct {
	apiVersion string
	empty      func() client.Object
	// local and remote are the sources of the objects, equal to the sources of the copying kind: each is watched once.
	local, remote []multicluster.Source
	// localName and remoteName translate names; nil keeps the name.
	localName, remoteName func(t translate.Target, name string) string
}

// gathering is an event that is not written yet because more parts are expected.
type gathering struct {
	message        string
	began, changed time.Time
}

// Routine events wait gatherPause for more parts, at most gatherLimit; a repeated event is updated every repeatPause.
const (
	gatherPause = 2 * time.Second
	gatherLimit = 10 * time.Second
	repeatPause = 5 * time.Second
)

// Limits of individually copied events: per second, burst, and the newest of each object.
const (
	eventRate  = 10
	eventBurst = 200
	maxEvents  = 20
)

// maxPodsWithTexts bounds what is remembered of pods and their events.
const maxPodsWithTexts = 20000

// eventsKind names the kind to the engine.
const eventsKind = "events"

// podEvents returns the kind of events about the pods of this node.
func podEvents(o Options) *eventKind {
	pods := (&podKind{options: o}).engineKind()
	return newEventKind(o, o.Node, map[string]involvedResource{podKindName: {
		apiVersion: "v1", empty: func() client.Object { return &corev1.Pod{} },
		local: onlyEvents[*corev1.Pod](pods.Local), remote: append(onlyEvents[*corev1.Pod](pods.Remote), onlyEvents[*offv1beta1.ShadowPod](pods.Remote)...),
	}})
}

// onlyEvents returns the sources of objects of type T.
func onlyEvents[T client.Object](sources []multicluster.Source) []multicluster.Source {
	var out []multicluster.Source
	for _, s := range sources {
		if _, ok := s.Object.(T); ok {
			out = append(out, s)
		}
	}
	return out
}

// sharedEvents returns the kind of events about objects that are reflected for all nodes.
func sharedEvents(o Options, kinds ...involvedKind) *eventKind {
	objects := map[string]involvedResource{}
	for _, k := range kinds {
		name, about := k.involvedObject()
		objects[name] = about
	}
	return newEventKind(o, "", objects)
}

// involvedKind is a kind whose objects events may be about.
type involvedKind interface {
	involvedObject() (string, involvedResource)
}

func (c *copyKind[L, R]) involvedObject() (string, involvedResource) {
	k := c.engineKind()
	about := involvedResource{
		apiVersion: "v1", empty: func() client.Object { return c.empty() },
		local: k.Local[:1], remote: k.Remote[:1], localName: c.localName, remoteName: c.remoteName,
	}
	switch any(c.empty()).(type) {
	case *networkingv1.Ingress:
		about.apiVersion = networkingv1.SchemeGroupVersion.String()
		return "Ingress", about
	case *networkingv1.NetworkPolicy:
		about.apiVersion = networkingv1.SchemeGroupVersion.String()
		return "NetworkPolicy", about
	case *discoveryv1.EndpointSlice:
		about.apiVersion = discoveryv1.SchemeGroupVersion.String()
		return sliceKindName, about
	case *corev1.Service:
		return "Service", about
	case *corev1.Secret:
		return "Secret", about
	}
	return "ConfigMap", about
}

func newEventKind(o Options, node string, objects map[string]involvedResource) *eventKind {
	return &eventKind{
		options: o, node: node, objects: objects, now: time.Now,
		budget: flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst),
		own:    map[types.NamespacedName][]string{}, waiting: map[types.NamespacedName]gathering{}, repeated: map[types.UID]time.Time{},
	}
}

// engineKind watches the provider's events about the kinds concerned, and their local copies.
func (k *eventKind) engineKind() multicluster.Kind {
	marks := k.options.targetIn("").Marks()
	selector := labels.SelectorFromSet(eventLabels(marks, k.node)).String()
	fields := "involvedObject.kind!=ConfigMap,involvedObject.kind!=Secret,involvedObject.kind!=Ingress," +
		"involvedObject.kind!=Service,involvedObject.kind!=" + claimKindName + ",involvedObject.kind!=" + shadowSliceKind
	if k.node == "" {
		selector += ",!" + names.OffloadingNodeName
		fields = "involvedObject.kind!=Pod,involvedObject.kind!=" + shadowKind
	}
	out := multicluster.Kind{
		Name: eventsKind, Workers: k.options.Events.Workers, Sync: k.syncItem,
		Local:  []multicluster.Source{{Object: &corev1.Event{}, Labels: selector, Keys: k.localItem, Pack: true}},
		Remote: []multicluster.Source{{Object: &corev1.Event{}, Fields: fields, Keys: k.remoteItem, Optional: true, Pack: true}},
	}
	for name, about := range k.objects {
		for _, source := range about.local {
			// Events about an object missing locally are copied when the object is created; changes of the object require nothing.
			source.Key, source.Keys = func(obj client.Object) string { return involvedIn(name, obj.GetName()) }, nil
			source.Members = true
			out.Local = append(out.Local, source)
		}
		for _, source := range about.remote {
			source.Key, source.Keys = func(obj client.Object) string {
				return involvedIn(name, k.localNameOf(about, obj.GetName())) // events may precede their involved object
			}, nil
			out.Remote = append(out.Remote, source)
		}
	}
	return out
}

func (k *eventKind) localNameOf(about involvedResource, remote string) string {
	if about.localName == nil {
		return remote
	}
	return about.localName(k.options.targetIn(""), remote)
}

func (k *eventKind) localItem(obj client.Object) []string {
	ref := obj.(*corev1.Event).InvolvedObject
	return []string{involvedIn(ref.Kind, ref.Name)}
}

func (k *eventKind) remoteItem(obj client.Object) []string {
	ref := obj.(*corev1.Event).InvolvedObject
	kind := ref.Kind
	switch kind {
	case shadowKind:
		kind = podKindName
	case shadowSliceKind:
		kind = sliceKindName
	}
	about, ok := k.objects[kind]
	if !ok {
		return nil
	}
	if name := k.localNameOf(about, ref.Name); name != "" {
		return []string{involvedIn(kind, name)}
	}
	return nil
}

func (k *eventKind) syncItem(ctx context.Context, it *multicluster.Item) error {
	events := multicluster.Of[*corev1.Event](it.Remote, it.Name)
	kind, name, _ := strings.Cut(it.Name, "/")
	key := types.NamespacedName{Namespace: it.Pair.Local, Name: name}
	own := k.rememberedTexts(key)
	about, known := k.objects[kind]
	if !known || len(events)+len(own) == 0 {
		return nil
	}
	r, err := k.gatherEvents(it, about, kind, name)
	if err != nil {
		return err
	}
	if r == nil {
		k.forgetPod(key, len(own))
		return nil
	}
	r.events = events
	current := map[string]*corev1.Event{}
	for _, e := range multicluster.Of[*corev1.Event](it.Local, it.Name) {
		current[e.Name] = e
	}
	var errs []error
	for _, e := range r.singleEvents() {
		if k.options.Events.Type.Allows(e, false) {
			event := r.copyEvent(e)
			err := k.applyEvent(ctx, it, event, current[e.Name])
			if err == nil && current[e.Name] == nil && kind == claimKindName && event.Type == corev1.EventTypeWarning && k.onClaim != nil {
				err = k.onClaim(ctx, it, name, event)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, k.bringTogether(ctx, it, key, r, own, current[r.commonName()]))...)
}

// gatherEvents reads the local object and its remote counterparts, and returns nil if the local object does not exist.
func (k *eventKind) gatherEvents(it *multicluster.Item, about involvedResource, kind, name string) (*returningEvents, error) {
	t := k.options.targetIn(it.Pair.Remote)
	r := &returningEvents{local: about.empty(), kind: kind, apiVersion: about.apiVersion, labels: eventLabels(t.Marks(), k.node), now: k.now()}
	exists, err := it.Local.Get(name, r.local)
	if err != nil || !exists {
		return nil, err
	}
	if about.remoteName != nil {
		name = about.remoteName(t, name)
	}
	for _, source := range about.remote {
		remote := source.Object.DeepCopyObject().(client.Object)
		there, err := it.Remote.Get(name, remote)
		if err != nil {
			return nil, err
		}
		if there && t.Owns(remote) && (k.node == "" || t.OwnsPod(remote)) {
			r.remote = append(r.remote, remote.GetUID())
		}
		if pod, ok := remote.(*corev1.Pod); ok && there {
			r.begun = pod.Status.Phase != corev1.PodPending
		}
	}
	return r, nil
}

// applyEvent creates a local event, or updates it at a limited rate. A foreign event of the same name is left alone.
func (k *eventKind) applyEvent(ctx context.Context, it *multicluster.Item, want, current *corev1.Event) error {
	if current == nil {
		if !k.budget.TryAccept() {
			return errTooManyEvents()
		}
		return ignoreLate(it.Local.Create(ctx, want.DeepCopy()))
	}
	if caughtUp(current, want) {
		return nil
	}
	if wait := k.repeatDelay(current.UID); wait > 0 {
		return kube.Wait(wait, "the event was just brought up to date")
	}
	if !k.budget.TryAccept() {
		return errTooManyEvents()
	}
	return k.updateEvent(ctx, it, want, current)
}

func errTooManyEvents() error { return kube.Wait(repeatPause, "the provider has many events") }

func (k *eventKind) updateEvent(ctx context.Context, it *multicluster.Item, want, current *corev1.Event) error {
	next := current.DeepCopy()
	next.Type, next.Message, next.Count = want.Type, want.Message, want.Count
	next.LastTimestamp, next.Series = want.LastTimestamp, want.Series
	if err := it.Local.Client().Patch(ctx, next, client.MergeFrom(current)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating event %s: %w", current.Name, err)
	}
	return nil
}

// ignoreLate ignores that the event exists already, to be shown by the cache, and that the namespace terminates.
func ignoreLate(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// bringTogether merges routine events into one, after a pause for further events.
func (k *eventKind) bringTogether(ctx context.Context, it *multicluster.Item, key types.NamespacedName, r *returningEvents, own []string, current *corev1.Event) error {
	source := corev1.EventSource{Component: podComponent, Host: k.options.Node}
	want := r.mergeEvents(own, current, source)
	if want == nil || (current != nil && current.Message == want.Message) {
		k.forgetPod(key, len(own))
		return nil
	}
	if wait := k.countMore(key, want.Message, r.begun); wait > 0 {
		return kube.Wait(wait, "more events may follow")
	}
	var err error
	if current == nil {
		err = ignoreLate(it.Local.Create(ctx, want))
	} else {
		err = k.updateEvent(ctx, it, want, current)
	}
	if err == nil {
		k.forgetPod(key, len(own))
	}
	return err
}

// countMore returns how long to wait for more parts: until no new text has come for gatherPause, and longer for an object that has
// not begun.
func (k *eventKind) countMore(key types.NamespacedName, message string, begun bool) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	g, ok := k.waiting[key]
	if !ok {
		if len(k.waiting) >= maxPodsWithTexts {
			clear(k.waiting) // of namespaces that are offloaded no more
		}
		g.began = now
	}
	if g.message != message {
		g.message, g.changed = message, now
	}
	k.waiting[key] = g
	limit := g.began.Add(gatherLimit)
	if pause := g.changed.Add(gatherPause); begun && pause.Before(limit) {
		limit = pause
	}
	return limit.Sub(now)
}

// repeatDelay returns how long an event must wait until its next update.
func (k *eventKind) repeatDelay(uid types.UID) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if wait := k.repeated[uid].Add(repeatPause).Sub(now); wait > 0 {
		return wait
	}
	if len(k.repeated) >= maxPodsWithTexts {
		clear(k.repeated) // an extra update is better than unbounded memory
	}
	k.repeated[uid] = now
	return 0
}

// rememberText adds a text of this process to the merged event of a pod.
func (k *eventKind) rememberText(pod types.NamespacedName, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.own) >= maxPodsWithTexts {
		clear(k.own) // of namespaces that are offloaded no more
	}
	if len(k.own[pod]) < maxEvents {
		k.own[pod] = append(k.own[pod], text)
	}
}

func (k *eventKind) rememberedTexts(pod types.NamespacedName) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.own[pod])
}

// forgetPod ends the wait for more parts of a pod: the first texts are written. More may have been added since.
func (k *eventKind) forgetPod(pod types.NamespacedName, written int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own[pod] = k.own[pod][min(written, len(k.own[pod])):]
	if len(k.own[pod]) == 0 {
		delete(k.own, pod)
	}
	delete(k.waiting, pod)
}

// podComponent is the source component of events about pods.
const podComponent = "liqo-pod-reflection"

// mergedEvents is a recorder that passes normal events to the merged event of the pod.
type mergedEvents struct {
	record.EventRecorder
	say func(pod types.NamespacedName, text string)
}

func (t mergedEvents) Event(obj runtime.Object, kind, reason, message string) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || kind != corev1.EventTypeNormal {
		t.EventRecorder.Event(obj, kind, reason, message)
		return
	}
	if reason != reasonReflected {
		message = reason + ": " + message
	}
	t.say(client.ObjectKeyFromObject(pod), message)
}
