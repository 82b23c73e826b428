// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

func (c *cli) getNonce(o *retrieval) *cobra.Command {
	return c.runRetrieval(o, &cobra.Command{
		Use:     "nonce",
		Short:   "Print, in a provider, the nonce that a consumer is to sign",
		Example: "  liqoctl get nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, s *Cluster, _ []string) error { return c.runGetNonce(ctx, o, s) })
}

// runGetNonce prints no newline: the whole output is the nonce.
func (c *cli) runGetNonce(ctx context.Context, o *retrieval, s *Cluster) error {
	have, err := s.handshakeSecrets(ctx, names.Nonce, o.peer)
	if err != nil {
		return err
	}
	if len(have) == 0 {
		return out.Fail("nonce for %s not found", o.peer).Hint("Make one, by: liqoctl create nonce --remote-cluster-id %s", o.peer)
	}
	var nonce []byte
	if err := s.runStep("Waiting for nonce to be generated", "", func() (err error) {
		nonce, err = s.awaitNonce(ctx, client.ObjectKeyFromObject(&have[0]))
		return err
	}); err != nil {
		return err
	}
	_, err = c.Result().Write(nonce)
	return err
}
