// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/testkit"
)

// The cluster of this story has no nodes: workload stands in for them, the rest is real.
func TestInstallationLifecycle(t *testing.T) {
	t.Parallel()
	c := testkit.SecondCluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller"))
	testkit.Eventually(t, 5*time.Minute, func() error { // the stories before are over when their namespaces are gone
		var all corev1.NamespaceList
		if err := c.Client.List(t.Context(), &all); err != nil {
			return err
		}
		for _, ns := range all.Items {
			if ns.DeletionTimestamp != nil {
				return fmt.Errorf("namespace %s is being deleted", ns.Name)
			}
		}
		return nil
	})
	before := listing(t, c.Config)
	aFailureIsUndone(t, c)
	aSignalIsUndone(t, c)
	aCrashEndsTheWait(t, c, installArgs()...)
	stop := workload(t, c)
	defer func() { stop() }()

	liqoctl(t, c.Config, "info").refuses(t, "Liqo is not installed in the current cluster!", "liqoctl install")
	installed := liqoctl(t, c.Config, installArgs("--timeout", "5m", "--cluster-labels", "region=eu", "--set", "controllerManager.replicas=2",
		"--global-labels", "team=net-${kind}", "--global-annotations", "where=${namespace}/${name}")...)
	installed.succeeds(t)
	everythingIsStamped(t, c)
	wantLines(t, installed.stderr,
		"Installer initialized", "Cluster configuration correctly retrieved", "Installation parameters correctly generated",
		"All Set! You can now proceed establishing a peering (liqoctl peer --help for more information)",
		"Make sure to use the same version of Liqo on all remote clusters")
	checkInfo(t, c)

	// Again, without what was said before: it upgrades, and keeps it.
	upgrade := liqoctl(t, c.Config, "upgrade", "--timeout", "5m", "--version", "v9")
	upgrade.succeeds(t, "All Set!")
	manager := deployment(t, c)
	if got := *manager.Spec.Replicas; got != 2 {
		t.Errorf("the upgrade forgot a value: %d replicas", got)
	}
	if got := manager.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, ":v9") {
		t.Errorf("the upgrade kept image %s", got)
	}
	liqoctl(t, c.Config, "info", "--get", "local.labels.region").succeeds(t, "eu\n")
	liqoctl(t, c.Config, "version").succeeds(t, "Client version: dev\nServer version: v9\n", "does not match the Liqo server version")

	whatWasInterruptedIsTakenUp(t, c)

	// An upgrade that fails goes back to what was there.
	liqoctl(t, c.Config, "upgrade", "--timeout", "5m", "--set-string", "controllerManager.pod.labels.x=no label!").refuses(t, "Error installing or upgrading Liqo: ", "no label!")
	if got := deployment(t, c).Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, ":v9") {
		t.Errorf("after the rollback the image is %s", got)
	}
	aCrashEndsTheWait(t, c, "upgrade")
	if got := deployment(t, c).Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, ":v9") {
		t.Errorf("after the second rollback the image is %s", got)
	}
	liqoctl(t, c.Config, "upgrade", "--timeout", "5m", "--version", "v9").succeeds(t, "All Set!")
	policyReplacesWebhook(t, c)

	doomed := wouldBeDeleted(t, c)

	// Nobody serves the webhooks here, and nobody outside of this machine may be asked.
	for _, webhooks := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
		if err := c.Client.DeleteAllOf(t.Context(), webhooks); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody serves the metrics either, and Kubernetes deletes no namespace while an API does not answer.
	metrics := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.liqo.io"},
	}}
	if err := c.Client.Delete(t.Context(), metrics); err != nil {
		t.Fatal(err)
	}
	liqoctl(t, c.Config, "uninstall").refuses(t, "--skip-confirm")
	refusesWhileUsed(t, c)
	for _, dry := range []string{"--dry-run", "--skip-confirm"} {
		liqoctl(t, c.Config, "uninstall", "-n", "elsewhere", dry).refuses(t, "cluster-wide resources are still present - did you specify the right namespace?")
	}
	deployment(t, c)
	stop()
	aSignalEndsTheUninstallation(t, c)
	aStuckJobEndsTheUninstallation(t, c)
	stop = workload(t, c)

	uninstalled := liqoctl(t, c.Config, "uninstall", "--purge", "--skip-confirm", "--timeout", "5m")
	uninstalled.succeeds(t)
	wantLines(t, uninstalled.stderr, "Pre-uninstall checks passed", "Liqo uninstalled", "Liqo CRDs purged", "Liqo namespaces deleted")
	for _, obj := range doomed {
		testkit.Eventually(t, 5*time.Minute, func() error {
			if err := isGone(c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)); err != nil {
				return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
			return nil
		})
	}
	// The test cluster came with our CRDs: they are gone too, with what other stories have of these kinds.
	after := listing(t, c.Config)
	before = slices.DeleteFunc(before, func(s string) bool { return strings.HasSuffix(s, ".liqo.io") || strings.Contains(s, ".liqo.io/") })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something is left or missing (-before +after):\n%s", diff)
	}
}

