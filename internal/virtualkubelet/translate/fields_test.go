// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "rewrite the table of fields in docs/pod-fields.md")

// fate is what becomes of a field on the other side.
type fate string

const (
	kept    fate = "kept"
	changed fate = ""
	stays   fate = "left out"
)

// field is one row of the table in docs/pod-fields.md. A field of Kubernetes without a row fails the tests: it is a
// decision to take.
type field struct {
	fate fate
	// follows: a later change of the pod changes it in the provider, too.
	follows bool
	note    string
}

// plain are fields that are kept, cannot change later, and need no explanation.
func plain(names ...string) map[string]field {
	out := map[string]field{}
	for _, name := range names {
		out[name] = field{fate: kept}
	}
	return out
}

func with(base, more map[string]field) map[string]field {
	maps.Copy(base, more)
	return base
}

var podFields = with(plain(
	"dnsConfig", "dnsPolicy", "enableServiceLinks", "hostname", "hostnameOverride", "hostUsers", "os",
	"restartPolicy", "securityContext", "shareProcessNamespace", "subdomain",
), map[string]field{
	"activeDeadlineSeconds":         {fate: kept, follows: true},
	"affinity":                      {note: "the anti-affinity that `liqo.io/anti-affinity-preset` asks for, and the node affinity of the `offloadingPatch`; the pod's own chose the virtual node"},
	"automountServiceAccountToken":  {note: "`true` with `liqo.io/api-server-support: remote`, else `false`"},
	"containers":                    {follows: true, note: "see below"},
	"initContainers":                {follows: true, note: "see below; sidecars stay sidecars"},
	"ephemeralContainers":           {follows: true, note: "added to the running pod; none runs twice if the provider recreates the pod"},
	"hostAliases":                   {fate: kept, note: "that of the consumer's API server comes first"},
	"hostIPC":                       {fate: stays, note: "an event says so"},
	"hostNetwork":                   {fate: stays, note: "an event says so; the host ports that come with it are left out, too"},
	"hostPID":                       {fate: stays, note: "an event says so"},
	"imagePullSecrets":              {fate: kept, note: "the Secrets are copied"},
	"nodeName":                      {fate: stays, note: "names the virtual node"},
	"nodeSelector":                  {note: "that of the `offloadingPatch`; the pod's own chose the virtual node"},
	"overhead":                      {fate: stays, note: "the provider's runtime class has its own"},
	"preemptionPolicy":              {fate: stays, note: "belongs to the priority"},
	"priority":                      {fate: stays, note: "the provider ranks the pods of its consumers itself"},
	"priorityClassName":             {fate: stays, note: "as `priority`"},
	"readinessGates":                {fate: stays, note: "opened in the consumer; the local pod is not ready until they are"},
	"resourceClaims":                {fate: stays, note: "objects of the consumer; an event says so"},
	"resources":                     {fate: kept, follows: true},
	"runtimeClassName":              {note: "the annotation `liqo.io/remote-runtime-class-name`, else the pod's own unless it is `liqo`, else that of the `offloadingPatch`"},
	"schedulerName":                 {fate: stays, note: "the provider's default scheduler places the pod"},
	"evictionResponders":            {fate: stays, note: "eviction requests are about the local pod, whose deletion is passed on"},
	"schedulingGates":               {fate: stays, note: "they were open, or the pod would have no node"},
	"schedulingGroup":               {fate: stays, note: "names an object of the consumer, whose scheduler has placed the group"},
	"serviceAccount":                {fate: stays, note: "the old name of `serviceAccountName`"},
	"serviceAccountName":            {note: "none; with `liqo.io/api-server-support: remote` [the provider's account](pods.md#identity-and-api-server)"},
	"setHostnameAsFQDN":             {fate: kept, note: "the domain has the name of the remote namespace"},
	"terminationGracePeriodSeconds": {fate: kept, note: "the grace period of a deletion is passed on, too"},
	"tolerations":                   {follows: true, note: "without those of virtual nodes; those of `node-role.kubernetes.io/*` and `CriticalAddonsOnly` if the provider sets `controlPlane`; with those of the `offloadingPatch`"},
	"topologySpreadConstraints":     {note: "kept, without what the API server merged from `matchLabelKeys`"},
	"volumes":                       {note: "see below"},
})

