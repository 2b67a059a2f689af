package cert_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/credentials/cert"
	"patchbay/credentials/testdata/pki"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrustFolder(t *testing.T) {
	a := pki.Authority(t, nil, saURN, "rsa1")
	b := pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa2")
	nameless := pki.Issue(t, nil, pki.Subject{CN: "root without URN", Key: "rsa3", CA: true})
	extra := pki.Authority(t, nil, "urn:publicid:IDN+example.com+authority+ca", "rsa4")
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"two.pem":             "# both\n" + pki.PEM(a, b),
		"again.pem":           pki.PEM(a),
		"CATedCACerts.pem":    pki.PEM(extra),
		"notes.txt":           pki.PEM(extra),
		"junk.pem":            "nothing",
		"half.pem":            pki.PEM(nameless) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"listed.pem":          pki.PEM(nameless),
		"listed.authorities":  "\ufeff# whom it speaks for\nilab.example  # one\n\nother.example:sub\n",
		"badlist.pem":         pki.PEM(b),
		"badlist.authorities": "fine.example\nnot an authority\n",
	})
	anchors, problems, err := cert.LoadAnchors(dir)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, p := range problems {
		text = append(text, filepath.Base(p.File)+": "+p.Text)
	}
	for _, want := range []string{"junk.pem: certificate 1: not base64", "half.pem: certificate 2: ", "half.pem: certificate 1: ", "list the authorities that it covers in half.authorities", "badlist.authorities: line 2: "} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("no problem %q among\n%s", want, strings.Join(text, "\n"))
		}
	}
	if len(problems) != 4 {
		t.Errorf("%d problems, want 4:\n%s", len(problems), strings.Join(text, "\n"))
	}
	covers := map[string]string{}
	for _, anchor := range anchors.List() {
		covers[anchor.Certificate.Name()] = strings.Join(anchor.Covers(), " ")
	}
	want := map[string]string{saURN: "example.org", b.Name(): "example.net", nameless.Name(): "ilab.example other.example:sub"}
	if len(covers) != len(want) {
		t.Errorf("anchors %v, want %v", covers, want)
	}
	for name, c := range want {
		if covers[name] != c {
			t.Errorf("%s covers %q, want %q", name, covers[name], c)
		}
	}
	if _, _, err := cert.LoadAnchors(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing folder is no error")
	}
}

func TestTrustFolderNamesTheRemedy(t *testing.T) {
	a := pki.Authority(t, nil, saURN, "rsa1")
	nameless := pki.Issue(t, nil, pki.Subject{CN: "root without URN", Key: "rsa3", CA: true})
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"DER", map[string]string{"a.pem": string(a.Certificate.Raw)}, "openssl x509 -inform DER -in a.pem -out a-converted.pem"},
		{"PrivateKey", map[string]string{"a.pem": pki.PEM(a) + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}, "IT CONTAINS A PRIVATE KEY"},
		{"URNInAList", map[string]string{"a.pem": pki.PEM(nameless), "a.authorities": saURN + "\n"}, "write only the authority in it: example.org"},
		{"NothingInIt", map[string]string{"a.pem": ""}, "put a certificate in PEM form into it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.files)
			_, problems, err := cert.LoadAnchors(dir)
			if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Text, c.want) {
				t.Errorf("got %v, %v, want %q alone", problems, err, c.want)
			}
		})
	}
}

func TestTrustFolderWaitsForNoPipe(t *testing.T) {
	a := pki.Authority(t, nil, saURN, "rsa1")
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.pem": pki.PEM(a)})
	for _, name := range []string{"pipe.pem", "a.authorities"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Skipf("needs named pipes: %v", err)
		}
	}
	type answer struct {
		anchors  *cert.Anchors
		problems []cert.Problem
	}
	read := make(chan answer, 1)
	go func() {
		anchors, problems, _ := cert.LoadAnchors(dir)
		read <- answer{anchors, problems}
	}()
	select {
	case got := <-read:
		if len(got.anchors.List()) != 1 || len(got.problems) != 2 {
			t.Errorf("%d anchors and the problems %v, want one and one for each pipe", len(got.anchors.List()), got.problems)
		}
	case <-time.After(10 * time.Second):
		t.Error("LoadAnchors waits for a writer of a pipe")
	}
}

func TestGenerationNamesTheSetOfAnchors(t *testing.T) {
	a, b := pki.Authority(t, nil, saURN, "rsa1"), pki.Authority(t, nil, "urn:publicid:IDN+example.net+authority+ca", "rsa2")
	same := pki.Anchors(a, b).Generation()
	if got := pki.Anchors(b, a, b).Generation(); got != same {
		t.Error("order or repetition changes the generation")
	}
	if got := pki.Anchors(a).Generation(); got == same {
		t.Error("fewer anchors have the same generation")
	}
	listed := cert.NewAnchors(cert.Anchor{Certificate: a.Certificate, Authorities: []string{"example.com"}}, cert.Anchor{Certificate: b.Certificate})
	if listed.Generation() == same {
		t.Error("what an anchor may speak for does not change the generation")
	}
}
