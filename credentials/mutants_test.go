package credentials_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
	"patchbay/credentials/rule"
)

// mutant is one edit of the product's code, which removes a check of a rule.
type mutant struct {
	rule    rule.Rule
	text    string // occurs exactly once in the file
	mutated string // takes its place
	kill    kill
}

// kill says which test must notice the mutant, and how.
type kill struct{ dir, test, message string }

// accepted means that an attack of this theme that breaks the rule is accepted.
func accepted(theme string) kill {
	return kill{".", "TestAttacks/" + theme, "accepted although it breaks"}
}

// refused means that such an attack is refused, but not by this rule: another rule
// stops it too, or it cannot be read.
func refused(theme string) kill { return kill{".", "TestAttacks/" + theme, "want"} }

// fails means that a test of the package in dir fails.
func fails(dir, test string) kill { return kill{dir, test, ""} }

// mutants are the checks of rules in the packages credentials, cert, dsig and xmltree.
//
// Some checks have no row, since no test could notice a mutant. Those of rule.Bytes and
// rule.Budget in presented.go repeat checks of xmltree and cert, for speed. asn1Signature
// returns no bytes with its error, and these are no signature.
var mutants = []struct {
	file string
	list []mutant
}{
	{"authorizer.go", []mutant{
		{rule.CallerIsOwner, `case !s.owner.Equal(g.caller):`, `case false:`, accepted("meaning")},
		{rule.CredentialCount, `case len(p) > MaxCredentials:`, `case false:`, accepted("meaning")},
		{rule.CredentialCount, `if len(p) > MaxCredentials {`, `if false {`, fails(".", "TestSpeakForReadsFewCredentials")},
		{rule.CertificateExpired, `now.After(c.Chain.Expires())`, `false`, fails(".", "TestCallers")},
		{rule.Privilege, `g.right.isOverSlice() && !g.right.isAllowedBy(s.privilegeNames())`, `false`, accepted("meaning")},
	}},
	{"cert/verify.go", []mutant{
		{rule.CertificateSignature, `err != nil`, `false`, accepted("certificate")},
		{rule.HasURN, `leaf.URN.IsZero()`, `false`, refused("certificate")},
		{rule.ChainLength, `len(path) == maxDepth`, `false`, accepted("certificate")},
		{rule.CertificateDigest, `usesSHA1(c.SignatureAlgorithm) && !s.options.SHA1`, `false`, accepted("certificate")},
		{rule.SearchLength, `s.checks == 0`, `false`, accepted("certificate")},
		{rule.Budget, `!s.options.Budget.Take(issuer.PublicKey)`, `false`, accepted("certificate")},
		{rule.CertificateExpired, `s.now.After(c.NotAfter)`, `false`, accepted("certificate")},
		{rule.CertificateStarted, `s.now.Before(c.NotBefore.Add(-maxClockSkew))`, `false`, accepted("certificate")},
		{rule.CriticalExtensions, `ext.Critical && !isEvaluated(ext.Id)`, `false`, accepted("certificate")},
		{rule.IssuerIsCA, `!isCA && !isAnchor`, `!isCA && false`, accepted("certificate")},
		{rule.IssuerKeyUsage, `c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0`, `false`, accepted("certificate")},
		{rule.PathLength, `isCA && c.MaxPathLen >= 0 && (c.MaxPathLen > 0 || c.MaxPathLenZero) && distance > c.MaxPathLen`, `false`, accepted("certificate")},
		{rule.IssuerIsAuthority, `!c.URN.IsZero() && c.URN.Type != urn.Authority`, `false`, accepted("certificate")},
		{rule.Namespace, `!isCovered(scope, c.URN.Authority)`, `false`, accepted("certificate")},
		{rule.Anchored, `return s.fail(len(path)-1, refuse(Untrusted, rule.Anchored,`, `return path // refuse(`, accepted("meaning")},
	}},
	{"dsig/verify.go", []mutant{
		{rule.Signature, `cert.CheckSignature(c.PublicKey, s.method, info, value) == nil`, `true`, accepted("signature")},
		{rule.Signed, `s.uri != "#"+id`, `false`, refused("signature")},
		{rule.SignedOnce, `signatures[i] != nil`, `false`, accepted("signature")},
		{rule.Digest, `s.digestValue) != 1`, `s.digestValue) == 2`, accepted("signature")},
		{rule.Signed, `return nil, refuse(Unsigned, rule.Signed, "the credential %.60q is not signed", d.ids[i])`, `continue`, refused("signature")},
	}},
	{"../schemas/xmltree/scan.go", []mutant{
		{rule.Doctype, `return nil, &SyntaxError{Line: p.line, Column: p.column, Msg: "a DOCTYPE or other declaration is not allowed", Rule: rule.Doctype}`, `n = lengthThrough(rest, 2, ">")`, accepted("document")},
		{rule.Attributes, `t.attrs > lim.Attrs`, `false`, accepted("document")},
		{rule.Attributes, `attrs > 2*lim.Elements`, `false`, accepted("document")},
		{rule.Declarations, `t.longest > lim.NamespaceBytes`, `false`, accepted("document")},
		{rule.Declarations, `inScope+t.namespaces > lim.Namespaces`, `false`, accepted("document")},
		{rule.Depth, `depth+1 > lim.Depth`, `false`, accepted("document")},
		{rule.Elements, `len(tags)+others > lim.Elements`, `false`, accepted("document")},
	}},
	{"abac.go", []mutant{
		{rule.ABACVersion, `version != "1.1"`, `false`, accepted("speaks-for")},
		{rule.Cardinality, `n > 1`, `false`, accepted("speaks-for")},
		{rule.ABACForm, `c.Space != "" || !slices.Contains(names, c.Local)`, `c.Space != "" && slices.Contains(names, c.Local)`, accepted("speaks-for")},
		{rule.ABACForm, `c.Space != "" || !slices.Contains(names, c.Local)`, `!slices.Contains(names, c.Local)`, refused("speaks-for")},
	}},
	{"caller.go", []mutant{
		{rule.CertificateCount, `len(rawChain) > cert.MaxCertificates`, `false`, accepted("certificate")},
		{rule.CertificateSize, `size > cert.MaxBytes`, `false`, accepted("certificate")},
		{rule.CallerKind, `leaf.URN.Type != urn.User && leaf.URN.Type != urn.Tool && leaf.URN.Type != urn.Authority`, `false`, accepted("certificate")},
	}},
	{"cert/certificate.go", []mutant{
		{rule.CertificateSize, `len(der) > MaxBytes`, `false`, fails("./cert", "TestLargeCertificatesAreNotRead")},
		{rule.NoTrailingData, `!hasNothingAdded(x.Raw)`, `false`, accepted("certificate")},
		{rule.URNsWellFormed, `case err != nil:`, `case false:`, accepted("certificate")},
		{rule.SingleURN, `!c.URN.Equal(u)`, `false`, accepted("certificate")},
		{rule.HasURN, "\tc.readNames()\n", "\tc.readNames()\n\tif u, err := urn.Parse(c.Subject.CommonName); err == nil && c.nameErr == nil && c.URN.IsZero() {\n\t\tc.URN = u\n\t}\n", accepted("certificate")},
	}},
	{"cert/pem.go", []mutant{
		{rule.CertificateSize, `len(text) > MaxBytes`, `false`, accepted("meaning")},
		{rule.CertificateCount, "if len(blocks) == limit {\n\t\t\t\treturn nil,", "if false {\n\t\t\t\treturn nil,", fails("./cert", "TestParsePEMReadsEveryFormOfGID")},
		{rule.CertificateCount, "if len(blocks) == limit {\n\t\t\treturn blocks,", "if false {\n\t\t\treturn blocks,", accepted("meaning")},
	}},
	{"cert/revoked.go", []mutant{
		{rule.NotRevoked, `if file, line, ok := r.findAnchor(a.Certificate); ok {`, `if file, line, ok := r.findAnchor(a.Certificate); ok && false {`, accepted("certificate")},
		{rule.NotRevoked, `if file, line, ok := r.find(path[i], path[i+1]); ok {`, `if file, line, ok := r.find(path[i], path[i+1]); ok && false {`, accepted("certificate")},
	}},
	{"cert/signature.go", []mutant{
		{rule.MaxKeySize, `k.N.BitLen() > MaxRSABits`, `false`, fails("./cert", "TestLargeKeysVerifyNothing")},
		{rule.MinKeySize, `bits < least`, `false`, accepted("certificate")},
		{rule.MaxKeySize, `bits > MaxRSABits`, `false`, accepted("certificate")},
		{rule.KeyKind, `!accepted`, `!accepted && false`, accepted("certificate")},
		{rule.CertificateSignature, `return fmt.Errorf("algorithm %s is not accepted", alg)`, `return nil`, accepted("certificate")},
	}},
	{"content.go", []mutant{
		{rule.Cardinality, `if _, again := values[child.Local]; again {`, `if _, again := values[child.Local]; again && false {`, accepted("meaning")},
		{rule.Names, `child.Space != ""`, `false`, accepted("speaks-for")},
		{rule.Cardinality, `parts[child.Local] != nil`, `false`, accepted("meaning")},
		{rule.Kind, `c.kind != kindPrivilege && c.kind != kindSpeaksFor`, `false`, accepted("meaning")},
		{rule.Unambiguous, `c.kind == kindSpeaksFor && parts["abac"] != nil`, `false`, accepted("speaks-for")},
		{rule.Names, `e.Space != ""`, `false`, accepted("meaning")},
		{rule.TextOnly, `if _, ok := c.(xmltree.Text); !ok {`, `if _, ok := c.(xmltree.Text); !ok && false {`, accepted("meaning")},
		{rule.BlankBetween, `ok && strings.Trim(string(t), " \t\r\n") != ""`, `ok && t == "" && false`, accepted("meaning")},
	}},
	{"delegation.go", []mutant{
		{rule.OnlyPrivileges, `len(levels) > 1 && kind != kindPrivilege`, `false`, refused("meaning")},
		{rule.OneKind, `l.kind != kind`, `false`, accepted("meaning")},
		{rule.DelegatorKind, `owner.URN.Type != urn.User && owner.URN.Type != urn.Tool`, `owner.URN.Type != urn.User && owner.URN.Type != urn.Tool && false`, accepted("meaning")},
		{rule.DelegatorName, `!child.Signer.URN.Equal(owner.URN)`, `false`, accepted("meaning")},
		{rule.DelegatorKey, `!sameKey(child.Signer, owner)`, `false`, accepted("meaning")},
		{rule.SameTarget, `!child.target[0].URN.Equal(target.URN) || child.target[0].Fingerprint() != target.Fingerprint()`, `false`, accepted("meaning")},
		{rule.NoLonger, `child.expires.After(parent.expires)`, `false`, accepted("meaning")},
		{rule.Delegable, `!delegable["*"] && !delegable[strings.ToLower(p.name)]`, `false`, accepted("meaning")},
		{rule.SignerIsAuthority, `signer.URN.Type != urn.Authority`, `signer.URN.Type != urn.Authority && false`, accepted("meaning")},
		{rule.SignerCovers, `!urn.Covers(signer.URN.Authority, target.URN.Authority)`, `!urn.Covers(signer.URN.Authority, target.URN.Authority) && false`, accepted("meaning")},
		{rule.SignerSigns, `!slices.Contains(z.signers, strings.ToLower(signer.URN.Name))`, `!slices.Contains(z.signers, strings.ToLower(signer.URN.Name)) && false`, accepted("meaning")},
	}},
	{"dsig/document.go", []mutant{
		{rule.TextOnly, `bytes.Contains(doc.Source, []byte("<![CDATA["))`, `bytes.Contains(doc.Source, nil) && false`, accepted("signature")},
		{rule.SignatureCount, `len(d.signatures) > maxSignatures`, `false`, accepted("signature")},
		{rule.Chain, `len(d.chain) == maxChain`, `false`, accepted("meaning")},
		{rule.OwnID, `!ok || id == "" || id != strings.TrimSpace(id)`, `!ok && false`, refused("signature")},
		{rule.Cardinality, `len(inner) != 1 || !hasName(inner[0], noNamespace("credential"))`, `false`, accepted("signature")},
		{rule.OneID, `if seen[id] {`, `if false {`, accepted("signature")},
		{rule.TextOnly, `isLeaf && hasComment`, `isLeaf && hasComment && false`, accepted("signature")},
		{rule.BlankBetween, `ok && strings.Trim(string(t), " \t\r\n") != ""`, `ok && t == "" && false`, accepted("signature")},
		{rule.Names, `!hasName(c, name) || found != nil`, `false`, accepted("signature")},
		{rule.TextOnly, `if _, ok := c.(xmltree.Text); !ok {`, `if _, ok := c.(xmltree.Text); !ok && false {`, accepted("signature")},
		{rule.Cardinality, "default:\n\t\t\treturn d, refuse(", "case false:\n\t\t\treturn d, refuse(", accepted("signature")},
		{rule.Cardinality, `!hasName(s, dsName("Signature"))`, `false`, refused("signature")},
		{rule.Names, `return e.Name == name`, `return e.Local == name.Local`, accepted("signature")},
	}},
	{"dsig/signature.go", []mutant{
		{rule.SHA1, `s.sha1 && !o.SHA1`, `false`, accepted("signature")},
		{rule.Reference, `len(s.uri) < 2 || s.uri[0] != '#'`, `false`, refused("signature")},
		{rule.Parameters, `len(t.Elements()) > 0`, `false`, accepted("signature")},
		{rule.SignerCount, `len(s.certificates) == cert.MaxCertificates`, `false`, accepted("signature")},
		{rule.Parameters, `len(c.Elements()) > 0`, `false`, accepted("signature")},
		{rule.Cardinality, `!hasName(t, dsName("Transform"))`, `false`, refused("signature")},
		{rule.Transform, "default:\n\t\t\treturn refuse(Unsupported, rule.Transform", "case false:\n\t\t\treturn refuse(Unsupported, rule.Transform", accepted("signature")},
		{rule.KeyInfo, "default:\n\t\t\treturn refuse(Unsupported, rule.KeyInfo", "case false:\n\t\t\treturn refuse(Unsupported, rule.KeyInfo", accepted("signature")},
		{rule.Profile, `return refuse(Unsupported, broken, "line %d: unexpected %s in %s", c.Line, describe(c), describe(e))`, `_ = broken`, accepted("signature")},
	}},
	{"expires.go", []mutant{
		{rule.ExpiryOffset, `offset < -14*3600 || offset > 14*3600`, `offset < -14*3600 && false`, accepted("meaning")},
	}},
	{"grant.go", []mutant{
		{rule.RightOverSlice, `!g.right.isOverSlice()`, `false`, accepted("meaning")},
		{rule.TargetIsSlice, `slice.Type != urn.Slice`, `false`, accepted("meaning")},
		{rule.MatchingTarget, `!h.target.Equal(slice)`, `false`, accepted("meaning")},
	}},
	{"presented.go", []mutant{
		{rule.Label, `!slices.Contains(knownTypes, strings.ToLower(p.Type))`, `false`, accepted("meaning")},
		{rule.Label, `!slices.Contains(knownVersions, p.Version)`, `false`, accepted("meaning")},
	}},
	{"privilege.go", []mutant{
		{rule.Names, `p.Name != (xmltree.Name{Local: "privilege"})`, `false`, accepted("meaning")},
		{rule.PrivilegeCount, `len(list) == maxPrivileges`, `false`, accepted("meaning")},
		{rule.PrivilegeForm, `nameCount != 1 || name == "" || delegateCount > 1`, `false`, accepted("meaning")},
		{rule.PrivilegeName, `!isPrivilegeName(name)`, `false`, accepted("meaning")},
		{rule.CanDelegate, `delegateCount == 1 && delegate != "true" && delegate != "false" && delegate != "1" && delegate != "0"`, `false`, accepted("meaning")},
		{rule.PrivilegeOnce, `case seen[key]:`, `case false:`, accepted("meaning")},
	}},
	{"speaksfor.go", []mutant{
		{rule.RoleSpeaks, `!isSpeaksFor`, `!isSpeaksFor && false`, accepted("speaks-for")},
		{rule.OneTail, `len(r.tails) != 1`, `false`, accepted("speaks-for")},
		{rule.TailIsKey, `r.tails[0].role != "" || r.tails[0].linking != ""`, `false`, accepted("speaks-for")},
		{rule.HeadSigns, `r.head != signer`, `false`, accepted("speaks-for")},
		{rule.RoleOfSigner, `!isKey || user != signer`, `!isKey && user != signer`, accepted("speaks-for")},
		{rule.PermissionByTarget, `!l.Signer.URN.Equal(user.URN) || !sameKey(l.Signer, user)`, `false`, accepted("speaks-for")},
		{rule.PermissionByUser, `l.Signer.URN.Type != urn.User`, `false`, refused("speaks-for")},
		{rule.AuthorityAlone, `c.URN.Type == urn.Authority`, `false`, accepted("certificate")},
		{rule.SpeakingForUser, `err != nil || u.Type != urn.User`, `false`, accepted("speaks-for")},
		{rule.SpeakerListed, `z.speakers != nil && !z.speakers[c.URN.Key()]`, `false`, accepted("speaks-for")},
		{rule.SpeakerKind, `z.speakers == nil && c.URN.Type != urn.Tool && c.URN.Type != urn.Authority`, `false`, accepted("speaks-for")},
		{rule.PermissionOfUser, `!s.user.Equal(user)`, `false`, accepted("speaks-for")},
		{rule.PermissionForKey, `s.toolKey != key`, `false`, accepted("speaks-for")},
		{rule.PermissionForTool, `!s.tool.IsZero() && !s.tool.Equal(c.URN)`, `false`, accepted("speaks-for")},
		{rule.OneSignature, "r.role)\n\tcase l.Signatures != 1:", "r.role)\n\tcase false:", accepted("speaks-for")},
		{rule.OneSignature, "switch {\n\tcase l.Signatures != 1:", "switch {\n\tcase false:", accepted("speaks-for")},
	}},
	{"statement.go", []mutant{
		{rule.CredentialExpired, `!x.now.Before(c.expires)`, `false`, accepted("meaning")},
		{rule.HasURN, `c.URN.IsZero()`, `false`, refused("meaning")},
		{rule.MatchingName, `err != nil || !u.Equal(c.URN)`, `err != nil && u.IsZero() && false`, accepted("meaning")},
	}},
	{"../schemas/xmltree/canonical.go", []mutant{
		{rule.Growth, `canonicalGrowth*len(d.Source)+canonicalRoom`, `1<<30`, accepted("document")},
	}},
	{"../schemas/xmltree/parse.go", []mutant{
		{rule.Bytes, `len(b) > lim.Bytes`, `false`, fails("../schemas/xmltree", "TestLimits")},
		{rule.OneRoot, `x.behind != 0`, `false`, refused("document")},
		{rule.Namespaced, `if prefix, _, found := strings.Cut(e.Local, ":"); found {`, `if prefix, _, found := strings.Cut(e.Local, ":"); found && false {`, accepted("document")},
		{rule.Namespaced, `if prefix, _, found := strings.Cut(a.Local, ":"); found {`, `if prefix, _, found := strings.Cut(a.Local, ":"); found && false {`, accepted("document")},
		{rule.Namespaced, `a.Local == other.Local && a.Space != "" && a.Space == other.Space`, `a.Local == other.Local && false`, accepted("document")},
		{rule.Namespaced, "if msg == \"\" {\n\t\treturn nil", "if true {\n\t\treturn nil", accepted("document")},
	}},
	{"../schemas/xmltree/source.go", []mutant{
		{rule.Encoding, "default:\n\t\t\te := syntaxErrorAt", "case \"none\":\n\t\t\te := syntaxErrorAt", accepted("document")},
	}},
	{"dsig/algorithm.go", []mutant{
		{rule.Algorithm, "\tcanonicalizations = map[string]xmltree.Method{\n", "\tcanonicalizations = map[string]xmltree.Method{\n\t\tc14n10 + \"#WithComments\": xmltree.C14N10,\n", accepted("signature")},
		{rule.Algorithm, "\tdigestMethods = map[string]crypto.Hash{\n", "\tdigestMethods = map[string]crypto.Hash{\n\t\tnsMore + \"md5\": crypto.MD5,\n", accepted("signature")},
		{rule.Algorithm, "\tsignatureMethods = map[string]x509.SignatureAlgorithm{\n", "\tsignatureMethods = map[string]x509.SignatureAlgorithm{\n\t\tnsMore + \"rsa-md5\": x509.MD5WithRSA,\n", refused("signature")},
	}}}

