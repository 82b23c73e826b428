// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
)

func TestConnectionStatus(t *testing.T) {
	const connected, connecting, failed = networkingv1beta1.Connected, networkingv1beta1.Connecting, networkingv1beta1.ConnectionError
	waiting, answered, half := newTimedHealth(), newTimedHealth(), newTimedHealth()
	for _, h := range []*timedHealth{waiting, answered, half} {
		h.ask(0, 1, 2, 3, 4)
	}
	answered.padded(1, 1.012)
	half.Pads = half.Small.Hear(wire(half.at(1)), half.at(1.012))
	for name, test := range map[string]struct {
		was  networkingv1beta1.ConnectionStatusValue
		beat *timedHealth
		at   float64
		want networkingv1beta1.ConnectionStatusValue
	}{
		"at first":                           {"", newTimedHealth(), 0, connecting},
		"while waited for":                   {connecting, waiting, 2, connecting},
		"waited for in vain":                 {connecting, waiting, 3, failed},
		"answered":                           {connecting, answered, 1.1, connected},
		"answered after an error":            {failed, answered, 1.1, connected},
		"lost":                               {connected, answered, 5, failed},
		"an error, and nothing new":          {failed, waiting, 2, failed},
		"after a restart":                    {connected, newTimedHealth(), 0, connecting},
		"after a restart, asked":             {connected, waiting, 1, connecting},
		"after a restart, not for all sizes": {connected, half, 2, connecting},
		"never for all sizes":                {connected, half, 3, failed},
	} {
		was := networkingv1beta1.ConnectionStatus{Value: test.was}
		if got := nextStatus(was, test.beat.PathHealth, test.beat.at(test.at), time.Minute).Value; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	const all, large = networkingv1beta1.LostAll, networkingv1beta1.LostLarge
	chance := newTimedHealth() // loses large packets, and one small one
	chance.ask(0, 1, 2, 3, 4)
	chance.padded(0, 0.012)
	chance.Small.Hear(wire(chance.at(2)), chance.at(2.012))
	for name, test := range map[string]struct {
		was  networkingv1beta1.ConnectionStatus
		beat *timedHealth
		at   float64
		want networkingv1beta1.ConnectionLoss
	}{
		"nothing was answered":           {networkingv1beta1.ConnectionStatus{Value: connecting}, waiting, 3, all},
		"all are lost by now":            {networkingv1beta1.ConnectionStatus{Value: failed, Lost: large}, answered, 5, all},
		"large ones never were answered": {networkingv1beta1.ConnectionStatus{Value: connecting}, half, 3, large},
		"large ones, and a small one":    {networkingv1beta1.ConnectionStatus{Value: connected}, chance, 3.5, large},
		"waited for":                     {networkingv1beta1.ConnectionStatus{Value: connecting}, waiting, 2, ""},
		"still down after a restart":     {networkingv1beta1.ConnectionStatus{Value: failed, Lost: large}, waiting, 2, large},
		"of an earlier version":          {networkingv1beta1.ConnectionStatus{Value: failed}, waiting, 2, ""},
		"up again":                       {networkingv1beta1.ConnectionStatus{Value: failed, Lost: all}, answered, 1.1, ""},
	} {
		if got := nextStatus(test.was, test.beat.PathHealth, test.beat.at(test.at), time.Minute).Lost; got != test.want {
			t.Errorf("%s: %q gets lost, want %q", name, got, test.want)
		}
	}
	if got := nextStatus(networkingv1beta1.ConnectionStatus{Value: connected}, agent.PathHealth{}, time.Now(), time.Minute).Value; got != connecting {
		t.Errorf("without a peer: %s", got)
	}
}

func TestConnectionLatencyInterval(t *testing.T) {
	h := newTimedHealth()
	h.ask(0)
	h.padded(0, 0.012)
	now := h.at(0.5)
	as := func(value networkingv1beta1.ConnectionStatusValue, latency string, age time.Duration) networkingv1beta1.ConnectionStatus {
		return networkingv1beta1.ConnectionStatus{Value: value, Latency: networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: metav1.NewTime(now.Add(-age))}}
	}
	for name, test := range map[string]struct {
		was, want networkingv1beta1.ConnectionStatus
	}{
		"at once with a change":       {as(networkingv1beta1.Connecting, "", time.Second), as(networkingv1beta1.Connected, "12ms", 0)},
		"not while it is young":       {as(networkingv1beta1.Connected, "7ms", 9*time.Second), as(networkingv1beta1.Connected, "7ms", 9*time.Second)},
		"when it is old":              {as(networkingv1beta1.Connected, "7ms", 10*time.Second), as(networkingv1beta1.Connected, "12ms", 0)},
		"when the clock was set back": {as(networkingv1beta1.Connected, "7ms", -time.Hour), as(networkingv1beta1.Connected, "12ms", 0)},
	} {
		if diff := cmp.Diff(test.want, nextStatus(test.was, h.PathHealth, now, 10*time.Second)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	h.ask(1)
	h.padded(1, 1.0035)
	waited := as(networkingv1beta1.Connected, "942ms", 500*time.Millisecond) // told with the first answer, which came after the handshake
	again := nextStatus(waited, h.PathHealth, h.at(1.5), 10*time.Second)
	if again.Latency.Value != "3ms" {
		t.Errorf("after the second answer the latency is %s", again.Latency.Value)
	}
	h.ask(2)
	h.padded(2, 2.0045)
	if got := nextStatus(again, h.PathHealth, h.at(2.5), 10*time.Second); got.Latency.Value != "3ms" {
		t.Errorf("a second later the latency is %s", got.Latency.Value)
	}
	h.ask(3, 4, 5)
	if got := nextStatus(as(networkingv1beta1.Connected, "7ms", time.Hour), h.PathHealth, h.at(11), 10*time.Second); got.Latency.Value != "7ms" {
		t.Errorf("the latency of a tunnel that is down is %s", got.Latency.Value)
	}
}
