package credentials_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"patchbay/am"
	"patchbay/credentials"
	"patchbay/credentials/testdata/pki"
)

// gidForms are the forms of certificates in owner_gid and target_gid.
var gidForms = []struct {
	form  string
	write func(list []*pki.Entity) string
	want  string // part of the refusal; empty: read
}{
	{"text around", func(l []*pki.Entity) string {
		return "Certificate:\n  Data: of a GID\n" + strings.ReplaceAll(pki.PEM(l...), "-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\nand more\n")
	}, ""},
	{"bare base64, in lines", func(l []*pki.Entity) string {
		s := base64.StdEncoding.EncodeToString(l[0].Raw)
		return "\n" + s[:64] + "\n" + s[64:] + "\n"
	}, ""},
	{"bare base64 and -----parent-----", func(l []*pki.Entity) string {
		var parts []string
		for _, e := range l {
			parts = append(parts, base64.StdEncoding.EncodeToString(e.Raw))
		}
		return strings.Join(parts, "\n-----parent-----\n")
	}, ""},
	{"carriage returns", func(l []*pki.Entity) string { return strings.ReplaceAll(pki.PEM(l...), "\n", "&#13;\n") }, ""},
	{"each twice", func(l []*pki.Entity) string { return pki.PEM(l...) + pki.PEM(l...) }, ""},
	{"the authority's first", func(l []*pki.Entity) string { return pki.PEM(l[1], l[0]) }, "but the certificate names"},
	{"one without end", func(l []*pki.Entity) string { return strings.Replace(pki.PEM(l...), "-----END", "----END", 1) }, "certificate 1"},
}

// TestFormsOfGIDs writes every certificate of a credential in each form: of a single credential,
// and of an outermost one and its parent.
func TestFormsOfGIDs(t *testing.T) {
	w := newWorld(t)
	pair := func(e *pki.Entity) []*pki.Entity { return []*pki.Entity{e, w.sa} }
	for _, f := range gidForms {
		t.Run(f.form, func(t *testing.T) {
			for _, tt := range []struct {
				place  string
				caller *pki.Entity
				levels func() []pki.Credential
				gid    *pki.Entity
			}{
				{"<owner_gid>", w.alice, func() []pki.Credential { c := w.sliceCredential(); c.Owner = pair(w.alice); return []pki.Credential{c} }, w.alice},
				{"<target_gid>", w.alice, func() []pki.Credential { return []pki.Credential{w.sliceCredential()} }, w.slice},
				{"<owner_gid>", w.bob, func() []pki.Credential { return w.handedOn(w.bob) }, w.bob},
				{"<target_gid>", w.bob, func() []pki.Credential { return w.handedOn(w.bob) }, w.slice},
				{"<owner_gid>", w.bob, func() []pki.Credential { c := w.handedOn(w.bob); c[1].Owner = pair(w.alice); return c }, w.alice},
			} {
				levels := tt.levels()
				levels[0].Edit = func(doc string) string {
					old := tt.place + pki.PEM(pair(tt.gid)...)
					if !strings.Contains(doc, old) {
						t.Fatalf("no %s of %s", tt.place, tt.gid.URN)
					}
					return strings.ReplaceAll(doc, old, tt.place+f.write(pair(tt.gid)))
				}
				doc := pki.Delegated(t, levels...)
				_, err := w.z.Authorize(w.caller(t, tt.caller), sfa(doc), "", credentials.RightAllocate, now)
				if f.want == "" && err != nil || f.want != "" && (err == nil || !strings.Contains(err.Error(), f.want)) {
					t.Errorf("%s of %s, for %s: %v; want %q", tt.place, tt.gid.URN, tt.caller.URN, err, f.want)
				}
				if err != nil && detail(t, err) != am.CredentialInvalid && detail(t, err) != am.CredentialMismatch {
					t.Errorf("%s: detail %d", tt.place, detail(t, err))
				}
			}
		})
	}
}
