// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/testkit/hostile"
)

// A field that is added to the status of what a peer answers fails here until there is a rule for it.
func TestHostileStatus(t *testing.T) {
	url := []any{"https://provider.example.org:6443"}
	credentials := map[string]hostile.Rule{
		"AuthParams.CA": hostile.AtMost(maxPeerCertificate), "AuthParams.SignedCRT": hostile.AtMost(maxPeerCertificate),
		"AuthParams.APIServer": hostile.Short(maxPeerURL), "AuthParams.ProxyURL": hostile.Short(maxPeerURL),
		"AwsConfig.AwsUserArn": hostile.Short(maxPeerURL), "AwsConfig.AwsAccessKeyID": hostile.Short(maxPeerURL),
		"AwsConfig.AwsSecretAccessKey": hostile.Short(maxPeerURL), "AwsConfig.AwsRegion": hostile.Short(maxPeerURL),
		"AwsConfig.AwsClusterName": hostile.Short(maxPeerURL),
	}
	believable := hostile.Fields{
		"AuthParams.APIServer": url, "AuthParams.ProxyURL": url, "AuthParams.CA": {[]byte("CA")}, "AuthParams.SignedCRT": {[]byte("CRT")},
		"AwsConfig.AwsUserArn": {"arn"}, "AwsConfig.AwsAccessKeyID": {"id"}, "AwsConfig.AwsSecretAccessKey": {"key"},
		"AwsConfig.AwsRegion": {"eu"}, "AwsConfig.AwsClusterName": {"eks"},
	}
	t.Run("NamespaceMap", func(t *testing.T) {
		var reported offv1beta1.NamespaceMapStatus
		hostile.Fill(&reported, hostile.Fields{
			"NamespaceMapStatus.ProviderCapabilities": {"bound-nonces", "other"}, "RemoteNamespaceStatus.RemoteNamespace": {"twin"},
			"TranslatedNetwork.CIDR": {"10.200.0.0/16", "10.0.0.0/8", hostile.Text}, "TranslatedNetwork.TranslatedCIDR": {"10.71.0.0/16"},
			"RemoteNamespaceStatus.Phase": {"Accepted", "Terminating", "Anything"}, "RemoteNamespaceStatus.PodSecurity": {"baseline", "other"},
		})
		spec := &offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"key-1": "twin", "key-2": "twin", "key-3": "other"}}
		got := NamespaceMapStatus(spec, &offv1beta1.NamespaceMapStatus{}, &reported)
		hostile.Check(t, got, map[string]hostile.Rule{
			"NamespaceMapStatus.CurrentMapping": hostile.AtMost(2), "NamespaceMapStatus.ProviderVersion": hostile.Short(MaxForeignReason),
			"NamespaceMapStatus.ProviderCapabilities": hostile.AtMost(maxPeerCapabilities, hostile.Short(64)),
			"NamespaceMapStatus.ConsumerNetworks":     hostile.AtMost(maxPeerNetworks),
			"TranslatedNetwork.CIDR":                  hostile.OneOf("10.200.0.0/16"), "TranslatedNetwork.TranslatedCIDR": hostile.OneOf("10.71.0.0/16"),
			"RemoteNamespaceStatus.RemoteNamespace": hostile.OneOf("twin"), "RemoteNamespaceStatus.Phase": hostile.OneOf("Accepted", "Terminating"),
			"RemoteNamespaceStatus.PodSecurity": hostile.OneOf("baseline"),
			"RemoteNamespaceStatus.Reason":      hostile.Short(maxMappingReason), "RemoteNamespaceStatus.Message": hostile.Short(MaxForeignMessage),
		})
	})
	t.Run("ResourceSlice", func(t *testing.T) {
		var reported authv1beta1.ResourceSliceStatus
		keep := maps.Clone(believable)
		maps.Copy(keep, hostile.Fields{
			"ResourceSliceCondition.Type": {"Resources", "Authentication", "Other"}, "ResourceSliceCondition.Status": {"Accepted", "Denied", "Other"},
			"StorageType.StorageClassName": {"a", "b", "c", "../../x"}, "IngressType.IngressClassName": {"a", "b", "c", hostile.Text},
			"LoadBalancerType.LoadBalancerClassName": {"example.org/a", "b", "c", hostile.Text},
			"ResourceSliceStatus.NodeLabels":         {"value", "not a value"}, "ResourceSliceStatus.NodeSelector": {"value", "not a value"},
			"ResourceSliceStatus.DeclaredFeatures": {"RestartAllContainers", "ExtendWebSocketsToKubelet", "lower", hostile.Text},
		})
		hostile.Fill(&reported, keep)
		rules := maps.Clone(credentials)
		maps.Copy(rules, map[string]hostile.Rule{
			"ResourceSliceStatus.Conditions":            hostile.AtMost(2),
			"ResourceSliceCondition.Type":               hostile.OneOf("Resources", "Authentication"),
			"ResourceSliceCondition.Status":             hostile.OneOf("Accepted", "Denied"),
			"ResourceSliceCondition.LastTransitionTime": hostile.Harmless,
			"ResourceSliceCondition.Reason":             hostile.Short(MaxForeignReason), "ResourceSliceCondition.Message": hostile.Short(MaxForeignMessage),
			"ResourceSliceStatus.Resources":      hostile.AtMost(maxPeerResources, hostile.Amounts),
			"ResourceSliceStatus.StorageClasses": hostile.AtMost(3), "StorageType.StorageClassName": hostile.OneOf("a", "b", "c"), "StorageType.Default": hostile.Harmless,
			"ResourceSliceStatus.IngressClasses": hostile.AtMost(3), "IngressType.IngressClassName": hostile.OneOf("a", "b", "c"), "IngressType.Default": hostile.Harmless,
			"ResourceSliceStatus.LoadBalancerClasses": hostile.AtMost(3), "LoadBalancerType.LoadBalancerClassName": hostile.OneOf("example.org/a", "b", "c"),
			"LoadBalancerType.Default":       hostile.Harmless,
			"ResourceSliceStatus.NodeLabels": hostile.AtMost(maxPeerLabels, hostile.Short(63)), "ResourceSliceStatus.NodeSelector": hostile.AtMost(maxPeerLabels, hostile.Short(63)),
			"ResourceSliceStatus.DeclaredFeatures": hostile.AtMost(maxDeclaredFeatures, func(v reflect.Value) error { return hostile.OneOf("RestartAllContainers")(v.Index(0)) }),
		})
		hostile.Check(t, ResourceSliceStatus(&reported), rules)
	})
	t.Run("Renew", func(t *testing.T) {
		var reported authv1beta1.RenewStatus
		keep := maps.Clone(believable)
		maps.Copy(keep, hostile.Fields{"Condition.Type": {"A", "B", "C", hostile.Text}, "Condition.Status": {"True", "Unknown", "Yes"}})
		hostile.Fill(&reported, keep)
		rules := maps.Clone(credentials)
		maps.Copy(rules, map[string]hostile.Rule{
			"RenewStatus.Conditions": hostile.AtMost(maxPeerConditions), "Condition.Type": hostile.OneOf("A", "B", "C"),
			"Condition.Status":             hostile.OneOf("True", "False", "Unknown"),
			"Condition.ObservedGeneration": hostile.Between(0, 1<<31), "Condition.LastTransitionTime": hostile.Harmless,
			"Condition.Reason": hostile.Short(MaxForeignReason), "Condition.Message": hostile.Short(MaxForeignMessage),
		})
		hostile.Check(t, RenewStatus(&reported), rules)
	})
}

