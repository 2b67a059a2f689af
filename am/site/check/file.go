package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/credentials/cert"
	"patchbay/inventory"
	"patchbay/inventory/provider"
	"patchbay/rspec/blueprint"
	"patchbay/rspec/compile"
	"patchbay/schemas/yamlfile"
)

const standardInput = "standard input"

// File checks one file or folder. It detects the type by the name or the content.
func (k *Checker) File(ctx context.Context, name string) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(os.Stdin, maxDocument))
		if err != nil {
			k.Errors(err)
			return
		}
		k.text(ctx, standardInput, text)
		return
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.bad(name, "there is no such file or folder; give its path, or leave it out to check the site of --config")
		return
	case errors.Is(err, fs.ErrPermission):
		k.bad(name, "you may not read it; ask its owner, or run the command as a user that may")
		return
	case err != nil:
		k.Errors(err)
		return
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, site.ConfigName)); err == nil {
			k.Site(ctx, filepath.Join(name, site.ConfigName))
			return
		}
		if files, _ := fs.Glob(os.DirFS(name), "*"+provider.Suffix); len(files) > 0 {
			k.providers(ctx, name, nil, "")
			return
		}
		k.trustFolder(name)
		return
	}
	if strings.HasSuffix(name, provider.Suffix) {
		k.testProvider(ctx, name)
		return
	}
	if program := strings.TrimSuffix(name, ".yaml") + provider.Suffix; program != name+provider.Suffix && fileExists(program) {
		k.testProvider(ctx, program) // the file name has the metadata and settings of this provider
		return
	}
	if site.IsRevocationFile(name) { // the check needs the certificates in the same folder
		k.trustFolder(filepath.Dir(name))
		return
	}
	if isLibrary(name) { // a type may extend types of other files in the folder
		k.library(filepath.Dir(name))
		return
	}
	text, err := site.ReadRegular(name)
	if err != nil {
		k.Errors(site.SuggestPipe(err))
		return
	}
	k.text(ctx, name, text)
}

// text checks a text, whose type it detects by the content.
func (k *Checker) text(ctx context.Context, name string, text []byte) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		k.bad(name, "it is empty")
	case compile.Language(text) == compile.RADL && !strings.HasSuffix(name, ".yaml"): // a comment alone is RADL, too
		k.source(ctx, name, text) // which may have keys and certificates inside
	case bytes.Contains(text, []byte("signed-credential")):
		k.credential(name, text)
	case compile.IsForeign(text):
		k.source(ctx, name, text)
	case bytes.HasPrefix(bytes.TrimLeft(text, "\ufeff \t\r\n"), []byte("<")):
		k.document(ctx, name, text)
	case bytes.Contains(text, []byte("-----BEGIN CERTIFICATE")):
		k.certificates(name, text)
	case bytes.Contains(text, []byte("PRIVATE KEY-----")):
		k.bad(name, "this is a private key, which is not checked; keep it private, and name the certificate")
	case blueprint.IsPackage(text):
		k.source(ctx, name, text)
	default:
		k.yaml(ctx, name, text)
	}
}

// yaml checks a YAML file, whose type it detects by the name that a site gives to the file, or else
// by the keys.
func (k *Checker) yaml(ctx context.Context, name string, text []byte) {
	base := filepath.Base(name)
	r := yamlfile.Reader{File: name}
	doc := r.Document(text)
	switch hasSuffix := strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml"); {
	case doc == nil && hasSuffix:
		k.Errors(r.Err())
		return
	case doc == nil:
		k.bad(name, "this is neither YAML nor XML")
		return
	}
	hasSiteName := slices.Contains([]string{site.ConfigName, site.InventoryName, site.PolicyName, maintenanceName}, base)
	isMapping := yamlfile.IsNull(doc.Content[0]) || doc.Content[0].Kind == yaml.MappingNode
	switch {
	case !hasSiteName && isMapping && site.HasKey(doc, "components") && !site.HasKey(doc, "provider", "images", "sliver_types"):
		k.source(ctx, name, text)
	case name == standardInput && isMapping:
		k.bad(name, "only RSpecs, RADL, blueprints, credentials and certificates are read from standard input; name the file")
	case base == maintenanceName, !hasSiteName && isMapping && site.HasKey(doc, "lockdown", "planned", "drained"):
		k.maintenance(name, nil)
	case base == site.InventoryName, !hasSiteName && isMapping && site.HasKey(doc, "components", "sliver_types"):
		authority := "example.org"
		if k.Config != nil {
			authority = k.Config.Authority
		}
		k.inventory(name, authority)
	case base == site.PolicyName, !hasSiteName && isMapping && site.HasKey(doc, "rules", "otherwise"):
		k.policyFile(name)
	case strings.HasSuffix(base, inventory.FactsSuffix):
		k.factsFile(name)
	case base == site.ConfigName, isMapping && site.IsConfig(doc):
		k.Site(ctx, name)
	default:
		k.bad(name, "this is not a kind of file that check knows: no RSpec, which begins with <rspec, no RADL, no blueprint, which has the key components, and no file of a site; see: %s", display.Command("check", "--help"))
	}
}

// maintenanceName is the name of the maintenance file of a new site.
const maintenanceName = "maintenance.yaml"

// factsFile reports mistakes in a file of facts of a provider.
func (k *Checker) factsFile(name string) {
	facts, err := inventory.ReadFacts(filepath.Dir(name))
	provider := strings.TrimSuffix(filepath.Base(name), inventory.FactsSuffix)
	if err != nil { // perhaps of another provider in the folder
		k.Errors(err)
		return
	}
	k.good(name, "facts of the provider %s about %s and %s", provider, display.Count(len(facts[provider].Images), "image"), display.Count(len(facts[provider].Components), "component"))
}

func (k *Checker) certificates(name string, text []byte) {
	list, err := cert.ParsePEM(text)
	if err != nil {
		k.bad(name, "%v; it is damaged or cut off; copy the whole file again, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----", err)
		return
	}
	for _, c := range list {
		k.anchor(cert.Anchor{Certificate: c, File: name})
	}
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
