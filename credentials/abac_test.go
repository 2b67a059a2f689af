package credentials

import (
	"strings"
	"testing"

	"patchbay/credentials/dsig"
)

const (
	keyA = "00112233445566778899aabbccddeeff00112233"
	keyB = "ffffffffffffffffffffffffffffffffffffffff"
)

func rt0(inside string) string {
	return `<credential xml:id="ref0"><type>abac</type><expires>2026-11-22T12:00:00Z</expires><abac><rt0>` + inside + `</rt0></abac></credential>`
}

func principalXML(key string) string {
	return "<ABACprincipal><keyid>" + key + "</keyid></ABACprincipal>"
}

// TestABACRules parses each kind of RT0 rule. Other tests check which kind is accepted.
func TestABACRules(t *testing.T) {
	head := "<version>1.1</version><head>" + principalXML(keyA) + "<role>r</role></head>"
	a, _ := parseKeyID(keyA)
	b, _ := parseKeyID(strings.ToUpper(keyB))
	for _, tt := range []struct {
		rule, tails string
		want        []tail // nil: refused
	}{
		{"A.r from B", "<tail>" + principalXML(keyB) + "</tail>", []tail{{b, "", ""}}},
		{"A.r from B.s", "<tail>" + principalXML(keyB) + "<role>s</role></tail>", []tail{{b, "s", ""}}},
		{"A.r from B.t.s", "<tail>" + principalXML(keyB) + "<role>s</role><linking_role>t</linking_role></tail>", []tail{{b, "s", "t"}}},
		{"A.r from B and A.s", "<tail>" + principalXML(keyB) + "</tail> <tail>" + principalXML(keyA) + "<role> s </role></tail>", []tail{{b, "", ""}, {a, "s", ""}}},
		{"A.r from nothing", "", nil},
		{"two principals in a tail", "<tail>" + principalXML(keyA) + principalXML(keyB) + "</tail>", nil},
		{"two roles in a tail", "<tail>" + principalXML(keyB) + "<role>s</role><role>t</role></tail>", nil},
		{"a tail without principal", "<tail><role>s</role></tail>", nil},
		{"two keys of a principal", "<tail>" + strings.Replace(principalXML(keyB), "<keyid>", "<keyid>"+keyA+"</keyid><keyid>", 1) + "</tail>", nil},
		{"a principal by name only", "<tail><ABACprincipal><mnemonic>B</mnemonic></ABACprincipal></tail>", nil},
		{"something else", "<tail>" + principalXML(keyB) + "</tail><x/>", nil},
	} {
		c, err := readContent(dsig.Signed{Canonical: []byte(rt0(head + tt.tails))})
		if (err == nil) != (tt.want != nil) {
			t.Errorf("%s: %v", tt.rule, err)
			continue
		}
		if err != nil {
			continue
		}
		if c.kind != kindABAC || c.rule.head != a || c.rule.role != "r" || len(c.rule.tails) != len(tt.want) {
			t.Errorf("%s: %+v", tt.rule, c.rule)
			continue
		}
		for i, got := range c.rule.tails {
			if got != tt.want[i] {
				t.Errorf("%s: tail %d is %+v", tt.rule, i, got)
			}
		}
	}
}

func TestKeyIDForms(t *testing.T) {
	for s, want := range map[string]bool{
		keyA: true, strings.ToUpper(keyA): true, "": false, keyA[1:]: false, keyA + "0": false, "0x" + keyA[2:]: false, "ſ" + keyA[2:]: false,
	} {
		if k, ok := parseKeyID(s); ok != want || ok && k.String() != keyA {
			t.Errorf("%q: %s, %v", s, k, ok)
		}
	}
}

func TestPrivilegeNames(t *testing.T) {
	for s, want := range map[string]bool{"sa": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "sa info": false, "\u017fa": false} {
		if isPrivilegeName(s) != want {
			t.Errorf("%q is a name of a privilege: %v", s, !want)
		}
	}
}

// FuzzReadContent reads any content that a signer may put into a credential.
func FuzzReadContent(f *testing.F) {
	f.Add(rt0("<version>1.1</version><head>" + principalXML(keyA) + "<role>speaks_for_" + keyA + "</role></head><tail>" + principalXML(keyB) + "</tail>"))
	f.Add(rt0("<version>1.0</version><head/>"))
	f.Add(`<credential><type>privilege</type><owner_gid/><target_gid/><expires>2026-11-22T12:00:00Z</expires><privileges><privilege><name>*</name></privilege></privileges></credential>`)
	f.Add(`<credential><type>speaksfor</type><abac/></credential>`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readContent(dsig.Signed{Canonical: []byte(text)})
		if err != nil {
			if _, ok := err.(*refusal); ok && strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("not one line: %q", err)
			}
			return
		}
		if isABAC := c.kind == kindABAC; isABAC != (c.rule != nil) || isABAC == (len(c.owner) > 0 && len(c.target) > 0) {
			t.Fatalf("a %q with the rule %v, %d owners and %d targets", c.kind, c.rule, len(c.owner), len(c.target))
		}
		if c.rule != nil && (len(c.rule.tails) == 0 || c.rule.role == "") {
			t.Fatalf("half a rule: %+v", c.rule)
		}
	})
}
