// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// Version is set by the linker.
var Version = "dev"

// Session is the state of one run of the program.
type Session struct {
	*ui.Printer
	Chart       fs.FS
	Stdin       io.Reader
	Stderr      io.Writer
	KubeFlags   *genericclioptions.ConfigFlags
	SkipConfirm bool
	Verbose     bool
	Labels      map[string]string
	Annotations map[string]string
	Executable  string
	// Page is the part of the documentation about the command.
	Page string
	// CompletionTimeout bounds the requests of a completion; 0: two seconds.
	CompletionTimeout time.Duration
}

// ShownKubeFlags are the flags of kubectl in the help. All flags of kubectl are accepted.
var ShownKubeFlags = map[string]bool{"kubeconfig": true, "context": true, "cluster": true, "user": true}

// HelmLog returns the log handler of Helm. Helm logs its errors, too.
func (c *Session) HelmLog() slog.Handler {
	if c.Verbose {
		return slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	return slog.DiscardHandler
}

// RestConfig returns the connection from the flags and the kubeconfig. It sends no request.
func (c *Session) RestConfig() (*rest.Config, error) {
	cfg, err := configOf(c.KubeFlags)
	if err != nil {
		return nil, explainUnusable(err, "")
	}
	return cfg, nil
}

func configOf(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	cfg, err := flags.ToRESTConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ui.Fail("no cluster is configured: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 100, 100
	cfg.UserAgent = "liqoctl/" + Version
	return cfg, nil
}

// NewClient returns a client. Its discovery of kinds ends with ctx.
func (c *Session) NewClient(ctx context.Context) (client.WithWatch, error) {
	cfg, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	return NewClientOf(ctx, cfg)
}

// NewClientOf returns a client of a connection.
func NewClientOf(ctx context.Context, cfg *rest.Config) (client.WithWatch, error) {
	cluster, err := ClientOf(ctx, cfg)
	if err != nil {
		return nil, explainUnusable(err, "")
	}
	return cluster, nil
}

// WithPrinter returns the same run with another printer.
func (c *Session) WithPrinter(p *ui.Printer) *Session {
	part := *c
	part.Printer = p
	return &part
}

// confirmCommand asks for a confirmation, unless --skip-confirm is set.
func (c *Session) confirmCommand(ctx context.Context, command string) error {
	if c.SkipConfirm {
		return nil
	}
	return c.Confirm(ctx, command)
}

// ConfirmUnless asks for a confirmation unless the command is a dry run.
func (c *Session) ConfirmUnless(ctx context.Context, dryRun bool, command string) error {
	if dryRun {
		return nil
	}
	return c.confirmCommand(ctx, command)
}

// SetCommonMetadata adds the global labels and annotations. Their values may be templates of fields of the object.
func (c *Session) SetCommonMetadata(obj client.Object) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	replacer := strings.NewReplacer("${namespace}", obj.GetNamespace(), "${name}", obj.GetName(), "${kind}", gvk.Kind, "${group}", gvk.Group)
	stamped := func(current, add map[string]string) map[string]string {
		for k, v := range add {
			if current == nil {
				current = map[string]string{}
			}
			current[k] = replacer.Replace(v)
		}
		return current
	}
	obj.SetLabels(stamped(obj.GetLabels(), c.Labels))
	obj.SetAnnotations(stamped(obj.GetAnnotations(), c.Annotations))
}

// NewGroup returns a command that only has subcommands. RunE makes cobra check the arguments.
func NewGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{
		Use: use, Short: short, Args: CheckSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(commands...)
	return parent
}

// CheckSubcommand rejects an unknown subcommand, with suggestions for a typo.
func CheckSubcommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // the default of cobra's own suggestions
	if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
		return ui.Fail("error: %w", err).Hint("Did you mean %s?", strings.Join(meant, " or "))
	}
	return ui.Fail("error: %w", err).Hint("The commands are listed by: %s --help", cmd.CommandPath())
}

// LiqoNamespace adds the flag for the namespace of the installation.
func LiqoNamespace(cmd *cobra.Command, namespace *string) {
	cmd.PersistentFlags().StringVarP(namespace, "namespace", "n", names.LiqoNamespace, "The namespace where Liqo is installed in")
}

// completerPrefix is the prefix of kubectl's program for completions of a plugin.
const completerPrefix = "kubectl_complete-"

// CommandLine returns the arguments of cobra. The names of the program as a plugin or a completer imply a command.
func CommandLine(args []string) []string {
	if strings.HasPrefix(programName(args[0]), completerPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

func programName(argv0 string) string { return strings.TrimSuffix(filepath.Base(argv0), ".exe") }

// DisplayName returns the name by which the user called the program: liqoctl, or `kubectl liqo` as a plugin.
func DisplayName(argv0 string) string {
	base := strings.Replace(programName(argv0), completerPrefix, "kubectl-", 1)
	if plugin, ok := strings.CutPrefix(base, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(strings.ReplaceAll(plugin, "-", " "), "_", "-")
	}
	return "liqoctl"
}

// RunStep shows a spinner while do runs, and prints done on success.
func (c *Session) RunStep(doing, done string, do func() error) error {
	step := c.Spin(doing)
	defer step.Stop()
	if err := do(); err != nil {
		return err
	}
	step.Done("%s", done)
	return nil
}
