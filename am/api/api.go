package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// Config describes the aggregate and sets the limits of calls.
type Config struct {
	// Manager is the aggregate's URN.
	Manager urn.URN
	// PublicURL is the URL for clients, https://host:port, without a slash at the end.
	PublicURL string
	// SoftwareVersion is returned by GetVersion.
	SoftwareVersion string
	// Reading contains the options for reading requests. SetReading replaces them.
	Reading rspec.ReadOptions
	// Language returns the language of a text that is no RSpec but could be compiled to one; "" if
	// there is none. Nil means that no language is known.
	Language func(text []byte) string
	// Limits limit a call's structure.
	Limits xmlrpc.Limits
	// Admit is called before a call changes anything; its error refuses the call. Nil
	// admits all calls.
	Admit func() error
	// Now returns the current time, at which credentials must be valid. Nil means time.Now.
	Now func() time.Time
}

// API answers calls. It may be used concurrently.
type API struct {
	agg                    *service.Service
	auth                   *credentials.Authorizer
	cfg                    Config
	site                   atomic.Pointer[siteFacts]
	prepared, preparedFree [encodings]preparedAnswer
	windows                windowBodies
}

// New returns an API for an aggregate.
func New(agg *service.Service, auth *credentials.Authorizer, cfg Config) *API {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &API{agg: agg, auth: auth, cfg: cfg, windows: windowBodies{making: make(chan struct{}, 1)}}
	a.SetReading(cfg.Reading)
	return a
}

// siteFacts holds the data that depend on the site's inventory.
type siteFacts struct {
	reading  rspec.ReadOptions
	versions map[int]xmlrpc.Struct // the answers of GetVersion
}

// SetReading replaces the options for reading requests. Call it after each change of the
// inventory.
func (a *API) SetReading(reading rspec.ReadOptions) {
	requests, advertisements := a.agg.RSpecExtensions()
	a.site.Store(&siteFacts{reading, versionValues(a.cfg, requests, advertisements)})
}

// Request is one received call.
type Request struct {
	// ID identifies the call in logs, journal and the text of internal errors.
	ID string
	// Chain holds the caller's certificates in DER, leaf first. TLS has verified only that
	// the caller has the key of the leaf.
	Chain [][]byte
	Body  []byte
	// AcceptGzip means that the client accepts a gzip body.
	AcceptGzip bool
	// Remote is the caller's address, for the log.
	Remote string
	// MayChange checks each call of a changing method twice; its error refuses the call.
	// The first check, before any work, has the caller "". The second check has the key of
	// the caller's URN, or of the tool's URN if a tool speaks for the caller. A nil
	// MayChange refuses nothing.
	MayChange func(caller string) error
}

// Response is the answer to a call.
type Response struct {
	Body []byte
	// Gzip means that Body is compressed.
	Gzip  bool
	Event Event
}

// Event describes a call for the log.
type Event struct {
	// Service is the service of the trial authority that was called; empty for the aggregate
	// manager. Then Code is a code of that service.
	Service string
	Method  string
	// Changes means that the method changes something.
	Changes bool
	Caller  urn.URN
	// Speaker is the tool that called on behalf of the caller; zero if no tool did.
	Speaker urn.URN
	// Slice is the slice of the call; zero if it is not known.
	Slice  urn.URN
	Code   am.Code
	Detail am.Detail
	Output string
	// Slivers is the number of slivers in the answer.
	Slivers int
	// Credentials are the fingerprints of the credentials that granted the right. For a
	// refused call of a changing method they are the fingerprints of the first presented
	// credentials, if the caller is known.
	Credentials []string
	// SHA1 means that one of these credentials, or a certificate of the caller, is signed
	// with SHA-1.
	SHA1 bool
	// Err is the cause of the code, for the operator only.
	Err error
	// Findings is the number of schema violations in the request, Finding the first one.
	// They are for the operator; they do not refuse the call.
	Findings int
	Finding  string
	// Fault means that the answer was an XML-RPC fault.
	Fault bool
}

// Serve answers one call to the URL of an API version, 2 or 3. It always returns an
// answer: a fault for invalid XML-RPC, and an envelope with an internal error for a panic.
func (a *API) Serve(ctx context.Context, version int, r Request) (resp Response) {
	call := &call{api: a, request: r, version: version, now: a.cfg.Now()}
	defer func() {
		for _, release := range call.release {
			release()
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			call.event.Err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			resp = Response{Body: call.refuse(internalError(r.ID)), Event: call.event}
		}
	}()
	body, gzipped, err := a.dispatch(ctx, version, call)
	if fault, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		call.event.Fault, call.event.Err, call.event.Output = true, err, fault.Text
		return Response{Body: xmlrpc.AppendFault(nil, fault), Event: call.event}
	}
	return Response{Body: body, Gzip: gzipped, Event: call.event}
}

// dispatch decodes the call, finds its method in the table and runs the method. It returns
// a body with an envelope, or a Fault as the error.
func (a *API) dispatch(ctx context.Context, version int, c *call) (body []byte, gzipped bool, err error) {
	in, err := xmlrpc.DecodeCall(c.request.Body, a.cfg.Limits)
	if err != nil {
		return nil, false, err
	}
	m, ok := methods[version][in.Method]
	c.event.Changes = mutating[in.Method]
	if err := c.mayChange(""); err != nil {
		return c.refuse(err), false, nil
	}
	if !ok {
		if c.event.Changes {
			c.event.Method = in.Method // a method of another version
		}
		return nil, false, a.noMethod(version, in.Method)
	}
	c.event.Method = m.name
	// The options struct at the end may be left out.
	if n := len(in.Params); n > len(m.args) || n < len(m.args)-1 {
		return nil, false, &xmlrpc.Fault{Code: xmlrpc.FaultParams, Text: fmt.Sprintf("%s takes %d parameters, not %d", m.name, len(m.args), n)}
	}
	value, notices, err := c.run(ctx, m, in.Params)
	if err == nil && c.ready != nil {
		c.event.Code = am.Success
		return c.ready, c.gzipped, nil
	}
	if err == nil {
		if body := c.success(value, notices); body != nil {
			return body, false, nil
		}
		err = errors.New("the answer cannot be encoded")
	}
	return c.refuse(err), false, nil
}

// noMethod returns the fault for a method that a version does not have. Its text names the
// URL of another version that has the method.
func (a *API) noMethod(version int, name string) *xmlrpc.Fault {
	text := fmt.Sprintf("there is no method %.80q in AM API v%d", name, version)
	for other, table := range methods {
		if _, ok := table[name]; ok {
			text += fmt.Sprintf("; v%d has it, at %s", other, a.cfg.url(other))
		}
	}
	return &xmlrpc.Fault{Code: xmlrpc.FaultMethod, Text: text}
}
