// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

const (
	containerName = "virtual-kubelet"
	// program of the image: unlike the image's default, it contains only this process.
	program = "/usr/bin/virtual-kubelet"
	// unprivileged is a user without permissions that the image can run as.
	unprivileged int64 = 1000
	// defaultMetricsPort is opened where the options name none.
	defaultMetricsPort = 5872
)

// newDeployment returns the Deployment of the virtual kubelet: rendered from the options each time, because a change of
// options or image must take effect, and then overridden by the user's spec.template.
func newDeployment(vn *offv1beta1.VirtualNode, template *offv1beta1.VkOptionsTemplate, o VirtualNodeOptions) *appsv1.Deployment {
	opts := &template.Spec
	selector := kubeletLabels(vn)
	labels, annotations := maps.Clone(opts.ExtraLabels), maps.Clone(opts.ExtraAnnotations)
	container := kubeletContainer(vn, opts, o)
	replicas := opts.Replicas
	if user := vn.Spec.Template; user != nil {
		labels, annotations = mergeMaps(labels, user.Labels), mergeMaps(annotations, user.Annotations)
		rendered := overrideContainer(&container, &user.Spec)
		if user.Spec.Replicas != nil && !rendered {
			replicas = user.Spec.Replicas
		}
	}
	if replicas == nil {
		replicas = new(int32(1))
	}
	labels = mergeMaps(mergeMaps(labels, map[string]string{names.AppManagedBy: managedBy}), selector)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name), Labels: labels, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      labels,
					Annotations: mergeMaps(annotations, map[string]string{names.OffloadingPatchHash: patchHash(vn.Spec.OffloadingPatch)}),
				},
				Spec: corev1.PodSpec{
					ServiceAccountName: vn.Name,
					ImagePullSecrets:   opts.ImagePullSecrets,
					Tolerations:        opts.Tolerations,
					Containers:         []corev1.Container{container},
					// A virtual kubelet on a virtual node would run in the provider.
					Affinity: realNodes(),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(unprivileged), RunAsGroup: new(unprivileged), FSGroup: new(unprivileged),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
}

func kubeletLabels(vn *offv1beta1.VirtualNode) map[string]string {
	return map[string]string{
		names.OffloadingComponent: names.ComponentVirtualKubelet,
		names.RemoteClusterID:     string(vn.Spec.ClusterID),
		names.VirtualNode:         vn.Name,
	}
}

func realNodes() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: names.NodeType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{names.NodeTypeVirtualNode}},
			},
		}}},
	}}
}

func kubeletContainer(vn *offv1beta1.VirtualNode, opts *offv1beta1.VkOptionsTemplateSpec, o VirtualNodeOptions) corev1.Container {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	c := corev1.Container{
		Name:            containerName,
		Image:           cmp.Or(opts.ContainerImage, o.Image),
		ImagePullPolicy: cmp.Or(opts.PullPolicy, corev1.PullIfNotPresent),
		Command:         []string{program},
		Args:            kubeletArguments(vn, opts, o),
		Env: []corev1.EnvVar{
			field("POD_IP", "status.podIP"), field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
			{Name: "VIRTUALNODE_NAME", Value: vn.Name},
		},
		Resources: opts.Resources,
		Ports: []corev1.ContainerPort{
			{Name: "kubelet", ContainerPort: names.KubeletPort, Protocol: corev1.ProtocolTCP},
			{Name: "healthz", ContainerPort: names.HealthPort, Protocol: corev1.ProtocolTCP},
		},
		LivenessProbe:  httpProbe("/healthz", 20, 4),
		ReadinessProbe: httpProbe("/readyz", 5, 3),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
	}
	if _, limited := opts.Resources.Limits[corev1.ResourceMemory]; limited { // the program uses nine tenths of the limit as its soft limit
		c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}})
	}
	if opts.MetricsEnabled {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: metricsPort(opts.MetricsAddress), Protocol: corev1.ProtocolTCP})
	}
	return c
}

func httpProbe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("healthz")}},
		PeriodSeconds: period, FailureThreshold: failures,
	}
}

func metricsPort(address string) int32 {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return defaultMetricsPort
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return defaultMetricsPort
	}
	return int32(port)
}

