package api

import (
	"context"

	"patchbay/am/xmlrpc"
	"patchbay/credentials"
)

// method is a row of a method table: one method of one version of the AM API.
type method struct {
	name string
	// args are the arguments in their order; the last is the options.
	args []argument
	// options are those it understands; all others are ignored.
	options []option
	// right is what the caller must have; GetVersion asks for none.
	right credentials.Right
	// sliceRight is asked instead where the options name a slice.
	sliceRight credentials.Right
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
	argUsers       = argument{"users", (*call).readUsers}
	argTime        = argument{"expiration_time", (*call).readTime}
	argAction      = argument{"action", (*call).readAction}
	argOptions     = argument{"options", (*call).readOptions}
)

// Versions that are spoken.
const (
	Version2 = 2
	Version3 = 3
)

// methods are the versions' tables: AM API v2, "Methods", and AM API v3, "API
// operations".
var methods = map[int]map[string]method{
	Version2: table(
		method{"GetVersion", []argument{argOptions}, nil, "", "", getVersion},
		method{"ListResources", []argument{argCredentials, argOptions}, []option{optSpeakingFor, optSliceURN, optRSpecVersion, optAvailable, optCompressed}, credentials.RightListResources, credentials.RightDescribe, listResources2},
		method{"CreateSliver", []argument{argSlice, argCredentials, argRSpec, argUsers, argOptions}, []option{optSpeakingFor, optEndTime}, credentials.RightAllocate, "", createSliver},
		method{"DeleteSliver", []argument{argSlice, argCredentials, argOptions}, []option{optSpeakingFor}, credentials.RightDelete, "", deleteSliver},
		method{"SliverStatus", []argument{argSlice, argCredentials, argOptions}, []option{optSpeakingFor}, credentials.RightStatus, "", sliverStatus},
		method{"RenewSliver", []argument{argSlice, argCredentials, argTime, argOptions}, []option{optSpeakingFor, optAsLongAsPossible}, credentials.RightRenew, "", renewSliver},
		method{"Shutdown", []argument{argSlice, argCredentials, argOptions}, []option{optSpeakingFor}, credentials.RightShutdown, "", shutdown},
	),
	Version3: table(
		method{"GetVersion", []argument{argOptions}, nil, "", "", getVersion},
		method{"ListResources", []argument{argCredentials, argOptions}, []option{optSpeakingFor, optNoSliceURN, optRSpecVersion, optAvailable, optCompressed}, credentials.RightListResources, "", listResources},
		method{"Describe", []argument{argURNs, argCredentials, argOptions}, []option{optSpeakingFor, optRSpecVersion, optCompressed, optBestEffort}, credentials.RightDescribe, "", describe},
		method{"Allocate", []argument{argSlice, argCredentials, argRSpec, argOptions}, []option{optSpeakingFor, optEndTime, optStartTime}, credentials.RightAllocate, "", allocate},
		method{"Provision", []argument{argURNs, argCredentials, argOptions}, []option{optSpeakingFor, optRSpecVersion, optBestEffort, optEndTime, optUsers}, credentials.RightProvision, "", provision},
		method{"Renew", []argument{argURNs, argCredentials, argTime, argOptions}, []option{optSpeakingFor, optBestEffort, optAsLongAsPossible}, credentials.RightRenew, "", renew},
		method{"Status", []argument{argURNs, argCredentials, argOptions}, []option{optSpeakingFor, optBestEffort}, credentials.RightStatus, "", status},
		method{"PerformOperationalAction", []argument{argURNs, argCredentials, argAction, argOptions}, []option{optSpeakingFor, optBestEffort, optUsers}, credentials.RightPerformOperationalAction, "", performOperationalAction},
		method{"Delete", []argument{argURNs, argCredentials, argOptions}, []option{optSpeakingFor, optBestEffort}, credentials.RightDelete, "", deleteSlivers},
		method{"Shutdown", []argument{argSlice, argCredentials, argOptions}, []option{optSpeakingFor}, credentials.RightShutdown, "", shutdown},
	),
}

func table(rows ...method) map[string]method {
	m := make(map[string]method, len(rows))
	for _, r := range rows {
		m[r.name] = r
	}
	return m
}
