package cert

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// listFile is what a file of CRLs said when it was last read.
type listFile struct {
	sum   [sha256.Size]byte
	good  bool
	lists []*RevocationList // in force
}

// load reads the file again; one that was good and is the same is not parsed
// once more. When anything is wrong, what the file said before stays in force
// beside what is right. There is room for so many entries in all.
func (f listFile) load(file string, o Options, anchors named, room int, now time.Time) (listFile, []Problem) {
	var problems []Problem
	problem := func(format string, args ...any) {
		problems = append(problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
	}
	text, err := readFile(file, maxListFile)
	got := listFile{sum: sha256.Sum256(text)}
	var made []*RevocationList
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
		text := anchors.unmade(l)
		if newer := f.newer(l, got.lists); newer != nil && text == "" {
			text = fmt.Sprintf("the CRL of %s is of %s, older than the one it replaces, of %s; get the newest from its issuer, or remove this file first if the older one is meant",
				short(l.Issuer()), l.ThisUpdate.UTC().Format(time.RFC3339), newer.ThisUpdate.UTC().Format(time.RFC3339))
		}
		if text != "" {
			problem("%s", text)
			continue
		}
		made = append(made, l)
	}
	if got.good = len(problems) == 0; got.good {
		return got, nil
	}
	if kept := keep(f.lists, made, got.lists); len(kept) > 0 {
		got.lists = append(slices.Clip(got.lists), kept...)
		problems[len(problems)-1].Text += "; what this file said before stays in force until it is good again or removed"
	}
	return got, problems
}

// newer is a list from before that is no longer here and of which l, which was
// not there before, would be an older state.
func (f listFile) newer(l *RevocationList, here []*RevocationList) *RevocationList {
	if f.good && holds(f.lists, l) {
		return nil
	}
	for _, m := range f.lists {
		if m.sameSource(l) && m.ThisUpdate.After(l.ThisUpdate) && !holds(here, m) {
			return m
		}
	}
	return nil
}

func holds(lists []*RevocationList, l *RevocationList) bool {
	return slices.ContainsFunc(lists, func(m *RevocationList) bool { return m.hash == l.hash })
}

// readList reads one CRL, and says what forbids to use it.
func readList(der []byte, o Options, room int, now time.Time) (*RevocationList, error) {
	l, err := ParseRevocationList(der)
	switch {
	case err != nil:
		return nil, err
	case usesSHA1(l.algorithm) && !o.SHA1:
		return nil, fmt.Errorf("the CRL of %s is signed with SHA-1, which this server does not accept; ask for one with SHA-256, or allow SHA-1 for certificates", short(l.Issuer()))
	case l.ThisUpdate.After(now.Add(skew)):
		return nil, fmt.Errorf("the CRL of %s is from the future, %s; wait, or correct the clock", short(l.Issuer()), l.ThisUpdate.UTC().Format(time.RFC3339))
	case l.Len() > room:
		return nil, fmt.Errorf("the CRL of %s has %d entries, with which all CRLs would have more than %d; remove what is not needed", short(l.Issuer()), l.Len(), maxListEntries)
	}
	return l, nil
}

// listParts finds the CRLs of a file: one in DER, or blocks of PEM, of which
// one that is no base64 is empty.
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
		err = errors.New("it holds no CRL")
	}
	return parts, err
}

// keep gives the lists from before that have no successor among those made now,
// and are not here anyway.
func keep(before, made, here []*RevocationList) (kept []*RevocationList) {
	count := func(lists []*RevocationList, like *RevocationList) (n int) {
		for _, l := range lists {
			if l.sameSource(like) {
				n++
			}
		}
		return n
	}
	for _, l := range before {
		if !holds(here, l) && count(made, l) < count(before, l) {
			kept = append(kept, l)
		}
	}
	return kept
}
