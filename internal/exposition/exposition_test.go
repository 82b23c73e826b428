// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSample(t *testing.T) {
	now := time.UnixMilli(7)
	for name, tc := range map[string]struct {
		line            string
		namespace, pod  string
		metric          string
		value           float64
		at              int64
		renamed, refuse string
	}{
		"kubelet": {
			line:   `container_cpu_usage_seconds_total{container="main",namespace="web-milan",pod="a"} 1.5e+00 1700000000123`,
			metric: "container_cpu_usage_seconds_total", namespace: "web-milan", pod: "a", value: 1.5, at: 1700000000123,
			renamed: `container_cpu_usage_seconds_total{container="main",namespace="web",pod="a"} 1.5e+00 1700000000123`,
		},
		"no timestamp":           {line: `up{namespace="x"} 1`, metric: "up", namespace: "x", value: 1, at: 7, renamed: `up{namespace="web"} 1`},
		"no labels":              {line: `node_memory_working_set_bytes 5 9`, metric: "node_memory_working_set_bytes", value: 5, at: 9, renamed: `node_memory_working_set_bytes 5 9`},
		"empty braces":           {line: `a{} 1`, metric: "a", value: 1, at: 7, renamed: `a{} 1`},
		"blanks, trailing comma": {line: `a{ namespace = "x" , pod="p",} 	 1 2`, metric: "a", namespace: "x", pod: "p", value: 1, at: 2, renamed: `a{ namespace = "web" , pod="p",} 	 1 2`},
		"no blank before value":  {line: `a{pod="p"}1`, metric: "a", pod: "p", value: 1, at: 7, renamed: `a{pod="p"}1`},
		"namespace in a value": {
			line: `a{image="x\",namespace=\"web\\",namespace="b"} 1`, metric: "a", namespace: "b", value: 1, at: 7,
			renamed: `a{image="x\",namespace=\"web\\",namespace="web"} 1`,
		},
		"end of a label's name": {line: `a{exported_namespace="b"} 1`, metric: "a", value: 1, at: 7, renamed: `a{exported_namespace="b"} 1`},
		"braces in a value":     {line: `a{id="}{",namespace="b"} 1`, metric: "a", namespace: "b", value: 1, at: 7, renamed: `a{id="}{",namespace="web"} 1`},
		"escapes":               {line: `a{namespace="\\n\"\n"} 1`, metric: "a", namespace: "\\n\"\n", value: 1, at: 7, renamed: `a{namespace="web"} 1`},
		"label twice":           {line: `a{namespace="b",namespace="c"} 1`, refuse: "x"},
		"open quote":            {line: `a{namespace="b} 1`, refuse: "x"},
		"escaped end":           {line: `a{namespace="b\"} 1`, refuse: "x"},
		"last backslash":        {line: `a{namespace="b\`, refuse: "x"},
		"open brace":            {line: `a{namespace="b" 1`, refuse: "x"},
		"no comma":              {line: `a{namespace="b"pod="c"} 1`, refuse: "x"},
		"no value":              {line: `a{namespace="b"}`, refuse: "x"},
		"three values":          {line: `a 1 2 3`, refuse: "x"},
		"no name":               {line: `{namespace="b"} 1`, refuse: "x"},
		"quoted name":           {line: `{"a.b",namespace="b"} 1`, refuse: "x"},
		"unquoted":              {line: `a{namespace=b} 1`, refuse: "x"},
		"name of a digit":       {line: `1a{namespace="b"} 1`, refuse: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Sample
			if err := s.Parse([]byte(tc.line)); (err != nil) != (tc.refuse != "") {
				t.Fatal(err)
			} else if err != nil {
				return
			}
			value, err := s.Value()
			got := []any{string(s.Name()), s.Label("namespace"), s.Label("pod"), value, err, s.Time(now).UnixMilli(), string(s.AppendWith(nil, "namespace", "web"))}
			want := []any{tc.metric, tc.namespace, tc.pod, tc.value, error(nil), tc.at, tc.renamed}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const node1 = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="web",pod="own"} 1 1001
container_cpu_usage_seconds_total{container="c",namespace="web-milan",pod="a"} 2 1002
container_cpu_usage_seconds_total{container="c",namespace="web-milano",pod="b"} 3 1003
container_cpu_usage_seconds_total{container="c",namespace="kube-system",pod="web-milan"} 4 1004
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 99 1000
# TYPE prober_seconds histogram
prober_seconds_bucket{namespace="web-milan",pod="a",le="+Inf"} 1
prober_seconds_sum{namespace="web-milan",pod="a"} 1
prober_seconds_count{namespace="web-milan",pod="a"} 1
machine_cpu_cores{namespace=""} 4
broken{namespace="web-milan" 1
bare{namespace="web-milan"} 5
`

const node2 = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="db-milan",pod="x"} 6 1006
container_cpu_usage_seconds_total{container="c",namespace="web-milan",pod="z"} 5 1005
`

func readPage(t testing.TB, text string) *Page {
	t.Helper()
	page, err := ReadPage(strings.NewReader(text), func(namespace string) bool { return strings.Contains(namespace, "milan") })
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestWritePages(t *testing.T) {
	pages := []*Page{readPage(t, node1), readPage(t, node2)}
	if pages[0].Invalid != 1 {
		t.Errorf("%d invalid lines", pages[0].Invalid)
	}
	for name, tc := range map[string]struct {
		rename map[string]string
		want   string
	}{
		"nothing":           {nil, ""},
		"foreign namespace": {map[string]string{"web": "web", "milan": "x", "web-mila": "y", "": "z"}, ""},
		"one": {map[string]string{"web-milan": "web"}, `bare{namespace="web"} 5
# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="web",pod="a"} 2 1002
container_cpu_usage_seconds_total{container="c",namespace="web",pod="z"} 5 1005
# TYPE prober_seconds histogram
prober_seconds_bucket{namespace="web",pod="a",le="+Inf"} 1
prober_seconds_sum{namespace="web",pod="a"} 1
prober_seconds_count{namespace="web",pod="a"} 1
`},
		"containing one": {map[string]string{"web-milano": "web-milan"}, `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="web-milan",pod="b"} 3 1003
`},
		"hostile name": {map[string]string{"db-milan": "x\"} 1\nforged{a=\"\\"}, `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="x\"} 1\nforged{a=\"\\",pod="x"} 6 1006
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := WritePages(&out, pages, tc.rename); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadPageTruncated(t *testing.T) {
	for name, text := range map[string]string{"in a line": `a{namespace="milan"} 1`, "long line": strings.Repeat("a", 2*maxLine) + "\n"} {
		if _, err := ReadPage(strings.NewReader(text), func(string) bool { return true }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzPage checks that what is written of a page is a page again, with the renamed namespace and no other.
func FuzzPage(f *testing.F) {
	f.Add([]byte(node1), "web")
	f.Add([]byte(node2), "a\"\n\\")
	f.Add([]byte("a{namespace=\"web-milan\",x=\"\\\"} 1\n\"} 1\n"), "n")
	f.Fuzz(func(t *testing.T, text []byte, to string) {
		page, err := ReadPage(bytes.NewReader(text), func(namespace string) bool { return namespace == "web-milan" })
		if err != nil || to == "" {
			return
		}
		var out bytes.Buffer
		if err := WritePages(&out, []*Page{page}, map[string]string{"web-milan": to}); err != nil {
			t.Fatal(err)
		}
		reader := NewReader(&out)
		for {
			sample, err := reader.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := sample.Label(NamespaceLabel); got != to {
				t.Fatalf("a series of %q, want %q: %s", got, to, sample.Line())
			}
		}
		if reader.Invalid > 0 {
			t.Fatalf("%d invalid lines", reader.Invalid)
		}
	})
}

// kubeletPage returns the resource page of a node with some pods, of which each tenant has an equal share.
func kubeletPage(pods, tenants int) string {
	var out strings.Builder
	for _, metric := range []string{"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds"} {
		fmt.Fprintf(&out, "# HELP %s [STABLE] text\n# TYPE %s counter\n", metric, metric)
		for i := range pods {
			fmt.Fprintf(&out, "%s{container=\"main\",namespace=\"team-%d-milan-%d\",pod=\"web-7d4b9c6f5-%05d\"} 1.23456789e+02 1700000000123\n", metric, i%7, i%tenants, i)
		}
	}
	return out.String()
}

func BenchmarkReadPage(b *testing.B) {
	text := kubeletPage(2000, 4)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ReadPage(strings.NewReader(text), func(string) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWritePages(b *testing.B) {
	page, err := ReadPage(strings.NewReader(kubeletPage(2000, 1)), func(string) bool { return true })
	if err != nil {
		b.Fatal(err)
	}
	rename := map[string]string{}
	for i := range 7 {
		rename[fmt.Sprintf("team-%d-milan-0", i)] = fmt.Sprintf("team-%d", i)
	}
	for b.Loop() {
		if err := WritePages(io.Discard, []*Page{page}, rename); err != nil {
			b.Fatal(err)
		}
	}
}
