package conformance

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/rspec/view"
	"patchbay/schemas"
	"patchbay/schemas/xmltree"
)

// sshKey is a key that only the probe has.
type sshKey struct {
	signer ssh.Signer
	public string // a line of authorized_keys
}

func newSSHKey() (*sshKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	return &sshKey{signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}, nil
}

var documentChecks = []check{
	{"documents3.extension", "RSpec 3, extensions", []string{"life3.describe"}, true, func(p *probe) error {
		if len(p.config.Request) > 0 {
			return notTried("the request is your own")
		}
		if !strings.Contains(p.am[3].manifest.text, extensionMark) {
			return errors.New("an unknown extension of the request is not in the manifest as it was sent")
		}
		return nil
	}},
	{"documents3.foreign", "RSpec 3, component_manager_id", []string{"life3.describe"}, true, func(p *probe) error {
		if len(p.config.Request) > 0 {
			return notTried("the request is your own")
		}
		if !strings.Contains(p.am[3].manifest.text, foreignMark) {
			return errors.New("the node of another manager is not in the manifest as it was sent")
		}
		return nil
	}},
	{"documents3.client-ids", "RSpec 3, client_id", []string{"life3.describe"}, true, func(p *probe) error {
		request, err := view.Read([]byte(p.am[3].request), xmltree.HighestLimits())
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, n := range p.am[3].manifest.Nodes {
			have[n.Name] = true
		}
		for _, n := range request.Nodes {
			if n.Name != "elsewhere" && !have[n.Name] {
				return fmt.Errorf("the node %s is not in the manifest", n.Name)
			}
		}
		return nil
	}},
	{"documents3.sliver-ids", "RSpec 3, sliver_id", []string{"life3.describe"}, true, func(p *probe) error {
		named := map[string]bool{}
		for _, n := range p.am[3].manifest.Nodes {
			named[n.Sliver] = true
		}
		for _, u := range p.am[3].slivers {
			if !named[u] {
				return fmt.Errorf("no node of the manifest has the sliver_id %s", u)
			}
		}
		return nil
	}},
}

var loginChecks = []check{
	{"login3.offered", "RSpec 3, manifest, login", []string{"life3.started", "life3.describe"}, true, func(p *probe) error {
		if err := p.describe(); err != nil {
			return err
		}
		if len(p.logins()) == 0 {
			return notOffered("no node of the manifest has a login with authentication=\"ssh-keys\", a hostname, a port and a username")
		}
		return nil
	}},
	{"login3.works", "RSpec 3, manifest, login", []string{"login3.offered"}, true, func(p *probe) error { return p.login(p.am[3].key, true) }},
	{"login3.refuses-other-keys", "SSH (RFC 4252), public keys", []string{"login3.works"}, true, func(p *probe) error {
		other, err := newSSHKey()
		if err != nil {
			return err
		}
		return p.login(other, false)
	}},
}

type login struct{ user, host, port string }

func (p *probe) logins() (list []login) {
	for _, n := range p.am[3].manifest.Nodes {
		for _, services := range view.Children(n.Element, "services", schemas.Namespace) {
			for _, e := range view.Children(services, "login", schemas.Namespace) {
				if x := (login{view.Value(e, "username"), view.Value(e, "hostname"), view.Value(e, "port")}); view.Value(e, "authentication") == "ssh-keys" && x.user != "" && x.host != "" && x.port != "" {
					list = append(list, x)
				}
			}
		}
	}
	return list
}

// login logs in with a key at the first login of the manifest. It fails unless this succeeds or, if
// isAccepted is false, is refused.
func (p *probe) login(key *sshKey, isAccepted bool) error {
	x := p.logins()[0]
	dialer := net.Dialer{Timeout: 30 * time.Second}
	conn, err := dialer.DialContext(p.ctx, "tcp", net.JoinHostPort(x.host, x.port))
	if err != nil {
		if e, ok := errors.AsType[*net.DNSError](err); ok {
			return notTried("the name of the node cannot be resolved here: %v", e)
		}
		return fmt.Errorf("no connection to %s: %w", net.JoinHostPort(x.host, x.port), err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	c, news, requests, err := ssh.NewClientConn(conn, x.host, &ssh.ClientConfig{
		User: x.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key.signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	switch {
	case err != nil && isAccepted:
		return fmt.Errorf("the login of %s with the key of geni_users fails: %w", x.user, err)
	case err != nil:
		return nil
	}
	client := ssh.NewClient(c, news, requests)
	defer client.Close()
	if !isAccepted {
		return fmt.Errorf("%s can log in with a key that nobody gave", x.user)
	}
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	out, err := s.CombinedOutput("echo probe")
	if err != nil || !strings.Contains(string(out), "probe") {
		return fmt.Errorf("the command echo on the node printed %.100q: %w", out, err)
	}
	return nil
}

var limitChecks = []check{
	{"limits.parallel", "none; 50 calls at once", []string{"transport.answers"}, false, func(p *probe) error {
		const calls = 50
		failed := make(chan error, calls)
		for range calls {
			go func() {
				_, err := p.succeed(p.am[p.first], "GetVersion")
				failed <- err
			}()
		}
		var first error
		n := 0
		for range calls {
			if err := <-failed; err != nil {
				first, n = err, n+1
			}
		}
		if n > 0 {
			return fmt.Errorf("%d of %d calls at once failed: %w", n, calls, first)
		}
		return nil
	}},
	{"limits.large", "none; a call of 64 MiB", []string{"transport.answers"}, false, func(p *probe) error {
		body := "<methodCall><methodName>GetVersion</methodName><params><param><value><string>" + strings.Repeat("x", 64<<20) + "</string></value></param></params></methodCall>"
		a, err := p.am[p.first].client.Post(p.ctx, []byte(body))
		if err == nil && a.Status == 200 && !strings.Contains(string(a.Body), "<fault>") {
			err = errors.New("a call of 64 MiB is accepted")
		} else {
			err = nil
		}
		if _, after := p.succeed(p.am[p.first], "GetVersion"); after != nil {
			err = fmt.Errorf("after a call of 64 MiB: %w", after)
		}
		return err
	}},
}

// aggregateChecks returns all checks in the order in which they run, each after those that it
// needs. The first version is that of the URL, since it names the URL of the other.
func aggregateChecks(first int) (all []check) {
	all = append(all, transportChecks...)
	versions := []int{first, 5 - first}
	for _, v := range versions {
		all = append(all, versionChecks(v)...)
	}
	for _, v := range versions {
		all = append(all, advertisementChecks(v)...)
	}
	for _, v := range versions {
		all = append(all, credentialChecks(v)...)
	}
	all = append(all, lifeChecks3()...)
	all = append(all, sliceCredentialChecks(3)...)
	all = append(all, documentChecks...)
	all = append(all, loginChecks...)
	all = append(all, linkChecks...)
	all = append(all, endChecks3()...)
	all = append(all, lifeChecks2()...)
	all = append(all, sliceCredentialChecks(2)...)
	all = append(all, endChecks2()...)
	for _, v := range versions {
		all = append(all, typeChecks(v)...)
	}
	return append(all, limitChecks...)
}

var linkChecks = []check{
	{"links3.members", "RSpec 3, manifest, link", []string{"life3.describe"}, true, func(p *probe) error {
		for _, l := range p.am[3].manifest.Links {
			for _, e := range l.Ends {
				if e.Node < 0 {
					return fmt.Errorf("the link %s refers to the interface %q, which no node of the manifest has", l.Name, e.Name)
				}
			}
		}
		if len(p.am[3].manifest.Links) == 0 {
			return notTried("the request has no link")
		}
		return nil
	}},
}
