package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"patchbay/am/api/xmlrpc"
)

// Version describes an aggregate: a part of the answer of GetVersion.
type Version struct {
	// API is the version of the API at the client's URL.
	API int
	// URN is the URN of the aggregate; "" if the answer has none.
	URN string
	// AddsNodes means that Allocate knows the option patchbay_change, and ChangesNodes that with it
	// all nodes can be changed in place.
	AddsNodes, ChangesNodes bool
	// Ahead is how far ahead reservations may begin; 0 if the aggregate has none that begin later.
	Ahead time.Duration
	// Extensions are the namespaces that requests may use.
	Extensions []string
	// Addresses are the URLs of the versions of the API.
	Addresses map[string]string
}

// GetVersion requests the version of the aggregate. It needs no credential.
func (c *Client) GetVersion(ctx context.Context) (Version, Reply, error) {
	return typed(ctx, c, "GetVersion", replyVersion.version, parseVersion)
}

func (x replyVersion) version() (Version, error) {
	if x.API == nil || *x.API == 0 {
		return Version{}, errMissing
	}
	v := Version{API: int(*x.API), URN: cmp.Or(x.GENIURN, x.URN), AddsNodes: x.Change == 1 || x.Change == 2, ChangesNodes: x.Change == 2, Addresses: x.Addresses,
		Ahead: time.Duration(x.Ahead.Max) * time.Second}
	for _, r := range x.Requests {
		v.Extensions = append(v.Extensions, r.Extensions...)
	}
	return v, nil
}

func parseVersion(value xmlrpc.Value) (v Version, err error) {
	s, ok := value.(xmlrpc.Struct)
	if !ok {
		return v, fmt.Errorf("the value is %s, not a struct", kind(value))
	}
	api, _ := s.Get("geni_api")
	if v.API, ok = api.(int); !ok {
		return v, fmt.Errorf("geni_api is %s, not an int", kind(api))
	}
	change, _ := s.Get("patchbay_change")
	v.AddsNodes, v.ChangesNodes = change == 1 || change == 2, change == 2
	ahead, _ := s.Get("patchbay_ahead")
	limits, _ := ahead.(xmlrpc.Struct)
	seconds, _ := limits.Get("max_seconds")
	most, _ := seconds.(int)
	v.Ahead = time.Duration(most) * time.Second
	requests, _ := s.Get("geni_request_rspec_versions")
	list, _ := requests.([]xmlrpc.Value)
	for _, r := range list {
		r, _ := r.(xmlrpc.Struct)
		names, _ := r.Get("extensions")
		all, _ := names.([]xmlrpc.Value)
		for _, x := range all {
			if name, ok := x.(string); ok {
				v.Extensions = append(v.Extensions, name)
			}
		}
	}
	named, _ := s.Get("geni_api_versions")
	addresses, _ := named.(xmlrpc.Struct)
	for _, m := range addresses {
		if url, ok := m.Value.(string); ok {
			if v.Addresses == nil {
				v.Addresses = map[string]string{}
			}
			v.Addresses[m.Name] = url
		}
	}
	return v, cmp.Or(member(s, "urn", &v.URN, false), member(s, "geni_urn", &v.URN, false))
}
