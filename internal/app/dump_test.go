// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/names"
)

// passing kinds come and go by themselves, whatever a story does.
var passing = []string{"events", "leases", "certificatesigningrequests", "componentstatuses", "endpoints"}

// inventory lists all objects of a cluster.
type inventory struct {
	client dynamic.Interface
	kinds  []schema.GroupVersionResource
	// known objects were there before the story.
	known map[types.UID]bool
	// lingering kinds had something left at the last look.
	lingering []schema.GroupVersionResource
}

func newInventory(t *testing.T, s *testCluster) *inventory {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	c := &inventory{client: dynamic.NewForConfigOrDie(s.Config), known: map[types.UID]bool{}}
	for _, group := range found {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if !slices.Contains(passing, r.Name) && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				c.kinds = append(c.kinds, gv.WithResource(r.Name))
			}
		}
	}
	return c
}

// found is an object and the resource that it is one of.
type found struct {
	resource schema.GroupVersionResource
	*unstructured.Unstructured
}

func (f found) String() string {
	return strings.TrimSpace(f.resource.Resource + " " + strings.TrimPrefix(f.GetNamespace()+"/"+f.GetName(), "/"))
}

// list returns what is new of all kinds since the last call of remember.
func (c *inventory) list(ctx context.Context) ([]found, error) { return c.listOf(ctx, c.kinds) }

func (c *inventory) listOf(ctx context.Context, kinds []schema.GroupVersionResource) ([]found, error) {
	var out []found
	for _, kind := range kinds {
		list, err := c.client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			if obj := &list.Items[i]; !c.known[obj.GetUID()] {
				out = append(out, found{kind, obj})
			}
		}
	}
	return out, nil
}

func (c *inventory) remember(t *testing.T) {
	t.Helper()
	all, err := c.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		c.known[f.GetUID()] = true
	}
}

// nothing is the wish that all that is new be gone again; its error names what is not, and who holds it. While something
// of a kind lingers it looks no further: to list all kinds is much work, done only when it may be the last time.
func (c *inventory) nothing(ctx context.Context) error {
	remaining, err := c.listOf(ctx, c.lingering)
	if err == nil && len(remaining) == 0 {
		remaining, err = c.list(ctx)
	}
	if err != nil {
		return err
	}
	c.lingering = nil
	var errs []error
	for _, f := range remaining {
		if !slices.Contains(c.lingering, f.resource) {
			c.lingering = append(c.lingering, f.resource)
		}
		errs = append(errs, fmt.Errorf("left: %s (finalizers %v, deleted %v)", f, f.GetFinalizers(), f.GetDeletionTimestamp()))
	}
	return errors.Join(errs...)
}

// deleteAll removes everything new by force. It is for tests that end before a peering does, once the processes are dead.
// Namespaces go on by themselves.
func (c *inventory) deleteAll(ctx context.Context) error {
	all, err := c.list(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range all {
		objects := c.client.Resource(f.resource).Namespace(f.GetNamespace())
		if len(f.GetFinalizers()) > 0 {
			_, err := objects.Patch(ctx, f.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, client.IgnoreNotFound(err))
		}
		err := objects.Delete(ctx, f.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if !apierrors.IsConflict(err) {
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}

// dump is what there is, by object, without what differs between two runs of the same story: times, versions, keys, and
// tag, which marks the names of this run.
func (c *inventory) dump(ctx context.Context, tag string) (map[string]string, error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range all {
		if !strings.Contains(f.GetName()+f.GetNamespace(), tag) && f.GetNamespace() != "" {
			continue
		}
		if f.resource.Resource == "secrets" {
			f.Object["data"] = keysOf(f.Object["data"])
		}
		text, err := yaml.Marshal(plain(f.Object))
		if err != nil {
			return nil, err
		}
		untagged := func(s string) string { return chance.ReplaceAllString(strings.ReplaceAll(s, tag, ""), "#") }
		out[untagged(f.String())] = untagged(string(text))
	}
	return out, nil
}

// keysOf are all that two Secrets have in common.
func keysOf(data any) []any {
	m, _ := data.(map[string]any)
	var out []any
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key)
	}
	return out
}

// chance is what differs by chance in a text: UIDs, and the hashes that end names made from longer ones.
var chance = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{12}\b`)

// differing are fields that say when or how often, not what.
var differing = []string{
	"managedFields", "uid", "resourceVersion", "generation", "observedGeneration", "Port", "csr", "signedCRT", "publicKey",
}

// plain returns a value without what differs, with lists of conditions and finalizers in order.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			lower := strings.ToLower(key)
			when := strings.HasSuffix(lower, "time") || strings.HasSuffix(lower, "timestamp")
			if !when && !slices.Contains(differing, key) && !strings.HasPrefix(key, names.AppliedHash) {
				out[key] = plain(item)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, plain(item))
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return out
	case string:
		const long = 160 // certificates, keys, annotations of kubectl
		if len(v) > long {
			return "…"
		}
		return v
	}
	return value
}

// difference lists, object by object, where two dumps differ; "" is nowhere.
func difference(want, got map[string]string, diff func(a, b string) string) string {
	var out strings.Builder
	keys := map[string]string{}
	maps.Copy(keys, want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, wanted := want[key]
		b, has := got[key]
		switch {
		case !has:
			fmt.Fprintf(&out, "missing: %s\n", key)
		case !wanted:
			fmt.Fprintf(&out, "too much: %s\n%s", key, b)
		case a != b:
			fmt.Fprintf(&out, "different: %s\n%s", key, diff(a, b))
		}
	}
	return out.String()
}
