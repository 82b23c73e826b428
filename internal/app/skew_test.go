// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

//go:build skew

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// release is a minor version of Kubernetes with the folder of its programs.
type release struct {
	minor  int
	folder string
}

// skewAssets names the folders: 1.35=/folder,1.36=/folder.
const skewAssets = "LIQO_SKEW_ASSETS"

func releases(t *testing.T) []release {
	t.Helper()
	var out []release
	for entry := range strings.SplitSeq(os.Getenv(skewAssets), ",") {
		version, folder, _ := strings.Cut(entry, "=")
		minor, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
		if err != nil || folder == "" {
			t.Fatalf("%s is %q: test/run.sh skew sets it", skewAssets, os.Getenv(skewAssets))
		}
		out = append(out, release{minor, folder})
	}
	if len(out) < 2 {
		t.Fatalf("one version makes no pair: %s", os.Getenv(skewAssets))
	}
	slices.SortFunc(out, func(a, b release) int { return a.minor - b.minor })
	return out
}

// cluster returns the consumer or the provider of that version.
func (r release) cluster(t *testing.T, provider bool) *testkit.ControlPlane {
	t.Helper()
	n := 2 * (r.minor - policy.OldestTestedMinor)
	if provider {
		n++
	}
	c := testkit.NthCluster(t, n, testkit.WithAssets(r.folder), kubernetesControllers)
	version, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().ServerVersion()
	if err != nil || version.Minor != strconv.Itoa(r.minor) {
		t.Fatalf("the API server of %s is 1.%s: %v", r.folder, version.Minor, err)
	}
	return c
}

// Every version lends to every other one: a pod arrives with all its fields, or is refused by the name of the field.
func TestSkewPairs(t *testing.T) {
	all := releases(t)
	for _, consumer := range all {
		for _, provider := range all {
			t.Run(fmt.Sprintf("1.%d_in_1.%d", consumer.minor, provider.minor), func(t *testing.T) {
				w := worldOf(t, consumer.cluster(t, false), provider.cluster(t, true))
				s := &skewPair{topology: w, consumer: consumer.minor, provider: provider.minor}
				w.named(t, 100*consumer.minor+provider.minor)
				s.addNode(t)
				w.startAll(t)
				for _, d := range w.documents(t) {
					w.apply(t, d)
				}
				w.eventually(t, "the pair to work", w.works)
				s.checkNode(t)
				s.checkFields(t)
				s.checkResize(t)
				s.checkNewField(t)
				s.checkQuiet(t)
				w.deleteAll(t)
			})
		}
	}
}

type skewPair struct {
	*topology
	consumer, provider int
	// node is the virtual node when it was complete.
	node corev1.Node
}

// featuresOf are what kubelets of that version declare; the last one says nothing about pods.
func featuresOf(minor int) []string {
	if minor < 36 {
		return nil
	}
	return []string{"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits"}
}

