package cert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/am/urn"
)

// Limits of a trust folder.
const (
	maxAnchorFile  = 4 << 20
	maxFileAnchors = 1000
)

// allAnchors is a file of other software that repeats the certificates of all other files.
const allAnchors = "CATedCACerts.pem"

// IsTrustFile reports whether a file with the base name belongs in a trust folder. It also
// returns true for a name that seems to be a mistake.
func IsTrustFile(name string) bool {
	switch filepath.Ext(name) {
	case ".pem", ".crl", ".authorities":
		return name != allAnchors
	}
	return name == DeniedFile || misnamed(name) != ""
}

// misnamed returns why a file is ignored although it seems to belong in a trust folder. It
// returns "" for files that are read, and for unrelated files.
func misnamed(name string) string {
	lower := strings.ToLower(name)
	ext := filepath.Ext(lower)
	switch ext {
	case ".key":
		return "private keys must not be in this folder; move it away"
	case ".crt", ".cer", ".cert", ".der":
		return "it is ignored: only *.pem is read; rename it if it is in PEM form, or convert it with: openssl x509 -inform DER -in " + name + " -out " + strings.TrimSuffix(name, filepath.Ext(name)) + ".pem"
	case ".pem", ".crl", ".authorities":
		if filepath.Ext(name) != ext {
			return "it is ignored: only *" + ext + ", in small letters, is read; rename it"
		}
	case "", ".txt", ".list", ".lst", ".conf", ".csv", ".pub":
		if strings.TrimSuffix(lower, ext) == DeniedFile && name != DeniedFile {
			return "it is ignored: the deny list must be named " + DeniedFile + "; rename it"
		}
	}
	return ""
}

// Problem describes a file, or a part of a file, that is ignored or has no effect.
type Problem struct {
	File string
	Text string
	// Skipped means that the file is not read because of its name.
	Skipped bool
}

func (p Problem) String() string { return p.File + ": " + p.Text }

// Folder is a trust folder. It keeps the revocations between readings, so that a broken or
// incomplete list does not readmit a revoked certificate.
type Folder struct {
	dir     string
	options Options

	mu     sync.Mutex
	files  map[string]listFile // CRL files by name
	denied deniedFile
}

// NewFolder returns a Folder. The options select the signature algorithms that a CRL may
// use.
func NewFolder(dir string, o Options) *Folder { return &Folder{dir: dir, options: o} }

// Load reads the folder. It fails if the folder cannot be read, or if the first Load cannot
// read the deny list. For an invalid file, certificate or line, it returns a Problem and
// continues. If a CRL file or the deny list becomes invalid, its former entries apply until
// the file is corrected or removed.
func (f *Folder) Load(now time.Time) (*Anchors, []Problem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read trust folder: %w", err)
	}
	var anchors []Anchor
	var problems []Problem
	for _, entry := range entries {
		if name := entry.Name(); filepath.Ext(name) == ".pem" && name != allAnchors {
			list, found := loadAnchorFile(filepath.Join(f.dir, name))
			anchors, problems = append(anchors, list...), append(problems, found...)
		}
	}
	var lists []*RevocationList
	var denied []Denial
	files := map[string]listFile{}
	anchorsByName, room := byName(anchors), maxListEntries
	for _, entry := range entries {
		name, file := entry.Name(), filepath.Join(f.dir, entry.Name())
		var found []Problem
		switch {
		case name == DeniedFile:
			if denied, found, err = f.denied.load(file); err != nil {
				return nil, nil, err
			}
		case filepath.Ext(name) == ".crl":
			files[name], found = f.files[name].load(file, f.options, anchorsByName, room, now)
			for _, l := range files[name].lists {
				room -= l.Len()
			}
			lists = append(lists, files[name].lists...)
		default:
			text := misnamed(name)
			if stem, ok := strings.CutSuffix(name, ".authorities"); ok && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == stem+".pem" }) {
				text = "it lists the authorities of " + stem + ".pem, but there is no such file; give both the same name"
			}
			if text != "" {
				found = []Problem{{File: file, Text: text, Skipped: true}}
			}
		}
		problems = append(problems, found...)
	}
	f.files = files
	f.denied = deniedFile{known: true, list: denied} // a missing file is an empty list
	return newAnchors(anchors, lists, denied), problems, nil
}

// loadAnchorFile reads the certificates in a file, with the authorities in the file *.authorities
// of the same name. It returns a Problem for each part that it ignores.
func loadAnchorFile(file string) (list []Anchor, problems []Problem) {
	problem := func(file, format string, args ...any) {
		problems = append(problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
	}
	text, err := readFile(file, maxAnchorFile)
	if err != nil {
		problem(file, "%v", err)
		return nil, problems
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		problem(file, "IT CONTAINS A PRIVATE KEY, which must not be in this folder: anybody who can read the key can act as its owner; move the key away, and replace it if others could read it")
		if !bytes.Contains(text, beginOf(certificateLabel)) {
			return nil, problems
		}
	}
	if isDER(text) {
		problem(file, "it is in DER form, not PEM; convert it with: openssl x509 -inform DER -in %s -out %s-converted.pem, and remove %[1]s",
			filepath.Base(file), strings.TrimSuffix(filepath.Base(file), ".pem"))
		return nil, problems
	}
	if bytes.Contains(text, beginOf(listLabel)) {
		problem(file, "it contains a CRL, which is read only from a file named *.crl; move it there")
		if !bytes.Contains(text, beginOf(certificateLabel)) {
			return nil, problems
		}
	}
	blocks, err := splitPEM(text, maxFileAnchors)
	if err != nil {
		problem(file, "%v; put a certificate in PEM form into it, or remove it", err)
		return nil, problems
	}
	authoritiesFile := strings.TrimSuffix(file, ".pem") + ".authorities"
	authorities, listErr := readAuthorities(authoritiesFile)
	if listErr != nil {
		problem(authoritiesFile, "%v", listErr)
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
			problem(file, "certificate %d: %s names no authority, so it can certify no name; list the authorities that it covers in %s",
				i+1, c.Name(), filepath.Base(authoritiesFile))
		}
		list = append(list, anchor)
	}
	return list, problems
}

func isDER(text []byte) bool {
	_, err := Parse(text)
	return err == nil
}

// byteOrderMark is the mark that some editors write at the start of a text.
var byteOrderMark = []byte("\ufeff")

// readFile reads a regular file of at most limit bytes. It fails for other kinds of files,
// since reading a pipe could block forever.
func readFile(file string, limit int) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}

// readAuthorities reads a list of authorities, one a line; a missing file is an empty list. It
// fails if one line is invalid, since a part of the list is not what the operator intended.
func readAuthorities(file string) ([]string, error) {
	text, err := readFile(file, maxAnchorFile)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []string
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, byteOrderMark)) {
		n++
		line, _, _ = bytes.Cut(line, []byte("#"))
		name := string(bytes.TrimSpace(line))
		if name == "" {
			continue
		}
		if u, err := urn.Parse(name); err == nil {
			return nil, fmt.Errorf("line %d: %q is a complete URN; write only the authority in it: %s", n, name, u.Authority)
		}
		if !urn.ValidAuthority(name) {
			return nil, fmt.Errorf("line %d: %q is not an authority such as example.org or example.org:project", n, name)
		}
		list = append(list, name)
	}
	return list, nil
}
