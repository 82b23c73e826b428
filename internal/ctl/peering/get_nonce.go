// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// GetNonce returns the command "get nonce".
func GetNonce(c *cluster.Session, o *cluster.Retrieval) *cobra.Command {
	return c.RunRetrieval(o, &cobra.Command{
		Use:     "nonce",
		Short:   "Print, in a provider, the nonce that a consumer is to sign",
		Example: "  liqoctl get nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, s *cluster.Cluster, _ []string) error { return runGetNonce(ctx, c, o, s) })
}

// runGetNonce prints no newline: the whole output is the nonce.
func runGetNonce(ctx context.Context, c *cluster.Session, o *cluster.Retrieval, s *cluster.Cluster) error {
	current, err := handshakeSecrets(ctx, s, names.Nonce, o.Peer)
	if err != nil {
		return err
	}
	if len(current) == 0 {
		return ui.Fail("nonce for %s not found", o.Peer).Hint("Make one, by: liqoctl create nonce --remote-cluster-id %s", o.Peer)
	}
	var nonce []byte
	if err := s.RunStep("Waiting for nonce to be generated", "", func() (err error) {
		nonce, err = awaitNonce(ctx, s, client.ObjectKeyFromObject(&current[0]))
		return err
	}); err != nil {
		return err
	}
	_, err = c.Result().Write(nonce)
	return err
}
