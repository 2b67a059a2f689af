package check

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"patchbay/am/display"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
)

// credential prints the content of a credential and whether its signature is intact. It does not
// check whether the signers are trusted: each aggregate decides that by its own trust folder.
func (k *Checker) credential(name string, text []byte) {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff"))) // as the server does
	chain, err := dsig.Verify(text, dsig.Options{SHA1: k.credentials().SHA1Signatures})
	if err != nil {
		k.bad(name, "this is not a valid credential: %v; get it again, as it was issued", err)
		return
	}
	l, err := readChain(chain)
	if err != nil {
		k.bad(name, "this credential cannot be read: %v", err)
		return
	}
	switch says, end := l.describe(), l.end(); {
	case says == "":
		k.warn(name, "an ABAC credential of %s about the role %.100q; it grants nothing, because aggregates accept ABAC only for speaks-for", l[0].signer, l[0].Role)
	case time.Now().After(end):
		k.bad(name, "it %s, but ended on %s; %s", says, end.Format(time.RFC3339), l.remedy())
	default:
		k.good(name, "%s until %s; only the aggregate knows whether its signer is trusted", says, end.Format(time.RFC3339))
	}
}

type credentialInfo struct {
	Type    string `xml:"type"`
	Owner   string `xml:"owner_gid"`
	Target  string `xml:"target_gid"`
	Expires string `xml:"expires"`
	Role    string `xml:"abac>rt0>head>role"`
	Tails   []struct {
		Key  string `xml:"ABACprincipal>keyid"`
		Role string `xml:"role"`
	} `xml:"abac>rt0>tail"`

	signer  string
	expires time.Time
}

// credentialChain has the outermost credential first.
type credentialChain []credentialInfo

func readChain(chain []dsig.Signed) (credentialChain, error) {
	list := make(credentialChain, len(chain))
	for i, signed := range chain {
		w := &list[i]
		if err := xml.Unmarshal(signed.Canonical, w); err != nil {
			return nil, err
		}
		w.signer = signed.Signer.Name()
		var err error
		if w.expires, err = display.ParseExpires(w.Expires); err != nil {
			return nil, err
		}
		if w.kind() == "abac" {
			continue
		}
		for role, gid := range map[string]*string{"owner": &w.Owner, "target": &w.Target} {
			c, err := cert.ParsePEM([]byte(*gid))
			if err != nil {
				return nil, fmt.Errorf("its %s_gid: %w", role, err)
			}
			*gid = c[0].Name()
		}
	}
	return list, nil
}

func (w credentialInfo) kind() string { return strings.ToLower(strings.TrimSpace(w.Type)) }

func (l credentialChain) end() time.Time {
	end := l[0].expires
	for _, w := range l[1:] {
		if w.expires.Before(end) {
			end = w.expires
		}
	}
	return end
}

// describe returns "" for an ABAC credential that grants no right.
func (l credentialChain) describe() string {
	w := l[0]
	switch role := strings.TrimSpace(w.Role); {
	case w.kind() == "speaksfor":
		return fmt.Sprintf("lets %s speak for %s", w.Owner, w.Target)
	case w.kind() == "abac" && strings.HasPrefix(role, "speaks_for_") && len(w.Tails) == 1 && w.Tails[0].Role == "":
		return fmt.Sprintf("lets the tool with the key %s speak for %s", strings.TrimSpace(w.Tails[0].Key), w.signer)
	case w.kind() == "abac":
		return ""
	}
	text := fmt.Sprintf("gives %s rights over %s", w.Owner, w.Target)
	for i := len(l) - 1; i > 0; i-- {
		text += fmt.Sprintf(", delegated by %s to %s", l[i].Owner, l[i-1].Owner)
	}
	return text
}

func (l credentialChain) remedy() string {
	switch {
	case l[0].kind() != "privilege":
		return "have the user sign a new one"
	case len(l) > 1:
		return "have it delegated again"
	}
	return "get a new one from its authority"
}
