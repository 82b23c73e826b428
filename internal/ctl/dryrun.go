// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/ctl/dryrun"
	"liqo.io/liqo/internal/ctl/step"
	"liqo.io/liqo/internal/names"
)

// dryRunOptions are the flags of a dry run: the command prints manifests and writes nothing. Either flag is enough.
type dryRunOptions struct {
	dryRun bool
	output string
}

func (p *dryRunOptions) addFlags(cmd *cobra.Command, fs *pflag.FlagSet) {
	fs.BoolVar(&p.dryRun, "dry-run", false, "Print the objects, as yaml unless --output says otherwise, and change nothing")
	outputFlag(cmd, fs, &p.output, "", "Print the objects as json or yaml, and change nothing")
}

func outputFlag(cmd *cobra.Command, fs *pflag.FlagSet, value *string, def, usage string) {
	formats := []string{"json", "yaml"}
	fs.VarP(oneOf(value, def, formats), "output", "o", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func (p *dryRunOptions) isRequested() bool { return p.dryRun || p.output != "" }

func (p *dryRunOptions) outputFormat() string { return cmp.Or(p.output, "yaml") }

// Headings of the manifests of each cluster in a dry run.
const (
	toApply  = "%s cluster: %s"
	toDelete = "%s cluster: %s, to be deleted"
)

// runOrPrint runs a command. In a dry run, the clients of the clusters only record the writes, which are printed below the headings of
// the clusters.
func (c *cli) runOrPrint(ctx context.Context, o *dryRunOptions, heading string, run func(ctx context.Context, c *cli) error, clusters ...*Cluster) error {
	if !o.isRequested() {
		return run(ctx, c)
	}
	quiet := c.withPrinter(c.OnlyWarnings())
	var pages []*manifestPage
	for _, s := range clusters {
		s.kube, s.Scope = dryrun.New(s.kube), quiet.Scope(s.name)
		pages = append(pages, &manifestPage{Cluster: s})
	}
	if err := run(step.InOrder(ctx), quiet); err != nil {
		return err
	}
	for _, p := range pages {
		if err := p.addWrites(heading == toDelete); err != nil {
			return p.wrapWithCluster(err)
		}
	}
	return c.printPages(o.outputFormat(), heading, pages...)
}

// keepObject records in a dry run that an object stays as it is.
func keepObject(cluster client.Client, obj client.Object) error {
	if dry, ok := cluster.(*dryrun.Client); ok {
		return dry.Keep(obj)
	}
	return nil
}

// manifestPage holds the objects to write to one of two clusters, or to delete from it.
type manifestPage struct {
	*Cluster
	entries []client.Object
}

// addWrites adds the objects that a dry run recorded. A page of objects to apply has no deletions: they are warnings.
func (p *manifestPage) addWrites(deletions bool) error {
	for _, w := range p.kube.(*dryrun.Client).Writes() {
		name := w.Object.GetKind() + " " + strings.TrimPrefix(client.ObjectKeyFromObject(w.Object).String(), "/")
		if w.Verb == dryrun.Delete {
			if !deletions {
				p.Warn("The %s would be deleted", name)
				continue
			}
			if err := p.addNames(w.Object); err != nil {
				return err
			}
			continue
		}
		obj, err := writtenFields(w.Object, p.kube.Scheme())
		if err != nil {
			return err
		}
		if w.Replaces {
			p.Warn("The %s that is there would be deleted first", name)
		}
		if _, incomplete := dryrun.Reveal(w.Object.Object); incomplete {
			p.Warn("The %s cannot be applied yet, because controllers assign a part of it: once the others are applied, ask again", name)
		}
		p.entries = append(p.entries, obj)
	}
	return nil
}

// writtenFields returns the typed object without the metadata that depend on the run.
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

// printPages prints the objects of each cluster below a line with its name. In JSON, each cluster is a key with a List as its value. An
// object that controllers complete must not be applied: it is a comment, and no item of a List.
func (c *cli) printPages(format, heading string, pages ...*manifestPage) error {
	if format == "json" {
		return c.printLists(pages)
	}
	for _, p := range pages {
		fmt.Fprintf(c.Result(), "# "+heading+"\n", p.name, p.id)
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

func (c *cli) printWritten(obj client.Object, format string) error {
	content, err := toManifest(obj)
	if err != nil {
		return err
	}
	if _, incomplete := dryrun.Reveal(content); !incomplete {
		return c.printObject(obj, format)
	}
	var text strings.Builder
	if err := printDocument(&text, content, format); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Result(), "# %s\n---\n", strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "\n", "\n# "))
	return err
}

func (c *cli) printLists(pages []*manifestPage) error {
	document := map[string]any{}
	for _, p := range pages {
		items := []any{}
		for _, obj := range p.entries {
			item, err := toManifest(obj)
			if err != nil {
				return err
			}
			if _, incomplete := dryrun.Reveal(item); !incomplete {
				items = append(items, item)
			}
		}
		document[p.name] = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return printDocument(c.Result(), document, "json")
}

// addNames adds the kinds and names of objects to delete.
func (p *manifestPage) addNames(objs ...client.Object) error {
	for _, obj := range objs {
		bare, err := nameOnly(obj, p.kube.Scheme())
		if err != nil {
			return err
		}
		p.entries = append(p.entries, bare)
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
