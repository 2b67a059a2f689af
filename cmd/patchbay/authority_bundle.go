package main

import (
	"archive/zip"
	"bytes"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"text/template"
	"time"

	"patchbay/am/site"
)

// Files of a user's folder that say where the site is.
const (
	aggregateFile = "aggregate.yaml"
	serverCAFile  = "server-ca.pem"
)

// port is the one at which clients reach the site; 0 is one that the server chooses.
func (t *trialSite) port() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Port()
}

// aggregateFiles are aggregate.yaml, which says where the site is, and the
// certificates that vouch for its server, if it has made them itself. There are none
// of a site whose server chooses a port when it starts.
func (t *trialSite) aggregateFiles() ([]siteFile, error) {
	if t.port() == "0" {
		return nil, nil
	}
	text := fmt.Appendf(nil, "# Where the aggregate manager is, and which certificates vouch for it.\nurl: %s\n", t.URL)
	ca, err := t.serverCA()
	if err != nil {
		return nil, err
	}
	if ca == nil {
		return []siteFile{{aggregateFile, text, 0o644}}, nil
	}
	return []siteFile{{aggregateFile, fmt.Appendf(text, "ca: %s\n", serverCAFile), 0o644}, {serverCAFile, ca, 0o644}}, nil
}

// serverCA is the certificates of the server, if they have signed themselves; nil
// when a certificate is another authority's, which clients know or not.
func (t *trialSite) serverCA() ([]byte, error) {
	var all []byte
	for _, pair := range t.config.Keys {
		text, err := site.ReadRegular(pair.Certificate)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%s holds no certificate", pair.Certificate)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pair.Certificate, err)
		}
		if c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil {
			return nil, nil
		}
		all = append(all, pem.EncodeToMemory(block)...)
	}
	return all, nil
}

//go:embed bundle.txt
var bundleReadme string

var readmeOf = template.Must(template.New("README.txt").Parse(bundleReadme))

// bundle is a zip with what a user needs on another machine, in one folder. It is the
// same as long as the user's files are.
func (t *trialSite) bundle(u *trialUser) ([]byte, error) {
	request := filepath.Join(t.dir, site.RequestName)
	files := []string{u.path("cert.pem"), u.path("key.pem"), u.path("usercred.xml"), filepath.Join(u.Dir, u.publicKeys()), filepath.Join(u.Dir, aggregateFile)}
	for _, f := range []string{filepath.Join(u.Dir, "id_ed25519"), filepath.Join(u.Dir, serverCAFile), request} {
		if exists(f) {
			files = append(files, f)
		}
	}
	own := slicesIn(u.Dir)
	for _, s := range own {
		files = append(files, filepath.Join(u.Dir, slicesDir, s+"-cred.xml"))
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	var made time.Time
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		text, err := site.ReadRegular(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(file)
		if filepath.Base(filepath.Dir(file)) == slicesDir {
			name = path.Join(slicesDir, name)
		}
		if made.IsZero() {
			made = info.ModTime()
		}
		if err := pack(z, siteFile{path.Join(u.Name, name), text, 0o600}, info.ModTime()); err != nil {
			return nil, err
		}
	}
	readme, err := t.readme(u, own, exists(request))
	if err != nil {
		return nil, err
	}
	for _, f := range []siteFile{{"omni_config", t.omniConfig(u, ""), 0o644}, {"README.txt", readme, 0o644}} {
		if err := pack(z, siteFile{path.Join(u.Name, f.name), f.content, f.mode}, made); err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return out.Bytes(), err
}

// slicesDir is where a user's folder has credentials of slices.
const slicesDir = "slices"

// pack adds a file to a zip.
func pack(z *zip.Writer, f siteFile, modified time.Time) error {
	h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified.UTC()}
	h.SetMode(f.mode)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write(f.content)
	}
	return err
}

// readme is README.txt of a bundle.
func (t *trialSite) readme(u *trialUser, own []string, request bool) ([]byte, error) {
	values := map[string]any{
		"User": u.Name, "Site": t.URN().Authority, "URL": t.URL, "Slice": "SLICE", "Slices": own, "OwnKeys": len(u.SSHKey) == 0, "Request": request,
		"Omni": "omni -c omni_config -a " + t.URL + " -V 3 --usercredfile " + u.file("usercred.xml"),
	}
	if len(own) > 0 {
		values["Slice"] = own[0]
	}
	var out bytes.Buffer
	err := readmeOf.Execute(&out, values)
	return out.Bytes(), err
}
