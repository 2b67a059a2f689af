package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/binder"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/rspec"
)

// file checks one file or folder for what it is.
func (k *checker) file(ctx context.Context, name string) {
	info, err := os.Stat(name)
	if err != nil {
		k.errors(err)
		return
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, configName)); err == nil {
			k.site(ctx, filepath.Join(name, configName))
			return
		}
		if files, _ := filepath.Glob(filepath.Join(name, "*"+provider.Suffix)); len(files) > 0 {
			k.providers(ctx, name, nil, "")
			return
		}
		k.trustFolder(name)
		return
	}
	if strings.HasSuffix(name, provider.Suffix) {
		p, err := provider.Open(name, nil)
		if err != nil {
			k.errors(err)
			return
		}
		k.provider(ctx, p)
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		k.errors(err)
		return
	}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		k.bad(name, "it is empty")
	case bytes.Contains(text, []byte("signed-credential")):
		k.credential(name, text)
	case bytes.Contains(text, []byte("-----BEGIN CERTIFICATE")):
		k.certificates(name, text)
	case bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<")):
		k.request(name, text)
	default:
		k.yaml(ctx, name, text)
	}
}

// yaml tells a configuration from an inventory by its keys.
func (k *checker) yaml(ctx context.Context, name string, text []byte) {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		k.bad(name, "this is neither YAML nor XML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if _, ok := top["components"]; ok || top["sliver_types"].Kind != 0 {
		authority := "example.org"
		if k.config != nil {
			authority = k.config.Authority
		}
		k.inventory(name, authority)
		return
	}
	k.site(ctx, name)
}

// request reads a request as the site would, and looks whether it would fit on
// the site if nobody else were there.
func (k *checker) request(name string, text []byte) {
	var options rspec.ReadOptions
	var inv *inventory.Inventory
	if k.config != nil {
		var err error
		if inv, err = inventory.Load(k.config.Inventory, k.config.Authority); err != nil {
			k.errors(err)
			return
		}
		options = k.config.reading(inv)
	}
	r, problems := rspec.Check(text, options)
	for _, p := range problems {
		where := name
		if p.Line > 0 {
			where += fmt.Sprintf(":%d", p.Line)
		}
		if p.Column > 0 {
			where += fmt.Sprintf(":%d", p.Column)
		}
		if p.IsRemark() {
			k.warn(where, "%s", p.Text())
		} else {
			k.bad(where, "%s", p.Text())
		}
	}
	if r == nil {
		return
	}
	if inv == nil {
		k.good(name, "a request that can be read; give --config to see whether a site can serve it")
		return
	}
	if len(r.Nodes) == 0 {
		k.bad(name, "it asks for nothing here: none of its nodes names %s as its component_manager_id", inv.Manager)
		return
	}
	slice := urn.URN{Authority: k.config.Authority, Type: urn.Slice, Name: "check"}
	if _, err := binder.Bind(r, binder.NewIndex(inv), slice); err != nil {
		k.bad(name, "not even when the whole site is free: %v", err)
		return
	}
	k.good(name, "%s and %s for this site; it fits when enough is free", plural(len(r.Nodes), "node"), plural(len(r.Links), "link"))
}

func (k *checker) certificates(name string, text []byte) {
	list, err := cert.ParsePEM(text)
	if err != nil {
		k.bad(name, "%v", err)
		return
	}
	for _, c := range list {
		k.anchor(cert.Anchor{Certificate: c, File: name})
	}
}

// credential shows what a credential says; only a server with its trust folder
// can verify it.
func (k *checker) credential(name string, text []byte) {
	c, err := readCredential(text)
	if err != nil {
		k.bad(name, "this is no credential that can be read: %v", err)
		return
	}
	if !c.expires.IsZero() && time.Now().After(c.expires) {
		k.bad(name, "the credential of %s over %s ended on %s; get a fresh one from its authority", c.owner, c.target, c.expires.Format(time.RFC3339))
		return
	}
	k.good(name, "gives %s rights over %s until %s; whether its signature is good, the aggregate tells", c.owner, c.target, c.expires.Format(time.RFC3339))
}