// wouldBeDeleted is what a dry run of uninstall --purge names, all of which is there before and after.
func wouldBeDeleted(t *testing.T, c *testkit.ControlPlane) []*unstructured.Unstructured {
	t.Helper()
	named := func(args ...string) (all []string) {
		t.Helper()
		r := liqoctl(t, c.Config, append([]string{"uninstall"}, args...)...)
		r.succeeds(t, "Pre-uninstall checks passed\n INFO  Uninstallation completed (dry-run)\n")
		for _, obj := range documents(t, r.stdout) {
			all = append(all, obj.GetKind()+" "+client.ObjectKeyFromObject(obj).String())
			existing := obj.DeepCopy()
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), existing); err != nil {
				t.Errorf("uninstall %v: %v", args, err)
			}
			bare := map[string]any{"name": obj.GetName()}
			if obj.GetNamespace() != "" {
				bare["namespace"] = obj.GetNamespace()
			}
			if diff := cmp.Diff(map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "metadata": bare}, obj.Object); diff != "" {
				t.Errorf("uninstall %v prints more than names:\n%s", args, diff)
			}
		}
		return all
	}
	plain, purge := named("--dry-run"), named("--dry-run", "--purge")
	if diff := cmp.Diff(plain, named("-o", "yaml")); diff != "" {
		t.Errorf("--dry-run and -o yaml differ:\n%s", diff)
	}
	for name, in := range map[string]struct{ plain, purge bool }{
		"Deployment liqo/liqo-controller-manager":                  {true, true},
		"ClusterRole /liqo-remote-controlplane":                    {true, true},
		"CustomResourceDefinition /tenants.authentication.liqo.io": {false, true},
		"Namespace /liqo": {false, true},
	} {
		if slices.Contains(plain, name) != in.plain || slices.Contains(purge, name) != in.purge {
			t.Errorf("%s: named %t, with --purge %t", name, slices.Contains(plain, name), slices.Contains(purge, name))
		}
	}
	asJSON := liqoctl(t, c.Config, "uninstall", "-o", "json")
	asJSON.succeeds(t)
	if got := strings.Count(asJSON.stdout, `"kind": "`); got != len(plain) {
		t.Errorf("-o json names %d objects, -o yaml %d", got, len(plain))
	}
	return documents(t, liqoctl(t, c.Config, "uninstall", "--dry-run", "--purge").stdout)
}

