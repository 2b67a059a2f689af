package service

import (
	"context"
	"time"

	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// AllocateOptions are the options of Allocate.
type AllocateOptions struct {
	Call
	// EndTime is the wished end of the lease; zero if none.
	EndTime time.Time
}

// Allocate binds the request's own nodes to components and reserves them, all
// or nothing (AM API v3, Allocate). The manifest covers the slivers of this
// call only. The lease is short: Provision or Renew prolong it.
//
// Providers that want to be asked are asked before anything is promised (see
// Prober), which may take as long as they do.
//
// Errors: Forbidden, Unavailable while the site is locked down, Refused by the
// site's policy, SearchFailed for a request without a node for us, Exists
// for a client_id the slice has already, those of binder.Bind, and what
// providers say in words of theirs.
func (s *Service) Allocate(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o AllocateOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{event: "Allocate", grant: g, slice: slice, request: req, options: o})
}
