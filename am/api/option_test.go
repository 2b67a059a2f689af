package api

import (
	"strings"
	"testing"

	"patchbay/am/api/xmlrpc"
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
