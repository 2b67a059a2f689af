package cert

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am/display"
)

// listFile is the result of the last reading.
type listFile struct {
	sum   [sha256.Size]byte
	good  bool
	lists []*RevocationList // the lists that apply
}

// load reads the file again. It does not parse unchanged content that had no problem. If
// there is a problem, the former lists apply in addition to the valid new lists. The file
// may have at most room entries.
func (f listFile) load(file string, o Options, anchors certificatesByName, room int, now time.Time) (listFile, []Problem) {
	var problems []Problem
	problem := func(format string, args ...any) {
		problems = append(problems, Problem{File: file, Text: fmt.Sprintf(format, args...)})
	}
	text, err := readFile(file, maxListFile)
	got := listFile{sum: sha256.Sum256(text)}
	var valid []*RevocationList // those of got.lists without a problem
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
				display.Cut(l.Issuer(), 100), l.ThisUpdate.UTC().Format(time.RFC3339), newer.ThisUpdate.UTC().Format(time.RFC3339))
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

// replacedNewer returns the newer list that the list l has replaced, or nil. Both lists
// have the same source. replacedNewer returns nil if l was in the file before.
func (f listFile) replacedNewer(l *RevocationList, current []*RevocationList) *RevocationList {
	if f.good && hasList(f.lists, l) {
		return nil
	}
	for _, m := range f.lists {
		if m.sameSource(l) && m.ThisUpdate.After(l.ThisUpdate) && !hasList(current, m) {
			return m
		}
	}
	return nil
}

// hasList compares the bytes of the lists.
func hasList(lists []*RevocationList, l *RevocationList) bool {
	return slices.ContainsFunc(lists, func(m *RevocationList) bool { return m.hash == l.hash })
}

// readList fails if the CRL has more than room entries, is signed with SHA-1 against the
// options, or begins in the future.
func readList(der []byte, o Options, room int, now time.Time) (*RevocationList, error) {
	l, err := ParseRevocationList(der)
	switch {
	case err != nil:
		return nil, err
	case usesSHA1(l.algorithm) && !o.SHA1:
		return nil, fmt.Errorf("the CRL of %s is signed with SHA-1, which this server does not accept; ask for one with SHA-256, or allow SHA-1 for certificates", display.Cut(l.Issuer(), 100))
	case l.ThisUpdate.After(now.Add(maxClockSkew)):
		return nil, fmt.Errorf("the CRL of %s begins in the future, at %s; wait, or correct the clock", display.Cut(l.Issuer(), 100), l.ThisUpdate.UTC().Format(time.RFC3339))
	case l.Len() > room:
		return nil, fmt.Errorf("the CRL of %s has %d entries, so all CRLs together would have more than %d; remove CRLs that are not needed", display.Cut(l.Issuer(), 100), l.Len(), maxListEntries)
	}
	return l, nil
}

// listParts returns CRLs in DER. The file is one CRL in DER, or has PEM blocks. For a block
// that is not base64, the part is empty.
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

// unreplaced returns the former lists that are missing now and have no successor. A
// successor is a valid list from the same source. If a source had several lists, each needs
// its own successor.
func unreplaced(former, valid, current []*RevocationList) (kept []*RevocationList) {
	count := func(lists []*RevocationList, like *RevocationList) (n int) {
		for _, l := range lists {
			if l.sameSource(like) {
				n++
			}
		}
		return n
	}
	for _, l := range former {
		if !hasList(current, l) && count(valid, l) < count(former, l) {
			kept = append(kept, l)
		}
	}
	return kept
}
