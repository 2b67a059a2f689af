package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/client"
	"patchbay/am/urn"
)

// caller is who calls, for which slice, and what proves it.
type caller struct {
	certFile, keyFile string
	credentials       []credential
	sshKeys           []string
	sliceURN          string
}

// credential is one document, and what it says of itself: the client only
// looks, the server verifies.
type credential struct {
	text          string
	owner, target string // URNs
	kind          string // of the target: user, slice, …
	expires       time.Time
}

// readCaller takes folders and files in any order, and what --slice says.
func readCaller(paths []string, slice string) (*caller, error) {
	me := &caller{}
	var folders []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("--user: %w", err)
		}
		if !info.IsDir() {
			if err := me.add(p); err != nil {
				return nil, err
			}
			continue
		}
		folders = append(folders, p)
		for _, pattern := range []string{"*-cert.pem", "*-key.pem", "*-usercred.xml", "id_*.pub"} {
			files, err := filepath.Glob(filepath.Join(p, pattern))
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if err := me.add(f); err != nil {
					return nil, err
				}
			}
		}
		if me.certFile == "" {
			return nil, fmt.Errorf("--user %s: the folder holds no NAME-cert.pem; make it with: %s", p, ourCommand("user", "NAME"))
		}
	}
	if slice != "" {
		if err := me.setSlice(slice, folders); err != nil {
			return nil, fmt.Errorf("--slice: %w", err)
		}
	}
	return me, nil
}

// add takes one file for what its content is.
func (me *caller) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	known := false
	if bytes.Contains(text, []byte("BEGIN CERTIFICATE")) && !bytes.Contains(text, []byte("signed-credential")) {
		me.certFile, known = file, true
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) && !bytes.Contains(text, []byte("BEGIN OPENSSH")) {
		me.keyFile, known = file, true
	}
	if c, err := readCredential(text); err == nil {
		me.credentials, known = append(me.credentials, c), true
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ssh-") || strings.HasPrefix(line, "ecdsa-sha2-") {
			me.sshKeys, known = append(me.sshKeys, strings.TrimSpace(line)), true
		}
	}
	if !known {
		return fmt.Errorf("%s is no certificate, key, credential or SSH public key", file)
	}
	return nil
}

// setSlice finds out the slice's URN and, if it can, its credential.
func (me *caller) setSlice(slice string, folders []string) error {
	if u, err := urn.Parse(slice); err == nil {
		me.sliceURN = slice
		if u.Type != urn.Slice {
			return fmt.Errorf("%s is the URN of something else", slice)
		}
		for _, dir := range folders {
			me.addSliceCredential(filepath.Join(dir, "slices", u.Name+"-cred.xml"))
		}
		return nil
	}
	candidates := []string{slice}
	if slice == filepath.Base(slice) {
		candidates = nil
		for _, dir := range folders {
			candidates = append(candidates, filepath.Join(dir, "slices", slice+"-cred.xml"))
		}
		candidates = append(candidates, slice)
	}
	for _, file := range candidates {
		if me.addSliceCredential(file) {
			return nil
		}
	}
	return fmt.Errorf("%q is no URN, and there is no slice credential in %s; make a slice with: %s",
		slice, strings.Join(candidates, " or "), ourCommand("slice", filepath.Base(slice), "--owner", "USER"))
}

// addSliceCredential takes the slice from a file, if that is a slice credential.
func (me *caller) addSliceCredential(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	c, err := readCredential(text)
	if err != nil || c.kind != urn.Slice || me.sliceURN != "" && !strings.EqualFold(me.sliceURN, c.target) {
		return false
	}
	me.credentials = append(me.credentials, c)
	me.sliceURN = c.target
	return true
}

// forSlice are the credentials for a call about the slice: those over it, or
// all where there are none.
func (me *caller) forSlice() []client.Credential {
	over := slices.DeleteFunc(slices.Clone(me.credentials), func(c credential) bool {
		return !strings.EqualFold(c.target, me.sliceURN)
	})
	if len(over) == 0 {
		over = me.credentials
	}
	return wireCredentials(over)
}

// forUser are the credentials for a call about no slice.
func (me *caller) forUser() []client.Credential { return wireCredentials(me.credentials) }

func wireCredentials(list []credential) []client.Credential {
	out := make([]client.Credential, len(list))
	for i, c := range list {
		out[i] = client.Credential{Text: c.text}
	}
	return out
}

// users is who is to log in: the owner of the credentials with the SSH keys given.
func (me *caller) users() []client.User {
	if len(me.sshKeys) == 0 || len(me.credentials) == 0 {
		return nil
	}
	return []client.User{{URN: me.credentials[0].owner, Keys: me.sshKeys}}
}

// readCredential looks into a signed credential without verifying it.
func readCredential(text []byte) (credential, error) {
	var doc struct {
		XMLName    xml.Name `xml:"signed-credential"`
		Credential []struct {
			Owner   string `xml:"owner_urn"`
			Target  string `xml:"target_urn"`
			Expires string `xml:"expires"`
		} `xml:"credential"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		return credential{}, err
	}
	if len(doc.Credential) == 0 {
		return credential{}, errors.New("no credential in it")
	}
	d := doc.Credential[0]
	target, err := urn.Parse(strings.TrimSpace(d.Target))
	if err != nil {
		return credential{}, err
	}
	c := credential{text: string(text), owner: strings.TrimSpace(d.Owner), target: target.String(), kind: target.Type}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} { // without an offset it is UTC
		if t, err := time.Parse(layout, strings.TrimSpace(d.Expires)); err == nil {
			c.expires = t.UTC()
		}
	}
	return c, nil
}
