package service

import (
	"context"

	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/rspec"
)

// CreateSliver is Allocate, Provision and geni_start in one, all or nothing (AM
// API v2, CreateSliver). The work goes on after the answer.
//
// Errors: those of Allocate; Exists for a slice that has slivers; TooBig for
// too many keys.
func (s *Service) CreateSliver(ctx context.Context, g credentials.Grant, slice urn.URN, req *rspec.Request, o ProvisionOptions) (Outcome, error) {
	return s.reserve(ctx, reservation{
		event: "CreateSliver", grant: g, slice: slice, request: req,
		options: AllocateOptions{Call: o.Call, EndTime: o.EndTime}, create: true, users: o.Users,
	})
}