// whatWasInterruptedIsTakenUp kills an installer and an uninstaller at every point at which Helm remembers what they did.
func whatWasInterruptedIsTakenUp(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	releases := storage.Init(driver.NewSecrets(clientset.CoreV1().Secrets("liqo")))
	for _, status := range []releasecommon.Status{
		releasecommon.StatusPendingInstall, releasecommon.StatusPendingUpgrade, releasecommon.StatusFailed, releasecommon.StatusUninstalling,
	} {
		last, err := releases.Last("liqo")
		if err != nil {
			t.Fatal(err)
		}
		r := last.(*release.Release)
		r.Info.Status, r.Info.LastDeployed, r.Info.Deleted = status, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		if err := releases.Update(r); err != nil {
			t.Fatal(err)
		}
		// Half of it is gone, or was never there.
		id := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-clusterid-configmap"}}
		for _, obj := range []client.Object{deployment(t, c), id} {
			if err := c.Client.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		upgraded := liqoctl(t, c.Config, "install", "--timeout", "120s", "--version", "v9")
		upgraded.succeeds(t, "All Set!")
		line := fmt.Sprintf(" WARN  Revision %d of Helm release \"liqo\" is %s: continuing from there\n", r.Version, status)
		if count := strings.Count(upgraded.stderr, line); count != 1 && status != releasecommon.StatusFailed {
			t.Errorf("%s: told %d times:\n%s", status, count, upgraded.stderr)
		}
		if got := *deployment(t, c).Spec.Replicas; got != 2 {
			t.Errorf("%s: a value was forgotten: %d replicas", status, got)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(id), id); err != nil || id.Data["CLUSTER_ID"] != "cl-test" {
			t.Errorf("%s: the cluster is called %q: %v", status, id.Data["CLUSTER_ID"], err)
		}
	}
}

// broken is a version whose controller-manager crashes.
const broken = "broken"

// aCrashEndsTheWait installs or upgrades to that version, and does not wait for the timeout.
func aCrashEndsTheWait(t *testing.T, c *testkit.ControlPlane, command ...string) {
	t.Helper()
	crashed := whileRunning(t, func(ctx context.Context) error {
		return crash(ctx, c.Client, "liqo-controller-manager-0", brokenManager)
	})
	r := liqoctl(t, c.Config, append(command, "--timeout", "5m", "--version", broken)...)
	if err := crashed(); err != nil {
		t.Fatalf("nothing crashed: %v\n%s%s", err, r.stdout, r.stderr)
	}
	r.refuses(t, "Error installing or upgrading Liqo: pod liqo-controller-manager-0 does not start: CrashLoopBackOff, exit code 1: unknown flag: --no-such-flag")
	if strings.Contains(r.stderr, "rolling back failed") || strings.Contains(r.stderr, "--verbose") {
		t.Errorf("it could not go back, or asks to look elsewhere:\n%s", r.stderr)
	}
}

// aStuckJobEndsTheUninstallation does not wait for the timeout, and removes nothing.
func aStuckJobEndsTheUninstallation(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	const name = "liqo-pre-delete"
	crashed := whileRunning(t, func(ctx context.Context) error {
		return crash(ctx, c.Client, name+"-0", func(ctx context.Context, c client.Client) *corev1.PodTemplateSpec {
			job := &batchv1.Job{}
			if c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: name}, job) != nil {
				return nil
			}
			return &job.Spec.Template
		})
	})
	r := liqoctl(t, c.Config, "uninstall", "--skip-confirm", "--timeout", "5m")
	if err := crashed(); err != nil {
		t.Fatalf("nothing crashed: %v\n%s%s", err, r.stdout, r.stderr)
	}
	r.refuses(t, "Error uninstalling Liqo: pod liqo-pre-delete-0 does not start: CrashLoopBackOff", "before anything is removed")
	deployment(t, c)
	if err := c.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name + "-0"}}); err != nil {
		t.Fatal(err)
	}
}

// whileRunning does something beside a command, until a while after the returned function is called: a command that ended is not waited for, but
// it may have seen what was written before the writer did.
func whileRunning(t *testing.T, do func(context.Context) error) (ended func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	return func() error {
		defer cancel()
		defer time.AfterFunc(10*time.Second, cancel).Stop()
		return <-done
	}
}

// crash makes a pod once there is a template for it, as a kubelet reports it after three restarts.
func crash(ctx context.Context, c client.Client, name string, template func(context.Context, client.Client) *corev1.PodTemplateSpec) error {
	from := template(ctx, c)
	for ; from == nil; from = template(ctx, c) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	pod := &corev1.Pod{ObjectMeta: from.ObjectMeta, Spec: from.Spec}
	pod.Namespace, pod.Name = "liqo", name
	if err := c.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, RestartCount: 3,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", Message: "I1120 starting\nunknown flag: --no-such-flag\n",
		}},
	}}
	return c.Status().Update(ctx, pod)
}

func brokenManager(ctx context.Context, c client.Client) *corev1.PodTemplateSpec {
	d := &appsv1.Deployment{}
	if c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: "liqo-controller-manager"}, d) != nil || !isBroken(d) {
		return nil
	}
	return &d.Spec.Template
}

func isBroken(d *appsv1.Deployment) bool {
	return strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, ":"+broken)
}

// aFailureIsUndone installs while nothing can start.
func aFailureIsUndone(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	liqoctl(t, c.Config, installArgs("--timeout", "45s")...).refuses(t, "Error installing or upgrading Liqo: ", "liqo-controller-manager")
	nothingIsInstalled(t, c)
}

// interrupted runs a command until there is an object, and then sends the signal of Ctrl-C.
func interrupted(t *testing.T, c *testkit.ControlPlane, obj client.Object, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cancel()
		for ctx.Err() == nil && c.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj) != nil {
			time.Sleep(50 * time.Millisecond)
		}
	})
	r := liqoctlUntil(ctx, t, c.Config, args...)
	cancel()
	watching.Wait()
	return r
}

