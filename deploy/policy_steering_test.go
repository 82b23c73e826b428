// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// badInput is a row of the table of bad input, which is told in whole on real clusters.
type badInput struct{ Kind, Fault, Object, Shows, Want string }

func badInputs(t *testing.T, placeholders ...string) []badInput {
	t.Helper()
	data, err := os.ReadFile("../test/e2e/testdata/badinput.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []badInput
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(placeholders...).Replace(string(data))), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func TestSteeringPolicy(t *testing.T) {
	c := install(t)
	plain, tenant := testkit.Namespace(t, c, "plain", nil), tenantNamespace(t, c, "milan")
	said := &warnings{}
	cfg := rest.CopyConfig(c.Config)
	cfg.WarningHandler = said
	user, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	write := func(t *testing.T, manifest string) string {
		t.Helper()
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
			t.Fatal(err)
		}
		*said = nil
		if err := user.Create(t.Context(), obj, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return strings.Join(*said, "; ")
	}
	rows := badInputs(t, "{{tenant}}", tenant, "{{plain}}", plain, "{{peer}}", "milan")
	rows = slices.DeleteFunc(rows, func(row badInput) bool { return row.Shows != "warning" })
	testkit.Eventually(t, 3*time.Minute, func() error { // every policy takes effect at a time of its own
		if write(t, rows[0].Object) == "" {
			return errors.New("nothing is said")
		}
		return nil
	})
	for _, row := range rows {
		t.Run(row.Kind+"/"+row.Fault, func(t *testing.T) {
			if got := write(t, row.Object); got != row.Want {
				t.Errorf("told:\n%s\nwant:\n%s", got, row.Want)
			}
		})
	}
	for name, metadata := range map[string]string{
		"nothing of ours":    `annotations: {example.com/a: b}, labels: {app: web}`,
		"of a pod":           `annotations: {liqo.io/anti-affinity-preset: hard, liqo.io/anti-affinity-labels: "app, example.com/b"}`,
		"a comma at the end": `annotations: {liqo.io/anti-affinity-preset: hard, liqo.io/anti-affinity-labels: "app, "}`,
		"no labels":          `annotations: {liqo.io/anti-affinity-preset: hard, liqo.io/anti-affinity-labels: ""}`,
		"an account":         `annotations: {liqo.io/api-server-support: remote, liqo.io/remote-service-account-name: reader}`,
		"switches":           `annotations: {liqo.io/skip-reflection: "", liqo.io/allow-reflection: "False", liqo.io/cordon: "0"}`,
		"of a firewall":      `labels: {networking.liqo.io/firewall-category: gateway, networking.liqo.io/firewall-unique: milan}`,
		"made from a set":    `annotations: {liqo.io/anti-affinity-preset: Hard}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: a, uid: b, controller: true}]`,
		"routes of gateways": `labels: {networking.liqo.io/route-category: gateway, networking.liqo.io/route-subcategory: fabric}`,
	} {
		t.Run("no fault/"+name, func(t *testing.T) {
			if got := write(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: `+plain+`, `+metadata+`}}`); got != "" {
				t.Errorf("told:\n%s", got)
			}
		})
	}
}

// notWritten are the labels, annotations and conditions that no user writes: ours, those of peers, and what is written for old readers.
var notWritten = []string{
	names.Replication, names.ReplicationDestination, names.ReplicationOrigin, names.Replicated, names.ResourceSliceName, names.ServedNonces, names.IssuedCertificate, names.RemoteTenantCSR,
	names.CreatorUser, names.CertificateFor, names.TenantCertificateFor, names.Managed, names.ManagedBy, names.Preinstalled, names.AppliedHash, names.DroppedMetadata, names.NodeType,
	names.Withdrawn, names.AppliedTaints, names.VirtualNode, names.OffloadingComponent, names.SchedulingEnabled, names.ShadowPod,
	names.PodAccepted, names.RemoteUnavailable, names.OffloadingDestination, names.OffloadingNodeName, names.OffloadingNamespace, names.OffloadingUID,
	names.OffloadingLabels, names.OffloadingAnnotations, names.StorageAvailable, names.ManagedByNamespaceMap, names.OriginalName,
	names.OffloadingPatchHash, names.ImposedAffinity, names.DirectConnections, names.Webhook, names.WebhookServiceName, names.NetworkNamespace,
	names.NetworkName, names.PreferredCIDR, names.CIDRType, names.LastGrant, names.IPType, names.AllowedPeers, names.NetworkingComponent, names.GatewayName, names.GatewayNamespace,
	names.GatewayActive, names.GatewayStandbys, names.GatewayTold, names.APIServerRoute, names.ServiceAccountName, names.TokenPodName, names.TokenPodUID, names.TokenExpiration, names.TokenRenewal, names.PeeringUser, names.FollowedOffer, names.Version, names.Capabilities,
	names.ReplicatorCopiesIn, names.DefaultLimits, names.RoleTolerations, names.KubernetesMinor,
	names.StorageProvisioner, names.StorageProvider, names.VirtualClaimNamespace, names.VirtualClaimName, names.VirtualVolume, names.RemoteClaim, names.ReclaimPolicy,
	names.VirtualVolumeFinalizer, names.ClaimProvisioned, names.MovedClaim,
}

func TestBadValues(t *testing.T) {
	rows := badInputs(t)
	for _, key := range keysOf(t, "../internal/names") {
		reported := slices.ContainsFunc(rows, func(row badInput) bool { return strings.Contains(row.Want, key) })
		if reported == slices.Contains(notWritten, key) {
			t.Errorf("%s: a row of bad input tells of it is %t, no user writes it is %t", key, reported, !reported)
		}
	}
}

// keysOf are the labels and annotations among the constants of a package.
func keysOf(t *testing.T, dir string) (keys []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are %d files: %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, isValue := n.(*ast.ValueSpec)
			if !isValue {
				return true
			}
			for i, value := range spec.Values {
				literal, isLiteral := value.(*ast.BasicLit)
				if !isLiteral || strings.HasSuffix(spec.Names[i].Name, "Finalizer") || strings.HasSuffix(spec.Names[i].Name, "Taint") {
					continue
				}
				if key, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(key, "liqo.io/") {
					keys = append(keys, key)
				}
			}
			return true
		})
	}
	return keys
}
