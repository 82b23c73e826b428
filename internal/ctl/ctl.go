// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package ctl is the command line interface: one file per command. This file has the root command and the shared state of a run.
package ctl

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

// Version is set by the linker.
var Version = "dev"

// Options hold the environment of the program.
type Options struct {
	// Args is the whole command line, including the name of the program.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Chart is the folder of the chart to install.
	Chart fs.FS
}

// cli is the state of one run of the program.
type cli struct {
	*out.Printer
	chart       fs.FS
	stdin       io.Reader
	stderr      io.Writer
	kubeFlags   *genericclioptions.ConfigFlags
	skipConfirm bool
	verbose     bool
	labels      map[string]string
	annotations map[string]string
	executable  string
}

// Run runs one command, and prints the returned error.
func Run(ctx context.Context, o Options) error {
	c := &cli{
		Printer:    out.New(o.Stdin, o.Stdout, o.Stderr),
		chart:      o.Chart,
		stdin:      o.Stdin,
		stderr:     o.Stderr,
		kubeFlags:  genericclioptions.NewConfigFlags(true),
		executable: displayName(o.Args[0]),
	}
	root := c.newRootCommand()
	c.addCompletions(root)
	root.SetArgs(commandLine(o.Args))
	root.SetIn(o.Stdin)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		c.printError(err)
	}
	return err
}

func (c *cli) newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "liqoctl",
		Short:         "Install Liqo, peer clusters and offload namespaces",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: c.executable},
		Args:          checkSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.setUp()
			if err := checkFlags(cmd); err != nil {
				return err
			}
			for _, line := range withoutEffect(commandName(cmd), cmd.Flags()) {
				c.Warn("%s", line)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(flagError)
	c.globalFlags(root)
	c.addCommands(root)
	return root
}

