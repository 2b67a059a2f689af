package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/server"
	"patchbay/am/site/operate"
	"patchbay/am/urn"
)

// client returns a client of a service of this site, such as /am/3.0, for calls as the visitor.
func (q *request) client(path string) (*client.Client, error) {
	chain, err := q.Authority.CertificateChain(q.visitor.Member)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: "https://" + q.host + path, Transport: q.Transport(chain, q.r.RemoteAddr)})
}

// aggregate returns a client of the site's aggregate, for calls as the visitor.
func (q *request) aggregate() (*client.Client, error) { return q.client("/am/3.0") }

var noCredentials = []xmlrpc.Value{}

// authorityCall calls a method of the slice authority (sa) or the member authority (ma) as the visitor.
// The last parameter is the struct of options.
func (q *request) authorityCall(service, method string, params ...xmlrpc.Value) (xmlrpc.Value, error) {
	c, err := q.client("/" + service + "/2")
	if err != nil {
		return nil, err
	}
	params = append(params[:len(params)-1:len(params)-1], noCredentials, params[len(params)-1])
	return c.CallAuthority(q.r.Context(), method, params...)
}

// cache keeps values by their keys. A full one begins again.
type cache[K comparable, V any] struct {
	mu sync.Mutex
	by map[K]V
}

// maxCached limits the values of a cache.
const maxCached = 4096

func (c *cache[K, V]) get(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[key]
}

// take returns the value of a key, and removes it.
func (c *cache[K, V]) take(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer delete(c.by, key)
	return c.by[key]
}

func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxCached {
		c.by = map[K]V{}
	}
	c.by[key] = value
}

func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.by)
}

// credentialLife is how long a slice credential is used again, so that a page needs no new signature, and the audit has no line
// for each page.
const credentialLife = 10 * time.Minute

type credentialKey struct {
	member, slice string
	role          authority.Role
}

type cachedCredential struct {
	client.Credential
	until time.Time
}

// credential returns the slice credential of the visitor for their present role. It fails with errNotFound if they have none.
func (q *request) credential(slice urn.URN) ([]client.Credential, error) {
	role, err := q.roleIn(slice)
	if err != nil {
		return nil, err
	}
	key := credentialKey{q.visitor.Member.Key(), slice.Key(), role}
	c := q.credentials.get(key)
	if !q.now.Before(c.until) {
		v, err := q.authorityCall("sa", "get_credentials", slice.String(), xmlrpc.Struct{})
		if err != nil {
			return nil, err
		}
		text, err := client.FirstCredential(v)
		if err != nil {
			return nil, err
		}
		c = cachedCredential{client.Credential{Text: string(text)}, q.now.Add(credentialLife)}
		q.credentials.put(key, c)
	}
	return []client.Credential{c.Credential}, nil
}

// maxRefusal limits the text of a refusal in bytes.
const maxRefusal = 8 << 10

// order sends an order to an operators' endpoint.
func (q *request) order(path string, order, answer any) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	return q.operate(path, body, answer)
}

// operate sends a body to an operators' endpoint, or reads from it if the body is nil.
func (q *request) operate(path string, body []byte, answer any) error {
	d, err := q.decoder(path, body)
	if err != nil {
		return err
	}
	return d.Decode(answer)
}

// list reads a list of the operators' endpoints, which has a row of JSON a line, with a filter.
func list[T any](q *request, name string, f operate.Filter) (list []T, err error) {
	d, err := q.decoder("/"+name+"?"+f.Query().Encode(), nil)
	for err == nil && d.More() {
		var t T
		err = d.Decode(&t)
		list = append(list, t)
	}
	return list, err
}

// decoder calls an operators' endpoint, and returns a decoder of its answer. A refusal is a *problem.
func (q *request) decoder(path string, body []byte) (*json.Decoder, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(q.r.Context(), method, "http://site"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp := server.Answer(q.Admin, r)
	if resp.StatusCode == http.StatusOK {
		return json.NewDecoder(resp.Body), nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if resp.StatusCode == http.StatusUnprocessableEntity || resp.StatusCode == http.StatusBadRequest {
		return nil, &problem{http.StatusConflict, "That was not carried out", strings.TrimSpace(optionTexts.Replace(string(text)))}
	}
	return nil, fmt.Errorf("%s %s: %d: %.500s", method, path, resp.StatusCode, text)
}

// optionTexts replace what refusals say of the options of commands and of calls.
var optionTexts = strings.NewReplacer("; for a note: --reason", "", "release it with --frozen", "release it with what is kept for inspection",
	"release it with --over", overText, "plan it nevertheless with --over", overText,
	" (geni_start_time)", "", " (geni_end_time)", "")

// overText is what a refusal says instead of the option --over; the form then has the box.
const overText = "to go on, tick \"over reservations\""

// inBackground returns the request's context without its end, for work that must not stop halfway if the
// browser goes away.
func (q *request) inBackground() context.Context { return context.WithoutCancel(q.r.Context()) }
