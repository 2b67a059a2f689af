package api

import (
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPx2sSGKRwmGvHxqnQdg0pqAlQW3zkWLvGWd9VTLz6o"

func TestPublicKey(t *testing.T) {
	for _, tt := range []struct{ rule, in, want string }{
		{"plain", testKey, testKey},
		{"comment kept", testKey + " flooby@home", testKey + " flooby@home"},
		{"outer white space and line end stripped", "  " + testKey + " x\r\n", testKey + " x"},
		{"line break inside", testKey + "\n" + testKey, ""},
		{"options", `command="/bin/sh" ` + testKey, ""},
		{"type word does not fit", strings.Replace(testKey, "ssh-ed25519", "ssh-rsa", 1), ""},
		{"cut short", testKey[:40], ""},
		{"no key", "hello", ""},
		{"comment line", "# " + testKey, ""},
		{"empty", "", ""},
		{"too long", testKey + " " + strings.Repeat("x", maxKeyLength), ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := publicKey(tt.in)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("publicKey(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func user(u string, keys ...xmlrpc.Value) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: "urn", Value: u}, {Name: "keys", Value: append([]xmlrpc.Value{}, keys...)}}
}

func TestUsers(t *testing.T) {
	const flooby = "urn:publicid:IDN+example.org+user+flooby"
	for _, tt := range []struct {
		rule string
		in   xmlrpc.Value
		want int // accounts, or -1
	}{
		{"two users", []xmlrpc.Value{user(flooby, testKey), user(flooby + "2")}, 2},
		{"none", []xmlrpc.Value{}, 0},
		{"extra members are ignored", []xmlrpc.Value{append(user(flooby), xmlrpc.Member{Name: "shell", Value: 7})}, 1},
		{"a key as base64", []xmlrpc.Value{user(flooby, []byte(testKey))}, 1},
		{"not an array", "x", -1},
		{"urn missing", []xmlrpc.Value{xmlrpc.Struct{{Name: "keys", Value: []xmlrpc.Value{}}}}, -1},
		{"keys missing", []xmlrpc.Value{xmlrpc.Struct{{Name: "urn", Value: flooby}}}, -1},
		{"urn of a slice", []xmlrpc.Value{user("urn:publicid:IDN+example.org+slice+s")}, -1},
		{"a bad key is refused, not dropped", []xmlrpc.Value{user(flooby, testKey, "junk")}, -1},
		{"too many keys", []xmlrpc.Value{user(flooby, make([]xmlrpc.Value, maxKeys+1)...)}, -1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := users("option geni_users", tt.in)
			if tt.want < 0 {
				if am.CodeOf(err) != am.BadArgs {
					t.Errorf("got %v, %v; want BadArgs", got, err)
				}
			} else if err != nil || len(got) != tt.want {
				t.Errorf("got %v, %v; want %d accounts", got, err, tt.want)
			}
		})
	}
}

func TestRSpecVersion(t *testing.T) {
	version := func(typ, ver xmlrpc.Value) options {
		return options{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: typ}, {Name: "version", Value: ver}}}}
	}
	for _, tt := range []struct {
		rule string
		in   options
		want am.Code
	}{
		{"GENI 3", version("GENI", "3"), am.Success},
		{"any case, blanks, version as a number", version(" geni ", 3), am.Success},
		{"missing", options{}, am.BadArgs},
		{"not a struct", options{{Name: "geni_rspec_version", Value: "GENI 3"}}, am.BadArgs},
		{"no version", options{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}}}}, am.BadArgs},
		{"another version", version("GENI", "4"), am.BadVersion},
		{"another type", version("ProtoGENI", "2"), am.BadVersion},
	} {
		if got := am.CodeOf(tt.in.rspecVersion()); got != tt.want {
			t.Errorf("%s: code %v, want %v", tt.rule, got, tt.want)
		}
	}
}

func TestFlag(t *testing.T) {
	for _, tt := range []struct {
		in   xmlrpc.Value
		want bool
		ok   bool
	}{{true, true, true}, {1, true, true}, {0, false, true}, {"true", true, true}, {"False", false, true}, {"0", false, true}, {"maybe", false, false}, {2, false, false}} {
		got, err := options{{Name: "f", Value: tt.in}}.flag("f")
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("flag(%#v) = %v, %v", tt.in, got, err)
		}
	}
}
