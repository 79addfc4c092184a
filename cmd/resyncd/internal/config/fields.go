package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

type field struct {
	key   string
	value reflect.Value // addressable
	tag   reflect.StructTag
}

// scalar is a value with a written form; the error of set ends a sentence that begins with the text.
type scalar interface {
	set(text string) error
	String() string
}

// fieldsOf lists the keys of a section; those of an embedded struct are its own.
func fieldsOf(section reflect.Value) []field {
	var out []field
	for i := range section.NumField() {
		sf := section.Type().Field(i)
		key, ok := sf.Tag.Lookup("key")
		switch {
		case !ok:
		case key == "":
			out = append(out, fieldsOf(section.Field(i))...)
		default:
			out = append(out, field{key, section.Field(i), sf.Tag})
		}
	}
	return out
}

func keysOf(fields []field) string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return strings.Join(keys, ", ")
}

func (f field) isSection() bool {
	if _, ok := f.value.Addr().Interface().(scalar); ok {
		return false
	}
	return f.value.Kind() == reflect.Struct && f.value.Type() != reflect.TypeFor[netip.Prefix]()
}

func (f field) isSecret() bool {
	return f.value.Type() == reflect.TypeFor[Secret]() || f.value.Type() == reflect.TypeFor[map[string]Secret]()
}

// mayShow keeps values out of messages that are secrets or URLs, or whose key invites one by mistake.
func (f field) mayShow() bool {
	switch strings.TrimSuffix(f.tag.Get("form"), "?") {
	case "url", "base", "prefix", "store", "mirror", "secret", "password", "secretfile":
		return false
	}
	return true
}

// leaves calls visit for every key below section with its path, lists of sections aside.
func leaves(prefix string, section reflect.Value, visit func(path string, f field)) {
	for _, f := range fieldsOf(section) {
		path := join(prefix, f.key)
		switch {
		case f.value.Type() == reflect.TypeFor[[]Source]():
		case f.isSection():
			leaves(path, f.value, visit)
		default:
			visit(path, f)
		}
	}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// set gives v the text, checked against the tags of the field. The error is a predicate: `"x" is not a duration: …`.
func (f field) set(v reflect.Value, text string) error {
	if f.tag.Get("form") == "listen?" && text == "off" { // for variables
		text = ""
	}
	next := reflect.New(v.Type()).Elem()
	err := checkForm(f.tag.Get("form"), text)
	if one, ok := f.tag.Lookup("one"); err == nil && ok {
		err = f.choose(strings.Split(one, "|"), text)
	}
	if err == nil {
		err = setValue(next, text)
	}
	if limits, ok := f.tag.Lookup("range"); err == nil && ok {
		err = within(next, limits)
	}
	if err != nil {
		if f.mayShow() {
			return fmt.Errorf("%s %w", quoted(text), err)
		}
		return fmt.Errorf("the value %w", err)
	}
	v.Set(next)
	return nil
}

func (f field) choose(allowed []string, text string) error {
	only, limited := f.tag.Lookup("only")
	now := strings.Split(only, "|")
	switch {
	case slices.Contains(now, text), !limited && slices.Contains(allowed, text):
		return nil
	case !limited && allowed[0] == "":
		return errors.New("is not allowed; write " + strings.Join(allowed[1:], " or ") + ", or leave it empty")
	case !limited:
		return errors.New("is not allowed; write one of " + strings.Join(allowed, ", "))
	}
	verdict := "is not allowed"
	if slices.Contains(allowed, text) {
		verdict = notYet
	}
	return errors.New(verdict + "; write " + strings.Join(now, " or "))
}

func setValue(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case scalar:
		return p.set(text)
	case *time.Duration:
		d, err := parseDuration(text)
		*p = d
		return err
	case *netip.Prefix:
		prefix, err := parsePrefix(text)
		*p = prefix
		return err
	}
	switch v.Kind() {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("is not a whole number")
		}
		v.SetInt(int64(n))
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("is not a number")
		}
		v.SetFloat(x)
	default:
		v.SetString(text)
	}
	return nil
}

// within checks v against "1s..24h".
func within(v reflect.Value, limits string) error {
	low, high, _ := strings.Cut(limits, "..")
	bound := func(text string) reflect.Value {
		b := reflect.New(v.Type()).Elem()
		_ = setValue(b, text)
		return b
	}
	number := func(v reflect.Value) float64 {
		if v.CanInt() {
			return float64(v.Int())
		}
		return v.Float()
	}
	if x := number(v); !(x >= number(bound(low)) && x <= number(bound(high))) { // NaN is outside
		return fmt.Errorf("is out of range; write %s to %s", low, high)
	}
	return nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("is not an address range: write 10.0.0.0/8, fd00::/8 or a single address")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("is not an address range: it names a host in it; write %s", prefix.Masked())
	}
	return prefix, nil
}

// textOf is what setValue reads back.
func textOf(v reflect.Value) string {
	switch x := v.Addr().Interface().(type) {
	case scalar:
		return x.String()
	case *time.Duration:
		return durationText(*x)
	case *netip.Prefix:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.String()
}
