// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"html/template"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Place has the pod, node and cluster of the server.
type Place struct {
	Title     string `json:"title"`
	Cluster   string `json:"cluster,omitempty"`
	Node      string `json:"node,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	PodIP     string `json:"podIP,omitempty"`
	Host      string `json:"host"`
	Client    string `json:"client,omitempty"`
}

func currentPlace() Place {
	host, _ := os.Hostname()
	return Place{
		Cluster: os.Getenv("CLUSTER"), Node: os.Getenv("NODE_NAME"), Namespace: os.Getenv("POD_NAMESPACE"),
		Pod: getenv("POD_NAME", host), PodIP: os.Getenv("POD_IP"), Host: host,
	}
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:16px/1.6 system-ui,sans-serif;margin:3em auto;max-width:32em}dt{color:#667}dd{margin:0 0 .6em;font-weight:600}</style></head>
<body><h1>{{.Title}}</h1><dl>
{{with .Cluster}}<dt>cluster</dt><dd>{{.}}</dd>
{{end}}{{with .Node}}<dt>node</dt><dd>{{.}}</dd>
{{end}}{{with .Namespace}}<dt>namespace</dt><dd>{{.}}</dd>
{{end}}<dt>pod</dt><dd>{{.Pod}}</dd>
{{with .PodIP}}<dt>pod address</dt><dd>{{.}}</dd>
{{end}}<dt>you</dt><dd>{{.Client}}</dd>
</dl></body></html>
`))

// Handler returns the handler of all pages.
func Handler(title string, place Place) http.Handler {
	place.Title = title
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		response := place
		response.Client = r.RemoteAddr
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := page.Execute(w, response); err != nil {
			log.Print(err)
		}
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, r *http.Request) {
		response := place
		response.Client = r.RemoteAddr
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /slow", slow)
	mux.HandleFunc("GET /bytes", sendBytes)
	return withLogging(mux)
}

// withLogging logs each request, for `kubectl logs -f`.
func withLogging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			log.Printf("%s %s from %s", r.Method, r.URL.Path, r.RemoteAddr)
		}
		next.ServeHTTP(w, r)
	})
}

// echo writes while it reads, so that the client may wait for a response before it sends more.
func echo(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 always is
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.Copy(w, r.Body)
}

// slow sends a line every 100 ms for the requested time.
func slow(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := io.WriteString(w, time.Now().Format(time.RFC3339Nano)+"\n"); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

func sendBytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil || n < 0 {
		http.Error(w, "invalid n: must be a number of bytes", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, zeros{}, n)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
