package provider

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Value is the value of an attribute: string, bool or []string. An enum's value is a
// string. Unset attributes are not in the map.
type Value any

// Resource holds the attributes of one resource by name; the attribute "name" is its
// name.
type Resource map[string]Value

// Text returns the string attribute name, or "".
func (r Resource) Text(name string) string {
	s, _ := r[name].(string)
	return s
}

// List returns the array attribute name, or nil.
func (r Resource) List(name string) []string {
	l, _ := r[name].([]string)
	return l
}

// Result is the result of get for one resource: the resource or an error.
type Result struct {
	Resource Resource
	Err      *Error
	// LeftOut means that the answer did not mention the resource, so Get returned it as
	// absent or Unknown. A provider that has lost its state also leaves resources out.
	LeftOut bool
}

// Update requests that one resource gets the attributes in Should. Is is the resource as
// the latest Get returned it. Should may contain unchanged attributes: Set sends only the
// Diff.
type Update struct {
	Name   string
	Is     Resource
	Should Resource
}

// Change is the result of a set for one resource: the changed attributes with their new
// values in Is and their old values in Was, or an error. Work that the provider has accepted
// and not finished is also a change; a later get reports when it is finished.
type Change struct {
	Name string
	Is   Resource
	Was  Resource
	Err  *Error
}

// Diff returns the attributes of should that differ from is. The result is empty if there
// is nothing to do, and has only ensure if the resource must be removed.
//
// Arrays are equal if they have the same items in any order. Items that are JSON objects
// are compared as objects, so a provider may change their spacing. In the items of a
// node's users and interfaces only the keys of account and port count, and an empty value
// equals a missing one. An unset attribute equals an empty string and an empty array. A
// write-only attribute is never in is, so it always differs; the caller must leave it out
// of should after a set has applied it.
func Diff(is, should Resource) Resource {
	if should.Text(AttrEnsure) == Absent {
		if Gone(is) {
			return Resource{}
		}
		return Resource{AttrEnsure: Absent}
	}
	d := Resource{}
	for name, want := range should {
		if name != AttrName && !equalValues(name, is[name], want) {
			d[name] = want
		}
	}
	return d
}

// equalValues reports whether two values of an attribute are equal in the sense of Diff.
func equalValues(attribute string, a, b Value) bool {
	switch b := b.(type) {
	case nil:
		return a == nil
	case string:
		if a == nil {
			return b == ""
		}
		return a == Value(b)
	case bool:
		return a == Value(b)
	case []string:
		list, ok := a.([]string)
		if !ok && a != nil || len(list) != len(b) {
			return false
		}
		return sameItems(attribute, list, b)
	}
	return false
}

// sameItems reports whether two arrays have the same items in the sense of Diff.
func sameItems(attribute string, is, want []string) bool {
	if slices.Equal(is, want) {
		return true
	}
	is = canonical(attribute, is)
	// The items in want usually are in canonical form and only need sorting.
	return slices.Equal(is, slices.Sorted(slices.Values(want))) || slices.Equal(is, canonical(attribute, want))
}

// canonical returns the items sorted, with JSON objects in canonical form and only the
// keys that Diff compares.
func canonical(attribute string, items []string) []string {
	out := slices.Clone(items)
	for i, s := range out {
		if len(s) == 0 || s[0] != '{' {
			continue
		}
		switch attribute {
		case AttrUsers:
			out[i] = reencode(dropUppercaseKeys(s), account.complete)
		case AttrInterfaces:
			out[i] = reencode(dropUppercaseKeys(s), func(p port) port { return p })
		default:
			out[i] = reencode(s, func(m map[string]any) map[string]any { return m })
		}
	}
	slices.Sort(out)
	return out
}

// dropUppercaseKeys removes all keys from an item that do not consist of lower-case letters
// and underscores. The JSON decoder ignores case and would take VLAN for vlan.
func dropUppercaseKeys(item string) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(item), &keys) != nil {
		return item
	}
	maps.DeleteFunc(keys, func(k string, _ json.RawMessage) bool { return strings.Trim(k, "abcdefghijklmnopqrstuvwxyz_") != "" })
	return encode(keys)
}

// reencode decodes an item into a T, applies complete and encodes the result. It returns an
// invalid item unchanged.
func reencode[T any](item string, complete func(T) T) string {
	var object T
	if json.Unmarshal([]byte(item), &object) != nil {
		return item
	}
	return encode(complete(object))
}
