// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/proc"
	"liqo.io/liqo/playground/internal/spec"
)

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show clusters, their nodes and their use of memory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := home.Open()
			if err != nil {
				return err
			}
			clusters, err := h.Clusters()
			if err != nil {
				return err
			}
			if len(clusters) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "no clusters; run \"%s up\" to start two\n", os.Args[0])
				return nil
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CLUSTER\tNODE\tSTATE\tADDRESS\tPODS\tSERVICES\tMEMORY")
			for _, c := range clusters {
				showCluster(cmd.Context(), w, h, c)
			}
			return w.Flush()
		},
	}
}

func showCluster(ctx context.Context, w *tabwriter.Writer, h home.Home, c spec.Cluster) {
	memory := sumMemory(h, c)
	fmt.Fprintf(w, "%s\t\t%s\t%s\t%s\t%s\t%d MiB\n", c.Name, apiServerState(ctx, h, c), c.Server(),
		joinStrings(c.PodCIDRs()), joinStrings(c.ServiceCIDRs()), memory>>20)
	for _, n := range c.Nodes() {
		state := "stopped"
		if proc.Alive(node.PIDFile(h, n.Name)) {
			state = nodeState(ctx, h, c, n)
		}
		fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\t\t\n", n.Name, state, joinStrings(n.Addresses), joinStrings(n.PodCIDRs))
	}
}

func joinStrings[T fmt.Stringer](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, ",")
}

func clientFor(h home.Home, c spec.Cluster) (kubernetes.Interface, error) {
	config, err := cluster.Client(h, c.Name)
	if err != nil {
		return nil, err
	}
	config.Timeout = 2 * time.Second
	return kubernetes.NewForConfig(config)
}

func apiServerState(ctx context.Context, h home.Home, c spec.Cluster) string {
	if !proc.Alive(cluster.PIDFile(h, c.Name)) {
		return "stopped"
	}
	api, err := clientFor(h, c)
	if err != nil {
		return "broken"
	}
	if _, err := api.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return "not serving"
	}
	return "serving"
}

func nodeState(ctx context.Context, h home.Home, c spec.Cluster, n spec.Node) string {
	api, err := clientFor(h, c)
	if err != nil {
		return "running"
	}
	current, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return "running"
	case isNodeReady(current):
		return "ready"
	default:
		return "not ready"
	}
}

// sumMemory returns the sum of the proportional set sizes of a cluster's processes, in which shared memory counts once.
func sumMemory(h home.Home, c spec.Cluster) int64 {
	var sum int64
	seen := map[int]bool{}
	for _, n := range c.Nodes() {
		pids, _ := netns.Processes(c.World.NodeNetns(n.Name))
		pids = append(pids, descendants(proc.PID(node.PIDFile(h, n.Name)))...) // pods have their own network namespaces
		for _, pid := range pids {
			if !seen[pid] {
				seen[pid] = true
				sum += proportionalSetSize(pid)
			}
		}
	}
	return sum
}

// descendants returns the processes below a node's first process, which adopts orphans.
func descendants(pid int) []int {
	if pid == 0 {
		return nil
	}
	all := []int{}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		for _, f := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

func proportionalSetSize(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
