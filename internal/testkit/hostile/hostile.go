// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile has tests walk through every field that another cluster writes: Fill puts the worst that there is into each, and Check
// asks a rule for each. A field without a rule fails, also one that is added years later.
package hostile

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Text commands a terminal, and has no end.
var Text = "\x1b[2J\x1b]0;title\x07\u202e\u009b31mred\xff" + strings.Repeat("x", 100_000)

// many is the length of lists and maps, and few that of those within others.
const (
	many = 200
	few  = 3
)

// Fields are values by field, as Type.Field, that a field must have one of in order to be looked at at all. All others are filled with
// the worst.
type Fields map[string][]any

// Fill fills a struct.
func Fill(into any, keep Fields) {
	(&filler{keep: keep, random: rand.New(rand.NewPCG(1, 2))}).fill(reflect.ValueOf(into).Elem(), "", 0)
}

type filler struct {
	keep   Fields
	random *rand.Rand // always the same
}

func (f *filler) fill(v reflect.Value, field string, depth int) {
	if values, ok := f.keep[field]; ok && isOneOf(v.Type(), values) {
		v.Set(reflect.ValueOf(values[f.random.IntN(len(values))]).Convert(v.Type()))
		return
	}
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse([]string{"-5", "9E", "3"}[f.random.IntN(3)])))
		return
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date([]int{20_000, 2026}[f.random.IntN(2)], 1, 1, 0, 0, 0, 0, time.UTC))))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.Date([]int{20_000, 2026}[f.random.IntN(2)], 1, 1, 0, 0, 0, 0, time.UTC))))
		return
	case []byte:
		v.SetBytes([]byte(Text))
		return
	}
	length := many
	if depth > 0 {
		length = few
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), name(v.Type(), i), depth)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), field, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), length, length))
		for i := range length {
			f.fill(v.Index(i), field, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range length {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(fmt.Sprintf("key-%d", i))
			if i%5 == 4 {
				key.SetString(fmt.Sprint(i, Text))
			}
			f.fill(value, field, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(Text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{-1 << 31, 1<<31 - 1, 7}[f.random.IntN(3)])
	default:
		panic(fmt.Sprintf("no way to fill %s, a %s", field, v.Type()))
	}
}

func isOneOf(t reflect.Type, values []any) bool {
	return len(values) > 0 && reflect.TypeOf(values[0]).ConvertibleTo(t) && t.Kind() == reflect.TypeOf(values[0]).Kind()
}

func name(t reflect.Type, i int) string { return t.Name() + "." + t.Field(i).Name }

// Rule tells what is wrong with the value of a field.
type Rule func(reflect.Value) error

// Check asks the rule of each field of a struct that there is, in depth. A field that has none, and is no struct by itself, fails; so
// does a rule of no field, and a field that held nothing to be looked at although its rule allows something.
func Check(t *testing.T, got any, rules map[string]Rule) {
	t.Helper()
	c := checker{rules: rules, seen: map[string]bool{}, fields: map[string]bool{}}
	c.check(reflect.ValueOf(got))
	c.walk(reflect.TypeOf(got), map[reflect.Type]bool{})
	for _, err := range c.errs {
		t.Error(err)
	}
	for _, field := range slices.Sorted(maps.Keys(rules)) {
		switch {
		case !c.fields[field]:
			t.Errorf("a rule for %s, which is no field", field)
		case !c.seen[field] && rules[field](reflect.ValueOf("anything")) == nil:
			t.Errorf("%s held nothing: its rule was not tried", field)
		}
	}
}

type checker struct {
	rules        map[string]Rule
	seen, fields map[string]bool
	ruled        []string // the fields that need a rule
	errs         []error
}

// walk goes through the types, so that no value is needed to find a field without a rule.
func (c *checker) walk(t reflect.Type, done map[reflect.Type]bool) {
	t = structOf(t)
	if t == nil || done[t] {
		return
	}
	done[t] = true
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		field, of := name(t, i), t.Field(i).Type
		c.fields[field] = true
		container := of.Kind() == reflect.Slice || of.Kind() == reflect.Map
		if container || structOf(of) == nil {
			c.ruled = append(c.ruled, field)
			if _, ok := c.rules[field]; !ok {
				c.errs = append(c.errs, fmt.Errorf("no rule says what is believed of %s", field))
			}
		}
		c.walk(of, done)
	}
}

// structOf returns the struct that a type is or holds, nil for none. What has a meaning only as a whole is none.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	switch reflect.Zero(t).Interface().(type) {
	case resource.Quantity, metav1.Time, metav1.MicroTime:
		return nil
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func (c *checker) check(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.check(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.check(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			c.check(v.MapIndex(key))
		}
	case reflect.Struct:
		if structOf(v.Type()) == nil {
			return
		}
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			field, value := name(v.Type(), i), v.Field(i)
			if rule, ok := c.rules[field]; ok && !value.IsZero() {
				c.seen[field] = true
				if err := rule(value); err != nil {
					c.errs = append(c.errs, fmt.Errorf("%s: %w", field, err))
				}
			}
			c.check(value)
		}
	}
}

