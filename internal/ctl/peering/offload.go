// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"

	"liqo.io/liqo/internal/names"
)

type offloadOptions struct {
	podStrategy, mapping, remoteName string
	selectors                        []string
	namespaceSelector                string
	timeout                          time.Duration
	exitCode                         bool
	cluster.DryRunOptions
}

// NewOffloadCommand returns the command "offload".
func NewOffloadCommand(c *cluster.Session) *cobra.Command {
	o := &offloadOptions{}
	cmd := &cobra.Command{
		Use:     "namespace NAME...",
		Aliases: []string{"ns", "namespaces"},
		Short:   "Extend namespaces to other clusters, so that their pods may run there",
		Example: "  liqoctl offload namespace foo\n" +
			"  liqoctl offload namespace foo --pod-offloading-strategy Remote --selector 'region in (europe)'\n" +
			"  liqoctl offload namespace foo --output yaml",
		Args:              cluster.CheckArguments(cobra.ArbitraryArgs, cluster.CheckNamespace),
		ValidArgsFunction: c.CompleteNamespaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runOffload(ctx, c, o, args)
		},
	}
	fs := cmd.Flags()
	pods := []string{"Local", "Remote", "LocalAndRemote"}
	mappings := []string{"DefaultName", "EnforceSameName", "SelectedName"}
	fs.Var(cluster.OneOf(&o.podStrategy, "LocalAndRemote", pods), "pod-offloading-strategy", "Where pods may run: "+strings.Join(pods, ", "))
	fs.Var(cluster.OneOf(&o.mapping, "DefaultName", mappings), "namespace-mapping-strategy", "The names of the remote namespaces: "+strings.Join(mappings, ", "))
	fs.StringVar(&o.remoteName, "remote-namespace-name", "", "The name of the remote namespaces, with the SelectedName strategy")
	fs.StringArrayVarP(&o.selectors, "selector", "l", nil, "Which clusters, by the labels of their virtual nodes; one of several has to match")
	fs.StringVar(&o.namespaceSelector, "ns-selector", "", "Which namespaces, by their labels, instead of by names")
	o.DryRunOptions.AddFlags(fs)
	fs.DurationVar(&o.timeout, "timeout", 20*time.Second, "How long all of it may take")
	fs.BoolVar(&o.exitCode, "exit-code", false, "Fail if no cluster is selected")
	return cluster.NewGroup("offload", "Extend a resource to other clusters", cmd)
}

func runOffload(ctx context.Context, c *cluster.Session, o *offloadOptions, args []string) error {
	if err := checkSelection(args, o.namespaceSelector); err != nil {
		return err
	}
	if o.mapping == string(offv1beta1.SelectedNameMappingStrategyType) && o.remoteName == "" {
		return ui.Fail("--remote-namespace-name is required with the SelectedName strategy")
	}
	if o.remoteName != "" && (len(args) > 1 || o.namespaceSelector != "") {
		return ui.Fail("the remote namespace name cannot be specified when offloading multiple namespaces at once")
	}
	clusters, err := clusterSelector(o.selectors)
	if err != nil {
		return err
	}
	kube, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	namespaces, err := selectNamespaces(ctx, c, kube, args, o.namespaceSelector)
	if err != nil {
		return err
	}
	if len(namespaces) == 0 {
		c.Info("No namespaces can be offloaded")
		return nil
	}
	wanted := func(ns string) *offv1beta1.NamespaceOffloading {
		nso := o.newNamespaceOffloading(ns, clusters)
		c.SetCommonMetadata(nso)
		return nso
	}
	if !o.IsRequested() {
		return eachNamespace(ctx, c, "offloading", namespaces, func(ctx context.Context, c *cluster.Session, ns string) error {
			return offloadOne(ctx, c, o, kube, wanted(ns))
		})
	}
	for _, ns := range namespaces {
		if err := c.PrintObject(wanted(ns), o.OutputFormat()); err != nil {
			return err
		}
	}
	return nil
}

// eachNamespace processes all namespaces concurrently, and prints the results in order. A failed namespace does not stop the rest.
func eachNamespace(ctx context.Context, c *cluster.Session, what string, namespaces []string, do func(ctx context.Context, c *cluster.Session, ns string) error) error {
	p := ui.NewPlan(c.Printer)
	var failed atomic.Bool
	for _, ns := range namespaces {
		p.Add(func(ctx context.Context, printer *ui.Printer) error {
			c := c.WithPrinter(printer)
			if err := do(ctx, c, ns); err != nil {
				c.PrintError(fmt.Errorf("%s namespace %q: %w", what, ns, err))
				failed.Store(true)
			}
			return nil
		})
	}
	if err := p.Run(ctx); err != nil || !failed.Load() {
		return err
	}
	return cluster.ErrPrinted
}

func checkSelection(args []string, selector string) error {
	switch {
	case len(args) == 0 && selector == "":
		return ui.Fail("namespace name or label selector must be specified")
	case len(args) > 0 && selector != "":
		return ui.Fail("namespace name and label selector must not be specified together")
	}
	return nil
}

func selectNamespaces(ctx context.Context, c *cluster.Session, kube client.Reader, args []string, selector string) ([]string, error) {
	if selector == "" {
		return args, nil
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, ui.Fail("--ns-selector %q is not a label selector: %w", selector, err)
	}
	var list corev1.NamespaceList
	if err := kube.List(ctx, &list, client.MatchingLabelsSelector{Selector: parsed}); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var found []string
	for _, ns := range list.Items {
		found = append(found, ns.Name)
	}
	return found, nil
}

