// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/names"
)

func TestBackoff(t *testing.T) {
	var b Backoff[string]
	now := time.Now()
	for i, want := range []time.Duration{1, 4, 16, 64, 256, 300, 300} {
		if remaining := b.Left("x", now); remaining != 0 {
			t.Errorf("attempt %d has to wait for %s", i, remaining)
		}
		want *= time.Second
		if got := b.Next("x", now); got != want || b.Left("x", now) != want || b.Left("x", now.Add(want-1)) != 1 {
			t.Errorf("after attempt %d: %s, not %s", i, got, want)
		}
		now = now.Add(want)
	}
	if remaining := b.Left("y", now); remaining != 0 {
		t.Errorf("another key has to wait for %s", remaining)
	}
	if got := b.Next("x", now.Add(10*time.Minute)); got != time.Second {
		t.Errorf("after quiet it waits for %s", got)
	}
}

// limiterTest is a writeLimiter whose clock the test moves.
type limiterTest struct {
	*writeLimiter
	at   time.Time
	sent int
}

func newLimiterTest() *limiterTest {
	l := &limiterTest{at: time.Now()}
	l.writeLimiter = &writeLimiter{now: func() time.Time { return l.at }}
	return l
}

// try writes if it may; version is what the object has then.
func (l *limiterTest) try(w pendingWrite, version string) bool { return l.tryOf(w, version, "1") }

// tryOf is try for an object of that UID.
func (l *limiterTest) tryOf(w pendingWrite, version, uid string) bool {
	if w.uid != "" {
		w.uid = types.UID(uid)
	}
	if remaining, _ := l.remaining(w); remaining > 0 {
		return false
	}
	l.sent++
	l.recordWrite(w, version, types.UID(uid))
	return true
}

