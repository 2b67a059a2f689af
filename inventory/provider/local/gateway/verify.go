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

// verifyTime limits the login of one account.
const verifyTime = 10 * time.Second

// maxVerifications is how many nodes are verified at the same time.
const maxVerifications = 16

// Root is the root account. VerifyLogin skips it unless it is the only account, because
// any other account of the node can lock it.
const Root = "root"

// verifyEndpoint logs in to a node's endpoint as each account, with a temporary key. It tries root only if
// there is no other account. If the endpoint has an Address, it only checks that an SSH server answers.
func (g *gateway) verifyEndpoint(node string) error {
	g.verifying <- struct{}{}
	defer func() { <-g.verifying }()
	g.mu.Lock()
	d := g.endpoints[node]
	g.mu.Unlock()
	if d == nil {
		return fmt.Errorf("node %s has no endpoint", node)
	}
	if d.address != "" {
		return g.verifyAddress(d)
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
	if g.verificationKeys[node] == nil {
		g.verificationKeys[node] = make(map[fingerprint]bool)
	}
	g.verificationKeys[node][mark] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if delete(g.verificationKeys[node], mark); len(g.verificationKeys[node]) == 0 {
			delete(g.verificationKeys, node)
		}
	}()
	for _, login := range slices.Sorted(maps.Keys(d.accounts)) {
		if login == Root && len(d.accounts) > 1 {
			continue
		}
		if err := g.verifyAccount(d, login, key); err != nil {
			return fmt.Errorf("account %s cannot log in at node %s: %w", login, node, err)
		}
	}
	return nil
}

// noCommand is the exit status for a command that could not be started, as with OpenSSH.
const noCommand = 255

// verifyAccount logs in and lets the account's shell run an empty command. Any exit status
// other than noCommand is success, because a user's start-up files may make the shell
// fail.
func (g *gateway) verifyAccount(d *endpoint, login string, key ssh.Signer) error {
	nc, err := g.connectToEndpoint(d)
	if err != nil {
		return err
	}
	late := time.AfterFunc(verifyTime, func() { nc.Close() })
	defer late.Stop()
	client, err := handshake(nc, login, d.hostKeys, key)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	var stderr bytes.Buffer
	s.Stderr = limitedBuffer{&stderr}
	err = s.Run(":")
	if ended, ok := errors.AsType[*ssh.ExitError](err); ok && ended.ExitStatus() != noCommand {
		return nil
	}
	if err != nil {
		if stderr.Len() > 0 {
			return fmt.Errorf("%w: %s", err, printable(strings.TrimSpace(stderr.String())))
		}
		return err
	}
	return nil
}

// limitedBuffer keeps the first 200 bytes that are written.
type limitedBuffer struct{ b *bytes.Buffer }

func (l limitedBuffer) Write(b []byte) (int, error) {
	l.b.Write(b[:min(len(b), 200-min(200, l.b.Len()))])
	return len(b), nil
}

// connectToEndpoint connects to the public endpoint of a node like a client. It connects within this process
// if the node has no public endpoint.
func (g *gateway) connectToEndpoint(d *endpoint) (net.Conn, error) {
	if d.publicListener == nil {
		near, far, err := newPipeConn()
		if err != nil {
			return nil, err
		}
		if !g.addConnection() {
			near.Close()
			far.Close()
			return nil, errNoManager
		}
		go func() {
			defer g.removeConnection()
			g.handleConnection(g.pending.add("proof", far), origin{kind: public, node: d.node})
		}()
		return near, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), verifyTime)
	defer cancel()
	f, err := g.request(ctx, askEndpoint, d.node)
	if err != nil {
		return nil, err
	}
	return fileConn(f)
}

// newPipeConn returns a connection with a buffer, unlike net.Pipe, because both ends of an
// SSH connection begin by writing.
func newPipeConn() (near, far net.Conn, err error) {
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
	return &pipeConn{File: r1, w: w2}, &pipeConn{File: r2, w: w1}, nil
}

type pipeConn struct {
	*os.File
	w *os.File
}

func (t *pipeConn) Write(b []byte) (int, error) { return t.w.Write(b) }
func (t *pipeConn) Close() error                { return errors.Join(t.File.Close(), t.w.Close()) }
func (t *pipeConn) LocalAddr() net.Addr         { return pipeAddr{} }
func (t *pipeConn) RemoteAddr() net.Addr        { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "proof" }

// handshake logs in at the server behind nc, which must have one of the keys in host. It offers only cheap
// key exchanges.
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

// verifyAddress checks that an SSH server answers with a host key, at the node's public
// endpoint or at its Address.
func (g *gateway) verifyAddress(d *endpoint) error {
	kind := askAgent
	if d.publicListener != nil {
		kind = askEndpoint
	}
	ctx, cancel := context.WithTimeout(context.Background(), verifyTime)
	defer cancel()
	f, err := g.request(ctx, kind, d.node)
	if err != nil {
		return fmt.Errorf("cannot reach node %s at %s: %w", d.node, d.address, err)
	}
	nc, err := fileConn(f)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer time.AfterFunc(verifyTime, func() { nc.Close() }).Stop()
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
