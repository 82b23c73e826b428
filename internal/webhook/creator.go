// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// maxReview is the maximum size of an AdmissionReview; API servers send less.
const maxReview = 7 << 20

// fromCreator rejects a request to create an object whose creator label is not the user of the request. The API server
// has called the mutating webhook, which sets the label, before: such a request comes from another client with access
// to the port, which probes for data of other users.
func fromCreator(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
		if err != nil {
			http.Error(w, "the request cannot be read", http.StatusBadRequest)
			return
		}
		var review struct {
			Request struct {
				Operation admissionv1.Operation `json:"operation"`
				UserInfo  struct {
					Username string `json:"username"`
				} `json:"userInfo"`
				Object struct {
					Metadata metav1.ObjectMeta `json:"metadata"`
				} `json:"object"`
			} `json:"request"`
		}
		if err := json.Unmarshal(body, &review); err != nil {
			http.Error(w, "the request is no AdmissionReview", http.StatusBadRequest)
			return
		}
		asked := &review.Request
		creator := policy.CreatorUser(asked.UserInfo.Username)
		if asked.Operation == admissionv1.Create && (creator == "" || asked.Object.Metadata.Labels[names.CreatorUser] != creator) {
			http.Error(w, "the user of the request did not create the object", http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
