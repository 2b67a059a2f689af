package api

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
)

// Encodings of the advertisement. An answer is compressed once at most: its value, or its
// HTTP body.
const (
	encodePlain      = iota
	encodeCompressed // geni_compressed
	encodeGzip       // an HTTP body in gzip
	encodings        // their number
)

type form struct {
	free     bool // only free nodes: geni_available
	encoding int
}

// level is the compression level of advertisements. The default level takes three times
// as long, and its result is only a fifth smaller.
const level = 2

// preparedAnswer holds the complete body of ListResources in one form. Readers do not
// wait while the body is current.
type preparedAnswer struct {
	now    atomic.Pointer[preparedBody] // nil before the first call
	making sync.Mutex                   // held by the goroutine that makes a new body; the others wait
}

type preparedBody struct {
	version uint64
	body    []byte
}

// listResources answers with a prepared body, in c.ready.
func listResources(ctx context.Context, c *call) (xmlrpc.Value, []string, error) {
	f := form{free: c.available}
	switch {
	case c.compressed:
		f.encoding = encodeCompressed
	case c.request.AcceptGzip:
		f.encoding = encodeGzip
	}
	var body []byte
	var err error
	if c.startTime.IsZero() && c.endTime.IsZero() {
		body, err = c.api.advertisement(f)
	} else { // at most one call of each caller waits, so a caller with many calls does not delay others
		err = c.api.agg.Memory().InTurn(ctx, c.event.Caller.Key(), func() (err error) {
			body, err = c.api.windowAdvertisement(ctx, f, c.startTime, c.endTime)
			return err
		})
	}
	c.ready, c.gzipped = body, f.encoding == encodeGzip
	return nil, nil, err
}

// advertisement returns the complete body of an answer with the advertisement. It is never outdated: the first reader
// after a change makes a new body.
func (a *API) advertisement(f form) ([]byte, error) {
	p := &a.prepared[f.encoding]
	if f.free {
		p = &a.preparedFree[f.encoding]
	}
	version, err := a.agg.AdvertisementVersion()
	if err != nil {
		return nil, err
	}
	if b := p.now.Load(); b != nil && b.version >= version {
		return b.body, nil
	}
	p.making.Lock()
	defer p.making.Unlock()
	if b := p.now.Load(); b != nil && b.version >= version {
		return b.body, nil
	}
	// The version is read before the content: a change in between makes the body newer
	// than its version, never older.
	if version, err = a.agg.AdvertisementVersion(); err != nil {
		return nil, err
	}
	text, err := a.agg.AppendAdvertisement(nil, f.free)
	if err != nil {
		return nil, err
	}
	body, err := f.body(text)
	if err != nil {
		return nil, err
	}
	p.now.Store(&preparedBody{version, body})
	return body, nil
}

// windowBodies are the last two bodies with advertisements of windows. They are made one at a time.
type windowBodies struct {
	making chan struct{} // has room for one
	kept   [2]windowBody
}

type windowBody struct {
	form       form
	start, end time.Time
	state      service.State
	made       time.Time
	body       []byte
}

// windowAge is how long a body is used again if nothing has changed. With the time, what is still being cleaned blocks
// later windows.
const windowAge = time.Minute

// windowAdvertisement returns the complete body of an answer with the advertisement of the time from start up to end.
func (a *API) windowAdvertisement(ctx context.Context, f form, start, end time.Time) ([]byte, error) {
	w := &a.windows
	select {
	case w.making <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.making }()
	state, now := a.agg.State(), a.cfg.Now()
	for _, k := range w.kept {
		if age := now.Sub(k.made); k.body != nil && k.form == f && k.start.Equal(start) && k.end.Equal(end) && k.state == state && age >= 0 && age < windowAge {
			return k.body, nil
		}
	}
	text, err := a.agg.AppendWindowAdvertisement(nil, start, end, f.free)
	if err != nil {
		return nil, err
	}
	body, err := f.body(text)
	if err == nil {
		w.kept = [2]windowBody{{f, start, end, state, now, body}, w.kept[0]}
	}
	return body, err
}

// body returns the complete body of an answer with an advertisement.
func (f form) body(text []byte) ([]byte, error) {
	value := string(text)
	if f.encoding == encodeCompressed {
		value = compress(text)
	}
	// The buffer has space for the character references of XML, so it need not grow.
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
	return body, nil
}

// compress returns the form that geni_compressed requests: base64 of zlib (RFC 1950).
func compress(text []byte) string {
	var z bytes.Buffer
	w, _ := zlib.NewWriterLevel(&z, level)
	w.Write(text)
	w.Close()
	return base64.StdEncoding.EncodeToString(z.Bytes())
}