func TestWriteLimiter(t *testing.T) {
	content := func(of string) pendingWrite { return pendingWrite{key: writeKey{how: "patch"}, content: of} }
	node, webhooks := corev1.SchemeGroupVersion.WithKind("Node"), admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
	patch := func(l *limiterTest, body string, i int) {
		l.try(*newWrite(node, types.NamespacedName{Name: "x"}, howPatch, statusPart, []byte(body)), strconv.Itoa(i))
	}
	const set, unset = `{"status":{"internalEndpoint":{"ip":"10.0.0.1","node":"x"}}}`, `{"status":{"internalEndpoint":null}}`
	const rounds = 600 // a second each
	for name, c := range map[string]struct {
		round func(l *limiterTest, i int)
		least int
		most  int
	}{
		"put back each time": {func(l *limiterTest, i int) { l.try(content("ours"), strconv.Itoa(i)) }, 7, 10},
		"put back steadily": {func(l *limiterTest, i int) {
			w := content("ours")
			w.steady = 5 * time.Second
			l.try(w, strconv.Itoa(i))
		}, rounds / 5, rounds / 5},
		"another content each time": {func(l *limiterTest, i int) { l.try(content(strconv.Itoa(i)), strconv.Itoa(i)) }, rounds, rounds},
		"turned on and off":         {func(l *limiterTest, i int) { l.try(content(strconv.Itoa(i%2)), strconv.Itoa(i)) }, rounds, rounds},
		"the configuration of a webhook": {func(l *limiterTest, i int) {
			w := content("ours")
			w.key.kind = webhooks
			l.try(w, strconv.Itoa(i))
		}, rounds / 10, rounds/10 + 7},
		"set and removed": {func(l *limiterTest, i int) { patch(l, []string{set, unset}[i%2], i) }, rounds, rounds},
		"put back each time, and another part in turn": {func(l *limiterTest, i int) {
			patch(l, set, i)
			patch(l, fmt.Sprintf(`{"status":{"role":"%d"}}`, i), i)
		}, rounds + 7, rounds + 10},
		"put back each time, in parts in turn": {func(l *limiterTest, i int) {
			patch(l, []string{set, `{"status":{"internalEndpoint":{"node":"x"}}}`, `{"status":{"a":"b"}}`}[i%3], i)
		}, 3 * 7, 3 * 10},
		"put back each time by operations": {func(l *limiterTest, i int) {
			patch(l, `[{"op":"remove","path":"/status/role"}]`, i)
			patch(l, set, i)
		}, 2 * 7, 2 * 10},
		"what another process of Liqo writes": {func(l *limiterTest, i int) {
			w := content("ours")
			w.ownRival = true
			if i%15 == 0 {
				l.try(w, strconv.Itoa(i))
			}
		}, rounds / 15, rounds / 15},
		"a loop of two processes of Liqo": {func(l *limiterTest, i int) {
			w := content("ours")
			w.ownRival = true
			l.try(w, strconv.Itoa(i))
		}, rounds / 2, rounds/2 + 15},
		"a Secret with other values each 30 s": {func(l *limiterTest, i int) {
			if i%30 == 0 {
				body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}},"data":{"token":"%d"}}`, names.AppliedHash, i, i)
				l.try(*newWrite(corev1.SchemeGroupVersion.WithKind("Secret"), types.NamespacedName{Name: "x"}, howApply, "", body), strconv.Itoa(i))
			}
		}, rounds / 30, rounds / 30},
		"nothing changed by it": {func(l *limiterTest, _ int) { l.try(content("ours"), "1") }, rounds, rounds},
		"two objects": {func(l *limiterTest, i int) {
			other := content("ours")
			other.key.name.Name = "other"
			l.try(content("ours"), strconv.Itoa(i))
			l.try(other, strconv.Itoa(i))
		}, 14, 20},
		"put back after quiet": {func(l *limiterTest, i int) {
			if i%61 == 0 {
				l.try(content("ours"), strconv.Itoa(i))
			}
		}, 10, 10},
		"deleted, and made anew by another": {func(l *limiterTest, i int) {
			l.try(pendingWrite{key: writeKey{how: howDelete}, content: strconv.Itoa(i), again: true}, "")
		}, 7, 10},
		"deleted and made anew by Liqo, each second": {func(l *limiterTest, i int) {
			l.try(pendingWrite{key: writeKey{how: howCreate}, content: "ours"}, strconv.Itoa(i))
			l.recordDelete(writeKey{})
		}, rounds / 2, rounds/2 + 15},
		"deleted and made anew by Liqo, as users do": {func(l *limiterTest, i int) {
			if i%5 == 0 {
				l.try(pendingWrite{key: writeKey{how: howCreate}, content: "ours"}, strconv.Itoa(i))
			}
			if i%5 == 2 {
				l.try(pendingWrite{key: writeKey{how: howDelete}, content: strconv.Itoa(i), again: true}, "")
				l.recordDelete(writeKey{})
			}
		}, 2 * rounds / 5, 2 * rounds / 5},
		"made anew each time": {func(l *limiterTest, i int) { l.tryOf(content("ours"), strconv.Itoa(i), strconv.Itoa(i)) }, 7, 10},
		"another object of that name each time is changed": {func(l *limiterTest, i int) {
			w := content("ours")
			w.uid = "known"
			l.tryOf(w, strconv.Itoa(i), strconv.Itoa(i))
		}, rounds, rounds},
		"the same object is changed each time": {func(l *limiterTest, i int) {
			w := content("ours")
			w.uid = "known"
			l.tryOf(w, strconv.Itoa(i), "1")
		}, 7, 10},
		"recreated every ten seconds": {func(l *limiterTest, i int) {
			if i%10 == 0 {
				l.tryOf(content("ours"), strconv.Itoa(i), strconv.Itoa(i))
				l.try(pendingWrite{key: writeKey{how: howDelete}, content: strconv.Itoa(i), again: true}, "")
			}
		}, rounds / 5, rounds / 5},
		"for another object each time": {func(l *limiterTest, i int) {
			w := content("ours")
			w.origin = types.UID(strconv.Itoa(i))
			l.try(w, strconv.Itoa(i))
		}, rounds, rounds},
		"deleted several times": {func(l *limiterTest, _ int) {
			l.try(pendingWrite{key: writeKey{how: howDelete}, content: "1", again: true}, "")
		}, rounds, rounds},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiterTest()
			for i := range rounds {
				c.round(l, i)
				l.at = l.at.Add(time.Second)
			}
			if l.sent < c.least || l.sent > c.most {
				t.Errorf("%d writes in %d rounds, want %d to %d", l.sent, rounds, c.least, c.most)
			}
		})
	}
}

func TestWriteLimiterForgets(t *testing.T) {
	l := newLimiterTest()
	for i := range 10_000 {
		l.try(pendingWrite{key: writeKey{name: types.NamespacedName{Name: strconv.Itoa(i)}}, content: "ours"}, "1")
		l.at = l.at.Add(time.Second)
	}
	if len(l.of) > 3000 {
		t.Errorf("%d writes are remembered", len(l.of))
	}
}

func TestNewWrite(t *testing.T) {
	secret, node := corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("Node")
	name := types.NamespacedName{Name: "x"}
	patch := func(body string) *pendingWrite { return newWrite(node, name, howPatch, "", []byte(body)) }
	for what, c := range map[string]struct {
		a, b            *pendingWrite
		same, alikeWays bool
	}{
		"versions and times are no content": {
			patch(`{"metadata":{"resourceVersion":"1","labels":{"a":"b"}},"status":{"conditions":[{"type":"x","lastTransitionTime":"1"}]}}`),
			patch(`{"metadata":{"resourceVersion":"2","labels":{"a":"b"}},"status":{"conditions":[{"type":"x","lastTransitionTime":"2"}]}}`), true, true,
		},
		"another value":                             {patch(`{"metadata":{"labels":{"a":"b"}}}`), patch(`{"metadata":{"labels":{"a":"c"}}}`), false, true},
		"another label":                             {patch(`{"metadata":{"labels":{"a":"b"}}}`), patch(`{"metadata":{"labels":{"c":"b"}}}`), false, false},
		"another secret":                            {newWrite(secret, name, howCreate, "", []byte(`{"data":{"key":"1"}}`)), newWrite(secret, name, howCreate, "", []byte(`{"data":{"key":"2"}}`)), true, true},
		"another value in a secret":                 {newWrite(secret, name, howPatch, "", []byte(`{"data":{"key":"1"}}`)), newWrite(secret, name, howPatch, "", []byte(`{"data":{"key":"2"}}`)), false, true},
		"another value in a secret that is applied": {newWrite(secret, name, howApply, "", []byte(`{"data":{"key":"1"}}`)), newWrite(secret, name, howApply, "", []byte(`{"data":{"key":"2"}}`)), false, true},
		"another label of a secret": {
			newWrite(secret, name, howCreate, "", []byte(`{"metadata":{"labels":{"a":"1"}}}`)),
			newWrite(secret, name, howCreate, "", []byte(`{"metadata":{"labels":{"a":"2"}}}`)), false, true,
		},
		"data of another kind": {newWrite(node, name, howCreate, "", []byte(`{"data":{"key":"1"}}`)), newWrite(node, name, howCreate, "", []byte(`{"data":{"key":"2"}}`)), false, true},
	} {
		if same := c.a.content == c.b.content; same != c.same {
			t.Errorf("%s: same content is %t", what, same)
		}
		if alike := c.a.key == c.b.key && c.a.part == c.b.part; alike != c.alikeWays {
			t.Errorf("%s: same way is %t", what, alike)
		}
	}
}

func TestLastManager(t *testing.T) {
	at := func(manager string, seconds int64) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.Unix(seconds, 0))}
	}
	for want, fields := range map[string][]metav1.ManagedFieldsEntry{
		"":       {at(names.FieldManager, 3), at("liqo-controller-manager", 4), at(names.ReflectionFieldManager, 5), {Manager: "timeless"}},
		"istiod": {at("kubectl", 1), at("istiod", 2), at(names.FieldManager, 3)},
	} {
		if got := lastManager(fields); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
