package provider

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Value is what an attribute holds: string, bool or []string. An enum's value
// is a string. An unset attribute is not in the map.
type Value any

// Resource is the attributes of one resource by name; its own name is the
// attribute "name".
type Resource map[string]Value

// Text is the string attribute name, or nothing.
func (r Resource) Text(name string) string {
	s, _ := r[name].(string)
	return s
}

// List is the array attribute name, or nil.
func (r Resource) List(name string) []string {
	l, _ := r[name].([]string)
	return l
}

// Result is what get said of one resource: either the resource or why not.
type Result struct {
	Resource Resource
	Err      *Error
	// LeftOut says that the answer did not mention it, so that it is absent, or Unknown,
	// by what is not said. A provider that has lost its place says so, too.
	LeftOut bool
}

// Update asks for one resource to become what Should says. Is is what the
// latest Get reported, all of it. Should may hold more than differs: Set sends
// only Diff of the two.
type Update struct {
	Name   string
	Is     Resource
	Should Resource
}

// Change is what became of one resource: the attributes that changed, as they
// are and as they were, or why nothing did. Work that a provider has only
// accepted is a change, too; get tells when it is done.
type Change struct {
	Name string
	Is   Resource
	Was  Resource
	Err  *Error
}

// Diff is the part of should that is not so already. It is empty when there is
// nothing to do, and holds only ensure when the resource shall go.
//
// Arrays are equal when they hold the same items in any order, and items that
// are JSON objects are compared as such, so a provider may report them
// re-spaced. In the items of a node's users and interfaces only the keys that
// the manager writes count, so a provider may add others, and an empty one is
// the same as none. An unset attribute equals an empty string and an empty array. A
// write-only attribute is never in is, so it always differs: the caller leaves
// it out of should once it has been applied, for example by keeping a digest
// of what it last sent.
func Diff(is, should Resource) Resource {
	if should.Text(AttrEnsure) == Absent {
		if Gone(is) {
			return Resource{}
		}
		return Resource{AttrEnsure: Absent}
	}
	d := Resource{}
	for name, want := range should {
		if name != AttrName && !same(name, is[name], want) {
			d[name] = want
		}
	}
	return d
}

func same(attribute string, a, b Value) bool {
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

func sameItems(attribute string, is, want []string) bool {
	if slices.Equal(is, want) {
		return true
	}
	is = canonical(attribute, is)
	// What the manager writes is in that form already.
	return slices.Equal(is, slices.Sorted(slices.Values(want))) || slices.Equal(is, canonical(attribute, want))
}

// canonical sorts a copy of items with JSON objects in one form, holding only
// what counts.
func canonical(attribute string, items []string) []string {
	out := slices.Clone(items)
	for i, s := range out {
		if len(s) == 0 || s[0] != '{' {
			continue
		}
		switch attribute {
		case AttrUsers:
			out[i] = again(lowercase(s), account.complete)
		case AttrInterfaces:
			out[i] = again(lowercase(s), func(p port) port { return p })
		default:
			out[i] = again(s, func(m map[string]any) map[string]any { return m })
		}
	}
	slices.Sort(out)
	return out
}

// lowercase leaves out of an item all keys that cannot be ours: the decoder would
// take VLAN for vlan.
func lowercase(item string) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(item), &keys) != nil {
		return item
	}
	maps.DeleteFunc(keys, func(k string, _ json.RawMessage) bool { return strings.Trim(k, "abcdefghijklmnopqrstuvwxyz_") != "" })
	return encode(keys)
}

// again writes an item anew as the object it is read into, or leaves it as it
// is where it cannot be read.
func again[T any](item string, complete func(T) T) string {
	var object T
	if json.Unmarshal([]byte(item), &object) != nil {
		return item
	}
	return encode(complete(object))
}
