package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
)

// probe has what the checks have found out so far.
type probe struct {
	config   Config
	ctx      context.Context
	recorded recorder
	clients  []*client.Client

	am map[int]*aggregate // by version

	first            int  // the version of the URL that was given
	refusesStrangers bool // who have no certificate

	created map[int]bool // versions in which the slice may have slivers
	types   typeErrors
}

// aggregate is one version of the aggregate.
type aggregate struct {
	version   int
	url       string
	client    *client.Client
	facts     xmlrpc.Struct // the value of GetVersion
	urn       string
	ad        *document
	request   string
	slivers   []string  // URNs, from Allocate
	manifest  *document // from Describe
	key       *sshKey
	allocated time.Time
}

type recorder struct {
	mu sync.Mutex
	bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Buffer.Write(b)
}

func newProbe(ctx context.Context, c Config) (*probe, error) {
	if c.Wait == 0 {
		c.Wait = 20 * time.Minute
	}
	p := &probe{config: c, ctx: ctx, am: map[int]*aggregate{}, created: map[int]bool{}, first: cmp.Or(c.Version, versionOf(c.URL))}
	if p.first == 0 {
		x, err := p.newClient(c.URL, c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		p.first = 3
		if v, _, err := x.GetVersion(ctx); err == nil && v.API == 2 {
			p.first = 2
		}
	}
	for _, version := range []int{3, 2} {
		text := c.URL
		if p.first != version {
			if text = c.Other; text == "" {
				text = otherURL(c.URL, version)
			}
		}
		x, err := p.newClient(text, c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		p.am[version] = &aggregate{version: version, url: text, client: x}
	}
	return p, nil
}

func (p *probe) close() {
	for _, c := range p.clients {
		c.Close()
	}
}

// versionOf returns the version with which a URL ends; 0 for another URL.
func versionOf(text string) int {
	text = strings.TrimRight(text, "/")
	switch {
	case strings.HasSuffix(text, "2.0"):
		return 2
	case strings.HasSuffix(text, "3.0"):
		return 3
	}
	return 0
}

// otherURL returns the URL of the other version in the form that most aggregates have.
func otherURL(text string, version int) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	path := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"2.0", "3.0"} {
		if rest, ok := strings.CutSuffix(path, end); ok {
			path = strings.TrimRight(rest, "/")
			u.Path = fmt.Sprintf("%s/%d.0", path, version)
			return u.String()
		}
	}
	u.Path = fmt.Sprintf("/am/%d.0", version)
	return u.String()
}

// reply is an answer with a well-formed envelope.
type reply struct {
	code   int
	value  xmlrpc.Value
	output string
}

func (r reply) String() string { return fmt.Sprintf("code %d %.200q", r.code, r.output) }

// call makes a call and checks the envelope of its answer. It fails with errMalformed if the
// envelope is not usable.
func (p *probe) call(a *aggregate, method string, params ...xmlrpc.Value) (r reply, err error) {
	return p.callWith(p.ctx, a.client, a.version, method, params...)
}

func (p *probe) callWith(ctx context.Context, c *client.Client, version int, method string, params ...xmlrpc.Value) (r reply, err error) {
	v, err := c.CallRaw(ctx, method, params...)
	if fault, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return r, fmt.Errorf("%s is answered with a fault: %w", method, fault)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", method, err)
	}
	return p.types.envelope(version, method, v)
}

// succeed fails unless the answer has the code 0.
func (p *probe) succeed(a *aggregate, method string, params ...xmlrpc.Value) (xmlrpc.Value, error) {
	r, err := p.call(a, method, params...)
	if err == nil && r.code != 0 {
		err = fmt.Errorf("%s is answered with %s", method, r)
	}
	return r.value, err
}

// refused fails unless the answer has one of the codes.
func (p *probe) refused(a *aggregate, codes []int, method string, params ...xmlrpc.Value) error {
	r, err := p.call(a, method, params...)
	if err == nil && !slices.Contains(codes, r.code) {
		err = fmt.Errorf("%s is answered with %s, not with one of the codes %v", method, r, codes)
	}
	return err
}

// credentials returns the argument with the given documents.
func (a *aggregate) credentials(docs ...[]byte) []xmlrpc.Value {
	list := make([]client.Credential, len(docs))
	for i, d := range docs {
		list[i].Text = string(d)
	}
	if a.version == 3 {
		return client.Credentials(list)
	}
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = string(d)
	}
	return client.Strings(texts)
}

// options returns a struct with geni_rspec_version and the given members.
func options(more ...xmlrpc.Member) xmlrpc.Struct {
	return append(xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}}}, more...)
}

func option(name string, v xmlrpc.Value) xmlrpc.Member { return xmlrpc.Member{Name: name, Value: v} }

func text(s xmlrpc.Struct, name string) string {
	v, _ := s.Get(name)
	t, _ := v.(string)
	return t
}

// cleanUp deletes the slivers of the slice. It works after the end of the probe's context, for at
// most two minutes.
func (p *probe) cleanUp() string {
	var left []string
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 2*time.Minute)
	defer cancel()
	for version := range p.created {
		a := p.am[version]
		var r reply
		var err error
		if version == 3 {
			r, err = p.callWith(ctx, a.client, 3, "Delete", client.Strings([]string{p.config.SliceURN}), a.credentials(p.config.Slice), xmlrpc.Struct{})
		} else {
			r, err = p.callWith(ctx, a.client, 2, "DeleteSliver", p.config.SliceURN, a.credentials(p.config.Slice), xmlrpc.Struct{})
		}
		if err == nil && r.code != 0 && r.code != searchFailed {
			err = errors.New(r.String())
		}
		if err != nil {
			left = append(left, fmt.Sprintf("the slivers of %s at %s could not be deleted: %v", p.config.SliceURN, a.url, err))
		}
	}
	return strings.Join(left, "\n")
}
