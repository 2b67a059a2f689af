package authority

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"patchbay/am/client/userfolder"
	"patchbay/am/site"
)

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

// bundle returns a zip with the files that a user needs on another machine, and instructions. It always
// returns the same zip for the same files, so all times in it are those of files.
func bundle(t *userfolder.Trial, u *userfolder.User) ([]byte, error) {
	request := filepath.Join(t.Dir, site.RequestName)
	files := []string{u.Path("cert.pem"), u.Path("key.pem"), u.Path("usercred.xml"), filepath.Join(u.Dir, u.PublicKeys()), filepath.Join(u.Dir, userfolder.AggregateName)}
	for _, f := range []string{filepath.Join(u.Dir, "id_ed25519"), filepath.Join(u.Dir, userfolder.ServerCAFile), request} {
		if userfolder.FileExists(f) {
			files = append(files, f)
		}
	}
	own := userfolder.Slices(u.Dir)
	for _, s := range own {
		files = append(files, filepath.Join(u.Dir, userfolder.SlicesDir, s+"-cred.xml"))
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	var readmeTime time.Time // that of the first file
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
		if filepath.Base(filepath.Dir(file)) == userfolder.SlicesDir {
			name = path.Join(userfolder.SlicesDir, name)
		}
		if readmeTime.IsZero() {
			readmeTime = info.ModTime()
		}
		if err := pack(z, site.File{Name: path.Join(u.Name, name), Content: text, Mode: 0o600}, info.ModTime()); err != nil {
			return nil, err
		}
	}
	readme := readme(t, u, own, userfolder.FileExists(request))
	for _, f := range []site.File{{Name: "omni_config", Content: t.OmniConfig(u, ""), Mode: 0o644}, {Name: "README.txt", Content: readme, Mode: 0o644}} {
		f.Name = path.Join(u.Name, f.Name)
		if err := pack(z, f, readmeTime); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func pack(z *zip.Writer, f site.File, modified time.Time) error {
	h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: modified.UTC()}
	h.SetMode(f.Mode)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write(f.Content)
	}
	return err
}

// readme returns the instructions in a bundle.
func readme(t *userfolder.Trial, u *userfolder.User, userSlices []string, hasRequest bool) []byte {
	keys, more := u.File("key.pem")+" and id_ed25519 are private keys", ""
	if len(u.SSHKey) == 0 {
		keys = u.File("key.pem") + " is a private key"
		more = "\nLog in to nodes with your own SSH key, whose public half is in " + userfolder.OwnKeys + ".\nAdd its private half to your SSH agent or to ~/.ssh.\n"
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