// addNode gives the provider a node of its version.
func (s *skewPair) addNode(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker" + s.tag}}
	testkit.Create(t, s.topology.provider.Client, node)
	t.Cleanup(func() { _ = s.topology.provider.Client.Delete(context.Background(), node) })
	node.Status.NodeInfo.KubeletVersion = fmt.Sprintf("v1.%d.0", s.provider)
	node.Status.DeclaredFeatures = featuresOf(s.provider)
	if err := s.topology.provider.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func (s *skewPair) checkNode(t *testing.T) {
	t.Helper()
	var want []string
	if s.provider >= 36 {
		want = featuresOf(s.provider)[1:]
	}
	s.eventually(t, "version and features of the node", func(ctx context.Context) error {
		if err := s.topology.consumer.Client.Get(ctx, client.ObjectKey{Name: s.Slice}, &s.node); err != nil {
			return err
		}
		if got := s.node.Labels[names.KubernetesMinor]; got != strconv.Itoa(s.provider) {
			return fmt.Errorf("the version is %q", got)
		}
		if diff := cmp.Diff(want, s.node.Status.DeclaredFeatures); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// checkQuiet fails if the node was written again.
func (s *skewPair) checkQuiet(t *testing.T) {
	t.Helper()
	var now corev1.Node
	if err := s.topology.consumer.Client.Get(t.Context(), client.ObjectKey{Name: s.Slice}, &now); err != nil {
		t.Fatal(err)
	}
	if now.ResourceVersion != s.node.ResourceVersion {
		t.Errorf("the node was written while nothing changed: %s", cmp.Diff(s.node, now))
	}
}

func (s *skewPair) newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: s.Slice, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations: []corev1.Toleration{policy.VirtualNodeToleration()},
			Containers:  []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
}

// create makes a pod in the consumer, where the webhooks may have begun just now.
func (s *skewPair) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.eventually(t, "the API server to take "+pod.Name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(s.topology.consumer.Client.Create(ctx, pod))
	})
}

// remotePod waits for the pod of the provider.
func (s *skewPair) remotePod(t *testing.T, name string, check func(*corev1.Pod) error) {
	t.Helper()
	s.eventually(t, name+" in the provider", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := s.topology.provider.Client.Get(ctx, client.ObjectKey{Namespace: s.Twin(), Name: name}, pod); err != nil {
			return err
		}
		return check(pod)
	})
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// sameAs returns a check that a remote pod has the fields of pod.
func sameAs(pod *corev1.Pod) func(*corev1.Pod) error {
	return func(remote *corev1.Pod) error {
		remote.Spec.Containers[0].Env = nil // variables of the API server
		for what, pair := range map[string][2]any{
			"hostUsers": {pod.Spec.HostUsers, remote.Spec.HostUsers}, "resources": {pod.Spec.Resources, remote.Spec.Resources},
			"volumes": {pod.Spec.Volumes, remote.Spec.Volumes}, "containers": {pod.Spec.Containers, remote.Spec.Containers},
		} {
			if !apiequality.Semantic.DeepEqual(pair[0], pair[1]) {
				return fmt.Errorf("%s: %s", what, cmp.Diff(pair[0], pair[1]))
			}
		}
		return nil
	}
}

// checkFields brings fields that all versions have to the provider.
func (s *skewPair) checkFields(t *testing.T) {
	t.Helper()
	pod := s.newPod("fields")
	pod.Spec.HostUsers = new(false)
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("2", "1Gi"), Limits: amounts("4", "2Gi")}
	pod.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "registry.example/model:1", PullPolicy: corev1.PullIfNotPresent}}}}
	main := &pod.Spec.Containers[0]
	main.Resources.Requests = amounts("1", "128Mi")
	main.VolumeMounts = []corev1.VolumeMount{{Name: "model", MountPath: "/model", ReadOnly: true}}
	s.create(t, pod)
	s.remotePod(t, pod.Name, sameAs(pod))
	if s.consumer < 36 { // which resizes no pods with amounts of their own
		return
	}
	err := s.resize(t, pod, `{"spec":{"resources":{"requests":{"cpu":"3"}}}}`)
	if s.provider < 36 {
		if err == nil || !strings.Contains(err.Error(), "InPlacePodLevelResourcesVerticalScaling") {
			t.Errorf("the resize that nodes of the provider cannot do: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("resizing a pod with amounts of its own: %v", err)
	}
	s.remotePod(t, pod.Name, sameAs(pod))
}

// resize changes a pod in place.
func (s *skewPair) resize(t *testing.T, pod *corev1.Pod, patch string) error {
	t.Helper()
	return s.topology.consumer.Client.SubResource("resize").Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

func (s *skewPair) checkResize(t *testing.T) {
	t.Helper()
	pod := s.newPod("resized")
	main := &pod.Spec.Containers[0]
	main.Resources.Requests = amounts("1", "128Mi")
	main.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired}}
	s.create(t, pod)
	s.remotePod(t, pod.Name, sameAs(pod))
	if err := s.resize(t, pod, `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1500m"}}}]}}`); err != nil {
		t.Fatalf("resizing the pod: %v", err)
	}
	if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1500m" {
		t.Fatalf("the resized pod requests %s", got)
	}
	s.remotePod(t, pod.Name, sameAs(pod))
}

