package cert

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"patchbay/am/urn"
)

// Limits of a trust folder.
const (
	maxAnchorFile  = 4 << 20
	maxFileAnchors = 1000
)

// Anchor is one certificate the operator trusts as such.
type Anchor struct {
	Certificate *Certificate
	// Authorities are those it may speak for beside the one in its own URN.
	Authorities []string
	// File is where it came from; empty when it came from no file.
	File string
}

// Covers lists the authorities the anchor vouches for; each covers the
// authorities below it too.
func (a Anchor) Covers() []string {
	var list []string
	if a.Certificate.URN.Type == urn.Authority {
		list = append(list, a.Certificate.URN.Authority)
	}
	return append(list, a.Authorities...)
}

// Anchors is one generation of trust: immutable, safe for concurrent use. It
// remembers chains it has verified, so those never outlive the generation.
type Anchors struct {
	list       []Anchor
	byHash     map[[sha256.Size]byte]int
	bySubject  map[string][]int
	generation string
	verified   *memory
}

// NewAnchors trusts the given anchors. The same certificate given twice is one
// anchor that covers what both cover.
func NewAnchors(list ...Anchor) *Anchors {
	a := &Anchors{byHash: map[[sha256.Size]byte]int{}, bySubject: map[string][]int{}, verified: newMemory(4096)}
	for _, anchor := range list {
		if i, ok := a.byHash[anchor.Certificate.hash]; ok {
			a.list[i].Authorities = slices.Concat(a.list[i].Authorities, anchor.Authorities)
			continue
		}
		i := len(a.list)
		a.list = append(a.list, anchor)
		a.byHash[anchor.Certificate.hash] = i
		subject := string(anchor.Certificate.RawSubject)
		a.bySubject[subject] = append(a.bySubject[subject], i)
	}
	a.generation = fingerprint(a.list)
	return a
}

// fingerprint depends on the anchors and what they cover, not on their order
// or the names of their files.
func fingerprint(list []Anchor) string {
	lines := make([]string, len(list))
	for i, anchor := range list {
		names := slices.Clone(anchor.Authorities)
		for j := range names {
			names[j] = strings.ToLower(names[j])
		}
		slices.Sort(names)
		lines[i] = anchor.Certificate.Fingerprint() + " " + strings.Join(slices.Compact(names), " ") + "\n"
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}

// Generation names this set of anchors: equal sets have equal generations.
func (a *Anchors) Generation() string { return a.generation }

// List gives the anchors, in the order they were read.
func (a *Anchors) List() []Anchor { return slices.Clone(a.list) }

func (a *Anchors) find(c *Certificate) (Anchor, bool) {
	i, ok := a.byHash[c.hash]
	if !ok {
		return Anchor{}, false
	}
	return a.list[i], true
}

// Problem is something in the trust folder that was passed over, or that does
// nothing as it stands.
type Problem struct {
	File string
	Text string
}

func (p Problem) String() string { return p.File + ": " + p.Text }

// LoadAnchors reads the trust folder (see the package's documentation). The
// error says that the folder itself cannot be read; a bad file or certificate
// is a Problem and leaves the rest as it is.
func LoadAnchors(dir string) (*Anchors, []Problem, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read trust folder: %w", err)
	}
	var list []Anchor
	var problems []Problem
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != ".pem" || name == "CATedCACerts.pem" {
			continue
		}
		anchors, found := loadAnchorFile(filepath.Join(dir, name))
		list, problems = append(list, anchors...), append(problems, found...)
	}
	return NewAnchors(list...), problems, nil
}

func loadAnchorFile(file string) (list []Anchor, problems []Problem) {
	problem := func(file, format string, args ...any) {
		problems = append(problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
	}
	text, err := readFile(file)
	if err != nil {
		problem(file, "%v", err)
		return nil, problems
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		problem(file, "IT HOLDS A PRIVATE KEY, which must never lie here: whoever reads it can act as its owner; move it away, and replace it if others could read it")
	}
	if isDER(text) {
		problem(file, "it is in DER form, not PEM; convert it with: openssl x509 -inform DER -in %s -out %s-converted.pem, and remove %[1]s",
			filepath.Base(file), strings.TrimSuffix(filepath.Base(file), ".pem"))
		return nil, problems
	}
	blocks, err := splitPEM(text, maxFileAnchors)
	if err != nil {
		problem(file, "%v; put a certificate in PEM form into it, or remove it", err)
		return nil, problems
	}
	companion := strings.TrimSuffix(file, ".pem") + ".authorities"
	authorities, listErr := readAuthorities(companion)
	if listErr != nil {
		problem(companion, "%v", listErr)
	}
	for i, block := range blocks {
		c, err := parseBase64(block)
		if err != nil {
			problem(file, "certificate %d: %v", i+1, err)
			continue
		}
		anchor := Anchor{Certificate: c, Authorities: authorities, File: file}
		if c.nameErr != nil {
			problem(file, "certificate %d: %s has %v", i+1, c.Name(), c.nameErr)
		}
		if c.URN.IsZero() && len(authorities) == 0 && listErr == nil {
			problem(file, "certificate %d: %s names no authority and so vouches for nobody; list the authorities it may speak for in %s",
				i+1, c.Name(), filepath.Base(companion))
		}
		list = append(list, anchor)
	}
	return list, problems
}

// isDER tells whether text is a certificate in binary.
func isDER(text []byte) bool {
	_, err := Parse(text)
	return err == nil
}

// readFile reads a regular file; a pipe would keep the reader waiting forever.
func readFile(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAnchorFile+1))
	if err == nil && len(text) > maxAnchorFile {
		err = fmt.Errorf("larger than %d bytes", maxAnchorFile)
	}
	return text, err
}

// readAuthorities reads a list of authorities; no file is an empty list. One
// bad line voids the list, for half a list is not what the operator wrote.
func readAuthorities(file string) ([]string, error) {
	text, err := readFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []string
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line, _, _ = bytes.Cut(line, []byte("#"))
		name := string(bytes.TrimSpace(line))
		if name == "" {
			continue
		}
		if u, err := urn.Parse(name); err == nil {
			return nil, fmt.Errorf("line %d: %q is a whole URN; write only the authority in it: %s", n, name, u.Authority)
		}
		if !urn.ValidAuthority(name) {
			return nil, fmt.Errorf("line %d: %q is no authority such as example.org or example.org:project", n, name)
		}
		list = append(list, name)
	}
	return list, nil
}