func TestHostileEndpoint(t *testing.T) {
	var reported networkingv1beta1.GatewayServerStatus
	fill := func() {
		hostile.Fill(&reported, hostile.Fields{
			"EndpointStatus.Addresses": {"192.0.2.1", "Rome.example", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1%eth0", "--mode=server", "$(POD_IP)", "a,b", hostile.Text},
			"EndpointStatus.Protocol":  {"SCTP", hostile.Text},
		})
		for range 1000 { // more ports than may be
			reported.Endpoint.Ports = append(reported.Endpoint.Ports, 7)
			reported.Endpoint.Addresses = append(reported.Endpoint.Addresses, "192.0.2.1")
		}
	}
	checks := map[string]hostile.Rule{
		"EndpointStatus.Addresses": hostile.AtMost(maxPeerAddresses, func(v reflect.Value) error {
			for i := range v.Len() {
				if err := hostile.OneOf("192.0.2.1", "Rome.example")(v.Index(i)); err != nil {
					return err
				}
			}
			return nil
		}),
		"EndpointStatus.Port": hostile.Between(1, 65535), "EndpointStatus.Ports": hostile.AtMost(maxPeerPorts), "EndpointStatus.Protocol": hostile.Never,
	}
	t.Run("a_port", func(t *testing.T) {
		fill()
		reported.Endpoint.Port = 7
		got := PeerEndpoint(reported.Endpoint)
		alone := maps.Clone(checks)
		alone["EndpointStatus.Ports"] = hostile.Never
		hostile.Check(t, *got, alone)
	})
	t.Run("ports", func(t *testing.T) {
		fill()
		reported.Endpoint.Port = -1
		got := PeerEndpoint(reported.Endpoint)
		if slices.ContainsFunc(got.Ports, func(port int32) bool { return port != 7 }) {
			t.Errorf("ports %v", got.Ports)
		}
		several := maps.Clone(checks)
		several["EndpointStatus.Port"] = hostile.Never
		hostile.Check(t, *got, several)
	})
	for name, text := range map[string]string{"no address": `{"port":7}`, "no port": `{"addresses":["192.0.2.1"],"port":70000,"ports":[0,-1]}`, "only loopback": `{"addresses":["127.0.0.1"],"port":7}`} {
		var reported networkingv1beta1.EndpointStatus
		if err := json.Unmarshal([]byte(text), &reported); err != nil {
			t.Fatal(err)
		}
		if got := PeerEndpoint(&reported); got != nil {
			t.Errorf("%s is believed: %+v", name, got)
		}
	}
	honest := &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1", "rome.example.", "fd00::1"}, Port: 51840, Protocol: new(corev1.ProtocolUDP)}
	if diff := cmp.Diff(honest, PeerEndpoint(honest)); diff != "" {
		t.Error(diff)
	}
}

// What is counted in whole numbers is refused by the API server otherwise, with the whole Node.
func TestStatusFractionalDevices(t *testing.T) {
	got := Amounts(corev1.ResourceList{
		"cpu": resource.MustParse("1500m"), "pods": resource.MustParse("10500m"), "nvidia.com/gpu": resource.MustParse("100m"), "memory": resource.MustParse("1.5Gi"),
	})
	want := corev1.ResourceList{"cpu": resource.MustParse("1500m"), "pods": resource.MustParse("10"), "nvidia.com/gpu": resource.MustParse("0"), "memory": resource.MustParse("1.5Gi")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatusUnchanged(t *testing.T) {
	reported := authv1beta1.ResourceSliceStatus{
		Conditions:     []authv1beta1.ResourceSliceCondition{{Type: "Resources", Status: "Accepted", Reason: "Fine", Message: "it is granted"}},
		Resources:      corev1.ResourceList{"cpu": resource.MustParse("1500m"), "nvidia.com/gpu": resource.MustParse("2"), "memory": resource.MustParse("64Gi")},
		AuthParams:     &authv1beta1.AuthParams{CA: []byte("CA"), SignedCRT: []byte("CRT"), APIServer: "https://[fd00::1]:6443", ProxyURL: new("http://proxy:8118")},
		StorageClasses: []liqov1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "slow"}},
		NodeLabels:     map[string]string{"topology.kubernetes.io/region": "eu", "empty": ""},
		NodeSelector:   map[string]string{"pool": "liqo"},

		DeclaredFeatures: []string{"RestartAllContainers"},
	}
	if diff := cmp.Diff(reported, ResourceSliceStatus(&reported)); diff != "" {
		t.Error(diff)
	}
	if got := ResourceSliceStatus(&authv1beta1.ResourceSliceStatus{}); !cmp.Equal(got, authv1beta1.ResourceSliceStatus{}) {
		t.Errorf("nothing became %+v", got)
	}
}

func TestNamespaceMapStatus(t *testing.T) {
	mapping := func(text string) map[string]offv1beta1.RemoteNamespaceStatus {
		out := map[string]offv1beta1.RemoteNamespaceStatus{}
		for _, entry := range strings.Fields(text) {
			parts := strings.Split(entry, ":")
			out[parts[0]] = offv1beta1.RemoteNamespaceStatus{RemoteNamespace: parts[1], Phase: offv1beta1.MappingPhase(parts[2])}
		}
		return out
	}
	for name, tc := range map[string]struct{ desired, before, said, want string }{
		"what was asked for":               {desired: "demo:twin", said: "demo:twin:Accepted", want: "demo:twin:Accepted"},
		"what was not":                     {desired: "demo:twin", said: "demo:twin:Accepted payroll:loot:Accepted", want: "demo:twin:Accepted"},
		"another name than asked for":      {desired: "demo:twin", said: "demo:loot:Accepted"},
		"what goes":                        {before: "demo:twin:Accepted", said: "demo:twin:Terminating", want: "demo:twin:Terminating"},
		"what goes, under another name":    {before: "demo:twin:Accepted", said: "demo:loot:Terminating"},
		"an old name, before the new one":  {desired: "demo:new", before: "demo:old:Accepted", said: "demo:old:Terminating", want: "demo:old:Terminating"},
		"a phase that is none":             {desired: "demo:twin", said: "demo:twin:Excellent"},
		"a failure of what was asked for":  {desired: "demo:twin", said: "demo:twin:CreationLoopBackOff", want: "demo:twin:CreationLoopBackOff"},
		"what is gone at the peer is gone": {desired: "demo:twin", before: "demo:twin:Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{}}
			for _, entry := range strings.Fields(tc.desired) {
				local, remote, _ := strings.Cut(entry, ":")
				spec.DesiredMapping[local] = remote
			}
			before, reported := &offv1beta1.NamespaceMapStatus{CurrentMapping: mapping(tc.before)}, &offv1beta1.NamespaceMapStatus{CurrentMapping: mapping(tc.said)}
			got := NamespaceMapStatus(spec, before, reported).CurrentMapping
			if !maps.Equal(got, mapping(tc.want)) {
				t.Errorf("believed %v, want %s", got, tc.want)
			}
			nm := &offv1beta1.NamespaceMap{Spec: *spec, Status: *reported}
			for _, local := range slices.Sorted(maps.Keys(reported.CurrentMapping)) {
				if remoteNamespace, ok := TwinOf(nm, local); ok && (remoteNamespace != spec.DesiredMapping[local] || got[local].Phase != offv1beta1.MappingAccepted) {
					t.Errorf("the twin of %s is %s", local, remoteNamespace)
				}
			}
		})
	}
}

