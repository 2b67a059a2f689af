package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestCheckShowsWhatIsRevoked(t *testing.T) {
	f := newFederation(t, "fed.example.org")
	root := f.issue(f.urn("authority", "ca"), true, nil)
	f.key = root.key
	sub := f.issue(f.urn("authority", "sa"), true, root)
	other := f.issue("urn:publicid:IDN+other.example.net+authority+ca", true, nil)
	user := f.issue(f.urn("user", "alice"), false, root)
	dir := t.TempDir()
	runCommand(t, "version") // builds our programs before the change of folder
	t.Chdir(dir)             // a folder without a site
	put := func(name, text string) {
		t.Helper()
		write(t, filepath.Join(dir, name), text)
	}
	lines := func(want int, args ...string) string {
		t.Helper()
		code, out := runCommand(t, append([]string{"check"}, args...)...)
		if code != want {
			t.Errorf("exit status %d, want %d:\n%s", code, want, out)
		}
		return strings.ReplaceAll(out, dir+"/", "")
	}
	soon := time.Now().Add(7 * 24 * time.Hour).UTC().Format(time.DateOnly)
	today := time.Now().UTC().Format(time.DateOnly)
	subject := func(x *identity) string {
		return strings.TrimSpace(strings.TrimPrefix(f.run(f.openssl, "x509", "-noout", "-subject", "-nameopt", "RFC2253", "-in", x.cert), "subject="))
	}

	put("fed.pem", readFile(t, root.cert)+readFile(t, sub.cert))
	put("other.pem", readFile(t, other.cert))
	put("fed.crl", f.crl(root, user)+f.crl(sub))
	put("strange.crl", f.crl(user))
	put("denied", "# two of ours\n"+user.urn+"\nserial 7777 of "+root.urn+"\n"+
		"urn:publicid:IDN+fed.example.orgg+user+slip\nserial 01 of CN=nobody\n"+sub.urn+"\nsha256:"+strings.Repeat("ab", 32)+"\n"+
		f.urn("authority", "ma")+"\nserial 7777 of "+f.urn("authority", "ma")+"\n")
	put("Denied.txt", "")
	put("more.CRL", "")
	out := lines(0, dir)
	wantTexts(t, out,
		"ok       fed.crl: CRL of "+root.urn+" with 1 entry, made on "+today+"; the next is due on "+soon,
		"ok       fed.crl: CRL of "+sub.urn+" with 0 entries, made on ",
		"ok       strange.crl: CRL of "+subject(user)+" with 0 entries, made on "+today+"; its issuer's certificate is not in this folder",
		"ok       denied:2: "+user.urn+" is refused, even if signed by fed.pem",
		"ok       denied:3: serial 7777 of "+root.urn+" is refused, even if signed by fed.pem; its number is read as hexadecimal: 7777, in decimal 30583",
		"warning  denied:4: urn:publicid:IDN+fed.example.orgg+user+slip matches no certificate",
		"warning  denied:5: serial 01 of CN=nobody: no trusted certificate has the name of that issuer",
		"ok       denied:6: "+sub.urn+" revokes fed.pem",
		"ok       denied:7: sha256:"+strings.Repeat("ab", 32)+" is refused, even if signed by fed.pem, other.pem",
		"ok       denied:8: "+f.urn("authority", "ma")+": applies to an authority of that URN below fed.pem",
		"ok       denied:9: serial 7777 of "+f.urn("authority", "ma")+": applies to an authority of that URN below fed.pem",
		"warning  fed.pem: "+sub.urn+" is revoked by denied:6, so it is not trusted",
		"warning  Denied.txt: it is ignored: the deny list must be named denied",
		"warning  more.CRL: it is ignored: only *.crl",
	)
	if one := lines(0, filepath.Join(dir, "fed.crl")); one != out {
		t.Errorf("a CRL alone is checked in its folder, but:\n%s", one)
	}

	put("denied", user.urn+"\nflooby\n")
	put("fed.crl", f.crl(root)[:200])
	put("strange.crl", "hello")
	out = lines(1, dir)
	wantTexts(t, out, "error    denied: line 2: ", "error    fed.crl: ", "error    strange.crl: it contains no CRL", "\n3 errors.", "ok       denied:1: ")

	os.Remove(filepath.Join(dir, "strange.crl"))
	put("denied", root.urn+"\n"+other.urn+"\n")
	put("fed.crl", f.oldCRL(root))
	out = lines(1, dir)
	wantTexts(t, out, "warning  fed.crl: CRL of "+root.urn, "a new one was due on 2020-01-08: its entries stay revoked",
		"it holds no trusted certificate")
	if n := len(regexp.MustCompile(`(?m)^warning  \S+\.pem: \S+ is revoked by denied:`).FindAllString(out, -1)); n != 3 {
		t.Errorf("%d anchors are revoked, want 3:\n%s", n, out)
	}
}
