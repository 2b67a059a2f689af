package experimenter

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/client/session"
	"patchbay/am/client/userfolder"
	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/am/urn"
	"patchbay/cmd/patchbay/command"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

const loginLong = `Become a member of an authority, with the URL and the code of an invitation. The operator
of the authority prints invitations with: patchbay authority invite NAME.

The command makes a new private key, which never leaves this machine, and a new SSH key. The
authority certifies the key. The code also proves that the server is the right one. All
files are in the folder DIR: keys, certificate, user credential and an omni_config. Keep it
private. If the command is interrupted, repeat it with the same code.

Without a code, get a new user credential for the folder of a member; with --slice also the
credential of a slice, which is created or renewed for a week if necessary. "patchbay up" does
that by itself.

--jfed also writes the files for jFed: NAME-jfed.pem with the certificate and the encrypted
key, and authorities.xml for its folder .jFed. Without --passphrase-file, the command chooses a
passphrase and prints it.`

type loginOptions struct {
	URL, Code string
	Dir       string
	SSHKey    string
	Slice     string
	JFed      bool
	// Passphrase is a file.
	Passphrase string
}

func (o *loginOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Dir, "dir", "", "the folder for your files (default: the name of the host in the URL)")
	fs.StringVar(&o.Slice, "slice", "", "also create or renew this slice, and get its credential")
	fs.BoolVar(&o.JFed, "jfed", false, "also write the files for jFed")
	fs.StringVar(&o.Passphrase, "passphrase-file", "", "with --jfed: a file with the passphrase of the key")
	fs.StringVar(&o.SSHKey, "ssh-key", "", "a file with your own public SSH key, instead of a new key pair")
}

func (o *loginOptions) Validate(args []string) error {
	if o.Slice != "" {
		if err := trial.CheckSlice(o.Slice); err != nil {
			return fmt.Errorf("--slice: %w", err)
		}
	}
	switch {
	case len(args) == 0 && o.Dir != "":
		return nil
	case len(args) != 2:
		return errors.New("give the URL and the code of your invitation; or --dir DIR, the folder of a member, for a new user credential; to log in to a node, use patchbay ssh")
	}
	u, err := url.Parse(args[0])
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("the URL must be like https://am.example.org:8443, unlike %q", args[0])
	}
	o.URL, o.Code = "https://"+u.Host, args[1]
	if o.Dir == "" {
		o.Dir = u.Hostname()
	}
	return authority.CheckCode(o.Code)
}

func (o *loginOptions) Run(ctx context.Context, c command.Console) error {
	if o.URL == "" {
		return o.refresh(ctx, c)
	}
	if userfolder.IsUserFolder(o.Dir) {
		return fmt.Errorf("%s has the files of a member already; choose another folder with --dir, or get a new credential with: %s", o.Dir, display.Command("login", "--dir", o.Dir))
	}
	u, err := o.join(ctx)
	if err != nil {
		return err
	}
	if err := o.refresh(ctx, c); err != nil {
		return err
	}
	omni := display.ShellLine([]string{"omni", "-c", filepath.Join(o.Dir, "omni_config"), "-a", "site", "-V", "3"})
	fmt.Fprintf(c.Out, "You are %s.\nYour files are in %s; keep this folder private.\n\nCreate an experiment:\n  %s\nor with omni:\n  %s createslice lab1\n  %s allocate lab1 request.xml\n",
		u, o.Dir, display.Command("up", "--user", o.Dir, "request.xml"), omni, omni)
	return nil
}

// refresh writes a new user credential, and the credential of a slice if one is named.
func (o *loginOptions) refresh(ctx context.Context, c command.Console) error {
	x, err := session.OpenAuthority(o.Dir)
	if err != nil {
		return err
	}
	if x == nil {
		return fmt.Errorf("%s is not the folder of a member of an authority; log in with the URL and the code of an invitation", o.Dir)
	}
	defer x.Close()
	if err := x.UserCredential(ctx); err != nil {
		return err
	}
	if o.URL == "" {
		fmt.Fprintf(c.Out, "%s has a new user credential.\n", x.User)
	}
	if o.JFed {
		if err := o.writeJFed(c, x.User); err != nil {
			return err
		}
	}
	if o.Slice == "" {
		return nil
	}
	slice := urn.URN{Authority: x.User.Authority, Type: urn.Slice, Name: o.Slice}
	file, expires := filepath.Join(o.Dir, userfolder.SlicesDir, o.Slice+"-cred.xml"), time.Now().Add(authority.FirstLease)
	if err := x.SliceCredential(ctx, slice, file, expires, true); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "The credential of %s is %s.\n", slice, file)
	return err
}