// TestMutants makes each mutant in turn and runs the test that must notice it. Without
// PATCHBAY_LONG, it runs only the first mutant of each package. Every rule has a mutant.
func TestMutants(t *testing.T) {
	require.Tool(t, "go")
	ran, rules := map[string]bool{}, map[rule.Rule]bool{rule.Readable: true, rule.Presented: true}
	for _, f := range mutants {
		original, err := filepath.Abs(f.file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.list {
			rules[m.rule] = true
			if n := strings.Count(string(text), m.text); n != 1 {
				t.Errorf("%s contains %d times instead of once: %s", f.file, n, m.text)
				continue
			}
			if dir := filepath.Dir(f.file); require.Long() || !ran[dir] {
				ran[dir] = true
				t.Run(f.file+": "+string(m.rule), func(t *testing.T) {
					t.Parallel()
					out, err := m.run(t, original, string(text))
					if why := m.survived(out, err); why != "" {
						t.Errorf("%s: with %q in place of %q, %s:\n%s", f.file, m.mutated, m.text, why, out)
					}
				})
			}
		}
	}
	for name, value := range listedRules(t) {
		if !rules[value] {
			t.Errorf("no mutant is without rule.%s: %s", name, value)
		}
	}
}

// run returns what go test prints for a program with the mutant.
func (m mutant) run(t *testing.T, original, text string) (string, error) {
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{mutated: strings.Replace(text, m.text, m.mutated, 1), overlay: string(replace)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pattern := "^" + strings.ReplaceAll(m.kill.test, "/", "$/^") + "$"
	out, err := exec.Command("go", "test", "-vet=off", "-ldflags=-w", "-count=1", "-overlay", overlay, "-run", pattern, m.kill.dir).CombinedOutput()
	return string(out), err
}

// survived returns why this output of go test does not show that the test noticed the
// mutant, or "" if it does.
func (m mutant) survived(out string, err error) string {
	_, exited := errors.AsType[*exec.ExitError](err)
	message := m.kill.message
	if message != "" {
		message += ` the rule "` + string(m.rule) + `"`
	}
	switch {
	case err == nil:
		return "no test fails"
	case !exited || strings.Contains(out, " failed]"): // [build failed] or [setup failed]
		return "the program is not built"
	case strings.Contains(out, "\npanic: "):
		return "the program panics"
	case !regexp.MustCompile(`(?m)^ *--- FAIL: ` + m.kill.test + `\b`).MatchString(out), !strings.Contains(out, message):
		return "something else fails"
	}
	return ""
}

// TestOnlyAFailedTestIsAKill has answers of go test that do not show that a test noticed a mutant.
func TestOnlyAFailedTestIsAKill(t *testing.T) {
	m := mutant{rule: rule.Digest, kill: accepted("signature")}
	failed := "--- FAIL: TestAttacks (0.1s)\n    --- FAIL: TestAttacks/signature (0.1s)\n        x_test.go:1: accepted although it breaks the rule \"" + string(rule.Digest) + "\"\n"
	exit := &exec.ExitError{}
	for _, tt := range []struct {
		out  string
		err  error
		want string
	}{
		{failed, exit, ""},
		{"ok  \tpatchbay/credentials\t0.1s\n", nil, "no test fails"},
		{"./x.go:1:1: declared and not used: x\nFAIL\tpatchbay/credentials [build failed]\n", exit, "the program is not built"},
		{"", exec.ErrNotFound, "the program is not built"},
		{failed + "\npanic: nil dereference\n", exit, "the program panics"},
		{strings.ReplaceAll(failed, "signature", "meaning"), exit, "something else fails"},
		{strings.ReplaceAll(failed, string(rule.Digest), string(rule.Signature)), exit, "something else fails"},
		{"FAIL\tpatchbay/credentials\t0.1s\n", exit, "something else fails"},
	} {
		if got := m.survived(tt.out, tt.err); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.out, got, tt.want)
		}
	}
}
