// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// pod has one container in the given state.
func pod(uid types.UID, phase corev1.PodPhase, restarts int32, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Labels: map[string]string{}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase:             phase,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, RestartCount: restarts, State: state}},
		},
	}
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended   = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
)

// peerMap takes prefixes there and here in turn.
func peerMap(prefixes ...string) prefix.Map {
	var remotePrefixes, localPrefixes []netip.Prefix
	for i, text := range prefixes {
		p := netip.MustParsePrefix(text)
		if i%2 == 0 {
			remotePrefixes = append(remotePrefixes, p)
		} else {
			localPrefixes = append(localPrefixes, p)
		}
	}
	m, err := prefix.New(remotePrefixes, localPrefixes)
	if err != nil {
		panic(err)
	}
	return m
}

// awaiting is the map of a provider whose external network 10.70/16 is 10.68/16 here, and whose pod networks wait for prefixes.
func awaiting(pods ...networkingv1beta1.CIDR) prefix.Map {
	c := &networkingv1beta1.Configuration{}
	c.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: pods, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	c.Status.ObservedRemote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}}
	c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{External: []networkingv1beta1.CIDR{"10.68.0.0/16"}}}
	c.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse}}
	m, _, _ := prefix.Of(c)
	return m
}

func TestPodStatusRules(t *testing.T) {
	for _, tc := range []struct {
		rule string
		edit func(in *StatusInput)
		look func(s corev1.PodStatus) any
		want any
	}{
		{
			"addresses are all shown as they are here and the host is the virtual node",
			func(in *StatusInput) {
				in.IPs.Peer = peerMap("10.1.0.0/16", "10.71.0.0/16", "fd00::/64", "fd01::/64")
				in.Remote.Status.PodIP, in.Remote.Status.HostIP = "10.1.0.4", "192.0.2.9"
				in.Remote.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.4"}, {IP: "fd00::4"}}
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, s.PodIPs, s.HostIP, s.HostIPs} },
			[]any{"10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}, {IP: "fd01::4"}}, "10.0.0.5", []corev1.HostIP{{IP: "10.0.0.5"}}},
		},
		{
			"an address that the peer did not tell of is not shown",
			func(in *StatusInput) {
				in.IPs.Peer = peerMap("fd00::/64", "fd01::/64")
				in.Remote.Status.PodIP, in.Remote.Status.PodIPs = "10.1.0.4", []corev1.PodIP{{IP: "10.1.0.4"}, {IP: "odd"}, {IP: "fd00::4"}}
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, s.PodIPs} },
			[]any{"fd01::4", []corev1.PodIP{{IP: "fd01::4"}}},
		},
		{
			"a single address suffices",
			func(in *StatusInput) {
				in.IPs.Peer = peerMap("10.1.0.0/16", "10.71.0.0/16")
				in.Remote.Status.PodIP = "10.1.0.4"
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, s.PodIPs} },
			[]any{"10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}}},
		},
		{
			"without a network none is shown",
			func(in *StatusInput) {
				in.Local.Status.PodIP, in.Local.Status.PodIPs = "10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}}
				in.Remote.Status.PodIP, in.Remote.Status.PodIPs = "10.1.0.4", []corev1.PodIP{{IP: "10.1.0.4"}}
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, len(s.PodIPs)} },
			[]any{"", 0},
		},
		{
			"while networks are being placed what is shown stays",
			func(in *StatusInput) {
				in.IPs.Keep = true
				in.Local.Status.PodIP, in.Local.Status.PodIPs = "10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}}
				in.Remote.Status.PodIP, in.Remote.Status.PodIPs = "10.1.0.4", []corev1.PodIP{{IP: "10.1.0.4"}}
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, s.PodIPs} },
			[]any{"10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}}},
		},
		{
			"an address whose network waits for a prefix stays, unless another network has that prefix",
			func(in *StatusInput) {
				in.IPs.Peer = awaiting("10.1.0.0/16")
				in.Local.Status.PodIP, in.Local.Status.PodIPs = "10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}, {IP: "10.68.0.4"}, {IP: "fd01::4"}}
				in.Remote.Status.PodIP, in.Remote.Status.PodIPs = "10.1.0.4", []corev1.PodIP{{IP: "10.1.0.4"}, {IP: "10.1.0.5"}}
			},
			func(s corev1.PodStatus) any { return []any{s.PodIP, s.PodIPs} },
			[]any{"10.71.0.4", []corev1.PodIP{{IP: "10.71.0.4"}}},
		},
		{
			"a pod that ended stays ended",
			func(in *StatusInput) { in.Local.Status.Phase = corev1.PodFailed },
			func(s corev1.PodStatus) any { return s.Phase },
			corev1.PodFailed,
		},
		{
			"the class of service never changes",
			func(in *StatusInput) {
				in.Local.Status.QOSClass, in.Remote.Status.QOSClass = corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
			},
			func(s corev1.PodStatus) any { return s.QOSClass },
			corev1.PodQOSBurstable,
		},
		{
			"a pod of a node that is not ready is not ready",
			func(in *StatusInput) { in.Local.Labels[names.RemoteUnavailable] = "true" },
			func(s corev1.PodStatus) any { return s.Conditions[0].Status },
			corev1.ConditionFalse,
		},
		{
			"a closed gate here keeps the pod from being ready",
			func(in *StatusInput) { in.Local.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}} },
			func(s corev1.PodStatus) any { return s.Conditions[0].Status },
			corev1.ConditionFalse,
		},
		{
			"an open gate here survives and lets the pod be ready",
			func(in *StatusInput) {
				in.Local.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}}
				in.Local.Status.Conditions = append(in.Local.Status.Conditions, corev1.PodCondition{Type: "lb", Status: corev1.ConditionTrue})
			},
			func(s corev1.PodStatus) any { return []any{s.Conditions[0].Status, s.Conditions[1].Type} },
			[]any{corev1.ConditionTrue, corev1.PodConditionType("lb")},
		},
		{
			"a container of a new remote pod waits with the restarts so far",
			func(in *StatusInput) {
				in.Local.Status.ContainerStatuses[0].RestartCount = 4
				in.Restarts = Restarts{remote: "old"}.Count(in.Local, in.Remote)
				in.Remote.Status.ContainerStatuses = nil
			},
			func(s corev1.PodStatus) any {
				return []any{s.ContainerStatuses[0].RestartCount, s.ContainerStatuses[0].State.Waiting.Reason}
			},
			[]any{int32(5), "ContainerCreating"},
		},
		{
			"a container that may not run again stays ended when the remote pod is made again",
			func(in *StatusInput) {
				in.Local.Spec.RestartPolicy = corev1.RestartPolicyNever
				in.Local.Status.ContainerStatuses[0].State = ended
			},
			func(s corev1.PodStatus) any { return s.ContainerStatuses[0].State },
			ended,
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			in := StatusInput{Local: pod("l", corev1.PodRunning, 0, running), Remote: pod("r", corev1.PodRunning, 0, running), HostIPs: []string{"10.0.0.5"}}
			tc.edit(&in)
			if diff := cmp.Diff(tc.want, tc.look(PodStatus(in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestartsNeverCountBackwards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		local, remote := pod("l", corev1.PodRunning, 0, running), pod("1", corev1.PodRunning, 0, running)
		var r Restarts
		uid, last := '1', int32(0)
		t.Repeat(map[string]func(*rapid.T){
			"a container restarts": func(*rapid.T) {
				for i := range remote.Status.ContainerStatuses {
					remote.Status.ContainerStatuses[i].RestartCount++
				}
			},
			"we restart":              func(*rapid.T) { r = Restarts{} },
			"the remote pod is again": func(*rapid.T) { uid++; remote = pod(types.UID(uid), corev1.PodRunning, 0, running) },
			"the new one is not reported yet": func(*rapid.T) {
				uid++
				remote = pod(types.UID(uid), corev1.PodPending, 0, running)
				remote.Status.ContainerStatuses = nil
			},
			"the container is reported": func(*rapid.T) {
				if remote.Status.ContainerStatuses == nil {
					remote.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: running}}
				}
			},
			"": func(t *rapid.T) {
				r = r.Count(local, remote)
				local.Status = PodStatus(StatusInput{Local: local, Remote: remote, Restarts: r})
				now := local.Status.ContainerStatuses[0].RestartCount
				if now < last {
					t.Fatalf("restarts went from %d to %d", last, now)
				}
				last = now
				again := PodStatus(StatusInput{Local: local, Remote: remote, Restarts: r.Count(local, remote)})
				if diff := cmp.Diff(local.Status, again); diff != "" {
					t.Fatalf("an unchanged pod has another status:\n%s", diff)
				}
			},
		})
	})
}

