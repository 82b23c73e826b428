// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// DryRunOptions are the flags of a dry run: the command prints manifests and writes nothing. Either flag is enough.
type DryRunOptions struct {
	DryRun bool
	Output string
}

// AddFlags adds the flags of the options to a command.
func (p *DryRunOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&p.DryRun, "dry-run", false, "Print the objects, as yaml unless --output says otherwise, and change nothing")
	OutputFlag(fs, &p.Output, "", "Print the objects as json or yaml, and change nothing")
}

// OutputFlag adds the flag for the format of the output.
func OutputFlag(fs *pflag.FlagSet, value *string, def, usage string) {
	fs.VarP(OneOf(value, def, []string{"json", "yaml"}), "output", "o", usage)
}

// IsRequested reports whether the run is a dry run.
func (p *DryRunOptions) IsRequested() bool { return p.DryRun || p.Output != "" }

// OutputFormat returns the format of the output.
func (p *DryRunOptions) OutputFormat() string { return cmp.Or(p.Output, "yaml") }

// Headings of the manifests of each cluster in a dry run.
const (
	ToApply  = "%s cluster: %s"
	ToDelete = "%s cluster: %s, to be deleted"
)

// RunOrPrint runs a command. In a dry run, the clients of the clusters only record the writes. RunOrPrint then prints them below the headings of the
// clusters.
func (c *Session) RunOrPrint(ctx context.Context, o *DryRunOptions, heading string, run func(ctx context.Context, c *Session) error, clusters ...*Cluster) error {
	if !o.IsRequested() {
		return run(ctx, c)
	}
	quiet := c.WithPrinter(c.OnlyWarnings())
	var pages []*manifestPage
	for _, s := range clusters {
		s.Kube, s.Scope = NewDryRunClient(s.Kube), quiet.Scope(s.Name)
		pages = append(pages, &manifestPage{Cluster: s})
	}
	if err := run(ui.InOrder(ctx), quiet); err != nil {
		return err
	}
	for _, p := range pages {
		if err := p.addWrites(heading == ToDelete); err != nil {
			return p.WrapWithCluster(err)
		}
	}
	return c.printPages(o.OutputFormat(), heading, pages...)
}

// KeepObject records in a dry run that an object stays unchanged.
func KeepObject(cluster client.Client, obj client.Object) error {
	if dry, ok := cluster.(*DryRunClient); ok {
		return dry.Keep(obj)
	}
	return nil
}

// manifestPage holds the objects to write to one of two clusters, or to delete from the cluster.
type manifestPage struct {
	*Cluster
	entries []client.Object
}

// addWrites adds the objects recorded by a dry run: the deletions, or all other writes. The rest are warnings.
func (p *manifestPage) addWrites(deletions bool) error {
	for _, w := range p.Kube.(*DryRunClient).Writes() {
		name := w.Object.GetKind() + " " + strings.TrimPrefix(client.ObjectKeyFromObject(w.Object).String(), "/")
		if (w.Verb == Delete) != deletions {
			p.Warn("The %s would be %sd", name, w.Verb)
			continue
		}
		if deletions {
			bare, err := nameOnly(w.Object, p.Kube.Scheme())
			if err != nil {
				return err
			}
			p.entries = append(p.entries, bare)
			continue
		}
		obj, err := writtenFields(w.Object, p.Kube.Scheme())
		if err != nil {
			return err
		}
		if w.Replaces {
			p.Warn("The %s that is there would be deleted first", name)
		}
		if _, incomplete := RevealAssigned(w.Object.Object); incomplete {
			p.Warn("The %s cannot be applied yet, because controllers assign a part of it: once the others are applied, ask again", name)
		}
		p.entries = append(p.entries, obj)
	}
	return nil
}

// writtenFields returns the typed object without the metadata of the run.
func writtenFields(written *unstructured.Unstructured, scheme *runtime.Scheme) (client.Object, error) {
	typed, err := scheme.New(written.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	obj := typed.(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, obj); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", written.GetName(), err)
	}
	annotations := obj.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, names.AppliedHash) })
	obj.SetAnnotations(annotations)
	obj.SetOwnerReferences(nil)
	obj.SetManagedFields(nil)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	return obj, nil
}

// printPages prints the objects of each cluster below a line with the name of the cluster. In JSON, each cluster is a key with a List as its value.
// An object completed by controllers must not be applied: it is a comment, and no item of a List.
func (c *Session) printPages(format, heading string, pages ...*manifestPage) error {
	if format == "json" {
		return c.printLists(pages)
	}
	for _, p := range pages {
		fmt.Fprintf(c.Result(), "# "+heading+"\n", p.Name, p.ID)
		if len(p.entries) == 0 {
			fmt.Fprintln(c.Result(), "# nothing\n---")
		}
		for _, obj := range p.entries {
			if err := c.printWritten(obj, format); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Session) printWritten(obj client.Object, format string) error {
	content, err := toManifest(obj)
	if err != nil {
		return err
	}
	if _, incomplete := RevealAssigned(content); !incomplete {
		return c.PrintObject(obj, format)
	}
	var text strings.Builder
	if err := PrintDocument(&text, content, format); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Result(), "# %s\n---\n", strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "\n", "\n# "))
	return err
}

func (c *Session) printLists(pages []*manifestPage) error {
	document := map[string]any{}
	for _, p := range pages {
		items := []any{}
		for _, obj := range p.entries {
			item, err := toManifest(obj)
			if err != nil {
				return err
			}
			if _, incomplete := RevealAssigned(item); !incomplete {
				items = append(items, item)
			}
		}
		document[p.Name] = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return PrintDocument(c.Result(), document, "json")
}

// PrintNames prints the kinds and names of objects to delete.
func (c *Session) PrintNames(o *DryRunOptions, scheme *runtime.Scheme, all ...client.Object) error {
	for _, obj := range all {
		bare, err := nameOnly(obj, scheme)
		if err != nil {
			return err
		}
		if err := c.PrintObject(bare, o.OutputFormat()); err != nil {
			return err
		}
	}
	return nil
}

// nameOnly returns only the kind and the name of an object: enough for a deletion, and not for a creation.
func nameOnly(obj client.Object, scheme *runtime.Scheme) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", obj.GetName(), err)
	}
	bare := &metav1.PartialObjectMetadata{}
	bare.SetGroupVersionKind(gvk)
	bare.Namespace, bare.Name = obj.GetNamespace(), obj.GetName()
	return bare, nil
}
