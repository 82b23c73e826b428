// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestRootCAFirstPods(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "kube-root-ca.crt.rome")
	away := errors.New("nobody answers")
	type look struct {
		at     time.Duration
		answer error
		asked  bool
		waits  bool
	}
	for name, looks := range map[string][]look{
		"there at once, for good":        {{0, nil, true, false}, {time.Hour, missing, false, false}},
		"there soon":                     {{0, missing, true, true}, {rootCADelay, nil, true, false}, {time.Hour, missing, false, false}},
		"asked once for all pods":        {{0, missing, true, true}, {0, missing, false, true}, {rootCADelay / 2, nil, false, true}, {rootCADelay, nil, true, false}},
		"never there":                    {{0, missing, true, true}, {rootCATimeout, missing, true, false}, {rootCATimeout, missing, false, false}},
		"the provider does not answer":   {{0, away, true, false}, {0, away, true, false}, {0, missing, true, true}},
		"nor after it was not there yet": {{0, missing, true, true}, {rootCADelay, away, true, false}, {rootCADelay, nil, true, false}},
	} {
		var r rootCAs
		begin := time.Unix(1000, 0)
		for i, l := range looks {
			requested := false
			err := r.awaitRootCA(t.Context(), multicluster.Pair{Local: "web"}, begin.Add(l.at), func(context.Context) error {
				requested = true
				return l.answer
			})
			if requested != l.asked || (err != nil) != l.waits {
				t.Errorf("%s: look %d: asked %t, %v", name, i, requested, err)
			}
		}
		other := false
		r.Set([]multicluster.Pair{{Local: "shop"}})
		anew := false
		if err := r.awaitRootCA(t.Context(), multicluster.Pair{Local: "web"}, begin.Add(time.Hour), func(context.Context) error { anew = true; return nil }); err != nil || !anew {
			t.Errorf("%s: nobody asks for a twin that is made anew: %v", name, err)
		}
		if err := r.awaitRootCA(t.Context(), multicluster.Pair{Local: "shop"}, begin, func(context.Context) error { other = true; return nil }); err != nil || !other {
			t.Errorf("%s: nobody asks for another namespace: %v", name, err)
		}
	}
}

// While the provider does not answer, the other pods of the namespace leave the workers to those of others.
func TestRootCAOneQuery(t *testing.T) {
	var r rootCAs
	web, now := multicluster.Pair{Local: "web"}, time.Unix(1000, 0)
	nobody := func(context.Context) error {
		t.Error("a second pod asks")
		return nil
	}
	err := r.awaitRootCA(t.Context(), web, now, func(context.Context) error {
		if err := r.awaitRootCA(t.Context(), web, now, nobody); !kube.IsWait(err) {
			t.Errorf("a second pod of the namespace goes on with %v", err)
		}
		if err := r.awaitRootCA(t.Context(), multicluster.Pair{Local: "shop"}, now, func(context.Context) error { return nil }); err != nil {
			t.Errorf("a pod of another namespace waits: %v", err)
		}
		return errors.New("it took too long")
	})
	if err != nil {
		t.Errorf("the pod that asks does not say what is wrong: %v", err)
	}
	requested := false
	if err := r.awaitRootCA(t.Context(), web, now, func(context.Context) error { requested = true; return nil }); err != nil || !requested {
		t.Errorf("the next one asks is %t: %v", requested, err)
	}
}

// A provider that never answers keeps nobody for longer than one that has no root CA.
func TestRootCATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rootCAs
		web, begun := multicluster.Pair{Local: "web"}, time.Now()
		err := r.awaitRootCA(t.Context(), web, begun, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(begun); err != nil || took != rootCATimeout {
			t.Errorf("the pod that asks goes on after %s with %v", took, err)
		}
		requested := false
		if err := r.awaitRootCA(t.Context(), web, time.Now(), func(context.Context) error { requested = true; return nil }); err != nil || !requested {
			t.Errorf("the next one asks is %t: %v", requested, err)
		}
	})
}

// The provider takes no ConfigMaps for long: the first pod of the namespace waits for the root CA as long as it may, and no longer.
func TestRootCAMounted(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	remoteProxy.close("/configmaps")
	s.run()
	plain := s.newPod(s.local, "plain")
	plain.Spec.AutomountServiceAccountToken = new(false)
	s.create(s.consumer, plain)
	eventually(s, s.provider, s.shadow("plain"), exists)
	pod := s.newPod(s.local, "web")
	pod.Spec.Volumes = []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
	}}}}
	begun := time.Now()
	s.create(s.consumer, pod)
	eventually(s, s.provider, s.shadow("web"), exists)
	if waited := time.Since(begun); waited < rootCATimeout {
		t.Errorf("it waited for %s", waited)
	}
	root := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: names.RootCA("rome")}}
	s.absent(s.provider, root)
	remoteProxy.close("")
	eventually(s, s.provider, root, exists)
}