func TestMarks(t *testing.T) {
	fresh := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	for _, tc := range []struct {
		rule   string
		got    corev1.PodStatus
		phase  corev1.PodPhase
		reason string
	}{
		{"a pod that never started waits for its namespace", NotReflected(fresh), corev1.PodPending, ReasonBackOff},
		{"a pod that ran is aborted", NotReflected(pod("l", corev1.PodRunning, 0, running)), corev1.PodFailed, ReasonAborted},
		{"a pod that succeeded stays", NotReflected(pod("l", corev1.PodSucceeded, 0, ended)), corev1.PodSucceeded, ""},
		{"a pod that runs is not undone by a refusal", Refused(pod("l", corev1.PodRunning, 0, running), "quota"), corev1.PodRunning, ""},
		{"a refused pod waits", Refused(fresh, "quota"), corev1.PodPending, ReasonBackOff},
		{"a vanished pod that had ended is ended", Ended(pod("l", corev1.PodRunning, 0, running), corev1.PodSucceeded), corev1.PodSucceeded, ReasonRemoteTerminated},
		{"a vanished pod that had not ended is made again, and is Running all the time", Missing(pod("l", corev1.PodRunning, 0, running)), corev1.PodRunning, ReasonRemoteMissing},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if tc.got.Phase != tc.phase || tc.got.Reason != tc.reason {
				t.Errorf("got %s %q, want %s %q", tc.got.Phase, tc.got.Reason, tc.phase, tc.reason)
			}
			for _, c := range tc.got.ContainerStatuses {
				if tc.reason != "" && (c.Ready || c.State.Running != nil) {
					t.Errorf("container still looks alive: %+v", c)
				}
			}
		})
	}
}