// kubeletArguments returns the command line of the virtual kubelet, which is compatible with users'
// manifests.
func kubeletArguments(vn *offv1beta1.VirtualNode, opts *offv1beta1.VkOptionsTemplateSpec, o VirtualNodeOptions) []string {
	args := []string{
		"--foreign-cluster-id=" + string(vn.Spec.ClusterID),
		"--nodename=" + vn.Name,
		"--node-ip=$(POD_IP)",
		"--tenant-namespace=" + vn.Namespace,
		"--liqo-namespace=" + o.LiqoNamespace,
		"--home-cluster-id=" + string(o.ClusterID),
	}
	if o.mapNamespace != "" && o.mapNamespace != vn.Namespace {
		args = append(args, "--namespacemap-namespace="+o.mapNamespace)
	}
	for _, cidr := range o.PodCIDRs {
		args = append(args, "--local-podcidr="+cidr)
	}
	args = append(args, classArguments(vn)...)
	for _, kind := range slices.Sorted(maps.Keys(opts.ReflectorsConfig)) {
		config := opts.ReflectorsConfig[kind]
		if strings.Contains(kind, ".") {
			args = append(args, fmt.Sprintf("--resource-reflection=%s:%d:%s", kind, config.NumWorkers, config.Type))
			continue
		}
		args = append(args, fmt.Sprintf("--%s-reflection-workers=%d", kind, config.NumWorkers))
		if config.Type != "" && slices.Contains(typedReflectors, kind) {
			args = append(args, fmt.Sprintf("--%s-reflection-type=%s", kind, config.Type))
		}
	}
	args = append(args, mapFlags("--node-extra-annotations=", opts.NodeExtraAnnotations)...)
	args = append(args, mapFlags("--node-extra-labels=", opts.NodeExtraLabels)...)
	args = append(args, listFlags("--labels-not-reflected=", opts.LabelsNotReflected)...)
	args = append(args, listFlags("--annotations-not-reflected=", opts.AnnotationsNotReflected)...)
	args = append(args, opts.ExtraArgs...)
	args = append(args, "--metrics-enabled="+strconv.FormatBool(opts.MetricsEnabled))
	if opts.MetricsEnabled {
		args = append(args, "--metrics-address="+cmp.Or(opts.MetricsAddress, fmt.Sprintf(":%d", defaultMetricsPort)))
	}
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil {
		args = append(args, "--foreign-kubeconfig-secret-name="+ref.Name)
	}
	return append(args,
		"--create-node="+strconv.FormatBool(createsNode(vn, opts)),
		"--node-check-network="+strconv.FormatBool(!valueOr(vn.Spec.DisableNetworkCheck, opts.DisableNetworkCheck)))
}

// typedReflectors are the kinds whose objects can be chosen.
var typedReflectors = []string{"service", "ingress", "networkpolicy", "configmap", "secret", "event"}

func createsNode(vn *offv1beta1.VirtualNode, opts *offv1beta1.VkOptionsTemplateSpec) bool {
	return valueOr(vn.Spec.CreateNode, opts.CreateNode)
}

func valueOr(p *bool, fallback bool) bool {
	if p == nil {
		return fallback
	}
	return *p
}

// classArguments returns, for each kind of class, the default class or else the first.
func classArguments(vn *offv1beta1.VirtualNode) []string {
	var args []string
	add := func(enable, name, class string) { args = append(args, enable, name+class) }
	if c := vn.Spec.StorageClasses; len(c) > 0 {
		i := max(slices.IndexFunc(c, func(t liqov1beta1.StorageType) bool { return t.Default }), 0)
		add("--enable-storage", "--remote-real-storage-class-name=", c[i].StorageClassName)
	}
	if c := vn.Spec.IngressClasses; len(c) > 0 {
		i := max(slices.IndexFunc(c, func(t liqov1beta1.IngressType) bool { return t.Default }), 0)
		add("--enable-ingress", "--remote-real-ingress-class-name=", c[i].IngressClassName)
	}
	if c := vn.Spec.LoadBalancerClasses; len(c) > 0 {
		i := max(slices.IndexFunc(c, func(t liqov1beta1.LoadBalancerType) bool { return t.Default }), 0)
		add("--enable-load-balancer", "--remote-real-load-balancer-class-name=", c[i].LoadBalancerClassName)
	}
	return args
}

