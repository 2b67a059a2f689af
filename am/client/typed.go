package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kolo "github.com/kolo/xmlrpc"

	"patchbay/am/xmlrpc"
)

// typed makes one call whose value has the type R. The codec of am/xmlrpc reads the answer, because
// kolo/xmlrpc loses bytes of some; kolo/xmlrpc decodes the value into W, and convert makes the result.
func typed[W, R any](ctx context.Context, c *Client, method string, convert func(W) (R, error), params ...xmlrpc.Value) (result R, r Reply, err error) {
	if r, err = c.Call(ctx, method, params...); err != nil {
		return result, r, err
	}
	v := r.Value
	r.Value = nil
	if err := r.Err(); err != nil {
		return result, r, err
	}
	var x W
	if err = unmarshal(v, &x); err == nil {
		result, err = convert(x)
	}
	if err != nil {
		err = fmt.Errorf("%s: the answer is not as the API specifies: %w", method, err)
	}
	return result, r, err
}

// unmarshal decodes v by kolo/xmlrpc into what to points to.
func unmarshal(v xmlrpc.Value, to any) error {
	if v == nil {
		return errors.New("it has no value")
	}
	text, err := xmlrpc.AppendResponse(nil, lossless(v))
	if err != nil {
		return err
	}
	return kolo.Response(text).Unmarshal(to)
}

// lossless returns v in the types that kolo/xmlrpc decodes without loss, without members that are nil.
func lossless(v xmlrpc.Value) xmlrpc.Value {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return Time(v)
	case int:
		if int(int(v)) != v {
			return strconv.Itoa(v)
		}
	case []xmlrpc.Value:
		list := make([]xmlrpc.Value, len(v))
		for i := range v {
			list[i] = lossless(v[i])
		}
		return list
	case xmlrpc.Struct:
		var s xmlrpc.Struct
		for _, m := range v {
			if m.Value != nil {
				s = append(s, xmlrpc.Member{Name: m.Name, Value: lossless(m.Value)})
			}
		}
		return s
	}
	return v
}

// The types below have the members of answers. kolo/xmlrpc leaves the pointers nil if a member is
// missing.

type replyVersion struct {
	API       *int              `xmlrpc:"geni_api"`
	URN       string            `xmlrpc:"urn"`
	GENIURN   string            `xmlrpc:"geni_urn"`
	Change    int               `xmlrpc:"patchbay_change"`
	Addresses map[string]string `xmlrpc:"geni_api_versions"`
}

type replyAnswer struct {
	URN     *string        `xmlrpc:"geni_urn"`
	RSpec   *string        `xmlrpc:"geni_rspec"`
	Slivers *[]replySliver `xmlrpc:"geni_slivers"`
}

type replySliver struct {
	URN            string         `xmlrpc:"geni_sliver_urn"`
	Allocation     string         `xmlrpc:"geni_allocation_status"`
	Expires        string         `xmlrpc:"geni_expires"`
	ClientID       string         `xmlrpc:"geni_client_id"`
	Operational    string         `xmlrpc:"geni_operational_status"`
	Error          string         `xmlrpc:"geni_error"`
	ResourceStatus string         `xmlrpc:"geni_resource_status"`
	Services       []replyService `xmlrpc:"patchbay_services"`
	Interfaces     []Interface    `xmlrpc:"patchbay_interfaces"`
}

type replyService struct {
	Step      int    `xmlrpc:"step"`
	Exit      int    `xmlrpc:"exit"`
	Stage     int    `xmlrpc:"stage"`
	Kind      string `xmlrpc:"kind"`
	What      string `xmlrpc:"what"`
	State     string `xmlrpc:"state"`
	Message   string `xmlrpc:"message"`
	Output    string `xmlrpc:"output"`
	Operation string `xmlrpc:"operation"`
	Began     string `xmlrpc:"began"`
	Ended     string `xmlrpc:"ended"`
}

// answer fails if the URN or the RSpec is required and missing.
func (x replyAnswer) answer(withURN, withRSpec bool) (a Answer, err error) {
	switch {
	case x.URN == nil && withURN:
		return a, errors.New("geni_urn is missing")
	case x.RSpec == nil && withRSpec:
		return a, errors.New("geni_rspec is missing")
	case x.Slivers == nil:
		return a, errors.New("geni_slivers is missing")
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

// sliversOf fails if a sliver has no URN, allocation state or end of lease, which the API requires.
func sliversOf(list []replySliver) ([]Sliver, error) {
	out := make([]Sliver, len(list))
	for i, x := range list {
		expires, err := parseTime(x.Expires)
		switch {
		case x.URN == "":
			return nil, fmt.Errorf("sliver %d: geni_sliver_urn is missing", i+1)
		case x.Allocation == "":
			return nil, fmt.Errorf("sliver %d: geni_allocation_status is missing", i+1)
		case err != nil:
			return nil, fmt.Errorf("sliver %d: geni_expires is missing or malformed: %w", i+1, err)
		}
		out[i] = Sliver{
			URN: x.URN, ClientID: x.ClientID, Allocation: x.Allocation, Operational: x.Operational, Error: x.Error,
			Plan: PlanIn(x.ResourceStatus), Expires: expires, Services: servicesOf(x.Services), Interfaces: x.Interfaces,
		}
	}
	return out, nil
}

func servicesOf(list []replyService) (out []Service) {
	for _, v := range list {
		began, _ := parseTime(v.Began)
		ended, _ := parseTime(v.Ended)
		out = append(out, Service{
			Step: v.Step, Exit: v.Exit, Kind: v.Kind, What: v.What, State: v.State, Message: v.Message, Output: v.Output,
			Stage: v.Stage, Operation: v.Operation, Began: began, Ended: ended,
		})
	}
	return out
}

// Services returns the steps in the struct of a sliver; none if they are malformed.
func Services(sliver xmlrpc.Struct) []Service {
	var list []replyService
	if v, ok := sliver.Get("patchbay_services"); !ok || unmarshal(v, &list) != nil {
		return nil
	}
	return servicesOf(list)
}
