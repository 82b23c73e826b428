// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Listing is every object of a cluster by its kind, namespace and name, as indented JSON.
type Listing map[string]string

// passing are the resources whose objects come, change and go by time, whatever a story does.
var passing = []string{
	"events", // are forgotten after an hour
}

// volatile are the fields that change by themselves; all others are compared.
var volatile = [][]string{
	{"status"}, // is what controllers and kubelets see: restarts, heartbeats, the time of a probe
	{"metadata", "resourceVersion"},
	{"metadata", "generation"},    // counts writes, those that were taken back as well
	{"metadata", "managedFields"}, // say who wrote last, and when
	{"metadata", "annotations", "endpoints.kubernetes.io/last-change-trigger-time"},
}

// isUnrelated tells of an object that no installation has a part in, and that comes and goes: Kubernetes itself takes turns by such leases.
func isUnrelated(resource string, obj *unstructured.Unstructured) bool {
	return resource == "leases" && obj.GetNamespace() == metav1.NamespaceSystem
}

// renewed is what an installation changes by itself while it runs: its certificate of two minutes is one of the stories.
func renewed(resource string, obj map[string]any) {
	name, _, _ := unstructured.NestedString(obj, "metadata", "name")
	switch {
	case resource == "leases": // every few seconds, by whoever holds it
		delete(obj, "spec")
		unstructured.RemoveNestedField(obj, "metadata", "annotations")
	case resource == "secrets" && (name == "liqo-webhook-certs" || name == "liqo-metric-agent-certs"):
		unstructured.RemoveNestedField(obj, "data")
		unstructured.RemoveNestedField(obj, "metadata", "annotations")
	case resource == "apiservices":
		unstructured.RemoveNestedField(obj, "spec", "caBundle")
	case strings.HasSuffix(resource, "webhookconfigurations"):
		hooks, _, _ := unstructured.NestedSlice(obj, "webhooks")
		for _, hook := range hooks {
			if h, ok := hook.(map[string]any); ok {
				unstructured.RemoveNestedField(h, "clientConfig", "caBundle")
			}
		}
		_ = unstructured.SetNestedSlice(obj, hooks, "webhooks")
	}
}

// Listing has all objects of the cluster, whole, without what passes.
func (c *Cluster) Listing(ctx context.Context) (Listing, error) {
	resources, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config).ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("asking %s what there is: %w", c.ID, err)
	}
	quiet := rest.CopyConfig(c.Config)
	quiet.WarningHandler = rest.NoWarnings{} // some kinds are deprecated, and are compared all the same
	objects := dynamic.NewForConfigOrDie(quiet)
	all := Listing{}
	for _, group := range resources {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			isStored := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "create") // figures of pods, for example, are not
			if slices.Contains(passing, r.Name) || strings.Contains(r.Name, "/") || !isStored {
				continue
			}
			list, err := objects.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s of %s: %w", r.Name, c.ID, err)
			}
			for i := range list.Items {
				if isUnrelated(r.Name, &list.Items[i]) {
					continue
				}
				if err := all.add(r.Name, &list.Items[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return all, nil
}

func (l Listing) add(resource string, obj *unstructured.Unstructured) error {
	for _, field := range volatile {
		unstructured.RemoveNestedField(obj.Object, field...)
	}
	if len(obj.GetAnnotations()) == 0 { // one that had none but those
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	renewed(resource, obj.Object)
	text, err := json.MarshalIndent(obj.Object, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", resource, obj.GetName(), err)
	}
	l[strings.Join([]string{resource, obj.GetNamespace(), obj.GetName()}, " ")] = string(text)
	return nil
}

// Staying names what an unpeer leaves in each cluster until the tenant namespaces go: these with what every namespace has, the rights of
// Liqo in them, the key for the peer that goes with each, and in the provider which nonces served.
func Staying(consumer, provider string) map[string][]string {
	in := func(peer string) []string {
		tenant := "liqo-tenant-" + peer
		return []string{
			"namespaces  " + tenant, "serviceaccounts " + tenant + " default", "configmaps " + tenant + " kube-root-ca.crt",
			"rolebindings " + tenant + " liqo-binding-liqo-tenant-secrets", "rolebindings " + tenant + " liqo-binding-liqo-tenant-replication",
			"secrets liqo authentication-keys-" + peer,
		}
	}
	return map[string][]string{consumer: in(provider), provider: append(in(consumer), "secrets liqo authentication-nonces-"+consumer)}
}

// Without is the listing without objects of these names. One that is not there is an error, beside the listing without the others.
func (l Listing) Without(names ...string) (Listing, error) {
	remaining, missing := maps.Clone(l), []string(nil)
	for _, name := range names {
		if _, ok := remaining[name]; !ok {
			missing = append(missing, name)
		}
		delete(remaining, name)
	}
	if len(missing) > 0 {
		return remaining, fmt.Errorf("missing is %q", missing)
	}
	return remaining, nil
}

// Settled returns an error while something is being deleted.
func (l Listing) Settled() error {
	for name, text := range l {
		if strings.Contains(text, "\n  \"deletionTimestamp\": ") {
			return errors.New(name + " is being deleted")
		}
	}
	return nil
}

var unchangedLines = regexp.MustCompile(`(?m)^\s*\.\.\. // .*\n`)

// Changes tells what is not in both listings, or not the same in both: the lines that differ, of each object.
func Changes(before, after Listing) string {
	return unchangedLines.ReplaceAllString(cmp.Diff(map[string]string(before), map[string]string(after)), "")
}
