package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"patchbay/inventory/local/wire"
)

// Bounds on a manifest that the manager answers.
const (
	manifestTime = 10 * time.Second
	maxManifest  = 16 << 20
	maxHead      = 16 << 10
	keptManifest = 64 << 10 // that is kept for when the manager does not answer
)

// fetchManifest asks the manager for the manifest of the node's slice. When it
// does not answer, the last one is told.
func (l *life) fetchManifest() (string, error) {
	ctx, cancel := context.WithTimeout(l.t.ctx, manifestTime)
	defer cancel()
	sliver := l.snapshot().Asked.SliverURN
	if sliver == "" {
		return "", errors.New("the aggregate was not told the sliver of this node")
	}
	b, err := askManager(ctx, l.t.settings.ManifestSocket, l.t.o.SettingsOwner, "/manifest?sliver="+url.QueryEscape(sliver))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.manifest = nil
		if len(b) <= keptManifest {
			l.manifest = b
		}
		return string(b), nil
	}
	l.t.log.Info("the manager does not tell a manifest", "node", l.id, "error", err)
	if l.manifest != nil {
		return string(l.manifest), nil
	}
	return "", errors.New("the aggregate manager does not tell the manifest just now; try again")
}

// askManager gets a path at a Unix socket at which root or owner must answer:
// where it leads is not for root to choose.
func askManager(ctx context.Context, socket string, owner int, path string) ([]byte, error) {
	c, err := wire.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	peer, err := c.Peer()
	if err != nil {
		return nil, err
	}
	if peer.Uid != 0 && int(peer.Uid) != owner {
		return nil, fmt.Errorf("user %d answers at %s, and neither root nor the owner of the settings", peer.Uid, socket)
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	f, err := c.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stream, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })()
	// HTTP 1.0: the answer is in one piece and ends with the connection. The
	// package net/http would be in the memory of every agent, too.
	if _, err := fmt.Fprintf(stream, "GET %s HTTP/1.0\r\nHost: manager\r\n\r\n", path); err != nil {
		return nil, err
	}
	return readHTTP(stream)
}

// readHTTP reads the body of an answer to a request of HTTP 1.0.
func readHTTP(r io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(r, maxManifest+maxHead+1))
	if err != nil {
		return nil, err
	}
	head, body, whole := bytes.Cut(all, []byte("\r\n\r\n"))
	status, _, _ := bytes.Cut(head, []byte("\r\n"))
	switch words := strings.Fields(string(status[:min(len(status), 200)])); {
	case !whole || len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/1."):
		return nil, fmt.Errorf("what the manager answers is no HTTP: %.100q", all)
	case len(all) > maxManifest+maxHead:
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	case words[1] != "200":
		return nil, fmt.Errorf("the manager answers %q: %.200q", strings.Join(words[1:], " "), body)
	}
	return body, nil
}
