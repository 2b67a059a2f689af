package cert

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// listFile is the state of a file of CRLs after the last reading.
type listFile struct {
	sum   [sha256.Size]byte
	good  bool
	lists []*RevocationList // the lists that apply
}

// load reads the file and returns its new state. It does not parse an unchanged file without
// problems again. If there is a problem, the former lists of the file still apply, in
// addition to its correct lists. room is the number of entries that the file may have.
func (f listFile) load(file string, o Options, anchors certificatesByName, room int, now time.Time) (listFile, []Problem) {
	var problems []Problem
	problem := func(format string, args ...any) {
		problems = append(problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
	}
	text, err := readFile(file, maxListFile)
	got := listFile{sum: sha256.Sum256(text)}
	var valid []*RevocationList
	switch {
	case err != nil:
		problem("%v", err)
	case f.good && f.sum == got.sum:
		got.lists = f.lists
	default:
		parts, err := listParts(text)
		for i, part := range parts {
			l, err := readList(part, o, room, now)
			if err != nil {
				problem("CRL %d: %v", i+1, err)
				continue
			}
			l.File = file
			room -= l.Len()
			got.lists = append(got.lists, l)
		}
		if err != nil {
			problem("%v; put a CRL in PEM or DER form into it, or remove it", err)
		}
	}
	for _, l := range got.lists {
		text := anchors.signatureProblem(l)
		if newer := f.replacedNewer(l, got.lists); newer != nil && text == "" {
			text = fmt.Sprintf("the CRL of %s from %s is older than the CRL from %s that it replaces; get the newest CRL from its issuer, or remove this file first to use the older CRL",
				short(l.Issuer()), l.ThisUpdate.UTC().Format(time.RFC3339), newer.ThisUpdate.UTC().Format(time.RFC3339))
		}
		if text != "" {
			problem("%s", text)
			continue
		}
		valid = append(valid, l)
	}
	if got.good = len(problems) == 0; got.good {
		return got, nil
	}
	if kept := unreplaced(f.lists, valid, got.lists); len(kept) > 0 {
		got.lists = append(slices.Clip(got.lists), kept...)
		problems[len(problems)-1].Text += "; the former content of this file stays in force until it is correct or removed"
	}
	return got, problems
}

// replacedNewer returns a former list that l replaces although l is older: it has the same
// source as l and is no longer in the file, whose lists are now here. It returns nil if there
// is none, or if l was in the file before.
func (f listFile) replacedNewer(l *RevocationList, here []*RevocationList) *RevocationList {
	if f.good && hasList(f.lists, l) {
		return nil
	}
	for _, m := range f.lists {
		if m.sameSource(l) && m.ThisUpdate.After(l.ThisUpdate) && !hasList(here, m) {
			return m
		}
	}
	return nil
}

// hasList reports whether a list with the same bytes as l is among lists.
func hasList(lists []*RevocationList, l *RevocationList) bool {
	return slices.ContainsFunc(lists, func(m *RevocationList) bool { return m.hash == l.hash })
}

// readList reads one CRL and fails if it cannot be used.
func readList(der []byte, o Options, room int, now time.Time) (*RevocationList, error) {
	l, err := ParseRevocationList(der)
	switch {
	case err != nil:
		return nil, err
	case usesSHA1(l.algorithm) && !o.SHA1:
		return nil, fmt.Errorf("the CRL of %s is signed with SHA-1, which this server does not accept; ask for one with SHA-256, or allow SHA-1 for certificates", short(l.Issuer()))
	case l.ThisUpdate.After(now.Add(maxClockSkew)):
		return nil, fmt.Errorf("the CRL of %s begins in the future, at %s; wait, or correct the clock", short(l.Issuer()), l.ThisUpdate.UTC().Format(time.RFC3339))
	case l.Len() > room:
		return nil, fmt.Errorf("the CRL of %s has %d entries, so all CRLs together would have more than %d; remove CRLs that are not needed", short(l.Issuer()), l.Len(), maxListEntries)
	}
	return l, nil
}

// listParts splits a file into CRLs: one in DER, or blocks of PEM. A block that is not
// base64 becomes empty.
func listParts(text []byte) (parts [][]byte, err error) {
	if len(text) > 0 && text[0] == 0x30 && !bytes.Contains(text, beginOf(listLabel)) {
		return [][]byte{text}, nil
	}
	blocks, err := splitBlocks(text, listLabel, maxFileLists)
	for _, b := range blocks {
		der, _ := decodeBase64(b)
		parts = append(parts, der)
	}
	if err == nil && len(parts) == 0 {
		err = errors.New("it contains no CRL")
	}
	return parts, err
}

// unreplaced returns the former lists that are no longer in the file and have no successor
// among its valid lists. If a source had several lists, each needs a successor of its own.
func unreplaced(before, valid, here []*RevocationList) (kept []*RevocationList) {
	count := func(lists []*RevocationList, like *RevocationList) (n int) {
		for _, l := range lists {
			if l.sameSource(like) {
				n++
			}
		}
		return n
	}
	for _, l := range before {
		if !hasList(here, l) && count(valid, l) < count(before, l) {
			kept = append(kept, l)
		}
	}
	return kept
}
