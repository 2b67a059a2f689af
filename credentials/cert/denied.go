package cert

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"slices"
	"strings"

	"patchbay/am/urn"
)

// DeniedFile is the name of the deny list in a trust folder.
const DeniedFile = "denied"

// Limits of a deny list.
const (
	maxDeniedFile  = 4 << 20
	maxDeniedLines = 100_000
)

// Denial is an entry of the deny list. It denies a certificate that matches the entry, and
// all certificates below it in a chain.
type Denial struct {
	// File and Line are the place of the entry. Text is the entry.
	File string
	Line int
	Text string

	urn    urn.URN           // of an entry with a URN
	hash   [sha256.Size]byte // of an entry with a fingerprint
	serial *string           // of an entry with a serial number and an issuer; else nil
	issuer urn.URN           // zero if dn names the issuer
	dn     string            // the key of the issuer's name
}

// parseDenied returns the entries in all valid lines, and a Problem for each invalid line.
func parseDenied(file string, text []byte) (list []Denial, problems []Problem) {
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, byteOrderMark)) {
		n++
		entry := strings.TrimSpace(string(line))
		if entry == "" || entry[0] == '#' {
			continue
		}
		if len(list) == maxDeniedLines {
			return list, append(problems, Problem{File: file, Text: fmt.Sprintf("line %d: more than %d entries; this line and the lines after it are not read; use a CRL, which can have more entries", n, maxDeniedLines)})
		}
		d, err := parseDenial(entry)
		if err != nil {
			problems = append(problems, Problem{File: file, Text: fmt.Sprintf("line %d: %v", n, err)})
			continue
		}
		d.File, d.Line = file, n
		list = append(list, d)
	}
	return list, problems
}

const denialForms = "write a URN, sha256:FINGERPRINT, or serial NUMBER of ISSUER"

// parseDenial parses an entry; the caller sets File and Line.
func parseDenial(s string) (d Denial, err error) {
	word, rest, _ := strings.Cut(strings.ReplaceAll(s, "\t", " "), " ")
	if strings.EqualFold(word, "serial") {
		d.Text = s
		return d, d.parseSerial(rest)
	}
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return d, fmt.Errorf("%.60q: only a comment may follow %.60q; %s", s, word, denialForms)
	}
	d.Text = word
	if digits, ok := cutPrefixFold(word, "sha256:"); ok {
		b, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
		if err != nil || len(b) != sha256.Size {
			return d, fmt.Errorf("%.80q is not a SHA-256 fingerprint of %d hexadecimal digits; get it with: openssl x509 -noout -fingerprint -sha256 -in FILE", digits, 2*sha256.Size)
		}
		d.hash = [sha256.Size]byte(b)
		return d, nil
	}
	if d.urn, err = urn.Parse(word); err != nil {
		if _, ok := cutPrefixFold(word, "urn:"); !ok {
			return d, fmt.Errorf("%.60q is not an entry of a deny list; %s", s, denialForms)
		}
		return d, err
	}
	switch d.urn.Type {
	case urn.User, urn.Tool, urn.Slice, urn.Authority:
		if strings.Contains(d.urn.Name, "*") {
			return d, fmt.Errorf("%s: * is not a wildcard here; write a line for each name, or the URN of an authority to deny every certificate that it issued", d.urn)
		}
		return d, nil
	}
	return d, fmt.Errorf("%s names a %s; only users, tools, slices and authorities have certificates", d.urn, d.urn.Type)
}

// parseSerial parses "NUMBER of ISSUER".
func (d *Denial) parseSerial(s string) error {
	number, s, _ := strings.Cut(strings.TrimSpace(s), " ")
	word, issuer, _ := strings.Cut(strings.TrimSpace(s), " ")
	if issuer = strings.TrimSpace(issuer); !strings.EqualFold(word, "of") || issuer == "" {
		return errors.New("after serial there must be NUMBER of ISSUER, as openssl x509 -noout -serial -issuer -nameopt RFC2253 prints them")
	}
	digits := strings.ReplaceAll(number, ":", "")
	digits, _ = strings.CutPrefix(strings.ToLower(digits), "0x")
	if len(digits)%2 != 0 {
		digits = "0" + digits
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) == 0 || len(b) > maxSerial {
		return fmt.Errorf("%.60q is not a serial number in hexadecimal; get it with: openssl x509 -noout -serial -in FILE", number)
	}
	key := numberKey(b)
	d.serial = &key
	if _, ok := cutPrefixFold(issuer, "urn:"); ok {
		word, comment, _ := strings.Cut(issuer, " ")
		if comment = strings.TrimSpace(comment); comment != "" && comment[0] != '#' {
			return fmt.Errorf("only a comment may follow the URN %.60q", word)
		}
		if d.issuer, err = urn.Parse(word); err != nil {
			return err
		}
		if d.issuer.Type != urn.Authority {
			return fmt.Errorf("%s is not an authority, so it issues no certificates", d.issuer)
		}
		return nil
	}
	name, err := parseDN(issuer)
	if err != nil {
		return fmt.Errorf("the issuer: %v; write its URN, or its name as openssl x509 -noout -issuer -nameopt RFC2253 prints it after issuer=", err)
	}
	d.dn = name.key()
	return nil
}

