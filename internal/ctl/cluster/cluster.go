// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster has the shared parts of commands: the run of the program, one or two clusters with their clients, permission checks, waits and
// deletions.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// ClusterFlags select one of two clusters, and the namespaces in the cluster.
type ClusterFlags struct {
	Kube                     *genericclioptions.ConfigFlags
	Namespace, LiqoNamespace string
	// ChosenBy names the flags that select the cluster, "" for those of kubectl.
	ChosenBy string
}

// NewKubeFlags returns the flags of kubectl that choose a cluster. --proxy-url is left out: in commands that peer, --proxy-url means the proxy of the
// clusters.
func NewKubeFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.ProxyURL = nil
	return flags
}

// RemoteFlags adds the flags of the second cluster: the flags of the first cluster with a prefix.
func RemoteFlags(cmd *cobra.Command, remote *ClusterFlags) {
	remote.Kube = NewKubeFlags()
	remote.Kube.Namespace, remote.ChosenBy = nil, "--remote-kubeconfig and --remote-context"
	mirrored := pflag.NewFlagSet("remote", pflag.ContinueOnError)
	remote.Kube.AddFlags(mirrored)
	mirrored.VisitAll(func(f *pflag.Flag) {
		f.Hidden = !ShownKubeFlags[f.Name]
		f.Name, f.Shorthand = "remote-"+f.Name, ""
		f.Usage += " (in the remote cluster)"
		cmd.PersistentFlags().AddFlag(f)
	})
}

// Cluster is the local or the remote cluster of a command, or its only cluster, without a name.
type Cluster struct {
	*ui.Scope
	Name string
	Kube client.WithWatch
	// Clock is the clock of the API server.
	Clock *ServerClock
	// Config is the connection.
	Config        *rest.Config
	Host          string
	LiqoNamespace string
	// Asked is the namespace given by the user, "" for none.
	Asked string
	ID    string
	// Namespace receives new objects about the peer: the namespace given by the user, else the tenant namespace, possibly missing.
	Namespace string
	Missing   bool
	// whole is the full cluster if this value is a view with another printer, else nil.
	whole *Cluster
}

// WithPrinter returns a view of the cluster that prints by another printer.
func (s *Cluster) WithPrinter(p *ui.Printer) *Cluster {
	part := *s
	part.Scope, part.whole = p.Scope(s.Name), s.WholeCluster()
	return &part
}

// WholeCluster returns the original of all views. The original records whether the namespace is missing.
func (s *Cluster) WholeCluster() *Cluster {
	if s.whole != nil {
		return s.whole
	}
	return s
}

// WithBoth runs a command on two clusters after their cluster IDs are resolved.
func (c *Session) WithBoth(ctx context.Context, timeout time.Duration, local, remote *ClusterFlags, run func(ctx context.Context, local, remote *Cluster) error) error {
	return c.WithBothAndMessage(ctx, identityRead, timeout, local, remote, run)
}

// WithBothAndMessage is WithBoth with an own success line for each resolved cluster, none if message is "".
func (c *Session) WithBothAndMessage(ctx context.Context, message string, timeout time.Duration, local, remote *ClusterFlags, run func(ctx context.Context, local, remote *Cluster) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l, r, err := c.NewClusterPair(ctx, local, remote)
	if err != nil {
		return err
	}
	if err := resolveClusterIDs(ctx, l, r, message); err != nil {
		return err
	}
	return explainTimeout(ctx, run(ctx, l, r))
}

// explainTimeout adds a hint to the error of a timeout or an interruption, unless the error has a hint already.
func explainTimeout(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	const onward = "Run the command again to continue"
	if f, ok := errors.AsType[*ui.Failure](err); ok {
		if len(f.All()) > 0 {
			return err
		}
		f.Hint(onward)
		return err
	}
	return ui.Fail("error: %w", err).Hint(onward)
}

// NewClusterPair returns the two clusters of a command, without any request to them.
func (c *Session) NewClusterPair(ctx context.Context, local, remote *ClusterFlags) (l, r *Cluster, err error) {
	local.Kube = c.KubeFlags
	if l, err = c.NewCluster(ctx, "local", local); err != nil {
		return nil, nil, fmt.Errorf("local cluster: %w", err)
	}
	if r, err = c.NewCluster(ctx, "remote", remote); err != nil {
		return nil, nil, fmt.Errorf("remote cluster: %w", err)
	}
	if l.Host == r.Host {
		return nil, nil, sameCluster("%s", l.Host)
	}
	l.Kube, r.Kube = NewRetryingClient(l.Kube, l.Scope), NewRetryingClient(r.Kube, r.Scope)
	return l, r, nil
}

// NewClusterOf returns the only cluster of a command about a peer, whose tenant namespace may be missing. A new namespace gets the
// name given by the user.
func (c *Session) NewClusterOf(ctx context.Context, other string, p Placement) (*Cluster, error) {
	s, err := c.NewCluster(ctx, "", &ClusterFlags{Kube: c.KubeFlags, LiqoNamespace: p.LiqoNamespace})
	if err != nil {
		return nil, err
	}
	if err := s.FindNamespace(ctx, other); err != nil {
		return nil, err
	}
	switch {
	case p.Namespace == "" || p.Namespace == s.Namespace:
	case s.Missing:
		s.Namespace = p.Namespace
	default:
		return nil, ui.Fail("the tenant namespace of %s is %s, not %s", other, s.Namespace, p.Namespace).Hint("Leave out --namespace")
	}
	return s, nil
}

