// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"io"
	"io/fs"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/ctl/ui"
)

// Options hold the environment of the program.
type Options struct {
	// Args is the whole command line, including the name of the program.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Chart is the folder of the chart to install.
	Chart fs.FS
}

// Run runs one command, and prints the returned error.
func Run(ctx context.Context, o Options) error {
	c := &cluster.Session{
		Printer:    ui.NewPrinter(o.Stdin, o.Stdout, o.Stderr),
		Chart:      o.Chart,
		Stdin:      o.Stdin,
		Stderr:     o.Stderr,
		KubeFlags:  genericclioptions.NewConfigFlags(true),
		Executable: cluster.DisplayName(o.Args[0]),
	}
	root := newRootCommand(c)
	addCompletions(c, root)
	root.SetArgs(cluster.CommandLine(o.Args))
	root.SetIn(o.Stdin)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		c.PrintError(err)
	}
	return err
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
		{"Set up:", []*cobra.Command{newInstallCommand(c), newUninstallCommand(c), peering.NewPeerCommand(c), peering.NewUnpeerCommand(c), network.NewNetworkCommand(c),
			peering.NewAuthenticateCommand(c), peering.NewUnauthenticateCommand(c), newGenerateCommand(c)}},
		{"Use:", []*cobra.Command{peering.NewOffloadCommand(c), peering.NewUnoffloadCommand(c), newCreateCommand(c), newDeleteCommand(c), peering.NewActivateCommand(c),
			peering.NewCordonCommand(c), peering.NewUncordonCommand(c), peering.NewDrainCommand(c), c.NewMoveCommand()}},
		{"Inspect:", []*cobra.Command{info.NewInfoCommand(c), newTestCommand(c), newGetCommand(c), newVersionCommand(c)}},
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
