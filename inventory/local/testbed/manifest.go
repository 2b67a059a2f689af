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

// Bounds on manifests that the manager answers.
const (
	manifestTime  = 10 * time.Second
	maxManifest   = 16 << 20
	maxHead       = 16 << 10
	manifests     = 4               // that are fetched and told at once, in all nodes
	keptManifest  = 64 << 10        // that is kept for others who ask
	freshManifest = 2 * time.Second // while no other is fetched
)

var errNoManifest = errors.New("the aggregate manager does not tell the manifest just now; try again")

// kept is the manifest of the node's slice.
func (l *life) kept() *manifest {
	if l.slice != nil {
		return &l.slice.manifest
	}
	return &l.manifest
}

// roomForManifest waits until a manifest may be in memory, which ends with give. A node
// has room for one, so that one which is slow to take it hurts itself.
func (l *life) roomForManifest() (give func(), err error) {
	late := time.NewTimer(manifestTime)
	defer late.Stop()
	for i, room := range []chan struct{}{l.fetching, l.t.fetching} {
		select {
		case room <- struct{}{}:
			continue
		case <-late.C:
		case <-l.t.ctx.Done():
		}
		if i > 0 {
			<-l.fetching
		}
		return nil, errNoManifest
	}
	return func() { <-l.t.fetching; <-l.fetching }, nil
}

// fetchManifest asks the manager for the manifest of the node's slice. When it
// does not answer, or has just done so, the last one is told.
func (l *life) fetchManifest() (string, error) {
	sliver := l.snapshot().Asked.SliverURN
	if sliver == "" {
		return "", errors.New("the aggregate was not told the sliver of this node")
	}
	kept := l.kept()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.text != "" && time.Since(kept.at) < freshManifest {
		return kept.text, nil
	}
	ctx, cancel := context.WithTimeout(l.t.ctx, manifestTime)
	defer cancel()
	b, err := askManager(ctx, l.t.settings.ManifestSocket, l.t.o.SettingsOwner, "/manifest?sliver="+url.QueryEscape(sliver))
	if err == nil {
		kept.text, kept.at = "", time.Now()
		if len(b) <= keptManifest {
			kept.text = string(b)
			return kept.text, nil
		}
		return string(b), nil
	}
	l.t.log.Info("the manager does not tell a manifest", "node", l.id, "error", err)
	if kept.text != "" {
		return kept.text, nil
	}
	return "", errNoManifest
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
