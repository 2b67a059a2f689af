package authority

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

// Config describes the site of a served authority.
type Config struct {
	// Identify verifies client certificates and speaks-for credentials. Its anchors must include
	// the root of the authority.
	Identify *credentials.Authorizer
	// PublicURL is the URL for clients, https://host:port, without a slash at the end.
	PublicURL string
	// Manager is the URN of the site's aggregate.
	Manager urn.URN
	// Slivers returns the slivers of a slice at the site's aggregate.
	Slivers func(slice urn.URN) ([]am.Sliver, error)
	// ServerCertificates returns the certificates of the listener in PEM, for login.
	ServerCertificates func() ([][]byte, error)
	// Invite allows new members to accept invitations.
	Invite bool
	// PagesURL returns the URL of the site's pages, without a slash at the end; "" if there are none.
	// Nil means that there are none.
	PagesURL func() string
	// SoftwareVersion is returned by get_version.
	SoftwareVersion string
	// Now returns the current time. Nil means time.Now.
	Now func() time.Time
}

// Service answers the calls of the Federation API and of the ProtoGENI slice authority. It is
// safe for concurrent use.
type Service struct {
	authority *Authority
	config    Config
	issuer    []byte // the certificate of the member authority in DER
	calls     callCounts
	statement statement
}

// New returns the service of an authority.
func New(a *Authority, c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	_, ma := a.Services()
	list, err := cert.ParsePEM(ma)
	if err != nil {
		return nil, err
	}
	return &Service{authority: a, config: c, issuer: list[0].Raw}, nil
}

// Name returns the name of the service at a path, such as sa; "" if there is none.
func (s *Service) Name(path string) string { return endpoints[strings.TrimSuffix(path, "/")].name }

// ErrorBody returns the body for an error that the server finds before it passes a call to Serve.
func (*Service) ErrorBody(text string) []byte {
	body, err := xmlrpc.AppendResponse(nil, envelope(int(Server), "", refuse(Server, "%s", text).output()))
	if err != nil { // impossible: it holds only texts
		return xmlrpc.AppendFault(nil, &xmlrpc.Fault{Code: xmlrpc.FaultInternal, Text: text})
	}
	return body
}

func envelope(code int, value xmlrpc.Value, output string) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: "code", Value: code}, {Name: "value", Value: value}, {Name: "output", Value: output}}
}

// endpoint is a service in one version.
type endpoint struct {
	name    string // sa, ma, ch or pg
	version int
	methods map[string]method
}

var endpoints = map[string]endpoint{
	"/ch": {"ch", 2, registry2}, "/ch/2": {"ch", 2, registry2}, "/ch/1": {"ch", 1, registry1},
	"/sa": {"sa", 2, slices2}, "/sa/2": {"sa", 2, slices2}, "/sa/1": {"sa", 1, slices1},
	"/ma": {"ma", 2, members2}, "/ma/2": {"ma", 2, members2}, "/ma/1": {"ma", 1, members1},
	"/protogeni/xmlrpc/sa": {"pg", 1, protogeni},
}

func init() {
	// get_version lists the methods of all endpoints, so it cannot be in the tables themselves.
	for _, e := range endpoints {
		if e.name != "pg" {
			e.methods["get_version"] = method{args: "O", anyone: true, run: getVersion}
		}
	}
}

// method is a row of a method table.
type method struct {
	// args has a letter for each argument: T the type of an object, U a URN or an id, K the id of
	// a key, L a list of URNs, C credentials, O options, S the only struct, X a text. O and S may be left out.
	args string
	// object is the type of the object for a method without T.
	object string
	// anyone allows callers without a certificate of this authority.
	anyone bool
	// changes means that the call changes something, or issues a credential.
	changes bool
	run     func(*call) (xmlrpc.Value, error)
}

// call is one call of a method.
type call struct {
	*Service
	endpoint
	request api.Request
	now     time.Time
	event   api.Event

	// caller is the member who calls, or for whom a tool calls.
	caller    urn.URN
	peer      credentials.Caller
	object    *object
	target    string   // argument U
	key       string   // argument K
	text      string   // argument X
	urns      []string // argument L
	presented []credentials.Presented
	options   xmlrpc.Struct
}

var limits = xmlrpc.Limits{Values: 50_000}