func (o *offloadOptions) newNamespaceOffloading(namespace string, clusters *corev1.NodeSelector) *offv1beta1.NamespaceOffloading {
	nso := &offv1beta1.NamespaceOffloading{}
	nso.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("NamespaceOffloading"))
	nso.Namespace, nso.Name = namespace, names.NamespaceOffloading
	nso.Spec = offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.NamespaceMappingStrategyType(o.mapping),
		PodOffloadingStrategy:    offv1beta1.PodOffloadingStrategyType(o.podStrategy),
		ClusterSelector:          clusters,
	}
	if o.mapping == string(offv1beta1.SelectedNameMappingStrategyType) {
		nso.Spec.RemoteNamespaceName = o.remoteName
	}
	return nso
}

// clusterSelector returns a node selector with one term for each selector. The requirements of a term are sorted by key.
func clusterSelector(selectors []string) (*corev1.NodeSelector, error) {
	terms := []corev1.NodeSelectorTerm{}
	for _, s := range selectors {
		parsed, err := labels.Parse(s)
		if err != nil {
			return nil, ui.Fail("--selector %q is not a label selector: %w", s, err)
		}
		requirements, _ := parsed.Requirements()
		var term corev1.NodeSelectorTerm
		for _, r := range requirements {
			operator, ok := operators[r.Operator()]
			if !ok {
				return nil, ui.Fail("--selector %q: %q is not possible here", s, r.Operator())
			}
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: r.Key(), Operator: operator, Values: slices.Sorted(slices.Values(r.Values().UnsortedList())),
			})
		}
		slices.SortFunc(term.MatchExpressions, func(a, b corev1.NodeSelectorRequirement) int { return cmp.Compare(a.Key, b.Key) })
		terms = append(terms, term)
	}
	return &corev1.NodeSelector{NodeSelectorTerms: terms}, nil
}

var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.Equals:       corev1.NodeSelectorOpIn,
	selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.In:           corev1.NodeSelectorOpIn,
	selection.NotEquals:    corev1.NodeSelectorOpNotIn,
	selection.NotIn:        corev1.NodeSelectorOpNotIn,
	selection.Exists:       corev1.NodeSelectorOpExists,
	selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan:  corev1.NodeSelectorOpGt,
	selection.LessThan:     corev1.NodeSelectorOpLt,
}

func offloadOne(ctx context.Context, c *cluster.Session, o *offloadOptions, kube client.WithWatch, want *offv1beta1.NamespaceOffloading) error {
	step := c.Spin(fmt.Sprintf("Offloading namespace %q", want.Namespace))
	defer step.Stop()
	before, err := applyOffloading(ctx, c, kube, want)
	if err != nil {
		return err
	}
	c.Success("Offloading of namespace %q correctly enabled", want.Namespace)
	if isStricter(before, want.Spec.PodOffloadingStrategy) {
		c.Warn("The PodOffloadingStrategy was mutated to a more restrictive setting")
		c.Warn("Existing pods violating this policy might still be running: the annotation %s=true on the NamespaceOffloading has them evicted", names.EvictMisplacedPods)
	}
	final, err := cluster.AwaitOffloading(ctx, kube, want)
	if err != nil {
		return err
	}
	step.Stop()
	switch phase := final.Status.OffloadingPhase; phase {
	case offv1beta1.ReadyOffloadingPhaseType:
		c.Success("Offloading completed successfully")
		warnUnprotected(c, final)
	case offv1beta1.NoClusterSelectedOffloadingPhaseType:
		const none = "Offloading completed, but no cluster was selected"
		if o.exitCode {
			return ui.Fail(none).Hint("--selector chooses clusters by the labels of their virtual nodes: kubectl get nodes -l %s=%s --show-labels", names.NodeType, names.NodeTypeVirtualNode).
				See("docs/troubleshooting.md#clusternotselected")
		}
		c.Warn(none)
	default:
		return cluster.OffloadingFailure(final)
	}
	return nil
}

// warnUnprotected warns about pods that are denied or less protected in remote clusters.
func warnUnprotected(c *cluster.Session, nso *offv1beta1.NamespaceOffloading) {
	for _, cluster := range cluster.SortedKeys(nso.Status.RemoteNamespacesConditions) {
		for _, condition := range nso.Status.RemoteNamespacesConditions[cluster] {
			switch condition.Type {
			case offv1beta1.NamespaceNetworkPoliciesEnforced, offv1beta1.NamespacePodSecuritySatisfied:
				if condition.Status == corev1.ConditionFalse {
					c.Warn("Cluster %s: %s", cluster, condition.Message)
				}
			}
		}
	}
}

// applyOffloading creates or updates the object, and returns the previous strategy.
func applyOffloading(ctx context.Context, c *cluster.Session, kube client.Client, want *offv1beta1.NamespaceOffloading) (offv1beta1.PodOffloadingStrategyType, error) {
	current := &offv1beta1.NamespaceOffloading{}
	err := kube.Get(ctx, client.ObjectKeyFromObject(want), current)
	if apierrors.IsNotFound(err) {
		return "", kube.Create(ctx, want)
	}
	if err != nil {
		return "", err
	}
	before, old := current.DeepCopy(), current.Spec.PodOffloadingStrategy
	current.Spec = want.Spec
	current.SetGroupVersionKind(want.GroupVersionKind())
	c.SetCommonMetadata(current)
	if err := kube.Patch(ctx, current, client.MergeFrom(before)); err != nil {
		return "", err
	}
	want.UID, want.Generation = current.UID, current.Generation
	return old, nil
}

// isStricter reports whether the new strategy forbids pods on clusters that the old strategy allowed.
func isStricter(before, after offv1beta1.PodOffloadingStrategyType) bool {
	return before != "" && before != after && after != offv1beta1.LocalAndRemotePodOffloadingStrategyType
}
