// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// flagRule rejects an invalid value of a flag, or an invalid element of a list. It is checked before any request to a cluster.
type flagRule func(text string) error

// flagRules are the rules by the names of flags, which have the same meaning in all commands.
var flagRules = map[string]flagRule{
	"timeout": checkPositive,

	"remote-cluster-id": checkClusterID, "consumer-cluster-id": checkClusterID, "cluster-id": install.CheckClusterID,

	"namespace": checkNamespace, "liqo-namespace": checkNamespace, "remote-namespace": checkNamespace, "remote-liqo-namespace": checkNamespace,
	"remote-tenant-namespace": checkNamespace, "remote-namespace-name": checkNamespace,
	"template-namespace": checkNamespace, "gw-server-template-namespace": checkNamespace, "gw-client-template-namespace": checkNamespace,

	"template-name": checkName, "gw-server-template-name": checkName, "gw-client-template-name": checkName, "gateway-name": checkName,
	"kubeconfig-secret-name": checkName, "resource-slice-name": checkName, "runtime-class-name": checkName,
	"storage-classes": checkName, "ingress-classes": checkName, "load-balancer-classes": checkKey,
	"vk-options-template": checkReference,
	"type":                checkTemplates, "gw-server-type": checkTemplates, "gw-client-type": checkTemplates,

	"port": checkPort, "gw-server-service-port": checkPort, "gw-client-port": checkPort, "node-port": checkPort, "gw-server-service-nodeport": checkPort,
	"mtu":              checkMTU,
	"load-balancer-ip": checkIP, "gw-server-service-loadbalancerip": checkIP,
	"addresses": checkAddress, "gw-client-address": checkAddress,
	"pod-cidr": checkCIDR, "external-cidr": checkCIDR, "reserved-subnets": checkCIDR, "service-cidr": checkOneCIDR,
	"proxy-url": pki.CheckProxy,

	"cpu": amountOf(corev1.ResourceCPU), "memory": amountOf(corev1.ResourceMemory), "pods": amountOf(corev1.ResourcePods), "resource": checkResource,
	"labels": checkLabel, "node-selector": checkLabel, "cluster-labels": checkEntry, "ns-selector": checkSelector,
	"global-labels": ofOthers(checkGlobalLabel), "global-annotations": ofOthers(checkEntry),

	"version": checkTag, "image": checkImage, "dump-values-path": checkFolder,
}

// checkFlags rejects flags with an invalid value. An optional flag may have an invalid default, such as an empty text.
func checkFlags(cmd *cobra.Command) (wrong error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, says := f.Value.(*choice); says {
			return // the default is allowed
		}
		rule, needed := flagRules[f.Name], slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true")
		if rule == nil || wrong != nil || (!needed && f.Value.String() == f.DefValue) {
			return
		}
		for _, text := range valuesOf(cmd.Flags(), f) {
			if err := rule(text); err != nil {
				wrong = out.Fail("--%s: %w", f.Name, err)
				return
			}
		}
	})
	return wrong
}

// valuesOf returns the elements of a list flag, the entries of a map flag, or the single value.
func valuesOf(fs *pflag.FlagSet, f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		if all := list.GetSlice(); len(all) > 0 {
			return all
		}
		return []string{""}
	}
	entries, err := fs.GetStringToString(f.Name)
	if err != nil {
		return []string{f.Value.String()}
	}
	var all []string
	for _, key := range sortedKeys(entries) {
		all = append(all, key+"="+entries[key])
	}
	return all
}

// flagError adds an example to the error about a value of the wrong type, and suggestions to the error about an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		f := out.Fail("error: %w", err)
		if meant := similarFlags(cmd, unknown.GetSpecifiedName()); len(meant) > 0 && unknown.GetSpecifiedShortnames() == "" {
			return f.Hint("Did you mean --%s?", strings.Join(meant, " or --"))
		}
		return f.Hint("Its flags are listed by: %s --help", cmd.CommandPath())
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	allowed := map[string]string{
		"bool": "it is true or false", "int": "it is a whole number", "int32": "it is a whole number", "duration": "it is a time such as 90s or 5m",
		"stringToString": "it is written as key=value, with commas between several",
	}[invalid.GetFlag().Value.Type()]
	if allowed == "" {
		return err
	}
	return errors.New(strings.TrimSuffix(err.Error(), invalid.Unwrap().Error()) + allowed)
}

// similarFlags returns the flags that begin with a name or differ from it by a typo.
func similarFlags(cmd *cobra.Command, name string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2} // the distance that cobra uses for commands
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return all.SuggestionsFor(name)
}

func checkPositive(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		return out.Fail("invalid duration %s: must be greater than 0", text)
	}
	return nil
}

func checkClusterID(id string) error {
	if len(validation.IsDNS1123Label(id)) > 0 {
		return out.Fail("invalid cluster ID %q: must be at most 63 lower-case letters, digits and dashes", id)
	}
	return nil
}

func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return out.Fail("invalid namespace %q: must be at most 63 lower-case letters, digits and dashes", name)
	}
	return nil
}

func checkName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return out.Fail("invalid name %q: must be at most 253 lower-case letters, digits, dashes and dots", name)
	}
	return nil
}

// checkNodeName rejects a name that is invalid for a node or as a value of labels.
func checkNodeName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsValidLabelValue(name)) > 0 {
		return out.Fail("%q cannot be the name of a node: lower-case letters, digits, dashes and dots, at most 63 of them", name)
	}
	return nil
}

