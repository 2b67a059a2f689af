package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/credentials/cert"
	"patchbay/inventory/provider"
)

// standardInput is what - is called in messages.
const standardInput = "standard input"

// file checks one file or folder for what it is.
func (k *checker) file(ctx context.Context, name string) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(os.Stdin, maxDocument))
		if err != nil {
			k.errors(err)
			return
		}
		k.text(ctx, standardInput, text)
		return
	}
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
		k.author(ctx, name)
		return
	}
	if revokes(name) { // it means something only beside the certificates
		k.trustFolder(filepath.Dir(name))
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		k.errors(err)
		return
	}
	k.text(ctx, name, text)
}

// text checks what stands in a file for what it is.
func (k *checker) text(ctx context.Context, name string, text []byte) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		k.bad(name, "it is empty")
	case bytes.Contains(text, []byte("signed-credential")):
		k.credential(name, text)
	case bytes.Contains(text, []byte("-----BEGIN CERTIFICATE")):
		k.certificates(name, text)
	case bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<")):
		k.document(name, text)
	case name == standardInput:
		k.bad(name, "only RSpecs, credentials and certificates are read from it; name the file")
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
