package api

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"sync"
	"sync/atomic"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

// An encoding is how the advertisement is sent. One that is compressed inside the
// envelope is not compressed again by HTTP.
const (
	encodePlain      = iota
	encodeCompressed // geni_compressed
	encodeGzip       // an HTTP body in gzip
	encodings
)

// form is one way to ask for the advertisement.
type form struct {
	free     bool // geni_available
	encoding int
}

// level is how hard the advertisement is compressed. Its nodes are so alike that
// the default takes thrice the time for a fifth less.
const level = 2

// preparedAnswer is the complete body of ListResources in one form. It is
// replaced as a whole; readers never wait while it is current.
type preparedAnswer struct {
	now    atomic.Pointer[preparedBody]
	making sync.Mutex // one maker at a time; the others wait for its result
}

type preparedBody struct {
	version uint64
	body    []byte
}

// listResources answers the advertisement from the prepared body of the form
// asked for (AM API v3, ListResources).
func listResources(_ context.Context, c *call) (xmlrpc.Value, []string, error) {
	f := form{free: c.available}
	switch {
	case c.compressed:
		f.encoding = encodeCompressed
	case c.request.AcceptGzip:
		f.encoding = encodeGzip
	}
	body, err := c.api.advertisement(f)
	c.ready, c.gzipped = body, f.encoding == encodeGzip
	return nil, nil, err
}

// advertisement gives the body of a form, made again by the first reader after
// a change. A reader may get the state at the time of its call, never an older.
func (a *API) advertisement(f form) ([]byte, error) {
	p := &a.prepared[f.encoding]
	if f.free {
		p = &a.preparedFree[f.encoding]
	}
	version := a.agg.AdvertisementVersion()
	if b := p.now.Load(); b != nil && b.version >= version {
		return b.body, nil
	}
	p.making.Lock()
	defer p.making.Unlock()
	if b := p.now.Load(); b != nil && b.version >= version {
		return b.body, nil
	}
	// Read before the content: a change in between makes the body newer than
	// its number, never older.
	version = a.agg.AdvertisementVersion()
	text := a.agg.AppendAdvertisement(nil, f.free)
	value := string(text)
	if f.encoding == encodeCompressed {
		value = compress(text)
	}
	// Room for references in it, so that it is not copied as it grows.
	body, err := xmlrpc.AppendResponse(make([]byte, 0, len(value)+len(value)/4+1024), envelope(am.Success, am.NoDetail, value, "", nil))
	if err != nil {
		return nil, err
	}
	if f.encoding == encodeGzip {
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, level)
		w.Write(body)
		w.Close()
		body = z.Bytes()
	}
	p.now.Store(&preparedBody{version, body})
	return body, nil
}

// compress is what geni_compressed means: base64 of zlib (RFC 1950).
func compress(text []byte) string {
	var z bytes.Buffer
	w, _ := zlib.NewWriterLevel(&z, level)
	w.Write(text)
	w.Close()
	return base64.StdEncoding.EncodeToString(z.Bytes())
}
