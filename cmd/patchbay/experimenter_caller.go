package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/inventory/suggest"
	"patchbay/inventory/yamlfile"
)

const aggregateName = "aggregate.yaml"

type aggregate struct {
	// URL has the path of a version: https://HOST:PORT/am/3.0.
	URL string
	// CA is a file with the accepted certificates of the server; "" accepts any server.
	CA string
	// Authority is the URL of the authority where the user has logged in, https://HOST:PORT; "" for
	// none.
	Authority string
}

// readAggregate returns an error that wraps fs.ErrNotExist if the folder has no
// aggregate.yaml.
func readAggregate(dir string) (a aggregate, err error) {
	const most = 1 << 20 // bytes
	file := filepath.Join(dir, aggregateName)
	text, err := yamlfile.Load(file, most)
	if err != nil {
		return a, err
	}
	r := &yamlfile.Reader{File: file}
	if doc := r.Document(text); doc != nil {
		r.Fields(doc.Content[0], "the file", []string{"url", "ca", "authority"}, func(key string, n *yaml.Node) {
			switch text := r.Text(n, key); {
			case key == "url":
				if a.URL = text; !strings.HasPrefix(text, "https://") {
					r.Wrong(n, "url must be like https://am.example.org:8443/am/3.0")
				}
			case key == "authority":
				if a.Authority = strings.TrimSuffix(text, "/"); !strings.HasPrefix(text, "https://") {
					r.Wrong(n, "authority must be like https://am.example.org:8443")
				}
			case text == "":
			case !filepath.IsLocal(text):
				r.Wrong(n, "ca must name a file in this folder, such as server-ca.pem")
			default:
				a.CA = filepath.Join(dir, text)
			}
		})
		if a.URL == "" && r.Mistakes() == 0 {
			r.Missing(nil, aggregateName, "url")
		}
	}
	return a, r.Err()
}

type caller struct {
	certFile, keyFile string
	credentials       []credential
	sshKeys           []string
	logins            []client.User // other users with accounts
	sliceURN          string
	// identity is the file of a private SSH key in one of the user's folders.
	folders  []string
	identity string
	// speakingFor is the user that a tool speaks for, or "".
	speakingFor string
}

// credential holds a document and values read from it. Only the server verifies the
// document.
type credential struct {
	text, file    string
	abac          bool
	owner, target string // URNs; an ABAC credential has none
	kind          string // of the target: user, slice, …
	expires       time.Time
	// always is true for a credential that every call sends, even a call about another
	// target.
	always bool
}

func (f *siteFlag) userNames() []string {
	dir := f.folder()
	if dir == "" {
		return nil
	}
	return userNamesIn(filepath.Join(dir, site.UsersDir))
}

// readCaller accepts folders and files in any order.
func readCaller(paths []string, slice string) (*caller, error) {
	me := &caller{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("--user: %w; %screate a user with: %s", err, suggestNames(filepath.Base(p), userNamesIn(filepath.Dir(p))), commandAbout(p, "user", "NAME"))
		}
		if !info.IsDir() {
			if err := me.add(p); err != nil {
				return nil, fmt.Errorf("--user: %w", err)
			}
			continue
		}
		me.folders = append(me.folders, p)
		for _, pattern := range []string{"*-cert.pem", "*-key.pem", "*-usercred.xml", "id_*.pub"} {
			for _, f := range globbed(p, pattern) {
				if err := me.add(f); err != nil {
					return nil, fmt.Errorf("--user %s: %w", p, err)
				}
			}
		}
		if me.certFile == "" {
			return nil, fmt.Errorf("--user %s: the folder holds no NAME-cert.pem; create it with: %s", p, commandAbout(p, "user", "NAME"))
		}
	}
	if slice != "" {
		if err := me.setSlice(slice); err != nil {
			return nil, fmt.Errorf("--slice: %w", err)
		}
	}
	return me, nil
}

// add reads a certificate, key, credential or SSH public key. The content decides which.
func (me *caller) add(file string) error {
	text, err := site.ReadRegular(file)
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
		c.file = file
		me.credentials, known = append(me.credentials, c), true
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ssh-") || strings.HasPrefix(line, "ecdsa-sha2-") {
			me.sshKeys, known = append(me.sshKeys, strings.TrimSpace(line)), true
			if private := strings.TrimSuffix(file, ".pub"); me.identity == "" && private != file && exists(private) {
				me.identity = private
			}
		}
	}
	if !known {
		return fmt.Errorf("%s is no certificate, key, credential or SSH public key", file)
	}
	return nil
}