// keyFile has the new key until join receives the name of the member.
const keyFile = "login-key.pem"

// join verifies the server with the code of the invitation, accepts the invitation, and writes the files
// of the new member. It writes the key before it uses the invitation, so that a repeated command uses
// the same key.
func (o *loginOptions) join(ctx context.Context) (u urn.URN, err error) {
	key, err := o.loginKey()
	if err != nil {
		return u, err
	}
	selfSigned, err := trial.SelfSigned(key, time.Now())
	if err != nil {
		return u, err
	}
	self := filepath.Join(o.Dir, "login-self.pem")
	if err := site.ReplaceFile(self, selfSigned, 0o600); err != nil {
		return u, err
	}
	defer os.Remove(self)
	shown, err := client.ServerCertificate(ctx, o.URL, self, filepath.Join(o.Dir, keyFile)) // VerifyServer checks it
	if err != nil {
		return u, err
	}
	ca := filepath.Join(o.Dir, userfolder.ServerCAFile) // so that the calls below accept only this certificate
	if err := site.ReplaceFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown}), 0o644); err != nil {
		return u, err
	}
	m, err := client.New(client.Config{URL: o.URL + "/ma/2", CertFile: self, KeyFile: filepath.Join(o.Dir, keyFile), ServerCAFile: ca})
	if err != nil {
		return u, err
	}
	defer m.Close()
	v, err := m.CallAuthority(ctx, "patchbay_server")
	if err != nil {
		return u, err
	}
	server, err := authority.VerifyServer(v, o.Code, shown)
	if err != nil {
		return u, err
	}
	if v, err = m.CallAuthority(ctx, "patchbay_accept", o.Code); err != nil {
		return u, err
	}
	a, err := readAccepted(v, &key.PublicKey, server.Authority)
	if err != nil {
		return u, err
	}
	return a.user, o.write(ctx, a, server)
}

// acceptance is the answer to an accepted invitation.
type acceptance struct {
	user    urn.URN
	chain   []byte // PEM
	manager urn.URN
}

// readAccepted checks the answer, since the authority may be hostile and its values go into files.
// It returns certificates without what is written between them.
func readAccepted(v xmlrpc.Value, key *rsa.PublicKey, authorityPEM []byte) (a acceptance, err error) {
	answer, _ := v.(xmlrpc.Struct)
	text, _ := answer.Get("certificate")
	chain, _ := xmlrpc.AsString(text)
	list, err := cert.ParsePEM([]byte(chain))
	if err != nil {
		return a, fmt.Errorf("the certificate from the authority: %w", err)
	}
	root, err := cert.ParsePEM(authorityPEM)
	if err != nil {
		return a, fmt.Errorf("the certificate of the authority: %w", err)
	}
	a.user = list[0].URN
	if !key.Equal(list[0].PublicKey) || a.user.Type != urn.User || trial.CheckUser(a.user.Name) != nil {
		return a, errors.New("the authority returned a certificate that is not of your key")
	}
	if !strings.EqualFold(a.user.Authority, root[0].URN.Authority) {
		return a, fmt.Errorf("the authority of %s returned the certificate of %s", root[0].URN.Authority, a.user)
	}
	for _, c := range list {
		a.chain = append(a.chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	aggregate, _ := answer.Get("aggregate")
	manager, _ := xmlrpc.AsString(aggregate)
	if a.manager, err = urn.Parse(manager); err == nil && (a.manager.Type != urn.Authority || !managerName.MatchString(a.manager.Name)) {
		err = fmt.Errorf("%q is no URN of an aggregate", manager)
	}
	if err != nil {
		return a, fmt.Errorf("the aggregate in the authority's answer: %w", err)
	}
	return a, nil
}

// managerName is the name in the URN of an aggregate, such as cm. It goes into omni_config.
var managerName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)

// writeJFed writes the files for jFed, and prints what to do with them. They contain the server's ECDSA
// certificate, if it has one, since Java clients receive that.
func (o *loginOptions) writeJFed(c command.Console, u urn.URN) error {
	a, err := userfolder.ReadAggregate(o.Dir)
	if err != nil {
		return err
	}
	read := func(name string) []byte {
		text, readErr := site.ReadRegular(filepath.Join(o.Dir, name))
		err = errors.Join(err, readErr)
		return text
	}
	chain, key, server := read(u.Name+"-cert.pem"), read(u.Name+"-key.pem"), read(userfolder.ServerCAFile)
	if err != nil {
		return err
	}
	list, err := cert.ParsePEM(server)
	if err != nil {
		return err
	}
	for _, x := range list {
		if _, ok := x.PublicKey.(*ecdsa.PublicKey); ok {
			server = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.Raw})
		}
	}
	passphrase, note := rand.Text()[:20], ""
	if o.Passphrase == "" {
		note = fmt.Sprintf("The passphrase of the key is %s\n", passphrase)
	} else {
		text, err := site.ReadRegular(o.Passphrase)
		if err != nil {
			return fmt.Errorf("--passphrase-file: %w", err)
		}
		passphrase = strings.TrimRight(string(text), "\r\n")
	}
	encrypted, err := trial.EncryptedPEM(chain, key, passphrase)
	if err != nil {
		return err
	}
	authorities, err := trial.JFedAuthority{Name: u.Authority, URL: a.Authority, ServerCertificate: server}.XML()
	if err != nil {
		return err
	}
	files := []site.File{{Name: u.Name + "-jfed.pem", Content: encrypted, Mode: 0o600}, {Name: "authorities.xml", Content: authorities, Mode: 0o644}}
	if err := site.WriteFiles(o.Dir, files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "For jFed: copy %s into the folder .jFed of your home, and log in with %s.\n%s",
		filepath.Join(o.Dir, "authorities.xml"), filepath.Join(o.Dir, u.Name+"-jfed.pem"), note)
	return err
}