var containerFields = with(plain(
	"name", "command", "args", "workingDir", "resizePolicy", "restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices",
	"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy",
	"securityContext", "stdin", "stdinOnce", "tty",
), map[string]field{
	"env":       {note: "references to UID, node and account become local values, the namespace with `liqo.io/downward-api-namespace: local`; [variables of the API server](pods.md#namespace-and-environment) come first"},
	"envFrom":   {note: "kept; `kube-root-ca.crt` is the consumer's"},
	"image":     {fate: kept, follows: true},
	"ports":     {note: "kept, without host ports that come from `hostNetwork`"},
	"resources": {follows: true, note: "kept, without `claims`"},
})

var volumeFields = with(plain(
	"emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs", "iscsi", "glusterfs", "rbd", "flexVolume", "cinder",
	"cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO",
	"storageos", "csi", "image",
), map[string]field{
	"configMap":             {note: "kept; `kube-root-ca.crt` is the consumer's"},
	"downwardAPI":           {note: "UID, labels and annotations are local, the namespace with `liqo.io/downward-api-namespace: local`"},
	"hostPath":              {fate: kept, note: "most providers reject it"},
	"ephemeral":             {fate: kept, note: "the claim with the data if [its volume is in the provider](storage.md), else kept"},
	"persistentVolumeClaim": {fate: kept, note: "the claim with the data if [its volume is in the provider](storage.md), else that of the name in the remote namespace"},
	"projected":             {note: "see below"},
})

var projectionFields = with(plain("secret"), map[string]field{
	"clusterTrustBundle":  {fate: kept, note: "the provider's bundle of that name or signer"},
	"configMap":           {note: "as the volume"},
	"downwardAPI":         {note: "as the volume; beside a token the namespace is the local one"},
	"podCertificate":      {fate: stays, note: "it would be a credential of the provider; kept with `liqo.io/api-server-support: remote`"},
	"serviceAccountToken": {note: "a Secret with the consumer's token, or left out: [tokens](pods.md#identity-and-api-server); kept with `liqo.io/api-server-support: remote`"},
})

var statusFields = with(plain("message", "reason", "startTime", "resources", "allocatedResources"), map[string]field{
	"conditions":                           {note: "the provider's; those that others set in the consumer stay, and closed gates keep the pod from being ready"},
	"containerStatuses":                    {note: "see below"},
	"initContainerStatuses":                {note: "see below"},
	"ephemeralContainerStatuses":           {note: "as reported; what ended stays ended"},
	"extendedResourceClaimStatus":          {fate: stays, note: "the consumer's own"},
	"nodeAllocatableResourceClaimStatuses": {fate: stays, note: "about claims, which are left out"},
	"volumeHealth":                         {note: "as reported, of the pod's volumes"},
	"resourceClaimStatuses":                {fate: stays, note: "the consumer's own"},
	"resize":                               {note: "as reported, if it is one of the API's"},
	"hostIP":                               {note: "the virtual node's"},
	"hostIPs":                              {note: "the virtual node's"},
	"nominatedNodeName":                    {fate: stays, note: "the consumer's own"},
	"observedGeneration":                   {note: "the local generation, once the provider's node has the resources of it"},
	"phase":                                {note: "never goes back: a running pod stays Running while the provider recreates its pod; one that ended stays ended"},
	"podIP":                                {note: "translated by the Configuration of the provider; empty without a network to it"},
	"podIPs":                               {note: "as `podIP`, all of them"},
	"qosClass":                             {fate: stays, note: "never changes"},
})

