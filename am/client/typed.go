package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	kolo "github.com/kolo/xmlrpc"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
)

// typed makes one call whose value has the type R. kolo/xmlrpc decodes a plain answer into W, and
// convert makes the result. If that fails, and for any other answer, this is done by am/api/xmlrpc,
// which loses nothing, and by parse, whose errors say what is wrong.
func typed[W, R any](ctx context.Context, c *Client, method string, convert func(W) (R, error), parse func(xmlrpc.Value) (R, error), params ...xmlrpc.Value) (result R, r Reply, err error) {
	start := time.Now()
	body, err := c.answerTo(ctx, method, params)
	took := time.Since(start)
	if err != nil {
		return result, Reply{Took: took}, fmt.Errorf("%s: %w", method, err)
	}
	if x, ok := decodePlain[W](body); ok {
		if result, err := convert(*x.Value); err == nil {
			return result, Reply{Detail: int(x.Code.Detail), AMType: x.Code.Type, Output: x.Output, Took: took}, nil
		}
	}
	v, err := decode(body)
	if err == nil {
		r, err = parseReply(v)
	}
	r.Took = took
	if err != nil {
		return result, r, fmt.Errorf("%s: %w", method, err)
	}
	v, r.Value = r.Value, nil
	if err := r.Err(); err != nil {
		return result, r, err
	}
	if result, err = parse(v); err != nil {
		err = fmt.Errorf("%s: the answer is not as the API specifies: %w", method, err)
	}
	return result, r, err
}

// The types below have the members of answers. kolo/xmlrpc leaves the pointers nil if a member is
// missing.

type typedReply[W any] struct {
	Code struct {
		Number *int32 `xmlrpc:"geni_code"`
		Detail int32  `xmlrpc:"am_code"`
		Type   string `xmlrpc:"am_type"`
	} `xmlrpc:"code"`
	Value  *W     `xmlrpc:"value"`
	Output string `xmlrpc:"output"`
}

// decodePlain returns false for an answer that is not plain, a refusal, and an answer without a
// value of the type W.
func decodePlain[W any](body []byte) (x typedReply[W], ok bool) {
	ok = isPlain(body) && kolo.Response(body).Unmarshal(&x) == nil &&
		x.Code.Number != nil && am.Code(*x.Code.Number) == am.Success && x.Value != nil
	return x, ok
}

type replyVersion struct {
	API       *int32            `xmlrpc:"geni_api"`
	URN       string            `xmlrpc:"urn"`
	GENIURN   string            `xmlrpc:"geni_urn"`
	Change    int32             `xmlrpc:"patchbay_change"`
	Addresses map[string]string `xmlrpc:"geni_api_versions"`
	Ahead     struct {
		Max int32 `xmlrpc:"max_seconds"`
	} `xmlrpc:"patchbay_ahead"`
	Requests []struct {
		Extensions []string `xmlrpc:"extensions"`
	} `xmlrpc:"geni_request_rspec_versions"`
}

type replyAnswer struct {
	URN     *string        `xmlrpc:"geni_urn"`
	RSpec   *string        `xmlrpc:"geni_rspec"`
	Slivers *[]replySliver `xmlrpc:"geni_slivers"`
}

type replySliver struct {
	URN            *string        `xmlrpc:"geni_sliver_urn"`
	Allocation     *string        `xmlrpc:"geni_allocation_status"`
	Expires        string         `xmlrpc:"geni_expires"`
	ClientID       string         `xmlrpc:"geni_client_id"`
	Operational    string         `xmlrpc:"geni_operational_status"`
	Error          string         `xmlrpc:"geni_error"`
	ResourceStatus string         `xmlrpc:"geni_resource_status"`
	Begins         string         `xmlrpc:"geni_start_time"`
	Ends           string         `xmlrpc:"geni_end_time"`
	RenewableUntil string         `xmlrpc:"patchbay_renewable_until"`
	Services       []replyService `xmlrpc:"patchbay_services"`
	Interfaces     []Interface    `xmlrpc:"patchbay_interfaces"`
}

type replyService struct {
	Step      int32  `xmlrpc:"step"`
	Exit      int32  `xmlrpc:"exit"`
	Stage     int32  `xmlrpc:"stage"`
	Kind      string `xmlrpc:"kind"`
	What      string `xmlrpc:"what"`
	State     string `xmlrpc:"state"`
	Message   string `xmlrpc:"message"`
	Output    string `xmlrpc:"output"`
	Operation string `xmlrpc:"operation"`
	Began     string `xmlrpc:"began"`
	Ended     string `xmlrpc:"ended"`
}

// errMissing makes our codec read an answer. A zero value may be missing, too: kolo/xmlrpc reads an
// empty text as the zero value of any type.
var errMissing = errors.New("a member is missing")

func (x replyAnswer) answer(withURN, withRSpec bool) (a Answer, err error) {
	if x.URN == nil && withURN || x.RSpec == nil && withRSpec || x.Slivers == nil {
		return a, errMissing
	}
	if x.URN != nil {
		a.URN = *x.URN
	}
	if x.RSpec != nil {
		if a.RSpec, err = Unpack(*x.RSpec); err != nil {
			return a, err
		}
	}
	a.Slivers, err = sliversOf(*x.Slivers)
	return a, err
}

func sliversOf(list []replySliver) ([]Sliver, error) {
	if len(list) == 0 {
		return nil, errMissing
	}
	out := make([]Sliver, len(list))
	for i, x := range list {
		if x.URN == nil || x.Allocation == nil {
			return nil, errMissing
		}
		expires, err := parseTime(x.Expires)
		if err != nil {
			return nil, err
		}
		s := Sliver{
			URN: *x.URN, ClientID: x.ClientID, Allocation: *x.Allocation, Operational: x.Operational, Error: x.Error,
			Plan: PlanIn(x.ResourceStatus), Expires: expires, Interfaces: x.Interfaces,
		}
		s.Begins, _ = parseTime(x.Begins)
		s.Ends, _ = parseTime(x.Ends)
		s.RenewableUntil, _ = parseTime(x.RenewableUntil)
		for _, v := range x.Services {
			began, _ := parseTime(v.Began)
			ended, _ := parseTime(v.Ended)
			s.Services = append(s.Services, Service{
				Step: int(v.Step), Exit: int(v.Exit), Kind: v.Kind, What: v.What, State: v.State, Message: v.Message, Output: v.Output,
				Stage: int(v.Stage), Operation: v.Operation, Began: began, Ended: ended,
			})
		}
		out[i] = s
	}
	return out, nil
}
