package authority

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

// InvitationLife is how long an invitation can be used.
const InvitationLife = 7 * 24 * time.Hour

const secretBytes = 16

// code is an invitation code: the SHA-256 of the root's certificate, and a
// secret.
type code struct {
	root   [sha256.Size]byte
	secret [secretBytes]byte
}

// codePrefix keeps a code from looking like a flag.
const codePrefix = "pb-"

func (c code) String() string {
	return codePrefix + base64.RawURLEncoding.EncodeToString(append(c.root[:], c.secret[:]...))
}

func parseCode(s string) (c code, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), codePrefix)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(b) != len(c.root)+len(c.secret) {
		return c, errors.New("this is not a whole invitation code; copy all that the operator printed, from pb- to the end of the line")
	}
	copy(c.root[:], b)
	copy(c.secret[:], b[len(c.root):])
	return c, nil
}

// CheckCode returns an error if s is not a whole invitation code.
func CheckCode(s string) error {
	_, err := parseCode(s)
	return err
}

// key returns the invitation's key in the database. It does not reveal the code.
func (c code) key() string {
	sum := sha256.Sum256(c.secret[:])
	return hex.EncodeToString(sum[:])
}

func (a *Authority) rootHash() (sum [sha256.Size]byte, err error) {
	list, err := cert.ParsePEM(a.Certificate())
	if err != nil {
		return sum, err
	}
	return sha256.Sum256(list[0].Raw), nil
}

// Invite returns the code of an invitation for a new member. It replaces an unused invitation of
// the same name, whose code is refused from now on; then isReplaced is true.
func (a *Authority) Invite(name string, now time.Time) (text string, isReplaced bool, err error) {
	if err := trial.CheckUser(name); err != nil {
		return "", false, err
	}
	if err := a.checkRemoved(name); err != nil {
		return "", false, err
	}
	if a.HasUser(name) {
		return "", false, fmt.Errorf("there is a user %s already; invite another name", name)
	}
	var c code
	if c.root, err = a.rootHash(); err != nil {
		return "", false, err
	}
	rand.Read(c.secret[:])
	err = a.store.update(func(t *tx) (err error) {
		var list snapshot
		err = list.addAll(t, invitations, math.MaxInt)
		for key, x := range each[Invitation](list, &err) {
			isOver := now.After(x.Expires)
			if !isOver && !strings.EqualFold(x.Name, name) {
				continue
			}
			isReplaced = isReplaced || !isOver
			if err := remove(t, invitations, key); err != nil {
				return err
			}
		}
		if err == nil && count(t, invitations) >= maxMembers {
			err = fmt.Errorf("there are %d invitations, the limit", maxMembers)
		}
		if err != nil {
			return err
		}
		return put(t, invitations, c.key(), Invitation{Name: name, Created: now.UTC(), Expires: now.Add(InvitationLife).UTC()})
	})
	return c.String(), isReplaced, err
}

// acceptInvitation certifies the key of the client's certificate, which may be self-signed. TLS has
// verified that the client has the key. The invitation is bound to the key first: so a client
// without an answer can repeat the call, and no other key can use the invitation.
func acceptInvitation(c *call) (xmlrpc.Value, error) {
	if !c.config.Invite {
		return nil, refuse(Authorization, "this authority accepts no invitations; its operator must set invite: yes")
	}
	leaf, err := clientKey(c.request.Chain)
	if err != nil {
		return nil, refuse(Argument, "%v", err)
	}
	x, err := parseCode(c.text)
	if err != nil {
		return nil, refuse(Argument, "%v", err)
	}
	if root, err := c.authority.rootHash(); err != nil || root != x.root {
		return nil, refuse(Authorization, "the invitation is of another authority")
	}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	key, name := hex.EncodeToString(sum[:]), ""
	err = c.update(func(t *tx) error {
		i, ok, err := get[Invitation](t, invitations, x.key())
		switch {
		case err != nil:
			return err
		case !ok:
			return refuse(Authorization, "there is no such invitation; ask the operator for a new one")
		case i.Key != "" && i.Key != key:
			return refuse(Authorization, "the invitation has been used; ask the operator for a new one")
		case i.Key == "" && c.now.After(i.Expires):
			return refuse(Authorization, "the invitation expired %s; ask the operator for a new one", i.Expires.Format(time.DateOnly))
		}
		name, i.Key = i.Name, key
		return put(t, invitations, x.key(), i)
	})
	if err != nil {
		return nil, err
	}
	chain, err := c.authority.CertifyUser(name, leaf.PublicKey, c.now)
	if errors.Is(err, fs.ErrExist) {
		return nil, refuse(Duplicate, "there is a user %s already; ask the operator for an invitation with another name", name)
	}
	if err != nil {
		return nil, err
	}
	list, err := cert.ParsePEM(chain)
	if err != nil {
		return nil, err
	}
	if err := c.update(func(t *tx) error { return addMember(t, list[0], c.now) }); err != nil {
		return nil, err
	}
	c.event.Caller = list[0].URN
	return xmlrpc.Struct{
		{Name: "urn", Value: list[0].URN.String()}, {Name: "certificate", Value: string(chain)},
		{Name: "aggregate", Value: c.config.Manager.String()}, {Name: "url", Value: c.config.PublicURL},
	}, nil
}

