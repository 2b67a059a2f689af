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

// Resource holds the attributes of one resource by name. The attribute "name" is the
// resource's name.
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
	// LeftOut means that the answer did not mention the resource. Get then returns the
	// resource as absent or Unknown. A provider that has lost its state also leaves resources
	// out.
	LeftOut bool
}

// Update requests the attributes in Should for one resource. The field Is has the resource as
// the latest Get returned it. Should may contain unchanged attributes, because Set sends only
// the Diff of both.
type Update struct {
	Name   string
	Is     Resource
	Should Resource
}

// Change is the result of a set for one resource, or an error. Is has the new values of the
// changed attributes, and Was their old values. Work that the provider has accepted but not
// finished is also a change; a later get reports the end of the work.
type Change struct {
	Name string
	Is   Resource
	Was  Resource
	Err  *Error
}

// Diff returns the attributes in desired whose values in current differ. The result is empty
// if there is nothing to do. It has only the attribute "ensure" if the resource must be
// removed.
//
// Arrays are equal if they have the same items in any order. Items that are JSON objects are
// compared as objects, so a provider may change their spacing. An item of users is compared
// only in the keys of the type account, and an item of interfaces only in those of the type
// port; if AttrChangeSerial differs, interfaces differ too. An empty value of such a key equals a missing one. An unset
// attribute equals an empty string and an empty array.
//
// A write-only attribute is never in current, so it always differs. The caller must remove
// the attribute from desired after a set has applied it.
func Diff(current, desired Resource) Resource {
	if desired.Text(AttrEnsure) == Absent {
		if Gone(current) {
			return Resource{}
		}
		return Resource{AttrEnsure: Absent}
	}
	d := Resource{}
	for name, want := range desired {
		if name != AttrName && !equalValues(name, current[name], want) {
			d[name] = want
		}
	}
	if list, ok := desired[AttrInterfaces]; ok && d[AttrChangeSerial] != nil {
		d[AttrInterfaces] = list
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
func sameItems(attribute string, current, desired []string) bool {
	if slices.Equal(current, desired) {
		return true
	}
	current = canonical(attribute, current)
	// The desired items usually are in canonical form and only need sorting.
	return slices.Equal(current, slices.Sorted(slices.Values(desired))) || slices.Equal(current, canonical(attribute, desired))
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

// dropUppercaseKeys removes keys with other characters than lower-case letters and underscores.
// The JSON decoder ignores case, so it would read the key VLAN as vlan.
func dropUppercaseKeys(item string) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(item), &keys) != nil {
		return item
	}
	maps.DeleteFunc(keys, func(k string, _ json.RawMessage) bool { return strings.Trim(k, "abcdefghijklmnopqrstuvwxyz_") != "" })
	return encode(keys)
}

// reencode decodes an item as a T, converts it, and encodes it again. It returns an invalid item unchanged.
func reencode[T any](item string, convert func(T) T) string {
	var object T
	if json.Unmarshal([]byte(item), &object) != nil {
		return item
	}
	return encode(convert(object))
}