// mapFlags encodes a map as one CSV record, the format of the flag. A single pair is not encoded: parsing only strips the quotes around it.
// A pair with quotes is repeated.
func mapFlags(flag string, m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, key+"="+m[key])
	}
	if len(parts) == 1 && strings.Contains(parts[0], `"`) {
		parts = append(parts, parts[0])
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.Write(parts) // nothing in memory fails
	w.Flush()
	return []string{flag + strings.TrimSuffix(out.String(), "\n")}
}

func listFlags(flag string, list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return []string{flag + strings.Join(list, ",")}
}

// reflectedSlices returns the EndpointSlices that the arguments of a virtual kubelet select, and whether any are copied.
func reflectedSlices(vn *offv1beta1.VirtualNode, template *offv1beta1.VkOptionsTemplate) (which translate.ReflectionType, copies bool) {
	c := kubeletContainer(vn, &template.Spec, VirtualNodeOptions{})
	if user := vn.Spec.Template; user != nil {
		overrideContainer(&c, &user.Spec)
	}
	fs := pflag.NewFlagSet(program, pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	disabled := fs.Bool("disable-ip-reflection", false, "")
	workers := fs.Int("endpointslice-reflection-workers", 1, "")
	services := fs.String("service-reflection-type", string(translate.DenyList), "")
	if err := fs.Parse(c.Args); err != nil {
		return "", false // it does not start
	}
	return translate.ReflectionType(*services), !*disabled && *workers > 0
}

// identityFlags identify the node of the process: they follow from the VirtualNode and cannot be overridden.
var identityFlags = []string{
	"--foreign-cluster-id", "--nodename", "--node-ip", "--tenant-namespace", "--namespacemap-namespace", "--liqo-namespace", "--home-cluster-id",
	"--foreign-kubeconfig-secret-name", "--create-node", "--node-check-network",
}

// overrideContainer takes image, resources and arguments from the first container of the user's template. An argument replaces
// ours of the same name.
//
// The original writes the rendered Deployment to the VirtualNode, and from the VirtualNode it gets into manifests. Values in
// such a template that derive from the VirtualNode and the options are no override: as an override, they would hide all later
// changes. The template's image is the original's and incompatible.
func overrideContainer(c *corev1.Container, user *appsv1.DeploymentSpec) (rendered bool) {
	if len(user.Template.Spec.Containers) == 0 {
		return false
	}
	from := &user.Template.Spec.Containers[0]
	rendered = slices.ContainsFunc(from.Args, func(arg string) bool { return flagName(arg) == "--foreign-cluster-id" })
	if !rendered {
		c.Image = cmp.Or(from.Image, c.Image)
	}
	if from.Resources.Limits != nil || from.Resources.Requests != nil {
		c.Resources = from.Resources
	}
	replaced := map[string]bool{}
	for _, arg := range from.Args {
		name := flagName(arg)
		if !strings.HasPrefix(arg, "-") || slices.Contains(identityFlags, name) || rendered && isDerived(name) {
			continue
		}
		if !replaced[name] {
			replaced[name] = true
			c.Args = slices.DeleteFunc(c.Args, func(have string) bool { return flagName(have) == name })
		}
		c.Args = append(c.Args, arg)
	}
	return rendered
}

// isDerived reports whether the argument is rendered from the VirtualNode, the options or the network.
func isDerived(flag string) bool {
	return strings.HasPrefix(flag, "--remote-") || strings.HasSuffix(flag, "-reflection-workers") || strings.HasSuffix(flag, "-reflection-type") ||
		slices.Contains([]string{"--local-podcidr", "--enable-storage", "--enable-ingress", "--enable-load-balancer"}, flag)
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}

func mergeMaps(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// patchHash rolls the virtual kubelet when the patch changes; "" is no patch.
func patchHash(patch *offv1beta1.OffloadingPatch) string {
	if patch == nil {
		return ""
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		panic(err) // plain data always encodes
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