func TestDeletedPodHasEnded(t *testing.T) {
	done := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		phase      corev1.PodPhase
		containers []corev1.ContainerState
		want       string
	}{
		"new":                    {"", nil, "Failed RemotePodNotStarted"},
		"waiting":                {corev1.PodPending, nil, "Failed RemotePodNotStarted"},
		"being_made":             {corev1.PodPending, []corev1.ContainerState{{Waiting: &corev1.ContainerStateWaiting{}}, {}}, "Failed RemotePodNotStarted"},
		"running":                {corev1.PodRunning, []corev1.ContainerState{running, running}, "Failed RemotePodTerminated"},
		"one_still_runs":         {corev1.PodRunning, []corev1.ContainerState{done(0), running}, "Failed RemotePodTerminated"},
		"one_not_reported":       {corev1.PodRunning, []corev1.ContainerState{done(0)}, "Failed RemotePodTerminated"},
		"succeeded_but_not_told": {corev1.PodRunning, []corev1.ContainerState{done(0), done(0)}, "Succeeded RemotePodTerminated"},
		"failed_but_not_told":    {corev1.PodRunning, []corev1.ContainerState{done(0), done(3)}, "Failed RemotePodTerminated"},
		"ended":                  {corev1.PodSucceeded, []corev1.ContainerState{done(0), done(0)}, "Succeeded "},
	} {
		t.Run(name, func(t *testing.T) {
			local := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
			local.Status.Phase = test.phase
			for i, state := range test.containers {
				local.Status.ContainerStatuses = append(local.Status.ContainerStatuses, corev1.ContainerStatus{Name: []string{"a", "b"}[i], State: state})
			}
			got := Deleted(local)
			if is := fmt.Sprintf("%s %s", got.Phase, got.Reason); is != test.want {
				t.Errorf("got %q, want %q", is, test.want)
			}
			for _, c := range got.ContainerStatuses {
				if c.State.Terminated == nil {
					t.Errorf("container %s has not ended: %+v", c.Name, c.State)
				}
			}
		})
	}
}

func TestAbortedPodExitsWithAnError(t *testing.T) {
	got := NotReflected(pod("l", corev1.PodRunning, 0, running)).ContainerStatuses[0].State.Terminated
	if got == nil || got.ExitCode != 1 || got.Reason != ReasonAborted {
		t.Errorf("got %+v, want exit code 1 with reason %s", got, ReasonAborted)
	}
}

func TestReflectionTypes(t *testing.T) {
	for _, tc := range []struct {
		rule        string
		kind        ReflectionType
		annotations map[string]string
		want        bool
	}{
		{"everything by default", DenyList, nil, true},
		{"not what is skipped", DenyList, map[string]string{names.SkipReflection: ""}, false},
		{"what is skipped by False is reflected", DenyList, map[string]string{names.SkipReflection: "False"}, true},
		{"nothing by default", AllowList, nil, false},
		{"what is allowed", AllowList, map[string]string{names.AllowReflection: "yes"}, true},
		{"not what is allowed by false", AllowList, map[string]string{names.AllowReflection: "false"}, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := tc.kind.Allows(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}, false); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestConfigMapNamesAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.Just("kube-root-ca.crt"), rapid.StringMatching(`[a-z]{1,12}`)).Draw(t, "name")
		if got := target.LocalConfigMapName(target.ConfigMapName(name)); got != name {
			t.Fatalf("%s became %s", name, got)
		}
	})
	if got := target.LocalConfigMapName("kube-root-ca.crt"); got != "" {
		t.Errorf("the provider's own root CA is taken for the copy of %q", got)
	}
}
