package check

import (
	"crypto/rsa"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/credentials/cert"
)

// credentials returns the settings of the checked site, or the defaults if there is no site.
func (k *Checker) credentials() site.CredentialsConfig {
	if k.Config != nil {
		return k.Config.Credentials
	}
	return site.DefaultConfig().Credentials
}

func (k *Checker) trustFolder(dir string) {
	a, problems, err := cert.NewFolder(dir, k.credentials().Certificates()).Load(time.Now())
	if err != nil {
		k.bad(dir, "%v; this folder must have the certificates of the authorities whose users may call", err)
		return
	}
	for _, p := range problems {
		if p.Skipped {
			k.warn(p.File, "%s", p.Text)
		} else {
			k.bad("", "%s", p)
		}
	}
	if len(a.List()) == 0 {
		k.bad(dir, "it holds no trusted certificate, so no user may call; put the root of your federation into it as NAME.pem")
	}
	for _, x := range a.List() {
		if len(x.Covers()) == 0 && x.Certificate.URN.IsZero() {
			continue // a problem above is about this anchor
		}
		k.anchor(x)
	}
	for _, x := range a.RevokedAnchors() {
		k.warn(x.Anchor.File, "%s is revoked by %s, so it is not trusted; remove it", x.Certificate.Name(), display.Place(x.File, x.Line))
	}
	for _, l := range a.RevocationLists() {
		k.revocationList(a, l)
	}
	for _, d := range a.Denials() {
		k.denial(a, d)
	}
}

func (k *Checker) revocationList(a *cert.Anchors, l *cert.RevocationList) {
	issuer := l.Issuer()
	made := false
	for _, c := range a.SignersOf(l) {
		issuer, made = c.Name(), true
	}
	entries := fmt.Sprintf("%d entries", l.Len())
	if l.Len() == 1 {
		entries = "1 entry"
	}
	text := fmt.Sprintf("CRL of %s with %s, made on %s", issuer, entries, day(l.ThisUpdate))
	if !made {
		text += "; its issuer's certificate is not in this folder: the CRL applies to an authority of that name below one of the authorities here"
	}
	switch {
	case l.IsStale(time.Now()):
		k.warn(l.File, "%s; a new one was due on %s: its entries stay revoked, but get the new one", text, day(l.NextUpdate))
	case l.NextUpdate.IsZero():
		k.good(l.File, "%s", text)
	default:
		k.good(l.File, "%s; the next is due on %s", text, day(l.NextUpdate))
	}
}

func (k *Checker) denial(a *cert.Anchors, d cert.Denial) {
	at := display.Place(d.File, d.Line)
	effect := a.Effect(d)
	var names []string
	reading := ""
	if n := d.SerialNumber(); n != nil {
		reading = fmt.Sprintf("; its number is read as hexadecimal: %X, in decimal %[1]d", n)
	}
	switch {
	case len(effect.RevokedAnchors) > 0:
		for _, x := range effect.RevokedAnchors {
			names = append(names, filepath.Base(x.Anchor.File))
		}
		k.good(at, "%s revokes %s, and all certificates below it%s", d.Text, list(names), reading)
	case len(effect.Anchors) > 0:
		for _, x := range effect.Anchors {
			names = append(names, filepath.Base(x.File))
		}
		if effect.IsIntermediate {
			k.good(at, "%s: applies to an authority of that URN below %s, whose own URN is another one or missing; other certificates of %[2]s are not affected%[3]s", d.Text, list(names), reading)
			return
		}
		k.good(at, "%s is refused, even if signed by %s%s", d.Text, list(names), reading)
	case d.IsSerial():
		k.warn(at, "%s: no trusted certificate has the name of that issuer or covers it; the line applies only to an authority of that name below a trusted one%s", d.Text, reading)
	default:
		k.warn(at, "%s matches no certificate: no trusted certificate covers that authority; check the spelling", d.Text)
	}
}

func list(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func (k *Checker) anchor(x cert.Anchor) {
	list := x.Covers()
	covers := strings.Join(list, ", ") + " and below"
	name := x.Certificate.URN.String()
	if name == "" {
		name = x.Certificate.Subject.String()
	}
	least := k.credentials().MinRSABits
	bits := least
	if key, ok := x.Certificate.PublicKey.(*rsa.PublicKey); ok {
		bits = key.N.BitLen()
	}
	end := x.Certificate.NotAfter.UTC()
	switch left := time.Until(end); {
	case left < 0:
		k.bad(x.File, "%s expired on %s; get the authority's new certificate", name, end.Format(time.DateOnly))
	case len(list) == 0 && x.Certificate.URN.IsZero():
		k.warn(x.File, "%s has no URN; as a trusted certificate it needs its authorities in a file beside it, NAME.authorities; it ends on %s", name, end.Format(time.DateOnly))
	case len(list) == 0:
		k.warn(x.File, "%s is not an authority, so as a trusted certificate it covers nothing; it ends on %s", name, end.Format(time.DateOnly))
	case bits < least:
		k.warn(x.File, "%s covers %s, but has an RSA key of %d bits, and credentials.min_rsa_bits is %d: its signatures are refused; get a new certificate of the authority",
			name, covers, bits, least)
	case left < site.ExpiryWarning:
		k.warn(x.File, "%s covers %s; it ends on %s", name, covers, end.Format(time.DateOnly))
	default:
		k.good(x.File, "%s covers %s, until %s", name, covers, end.Format(time.DateOnly))
	}
}