// checkNewField uses a field that Kubernetes 1.37 enabled by default, which older consumers do not have.
func (s *skewPair) checkNewField(t *testing.T) {
	t.Helper()
	if s.consumer < 37 {
		return
	}
	trusting := func(name string) *corev1.Pod {
		pod := s.newPod(name)
		pod.Spec.Volumes = []corev1.Volume{{Name: "trust", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("bundle"), Path: "ca.crt"}}},
		}}}}
		return pod
	}
	const field = "spec.volumes[*].projected.sources[*].clusterTrustBundle"
	unbound := trusting("unbound")
	unbound.Spec.NodeName = ""
	s.create(t, unbound)
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(unbound).Match(&s.node); err != nil || fits != (s.provider >= 37) {
		t.Errorf("the scheduler may choose the node is %t: %v, affinity %v", fits, err, unbound.Spec.Affinity)
	}
	bound := trusting("bound")
	s.create(t, bound)
	if s.provider >= 37 {
		s.remotePod(t, bound.Name, func(remote *corev1.Pod) error {
			if !apiequality.Semantic.DeepEqual(bound.Spec.Volumes, remote.Spec.Volumes) {
				return errors.New(cmp.Diff(bound.Spec.Volumes, remote.Spec.Volumes))
			}
			return nil
		})
		return
	}
	s.eventually(t, "the refusal", func(ctx context.Context) error {
		if err := s.topology.consumer.Client.Get(ctx, client.ObjectKeyFromObject(bound), bound); err != nil {
			return err
		}
		want := fmt.Sprintf("%s needs Kubernetes 1.37, and the provider has 1.%d", field, s.provider)
		for _, c := range bound.Status.Conditions {
			if c.Type == names.PodAccepted && c.Reason == "ProviderTooOld" && strings.Contains(c.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", bound.Status.Conditions)
	})
	if err := s.topology.provider.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Twin(), Name: bound.Name}, &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the provider has the pod: %v", err)
	}
}

// leftOut are new fields that no provider gets: see translate.ShadowPod.
var leftOut = []string{"spec.schedulingGroup", "spec.evictionResponders"}

// Each field that the OpenAPI of a version adds to the one before has a row in the table, and each row is true.
func TestSkewFieldTable(t *testing.T) {
	all := releases(t)
	rows := policy.NewPodFields()
	known := map[int]map[string]bool{}
	for _, r := range all {
		known[r.minor] = podPaths(t, r.cluster(t, false))
		if len(known[r.minor]) < 500 {
			t.Fatalf("1.%d has %d fields of pods", r.minor, len(known[r.minor]))
		}
	}
	for i, r := range all[1:] {
		before := known[all[i].minor]
		for path := range known[r.minor] {
			out := slices.ContainsFunc(leftOut, func(prefix string) bool {
				return path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[")
			})
			row := slices.ContainsFunc(rows, func(f policy.PodField) bool { return f.Minor == r.minor && f.Path == strings.TrimSuffix(path, "[*]") })
			if !before[path] && !out && !row {
				t.Errorf("1.%d adds %s, which policy.NewPodFields does not have", r.minor, path)
			}
		}
	}
	newest := all[len(all)-1]
	for _, f := range rows {
		if f.Minor <= newest.minor && !known[newest.minor][f.Path] && !known[newest.minor][f.Path+"[*]"] {
			t.Errorf("1.%d has no field %s", newest.minor, f.Path)
		}
	}
}

// podPaths returns the paths of all fields in the spec of a pod, as the API server publishes them.
func podPaths(t *testing.T, c *testkit.ControlPlane) map[string]bool {
	t.Helper()
	data, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("reading the OpenAPI: %v", err)
	}
	type schema struct {
		Ref        string             `json:"$ref"`
		Properties map[string]*schema `json:"properties"`
		Items      *schema            `json:"items"`
	}
	var api struct {
		Definitions map[string]*schema `json:"definitions"`
	}
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatalf("decoding the OpenAPI: %v", err)
	}
	const prefix, spec = "#/definitions/", "io.k8s.api.core.v1.PodSpec"
	out := map[string]bool{}
	var walk func(s *schema, path string)
	walk = func(s *schema, path string) {
		if name, ok := strings.CutPrefix(s.Ref, prefix); ok {
			s = api.Definitions[name]
		}
		if s.Items != nil {
			path += "[*]"
		}
		out[path] = true
		if s.Items != nil {
			item := s.Items
			if name, ok := strings.CutPrefix(item.Ref, prefix); ok {
				item = api.Definitions[name]
			}
			s = item
		}
		if strings.Contains(path, "labelSelector") || strings.Contains(path, "matchExpressions") {
			return
		}
		for name, child := range s.Properties {
			walk(child, path+"."+name)
		}
	}
	if api.Definitions[spec] == nil {
		t.Fatal("the OpenAPI has no pods")
	}
	walk(api.Definitions[spec], "spec")
	return out
}
