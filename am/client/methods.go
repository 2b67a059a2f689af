package client

import (
	"context"
	"fmt"
	"time"

	"patchbay/am/api/xmlrpc"
)

// Answer is the value of the methods that return the slivers of a slice.
type Answer struct {
	// URN is the URN of the slice, if the method returns one.
	URN string
	// RSpec is the manifest, if the method returns one.
	RSpec   string
	Slivers []Sliver
}

// The typed calls below return their result, the Reply without its Value, and an error. They fail
// with the error of Call, with Reply.Err if the aggregate refused, or if the value is
// not as the API specifies. The Reply is set if the aggregate sent one.

// ListResources requests the advertisement.
func (c *Client) ListResources(ctx context.Context, creds []Credential, o Options) (string, Reply, error) {
	return typed(ctx, c, "ListResources", Unpack, func(v xmlrpc.Value) (string, error) {
		text, ok := v.(string)
		if !ok {
			return "", fmt.Errorf("the value is %s, not a string", kind(v))
		}
		return Unpack(text)
	}, Credentials(creds), o.wire(true))
}

// Describe requests the manifest and the states of slivers. In all methods, urns contains
// the URN of one slice, or URNs of slivers of one slice.
func (c *Client) Describe(ctx context.Context, urns []string, creds []Credential, o Options) (Answer, Reply, error) {
	return c.answer(ctx, "Describe", true, true, Strings(urns), Credentials(creds), o.wire(true))
}

// Allocate reserves the resources of a request RSpec.
func (c *Client) Allocate(ctx context.Context, slice string, creds []Credential, request string, o Options) (Answer, Reply, error) {
	return c.answer(ctx, "Allocate", false, true, slice, Credentials(creds), request, o.wire(false))
}

// Provision creates the resources of reserved slivers.
func (c *Client) Provision(ctx context.Context, urns []string, creds []Credential, o Options) (Answer, Reply, error) {
	return c.answer(ctx, "Provision", false, true, Strings(urns), Credentials(creds), o.wire(true))
}

// Status requests the states of slivers.
func (c *Client) Status(ctx context.Context, urns []string, creds []Credential, o Options) (Answer, Reply, error) {
	return c.answer(ctx, "Status", true, false, Strings(urns), Credentials(creds), o.wire(false))
}

// Renew requests a new end of leases.
func (c *Client) Renew(ctx context.Context, urns []string, creds []Credential, end time.Time, o Options) ([]Sliver, Reply, error) {
	return c.slivers(ctx, "Renew", Strings(urns), Credentials(creds), Time(end), o.wire(false))
}

// PerformOperationalAction performs an action such as geni_start.
func (c *Client) PerformOperationalAction(ctx context.Context, urns []string, creds []Credential, action string, o Options) ([]Sliver, Reply, error) {
	return c.slivers(ctx, "PerformOperationalAction", Strings(urns), Credentials(creds), action, o.wire(false))
}

// Delete releases slivers.
func (c *Client) Delete(ctx context.Context, urns []string, creds []Credential, o Options) ([]Sliver, Reply, error) {
	return c.slivers(ctx, "Delete", Strings(urns), Credentials(creds), o.wire(false))
}

// Shutdown stops a slice permanently, and reports whether that was done.
func (c *Client) Shutdown(ctx context.Context, slice string, creds []Credential, o Options) (bool, Reply, error) {
	return typed(ctx, c, "Shutdown", func(done bool) (bool, error) {
		if !done {
			return false, errMissing
		}
		return true, nil
	}, func(v xmlrpc.Value) (bool, error) {
		done, ok := v.(bool)
		if !ok {
			return false, fmt.Errorf("the value is %s, not a boolean", kind(v))
		}
		return done, nil
	}, slice, Credentials(creds), o.wire(false))
}

func (c *Client) answer(ctx context.Context, method string, withURN, withRSpec bool, params ...xmlrpc.Value) (Answer, Reply, error) {
	return typed(ctx, c, method, func(x replyAnswer) (Answer, error) { return x.answer(withURN, withRSpec) },
		func(v xmlrpc.Value) (Answer, error) { return parseAnswer(v, withURN, withRSpec) }, params...)
}

// parseAnswer fails if the URN or the RSpec is required and missing.
func parseAnswer(v xmlrpc.Value, withURN, withRSpec bool) (Answer, error) {
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return Answer{}, fmt.Errorf("the value is %s, not a struct", kind(v))
	}
	var a Answer
	if err := member(s, "geni_urn", &a.URN, withURN); err != nil {
		return Answer{}, err
	}
	if err := member(s, "geni_rspec", &a.RSpec, withRSpec); err != nil {
		return Answer{}, err
	}
	var err error
	if a.RSpec, err = Unpack(a.RSpec); err != nil {
		return Answer{}, err
	}
	slivers, _ := s.Get("geni_slivers")
	a.Slivers, err = parseSlivers(slivers)
	return a, err
}

func (c *Client) slivers(ctx context.Context, method string, params ...xmlrpc.Value) ([]Sliver, Reply, error) {
	return typed(ctx, c, method, sliversOf, parseSlivers, params...)
}