func TestCleanText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want, line string }{
		"plain":           {"all is well", "all is well", "all is well"},
		"lines":           {"a\nb\tc", "a\nb\tc", "a b c"},
		"colours":         {"\x1b[31mred\x1b[0m", "[31mred[0m", "[31mred[0m"},
		"one byte CSI":    {"a\u009b2Jb", "a2Jb", "a2Jb"},
		"carriage return": {"fine\rfail", "finefail", "fine fail"},
		"turned round":    {"abc\u202edef", "abcdef", "abcdef"},
		"not UTF-8":       {"a\xff\xfeb", "ab", "ab"},
		"other scripts":   {"città 東京 👩‍🚀", "città 東京 👩‍🚀", "città 東京 👩‍🚀"},
		"cut":             {strings.Repeat("é", 100), strings.Repeat("é", 23) + "…", strings.Repeat("é", 23) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CleanText(tc.text, 50); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := CleanLine(tc.text, 50); got != tc.line {
				t.Errorf("line %q, want %q", got, tc.line)
			}
		})
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("\x1b[2J", 10)
	f.Add(hostile.Text, 1024)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 0), 1<<20)
		got := CleanText(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(got), commands) {
			t.Fatalf("%q of at most %d bytes", got, limit)
		}
		if CleanText(got, limit) != got {
			t.Fatalf("%q is changed once more", got)
		}
		if _, err := json.Marshal(CleanLine(got, limit)); err != nil {
			t.Fatal(err)
		}
	})
}