// setSlice accepts a URN, the name of a slice, or the name of a file with a credential.
// Only a URN needs no credential.
func (me *caller) setSlice(slice string) error {
	if u, err := urn.Parse(slice); err == nil {
		me.sliceURN = slice
		if u.Type != urn.Slice {
			return fmt.Errorf("%s is not the URN of a slice", slice)
		}
		for _, dir := range me.folders {
			file := filepath.Join(dir, slicesDir, u.Name+"-cred.xml")
			if err := me.addSliceCredential(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	var candidates []string
	if slice == filepath.Base(slice) {
		for _, dir := range me.folders {
			candidates = append(candidates, filepath.Join(dir, slicesDir, slice+"-cred.xml"))
		}
	}
	if len(candidates) == 0 || exists(slice) {
		candidates = append(candidates, slice)
	}
	var missing []string
	for _, file := range candidates {
		err := me.addSliceCredential(file)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, file)
	}
	return me.noSlice(slice, missing)
}

// noSlice returns the error for a slice without a credential in any of the files.
func (me *caller) noSlice(slice string, files []string) error {
	about, owner := "", "USER"
	if len(me.folders) > 0 {
		about, owner = me.folders[0], filepath.Base(filepath.Clean(me.folders[0]))
	}
	if u := me.users(); len(u) > 0 {
		if x, err := urn.Parse(u[0].URN); err == nil {
			owner = x.Name
		}
	}
	name, looked := strings.TrimSuffix(filepath.Base(slice), "-cred.xml"), strings.Join(files, " or ")
	if me.isTool() {
		return fmt.Errorf("there is no slice %q; a tool works in the slice of a user: give the file with the user's credential, such as %s, or delegate the slice with: %s (looked for %s)",
			slice, filepath.Join(about, "..", "..", site.UsersDir, "USER", slicesDir, name+"-cred.xml"),
			commandAbout(about, "delegate", name, "--from", "USER", "--to", filepath.Base(about)), looked)
	}
	have := slicesIn(about)
	if near := suggest.Word(name, have); near != "" {
		return fmt.Errorf("there is no slice %q; did you mean %s? (looked for %s)", slice, near, looked)
	}
	return fmt.Errorf("there is no slice %q; %screate it with: %s (looked for %s)", slice, suggestNames(name, have), commandAbout(about, "slice", name, "--owner", owner), looked)
}

// setOnlySlice sets the slice if the user's folders hold credentials for one slice, or only one
// of the slices is an experiment of "patchbay up". Otherwise it fails for several slices.
func (me *caller) setOnlySlice() error {
	var names, experiments []string
	for _, dir := range me.folders {
		names = append(names, slicesIn(dir)...)
		experiments = append(experiments, namesOf(filepath.Join(dir, "slices"), "*.request.xml", ".request.xml")...)
	}
	if len(experiments) == 1 {
		names = experiments
	}
	slices.Sort(names)
	switch names = slices.Compact(names); len(names) {
	case 0:
		return nil
	case 1:
		return me.setSlice(names[0])
	}
	return fmt.Errorf("several slices could be meant; add --slice NAME: %s", joinSome(names))
}

// isTool reports whether the certificate belongs to a tool, which owns no slice.
func (me *caller) isTool() bool {
	text, err := site.ReadRegular(me.certFile)
	if err != nil {
		return false
	}
	list, err := cert.ParsePEM(text)
	return err == nil && list[0].URN.Type == urn.Tool
}

// addSliceCredential adds the credential in a file, and sets the slice to its target. It
// fails if the target is not a slice, or if another slice was set before.
func (me *caller) addSliceCredential(file string) error {
	text, err := site.ReadRegular(file)
	if err != nil {
		return err
	}
	c, err := readCredential(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s is no slice credential: %w", file, err)
	case c.kind != urn.Slice:
		return fmt.Errorf("%s is not a slice credential; it is over %s", file, c.target)
	case me.sliceURN != "" && !strings.EqualFold(me.sliceURN, c.target):
		return fmt.Errorf("%s is a credential over another slice, %s", file, c.target)
	}
	c.file = file
	me.credentials = append(me.credentials, c)
	me.sliceURN = c.target
	return nil
}

// addCredential adds a credential for every call, such as a speaks-for credential.
func (me *caller) addCredential(file string) error {
	text, err := site.ReadRegular(file)
	if err != nil {
		return err
	}
	c, err := readCredential(text)
	if err != nil {
		return fmt.Errorf("%s is no credential: %w", file, err)
	}
	c.file, c.always = file, true
	me.credentials = append(me.credentials, c)
	return nil
}

func (c *credential) isExpired(now time.Time) bool {
	return !c.expires.IsZero() && !now.Before(c.expires)
}

// remedy returns the command line that creates a new credential of the same owner. If root
// runs the user's own site, the command is status as root, which renews all credentials.
// remedy returns "" if the owner's trial authority is not on this host.
func (c *credential) remedy(flags ...string) string {
	target, _ := urn.Parse(c.target)
	owner, err := urn.Parse(c.owner)
	at := siteOf(c.file)
	switch {
	case rootsSiteOf(c.file) != "":
		return display.AsRoot(display.Program, "status")
	case c.abac || err != nil || at == "" || !exists(filepath.Join(filepath.Dir(at), site.AuthorityDir)):
		return ""
	case c.kind == urn.Slice:
		return display.CommandAt(at, append([]string{"slice", target.Name, "--owner", owner.Name}, flags...)...)
	}
	return display.CommandAt(at, "user", owner.Name, "--renew")
}

// expired returns a line with the remedy for each expired credential. The parameter
// reported is true if the aggregate's answer has already named the expiry. Then the lines
// are only commands, and a credential without a command has no line.
func (me *caller) expired(now time.Time, reported bool) []string {
	var list []string
	for i := range me.credentials {
		c := &me.credentials[i]
		if !c.isExpired(now) {
			continue
		}
		remedy, what := c.remedy(), "credential over "+c.target
		switch {
		case remedy != "" && reported:
			list = append(list, "create a new credential with: "+remedy)
			continue
		case reported:
			continue
		case remedy != "":
			remedy = "create a new one with: " + remedy
		case c.abac:
			what, remedy = "ABAC credential in "+c.file, "ask its signer for a new one"
		default:
			remedy = "get a new one from its authority"
		}
		list = append(list, fmt.Sprintf("the %s expired on %s; %s", what, display.Time(c.expires), remedy))
	}
	return list
}

func commandAbout(path string, args ...string) string {
	if site := siteOf(path); site != "" {
		return display.CommandAt(site, args...)
	}
	if root := rootsSiteOf(path); root != "" {
		return display.AsRoot(append(append([]string{display.Program}, args...), "--config", root)...)
	}
	return display.Command(args...)
}

// siteOf returns the configuration file of the site that a path in a user's folder belongs
// to; "" without a site.
func siteOf(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for range 4 { // site/users/NAME/slices/FILE
		path = filepath.Dir(path)
		file := filepath.Join(path, site.ConfigName)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// forSlice returns slice credentials, ABAC credentials, and credentials for every call. If
// no credential is over the slice, it returns all credentials.
func (me *caller) forSlice() []client.Credential {
	overSlice := func(c credential) bool { return strings.EqualFold(c.target, me.sliceURN) }
	if !slices.ContainsFunc(me.credentials, overSlice) {
		return me.forUser()
	}
	return wireCredentials(slices.DeleteFunc(slices.Clone(me.credentials), func(c credential) bool { return !overSlice(c) && !c.always && !c.abac }))
}

func (me *caller) forUser() []client.Credential { return wireCredentials(me.credentials) }

func wireCredentials(list []credential) []client.Credential {
	out := make([]client.Credential, len(list))
	for i, c := range list {
		out[i] = client.Credential{Text: c.text}
		if c.abac {
			out[i].Type, out[i].Version = "geni_abac", "1"
		}
	}
	return out
}

// users returns the users that get accounts: the owner and the users of --login. The owner
// has the caller's SSH keys.
func (me *caller) users() []client.User {
	who := me.owner()
	if len(me.sshKeys) == 0 || who == "" {
		return me.logins
	}
	return append([]client.User{{URN: who, Keys: me.sshKeys}}, me.logins...)
}

// owner returns the URN of the user that a tool speaks for. Without a tool, it returns the
// owner of the caller's credentials, or "".
func (me *caller) owner() string {
	who := me.speakingFor
	for _, c := range me.credentials {
		who = cmp.Or(who, c.owner)
	}
	return who
}

// name returns the name in the owner's URN, or "" without an owner.
func (me *caller) name() string {
	u, err := urn.Parse(me.owner())
	if err != nil {
		return ""
	}
	return u.Name
}

// isDelegate reports whether another user has delegated the slice to the caller.
func (me *caller) isDelegate() bool {
	return slices.ContainsFunc(me.credentials, func(c credential) bool {
		return strings.EqualFold(c.target, me.sliceURN) && isDelegated([]byte(c.text))
	})
}

// accountOf returns the account that Patchbay gives to a user, unless another user of the slice has it.
func accountOf(user string) string {
	if user == "" {
		return ""
	}
	return am.LoginName(urn.URN{Name: user}, func(string) bool { return false })
}

// noAccount is shown instead of a login of another user.
func noAccount(account string) string { return "(no account of " + account + " on the node)" }

// readCredential does not verify the credential.
func readCredential(text []byte) (credential, error) {
	var doc struct {
		XMLName    xml.Name `xml:"signed-credential"`
		Credential []struct {
			Type    string `xml:"type"`
			Owner   string `xml:"owner_urn"`
			Target  string `xml:"target_urn"`
			Expires string `xml:"expires"`
		} `xml:"credential"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		return credential{}, err
	}
	if len(doc.Credential) == 0 {
		return credential{}, errors.New("the document has no credential")
	}
	d := doc.Credential[0]
	c := credential{text: string(text), abac: strings.EqualFold(strings.TrimSpace(d.Type), "abac")}
	if !c.abac {
		target, err := urn.Parse(strings.TrimSpace(d.Target))
		if err != nil {
			return credential{}, err
		}
		c.owner, c.target, c.kind = strings.TrimSpace(d.Owner), target.String(), target.Type
	}
	c.expires, _ = display.ParseExpires(d.Expires) // zero without a time
	return c, nil
}
