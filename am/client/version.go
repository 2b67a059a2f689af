package client

import (
	"cmp"
	"context"
	"errors"
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
	// Addresses are the URLs of the versions of the API.
	Addresses map[string]string
}

// GetVersion requests the version of the aggregate. It needs no credential.
func (c *Client) GetVersion(ctx context.Context) (Version, Reply, error) {
	return typed(ctx, c, "GetVersion", replyVersion.version)
}

func (x replyVersion) version() (Version, error) {
	if x.API == nil {
		return Version{}, errors.New("geni_api is missing")
	}
	return Version{*x.API, cmp.Or(x.GENIURN, x.URN), x.Change == 1 || x.Change == 2, x.Change == 2, x.Addresses}, nil
}
