// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func golden(t *testing.T, obj any, want string) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(string(got))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestGrant(t *testing.T) {
	defaults := SliceDefaults{Resources: amounts("cpu", "4", "pods", "110"), NodeLabels: map[string]string{"liqo.io/provider": "kubeadm"}, DeclaredFeatures: []string{"A"}}
	for name, test := range map[string]struct {
		asked, had, want corev1.ResourceList
	}{
		"gives the defaults to who asks for nothing":    {want: amounts("cpu", "4", "pods", "110")},
		"gives what is asked, also above the defaults":  {asked: amounts("cpu", "20", "memory", "128Gi"), want: amounts("cpu", "20", "memory", "128Gi", "pods", "110")},
		"gives less than the defaults to who asks less": {asked: amounts("cpu", "1"), want: amounts("cpu", "1", "pods", "110")},
		"takes back what is no longer asked":            {had: amounts("nvidia.com/gpu", "8"), want: amounts("cpu", "4", "pods", "110")},
	} {
		t.Run(name, func(t *testing.T) {
			status := authv1beta1.ResourceSliceStatus{Resources: test.had}
			GrantResources(&authv1beta1.ResourceSliceSpec{Resources: test.asked}, defaults, &status)
			if diff := cmp.Diff(test.want, status.Resources); diff != "" {
				t.Error(diff)
			}
			if status.NodeLabels["liqo.io/provider"] != "kubeadm" || !slices.Equal(status.DeclaredFeatures, []string{"A"}) {
				t.Errorf("labels or features of the cluster are missing: %v %v", status.NodeLabels, status.DeclaredFeatures)
			}
			RevokeResources(&status)
			if diff := cmp.Diff(authv1beta1.ResourceSliceStatus{}, status); diff != "" {
				t.Errorf("something stays after revoking: %s", diff)
			}
		})
	}
	if defaults.Resources.Cpu().Value() != 4 {
		t.Error("granting changed the defaults")
	}
}

func TestQuota(t *testing.T) {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "test"}}
	slice.Status.Resources = amounts("cpu", "20")
	golden(t, NewQuota(slice, "test-0123456789ab", offv1beta1.SoftLimitsEnforcement, false), `
metadata:
  name: test-0123456789ab
  namespace: tenant
spec:
  limitsEnforcement: Soft
  resources:
    cpu: "20"
  user: test-0123456789ab
`)
	if q := NewQuota(slice, "u", "", true); q.Spec.Cordoned == nil || !*q.Spec.Cordoned {
		t.Error("not cordoned")
	}
}

func TestCordoned(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "yes": true, "false": false, "False": false, "0": false} {
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.Cordon: value}}}
		if got := IsCordoned(slice); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if IsCordoned(&authv1beta1.ResourceSlice{}) {
		t.Error("cordoned without the annotation")
	}
}

func TestAsksForVirtualNode(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": false, "yes": true, "false": false, "FALSE": false} {
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.CreateVirtualNode: value}}}
		if got := AsksForVirtualNode(slice); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func granted() *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "test"}}
	slice.Status = authv1beta1.ResourceSliceStatus{
		Resources:      amounts("cpu", "20", "memory", "-1Gi"),
		StorageClasses: []liqov1beta1.StorageType{{StorageClassName: "fast", Default: true}},
		NodeSelector:   map[string]string{"disk": "ssd"},

		DeclaredFeatures: []string{"RestartAllContainers"},

		AuthParams: &authv1beta1.AuthParams{APIServer: "https://provider:6443"},
	}
	return slice
}

func TestVirtualNode(t *testing.T) {
	nodeLabels := map[string]string{"topology.kubernetes.io/zone": "z", names.RemoteClusterID: "another"}
	golden(t, NewVirtualNode(granted(), "provider", "kubeconfig-resourceslice-test", nodeLabels), `
metadata:
  labels:
    liqo.io/remote-cluster-id: provider
    liqo.io/resourceslice-name: test
  name: test
  namespace: tenant
spec:
  clusterID: provider
  declaredFeatures:
  - RestartAllContainers
  kubeconfigSecretRef:
    name: kubeconfig-resourceslice-test
  labels:
    liqo.io/remote-cluster-id: provider
    topology.kubernetes.io/zone: z
  offloadingPatch:
    nodeSelector:
      disk: ssd
  resourceQuota:
    hard:
      cpu: "20"
  storageClasses:
  - default: true
    storageClassName: fast
`)
}

func TestIdentity(t *testing.T) {
	golden(t, NewIdentity(granted(), "provider"), `
metadata:
  labels:
    liqo.io/remote-cluster-id: provider
    liqo.io/resourceslice-name: test
  name: resourceslice-test
  namespace: tenant
spec:
  authParams:
    apiServer: https://provider:6443
  clusterID: provider
  type: ResourceSlice
`)
}

func TestVerdictTransitionTime(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var slice authv1beta1.ResourceSlice
	AuthenticationAccepted().Set(&slice.Status, start)
	AuthenticationAccepted().Set(&slice.Status, start.Add(time.Hour))
	if got := slice.Status.Conditions[0].LastTransitionTime.Time; !got.Equal(start) {
		t.Errorf("the time moved to %v", got)
	}
	AuthenticationDenied("why").Set(&slice.Status, start.Add(time.Hour))
	AuthenticationDenied("other").Set(&slice.Status, start.Add(2*time.Hour))
	if got := slice.Status.Conditions[0].LastTransitionTime.Time; !got.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("the time is %v", got)
	}
	if len(slice.Status.Conditions) != 1 {
		t.Errorf("there are %d conditions", len(slice.Status.Conditions))
	}
	const authentication = authv1beta1.ResourceSliceConditionTypeAuthentication
	if !IsDenied(&slice, authentication) || IsAccepted(&slice, authentication) {
		t.Error("it is not denied")
	}
	ClearDecision(&slice.Status, authentication)
	if IsDenied(&slice, authentication) || SliceCondition(&slice, authentication) != "" {
		t.Error("it is still decided")
	}
}

