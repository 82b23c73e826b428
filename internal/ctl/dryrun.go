// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
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

// manifestPage holds the objects to write to one of two clusters, or to delete from it.
type manifestPage struct {
	*Cluster
	entries []pageEntry
}

type pageEntry struct {
	obj client.Object
	// note is a comment about how to store the object, "" for none.
	note string
}

func (p *manifestPage) addManifest(c *cli, obj client.Object, note string) {
	c.setCommonMetadata(obj)
	p.entries = append(p.entries, pageEntry{obj, note})
}

// addNamespace adds the namespace of an object if it is missing.
func (p *manifestPage) addNamespace(ctx context.Context, c *cli, of client.Object) error {
	ns := p.missingNamespace(c, of)
	if ns == nil || (len(p.entries) > 0 && p.entries[0].obj.GetName() == ns.Name) {
		return nil
	}
	if err := makeNamespace(ctx, client.NewDryRunClient(p.kube), ns.DeepCopy()); err != nil {
		return p.wrapWithCluster(err)
	}
	p.addManifest(c, ns, "")
	return nil
}

// dryRunCreate validates an object by a server-side dry run, unless its namespace is missing.
func (p *manifestPage) dryRunCreate(ctx context.Context, c *cli, obj client.Object) error {
	if p.wholeCluster().missing && obj.GetNamespace() == p.namespace {
		return nil
	}
	c.setCommonMetadata(obj)
	return p.wrapWithCluster(applyObject(ctx, client.NewDryRunClient(p.kube), obj))
}

// printPages prints the objects of each cluster below a line with its name. In JSON, each cluster is a key with a List as its value.
func (c *cli) printPages(format, heading string, pages ...*manifestPage) error {
	if format == "json" {
		return c.printLists(pages)
	}
	for _, p := range pages {
		fmt.Fprintf(c.Result(), "# "+heading+"\n", p.name, p.id)
		if len(p.entries) == 0 {
			fmt.Fprintln(c.Result(), "# nothing\n---")
		}
		for _, e := range p.entries {
			if e.note != "" {
				fmt.Fprintln(c.Result(), "# "+strings.ReplaceAll(e.note, "\n", "\n# "))
			}
			if err := c.printObject(e.obj, format); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cli) printLists(pages []*manifestPage) error {
	document := map[string]any{}
	for _, p := range pages {
		items := []any{}
		for _, e := range p.entries {
			item, err := toManifest(e.obj)
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		document[p.name] = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return printDocument(c.Result(), document, "json")
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
