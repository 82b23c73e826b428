// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

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

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// FlagRule rejects an invalid value of a flag, or an invalid element of a list. It is checked before any request to a cluster.
type FlagRule func(text string) error

// ValuesOf returns the elements of a list flag, the entries of a map flag, or the single value.
func ValuesOf(fs *pflag.FlagSet, f *pflag.Flag) []string {
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
	for _, key := range SortedKeys(entries) {
		all = append(all, key+"="+entries[key])
	}
	return all
}

// FlagError adds an example to the error about a value of the wrong type, and suggestions to the error about an unknown flag.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		f := ui.Fail("error: %w", err)
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

// CheckPositive returns an error unless the text is valid as a positive duration.
func CheckPositive(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		return ui.Fail("invalid duration %s: must be greater than 0", text)
	}
	return nil
}

// CheckClusterID returns an error unless the text is valid as a cluster ID.
func CheckClusterID(id string) error {
	if len(validation.IsDNS1123Label(id)) > 0 {
		return ui.Fail("invalid cluster ID %q: must be at most 63 lower-case letters, digits and dashes", id)
	}
	return nil
}

// CheckNamespace returns an error unless the text is valid as the name of a namespace.
func CheckNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return ui.Fail("invalid namespace %q: must be at most 63 lower-case letters, digits and dashes", name)
	}
	return nil
}

// CheckName returns an error unless the text is valid as the name of an object.
func CheckName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ui.Fail("invalid name %q: must be at most 253 lower-case letters, digits, dashes and dots", name)
	}
	return nil
}

// checkNodeName rejects a name that is invalid for a node or as a value of labels.
func checkNodeName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsValidLabelValue(name)) > 0 {
		return ui.Fail("%q cannot be the name of a node: lower-case letters, digits, dashes and dots, at most 63 of them", name)
	}
	return nil
}

// CheckReference returns an error unless the text is valid as a reference to an object.
func CheckReference(text string) error {
	namespace, name, _ := strings.Cut(text, "/")
	if CheckNamespace(namespace) != nil || CheckName(name) != nil {
		return ui.Fail("%q is not written as namespace/name", text)
	}
	return nil
}

// CheckTemplates returns an error unless the text is valid as a kind of gateway templates.
func CheckTemplates(resource string) error {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 || slices.ContainsFunc(parts, func(s string) bool { return CheckName(s) != nil }) {
		return ui.Fail("invalid type of templates %q: must be group/version/plural, such as %s", resource, ServerTemplates)
	}
	return nil
}

// CheckPort returns an error unless the text is valid as a port.
func CheckPort(text string) error {
	if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
		return ui.Fail("invalid port %s: must be between 1 and 65535", text)
	}
	return nil
}

// CheckMTU accepts 0 for the MTU of the template.
func CheckMTU(text string) error {
	if mtu, err := strconv.Atoi(text); err != nil || mtu != 0 && (mtu < names.MinMTU || mtu > names.MaxMTU) {
		return ui.Fail("invalid MTU %s: must be between %d and %d, or 0 for the room of the outer network", text, names.MinMTU, names.MaxMTU)
	}
	return nil
}

// CheckIP returns an error unless the text is valid as an IP address.
func CheckIP(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return ui.Fail("invalid IP address %q", text)
	}
	return nil
}

// CheckAddress returns an error unless the text is valid as an address.
func CheckAddress(text string) error {
	if CheckIP(text) != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(text, ".")))) > 0 {
		return ui.Fail("%q is neither an IP address nor the name of a host; the port is another flag", text)
	}
	return nil
}

// CheckCIDR returns an error unless the text is valid as a CIDR.
func CheckCIDR(text string) error {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return ui.Fail("invalid address range %q: must be a CIDR such as 10.200.0.0/16", text)
	}
	if p != p.Masked() {
		return ui.Fail("invalid address range %q: did you mean %q?", text, p.Masked())
	}
	return nil
}

// CheckOneCIDR returns an error unless the text is valid as one CIDR.
func CheckOneCIDR(text string) error {
	if strings.Contains(text, ",") {
		return ui.Fail("%q is more than one address range", text).Hint("Liqo supports one range; in a dual-stack cluster use the IPv4 range")
	}
	return CheckCIDR(text)
}

