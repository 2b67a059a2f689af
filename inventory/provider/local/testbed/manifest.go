package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"patchbay/inventory/provider/fdsocket"
)

// Bounds on manifests, which the manager sends.
const (
	manifestTime       = 10 * time.Second
	maxManifest        = 16 << 20
	maxHead            = 16 << 10        // HTTP headers, in bytes
	maxManifestFetches = 4               // fetches at the same time, and as many long answers
	longManifestTime   = time.Second     // how long a long answer waits for others
	maxCachedManifest  = 64 << 10        // the longest manifest that is cached, or sent at once
	manifestMaxAge     = 2 * time.Second // a younger manifest is not fetched again
)

var errNoManifest = errors.New("the aggregate manager did not send the manifest; try again")

func (nc *nodeController) cachedManifest() *cachedManifest {
	if nc.slice != nil {
		return &nc.slice.manifest
	}
	return &nc.manifest
}

// sendManifest calls answer, which may fetch the manifest, under the limits of manifests in memory. The
// caller must call release after it has sent the text. A slice sends one manifest at a time, so a node
// that reads slowly delays only its own slice. Of the limits for all slices, only that of long manifests
// lasts until the text is sent.
func (nc *nodeController) sendManifest(answer func() (string, error)) (text string, release func(), err error) {
	ctx, cancel := context.WithTimeout(nc.t.ctx, manifestTime)
	defer cancel()
	slot := nc.cachedManifest().slot
	if slot.acquire(ctx) != nil {
		return "", func() {}, errNoManifest
	}
	if nc.t.manifestSlots.acquire(ctx) != nil {
		return "", slot.release, errNoManifest
	}
	defer nc.t.manifestSlots.release()
	text, err = answer()
	if len(text) <= maxCachedManifest {
		return text, slot.release, err
	}
	ctx, cancel = context.WithTimeout(nc.t.ctx, longManifestTime)
	defer cancel()
	if nc.t.longManifests.acquire(ctx) != nil {
		return "", slot.release, errNoManifest
	}
	return text, func() { nc.t.longManifests.release(); slot.release() }, err
}

// fetchManifest returns the manifest of the node's sliver from the manager. It returns the cached one if
// that is fresh, or if the manager does not answer. Long manifests are not cached.
func (nc *nodeController) fetchManifest() (string, error) {
	sliver := nc.snapshot().Desired.SliverURN
	if sliver == "" {
		return "", errors.New("the aggregate does not know the sliver of this node")
	}
	kept := nc.cachedManifest()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.text != "" && time.Since(kept.at) < manifestMaxAge {
		return kept.text, nil
	}
	ctx, cancel := context.WithTimeout(nc.t.ctx, manifestTime)
	defer cancel()
	b, err := askManager(ctx, nc.t.settings.ManifestSocket, nc.t.o.SettingsOwner, "/manifest?sliver="+url.QueryEscape(sliver))
	if err == nil {
		kept.text, kept.at = "", time.Now()
		if len(b) <= maxCachedManifest {
			kept.text = string(b)
			return kept.text, nil
		}
		return string(b), nil
	}
	nc.t.log.Info("the manager did not send a manifest", "node", nc.id, "error", err)
	if kept.text != "" {
		return kept.text, nil
	}
	return "", errNoManifest
}

// askManager gets path from the manager's HTTP server at a socket, which must run as root or as the user
// owner. It does not follow redirections.
func askManager(ctx context.Context, socket string, owner int, path string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHead, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialManager(ctx, socket, owner)
	}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://manager"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the manager answered %q: %.200q", answer.Status, body)
	case len(body) > maxManifest:
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	return body, nil
}

// dialManager connects to the socket. It fails unless the socket's server runs as root or as the user owner.
func dialManager(ctx context.Context, socket string, owner int) (net.Conn, error) {
	c, err := fdsocket.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	peer, err := c.Peer()
	if err != nil {
		return nil, err
	}
	if peer.Uid != 0 && int(peer.Uid) != owner {
		return nil, fmt.Errorf("the server at %s runs as user %d, which is neither root nor the owner of the settings", socket, peer.Uid)
	}
	f, err := c.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}
