// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package explain holds "liqoctl explain", which reads what a consumer, and a provider if it is given, show of one object, and prints the chain
// of package diagnose with the link that stops the object.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

type options struct {
	namespace, output string
	local, remote     cluster.ClusterFlags
	// unasked is true if the remote cluster was to be asked, and does not answer.
	unasked bool
}

// readTime is how long reading one cluster may take.
const readTime = 15 * time.Second

// kinds are the explainable kinds, with the short names of kubectl.
var kinds = map[string]string{
	"pod": "pod", "pods": "pod", "po": "pod", "namespace": "namespace", "namespaces": "namespace", "ns": "namespace",
	"node": "node", "nodes": "node", "no": "node", "service": "service", "services": "service", "svc": "service",
}

// NewExplainCommand returns the command "explain".
func NewExplainCommand(c *cluster.Session) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "explain pod|namespace|node|service NAME",
		Short: "Say why a pod, namespace, node or Service works in a provider, or what stops it",
		Long: "Say why a pod, namespace, node or Service of the consumer works, or what stops it: why it is Pending, here and not there, not reflected, without endpoints or " +
			"without DNS. Nothing is changed. Each line is a link of the chain from the consumer to the provider: √ passed, ‼ a warning, × stops the object, · was not looked at.\n" +
			"Below it are the object, what is wrong, the remedy and the part of the documentation.\n\n" +
			"With --remote-kubeconfig the provider is asked, too. What the user may not read is a warning. The exit code is 1 if a link stops the object.",
		Example: "  liqoctl explain pod web-0 -n shop\n" +
			"  liqoctl explain pod web-0 -n shop --remote-kubeconfig milan.kubeconfig\n" +
			"  liqoctl explain namespace shop\n" +
			"  liqoctl explain node milan\n" +
			"  liqoctl explain svc/web -n shop --output json",
		Args: checkSubject,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name := splitSubject(args)
			return o.runExplain(cmd.Context(), c, isRemoteGiven(cmd.Flags()), kind, name)
		},
		ValidArgsFunction: completeSubject(c),
	}
	o.addFlags(cmd, "The namespace of the pod or Service; that of the kubeconfig's context if empty")
	return cmd
}

// addFlags adds the common flags of explain and trace.
func (o *options) addFlags(cmd *cobra.Command, namespaceUsage string) {
	fs := cmd.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", namespaceUsage)
	cluster.OutputFlag(fs, &o.output, "", "Print a document instead: json or yaml")
	fs.StringVar(&o.local.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.StringVar(&o.remote.LiqoNamespace, "remote-liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	cluster.RemoteFlags(cmd, &o.remote)
}

// checkSubject checks the kind and the name.
func checkSubject(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && strings.Contains(args[0], "/") {
		kind, name := splitSubject(args)
		args = []string{kind, name}
	}
	if err := cluster.CheckArguments(cobra.ExactArgs(2), cluster.CheckName)(cmd, args); err != nil {
		return err
	}
	if kinds[strings.ToLower(args[0])] == "" {
		return ui.Fail("%q cannot be explained", args[0]).Hint("It is one of pod, namespace, node, service")
	}
	return nil
}

// splitKind returns the kind and the name of KIND/NAME, "" as the kind of a mere NAME. A kind that is not known stays as it is.
func splitKind(text string) (kind, name string) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		return "", text
	}
	return cmp.Or(kinds[strings.ToLower(kind)], kind), name
}

// splitSubject returns the kind and the name of the arguments KIND NAME or KIND/NAME.
func splitSubject(args []string) (kind, name string) {
	if len(args) == 1 {
		return splitKind(args[0])
	}
	return cmp.Or(kinds[strings.ToLower(args[0])], args[0]), args[1]
}

// isRemoteGiven reports whether a flag chooses a second cluster.
func isRemoteGiven(fs *pflag.FlagSet) (given bool) {
	fs.Visit(func(f *pflag.Flag) {
		given = given || strings.HasPrefix(f.Name, "remote-") && f.Name != "remote-liqo-namespace"
	})
	return given
}