// clientKey fails unless the user could be certified with the key of the client's certificate.
func clientKey(chain [][]byte) (*cert.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("the client sent no certificate; it must show a self-signed one of its new key")
	}
	return cert.Parse(chain[0])
}

// statement is the member authority's signature of the certificates of the listener. A client that
// knows only the hash of the root can verify them.
type statement struct {
	mu           sync.Mutex
	certificates [][]byte
	signature    []byte
}

const statementHead = "patchbay server certificates\n"

func statementText(certificates [][]byte) []byte {
	return append([]byte(statementHead), bytes.Join(certificates, nil)...)
}

func serverCertificates(c *call) (xmlrpc.Value, error) {
	list, err := c.config.ServerCertificates()
	if err != nil {
		return nil, err
	}
	s := &c.Service.statement
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.EqualFunc(s.certificates, list, bytes.Equal) {
		signature, err := c.authority.SignAsMember(statementText(list))
		if err != nil {
			return nil, err
		}
		s.certificates, s.signature = list, signature
	}
	_, ma := c.authority.Services()
	values := []xmlrpc.Value{}
	for _, text := range list {
		values = append(values, string(text))
	}
	return xmlrpc.Struct{
		{Name: "authority", Value: string(c.authority.Certificate())}, {Name: "member_authority", Value: string(ma)},
		{Name: "server_certificates", Value: values}, {Name: "signature", Value: s.signature},
	}, nil
}

// VerifiedServer holds the certificates of a server that VerifyServer has accepted.
type VerifiedServer struct {
	// Authority is the certificate of the root, and Certificates those of the listener, in PEM.
	Authority, Certificates []byte
}

// VerifyServer checks the answer of patchbay_server: the code names the root, which has issued the
// member authority, which has signed the certificates of the listener. leaf is the certificate
// that the server has shown, in DER.
func VerifyServer(answer xmlrpc.Value, invitation string, leaf []byte) (s VerifiedServer, err error) {
	x, err := parseCode(invitation)
	if err != nil {
		return s, err
	}
	f := fields{}
	list, _ := answer.(xmlrpc.Struct)
	for _, m := range list {
		f[m.Name] = m.Value
	}
	root, err := cert.ParsePEM([]byte(f.text("authority")))
	if err != nil {
		return s, fmt.Errorf("the certificate of the authority: %w", err)
	}
	if sha256.Sum256(root[0].Raw) != x.root {
		return s, errors.New("this server is not of the authority that has invited you; somebody may be intercepting your connection, or the URL is wrong")
	}
	ma, err := cert.ParsePEM([]byte(f.text("member_authority")))
	if err != nil {
		return s, fmt.Errorf("the certificate of the member authority: %w", err)
	}
	if err := ma[0].CheckSignatureFrom(root[0].Certificate); err != nil {
		return s, fmt.Errorf("the certificate of the member authority: %w", err)
	}
	// What the server may have written beside a certificate is left out.
	s.Authority = trial.EncodeCertificate(root[0])
	var certificates [][]byte
	shown := false
	values, _ := f["server_certificates"].([]xmlrpc.Value)
	for _, v := range values {
		text, _ := xmlrpc.AsString(v)
		one, err := cert.ParsePEM([]byte(text))
		if err != nil {
			return s, fmt.Errorf("a certificate of the server: %w", err)
		}
		shown = shown || bytes.Equal(one[0].Raw, leaf)
		certificates = append(certificates, []byte(text))
		s.Certificates = append(s.Certificates, trial.EncodeCertificate(one[0])...)
	}
	signature, _ := f["signature"].([]byte)
	key, _ := ma[0].PublicKey.(*rsa.PublicKey)
	sum := sha256.Sum256(statementText(certificates))
	if key == nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil || !shown {
		return s, errors.New("the authority does not know the certificate of this server; somebody may be intercepting your connection")
	}
	return s, nil
}
