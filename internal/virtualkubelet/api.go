// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

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

	"liqo.io/liqo/internal/names"
)

// kubeletAPI is the HTTP API by which the local API server reaches the containers of this node. kubeletAPI interprets nothing:
// a request becomes the same request to the provider's API server, and streams pass through unchanged. Thus terminals resize,
// exit codes arrive and every protocol version works.
type kubeletAPI struct {
	// find returns a pod of this node.
	find func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// list returns the pods of this node.
	list func(ctx context.Context) ([]corev1.Pod, error)
	// remoteNamespace returns the remote namespace of a local one.
	remoteNamespace func(namespace string) (string, bool)
	// send forwards a request to a path of the provider's API server.
	send func(w http.ResponseWriter, req *http.Request, to *url.URL)
	// metrics serves the figures of the pods.
	metrics *podMetrics
	log     logr.Logger
}

// errNoPod is the answer about pods that are not on this node.
var errNoPod = errors.New("pod not found on this node")

func (k *kubeletAPI) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.ofPod(k.forwardTo("log", logQuery)))
	for _, method := range []string{"GET", "POST"} {
		for _, pod := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
			mux.HandleFunc(method+" /exec"+pod+"/{container}", k.ofPod(k.forwardTo("exec", execQuery)))
			mux.HandleFunc(method+" /attach"+pod+"/{container}", k.ofPod(k.forwardTo("attach", execQuery)))
			mux.HandleFunc(method+" /portForward"+pod, k.ofPod(k.forwardTo("portforward", portQuery)))
		}
	}
	for _, path := range []string{"/run/{namespace}/{pod}/{container}", "/run/{namespace}/{pod}/{uid}/{container}", "/checkpoint/{namespace}/{pod}/{container}"} {
		mux.HandleFunc("POST "+path, k.ofPod(func(w http.ResponseWriter, _ *http.Request, _ *corev1.Pod) { notServed(w, nil) }))
	}
	k.metrics.addHandlers(mux)
	for _, path := range []string{"/stats/", "/metrics/", "/logs/"} {
		mux.HandleFunc("GET "+path, notServed)
	}
	mux.HandleFunc("GET /pods", k.servePods(false))
	mux.HandleFunc("GET /pods/", k.servePods(false))
	mux.HandleFunc("GET /runningpods/", k.servePods(true))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	return mux
}

// writeText writes a line of text without a newline: the local API server shows the line to the user.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// notServed answers requests to endpoints of a kubelet that a virtual node lacks.
func notServed(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusNotImplemented, "not served by virtual nodes")
}

// ofPod looks up the pod of a request.
func (k *kubeletAPI) ofPod(next func(http.ResponseWriter, *http.Request, *corev1.Pod)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		pod, err := k.find(req.Context(), req.PathValue("namespace"), req.PathValue("pod"))
		if uid := req.PathValue("uid"); err == nil && uid != "" && uid != string(pod.UID) {
			err = errNoPod
		}
		if err != nil {
			writeText(w, http.StatusNotFound, err.Error())
			return
		}
		next(w, req, pod)
	}
}

// forwardTo forwards a request to a subresource of the remote pod.
func (k *kubeletAPI) forwardTo(subresource string, query func(*http.Request) url.Values) func(http.ResponseWriter, *http.Request, *corev1.Pod) {
	return func(w http.ResponseWriter, req *http.Request, pod *corev1.Pod) {
		remoteNamespace, ok := k.remoteNamespace(pod.Namespace)
		switch {
		case !ok:
			writeText(w, http.StatusNotFound, fmt.Sprintf("namespace %q is not offloaded to this node", pod.Namespace))
		case pod.Labels[names.ShadowPod] != "true":
			// A remote pod of this name, if any, is another pod.
			writeText(w, http.StatusBadRequest, fmt.Sprintf("pod %q is waiting to start: it is not in the provider yet", pod.Name))
		default:
			k.send(w, req, &url.URL{
				Path:     fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/%s", remoteNamespace, pod.Name, subresource),
				RawQuery: query(req).Encode(),
			})
		}
	}
}

// execQuery translates the parameters of a kubelet to those of an API server.
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

// servePods lists the pods of this node, or only the running ones.
func (k *kubeletAPI) servePods(running bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		pods, err := k.list(req.Context())
		if err != nil {
			writeText(w, http.StatusInternalServerError, err.Error())
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
			k.log.V(1).Info("client left", "reason", err.Error())
		}
	}
}

// These timeouts limit slow clients outside of streams.
const (
	readHeaderTimeout = 10 * time.Second
	readBodyTimeout   = 10 * time.Second
	idleTimeout       = 90 * time.Second
)

// serveTLS serves h by TLS until ctx ends. Client certificates are requested by TLS but verified by the gate: an invalid one
// gets an HTTP answer. The protocol is HTTP/1.1: a connection carries one request at a time, and can be upgraded.
func serveTLS(ctx context.Context, listener net.Listener, h http.Handler, certs certificates) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:           boundBodies(h),
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: certs.forServer,
		},
		// Streams end with the server.
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Every port scanner would cause a log line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}

// boundBodies limits the time to read a body. No request of this API needs a body, and the server reads the body before the answer, even
// if the client is not authorized.
func boundBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength != 0 {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readBodyTimeout)); err != nil {
				writeText(w, http.StatusInternalServerError, err.Error())
				return
			}
		}
		h.ServeHTTP(w, req)
	})
}