// AmountOf returns the check of an amount of a resource.
func AmountOf(name corev1.ResourceName) FlagRule {
	return func(text string) error {
		if text == "" {
			return nil // the element is left out
		}
		_, err := readAmount(name, text)
		return err
	}
}

// CheckResource returns an error unless the text is valid as an amount of a resource.
func CheckResource(entry string) error {
	name, text, _ := strings.Cut(entry, "=")
	if len(validation.IsQualifiedName(name)) > 0 {
		return ui.Fail("invalid resource name %q", name)
	}
	if _, err := readAmount(corev1.ResourceName(name), text); err != nil {
		return ui.Fail("%s: %w", name, err)
	}
	return nil
}

// CheckLabel returns an error unless the text is valid as a label.
func CheckLabel(entry string) error {
	key, value, _ := strings.Cut(entry, "=")
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return ui.Fail("invalid label %s", entry)
	}
	return nil
}

// OfOthers rejects keys of Liqo: a global label with such a key would be overwritten or would change its meaning.
func OfOthers(check FlagRule) FlagRule {
	return func(entry string) error {
		key, _, _ := strings.Cut(entry, "=")
		if domain, _, found := strings.Cut(key, "/"); found && strings.HasSuffix("."+domain, ".liqo.io") {
			return ui.Fail("%s is reserved for Liqo: use another domain", key)
		}
		return check(entry)
	}
}

// CheckGlobalLabel accepts values with the placeholders that SetCommonMetadata replaces.
func CheckGlobalLabel(entry string) error {
	if CheckLabel(strings.NewReplacer("${namespace}", "x", "${name}", "x", "${kind}", "x", "${group}", "x").Replace(entry)) != nil {
		return CheckLabel(entry)
	}
	return nil
}

// CheckEntry returns an error unless the text is valid as a key and a value.
func CheckEntry(entry string) error {
	key, _, _ := strings.Cut(entry, "=")
	return CheckKey(key)
}

// CheckKey returns an error unless the text is valid as a key.
func CheckKey(key string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return ui.Fail("invalid name %q: must be at most 63 letters, digits, dashes, dots and underscores, optionally prefixed by a domain and a slash", key)
	}
	return nil
}

// CheckSelector returns an error unless the text is valid as a label selector.
func CheckSelector(text string) error {
	if _, err := labels.Parse(text); err != nil {
		return ui.Fail("%q is not a label selector: %w", text, err)
	}
	return nil
}

var (
	imageTag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./:@-]*$`)
)

// CheckTag returns an error unless the text is valid as the tag of an image.
func CheckTag(text string) error {
	if !imageTag.MatchString(text) {
		return ui.Fail("invalid version %q: must be the tag of an image", text)
	}
	return nil
}

// CheckImage returns an error unless the text is valid as an image.
func CheckImage(text string) error {
	if !imageReference.MatchString(text) {
		return ui.Fail("invalid image reference %q", text)
	}
	return nil
}

// CheckFolder returns an error unless the text is valid as a folder.
func CheckFolder(file string) error {
	if at, err := os.Stat(filepath.Dir(file)); err != nil || !at.IsDir() {
		return ui.Fail("invalid path %q: its folder does not exist", file)
	}
	return nil
}

// OneName checks the argument of commands about one object.
func OneName(cmd *cobra.Command, args []string) error {
	return CheckArguments(cobra.ExactArgs(1), CheckName)(cmd, args)
}

// explainArguments adds the missing argument and an example to the error about the number of arguments.
func explainArguments(cmd *cobra.Command, args []string, err error) error {
	example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	if _, argument, named := strings.Cut(cmd.Use, " "); named && len(args) == 0 {
		err = fmt.Errorf("%w: %s is missing", err, strings.TrimSuffix(argument, "..."))
	}
	return ui.Fail("error: %w", err).Hint("For example: %s", cmp.Or(example, cmd.UseLine()))
}

// CheckArguments combines a rule for the number of arguments with a rule for each argument.
func CheckArguments(many cobra.PositionalArgs, rule FlagRule) cobra.PositionalArgs {
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

// Templates that are part of Liqo, as group/version/plural.
var (
	ServerTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayServerTemplateResource
	ClientTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayClientTemplateResource
)
