// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

//go:embed network.yaml
var networkYAML string

// Tunnel is what the administrators of two clusters tell each other to connect them.
type Tunnel struct {
	Server, Client                   string // IDs
	ServerNamespace, ClientNamespace string
	ServerPods, ServerExternal       string
	ClientPods, ClientExternal       string
	Address, Port                    string // of the server
	ServerKey, ClientKey             string
	MTU                              int // that both ends are told; 0: they find out

	server, client *Cluster
}

// NewTunnel is the tunnel of the guide, of which nothing is there yet.
func NewTunnel(server, client *Cluster, namespace string) *Tunnel {
	return &Tunnel{Server: server.ID, Client: client.ID, ServerNamespace: namespace, ClientNamespace: namespace, MTU: 1340, server: server, client: client}
}

// Connect applies the manifests of the guide, each as soon as what it tells is known, and waits until both ends say Connected.
func (t *Tunnel) Connect(ctx context.Context) error {
	for _, step := range []func(context.Context) error{t.networks, t.gatewayServer, t.gatewayClient, t.keys, t.Connected} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// networks are those of both clusters, as liqoctl tells them.
func (t *Tunnel) networks(ctx context.Context) error {
	for _, q := range []struct {
		of    *Cluster
		query string
		into  *string
	}{
		{t.server, "network.podcidrs[0]", &t.ServerPods}, {t.server, "network.externalcidr", &t.ServerExternal},
		{t.client, "network.podcidrs[0]", &t.ClientPods}, {t.client, "network.externalcidr", &t.ClientExternal},
	} {
		if err := until(ctx, "the network "+q.query+" of "+q.of.ID, func() error {
			out, err := q.of.Liqoctl("info", "--get", q.query)
			if *q.into = strings.TrimSpace(out); err == nil && *q.into == "" {
				err = errors.New("it has none yet")
			}
			return err
		}); err != nil {
			return err
		}
	}
	return t.apply("Configuration")
}

func (t *Tunnel) gatewayServer(ctx context.Context) error {
	if err := t.apply("GatewayServer"); err != nil {
		return err
	}
	return until(ctx, "the endpoint of the server", func() error {
		out, err := t.server.Kubectl("", "get", "gatewayserver", "-n", t.ServerNamespace, "server", "-o", "jsonpath={.status.endpoint.addresses[0]} {.status.endpoint.port}")
		var ok bool
		if t.Address, t.Port, ok = strings.Cut(out, " "); err == nil && (!ok || t.Address == "" || t.Port == "") {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

func (t *Tunnel) gatewayClient(context.Context) error { return t.apply("GatewayClient") }

func (t *Tunnel) keys(ctx context.Context) error {
	for _, k := range []struct {
		of               *Cluster
		namespace, ofKey string
		into             *string
	}{{t.server, t.ServerNamespace, "gw-server", &t.ServerKey}, {t.client, t.ClientNamespace, "gw-client", &t.ClientKey}} {
		if err := until(ctx, "the key of "+k.ofKey, func() error {
			out, err := k.of.Kubectl("", "get", "secret", "-n", k.namespace, k.ofKey, "-o", "jsonpath={.data.publicKey}")
			if *k.into = out; err == nil && out == "" {
				err = errors.New("it is empty")
			}
			return err
		}); err != nil {
			return err
		}
	}
	return t.apply("PublicKey")
}

// Connected waits until both ends say so.
func (t *Tunnel) Connected(ctx context.Context) error {
	return errors.Join(t.waitForConnection(ctx, t.server, t.ServerNamespace, "gw-server"), t.waitForConnection(ctx, t.client, t.ClientNamespace, "gw-client"))
}

func (t *Tunnel) waitForConnection(ctx context.Context, c *Cluster, namespace, name string) error {
	return until(ctx, "the Connection "+name, func() error {
		out, err := c.Kubectl("", "get", "connection", "-n", namespace, name, "-o", "jsonpath={.status.value}")
		if err == nil && out != "Connected" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

// Disconnect deletes all that Connect applied, and waits for what was made of it.
func (t *Tunnel) Disconnect(ctx context.Context) error {
	for _, side := range []struct {
		c         *Cluster
		namespace string
	}{{t.client, t.ClientNamespace}, {t.server, t.ServerNamespace}} {
		kinds := "gatewayclients,gatewayservers,publickeies,configurations"
		if _, err := side.c.Kubectl("", "delete", kinds, "-n", side.namespace, "--all"); err != nil {
			return err
		}
		if err := until(ctx, "the gateways of "+side.c.ID+" to go", func() error {
			for _, one := range [][2]string{
				{"connections,wggatewayclients,wggatewayservers,networks,ips", "liqo.io/remote-cluster-id"}, {"pods", "networking.liqo.io/component=gateway"},
			} {
				out, err := side.c.Kubectl("", "get", one[0], "-n", side.namespace, "-l", one[1], "-o", "name")
				if err == nil && out != "" {
					err = fmt.Errorf("%q is left", out)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the manifests of a kind, on the sides where they belong.
func (t *Tunnel) apply(kind string) error {
	var text bytes.Buffer
	if err := template.Must(template.New("network").Parse(networkYAML)).Execute(&text, t); err != nil {
		return err
	}
	for part := range strings.SplitSeq(text.String(), "\n---\n") {
		if !slices.Contains(strings.Split(part, "\n"), "kind: "+kind) {
			continue
		}
		on := t.client
		if strings.Contains(part, "# side: server") {
			on = t.server
		}
		if _, err := on.Kubectl(part, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// until waits for what must come.
func until(ctx context.Context, what string, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(last, err))
	}
	return nil
}
