// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 2*60*60))

func TestProbeEcho(t *testing.T) {
	for name, size := range map[string]int{"small": 0, "full": 1312} {
		asked, err := encodeQuestion("rome", noon, size)
		if err != nil {
			t.Fatal(err)
		}
		if size > 0 && len(asked) != size {
			t.Errorf("%s: the question has %d bytes, want %d", name, len(asked), size)
		}
		message, err := decodeProbe(asked)
		if err != nil {
			t.Fatal(err)
		}
		answered, err := message.encodeAnswer(len(asked))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Replace(string(asked), "PING", "PONG", 1); string(answered) != want {
			t.Errorf("%s:\n%s, want\n%s", name, answered, want)
		}
		if heard, err := decodeProbe(answered); err != nil || !heard.Time.Equal(noon) || heard.Padding == "" {
			t.Errorf("%s: heard %+v, %v", name, heard, err)
		}
	}
}

func TestProbeWithoutPadding(t *testing.T) {
	requested := `{"clusterID":"rome","msgType":"PING","timeStamp":"2026-03-01T12:00:00.5+02:00"}`
	message, err := decodeProbe([]byte(requested))
	if err != nil {
		t.Fatal(err)
	}
	got, err := message.encodeAnswer(len(requested))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Replace(requested, "PING", "PONG", 1), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestProbeInvalid(t *testing.T) {
	for text, want := range map[string]string{
		``:                     "decoding a probe: unexpected end of JSON input",
		`[]`:                   "decoding a probe: json: cannot unmarshal array",
		`{"clusterID":"rome"}`: "decoding a probe: it is neither question nor answer",
		`{"msgType":"PING"}`:   "decoding a probe: it is neither question nor answer",
		`{"msgType":"HELLO","timeStamp":"2026-03-01T12:00:00Z"}`: "decoding a probe: it is neither question nor answer",
		`{"msgType":"PING","timeStamp":"yesterday"}`:             "decoding a probe: parsing time",
	} {
		if _, err := decodeProbe([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestProbeNoAmplification(t *testing.T) {
	for _, requested := range []string{
		`{"msgType":"PING","timeStamp":"2026-03-01T12:00:00Z"}`,                    // the ID would be added
		`{"clusterID":"<<<<","msgType":"PING","timeStamp":"2026-03-01T12:00:00Z"}`, // and here escapes
		"{\"clusterID\":\"\xff\",\"msgType\":\"PING\",\"timeStamp\":\"2026-03-01T12:00:00Z\"}",
	} {
		message, err := decodeProbe([]byte(requested))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := message.encodeAnswer(len(requested)); err == nil {
			t.Errorf("%s is answered with %s", requested, got)
		}
	}
}

func FuzzProbe(f *testing.F) {
	asked, err := encodeQuestion("rome", noon, 300)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(asked)
	f.Add([]byte(`{"clusterID":"<","msgType":"PING","timeStamp":"2026-03-01T12:00:00Z","padding":"&&&&"}`))
	f.Add([]byte(`{"msgType":"PONG","timeStamp":"0001-01-01T00:00:01+23:59","more":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := decodeProbe(data)
		if err != nil {
			return
		}
		answered, err := message.encodeAnswer(len(data))
		if err != nil {
			return
		}
		if len(answered) > len(data) {
			t.Errorf("%d bytes are answered with %d", len(data), len(answered))
		}
		heard, err := decodeProbe(answered)
		if err != nil || !heard.Time.Equal(message.Time) || heard.Type != pong {
			t.Errorf("%s is answered with %s: %v", data, answered, err)
		}
	})
}