// Identify reads the cluster ID, and fails if both clusters are the same.
func (s *Cluster) Identify(ctx context.Context, other string) (err error) {
	if s.ID, err = ClusterIdentity(ctx, s.Kube, s.LiqoNamespace); err == nil && s.ID == other {
		return ui.Fail("%s is this cluster itself: --remote-cluster-id is for the ID of the other one", other)
	}
	return err
}

func sameCluster(format string, args ...any) error {
	return ui.Fail("local and remote clusters must be different: both are "+format, args...).
		Hint("The second cluster is that of --remote-kubeconfig or --remote-context")
}

// NewCluster returns a cluster from its flags, without any request to the cluster.
func (c *Session) NewCluster(ctx context.Context, name string, flags *ClusterFlags) (*Cluster, error) {
	cfg, err := configOf(flags.Kube)
	if err != nil {
		return nil, explainUnusable(err, flags.ChosenBy)
	}
	observed := rest.CopyConfig(cfg)
	clock := NewServerClock(observed)
	cluster, err := ClientOf(ctx, observed)
	if err != nil {
		return nil, explainUnusable(err, flags.ChosenBy)
	}
	return &Cluster{
		Scope: c.Scope(name), Name: name, Kube: cluster, Clock: clock, Config: cfg, Host: serverOf(cfg), LiqoNamespace: flags.LiqoNamespace, Asked: flags.Namespace,
	}, nil
}

// explainUnusable adds the flags that select another kubeconfig to the error about an unusable kubeconfig.
func explainUnusable(err error, chosenBy string) error {
	return ui.Fail("%w", err).Hint("The cluster is chosen by %s", cmp.Or(chosenBy, "--kubeconfig and --context"))
}

// serverOf returns a key that distinguishes API servers: address, TLS server name and proxy.
func serverOf(cfg *rest.Config) string {
	at := cfg.Host
	if cfg.TLSClientConfig.ServerName != "" {
		at += " as " + cfg.TLSClientConfig.ServerName
	}
	if cfg.Proxy == nil {
		return at
	}
	// The proxy of a kubeconfig is the same for all requests.
	if proxy, err := cfg.Proxy(&http.Request{URL: &url.URL{}}); err == nil && proxy != nil {
		at += " through " + proxy.Redacted()
	}
	return at
}

// WrapWithCluster adds the name of the cluster to an error, if the command has two clusters.
func (s *Cluster) WrapWithCluster(err error) error {
	if err == nil || s.Name == "" {
		return err
	}
	return fmt.Errorf("in the %s cluster: %w", s.Name, err)
}

// AddStep adds a step of this cluster to a plan; the parameters are the same as in RunStep.
func (s *Cluster) AddStep(p *ui.Plan, doing, done string, do func(context.Context) error, needs ...*ui.Step) *ui.Step {
	return p.Add(func(ctx context.Context, printer *ui.Printer) error {
		return s.WithPrinter(printer).RunWaiting(ctx, doing, done, do)
	}, needs...)
}

// RunStep shows a spinner while do runs, and prints done afterwards unless done is "".
func (s *Cluster) RunStep(doing, done string, do func() error) error {
	return s.runProgress(doing, done, func(*ui.Spinner) error { return do() })
}

// RunWaiting is RunStep for long waits: the spinner shows the missing condition.
func (s *Cluster) RunWaiting(ctx context.Context, doing, done string, do func(context.Context) error) error {
	return s.runProgress(doing, done, func(step *ui.Spinner) error { return do(kube.WithProgress(ctx, step.Waits)) })
}

func (s *Cluster) runProgress(doing, done string, do func(*ui.Spinner) error) error {
	step := s.Spin(doing)
	defer step.Stop()
	err := do(step)
	if kube.IsSkipped(err) {
		return nil
	}
	if err != nil {
		return s.WrapWithCluster(err)
	}
	step.Stop()
	if done != "" {
		s.Success("%s", done)
	}
	return nil
}

// identityRead is the first success line of commands on two clusters.
const identityRead = "Cluster identity correctly retrieved"