func checkReference(text string) error {
	namespace, name, _ := strings.Cut(text, "/")
	if checkNamespace(namespace) != nil || checkName(name) != nil {
		return out.Fail("%q is not written as namespace/name", text)
	}
	return nil
}

func checkTemplates(resource string) error {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 || slices.ContainsFunc(parts, func(s string) bool { return checkName(s) != nil }) {
		return out.Fail("invalid type of templates %q: must be group/version/plural, such as %s", resource, serverTemplates)
	}
	return nil
}

func checkPort(text string) error {
	if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
		return out.Fail("invalid port %s: must be between 1 and 65535", text)
	}
	return nil
}

// checkMTU accepts 0 for the MTU of the template.
func checkMTU(text string) error {
	if mtu, err := strconv.Atoi(text); err != nil || mtu != 0 && (mtu < names.MinMTU || mtu > names.MaxMTU) {
		return out.Fail("invalid MTU %s: must be between %d and %d, or 0 for the room of the outer network", text, names.MinMTU, names.MaxMTU)
	}
	return nil
}

func checkIP(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return out.Fail("invalid IP address %q", text)
	}
	return nil
}

func checkAddress(text string) error {
	if checkIP(text) != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(text, ".")))) > 0 {
		return out.Fail("%q is neither an IP address nor the name of a host; the port is another flag", text)
	}
	return nil
}

func checkCIDR(text string) error {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return out.Fail("invalid address range %q: must be a CIDR such as 10.200.0.0/16", text)
	}
	if p != p.Masked() {
		return out.Fail("invalid address range %q: did you mean %q?", text, p.Masked())
	}
	return nil
}

func checkOneCIDR(text string) error {
	if strings.Contains(text, ",") {
		return out.Fail("%q is more than one address range", text).Hint("Liqo supports one range; in a dual-stack cluster use the IPv4 range")
	}
	return checkCIDR(text)
}

func amountOf(name corev1.ResourceName) flagRule {
	return func(text string) error {
		if text == "" {
			return nil // the element is left out
		}
		_, err := readAmount(name, text)
		return err
	}
}

func checkResource(entry string) error {
	name, text, _ := strings.Cut(entry, "=")
	if len(validation.IsQualifiedName(name)) > 0 {
		return out.Fail("invalid resource name %q", name)
	}
	if _, err := readAmount(corev1.ResourceName(name), text); err != nil {
		return out.Fail("%s: %w", name, err)
	}
	return nil
}

func checkLabel(entry string) error {
	key, value, _ := strings.Cut(entry, "=")
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return out.Fail("invalid label %s", entry)
	}
	return nil
}

// ofOthers rejects keys of Liqo: a global label with such a key would be overwritten or would change its meaning.
func ofOthers(check flagRule) flagRule {
	return func(entry string) error {
		key, _, _ := strings.Cut(entry, "=")
		if domain, _, found := strings.Cut(key, "/"); found && strings.HasSuffix("."+domain, ".liqo.io") {
			return out.Fail("%s is reserved for Liqo: use another domain", key)
		}
		return check(entry)
	}
}

// checkGlobalLabel accepts values with the placeholders that setCommonMetadata replaces.
func checkGlobalLabel(entry string) error {
	if checkLabel(strings.NewReplacer("${namespace}", "x", "${name}", "x", "${kind}", "x", "${group}", "x").Replace(entry)) != nil {
		return checkLabel(entry)
	}
	return nil
}

func checkEntry(entry string) error {
	key, _, _ := strings.Cut(entry, "=")
	return checkKey(key)
}

func checkKey(key string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return out.Fail("invalid name %q: must be at most 63 letters, digits, dashes, dots and underscores, optionally prefixed by a domain and a slash", key)
	}
	return nil
}

func checkSelector(text string) error {
	if _, err := labels.Parse(text); err != nil {
		return out.Fail("%q is not a label selector: %w", text, err)
	}
	return nil
}

var (
	imageTag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./:@-]*$`)
)

func checkTag(text string) error {
	if !imageTag.MatchString(text) {
		return out.Fail("invalid version %q: must be the tag of an image", text)
	}
	return nil
}

func checkImage(text string) error {
	if !imageReference.MatchString(text) {
		return out.Fail("invalid image reference %q", text)
	}
	return nil
}

func checkFolder(file string) error {
	if at, err := os.Stat(filepath.Dir(file)); err != nil || !at.IsDir() {
		return out.Fail("invalid path %q: its folder does not exist", file)
	}
	return nil
}

// oneName checks the argument of commands about one object.
func oneName(cmd *cobra.Command, args []string) error {
	return checkArguments(cobra.ExactArgs(1), checkName)(cmd, args)
}

// explainArguments adds the missing argument and an example to the error about the number of arguments.
func explainArguments(cmd *cobra.Command, args []string, err error) error {
	example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	if _, argument, named := strings.Cut(cmd.Use, " "); named && len(args) == 0 {
		err = fmt.Errorf("%w: %s is missing", err, strings.TrimSuffix(argument, "..."))
	}
	return out.Fail("error: %w", err).Hint("For example: %s", cmp.Or(example, cmd.UseLine()))
}

// checkArguments combines a rule for the number of arguments with a rule for each argument.
func checkArguments(many cobra.PositionalArgs, rule flagRule) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := many(cmd, args); err != nil {
			return explainArguments(cmd, args, err)
		}
		for _, arg := range args {
			if err := rule(arg); err != nil {
				return err
			}
		}
		return nil
	}
}
