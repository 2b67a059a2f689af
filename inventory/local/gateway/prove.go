package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// proofTime bounds the login of one account.
const proofTime = 10 * time.Second

// maxProofs is how many nodes are proven at the same time.
const maxProofs = 16

// Root is the account that proofs leave out, unless it is the only one: whoever
// may log in as another one may close it.
const Root = "root"

// prove logs in at a node's endpoint as each of its accounts.
func (g *gateway) prove(node string) error {
	g.proving <- struct{}{}
	defer func() { <-g.proving }()
	g.mu.Lock()
	d := g.endpoints[node]
	g.mu.Unlock()
	if d == nil {
		return fmt.Errorf("node %s has no endpoint", node)
	}
	if d.address != "" {
		return g.proveAddress(d)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	mark := fingerprint(sha256.Sum256(key.PublicKey().Marshal()))
	g.mu.Lock()
	if g.proofs[node] == nil {
		g.proofs[node] = make(map[fingerprint]bool)
	}
	g.proofs[node][mark] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if delete(g.proofs[node], mark); len(g.proofs[node]) == 0 {
			delete(g.proofs, node)
		}
	}()
	for _, login := range slices.Sorted(maps.Keys(d.accounts)) {
		if login == Root && len(d.accounts) > 1 {
			continue
		}
		if err := g.proveAccount(d, login, key); err != nil {
			return fmt.Errorf("account %s cannot log in at node %s: %w", login, node, err)
		}
	}
	return nil
}

// noCommand is the status that tells, as with OpenSSH, that a command could not
// be started.
const noCommand = 255

// proveAccount logs in and has the account's shell do nothing. What its owner
// made of it is their business: a shell that ends in any other way than noCommand
// was started.
func (g *gateway) proveAccount(d *endpoint, login string, key ssh.Signer) error {
	nc, err := g.knock(d)
	if err != nil {
		return err
	}
	late := time.AfterFunc(proofTime, func() { nc.Close() })
	defer late.Stop()
	client, err := handshake(nc, login, d.host, key)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	var said bytes.Buffer
	s.Stderr = limited{&said}
	err = s.Run(":")
	if ended, ok := errors.AsType[*ssh.ExitError](err); ok && ended.ExitStatus() != noCommand {
		return nil
	}
	if err != nil {
		if said.Len() > 0 {
			return fmt.Errorf("%w: %s", err, plain(strings.TrimSpace(said.String())))
		}
		return err
	}
	return nil
}

// limited keeps the beginning of what is written.
type limited struct{ b *bytes.Buffer }

func (l limited) Write(b []byte) (int, error) {
	l.b.Write(b[:min(len(b), 200-min(200, l.b.Len()))])
	return len(b), nil
}

// knock connects to a node's endpoint as from outside, or within this process if it has none.
func (g *gateway) knock(d *endpoint) (net.Conn, error) {
	if d.public == nil {
		near, far, err := tube()
		if err != nil {
			return nil, err
		}
		if !g.enter() {
			near.Close()
			far.Close()
			return nil, errNoKeeper
		}
		go func() {
			defer g.leave()
			g.receive(g.waiting.enter("proof", far), entrance{kind: public, node: d.node})
		}()
		return near, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), proofTime)
	defer cancel()
	f, err := g.ask(ctx, wordEndpoint, d.node)
	if err != nil {
		return nil, err
	}
	return fileConn(f)
}

// tube is a connection within this process. Both ends of SSH write first, so it
// must hold a little: net.Pipe does not.
func tube() (near, far net.Conn, err error) {
	r1, w1, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		r1.Close()
		w1.Close()
		return nil, nil, err
	}
	return &tubeEnd{File: r1, w: w2}, &tubeEnd{File: r2, w: w1}, nil
}

// tubeEnd reads from one pipe and writes to another.
type tubeEnd struct {
	*os.File
	w *os.File
}

func (t *tubeEnd) Write(b []byte) (int, error) { return t.w.Write(b) }
func (t *tubeEnd) Close() error                { return errors.Join(t.File.Close(), t.w.Close()) }
func (t *tubeEnd) LocalAddr() net.Addr         { return tubeAddr{} }
func (t *tubeEnd) RemoteAddr() net.Addr        { return tubeAddr{} }

type tubeAddr struct{}

func (tubeAddr) Network() string { return "pipe" }
func (tubeAddr) String() string  { return "proof" }

// handshake is a client's, at a server that has one of the keys host; the
// cheapest exchange does for a proof.
func handshake(nc net.Conn, login string, host []ssh.Signer, key ...ssh.Signer) (*ssh.Client, error) {
	config := &ssh.ClientConfig{
		User: login, Auth: []ssh.AuthMethod{ssh.PublicKeys(key...)},
		HostKeyCallback: func(_ string, _ net.Addr, shown ssh.PublicKey) error {
			for _, k := range host {
				if bytes.Equal(k.PublicKey().Marshal(), shown.Marshal()) {
					return nil
				}
			}
			return errors.New("the endpoint shows a host key that is not the node's")
		},
	}
	config.KeyExchanges = []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeDH14SHA256}
	conn, channels, requests, err := ssh.NewClientConn(nc, "", config)
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// proveAddress sees whether an SSH server shows that it has a host key, behind
// the endpoint of a node or at its address.
func (g *gateway) proveAddress(d *endpoint) error {
	kind := wordAgent
	if d.public != nil {
		kind = wordEndpoint
	}
	ctx, cancel := context.WithTimeout(context.Background(), proofTime)
	defer cancel()
	f, err := g.ask(ctx, kind, d.node)
	if err != nil {
		return fmt.Errorf("node %s cannot be reached at %s: %w", d.node, d.address, err)
	}
	nc, err := fileConn(f)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer time.AfterFunc(proofTime, func() { nc.Close() }).Stop()
	proven := errors.New("a host key was shown")
	_, _, _, err = ssh.NewClientConn(nc, "", &ssh.ClientConfig{
		User:            User,
		HostKeyCallback: func(string, net.Addr, ssh.PublicKey) error { return proven },
	})
	if errors.Is(err, proven) {
		return nil
	}
	return fmt.Errorf("no SSH server answers for node %s at %s: %w", d.node, d.address, err)
}
