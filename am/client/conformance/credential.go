package conformance

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// refusals are the codes for bad or missing credentials: BADARGS, ERROR and FORBIDDEN.
var refusals = []int{1, 2, 3}

func credentialChecks(version int) []check {
	name := func(rule string) string { return fmt.Sprintf("credentials%d.%s", version, rule) }
	clause := fmt.Sprintf("AM API v%d, Credentials", version)
	needs := []string{fmt.Sprintf("advertisement%d.xml", version)}
	list := []check{
		{name("none"), clause, needs, false, func(p *probe) error {
			r, err := p.call(p.am[version], "ListResources", p.am[version].credentials(), options())
			if err == nil && r.code == 0 {
				return notTried("the aggregate answers ListResources without credentials, as the specification permits")
			}
			return err
		}},
		{name("junk"), clause, needs, false, func(p *probe) error { return p.refusedWith(p.am[version], []byte("<no-credential/>")) }},
		{name("altered"), clause, needs, false, func(p *probe) error {
			altered, err := alter(p.config.User)
			if err != nil {
				return err
			}
			return p.refusedWith(p.am[version], altered)
		}},
		{name("stranger"), clause, needs, false, func(p *probe) error { return p.callAsStranger(p.am[version]) }},
	}
	return append(list,
		check{name("expired"), clause, needs, false, func(p *probe) error {
			if p.config.Expired == nil {
				return notTried("it needs an authority that issues the credential of a slice that lasts for a few seconds")
			}
			credential, slice, err := p.config.Expired(p.ctx)
			if err != nil {
				return notTried("no expired credential: %v", err)
			}
			return p.statusRefused(p.am[version], slice, credential, searchFailed)
		}},
	)
}

// sliceCredentialChecks run while the slice has slivers, since the code of a slice without slivers
// may be 12 for every credential.
func sliceCredentialChecks(version int) []check {
	name := func(rule string) string { return fmt.Sprintf("credentials%d.%s", version, rule) }
	clause := fmt.Sprintf("AM API v%d, Credentials", version)
	needs := []string{map[int]string{3: "life3.allocate", 2: "life2.create"}[version]}
	return []check{
		{name("user-for-slice"), clause, needs, true, func(p *probe) error {
			return p.statusRefused(p.am[version], p.config.SliceURN, p.config.User)
		}},
		{name("other-slice"), clause, needs, true, func(p *probe) error {
			u, err := urn.Parse(p.config.SliceURN)
			if err != nil {
				return notTried("the URN of the slice cannot be read")
			}
			u.Name = "no-such-slice"
			return p.statusRefused(p.am[version], u.String(), p.config.Slice, searchFailed)
		}},
	}
}

// searchFailed is the code for a slice without slivers.
const searchFailed = 12

func (p *probe) refusedWith(a *aggregate, docs ...[]byte) error {
	return p.refused(a, refusals, "ListResources", a.credentials(docs...), options())
}

// statusRefused asks for the status of a slice.
func (p *probe) statusRefused(a *aggregate, slice string, credential []byte, more ...int) error {
	codes := append(slices.Clone(refusals), more...)
	if a.version == 3 {
		return p.refused(a, codes, "Status", client.Strings([]string{slice}), a.credentials(credential), xmlrpc.Struct{})
	}
	return p.refused(a, codes, "SliverStatus", slice, a.credentials(credential), xmlrpc.Struct{})
}

// alter changes a letter of the signed text.
func alter(credential []byte) ([]byte, error) {
	s := string(credential)
	for _, old := range []string{"<expires>20", "<name>"} {
		if strings.Contains(s, old) {
			return []byte(strings.Replace(s, old, map[string]string{"<expires>20": "<expires>30", "<name>": "<name>x"}[old], 1)), nil
		}
	}
	return nil, notTried("the credential has a form that the probe cannot change")
}

// strangerKey returns the key of the stranger, which is the same for all probes of a process.
var strangerKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// callAsStranger presents the user's credential with a certificate that no authority has issued.
func (p *probe) callAsStranger(a *aggregate) error {
	key, err := strangerKey()
	if err != nil {
		return err
	}
	certificate, err := trial.SelfSigned(key, time.Now())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "patchbay-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "stranger.pem")
	text := append(certificate, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	c, err := p.newClient(a.url, file, file)
	if err != nil {
		return err
	}
	r, err := p.callWith(p.ctx, c, a.version, "ListResources", a.credentials(p.config.User), options())
	if err != nil {
		return nil // the server ends the connection, or answers with a fault
	}
	if r.code == 0 {
		return errors.New("a client with a self-signed certificate may use the credential of another user")
	}
	return nil
}
