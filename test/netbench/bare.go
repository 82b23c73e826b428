// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"liqo.io/liqo/test/traffic"
)

// Bare is the library alone: one process in the namespace of each end, with the library's defaults.

const (
	bareDevice = "liqo-bare"
	barePort   = 51999
)

var bareNetwork = [2]netip.Prefix{netip.MustParsePrefix("198.18.0.1/30"), netip.MustParsePrefix("198.18.0.2/30")}

// bare connects the ends of a path until the context ends. The first one finds the other at that address; the other one answers where
// packets come from.
func bare(ctx context.Context, p traffic.Path, at netip.AddrPort) (traffic.Path, error) {
	var keys [2]*ecdh.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return traffic.Path{}, err
		}
	}
	ends := [2]*traffic.Endpoint{&p.From, &p.To}
	for i, end := range ends {
		peer := 1 - i
		config := fmt.Sprintf("private_key=%x\nlisten_port=%d\npublic_key=%x\nallowed_ip=%s\n",
			keys[i].Bytes(), barePort, keys[peer].PublicKey().Bytes(), bareNetwork[peer].Masked())
		if i == 0 {
			config += fmt.Sprintf("endpoint=%s\n", at)
		}
		if err := startBare(ctx, *end, bareNetwork[i], config); err != nil {
			return traffic.Path{}, err
		}
		end.Own, end.Seen = bareNetwork[i].Addr(), bareNetwork[i].Addr()
	}
	p.Name = "bare wireguard-go, " + p.Name
	return p, nil
}

// bareNodes is the shortest way there is: between the nodes of the gateways.
func (w *benchEnv) bareNodes(ctx context.Context) (traffic.Path, error) {
	return bare(ctx, traffic.Path{Name: "nodes", From: w.nodes[0], To: w.nodes[1]}, netip.AddrPortFrom(w.nodes[1].Seen, barePort))
}

// barePods is the way between the pods of a path, which are reached as gateways are: by a port of a node.
func (w *benchEnv) barePods(ctx context.Context, p traffic.Path) (traffic.Path, error) {
	c := w.clusters[1]
	at := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{traffic.PodLabel: p.To.Node},
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: barePort}},
	}}
	at.Namespace, at.Name = "default", "bare-"+p.To.Node
	if err := client.IgnoreAlreadyExists(c.Client.Create(ctx, at)); err != nil {
		return traffic.Path{}, err
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(at), at); err != nil {
		return traffic.Path{}, err
	}
	var node corev1.Node
	if err := c.Client.Get(ctx, client.ObjectKey{Name: p.To.Node}, &node); err != nil {
		return traffic.Path{}, err
	}
	i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		return traffic.Path{}, fmt.Errorf("node %s has no address", node.Name)
	}
	addr, err := netip.ParseAddr(node.Status.Addresses[i].Address)
	if err != nil {
		return traffic.Path{}, err
	}
	return bare(ctx, p, netip.AddrPortFrom(addr, uint16(at.Spec.Ports[0].NodePort)))
}

// startBare starts this program once more, in the namespace, and waits until its device is there.
func startBare(ctx context.Context, in traffic.Endpoint, address netip.Prefix, config string) error {
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+in.File, "/proc/self/exe", bareCommand, address.String())
	stdin, err := cmd.StdinPipe() // keys are no arguments. It stays open: its end is that of the other process
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd.Args[2] = self
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the bare library: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	if _, err := io.WriteString(stdin, config+"\n"); err != nil {
		return fmt.Errorf("configuring the bare library: %w", err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for the bare library: %w", err)
	}
	return nil
}

const bareCommand = "bare"

// runBare is one end. It reads its configuration and goes on while the process that began it is there.
func runBare(address string) error {
	stdin := bufio.NewReader(os.Stdin)
	config, err := paragraph(stdin)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	t, err := tun.CreateTUN(bareDevice, device.DefaultMTU)
	if err != nil {
		return fmt.Errorf("making the device: %w", err)
	}
	d := device.NewDevice(t, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, ""))
	if err := d.IpcSet(config); err != nil {
		return fmt.Errorf("configuring the device: %w", err)
	}
	for _, args := range [][]string{{"addr", "add", address, "dev", bareDevice}, {"link", "set", bareDevice, "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	if err := d.Up(); err != nil {
		return fmt.Errorf("starting the device: %w", err)
	}
	fmt.Println("up")
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// paragraph reads lines up to an empty one.
func paragraph(r *bufio.Reader) (string, error) {
	var lines strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == "\n" {
			return lines.String(), nil
		}
		lines.WriteString(line)
	}
}
