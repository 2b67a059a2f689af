package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"patchbay/am/xmlrpc"
)

// Version is what an aggregate says of itself.
type Version struct {
	// API is the version spoken at this URL.
	API int
	// URLs tells where the aggregate speaks which version.
	URLs map[int]string
	// URN is the aggregate's own name, if it gives one.
	URN string
	// Requests and Advertisements are the formats of documents it reads and writes.
	Requests, Advertisements []RSpecVersion
	// CredentialTypes as the aggregate lists them, without texts.
	CredentialTypes []Credential
	// SingleAllocation says that slivers of a slice go together only.
	SingleAllocation bool
	// Allocate is geni_single, geni_disjoint or geni_many.
	Allocate string
}

// RSpecVersion is one format of documents.
type RSpecVersion struct {
	Type, Version, Schema, Namespace string
	Extensions                       []string
}

// GetVersion asks what is at the other end. It needs no credential.
func (c *Client) GetVersion(ctx context.Context) (Version, Reply, error) {
	r, err := c.do(ctx, "GetVersion")
	if err != nil {
		return Version{}, r, err
	}
	v, err := parseVersion(r.Value)
	return v, r, misread("GetVersion", err)
}

func parseVersion(value xmlrpc.Value) (Version, error) {
	s, ok := value.(xmlrpc.Struct)
	if !ok {
		return Version{}, fmt.Errorf("the value is %s, not a struct", kind(value))
	}
	var v Version
	api, _ := s.Get("geni_api")
	if v.API, ok = api.(int); !ok {
		return Version{}, fmt.Errorf("geni_api is %s, not an int", kind(api))
	}
	var err error
	if v.URLs, err = parseURLs(s); err != nil {
		return Version{}, err
	}
	if v.Requests, err = parseFormats(s, "geni_request_rspec_versions"); err != nil {
		return Version{}, err
	}
	if v.Advertisements, err = parseFormats(s, "geni_ad_rspec_versions"); err != nil {
		return Version{}, err
	}
	types, _ := s.Get("geni_credential_types")
	for _, t := range array(types) {
		t, _ := t.(xmlrpc.Struct)
		var c Credential
		if err := members(t, true, map[string]*string{"geni_type": &c.Type, "geni_version": &c.Version}); err != nil {
			return Version{}, fmt.Errorf("geni_credential_types: %w", err)
		}
		v.CredentialTypes = append(v.CredentialTypes, c)
	}
	single, _ := s.Get("geni_single_allocation")
	v.SingleAllocation, _ = xmlrpc.AsBool(single)
	if err := errors.Join(member(s, "geni_allocate", &v.Allocate, false), member(s, "urn", &v.URN, false), member(s, "geni_urn", &v.URN, false)); err != nil {
		return Version{}, err
	}
	return v, nil
}

func parseURLs(s xmlrpc.Struct) (map[int]string, error) {
	v, _ := s.Get("geni_api_versions")
	versions, ok := v.(xmlrpc.Struct)
	if !ok {
		return nil, fmt.Errorf("geni_api_versions is %s, not a struct", kind(v))
	}
	urls := make(map[int]string, len(versions))
	for _, m := range versions {
		n, err := strconv.Atoi(m.Name)
		url, isText := m.Value.(string)
		if err != nil || !isText {
			return nil, fmt.Errorf("geni_api_versions has %q, which is no number of a version with a URL", m.Name)
		}
		urls[n] = url
	}
	return urls, nil
}

func parseFormats(s xmlrpc.Struct, name string) ([]RSpecVersion, error) {
	v, _ := s.Get(name)
	formats, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, fmt.Errorf("%s is %s, not an array", name, kind(v))
	}
	out := make([]RSpecVersion, len(formats))
	for i, f := range formats {
		f, _ := f.(xmlrpc.Struct)
		err := members(f, true, map[string]*string{"type": &out[i].Type, "version": &out[i].Version, "schema": &out[i].Schema, "namespace": &out[i].Namespace})
		if err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", name, i+1, err)
		}
		extensions, _ := f.Get("extensions")
		for _, e := range array(extensions) {
			text, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%s: item %d: an extension is %s, not a string", name, i+1, kind(e))
			}
			out[i].Extensions = append(out[i].Extensions, text)
		}
	}
	return out, nil
}

// array is v's items, or none if it is something else.
func array(v xmlrpc.Value) []xmlrpc.Value {
	a, _ := v.([]xmlrpc.Value)
	return a
}