// Serve answers one call to the path of a service.
func (s *Service) Serve(_ context.Context, path string, r api.Request) (resp api.Response) {
	c := &call{Service: s, endpoint: endpoints[strings.TrimSuffix(path, "/")], request: r, now: s.config.Now()}
	c.event.Service = c.name
	defer func() {
		if p := recover(); p != nil {
			c.event.Err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			resp = c.answer(nil, refuse(Server, "internal error in request %s; ask the operator", r.ID))
		}
		s.calls.add(c)
	}()
	in, err := xmlrpc.DecodeCall(r.Body, limits)
	if err != nil {
		return c.fault(err)
	}
	m, ok := c.methods[in.Method]
	if !ok {
		return c.fault(c.noMethod(in.Method))
	}
	c.event.Method = in.Method
	m.args = withoutCredentials(m.args, in.Params)
	if n := len(in.Params); n > len(m.args) || n < len(strings.TrimRight(m.args, "OS")) {
		return c.fault(&xmlrpc.Fault{Code: xmlrpc.FaultParams, Text: fmt.Sprintf("%s takes %d parameters, not %d", in.Method, len(m.args), n)})
	}
	value, err := c.run(m, in.Params)
	return c.answer(value, err)
}

// withoutCredentials returns the arguments of a call that leaves out the credentials before its
// options, as some clients do. Members are identified by their TLS certificates.
func withoutCredentials(args string, params []xmlrpc.Value) string {
	if before, ok := strings.CutSuffix(args, "CO"); ok && len(params) == len(args)-1 {
		if _, isStruct := params[len(params)-1].(xmlrpc.Struct); isStruct {
			return before + "O"
		}
	}
	return args
}

// noMethod returns the fault for an unknown method. It names the URLs of other services that have
// the method.
func (c *call) noMethod(name string) error {
	text := fmt.Sprintf("there is no method %.80q here", name)
	var paths []string
	for path, e := range endpoints {
		hasVersion := strings.HasSuffix(path, "1") || strings.HasSuffix(path, "2") // else it is short for /2, or ProtoGENI's
		if _, ok := e.methods[name]; ok && hasVersion {
			paths = append(paths, c.config.PublicURL+path)
		}
	}
	if slices.Sort(paths); len(paths) > 0 {
		text += "; it is at " + strings.Join(paths, ", ")
	}
	return &xmlrpc.Fault{Code: xmlrpc.FaultMethod, Text: text}
}

func (c *call) fault(err error) api.Response {
	f, ok := errors.AsType[*xmlrpc.Fault](err)
	if !ok {
		f = &xmlrpc.Fault{Code: xmlrpc.FaultInternal, Text: err.Error()}
	}
	c.event.Fault, c.event.Err, c.event.Output = true, err, f.Text
	return api.Response{Body: xmlrpc.AppendFault(nil, f), Event: c.event}
}

// run reads the arguments, identifies the caller and calls the method. Before it checks a signature, it calls
// MayChange without a caller, which fails if all callers together change too much.
func (c *call) run(m method, params []xmlrpc.Value) (xmlrpc.Value, error) {
	c.event.Changes = m.changes
	if m.object != "" {
		c.object = objects[m.object]
	}
	for i, v := range params {
		if err := c.read(m.args[i], v); err != nil {
			return nil, err
		}
	}
	if c.object != nil && c.event.Method != "" && strings.Contains(m.args, "T") {
		c.event.Method += " " + c.object.name
	}
	if m.changes && c.request.MayChange != nil {
		if err := c.request.MayChange(""); err != nil {
			return nil, refuse(Server, "%v", err)
		}
	}
	if !m.anyone {
		if err := c.identify(); err != nil {
			return nil, err
		}
		if m.changes && c.request.MayChange != nil {
			who := c.event.Speaker
			if who.IsZero() {
				who = c.caller
			}
			if err := c.request.MayChange(who.Key()); err != nil {
				return nil, refuse(Server, "%v", err)
			}
		}
	}
	return m.run(c)
}

// read checks an argument and sets the field of c for it. kind is its letter in method.args.
func (c *call) read(kind byte, v xmlrpc.Value) (err error) {
	text, isText := xmlrpc.AsString(v)
	switch kind {
	case 'T':
		c.object = objects[text]
		if c.object == nil || !slices.Contains(objectsOf[c.name], text) {
			return refuse(Argument, "there is no type %s here; the types are %s", display.Cut(text, 80), strings.Join(objectsOf[c.name], ", "))
		}
	case 'U', 'K', 'X':
		if !isText {
			return refuse(Argument, "a text is expected, such as a URN")
		}
		*map[byte]*string{'U': &c.target, 'K': &c.key, 'X': &c.text}[kind] = strings.TrimSpace(text)
	case 'L':
		list, ok := v.([]xmlrpc.Value)
		if !ok || len(list) > maxMatched {
			return refuse(Argument, "a list of at most %d URNs is expected", maxMatched)
		}
		for _, v := range list {
			s, _ := xmlrpc.AsString(v)
			c.urns = append(c.urns, s)
		}
	case 'C':
		if c.presented, err = api.ReadCredentials(v); err != nil {
			return refuse(Argument, "the list of credentials: %v", err)
		}
	case 'O', 'S':
		var ok bool
		if c.options, ok = v.(xmlrpc.Struct); !ok {
			return refuse(Argument, "the options must be a struct")
		}
	}
	return nil
}

