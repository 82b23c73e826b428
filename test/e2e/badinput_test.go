// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/badinput.yaml
var badInputYAML string

// badInput is one object with one fault, and what its writer is told.
type badInput struct {
	Kind, Fault string
	// After is made first and accepted; Object is then an update of it.
	After, Object string
	// Shows is where the message appears on an object that is accepted: "event", "warning", or a JSONPath. Without it the API server
	// refuses.
	Shows string
	Want  string
}

// notWritten are the kinds that users never write: the system makes them all.
var notWritten = []string{
	"Connection", "InternalNode", "NamespaceMap", "Quota", "Renew", "ShadowEndpointSlice", "WgGatewayClient", "WgGatewayServer",
}

func TestBadInput(t *testing.T) {
	unchanged := leavesNothing(t)
	t.Cleanup(unchanged)
	names := badInputNames(t)
	var rows []badInput
	if err := yaml.UnmarshalStrict([]byte(names.Replace(badInputYAML)), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.Kind+"/"+row.Fault, func(t *testing.T) {
			if got := row.shownProblem(t); got != row.Want {
				t.Errorf("told:\n%s\nwant:\n%s", got, row.Want)
			}
		})
	}
	t.Run("every kind that users write is here", func(t *testing.T) {
		for _, kind := range ourKinds(t) {
			listed := slices.ContainsFunc(rows, func(b badInput) bool { return b.Kind == kind })
			if listed == slices.Contains(notWritten, kind) {
				t.Errorf("%s: has a row is %t, is written by the system only is %t", kind, listed, !listed)
			}
		}
	})
}

// badInputNames makes the namespaces of the story and returns what its placeholders stand for.
func badInputNames(t *testing.T) *strings.Replacer {
	t.Helper()
	const tenant, plain, peer = "badinput-tenant", "badinput-plain", "cl-badinput"
	consumer.apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+plain+`}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: `+tenant+`, labels: {liqo.io/tenant-namespace: "true", liqo.io/remote-cluster-id: `+peer+`}}}`)
	t.Cleanup(func() { consumer.mustKubectl(t, "delete", "namespace", tenant, plain, "--timeout=2m") })
	var nodes corev1.NodeList
	if err := consumer.Client.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("there are %d nodes: %v", len(nodes.Items), err)
	}
	return strings.NewReplacer("{{tenant}}", tenant, "{{plain}}", plain, "{{peer}}", peer, "{{node}}", nodes.Items[0].Name)
}

// shownProblem returns what the writer of the object hears, and removes it.
func (b badInput) shownProblem(t *testing.T) string {
	t.Helper()
	if b.Shows == "warning" {
		return b.warned(t)
	}
	obj, write := parse(t, b.Object), consumer.Client.Create
	if b.After != "" {
		before := parse(t, b.After)
		if err := consumer.Client.Create(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		b.removes(t, before)
		write = func(ctx context.Context, changed client.Object, _ ...client.CreateOption) error {
			return consumer.Client.Patch(ctx, changed, client.Merge)
		}
	}
	if b.Shows == "" {
		err := write(t.Context(), obj)
		if err == nil {
			b.removes(t, obj)
			return "nothing: it was accepted"
		}
		return err.Error()
	}
	if err := write(t.Context(), obj); err != nil {
		return err.Error()
	}
	b.removes(t, obj)
	var got string
	eventually(t, "the message about "+b.Fault, func(ctx context.Context) (err error) {
		if got, err = b.shown(ctx, obj); err == nil && got == "" {
			err = errors.New("nothing is said")
		}
		return err
	})
	return got
}

// warned returns what the API server says although it would accept the object.
func (b badInput) warned(t *testing.T) string {
	t.Helper()
	said := &warnings{}
	cfg := rest.CopyConfig(consumer.Config)
	cfg.WarningHandler = said
	c, err := client.New(cfg, client.Options{Scheme: consumer.Client.Scheme(), Mapper: consumer.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), parse(t, b.Object), client.DryRunAll); err != nil {
		return err.Error()
	}
	return strings.Join(*said, "; ")
}

// warnings are those of the answers to a client.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func (b badInput) shown(ctx context.Context, obj *unstructured.Unstructured) (string, error) {
	if b.Shows != "event" {
		if err := consumer.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return "", err
		}
		path := jsonpath.New("status").AllowMissingKeys(true)
		if err := path.Parse(b.Shows); err != nil {
			return "", err
		}
		var out strings.Builder
		err := path.Execute(&out, obj.Object)
		return out.String(), err
	}
	var events corev1.EventList
	if err := consumer.Client.List(ctx, &events); err != nil {
		return "", err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == obj.GetUID() && e.Type == corev1.EventTypeWarning {
			return e.Reason + ": " + e.Message, nil
		}
	}
	return "", nil
}

func (b badInput) removes(t *testing.T, obj *unstructured.Unstructured) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := client.IgnoreNotFound(consumer.Client.Delete(ctx, obj)); err != nil {
			t.Error(err)
		}
		eventually(t, "the bad "+b.Kind+" to go", func(ctx context.Context) error {
			err := consumer.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is still there: %w", err)
		})
	})
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// ourKinds are the kinds that an installation adds to a cluster.
func ourKinds(t *testing.T) []string {
	t.Helper()
	crds := &unstructured.UnstructuredList{}
	crds.SetAPIVersion("apiextensions.k8s.io/v1")
	crds.SetKind("CustomResourceDefinitionList")
	if err := consumer.Client.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, crd := range crds.Items {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if strings.HasSuffix(group, "liqo.io") {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		t.Fatal("no kinds of ours are installed")
	}
	return kinds
}
