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

// similarFlags returns the flags that begin with a name or differ from the name by a typo.
func similarFlags(cmd *cobra.Command, name string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2} // the distance that cobra uses for commands
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return all.SuggestionsFor(name)
}

// Rules of flags and arguments.
var (
	CheckPositive = ruleOf("invalid duration %s: must be greater than 0", func(text string) bool {
		d, err := time.ParseDuration(text)
		return err == nil && d > 0
	})
	CheckClusterID = ruleOf("invalid cluster ID %q: must be at most 63 lower-case letters, digits and dashes", isLabel)
	CheckNamespace = ruleOf("invalid namespace %q: must be at most 63 lower-case letters, digits and dashes", isLabel)
	CheckName      = ruleOf("invalid name %q: must be at most 253 lower-case letters, digits, dashes and dots", isSubdomain)
	checkNodeName  = ruleOf("%q cannot be the name of a node: lower-case letters, digits, dashes and dots, at most 63 of them", func(name string) bool {
		return isSubdomain(name) && isLabelValue(name) // labels have the name as a value
	})
	CheckReference = ruleOf("%q is not written as namespace/name", func(text string) bool {
		namespace, name, _ := strings.Cut(text, "/")
		return isLabel(namespace) && isSubdomain(name)
	})
	CheckTemplates = ruleOf("invalid type of templates %q: must be group/version/plural, such as "+ServerTemplates, func(resource string) bool {
		parts := strings.Split(resource, "/")
		return len(parts) == 3 && !slices.ContainsFunc(parts, func(part string) bool { return !isSubdomain(part) })
	})
	CheckPort = ruleOf("invalid port %s: must be between 1 and 65535", func(text string) bool {
		port, err := strconv.Atoi(text)
		return err == nil && port >= 1 && port <= 65535
	})
	// CheckMTU accepts 0 for the MTU of the template.
	CheckMTU = ruleOf(fmt.Sprintf("invalid MTU %%s: must be between %d and %d, or 0 for the room of the outer network", names.MinMTU, names.MaxMTU), func(text string) bool {
		mtu, err := strconv.Atoi(text)
		return err == nil && (mtu == 0 || mtu >= names.MinMTU && mtu <= names.MaxMTU)
	})
	CheckIP      = ruleOf("invalid IP address %q", isIP)
	CheckAddress = ruleOf("%q is neither an IP address nor the name of a host; the port is another flag", func(text string) bool {
		return isIP(text) || isSubdomain(strings.ToLower(strings.TrimSuffix(text, ".")))
	})
	CheckKey   = ruleOf("invalid name %q: must be at most 63 letters, digits, dashes, dots and underscores, optionally prefixed by a domain and a slash", isKey)
	CheckLabel = ruleOf("invalid label %s", func(entry string) bool {
		key, value, _ := strings.Cut(entry, "=")
		return isKey(key) && isLabelValue(value)
	})
	CheckTag    = ruleOf("invalid version %q: must be the tag of an image", regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`).MatchString)
	CheckImage  = ruleOf("invalid image reference %q", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./:@-]*$`).MatchString)
	CheckFolder = ruleOf("invalid path %q: its folder does not exist", func(file string) bool {
		at, err := os.Stat(filepath.Dir(file))
		return err == nil && at.IsDir()
	})
)

// ruleOf returns the rule that texts are valid. The format of the message takes the invalid text.
func ruleOf(format string, valid func(text string) bool) FlagRule {
	return func(text string) error {
		if !valid(text) {
			return ui.Fail(format, text)
		}
		return nil
	}
}

func isLabel(text string) bool      { return len(validation.IsDNS1123Label(text)) == 0 }
func isSubdomain(text string) bool  { return len(validation.IsDNS1123Subdomain(text)) == 0 }
func isLabelValue(text string) bool { return len(validation.IsValidLabelValue(text)) == 0 }
func isKey(text string) bool        { return len(validation.IsQualifiedName(text)) == 0 }

func isIP(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
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

// CheckSelector returns an error unless the text is valid as a label selector.
func CheckSelector(text string) error {
	if _, err := labels.Parse(text); err != nil {
		return ui.Fail("%q is not a label selector: %w", text, err)
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

// Templates of Liqo, as group/version/plural.
var (
	ServerTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayServerTemplateResource
	ClientTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayClientTemplateResource
)