// completeSubject completes the kind, then the name.
func completeSubject(c *cluster.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		list := map[string]func() client.ObjectList{
			"pod":       func() client.ObjectList { return &corev1.PodList{} },
			"namespace": func() client.ObjectList { return &corev1.NamespaceList{} },
			"node":      func() client.ObjectList { return &corev1.NodeList{} },
			"service":   func() client.ObjectList { return &corev1.ServiceList{} },
		}
		switch len(args) {
		case 0:
			return cluster.SortedKeys(list), cobra.ShellCompDirectiveNoFileComp
		case 1:
			if of := list[kinds[args[0]]]; of != nil {
				return c.CompleteOne(of, nil)(cmd, nil, typed)
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (o *options) runExplain(ctx context.Context, c *cluster.Session, asksRemote bool, kind, name string) error {
	namespace, err := c.ResourceNamespace(o.namespace)
	if err != nil {
		return err
	}
	if kind == "namespace" {
		namespace = name
	}
	local, remote, err := o.identifyClusters(ctx, c, asksRemote)
	if err != nil {
		return err
	}
	g := &gatherer{kind: kind, namespace: namespace, name: name}
	explanation, err := g.newAnswer(ctx, local, remote)
	if err != nil {
		return err
	}
	if explanation.foreign != "" {
		c.Warn("%s", explanation.foreign)
		o.unasked = o.unasked || explanation.unasked
	}
	return o.printExplanation(c, explanation.Explanation)
}

// printExplanation prints an explanation, and returns an error if the object is stopped.
func (o *options) printExplanation(c *cluster.Session, e *diagnose.Explanation) error {
	if o.output != "" {
		if err := cluster.PrintDocument(c.Result(), e, o.output); err != nil {
			return err
		}
	} else {
		printChains(c.Printer, e.Chains)
	}
	stop := e.Stop()
	if stop == nil {
		switch {
		case o.output != "":
		case o.unasked || e.IsPartial():
			c.Success("Nothing that could be checked stops %s", e.Object)
		default:
			c.Success("Nothing stops %s", e.Object)
		}
		return nil
	}
	cause := stop.Failure()
	return ui.Fail("%s is stopped: %s: %s", e.Object, cause.Object, cause.Message).See(cause.Page)
}

// identifyClusters returns the clusters of the command; remote is nil unless the flags choose one. A user of a namespace of the consumer may not read
// the cluster ID; the ID stays empty.
func (o *options) identifyClusters(ctx context.Context, c *cluster.Session, asksRemote bool) (local, remote *cluster.Cluster, err error) {
	o.local.Kube = c.KubeFlags
	if !asksRemote {
		if local, err = c.NewCluster(ctx, "", &o.local); err != nil {
			return nil, nil, err
		}
	} else if local, remote, err = c.NewClusterPair(ctx, &o.local, &o.remote); err != nil {
		return nil, nil, err
	}
	local.ID, err = readIdentity(ctx, local, readTime)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, nil, local.WrapWithCluster(err)
	}
	if remote == nil {
		return local, nil, nil
	}
	switch remote.ID, err = readIdentity(ctx, remote, readTime); {
	case err == nil:
		return local, remote, cluster.CheckDifferent(local, remote)
	case ctx.Err() == nil && (kube.IsTransient(err) || errors.Is(err, context.DeadlineExceeded)):
		c.Warn("The remote cluster was not asked: %s", cluster.DescribeError(err))
		c.Info("The cluster is chosen by --remote-kubeconfig and --remote-context")
		o.unasked = true
		return local, nil, nil
	}
	return nil, nil, remote.WrapWithCluster(err)
}

// readIdentity returns the cluster ID within the limit. The first request of a client, the discovery, has a longer limit of its own.
func readIdentity(ctx context.Context, c *cluster.Cluster, limit time.Duration) (string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan struct{})
	var answer string
	var failed error
	go func() {
		defer close(done)
		answer, failed = cluster.ClusterIdentity(limited, c.Kube, c.LiqoNamespace)
	}()
	select {
	case <-done:
		return answer, failed
	case <-limited.Done():
		return "", fmt.Errorf("reading the cluster ID: %w", limited.Err())
	}
}

// printChains prints the chains, with the links that stop the object in bold.
func printChains(p *ui.Printer, chains []diagnose.Chain) {
	for _, chain := range chains {
		several := slices.ContainsFunc(chain.Links, func(l diagnose.Link) bool { return l.Cluster != chain.Links[0].Cluster })
		var items []ui.ChecklistItem
		for _, l := range chain.Links {
			item := facts.NewItem(l.Check)
			if several && l.Cluster != "" {
				item.Text = l.Cluster + ": " + item.Text
			}
			item.Bold = l.Status == diagnose.Failed
			items = append(items, item)
		}
		p.Checklist(chain.Name, items)
	}
}