var containerStatusFields = with(plain(
	"name", "state", "lastState", "ready", "image", "imageID", "containerID", "started", "allocatedResources", "resources", "volumeMounts",
	"user", "allocatedResourcesStatus",
), map[string]field{
	"stopSignal":   {note: "as reported, if it is a signal"},
	"restartCount": {note: "continues when the provider recreates the pod, which counts as one more"},
})

// parts are the tables of the page.
var parts = []struct {
	title  string
	typ    reflect.Type
	fields map[string]field
}{
	{"Pod spec, to the provider", reflect.TypeFor[corev1.PodSpec](), podFields},
	{"Containers, to the provider", reflect.TypeFor[corev1.Container](), containerFields},
	{"Volumes, to the provider", reflect.TypeFor[corev1.VolumeSource](), volumeFields},
	{"Projected volume sources, to the provider", reflect.TypeFor[corev1.VolumeProjection](), projectionFields},
	{"Pod status, back", reflect.TypeFor[corev1.PodStatus](), statusFields},
	{"Container statuses, back", reflect.TypeFor[corev1.ContainerStatus](), containerStatusFields},
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func TestEveryFieldHasARow(t *testing.T) {
	for _, part := range parts {
		remaining := maps.Clone(part.fields)
		for i := range part.typ.NumField() {
			name := jsonName(part.typ.Field(i))
			if _, ok := remaining[name]; !ok {
				t.Errorf("%s.%s has no row: decide what becomes of it", part.typ, name)
			}
			delete(remaining, name)
		}
		for name := range remaining {
			t.Errorf("%s has no field %s", part.typ, name)
		}
	}
	// Ephemeral containers are translated as the containers they are otherwise the same as.
	if _, ok := reflect.TypeFor[corev1.Container]().FieldByName("TargetContainerName"); ok || !reflect.TypeFor[corev1.EphemeralContainerCommon]().ConvertibleTo(reflect.TypeFor[corev1.Container]()) {
		t.Error("ephemeral containers have become something else")
	}
	if n := reflect.TypeFor[corev1.EphemeralContainer]().NumField(); n != 2 {
		t.Errorf("ephemeral containers have %d fields of their own", n-1)
	}
}

// check fills one field of a value after the other, and compares what translating makes of it with its row.
func check[T any](t *testing.T, fields map[string]field, translate func(T) T) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	for i := range typ.NumField() {
		var in T
		fill(reflect.ValueOf(&in).Elem().Field(i))
		want := reflect.ValueOf(in).Field(i)
		got := reflect.ValueOf(translate(in)).Field(i)
		name := jsonName(typ.Field(i))
		switch same := reflect.DeepEqual(got.Interface(), want.Interface()); fields[name].fate {
		case kept:
			if !same {
				t.Errorf("%s.%s must be kept, is %v", typ, name, got)
			}
		case stays:
			if !got.IsZero() {
				t.Errorf("%s.%s must be left out, is %v", typ, name, got)
			}
		}
	}
}

func TestEveryFieldDoesWhatItsRowSays(t *testing.T) {
	forward := func(spec corev1.PodSpec) corev1.PodSpec {
		return ShadowPod(Input{Target: target, Pod: &corev1.Pod{Spec: spec}}).Spec.Pod
	}
	back := func(status corev1.PodStatus) corev1.PodStatus {
		requested := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "x"}}, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"x": {}}}}
		named := requested
		named.Name = "x"
		local := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{requested, named}}}
		return PodStatus(StatusInput{Local: local, Remote: &corev1.Pod{Status: status}})
	}
	check(t, podFields, forward)
	check(t, containerFields, func(c corev1.Container) corev1.Container {
		return forward(corev1.PodSpec{Containers: []corev1.Container{c}}).Containers[0]
	})
	check(t, volumeFields, func(v corev1.VolumeSource) corev1.VolumeSource {
		return forward(corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: v}}}).Volumes[0].VolumeSource
	})
	check(t, projectionFields, func(p corev1.VolumeProjection) corev1.VolumeProjection {
		projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}
		out := forward(corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: projected}}}}).Volumes[0].Projected
		return append(out.Sources, corev1.VolumeProjection{})[0]
	})
	check(t, statusFields, back)
	check(t, containerStatusFields, func(s corev1.ContainerStatus) corev1.ContainerStatus {
		return back(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}).ContainerStatuses[0]
	})
}

