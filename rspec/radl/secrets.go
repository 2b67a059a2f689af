package radl

import (
	"regexp"
	"slices"
	"strings"

	"patchbay/am/display"
	"patchbay/rspec"
)

var isSecret = regexp.MustCompile(`(?i)(^|[._])(password|passwd|passphrase|private_key|secret_key|access_key|api_key|secret|token|proxy_key)$`).MatchString

// WithoutSecrets returns the document with empty texts in place of passwords, private keys and the
// like, and a warning for each. Every member of a slice can read requests and manifests. Texts of recipes stay.
func (d *Document) WithoutSecrets() (*Document, []rspec.Problem) {
	var dropped []rspec.Problem
	var clean func(list []Feature) []Feature
	clean = func(list []Feature) []Feature {
		var kept []Feature
		for _, f := range list {
			text, hadPassword := withoutPassword(f)
			if isSecret(f.Name) && f.Value.String() != "" || hadPassword { // an empty one was left out before
				dropped = append(dropped, rspec.Problem{
					Line: f.Line, Column: f.Column, Msg: "the secret in " + display.Cut(f.Name, 80) + " is left out, since every member of the slice can read requests",
					Remedy: "give nodes their secrets after they were created",
				})
				f.Op, f.Value = Equal, Value{Kind: Text, Text: text}
			}
			f.Value.Group = clean(f.Value.Group)
			kept = append(kept, f)
		}
		return kept
	}
	blocks := func(list []Block) []Block {
		list = slices.Clone(list)
		for i := range list {
			list[i].Features = clean(list[i].Features)
			list[i].Soft = slices.Clone(list[i].Soft)
			for j := range list[i].Soft {
				list[i].Soft[j].Features = clean(list[i].Soft[j].Features)
			}
		}
		return list
	}
	c := *d
	if d.Description != nil {
		c.Description = &blocks([]Block{*d.Description})[0]
	}
	warnings := len(dropped)
	c.Ansibles = blocks(d.Ansibles)
	dropped = dropped[:warnings] // there is a warning for the whole sentence
	c.Networks, c.Systems = blocks(d.Networks), blocks(d.Systems)
	return &c, dropped
}

// withoutPassword returns the text of a feature proxy_host without the password in
// user:password@host, and whether it had one. For other features it returns "".
func withoutPassword(f Feature) (text string, hadPassword bool) {
	at := strings.LastIndexByte(f.Value.Text, '@')
	if f.Name != "proxy_host" || at < 0 {
		return "", false
	}
	user, _, hadPassword := strings.Cut(f.Value.Text[:at], ":")
	return user + f.Value.Text[at:], hadPassword
}