// loginKey returns the key of an interrupted command, or a new one.
func (o *loginOptions) loginKey() (*rsa.PrivateKey, error) {
	file := filepath.Join(o.Dir, keyFile)
	if text, err := site.ReadRegular(file); err == nil {
		if block, _ := pem.Decode(text); block != nil {
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return key, site.ReplaceFile(file, text, 0o600)
}

// write writes the member's files, removes keyFile, and registers the SSH key at the authority. The
// certificate comes last, since a folder with a certificate counts as complete.
func (o *loginOptions) write(ctx context.Context, a acceptance, server authority.VerifiedServer) error {
	u := a.user
	private, public, err := o.sshKeys(u)
	if err != nil {
		return err
	}
	key, err := site.ReadRegular(filepath.Join(o.Dir, keyFile))
	if err != nil {
		return err
	}
	yaml := fmt.Sprintf("# The URLs of the aggregate manager and the authority, and the file with their certificates.\nurl: %[1]s/am/3.0\nauthority: %[1]s\nca: %[2]s\n", o.URL, userfolder.ServerCAFile)
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	keyName := userfolder.OwnKeys
	files := []site.File{
		{Name: u.Name + "-key.pem", Content: key, Mode: 0o600}, {Name: "authority.pem", Content: server.Authority, Mode: 0o644},
		{Name: userfolder.AggregateName, Content: []byte(yaml), Mode: 0o644}, {Name: userfolder.ServerCAFile, Content: server.Certificates, Mode: 0o644},
	}
	if private != nil {
		keyName = "id_ed25519.pub"
		files = append(files, site.File{Name: "id_ed25519", Content: private, Mode: 0o600})
	}
	omni := userfolder.OmniSettings{User: u, Manager: a.manager.String(), URL: o.URL, Dir: dir, Keys: keyName, Authority: true}
	files = append(files, site.File{Name: keyName, Content: public, Mode: 0o644}, site.File{Name: "omni_config", Content: omni.Text(), Mode: 0o644},
		site.File{Name: u.Name + "-cert.pem", Content: a.chain, Mode: 0o644})
	if err := site.WriteFiles(o.Dir, files); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(o.Dir, keyFile)); err != nil {
		return err
	}
	x, err := session.OpenAuthority(o.Dir)
	if err != nil {
		return err
	}
	defer x.Close()
	_, err = x.MemberAuthority.CallAuthority(ctx, "create", "KEY", session.NoCredentials, xmlrpc.Struct{{Name: "fields", Value: xmlrpc.Struct{
		{Name: "KEY_MEMBER", Value: u.String()}, {Name: "KEY_TYPE", Value: "ssh"}, {Name: "KEY_PUBLIC", Value: string(bytes.TrimSpace(public))}, {Name: "KEY_DESCRIPTION", Value: "patchbay login"},
	}}})
	if refused, ok := errors.AsType[*client.AuthorityError](err); ok && refused.Code == client.DuplicateCode {
		return nil
	}
	return err
}

// sshKeys returns no private key for a user with their own key.
func (o *loginOptions) sshKeys(u urn.URN) (private, public []byte, err error) {
	if o.SSHKey != "" {
		public, err = userfolder.ReadSSHKeys(o.SSHKey)
		return nil, public, err
	}
	return trial.NewSSHKey(u.Name + "@" + u.Authority)
}
