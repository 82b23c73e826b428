// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelet is the HTTP API by which the local API server reaches the containers of this node. Nothing is interpreted
// here: a request becomes the same request to the provider's API server, and streams pass through untouched, so that
// terminals resize, exit codes arrive and every protocol version works.
type kubelet struct {
	// find returns a pod of this node.
	find func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// list returns the pods of this node.
	list func(ctx context.Context) ([]corev1.Pod, error)
	// twin returns the remote namespace of a local one.
	twin func(namespace string) (string, bool)
	// provider is where requests go; nil until the provider is known.
	provider func() *provider
	logger   logr.Logger
}

// errNoPod is the answer about pods that are not of this node or not offloaded.
var errNoPod = errors.New("pod not found on this node")

func (k *kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.forward("log", logQuery))
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", k.forward("exec", execQuery))
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", k.forward("attach", execQuery))
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", k.forward("portforward", portQuery))
	}
	mux.HandleFunc("GET /pods", k.servePods(false))
	mux.HandleFunc("GET /pods/", k.servePods(false))
	mux.HandleFunc("GET /runningpods/", k.servePods(true))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return mux
}

// forward sends a request on to a subresource of the remote pod.
func (k *kubelet) forward(subresource string, query func(*http.Request) url.Values) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		namespace, name := req.PathValue("namespace"), req.PathValue("pod")
		if _, err := k.find(req.Context(), namespace, name); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		twin, ok := k.twin(namespace)
		if !ok {
			http.Error(w, fmt.Sprintf("namespace %q is not offloaded to this node", namespace), http.StatusNotFound)
			return
		}
		up := k.provider()
		if up == nil {
			http.Error(w, "the provider is not known yet", http.StatusServiceUnavailable)
			return
		}
		to := &url.URL{
			Path:     fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/%s", twin, name, subresource),
			RawQuery: query(req).Encode(),
		}
		up.forward(w, req, to, k.logger)
	}
}

// execQuery turns the parameters of a kubelet into those of an API server.
func execQuery(req *http.Request) url.Values {
	in, out := req.URL.Query(), url.Values{"container": {req.PathValue("container")}}
	if command, ok := in["command"]; ok {
		out["command"] = command
	}
	for from, to := range map[string]string{"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"} {
		if on, err := strconv.ParseBool(in.Get(from)); err == nil && on {
			out.Set(to, "true")
		}
	}
	return out
}

func portQuery(req *http.Request) url.Values {
	out := url.Values{}
	for _, value := range req.URL.Query()["port"] {
		out["ports"] = append(out["ports"], strings.Split(value, ",")...)
	}
	return out
}

// logParameters mean the same to a kubelet and to an API server.
var logParameters = []string{
	"follow", "previous", "tailLines", "limitBytes", "timestamps", "sinceSeconds", "sinceTime", "stream",
}

func logQuery(req *http.Request) url.Values {
	out := url.Values{"container": {req.PathValue("container")}}
	for key, values := range req.URL.Query() {
		if slices.Contains(logParameters, key) {
			out[key] = values
		}
	}
	return out
}

// servePods lists the pods of this node, or those of them that run.
func (k *kubelet) servePods(running bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		pods, err := k.list(req.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if running {
			pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
		}
		slices.SortFunc(pods, func(a, b corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		out := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			k.logger.V(1).Info("client left", "reason", err.Error())
		}
	}
}

// responder answers when the provider does not.
type responder struct{ logger logr.Logger }

func (r responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	if !errors.Is(err, context.Canceled) {
		r.logger.Info("request to the provider failed", "path", req.URL.Path, "reason", err.Error())
	}
	http.Error(w, "the provider cannot be reached: "+err.Error(), http.StatusBadGateway)
}

const readHeaderTimeout = 10 * time.Second

// serve serves h by TLS until ctx ends. Client certificates are asked for and judged by the gate, so that a wrong one
// gets an answer.
func serve(ctx context.Context, listener net.Listener, h http.Handler, certs certificates) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: certs.forServer,
		},
		// Every port scanner would leave a line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}
