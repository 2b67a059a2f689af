package api

import (
	"context"

	"patchbay/am/xmlrpc"
	"patchbay/credentials"
)

// method is a row of the method table: one method of AM API v3.
type method struct {
	name string
	// args are the arguments in their order; the last is the options.
	args []argument
	// right is what the caller must have; GetVersion asks for none.
	right credentials.Right
	// handle does it and gives the value of the envelope.
	handle func(context.Context, *call) (xmlrpc.Value, []string, error)
}

// argument reads one argument into the call.
type argument struct {
	name string
	read func(*call, xmlrpc.Value) error
}

var (
	argSlice       = argument{"slice_urn", (*call).readSlice}
	argURNs        = argument{"urns", (*call).readURNs}
	argCredentials = argument{"credentials", (*call).readCredentials}
	argRSpec       = argument{"rspec", (*call).readRSpec}
	argTime        = argument{"expiration_time", (*call).readTime}
	argAction      = argument{"action", (*call).readAction}
	argOptions     = argument{"options", (*call).readOptions}
)

// methods is AM API v3, "API operations".
var methods = table(
	method{"GetVersion", []argument{argOptions}, "", getVersion},
	method{"ListResources", []argument{argCredentials, argOptions}, credentials.RightListResources, listResources},
	method{"Describe", []argument{argURNs, argCredentials, argOptions}, credentials.RightDescribe, describe},
	method{"Allocate", []argument{argSlice, argCredentials, argRSpec, argOptions}, credentials.RightAllocate, allocate},
	method{"Provision", []argument{argURNs, argCredentials, argOptions}, credentials.RightProvision, provision},
	method{"Renew", []argument{argURNs, argCredentials, argTime, argOptions}, credentials.RightRenew, renew},
	method{"Status", []argument{argURNs, argCredentials, argOptions}, credentials.RightStatus, status},
	method{"PerformOperationalAction", []argument{argURNs, argCredentials, argAction, argOptions}, credentials.RightPerformOperationalAction, performOperationalAction},
	method{"Delete", []argument{argURNs, argCredentials, argOptions}, credentials.RightDelete, deleteSlivers},
	method{"Shutdown", []argument{argSlice, argCredentials, argOptions}, credentials.RightShutdown, shutdown},
)

func table(rows ...method) map[string]method {
	m := make(map[string]method, len(rows))
	for _, r := range rows {
		m[r.name] = r
	}
	return m
}