func TestEveryFieldFollowsIfItsRowSaysSo(t *testing.T) {
	after := func(edit func(pod *corev1.PodSpec)) (before, now corev1.PodSpec) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}, InitContainers: []corev1.Container{{Name: "init"}}}}
		existing := ShadowPod(Input{Target: target, Pod: pod})
		edit(&pod.Spec)
		return existing.Spec.Pod, ShadowPod(Input{Target: target, Pod: pod, Existing: existing}).Spec.Pod
	}
	verdict := func(name string, want bool, before, now corev1.PodSpec) {
		t.Helper()
		if got := !reflect.DeepEqual(before, now); got != want {
			t.Errorf("a later change of %s follows: %t, want %t", name, got, want)
		}
	}
	pods, containers := reflect.TypeFor[corev1.PodSpec](), reflect.TypeFor[corev1.Container]()
	for i := range pods.NumField() {
		if name := jsonName(pods.Field(i)); name != "containers" && name != "initContainers" {
			before, now := after(func(pod *corev1.PodSpec) { fill(reflect.ValueOf(pod).Elem().Field(i)) })
			verdict(name, podFields[name].follows, before, now)
		}
	}
	for i := range containers.NumField() {
		name := jsonName(containers.Field(i))
		if name == "name" {
			continue
		}
		for _, of := range []func(*corev1.PodSpec) *corev1.Container{
			func(pod *corev1.PodSpec) *corev1.Container { return &pod.Containers[0] },
			func(pod *corev1.PodSpec) *corev1.Container { return &pod.InitContainers[0] },
		} {
			before, now := after(func(pod *corev1.PodSpec) { fill(reflect.ValueOf(of(pod)).Elem().Field(i)) })
			verdict("containers."+name, containerFields[name].follows, before, now)
		}
	}
}

// fill sets a value to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key := reflect.New(v.Type().Key()).Elem()
		fill(key)
		v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
				return
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

func TestPodFieldsPage(t *testing.T) {
	const page, begin, end = "../../../docs/pod-fields.md", "<!-- begin fields of pods -->\n", "<!-- end fields of pods -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no table of fields", page)
	}
	want := table()
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table is old: go test ./internal/virtualkubelet/translate -run PodFieldsPage -update (-code +page)\n%s", diff)
	}
}

func table() string {
	var out strings.Builder
	for _, part := range parts {
		back := strings.HasSuffix(part.title, "back")
		fmt.Fprintf(&out, "\n## %s\n\n", part.title)
		if back {
			out.WriteString("| field | in the consumer |\n|---|---|\n")
		} else {
			out.WriteString("| field | in the provider | later changes |\n|---|---|---|\n")
		}
		var unsaid []string
		for _, name := range slices.Sorted(maps.Keys(part.fields)) {
			f := part.fields[name]
			if f == (field{fate: kept}) {
				unsaid = append(unsaid, "`"+name+"`")
				continue
			}
			text := string(f.fate)
			if text != "" && f.note != "" {
				text += ": "
			}
			fmt.Fprintf(&out, "| `%s` | %s |", name, text+f.note)
			if !back {
				out.WriteString(map[bool]string{true: " follow |", false: " |"}[f.follows])
			}
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "\n%s: %s.\n", map[bool]string{true: "As reported, within bounds", false: "Kept unchanged"}[back], strings.Join(unsaid, ", "))
	}
	return out.String() + "\n"
}
