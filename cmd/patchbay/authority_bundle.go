package main

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/site"
	"patchbay/credentials/cert"
)

// serverCAFile is the file in a user's folder with the certificates of the server.
const serverCAFile = "server-ca.pem"

// port returns "0" if the server chooses the port.
func (t *trialSite) port() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Port()
}

// aggregateFiles returns aggregate.yaml and, if the server's certificates are self-signed, a file
// with these certificates. If the server chooses its port, the URL is unknown, and aggregateFiles
// returns no files.
func (t *trialSite) aggregateFiles() ([]site.File, error) {
	if t.port() == "0" {
		return nil, nil
	}
	text := fmt.Appendf(nil, "# The URL of the aggregate manager, and the file with its certificates.\nurl: %s\n", t.URL)
	if t.config.TrialAuthority.Serve {
		text = fmt.Appendf(text, "# The authority, where \"patchbay up\" and \"patchbay login\" get credentials.\nauthority: %s\n", strings.TrimSuffix(t.URL, "/am/3.0"))
	}
	ca, err := t.serverCA()
	if err != nil {
		return nil, err
	}
	if ca == nil {
		return []site.File{{Name: aggregateName, Content: text, Mode: 0o644}}, nil
	}
	return []site.File{{Name: aggregateName, Content: fmt.Appendf(text, "ca: %s\n", serverCAFile), Mode: 0o644}, {Name: serverCAFile, Content: ca, Mode: 0o644}}, nil
}

// serverCA returns nil unless all certificates of the server are self-signed.
func (t *trialSite) serverCA() ([]byte, error) {
	var all []byte
	for _, pair := range t.config.Keys {
		text, err := site.ReadRegular(pair.Certificate)
		if err != nil {
			return nil, err
		}
		list, err := cert.ParsePEM(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pair.Certificate, err)
		}
		c := list[0]
		if c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil {
			return nil, nil
		}
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return all, nil
}

// bundleReadme is the format of README.txt in a bundle.
const bundleReadme = `For %[1]s, an experimenter of %[2]s
%[3]s

Keep this folder private: %[4]s. Unpack it
where other users cannot read it, and run the commands below in it.
%[5]s
A request describes the nodes that you want; %[6]s

With patchbay, a program for Linux (ask the sender of this folder for it):
  patchbay up --user . --slice %[7]s request.xml    # creates it, and shows how to log in
  patchbay ssh --user . NODE    # NODE is a name in the request
  patchbay status --user .    # your nodes, and the ends of their leases
  patchbay down --user . %[7]s    # deletes the nodes, with their files

With omni (https://github.com/GENI-NSF/geni-tools), perhaps installed as omni.py:
  om() { omni -c omni_config -a %[3]s -V 3 --usercredfile %[1]s-usercred.xml --slicecredfile slices/%[7]s-cred.xml "$@"; }
  om allocate %[7]s request.xml
  om provision %[7]s
  om performoperationalaction %[7]s geni_start
  om status %[7]s    # until geni_ready
  om describe %[7]s    # shows the logins
  om delete %[7]s
`

// bundle always returns the same zip for the same files.
func (t *trialSite) bundle(u *trialUser) ([]byte, error) {
	request := filepath.Join(t.dir, site.RequestName)
	files := []string{u.path("cert.pem"), u.path("key.pem"), u.path("usercred.xml"), filepath.Join(u.Dir, u.publicKeys()), filepath.Join(u.Dir, aggregateName)}
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
		if err := pack(z, site.File{Name: path.Join(u.Name, name), Content: text, Mode: 0o600}, info.ModTime()); err != nil {
			return nil, err
		}
	}
	readme := t.readme(u, own, exists(request))
	for _, f := range []site.File{{Name: "omni_config", Content: t.omniConfig(u, ""), Mode: 0o644}, {Name: "README.txt", Content: readme, Mode: 0o644}} {
		f.Name = path.Join(u.Name, f.Name)
		if err := pack(z, f, made); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

// slicesDir is the folder of slice credentials in a user's folder.
const slicesDir = "slices"

func pack(z *zip.Writer, f site.File, modified time.Time) error {
	h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: modified.UTC()}
	h.SetMode(f.Mode)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write(f.Content)
	}
	return err
}

func (t *trialSite) readme(u *trialUser, userSlices []string, hasRequest bool) []byte {
	keys, more := u.file("key.pem")+" and id_ed25519 are private keys", ""
	if len(u.SSHKey) == 0 {
		keys = u.file("key.pem") + " is a private key"
		more = "\nLog in to nodes with your own SSH key, whose public half is in " + ownKeys + ".\nAdd its private half to your SSH agent or to ~/.ssh.\n"
	}
	slice, example := "SLICE", "write one into request.xml."
	if len(userSlices) > 0 {
		slice = userSlices[0]
		more += "\nYour slices: " + strings.Join(userSlices, ", ") + "\n"
	}
	if hasRequest {
		example = "request.xml is an example."
	}
	return fmt.Appendf(nil, bundleReadme, u.Name, t.URN().Authority, t.URL, keys, more, example, slice)
}