// addCommands adds the commands in the groups of the help. The help shows a command without a group after all groups.
func (c *cli) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Set up:", []*cobra.Command{c.newInstallCommand(), c.newUninstallCommand(), c.newPeerCommand(), c.newUnpeerCommand(), c.newNetworkCommand(),
			c.newAuthenticateCommand(), c.newUnauthenticateCommand(), c.newGenerateCommand()}},
		{"Use:", []*cobra.Command{c.newOffloadCommand(), c.newUnoffloadCommand(), c.newCreateCommand(), c.newDeleteCommand(), c.newActivateCommand(),
			c.newCordonCommand(), c.newUncordonCommand(), c.newDrainCommand(), c.newMoveCommand()}},
		{"Inspect:", []*cobra.Command{c.newInfoCommand(), c.newTestCommand(), c.newGetCommand(), c.newVersionCommand()}},
		{"Repair:", []*cobra.Command{c.newForceCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(c.newDocsCommand())
}

// shownKubeFlags are the flags of kubectl that the help lists. All of them are accepted.
var shownKubeFlags = map[string]bool{"kubeconfig": true, "context": true, "cluster": true, "user": true}

func (c *cli) globalFlags(root *cobra.Command) {
	c.kubeFlags.Namespace = nil // -n is the Liqo namespace or the namespace of an object, depending on the command
	fs := root.PersistentFlags()
	c.kubeFlags.AddFlags(fs)
	for _, name := range []string{
		"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key",
		"disable-compression", "insecure-skip-tls-verify", "request-timeout", "server", "tls-server-name", "token",
	} {
		if f := fs.Lookup(name); f != nil && !shownKubeFlags[name] {
			f.Hidden = true
		}
	}
	fs.BoolVarP(&c.verbose, "verbose", "v", false, "Enable verbose logs")
	fs.BoolVar(&c.skipConfirm, "skip-confirm", false, "Skip the confirmation prompt (suggested for automation)")
	fs.StringToStringVar(&c.labels, "global-labels", nil, "Labels added to every object that is created or updated, as k=v,k=v; none of liqo.io")
	fs.StringToStringVar(&c.annotations, "global-annotations", nil, "Annotations added to every object that is created or updated, as k=v,k=v; none of liqo.io")
}

// setUp silences the logs of libraries: their errors carry the same information.
func (c *cli) setUp() {
	if c.verbose {
		handler := slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
		klog.SetLogger(logr.FromSlogHandler(handler))
		ctrl.SetLogger(logr.FromSlogHandler(handler))
		return
	}
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// helmLog returns the log handler of Helm, which repeats its errors.
func (c *cli) helmLog() slog.Handler {
	if c.verbose {
		return slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	return slog.DiscardHandler
}

// restConfig returns the connection from the flags and the kubeconfig. It sends no request.
func (c *cli) restConfig() (*rest.Config, error) {
	cfg, err := configOf(c.kubeFlags)
	if err != nil {
		return nil, explainUnusable(err, "")
	}
	return cfg, nil
}

func configOf(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	cfg, err := flags.ToRESTConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, out.Fail("no cluster is configured: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 100, 100
	cfg.UserAgent = "liqoctl/" + Version
	return cfg, nil
}

// newClient returns a client. Its discovery of kinds ends with ctx.
func (c *cli) newClient(ctx context.Context) (client.WithWatch, error) {
	cfg, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	cluster, err := clientOf(ctx, cfg)
	if err != nil {
		return nil, explainUnusable(err, "")
	}
	return cluster, nil
}

// withPrinter returns the same run with another printer.
func (c *cli) withPrinter(p *out.Printer) *cli {
	part := *c
	part.Printer = p
	return &part
}

// confirmCommand asks for a confirmation, unless --skip-confirm is set.
func (c *cli) confirmCommand(ctx context.Context, command string) error {
	if c.skipConfirm {
		return nil
	}
	return c.Confirm(ctx, command)
}

// confirmUnless asks for a confirmation unless the command is a dry run.
func (c *cli) confirmUnless(ctx context.Context, dryRun bool, command string) error {
	if dryRun {
		return nil
	}
	return c.confirmCommand(ctx, command)
}

// setCommonMetadata adds the global labels and annotations. Their values may be templates of fields of the object.
func (c *cli) setCommonMetadata(obj client.Object) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	replacer := strings.NewReplacer("${namespace}", obj.GetNamespace(), "${name}", obj.GetName(), "${kind}", gvk.Kind, "${group}", gvk.Group)
	stamped := func(have, add map[string]string) map[string]string {
		for k, v := range add {
			if have == nil {
				have = map[string]string{}
			}
			have[k] = replacer.Replace(v)
		}
		return have
	}
	obj.SetLabels(stamped(obj.GetLabels(), c.labels))
	obj.SetAnnotations(stamped(obj.GetAnnotations(), c.annotations))
}

// newGroup returns a command that only has subcommands. Its RunE makes cobra check the arguments.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{
		Use: use, Short: short, Args: checkSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(commands...)
	return parent
}

// checkSubcommand rejects an unknown subcommand, with suggestions for a typo.
func checkSubcommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // the default of cobra's own suggestions
	if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
		return out.Fail("error: %w", err).Hint("Did you mean %s?", strings.Join(meant, " or "))
	}
	return out.Fail("error: %w", err).Hint("The commands are listed by: %s --help", cmd.CommandPath())
}

func liqoNamespace(cmd *cobra.Command, namespace *string) {
	cmd.PersistentFlags().StringVarP(namespace, "namespace", "n", names.LiqoNamespace, "The namespace where Liqo is installed in")
}

// completerPrefix is the prefix of the program that kubectl runs for completions of a plugin.
const completerPrefix = "kubectl_complete-"

// commandLine returns the arguments of cobra. The names of the program as a plugin or a completer imply a command.
func commandLine(args []string) []string {
	if strings.HasPrefix(programName(args[0]), completerPrefix) {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

func programName(argv0 string) string { return strings.TrimSuffix(filepath.Base(argv0), ".exe") }

// displayName returns the name by which the user called the program: liqoctl, or `kubectl liqo` as a plugin.
func displayName(argv0 string) string {
	base := strings.Replace(programName(argv0), completerPrefix, "kubectl-", 1)
	if plugin, ok := strings.CutPrefix(base, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(strings.ReplaceAll(plugin, "-", " "), "_", "-")
	}
	return "liqoctl"
}
