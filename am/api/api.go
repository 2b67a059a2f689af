package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/credentials"
	"patchbay/rspec"
)

// Aggregate is what the methods need done.
type Aggregate interface {
	Allocate(context.Context, credentials.Grant, urn.URN, *rspec.Request, service.ProvisionOptions) (service.Outcome, error)
	Provision(context.Context, credentials.Grant, service.Targets, service.ProvisionOptions) (service.Outcome, error)
	Renew(context.Context, credentials.Grant, service.Targets, time.Time, service.RenewOptions) (service.Outcome, error)
	Status(context.Context, credentials.Grant, service.Targets, service.Call) (service.Outcome, error)
	Describe(context.Context, credentials.Grant, service.Targets, service.Call) (service.Outcome, error)
	PerformOperationalAction(context.Context, credentials.Grant, service.Targets, am.Event, service.ActionOptions) (service.Outcome, error)
	Delete(context.Context, credentials.Grant, service.Targets, service.Call) (service.Outcome, error)
	Shutdown(context.Context, credentials.Grant, urn.URN, service.Call) error
	CreateSliver(context.Context, credentials.Grant, urn.URN, *rspec.Request, service.ProvisionOptions) (service.Outcome, error)
	SliverStatus(context.Context, credentials.Grant, urn.URN) (service.Outcome, error)
	CheckTargets(credentials.Grant, service.Targets, service.Call) error
	Hold(credentials.Grant, service.Targets) (release func(), err error)
	Memory() *service.Memory
	AdvertisementVersion() uint64
	AppendAdvertisement(b []byte, onlyFree bool) []byte
	Lockdown() string
	RSpecExtensions() (requests, advertisements []string)
}

// Config is what the API says of its aggregate.
type Config struct {
	// Manager is the aggregate's URN.
	Manager urn.URN
	// PublicURL is https://host:port as clients reach it, without a slash at the end.
	PublicURL string
	// SoftwareVersion is shown by GetVersion.
	SoftwareVersion string
	// Reading is how requests are read until Follow says otherwise.
	Reading rspec.ReadOptions
	// Limits bound a call's structure.
	Limits xmlrpc.Limits
	// Admit is asked before a call changes anything; its error refuses the call.
	// Nil admits all.
	Admit func() error
	// Now is the clock by which credentials are judged; time.Now when nil.
	Now func() time.Time
}

// API answers calls. It may be used by any number of goroutines.
type API struct {
	agg                    Aggregate
	auth                   *credentials.Authorizer
	cfg                    Config
	site                   atomic.Pointer[siteFacts]
	prepared, preparedFree [encodings]preparedAnswer
}

// New makes an API over an aggregate.
func New(agg Aggregate, auth *credentials.Authorizer, cfg Config) *API {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &API{agg: agg, auth: auth, cfg: cfg}
	a.Follow(cfg.Reading)
	return a
}

// siteFacts are what follows from the site's inventory.
type siteFacts struct {
	reading  rspec.ReadOptions
	versions map[int]xmlrpc.Struct // the values of GetVersion
}

// Follow takes over that the aggregate has another inventory, and requests are
// read otherwise from now on.
func (a *API) Follow(reading rspec.ReadOptions) {
	a.site.Store(&siteFacts{reading, versionValues(a.cfg, a.agg)})
}

// Request is one call as it came in.
type Request struct {
	// ID names the call in logs, journal and the text of internal errors.
	ID string
	// Chain is the caller's certificates in DER, leaf first, as TLS proved them.
	Chain [][]byte
	Body  []byte
	// AcceptGzip says that the caller takes a gzip body.
	AcceptGzip bool
	// Remote is the caller's address, for the log.
	Remote string
	// MayChange is asked before anything is done for a call of a method that changes
	// something; its error refuses the call. It is asked with "" at first, and again
	// when it is known who has called, with the key of their URN: the tool's, where
	// one speaks for a user. Nil refuses nothing.
	MayChange func(caller string) error
}

// Response is the body to answer with.
type Response struct {
	Body []byte
	// Gzip says that Body is compressed.
	Gzip  bool
	Event Event
}

// Event is what a call was, for the log.
type Event struct {
	Method string
	// Changes says that the method is one that changes something.
	Changes bool
	Caller  urn.URN
	// Speaker is the tool that spoke for the caller; zero if none did.
	Speaker urn.URN
	// Slice is what the call was about, as far as it is known.
	Slice  urn.URN
	Code   am.Code
	Detail am.Detail
	Output string
	// Slivers counts those in the answer.
	Slivers int
	// Credentials are fingerprints of what granted the right. Of a call that is
	// refused and might have changed something, they are of the first that were
	// shown, if the caller is known.
	Credentials []string
	// SHA1 says that one of them, or a certificate of the caller, is signed with
	// SHA-1.
	SHA1 bool
	// Err is the cause behind the code, for the operator only.
	Err error
	// Findings counts what the schemas have against the request, Finding is the
	// first of them: for the operator, since they refuse nothing.
	Findings int
	Finding  string
	// Fault says that the answer was an XML-RPC fault.
	Fault bool
}

// Serve answers one call to the URL of an API version, 2 or 3. It always has
// an answer: even broken XML-RPC gets a fault, and a panic an envelope.
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

// dispatch decodes the call, finds its row, and runs it. Its error is a Fault.
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
			c.event.Method = in.Method // of another version
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

// noMethod is the fault for a method that a version has not, with the URL of
// the version that has it.
func (a *API) noMethod(version int, name string) *xmlrpc.Fault {
	text := fmt.Sprintf("there is no method %.80q in AM API v%d", name, version)
	for other, table := range methods {
		if _, ok := table[name]; ok {
			text += fmt.Sprintf("; v%d has it, at %s", other, a.cfg.url(other))
		}
	}
	return &xmlrpc.Fault{Code: xmlrpc.FaultMethod, Text: text}
}