// aSignalIsUndone interrupts an installation while Helm writes: it must not go on beside what is undone.
func aSignalIsUndone(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	early := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager"}}
	interrupted(t, c, early, installArgs("--timeout", "5m")...).refuses(t, "Error installing or upgrading Liqo: ")
	nothingIsInstalled(t, c)
}

// aSignalEndsTheUninstallation before anything is removed: while its Job runs.
func aSignalEndsTheUninstallation(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-pre-delete"}}
	interrupted(t, c, job, "uninstall", "--skip-confirm", "--timeout", "5m").refuses(t, "Error uninstalling Liqo: ")
	deployment(t, c)
	if err := c.Client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
}

// nothingIsInstalled waits for the end of a namespace that is deleted, too.
func nothingIsInstalled(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	testkit.Eventually(t, 5*time.Minute, func() error {
		for _, list := range []client.ObjectList{&corev1.SecretList{}, &appsv1.DeploymentList{}} {
			if err := c.Client.List(t.Context(), list, client.InNamespace("liqo")); err != nil {
				return err
			}
			for _, obj := range cluster.ItemsOf(list) {
				return fmt.Errorf("%T %s is left", obj, obj.GetName())
			}
		}
		ns := &corev1.Namespace{}
		if err := client.IgnoreNotFound(c.Client.Get(t.Context(), client.ObjectKey{Name: "liqo"}, ns)); err != nil || ns.DeletionTimestamp == nil {
			return err
		}
		return errors.New("the namespace is being deleted")
	})
}

func wantLines(t *testing.T, stderr string, lines ...string) {
	t.Helper()
	var want strings.Builder
	for _, l := range lines {
		want.WriteString(" INFO  " + l + "\n")
	}
	if diff := cmp.Diff(want.String(), stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func deployment(t *testing.T, c *testkit.ControlPlane) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: "liqo-controller-manager"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func checkInfo(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	for query, want := range map[string]string{
		"clusterid":            "cl-test\n",
		".local.clusterID":     "cl-test\n",
		"local.version":        "dev\n",
		"local.labels":         "region: eu\n",
		"health.healthy":       "false\n", // nothing runs here
		"health.unhealthypods": "{}\n",
		"peerings.peers":       "[]\n",
		"network.podcidr":      "[]\n",
		"network.internalcidr": "\n",
	} {
		r := liqoctl(t, c.Config, "info", "--get", query)
		if r.err != nil || r.stdout != want {
			t.Errorf("--get %s is %q, want %q: %v\n%s", query, r.stdout, want, r.err, r.stderr)
		}
	}
	liqoctl(t, c.Config, "info", "--get", "local.nothing").refuses(t, `invalid query "local.nothing": "nothing" not found`)
	liqoctl(t, c.Config, "info", "-o", "toml").refuses(t, "--output is json or yaml")
}

// everythingIsStamped looks at one object of each way in which the installation makes them.
func everythingIsStamped(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	for where, gvk := range map[string]schema.GroupVersionKind{
		"/liqo":                           corev1.SchemeGroupVersion.WithKind("Namespace"),
		"/tenants.authentication.liqo.io": apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		"liqo/liqo-controller-manager":    appsv1.SchemeGroupVersion.WithKind("Deployment"),
		"/liqo-remote-controlplane":       rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		"/liqo-webhook":                   admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		"/liqo-pods":                      admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"), // the cluster knows the kind
	} {
		obj, kind := &metav1.PartialObjectMetadata{}, gvk.Kind
		obj.SetGroupVersionKind(gvk)
		namespace, name, _ := strings.Cut(where, "/")
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			t.Fatal(err)
		}
		if got := obj.GetLabels()["team"]; got != "net-"+kind {
			t.Errorf("%s %s has the label %q", kind, where, got)
		}
		if got := obj.GetAnnotations()["where"]; got != where {
			t.Errorf("%s %s has the annotation %q", kind, where, got)
		}
	}
}

// policyReplacesWebhook upgrades an installation whose webhook steers pods, as before Kubernetes 1.36.
func policyReplacesWebhook(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	upgrade := func(policy string, flags ...string) result {
		return liqoctl(t, c.Config, append([]string{"upgrade", "--timeout", "5m", "--version", "v9", "--set", "webhook.mutatingAdmissionPolicy=" + policy}, flags...)...)
	}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "liqo-pods"}}
	find := func() error { return c.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy) }
	upgrade("disabled").succeeds(t, "All Set!")
	if err := find(); !apierrors.IsNotFound(err) {
		t.Fatalf("there is a policy beside the webhook: %v", err)
	}
	upgrade("auto", "--set-string", "controllerManager.pod.labels.x=no label!").refuses(t, "no label!")
	if err := find(); !apierrors.IsNotFound(err) {
		t.Errorf("an upgrade that failed left the policy: %v", err)
	}
	upgrade("auto").succeeds(t, "All Set!")
	webhooks := &admissionv1.MutatingWebhookConfiguration{}
	if err := errors.Join(find(), c.Client.Get(t.Context(), client.ObjectKey{Name: "liqo-webhook"}, webhooks)); err != nil {
		t.Fatal(err)
	}
	for _, m := range webhooks.ManagedFields {
		if m.Manager == "helm" && m.Time.Sub(policy.CreationTimestamp.Time) < time.Second {
			t.Errorf("the policy came at %s, and the webhook went at %s: no time for API servers to read the policy", policy.CreationTimestamp, m.Time)
		}
	}
}