// Nothing returns rules that believe no field of a type, in depth: what is believed of it takes the place of some of them.
func Nothing(of any) map[string]Rule {
	c := checker{fields: map[string]bool{}}
	c.walk(reflect.TypeOf(of), map[reflect.Type]bool{})
	out := map[string]Rule{}
	for _, field := range c.ruled {
		out[field] = Never
	}
	return out
}

var errThere = errors.New("is there, and must not be")

// Never is for what is not believed at all.
func Never(reflect.Value) error { return errThere }

// Harmless is for what can do nothing whatever it is.
func Harmless(reflect.Value) error { return nil }

// Moment is for times: one that has no text in JSON keeps clients from reading the object.
func Moment(v reflect.Value) error {
	switch at := v.Interface().(type) {
	case metav1.Time:
		return moment(at.Time)
	case metav1.MicroTime:
		return moment(at.Time)
	case *metav1.Time:
		return moment(at.Time)
	}
	return nil
}

func moment(at time.Time) error {
	if at.UTC().Year() > 9999 {
		return fmt.Errorf("the year %d", at.Year())
	}
	return nil
}

// Short is for texts and names of at most n bytes that command no terminal, and for lists and maps of them.
func Short(n int) Rule {
	return func(v reflect.Value) error { return short(v, n) }
}

func short(v reflect.Value, n int) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return short(v.Elem(), n)
	case reflect.Slice:
		for i := range v.Len() {
			if err := short(v.Index(i), n); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := errors.Join(short(key, n), short(v.MapIndex(key), n)); err != nil {
				return err
			}
		}
	case reflect.String:
		text := v.String()
		if len(text) > n {
			return fmt.Errorf("%d bytes, more than %d", len(text), n)
		}
		if strings.ContainsFunc(text, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u202e' || r == unicode.ReplacementChar
		}) {
			return fmt.Errorf("%q commands a terminal", text)
		}
	}
	return nil
}

// AtMost is for lists and maps of at most n entries. Each further rule is asked, too.
func AtMost(n int, also ...Rule) Rule {
	return func(v reflect.Value) error {
		if v.Kind() == reflect.String { // Check asks whether anything is allowed
			return nil
		}
		if v.Len() > n {
			return fmt.Errorf("%d entries, more than %d", v.Len(), n)
		}
		for _, rule := range also {
			if err := rule(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// OneOf is for texts of which there are few.
func OneOf(values ...string) Rule {
	return func(v reflect.Value) error {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if text := v.String(); text != "anything" && !slices.Contains(values, text) {
			return fmt.Errorf("%.40q is none of %q", text, values)
		}
		return nil
	}
}

// Between is for numbers.
func Between(least, most int64) Rule {
	return func(v reflect.Value) error {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.CanInt() && (v.Int() < least || v.Int() > most) {
			return fmt.Errorf("%d is not between %d and %d", v.Int(), least, most)
		}
		return nil
	}
}

// Amounts is for lists of resources: none is negative, or so large that a sum of thousands is wrong.
func Amounts(v reflect.Value) error {
	if v.Kind() != reflect.Map {
		return nil
	}
	for _, key := range v.MapKeys() {
		quantity := v.MapIndex(key).Interface().(resource.Quantity)
		if quantity.Sign() < 0 || quantity.Cmp(resource.MustParse("1Pi")) > 0 {
			return fmt.Errorf("%s of %s", quantity.String(), key)
		}
	}
	return nil
}
