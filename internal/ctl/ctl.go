// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/ctl/check"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/dashboard"
	"liqo.io/liqo/internal/ctl/explain"
	"liqo.io/liqo/internal/ctl/gather"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/ctl/volume"
)

// Options hold the environment of the program.
type Options struct {
	// Args is the whole command line, including the name of the program.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Chart is the folder of the chart to install.
	Chart fs.FS
	// CompletionTimeout bounds the requests of a completion; 0: two seconds.
	CompletionTimeout time.Duration
}

// Run runs one command, and prints the returned error.
func Run(ctx context.Context, o Options) error {
	c := &cluster.Session{
		Printer:    ui.NewPrinter(o.Stdin, o.Stdout, o.Stderr),
		Chart:      o.Chart,
		Stdin:      o.Stdin,
		Stderr:     o.Stderr,
		KubeFlags:  cluster.NewKubeFlags(),
		Executable: cluster.DisplayName(o.Args[0]),

		CompletionTimeout: o.CompletionTimeout,
	}
	root := newRootCommand(c)
	addCompletions(c, root)
	root.SetArgs(cluster.CommandLine(o.Args))
	root.SetIn(o.Stdin)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		c.Page = pageOf(cmd) // flags may be refused before the command sets the page
		c.PrintError(err)
	}
	return err
}

// pageOf returns the part of the reference about a command, or about the group of a hidden command.
func pageOf(cmd *cobra.Command) string {
	for cmd.Hidden {
		cmd = cmd.Parent()
	}
	name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().DisplayName())
	return "docs/cli.md#liqoctl" + strings.ReplaceAll(name, " ", "-")
}

func newRootCommand(c *cluster.Session) *cobra.Command {
	root := &cobra.Command{
		Use:           "liqoctl",
		Short:         "Install Liqo, peer clusters and offload namespaces",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: c.Executable},
		Args:          cluster.CheckSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			setUp(c)
			c.Page = pageOf(cmd)
			if err := checkFlags(cmd); err != nil {
				return err
			}
			for _, line := range withoutEffect(commandName(cmd), cmd.Flags()) {
				c.Warn("%s", line)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(cluster.FlagError)
	globalFlags(c, root)
	addCommands(c, root)
	return root
}

// addCommands adds the commands in the groups of the help. The help shows a command without a group after all groups.
func addCommands(c *cluster.Session, root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Set up:", []*cobra.Command{newInstallCommand(c), newImagesCommand(c), newUninstallCommand(c), peering.NewPeerCommand(c), peering.NewUnpeerCommand(c), network.NewNetworkCommand(c),
			peering.NewAuthenticateCommand(c), peering.NewUnauthenticateCommand(c), newGenerateCommand(c)}},
		{"Use:", []*cobra.Command{peering.NewOffloadCommand(c), peering.NewUnoffloadCommand(c), newCreateCommand(c), newDeleteCommand(c), peering.NewActivateCommand(c),
			peering.NewCordonCommand(c), peering.NewUncordonCommand(c), peering.NewDrainCommand(c), volume.NewMoveCommand(c)}},
		{"Inspect:", []*cobra.Command{info.NewInfoCommand(c), check.NewCheckCommand(c), explain.NewExplainCommand(c), explain.NewTraceCommand(c), dashboard.NewFleetCommand(c), dashboard.NewDashboardCommand(c),
			gather.NewGatherCommand(c), newTestCommand(c), network.NewBenchCommand(c), newGetCommand(c), newVersionCommand(c)}},
		{"Repair:", []*cobra.Command{peering.NewForceCommand(c)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(newDocsCommand(c))
}

func globalFlags(c *cluster.Session, root *cobra.Command) {
	c.KubeFlags.Namespace = nil // -n is the Liqo namespace or the namespace of an object, depending on the command
	fs := root.PersistentFlags()
	c.KubeFlags.AddFlags(fs)
	for _, name := range []string{
		"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key",
		"disable-compression", "insecure-skip-tls-verify", "request-timeout", "server", "tls-server-name", "token",
	} {
		if f := fs.Lookup(name); f != nil && !cluster.ShownKubeFlags[name] {
			f.Hidden = true
		}
	}
	fs.BoolVarP(&c.Verbose, "verbose", "v", false, "Enable verbose logs")
	fs.BoolVar(&c.SkipConfirm, "skip-confirm", false, "Skip the confirmation prompt (suggested for automation)")
	fs.StringToStringVar(&c.Labels, "global-labels", nil, "Labels added to every object that is created or updated, as k=v,k=v; none of liqo.io")
	fs.StringToStringVar(&c.Annotations, "global-annotations", nil, "Annotations added to every object that is created or updated, as k=v,k=v; none of liqo.io")
}

// setUp silences the logs of libraries: their errors carry the same information.
func setUp(c *cluster.Session) {
	if c.Verbose {
		handler := slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
		klog.SetLogger(logr.FromSlogHandler(handler))
		ctrl.SetLogger(logr.FromSlogHandler(handler))
		return
	}
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// addCompletions adds completions to all commands, by the names and the types of their flags and by the name of the program.
func addCompletions(c *cluster.Session, root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if c.Executable != "liqoctl" {
			cmd.Example = strings.ReplaceAll(cmd.Example, "liqoctl ", c.Executable+" ")
		}
		for _, flags := range []*pflag.FlagSet{cmd.PersistentFlags(), cmd.LocalNonPersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if complete := c.FlagCompletion(f); complete != nil {
					_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails if the command has an own completion
				}
			})
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

func newCreateCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Creation{}
	parent := cluster.NewGroup("create", "Create objects of Liqo, or print them",
		network.CreateConfiguration(c, o), network.CreateGatewayServer(c, o), network.CreateGatewayClient(c, o), network.CreatePublicKey(c, o), peering.CreateNonce(c, o))
	o.Placement.AddFlags(parent)
	parent.AddCommand(peering.CreateResourceSlice(c, o), peering.CreateVirtualNode(c, o))
	return parent
}

func newGenerateCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Generation{}
	parent := cluster.NewGroup("generate", "Print objects of this cluster for another cluster", network.GenerateConfiguration(c, o), network.GeneratePublicKey(c, o),
		peering.GenerateTenant(c, o), peering.GenerateIdentity(c, o), peering.GeneratePeeringUser(c, &o.Placement))
	o.Placement.AddFlags(parent)
	return parent
}

func newGetCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Retrieval{}
	parent := cluster.NewGroup("get", "Print one value that others need", peering.GetNonce(c, o), peering.GetKubeconfig(c, o))
	parent.PersistentFlags().StringVarP(&o.Namespace, "namespace", "n", "", "The tenant namespace of the other cluster, which is found by its labels if empty")
	return parent
}

func newTestCommand(c *cluster.Session) *cobra.Command {
	o := &network.TestOptions{}
	cmd := cluster.NewGroup("test", "Check whether Liqo works", network.TestNetwork(c, o))
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "Time limit of the test; its objects are removed in any case")
	fs.BoolVar(&o.FailFast, "fail-fast", false, "Stop as soon as something failed")
	return cmd
}