// resolveClusterIDs reads the cluster IDs and finds the tenant namespaces. It prints done for each cluster unless done is "".
func resolveClusterIDs(ctx context.Context, local, remote *Cluster, done string) error {
	for _, s := range []*Cluster{local, remote} {
		err := s.RunStep("Retrieving cluster identity", done, func() (err error) {
			s.ID, err = ClusterIdentity(ctx, s.Kube, s.LiqoNamespace)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := CheckDifferent(local, remote); err != nil {
		return err
	}
	return errors.Join(local.WrapWithCluster(local.FindNamespace(ctx, remote.ID)), remote.WrapWithCluster(remote.FindNamespace(ctx, local.ID)))
}

// CheckDifferent returns an error if both clusters have the same ID.
func CheckDifferent(local, remote *Cluster) error {
	if local.ID == remote.ID {
		return sameCluster("called %q", local.ID)
	}
	return nil
}

// FindNamespace finds the tenant namespace of the other cluster. A user who may not list namespaces may have access to the namespace with the default
// name.
func (s *Cluster) FindNamespace(ctx context.Context, other string) error {
	if s.Asked != "" {
		s.Namespace = s.Asked
		return nil
	}
	found, err := peer.TenantNamespace(ctx, s.Kube, liqov1beta1.ClusterID(other))
	switch {
	case err == nil:
		s.Namespace = found
		return nil
	case errors.Is(err, peer.ErrNotFound):
		s.Namespace, s.Missing = names.DefaultTenantNamespace(other), true
		return nil
	case errors.Is(err, peer.ErrAmbiguous):
		return ui.Fail("%w", err).Hint("Each peer has one tenant namespace: take the label " + names.TenantNamespace + " off the others, or delete them")
	case !apierrors.IsForbidden(err):
		return err
	}
	s.Namespace = names.DefaultTenantNamespace(other)
	var ns corev1.Namespace
	err = s.Kube.Get(ctx, client.ObjectKey{Name: s.Namespace}, &ns)
	if id, ok := peer.OfNamespace(&ns); err == nil && (!ok || string(id) != other) {
		return ui.Fail("namespace %q is not the tenant namespace of %s: it lacks the labels %s=%s and %s=true",
			s.Namespace, other, names.RemoteClusterID, other, names.TenantNamespace)
	}
	s.Missing = apierrors.IsNotFound(err)
	return client.IgnoreNotFound(err)
}

// EnsureNamespace creates the namespace of an object if the namespace is the tenant namespace of the other cluster and is missing.
func (s *Cluster) EnsureNamespace(ctx context.Context, c *Session, of client.Object) error {
	ns := s.MissingNamespace(c, of)
	if ns == nil {
		return nil
	}
	if err := makeNamespace(ctx, s.Kube, ns); err != nil {
		return err
	}
	s.WholeCluster().Missing = false
	return nil
}

// MissingNamespace returns the missing tenant namespace of an object, nil if the namespace exists.
func (s *Cluster) MissingNamespace(c *Session, of client.Object) *corev1.Namespace {
	if !s.WholeCluster().Missing || of.GetNamespace() != s.Namespace {
		return nil
	}
	return s.TenantNamespace(c, of.GetLabels()[names.RemoteClusterID])
}

// TenantNamespace returns the manifest of the tenant namespace of the other cluster.
func (s *Cluster) TenantNamespace(c *Session, other string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{
		names.RemoteClusterID: other, names.TenantNamespace: "true",
		// The gateway opens a device of its node.
		"pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit": "privileged", "pod-security.kubernetes.io/warn": "privileged",
	}}}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	c.SetCommonMetadata(ns)
	return ns
}

func makeNamespace(ctx context.Context, cluster client.WithWatch, ns *corev1.Namespace) error {
	err := cluster.Create(ctx, ns)
	if apierrors.IsAlreadyExists(err) {
		// A namespace of an earlier peering that is being deleted must be gone first.
		if err := awaitDeleted(ctx, cluster, ns); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return err
		}
		err = cluster.Create(ctx, ns)
	}
	if apierrors.IsAlreadyExists(err) {
		other, now := ns.Labels[names.RemoteClusterID], &corev1.Namespace{}
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(ns), now); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("reading the tenant namespace %s: %w", ns.Name, err)
		}
		if id, ok := peer.OfNamespace(now); ok && string(id) == other && now.DeletionTimestamp == nil {
			return nil // this or another command created the namespace meanwhile, and the answer was lost
		}
		return ui.Fail("namespace %q exists and is not the tenant namespace of %s, or is being deleted: delete it, or label it %s=%s and %s=true",
			ns.Name, other, names.RemoteClusterID, other, names.TenantNamespace)
	}
	if err != nil {
		return fmt.Errorf("making the tenant namespace %s: %w", ns.Name, err)
	}
	return nil
}

// ClusterIdentity returns the ID of a cluster.
func ClusterIdentity(ctx context.Context, kube client.Reader, liqoNamespace string) (string, error) {
	id, err := peer.LocalClusterID(ctx, kube, liqoNamespace)
	if errors.Is(err, peer.ErrNotFound) {
		return "", ui.Fail("Liqo is not installed in namespace %q: it has no cluster ID", liqoNamespace).
			Hint("Install Liqo with liqoctl install, or set its namespace by a flag listed in --help")
	}
	return string(id), err
}

// IsRequest reports whether a ResourceSlice is a local request to the provider, by its labels or else by the namespaces of the
// peering.
func IsRequest(slice client.Object, provider string, namespaces ...string) bool {
	to, about := slice.GetLabels()[names.ReplicationDestination], slice.GetLabels()[names.RemoteClusterID]
	switch {
	case peer.IsReplica(slice):
		return false
	case to == "" && about == "":
		return slices.Contains(namespaces, slice.GetNamespace())
	}
	return to == provider || about == provider
}