// IsSerial reports whether the entry has a serial number and an issuer.
func (d Denial) IsSerial() bool { return d.serial != nil }

// SerialNumber returns the serial number, or nil if the entry has none.
func (d Denial) SerialNumber() *big.Int {
	if d.serial == nil {
		return nil
	}
	return new(big.Int).SetBytes([]byte(*d.serial))
}

// key returns equal texts for equal entries.
func (d Denial) key() string {
	switch {
	case !d.urn.IsZero():
		return "urn " + d.urn.Key()
	case d.serial == nil:
		return "sha256 " + hex.EncodeToString(d.hash[:])
	case !d.issuer.IsZero():
		return fmt.Sprintf("serial %x of %s", *d.serial, d.issuer.Key())
	}
	return fmt.Sprintf("serial %x of %s", *d.serial, d.dn)
}

type denials map[string]Denial

// newDenials keeps the first of several entries with one key.
func newDenials(list []Denial) denials {
	m := make(denials, len(list))
	for _, d := range list {
		if _, ok := m[d.key()]; !ok {
			m[d.key()] = d
		}
	}
	return m
}

func (m denials) sorted() []Denial {
	return slices.SortedFunc(maps.Values(m), func(a, b Denial) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.key(), b.key())) })
}

// find returns the entry that matches c. The parameter issuerName is the key of the
// issuer's name in c. The issuer is nil if unknown. The parameter urns has the URNs of the
// issuer.
func (m denials) find(c *Certificate, issuerName string, issuer *Certificate, urns []urn.URN) (Denial, bool) {
	serial := serialKey(c)
	probes := []Denial{{hash: c.hash}, {serial: &serial, dn: issuerName}}
	if !c.URN.IsZero() {
		probes = append(probes, Denial{urn: c.URN})
	}
	for _, u := range urns {
		probes = append(probes, Denial{serial: &serial, issuer: u})
	}
	if issuer != nil {
		if hash, ok := alternateHash(c, issuer); ok {
			probes = append(probes, Denial{hash: hash})
		}
	}
	for _, p := range probes {
		if d, ok := m[p.key()]; ok {
			return d, true
		}
	}
	return Denial{}, false
}

// deniedFile has the entries in force after the last reading.
type deniedFile struct {
	known bool // the trust folder was read before
	list  []Denial
}

// load reads the file and returns the entries in force. These include former entries if a line
// is invalid or the file may be truncated. It fails only if the file cannot be read and the
// trust folder was never read before.
func (f deniedFile) load(file string) ([]Denial, []Problem, error) {
	text, err := readFile(file, maxDeniedFile)
	if err != nil && !f.known {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return nil, nil, fmt.Errorf("%s: the deny list cannot be read: %w; correct it, or remove it", file, err)
	}
	if err != nil {
		return f.list, []Problem{{File: file, Text: err.Error() + "; its former content stays in force"}}, nil
	}
	list, problems := parseDenied(file, text)
	now := newDenials(list)
	var gone []Denial // former entries that are no longer in the file
	for _, d := range f.list {
		if _, ok := now[d.key()]; !ok {
			gone = append(gone, d)
		}
	}
	switch {
	case len(problems) > 0:
		problems[len(problems)-1].Text += "; the other lines are in force, and the former entries stay in force until all lines are valid"
		list = append(list, gone...)
	case len(gone) > 0 && !bytes.HasSuffix(text, []byte("\n")):
		problems = []Problem{{File: file, Text: "it is empty, or its last line has no line end, so it may be truncated: the former entries stay in force, too; to remove entries, write a line end after the last line, or remove the file"}}
		list = append(list, gone...)
	}
	return list, problems, nil
}