// family is three slices of one tenant, the first the oldest.
func family() []authv1beta1.ResourceSlice {
	var out []authv1beta1.ResourceSlice
	for i, name := range []string{"c", "b", "a"} {
		out = append(out, authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "tenant", UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+i), 0)),
		}})
	}
	return out
}

func TestCapsCount(t *testing.T) {
	all := family()
	for name, test := range map[string]struct {
		most  int
		wants []bool // by age
	}{
		"nothing is capped by default": {most: 0, wants: []bool{true, true, true}},
		"the older ones come first":    {most: 2, wants: []bool{true, true, false}},
		"one is one":                   {most: 1, wants: []bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range test.wants {
				if err := (SliceCaps{Slices: test.most}).Count(&all[i], all); (err == nil) != want {
					t.Errorf("slice %d: %v", i, err)
				}
			}
		})
	}
}

func TestCheckSliceAmounts(t *testing.T) {
	if err := CheckSliceAmounts(amounts("cpu", "-1")); err == nil {
		t.Error("a negative amount passed")
	}
	if err := CheckSliceAmounts(amounts("cpu", "0")); err != nil {
		t.Error(err)
	}
}

func TestCapsOldestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []authv1beta1.ResourceSlice
		for i := range rapid.IntRange(0, 8).Draw(t, "slices") {
			all = append(all, authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("s%d", i), UID: types.UID(fmt.Sprint(i)),
				CreationTimestamp: metav1.NewTime(time.Unix(rapid.Int64Range(0, 3).Draw(t, "second"), 0)),
			}})
		}
		caps := SliceCaps{Slices: rapid.IntRange(1, 8).Draw(t, "most")}
		var in, out []*authv1beta1.ResourceSlice
		for i := range all {
			if caps.Count(&all[i], all) == nil {
				in = append(in, &all[i])
			} else {
				out = append(out, &all[i])
			}
		}
		if want := min(caps.Slices, len(all)); len(in) != want {
			t.Fatalf("%d of %d slices are admitted, want %d", len(in), len(all), want)
		}
		for _, a := range in {
			for _, b := range out {
				if IsOlder(b, a) {
					t.Fatalf("%s is admitted before the older %s", a.Name, b.Name)
				}
			}
		}
	})
}

func TestGrantRequests(t *testing.T) {
	amounts := rapid.MapOf(rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "pods", "gpu"}),
		rapid.Map(rapid.Int64Range(0, 1000), func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }))
	rapid.Check(t, func(t *rapid.T) {
		requested, defaults := corev1.ResourceList(amounts.Draw(t, "asked")), corev1.ResourceList(amounts.Draw(t, "defaults"))
		status := authv1beta1.ResourceSliceStatus{Resources: amounts.Draw(t, "had")}
		GrantResources(&authv1beta1.ResourceSliceSpec{Resources: requested}, SliceDefaults{Resources: defaults}, &status)
		for name, got := range status.Resources {
			want, ok := requested[name]
			if !ok {
				want, ok = defaults[name]
			}
			if !ok || got.Cmp(want) != 0 {
				t.Fatalf("%s: granted %s of %v over %v", name, got.String(), requested, defaults)
			}
		}
		for name := range requested {
			if _, ok := status.Resources[name]; !ok {
				t.Fatalf("%s is asked for and not granted", name)
			}
		}
	})
}

func TestCapsOfSums(t *testing.T) {
	caps := SliceCaps{Tenant: amounts("cpu", "40"), Provider: amounts("cpu", "60", "memory", "100Gi")}
	for name, tc := range map[string]struct {
		asked, tenant, provider corev1.ResourceList
		want                    string
	}{
		"there is room":               {amounts("cpu", "20", "memory", "64Gi"), amounts("cpu", "20"), amounts("cpu", "40"), ""},
		"too much for the tenant":     {amounts("cpu", "21"), amounts("cpu", "20"), amounts("cpu", "20"), "the slices of a tenant may have 40 cpu together"},
		"too much for all":            {amounts("cpu", "20", "memory", "64Gi"), nil, amounts("cpu", "20", "memory", "64Gi"), "all slices may have 100Gi memory together"},
		"what is not named":           {amounts("example.com/gpu", "1000"), nil, nil, ""},
		"what is not asked for":       {amounts("memory", "1Gi"), amounts("cpu", "100"), amounts("cpu", "100"), ""},
		"a negative amount is nobody": {amounts("cpu", "-1"), amounts("cpu", "100"), amounts("cpu", "100"), ""},
	} {
		got := ""
		if err := caps.CheckSums(tc.asked, tc.tenant, tc.provider); err != nil {
			got = err.Error()
		}
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Who was granted a slice keeps it, whoever comes later with an earlier time or name.
func TestCapsKeepGranted(t *testing.T) {
	all := family()
	for _, i := range []int{1, 2} {
		AuthenticationAccepted().Set(&all[i].Status, time.Unix(0, 0))
	}
	for i, want := range []bool{false, true, true} {
		if err := (SliceCaps{Slices: 2}).Count(&all[i], all); (err == nil) != want {
			t.Errorf("slice %d: %v", i, err)
		}
	}
}
