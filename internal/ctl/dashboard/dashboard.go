// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/kube"
)

// NewDashboardCommand returns the command "dashboard".
func NewDashboardCommand(c *cluster.Session) *cobra.Command {
	var namespace string
	var port int32
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show all that the cluster has with its peers as a live page in the browser",
		Long: "Show all that the cluster has with its peers as a live page in the browser. Nothing is changed, and nothing is installed in the cluster.\n" +
			"The page is served on this machine only, to browsers with the printed link, until Ctrl-C. It follows the cluster by watches, with the rights of the user.",
		Example: "  liqoctl dashboard\n" +
			"  liqoctl dashboard --port 8800",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDashboard(cmd.Context(), c, namespace, port) },
	}
	cluster.LiqoNamespace(cmd, &namespace)
	cmd.Flags().Int32Var(&port, "port", 0, "The port of the page on this machine; 0 takes a free one")
	return cmd
}

func runDashboard(ctx context.Context, c *cluster.Session, namespace string, port int32) error {
	g, err := newGatherer(ctx, c, namespace)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("opening the port of the page: %w", err)
	}
	defer listener.Close()
	within, stop := context.WithCancel(ctx)
	defer stop()
	f, err := newWatchedFeed(g)
	if err != nil {
		return err
	}
	m, err := newThroughputMeter(g)
	if err != nil {
		return err
	}
	f.measureThroughput(m)
	if err := c.RunStep("Reading the cluster", "The cluster is read", func() error { return f.renewSnapshot(within) }); err != nil {
		return err
	}
	go f.runFeed(within)
	go m.runMeter(within, f.isOpen, f.noteChange)
	token := rand.Text()
	at := listener.Addr().(*net.TCPAddr)
	web := newWebServer(newHandler(f, token, at))
	context.AfterFunc(within, func() { _ = web.Close() })
	fmt.Fprintf(c.Result(), "http://%s/#%s\n", at, token)
	c.Info("The page is served until Ctrl-C; who has the link on this machine can read what you can")
	if err := serveLimited(web, listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}

// newWatchedFeed returns a feed whose facts come from watches.
func newWatchedFeed(g *gatherer) (*feed, error) {
	httpClient, err := rest.HTTPClientFor(g.Config)
	if err != nil {
		return nil, fmt.Errorf("making the HTTP client: %w", err)
	}
	var f *feed
	reader := newWatchedReader(kube.Cluster{Config: g.Config, HTTP: httpClient, Mapper: g.Client.RESTMapper(), Scheme: kube.Scheme}, func() { f.noteChange() })
	g.Reader = reader
	f = newFeed(func(ctx context.Context) (*fleet.Facts, error) { return g.gatherFleet(reader.startRound(ctx)) }, reader.findOutage)
	return f, nil
}
