package credentials_test

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/testkit/require"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/schemas/xmltree"
)

var valueMember = regexp.MustCompile(`(?s)&lt;\?xml.*?signed-credential&gt;`)

// captured finds the credentials in a recorded call.
func captured(t testing.TB, file string) (docs []string) {
	t.Helper()
	call, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range valueMember.FindAllString(string(call), -1) {
		docs = append(docs, html.UnescapeString(m))
	}
	return docs
}

// gids reads the certificates of an element of the first credential.
func gids(t *testing.T, doc, name string) (list []*cert.Certificate) {
	t.Helper()
	err := xmltree.Parse([]byte(doc), xmltree.Limits{}, func(d *xmltree.Doc) error {
		for _, e := range d.Root.Elements()[0].Elements() {
			if e.Local == name {
				var err error
				list, err = cert.ParsePEM([]byte(e.Text()))
				return err
			}
		}
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("no %s: %v", name, err)
	}
	return list
}

// TestCredentialsOfTheReferenceImplementation authorizes recorded credentials of omni at the time
// of the recording.
func TestCredentialsOfTheReferenceImplementation(t *testing.T) {
	at := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	found := map[bool]int{}
	for _, folder := range []string{"v2", "v3", "delegated-v3"} {
		files, err := filepath.Glob(filepath.Join(require.Shared(t, "captures", folder), "*.request.xml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, doc := range captured(t, file) {
				delegated := folder == "delegated-v3"
				found[delegated]++
				target := gids(t, doc, "target_gid")
				root := target[len(target)-1]
				if !root.IsCA {
					t.Fatalf("%s: %s is no root", file, root.Name())
				}
				z := credentials.New(cert.NewAnchors(cert.Anchor{Certificate: root}), credentials.Config{SHA1Signatures: true})
				owner := gids(t, doc, "owner_gid")[0]
				caller := z.Identify([][]byte{owner.Raw}, at)
				if caller.Err != nil {
					t.Fatalf("%s: %v", file, caller.Err)
				}
				right := credentials.RightAllocate
				if strings.Contains(file, "ListResources") && target[0].URN.Type == "user" {
					right = credentials.RightListResources
				}
				p := sfa(doc)
				if delegated {
					p[0].Type, p[0].Version = "geni_unknown", "0" // what omni writes
				}
				g, err := z.Authorize(caller, p, "", right, at)
				if err != nil || !g.SHA1() {
					t.Errorf("%s: %v", file, err)
					continue
				}
				if right == credentials.RightAllocate {
					if until, err := g.Over(target[0].URN); err != nil || until.Before(at.Add(23*time.Hour)) {
						t.Errorf("%s: until %v, %v", file, until, err)
					}
				}
				if _, err := z.Authorize(caller, p, "", right, at.AddDate(1, 0, 0)); detail(t, err) != am.CredentialExpired {
					t.Errorf("%s, a year later: %v", file, err)
				}
			}
		}
	}
	if found[false] < 10 || found[true] < 2 {
		t.Errorf("%d credentials and %d delegated ones found: the corpus is incomplete", found[false], found[true])
	}
}
