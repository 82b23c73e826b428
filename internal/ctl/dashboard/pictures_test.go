// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/names"
)

// newPictureTown returns the hour of a cluster with six peers: a tunnel was down for some minutes, and another one loses packets now.
func newPictureTown(t *testing.T) *changingTown {
	t.Helper()
	town := newChangingTown(t)
	f := town.facts
	f.Namespace, f.ServerVersion, f.CLIVersion, f.Unreadable = "liqo", "v1.37.2", "v0.2.0", map[string]string{}
	labels := map[string]string{names.AppPartOf: "liqo", names.AppName: "controller-manager", names.AppVersion: "v0.2.0"}
	f.Deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager", Labels: labels}}}
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo", Name: "default"}}
	f.ClusterBindings, f.Bindings = []rbacv1.ClusterRoleBinding{{Subjects: account}}, []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo"}, Subjects: account}}
	offloading := offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"}, Spec: offv1beta1.NamespaceOffloadingSpec{
		PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType}}
	offloading.Status.OffloadingPhase, offloading.Status.RemoteNamespaceName = offv1beta1.ReadyOffloadingPhaseType, "shop-rome"
	f.Facts.Offloadings, f.Offloadings = []offv1beta1.NamespaceOffloading{offloading}, []offv1beta1.NamespaceOffloading{offloading}
	f.Throughput = map[client.ObjectKey]fleet.Throughput{}
	for i := range 6 {
		p := newPeer("liqo-tenant-"+cityName(i), cityName(i))
		p.connection.Status.Latency.Value = fmt.Sprintf("%dms", 3+(i*i*7)%29)
		f.Peers, f.PublicKeys, f.Configurations = append(f.Peers, p.foreign), append(f.PublicKeys, p.key), append(f.Configurations, p.configuration)
		f.Clients, f.Connections, f.Slices = append(f.Clients, p.gateway), append(f.Connections, p.connection), append(f.Slices, p.slice)
		f.VirtualNodes, f.Nodes = append(f.VirtualNodes, p.virtualNode), append(f.Nodes, p.node)
		f.Throughput[client.ObjectKeyFromObject(&p.connection)] = fleet.Throughput{Received: int64(2_300_000 + i*i*9_700_000), Sent: int64(41_000_000 / (i + 1)), Loss: new(0.0)}
		for j := range 9 {
			f.OffloadedPods = append(f.OffloadedPods, *newOffloadedPod("shop", fmt.Sprintf("%s-%02d", []string{"web", "cart", "search"}[j%3], 10*i+j), cityName(i), true))
		}
	}
	for i := range f.Peers { // healthy for long
		for _, m := range [][]liqov1beta1.Condition{f.Peers[i].Status.Modules.Networking.Conditions, f.Peers[i].Status.Modules.Authentication.Conditions, f.Peers[i].Status.Modules.Offloading.Conditions, f.Peers[i].Status.Conditions} {
			m[0].LastTransitionTime = metav1.NewTime(f.Now.Add(-100 * time.Hour))
		}
	}
	town.previous, town.timeline = nil, fleet.Timeline{}
	turin := &f.Connections[1]
	for minute := range 60 {
		town.change(t, func() {
			f.Now = f.Now.Add(time.Minute - time.Second)
			switch minute {
			case 22:
				turin.Status.Value, turin.Status.Lost = networkingv1beta1.ConnectionError, networkingv1beta1.LostAll
			case 29:
				turin.Status.Value, turin.Status.Lost = networkingv1beta1.Connected, ""
			case 52:
				f.Throughput[client.ObjectKeyFromObject(&f.Connections[3])] = fleet.Throughput{Received: 1_900_000, Sent: 600_000, Loss: new(11.7)}
				f.Connections[3].Status.MTU = 1280
			}
			f.Pods = nil
			if waiting := min(max(0, minute-23), max(0, 34-minute), 5) + max(0, minute-57); waiting > 0 {
				for i := range waiting {
					f.Pods = append(f.Pods, *newOffloadedPod("shop", fmt.Sprintf("mail-%02d", i), "", false))
				}
			}
		})
	}
	return town
}

// TestPictures takes the pictures of the docs, light and dark.
func TestPictures(t *testing.T) {
	town := newPictureTown(t)
	b := newBrowser(t)
	b.open(t, "http://"+newTestServer(t, town.feed)+"/#"+testToken, "light")
	b.wait(t, `document.querySelectorAll("#map g").length === 7 && document.querySelectorAll("#tunnels tbody tr").length === 6`)
	b.wait(t, `document.getElementById("counts").textContent.includes("0 failed checks, 1 warning")`)
	b.resize(t, 1240)
	seen := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		b.setTheme(t, theme)
		data := b.screenshot(t)
		picture, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(picture.At(5, 5))] = true
		if *update {
			writePicture(t, "../../../docs/pictures/dashboard-"+theme+".png", picture)
		}
	}
	if len(seen) != 2 {
		t.Errorf("both themes have the background %v", seen)
	}
}

// writePicture writes a picture with its most frequent colours only, at a quarter of the size.
func writePicture(t *testing.T, name string, picture image.Image) {
	t.Helper()
	counts := map[color.Color]int{}
	bounds := picture.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[picture.At(x, y)]++
		}
	}
	colours := color.Palette(slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	}))
	small := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	draw.Draw(small, bounds, picture, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