// identify finds the member who calls, or for whom a tool calls. The certificate must be the one
// that this authority has issued to the member.
func (c *call) identify() error {
	var chain [][]byte
	if len(c.request.Chain) > 0 {
		chain = append(slices.Clone(c.request.Chain), c.issuer)
	}
	c.peer = c.config.Identify.Identify(chain, c.now)
	speakingFor := c.option("speaking_for", "geni_speaking_for")
	user, err := c.config.Identify.SpeakFor(c.peer, c.presented, speakingFor, c.now)
	if err != nil {
		return refuse(Authentication, "%v", err)
	}
	if !user.Equal(c.peer.URN) {
		c.event.Speaker = c.peer.URN
	}
	for _, u := range []urn.URN{user, c.peer.URN} {
		if !c.isOurs(u) {
			return refuse(Authentication, "%s is not of the authority %s; call with the certificate of a member", u, c.authority.URN().Authority)
		}
	}
	if user.Type != urn.User {
		return refuse(Authentication, "%s is no user; name the user in the option speaking_for", user)
	}
	c.event.Caller = user
	if c.event.Speaker.IsZero() {
		text, err := c.authority.UserCertificate(user.Name)
		if err != nil {
			return refuse(Authentication, "%v", err)
		}
		known, err := cert.ParsePEM(text)
		if err != nil {
			return err
		}
		if !slices.Equal(known[0].Raw, c.request.Chain[0]) {
			return refuse(Authentication, "this is not the certificate that %s has issued to %s; log in with the present one", c.authority.URN().Authority, user)
		}
	}
	c.caller = user
	return c.view(func(t *tx) error {
		m, ok, err := get[Member](t, members, user.Key())
		if err == nil && (!ok || !m.Removed.IsZero()) {
			err = refuse(Authentication, "%s is no member of %s any more", user, c.authority.URN().Authority)
		}
		c.caller = m.URN
		return err
	})
}

func (c *call) isOurs(u urn.URN) bool {
	return urn.Lower(u.Authority) == urn.Lower(c.authority.URN().Authority)
}

// option returns the first of the options that is a text.
func (c *call) option(names ...string) string {
	for _, name := range names {
		if v, ok := c.options.Get(name); ok {
			if s, ok := xmlrpc.AsString(v); ok && s != "" {
				return s
			}
		}
	}
	return ""
}

func (c *call) view(f func(*tx) error) error   { return c.authority.store.view(f) }
func (c *call) update(f func(*tx) error) error { return c.authority.store.update(f) }

// answer encodes the envelope. The codes of the ProtoGENI slice authority are those of the AM API.
func (c *call) answer(value xmlrpc.Value, err error) api.Response {
	code, output := None, ""
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			c.event.Err = errors.Join(c.event.Err, err)
			e = refuse(Server, "internal error in request %s; ask the operator", c.request.ID)
		}
		code, output, value = e.Code, e.output(), ""
		if c.name == "pg" {
			output = e.Text
		}
	}
	if value == nil {
		value = ""
	}
	c.event.Code, c.event.Output = am.Code(code), output
	if c.name == "pg" {
		c.event.Code = protogeniCode(err)
	}
	body, err := xmlrpc.AppendResponse(nil, envelope(int(c.event.Code), value, output))
	if err != nil {
		return c.fault(err)
	}
	return api.Response{Body: body, Event: c.event}
}

// callCounts counts calls for the metrics.
type callCounts struct {
	mu sync.Mutex
	by map[[3]string]int // by service, method and code
}

func (n *callCounts) add(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil {
		n.by = map[[3]string]int{}
	}
	method, code := c.event.Method, fmt.Sprint(int(c.event.Code))
	if c.event.Fault {
		code = "fault"
	}
	if method == "" {
		method = "unknown"
	}
	n.by[[3]string{c.name, method, code}]++
}

// Calls passes the number of calls by service, method and code to add.
func (s *Service) Calls(add func(n float64, labels ...string)) {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	for by, n := range s.calls.by {
		add(float64(n), by[:]...)
	}
}

// Records passes the number of records by kind to add.
func (s *Service) Records(add func(n float64, labels ...string)) {
	s.authority.store.view(func(t *tx) error {
		for _, b := range records {
			if b != certificates {
				add(float64(count(t, b)), string(b))
			}
		}
		return nil
	})
}