// refusesWhileUsed makes what blocks an uninstallation, and removes it again.
func refusesWhileUsed(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	ns := testkit.Namespace(t, c, "used", nil)
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "offloading"}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "left", Finalizers: []string{"crdreplicator.liqo.io/resource"}}}
	for _, obj := range []client.Object{nso, slice} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	liqoctl(t, c.Config, "uninstall", "--dry-run").refuses(t, "you should:", "- "+ns)
	liqoctl(t, c.Config, "uninstall", "--skip-confirm").refuses(t,
		"you should:", "unoffload the following namespaces:", "- "+ns, "remove the following resources:",
		"- ResourceSlice.authentication.liqo.io: "+ns+"/left", "liqoctl unoffload namespace")
	deployment(t, c) // still there
	liqoctl(t, c.Config, "unoffload", "namespace", ns, "--skip-confirm", "--timeout", "5m").succeeds(t,
		`Offloading of namespace "`+ns+`" correctly disabled`, "Unoffloading completed successfully")
	slice.Finalizers = nil
	if err := c.Client.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{slice, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 5*time.Minute, func() error {
		return isGone(c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}))
	})
	// A namespace of a peering with a finalizer that nobody takes off any more: purging must not hang on it.
	tenant := testkit.Namespace(t, c, "liqo-tenant", map[string]string{"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "x"})
	if err := c.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: "kubeconfig-controlplane-x", Finalizers: []string{"crdreplicator.liqo.io/operator"},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "x", Finalizers: []string{"tenant.liqo.io/finalizer"}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "x"},
	}); err != nil {
		t.Fatal(err)
	}
}

func isGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return context.DeadlineExceeded
	}
	return err
}

// workload says that every Deployment that is not broken is available and every Job complete, as they would be with nodes.
func workload(t *testing.T, c *testkit.ControlPlane) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			pretend(ctx, c.Client)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-done }
}

func pretend(ctx context.Context, c client.Client) {
	var deployments appsv1.DeploymentList
	_ = c.List(ctx, &deployments)
	for _, d := range deployments.Items {
		if isBroken(&d) {
			continue
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		_ = c.Status().Update(ctx, &d)
	}
	var daemons appsv1.DaemonSetList
	_ = c.List(ctx, &daemons)
	for _, d := range daemons.Items {
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation} // of a cluster without nodes
		_ = c.Status().Update(ctx, &d)
	}
	var jobs batchv1.JobList
	_ = c.List(ctx, &jobs)
	for _, j := range jobs.Items {
		if j.Status.CompletionTime != nil {
			continue
		}
		now := metav1.Now()
		j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			}}
		_ = c.Status().Update(ctx, &j)
	}
}

// listing names every object of the cluster but those that come and go by themselves.
func listing(t *testing.T, cfg *rest.Config) []string {
	t.Helper()
	resources, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	objects := metadata.NewForConfigOrDie(cfg)
	var all []string
	for _, group := range resources {
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"events", "leases"}, r.Name) {
				continue
			}
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			list, err := objects.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", r.Name, err)
			}
			for _, o := range list.Items {
				all = append(all, strings.Join([]string{group.GroupVersion, r.Name, o.Namespace, o.Name}, " "))
			}
		}
	}
	slices.Sort(all)
	return all
}
